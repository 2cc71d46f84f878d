# SPDX-License-Identifier: MIT
"""Zero-run encoding of quartic bytes as Triton kernels: 3LC's section 3.3 in two sweeps, each way.

A run may cross tiles. So the first sweep finds where the last byte of each tile lies that is not 121, and counts the
codes of the tile as if no run reached into it. From these counts it follows how far the runs that do have come, and
where the codes of each tile go. The second sweep writes them. All is arithmetic on integers.
"""
from __future__ import annotations

from typing import Tuple

import torch
import triton
import triton.language as tl

from ._tiles import tiles_of

TILE = 2048  # bytes of a program


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def _codes(quartic, firsts, ends, carry, TILE: tl.constexpr):
    """Which bytes of a tile are 121, and which of them end a run; which have a code; it. carry: how many bytes 121 are
    before the tile, modulo 14."""
    i = tl.arange(0, TILE)
    at = tl.load(firsts + tl.program_id(0)) + i
    end = tl.load(ends + tl.program_id(0))  # of the piece
    byte = tl.load(quartic + at, mask=at < end, other=0).to(tl.int32)
    following = tl.load(quartic + at + 1, mask=at + 1 < end, other=0).to(tl.int32)
    is_zero = byte == 121
    is_end = is_zero & (following != 121)
    before = tl.associative_scan(tl.where(is_zero, -1, i), 0, larger)  # the last one that is not 121
    run = (i - tl.where(before < 0, -1 - carry, before)) % 14
    is_coded = (at < end) & ((is_zero == 0) | is_end | (run == 0))
    code = tl.where(run == 0, 255, tl.where(run == 1, 121, 241 + run))
    return is_zero, is_end, is_coded, tl.where(is_zero, code, byte)


@triton.jit
def _count(quartic, firsts, ends, found, TILE: tl.constexpr):
    """Of a tile: with how many bytes 121 it begins, and whether the last of them ends a run; how many codes those after
    them have; the last byte that is not 121, or -1."""
    i = tl.arange(0, TILE)
    is_zero, is_end, is_coded, _ = _codes(quartic, firsts, ends, 0, TILE)
    head = tl.min(tl.where(is_zero, TILE, i), 0)  # what is beyond the piece is not 121
    size = tl.load(ends + tl.program_id(0)) - tl.load(firsts + tl.program_id(0))
    found += tl.program_id(0).to(tl.int64) * 4
    tl.store(found, head)
    tl.store(found + 1, tl.sum((is_end & (i == head - 1)).to(tl.int32), 0))
    tl.store(found + 2, tl.sum((is_coded & (i >= head)).to(tl.int32), 0))
    tl.store(found + 3, tl.max(tl.where(is_zero | (i >= size), -1, i), 0))


@triton.jit
def _shrink(quartic, firsts, ends, carries, starts, coded, TILE: tl.constexpr):
    _, _, is_coded, code = _codes(quartic, firsts, ends, tl.load(carries + tl.program_id(0)), TILE)
    slot = tl.load(starts + tl.program_id(0)) + tl.cumsum(is_coded.to(tl.int32), 0) - 1
    tl.store(coded + slot, code.to(tl.uint8), mask=is_coded)


def shrink(quartic: torch.Tensor, sizes: Tuple[int, ...]) -> Tuple[torch.Tensor, torch.Tensor]:
    """The same as in _zerorun_torch.py."""
    coded, device = torch.empty_like(quartic), quartic.device
    tiles = tiles_of(sizes, TILE, device)
    programs = len(tiles.piece)
    if not programs:
        return coded, torch.zeros(len(sizes), dtype=torch.int64, device=device)
    begins, ends = tiles.borders[tiles.piece], tiles.borders[tiles.piece + 1]
    firsts = begins + tiles.first
    found = torch.empty(programs, 4, dtype=torch.int32, device=device)
    with torch.cuda.device_of(quartic):
        _count[(programs,)](quartic, firsts, ends, found, TILE=TILE)
        head, is_end, codes, last = found.long().unbind(1)
        last = torch.where(last < 0, last, firsts + last).cummax(0).values
        before = torch.cat([last.new_full((1,), -1), last[:-1]]).maximum(begins - 1)
        carries = (firsts - 1 - before) % 14
        run = carries + head
        stops = (codes + run // 14 + is_end * (run % 14 > 0)).cumsum(0)
        starts = torch.cat([stops.new_zeros(1), stops])
        _shrink[(programs,)](quartic, firsts, ends, carries.int(), starts, coded, TILE=TILE)
    return coded, starts[tiles.before[1:]]


@triton.jit
def _lengths(coded, n, TILE: tl.constexpr):
    """How many quartic bytes each byte of a tile stands for; and the bytes."""
    at = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    byte = tl.load(coded + at, mask=at < n, other=0).to(tl.int32)
    length = tl.where(byte <= 242, 1, tl.where(byte == 255, 14, byte - 241))
    return tl.where(at < n, length, 0), byte


@triton.jit(do_not_specialize=["n"])
def _measure(coded, found, n, TILE: tl.constexpr):
    length, _ = _lengths(coded, n, TILE)
    tl.store(found + tl.program_id(0), tl.sum(length, 0))


@triton.jit(do_not_specialize=["n"])
def _expand(coded, starts, quartic, n, TILE: tl.constexpr):
    length, byte = _lengths(coded, n, TILE)
    at = tl.load(starts + tl.program_id(0)) + tl.cumsum(length, 0) - 1
    tl.store(quartic + at, byte.to(tl.uint8), mask=(length == 1) & (byte != 121))


def expand(coded: torch.Tensor, quartic: torch.Tensor) -> None:
    """The same as in _zerorun_torch.py."""
    n, programs = len(coded), -(-len(coded) // TILE)
    quartic.fill_(121)
    if not n:
        return
    found = torch.empty(programs, dtype=torch.int32, device=quartic.device)
    with torch.cuda.device_of(quartic):
        _measure[(programs,)](coded, found, n, TILE=TILE)
        _expand[(programs,)](coded, found.cumsum(0) - found, quartic, n, TILE=TILE)
