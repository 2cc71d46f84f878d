# SPDX-License-Identifier: MIT
"""Golomb codes of the positions and signs of 3-value symbols as Triton kernels, in three sweeps over quartic bytes.

Position i of a tensor is in stream i // L of its L bytes, so a tile has a digit of some bytes, and the tiles of the
first stream come first. The first sweep counts the symbols that are not 0, and finds the last one of each tile: from
there the first distance of a later tile is counted. From the counts follow the parameters. The second sweep measures
the codes, and sums of their lengths say where those of a tile begin. The third one writes them. All bits are 1 before;
a code clears those that are 0, at most 50, however long its quotient is. All is arithmetic on integers.
"""
from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Tuple

import torch
import triton
import triton.language as tl

from ._golomb_torch import parameter
from ._tiles import Tiles, tiles_of
from ._zerorun_triton import larger

TILE = 2048  # symbols of a program


@triton.jit
def _digits(quartic, at, place, mask):
    """At these bytes, of a stream; 1 is a symbol 0, as where there is none."""
    byte = tl.load(quartic + at, mask=mask, other=121).to(tl.int32)
    return byte // place % 3


@triton.jit
def _between(quartic, tiles, carries, parameters, TILE: tl.constexpr):
    """Of each symbol of a tile: whether it is not 0, and negative; how many symbols 0 are before it; and the bits of
    its code."""
    i = tl.arange(0, TILE)
    tiles += tl.program_id(0).to(tl.int64) * 3
    at, place, count = tl.load(tiles) + i, tl.load(tiles + 1).to(tl.int32), tl.load(tiles + 2)
    digit = _digits(quartic, at, place, i < count)
    preceding = _digits(quartic, at - 1, place, (i > 0) & (i <= count))
    before = tl.associative_scan(tl.where(preceding == 1, -1, i - 1), 0, larger).to(tl.int64)
    zeros = i - 1 - tl.where(before < 0, -1 - tl.load(carries + tl.program_id(0)), before)
    b = tl.load(parameters + tl.program_id(0))
    return digit != 1, digit == 0, zeros, tl.where(digit != 1, (zeros >> b) + b + 2, 0)


@triton.jit
def _count(quartic, tiles, found, TILE: tl.constexpr):
    """How many symbols of a tile are not 0, and which is the last one of them, or -1."""
    i = tl.arange(0, TILE)
    tiles += tl.program_id(0).to(tl.int64) * 3
    digit = _digits(quartic, tl.load(tiles) + i, tl.load(tiles + 1).to(tl.int32), i < tl.load(tiles + 2))
    found += tl.program_id(0).to(tl.int64) * 2
    tl.store(found, tl.sum((digit != 1).to(tl.int32), 0))
    tl.store(found + 1, tl.max(tl.where(digit == 1, -1, i), 0))


@triton.jit
def _measure(quartic, tiles, carries, parameters, found, TILE: tl.constexpr):
    _, _, _, length = _between(quartic, tiles, carries, parameters, TILE)
    tl.store(found + tl.program_id(0), tl.sum(length, 0))


@triton.jit
def _swapped(x):
    """The bytes of unsigned 64-bit words in the other order."""
    x = (x & 0x00ff00ff00ff00ff) << 8 | x >> 8 & 0x00ff00ff00ff00ff
    x = (x & 0x0000ffff0000ffff) << 16 | x >> 16 & 0x0000ffff0000ffff
    return x << 32 | x >> 32


@triton.jit
def _write(quartic, tiles, carries, parameters, starts, ends, words, TILE: tl.constexpr):
    """starts: bits before the codes of each tile. ends: of each tile, the bits of words before the next piece."""
    is_sent, is_negative, zeros, length = _between(quartic, tiles, carries, parameters, TILE)
    b = tl.load(parameters + tl.program_id(0))
    end = tl.load(starts + tl.program_id(0)) + tl.cumsum(length, 0)
    has_room = is_sent & (end <= tl.load(ends + tl.program_id(0)))
    one = tl.full([TILE], 1, tl.int64)
    ones = ((zeros & ((one << b) - 1)) << 1) | is_negative.to(tl.int64)  # of the last b + 2 bits
    cleared = ((((one << (b + 2)) - 1) ^ ones) << (62 - b)).to(tl.uint64, bitcast=True)  # the first bit is the highest
    word, shift = (end - b - 2) >> 6, ((end - b - 2) & 63).to(tl.uint64)
    kept = _swapped(cleared >> shift).to(tl.int64, bitcast=True) ^ -1
    tl.atomic_and(words + word, kept, mask=has_room, sem="relaxed")
    kept = _swapped(cleared << 1 << (63 - shift)).to(tl.int64, bitcast=True) ^ -1
    tl.atomic_and(words + word + 1, kept, mask=has_room & (kept != -1), sem="relaxed")


