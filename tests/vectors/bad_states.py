# SPDX-License-Identifier: MIT
"""States that tlc_state_load refuses, and some that it takes."""
import struct

from model import Context, seal
from record import Random, hexa
from xxh3 import M64


def bad_state():
    out = []

    def add(name, ctx, b, expected):
        assert ctx.load_status(b) == expected, (name, ctx.load_status(b), expected)
        out.append('name %s\ncodec %s\ndtype %s\nfeedback %d\nn %d\nstate %s\nstatus %s\n\n' % (
            name, ctx.text, ctx.dtype, ctx.feedback, ctx.n, hexa(b), expected))

    def ctx(text='3lc:s=1.5', dtype='f32', n=10, feedback=1):
        c = Context(text, dtype, n, feedback, 0, 0x0123456789abcdef)
        c.compress(Random('state').gradient(n, dtype))
        return c
    c = ctx()
    good_bytes = c.state()
    open_bytes = good_bytes[:-4]

    def patch(at, new, b=open_bytes):
        return b[:at] + new + b[at + len(new):]
    for k in (0, 3, 4, 12, 32, 35):
        add('short%d' % k, c, good_bytes[:k], 'CORRUPT')
    for k in (36, 40, 41, 60, len(good_bytes) - 1):
        add('short%d' % k, c, good_bytes[:k], 'CHECKSUM')
    add('longer', c, good_bytes + b'\0', 'CHECKSUM')
    for k in range(4):
        add('magic%d' % k, c, seal(patch(k, b'x')), 'CORRUPT')
    for v in (b'\0', b'\2', b'\xff'):
        add('version%d' % v[0], c, patch(4, v, good_bytes), 'VERSION')
    add('version-size', ctx(n=9), patch(4, b'\2', good_bytes), 'VERSION')
    for k in (5, 6, 7, 8, 15, 16, 24, 31, 32, 40, 41, 44, 60, len(good_bytes) - 4, len(good_bytes) - 1):
        add('flip%d' % k, c, patch(k, bytes([good_bytes[k] ^ 1 << k % 8]), good_bytes), 'CHECKSUM')
    add('flip-size', ctx(n=9), patch(40, b'!', good_bytes), 'CHECKSUM')
    for n in (0, 9, 11):
        add('size%d' % n, ctx(n=n), good_bytes, 'SIZE')
    for n in (1 << 32 | 10, 1 << 62 | 10, M64):
        add('size-%x' % n, c, seal(patch(8, struct.pack('<Q', n))), 'SIZE')
    add('size-dtype', ctx(n=9, dtype='f16'), good_bytes, 'SIZE')
    add('size-codec', ctx(n=9), seal(patch(32, b'x')), 'SIZE')
    for dtype in ('f16', 'bf16'):
        add('dtype-' + dtype, ctx(dtype=dtype), good_bytes, 'PARAM')
    add('dtype3', c, seal(patch(5, b'\3')), 'PARAM')
    add('feedback-off', ctx(feedback=0), good_bytes, 'PARAM')
    add('feedback-on', c, ctx(feedback=0).state(), 'PARAM')
    add('feedback2', c, seal(patch(6, b'\2')), 'PARAM')
    add('dtype-length', ctx(dtype='f16'), seal(good_bytes), 'PARAM')
    for name, b in (('sealed-longer', open_bytes + b'\0'), ('sealed-word', open_bytes + bytes(4)),
                    ('sealed-shorter', open_bytes[:-1]), ('sealed-no-residual', open_bytes[:41]),
                    ('sealed-head', open_bytes[:32]), ('sealed-codec-longer', patch(7, b'\x0a')),
                    ('sealed-codec-255', patch(7, b'\xff')), ('sealed-codec-0', patch(7, b'\0')),
                    ('sealed-length-first', patch(32, b'x') + b'\0')):
        add(name, c, seal(b), 'CORRUPT')
    add('off-residual', ctx(feedback=0), seal(ctx(feedback=0).state()[:-4] + bytes(40)), 'CORRUPT')
    for text in (b'3lc:s=2.5', b'3lc:s=1,5', b'nonsense!', b'3lc:s=1.x', b'3lc+3lc:s', b'3lc:x=1.5', b'3lc:s=1.\0',
                 b'3lc\0s=1.5', b'raw:s=1.5', b'int8:p=.1', b'topk:p=2.', b'sbc:p=0.0', b'sbc+zeror',
                 b'int8+int8', b'onebit:p='):
        add('codec-' + text.hex(), c, seal(patch(32, text)), 'PARAM')
    add('codec-empty', c, seal(open_bytes[:7] + b'\0' + open_bytes[8:32] + open_bytes[41:]), 'PARAM')
    add('codec-larger', c, ctx('raw').state(), 'CAPACITY')
    add('codec-int8', c, ctx('int8').state(), 'CAPACITY')
    add('codec-from-int8', ctx('int8'), good_bytes, 'OK')
    add('step-large', c, seal(patch(24, struct.pack('<Q', 0xfedcba9876543210))), 'OK')
    add('codec-smaller', ctx('raw'), good_bytes, 'OK')
    add('same', c, good_bytes, 'OK')
    return out
