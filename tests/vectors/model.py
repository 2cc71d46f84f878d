#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The second model of libthreelc's formats: every codec, frame and state, written from the design and from the drawing
in src/docs/format.md alone, never from the C code, so that two readings of the same text check each other.

    model.py generate DIR                     writes good.txt, bad.txt, bad_state.txt, delta.txt and weights.txt
    model.py check DIR                        exit 1 at the first difference between DIR and what generate would write
    model.py bits [--cold] -c CODEC FILE.npy...
                                              frames of all rows of float32 traces, seed 0: sizes and CRC-32. A codec
                                              with error feedback by default starts from FILE.residual.npy if there is
                                              such a file, with --cold from zero

Only the standard library is used. The lossy stages are in values.py, the lossless ones in packing.py, codec strings in
codec.py, float arithmetic in ieee.py, random words in philox.py, checksums in xxh3.py. This file has frames, contexts,
states and the command line; cases.py says what the vectors are."""
import ast
import os
import struct
import sys
import zlib
from math import isfinite

import philox
from codec import (GOLOMB, INT8, MAX_BLOCK, ONEBIT, RAW, SECOND, SPARSE_BINARY, TERNARY, inspected, known,
                   parse_codec, scalar_count)
from ieee import (CANONICAL_NAN, DTYPES, INFINITE, MINUS, WIDTH, Status, bits_of, convert, corrupt_if, f32, float_of,
                  floats, pack_row, unwords, words)
from packing import read_varint, varint
from values import decode, encode, expand
from xxh3 import word, xxh3_64


def seal(b):
    return b + struct.pack('<I', xxh3_64(b) & 0xffffffff)


# ---- frames ----

def header(dtype, checksum, values, coding, n, block):
    return (bytes([1, DTYPES[dtype] | checksum << 2 | (block > 0) << 3, values, coding]) + varint(n)
            + (varint(block) if block else b''))


def spans(n, block):
    return [(i, min(i + block, n)) for i in range(0, n, block)] if block else [(0, n)]


def second(codec, payload, n):
    """0x10 for a ternary+golomb payload of n values that has quartic bytes: golomb codes are shorter than those"""
    return SECOND * ((codec.values, codec.coding, len(payload)) == (TERNARY, GOLOMB, -(-n // 5)))


def write_frame(codec, dtype, checksum, n, parts):
    """parts: (scalars, payload) of each block"""
    form = second(codec, parts[0][1], n) if n and not codec.block else 0
    b = header(dtype, checksum, codec.values, codec.coding | form, n, codec.block)
    if n and codec.block:
        b += b''.join(pack_row(scalars) + struct.pack('<I', len(payload) | second(codec, payload, stop - start) << 27)
                      for (scalars, payload), (start, stop) in zip(parts, spans(n, codec.block)))
        b += b''.join(payload for _, payload in parts)
    elif n:
        b += pack_row(parts[0][0]) + parts[0][1]
    return seal(b) if checksum else b


class Frame:
    """A frame, read and checked in the order of the design. n is that of the caller; None: the n in the frame."""

    def __init__(self, data, n=None):
        self.data = data
        corrupt_if(len(data) < 5 or data[1] & 4 and len(data) < 9)
        if data[0] != 1:
            raise Status('VERSION')
        flags, self.values, self.coding = data[1:4]
        if not known(self.values, self.coding):
            raise Status('UNSUPPORTED')
        if flags & 4:
            if seal(data[:-4]) != data:
                raise Status('CHECKSUM')
            data = data[:-4]
        self.n, at = read_varint(data, 4)
        if n is not None and n != self.n:
            raise Status('SIZE')
        corrupt_if(flags >> 4 or flags & 3 == 3)
        self.dtype = list(DTYPES)[flags & 3]
        self.block = 0
        if flags & 8:
            self.block, at = read_varint(data, at)
            corrupt_if(not 1 <= self.block <= MAX_BLOCK or (self.values, self.coding) == (TERNARY, GOLOMB | SECOND))
        scalars = 4 * scalar_count(self.values, self.coding)
        entry = scalars + (4 if self.block else 0)
        end = at
        if self.n:  # before anything of the table's size is made
            end += entry * (-(-self.n // self.block) if self.block else 1)
        corrupt_if(end > len(data))
        self.parts = []  # (length, Part), or (length, bytes) of raw
        for start, stop in spans(self.n, self.block) if self.n else []:
            size = word(data, at + scalars, 4) if self.block else len(data) - end
            form = size >> 31 if self.block else 0  # bit 31 of a block's length
            size -= form << 31
            corrupt_if(form and (self.values, self.coding) != (TERNARY, GOLOMB))
            payload, count = data[end:end + size], stop - start
            corrupt_if(len(payload) != size or self.values == RAW and size != count * WIDTH[self.dtype])
            part = payload if self.values == RAW else decode(self.values, self.coding | form * SECOND,
                                                             words(data[at:at + scalars]), payload, count)
            self.parts.append((count, part))
            at += entry
            end += size
        corrupt_if(end != len(data))

    def symbolic(self):
        return self.values in (TERNARY, SPARSE_BINARY)

    def has_zero(self):
        return self.values not in (RAW, ONEBIT)

    def decode(self, dtype):
        if self.values == RAW:
            return convert(b''.join(p for _, p in self.parts), self.dtype, dtype)
        return convert(unwords([b for count, p in self.parts for b in expand(p, count)]), 'f32', dtype)

    def sent(self):
        """(index, binary32 bits) of the values that are added and masked: those whose symbol is not 0 if the codec has
        symbols, those that are not 0 if it has a zero, else all"""
        if self.values == RAW:
            return list(enumerate(words(self.decode('f32'))))
        pairs, first = [], 0
        for count, p in self.parts:
            pairs += [(first + i, b) for i, b in zip(p.at, p.bits)
                      if self.symbolic() or not self.has_zero() or b & ~MINUS]
            first += count
        return pairs

    def add(self, weight, sums):
        """the new sums; weight: a binary32; sums: a list of binary32 bits"""
        out = list(sums)
        for i, b in self.sent():
            if self.symbolic() and sums[i] & ~MINUS > INFINITE:  # a NaN that was there stays, made quiet
                out[i] |= 0x400000
                continue
            r = f32(float_of(sums[i]) + f32(weight * float_of(b)))  # w * q: rounding is the same for both signs
            out[i] = CANONICAL_NAN if r != r else bits_of(r)
        return out

    def mask(self, momentum):
        out = list(momentum)
        for i, _ in self.sent():
            out[i] = 0
        return out

    # What tlc_inspect tells.
    def nonzero(self):
        return len(self.sent()) if self.has_zero() else 'unknown'

    def clipped(self):
        return 0 if self.values == RAW else sum(p.clipped for _, p in self.parts)

    def text(self):
        return inspected(self.values, self.coding, self.block)


# ---- contexts ----

class Context:
    def __init__(self, text, dtype, n, feedback=1, checksum=0, seed=0, residual=None):
        """feedback None: the codec's default"""
        self.text, self.codec, self.dtype, self.n = text, parse_codec(text), dtype, n
        self.feedback = self.codec.feedback if feedback is None else feedback
        self.checksum, self.seed, self.step = checksum, seed, 0
        self.residual = (residual or bytes(4 * n)) if self.feedback else b''  # little-endian binary32

    def compress(self, grad):
        """grad: bytes of n values of dtype, or None to send from the residual alone"""
        x, r, c, parts = grad, self.residual, self.codec, []
        if self.feedback or c.values != RAW:
            if grad is None:
                x = r
            else:
                x = convert(grad, self.dtype, 'f32')
                if self.feedback:
                    x = pack_row(a + b for a, b in zip(floats(r), floats(x)))
            v = floats(x)
            if not all(map(isfinite, v)):
                raise Status('NONFINITE')
        if c.values == RAW:
            if self.feedback:
                x = convert(x, 'f32', self.dtype)
                sent = floats(convert(x, self.dtype, 'f32'))
                if not all(map(isfinite, sent)):
                    raise Status('NONFINITE')
                r = pack_row(a - b for a, b in zip(v, sent))
            parts = [((), x[WIDTH[self.dtype] * i:WIDTH[self.dtype] * j]) for i, j in spans(self.n, c.block)]
        else:
            sent = []  # decoded as the receiver decodes it
            for i, j in spans(self.n, c.block) if self.n else []:
                scalars, payload = encode(c, v[i:j], lambda m: philox.random_words(self.seed, self.step, i, m))
                parts.append((scalars, payload))
                if self.feedback:
                    sent += expand(decode(c.values, c.coding | second(c, payload, j - i), words(pack_row(scalars)),
                                          payload, j - i), j - i)
            if self.feedback:
                r = pack_row(a - b for a, b in zip(v, floats(unwords(sent))))
        self.residual = r
        self.step += 1
        return write_frame(c, self.dtype, self.checksum, self.n, parts)

    def state(self):
        text = self.text.encode()
        return seal(b'TLCS' + struct.pack('<4B3Q', 1, DTYPES[self.dtype], self.feedback, len(text), self.n, self.seed,
                                          self.step) + text + self.residual)

    def room(self, codec):
        """the largest payload; if n > 8 it decides whether a context has room for the codec. Only for simple codecs."""
        return {RAW: WIDTH[self.dtype] * self.n, INT8: self.n, TERNARY: -(-self.n // 5)}[codec.values]

    def load_status(self, b):
        """the status of tlc_state_load for these bytes"""
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
        return 'CAPACITY' if self.room(codec) > self.room(self.codec) else 'OK'


def read_npy(path):
    """rows of a one- or two-dimensional little-endian float32 array, as bytes"""
    with open(path, 'rb') as f:
        b = f.read()
    if b[:6] != b'\x93NUMPY':
        sys.exit('%s: not a .npy file' % path)
    size, start = (word(b, 8, 2), 10) if b[6] == 1 else (word(b, 8, 4), 12)
    head = ast.literal_eval(b[start:start + size].decode('latin-1'))
    if head['descr'] != '<f4' or head['fortran_order'] or len(head['shape']) not in (1, 2):
        sys.exit('%s: not rows of little-endian float32' % path)
    steps, n = (1, *head['shape'])[-2:]
    return [b[start + size + 4 * n * i:start + size + 4 * n * (i + 1)] for i in range(steps)]


# ---- command line ----

def bits(codec, paths, cold):
    def line(name, values, size, crc):
        print('%-24s values %9d  frame bytes %9d  bits/value %.9f  crc32 %08x' % (name, values, size,
                                                                            size * 8 / max(values, 1), crc))
    values = size = crc = 0
    for path in paths:
        rows = read_npy(path)
        start = path[:-len('.npy')] + '.residual.npy'
        residual = None if cold or not os.path.exists(start) else read_npy(start)[0]
        ctx = Context(codec, 'f32', len(rows[0]) // 4, None, residual=residual)
        frames = b''.join(ctx.compress(g) for g in rows)
        line(os.path.basename(path), ctx.n * len(rows), len(frames), zlib.crc32(frames))
        values, size, crc = values + ctx.n * len(rows), size + len(frames), zlib.crc32(frames, crc)
    line('total', values, size, crc)


def main(argv):
    philox.check()
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
    elif argv[1:3] in (['bits', '-c'], ['bits', '--cold']):
        cold = argv[2] == '--cold'
        if len(argv) < 5 + cold or argv[2 + cold] != '-c':
            sys.exit(__doc__)
        try:
            bits(argv[3 + cold], argv[4 + cold:], cold)
        except Status as e:
            sys.exit('bits: %s' % e)
    else:
        sys.exit(__doc__)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv))
