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

from xxh3 import M64, word, xxh3_64

DTYPES = {'f32': 0, 'f16': 1, 'bf16': 2}
WIDTH = {'f32': 4, 'f16': 2, 'bf16': 2}
MAX_BLOCK = 1 << 28
CANONICAL_NAN = 0x7fc00000


class Status(Exception):
    """A tlc_status other than TLC_OK, by its name without TLC_ERR_."""


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
        def plus(a, v):
            r = f32(struct.unpack('<f', struct.pack('<I', a))[0] + v)
            return CANONICAL_NAN if r != r else struct.unpack('<I', struct.pack('<f', r))[0]
        if self.raw:
            return [plus(a, f32(weight * v)) for a, v in zip(sums, floats(self.decode('f32')))]

        def plus_symbol(a, v):  # a NaN that was there stays, made quiet
            return a | 0x400000 if a & 0x7fffffff > 0x7f800000 else plus(a, v)
        w = [f32(weight * floats(struct.pack('<I', M))[0]) for M, q in self.parts for _ in q]
        return [plus_symbol(a, v * k) if k else a for a, v, k in zip(sums, w, self.symbols())]

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
        from cases import files  # the cases import this module
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
