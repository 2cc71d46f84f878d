# SPDX-License-Identifier: MIT
"""binary32, binary16 and bfloat16 as lists of floats, as lists of their bits and as little-endian bytes.

binary32 arithmetic is done in binary64 and rounded by struct: for one +, -, * or / of two binary32 that is the
correctly rounded result (53 >= 2 * 24 + 2 bits). NaNs are handled as bits, because a conversion between float and
double makes a signalling one quiet."""
import struct
from math import copysign, inf

DTYPES = {'f32': 0, 'f16': 1, 'bf16': 2}
WIDTH = {'f32': 4, 'f16': 2, 'bf16': 2}
CANONICAL_NAN = 0x7fc00000
MINUS = 1 << 31
INFINITE = 0x7f800000


class Status(Exception):
    """A tlc_status other than TLC_OK, by its name without TLC_ERR_."""


def corrupt_if(condition):
    if condition:
        raise Status('CORRUPT')


def f32(v):
    try:
        return struct.unpack('<f', struct.pack('<f', v))[0]
    except OverflowError:  # struct rounds first, so this is exactly "rounds to infinity"
        return copysign(inf, v)


def pack_row(values):
    values = list(values)
    try:
        return struct.pack('<%df' % len(values), *values)
    except OverflowError:
        raise Status('NONFINITE') from None


def floats(b):
    return struct.unpack('<%df' % (len(b) // 4), b)


def rounded(values):
    """each value rounded to binary32; none may overflow"""
    return floats(pack_row(values))


def words(b, dtype='f32'):
    return struct.unpack('<%d%s' % (len(b) // WIDTH[dtype], 'I' if dtype == 'f32' else 'H'), b)


def unwords(v, dtype='f32'):
    return struct.pack('<%d%s' % (len(v), 'I' if dtype == 'f32' else 'H'), *v)


def bits_of(v):
    return struct.unpack('<I', struct.pack('<f', v))[0]


def float_of(b):
    return struct.unpack('<f', struct.pack('<I', b))[0]


def is_finite(b):
    return b & 0x7fffffff < INFINITE


def widen(h, dtype):
    if dtype == 'bf16':
        return h << 16 | (0x400000 if h & 0x7fff > 0x7f80 else 0)
    if h & 0x7fff > 0x7c00:
        return (h & 0x8000) << 16 | CANONICAL_NAN | (h & 0x3ff) << 13
    return bits_of(struct.unpack('<e', struct.pack('<H', h))[0])


def narrow(b, dtype):
    nan = b & 0x7fffffff > INFINITE
    if dtype == 'bf16':
        return b >> 16 | 0x40 if nan else (b + 0x7fff + (b >> 16 & 1)) >> 16
    if nan:
        return b >> 16 & 0x8000 | 0x7e00 | b >> 13 & 0x3ff
    try:
        return struct.unpack('<H', struct.pack('<e', float_of(b)))[0]
    except OverflowError:
        return b >> 16 & 0x8000 | 0x7c00


def convert(b, src, dst):
    if src == dst:
        return b
    v = words(b, src) if src == 'f32' else [widen(h, src) for h in words(b, src)]
    return unwords(v if dst == 'f32' else [narrow(w, dst) for w in v], dst)
