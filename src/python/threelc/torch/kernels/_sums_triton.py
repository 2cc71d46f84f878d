# SPDX-License-Identifier: MIT
"""Sums of 3-value symbols as a Triton kernel, in one sweep: it reads the quartic bytes of all pieces, and writes the
sums.

Nothing is multiplied: a scale or its negative is added, piece after piece. So the sums are those of the C library, as
long as the device rounds them as IEEE 754 says, and does not flush subnormals to 0.
"""
from __future__ import annotations

import torch
import triton
import triton.language as tl

from ...quartic import block_count
from .ternary import bytes_of, launch

TILE = 1024  # bytes of a program: five values each


@triton.jit
def _plus(total, digit, scale):
    return tl.where(digit == 2, total + scale, tl.where(digit == 0, total - scale, total))


@triton.jit(do_not_specialize=["count", "n", "block"])
def _add(quartic, scales, out, count, n, block, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A program takes bytes_of() each of count pieces."""
    whole, row, column, values, length = bytes_of(n, block, ROWS, COLUMNS)
    block = block.to(tl.int64)
    there = column < length
    blocks = (n + block - 1) // block
    size = (blocks - 1) * whole + (n - (blocks - 1) * block + 4) // 5  # bytes of a piece
    v0 = tl.zeros([ROWS, COLUMNS], tl.float32)
    v1 = tl.zeros([ROWS, COLUMNS], tl.float32)
    v2 = tl.zeros([ROWS, COLUMNS], tl.float32)
    v3 = tl.zeros([ROWS, COLUMNS], tl.float32)
    v4 = tl.zeros([ROWS, COLUMNS], tl.float32)
    for i in range(count):
        scale = tl.load(scales + i * blocks + row, mask=values > 0, other=0)
        byte = tl.load(quartic + i * size + row * whole + column, mask=there, other=121).to(tl.int32)
        v0 = _plus(v0, byte // 81, scale)
        v1 = _plus(v1, byte // 27 % 3, scale)
        v2 = _plus(v2, byte // 9 % 3, scale)
        v3 = _plus(v3, byte // 3 % 3, scale)
        v4 = _plus(v4, byte % 3, scale)
    at = out + row * block + column
    tl.store(at, v0, mask=there)
    tl.store(at + length, v1, mask=there & (length + column < values))
    tl.store(at + 2 * length, v2, mask=there & (2 * length + column < values))
    tl.store(at + 3 * length, v3, mask=there & (3 * length + column < values))
    tl.store(at + 4 * length, v4, mask=there & (4 * length + column < values))


def add(quartic: torch.Tensor, scales: torch.Tensor, block: int, out: torch.Tensor) -> None:
    """The same as in _sums_torch.py."""
    n = len(out)
    launch(_add, (quartic, scales, out, len(scales) // block_count(n, block)), n, block, 5, TILE)
