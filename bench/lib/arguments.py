# SPDX-License-Identifier: MIT
"""What the scripts of bench/ say of options, and of their words, that there are not."""
import argparse
import difflib


def _advice(given, names, otherwise=''):
    near = difflib.get_close_matches(given, names, 1)
    return f'; did you mean {near[0]}?' if near else otherwise


class Parser(argparse.ArgumentParser):
    """Names what was given, what is allowed, and the nearest."""
    word_advice = ' (--help lists the options)'  # on words that are no options, where there are none

    def parse_args(self, args=None, namespace=None):
        options, unknown = self.parse_known_args(args, namespace)
        if unknown and not unknown[0].startswith('-'):
            self.error(f'{unknown[0]}: it is no option{self.word_advice}')
        if unknown:
            names = [name for action in self._actions for name in action.option_strings]
            advice = _advice(unknown[0].split('=')[0], names, ' (--help lists them)')
            self.error(f'{unknown[0]}: there is no such option{advice}')
        return options

    def _check_value(self, action, value):
        if action.choices is not None and value not in action.choices:
            *most, last = action.choices
            raise argparse.ArgumentError(action, f"{value}: it is {', '.join(most)} or {last}"
                                         f'{_advice(value, action.choices)}')
