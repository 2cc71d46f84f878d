# SPDX-License-Identifier: MIT
"""XXH3_64bits_withSeed of pieces of 1,024 bytes times a number above 1, whose seeds are 0, 1, 2, ...: the constants,
and the sum of the hashes by torch operations. Numbers of 64 bits are int64 here, which overflow as unsigned ones do.

A piece is read in stripes of 8 words, one for each lane. 16 stripes are a block, after which the lanes are scrambled;
the last stripe of a piece has a key of its own in place of that. (The specification of xxHash.)"""
from __future__ import annotations

from typing import Tuple

import torch

LANES, STRIPES = 8, 16  # words of a stripe, stripes of a block
SECRET = (
    0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
    0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
    0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
    0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
    0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
    0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af)
START = (0xc2b2ae3d, 0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9, 0x85ebca77c2b2ae63, 0x85ebca77,
         0x27d4eb2f165667c5, 0x9e3779b1)  # of the lanes
PER_WORD = 8 * START[1]  # of the piece
SCRAMBLE = START[7]
AVALANCHE = 0x165667919e3779f9
SCRAMBLE_KEY, LAST_KEY, MERGE_KEY = 128, 121, 11  # bytes of the secret before these keys


def signed(number: int) -> int:
    """The same 64 bits as int64."""
    return (number + 2**63) % 2**64 - 2**63


def table(numbers: Tuple[int, ...], device: torch.device) -> torch.Tensor:
    """As a tensor of int64."""
    return torch.tensor([signed(number) for number in numbers], device=device)


def _shifted(x: torch.Tensor, bits: int) -> torch.Tensor:
    """x >> bits of an unsigned number."""
    return x >> bits & ((1 << (64 - bits)) - 1)


def _folded(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The lower half of the product of 128 bits, XOR the upper one."""
    low, x_high, y_high = 0xffffffff, _shifted(x, 32), _shifted(y, 32)
    x, y = x & low, y & low
    lowest, one = x * y, x_high * y
    other = _shifted(lowest, 32) + (one & low) + x * y_high
    return (_shifted(one, 32) + _shifted(other, 32) + x_high * y_high) ^ (other << 32 | lowest & low)


def sums(words: torch.Tensor, pieces: int) -> torch.Tensor:
    """Numbers whose sum is that of the hashes. words: all bytes, as little-endian integers."""
    stripes = words.view(pieces, -1, LANES)
    seeds = torch.arange(pieces, device=words.device).view(-1, 1)
    secret = torch.where(torch.arange(len(SECRET), device=words.device) % 2 == 0, seeds, -seeds) \
        + table(SECRET, words.device)

    def key(byte: int) -> torch.Tensor:
        first, bits = byte // 8, byte % 8 * 8
        lower = secret[:, first:first + LANES]
        return _shifted(lower, bits) | secret[:, first + 1:first + 1 + LANES] << (64 - bits) if bits else lower

    lanes = table(START, words.device).expand(pieces, LANES)
    last = stripes.shape[1] - 1
    for i in range(last + 1):
        value = stripes[:, i]
        keyed = value ^ key(8 * (i % STRIPES) if i < last else LAST_KEY)
        swapped = value.view(pieces, LANES // 2, 2).flip(2).view(pieces, LANES)
        lanes = lanes + swapped + (keyed & 0xffffffff) * _shifted(keyed, 32)
        if i % STRIPES == STRIPES - 1 and i < last:
            lanes = (lanes ^ _shifted(lanes, 47) ^ key(SCRAMBLE_KEY)) * SCRAMBLE
    pairs = (lanes ^ key(MERGE_KEY)).view(pieces, LANES // 2, 2)
    hashes = _folded(pairs[:, :, 0], pairs[:, :, 1]).sum(1) + signed(PER_WORD * LANES * (last + 1))
    hashes = (hashes ^ _shifted(hashes, 37)) * signed(AVALANCHE)
    return hashes ^ _shifted(hashes, 32)
