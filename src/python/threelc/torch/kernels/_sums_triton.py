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

TILE = 1024  # bytes of a program: five values each


@triton.jit
def _plus(total, digit, scale):
    return tl.where(digit == 2, total + scale, tl.where(digit == 0, total - scale, total))


@triton.jit(do_not_specialize=["n", "count"])
def _add(quartic, scales, out, n, count, TILE: tl.constexpr):
    """A program takes TILE bytes of each of count pieces."""
    column = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    length = (n.to(tl.int64) + 4) // 5
    there = column < length
    v0 = tl.zeros([TILE], tl.float32)
    v1 = tl.zeros([TILE], tl.float32)
    v2 = tl.zeros([TILE], tl.float32)
    v3 = tl.zeros([TILE], tl.float32)
    v4 = tl.zeros([TILE], tl.float32)
    for i in range(count):
        scale = tl.load(scales + i)
        byte = tl.load(quartic + i * length + column, mask=there, other=121).to(tl.int32)
        v0 = _plus(v0, byte // 81, scale)
        v1 = _plus(v1, byte // 27 % 3, scale)
        v2 = _plus(v2, byte // 9 % 3, scale)
        v3 = _plus(v3, byte // 3 % 3, scale)
        v4 = _plus(v4, byte % 3, scale)
    tl.store(out + column, v0, mask=there)
    tl.store(out + length + column, v1, mask=there & (length + column < n))
    tl.store(out + 2 * length + column, v2, mask=there & (2 * length + column < n))
    tl.store(out + 3 * length + column, v3, mask=there & (3 * length + column < n))
    tl.store(out + 4 * length + column, v4, mask=there & (4 * length + column < n))


def add(quartic: torch.Tensor, scales: torch.Tensor, out: torch.Tensor) -> None:
    """The same as in _sums_torch.py."""
    n = len(out)
    if n:
        with torch.cuda.device_of(out):
            _add[(-(-n // (5 * TILE)),)](quartic, scales, out, n, len(scales), TILE=TILE, enable_fp_fusion=False)
