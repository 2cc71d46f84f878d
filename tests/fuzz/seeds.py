#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Seeds of the fuzz targets, most from the golden vectors.

seeds.py VECTORS TARGET         writes TARGET's seeds, one a line in hexadecimal
seeds.py --pack DIR [MOST]      writes the files in DIR (a fuzzer's corpus) in that form, each of at most MOST bytes
seeds.py --unpack DIR           reads such lines and writes each as a file into DIR
seeds.py --words                writes the words of codec strings, as a dictionary for libFuzzer
"""
import hashlib
import json
import os
import struct
import sys

from seed_sources import array, leb128, manifest, records
from seeds_exchange import exchange, exchange_state, gossip


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
