# SPDX-License-Identifier: MIT
"""Kernels that choose and list values, and their launches: two sweeps over residual and gradient. The first counts the
keys that reach a threshold, and finds the largest one. The second lists what is sent, and writes what is left.

What ternary.py says of the bytes holds here, too: residual + gradient is rounded once, and subnormals are kept. All
else is arithmetic on integers."""
from __future__ import annotations

from typing import Dict, NamedTuple, Optional, Tuple

import torch
import triton
import triton.language as tl

from ._codes_triton import _signed, _words
from .selector import Chance
from .ternary import keep, loadable, summed

TILE = 1024  # values of a program


@triton.jit
def _word(index, random):
    """The random word of a value. random: seed and step."""
    step, zero = tl.load(random + 1), tl.zeros_like(index)
    counter = index >> 2
    a, b, c, d = tl.philox(tl.load(random), counter.to(tl.uint32), (counter >> 32).to(tl.uint32),
                           (zero + step).to(tl.uint32), (zero + (step >> 32)).to(tl.uint32))
    place = index & 3
    return tl.where(place < 2, tl.where(place == 0, a, b), tl.where(place == 2, c, d)).to(tl.int64)


@triton.jit(do_not_specialize=["residual", "gradient", "keys", "random", "first", "units", "samples", "whole", "part"])
def _draw(residual, gradient, keys, random, first, units, samples, whole, part, TILE: tl.constexpr):
    """Sample j of a unit is one of its values from j n / samples on; n = whole * samples + part."""
    i = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    mask = i < units * samples
    j, begin = i % samples, i // samples * (whole * samples + part)
    start = j * whole + j * part // samples
    end = (j + 1) * whole + (j + 1) * part // samples
    at = begin + start + _word(first + begin + j, random) % (end - start)
    tl.store(keys + i, summed(residual, gradient, at, mask).to(tl.int32, bitcast=True) & 0x7fffffff, mask)


@triton.jit
def _key(bits, side, SIDES: tl.constexpr):
    """Of a value of the side; 0 if it is of the other one."""
    key = bits & 0x7fffffff
    if SIDES == 2:
        key = tl.where((bits < 0) == (side == 1), key, 0)
    return key


@triton.jit
def _drawn(bits, first, seed, step, limit, WIDTH: tl.constexpr):
    """0 in place of values that chance does not send. first: of them, in the tensor."""
    words = _words(tl.zeros([1, 1], tl.int64) + first, seed, step, 1, WIDTH, True)
    return tl.where((words >> 8).to(tl.int32) < limit, bits, 0)


