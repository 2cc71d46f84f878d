# SPDX-License-Identifier: MIT
"""Deltas of weights as include/threelc/delta.h and src/docs/format.md describe them."""
import struct

from ieee import Status, corrupt_if
from model import seal
from packing import as_bits, as_bytes, binary, golomb, read_varint, ungolomb, varint
from xxh3 import M64, xxh3_64

BLOCK, PIECE = 65536, 4096
# number, bits of a unit, bits of a float's mantissa, units of a weight
DTYPES = {'f32': (0, 32, 23, 1), 'f16': (1, 16, 10, 1), 'bf16': (2, 16, 7, 1), 'f8_e4m3': (3, 8, 3, 1),
          'f8_e5m2': (4, 8, 2, 1), 'f4_e2m1': (5, 4, 1, 1), 'u8': (6, 8, None, 1), 'u4': (7, 4, None, 1),
          'i32': (8, 32, None, 1), 'i64': (9, 32, None, 2), 'f64': (10, 32, None, 2)}
GRADIENTS = ('f32', 'f16', 'bf16')  # their frames have version 1
SAME, SPARSE, DENSE, RAW = range(4)
MAX_CODE, MAX_ORDER, LENGTH_ROOM = 10, 31, 4
STREAMS, TURN = 4, 1024  # of classes; the weights that one has before it is the next one's turn


def words(b, dtype):
    """little-endian weights as integers"""
    _, bits, _, per_weight = DTYPES[dtype]
    if bits == 4:
        return [x for v in b for x in (v & 15, v >> 4)]
    size = bits * per_weight // 8
    return [int.from_bytes(b[i:i + size], 'little') for i in range(0, len(b) - size + 1, size)]


