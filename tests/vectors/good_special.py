# SPDX-License-Identifier: MIT
"""Good frames at the borders of single codecs. The asserts check that a record is at its border."""
import struct
from math import floor

from ieee import bits_of, convert, f32, float_of, floats, pack_row, unwords, words
from packing import golomb
from philox import random_words
from record import Random
from values import CHUNK, mean, quotients

SEED = 0x0123456789abcdef


def near(v, ulps):
    """the binary32 that is so many steps away from v > 0"""
    return float_of(max(bits_of(v) + ulps, 0))


def uniform(n, step=0):
    """the random numbers that stochastic codecs compare with, for the seed SEED"""
    return [(w >> 8) * 2.0 ** -24 for w in random_words(SEED, step, 0, n)]


def signed(values):
    return pack_row(v if i % 2 else -v for i, v in enumerate(values))


# ---- stochastic decisions at, just below and just above the border ----

def stochastic_ternary(g):
    for name, top in (('1', 1.0), ('1.7', f32(1.7)), ('subnormal', 77 * 2.0 ** -149), ('largest', f32(3.4e38))):
        u = uniform(48)
        x = [near(f32(a * top), (0, 1, -1)[i % 3]) for i, a in enumerate(u)] + [top]
        for codec in ('stochastic-ternary+quartic', 'stochastic-ternary+golomb'):
            f = g.add('%s-border-%s' % (codec[11:], name), codec, 'f32', [signed(x)], feedback=0, seed=SEED)[0]
        part = f.parts[0][1]
        assert not set(range(0, 48, 3)) & set(part.at) and set(range(1, 48, 3)) <= set(part.at)


def natural_borders(g):
    t = [w >> 9 for w in random_words(SEED, 0, 0, 48)]
    x = [1 + min(max(a + (0, 1, -1)[i % 3], 0), (1 << 23) - 1) * 2.0 ** -23 for i, a in enumerate(t)]
    for bits in '89':
        f = g.add('natural%s-border' % bits, 'natural:bits=' + bits, 'f32', [signed(x)], feedback=0, seed=SEED)[0]
        assert all((b & ~(1 << 31) == 0x40000000) == (i % 3 == 1) for i, b in enumerate(f.parts[0][1].bits))
    x = [2.0 ** e * (1 + (0x400000 + d) * 2.0 ** -23) for e in (-3, 0) for d in (-1, 0, 1)]
    g.add('natural-nearest-border', 'natural:rounding=nearest', 'f32', [signed(x)], feedback=0)

    # The ends of the exponents: at an end is not clipped, rounding to it from outside neither.
    for name, codec, low, high in (('8', 'natural:rounding=nearest', -50, 10),
                                   ('9', 'natural:bits=9,rounding=nearest', -126, 127),
                                   ('8-shift', 'natural:rounding=nearest,shift=7', -43, 17),
                                   ('8-most', 'natural:rounding=nearest,shift=117', 67, 127),
                                   ('9-shift', 'natural:bits=9,shift=7,rounding=nearest', -119, 127),
                                   ('9-most', 'natural:bits=9,shift=117,rounding=nearest', -9, 127)):
        bottom, top = 2.0 ** low, 2.0 ** high
        inside = [bottom, bottom * 1.25, bottom * 0.75, top, top * 1.25, near(top, -1), near(f32(top * 1.5), -1)]
        outside = [near(bottom * 0.75, -1), bottom / 2, bottom / 4, top * 1.5, near(f32(top * 1.5), 1), 2.0 ** -149]
        outside += [2 * top] if top < 2.0 ** 127 else [near(2.0 ** 128 - 2.0 ** 104, 0)]
        for dtype in ('f32', 'bf16'):
            x = [v for v in inside + outside if dtype == 'f32' or not bits_of(v) & 0xffff]
            grad = convert(signed(x), 'f32', dtype)
            f = g.add('natural%s-ends-%s' % (name, dtype), codec, dtype, [grad], feedback=0)[0]
            assert f.clipped() == sum(v in outside for v in x), name
        x = inside + outside + [0.0, -0.0]
        g.add('natural%s-ends-random' % name, codec.replace('nearest', 'random'), 'f32', [signed(x)] * 2, feedback=0)
        g.add('natural%s-ends-block' % name, codec.replace(':', ':block=3,'), 'f32', [signed(x)], feedback=0)
    sub = [1, 2, 3, 5, 0x3fffff, 0x400000, 0x400001, 0x5fffff, 0x600000, 0x600001, 0x7fffff, 0x800000, 0x800001,
           0xbfffff, 0xc00000]
    sub = unwords([k | s for k in sub for s in (0, 1 << 31)])
    for codec in ('natural:bits=9', 'natural:bits=9,rounding=nearest', 'natural', 'natural:shift=1,bits=9'):
        g.add('%s-subnormals' % codec, codec, 'f32', [sub] * 2, feedback=0)