@triton.jit
def _places(n, block, tiles, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """The rows of a program, each a tile of a unit; their units; where their values are, and whether there are some.
    block: values of a unit. tiles: of a unit."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    unit = row // tiles
    place = (row % tiles * WIDTH)[:, None] + tl.arange(0, WIDTH)[None, :]
    at = (unit * block)[:, None] + place
    return row, unit, at, (place < block) & (at < n), unit * block < n


@triton.jit(do_not_specialize=["residual", "gradient", "least", "largest", "counts", "seed", "step", "limit", "n",
                               "block", "tiles"])
def _count(residual, gradient, least, largest, counts, seed, step, limit, n, block, tiles, ROWS: tl.constexpr,
           WIDTH: tl.constexpr, SIDES: tl.constexpr, CHANCE: tl.constexpr):
    row, unit, at, mask, there = _places(n, block, tiles, ROWS, WIDTH)
    bits = summed(residual, gradient, at, mask).to(tl.int32, bitcast=True)
    tl.store(largest + row, tl.max(bits & 0x7fffffff, 1), there)
    if CHANCE:
        bits = _drawn(bits, tl.program_id(0).to(tl.int64) * WIDTH, seed, step, limit, WIDTH)
    for side in tl.static_range(SIDES):
        key, threshold = _key(bits, side, SIDES), tl.load(least + unit * SIDES + side, there, 1)[:, None]
        place = counts + (row * SIDES + side) * 2
        tl.store(place, tl.sum((key > threshold).to(tl.int32), 1), there)
        tl.store(place + 1, tl.sum((key == threshold).to(tl.int32), 1), there)


@triton.jit(do_not_specialize=["residual", "gradient", "least", "starts", "equals", "ties", "positions", "values",
                               "rest", "seed", "step", "limit", "n", "block", "tiles"])
def _list(residual, gradient, least, starts, equals, ties, positions, values, rest, seed, step, limit, n, block, tiles,
          ROWS: tl.constexpr, WIDTH: tl.constexpr, SIDES: tl.constexpr, TIES: tl.constexpr, WHOLE: tl.constexpr,
          CHANCE: tl.constexpr):
    row, unit, at, mask, there = _places(n, block, tiles, ROWS, WIDTH)
    x = summed(residual, gradient, at, mask)
    bits = x.to(tl.int32, bitcast=True)
    if CHANCE:
        bits = _drawn(bits, tl.program_id(0).to(tl.int64) * WIDTH, seed, step, limit, WIDTH)
    listed = tl.zeros([ROWS, WIDTH], tl.int32)
    for side in tl.static_range(SIDES):
        key, threshold = _key(bits, side, SIDES), tl.load(least + unit * SIDES + side, there, 1)[:, None]
        equal = (key == threshold).to(tl.int32)
        if TIES:
            rank = tl.load(equals + row * SIDES + side, there, 0)[:, None] + tl.cumsum(equal, 1)
            equal = equal & (rank <= tl.load(ties + unit * SIDES + side, there, 0)[:, None]).to(tl.int32)
        listed = listed | equal | (key > threshold).to(tl.int32)
    slot = tl.load(starts + row, there, 0)[:, None] + tl.cumsum(listed, 1) - 1
    sent = (listed == 1) & (slot < tl.load(starts + row + 1, there, 0)[:, None])
    value = x
    if CHANCE:
        p = limit.to(tl.float32) * 5.9604644775390625e-08  # 2^-24
        value = tl.math.div_rn(x, tl.zeros([ROWS, WIDTH], tl.float32) + p)
    tl.store(positions + slot, at, sent)
    tl.store(values + slot, value, sent)
    if rest is not None:
        if WHOLE:
            x = tl.where(sent, x - value, x)
        keep(rest, at, x, mask)


def draw(residual: Optional[torch.Tensor], gradient: torch.Tensor, samples: int, seed: int, step: int, first: int = 0,
         units: int = 1) -> torch.Tensor:
    """The same as in _members_torch.py."""
    keys = torch.empty(units * samples, dtype=torch.int32, device=gradient.device)
    random = torch.tensor([_signed(seed), _signed(step)], device=gradient.device)
    with torch.cuda.device_of(gradient):
        _draw[(-(-len(keys) // TILE),)](loadable(residual), loadable(gradient), keys, random, first, units, samples,
                                        *divmod(len(gradient) // units, samples), TILE=TILE, enable_fp_fusion=False)
    return keys


def _numbers(chance: Optional[Chance]) -> Tuple[int, int, int]:
    return (0, 0, 0) if chance is None else (_signed(chance.seed), _signed(chance.step), chance.limit)


class _Shape(NamedTuple):
    """How programs share the values."""

    width: int
    """values of a tile"""
    tiles: int
    """of a unit"""
    rows: int
    """tiles of all units"""

    @property
    def grid(self) -> Tuple[int]:
        return -(-self.rows * self.width // TILE),

    @property
    def constants(self) -> Dict[str, int]:
        return {"ROWS": TILE // self.width, "WIDTH": self.width}


def _shape(n: int, block: int) -> _Shape:
    width = min(TILE, 1 << (block - 1).bit_length()) if block else TILE
    tiles = -(-(block or n) // width)
    return _Shape(width, tiles, -(-n // (block or n)) * tiles)


def counts(residual: Optional[torch.Tensor], gradient: torch.Tensor, least: torch.Tensor,
           chance: Optional[Chance], block: int = 0) -> Tuple[torch.Tensor, torch.Tensor]:
    """The same as in _members_torch.py."""
    n, sides = len(gradient), least.shape[1]
    shape = _shape(n, block)
    largest = torch.empty(shape.rows, dtype=torch.int32, device=gradient.device)
    found = torch.empty(shape.rows, sides, 2, dtype=torch.int32, device=gradient.device)
    with torch.cuda.device_of(gradient):
        _count[shape.grid](loadable(residual), loadable(gradient), least, largest, found, *_numbers(chance), n,
                           block or n, shape.tiles, **shape.constants, SIDES=sides, CHANCE=chance is not None,
                           enable_fp_fusion=False)
    return largest, found


def lists(residual: Optional[torch.Tensor], gradient: torch.Tensor, least: torch.Tensor, starts: torch.Tensor,
          equals: torch.Tensor, ties: Optional[torch.Tensor], chance: Optional[Chance], rest: Optional[torch.Tensor],
          k: int, whole: bool, block: int = 0) -> Tuple[torch.Tensor, torch.Tensor]:
    """The same as in _members_torch.py."""
    n, sides = len(gradient), least.shape[1]
    shape = _shape(n, block)
    positions = torch.empty(k, dtype=torch.int32 if n < 2**31 else torch.int64, device=gradient.device)
    values = torch.empty(k, device=gradient.device)
    with torch.cuda.device_of(gradient):
        _list[shape.grid](loadable(residual), loadable(gradient), least, starts, equals,
                          least if ties is None else ties, positions, values, loadable(rest), *_numbers(chance), n,
                          block or n, shape.tiles, **shape.constants, SIDES=sides, TIES=ties is not None, WHOLE=whole,
                          CHANCE=chance is not None, enable_fp_fusion=False)
    return positions, values