def unwords(v, dtype):
    _, bits, _, per_weight = DTYPES[dtype]
    if bits == 4:
        return bytes(v[i] | v[i + 1] << 4 for i in range(0, len(v), 2))
    return b''.join(x.to_bytes(bits * per_weight // 8, 'little') for x in v)


def blocks_of(weights, dtype):
    """the units of each block: of weights of 64 bits the lower halves of many, then the upper ones"""
    _, bits, _, per_weight = DTYPES[dtype]
    for i in range(0, len(weights), BLOCK):
        for plane in range(per_weight):
            yield [x >> plane * bits & (1 << bits) - 1 for x in weights[i:i + BLOCK]]


def weights_of(blocks, dtype):
    _, bits, _, per_weight = DTYPES[dtype]
    found = []
    for i in range(0, len(blocks), per_weight):
        found += [sum(x << plane * bits for plane, x in enumerate(halves)) for halves in zip(*blocks[i:i + per_weight])]
    return found


def pack(units, dtype):
    """units of a block as little-endian bytes"""
    return unwords(units, dtype if DTYPES[dtype][3] == 1 else 'i32')


def ordered(x, dtype):
    _, bits, mantissa, _ = DTYPES[dtype]
    return x ^ (1 << bits - 1) - 1 if mantissa and x >> bits - 1 else x


def difference(base, after, dtype):
    bits = DTYPES[dtype][1]
    d = ordered(after, dtype) - ordered(base, dtype) & (1 << bits) - 1
    return d - (1 << bits) if d >> bits - 1 else d


def moved(base, d, dtype):
    return ordered(ordered(base, dtype) + d & (1 << DTYPES[dtype][1]) - 1, dtype)


def digest(b, dtype, first=0):
    """first: the number of the first piece"""
    size = PIECE * DTYPES[dtype][1] * DTYPES[dtype][3] // 8
    return sum(xxh3_64(b[i:i + size], first + i // size) for i in range(0, len(b), size)) & M64


def block_digests(b, dtype):
    """of each 65,536 weights"""
    size = BLOCK * DTYPES[dtype][1] * DTYPES[dtype][3] // 8
    return [digest(b[i:i + size], dtype, i // size * (BLOCK // PIECE)) for i in range(0, len(b), size)]


class Bits:
    def __init__(self, b):
        self.text, self.at = as_bits(b), 0

    def take(self, count):
        corrupt_if(self.at + count > len(self.text))
        self.at += count
        return int('0' + self.text[self.at - count:self.at], 2)

    def end(self):
        corrupt_if(len(self.text) - self.at > 7 or '1' in self.text[self.at:])


# ---- sparse blocks ----

def exponential_golomb(v, r):
    q = (v >> r) + 1
    rest = q.bit_length() - 1
    return '1' * rest + '0' + binary(q - (1 << rest), rest) + binary(v & (1 << r) - 1, r)


def order_for(numbers):
    """that of the shortest codes, if all numbers of as many bits count as one"""
    lengths = [v.bit_length() for v in numbers]
    return min(range(MAX_ORDER + 1), key=lambda r: sum(1 + r if c <= r else 2 * (c - r) + 1 + r for c in lengths))


def sparse(differences, most):
    """None: it would be longer than most"""
    at = [i for i, d in enumerate(differences) if d]
    positions = golomb(len(differences), at, [differences[i] < 0 for i in at])
    if len(positions) > most - LENGTH_ROOM:
        return None
    large = [j for j, i in enumerate(at) if abs(differences[i]) > 1]
    b = varint(len(positions)) + positions
    if not large:
        b += varint(0)
    else:
        among = golomb(len(at), large)
        if len(among) > most - len(b) - LENGTH_ROOM:
            return None
        b += varint(len(among)) + among
        numbers = [abs(differences[at[j]]) - 2 for j in large]
        r = order_for(numbers)
        b += bytes([r]) + as_bytes(''.join(exponential_golomb(v, r) for v in numbers))
    return b if len(b) <= most else None


def unsparse(b, n, bits):
    def part(start):
        size, start = read_varint(b, start)
        corrupt_if(size > len(b) - start)
        return b[start:start + size], start + size

    positions, end = part(0)
    at, negative, more = ungolomb(positions, n, 1)
    among, end = part(end)
    large, _, rest = ungolomb(among, len(at), 0) if among else ([], [], b'')
    tail = b[end:]
    corrupt_if(more or rest or bool(among) != bool(large) or (tail and not large))
    size = [1] * len(at)
    if large:
        corrupt_if(not tail or tail[0] > MAX_ORDER)
        stream = Bits(tail[1:])
        for j in large:
            rest = 0
            while stream.take(1):
                rest += 1
            q = 1 << rest | stream.take(rest)
            size[j] = (q - 1 << tail[0] | stream.take(tail[0])) + 2
            corrupt_if(size[j] > 1 << bits - 1)
        stream.end()
    differences = [0] * n
    for i, s, minus in zip(at, size, negative):
        differences[i] = -s if minus else s
    return differences


# ---- dense blocks ----

def huffman(counts):
    """lengths by class; of equally light roots the oldest are joined first"""
    while True:
        roots = [(counts[c], [c]) for c in sorted(counts)]
        length = dict.fromkeys(counts, 1 if len(roots) == 1 else 0)
        while len(roots) > 1:
            pair = []
            for _ in range(2):
                best = min(range(len(roots)), key=lambda i: roots[i][0])
                pair.append(roots.pop(best))
            joined = pair[0][1] + pair[1][1]
            for c in joined:
                length[c] += 1
            roots.append((pair[0][0] + pair[1][0], joined))
        if max(length.values()) <= MAX_CODE:
            return length
        counts = {c: (k + 1) // 2 for c, k in counts.items()}


def codes(length):
    code, last, found = 0, 0, {}
    for c in sorted(length, key=lambda c: (length[c], c)):
        code <<= length[c] - last
        last = length[c]
        found[c] = binary(code, last)
        code += 1
    return found


def describe(length):
    first, last = min(length), max(length)
    row = [length.get(c, 0) for c in range(first, last + 1)]
    return bytes([first, last - first]) + as_bytes(''.join(binary(v, 4) for v in row))


def classify(x, base, dtype):
    """class, and extra bits as text"""
    _, bits, mantissa, _ = DTYPES[dtype]
    if bits <= 8:
        return x if base is None else difference(base, x, dtype) & (1 << bits) - 1, ''
    if base is None and mantissa:
        sign, low = x >> bits - 1, x & (1 << mantissa) - 1
        return x >> mantissa & (1 << bits - 1 - mantissa) - 1, binary(sign, 1) + binary(low, mantissa)
    d = difference(base or 0, x, dtype)
    kind = abs(d).bit_length()
    return kind, binary(d < 0, 1) + binary(abs(d) - (1 << kind - 1), kind - 1) if d else ''


def dense(weights, base, dtype, most):
    symbols = [classify(x, base and base[i], dtype) for i, x in enumerate(weights)]
    counts = {}
    for c, _ in symbols:
        counts[c] = counts.get(c, 0) + 1
    length = huffman(counts)
    code = codes(length)
    streams = [as_bytes(''.join(code[c] for i, (c, _) in enumerate(symbols) if i // TURN % STREAMS == s))
               for s in range(STREAMS)]
    b = describe(length) + b''.join(varint(len(stream)) for stream in streams) + b''.join(streams) + \
        as_bytes(''.join(extra for _, extra in symbols))
    return b if len(b) <= most else None


def undense(b, base, n, dtype):
    _, bits, mantissa, _ = DTYPES[dtype]
    has_exponents = base is None and mantissa
    classes = 1 << bits if bits <= 8 else 1 << bits - 1 - mantissa if has_exponents else bits + 1
    corrupt_if(len(b) < 2 or len(b) < 2 + (b[1] + 2) // 2 or b[0] + b[1] >= classes)
    head = 2 + (b[1] + 2) // 2
    row = [v >> shift & 15 for v in b[2:head] for shift in (4, 0)]
    length = {b[0] + i: v for i, v in enumerate(row[:b[1] + 1]) if v}
    kraft = sum(1 << MAX_CODE - v for v in length.values() if v <= MAX_CODE)
    corrupt_if(any(row[b[1] + 1:]) or not row[0] or not row[b[1]] or max(row) > MAX_CODE or
               kraft != 1 << (MAX_CODE if len(length) > 1 else MAX_CODE - 1))
    by_code = {code: c for c, code in codes(length).items()}
    sizes = []
    for _ in range(STREAMS):
        size, head = read_varint(b, head)
        sizes.append(size)
    codes_of = []
    for size in sizes:
        corrupt_if(size > len(b) - head)
        codes_of.append(Bits(b[head:head + size]))
        head += size
    stream, found = Bits(b[head:]), []
    for i in range(n):
        text = ''
        while text not in by_code:
            corrupt_if(len(text) == MAX_CODE)
            text += binary(codes_of[i // TURN % STREAMS].take(1), 1)
        c = by_code[text]
        if bits <= 8:
            found.append(c if base is None else moved(base[i], c, dtype))
            continue
        if has_exponents:
            sign = stream.take(1)
            found.append(sign << bits - 1 | c << mantissa | stream.take(mantissa))
            continue
        d = 0
        if c:
            minus = stream.take(1)
            size = 1 << c - 1 | stream.take(c - 1)
            d = -size if minus else size
            corrupt_if(c == bits and d != -(1 << bits - 1))
        found.append(moved(base[i] if base is not None else 0, d, dtype))
    for part in codes_of + [stream]:
        part.end()
    return found


# ---- frames ----

def encode_block(base, after, dtype, at_any_length=False):
    """at_any_length: the weights are not known, only their differences"""
    kind, payload = shortest(base, after, dtype, len(pack(after, dtype)) - 1)
    if payload is None:
        kind, payload = shortest(base, after, dtype, 1 << 30) if at_any_length else (RAW, pack(after, dtype))
    return kind, payload


def shortest(base, after, dtype, most):
    """the payload is None if all but a raw one are longer than most"""
    best = None
    if base is not None:
        differences = [difference(a, b, dtype) for a, b in zip(base, after)]
        changed = sum(1 for d in differences if d)
        if not changed:
            return SAME, b''
        if changed * 100 <= len(after) * 40:
            best = sparse(differences, most)
    if base is None or changed * 100 > len(after) * 13:
        found = dense(after, base, dtype, len(best) - 1 if best else most)
        if found:
            return DENSE, found
    return SPARSE, best


def encode(base, after, dtype, digests=1):
    """base and after: little-endian bytes; base None: there is none. digests: 2 those of blocks, too"""
    new = words(after, dtype)
    ours = list(blocks_of(new, dtype))
    theirs = [None] * len(ours) if base is None else blocks_of(words(base, dtype), dtype)
    blocks = [encode_block(old, units, dtype) for old, units in zip(theirs, ours)]
    whole = [v for v in (base, after) if v is not None] if digests else []
    return assemble(dtype, len(new), blocks, base is not None, [digest(v, dtype) for v in whole],
                    [block_digests(v, dtype) for v in whole] if digests == 2 else [])


def assemble(dtype, n, blocks, has_base, whole, of_blocks):
    """digests: of all weights (base if there is one, result), and of the blocks of both"""
    number, same = DTYPES[dtype][0], all(kind == SAME for kind, _ in blocks)
    version = 3 if of_blocks and not same else 1 if dtype in GRADIENTS else 2
    lower = DTYPES[dtype][3] == 2 and not same and all(kind == SAME for kind, _ in blocks[1::2])
    flags = 4 * bool(whole) | 8 * (not has_base) | 16 * same | 32 * (version == 3) | 64 * lower
    flags |= number * (version == 1)
    b = b'D' + bytes([version, flags]) + (b'' if version == 1 else bytes([number])) + varint(n)
    b += b''.join(struct.pack('<Q', v) for v in whole)
    if not same:
        b += b''.join(struct.pack('<I', kind << 30 | len(p)) for kind, p in blocks[::1 + lower])
        b += b''.join(struct.pack('<Q', v) for pair in zip(*of_blocks) for v in pair)
        b += b''.join(p for _, p in blocks)
    return seal(b)


def read_head(b, n, dtype):
    corrupt_if(len(b) < 8 or b[:1] != b'D')
    if b[1] not in (1, 2, 3):
        raise Status('VERSION')
    if b != seal(b[:-4]):
        raise Status('CHECKSUM')
    body, flags = b[:-4], b[2]
    number, at = (flags & 3, 3) if b[1] == 1 else (b[3], 4)
    try:
        found, at = read_varint(body, at)
    except Status:
        found = None
    if found is not None and found != n:
        raise Status('SIZE')
    if number != DTYPES[dtype][0]:
        raise Status('PARAM')
    corrupt_if(found is None or flags >> 7 or flags >> 5 & 1 != (b[1] == 3) or (b[1] > 1 and flags & 3))
    corrupt_if(flags & 20 != 4 if b[1] == 3 else (number > 2) != (b[1] == 2))
    corrupt_if(flags & 64 and (flags & 16 or DTYPES[dtype][3] == 1))
    return body, flags, at


class Frame:
    """head and payloads of a frame for n weights of a dtype"""

    def __init__(self, b, n, dtype):
        body, flags, at = read_head(b, n, dtype)
        self.has_base, self.same, self.payloads, self.of_blocks = not flags & 8, bool(flags & 16), [], []
        size = 8 * self.has_base + 8 if flags & 4 else 0
        corrupt_if(len(body) < at + size)
        self.digests = struct.unpack_from('<%dQ' % (size // 8), body, at)
        at += size
        if self.same:
            corrupt_if(at != len(body) or (n and not self.has_base))
            return
        count, wide = -(-n // BLOCK), size * -(-n // BLOCK) if flags & 32 else 0
        lower = flags >> 6  # upper halves do not differ
        count *= DTYPES[dtype][3] - lower
        corrupt_if(not n or len(body) < at + 4 * count + wide)
        table = struct.unpack_from('<%dI' % count, body, at)
        at += 4 * count
        if wide:
            found = struct.unpack_from('<%dQ' % (wide // 8), body, at)
            self.of_blocks = [found[i::size // 8] for i in range(size // 8)]
            corrupt_if(any(sum(v) & M64 != whole for v, whole in zip(self.of_blocks, self.digests)))
        at += wide
        corrupt_if(sum(e & (1 << 30) - 1 for e in table) != len(body) - at)
        for entry in table:
            self.payloads.append((entry >> 30, body[at:at + (entry & (1 << 30) - 1)]))
            at += len(self.payloads[-1][1])
            self.payloads += [(SAME, b'')] * lower


def decode(b, base, dtype):
    """base: the weights that the receiver has, little-endian bytes. Returns the next ones."""
    old = words(base, dtype)
    frame = Frame(b, len(old), dtype)
    new = old
    if not frame.same:
        new = weights_of([decode_block(kind, payload, part if frame.has_base else None, len(part), dtype)
                          for (kind, payload), part in zip(frame.payloads, blocks_of(old, dtype))], dtype)
    if frame.has_base and frame.digests and frame.digests[0] != digest(base, dtype):
        raise Status('BASE')
    return unwords(new, dtype)


def fold(frames, n, dtype):
    """one frame of a chain of them, from their differences alone"""
    chain_of = [Frame(b, n, dtype) for b in frames]
    for before, after in zip(chain_of, chain_of[1:]):
        if before.digests and after.has_base and after.digests and before.digests[-1] != after.digests[0]:
            raise Status('BASE')
    while any(not frame.has_base for frame in chain_of[1:]):
        chain_of.pop(0)
    start, end = chain_of[0], chain_of[-1]
    whole = start.digests[:start.has_base] + end.digests[-1:] if start.digests and end.digests else ()
    moving = [frame for frame in chain_of if not frame.same]
    if not moving:
        return assemble(dtype, n, [], start.has_base, whole, [])
    blocks = []
    for i, zeros in enumerate(blocks_of([0] * n, dtype)):
        units, absolute = zeros, False
        for frame in moving:
            kind, payload = frame.payloads[i]
            units = decode_block(kind, payload, units if frame.has_base else None, len(zeros), dtype)
            absolute |= kind == RAW or not frame.has_base
        if absolute and start.has_base:
            blocks.append((RAW, pack(units, dtype)))
        else:
            blocks.append(encode_block(zeros if start.has_base else None, units, dtype, start.has_base))
    of_blocks = []
    ends = moving[0].digests[:start.has_base] + moving[-1].digests[-1:]
    if whole == ends and moving[0].of_blocks and moving[-1].of_blocks:
        of_blocks = moving[0].of_blocks[:start.has_base] + moving[-1].of_blocks[-1:]
    return assemble(dtype, n, blocks, start.has_base, whole, of_blocks)


def decode_block(kind, payload, base, n, dtype):
    bits = DTYPES[dtype][1]
    if kind == RAW and len(payload) == n * bits // 8:
        return words(payload, dtype if DTYPES[dtype][3] == 1 else 'i32')
    if kind == DENSE:
        return undense(payload, base, n, dtype)
    if kind == SAME and base is not None and not payload:
        return base
    if kind == SPARSE and base is not None:
        return [moved(x, d, dtype) for x, d in zip(base, unsparse(payload, n, bits))]
    raise Status('CORRUPT')
