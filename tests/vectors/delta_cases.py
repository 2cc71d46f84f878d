# SPDX-License-Identifier: MIT
"""The golden vectors of deltas of weights."""
from itertools import chain

from delta import DTYPES, GRADIENTS, decode, encode, fold, moved, unwords
from ieee import Status, bits_of
from model import seal
from record import Random, hexa

KINDS = ('same', 'one', 'few', 'many', 'all', 'any', 'signs', 'far', 'mixed')


def weights(rnd, n, dtype):
    """bell-shaped, as weights are; some zeros of both signs"""
    def one():
        v = (sum(rnd.bits(16) for _ in range(4)) / 65536 - 2) / 16
        x = bits_of(v) if rnd.bits(5) else rnd.bits(1) << 31
        return x if bits == 32 else x >> 16 if bits == 16 else x >> 20 & (1 << bits) - 1
    _, bits, _, per_weight = DTYPES[dtype]
    return [sum(one() << bits * plane for plane in range(per_weight)) for _ in range(n)]


def change(kind, i, x, rnd, dtype):
    _, bits, _, per_weight = DTYPES[dtype]
    bits *= per_weight
    draw, d = rnd.bits(16), 0
    if kind == 'one':
        d = i == 3
    elif kind == 'few':
        d = (0 if draw % 40 else 1 if draw & 4096 else -1) * (1 if draw & 0xe000 else 2 + rnd.bits(3))
    elif kind == 'many':
        d = 0 if draw % 3 else rnd.bits(5) - 16
    elif kind == 'all':
        d = rnd.bits(9) - 256
    elif kind == 'any':
        return rnd.bits(bits)
    elif kind == 'signs':
        return x ^ (0 if draw % 9 else 1 << bits - 1)
    elif kind == 'far':
        d = 0 if draw % 20 else -(1 << bits - 1) if draw & 4096 else rnd.bits(bits - 1)
    elif kind == 'mixed':  # the longest codes of magnitudes among the shortest
        d = 0 if draw % 9 else (2 if draw & 0xc000 else (1 << bits - 1) - 1) * (1 if draw & 4096 else -1)
    return x + d & (1 << bits) - 1 if per_weight > 1 else moved(x, d, dtype)


def good():
    for dtype in DTYPES:
        for n in (0, 1, 5, 64, 200) if dtype in GRADIENTS else (0, 2, 6, 80):
            for kind in KINDS if n >= 80 else ('few', 'many'):
                name = '%s-%s-%d' % (dtype, kind, n)
                rnd = Random('delta ' + name)
                base = weights(rnd, n, dtype)
                after = [change(kind, i, x, rnd, dtype) for i, x in enumerate(base)]
                yield name, dtype, unwords(base, dtype), unwords(after, dtype), 1
            yield '%s-fresh-%d' % (dtype, n), dtype, None, unwords(after, dtype), 1
            yield '%s-plain-%d' % (dtype, n), dtype, unwords(base, dtype), unwords(after, dtype), 0
            yield '%s-blocks-%d' % (dtype, n), dtype, unwords(base, dtype), unwords(after, dtype), 2
            yield '%s-fresh-blocks-%d' % (dtype, n), dtype, None, unwords(after, dtype), 2


# of each frame: what changes, digests; x: it has all weights
CHAINS = (('few 1', 'few 1'), ('few 2', 'many 1', 'few 2'), ('many 2', 'few 2', 'same 1'), ('few 0', 'few 1', 'one 1'),
          ('same 1', 'same 1'), ('few 1', 'x 1', 'few 1'), ('few 2', 'x 2', 'few 2'), ('any 1', 'few 1'),
          ('few 1', 'any 1', 'many 1'), ('mixed 1', 'far 1', 'all 1'), ('all 0', 'all 0', 'all 0'),
          ('many 1', 'back 1'), ('few 1', 'many 1', 'back 1', 'x 0'))


