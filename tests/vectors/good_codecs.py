# SPDX-License-Identifier: MIT
"""Good frames of the other codecs: what all of them share."""
from codec import MAX_BLOCK, parse_codec
from ieee import DTYPES, convert, f32, floats, pack_row, unwords
from manifest import golden
from record import Random, blocked


FIRST_GROUPS, SECOND_GROUPS = 17, 23


def good(g):
    groups(g, golden()[:FIRST_GROUPS])


def added(g):
    groups(g, golden()[FIRST_GROUPS:SECOND_GROUPS])


def newest(g):
    groups(g, golden()[SECOND_GROUPS:])


def groups(g, which):
    dtypes = list(DTYPES)
    for short, codec, all_sizes in which:
        feedback = parse_codec(codec).feedback
        for dtype in dtypes:
            for block, checksum, forced in ((0, 0, 0), (0, 1, 1), (7, 0, 1), (5, 1, 0)):
                g.random('%s-%s-%d%d%d' % (short, dtype, block, checksum, forced),
                         blocked(codec, block) if block else codec, dtype, 9 + g.count % 9, 2, checksum=checksum,
                         feedback=forced)
        sizes = (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65, 100) if all_sizes else (0, 1, 33)
        for i, n in enumerate(sizes):
            g.random('%s-n%d' % (short, n), codec, dtypes[i % 3], n, 1 + (n < 10), feedback=i & 1, full=n < 63)
        for i, block in enumerate((1, 2, 8, 16, 25, MAX_BLOCK) if all_sizes else (1, 13)):
            g.random('%s-block%d' % (short, block), blocked(codec, block), dtypes[i % 3], 41, 2,
                     feedback=i & 1 ^ feedback, full=block == 8)
        g.random('%s-n0-block' % short, blocked(codec, 5), 'bf16', 0, checksum=1)
        rnd = Random('residual ' + short)
        g.add(short + '-residual', codec, 'f16', [rnd.gradient(33, 'f16'), None, None], 33,
              residual0=pack_row(v or 0.25 for v in floats(rnd.gradient(33))))
        g.random(short + '-steps', codec, 'bf16', 14, 5, feedback=feedback, full=False)

        # Zeros of both signs, one value among zeros, equal values, one sign only, subnormals, the largest values.
        zeros = unwords([0x80000000, 0, 0] * 7)
        g.add(short + '-zeros', codec, 'f32', [zeros, zeros], residual0=unwords([0x80000000, 0] * 10 + [0]))
        g.add(short + '-minus-zero', codec, 'f32', [unwords([0x80000000] * 19)], feedback=0)
        g.add(short + '-one', codec, 'f16', [unwords([0] * 30 + [0xbc00] + [0x8000] * 9, 'f16')], feedback=0)
        for name, v in (('equal', 0.3), ('equal-negative', -0.3)):
            g.add('%s-%s' % (short, name), codec, 'f32', [pack_row([v] * 18)] * 2, feedback=feedback)
        some = floats(Random('sign').gradient(19))
        g.add(short + '-positive', codec, 'f32', [pack_row(abs(v) for v in some)], feedback=0)
        g.add(short + '-negative', codec, 'f32', [pack_row(-abs(v) for v in some)], feedback=0)
        for m in (1, 3, 12):
            b = unwords([k | sign for k in range(m + 1) for sign in (0, 1 << 31)])
            g.add('%s-subnormal%d' % (short, m), codec, 'f32', [b, b], feedback=int(m == 3))
        b = unwords([k | sign for k in (0, 1, 2, 0x1ff, 0x200, 0x3ff, 0x400) for sign in (0, 1 << 15)], 'f16')
        g.add(short + '-subnormal-f16', codec, 'f16', [b, b])
        big = {'rs': 'random-sparse:p=1', 'tg': 'ternary+golomb'}.get(short, codec)  # x / P, s * max must not overflow
        for dtype, top, step in (('f32', 0x7f7fffff, 0x800000), ('f16', 0x7bff, 0x400), ('bf16', 0x7f7f, 0x80)):
            sign = 1 << 15 if dtype != 'f32' else 1 << 31
            b = unwords([top, top | sign, top - step, top - step | sign, top - step + 1, top - 2 * step, 0, 1], dtype)
            g.add('%s-largest-%s' % (short, dtype), big, dtype, [b, bytes(len(b))], feedback=int(dtype != 'bf16'))
            if dtype != 'f16':  # inf - inf
                g.add('%s-add-infinite-%s' % (short, dtype), big, dtype, [b * 6], feedback=0, weight=f32(-1e37))
                g.add('%s-add-infinite-minus-%s' % (short, dtype), big, dtype,
                      [convert(pack_row(-v for v in floats(convert(b * 3, dtype, 'f32'))), 'f32', dtype)],
                      feedback=0, weight=f32(3e38))

        # Traces of a training run.
        g.real(short + '-real-conv1', codec, 'f32', 'conv1.npy', 100, 60, 2, feedback=feedback)
        if all_sizes:
            g.real(short + '-real-fc', codec, 'bf16', 'fc.npy', 0, 80, 2, feedback=feedback, checksum=1)
            g.real(short + '-real-b3', blocked(codec, 50), 'f16', 'b3.npy', 0, 81, 2,
                   feedback=feedback)
            g.real(short + '-real-b8', codec, 'bf16', 'b8.npy', 0, 90, 2, feedback=feedback,
                   full=False)
