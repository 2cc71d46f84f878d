# SPDX-License-Identifier: MIT
"""Codec strings, the two bytes that name a codec in a frame, and the text that tlc_inspect makes of them."""
import re
from collections import namedtuple
from fractions import Fraction

from ieee import Status

MAX_BLOCK = 1 << 28
MAX_SHIFT = 117
RAW, TERNARY, SPARSE_BINARY, NATURAL, INT8, QSGD, ONEBIT, TOPK, RANDOM_SPARSE = range(1, 10)
QUARTIC, GOLOMB, ZERORUN, NINE_BITS = 1, 2, 0x10, 0x80
SECOND = 0x10  # beside GOLOMB: this ternary payload has quartic bytes

# values and coding: bytes 2 and 3 of a frame; feedback: whether there is a residual by default
Codec = namedtuple('Codec', 'values coding block s p stochastic nearest exact feedback')

# First stage or short name: id, its keys beside block, residual by default.
STAGES = {'raw': (RAW, '', 0), 'ternary': (TERNARY, 's', 1), 'stochastic-ternary': (TERNARY, '', 0),
          'sparse-binary': (SPARSE_BINARY, 'p', 1), 'natural': (NATURAL, 'bits rounding shift', 0),
          'int8': (INT8, '', 0), 'qsgd': (QSGD, 'bits', 0), 'onebit': (ONEBIT, '', 1),
          'topk': (TOPK, 'p bits select', 1), 'random-sparse': (RANDOM_SPARSE, 'p', 0)}
SHORT = {'3lc': ('ternary', '+quartic+zerorun'), '3lc-golomb': ('ternary', '+golomb'),
         'sbc': ('sparse-binary', '+golomb')}
TAILS = {TERNARY: {'+quartic': QUARTIC, '+quartic+zerorun': QUARTIC | ZERORUN, '+golomb': GOLOMB},
         SPARSE_BINARY: {'+golomb': GOLOMB}, TOPK: {'': 0, '+golomb': GOLOMB}}
DEFAULT_P = {SPARSE_BINARY: 0.01, TOPK: 0.05, RANDOM_SPARSE: 0.25}
SCALARS = {TERNARY: 1, SPARSE_BINARY: 1, INT8: 1, QSGD: 1, ONEBIT: 2}
BITS = {NATURAL: ('8', '9'), QSGD: ('8', '4'), TOPK: ('32', '1', '2')}  # the first is the default
BITS_PLACE = {NATURAL: 7, QSGD: 0, TOPK: 4}  # in coding


def scalar_count(values, coding):
    return coding >> BITS_PLACE[TOPK] if values == TOPK else SCALARS.get(values, 0)


def parse_codec(text):
    m = re.fullmatch(r'([a-z0-9-]+)(?::([a-z]+=[0-9a-z.]+(?:,[a-z]+=[0-9a-z.]+)*))?((?:\+[a-z]+)*)', text)
    name, tail = (m[1], m[3]) if m else ('', '')
    if name in SHORT and not tail:
        name, tail = SHORT[name]
    if name not in STAGES:
        raise Status('PARAM')
    values, keys, feedback = STAGES[name]
    coding = TAILS.get(values, {'': 0}).get(tail)
    if coding is None:
        raise Status('PARAM')
    s, p, block, nearest, exact, seen = 1.0, DEFAULT_P.get(values), 0, False, False, set()
    for key, v in (pair.split('=') for pair in (m[2].split(',') if m[2] else [])):
        digits, number = re.fullmatch(r'[0-9]+', v), re.fullmatch(r'[0-9]+(\.[0-9]+)?', v)
        if key in seen or key not in keys.split() + ['block']:
            raise Status('PARAM')
        seen.add(key)
        if key == 's' and number:
            decimal = Fraction(v)  # rounded to binary32 once, so not by way of a double
            scale = 1 << (23 if decimal >= 1 else 24)
            s = round(decimal * scale) / scale
            ok = 1 <= s < 2
        elif key == 'p' and number:
            p = float(v)
            ok = 0 < p <= 1
        elif key == 'bits':
            ok = v in BITS[values]
            coding |= BITS[values].index(v) << BITS_PLACE[values] if ok else 0
        elif key == 'rounding':
            ok, nearest = v in ('random', 'nearest'), v == 'nearest'
        elif key == 'select':
            ok, exact = v in ('sampled', 'exact'), v == 'exact'
        elif key == 'shift' and digits:
            ok = int(v) <= MAX_SHIFT
            coding |= int(v) if ok else 0
        elif key == 'block' and digits:
            block = int(v)
            ok = 1 <= block <= MAX_BLOCK
        else:
            ok = False
        if not ok:
            raise Status('PARAM')
    return Codec(values, coding, block, s, p, name == 'stochastic-ternary', nearest, exact, feedback)


def known(values, coding):
    """whether bytes 2 and 3 name a codec"""
    if values == TOPK:
        return coding >> 4 < len(BITS[TOPK]) and coding & 15 in TAILS[TOPK].values()
    if values in TAILS:
        return coding in TAILS[values].values() or (values, coding) == (TERNARY, GOLOMB | SECOND)
    if values == NATURAL:
        return coding & 127 <= MAX_SHIFT
    return RAW <= values <= RANDOM_SPARSE and coding <= (values == QSGD)


def inspected(values, coding, block):
    """the decoding form: the stages, and the parameters that decoding needs if they are not the defaults"""
    name = next(k for k, v in STAGES.items() if v[0] == values)
    packing = coding & 15 if values == TOPK else coding & ~SECOND if coding & 15 == GOLOMB else coding
    tail = next((k for k, v in TAILS.get(values, {}).items() if v == packing), '')
    keys = []
    if values == NATURAL:
        keys += ['bits=9'] * (coding >> 7) + ['shift=%d' % (coding & 127)] * (coding & 127 > 0)
    if values == QSGD:
        keys += ['bits=4'] * coding
    if values == TOPK and coding >> 4:
        keys += ['bits=' + BITS[TOPK][coding >> 4]]
    keys += ['block=%d' % block] * (block > 0)
    return name + (':' + ','.join(keys) if keys else '') + tail
