# SPDX-License-Identifier: MIT
"""XXH3_64bits and XXH3_64bits_withSeed, from the xxHash specification."""
import struct

M64 = (1 << 64) - 1

SECRET = bytes.fromhex(
    'b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e'
    'e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d'
    '8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc'
    '8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e')
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MX1, MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25


def word(b, i, size=8):
    return int.from_bytes(b[i:i + size], 'little')


def fold(a, b):
    p = a * b
    return (p & M64) ^ (p >> 64)


def mix16(b, i, k, seed):
    return fold(word(b, i) ^ word(SECRET, k) + seed & M64, word(b, i + 8) ^ word(SECRET, k + 8) - seed & M64)


def secret_of(seed):
    """the secret of inputs of more than 240 bytes"""
    return b''.join((word(SECRET, i) + (-seed if i % 16 else seed) & M64).to_bytes(8, 'little')
                    for i in range(0, len(SECRET), 8))


def avalanche(h):
    h = ((h ^ (h >> 37)) * MX1) & M64
    return h ^ (h >> 32)


def avalanche64(h):  # the finish of XXH64
    h = ((h ^ (h >> 33)) * P64_2) & M64
    h = ((h ^ (h >> 29)) * P64_3) & M64
    return h ^ (h >> 32)


def rotl(v, k):
    return ((v << k) | (v >> (64 - k))) & M64


def xxh3_64(b, seed=0):
    n = len(b)
    if n == 0:
        return avalanche64(seed ^ word(SECRET, 56) ^ word(SECRET, 64))
    if n <= 3:
        v = b[0] << 16 | b[n >> 1] << 24 | b[n - 1] | n << 8
        return avalanche64(v ^ (word(SECRET, 0, 4) ^ word(SECRET, 4, 4)) + seed & M64)
    if n <= 8:
        low = int.from_bytes((seed & 0xffffffff).to_bytes(4, 'little'), 'big')
        flip = (word(SECRET, 8) ^ word(SECRET, 16)) - (seed ^ low << 32) & M64
        h = word(b, n - 4, 4) + (word(b, 0, 4) << 32) ^ flip
        h = ((h ^ rotl(h, 49) ^ rotl(h, 24)) * MX2) & M64
        h = ((h ^ ((h >> 35) + n)) * MX2) & M64
        return h ^ (h >> 28)
    if n <= 16:
        lo = word(b, 0) ^ (word(SECRET, 24) ^ word(SECRET, 32)) + seed & M64
        hi = word(b, n - 8) ^ (word(SECRET, 40) ^ word(SECRET, 48)) - seed & M64
        return avalanche((n + int.from_bytes(lo.to_bytes(8, 'little'), 'big') + hi + fold(lo, hi)) & M64)
    if n <= 128:
        acc = n * P64_1
        for j in range((n - 1) // 32 + 1):  # pairs from both ends inwards
            acc += mix16(b, 16 * j, 32 * j, seed) + mix16(b, n - 16 * (j + 1), 32 * j + 16, seed)
        return avalanche(acc & M64)
    if n <= 240:
        acc = n * P64_1 + sum(mix16(b, 16 * j, 16 * j, seed) for j in range(8))
        acc = avalanche(acc & M64) + sum(mix16(b, 16 * j, 16 * (j - 8) + 3, seed) for j in range(8, n // 16))
        return avalanche((acc + mix16(b, n - 16, 136 - 17, seed)) & M64)
    secret = secret_of(seed)
    acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1]

    def stripe(i, k):
        for j, (v, s) in enumerate(zip(struct.unpack_from('<8Q', b, i), struct.unpack_from('<8Q', secret, k))):
            s ^= v
            acc[j ^ 1] = (acc[j ^ 1] + v) & M64
            acc[j] = (acc[j] + (s & 0xffffffff) * (s >> 32)) & M64
    for i in range((n - 1) // 64):
        stripe(64 * i, 8 * (i % 16))
        if i % 16 == 15:
            for j in range(8):
                acc[j] = ((acc[j] ^ (acc[j] >> 47) ^ word(secret, 128 + 8 * j)) * P32_1) & M64
    stripe(n - 64, 121)
    h = n * P64_1 + sum(fold(acc[2 * j] ^ word(secret, 11 + 16 * j), acc[2 * j + 1] ^ word(secret, 19 + 16 * j))
                        for j in range(4))
    return avalanche(h & M64)
