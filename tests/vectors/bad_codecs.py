# SPDX-License-Identifier: MIT
"""Frames of the other codecs that decoders refuse, and frames that the encoder does not write but decoders take."""
import struct

from bad_3lc import ONE, head
from codec import (GOLOMB, INT8, MAX_BLOCK, NATURAL, NINE_BITS, ONEBIT, QSGD, RANDOM_SPARSE, RAW, SECOND,
                   SPARSE_BINARY, TERNARY, TOPK, scalar_count)
from ieee import pack_row
from model import Context, seal
from packing import as_bytes, varint
from xxh3 import M64

TOP = (1 << 32) - 1
# values and coding of every form beside 3lc, ternary+quartic and raw
FORMS = {'tg': (TERNARY, GOLOMB), 'sbc': (SPARSE_BINARY, GOLOMB), 'nat': (NATURAL, 0), 'nat9': (NATURAL, NINE_BITS),
         'int8': (INT8, 0), 'qsgd': (QSGD, 0), 'qsgd4': (QSGD, 1), 'onebit': (ONEBIT, 0), 'topk': (TOPK, 0),
         'rs': (RANDOM_SPARSE, 0), 'topkg': (TOPK, GOLOMB),
         'topk1': (TOPK, 0x10), 'topk1g': (TOPK, 0x10 | GOLOMB), 'topk2': (TOPK, 0x20), 'topk2g': (TOPK, 0x20 | GOLOMB)}


def scalars(form):
    return ONE * scalar_count(*form)


def unblocked(short, n, payload):
    return head(0, *FORMS[short], n=varint(n), rest=scalars(FORMS[short]) * (n > 0) + payload)


def bits(text):
    """the bytes of these bits, the first the most significant"""
    return as_bytes(text.replace(' ', ''))


def count(k):
    return struct.pack('<I', k)


def stream(k, b, text, rest=b''):
    """a golomb payload"""
    return varint(k) + bytes([b]) + bits(text) + rest


def frame_of(text, x, **more):
    return Context(text, 'f32', len(x), 0, **more).compress(pack_row(x))


def headers():
    for values, codings in ((RAW, (2, 0x80)), (TERNARY, (3, 0x20, 0x21, 0x22, 0x81)),
                            (SPARSE_BINARY, (0, 1, 3, 0x10, 0x11, 0x12, 0x22, 0xff)),
                            (NATURAL, (118, 119, 127, 246, 255)), (INT8, (1, 2, 0x10, 0x80)),
                            (QSGD, (2, 3, 4, 8, 0x10, 0x80, 0x81)), (ONEBIT, (1, 0x10, 0x80)),
                            (TOPK, (1, 3, 0x30, 0x32, 0x11, 0x21, 0x42, 0x80)),
                            (RANDOM_SPARSE, (1, 2, 0x12, 0x80)), (10, (0, 1, 2, 0x11)), (16, (0,)), (128, (0, 2))):
        for coding in codings:
            yield 'codec-%d-%02x' % (values, coding), head(0, values, coding, b'\7', ONE + bytes(7)), 7, 'UNSUPPORTED'
    yield 'codec-natural-most', head(0, NATURAL, 118, b'\7', bytes(11)), 8, 'UNSUPPORTED'
    for short, form in FORMS.items():
        yield short + '-empty', head(0, *form, n=b'\0'), 0, 'OK'
        yield short + '-empty-block', head(8, *form, n=b'\0', rest=b'\5'), 0, 'OK'
        yield short + '-empty-trailing', head(0, *form, n=b'\0', rest=b'\0'), 0, 'CORRUPT'
        yield short + '-empty-golomb', head(0, *form, n=b'\0', rest=b'\0\0'), 0, 'CORRUPT'
        if scalars(form):
            yield short + '-empty-scalars', head(0, *form, n=b'\0', rest=scalars(form)), 0, 'CORRUPT'
    for coding, n, payload in ((117, 1, bytes(4) + b'\x3c'), (117 | NINE_BITS, 1, bytes(4) + b'\x89\0')):
        yield 'valid-natural-%02x' % coding, head(0, NATURAL, coding, bytes([n]), payload), n, 'OK'


