# SPDX-License-Identifier: MIT
"""Kernels that choose and list values, and their launches: two sweeps over residual and gradient. The first counts the
keys that reach a threshold, and finds the largest one. The second lists what is sent, and writes what is left.

What ternary.py says of the bytes holds here, too: residual + gradient is rounded once, and subnormals are kept. All
else is arithmetic on integers."""
from __future__ import annotations

from typing import Optional, Tuple

import torch
import triton
import triton.language as tl

from ._codes_triton import _signed
from .ternary import loadable, summed

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


@triton.jit(do_not_specialize=["residual", "gradient", "keys", "random", "samples", "whole", "part"])
def _draw(residual, gradient, keys, random, samples, whole, part, TILE: tl.constexpr):
    """Sample j is one of the values from j n / samples on; n = whole * samples + part."""
    j = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    mask = j < samples
    start = j * whole + j * part // samples
    end = (j + 1) * whole + (j + 1) * part // samples
    at = start + _word(j, random) % (end - start)
    tl.store(keys + j, summed(residual, gradient, at, mask).to(tl.int32, bitcast=True) & 0x7fffffff, mask)


@triton.jit
def _key(bits, side, SIDES: tl.constexpr):
    """Of a value of the side; 0 if it is of the other one."""
    key = bits & 0x7fffffff
    if SIDES == 2:
        key = tl.where((bits < 0) == (side == 1), key, 0)
    return key


@triton.jit(do_not_specialize=["residual", "gradient", "least", "largest", "counts", "n"])
def _count(residual, gradient, least, largest, counts, n, TILE: tl.constexpr, SIDES: tl.constexpr):
    program = tl.program_id(0).to(tl.int64)
    at = program * TILE + tl.arange(0, TILE)
    bits = summed(residual, gradient, at, at < n).to(tl.int32, bitcast=True)
    tl.store(largest + program, tl.max(bits & 0x7fffffff, 0))
    for side in tl.static_range(SIDES):
        key, threshold = _key(bits, side, SIDES), tl.load(least + side)
        place = counts + (program * SIDES + side) * 2
        tl.store(place, tl.sum((key > threshold).to(tl.int32), 0))
        tl.store(place + 1, tl.sum((key == threshold).to(tl.int32), 0))


@triton.jit(do_not_specialize=["residual", "gradient", "least", "starts", "equals", "ties", "positions", "values",
                               "rest", "n", "k"])
def _list(residual, gradient, least, starts, equals, ties, positions, values, rest, n, k, TILE: tl.constexpr,
          SIDES: tl.constexpr, TIES: tl.constexpr, WHOLE: tl.constexpr):
    program = tl.program_id(0).to(tl.int64)
    at = program * TILE + tl.arange(0, TILE)
    mask = at < n
    x = summed(residual, gradient, at, mask)
    bits = x.to(tl.int32, bitcast=True)
    listed = tl.zeros([TILE], tl.int32)
    for side in tl.static_range(SIDES):
        key, threshold = _key(bits, side, SIDES), tl.load(least + side)
        equal = (key == threshold).to(tl.int32)
        if TIES:
            rank = tl.load(equals + program * SIDES + side) + tl.cumsum(equal, 0)
            equal = equal & (rank <= tl.load(ties + side)).to(tl.int32)
        listed = listed | equal | (key > threshold).to(tl.int32)
    slot = tl.load(starts + program) + tl.cumsum(listed, 0) - 1
    sent = (listed == 1) & (slot < k)
    tl.store(positions + slot, at, sent)
    tl.store(values + slot, x, sent)
    if WHOLE:
        x = tl.where(sent, 0.0, x)
    tl.store(rest + at, x, mask)


def draw(residual: torch.Tensor, gradient: torch.Tensor, samples: int, seed: int, step: int) -> torch.Tensor:
    """The same as in _members_torch.py."""
    keys = torch.empty(samples, dtype=torch.int32, device=residual.device)
    random = torch.tensor([_signed(seed), _signed(step)], device=residual.device)
    with torch.cuda.device_of(residual):
        _draw[(-(-samples // TILE),)](residual, loadable(gradient), keys, random, samples,
                                      *divmod(len(residual), samples), TILE=TILE, enable_fp_fusion=False)
    return keys


def counts(residual: torch.Tensor, gradient: torch.Tensor, least: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """The same as in _members_torch.py."""
    n, sides = len(residual), len(least)
    programs = -(-n // TILE)
    largest = torch.empty(programs, dtype=torch.int32, device=residual.device)
    found = torch.empty(programs, sides, 2, dtype=torch.int32, device=residual.device)
    with torch.cuda.device_of(residual):
        _count[(programs,)](residual, loadable(gradient), least, largest, found, n, TILE=TILE, SIDES=sides,
                            enable_fp_fusion=False)
    return largest, found


def lists(residual: torch.Tensor, gradient: torch.Tensor, least: torch.Tensor, starts: torch.Tensor,
          equals: torch.Tensor, ties: Optional[torch.Tensor], rest: torch.Tensor, k: int,
          whole: bool) -> Tuple[torch.Tensor, torch.Tensor]:
    """The same as in _members_torch.py."""
    n = len(residual)
    positions = torch.empty(k, dtype=torch.int32 if n < 2**31 else torch.int64, device=residual.device)
    values = torch.empty(k, device=residual.device)
    with torch.cuda.device_of(residual):
        _list[(len(starts),)](residual, loadable(gradient), least, starts, equals, least if ties is None else ties,
                              positions, values, rest, n, k, TILE=TILE, SIDES=len(least), TIES=ties is not None,
                              WHOLE=whole, enable_fp_fusion=False)
    return positions, values