def levels(g):
    for bits, K in (('8', 127), ('4', 7)):
        for top in (1.0, f32(0.3), 3 * 2.0 ** -130):
            x = []
            for i, u in enumerate(uniform(60)):  # a value whose fraction is u, or beside it
                k = i % K - K // 2
                x.append(f32((k + u) / K * top))
            y = quotients(x + [top], top, K)
            exact = [i for i, u in enumerate(uniform(60)) if f32(y[i] - floor(y[i])) == u]
            assert exact or top < 1e-30, 'no tie'
            codec = 'qsgd:bits=' + bits
            g.add('qsgd%s-border-%g' % (bits, top), codec, 'f32', [pack_row(x + [top])], feedback=0, seed=SEED)
            x = [near(abs(v), (1, -1)[i % 2]) * (1 if v > 0 else -1) for i, v in enumerate(x)]
            g.add('qsgd%s-beside-%g' % (bits, top), codec, 'f32', [pack_row(x + [-top])], feedback=1, seed=SEED)
        tiny = [1.0, -2.0 ** -149, 2.0 ** -149, -2.0 ** -126, -2.0 ** -26, -2.0 ** -25, 2.0 ** -25, -1.0]
        g.add('qsgd%s-tiny' % bits, 'qsgd:bits=' + bits, 'f32', [pack_row(tiny * 3)] * 2)
    x = [k + 0.5 for k in range(-127, 127)] + [127]
    y = quotients(x, 127, 127)
    assert sum(a == b for a, b in zip(x, y)) > 100  # ties: half to even
    g.add('int8-ties', 'int8', 'f32', [pack_row(x)], feedback=0)
    x = [near(abs(v), 1) * (1 if v > 0 else -1) for v in x] + [128.0]
    g.add('int8-beside', 'int8', 'f32', [pack_row(x)], full=False)
    g.add('int8-half', 'int8', 'f16', [convert(pack_row([127, 63.5, -63.5, 0.5, -0.5, 1, 0]), 'f32', 'f16')])


def random_sparse(g):
    u = uniform(40)
    x = Random('random-sparse').gradient(40)
    whole = pack_row(v or 0.5 for v in floats(x))
    for i, more, digits in ((3, 0, ''), (3, 1, ''), (17, 0, ''), (17, 1, ''), (17, 0, '000001'), (3, 0, '0000001')):
        # element i is kept iff u < p; the digits are lost when p is rounded to binary64
        codec = 'random-sparse:p=%.24f%s' % (u[i] + more * 2.0 ** -24, digits)
        name = 'random-sparse-border%d-%d%s' % (i, more, digits)
        f = g.add(name, codec, 'f32', [whole], feedback=0, seed=SEED)[0]
        assert (i in f.parts[0][1].at) == bool(more)
    for p in ('1', '1.0', '0.1', '0.99999999', '0.00000001', '0.0000001', '0.3333333333333333', '0.5'):
        f = g.add('random-sparse-p' + p, 'random-sparse:p=' + p, 'f32', [x, x])[0]
        assert p != '1' or f.nonzero() == sum(v != 0 for v in floats(x))
    g.add('random-sparse-all', 'random-sparse:p=1', 'f32', [pack_row(v or 1 for v in floats(x))], feedback=0)
    b = unwords([0x7f7fffff - 0x800000, 0xff7fffff - 0x800000] * 9)
    g.add('random-sparse-largest-half', 'random-sparse:p=0.5', 'f32', [b], feedback=0)


