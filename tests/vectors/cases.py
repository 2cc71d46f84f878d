# SPDX-License-Identifier: MIT
"""What the golden vectors are: frames and states, good and bad, made with model.py."""
import os
import struct
import zlib
from math import copysign

from model import *  # noqa
from xxh3 import M64

HEAD = ('# SPDX-License-Identifier: MIT\n# Written by model.py generate; not edited by hand. Records end at an empty '
        'line; byte strings in hex,\n# elements little-endian, - for none.%s\n')
NOTES = {'good.txt': ' "grad null" is a NULL gradient; runs-* records leave out the keys after state.',
         'bad.txt': ' "inspect" is given where tlc_inspect differs (it knows no n);\n# status OK are frames that our '
                    'encoder does not write but a decoder takes.',
         'bad_state.txt': ' codec, dtype, feedback and n are of the context that loads.'}
TRACES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'bench', 'data')
ONE = struct.pack('<f', 1)


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


class Good:
    def __init__(self):
        self.out, self.count = [], 0

    def add(self, name, codec, dtype, grads, n=None, checksum=0, feedback=1, residual0=b'', full=True,
            weight=None):
        rnd = Random(name)
        n = len(grads[0]) // WIDTH[dtype] if n is None else n
        seed = (0, M64, rnd.bits(64))[self.count % 3]
        c = Context(codec, dtype, n, feedback, checksum, seed, residual0)
        out = [('name', name), ('codec', codec), ('dtype', dtype), ('checksum', checksum), ('feedback', feedback),
               ('seed', seed), ('n', n)] + ([('residual0', hexa(residual0))] if residual0 else [])
        for g in grads:
            b = c.compress(g)
            f = Frame(b, n)
            out += [('grad', 'null' if g is None else hexa(g)), ('frame', hexa(b)), ('decoded', hexa(f.decode('f32')))]
        out += [('residual', hexa(c.residual)), ('state', hexa(c.state()))]
        if full:
            q = f.symbols()
            if weight is None:
                weight = (1.0, -0.5, 0.0, f32(1 / 3), f32(3e38), f32(1e-40), -1.0, -f32(1e-3))[self.count % 8]
            sums = [self.addend(rnd) for i in range(n)]
            out += [('decoded_f16', hexa(f.decode('f16'))), ('decoded_bf16', hexa(f.decode('bf16'))),
                    ('add_weight', struct.pack('<f', weight).hex()), ('add_sum0', hexa(unwords(sums))),
                    ('add_sum', hexa(unwords(f.add(weight, sums))))]
            if q is not None:
                out += [('mask', hexa(unwords([0 if k else a for a, k in zip(sums, q)])))]
        out += [('nonzero', f.nonzero())]
        self.out += ['%s %s\n' % kv for kv in out] + ['\n']
        self.count += 1

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


