# SPDX-License-Identifier: MIT
"""The lossless stages: from symbols and positions to bytes and back. Lengths are checked before a list of n elements is
made."""
import re

from ieee import Status, corrupt_if
from xxh3 import M64

MAX_REMAINDER = 48
GOLDEN = 0.6180339887498949


def varint(v):
    return bytes([v]) if v < 128 else bytes([v & 127 | 128]) + varint(v >> 7)


def read_varint(b, at):
    for i in range(at, min(at + 10, len(b))):
        if b[i] < 128:
            v = sum((b[j] & 127) << 7 * (j - at) for j in range(at, i + 1))
            if varint(v) != b[at:i + 1] or v > M64:
                break
            return v, i + 1
    raise Status('CORRUPT')


# ---- quartic and zero-runs ----

def quartic(q):
    L = -(-len(q) // 5)
    d = bytes(k + 1 for k in q) + bytes(5 * L - len(q))
    p = [d[k * L:(k + 1) * L] for k in range(5)]
    return bytes(81 * a + 27 * b + 9 * c + 3 * e + f for a, b, c, e, f in zip(*p))


def unquartic(b, n):
    L = -(-n // 5)
    corrupt_if(len(b) != L or (b and max(b) > 242))
    d = b''.join(bytes(v // w % 3 for v in b) for w in (81, 27, 9, 3, 1))
    corrupt_if(any(d[n:]))
    return [k - 1 for k in d[:n]]


def zerorun(b):
    def token(m):
        full, rest = divmod(len(m[0]), 14)
        return b'\xff' * full + (b'' if rest == 0 else b'y' if rest == 1 else bytes([241 + rest]))
    return re.sub(b'y+', token, b)  # 'y' is 121


def unzerorun(b, L):
    corrupt_if(sum(1 if v < 243 else v - 241 for v in b) != L)
    return b''.join(bytes([v]) if v < 243 else b'y' * (v - 241) for v in b)


# ---- bits, from the most significant of a byte, as text ----

def binary(v, count):
    return format(v, '0%db' % count) if count else ''


def as_bytes(bits):
    bits += '0' * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, 'big') if bits else b''


def as_bits(b):
    return format(int.from_bytes(b'\1' + b, 'big'), 'b')[1:]


# ---- bits, from the least significant of a byte ----

def bitmap(flags):
    return bytes(sum(1 << j for j, f in enumerate(flags[i:i + 8]) if f) for i in range(0, len(flags), 8))


def unbitmap(b, n):
    """the flags of n bits; b has exactly their bytes"""
    corrupt_if(len(b) != -(-n // 8) or n % 8 and b[-1] >> n % 8)
    return [b[i // 8] >> i % 8 & 1 for i in range(n)]


# ---- Golomb codes of positions, from the most significant bit of a byte ----

def golomb(n, at, negative=None):
    """at: rising indices; negative: a flag for each of them, or None without signs"""
    b, q = 0, 1.0 - len(at) / n
    while at and not q < GOLDEN and b < MAX_REMAINDER:
        q *= q
        b += 1
    out, last = [], -1
    for j, i in enumerate(at):
        quotient, remainder = divmod(i - last - 1, 1 << b)
        out.append('1' * quotient + '0' + binary(remainder, b))
        if negative is not None:
            out.append('1' if negative[j] else '0')
        last = i
    return varint(len(at)) + bytes([b]) + as_bytes(''.join(out))


def ungolomb(payload, n, signs):
    """the indices, their signs (all 0 without signs), and the bytes behind the padding"""
    k, head = read_varint(payload, 0)
    corrupt_if(k > n or head == len(payload) or payload[head] > MAX_REMAINDER)
    b, stream = payload[head], payload[head + 1:]
    bits = as_bits(stream)
    at, negative, here, last = [], [], 0, -1
    for _ in range(k):  # each takes at least one bit, so this ends with the bits
        zero = bits.find('0', here)
        after = zero + 1 + b + signs
        corrupt_if(zero < 0 or after > len(bits))
        last += 1 + ((zero - here) << b) + int('0' + bits[zero + 1:zero + 1 + b], 2)
        corrupt_if(last >= n)
        at.append(last)
        negative.append(int(bits[after - 1]) if signs else 0)
        here = after
    end = -(-here // 8)
    corrupt_if('1' in bits[here:8 * end])
    return at, negative, stream[end:]