def chains():
    for dtype in DTYPES:
        for number, kinds in enumerate(CHAINS):
            for n in (6, 80):
                name = '%s-chain-%d-%d' % (dtype, number, n)
                rnd = Random('delta ' + name)
                steps, frames = [weights(rnd, n, dtype)], []
                for step in kinds:
                    kind, digests = step.split()
                    kind = 'few' if kind == 'x' else kind
                    after = steps[0] if kind == 'back' else [change(kind, i, x, rnd, dtype)
                                                             for i, x in enumerate(steps[-1])]
                    frames.append(encode(None if step[0] == 'x' else unwords(steps[-1], dtype), unwords(after, dtype),
                                         dtype, int(digests)))
                    steps.append(after)
                ends = [unwords(steps[i], dtype) for i in (0, -1)]
                assert decode(fold(frames, n, dtype), ends[0], dtype) == ends[1], name
                yield name, dtype, n, frames
                yield name + '-lost', dtype, n, frames[1:] + frames[:1]


def made_of(dtype, cases):
    """frames of these kinds and sizes, with a base and without"""
    for kind, n in cases:
        rnd = Random('altered ' + kind)
        base = weights(rnd, n, dtype)
        after = unwords([change(kind, i, x, rnd, dtype) for i, x in enumerate(base)], dtype)
        base = unwords(base, dtype)
        yield kind, base, after, encode(base, after, dtype, 0)
        yield kind + '-fresh', base, after, encode(None, after, dtype, 0)
        if kind in ('few', 'any'):
            yield kind + '-blocks', base, after, encode(base, after, dtype, 2)


def forged(kind, frame, each):
    """with a checksum that fits: a bit of a byte inverted, and shorter ones"""
    for i in range(2, len(frame) - 4, each):
        yield '%s-%d' % (kind, i), seal(bytes(v ^ (i == j) << i % 8 for j, v in enumerate(frame[:-4])))
    for i in range(4, len(frame) - 4, 5 * each):
        yield '%s-cut%d' % (kind, i), seal(frame[:i])


def altered():
    """frames that are refused, and some that our encoder does not write"""
    made = list(made_of('bf16', (('few', 70), ('far', 70), ('many', 40), ('mixed', 40), ('all', 30), ('any', 9),
                                 ('same', 7))))
    _, base, after, _ = made[-1]
    few = encode(base, after, 'bf16')
    for i in range(len(few)):
        yield 'flip%d' % i, bytes(v ^ (8 if i == j else 0) for j, v in enumerate(few)), base, 'bf16'
        yield 'short%d' % i, few[:i], base, 'bf16'
    yield 'long', few + b'\0', base, 'bf16'
    yield 'base', few, bytes([base[0] ^ 1]) + base[1:], 'bf16'
    yield 'size', few, base[:-2], 'bf16'
    yield 'unchanged', few, base, 'bf16'
    for kind, base, _, frame in made:
        for name, bad in forged(kind, frame, 1):
            yield name, bad, base, 'bf16'
    for dtype in ('f8_e5m2', 'f4_e2m1', 'i64'):
        for kind, base, _, frame in made_of(dtype, (('few', 30), ('mixed', 20), ('many', 10), ('any', 6))):
            for name, bad in forged('%s-%s' % (dtype, kind), frame, 2):
                yield name, bad, base, dtype


def text(more_good, more_altered):
    out = ['# SPDX-License-Identifier: MIT\n',
           '# Written by model.py generate; not edited by hand. Records end at an empty line; byte strings in hex,\n',
           '# weights little-endian, - for none; base null: there is none. The status is that of tlc_delta_apply.\n\n']
    for name, dtype, base, after, digests in chain(good(), more_good):
        frame = encode(base, after, dtype, digests)
        assert decode(frame, after if base is None else base, dtype) == after, name
        out += ['name %s\ndtype %s\nbase %s\nnext %s\ndigests %d\nframe %s\n\n' %
                (name, dtype, 'null' if base is None else hexa(base), hexa(after), digests, hexa(frame))]
    for name, frame, base, dtype in chain(altered(), more_altered):
        try:
            after, status = decode(frame, base, dtype), 'OK'
        except Status as e:
            after, status = None, str(e)
        out += ['name %s\ndtype %s\nframe %s\nbase %s\nstatus %s\n' %
                (name, dtype, hexa(frame), hexa(base), status)]
        out += ['next %s\n\n' % hexa(after) if after is not None else '\n']
    for name, dtype, n, frames in chains():
        try:
            folded, status = fold(frames, n, dtype), 'OK'
        except Status as e:
            folded, status = None, str(e)
        out += ['name %s\ndtype %s\n' % (name, dtype)] + ['link %s\n' % hexa(frame) for frame in frames]
        out += ['status %s\nfold %s\n\n' % (status, hexa(folded) if folded else '-')]
    return ''.join(out)