def from_quartic(b, dtype, amplitude=0.375):
    """a gradient whose quartic bytes are b"""
    q = [k - 1 for w in (81, 27, 9, 3, 1) for k in (v // w % 3 for v in b)]
    return convert(pack_row(amplitude * k for k in q), 'f32', dtype)


def good():
    g = Good()
    names = {'3lc': '3lc', 'tq': 'ternary+quartic', 'raw': 'raw'}
    dtypes = list(DTYPES)

    def blocked(codec, block):
        head, plus, tail = codec.partition('+')
        return '%s%sblock=%d%s%s' % (head, ',' if ':' in head else ':', block, plus, tail)

    def random(name, codec, dtype, n, steps=1, **more):
        rnd = Random('gradient ' + name)
        g.add(name, codec, dtype, [rnd.gradient(n, dtype) for _ in range(steps)], n, **more)

    def real(name, codec, dtype, file, start, n, steps, **more):
        rows = read_npy(os.path.join(TRACES, file))[3:3 + steps]
        g.add(name, codec, dtype, [convert(r[4 * start:4 * (start + n)], 'f32', dtype) for r in rows], n, **more)

    for feedback in (0, 1):
        g.add('example-%d' % feedback, '3lc', 'f32', [pack_row([0.9, -0.1, 0, 0.6, -1.0, 0.2, 0.5])], feedback=feedback)
    for short, codec in names.items():
        for dtype in dtypes:
            for form in range(8):
                block, checksum, feedback = form & 1, form >> 1 & 1, form >> 2
                random('%s-%s-%d%d%d' % (short, dtype, block, checksum, feedback),
                       blocked(codec, 11) if block else codec, dtype, 23 + g.count % 17, 2, checksum=checksum,
                       feedback=feedback)
        for i, n in enumerate((0, 1, 2, 4, 5, 6, 7, 70, 71, 139, 140, 141)):
            random('%s-n%d' % (short, n), codec, dtypes[i % 3], n, 1 + (n < 10), feedback=int(i % 4 != 1))
        for i, block in enumerate((1, 5, 7, 14, 35, 64, 70, 71, 1000, MAX_BLOCK)):
            random('%s-block%d' % (short, block), blocked(codec, block), dtypes[i % 3], 70, 1, feedback=i & 1)
        random('%s-n0-block' % short, blocked(codec, 5), 'f16', 0, checksum=1)
    random('3lc-large', '3lc:s=1.5', 'f32', 1703)
    random('tq-large', 'ternary+quartic', 'bf16', 1021, feedback=0)
    random('3lc-block-large', blocked('3lc', 500), 'f16', 1203, checksum=1)
    random('raw-large', 'raw', 'bf16', 401, checksum=1)
    for s in ('1', '1.5', '1.75', '1.9999999', '1.0000001', '0.99999999', '1.000000059604644775390625001'):
        random('3lc-s' + s, '3lc:s=' + s, 'f32', 51, 3)
    random('tq-s-block', 'ternary:block=20,s=1.25+quartic', 'f16', 51, 3)

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
        random('raw-residual-' + dtype, 'raw', dtype, 61, 3,
               residual0=pack_row(v * 1e-3 for v in floats(Random(dtype).gradient(61))))
    for short, codec in names.items():
        rnd = Random('residual ' + short)
        g.add(short + '-residual', codec, 'f16', [rnd.gradient(33, 'f16'), None, None], 33,
              residual0=pack_row(v or 0.25 for v in floats(rnd.gradient(33))))

    real('real-conv1', '3lc', 'f32', 'conv1.weight.npy', 0, 432, 5)
    real('real-fc', '3lc:s=1.75', 'f32', 'fc.weight.npy', 40, 300, 4, checksum=1)
    real('real-b3', '3lc:block=100', 'bf16', 'b.3.conv2.weight.npy', 1000, 257, 4)
    real('real-b8', 'ternary:s=1.9+quartic', 'f16', 'b.8.conv1.weight.npy', 30000, 201, 3)
    return g.out


def head(flags=0, values=2, coding=0x11, n=b'\7', rest=b''):
    return bytes([1, flags, values, coding]) + n + rest


def bad_frames():
    grad = pack_row([0.9, -0.1, 0, 0.6, -1.0, 0.2, 0.5])

    def make(codec, checksum=0, g=grad):
        return Context(codec, 'f32', len(g) // 4, 0, checksum).compress(g)
    a, sealed, blocked, raw = make('3lc'), make('3lc', 1), make('3lc:block=4'), make('raw')
    long = make('3lc', 0, grad * 50)  # n = 350 takes two bytes
    pay = bytes([192, 144])
    for name, b, n in (('', a, 7), ('n350-', long, 350), ('block-', blocked, 7), ('raw-', raw, 7)):
        for k in range(min(len(b), 25)):
            yield 'short-%s%d' % (name, k), b[:k], n, 'CORRUPT'
        yield name + 'trailing', b + b'\0', n, 'CORRUPT'
    yield 'short-n-wrong', long[:5], 7, 'CORRUPT'
    for k in range(4, len(sealed)):
        yield 'short-sealed%d' % k, sealed[:k], 7, 'CORRUPT' if k < 9 else 'CHECKSUM'
    for k in range(9, len(sealed)):
        yield 'short-resealed%d' % k, seal(sealed[:k - 4]), 7, 'CORRUPT'
    for v in (0, 2, 128, 255):
        yield 'version%d' % v, bytes([v]) + a[1:], 7, 'VERSION'
    yield 'version-codec', b'\2\0\xff\xff' + a[4:], 7, 'VERSION'
    yield 'version-checksum', b'\2' + sealed[1:], 7, 'VERSION'
    yield 'version-short', b'\2' + a[1:4], 7, 'CORRUPT'
    yield 'version-short-sealed', b'\2' + sealed[1:8], 7, 'CORRUPT'
    for values, coding in ((0, 0), (0, 0x11), (255, 0x11), (2, 0), (2, 0x10), (2, 0xf1), (2, 0x1f), (2, 0xff), (1, 1),
                           (1, 0x10), (1, 0x11)):
        yield 'codec-%d-%02x' % (values, coding), head(0, values, coding, b'\7', ONE + pay), 7, 'UNSUPPORTED'
    yield 'codec-checksum', head(4, 255, 0, b'\7', ONE + pay + b'none'), 7, 'UNSUPPORTED'
    yield 'codec-size', head(0, 255, 0, b'\7', ONE + pay), 8, 'UNSUPPORTED'
    yield 'codec-dtype3', head(3, 255, 0, b'\7', ONE + pay), 7, 'UNSUPPORTED'
    yield 'codec-varint', head(0, 255, 0, b'\x80', b'\0'), 7, 'UNSUPPORTED'
    expected = {0: 'VERSION', 2: 'UNSUPPORTED', 3: 'UNSUPPORTED'}
    for k in range(len(sealed)):
        flipped = bytes(v ^ (32 if i == k else 0) for i, v in enumerate(sealed))
        yield 'flip%d' % k, flipped, 7, expected.get(k, 'CHECKSUM')
    yield 'flip-flag', sealed[:1] + b'\0' + sealed[2:], 7, 'CORRUPT'
    yield 'flag-unsealed', a[:1] + b'\4' + a[2:], 7, 'CHECKSUM'
    yield 'checksum-size', sealed[:-1] + bytes([sealed[-1] ^ 1]), 8, 'CHECKSUM'
    yield 'checksum-dtype3', head(7, rest=ONE + pay + b'none'), 7, 'CHECKSUM'
    yield 'checksum-varint', head(4, n=b'\x87\0', rest=ONE + pay + b'none'), 7, 'CHECKSUM'
    for n in (0, 6, 8, 70, 1 << 32 | 7):
        yield 'size%d' % n, a, n, 'SIZE'
    yield 'size-sealed', sealed, 6, 'SIZE'
    yield 'size-empty', head(n=b'\0'), 1, 'SIZE'
    yield 'size-long', long, 351, 'SIZE'
    for name, b in (('trailing', a + b'\0'), ('dtype3', head(3, rest=ONE + pay)), ('flags', head(16, rest=ONE + pay)),
                    ('block0', head(8, rest=b'\0' + ONE + pay)), ('no-scalar', head()), ('no-block', head(8)),
                    ('nan', head(rest=b'\0\0\xc0\x7f' + pay)), ('above', head(0, 2, 1, rest=ONE + b'\xf3\0'))):
        yield 'size-' + name, b, 6, 'SIZE'
        yield 'only-' + name, b, 7, 'CORRUPT'
        yield 'only-%s-sealed' % name, seal(b[:1] + bytes([b[1] | 4]) + b[2:]), 7, 'CORRUPT'
    for bit in (5, 6, 7):
        yield 'flags%d' % bit, head(1 << bit, rest=ONE + pay), 7, 'CORRUPT'
    yield 'raw-dtype3', head(3, 1, 0, rest=raw[5:]), 7, 'CORRUPT'
    yield 'raw-dtype1', head(1, 1, 0, rest=raw[5:]), 7, 'CORRUPT'
    yield 'raw-empty-trailing', head(0, 1, 0, b'\0', b'\0'), 0, 'CORRUPT'
    yield 'empty-trailing', head(n=b'\0', rest=b'\0'), 0, 'CORRUPT'
    yield 'empty-scalar', head(n=b'\0', rest=ONE), 0, 'CORRUPT'

    # Varints: only the shortest form, at most 10 bytes, below 2^64.
    for name, v, n in (('long0', b'\x80\0', 0), ('long7', b'\x87\0', 7), ('long7-3', b'\x87\x80\0', 7),
                       ('65', b'\xff' * 9 + b'\2', 7), ('65-wraps', b'\x87' + b'\x80' * 8 + b'\2', 7),
                       ('11', b'\x87' + b'\x80' * 9 + b'\0', 7), ('11-one', b'\x87' + b'\x80' * 9 + b'\1', 7),
                       ('endless', b'\xff' * 30, 7)):
        yield 'varint-' + name, head(n=v, rest=ONE + pay), n, 'CORRUPT'
    table = ONE + struct.pack('<I', 2) + pay
    for name, v in (('0', b'\0'), ('long', b'\x87\0'), ('2^28+1', varint(MAX_BLOCK + 1)), ('2^32', varint(1 << 32)),
                    ('2^32+7', varint(1 << 32 | 7)), ('2^64-1', varint(M64)), ('65', b'\x87' + b'\x80' * 8 + b'\2'),
                    ('11', b'\x87' + b'\x80' * 9 + b'\1'), ('endless', b'\xff' * 30)):
        yield 'block-' + name, head(8, n=b'\7', rest=v + table), 7, 'CORRUPT'
    yield 'empty-block0', head(8, n=b'\0', rest=b'\0'), 0, 'CORRUPT'
    yield 'empty-no-block', head(8, n=b'\0'), 0, 'CORRUPT'
    yield 'empty-block-trailing', head(8, n=b'\0', rest=b'\7' + table), 0, 'CORRUPT'
    for name, M in (('inf', 0x7f800000), ('nan', 0x7fc00000), ('snan', 0x7f800001), ('-inf', 0xff800000),
                    ('-nan', 0xffc00000), ('-1', 0xbf800000), ('-0', 0x80000000), ('-subnormal', 0x80000001)):
        m = struct.pack('<I', M)
        yield 'M' + name, head(rest=m + pay), 7, 'CORRUPT'
        one = struct.pack('<I', 1)
        yield 'M%s-second' % name, head(8, rest=b'\4' + ONE + one + m + one + b'QQ'), 7, 'CORRUPT'

    # Payloads: bytes above 242 without zerorun, other lengths than L, padding.
    for v in (243, 254, 255):
        yield 'above%d-first' % v, head(0, 2, 1, rest=ONE + bytes([v, 0])), 7, 'CORRUPT'
        yield 'above%d-last' % v, head(0, 2, 1, n=b'\x0a', rest=ONE + bytes([0, v])), 10, 'CORRUPT'
    for k in (0, 1, 3):
        yield 'quartic-length%d' % k, head(0, 2, 1, n=b'\x0a', rest=ONE + bytes(k)), 10, 'CORRUPT'
    for n, payloads in ((10, ('', '79', 'f379', 'f4', 'ff', '797979', 'c0', 'c0f3', 'f3c0', '000000')),
                        (70, ('fe', 'ff79', 'fef3', 'fff3', 'f3fe', 'ffff', '')),
                        (140, ('ff', 'fffe', 'ffff79', 'fffeff', '79ffff')),
                        (150, ('ffff79', 'fffff4', 'fff3ff79', 'ff' * 18))):
        for p in payloads:
            yield 'expand%d-%s' % (n, p[:8]), head(n=varint(n), rest=ONE + bytes.fromhex(p)), n, 'CORRUPT'
    for pad in (1, 2, 3, 4):
        for digits, L in ((1, 2), (2, 2), (1, 1), (2, 1)):
            n = 5 * L - pad
            for at in sorted({n, 5 * L - 1}):  # the first and the last digit of padding
                b = bytearray(L)
                b[at % L] += digits * (81, 27, 9, 3, 1)[at // L]
                for coding in (1, 0x11):
                    yield 'pad%d-%d-%d-%d-%02x' % (pad, L, at, digits, coding), \
                        head(0, 2, coding, n=bytes([n]), rest=ONE + b), n, 'CORRUPT'
        for p in ('ff79', '00fe79', '00ff', 'fef3', '00' * 13 + 'f3', '00' * 14 + '79'):
            n = 5 * 15 - pad
            yield 'pad%d-run-%s' % (pad, p[-8:]), head(n=varint(n), rest=ONE + bytes.fromhex(p)), n, 'CORRUPT'
    yield 'pad3-run-early', head(n=varint(72), rest=ONE + bytes.fromhex('fdf378')), 72, 'CORRUPT'

    # Block tables.
    def table_of(n, block, sizes, payload, form=(2, 0x11)):
        entries = b''.join((ONE if form[0] == 2 else b'') + struct.pack('<I', k) for k in sizes)
        return head(8, *form, n=varint(n), rest=varint(block) + entries + payload)
    top = (1 << 32) - 1
    for name, sizes, payload in (
            ('short', (1, 2), 'QQ'), ('long', (1, 0), 'QQ'), ('first', (2, 0), 'QQ'), ('second', (0, 2), 'QQ'),
            ('beyond', (1, top), 'QQ'), ('wrap', (top, 3), 'QQ'), ('wrap1', (3, top), 'QQ'), ('top', (top, top), 'QQ'),
            ('half', (1 << 31, 1 << 31), 'QQ'), ('half2', ((1 << 31) + 1, (1 << 31) + 1), 'QQ'),
            ('rest', (1, 1), 'QQQ'), ('one', (2,), 'QQ'), ('three', (1, 1, 0), 'QQ'), ('less', (1, 1), 'Q'),
            ('none', (0, 0), '')):
        yield 'table-' + name, table_of(7, 4, sizes, payload.encode()), 7, 'CORRUPT'
    yield 'table-run-across', table_of(40, 20, (1, 1), b'\xf6\xf4'), 40, 'CORRUPT'
    yield 'table-run-across2', table_of(40, 20, (1, 2), b'\xf6\xf3y'), 40, 'CORRUPT'
    yield 'table-pad', table_of(9, 5, (1, 1), b'\0\1'), 9, 'CORRUPT'
    for name, sizes in (('short', (15, 12)), ('swapped', (12, 16)), ('wrap', (16, top)), ('wrap2', (top - 11, 40))):
        yield 'raw-table-' + name, table_of(7, 4, sizes, bytes(28), (1, 0)), 7, 'CORRUPT'
    yield 'raw-table-cut', table_of(7, 4, (16,), b'', (1, 0)), 7, 'CORRUPT'

    # Claims of n where ceil(n / 5), 4 n, ceil(n / B) or the table's size overflow 64 (or 32) bits.
    for n in (1 << 62, 1 << 63, (1 << 63) + 2, M64 - 4, M64 - 3, M64, 1 << 30, 1 << 32, (1 << 32) - 1):
        for name, b in (('3lc', head(n=varint(n), rest=ONE + b'\xff')), ('tq', head(0, 2, 1, varint(n), ONE)),
                        ('tq-byte', head(0, 2, 1, varint(n), ONE + b'\0')), ('raw', head(0, 1, 0, varint(n))),
                        ('raw16', head(1, 1, 0, varint(n), b'\0\0')), ('block1', table_of(n, 1, (1, 1), b'QQ')),
                        ('block2', table_of(n, 2, (), b'')), ('block2^28', table_of(n, MAX_BLOCK, (1,), b'y')),
                        ('raw-block1', table_of(n, 1, (), b'', (1, 0))),
                        ('raw-block3', table_of(n, 3, (), b'', (1, 0)))):
            yield 'huge-%x-%s' % (n, name), b, n, 'CORRUPT'
        yield 'huge-%x-size' % n, head(n=varint(n), rest=ONE + b'\xff'), 7, 'SIZE'
    yield 'huge-table', table_of(1 << 61, 1, (), b''), 1 << 61, 'CORRUPT'

    # Not what the encoder writes, but sequences that expand to exactly L bytes and so are to be taken.
    for p in ('79' * 14, 'f3' * 7, '79fe', 'fe79', 'f3fd', 'f8f8'):
        yield 'valid-run-' + p[:8], head(n=varint(70), rest=ONE + bytes.fromhex(p)), 70, 'OK'
    yield 'valid-run-order', head(n=varint(150), rest=ONE + bytes.fromhex('f3ff7979fc79')), 150, 'OK'
    yield 'valid-run-pad', head(n=varint(74), rest=ONE + bytes.fromhex('ff78')), 74, 'OK'
    yield 'valid-M0', head(rest=bytes(4) + pay), 7, 'OK'
    yield 'valid-M-subnormal', head(rest=b'\1\0\0\0' + pay), 7, 'OK'
    yield 'valid-M-largest', head(2, rest=b'\xff\xff\x7f\x7f' + pay), 7, 'OK'
    yield 'valid-block-largest', head(8, rest=varint(MAX_BLOCK) + table), 7, 'OK'
    yield 'valid-empty', head(n=b'\0'), 0, 'OK'
    yield 'valid-empty-block', head(8, n=b'\0', rest=b'\7'), 0, 'OK'
    yield 'valid-raw', raw, 7, 'OK'


def bad():
    def status(b, n):
        try:
            return 'OK', Frame(b, n)
        except Status as e:
            return str(e), None
    out = []
    for name, b, n, expected in bad_frames():
        found, frame = status(b, n)
        assert found == expected, (name, found, expected)
        out += ['name %s\nframe %s\nn %d\nstatus %s\n' % (name, hexa(b), n, found)]
        if found == 'SIZE':
            out += ['inspect %s\n' % status(b, None)[0]]
        if frame:
            out += ['decoded %s\n' % hexa(frame.decode('f32'))]
        out += ['\n']
    return out


def bad_state():
    out = []

    def add(name, ctx, b, expected):
        assert ctx.load_status(b) == expected, (name, ctx.load_status(b), expected)
        out.append('name %s\ncodec %s\ndtype %s\nfeedback %d\nn %d\nstate %s\nstatus %s\n\n' % (
            name, ctx.text, ctx.dtype, ctx.feedback, ctx.n, hexa(b), expected))

    def ctx(text='3lc:s=1.5', dtype='f32', n=10, feedback=1):
        c = Context(text, dtype, n, feedback, 0, 0x0123456789abcdef)
        c.compress(Random('state').gradient(n, dtype))
        return c
    c = ctx()
    good_bytes = c.state()
    open_bytes = good_bytes[:-4]

    def patch(at, new, b=open_bytes):
        return b[:at] + new + b[at + len(new):]
    for k in (0, 3, 4, 12, 32, 35):
        add('short%d' % k, c, good_bytes[:k], 'CORRUPT')
    for k in (36, 40, 41, 60, len(good_bytes) - 1):
        add('short%d' % k, c, good_bytes[:k], 'CHECKSUM')
    add('longer', c, good_bytes + b'\0', 'CHECKSUM')
    for k in range(4):
        add('magic%d' % k, c, seal(patch(k, b'x')), 'CORRUPT')
    for v in (b'\0', b'\2', b'\xff'):
        add('version%d' % v[0], c, patch(4, v, good_bytes), 'VERSION')
    add('version-size', ctx(n=9), patch(4, b'\2', good_bytes), 'VERSION')
    for k in (5, 6, 7, 8, 15, 16, 24, 31, 32, 40, 41, 44, 60, len(good_bytes) - 4, len(good_bytes) - 1):
        add('flip%d' % k, c, patch(k, bytes([good_bytes[k] ^ 1 << k % 8]), good_bytes), 'CHECKSUM')
    add('flip-size', ctx(n=9), patch(40, b'!', good_bytes), 'CHECKSUM')
    for n in (0, 9, 11):
        add('size%d' % n, ctx(n=n), good_bytes, 'SIZE')
    for n in (1 << 32 | 10, 1 << 62 | 10, M64):
        add('size-%x' % n, c, seal(patch(8, struct.pack('<Q', n))), 'SIZE')
    add('size-dtype', ctx(n=9, dtype='f16'), good_bytes, 'SIZE')
    add('size-codec', ctx(n=9), seal(patch(32, b'x')), 'SIZE')
    for dtype in ('f16', 'bf16'):
        add('dtype-' + dtype, ctx(dtype=dtype), good_bytes, 'PARAM')
    add('dtype3', c, seal(patch(5, b'\3')), 'PARAM')
    add('feedback-off', ctx(feedback=0), good_bytes, 'PARAM')
    add('feedback-on', c, ctx(feedback=0).state(), 'PARAM')
    add('feedback2', c, seal(patch(6, b'\2')), 'PARAM')
    add('dtype-length', ctx(dtype='f16'), seal(good_bytes), 'PARAM')
    for name, b in (('sealed-longer', open_bytes + b'\0'), ('sealed-word', open_bytes + bytes(4)),
                    ('sealed-shorter', open_bytes[:-1]), ('sealed-no-residual', open_bytes[:41]),
                    ('sealed-head', open_bytes[:32]), ('sealed-codec-longer', patch(7, b'\x0a')),
                    ('sealed-codec-255', patch(7, b'\xff')), ('sealed-codec-0', patch(7, b'\0')),
                    ('sealed-length-first', patch(32, b'x') + b'\0')):
        add(name, c, seal(b), 'CORRUPT')
    add('off-residual', ctx(feedback=0), seal(ctx(feedback=0).state()[:-4] + bytes(40)), 'CORRUPT')
    for text in (b'3lc:s=2.5', b'3lc:s=1,5', b'nonsense!', b'3lc:s=1.x', b'3lc+3lc:s', b'3lc:x=1.5', b'3lc:s=1.\0',
                 b'3lc\0s=1.5', b'raw:s=1.5'):
        add('codec-' + text.hex(), c, seal(patch(32, text)), 'PARAM')
    add('codec-empty', c, seal(open_bytes[:7] + b'\0' + open_bytes[8:32] + open_bytes[41:]), 'PARAM')
    add('codec-larger', c, ctx('raw').state(), 'CAPACITY')
    add('codec-smaller', ctx('raw'), good_bytes, 'OK')
    add('same', c, good_bytes, 'OK')
    return out


def files():
    return {name: HEAD % NOTES[name] + '\n' + ''.join(make()).rstrip('\n') + '\n'
            for name, make in (('good.txt', good), ('bad.txt', bad), ('bad_state.txt', bad_state))}