class _Layout(NamedTuple):
    tiles: Tiles
    """pieces are the streams of each tensor, of which only the last ones may be shorter"""
    facts: torch.Tensor
    """of each program: the first byte, the place of the digit, how many symbols there are from there on"""
    tensor: torch.Tensor
    """of each program"""
    first: torch.Tensor
    """of each program: its first symbol, and that of its tensor, of all"""
    bytes: torch.Tensor
    """where each tensor begins, and the last one ends"""
    least: torch.Tensor
    """for each tensor: of how many symbols the parameter is at most 0, 1 and so on"""


@lru_cache(maxsize=256)
def _layout(ns: Tuple[int, ...], device: torch.device) -> _Layout:
    sizes = [-(-n // 5) for n in ns]
    tiles = tiles_of(tuple(min(max(n - i * size, 0), size) for n, size in zip(ns, sizes) for i in range(5)), TILE,
                     torch.device("cpu"))
    tensor, stream = tiles.piece // 5, tiles.piece % 5
    begins = torch.tensor([0, *sizes], dtype=torch.int64).cumsum(0)
    first = tiles.borders[tiles.piece] + tiles.first
    facts = torch.stack([begins[tensor] + tiles.first, 3 ** (4 - stream), tiles.borders[tiles.piece + 1] - first], 1)
    least = [_least(n) for n in ns]
    width = max(map(len, least), default=0)
    padded = torch.tensor([row + [0] * (width - len(row)) for row in least], dtype=torch.int64).view(len(ns), width)
    firsts = torch.stack([first, tiles.borders[5 * tensor]])
    return _Layout(Tiles(*(each.to(device) for each in tiles)),
                   *(each.to(device) for each in (facts.contiguous(), tensor, firsts, begins, padded)))


def _least(n: int) -> list[int]:
    """The least k of which parameter(k, n) is at most 0, 1 and so on. It never rises with k."""
    found = []
    for b in range(parameter(1, n) if n else 0):
        low, high = 1, n  # above b; at most b
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if parameter(middle, n) > b else (low, middle)
        found.append(high)
    return found


def codes(quartic: torch.Tensor, ns: Tuple[int, ...]) -> Tuple[torch.Tensor, torch.Tensor]:
    """The same as in _golomb_torch.py."""
    device, layout = quartic.device, _layout(ns, quartic.device)
    words = torch.full((len(quartic) // 8 + 2,), -1, dtype=torch.int64, device=device)
    programs, before = len(layout.tensor), layout.tiles.before[::5]
    if not programs:
        return words.view(torch.uint8)[:len(quartic)], torch.zeros(len(ns), 2, dtype=torch.int64, device=device)
    first, origin = layout.first.unbind(0)
    found = torch.empty(programs, 2, dtype=torch.int32, device=device)
    lengths = torch.empty(programs, dtype=torch.int64, device=device)
    with torch.cuda.device_of(quartic):
        _count[(programs,)](quartic, layout.facts, found, TILE=TILE)
        counts, last = found.long().unbind(1)
        last = torch.where(last < 0, last, first + last).cummax(0).values
        carries = first - 1 - torch.cat([last.new_full((1,), -1), last[:-1]]).maximum(origin - 1)
        sent = _sums(counts, before)
        is_above = (sent.unsqueeze(1) < layout.least) & (sent.unsqueeze(1) > 0)
        parameters = is_above.sum(1)[layout.tensor]
        _measure[(programs,)](quartic, layout.facts, carries, parameters, lengths, TILE=TILE)
        stops = lengths.cumsum(0)
        bits = _sums(lengths, before)
        begins = 8 * layout.bytes[:-1] - (bits.cumsum(0) - bits)
        starts = stops - lengths + begins[layout.tensor]
        ends = 8 * layout.bytes[1:][layout.tensor]
        _write[(programs,)](quartic, layout.facts, carries, parameters, starts, ends, words, TILE=TILE)
    return words.view(torch.uint8)[:len(quartic)], torch.stack([sent, bits], 1)


def _sums(numbers: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """Of the tiles of each tensor."""
    sums = torch.cat([numbers.new_zeros(1), numbers.cumsum(0)])[before]
    return sums[1:] - sums[:-1]
