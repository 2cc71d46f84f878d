#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Seeds of the fuzz targets, most from the golden vectors.

seeds.py VECTORS TARGET         writes TARGET's seeds, one a line in hexadecimal
seeds.py --pack DIR [MOST]      writes the files in DIR (a fuzzer's corpus) in that form, each of at most MOST bytes
seeds.py --unpack DIR           reads such lines and writes each as a file into DIR
seeds.py --words                writes the words of codec strings, as a dictionary for libFuzzer
"""
import functools
import hashlib
import itertools
import json
import os
import re
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


@functools.lru_cache
def array(file, name):
    """the elements of an array of a target's source"""
    with open(os.path.join(HERE, file)) as f:
        return [e.strip() for e in re.search(r'\b%s\[\][^=]* = \{(.*?)\};' % name, f.read(), re.S)[1].split(',')]


def records(vectors, name):
    record = {}
    with open(os.path.join(vectors, name)) as f:
        for line in f:
            key, _, value = line.rstrip('\n').partition(' ')
            if key.startswith('#'):
                continue
            if not key and record:
                yield record
                record = {}
            elif key:
                record.setdefault(key, []).append('' if value == '-' else value)
    if record:
        yield record


def leb128(number):
    more = b''
    while number > 127:
        more += bytes([number & 127 | 128])
        number >>= 7
    return more + bytes([number])


def decompress(vectors):
    for name in 'good.txt', 'bad.txt':
        for r in records(vectors, name):
            for frame in r['frame']:
                yield bytes.fromhex(frame)


def state_load(vectors):
    for name in 'good.txt', 'bad_state.txt':
        for r in records(vectors, name):
            yield bytes.fromhex(r['state'][0])


def codec_string(vectors):
    known = sorted({r['codec'][0] for r in records(vectors, 'good.txt')})
    for text in known:
        yield text.encode()
        yield text.replace('=', '=0').encode()
        yield text.replace('+', ',').encode()
        yield text[:-1].encode()
        yield (text + ';' + known[0]).encode()


def roundtrip(vectors):
    lengths = list(map(int, array('roundtrip.c', 'lengths')))
    for r in records(vectors, 'good.txt'):
        n, checksum, feedback = int(r['n'][0]), int(r['checksum'][0]), int(r['feedback'][0])
        dtype = ('f32', 'f16', 'bf16').index(r['dtype'][0])
        size = lengths.index(n) if n in lengths else min(255, -(-n // 3))
        flags = next(f for f in range(256)
                     if f & 3 == dtype and (f >> 2 & 3) % 3 - 1 == feedback and f >> 4 & 3 == checksum)
        run = r['codec'][0].encode() + struct.pack('<BBBI', 10, flags, size, int(r['seed'][0]) & 0xffffffff)
        way = 0 if dtype == 0 else 1  # the bytes of 16-bit values would not be their floats
        for grad in r['grad']:
            run += b'\x10' if grad == 'null' else bytes([way]) + bytes.fromhex(grad)
        yield run


def npy(vectors):
    del vectors
    values = struct.pack('<6f', 1, -2, 0.5, 0, 1e30, -1e-30)
    for version in 1, 2, 3:
        for descr, count in ('<f4', 6), ('>f4', 6), ('<f2', 12), ('>f2', 12), ('<u2', 12), ('|V2', 12), ('<f8', 3):
            for shape in ('(%d,)' % count, '(2, %d)' % (count // 2), '(%d, 1, )' % count, '()', '(0, 5)',
                          '(99999999999, 3)'):
                text = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
                text += ' ' * (-len(text) % 16) + '\n'
                length = struct.pack('<H' if version == 1 else '<I', len(text))
                yield b'\x93NUMPY' + bytes([version, 0]) + length + text.encode() + values
    # what NumPy loads, too; none in the byte order of the machine
    for text in ("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n",
                 "{'descr': '>f2', 'fortran_order': True, 'shape': (2, 3, 2), }\n",
                 "{'descr': u'<e',\n\t'fortran_order': True,\r\n'shape': (12L, 1L)}",
                 "{'shape': (6L,), 'descr': '>f', 'fortran_order': False}",
                 "{'descr': [('a', '<f4'), ('b', ('<f4', (2,)))], 'fortran_order': False, 'shape': (2,), }\n",
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (), }\n"):
        head = b'\x93NUMPY\x01\x00' + struct.pack('<H', len(text)) + text.encode()
        yield head + values
        yield head + values[:4]
    yield values
    yield values[:5]


def safetensors(vectors):
    """a byte with the kind; a .safetensors file, a .npy file, or a note of tlc-delta"""
    def file(text, data=b''):
        return b'\0' + struct.pack('<Q', len(text)) + text + data

    def entry(dtype, shape, begin, end):
        return json.dumps({'dtype': dtype, 'shape': shape, 'data_offsets': [begin, end]}).encode()

    dtypes = ('F64', 'F32', 'F16', 'BF16', 'F8_E4M3', 'F8_E5M2', 'F8_E8M0', 'F4', 'BOOL', 'U8', 'I8', 'U16', 'I16',
              'U32', 'I32', 'U64', 'I64', 'C64', 'F8_E4M3FNUZ', 'F8_E5M2FNUZ', 'F6_E2M3')
    for dtype in dtypes:
        for shape in [], [2, 2], [0], [16], [1 << 40, 1 << 40]:
            yield file(b'{"a": %s}   ' % entry(dtype, shape, 0, 16), bytes(16))
    for begin, end in (0, 8), (8, 16), (4, 12), (8, 8), (9, 17), (8, 1 << 62), (16, 8):
        yield file(b'{"__metadata__": {"x": "y"}, "a": %s, "b": %s}' % (
            entry('F32', [2], 0, 8), entry('F32', [2 * (end > begin)], begin, end)), bytes(16))
    for text in (b'', b'{}', b'[]', b'{"a": 1}', b'{"a": {}, "a": {}}', b'{"a\\u0000": 1}', b'[' * 3000,
                 b'{"a": [0.5]}', b'{"": %s}' % entry('U8', [1], 0, 1), b'{"a": %s}' % entry('U8', [1] * 65, 0, 1)):
        yield file(text, b'x')
    for data in npy(vectors):
        yield b'\1' + data
    for text in ('{"format":"tlc-delta 1","folder":true,"files":[{"path":"a/b","kind":"u8","size":9},'
                 '{"path":"c","kind":"safetensors","size":0}]}',
                 '{"format":"tlc-delta 1","folder":false,"files":[{"path":"data","kind":"npy","size":9}]}',
                 '{"format":"tlc-delta 1","folder":true,"files":[{"path":"../b","kind":"bf16","size":8}]}'):
        yield b'\2' + text.encode()


def delta(vectors):
    """a byte with dtype and kind; a frame, or base and next one after the other"""
    for dtype, r in deltas(vectors):
        if 'frame' not in r:
            continue
        yield bytes([dtype]) + bytes.fromhex(r['frame'][0])
        if 'status' not in r and r['base'][0] != 'null':
            yield bytes([dtype | 4]) + bytes.fromhex(r['base'][0] + r['next'][0])
            yield bytes([dtype | 8]) + bytes.fromhex(r['next'][0])


def deltas(vectors):
    """the first byte without a kind, and the record"""
    for r in records(vectors, 'delta.txt'):
        number = ('f32', 'f16', 'bf16', 'f8_e4m3', 'f8_e5m2', 'f4_e2m1', 'u8', 'u4', 'i32', 'i64',
                  'f64').index(r['dtype'][0])
        yield number if number < 3 else 16 | (number - 3) << 5, r


def delta_lists(vectors):
    """a byte with dtype and kind; a frame, frames after their lengths, or base and next one after the other"""
    for dtype, r in deltas(vectors):
        if 'link' in r:
            frames = map(bytes.fromhex, r['link'])
            yield bytes([dtype | 4]) + b''.join(struct.pack('<H', len(frame)) + frame for frame in frames)
            continue
        yield bytes([dtype]) + bytes.fromhex(r['frame'][0])
        if 'status' not in r and r['base'][0] != 'null':
            yield bytes([dtype | 8]) + bytes.fromhex(r['base'][0] + r['next'][0])


def weights(vectors):
    """a byte with the kind; a message, its entries one by one, or what a writer is given"""
    for r in records(vectors, 'weights.txt'):
        message = bytes.fromhex(r['message'][0])
        if r['name'][0].find('-cut') < 0 and r.get('status', ['OK'])[0] in ('OK', 'CORRUPT'):
            yield b'\0' + message
        if 'status' in r:
            continue
        count = struct.unpack_from('<Q', message, len(message) - 28)[0]
        index = len(message) - 36 - 8 * count
        offsets = [*struct.unpack_from('<%dQ' % count, message, index), index]
        entries = b''
        for begin, end in zip(offsets, offsets[1:]):
            head = begin + struct.unpack_from('<I', message, begin)[0]
            for part in message[begin + 4:head - 4], message[head:end]:
                entries += struct.pack('<H', len(part)) + part
        if len(entries) < 20000:
            yield b'\1' + entries
            yield b'\2' + entries
    yield b'\3\0\2a\n\2\1\4\1\0\0\0b\n\2\1\4\1\1\0\0'
    yield b'\3\7\3a\n\0\2\2\3\3\1\0\0\0b\n\0\2\2\3\3\1\1\0\0c\n\0\1\2\1\1\1\2'


def stages(vectors):
    names = array('stages.c', 'stages')

    def case(stage, n, detail, payload):
        return struct.pack('<BHB', names.index(stage), n, detail) + payload

    def bundle(frames):
        return b'B\x02' + b''.join(map(leb128, [len(frames), *map(len, frames)])) + b''.join(frames)

    alike, few = {}, []
    for r in records(vectors, 'good.txt'):
        n, form = int(r['n'][0]), r.get('info', [''])[0]
        frame = bytes.fromhex(r['frame'][-1])
        if 'block=' in form or not 0 < n < 128 or int(r['checksum'][0]):
            continue
        body, scaled = frame[5:], frame[9:]  # n takes one byte, M four
        few.append(frame)
        if form == 'ternary+quartic':
            yield case('quartic', n, 0, scaled)
        elif form == 'ternary+quartic+zerorun':
            yield case('zerorun', n, 0, scaled)
        elif form.endswith('+golomb'):
            yield case('golomb', n, int(form.startswith('ternary')), scaled)
        elif form.startswith('natural'):
            yield case('natural', n, 2 * (frame[3] & 127) + (frame[3] >> 7), body[4:])
            alike.setdefault((form, n), []).append(frame)
        elif form in ('onebit', 'topk', 'random-sparse'):
            yield case(form.replace('-', '_'), n, 0, body)
        elif form.startswith('int8'):
            for detail in range(16):
                yield case('symbols', n, detail, body)
        elif form == 'raw':
            for detail in range(16):
                yield case('convert', n, detail, body)
    for k in 0, 1, 2, 5, 20:
        yield case('bundle', 0, 0, bundle(few[:k]))
    for frames in alike.values():
        yield case('aggregate', 0, len(frames), bundle(frames[:8]))


def manifest():
    sys.path.insert(0, os.path.join(HERE, '..', 'vectors'))
    import manifest as module
    return module


@functools.lru_cache
def codec_list():
    """the codecs in the order in which inputs number them"""
    return [c.text for c in manifest().read() if not c.vectors]


def tensor(n, traits=0, *own):
    """of an exchange; own: its codecs"""
    sizes = array('exchange_party.c', 'sizes')
    return bytes([traits | sizes.index(str(n)), *map(codec_list().index, own)])


def plan(kind, flags=0, limits=0, codec='3lc', more=(), tensors=None, ranks=0x22):
    """the configuration of an exchange; more: codecs that flags announce"""
    tensors = tensors or (tensor(300), tensor(5))
    head = [kind, ranks, flags, limits | len(tensors) << 4, *map(codec_list().index, (codec, *more)), 7]
    return bytes(head) + b''.join(tensors)


def exchange(vectors):
    """runs: calls and accidents"""
    del vectors
    operations = array('exchange.c', 'operations')
    pushes, answers = 3, 9  # messages of one rank, and where answers begin

    def op(name, *arguments):
        return bytes([operations.index(name), *arguments])

    def splice(place, old, new, sealed=0x80):
        return bytes([sealed | len(new), place, 0, old]) + new

    def step(kind):
        calls = [op('push', i, 2, i) for i in range(3)]
        if kind == 0:
            calls += [op('reduce', i) for i in range(3)]
        if kind == 2:
            calls += [*(op('deliver', 0, i) for i in range(3)), op('reduce', 0), op('answer', 0, 0)]
        return calls + [op('pull', i) for i in range(3)]

    go_on = op('whole_step', 2, 1)
    for kind in range(3):
        begin, calls, bundle = plan(kind), step(kind), 14 if kind == 1 else 15
        pushed, rest = b''.join(calls[:3]), b''.join(calls[3:])
        for codec in codec_list():
            yield plan(kind, codec=codec) + go_on * 2
            yield plan(kind, flags=0x61, more=(codec, 'raw')) + go_on
        for flags in 1, 2, 4, 8, 16, 31:
            few = tensor(256), tensor(100), tensor(3, 0x80), tensor(17, 0x60, 'sbc')
            ways = [op('whole_step', way, way) for way in (2, 4, 5, 6)]
            yield plan(kind, flags, tensors=few) + b''.join(ways) + op('mask', 1)
        for limits in range(16):
            yield plan(kind, limits=limits, tensors=(tensor(300), tensor(1300), tensor(64, 0x30, 'onebit', 'int8')))
        for i in range(1, len(calls)):
            before, after = b''.join(calls[:i]), b''.join(calls[i:])
            yield begin + before + op('mend') + after + op('mask', 0)
            for slot in (0, pushes, answers) if i % 3 == 0 else ():
                for place, old, new in ((3, 1, b'\1'), (4, 1, b'\0'), (12, 2, b'\2\5'), (14, 1, b'\1'),
                                        (14, 1, b'\xff'), (20, 1, b'\xff'), (0, 255, b''), (14, 255, b''),
                                        (13, 255, b''), (bundle, 255, b'B\2\0')):
                    yield begin + before + op('splice', slot) + splice(place, old, new) + after + go_on
                for place in 1, 2, 16:
                    yield begin + before + op('splice', slot) + splice(place, 255, b'', 0) + after + go_on
                for place, old, new in (0, 255, b''), (2, 1, b'\xff'), (4, 1, b'\7'), (9, 255, b''), (30, 1, b'\xf3\1'):
                    yield begin + before + op('splice_frame', slot, 0) + splice(place, old, new, 0) + after + go_on
                yield begin + before + op('splice_frame', slot, 1) + splice(0, 0, b'', 0) + after + go_on
                yield begin + before + op('swap', slot, (slot + 4) % 12) + after + op('mend') + after
        for way in 5, 6, 7, 34, 66:  # with a NaN, huge, nobody, with weights
            for cut in range(4, 12, 3):
                spoilt = op('splice', 0) + splice(14, cut, b'\0')
                yield begin + op('push', 0, way, 1) + spoilt + pushed[4:] + rest + go_on
            spoilt = op('splice', 0) + splice(bundle + 3, 1, b'\x7f')
            yield begin + op('push', 0, way, 1) + spoilt + pushed[4:] + rest
        for ranks in 0x21, 0x26:  # parts of the same size, for another owner
            even = plan(kind, limits=0, tensors=(tensor(256),), ranks=ranks)
            yield even + pushed + op('swap', 0, 1) + op('swap', pushes, pushes + 1) + rest + go_on
        # a frame from somebody whose tensor it is not
        yield plan(kind, tensors=(tensor(3, 0x80),)) + pushed + op('bring_old', pushes, 0) + op('splice', pushes) + \
            splice(12, 1, b'\1') + rest + go_on
        yield plan(kind, flags=1, tensors=(tensor(300), tensor(3, 0x10, 'natural'))) + go_on
        for call in (op('cancel', 1), op('join', 1, 3), op('join', 1, 10), op('restart', 1), op('scale', 1, 1),
                     op('again', 1, 2), op('bring_old', pushes, 2), op('bring_old', answers, 4),
                     op('set_codec', 0, 0, 3), op('set_codec', 1, 5, 1)):
            yield plan(kind, 0x20, more=('sbc',)) + go_on + call + op('push', 1, 3, 1) + call + go_on
        saved = begin + go_on + op('save', 0) + op('save', 1) + op('save', 3)
        for count, who in (1, 0), (1, 1), (2, 0), (1, 3):
            load = op('load', who, count, *range(count))
            yield saved + go_on + load + op('restart', who) + load
            for place, old, new in ((4, 2, b'\2\x11'), (8, 1, b'\x09'), (8, 1, b'\0'), (16, 1, b'\1'), (22, 1, b'v'),
                                    (23, 1, b'\5'), (60, 2, b'\x80\x7f')):
                yield saved + op('splice_state', 0) + splice(place, old, new) + load + go_on


def exchange_state(vectors):
    del vectors

    def entry(name, n, first, count, codec, pull=0, residual=True):
        head = bytes([pull | 2 * residual, len(name)]) + name + b''.join(map(leb128, (n, first, count, len(codec))))
        return head + codec + struct.pack('<%df' % count, *range(count)) * residual

    def state(kind, role, rank, entries, step=9, workers=3, history=None):
        """history: None: a state of version 1, which has none"""
        head = b'TLCX' + struct.pack('<BBBBQ', 1 if history is None else 2, kind | role << 4, 0, 0, step)
        known = b'' if history is None else struct.pack('<Q', history)
        return head + leb128(workers) + leb128(role > 0) + leb128(rank) + leb128(len(entries)) + known + \
            b''.join(entries) + bytes(4)  # the target makes the checksum

    whole = [entry(b'w', 300, 0, 300, b'3lc'), entry(b'bias', 5, 0, 5, b'raw')]
    answers = [entry(b'w', 300, 0, 160, b'3lc:s=1.5', 1), entry(b'w', 300, 160, 140, b'3lc', 1),
               entry(b'bias', 5, 0, 5, b'raw', 1)]
    objects = (1, 0, 0, whole + answers), (2, 0, 1, whole), (3, 1, 2, whole), (3, 2, 128, answers)
    for kind, role, who, entries in objects:
        begin = plan(kind - 1)
        for some in entries, entries[:1], entries[1:], [], [entry(b'gone', 4, 0, 4, b'3lc')], \
                [entry(b'w', 300, 0, 300, b'onebit')], [entry(b'w', 299, 0, 3, b'3lc')], \
                [entry(b'w', 300, 0, 300, b'3lc', residual=False)]:
            yield begin + bytes([who, 0]) + state(kind, role, who % 128, some)
        cut = entry(b'w', 300, 0, 300, b'onebit', pull=role == 2, residual=False)
        yield begin + bytes([who, 0]) + state(kind, role, who % 128, [cut])[:-10] + bytes(4)
        for *ranks, histories in (0, 1, ()), (0, 0, ()), (1, 2, 0, ()), (1, 2, 0, (7, 7, 0)), (1, 2, 0, (7, 8)):
            several = [state(kind, role, rank, entries, step=9 + (len(ranks) == 2 and rank == 1), history=known)
                       for rank, known in itertools.zip_longest(ranks, histories)]
            yield begin + bytes([who, len(ranks) - 1]) + \
                b''.join(struct.pack('<H', len(s)) + s for s in several[:-1]) + several[-1]
        yield begin + bytes([who, 0]) + state(kind, role, 7, entries, workers=8)


def gossip(vectors):
    """runs: calls and accidents"""
    del vectors
    operations, sizes = array('gossip.c', 'operations'), array('gossip_plan.c', 'sizes')
    hellos = 4  # where they begin, after the pushes
    everybody = 4

    def op(name, *arguments):
        return bytes([operations.index(name), *arguments])

    def tensor(n, *own):
        return bytes([sizes.index(str(n)) | 0x80 * len(own), *map(codec_list().index, own)])

    def plan(ecd, codec='qsgd', shape=0x04, flags=0, values=0x3a, reserve=(), tensors=None):
        tensors = tensors or (tensor(64), tensor(5, 'raw'))
        head = [shape, flags | ecd, values, codec_list().index(codec), len(tensors) | 0x80 * len(reserve)]
        return bytes([*head, *map(codec_list().index, reserve)]) + b''.join(tensors)

    def splice(place, old, new, sealed=0x80):
        return bytes([sealed | len(new), *struct.pack('<H', place), old]) + new

    def replace(data, head=0):
        return bytes([0x80 | head]) + struct.pack('<H', len(data)) + data

    def text(words):
        return leb128(len(words)) + words

    def state(ecd, node, entries, step=9, nodes=3, lost=()):
        others = [j for j in range(nodes) if j != node]
        arrays = 1 + ecd + len(others) - len(lost)
        entries = [text(name) + leb128(n) + text(codec) + struct.pack('<%df' % n, *range(n)) * arrays
                   for name, n, codec in entries]
        return b'TLCG\1' + struct.pack('<BBBQ', 4 + ecd, 0, 0, step) + \
            b''.join(map(leb128, (nodes, node, len(others), len(entries), *(2 * j + (j in lost) for j in others)))) + \
            b''.join(entries)

    go_on, meet, mean = op('whole_step', 10, 1), op('meet', 0), op('whole_step', 15, 0)
    for ecd in range(2):
        begin = plan(ecd)
        pushes, pulls = [op('push', i, 10, i) for i in range(3)], [op('pull', i) for i in range(3)]
        calls = pushes + pulls
        for case in manifest().read():
            if not case.vectors:
                yield plan(ecd, case.text) + go_on * 2 + meet
                yield plan(ecd, 'raw', reserve=(case.text,)) + go_on + \
                    op('set_codec', everybody, 5, codec_list().index(case.text)) + go_on + meet
                for given in 0x7f000000, 0x7e000000, 0x7d000000:  # a sum that is not finite
                    moved = op('whole_step', 16, 0) + struct.pack('<I', given)
                    yield plan(ecd, case.text, values=0) + moved * 3 + meet
        for shape in range(256):
            yield plan(ecd, 'qsgd:bits=4', shape) + go_on + meet
        for flags in range(0, 256, 2):
            yield plan(ecd, 'natural', 0x08, flags) + meet + go_on * 2 + meet
        for values in range(32):
            yield plan(ecd, 'random-sparse', values=8 * values | values % 8) + op('whole_step', values, 3) + meet
        for way in range(16):
            yield begin + op('whole_step', way, 5) + mean + meet
            for given in 0x7f800000, 0xff800000, 0x7fc00000, 0x7f7fffff, 0xff7fffff, 1, 0x80000000, 0x7b000000:
                moved = op('push', way % 3, 16 | way % 8, 1) + struct.pack('<I', given)
                yield begin + moved + b''.join(calls) + meet + go_on
        for i in range(1, len(calls)):
            before, after = b''.join(calls[:i]), b''.join(calls[i:])
            yield begin + before + op('mend') + op('hello', 1) + op('greet', 0, 255) + \
                b''.join(op('again', 0, back) for back in range(4)) + after + meet
            for place, old, new in ((0, 1, b'e'), (1, 1, b'\2'), (2, 1, b'\x34'), (3, 1, b'\1'), (3, 1, b'\2'),
                                    (4, 1, b'\0'), (12, 1, b'\1'), (13, 1, b'\2'), (14, 1, b'\1'), (20, 1, b'\xff'),
                                    (0, 255, b''), (13, 255, b''), (14, 255, b''), (14, 255, b'B\2\0')):
                for sealed in 0, 0x80:
                    yield begin + before + op('splice', 1) + splice(place, old, new, sealed) + after + meet + go_on
            for place, old, new in (0, 255, b''), (2, 1, b'\xff'), (4, 1, b'\7'), (9, 255, b''), (8, 2, b'\x80\x7f'):
                for frame in range(2):
                    yield begin + before + op('splice_frame', 0, frame) + splice(place, old, new, 0) + after + meet
            yield begin + before + op('swap', 0, 1) + after + op('mend') + after + meet
            yield begin + before + op('bring_old', 1, 0) + after + meet
            for call in (op('lose', 1, 0), op('join', 1, 0), op('join', 1, 2), op('join', 1, 10, 2, 3),
                         op('join', 1, 10, 21, 3) + bytes(4), op('restart', 1), op('set_codec', 1, 0, 3)):
                yield begin + before + call + after + meet + go_on + op('meet', 1) + go_on + meet
        for full in range(2):
            greeted = op('greet', 0, 255) + op('greet', 2, 255) + go_on + meet
            said = begin + go_on + b''.join(op('hello', 2 * i + full) for i in range(3))
            for place, old, new in ((2, 1, b'\x14'), (3, 1, b'\1'), (13, 1, b'\7'), (14, 1, b'\1'), (15, 1, b'\3'),
                                    (16, 8, bytes(8)), (23, 1, b'\xbf'), (24, 1, b'\1'), (33, 1, b'\xff'),
                                    (42, 1, b'\0'), (49, 255, b''), (60, 2, b'\x80\x7f'), (30, 255, b'')):
                for lost in b'', op('lose', 0, 0), op('lose', 0, 1):
                    yield said + lost + op('splice', hellos + 1) + splice(place, old, new) + greeted
            for lost in b'', op('lose', 0, 0), op('lose', 0, 1) + op('lose', 0, 0):
                yield said + lost + greeted + op('meet', 1) + go_on
                yield said + lost + op('splice_frame', hellos + 1, 0) + splice(9, 4, b'\0\0\x80\x7f') + greeted
                yield said + lost + op('swap', hellos, hellos + 1) + greeted + op('mend') + greeted
                yield said + lost + op('bring_old', hellos + 1, 0) + greeted
        row = b'\2\0' + struct.pack('<d', 1 / 3) + b'\2' + struct.pack('<2d', 1 / 3, 1 / 3) + bytes(8)
        frames = b'B\2\1\x0a', b'B\2\0', b''
        for phase, body in (0x10, b''), (0x30, row), (0x30, row[:-1]), (0x30, row[:20]), (0x30, b'\0'):
            for bundle in frames:
                message = b'E\1' + bytes([4 + ecd | phase, 0]) + bytes(8) + b'\1\2' + body + bundle
                slot = hellos + 1 if phase == 0x30 else 1
                said = begin + go_on + b''.join(pushes if phase == 0x10 else [op('hello', 2)])
                after = op('pull', 0) if phase == 0x10 else op('greet', 0, 255)
                yield said + op('forge', slot) + replace(message) + after + go_on
                yield said + op('forge', slot) + replace(message[12:], 12) + after + go_on
        whole = [(b'w', 64, b'qsgd'), (b'bias', 5, b'raw')]
        for entries in (whole, whole[:1], whole[1:], [], [(b'gone', 4, b'qsgd')], [(b'w', 63, b'qsgd')], whole + whole,
                        [(b'w', 64, b'natural')], [(b'bias', 5, b'onebit')], [(b'bias', 5, b'no codec')]):
            for lost in (), (1,), (1, 2):
                forged = op('forge_state', 0) + replace(state(ecd, 0, entries, lost=lost))
                yield begin + forged + op('load', 0, 1, 0) + meet + go_on
            cut = op('forge_state', 0) + replace(state(ecd, 0, entries)[:-30])
            yield begin + cut + op('load', 0, 1, 0) + meet + go_on
            several = b''.join(op('forge_state', i) + replace(state(ecd, i, entries[:2])) for i in range(3))
            yield begin + several + b''.join(op('load', i, 3, 0, 1, 2) for i in range(3)) + meet + go_on
        few = plan(ecd, tensors=(tensor(5, 'raw'),))
        one = op('forge_state', 3) + replace(state(ecd, 0, whole[1:], nodes=1))
        yield few + one + b''.join(op('load', i, 1, 3) for i in range(3)) + meet + go_on + meet
        saved = begin + go_on + op('save', 0) + op('save', 1) + op('save', 2) + op('lose', 0, 1) + op('save', 0)
        for states in (0,), (1,), (3,), (0, 1), (0, 1, 2), (2, 1, 3), (1, 1, 2), (0, 1, 2, 3), ():
            load = b''.join(op('load', i, len(states), *states) for i in range(3))
            yield saved + go_on + load + meet + go_on + meet
            yield saved + op('restart', 0) + load + op('meet', 1) + go_on + meet
        far = b''.join(op('push', i, 16, 0) + struct.pack('<I', 0x7f7fffff ^ i << 31) for i in range(2)) + pushes[2]
        saved = plan(ecd, 'raw', values=0) + far + b''.join(pulls) + b''.join(op('save', i) for i in range(3))
        yield saved + go_on + b''.join(op('load', i, 3, 2, 0, 1) for i in range(3)) + op('meet', 1) + go_on + meet
        for value in b'\0\0\x80\x7f', b'\0\0\xc0\x7f', b'\xff\xff\x7f\x7f':  # in the replica of a neighbour
            spoilt = op('splice_frame', 1, 0) + bytes([0x44, 4, 0, 4]) + value
            saved = plan(ecd, 'raw') + b''.join(pushes) + spoilt + b''.join(pulls) + op('save', 0)
            yield saved + op('load', 0, 1, 0) + go_on + op('meet', 0) + op('meet', 1) + go_on + meet
        saved = begin + op('save', 0) + op('save', 1) + go_on + op('save', 2)
        yield saved + op('load', 0, 3, 0, 1, 2) + meet
        saved = begin + go_on + op('save', 0)
        for place, old, new in ((4, 1, b'\2'), (5, 1, b'\1'), (6, 1, b'\1'), (8, 1, b'\x09'), (8, 1, b'\0'),
                                (15, 1, b'\x80'), (16, 1, b'\1'), (16, 1, b'\7'), (17, 1, b'\2'), (18, 1, b'\1'),
                                (19, 1, b'\1'), (20, 1, b'\3'), (21, 1, b'\x7f'), (23, 1, b'v'), (24, 1, b'\5'),
                                (60, 2, b'\x80\x7f'), (24, 255, b'')):
            yield saved + op('splice_state', 0) + splice(place, old, new) + op('load', 0, 1, 0) + meet + go_on


def words():
    for word in [*manifest().words(), *':+,;=']:
        print('"%s"' % word)


def write(inputs):
    for data in sorted(set(inputs), key=lambda d: (len(d), d)):
        print(data.hex())


def pack(folder, most=65536):
    names = [os.path.join(folder, name) for name in os.listdir(folder)]
    write(open(name, 'rb').read() for name in names if os.path.getsize(name) <= int(most))


def unpack(folder):
    for line in sys.stdin:
        if not line.startswith('#'):
            data = bytes.fromhex(line)
            with open(os.path.join(folder, hashlib.sha1(data).hexdigest()), 'wb') as f:
                f.write(data)


def main(args):
    targets = {f.__name__: f for f in (decompress, roundtrip, state_load, codec_string, delta, delta_lists, weights,
                                       stages, npy, safetensors, exchange, exchange_state, gossip)}
    if args in (['-h'], ['--help']):
        print(__doc__)
    elif len(args) in (2, 3) and args[0] == '--pack':
        pack(*args[1:])
    elif len(args) == 2 and args[0] == '--unpack':
        unpack(args[1])
    elif args == ['--words']:
        words()
    elif len(args) == 2 and args[1] in targets:
        write(targets[args[1]](args[0]))
    else:
        sys.exit(__doc__)


main(sys.argv[1:])
