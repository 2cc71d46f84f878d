# SPDX-License-Identifier: MIT
"""Parts of the vectors: random gradients, traces, and the text of a good record."""
import os
import struct
import zlib
from math import copysign

from ieee import WIDTH, convert, f32, pack_row, unwords
from model import Context, Frame, read_npy
from xxh3 import M64

# Parts of recorded gradients of ResNet-20, a row a step.
REAL = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'real')


class Random:
    """splitmix64, seeded by the CRC-32 of the record's name, so that records do not depend on each other"""

    def __init__(self, name):
        self.state = zlib.crc32(name.encode())

    def bits(self, k):
        self.state = (self.state + 0x9E3779B97F4A7C15) & M64
        z = ((self.state ^ (self.state >> 30)) * 0xBF58476D1CE4E5B9) & M64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M64
        return (z ^ (z >> 31)) >> (64 - k)

    def gradient(self, n, dtype='f32'):
        """bell-shaped with heavy tails, some zeros of both signs"""
        def one():
            v = (sum(self.bits(16) for _ in range(4)) / 65536 - 2) * 4.0 ** -self.bits(2) / 64
            return v if self.bits(4) else copysign(0.0, v)
        return convert(pack_row(one() for _ in range(n)), 'f32', dtype)


def hexa(b):
    return b.hex() or '-'


def blocked(codec, block):
    head, plus, tail = codec.partition('+')
    return '%s%sblock=%d%s%s' % (head, ',' if ':' in head else ':', block, plus, tail)


class Good:
    """The records so far. full=False leaves out decoding to other dtypes, adding and masking."""

    def __init__(self):
        self.out, self.count = [], 0

    def add(self, name, codec, dtype, grads, n=None, checksum=0, feedback=1, residual0=b'', full=True,
            weight=None, seed=None):
        rnd = Random(name)
        n = len(grads[0]) // WIDTH[dtype] if n is None else n
        other = (0, M64, rnd.bits(64))[self.count % 3]
        seed = other if seed is None else seed
        c = Context(codec, dtype, n, feedback, checksum, seed, residual0)
        out = [('name', name), ('codec', codec), ('dtype', dtype), ('checksum', checksum), ('feedback', feedback),
               ('seed', seed), ('n', n)] + ([('residual0', hexa(residual0))] if residual0 else [])
        frames = []
        for g in grads:
            b = c.compress(g)
            f = Frame(b, n)
            frames.append(f)
            out += [('grad', 'null' if g is None else hexa(g)), ('frame', hexa(b)), ('decoded', hexa(f.decode('f32')))]
        out += [('residual', hexa(c.residual)), ('state', hexa(c.state()))]
        if full:
            if weight is None:
                weight = (1.0, -0.5, 0.0, f32(1 / 3), f32(3e38), f32(1e-40), -1.0, -f32(1e-3))[self.count % 8]
            sums = [self.addend(rnd) for i in range(n)]
            out += [('decoded_f16', hexa(f.decode('f16'))), ('decoded_bf16', hexa(f.decode('bf16'))),
                    ('add_weight', struct.pack('<f', weight).hex()), ('add_sum0', hexa(unwords(sums))),
                    ('add_sum', hexa(unwords(f.add(weight, sums))))]
            if f.has_zero():
                out += [('mask', hexa(unwords(f.mask(sums))))]
        out += [('info', f.text()), ('nonzero', f.nonzero()), ('clipped', f.clipped())]
        self.out += ['%s %s\n' % kv for kv in out] + ['\n']
        self.count += 1
        return frames

    def random(self, name, codec, dtype, n, steps=1, **more):
        rnd = Random('gradient ' + name)
        return self.add(name, codec, dtype, [rnd.gradient(n, dtype) for _ in range(steps)], n, **more)

    def real(self, name, codec, dtype, file, start, n, steps, **more):
        rows = read_npy(os.path.join(REAL, file))[:steps]
        return self.add(name, codec, dtype, [convert(r[4 * start:4 * (start + n)], 'f32', dtype) for r in rows], n,
                        **more)

    @staticmethod
    def addend(rnd):
        kind, sign = rnd.bits(3), rnd.bits(1) << 31
        if kind == 0:
            return sign
        if kind == 1:
            return sign | rnd.bits(23)
        if kind == 2:
            return sign | 0x7f800000
        if kind == 3:
            return sign | 0x7f800001 | rnd.bits(23)
        return sign | 0x3a000000 + rnd.bits(26)
