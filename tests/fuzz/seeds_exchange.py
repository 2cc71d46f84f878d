# SPDX-License-Identifier: MIT
"""Seeds of the fuzz targets of the exchange: runs with calls and accidents, and states."""
import itertools
import struct

from seed_sources import array, codec_list, leb128, manifest


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
