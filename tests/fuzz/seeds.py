#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Seeds of the fuzz targets, from the golden vectors.

seeds.py VECTORS TARGET         writes TARGET's seeds, one a line in hexadecimal
seeds.py --pack DIR [MOST]      writes the files in DIR (a fuzzer's corpus) in that form, each of at most MOST bytes
seeds.py --unpack DIR           reads such lines and writes each as a file into DIR
seeds.py --words                writes the words of codec strings, as a dictionary for libFuzzer
"""
import hashlib
import os
import re
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


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
        for descr, count in ('<f4', 6), ('>f4', 6), ('<f2', 12), ('>f2', 12), ('<f8', 3):
            for shape in ('(%d,)' % count, '(2, %d)' % (count // 2), '(%d, 1, )' % count, '()', '(0, 5)',
                          '(99999999999, 3)'):
                text = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
                text += ' ' * (-len(text) % 16) + '\n'
                length = struct.pack('<H' if version == 1 else '<I', len(text))
                yield b'\x93NUMPY' + bytes([version, 0]) + length + text.encode() + values
    yield values
    yield values[:5]


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
    sys.path.insert(0, os.path.join(HERE, '..', 'vectors'))
    import manifest
    for word in [*manifest.words(), *':+,;=']:
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
    targets = {f.__name__: f for f in (decompress, roundtrip, state_load, codec_string, stages, npy)}
    if len(args) in (2, 3) and args[0] == '--pack':
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
