# SPDX-License-Identifier: MIT
"""Good frames of 3lc, ternary+quartic and raw."""
import struct

from codec import MAX_BLOCK
from ieee import DTYPES, WIDTH, convert, f32, floats, pack_row, unwords, words
from record import Random, blocked

ONE = struct.pack('<f', 1)


def from_quartic(b, dtype, amplitude=0.375):
    """a gradient whose quartic bytes are b"""
    q = [k - 1 for w in (81, 27, 9, 3, 1) for k in (v // w % 3 for v in b)]
    return convert(pack_row(amplitude * k for k in q), 'f32', dtype)


def good(g):
    names = {'3lc': '3lc', 'tq': 'ternary+quartic', 'raw': 'raw'}
    dtypes = list(DTYPES)

    for feedback in (0, 1):
        g.add('example-%d' % feedback, '3lc', 'f32', [pack_row([0.9, -0.1, 0, 0.6, -1.0, 0.2, 0.5])], feedback=feedback)
    for short, codec in names.items():
        for dtype in dtypes:
            for form in range(8):
                block, checksum, feedback = form & 1, form >> 1 & 1, form >> 2
                g.random('%s-%s-%d%d%d' % (short, dtype, block, checksum, feedback),
                       blocked(codec, 11) if block else codec, dtype, 23 + g.count % 17, 2, checksum=checksum,
                       feedback=feedback)
        for i, n in enumerate((0, 1, 2, 4, 5, 6, 7, 70, 71, 139, 140, 141)):
            g.random('%s-n%d' % (short, n), codec, dtypes[i % 3], n, 1 + (n < 10), feedback=int(i % 4 != 1))
        for i, block in enumerate((1, 5, 7, 14, 35, 64, 70, 71, 1000, MAX_BLOCK)):
            g.random('%s-block%d' % (short, block), blocked(codec, block), dtypes[i % 3], 70, 1, feedback=i & 1)
        g.random('%s-n0-block' % short, blocked(codec, 5), 'f16', 0, checksum=1)
    g.random('3lc-large', '3lc:s=1.5', 'f32', 1703)
    g.random('tq-large', 'ternary+quartic', 'bf16', 1021, feedback=0)
    g.random('3lc-block-large', blocked('3lc', 500), 'f16', 1203, checksum=1)
    g.random('raw-large', 'raw', 'bf16', 401, checksum=1)
    for s in ('1', '1.5', '1.75', '1.9999999', '1.0000001', '0.99999999', '1.000000059604644775390625001'):
        g.random('3lc-s' + s, '3lc:s=' + s, 'f32', 51, 3)
    g.random('tq-s-block', 'ternary:block=20,s=1.25+quartic', 'f16', 51, 3)

    # Zero-runs: every length in the middle, then every length at the start and at the end, then long ones.
    rnd = Random('runs')
    lengths = sorted(range(1, 44), key=lambda _: rnd.bits(32))

    def literal():
        v = rnd.bits(8)
        return v if v < 243 and v != 121 else literal()
    middle = [literal()]
    for k in lengths:
        middle += [121] * k + [literal()]
    g.add('run-middle', '3lc', 'bf16', [from_quartic(middle, 'bf16')], feedback=0)
    for k in range(1, 44):
        b = [121] * k + [literal()] + [121] * (44 - k)
        g.add('runs-ends%d' % k, '3lc', dtypes[1 + k % 2], [from_quartic(b, dtypes[1 + k % 2])], feedback=0, full=False)
    for k in (28, 42, 64, 65, 128, 129, 140, 141, 154, 280):
        b = [literal()] + [121] * k + [literal()] * (k & 1)
        g.add('runs-long%d' % k, '3lc', 'bf16', [from_quartic(b, 'bf16')], feedback=0, full=False)
    g.add('run-blocks', '3lc:block=70', 'bf16', [from_quartic([5] + [121] * 69, 'bf16')], feedback=0)
    for n in (5, 70, 75, 140, 350):
        g.add('zero%d' % n, '3lc', 'f16', [bytes(2 * n)], feedback=0)
    for n, at in ((70, 0), (71, 70), (210, 100)):
        g.add('one%d' % n, '3lc', 'f32', [bytes(4 * at) + ONE + bytes(4 * (n - at - 1))])

    # Ties at M/2 and their neighbours, signed zeros, subnormals, the largest values.
    for s, M in (('1', 1.0), ('1.5', 1.5), ('1.75', 1.75), ('1.9999999', 2 - 2.0 ** -23),
                 ('1.0000001', 1 + 2.0 ** -23)):
        t = words(struct.pack('<f', M / 2))[0]
        b = unwords([t + d | sign for d in (-2, -1, 0, 1, 2) for sign in (0, 1 << 31)] + [0x3f800000, 1 << 31, 0])
        g.add('tie-s' + s, '3lc:s=' + s, 'f32', [b, b])
    for dtype, half, one in (('f16', 0x3800, 0x3c00), ('bf16', 0x3f00, 0x3f80)):
        b = unwords([half + d | sign for d in (-1, 0, 1) for sign in (0, 1 << 15)] + [0x8000, 0, 0x8000 | one], dtype)
        g.add('tie-' + dtype, '3lc', dtype, [b, b])
    minus = unwords([0x80000000] * 6 + [0])
    g.add('minus-zero', '3lc', 'f32', [minus, minus], residual0=unwords([0x80000000, 0] * 3 + [0]))
    g.add('minus-zero-off', 'ternary+quartic', 'f32', [minus + ONE], feedback=0)
    g.add('raw-minus-zero', 'raw', 'f32', [minus, minus], residual0=unwords([0x80000000, 0] * 3 + [0]))
    for m in (1, 2, 3, 5, 7, 12):
        b = unwords([k | sign for k in range(m + 1) for sign in (0, 1 << 31)])
        for s in ('1', '1.5'):
            g.add('subnormal%d-s%s' % (m, s), '3lc:s=' + s, 'f32', [b, b])
    for dtype in ('f16', 'bf16'):
        b = unwords([k | sign for k in range(12) for sign in (0, 1 << 15)], dtype)
        g.add('subnormal-' + dtype, '3lc:s=1.75', dtype, [b, b])
    b = unwords([k | sign for k in (0x00800001, 0x00400000, 0x00400001, 0x003fffff, 0x007fffff)
                 for sign in (0, 1 << 31)])
    g.add('normal-border', '3lc', 'f32', [b, b])
    for dtype, top in (('f32', 0x7f7fffff), ('f16', 0x7bff), ('bf16', 0x7f7f)):
        step = {'f32': 0x00800000, 'f16': 0x0400, 'bf16': 0x0080}[dtype]
        sign = 1 << 8 * WIDTH[dtype] - 1
        b = unwords([top, top | sign, top - step, top - step | sign, top - step + 1, top - 2 * step, 0, 1], dtype)
        g.add('largest-' + dtype, '3lc', dtype, [b, b])
        g.add('largest-off-' + dtype, '3lc', dtype, [b], feedback=0)
        g.add('add-infinite-' + dtype, '3lc', dtype, [b * 16], feedback=0, weight=f32(-1e37))  # inf - inf

    # raw: every kind of bits as they are; with feedback what narrowing loses stays.
    special = unwords([sign | k for sign in (0, 1 << 31) for k in (
        0, 1, 0x007fffff, 0x00800000, 0x33000000, 0x33000001, 0x33c00000, 0x387fc000, 0x387fe000, 0x387fdfff,
        0x3f800000, 0x3f801000, 0x3f803000, 0x3f808000, 0x3f818000, 0x3f808001, 0x477fe000, 0x477fefff, 0x477ff000,
        0x7f7f7fff, 0x7f7f8000, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7f801fff, 0x7fa00000, 0x7fbfffff,
        0x7fc00000, 0x7fd55555, 0x7fffffff)])
    g.add('raw-special-f32', 'raw', 'f32', [special], feedback=0)
    for dtype, ks in (('f16', (0, 1, 0x3ff, 0x400, 0x3c00, 0x7bff, 0x7c00, 0x7c01, 0x7dff, 0x7e00, 0x7fff)),
                      ('bf16', (0, 1, 0x7f, 0x80, 0x3f80, 0x7f7f, 0x7f80, 0x7f81, 0x7fbf, 0x7fc0, 0x7fff))):
        b = unwords([sign | k for sign in (0, 1 << 15) for k in ks], dtype)
        g.add('raw-special-' + dtype, 'raw:block=5', dtype, [b], feedback=0)
        g.random('raw-residual-' + dtype, 'raw', dtype, 61, 3,
               residual0=pack_row(v * 1e-3 for v in floats(Random(dtype).gradient(61))))
    for short, codec in names.items():
        rnd = Random('residual ' + short)
        g.add(short + '-residual', codec, 'f16', [rnd.gradient(33, 'f16'), None, None], 33,
              residual0=pack_row(v or 0.25 for v in floats(rnd.gradient(33))))

    g.real('real-conv1', '3lc', 'f32', 'conv1.npy', 0, 432, 5)
    g.real('real-fc', '3lc:s=1.75', 'f32', 'fc.npy', 0, 300, 4, checksum=1)
    g.real('real-b3', '3lc:block=100', 'bf16', 'b3.npy', 0, 257, 4)
    g.real('real-b8', 'ternary:s=1.9+quartic', 'f16', 'b8.npy', 0, 201, 3)