def lengths():
    """all lengths except the right one"""
    few = [0.9, -0.1, 0, 0.6, -1.0, 0.2, 0.5, 0, 0, 0, 0, 0, 0, 0.01, 0, 0, 0, 0, 0, 0.05, 0, 0]
    for short, codec in (('tg', 'ternary+golomb'), ('sbc', 'sparse-binary:p=0.2+golomb'), ('nat', 'natural'),
                         ('nat9', 'natural:bits=9'), ('int8', 'int8'), ('qsgd', 'qsgd'), ('qsgd4', 'qsgd:bits=4'),
                         ('onebit', 'onebit'), ('topk', 'topk:p=0.2'), ('rs', 'random-sparse'),
                         ('topkg', 'topk:p=0.2+golomb'), ('topk1', 'topk:p=0.2,bits=1'),
                         ('topk2g', 'topk:p=0.3,bits=2+golomb')):
        x = few + [0] * 42 if short == 'tg' else few[:15] if short == 'qsgd4' else few
        whole, sealed = frame_of(codec, x), frame_of(codec, x, checksum=1)
        n = len(x)
        for k in range(4, len(whole)):
            yield '%s-short%d' % (short, k), whole[:k], n, 'CORRUPT'
        for more in (b'\0', b'\xff', bytes(4), ONE):
            yield '%s-trailing%d-%02x' % (short, len(more), more[-1]), whole + more, n, 'CORRUPT'
        for k in (8, 9, len(sealed) - 1):
            yield '%s-short-sealed%d' % (short, k), sealed[:k], n, 'CORRUPT' if k < 9 else 'CHECKSUM'
        yield short + '-short-resealed', seal(sealed[:-5]), n, 'CORRUPT'
        yield short + '-flip', sealed[:-1] + bytes([sealed[-1] ^ 1]), n, 'CHECKSUM'
        yield short + '-size', whole, n + 1, 'SIZE'
        yield short + '-size-short', whole[:-1], n + 1, 'SIZE'
        first, plus, tail = codec.partition('+')
        blocked = frame_of(first + (',' if ':' in first else ':') + 'block=8' + plus + tail, x[:22])
        for k in range(5, min(len(blocked), 60)):
            yield '%s-block-short%d' % (short, k), blocked[:k], len(x[:22]), 'CORRUPT'
        yield short + '-block-trailing', blocked + b'\0', len(x[:22]), 'CORRUPT'
        at = 6 + len(scalars(FORMS[short]))  # where the first block's length is, and the second's
        second = at + at - 6 + 4
        j, = struct.unpack_from('<I', blocked, at)
        k, = struct.unpack_from('<I', blocked, second)
        for name, a, c in (('more', j + 1, k - 1), ('less', j - 1, k + 1), ('two', j + 2, k - 2), ('top', TOP, TOP),
                           ('wrap', TOP, j + k + 1), ('half', j + (1 << 31), k + (1 << 31))):
            b = bytearray(blocked)
            struct.pack_into('<I', b, at, a & TOP)
            struct.pack_into('<I', b, second, c & TOP)
            yield '%s-table-%s' % (short, name), bytes(b), len(x[:22]), 'CORRUPT'


