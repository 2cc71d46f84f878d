# SPDX-License-Identifier: MIT
"""The lossy stages, on a unit: the whole tensor or one block, n > 0 values.

encode(codec, x, draw) gives the scalars, as floats, and the payload; draw(m) gives the random words of the unit's first
m elements. decode(values, coding, scalars, payload, n) gives a Part."""
import struct
from collections import namedtuple
from math import ceil, floor, frexp, isfinite

from codec import (GOLOMB, INT8, NATURAL, NINE_BITS, ONEBIT, QSGD, QUARTIC, RANDOM_SPARSE, SECOND,
                   SPARSE_BINARY, TERNARY, TOPK, ZERORUN)
from ieee import MINUS, Status, bits_of, corrupt_if, f32, float_of, floats, is_finite, pack_row, rounded, words
from packing import bitmap, golomb, quartic, unbitmap, ungolomb, unquartic, unzerorun, zerorun

CHUNK, LANES = 4096, 16
LEAST_SAMPLES = 4096
TOP_COUNT = (1 << 32) - 1

# What a unit decodes to: binary32 bits at rising indices, +0 everywhere else. Where there are symbols, the indices are
# those of the symbols that are not 0.
Part = namedtuple('Part', 'at bits clipped')


def largest(x):
    return max(map(abs, x))


