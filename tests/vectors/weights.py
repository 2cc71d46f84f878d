# SPDX-License-Identifier: MIT
"""Messages of weights as include/threelc/weights.h and src/docs/format.md describe them, and their golden vectors."""
import struct
from collections import namedtuple
from math import prod

import delta
import delta_cases
from ieee import Status, corrupt_if
from model import seal
from packing import read_varint, varint
from record import Random, hexa
from xxh3 import M64, xxh3_64

HEAD, TAIL, FRAME_HEAD, NAME_MAX, DIMS_MAX, NOTE_MAX = 40, 36, 30, 4096, 64, 1 << 24
SHORTEST, LONGEST = 14, 6050  # heads of entries
NAMES = list(delta.DTYPES)

# before None: no base. A view has neither before nor after, but a place: root, root_strides or None, strides, first
Tensor = namedtuple('Tensor', 'name dtype shape before after place', defaults=(None, None, None))


def sum32(b, seed=0):
    return struct.pack('<I', xxh3_64(b, seed) & 0xffffffff)


def numbers(v):
    return b''.join(map(varint, v))


def description(t):
    return varint(len(t.name)) + t.name + bytes([NAMES.index(t.dtype), len(t.shape)]) + numbers(t.shape)


def running(digest, described, weights):
    return xxh3_64(described, digest + weights & M64)


def message(trainer, sequence, note, tensors):
    """the bytes, and the digests of the model before and after"""
    head = b'W\1\0\0' + trainer + struct.pack('<QI', sequence, len(note)) + sum32(note)
    sealed = sum32(head)
    b, offsets, base, result = head + sealed + note, [], 0, 0
    for i, t in enumerate(tensors):
        offsets.append(len(b))
        kind, frame = 0, b''
        if t.place:
            root, root_strides, strides, first = t.place
            kind, what = (1, varint(root)) if root_strides is None else (2, varint(root) + bytes(
                [len(root_strides)]) + numbers(root_strides) + numbers(strides) + varint(first))
        else:
            frame = delta.encode(t.before, t.after, t.dtype)
            what = varint(len(frame))
            if t.before is not None:
                base = running(base, description(t), delta.digest(t.before, t.dtype))
            result = running(result, description(t), delta.digest(t.after, t.dtype))
        body = bytes([kind]) + description(t) + what
        entry = struct.pack('<I', len(body) + 8) + body
        b += entry + sum32(entry, i) + frame
    b += struct.pack('<%dQ' % len(offsets), *offsets)
    tail = struct.pack('<QQQQ', len(b) + TAIL, len(offsets), base, result)
    return b + tail + sum32(tail, int.from_bytes(sealed, 'little')), base, result


# ---- what a reader refuses ----