def bad_scalars():
    # payloads of eleven values, then of one
    for short, payload, last in (('tg', b'\0\0', b'\x51'), ('sbc', b'\0\0', b'\0\0'), ('int8', bytes(11), b'\0'),
                                 ('qsgd', bytes(11), b'\0'), ('qsgd4', bytes(6), b'\0'), ('onebit', b'\xff\7', b'\1'),
                                 ('topk1g', b'\0\0', b'\0\0'), ('topk2', b'\0\0', b'\0')):
        form, several = FORMS[short], scalar_count(*FORMS[short])
        for name, v in (('inf', 0x7f800000), ('nan', 0x7fc00000), ('snan', 0x7f800001), ('-inf', 0xff800000),
                        ('-nan', 0xffc00000), ('-1', 0xbf800000), ('-0', 0x80000000), ('-subnormal', 0x80000001),
                        ('-largest', 0xff7fffff), ('largest', 0x7f7fffff), ('0', 0)):
            bad = v & 0x7fffffff >= 0x7f800000 or v >> 31 and short not in ('sbc', 'onebit')
            for i in range(several):
                s = ONE * i + struct.pack('<I', v) + ONE * (several - i - 1)
                names = '%s-scalar%d%s' % (short, i, name), '%s-scalar%d%s-second' % (short, i, name)
                yield names[0], head(0, *form, n=b'\x0b', rest=s + payload), 11, 'CORRUPT' if bad else 'OK'
                other = 1 << 31 if short == 'tg' else 0  # the last is a quartic byte
                table = ONE * several + count(len(payload)) + s + count(len(last) | other)
                yield names[1], head(8, *form, n=b'\x0c', rest=b'\x0b' + table + payload + last), 12, \
                    'CORRUPT' if bad else 'OK'
        yield short + '-scalar-size', head(0, *form, n=b'\x0b', rest=b'\0\0\xc0\x7f' * several + payload), 12, 'SIZE'