# ---- means: the order of the additions ----

def other_means(x):
    """means of the values >= 0 with other orders of addition; the other values count as +0, as in the right order"""
    count, x = sum(a >= 0 for a in x), [max(a, 0.0) for a in x]

    def lanes(v, count, adjacent=False):
        lane = [0.0] * count
        for i, a in enumerate(v):
            lane[i % count] += a
        while len(lane) > 1:
            half = len(lane) // 2
            lane = [a + b for a, b in (zip(lane[::2], lane[1::2]) if adjacent else zip(lane[:half], lane[half:]))]
        return lane[0]

    def chunks(size, falling=False):
        sums = [lanes(x[i:i + size], 16) for i in range(0, len(x), size)]
        total = 0.0
        for a in (reversed(sums) if falling else sums):
            total += a
        return total
    if len(x) <= CHUNK:
        sums = [lanes(x, k) for k in (1, 2, 4, 8, 32)] + [lanes(x, 16, True), lanes(x[::-1], 16)]
    else:
        sums = [lanes(x, 1), lanes(x, 16)] + [chunks(k) for k in (64, 1024, 2048, 8192)] + [chunks(CHUNK, True)]
    return [f32(a / count) for a in sums]


def means(g):
    """1 + 2^-24 lies in the middle between two binary32. Whether the additions keep two values of 2^-53 decides to
    which of them it is rounded. In a mean over several chunks 64 values are positive: the divisor is a power of two."""
    for n, at, told in ((64, (8, 24), {0, 1, 2, 3}), (64, (16, 48), {4, 6}), (64, (8, 12), {5}),
                        (6160, (CHUNK, CHUNK + 2048), {0, 1, 2, 3, 4, 5}),
                        (2 * CHUNK + 16, (CHUNK, 2 * CHUNK), {6})):
        x = {**{i: 0.0 for i in range(62)}, 0: 1.0, 1: 2.0 ** -24, at[0]: 2.0 ** -53, at[1]: 2.0 ** -53}
        x = [x.get(i, 0.0 if n == 64 else -1.0) for i in range(n)]
        m = mean([i for i in range(n) if x[i] >= 0], x)
        assert {k for k, other in enumerate(other_means(x)) if other != m} == told, (at, told)
        grad = convert(pack_row(x), 'f32', 'bf16')
        g.add('onebit-mean%d-%d' % at, 'onebit', 'bf16', [grad], feedback=0, full=n == 64)
        if n == 64:
            x = [-v - 2.0 ** -100 for v in x]
            g.add('sbc-mean%d-%d' % at, 'sbc:p=1', 'f32', [pack_row(x)], feedback=0)
    # lanes go by index, not by rank among the members
    rnd = Random('ranks')
    while True:
        x = [-0.5] * 150
        at = sorted(sorted(range(150), key=lambda _: rnd.bits(32))[:64])
        for i in at:
            x[i] = 2.0 ** -(53 + rnd.bits(1)) if rnd.bits(4) == 0 else 0.0
        x[at[5]], x[at[9]] = 1.0, 2.0 ** -24
        if mean(at, x) != mean(range(64), [x[i] for i in at]):
            break
    g.add('onebit-mean-ranks', 'onebit', 'f32', [pack_row(x)], feedback=0)
    x = [2 * v if v > 0 else 2.0 ** -100 if v == 0 else -2.0 ** -110 for v in x]
    g.add('sbc-mean-ranks', 'sbc:p=%.15f' % (64 / 150), 'f32', [pack_row(x)], feedback=0)
    for name, codec, n in (('onebit', 'onebit', 4100), ('sbc', 'sbc:p=0.4', 5100)):
        g.random('large-%s%d' % (name, n), codec, 'bf16', n, 1, feedback=0, full=False)


# ---- selections ----

