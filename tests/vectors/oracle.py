#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The model as an oracle: valid frames, deltas and messages of weights are altered, their checksums are made right
again, and the library and the model must say the same of them: accepted, or refused with the same status; the same
values, the same description. What is refused changes no output.

    oracle.py COUNT [SEED]      COUNT of each kind. PYTHONPATH has src/python, THREELC_LIBRARY is the library

A disagreement is printed with the bytes in hex. The exit status is 1 if there was one."""
import random
import sys
from collections import Counter

import numpy
import threelc

import delta
import delta_cases
import weights
from ieee import Status, convert, pack_row, unwords
from manifest import golden
from model import Context, Frame, seal
from packing import as_bytes, binary, read_varint, varint
from record import Random

FLOATS = {'f32': 'f4', 'f16': 'f2', 'bf16': 'u2'}
UNITS = {'f32': 'f4', 'f16': 'f2', 'bf16': 'u2', 'i32': 'i4', 'i64': 'i8', 'f64': 'f8'}
LARGE = (0, 1, 2, 127, 128, 16383, 65535, 65536, 65537, 2**28, 2**31, 2**32 - 1, 2**32, 2**62, 2**63, 2**64 - 1)


def altered(rnd, b, others):
    """bytes near b: bits, bytes and numbers that changed, what was cut out or put in, the rest of another"""
    b = bytearray(b)
    for _ in range(rnd.choice((1, 1, 1, 2, 3, 6))):
        at = rnd.randrange(len(b) + 1) if rnd.random() < 0.6 else rnd.randrange(min(len(b), 40) + 1)
        way = rnd.randrange(8)
        if way < 3 and at < len(b):
            b[at] ^= 1 << rnd.randrange(8)
        elif way == 3 and at < len(b):
            b[at] = rnd.choice((0, 1, 2, 3, 127, 128, 243, 255, rnd.randrange(256)))
        elif way == 4:
            del b[at:at + rnd.choice((1, 1, 2, 4, 8, 30))]
        elif way == 5:
            b[at:at] = rnd.choice((b'\0', b'\xff', varint(rnd.choice(LARGE)), bytes(b[at:at + rnd.randrange(1, 9)])))
        elif way == 6:
            size = rnd.choice((1, 2, 4, 8))
            b[at:at + size] = (rnd.choice(LARGE) + rnd.randrange(-2, 3) & 2**64 - 1).to_bytes(8, 'little')[:size]
        elif way == 7:
            other = rnd.choice(others)
            b[at:] = other[rnd.randrange(len(other) + 1):] if rnd.random() < 0.5 else other[at:]
    return bytes(b)


def verdict(function, *arguments):
    """('OK', what it returned), or (the name of a status, None)"""
    try:
        return 'OK', function(*arguments)
    except Status as error:
        return str(error), None
    except threelc.Error as error:
        return error.status.name, None


class Frames:
    """of all codecs with golden vectors, as values of each dtype, as summands, and described"""

    def __init__(self, rnd):
        self.good = []
        for _, text, _ in golden():
            for n in (1, 9, 70):
                x = pack_row(rnd.choice((0.0, 1e-3, 1.0)) * rnd.gauss(0, 1) for _ in range(n))
                dtype = rnd.choice(list(FLOATS))
                checksum = rnd.randrange(2)
                self.good.append((Context(text, dtype, n, 0, checksum).compress(convert(x, 'f32', dtype)), n, checksum))
        self.others = [b for b, _, _ in self.good]

    def draw(self, rnd):
        b, n, checksum = rnd.choice(self.good)
        b = altered(rnd, b[:-4] if checksum else b, self.others)
        return (seal(b) if checksum else b), n + (rnd.choice((-1, 1)) if rnd.random() < 0.03 else 0)

    def check(self, rnd, case):
        b, n = case
        dtype = rnd.choice(list(FLOATS))
        out = numpy.full(n, 7, FLOATS[dtype])
        before, sums = out.tobytes(), [rnd.getrandbits(32) for _ in range(n)]
        total = numpy.frombuffer(bytearray(unwords(sums)), 'f4')
        weight = rnd.choice((1.0, 0.5, -3.0))
        yield 'decompress', verdict(lambda: Frame(b, n).decode(dtype)), verdict(
            lambda: threelc.decompress(b, out, dtype='bf16' if dtype == 'bf16' else None).tobytes())
        found, theirs = verdict(Frame, b, n), verdict(lambda: threelc.decompress_add(b, total, weight).tobytes())
        yield 'decompress_add', (found[0], found[1] and unwords(found[1].add(weight, sums))), theirs
        if theirs[0] != 'OK':
            yield 'unchanged', (before, unwords(sums)), (out.tobytes(), total.tobytes())
        found, theirs = verdict(Frame, b), verdict(threelc.inspect, b)
        yield 'inspect', (found[0], found[1] and described(found[1])), (theirs[0], theirs[1] and (
            theirs[1].n, theirs[1].dtype.name.lower(), theirs[1].codec, theirs[1].block,
            'unknown' if theirs[1].nonzero is None else theirs[1].nonzero, theirs[1].clipped))


def described(frame):
    return frame.n, frame.dtype, frame.text(), frame.block, frame.nonzero(), frame.clipped()


def pieces(kind, payload):
    """the parts of a block of a delta: lists and codes, streams and extra bits"""
    found, at = [], 0
    if kind == delta.DENSE:
        at = 2 + (payload[1] + 2) // 2
        found, sizes = [payload[:at]], []
        for _ in range(delta.STREAMS):
            size, at = read_varint(payload, at)
            sizes.append(size)
        for size in sizes:
            found.append(payload[at:at + size])
            at += size
    elif kind == delta.SPARSE:
        for _ in range(2):
            size, at = read_varint(payload, at)
            found.append(payload[at:at + size])
            at += size
    return found + [payload[at:]]


def joined(kind, parts):
    if kind == delta.DENSE:
        return parts[0] + b''.join(varint(len(part)) for part in parts[1:-1]) + b''.join(parts[1:])
    return b''.join(varint(len(part)) + part for part in parts[:-1]) + parts[-1]


def dense(rnd, n, dtype, has_base):
    """a dense block of any symbols, whose prefix code is perhaps not full"""
    _, bits, mantissa, _ = delta.DTYPES[dtype]
    floats = mantissa and not has_base and bits > 8
    classes = 1 << bits if bits <= 8 else 1 << bits - 1 - mantissa if floats else bits + 1
    few = [rnd.choice((0, classes - 1, rnd.randrange(classes))) for _ in range(4)]
    symbols = [rnd.choice(few) for _ in range(n)]
    length = delta.huffman(Counter(symbols))
    length[rnd.choice(symbols)] += rnd.random() < 0.3
    code = delta.codes(length)
    streams = [as_bytes(''.join(code[c] for i, c in enumerate(symbols) if i // delta.TURN % delta.STREAMS == s))
               for s in range(delta.STREAMS)]
    counts = [0 if bits <= 8 else 1 + mantissa if floats else c for c in symbols]
    extras = ''.join(binary(rnd.getrandbits(k) & -(rnd.random() < 0.5) if k else 0, k) for k in counts)
    return joined(delta.DENSE, [delta.describe(length), *streams, as_bytes(extras)])


class Deltas:
    """of all dtypes, applied and folded"""

    def __init__(self, rnd):
        self.good = []
        draws = Random('oracle %d' % rnd.getrandbits(32))
        for dtype in delta.DTYPES:
            for kind in delta_cases.KINDS:
                n = 2 * rnd.randrange(1, 40)
                old = delta_cases.weights(draws, n, dtype)
                after = [delta_cases.change(kind, i, x, draws, dtype) for i, x in enumerate(old)]
                base, after = delta.unwords(old, dtype), delta.unwords(after, dtype)
                self.good += [(delta.encode(start, after, dtype, digests), base, dtype)
                              for start in (base, None) for digests in range(3)]
        self.others = [b[:-4] for b, _, _ in self.good]

    def draw(self, rnd):
        b, base, dtype = rnd.choice(self.good)
        frame = delta.Frame(b, len(delta.words(base, dtype)), dtype)
        if rnd.random() < 0.3 or frame.same:
            b = seal(altered(rnd, b[:-4], self.others))
        else:
            b = self.within(rnd, frame, len(delta.words(base, dtype)), dtype)
        if rnd.random() < 0.03:
            size = len(base) // len(delta.words(base, dtype))
            base = base[:-2 * size] or base * 2
        return b, base, dtype

    def within(self, rnd, frame, n, dtype):
        """a part of a block is altered, and all lengths are right"""
        blocks = list(frame.payloads)
        i = rnd.randrange(len(blocks))
        kind, payload = blocks[i]
        if rnd.random() < 0.15:
            blocks[i] = delta.DENSE, dense(rnd, n, dtype, frame.has_base)
            return self.with_blocks(frame, blocks, n, dtype)
        parts = pieces(kind, payload)
        part = rnd.randrange(len(parts))
        parts[part] = altered(rnd, parts[part], self.others)
        if rnd.random() < 0.3:
            parts[part] = parts[part][:len(payload)] + rnd.choice((b'', b'\0', b'\0\0', b'\x80'))
        blocks[i] = (rnd.randrange(4) if rnd.random() < 0.03 else kind), joined(kind, parts)
        return self.with_blocks(frame, blocks, n, dtype)

    @staticmethod
    def with_blocks(frame, blocks, n, dtype):
        return delta.assemble(dtype, n, blocks, frame.has_base, frame.digests, list(map(list, frame.of_blocks)))

    def check(self, rnd, case):
        b, base, dtype = case
        kind, n = UNITS.get(dtype, 'u1'), len(delta.words(base, dtype))
        out = numpy.frombuffer(bytearray(base), kind)
        applied = verdict(delta.decode, b, base, dtype)
        yield 'check', (applied[0], None), verdict(lambda: threelc.delta.check(b, out, dtype=dtype))
        yield 'apply', applied, verdict(lambda: threelc.delta.apply(b, out, dtype=dtype).tobytes())
        if applied[0] != 'OK':
            yield 'unchanged', base, out.tobytes()
        valid = verdict(delta.Frame, b, n, dtype)[0] == 'OK' and applied[0] in ('OK', 'BASE')
        if valid:
            chain = [b] * rnd.randrange(1, 4)
            yield 'fold', verdict(delta.fold, chain, n, dtype), verdict(threelc.delta.fold, chain)
            info = threelc.delta.inspect(b)
            frame = delta.Frame(b, n, dtype)
            kinds = Counter(kind for kind, _ in frame.payloads)
            told = [kinds[kind] for kind in (delta.SAME, delta.SPARSE, delta.DENSE, delta.RAW)]
            if not frame.same:
                yield 'inspect', told, [info.unchanged_blocks, info.sparse_blocks, info.dense_blocks, info.raw_blocks]


class Messages:
    """of weights, opened"""

    def __init__(self, rnd):
        self.good = [weights.message(b'a trainer of six', 1 + rnd.getrandbits(20), note, tensors)[0]
                     for name, note, tensors in weights.models() if name != 'names']
        self.others = self.good

    def draw(self, rnd):
        return altered(rnd, rnd.choice(self.good), self.others)

    def check(self, rnd, case):
        b = weights.reseal(case) if len(case) > 80 and rnd.random() < 0.95 else case
        yield 'open', verdict(weights.check, b), (verdict(lambda: list(threelc.weights.Reader(b)))[0], None)


def main(argv):
    if len(argv) not in (2, 3):
        sys.exit(__doc__)
    if sys.byteorder == 'big':  # the model's bytes are little-endian
        return 77
    count, seed, wrong = int(argv[1]), int(argv[2]) if len(argv) > 2 else 1, 0
    for kind in (Frames, Deltas, Messages):
        rnd = random.Random('%s %d' % (kind.__name__, seed))
        subject, found = kind(rnd), Counter()
        for _ in range(count):
            case = subject.draw(rnd)
            for what, model, library in subject.check(rnd, case):
                if what in ('decompress', 'apply', 'open'):
                    found[library[0]] += 1
                if model != library:
                    wrong += 1
                    print('%s: the model says %.300r, the library %.300r of %r' % (
                        what, model, library, [part.hex() if isinstance(part, bytes) else part
                                               for part in (case if isinstance(case, tuple) else (case,))]))
        print('%s: %d, of them %s' % (kind.__name__, count, ', '.join('%d %s' % (n, name) for name, n in
                                                                     found.most_common())))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv))
