# SPDX-License-Identifier: MIT
"""The files of golden vectors: frames and states, good and bad, made with model.py."""
from itertools import chain

import bad_3lc
import bad_codecs
from bad_states import bad_state
import good_3lc
import good_codecs
import good_special
from ieee import Status
from model import Frame
from record import Good, hexa

HEAD = ('# SPDX-License-Identifier: MIT\n# Written by model.py generate; not edited by hand. Records end at an empty '
        'line; byte strings in hex,\n# elements little-endian, - for none.%s\n')
NOTES = {'good.txt': ' "grad null" is a NULL gradient; runs-* and large-* records and some\n'
                     '# others leave out the keys from decoded_f16 to mask.',
         'bad.txt': ' "inspect" is given where tlc_inspect differs (it knows no n);\n# status OK are frames that our '
                    'encoder does not write but a decoder takes.',
         'bad_state.txt': ' codec, dtype, feedback and n are of the context that loads.'}


def good():
    g = Good()
    for part in (good_3lc, good_codecs, good_special):
        part.good(g)
    return g.out


def bad():
    def status(b, n):
        try:
            return 'OK', Frame(b, n)
        except Status as e:
            return str(e), None
    out = []
    for name, b, n, expected in chain(bad_3lc.bad_frames(), bad_codecs.bad_frames()):
        found, frame = status(b, n)
        assert found == expected, (name, found, expected)
        out += ['name %s\nframe %s\nn %d\nstatus %s\n' % (name, hexa(b), n, found)]
        if found == 'SIZE':
            out += ['inspect %s\n' % status(b, None)[0]]
        if frame:
            out += ['decoded %s\n' % hexa(frame.decode('f32'))]
        out += ['\n']
    return out


def files():
    return {name: HEAD % NOTES[name] + '\n' + ''.join(make()).rstrip('\n') + '\n'
            for name, make in (('good.txt', good), ('bad.txt', bad), ('bad_state.txt', bad_state))}
