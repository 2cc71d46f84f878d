# SPDX-License-Identifier: MIT
"""What the scripts of bench/ say of options that they do not have."""
import difflib


def parse(parser, arguments=None):
    """As parser.parse_args. An unknown option ends with a sentence that names the nearest one."""
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        names = [name for action in parser._actions for name in action.option_strings]
        near = difflib.get_close_matches(unknown[0].split('=')[0], names, 1)
        advice = f'; did you mean {near[0]}?' if near else ' (--help lists them)'
        parser.error(f'{unknown[0]}: there is no such option{advice}')
    return options