def codes():
    """payloads of a fixed length: every code, bit and count that is not allowed"""
    for short in ('int8', 'qsgd'):
        for at in (0, 3, 6, 20):
            n = max(7, at + 1)
            b = bytearray(n)
            b[at] = 0x80
            yield '%s-128-%d' % (short, at), unblocked(short, n, bytes(b)), n, 'CORRUPT'
        yield short + '-one', unblocked(short, 1, b'\x80'), 1, 'CORRUPT'
        yield 'valid-%s' % short, unblocked(short, 4, b'\x7f\x81\xff\1'), 4, 'OK'
        for name, top in (('0', 0), ('1', 1), ('100', 100), ('half', 0x00800000), ('largest', 0x7f7fffff)):
            yield 'valid-%s-max%s' % (short, name), head(0, *FORMS[short], n=b'\6', rest=count(top) + bytes.fromhex(
                '7f81ff013f40')), 6, 'OK'
    for b, n in (('08', 2), ('80', 2), ('88', 2), ('0008', 4), ('8000', 4), ('0080', 4), ('08', 1), ('10', 1),
                 ('80', 1), ('f0', 1), ('0010', 3), ('0070', 3), ('00f1', 3), ('11' * 16 + '18', 34)):
        yield 'qsgd4-%s-%d' % (b[-8:], n), unblocked('qsgd4', n, bytes.fromhex(b)), n, 'CORRUPT'
    yield 'valid-qsgd4', unblocked('qsgd4', 5, b'\x97\x1f\x0f'), 5, 'OK'
    for name, top in (('0', 0), ('1', 1), ('5', 5)):
        yield 'valid-qsgd4-max' + name, head(0, QSGD, 1, b'\4', count(top) + b'\x97\x3c'), 4, 'OK'

    for k in (61, 62, 63, 65, 66, 96, 126, 127, 189, 190, 191, 192, 193, 250, 255):
        yield 'nat-code%d-first' % k, unblocked('nat', 5, count(0) + bytes([k, 60, 0, 64, 188])), 5, 'CORRUPT'
        yield 'nat-code%d-last' % k, unblocked('nat', 5, count(0) + bytes([188, 60, 128, 64, k])), 5, 'CORRUPT'
    for short, rest in (('nat', bytes([0, 60, 128, 188, 64])), ('nat9', bytes([0, 1, 254, 127, 3, 0x1e]))):
        for k in (6, 7, 1 << 31, TOP):
            yield '%s-count%d' % (short, k), unblocked(short, 5, count(k) + rest), 5, 'CORRUPT'
        for k in (0, 1, 5):
            yield 'valid-%s-count%d' % (short, k), unblocked(short, 5, count(k) + rest), 5, 'OK'
        last = count(2) + (b'\1\1' if short == 'nat9' else b'\0')  # 2 clipped of 1
        sizes = 4 + len(rest), len(last)
        yield short + '-count-block', table(short, 6, 5, sizes, count(5) + rest + last), 6, 'CORRUPT'
    def natural(coding, n, rest):
        return head(0, NATURAL, coding, varint(n), count(0) + rest)
    every = bytes(range(61)) + b'\x40' + bytes(range(128, 189))
    for shift in (0, 5, 117):
        yield 'valid-nat-every-%d' % shift, natural(shift, len(every), every), len(every), 'OK'
    for shift, codes in ((0, (255,)), (1, (254, 255)), (5, (250, 255)), (117, (138, 254))):
        for k in codes:
            yield 'nat9-code%d-%d' % (shift, k), natural(NINE_BITS | shift, 3, bytes([0, k, 1, 0])), 3, 'CORRUPT'
        every = bytes([0, 1, 2, 100, 254 - shift] * 2)
        yield 'valid-nat9-%d' % shift, natural(NINE_BITS | shift, 10, every + b'\xc0\3'), 10, 'OK'
    for n, signs in ((3, 1), (3, 4), (8, 1), (8, 128), (9, 256)):  # element 0 or the last is zero, but has a sign
        codes = bytes([0] + [9] * (n - 2) + [0])
        codes += struct.pack('<H', signs)[:-(-n // 8)]
        yield 'nat9-zero-sign%d-%x' % (n, signs), natural(NINE_BITS, n, codes), n, 'CORRUPT'
    for n in (1, 7, 9, 15, 17):
        for at in sorted({n, -(-n // 8) * 8 - 1}):
            signs = (1 << at).to_bytes(-(-n // 8), 'little')
            yield 'nat9-pad%d-%d' % (n, at), unblocked('nat9', n, count(0) + b'\x21' * n + signs), n, 'CORRUPT'
            yield 'onebit-pad%d-%d' % (n, at), unblocked('onebit', n, signs), n, 'CORRUPT'
            yield 'topk-pad%d-%d' % (n, at), unblocked('topk', n, signs + ONE), n, 'CORRUPT'
            yield 'topk-pad%d-%d-none' % (n, at), unblocked('topk', n, signs), n, 'CORRUPT'
    for v in (0, 1 << 31, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffffffff):
        w = count(v)
        yield 'topk-value%x' % v, unblocked('topk', 9, b'\2\1' + ONE + w), 9, 'CORRUPT'
        yield 'topk-value%x-first' % v, unblocked('topk', 9, b'\2\1' + w + ONE), 9, 'CORRUPT'
        yield 'rs-value%x' % v, unblocked('rs', 9, stream(2, 0, '00', ONE + w)), 9, 'CORRUPT'
        yield 'rs-value%x-first' % v, unblocked('rs', 9, stream(2, 0, '00', w + ONE)), 9, 'CORRUPT'
    for short, two in (('topk', b'\3\0'), ('rs', stream(2, 0, '00')), ('topkg', stream(2, 0, '00'))):
        for k in (0, 1, 3):
            yield '%s-values%d' % (short, k), unblocked(short, 9, two + ONE * k), 9, 'CORRUPT'
        for k in (1, 2, 3, 5, 6, 7):
            yield '%s-bytes%d' % (short, 8 - k), unblocked(short, 9, two + (ONE * 2)[:8 - k]), 9, 'CORRUPT'
        for name, v in (('subnormal', 1), ('negative', 0x80000001), ('largest', 0xff7fffff)):
            yield 'valid-%s-%s' % (short, name), unblocked(short, 9, two + count(v) + ONE), 9, 'OK'
    for short, n, two in (('topk1', 9, b'\3\0'), ('topk1g', 9, stream(2, 0, '00')), ('topk2', 9, b'\3\0'),
                          ('topk2g', 9, stream(2, 0, '00'))):
        width = int(short[4])
        for codes in range(1 << 2 * width):  # of two members
            yield 'valid-%s-codes%d' % (short, codes), unblocked(short, n, two + bytes([codes])), n, 'OK'
        for bit in range(2 * width, 8):
            yield '%s-pad%d' % (short, bit), unblocked(short, n, two + bytes([1 << bit])), n, 'CORRUPT'
        for more in (b'', b'\0\0'):
            yield '%s-values%d' % (short, len(more)), unblocked(short, n, two + more), n, 'CORRUPT'
        for i in range(width):  # a magnitude of 0 must not be used
            s, other = (ONE * i + bytes(4) + ONE)[:4 * width], (1 - i) << 1 if width == 2 else 0
            for code in range(1 << width):
                b = head(0, *FORMS[short], n=varint(n), rest=s + two + bytes([code | other << width]))
                yield '%s-zero%d-%d' % (short, i, code), b, n, 'CORRUPT' if code >> 1 == i else 'OK'
    # bitmaps that no threshold gives: none, all, small ones kept
    yield 'valid-topk-none', unblocked('topk', 9, b'\0\0'), 9, 'OK'
    yield 'valid-topk-all', unblocked('topk', 9, b'\xff\1' + ONE * 9), 9, 'OK'
    yield 'valid-topk-last', unblocked('topk', 9, b'\0\1' + count(3)), 9, 'OK'
    s = struct.pack('<2f', -2, 5)  # means of the wrong sign, and of sides without members
    yield 'valid-onebit-signs', head(0, ONEBIT, 0, b'\x0a', s + b'\x0f\2'), 10, 'OK'
    yield 'valid-onebit-empty', head(0, ONEBIT, 0, b'\x0a', s + b'\xff\3'), 10, 'OK'
    yield 'valid-onebit-none', head(0, ONEBIT, 0, b'\x0a', s + b'\0\0'), 10, 'OK'


def golomb_streams():
    for short, sign, rest in (('tg', ' 0', b''), ('sbc', '', b''), ('rs', '', ONE),
                              ('topkg', '', ONE)):  # n = 100, so quartic has 20 bytes
        def one(payload, n=100):
            return unblocked(short, n, payload)

        def many(k, b, text, n=100):
            return one(stream(k, b, text, rest * k), n)
        yield short + '-no-k', one(b''), 100, 'CORRUPT'
        yield short + '-no-b', one(b'\1'), 100, 'CORRUPT'
        yield short + '-no-b0', one(b'\0'), 100, 'CORRUPT'
        for name, v in (('long0', b'\x80\0'), ('long1', b'\x81\0'), ('long1-3', b'\x81\x80\0'),
                        ('65', b'\x81' + b'\x80' * 8 + b'\2'), ('11', b'\x81' + b'\x80' * 9 + b'\0'),
                        ('endless', b'\xff' * 12), ('cut', b'\x81'), ('2^32', varint(1 << 32)),
                        ('2^32+1', varint(1 << 32 | 1)), ('2^64-1', varint(M64)), ('2^63', varint(1 << 63)),
                        ('2^62', varint(1 << 62)), ('n+1', varint(101))):
            yield '%s-k-%s' % (short, name), one(v + b'\0' + bits('0' + sign) + rest), 100, 'CORRUPT'
            yield '%s-k-%s-alone' % (short, name), one(v), 100, 'CORRUPT'
        if short != 'tg':  # where quartic would be shorter
            yield short + '-k-above', many(6, 0, '0' * 6, 5), 5, 'CORRUPT'
            yield short + '-k-all', many(5, 0, '0' * 5, 5), 5, 'OK'
        for b in (49, 50, 63, 64, 127, 128, 255):
            yield '%s-b%d' % (short, b), many(1, b, '0' + '0' * b + sign), 100, 'CORRUPT'
            yield '%s-b%d-none' % (short, b), one(bytes([0, b])), 100, 'CORRUPT'
        for b in (0, 1, 5, 48):
            yield 'valid-%s-none-b%d' % (short, b), one(bytes([0, b])), 100, 'OK'
            for more in (b'\0', b'\x80', b'\0\0'):
                yield '%s-none-b%d-%s' % (short, b, more.hex()), one(bytes([0, b]) + more), 100, 'CORRUPT'

        # Indices: the last may be n - 1.
        for b in (0, 1, 3, 6, 7, 20, 48):
            def place(d):  # d - 1 in b's form
                return '1' * (d >> b) + '0' + (format(d & (1 << b) - 1, '0%db' % b) if b else '') + sign
            for d, expected in ((98, 'OK'), (99, 'OK'), (100, 'CORRUPT'), (101, 'CORRUPT'), (127, 'CORRUPT')):
                yield '%s-index-b%d-%d' % (short, b, d), many(1, b, place(d)), 100, expected
            yield '%s-index-b%d-second' % (short, b), many(2, b, place(50) + place(49)), 100, 'CORRUPT'
            yield '%s-index-b%d-second-last' % (short, b), many(2, b, place(50) + place(48)), 100, 'OK'
            largest = many(1, b, '0' + '1' * b + sign)
            yield '%s-index-b%d-largest' % (short, b), largest, 100, 'OK' if b < 7 else 'CORRUPT'
            text = (place(3) + place(40)).replace(' ', '')
            used = len(text)
            for k in (1, 3):  # bits for two positions, but another count; padding may be a third
                third = k == 3 and -used % 8 >= 1 + b + len(sign.strip())
                yield '%s-of-two-b%d-%d' % (short, b, k), many(k, b, text), 100, 'OK' if third else 'CORRUPT'
            whole = stream(2, b, text)
            for k in range(2, len(whole)):
                yield '%s-bits-b%d-%d' % (short, b, k), one(whole[:k] + rest * 2), 100, 'CORRUPT'
            for at in sorted({used, -(-used // 8) * 8 - 1}):
                if used % 8:
                    padded = text + '0' * (at - used) + '1'
                    yield '%s-pad-b%d-%d' % (short, b, at - used), many(2, b, padded), 100, 'CORRUPT'
            yield '%s-pad-byte-b%d' % (short, b), many(2, b, text + '0' * (-used % 8) + '0' * 8), 100, 'CORRUPT'
            yield 'valid-%s-b%d' % (short, b), many(2, b, text), 100, 'OK'
        for k in (1, 2, 8):  # quotients that do not end
            yield '%s-ones%d' % (short, k), one(b'\1\0' + b'\xff' * k), 100, 'CORRUPT'
            yield '%s-ones%d-values' % (short, k), one(b'\1\0' + b'\xff' * k + rest), 100, 'CORRUPT'
            yield '%s-ones%d-b48' % (short, k), one(b'\1\x30' + b'\xff' * k + rest), 100, 'CORRUPT'
        yield short + '-cut-remainder', one(b'\1\x08\x01'), 100, 'CORRUPT'
        for n in (17, 100):  # every index
            ok = short != 'tg'  # two bits a position are more than quartic's
            yield '%s-every%d' % (short, n), many(n, 0, ('0' + sign) * n, n), n, 'OK' if ok else 'CORRUPT'
        yield short + '-k-one-less', many(99, 0, '0' * 99), 100, 'OK' if short != 'tg' else 'CORRUPT'
        yield short + '-k-one-more', many(101, 0, '0' * 101), 100, 'CORRUPT'

        # 2^16 ones at b = 48 are a distance of 2^64.
        wraps = b'\xff' * 8192 + bytes(7)
        n = 100 if short != 'tg' else 50000
        yield short + '-wraps', one(b'\1\x30' + wraps + rest, n), n, 'CORRUPT'
    half = '1' * 32768 + '0' + '0' * 48  # 2^63 values further, twice: below where it started
    yield 'sbc-wraps-second', unblocked('sbc', M64, stream(3, 48, '0' + '0' * 48 + half + half)), M64, 'CORRUPT'
    yield 'sbc-wraps-n', unblocked('sbc', M64, stream(2, 48, half + half)), M64, 'CORRUPT'


def forms():
    """ternary+golomb: golomb codes in fewer bytes than quartic has, or quartic's; the frame says which"""
    def other(n, payload):
        return head(0, TERNARY, GOLOMB | SECOND, n=varint(n), rest=ONE + payload)
    yield 'tg-quartic', other(100, bytes([121] * 20)), 100, 'OK'
    yield 'tg-quartic-any', other(100, bytes(range(222, 242))), 100, 'OK'
    yield 'tg-quartic-like-golomb', other(11, b'\0\0\0'), 11, 'OK'
    yield 'tg-quartic-empty', head(0, TERNARY, GOLOMB | SECOND, n=b'\0'), 0, 'OK'
    blocked = head(8, TERNARY, GOLOMB | SECOND, n=b'\5', rest=b'\5' + ONE + count(1) + b'y')
    yield 'tg-quartic-blocked', blocked, 5, 'CORRUPT'
    yield 'tg-quartic-not-said', unblocked('tg', 100, bytes([121] * 20)), 100, 'CORRUPT'
    yield 'tg-golomb-as-quartic', other(100, b'\0\0'), 100, 'CORRUPT'
    for v in (243, 255):
        yield 'tg-quartic-above%d' % v, other(100, bytes([121] * 19 + [v])), 100, 'CORRUPT'
    yield 'tg-quartic-pad', other(9, b'\x79\x7a'), 9, 'CORRUPT'
    yield 'tg-quartic-more', other(100, bytes([121] * 21)), 100, 'CORRUPT'
    yield 'tg-quartic-less', other(100, bytes([121] * 19)), 100, 'CORRUPT'
    yield 'tg-golomb-more', unblocked('tg', 10, stream(1, 0, '00')), 10, 'CORRUPT'
    yield 'tg-golomb-more1', unblocked('tg', 14, stream(1, 8, '0' + '0' * 8 + '0')), 14, 'CORRUPT'
    for n in (1, 5, 6, 10):
        yield 'tg-none%d' % n, unblocked('tg', n, b'\0\0'), n, 'CORRUPT'
        yield 'tg-quartic-none%d' % n, other(n, b'\0\0'), n, 'OK' if n > 5 else 'CORRUPT'  # each is -1
        yield 'tg-nothing%d' % n, unblocked('tg', n, b''), n, 'CORRUPT'
    yield 'tg-none11', unblocked('tg', 11, b'\0\0'), 11, 'OK'
    # M = 0 with symbols that are not 0; larger than it need be, but below quartic's length
    yield 'valid-tg-M0', head(0, TERNARY, GOLOMB, b'\x64', bytes(4) + stream(2, 1, '00 0 01 1')), 100, 'OK'
    yield 'valid-tg-long', unblocked('tg', 100, stream(1, 0, '1' * 99 + '0' + '1')), 100, 'OK'
    yield 'valid-sbc-long', unblocked('sbc', 300, stream(1, 0, '1' * 299 + '0')), 300, 'OK'
    mu = struct.pack('<f', -2.5)
    yield 'valid-sbc-mu', head(0, SPARSE_BINARY, GOLOMB, b'\x09', mu + stream(3, 2, '0 00 0 01 0 10')), 9, 'OK'
    sizes, payload = [], b''
    for p in (bytes([121] * 6), b'\0\0', stream(2, 3, '0 101 1 0 111 0'), stream(1, 0, '0 1')):
        sizes.append(len(p) | (len(p) == 6) << 31)
        payload += p
    for bad in (sizes[0] & ~(1 << 31), 1 << 31 | 2):
        yield 'tg-blocks-form%x' % bad, table('tg', 120, 30, [bad] + sizes[1:], payload), 120, 'CORRUPT'
    yield 'tg-blocks-all-second', table('tg', 120, 30, [k | 1 << 31 for k in sizes], payload), 120, 'CORRUPT'
    yield 'valid-tg-blocks', table('tg', 120, 30, sizes, payload), 120, 'OK'
    yield 'tg-blocks-swapped', table('tg', 120, 30, sizes[::-1], payload), 120, 'CORRUPT'
    yield 'tg-blocks-index', table('tg', 33, 30, [2, 2], b'\0\0' + b'\0\0'), 33, 'CORRUPT'
    yield 'sbc-blocks-index', table('sbc', 33, 30, [2, 3], b'\0\0' + stream(1, 0, '1110')), 33, 'CORRUPT'
    yield 'sbc-blocks-k', table('sbc', 33, 30, [2, 3], b'\0\0' + stream(4, 0, '0000')), 33, 'CORRUPT'
    yield 'sbc-blocks-last', table('sbc', 33, 30, [2, 3], b'\0\0' + stream(1, 0, '110')), 33, 'OK'


def table(short, n, block, sizes, payload):
    s = scalars(FORMS[short])
    return head(8, *FORMS[short], n=varint(n), rest=varint(block) + b''.join(s + count(k) for k in sizes) + payload)


def huge():
    """claims of n where the payload's length overflows 64 (or 32) bits"""
    for n in (1 << 62, 1 << 63, M64 - 10, M64 - 7, M64 - 6, M64 - 4, M64 - 3, M64 - 2, M64 - 1, M64, 1 << 32, TOP,
              TOP - 3, TOP - 7, 0xe38e38e38e38e38a):  # that + 4 + its eighth is 2^64
        for short in FORMS:
            payloads = {'tg': (b'', b'\0', b'\1\0'), 'sbc': (b'', b'\1\0'), 'nat': (b'', bytes(4), b'\0'),
                        'rs': (b'', b'\1\0', stream(1, 0, '0'), varint(n) + b'\0'),
                        'nat9': (b'', bytes(4))}.get(short, (b'', b'\0'))
            for k, payload in enumerate(payloads):
                yield '%s-huge-%x-%d' % (short, n, k), unblocked(short, n, payload), n, 'CORRUPT'
            if n & 1 or n == 1 << 62:
                yield '%s-huge-%x-block1' % (short, n), table(short, n, 1, (1, 1), b'\0\0'), n, 'CORRUPT'
                yield '%s-huge-%x-most' % (short, n), table(short, n, MAX_BLOCK, (), b''), n, 'CORRUPT'
                yield '%s-huge-%x-size' % (short, n), unblocked(short, n, b''), 7, 'SIZE'
    # 4 k overflows, or k bits do
    for k in (1 << 30, 1 << 61, 1 << 62, 1 << 63):
        for short in ('sbc', 'tg', 'rs'):
            for b in (0, 48):
                for more in (0, 16):
                    payload = varint(k) + bytes([b]) + bytes(more)
                    yield '%s-huge-k%x-%d-%d' % (short, k, b, more), unblocked(short, M64, payload), M64, 'CORRUPT'
    # a few bytes may say of any n that all or nearly all of it is zero; the caller's n is another
    for short, rest in (('tg', b''), ('sbc', b''), ('rs', ONE)):
        yield short + '-huge-none', unblocked(short, 1 << 40, b'\0\0'), 7, 'SIZE'
        yield short + '-huge-one', unblocked(short, 1 << 40, stream(1, 30, '1111 0' + '0' * 31, rest)), 7, 'SIZE'


def bad_frames():
    for part in (headers, lengths, bad_scalars, codes, golomb_streams, forms, huge):
        yield from part()
