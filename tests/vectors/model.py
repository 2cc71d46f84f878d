#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The second model of libthreelc's formats: 3lc, ternary+quartic and raw, written from the design and from the drawing
in src/frame.h alone, never from the C code, so that two readings of the same text check each other.

    model.py generate DIR                     writes good.txt, bad.txt and bad_state.txt
    model.py check DIR                        exit 1 at the first difference between DIR and what generate would write
    model.py bits -c CODEC FILE.npy...        frames of all rows of float32 traces, residual carried: sizes and CRC-32

Only the standard library is used. binary32 arithmetic is done in binary64 and rounded by struct: for one +, - or *
of two binary32 that is the correctly rounded result (53 >= 2 * 24 + 2 bits). NaNs are handled as bits, because a
conversion between float and double makes a signalling one quiet."""
import ast
import os
import re
import struct
import sys
import zlib
from collections import namedtuple
from fractions import Fraction
from math import copysign, inf, isfinite

DTYPES = {'f32': 0, 'f16': 1, 'bf16': 2}
WIDTH = {'f32': 4, 'f16': 2, 'bf16': 2}
MAX_BLOCK = 1 << 28
CANONICAL_NAN = 0x7fc00000
M64 = (1 << 64) - 1


class Status(Exception):
    """A tlc_status other than TLC_OK, by its name without TLC_ERR_."""


# ---- XXH3_64bits, default secret, seed 0 (xxHash specification) ----

SECRET = bytes.fromhex(
    'b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e'
    'e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d'
    '8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc'
    '8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e')
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MX1, MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25


def word(b, i, size=8):
    return int.from_bytes(b[i:i + size], 'little')


def fold(a, b):
    p = a * b
    return (p & M64) ^ (p >> 64)


def mix16(b, i, k):
    return fold(word(b, i) ^ word(SECRET, k), word(b, i + 8) ^ word(SECRET, k + 8))


def avalanche(h):
    h = ((h ^ (h >> 37)) * MX1) & M64
    return h ^ (h >> 32)


def avalanche64(h):  # the finish of XXH64
    h = ((h ^ (h >> 33)) * P64_2) & M64
    h = ((h ^ (h >> 29)) * P64_3) & M64
    return h ^ (h >> 32)


def rotl(v, k):
    return ((v << k) | (v >> (64 - k))) & M64


def xxh3_64(b):
    n = len(b)
    if n == 0:
        return avalanche64(word(SECRET, 56) ^ word(SECRET, 64))
    if n <= 3:
        v = b[0] << 16 | b[n >> 1] << 24 | b[n - 1] | n << 8
        return avalanche64(v ^ word(SECRET, 0, 4) ^ word(SECRET, 4, 4))
    if n <= 8:
        h = word(b, n - 4, 4) + (word(b, 0, 4) << 32) ^ word(SECRET, 8) ^ word(SECRET, 16)
        h = ((h ^ rotl(h, 49) ^ rotl(h, 24)) * MX2) & M64
        h = ((h ^ ((h >> 35) + n)) * MX2) & M64
        return h ^ (h >> 28)
    if n <= 16:
        lo = word(b, 0) ^ word(SECRET, 24) ^ word(SECRET, 32)
        hi = word(b, n - 8) ^ word(SECRET, 40) ^ word(SECRET, 48)
        return avalanche((n + int.from_bytes(lo.to_bytes(8, 'little'), 'big') + hi + fold(lo, hi)) & M64)
    if n <= 128:
        acc = n * P64_1
        for j in range((n - 1) // 32 + 1):  # pairs from both ends inwards
            acc += mix16(b, 16 * j, 32 * j) + mix16(b, n - 16 * (j + 1), 32 * j + 16)
        return avalanche(acc & M64)
    if n <= 240:
        acc = n * P64_1 + sum(mix16(b, 16 * j, 16 * j) for j in range(8))
        acc = avalanche(acc & M64) + sum(mix16(b, 16 * j, 16 * (j - 8) + 3) for j in range(8, n // 16))
        return avalanche((acc + mix16(b, n - 16, 136 - 17)) & M64)
    acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1]

    def stripe(i, k):
        for j, (v, s) in enumerate(zip(struct.unpack_from('<8Q', b, i), struct.unpack_from('<8Q', SECRET, k))):
            s ^= v
            acc[j ^ 1] = (acc[j ^ 1] + v) & M64
            acc[j] = (acc[j] + (s & 0xffffffff) * (s >> 32)) & M64
    for i in range((n - 1) // 64):
        stripe(64 * i, 8 * (i % 16))
        if i % 16 == 15:
            for j in range(8):
                acc[j] = ((acc[j] ^ (acc[j] >> 47) ^ word(SECRET, 128 + 8 * j)) * P32_1) & M64
    stripe(n - 64, 121)
    h = n * P64_1 + sum(fold(acc[2 * j] ^ word(SECRET, 11 + 16 * j), acc[2 * j + 1] ^ word(SECRET, 19 + 16 * j))
                        for j in range(4))
    return avalanche(h & M64)


def seal(b):
    return b + struct.pack('<I', xxh3_64(b) & 0xffffffff)


# ---- floats ----

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


def words(b, dtype='f32'):
    return struct.unpack('<%d%s' % (len(b) // WIDTH[dtype], 'I' if dtype == 'f32' else 'H'), b)


def unwords(v, dtype='f32'):
    return struct.pack('<%d%s' % (len(v), 'I' if dtype == 'f32' else 'H'), *v)


def widen(h, dtype):
    if dtype == 'bf16':
        return h << 16 | (0x400000 if h & 0x7fff > 0x7f80 else 0)
    if h & 0x7fff > 0x7c00:
        return (h & 0x8000) << 16 | CANONICAL_NAN | (h & 0x3ff) << 13
    return struct.unpack('<I', struct.pack('<f', struct.unpack('<e', struct.pack('<H', h))[0]))[0]


def narrow(b, dtype):
    nan = b & 0x7fffffff > 0x7f800000
    if dtype == 'bf16':
        return b >> 16 | 0x40 if nan else (b + 0x7fff + (b >> 16 & 1)) >> 16
    if nan:
        return b >> 16 & 0x8000 | 0x7e00 | b >> 13 & 0x3ff
    try:
        return struct.unpack('<H', struct.pack('<e', struct.unpack('<f', struct.pack('<I', b))[0]))[0]
    except OverflowError:
        return b >> 16 & 0x8000 | 0x7c00


def convert(b, src, dst):
    if src == dst:
        return b
    v = words(b, src) if src == 'f32' else [widen(h, src) for h in words(b, src)]
    return unwords(v if dst == 'f32' else [narrow(w, dst) for w in v], dst)


# ---- codec strings ----

Codec = namedtuple('Codec', 'values coding s block')
FORMS = {('3lc', ''): (2, 0x11), ('ternary', '+quartic+zerorun'): (2, 0x11), ('ternary', '+quartic'): (2, 1),
         ('raw', ''): (1, 0)}


def parse_codec(text):
    m = re.fullmatch(r'([a-z0-9]+)(?::([a-z]+=[0-9.]+(?:,[a-z]+=[0-9.]+)*))?((?:\+[a-z]+)*)', text)
    if not m or (m[1], m[3]) not in FORMS:
        raise Status('PARAM')
    s, block = 1.0, 0
    for key, number in (p.split('=') for p in (m[2].split(',') if m[2] else [])):
        if key == 's' and m[1] != 'raw' and re.fullmatch(r'\d+(\.\d+)?', number):
            exact = Fraction(number)  # rounded to binary32 once, so not by way of a double
            scale = 1 << (23 if exact >= 1 else 24)
            s = round(exact * scale) / scale
            if not 1 <= s < 2:
                raise Status('PARAM')
        elif key == 'block' and re.fullmatch(r'\d+', number) and 1 <= int(number) <= MAX_BLOCK:
            block = int(number)
        else:
            raise Status('PARAM')
    return Codec(*FORMS[m[1], m[3]], s, block)


# ---- stages ----

def quartic(q):
    L = -(-len(q) // 5)
    d = bytes(k + 1 for k in q) + bytes(5 * L - len(q))
    p = [d[k * L:(k + 1) * L] for k in range(5)]
    return bytes(81 * a + 27 * b + 9 * c + 3 * e + f for a, b, c, e, f in zip(*p))


def unquartic(b, n):
    L = -(-n // 5)
    if len(b) != L or (b and max(b) > 242):
        raise Status('CORRUPT')
    d = b''.join(bytes(v // w % 3 for v in b) for w in (81, 27, 9, 3, 1))
    if any(d[n:]):
        raise Status('CORRUPT')
    return [k - 1 for k in d[:n]]


def zerorun(b):
    def token(m):
        full, rest = divmod(len(m[0]), 14)
        return b'\xff' * full + (b'' if rest == 0 else b'y' if rest == 1 else bytes([241 + rest]))
    return re.sub(b'y+', token, b)  # 'y' is 121


def unzerorun(b, L):
    if sum(1 if v < 243 else v - 241 for v in b) != L:
        raise Status('CORRUPT')
    return b''.join(bytes([v]) if v < 243 else b'y' * (v - 241) for v in b)


# ---- frames ----

def varint(v):
    return bytes([v]) if v < 128 else bytes([v & 127 | 128]) + varint(v >> 7)


def read_varint(b, at):
    for i in range(at, min(at + 10, len(b))):
        if b[i] < 128:
            v = sum((b[j] & 127) << 7 * (j - at) for j in range(at, i + 1))
            if varint(v) != b[at:i + 1] or v > M64:
                break
            return v, i + 1
    raise Status('CORRUPT')


def header(dtype, checksum, values, coding, n, block):
    return (bytes([1, DTYPES[dtype] | checksum << 2 | (block > 0) << 3, values, coding]) + varint(n)
            + (varint(block) if block else b''))


def spans(n, block):
    return [(i, min(i + block, n)) for i in range(0, n, block)] if block else [(0, n)]


def write_frame(codec, dtype, checksum, n, parts):
    """parts: (scalars, payload) of each block"""
    b = header(dtype, checksum, codec.values, codec.coding, n, codec.block)
    if n and codec.block:
        b += b''.join(scalars + struct.pack('<I', len(payload)) for scalars, payload in parts)
        b += b''.join(payload for _, payload in parts)
    elif n:
        b += parts[0][0] + parts[0][1]
    return seal(b) if checksum else b


class Frame:
    """A frame read and checked in the order that the design gives; n None: whatever the frame says."""

    def __init__(self, data, n=None):
        if len(data) < 5 or data[1] & 4 and len(data) < 9:
            raise Status('CORRUPT')
        if data[0] != 1:
            raise Status('VERSION')
        if (data[2], data[3]) not in FORMS.values():
            raise Status('UNSUPPORTED')
        self.raw, zeroruns, flags = data[2] == 1, data[3] >> 4, data[1]
        if flags & 4:
            if seal(data[:-4]) != data:
                raise Status('CHECKSUM')
            data = data[:-4]
        self.n, at = read_varint(data, 4)
        if n is not None and n != self.n:
            raise Status('SIZE')
        if flags >> 4 or flags & 3 == 3:
            raise Status('CORRUPT')
        self.dtype = list(DTYPES)[flags & 3]
        self.block = 0
        if flags & 8:
            self.block, at = read_varint(data, at)
            if not 1 <= self.block <= MAX_BLOCK:
                raise Status('CORRUPT')
        scalar = 0 if self.raw else 4
        end = at
        entry = scalar + (4 if self.block else 0)
        if self.n:  # before anything of n's size is made
            end += entry * (-(-self.n // self.block) if self.block else 1)
        if end > len(data) or self.n > 70 * len(data):
            raise Status('CORRUPT')
        self.parts = []  # (M, symbols), or (None, bytes) of raw
        for start, stop in spans(self.n, self.block) if self.n else []:
            M = None if self.raw else word(data, at, 4)
            if M is not None and M >= 0x7f800000:
                raise Status('CORRUPT')
            size = word(data, at + scalar, 4) if self.block else len(data) - end
            at, payload, count = at + entry, data[end:end + size], stop - start
            if len(payload) != size or self.raw and size != count * WIDTH[self.dtype]:
                raise Status('CORRUPT')
            if not self.raw:
                payload = unquartic(unzerorun(payload, -(-count // 5)) if zeroruns else payload, count)
            self.parts.append((M, payload))
            end += size
        if end != len(data):
            raise Status('CORRUPT')

    def symbols(self):
        return None if self.raw else [k for _, q in self.parts for k in q]

    def decode(self, dtype):
        if self.raw:
            return convert(b''.join(p for _, p in self.parts), self.dtype, dtype)
        return convert(unwords([(0, M, M | 1 << 31)[k] for M, q in self.parts for k in q]), 'f32', dtype)

    def add(self, weight, sums):
        """weight: a binary32; sums: list of binary32 bits, returned anew"""
        def plus(a, v):  # a NaN in a is kept away by the callers of the ternary form
            r = f32(struct.unpack('<f', struct.pack('<I', a))[0] + v)
            return CANONICAL_NAN if r != r else struct.unpack('<I', struct.pack('<f', r))[0]
        if self.raw:
            return [plus(a, f32(weight * v)) for a, v in zip(sums, floats(self.decode('f32')))]
        w = [f32(weight * floats(struct.pack('<I', M))[0]) for M, q in self.parts for _ in q]
        return [plus(a, v * k) if k else a for a, v, k in zip(sums, w, self.symbols())]

    def nonzero(self):
        return sum(1 for w in words(self.decode('f32')) if w & 0x7fffffff)


# ---- contexts ----

class Context:
    def __init__(self, text, dtype, n, feedback=1, checksum=0, seed=0, residual=None):
        self.text, self.codec, self.dtype, self.n = text, parse_codec(text), dtype, n
        self.feedback, self.checksum, self.seed, self.step = feedback, checksum, seed, 0
        self.residual = (residual or bytes(4 * n)) if feedback else b''  # little-endian binary32

    def compress(self, grad):
        """grad: bytes of n values of dtype, or None to send from the residual alone"""
        x, r, c, parts = grad, self.residual, self.codec, []
        if self.feedback or c.values == 2:
            if grad is None:
                x = r
            else:
                x = convert(grad, self.dtype, 'f32')
                if self.feedback:
                    x = pack_row(a + b for a, b in zip(floats(r), floats(x)))
            v = floats(x)
            if not all(map(isfinite, v)):
                raise Status('NONFINITE')
        if c.values == 1:
            if self.feedback:
                x = convert(x, 'f32', self.dtype)
                sent = floats(convert(x, self.dtype, 'f32'))
                if not all(map(isfinite, sent)):
                    raise Status('NONFINITE')
                r = pack_row(a - b for a, b in zip(v, sent))
            parts = [(b'', x[WIDTH[self.dtype] * i:WIDTH[self.dtype] * j]) for i, j in spans(self.n, c.block)]
        else:
            rest = []
            for i, j in spans(self.n, c.block):
                xs = v[i:j]
                M = f32(max(map(abs, xs), default=0.0) * c.s)
                if not isfinite(M):
                    raise Status('NONFINITE')
                t = f32(0.5 * M)
                q = [(a > t) - (a < -t) for a in xs]
                rest += [a - M * k for a, k in zip(xs, q)]
                b = quartic(q)
                parts.append((struct.pack('<f', M), zerorun(b) if c.coding >> 4 else b))
            r = pack_row(rest) if self.feedback else r
        self.residual = r
        self.step += 1
        return write_frame(c, self.dtype, self.checksum, self.n, parts)

    def state(self):
        text = self.text.encode()
        return seal(b'TLCS' + struct.pack('<4B3Q', 1, DTYPES[self.dtype], self.feedback, len(text), self.n, self.seed,
                                          self.step) + text + self.residual)

    def load_status(self, b):
        """What tlc_state_load would say of these bytes; room is judged by the payload, which decides it at n > 8."""
        if len(b) < 36 or b[:4] != b'TLCS':
            return 'CORRUPT'
        version, dtype, feedback, c, n, _, _ = struct.unpack_from('<4B3Q', b, 4)
        if version != 1:
            return 'VERSION'
        if seal(b[:-4]) != b:
            return 'CHECKSUM'
        if n != self.n:
            return 'SIZE'
        if dtype != DTYPES[self.dtype] or feedback != self.feedback:
            return 'PARAM'
        if len(b) != 36 + c + 4 * n * feedback:
            return 'CORRUPT'
        try:
            codec = parse_codec(b[32:32 + c].decode('latin-1'))
        except Status as e:
            return str(e)
        return 'CAPACITY' if codec.values < self.codec.values else 'OK'


def read_npy(path):
    """rows of a two-dimensional little-endian float32 array, as bytes"""
    with open(path, 'rb') as f:
        b = f.read()
    if b[:6] != b'\x93NUMPY':
        sys.exit('%s: not a .npy file' % path)
    size, start = (word(b, 8, 2), 10) if b[6] == 1 else (word(b, 8, 4), 12)
    head = ast.literal_eval(b[start:start + size].decode('latin-1'))
    if head['descr'] != '<f4' or head['fortran_order'] or len(head['shape']) != 2:
        sys.exit('%s: not rows of little-endian float32' % path)
    steps, n = head['shape']
    return [b[start + size + 4 * n * i:start + size + 4 * n * (i + 1)] for i in range(steps)]


# ---- the vectors ----

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
            sums = [self.addend(rnd, q is None or q[i] == 0) for i in range(n)]
            out += [('decoded_f16', hexa(f.decode('f16'))), ('decoded_bf16', hexa(f.decode('bf16'))),
                    ('add_weight', struct.pack('<f', weight).hex()), ('add_sum0', hexa(unwords(sums))),
                    ('add_sum', hexa(unwords(f.add(weight, sums))))]
            if q is not None:
                out += [('mask', hexa(unwords([0 if k else a for a, k in zip(sums, q)])))]
        out += [('nonzero', f.nonzero())]
        self.out += ['%s %s\n' % kv for kv in out] + ['\n']
        self.count += 1

    @staticmethod
    def addend(rnd, nan_allowed):
        kind, sign = rnd.bits(3), rnd.bits(1) << 31
        if kind == 0:
            return sign
        if kind == 1:
            return sign | rnd.bits(23)
        if kind == 2:
            return sign | 0x7f800000
        if kind == 3 and nan_allowed:
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


# ---- command line ----

def bits(codec, paths):
    def line(name, values, size, crc):
        print('%-24s values %9d  frame bytes %9d  bits/value %.9f  crc32 %08x' % (name, values, size,
                                                                            size * 8 / max(values, 1), crc))
    values = size = crc = 0
    for path in paths:
        rows = read_npy(path)
        ctx = Context(codec, 'f32', len(rows[0]) // 4, feedback=int(not codec.startswith('raw')))
        frames = b''.join(ctx.compress(g) for g in rows)
        line(os.path.basename(path), ctx.n * len(rows), len(frames), zlib.crc32(frames))
        values, size, crc = values + ctx.n * len(rows), size + len(frames), zlib.crc32(frames, crc)
    line('total', values, size, crc)


def main(argv):
    if len(argv) == 3 and argv[1] in ('generate', 'check'):
        for name, text in files().items():
            path = os.path.join(argv[2], name)
            if argv[1] == 'generate':
                with open(path, 'w', newline='\n') as f:
                    f.write(text)
                continue
            with open(path, newline='') as f:
                found = f.read()
            if found != text:
                a, b = found.split('\n') + ['<end>'], text.split('\n') + ['<end>']
                i = next(i for i in range(len(a)) if i >= len(b) or a[i] != b[i])
                print('%s:%d: %.100s\n  the model says: %.100s' % (path, i + 1, a[i], b[i] if i < len(b) else ''))
                return 1
    elif len(argv) > 4 and argv[1:3] == ['bits', '-c']:
        try:
            bits(argv[3], argv[4:])
        except Status as e:
            sys.exit('bits: %s' % e)
    else:
        sys.exit(__doc__)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv))