def sparse_binary(g):
    for name, codec, v in (
            ('ties', 'sbc:p=0.2', [1, 2, -3, 2, 0, 2, 2, -1, 2, -2.0, 2, -0.0] * 2),
            ('ties-negative', 'sbc:p=0.2', [-1, -2, 3, -2, 0, -2, -2, 1, -2, 2, -2, 1] * 2),
            ('tie-sides', 'sbc:p=0.5', [1, -1, 2, -2, 0, 0, -3, 3]),
            ('larger-negative', 'sbc:p=0.25', [1, -1.5, 2, -2.5, 0, 0, 0.25, 2]),
            ('few-positive', 'sbc:p=0.5', [5, -1, -2, -3, -4, -5, 0, 0, -0.0, -6]),
            ('few-negative', 'sbc:p=0.9', [-5, 1, 2, 3, 4, 5, 0, 0, -0.0, 6]),
            ('mean-decides', 'sbc:p=0.5', [9, 0, 0, 0, -5, -5, -5, -5, -5, 0]), ('all', 'sbc:p=1', list(range(-7, 9))),
            ('every', 'sbc:p=1', list(range(1, 30))), ('every-negative', 'sbc:p=1', list(range(-29, 0))),
            ('one', 'sbc:p=0.000001', [0.5, 3, 7, -7, 7, -6]),
            ('small-p', 'sbc:p=0.' + '0' * 40 + '1', [0, -1, 1, -1, 1])):
        g.add('sbc-' + name, codec, 'f32', [pack_row(v)] * 2, feedback=g.count & 1)
        grad = convert(pack_row(v), 'f32', 'bf16')
        g.add('sbc-%s-block' % name, codec.replace(':', ':block=5,'), 'bf16', [grad], feedback=0)
    for n, k in ((50, 2), (70, 4), (30, 2), (10, 1), (90, 4), (110, 6)):  # rint(n / 20), half to even
        f = g.add('sbc-rint%d' % n, 'sbc:p=0.05', 'f32', [pack_row(range(1, n + 1))], feedback=0, full=False)[0]
        assert f.nonzero() == k
    for n in (300, 600):
        g.random('sbc-n%d' % n, 'sbc', 'bf16', n, 2, feedback=1, full=False)


def topk(g):
    for name, codec, v in (('equal', 'topk', [0.5] * 50), ('equal-negative', 'topk:p=0.1', [-0.5] * 25),
                           ('ties', 'topk:p=0.2', [1, 2, -3, 2, 0, 2, -2, -1, 2, -2.0, 2, -0.0] * 2),
                           ('cap', 'topk:p=0.3', [1, -1, 1, 0, -1, 1, 1, -1, 1, 1, -1, 2]),
                           ('zeros', 'topk:p=0.5', [0, 0, 1, 0, -0.0, 0, 0, -2, 0, 0]),
                           ('all', 'topk:p=1', list(range(-7, 9))),
                           ('half', 'topk:p=0.5', list(range(1, 17))), ('above-half', 'topk:p=0.51', [1] * 16),
                           ('small-p', 'topk:p=0.' + '0' * 40 + '1', [0, -1, 1, -1, 1])):
        g.add('topk-' + name, codec, 'f32', [pack_row(v)] * 2, feedback=g.count & 1)
        g.add('topk-%s-block' % name, codec.replace(':', ':block=5,') if ':' in codec else codec + ':block=7', 'bf16',
              [convert(pack_row(v), 'f32', 'bf16')], feedback=0)
    f = g.add('topk-product', 'topk:p=0.07', 'f32', [pack_row(range(1, 101))], feedback=0, full=False)[0]
    assert f.nonzero() == 8  # 0.07 * 100 is above 7
    for n in (4097, 12300):
        g.random('large-topk%d' % n, 'topk:p=0.01', 'bf16', n, 1, feedback=0, full=False)