def mean(at, x):
    """the mean of x at these rising indices, added in the order of the design"""
    total = 0.0
    chunks = {}
    for i in at:
        chunks.setdefault(i // CHUNK, []).append(i)
    for members in chunks.values():  # a chunk without members would add +0
        lane = [0.0] * LANES
        for i in members:
            lane[i % LANES] += x[i]
        for half in (8, 4, 2, 1):
            for j in range(half):
                lane[j] += lane[j + half]
        total += lane[0]
    return f32(total / len(at)) if at else 0.0


# ---- ternary and stochastic-ternary ----

def encode_ternary(c, x, draw):
    if c.stochastic:
        M = largest(x)
        t = rounded((w >> 8) * 2.0 ** -24 * M for w in draw(len(x)))  # w >> 8 has 24 bits: the product is rounded once
        q = [(a > 0) - (a < 0) if b < abs(a) else 0 for a, b in zip(x, t)]
    else:
        M = f32(largest(x) * c.s)
        if not isfinite(M):
            raise Status('NONFINITE')
        t = f32(0.5 * M)
        q = [(a > t) - (a < -t) for a in x]
    b = quartic(q)
    if c.coding == GOLOMB:
        at = [i for i, k in enumerate(q) if k]
        g = golomb(len(q), at, [q[i] < 0 for i in at])
        b = g if len(g) < len(b) else b
    return [M], zerorun(b) if c.coding & ZERORUN else b


def decode_ternary(coding, scalars, payload, n):
    M, L = scalars[0], -(-n // 5)
    if coding == GOLOMB:
        corrupt_if(len(payload) >= L)
        at, negative, rest = ungolomb(payload, n, 1)
        corrupt_if(rest)
        return Part(at, [M | MINUS if k else M for k in negative], 0)
    q = unquartic(unzerorun(payload, L) if coding == QUARTIC | ZERORUN else payload, n)
    return Part([i for i, k in enumerate(q) if k], [M if k > 0 else M | MINUS for k in q if k], 0)


# ---- positions with one value, and with values of their own ----

def encode_sparse_binary(c, x, draw):
    n = len(x)
    k = min(n, max(1, round(c.p * n)))  # round() is half to even
    down = sorted(range(n), key=lambda i: -x[i])[:k]  # stable, so ties by lowest index
    up = sorted(range(n), key=lambda i: x[i])[:k]
    positive, negative = sorted(i for i in down if x[i] > 0), sorted(i for i in up if x[i] < 0)
    plus, minus = mean(positive, x), mean(negative, [-a for a in x])
    if plus >= minus:
        return [plus], golomb(n, positive)
    return [-minus], golomb(n, negative)


def decode_sparse_binary(coding, scalars, payload, n):
    at, _, rest = ungolomb(payload, n, 0)
    corrupt_if(rest)
    return Part(at, [scalars[0]] * len(at), 0)


def own_values(at, b):
    corrupt_if(len(b) != 4 * len(at))
    v = words(b)
    corrupt_if(not all(is_finite(w) and w & ~MINUS for w in v))
    return Part(at, list(v), 0)


def encode_random_sparse(c, x, draw):
    T = ceil(c.p * 2.0 ** 24)
    P = T * 2.0 ** -24
    if not isfinite(f32(largest(x) / P)):
        raise Status('NONFINITE')
    at = [i for i, (a, w) in enumerate(zip(x, draw(len(x)))) if w >> 8 < T and a != 0]
    return [], golomb(len(x), at) + pack_row(x[i] / P for i in at)


def decode_random_sparse(coding, scalars, payload, n):
    at, _, rest = ungolomb(payload, n, 0)
    return own_values(at, rest)


def top_positions(c, x, draw):
    n = len(x)
    if c.exact:
        k = min(n, max(1, round(c.p * n)))  # round() is half to even
        return sorted(i for i in sorted(range(n), key=lambda i: -abs(x[i]))[:k] if x[i])  # stable: ties by lowest index
    m = n if 200 / c.p >= n else min(n, max(LEAST_SAMPLES, ceil(200 / c.p)))
    starts = [j * n // m for j in range(m + 1)]
    sample = sorted((abs(x[a + word % (b - a)]) for a, b, word in zip(starts, starts[1:], draw(m))), reverse=True)
    k = ceil(c.p * m)
    threshold = sample[k - 1] if sum(a > 0 for a in sample) > k else 0  # with no more, all are sent
    return [i for i, a in enumerate(x) if abs(a) >= threshold and a != 0][:2 * ceil(c.p * n)]


def packed(codes, width):
    """the first in the least significant bits"""
    number = sum(c << width * i for i, c in enumerate(codes))
    return number.to_bytes(-(-width * len(codes) // 8), 'little')


def encode_topk(c, x, draw):
    n, at = len(x), top_positions(c, x, draw)
    kept = set(at)
    positions = golomb(n, at) if c.coding & 15 == GOLOMB else bitmap([i in kept for i in range(n)])
    width = c.coding >> 4
    if not width:
        return [], positions + pack_row(x[i] for i in at)
    size = [abs(a) for a in x]
    whole = mean(at, size)
    large = [i for i in at if width == 2 and size[i] >= whole]
    codes = packed([(x[i] < 0) + 2 * (width == 2 and size[i] >= whole) for i in at], width)
    if width == 1:
        return [whole], positions + codes
    return [mean([i for i in at if size[i] < whole], size), mean(large, size)], positions + codes


def decode_topk(coding, scalars, payload, n):
    if coding & 15 == GOLOMB:
        at, _, rest = ungolomb(payload, n, 0)
    else:
        size = -(-n // 8)
        corrupt_if(len(payload) < size)
        at, rest = [i for i, f in enumerate(unbitmap(payload[:size], n)) if f], payload[size:]
    width = coding >> 4
    if not width:
        return own_values(at, rest)
    corrupt_if(len(rest) != -(-width * len(at) // 8))
    number = int.from_bytes(rest, 'little')
    corrupt_if(number >> width * len(at))
    codes = [number >> width * i & (1 << width) - 1 for i in range(len(at))]
    corrupt_if(any(not scalars[k >> 1] for k in codes))
    return Part(at, [scalars[k >> 1] | (MINUS if k & 1 else 0) for k in codes], 0)


# ---- one code a value ----

def encode_natural(c, x, draw):
    shift, nine = c.coding & 127, c.coding & NINE_BITS
    lowest, highest = (-126, 127 - shift) if nine else (-50, 10)
    codes, clipped = [], 0
    for a, w in zip(x, [0] * len(x) if c.nearest else draw(len(x))):
        if a == 0:
            codes.append(0 if nine else 0x40)
            continue
        fraction, e = frexp(abs(a))  # fraction in [1/2, 1), for subnormals too
        mantissa = int((2 * fraction - 1) * (1 << 23))
        up = mantissa >= 1 << 22 if c.nearest else w >> 9 < mantissa
        e = e - 1 + up - shift
        clipped += not lowest <= e <= highest
        e = min(max(e, lowest), highest)
        codes.append(e + 127 if nine else (a < 0) << 7 | e + 50)
    signs = bitmap([a < 0 for a in x]) if nine else b''
    return [], struct.pack('<I', min(clipped, TOP_COUNT)) + bytes(codes) + signs


def decode_natural(coding, scalars, payload, n):
    shift, nine = coding & 127, coding & NINE_BITS
    corrupt_if(len(payload) != 4 + n + (-(-n // 8) if nine else 0))
    clipped, = struct.unpack('<I', payload[:4])
    corrupt_if(clipped > n)
    codes = payload[4:4 + n]
    if nine:
        corrupt_if(max(codes) > 254 - shift)
        signs = unbitmap(payload[4 + n:], n)
        corrupt_if(any(s and not e for s, e in zip(signs, codes)))
        bits = [s << 31 | (e + shift) << 23 if e else 0 for s, e in zip(signs, codes)]
    else:
        corrupt_if(any(b & 127 > 60 and b != 0x40 for b in codes))
        bits = [0 if b == 0x40 else b >> 7 << 31 | (b & 127) - 50 + shift + 127 << 23 for b in codes]
    return Part(range(n), bits, clipped)


def quotients(x, top, K):
    """(x / top) * K, rounded twice"""
    return rounded(a * K for a in rounded(a / top for a in x)) if top else [0.0] * len(x)


def encode_int8(c, x, draw):
    top = largest(x)
    return [top], bytes(round(y) & 255 for y in quotients(x, top, 127))


def encode_qsgd(c, x, draw):
    top, K = largest(x), 7 if c.coding else 127
    q = []
    for y, w in zip(quotients(x, top, K), draw(len(x))):
        low = floor(y)
        q.append(low + ((w >> 8) * 2.0 ** -24 < f32(y - low)))
    if not c.coding:
        return [top], bytes(k & 255 for k in q)
    q += [0] * (len(q) % 2)
    return [top], bytes(a & 15 | (b & 15) << 4 for a, b in zip(q[::2], q[1::2]))


def decode_levels(four, scalars, payload, n):
    corrupt_if(len(payload) != (-(-n // 2) if four else n))
    K, q = 127, payload
    if four:
        K, q = 7, [k for b in payload for k in (b & 15, b >> 4)]
        corrupt_if(any(q[n:]))
    corrupt_if(K + 1 in q)  # -128, or -8
    top = float_of(scalars[0])
    value = {k: bits_of(f32(top * f32((k if k <= K else k - 2 * K - 2) / K))) for k in set(q)}
    return Part(range(n), [value[k] for k in q[:n]], 0)


def encode_onebit(c, x, draw):
    plus, minus = [i for i, a in enumerate(x) if a >= 0], [i for i, a in enumerate(x) if a < 0]
    return [mean(plus, x), mean(minus, x)], bitmap([a >= 0 for a in x])


def decode_onebit(coding, scalars, payload, n):
    plus, minus = scalars
    return Part(range(n), [plus if k else minus for k in unbitmap(payload, n)], 0)


CODERS = {TERNARY: (encode_ternary, decode_ternary), SPARSE_BINARY: (encode_sparse_binary, decode_sparse_binary),
          NATURAL: (encode_natural, decode_natural), INT8: (encode_int8, decode_levels),
          QSGD: (encode_qsgd, decode_levels), ONEBIT: (encode_onebit, decode_onebit), TOPK: (encode_topk, decode_topk),
          RANDOM_SPARSE: (encode_random_sparse, decode_random_sparse)}


def encode(c, x, draw):
    return CODERS[c.values][0](c, x, draw)


def decode(values, coding, scalars, payload, n):
    """scalars: binary32 bits"""
    for b in scalars:
        corrupt_if(not is_finite(b) or b & MINUS and values in (TERNARY, INT8, QSGD, TOPK))
    return CODERS[values][1](coding, scalars, payload, n)


def expand(part, n):
    """binary32 bits of all n values"""
    if len(part.at) == n:
        return part.bits
    out = [0] * n
    for i, b in zip(part.at, part.bits):
        out[i] = b
    return out
