# SPDX-License-Identifier: MIT
"""The files of golden vectors: good and bad frames and states, made with model.py."""
from itertools import chain

import bad_3lc
import bad_codecs
from bad_states import bad_state
import delta_cases
import good_3lc
import good_codecs
import good_special
import special_deltas
import weights
from codec import ONEBIT, RAW, SHORT, STAGES, TAILS, inspected, parse_codec, scalar_count
from ieee import Status
from manifest import read, stages
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
    for part in (good_codecs, good_special):
        part.added(g)  # after those: a record depends on the number of records before it, and old ones must not change
    good_codecs.newest(g)  # so new groups come last
    check_manifest(g.out)
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


def check_manifest(records):
    """tests/codecs.def and the model agree, and good.txt has every kind of frame that the manifest has"""
    there = {parse_form(line[5:-1]) for line in records if line.startswith('info ')}
    check_stages()
    for case in read():
        codec = parse_codec(case.text)

        def told(name):
            return int(case.properties.get(name, 0))
        assert inspected(codec.values, codec.coding, codec.block) == case.form, case
        assert told('feedback') == codec.feedback, case
        assert told('scalars') == scalar_count(codec.values, codec.coding), case
        assert told('has_zero') == (codec.values not in (RAW, ONEBIT)), case
        assert parse_form(case.form) in there, 'no golden vectors: %s' % (case,)


def check_stages():
    """the STAGE lines of tests/codecs.def and the model agree"""
    lines = stages()
    short, first = ({s.name: s for s in lines if s.kind == kind} for kind in ('SHORT_NAME', 'QUANTIZER'))
    assert set(short) == set(SHORT) and set(first) == set(STAGES), 'other names than in the model'
    for name, s in [*short.items(), *first.items()]:
        _, keys, feedback = STAGES[SHORT[name][0] if name in SHORT else name]
        assert s.parameters == set(keys.split()) and ('FEEDBACK' in s.facts) == feedback, s

    def lists(stage):
        """all codecs that go on from this stage"""
        later = [s for s in lines if stage.gives in s.takes and s.name not in short]
        return [stage.name] * (stage.gives in 'bqm') + [stage.name + '+' + rest for s in later for rest in lists(s)]
    ours = sorted(name + tail for name, (values, _, _) in STAGES.items() for tail in TAILS.get(values, {'': 0}))
    assert sorted(chain(*map(lists, first.values()))) == ours, 'other lists of stages than in the model'


def parse_form(form):
    """the stages of a decoding form"""
    return tuple(stage.partition(':')[0] for stage in form.split('+'))


def files():
    found = {name: HEAD % NOTES[name] + '\n' + ''.join(make()).rstrip('\n') + '\n'
             for name, make in (('good.txt', good), ('bad.txt', bad), ('bad_state.txt', bad_state))}
    return {**found, 'delta.txt': delta_cases.text(special_deltas.good(), special_deltas.bad()).rstrip('\n') + '\n',
            'weights.txt': weights.text().rstrip('\n') + '\n'}