def topk_selections(g):
    for n, p in ((4097, 0.05), (12300, 0.05), (5000, 0.03), (8191, 0.03), (12300, 0.02)):  # more values than samples
        g.random('large-topk%d-p%s' % (n, p), 'topk:p=%s' % p, 'bf16', n, 1, feedback=0, full=False)
    for n, p in ((500, '0.01'), (1025, '0.1'), (5000, '0.004')):
        g.random('large-topk%d-exact' % n, 'topk:select=exact,p=' + p, 'bf16', n, 1, feedback=0, full=False)
    for name, k, v in (('ties', 3, [1, -1, 2, 1, 1, -2, 0, 1] * 2), ('rint', 2, list(range(1, 51))),
                       ('zeros', 4, [0, 0, 3, -0.0, 0, 0, 0, -2, 0, 0]), ('one', 1, [5, -5, 5])):
        codec = 'topk:select=exact,p=%s' % {'ties': 0.2, 'rint': 0.05, 'zeros': 0.4, 'one': 0.001}[name]
        f = g.add('topk-exact-' + name, codec, 'f32', [pack_row(v)] * 2, feedback=g.count & 1, full=False)[0]
        assert f.nonzero() == min(k, sum(map(bool, v)))


# ---- the golomb form ----

def ternary_golomb(g):
    seen = set()
    for k in (0, 1, 2, 5, 10, 20, *range(27, 45), 50, 99, 100):
        rnd = Random('density %d' % k)
        at = sorted(sorted(range(100), key=lambda _: rnd.bits(32))[:k])
        x = [(1, -1)[i % 3 == 0] if i in at else 0 for i in range(100)]
        f = g.add('golomb-density%d' % k, '3lc-golomb', 'f16', [convert(pack_row(x), 'f32', 'f16')], feedback=0,
                  full=k % 10 == 0)[0]
        seen.add((len(golomb(100, at, [x[i] < 0 for i in at])), len(f.data) - 9))
    assert {(2, 2), (19, 19), (20, 20), (21, 20)} <= seen, seen  # quartic's 20 bytes win the tie
    ends = [0] * 99
    for name, at in (('first', [0]), ('last', [98]), ('both', [0, 98]), ('start', [0, 1, 2, 3]),
                     ('end', [95, 96, 97, 98]), ('gap', [40, 95])):
        x = list(ends)
        for i in at:
            x[i] = -2 if i % 2 else 2
        g.add('golomb-' + name, 'ternary+golomb', 'f32', [pack_row(x)], feedback=0)
        g.add('golomb-%s-block' % name, 'ternary:block=33+golomb', 'f32', [pack_row(x)], feedback=0, full=False)
    for n in (9, 10, 11, 12, 15, 16, 20, 21):
        g.add('golomb-zero%d' % n, '3lc-golomb', 'f32', [bytes(4 * n)], feedback=0)
        g.add('golomb-one%d' % n, '3lc-golomb', 'f32', [bytes(4 * n - 4) + struct.pack('<f', -1)], feedback=0)
    x = [1 if i // 50 == 1 or i % 50 == 7 * (i // 50) else 0 for i in range(220)]  # forms alternate from block to block
    g.add('golomb-blocks', '3lc-golomb:block=50', 'f32', [pack_row(x)], feedback=0)
    x = [2.5 if i in (0, 1, 400, 401, 2999) else 0 for i in range(3000)]  # long ones, several bytes of quotient
    g.add('golomb-long', '3lc-golomb', 'bf16', [convert(pack_row(x), 'f32', 'bf16')], feedback=0, full=False)
    x = [1.5 if i < 220 or i == 2199 else 0 for i in range(2200)]  # a large k, then a quotient of many ones
    grad = convert(pack_row(x), 'f32', 'bf16')
    for codec in ('ternary+golomb', 'sbc:p=0.2'):
        g.add('golomb-quotient-%s' % codec[:3], codec, 'bf16', [grad], feedback=0, full=False)
    for name, codec in (('golomb', '3lc-golomb:s=1.9'), ('golomb-off', '3lc-golomb'),
                        ('stochastic', 'stochastic-ternary+golomb')):
        g.random('large-%s' % name, codec, 'bf16', 700, 2, feedback=int(name == 'golomb'), full=False)


def good(g):
    for part in (stochastic_ternary, natural_borders, levels, random_sparse, means, sparse_binary, topk,
                 ternary_golomb):
        part(g)


def added(g):
    topk_selections(g)
