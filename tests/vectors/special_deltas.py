# SPDX-License-Identifier: MIT
"""Deltas with a purpose. Good ones at the borders where the encoder decides. Others made by hand: of those that are
refused each breaks one rule alone, and the rest keep all rules in ways that our encoder does not use."""
import struct

import delta
import delta_cases
from delta import DENSE, DTYPES, GRADIENTS, RAW, SAME, SPARSE, codes, describe, exponential_golomb, unwords
from model import seal
from packing import as_bytes, binary, golomb, varint
from record import Random

NO_BASE, NOTHING_DIFFERS, LOWER = 8, 16, 64
WIDTHS = ('u4', 'f8_e4m3', 'bf16', 'i32')  # a dtype of each width
CLASSES = {4: 16, 8: 256, 16: 17, 32: 33}  # with a base, by width


def base_of(dtype, n):
    width = DTYPES[dtype][1]
    return unwords([5 * i + 1 & (1 << width) - 1 for i in range(n)], dtype)


def frame(dtype, n, body, flags=0, version=None, number=None):
    """number: of the dtype, where it is not that of dtype"""
    version = version or (1 if dtype in GRADIENTS else 2)
    number = DTYPES[dtype][0] if number is None else number
    flags |= number if version == 1 else 0
    return seal(b'D' + bytes([version, flags]) + (b'' if version == 1 else bytes([number])) + varint(n) + body)


def blocks(*parts):
    """kind and payload each"""
    return b''.join(struct.pack('<I', kind << 30 | len(p)) for kind, p in parts) + b''.join(p for _, p in parts)


def block(dtype, n, kind, payload, flags=0):
    if DTYPES[dtype][3] == 2:  # upper halves do not differ
        return frame(dtype, n, blocks((kind, payload), (SAME, b'')), flags)
    return frame(dtype, n, blocks((kind, payload)), flags)


def sized(part):
    return varint(len(part)) + part


# ---- what the encoder decides ----

def lengths(base, after, dtype):
    """of the payloads that the encoder compares, by kind; of raw ones the limit is a byte less"""
    differences = [delta.difference(a, b, dtype) for a, b in zip(base, after)]
    percent = 100 * sum(1 for d in differences if d) / len(after)
    found = {RAW: len(delta.pack(after, dtype))}
    if 0 < percent <= 40:
        found[SPARSE] = len(delta.sparse(differences, 1 << 20))
    if percent > 13:
        found[DENSE] = len(delta.dense(after, base, dtype, 1 << 20))
    return found


def near():
    """the first block that is found for each pair of kinds whose lengths decide: equal, or a byte apart"""
    missing = {(a, b, apart) for a, b in ((SPARSE, RAW), (DENSE, RAW), (DENSE, SPARSE)) for apart in (-1, 0, 1)}
    for dtype in ('bf16', 'u8', 'i32', 'u4'):
        for kind in ('few', 'many', 'far', 'all', 'signs'):
            for n in range(6, 150, 2):
                rnd = Random('near %s %s %d' % (dtype, kind, n))
                base = delta_cases.weights(rnd, n, dtype)
                after = [delta_cases.change(kind, i, x, rnd, dtype) for i, x in enumerate(base)]
                found = lengths(base, after, dtype)
                a, b = sorted(found, key=found.get)[:2] if len(found) > 1 else (RAW, RAW)
                for a, b in ((a, b), (b, a)):
                    if (a, b, found[a] - found[b]) in missing:
                        missing.remove((a, b, found[a] - found[b]))
                        yield 'near-%d-%d-%d' % (a, b, found[a] - found[b]), dtype, base, after
    assert not missing, missing


def shares():
    """13% is the most that differ where dense payloads are not tried, and 40% where sparse ones are; a dense one of u8
    is short if all differences are equal, a sparse one if they are 1 and -1"""
    for percent, d, n in ((13, 16, 200), (40, 1, 100)):
        for more in (0, 1):
            base = [i % 256 for i in range(n)]
            k = n * percent // 100 + more
            after = [x + (d if i % 2 else d * (1 if d > 1 else -1)) & 255 if i * k % n < k else x
                     for i, x in enumerate(base)]
            yield 'share-%d-%d' % (percent, more), 'u8', base, after