class Entry:
    """entry i of a message, from its bytes alone"""

    def __init__(self, b, i, count, begin, index):
        at = struct.unpack_from('<Q', b, index + 8 * i)[0]
        corrupt_if(not begin <= at < index)
        self.begin = at
        size = struct.unpack_from('<I', b, at)[0] if at + 4 <= index else 0
        corrupt_if(not SHORTEST <= size <= LONGEST or size > index - at)
        head = b[at:at + size - 4]
        if sum32(head, i) != b[at + size - 4:at + size]:
            raise Status('CHECKSUM')
        self.read(head)
        self.frame = at + size
        corrupt_if(self.length > index - self.frame)
        self.end = self.frame + self.length
        self.base = self.result = None
        if not self.view:
            self.peek(b[self.frame:self.frame + min(self.length, FRAME_HEAD)])

    def read(self, head):
        kind, at = head[4], 5
        corrupt_if(kind > 2)

        def number():
            nonlocal at
            value, at = read_varint(head, at)
            return value

        def byte():
            nonlocal at
            corrupt_if(at >= len(head))
            at += 1
            return head[at - 1]

        def dims():
            count = byte()
            corrupt_if(count > DIMS_MAX)
            return count
        length = number()
        corrupt_if(not 0 < length <= NAME_MAX or length >= len(head) - at)
        self.name = head[at:at + length]
        at += length
        try:
            corrupt_if('\0' in self.name.decode())
        except UnicodeDecodeError:
            raise Status('CORRUPT') from None
        code = byte()
        corrupt_if(code >= len(NAMES))
        self.dtype = NAMES[code]
        self.shape = [number() for _ in range(dims())]
        self.n = prod(self.shape)
        corrupt_if(self.n >= M64)
        self.described = head[5:at]
        self.view, self.length, self.place = kind > 0, 0, None
        if not kind:
            self.length = number()
        else:
            root, strides = number(), None
            if kind == 2:
                strides = [number() for _ in range(dims())], [number() for _ in self.shape], number()
            self.place = root, strides
        corrupt_if(at != len(head))

    def peek(self, b):
        corrupt_if(len(b) < 4 or b[:1] != b'D')
        version, flags = b[1], b[2]
        if version not in (1, 2, 3):
            raise Status('VERSION')
        code, at = (flags & 3, 3) if version == 1 else (b[3], 4)
        n, at = read_varint(b, at)
        digests = (8 if flags & 8 else 16) if flags & 4 else 0
        corrupt_if(flags >> 7 or (version > 1 and flags & 3) or len(b) < at + digests)
        corrupt_if({1: code > 2, 2: code < 3, 3: flags & 16}[version] or (version == 3) != flags >> 5 & 1)
        corrupt_if(flags & 64 and (flags & 16 or delta.DTYPES[self.dtype][3] == 1))
        corrupt_if(code != NAMES.index(self.dtype) or n != self.n or not digests)
        corrupt_if(delta.DTYPES[self.dtype][1] == 4 and n % 2)
        found = struct.unpack_from('<%dQ' % (digests // 8), b, at)
        self.base, self.result = (found[0] if digests == 16 else None), found[-1]


def units(shape, dtype):
    """lengths in weights, or in bytes that have two of them"""
    if delta.DTYPES[dtype][1] != 4:
        return shape
    corrupt_if(not shape or shape[-1] % 2)
    return shape[:-1] + [shape[-1] // 2]


def fits(view, root):
    corrupt_if(root.view or root.dtype != view.dtype)
    if view.place[1] is None:
        corrupt_if(view.shape != root.shape)
        return
    root_strides, strides, first = view.place[1]
    corrupt_if(not view.n or not root.n or len(root_strides) != len(root.shape))
    mine, all_of = units(view.shape, view.dtype), units(root.shape, root.dtype)
    at = 1
    for stride, length in sorted((s, n) for s, n in zip(root_strides, all_of) if n > 1):
        corrupt_if(stride != at)
        at *= length
    corrupt_if(first + sum((n - 1) * s for n, s in zip(mine, strides)) >= prod(all_of))


def check(b):
    """raises what tlc_weights_open would return"""
    corrupt_if(len(b) < 2 or b[:1] != b'W' or len(b) < HEAD)
    if b[1] != 1:
        raise Status('VERSION')
    corrupt_if(len(b) < HEAD + TAIL)
    sealed, tail = b[HEAD - 4:HEAD], b[-TAIL:]
    if sum32(b[:HEAD - 4]) != sealed or sum32(tail[:-4], int.from_bytes(sealed, 'little')) != tail[-4:]:
        raise Status('CHECKSUM')
    sequence, note = struct.unpack_from('<QI', b, 20)
    size, count, base, result = struct.unpack('<QQQQ', tail[:-4])
    begin, index = HEAD + note, len(b) - TAIL - 8 * count
    corrupt_if(b[2:4] != b'\0\0' or not sequence or size != len(b) or note > NOTE_MAX or index < begin)
    at, last, found, made = begin, b'', 0, 0
    for i in range(count):
        e = Entry(b, i, count, begin, index)
        corrupt_if(e.begin != at or e.name <= last)
        if e.view:
            corrupt_if(e.place[0] >= count)
            fits(e, Entry(b, e.place[0], count, begin, index))
        else:
            if e.base is not None:
                found = running(found, e.described, e.base)
            made = running(made, e.described, e.result)
        at, last = e.end, e.name
    corrupt_if(at != index or found != base or made != result)


# ---- vectors ----

def tensor(name, dtype, shape, kind, fresh=False):
    n = prod(shape)
    rnd = Random('weights ' + name)
    before = delta_cases.weights(rnd, n, dtype)
    after = [delta_cases.change(kind, i, x, rnd, dtype) for i, x in enumerate(before)]
    return Tensor(name.encode(), dtype, shape, None if fresh else delta.unwords(before, dtype),
                  delta.unwords(after, dtype))


def view(name, root, number, shape, *place):
    return Tensor(name.encode(), root.dtype, shape, place=(number, *(place or (None, [], 0))))


def models():
    yield 'none', b'', []
    yield 'empty', b'any bytes\0\xff', [tensor('', 'f32', [0], 'few')._replace(name=b'a')]
    for fresh in False, True:
        every = [tensor('w.' + dtype, dtype, [2, 3, 4], kind, fresh) for dtype, kind in
                 zip(sorted(NAMES), ('few', 'many', 'same', 'any') * 3)]
        yield 'dtypes-fresh' if fresh else 'dtypes', b'', every
    yield 'some-fresh', b'n' * 300, [tensor('a', 'bf16', [40], 'few'), tensor('b', 'bf16', [40], 'few', True),
                                     tensor('c', 'i64', [], 'one'), tensor('d', 'u8', [3, 0], 'few')]
    flat = tensor('flat', 'bf16', [5, 8], 'few')
    nibbles = tensor('nibbles', 'u4', [5, 8], 'many')
    yield 'views', b'', [view('1', flat, 3, [5, 8]), view('2', flat, 3, [8], [1, 5], [3], 2),
                         view('3', nibbles, 4, [4, 4], [4, 1], [1, 4], 3), flat, nibbles,
                         view('z', flat, 3, [2, 1, 5], [8, 1], [0, 0, 7], 11)]
    long = 'x' * NAME_MAX
    yield 'names', b'', [tensor('a', 'u8', [], 'any'), tensor('a.', 'u8', [1] * DIMS_MAX, 'any'),
                         tensor(long, 'u8', [2], 'any'), tensor('\u00e9', 'u8', [2], 'any'),
                         tensor('\U0010ffff', 'u8', [2], 'any')]


def reseal(b):
    """the checksums of head, tail and entries, as far as they are where they were"""
    b = bytearray(b)
    b[36:40] = sum32(bytes(b[:36]))
    b[-4:] = sum32(bytes(b[-36:-4]), int.from_bytes(b[36:40], 'little'))
    count = struct.unpack_from('<Q', b, len(b) - 28)[0]
    for i in range(count if count <= (len(b) - TAIL) // 8 else 0):
        at = struct.unpack_from('<Q', b, len(b) - 36 - 8 * (count - i))[0]
        size = struct.unpack_from('<I', b, at)[0] if at < len(b) - 4 else 0
        if 8 < size < len(b) - at:
            b[at + size - 4:at + size] = sum32(bytes(b[at:at + size - 4]), i)
    return bytes(b)


def altered():
    root = tensor('m', 'bf16', [2, 3], 'few')
    for name, tensors in (('part', [root, view('n', root, 0, [2, 2], [3, 1], [3, 1], 1)]),
                          ('tied', [view('a', root, 2, [2, 3]), tensor('b', 'i64', [], 'one', True), root]),
                          ('pairs', [tensor('m', 'u4', [2, 4], 'few'), view('n', tensor('m', 'u4', [2, 4], 'few'), 0,
                                                                           [2, 2], [2, 1], [2, 1], 1)])):
        good = message(b'a trainer of six', 7, b'', tensors)[0]
        for i in range(len(good)):
            for bit in i % 8, (i + 3) % 8:
                flipped = good[:i] + bytes([good[i] ^ 1 << bit]) + good[i + 1:]
                if i % 4 == 0:
                    yield '%s-flip%d.%d' % (name, i, bit), flipped
                yield '%s-forged%d.%d' % (name, i, bit), reseal(flipped)
        for i in range(0, len(good), 11):
            yield '%s-cut%d' % (name, i), good[:i]
        for i in range(HEAD + TAIL, len(good), 3):
            yield '%s-short%d' % (name, i), reseal(good[:i])
    yield 'long', good + b'\0'
    yield 'other-format', seal(b'D\1\x10\0')


def text():
    out = ['# SPDX-License-Identifier: MIT\n',
           '# Written by model.py generate; not edited by hand. Records end at an empty line; byte strings in hex,\n',
           '# - for none. tensor: name, dtype, shape, weights before (null: no base) and after, little-endian.\n',
           '# view: name, dtype, shape, root, its strides (null: all of the root), strides, first.\n',
           '# status: that of tlc_weights_open.\n\n']

    def listed(v):
        return ','.join(map(str, v)) or '-'
    for name, note, tensors in models():
        trainer = bytes(Random('trainer ' + name).bits(8) for _ in range(16))
        sequence = Random('sequence ' + name).bits(40) + 1
        b, base, result = message(trainer, sequence, note, tensors)
        check(b)
        out.append('name %s\ntrainer %s\nsequence %d\nnote %s\n' % (name, trainer.hex(), sequence, hexa(note)))
        for t in tensors:
            what = '%s %s %s' % (t.name.hex(), t.dtype, listed(t.shape))
            if t.place:
                root, root_strides, strides, first = t.place
                whole = 'null' if root_strides is None else listed(root_strides)
                out.append('view %s %d %s %s %d\n' % (what, root, whole, listed(strides), first))
            else:
                out.append('tensor %s %s %s\n' % (what, 'null' if t.before is None else hexa(t.before), hexa(t.after)))
        out.append('base_digest %d\nresult_digest %d\nmessage %s\n\n' % (base, result, hexa(b)))
    for name, b in altered():
        try:
            check(b)
            status = 'OK'
        except Status as e:
            status = str(e)
        out.append('name %s\nmessage %s\nstatus %s\n\n' % (name, hexa(b), status))
    return ''.join(out)
