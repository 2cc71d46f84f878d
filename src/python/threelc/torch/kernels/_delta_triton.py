# SPDX-License-Identifier: MIT
"""Kernels of deltas of weights, and their launches. Weights are integers of their width here; PACKED: two of 4 bits in
a byte. Where weights lie is a number of 64 bits: there may be more than 2**31."""
from __future__ import annotations

from typing import Tuple

import torch
import triton
import triton.language as tl

from ._units import BLOCK, Unit

TILE = 1024  # weights of a program


# ---- which weights differ ----

@triton.jit
def _weights_at(weights, at, mask, PACKED: tl.constexpr):
    if PACKED:
        found = tl.load(weights + (at >> 1), mask, other=0).to(tl.int32) >> ((at & 1) * 4).to(tl.int32) & 15
    else:
        found = tl.load(weights + at, mask, other=0)
    return found


@triton.jit
def _count(old, new, counts, n, TILE: tl.constexpr, PACKED: tl.constexpr):
    """counts: of the weights of each program that differ."""
    program = tl.program_id(0).to(tl.int64)
    at = program * TILE + tl.arange(0, TILE)
    mask = at < n
    differs = _weights_at(old, at, mask, PACKED) != _weights_at(new, at, mask, PACKED)
    tl.store(counts + program, tl.sum(differs.to(tl.int32), 0))


@triton.jit
def _list(old, new, starts, is_whole, positions, before, after, n, TILE: tl.constexpr, BLOCK: tl.constexpr,
          PACKED: tl.constexpr):
    """starts: where the lists of each program begin. is_whole: of each block, whether all of it is listed."""
    program = tl.program_id(0).to(tl.int64)
    at = program * TILE + tl.arange(0, TILE)
    mask = at < n
    a, b = _weights_at(old, at, mask, PACKED), _weights_at(new, at, mask, PACKED)
    listed = ((a != b).to(tl.int32) | tl.load(is_whole + program * TILE // BLOCK)).to(tl.int1) & mask
    slot = tl.load(starts + program) + tl.cumsum(listed.to(tl.int32), 0) - 1
    tl.store(positions + slot, at, listed)
    tl.store(before + slot, a, listed)
    tl.store(after + slot, b, listed)


def counts(old: torch.Tensor, new: torch.Tensor, n: int, unit: Unit) -> torch.Tensor:
    """Of each TILE of weights, how many differ."""
    found = torch.empty(-(-n // TILE), dtype=torch.int32, device=old.device)
    _count[(len(found),)](old, new, found, n, TILE=TILE, PACKED=unit.width == 4)
    return found


def lists(old: torch.Tensor, new: torch.Tensor, n: int, unit: Unit, starts: torch.Tensor, is_whole: torch.Tensor,
          k: int) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Positions of the k weights that are listed, and what they are in old and in new."""
    positions = torch.empty(k, dtype=torch.int64, device=old.device)
    before, after = torch.empty_like(positions, dtype=old.dtype), torch.empty_like(positions, dtype=old.dtype)
    _list[(len(starts),)](old, new, starts, is_whole.to(torch.int32), positions, before, after, n, TILE=TILE,
                          BLOCK=BLOCK, PACKED=unit.width == 4)
    return positions, before, after


# ---- changes of weights ----

@triton.jit
def _ordered(x, WIDTH: tl.constexpr):
    """Of floats, and of ordered ones the floats again. Bits above WIDTH come out as they are."""
    return x ^ (-(x >> (WIDTH - 1) & 1) & ((1 << (WIDTH - 1)) - 1))


@triton.jit
def _moved(x, value, WIDTH: tl.constexpr, IS_FLOAT: tl.constexpr, ARE_VALUES: tl.constexpr):
    """The next weights; the lowest WIDTH bits count."""
    if WIDTH == 64:
        low = value if ARE_VALUES & 1 else x + value
        high = value >> 32 if ARE_VALUES & 2 else (x >> 32) + (value >> 32)
        found = high << 32 | low & 0xffffffff
    elif ARE_VALUES:
        found = value.to(tl.int32)
    elif IS_FLOAT:
        found = _ordered(_ordered(x.to(tl.int32), WIDTH) + value.to(tl.int32), WIDTH)
    else:
        found = x.to(tl.int32) + value.to(tl.int32)
    return found


@triton.jit
def _put(pair, at, value, IS_FLOAT: tl.constexpr, ARE_VALUES: tl.constexpr):
    """A byte of two weights in which that at `at` has changed."""
    shift = ((at & 1) * 4).to(tl.int32)
    x = _moved(pair >> shift & 15, value, 4, IS_FLOAT, ARE_VALUES) & 15
    return pair & ~(15 << shift) | x << shift


@triton.jit
def _apply(weights, positions, values, k, TILE: tl.constexpr, WIDTH: tl.constexpr, IS_FLOAT: tl.constexpr,
           ARE_VALUES: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    mask = i < k
    at, value = tl.load(positions + i, mask, other=0), tl.load(values + i, mask, other=0)
    if WIDTH == 4:
        # of two changes in a byte the first writes both
        before = tl.load(positions + i - 1, mask & (i > 0), other=-1) >> 1
        has_next = mask & (i + 1 < k)
        after = tl.load(positions + i + 1, has_next, other=-1)
        place = weights + (at >> 1)
        pair = _put(tl.load(place, mask, other=0).to(tl.int32), at, value, IS_FLOAT, ARE_VALUES)
        both = _put(pair, after, tl.load(values + i + 1, has_next, other=0), IS_FLOAT, ARE_VALUES)
        tl.store(place, tl.where(after >> 1 == at >> 1, both, pair), mask & (before != at >> 1))
    else:
        found = _moved(tl.load(weights + at, mask, other=0), value, WIDTH, IS_FLOAT, ARE_VALUES)
        tl.store(weights + at, found, mask)


def apply(weights: torch.Tensor, positions: torch.Tensor, values: torch.Tensor, are_values: int, unit: Unit) -> None:
    """Positions rise, and are those of weights."""
    k = len(positions)
    _apply[(-(-k // TILE),)](weights, positions, values, k, TILE=TILE, WIDTH=unit.width, IS_FLOAT=unit.is_float,
                             ARE_VALUES=are_values)