def one_class():
    """dense blocks whose prefix code has a single class"""
    for dtype in ('bf16', 'u8', 'u4', 'i32', 'f64'):
        base = delta.words(base_of(dtype, 80), dtype)
        width = DTYPES[dtype][1] * DTYPES[dtype][3]
        yield 'moved-' + dtype, dtype, base, [x + 1 & (1 << width) - 1 for x in base]
        yield 'equal-' + dtype, dtype, None, [base[1]] * 80


def good():
    """name, dtype, base, next, whether there are digests"""
    for part in (near, shares, one_class):
        for name, dtype, base, after in part():
            yield name, dtype, base and unwords(base, dtype), unwords(after, dtype), 0


# ---- heads and tables ----

def heads():
    for dtype in GRADIENTS:
        yield 'version-%s' % dtype, frame(dtype, 7, b'', NOTHING_DIFFERS, 2), dtype, 7
    for flag in range(3):
        yield 'v2-flag%d' % flag, frame('u8', 7, b'', NOTHING_DIFFERS | flag), 'u8', 7
    for flag in (32, 64, 128):
        yield 'v1-flag%d' % flag, frame('bf16', 7, b'', NOTHING_DIFFERS | flag), 'bf16', 7
        yield 'v2-flag%d' % flag, frame('u8', 7, b'', NOTHING_DIFFERS | flag), 'u8', 7
    yield 'long-n', seal(b'D\1\x12\x87\0'), 'bf16', 7
    yield 'open-n', seal(b'D\1\x12\x87'), 'bf16', 7
    for flags, size in ((4, 16), (4 | NO_BASE, 8)):
        for spare in (0, 1):
            yield 'digests%d-%d' % (flags, spare), frame('bf16', 0, bytes(size - spare), flags | NOTHING_DIFFERS), \
                'bf16', 0
    yield 'none-no-base', frame('bf16', 0, b'', NOTHING_DIFFERS | NO_BASE), 'bf16', 0
    yield 'none-blocks', frame('bf16', 0, b''), 'bf16', 0
    yield 'same-follows', frame('bf16', 7, b'\0', NOTHING_DIFFERS), 'bf16', 7
    yield 'same-table', frame('bf16', 7, blocks((SAME, b'')), NOTHING_DIFFERS), 'bf16', 7
    yield 'same-no-base', frame('bf16', 7, b'', NOTHING_DIFFERS | NO_BASE), 'bf16', 7
    yield 'table-cut', frame('bf16', 7, bytes(3)), 'bf16', 7
    yield 'table-halves-cut', frame('i64', 7, bytes(7)), 'i64', 7
    yield 'table-same', frame('bf16', 7, bytes(4)), 'bf16', 7
    yield 'table-long', frame('bf16', 7, bytes(5)), 'bf16', 7
    for dtype in ('i64', 'f64', 'i32', 'bf16'):
        some = blocks((SPARSE, sparse(7, [1])))
        yield 'lower-%s' % dtype, frame(dtype, 7, some, LOWER, 2), dtype, 7
    yield 'lower-v1', frame('bf16', 7, some, LOWER), 'bf16', 7
    yield 'lower-two', frame('i64', 7, blocks((SPARSE, sparse(7, [1])), (SAME, b'')), LOWER), 'i64', 7
    yield 'lower-cut', frame('i64', 7, bytes(3), LOWER), 'i64', 7
    yield 'lower-none', frame('i64', 7, bytes(4), LOWER), 'i64', 7
    yield 'lower-same', frame('i64', 7, b'', LOWER | NOTHING_DIFFERS), 'i64', 7
    yield 'lower-fresh', frame('i64', 8, blocks((RAW, base_of('i32', 8))), LOWER | NO_BASE), 'i64', 8


