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

from ._codes_triton import _signed, _words
from .selector import Chance
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


@triton.jit
def _drawn(bits, first, seed, step, limit, TILE: tl.constexpr):
    """0 in place of values that chance does not send. first: of them, in the tensor."""
    words = tl.reshape(_words(tl.zeros([1, 1], tl.int64) + first, seed, step, 1, TILE, True), [TILE])
    return tl.where((words >> 8).to(tl.int32) < limit, bits, 0)


@triton.jit(do_not_specialize=["residual", "gradient", "least", "largest", "counts", "seed", "step", "limit", "n"])
def _count(residual, gradient, least, largest, counts, seed, step, limit, n, TILE: tl.constexpr, SIDES: tl.constexpr,
           CHANCE: tl.constexpr):
    program = tl.program_id(0).to(tl.int64)
    at = program * TILE + tl.arange(0, TILE)
    bits = summed(residual, gradient, at, at < n).to(tl.int32, bitcast=True)
    tl.store(largest + program, tl.max(bits & 0x7fffffff, 0))
    if CHANCE:
        bits = _drawn(bits, program * TILE, seed, step, limit, TILE)
    for side in tl.static_range(SIDES):
        key, threshold = _key(bits, side, SIDES), tl.load(least + side)
        place = counts + (program * SIDES + side) * 2
        tl.store(place, tl.sum((key > threshold).to(tl.int32), 0))
        tl.store(place + 1, tl.sum((key == threshold).to(tl.int32), 0))


@triton.jit(do_not_specialize=["residual", "gradient", "least", "starts", "equals", "ties", "positions", "values",
                               "rest", "seed", "step", "limit", "n", "k"])
def _list(residual, gradient, least, starts, equals, ties, positions, values, rest, seed, step, limit, n, k,
          TILE: tl.constexpr, SIDES: tl.constexpr, TIES: tl.constexpr, WHOLE: tl.constexpr, CHANCE: tl.constexpr):
    program = tl.program_id(0).to(tl.int64)
    at = program * TILE + tl.arange(0, TILE)
    mask = at < n
    x = summed(residual, gradient, at, mask)
    bits = x.to(tl.int32, bitcast=True)
    if CHANCE:
        bits = _drawn(bits, program * TILE, seed, step, limit, TILE)
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
    value = x
    if CHANCE:
        p = limit.to(tl.float32) * 5.9604644775390625e-08  # 2^-24
        value = tl.math.div_rn(x, tl.zeros([TILE], tl.float32) + p)
    tl.store(positions + slot, at, sent)
    tl.store(values + slot, value, sent)
    if rest is not None:
        if WHOLE:
            x = tl.where(sent, x - value, x)
        tl.store(rest + at, x, mask)


def draw(residual: Optional[torch.Tensor], gradient: torch.Tensor, samples: int, seed: int, step: int) -> torch.Tensor:
    """The same as in _members_torch.py."""
    keys = torch.empty(samples, dtype=torch.int32, device=gradient.device)
    random = torch.tensor([_signed(seed), _signed(step)], device=gradient.device)
    with torch.cuda.device_of(gradient):
        _draw[(-(-samples // TILE),)](residual, loadable(gradient), keys, random, samples,
                                      *divmod(len(gradient), samples), TILE=TILE, enable_fp_fusion=False)
    return keys


def _numbers(chance: Optional[Chance]) -> Tuple[int, int, int]:
    return (0, 0, 0) if chance is None else (_signed(chance.seed), _signed(chance.step), chance.limit)


def counts(residual: Optional[torch.Tensor], gradient: torch.Tensor, least: torch.Tensor,
           chance: Optional[Chance]) -> Tuple[torch.Tensor, torch.Tensor]:
    """The same as in _members_torch.py."""
    n, sides = len(gradient), len(least)
    programs = -(-n // TILE)
    largest = torch.empty(programs, dtype=torch.int32, device=gradient.device)
    found = torch.empty(programs, sides, 2, dtype=torch.int32, device=gradient.device)
    with torch.cuda.device_of(gradient):
        _count[(programs,)](residual, loadable(gradient), least, largest, found, *_numbers(chance), n, TILE=TILE,
                            SIDES=sides, CHANCE=chance is not None, enable_fp_fusion=False)
    return largest, found


def lists(residual: Optional[torch.Tensor], gradient: torch.Tensor, least: torch.Tensor, starts: torch.Tensor,
          equals: torch.Tensor, ties: Optional[torch.Tensor], chance: Optional[Chance], rest: Optional[torch.Tensor],
          k: int, whole: bool) -> Tuple[torch.Tensor, torch.Tensor]:
    """The same as in _members_torch.py."""
    n = len(gradient)
    positions = torch.empty(k, dtype=torch.int32 if n < 2**31 else torch.int64, device=gradient.device)
    values = torch.empty(k, device=gradient.device)
    with torch.cuda.device_of(gradient):
        _list[(len(starts),)](residual, loadable(gradient), least, starts, equals, least if ties is None else ties,
                              positions, values, rest, *_numbers(chance), n, k, TILE=TILE, SIDES=len(least),
                              TIES=ties is not None, WHOLE=whole, CHANCE=chance is not None, enable_fp_fusion=False)
    return positions, values
