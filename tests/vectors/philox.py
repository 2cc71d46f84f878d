# SPDX-License-Identifier: MIT
"""Philox 4x32-10, from Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011)."""

M32 = (1 << 32) - 1

KNOWN = (  # the vectors that the authors publish with Random123: counter, key, output
    ((0, 0, 0, 0), (0, 0), (0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8)),
    ((M32,) * 4, (M32,) * 2, (0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd)),
    ((0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344), (0xa4093822, 0x299f31d0),
     (0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1)))


def philox(counter, key):
    a, b, c, d = counter
    k, l = key
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = q >> 32 ^ b ^ k, q & M32, p >> 32 ^ d ^ l, p & M32
        k, l = k + 0x9E3779B9 & M32, l + 0xBB67AE85 & M32
    return a, b, c, d


def random_words(seed, step, first, count):
    """the words of count elements of the tensor from element first on"""
    out = []
    for i in range(first >> 2, first + count + 3 >> 2):
        out += philox((i & M32, i >> 32, step & M32, step >> 32), (seed & M32, seed >> 32))
    return out[first & 3:][:count]


def check():
    for counter, key, output in KNOWN:
        assert philox(counter, key) == output, 'Philox 4x32-10 is wrong'