def kinds():
    """blocks that are same and raw, and kinds that need a base"""
    some = base_of('bf16', 7)
    yield 'same-byte', block('bf16', 7, SAME, b'\0'), 'bf16', 7
    yield 'same-fresh', block('bf16', 7, SAME, b'', NO_BASE), 'bf16', 7
    yield 'sparse-fresh', block('bf16', 7, SPARSE, sparse(7, [1]), NO_BASE), 'bf16', 7
    for dtype in WIDTHS + ('f64',):
        raw = base_of('i32' if dtype == 'f64' else dtype, 8)
        for name, payload in (('', raw), ('-cut', raw[:-1]), ('-long', raw + b'\0')):
            for flags in (0, NO_BASE):
                if dtype == 'f64' and flags:
                    made = frame(dtype, 8, blocks((RAW, payload), (RAW, raw)), flags)
                else:
                    made = block(dtype, 8, RAW, payload, flags)
                yield '%s-raw%s-%d' % (dtype, name, flags), made, dtype, 8
    yield 'last-cut', frame('bf16', 7, blocks((RAW, some))[:-1]), 'bf16', 7
    yield 'last-long', frame('bf16', 7, blocks((RAW, some)) + b'\0'), 'bf16', 7


# ---- sparse blocks ----

def sparse(n, at, large=(), order=0, numbers=()):
    """the changed weights, those with large differences among them, and |d| - 2 of these"""
    positions = golomb(n, at, [i % 2 for i in range(len(at))])
    if not large:
        return sized(positions) + varint(0)
    text = ''.join(exponential_golomb(v, order) for v in numbers)
    return sized(positions) + sized(golomb(len(at), large)) + bytes([order]) + as_bytes(text)


def lists():
    """the three lists of a sparse payload"""
    one, among = golomb(9, [3], [1]), golomb(1, [0])
    ones = as_bytes('0')  # |d| = 2, of order 0
    for name, payload in (('none', sized(b'') + varint(0)),
                          ('empty', b''),
                          ('nothing-differs', sized(golomb(9, [], [])) + varint(0)),
                          ('nothing-large-follows', sized(one) + varint(0) + b'\0'),
                          ('no-large', sized(one)),
                          ('changed-too-long', varint(len(one) + 1) + one),
                          ('changed-long', sized(one + b'\0') + varint(0)),
                          ('changed-cut', varint(len(one) - 1) + one + varint(0)),
                          ('changed-too-many', sized(varint(10) + b'\0' + bytes(3)) + varint(0)),
                          ('changed-outside', sized(varint(1) + bytes([0]) + as_bytes('1' * 9 + '01')) + varint(0)),
                          ('changed-last', sized(varint(1) + bytes([0]) + as_bytes('1' * 8 + '01')) + varint(0)),
                          ('large', sized(one) + sized(among) + b'\0' + ones),
                          ('large-none', sized(one) + sized(golomb(1, [])) + b'\0'),
                          ('large-none-end', sized(one) + sized(golomb(1, []))),
                          ('large-no-order', sized(one) + sized(among)),
                          ('large-no-codes', sized(one) + sized(among) + b'\0'),
                          ('large-long', sized(one) + sized(among + b'\0') + b'\0' + ones),
                          ('large-too-long', sized(one) + varint(4) + among),
                          ('large-outside', sized(one) + sized(varint(1) + b'\0' + as_bytes('10')) + b'\0' + ones),
                          ('large-too-many', sized(one) + sized(varint(2) + b'\0' + as_bytes('00')) + b'\0' + ones)):
        yield 'sparse-' + name, block('bf16', 9, SPARSE, payload), 'bf16', 9


