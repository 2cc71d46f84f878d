# SPDX-License-Identifier: MIT
"""Frames that decoders refuse, and frames that the encoder does not write but decoders take. Here: what all codecs
share, with 3lc, ternary+quartic and raw."""
import struct

from codec import MAX_BLOCK
from ieee import pack_row
from model import Context, seal
from packing import varint
from xxh3 import M64

ONE = struct.pack('<f', 1)


def head(flags=0, values=2, coding=0x11, n=b'\7', rest=b''):
    return bytes([1, flags, values, coding]) + n + rest


def bad_frames():
    grad = pack_row([0.9, -0.1, 0, 0.6, -1.0, 0.2, 0.5])

    def make(codec, checksum=0, g=grad):
        return Context(codec, 'f32', len(g) // 4, 0, checksum).compress(g)
    a, sealed, blocked, raw = make('3lc'), make('3lc', 1), make('3lc:block=4'), make('raw')
    long = make('3lc', 0, grad * 50)  # n = 350 takes two bytes
    pay = bytes([192, 144])
    for name, b, n in (('', a, 7), ('n350-', long, 350), ('block-', blocked, 7), ('raw-', raw, 7)):
        for k in range(min(len(b), 25)):
            yield 'short-%s%d' % (name, k), b[:k], n, 'CORRUPT'
        yield name + 'trailing', b + b'\0', n, 'CORRUPT'
    yield 'short-n-wrong', long[:5], 7, 'CORRUPT'
    for k in range(4, len(sealed)):
        yield 'short-sealed%d' % k, sealed[:k], 7, 'CORRUPT' if k < 9 else 'CHECKSUM'
    for k in range(9, len(sealed)):
        yield 'short-resealed%d' % k, seal(sealed[:k - 4]), 7, 'CORRUPT'
    for v in (0, 2, 128, 255):
        yield 'version%d' % v, bytes([v]) + a[1:], 7, 'VERSION'
    yield 'version-codec', b'\2\0\xff\xff' + a[4:], 7, 'VERSION'
    yield 'version-checksum', b'\2' + sealed[1:], 7, 'VERSION'
    yield 'version-short', b'\2' + a[1:4], 7, 'CORRUPT'
    yield 'version-short-sealed', b'\2' + sealed[1:8], 7, 'CORRUPT'
    for values, coding in ((0, 0), (0, 0x11), (255, 0x11), (2, 0), (2, 0x10), (2, 0xf1), (2, 0x1f), (2, 0xff), (1, 1),
                           (1, 0x10), (1, 0x11)):
        yield 'codec-%d-%02x' % (values, coding), head(0, values, coding, b'\7', ONE + pay), 7, 'UNSUPPORTED'
    yield 'codec-checksum', head(4, 255, 0, b'\7', ONE + pay + b'none'), 7, 'UNSUPPORTED'
    yield 'codec-size', head(0, 255, 0, b'\7', ONE + pay), 8, 'UNSUPPORTED'
    yield 'codec-dtype3', head(3, 255, 0, b'\7', ONE + pay), 7, 'UNSUPPORTED'
    yield 'codec-varint', head(0, 255, 0, b'\x80', b'\0'), 7, 'UNSUPPORTED'
    expected = {0: 'VERSION', 2: 'UNSUPPORTED', 3: 'UNSUPPORTED'}
    for k in range(len(sealed)):
        flipped = bytes(v ^ (32 if i == k else 0) for i, v in enumerate(sealed))
        yield 'flip%d' % k, flipped, 7, expected.get(k, 'CHECKSUM')
    yield 'flip-flag', sealed[:1] + b'\0' + sealed[2:], 7, 'CORRUPT'
    yield 'flag-unsealed', a[:1] + b'\4' + a[2:], 7, 'CHECKSUM'
    yield 'checksum-size', sealed[:-1] + bytes([sealed[-1] ^ 1]), 8, 'CHECKSUM'
    yield 'checksum-dtype3', head(7, rest=ONE + pay + b'none'), 7, 'CHECKSUM'
    yield 'checksum-varint', head(4, n=b'\x87\0', rest=ONE + pay + b'none'), 7, 'CHECKSUM'
    for n in (0, 6, 8, 70, 1 << 32 | 7):
        yield 'size%d' % n, a, n, 'SIZE'
    yield 'size-sealed', sealed, 6, 'SIZE'
    yield 'size-empty', head(n=b'\0'), 1, 'SIZE'
    yield 'size-long', long, 351, 'SIZE'
    for name, b in (('trailing', a + b'\0'), ('dtype3', head(3, rest=ONE + pay)), ('flags', head(16, rest=ONE + pay)),
                    ('block0', head(8, rest=b'\0' + ONE + pay)), ('no-scalar', head()), ('no-block', head(8)),
                    ('nan', head(rest=b'\0\0\xc0\x7f' + pay)), ('above', head(0, 2, 1, rest=ONE + b'\xf3\0'))):
        yield 'size-' + name, b, 6, 'SIZE'
        yield 'only-' + name, b, 7, 'CORRUPT'
        yield 'only-%s-sealed' % name, seal(b[:1] + bytes([b[1] | 4]) + b[2:]), 7, 'CORRUPT'
    for bit in (5, 6, 7):
        yield 'flags%d' % bit, head(1 << bit, rest=ONE + pay), 7, 'CORRUPT'
    yield 'raw-dtype3', head(3, 1, 0, rest=raw[5:]), 7, 'CORRUPT'
    yield 'raw-dtype1', head(1, 1, 0, rest=raw[5:]), 7, 'CORRUPT'
    yield 'raw-empty-trailing', head(0, 1, 0, b'\0', b'\0'), 0, 'CORRUPT'
    yield 'empty-trailing', head(n=b'\0', rest=b'\0'), 0, 'CORRUPT'
    yield 'empty-scalar', head(n=b'\0', rest=ONE), 0, 'CORRUPT'

    # Varints: only the shortest form, at most 10 bytes, below 2^64.
    for name, v, n in (('long0', b'\x80\0', 0), ('long7', b'\x87\0', 7), ('long7-3', b'\x87\x80\0', 7),
                       ('65', b'\xff' * 9 + b'\2', 7), ('65-wraps', b'\x87' + b'\x80' * 8 + b'\2', 7),
                       ('11', b'\x87' + b'\x80' * 9 + b'\0', 7), ('11-one', b'\x87' + b'\x80' * 9 + b'\1', 7),
                       ('endless', b'\xff' * 30, 7)):
        yield 'varint-' + name, head(n=v, rest=ONE + pay), n, 'CORRUPT'
    table = ONE + struct.pack('<I', 2) + pay
    for name, v in (('0', b'\0'), ('long', b'\x87\0'), ('2^28+1', varint(MAX_BLOCK + 1)), ('2^32', varint(1 << 32)),
                    ('2^32+7', varint(1 << 32 | 7)), ('2^64-1', varint(M64)), ('65', b'\x87' + b'\x80' * 8 + b'\2'),
                    ('11', b'\x87' + b'\x80' * 9 + b'\1'), ('endless', b'\xff' * 30)):
        yield 'block-' + name, head(8, n=b'\7', rest=v + table), 7, 'CORRUPT'
    yield 'empty-block0', head(8, n=b'\0', rest=b'\0'), 0, 'CORRUPT'
    yield 'empty-no-block', head(8, n=b'\0'), 0, 'CORRUPT'
    yield 'empty-block-trailing', head(8, n=b'\0', rest=b'\7' + table), 0, 'CORRUPT'
    for name, M in (('inf', 0x7f800000), ('nan', 0x7fc00000), ('snan', 0x7f800001), ('-inf', 0xff800000),
                    ('-nan', 0xffc00000), ('-1', 0xbf800000), ('-0', 0x80000000), ('-subnormal', 0x80000001)):
        m = struct.pack('<I', M)
        yield 'M' + name, head(rest=m + pay), 7, 'CORRUPT'
        one = struct.pack('<I', 1)
        yield 'M%s-second' % name, head(8, rest=b'\4' + ONE + one + m + one + b'QQ'), 7, 'CORRUPT'

    # Payloads: bytes above 242 without zerorun, other lengths than L, padding.
    for v in (243, 254, 255):
        yield 'above%d-first' % v, head(0, 2, 1, rest=ONE + bytes([v, 0])), 7, 'CORRUPT'
        yield 'above%d-last' % v, head(0, 2, 1, n=b'\x0a', rest=ONE + bytes([0, v])), 10, 'CORRUPT'
    for k in (0, 1, 3):
        yield 'quartic-length%d' % k, head(0, 2, 1, n=b'\x0a', rest=ONE + bytes(k)), 10, 'CORRUPT'
    for n, payloads in ((10, ('', '79', 'f379', 'f4', 'ff', '797979', 'c0', 'c0f3', 'f3c0', '000000')),
                        (70, ('fe', 'ff79', 'fef3', 'fff3', 'f3fe', 'ffff', '')),
                        (140, ('ff', 'fffe', 'ffff79', 'fffeff', '79ffff')),
                        (150, ('ffff79', 'fffff4', 'fff3ff79', 'ff' * 18))):
        for p in payloads:
            yield 'expand%d-%s' % (n, p[:8]), head(n=varint(n), rest=ONE + bytes.fromhex(p)), n, 'CORRUPT'
    for pad in (1, 2, 3, 4):
        for digits, L in ((1, 2), (2, 2), (1, 1), (2, 1)):
            n = 5 * L - pad
            for at in sorted({n, 5 * L - 1}):  # the first and the last digit of padding
                b = bytearray(L)
                b[at % L] += digits * (81, 27, 9, 3, 1)[at // L]
                for coding in (1, 0x11):
                    yield 'pad%d-%d-%d-%d-%02x' % (pad, L, at, digits, coding), \
                        head(0, 2, coding, n=bytes([n]), rest=ONE + b), n, 'CORRUPT'
        for p in ('ff79', '00fe79', '00ff', 'fef3', '00' * 13 + 'f3', '00' * 14 + '79'):
            n = 5 * 15 - pad
            yield 'pad%d-run-%s' % (pad, p[-8:]), head(n=varint(n), rest=ONE + bytes.fromhex(p)), n, 'CORRUPT'
    yield 'pad3-run-early', head(n=varint(72), rest=ONE + bytes.fromhex('fdf378')), 72, 'CORRUPT'

    # Block tables.
    def table_of(n, block, sizes, payload, form=(2, 0x11)):
        entries = b''.join((ONE if form[0] == 2 else b'') + struct.pack('<I', k) for k in sizes)
        return head(8, *form, n=varint(n), rest=varint(block) + entries + payload)
    top = (1 << 32) - 1
    for name, sizes, payload in (
            ('short', (1, 2), 'QQ'), ('long', (1, 0), 'QQ'), ('first', (2, 0), 'QQ'), ('second', (0, 2), 'QQ'),
            ('beyond', (1, top), 'QQ'), ('wrap', (top, 3), 'QQ'), ('wrap1', (3, top), 'QQ'), ('top', (top, top), 'QQ'),
            ('half', (1 << 31, 1 << 31), 'QQ'), ('half2', ((1 << 31) + 1, (1 << 31) + 1), 'QQ'),
            ('rest', (1, 1), 'QQQ'), ('one', (2,), 'QQ'), ('three', (1, 1, 0), 'QQ'), ('less', (1, 1), 'Q'),
            ('none', (0, 0), '')):
        yield 'table-' + name, table_of(7, 4, sizes, payload.encode()), 7, 'CORRUPT'
    yield 'table-run-across', table_of(40, 20, (1, 1), b'\xf6\xf4'), 40, 'CORRUPT'
    yield 'table-run-across2', table_of(40, 20, (1, 2), b'\xf6\xf3y'), 40, 'CORRUPT'
    yield 'table-pad', table_of(9, 5, (1, 1), b'\0\1'), 9, 'CORRUPT'
    for name, sizes in (('short', (15, 12)), ('swapped', (12, 16)), ('wrap', (16, top)), ('wrap2', (top - 11, 40))):
        yield 'raw-table-' + name, table_of(7, 4, sizes, bytes(28), (1, 0)), 7, 'CORRUPT'
    yield 'raw-table-cut', table_of(7, 4, (16,), b'', (1, 0)), 7, 'CORRUPT'

    # Claims of n where ceil(n / 5), 4 n, ceil(n / B) or the table's size overflow 64 (or 32) bits.
    for n in (1 << 62, 1 << 63, (1 << 63) + 2, M64 - 4, M64 - 3, M64, 1 << 30, 1 << 32, (1 << 32) - 1):
        for name, b in (('3lc', head(n=varint(n), rest=ONE + b'\xff')), ('tq', head(0, 2, 1, varint(n), ONE)),
                        ('tq-byte', head(0, 2, 1, varint(n), ONE + b'\0')), ('raw', head(0, 1, 0, varint(n))),
                        ('raw16', head(1, 1, 0, varint(n), b'\0\0')), ('block1', table_of(n, 1, (1, 1), b'QQ')),
                        ('block2', table_of(n, 2, (), b'')), ('block2^28', table_of(n, MAX_BLOCK, (1,), b'y')),
                        ('raw-block1', table_of(n, 1, (), b'', (1, 0))),
                        ('raw-block3', table_of(n, 3, (), b'', (1, 0)))):
            yield 'huge-%x-%s' % (n, name), b, n, 'CORRUPT'
        yield 'huge-%x-size' % n, head(n=varint(n), rest=ONE + b'\xff'), 7, 'SIZE'
    yield 'huge-table', table_of(1 << 61, 1, (), b''), 1 << 61, 'CORRUPT'

    # Not what the encoder writes, but sequences that expand to exactly L bytes and so are to be taken.
    for p in ('79' * 14, 'f3' * 7, '79fe', 'fe79', 'f3fd', 'f8f8'):
        yield 'valid-run-' + p[:8], head(n=varint(70), rest=ONE + bytes.fromhex(p)), 70, 'OK'
    yield 'valid-run-order', head(n=varint(150), rest=ONE + bytes.fromhex('f3ff7979fc79')), 150, 'OK'
    yield 'valid-run-pad', head(n=varint(74), rest=ONE + bytes.fromhex('ff78')), 74, 'OK'
    yield 'valid-M0', head(rest=bytes(4) + pay), 7, 'OK'
    yield 'valid-M-subnormal', head(rest=b'\1\0\0\0' + pay), 7, 'OK'
    yield 'valid-M-largest', head(2, rest=b'\xff\xff\x7f\x7f' + pay), 7, 'OK'
    yield 'valid-block-largest', head(8, rest=varint(MAX_BLOCK) + table), 7, 'OK'
    yield 'valid-empty', head(n=b'\0'), 0, 'OK'
    yield 'valid-empty-block', head(8, n=b'\0', rest=b'\7'), 0, 'OK'
    yield 'valid-raw', raw, 7, 'OK'
