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

    def state(kind, role, rank, entries, step=9, workers=3):
        head = b'TLCX\1' + struct.pack('<BBBQ', kind | role << 4, 0, 0, step)
        return head + leb128(workers) + leb128(role > 0) + leb128(rank) + leb128(len(entries)) + b''.join(entries) + \
            bytes(4)  # the target makes the checksum

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
        for ranks in (0, 1), (0, 0), (1, 2, 0):
            several = [state(kind, role, rank, entries, step=9 + (len(ranks) == 2 and rank == 1)) for rank in ranks]
            yield begin + bytes([who, len(ranks) - 1]) + \
                b''.join(struct.pack('<H', len(s)) + s for s in several[:-1]) + several[-1]
        yield begin + bytes([who, 0]) + state(kind, role, 7, entries, workers=8)


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
    targets = {f.__name__: f for f in (decompress, roundtrip, state_load, codec_string, stages, npy, exchange,
                                       exchange_state)}
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