def magnitudes():
    """the largest ones, by width and order; codes of more than 57 bits are read in another way"""
    for dtype in WIDTHS + ('i64',):
        width = DTYPES[dtype][1]
        most = (1 << width - 1) - 2
        for order in (0, 3, 31):
            for v in (0, 1, most, most + 1, *((1 << 32) + more for more in (-2, -1, 0, 1)), (1 << 33) - 1, 1 << 33):
                yield '%s-magnitude%x-%d' % (dtype, v, order), \
                    block(dtype, 10, SPARSE, sparse(10, [2, 7], [0, 1], order, [1, v])), dtype, 10
        yield dtype + '-order32', block(dtype, 10, SPARSE, sparse(10, [2], [0], 32, [1])), dtype, 10
    some = sparse(10, [2, 7], [0, 1], 2, [3, 20])
    text = ''.join(exponential_golomb(v, 2) for v in (3, 20))
    yield 'magnitudes-long', block('bf16', 10, SPARSE, some + b'\0'), 'bf16', 10
    yield 'magnitudes-cut', block('bf16', 10, SPARSE, some[:-1]), 'bf16', 10
    for spare in range(-len(text) % 8):  # the bits that fill the last byte
        yield 'magnitudes-fill%d' % spare, \
            block('bf16', 10, SPARSE, some[:-1] + bytes([some[-1] | 1 << spare])), 'bf16', 10
    for order in (0, 31):
        yield 'magnitudes-ones-%d' % order, \
            block('bf16', 10, SPARSE, sparse(10, [2], [0], order, [0])[:-1 - order // 8] + b'\xff' * 12), 'bf16', 10


# ---- dense blocks ----

def one_lane(lane):
    return varint(len(lane)) + bytes(3) + lane


def dense(length, symbols, extras=''):
    """length: of codes, by class. symbols: the classes of at most 1,024 weights"""
    code = codes(length)
    return describe(length) + one_lane(as_bytes(''.join(code[c] for c in symbols))) + as_bytes(extras)


def prefix_codes():
    """descriptions: the classes are 0 and up, none with extra bits in u8"""
    def coded(*row, first=0, bits='000', spare=0):
        digits = ''.join(binary(v, 4) for v in row)
        head = bytes([first, len(row) - 1]) + as_bytes(digits + (binary(spare, 4) if len(row) % 2 else ''))
        return head + one_lane(as_bytes(bits))

    for name, payload in (('single', coded(1)),
                          ('single-2', coded(2)),
                          ('single-1-bit', coded(1, bits='010')),
                          ('single-spare', coded(1, spare=1)),
                          ('two', coded(1, 1)),
                          ('gap', coded(1, 0, 1)),
                          ('gap-spare', coded(1, 0, 1, spare=8)),
                          ('first-0', coded(0, 1, 1)),
                          ('last-0', coded(1, 1, 0)),
                          ('none', coded(0)),
                          ('open', coded(1, 2)),
                          ('open-deep', coded(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),
                          ('deep', coded(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10)),
                          ('overfull', coded(1, 1, 1)),
                          ('eleven', coded(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11)),
                          ('eleven-more', coded(1, 1, 11, 11)),
                          ('fifteen', coded(1, 15, 1)),
                          ('largest', coded(1, 1, first=254, bits='010')),
                          ('too-large', coded(1, 1, first=255, bits='010')),
                          ('too-large-single', coded(1, 0, first=255)),
                          ('no-head', b''),
                          ('half-head', b'\0'),
                          ('no-lengths', b'\0\0'),
                          ('lengths-cut', coded(2, 2, 2, 2)[:3])):
        for flags in (0, NO_BASE):
            yield 'code-%s-%d' % (name, flags), block('u8', 3, DENSE, payload, flags), 'u8', 3
    for dtype in WIDTHS:
        width = DTYPES[dtype][1]
        # the last class, of which d = -2^(w - 1), and one that there is not
        for first in range(CLASSES[width] - 2, min(CLASSES[width], 255)):
            extras = ''.join('%d' % (c >= width) + '0' * (c - 1) for c in (first, first + 1)) if width > 8 else ''
            yield '%s-class%d' % (dtype, first + 1), \
                block(dtype, 2, DENSE, dense({first: 1, first + 1: 1}, [first, first + 1], extras)), dtype, 2
    for dtype, classes in (('f32', 256), ('f16', 32), ('bf16', 256)):  # the largest exponents
        for first in range(classes - 2, min(classes, 255)):
            each = 1 + DTYPES[dtype][2]
            yield '%s-exponent%d' % (dtype, first + 1), \
                block(dtype, 2, DENSE, dense({first: 1, first + 1: 1}, [first, first + 1], '10' * each), NO_BASE), \
                dtype, 2


def lanes_and_extras():
    code, symbols = {0: 1, 3: 2, 16: 2}, [3, 0, 16, 3]
    extras = '101' + '1' + '0' * 15 + '011'
    head, lane = describe(code), as_bytes(''.join(codes(code)[c] for c in symbols))  # 7 bits
    fine = one_lane(lane)
    for name, lanes, extra in (
            ('', fine, extras),
            ('lane-fill', fine[:-1] + bytes([fine[-1] | 1]), extras),
            ('lane-long', bytes([2, 0, 0, 0]) + lane + b'\0', extras),
            ('lane-other', bytes([1, 1, 0, 0]) + lane + b'\0', extras),
            ('lane-cut', bytes(4), extras),
            ('lane-sizes', fine[:3], ''),
            ('lane-size-long', b'\x81\0\0\0\0' + lane, extras),
            ('lane-too-long', bytes([1 + 1 + (len(extras) + 7) // 8, 0, 0, 0]) + lane, extras),
            ('lane-last-too-long', bytes([1, 0, 0, 1 + (len(extras) + 7) // 8]) + lane, extras),
            ('extras-cut', fine, extras[:-6]),
            ('extras-fill', fine, extras + '1'),
            ('extras-long', fine, extras + '0' * 8),
            ('largest-plus', fine, extras[:3] + '0' + extras[4:]),
            ('largest-more', fine, extras[:3] + '1' + '0' * 14 + '1' + extras[19:])):
        yield 'dense-' + name, block('bf16', 4, DENSE, head + lanes + as_bytes(extra)), 'bf16', 4
    for flags in (0, NO_BASE):
        for name, extra in (('minus', '1' + '0' * 31), ('plus', '0' * 32), ('more', '1' + '0' * 30 + '1')):
            for dtype in ('i32', 'i64') if not flags else ('i32',):
                payload = dense({31: 1, 32: 1}, [31, 32], '01' * 15 + '1' + extra)
                yield '%s-largest-%s-%d' % (dtype, name, flags), block(dtype, 2, DENSE, payload, flags), dtype, 2
    same = dense({0: 1}, [0] * 9)  # no extra bits at all
    yield 'dense-early-bit', block('u8', 60, DENSE, describe({1: 1}) + one_lane(b'\0\x20' + bytes(6))), 'u8', 60
    for name, payload in (('', same), ('-extra', same + b'\0'), ('-lane-cut', same[:-1])):
        yield 'dense-same' + name, block('bf16', 9, DENSE, payload), 'bf16', 9


def long_lanes():
    """lanes that are read side by side, one of them with a code that there is not, or of another length"""
    n, head = 4100, describe({1: 1})
    whole = [bytes(129), bytes(128), bytes(128), bytes(128)]
    for s in range(4):
        for name, lane in (('bit', whole[s][:60] + b'\x10' + whole[s][61:]), ('end', whole[s][:-1] + b'\1'),
                           ('cut', whole[s][:-1]), ('long', whole[s] + b'\0')):
            lanes = whole[:s] + [lane] + whole[s + 1:]
            yield 'lane%d-%s' % (s, name), block('u4', n, DENSE, head + b''.join(varint(len(v)) for v in lanes) +
                                                 b''.join(lanes)), 'u4', n


def bad():
    """name, frame, base, dtype"""
    for part in (heads, kinds, lists, magnitudes, prefix_codes, lanes_and_extras, long_lanes):
        for name, made, dtype, n in part():
            yield 'hand-' + name, made, base_of(dtype, n), dtype
