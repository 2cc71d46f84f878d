# SPDX-License-Identifier: MIT
"""Values are chosen and listed by torch operations, for devices without Triton. Keys are magnitudes as integers: those
of infinity are above all numbers, and those of NaN above infinity."""
from __future__ import annotations

from typing import List, Optional, Tuple

import torch

from ._codes_torch import words_of
from .codes import Words
from .operations import bits_of


def keys_of(x: torch.Tensor, side: int, sides: int) -> torch.Tensor:
    """side: of two, 0 for positive values and 1 for negative ones; the values of the other one have key 0."""
    bits = bits_of(x)
    if sides == 1:
        return bits & 0x7fffffff
    return (bits ^ torch.iinfo(bits.dtype).min if side else bits).clamp(min=0)


def draw(residual: torch.Tensor, gradient: torch.Tensor, samples: int, seed: int, step: int) -> torch.Tensor:
    """The keys of samples of residual + gradient: one is drawn from each of so many equal parts."""
    whole, part = divmod(len(residual), samples)
    j = torch.arange(samples, device=residual.device)
    start = j * whole + torch.div(j * part, samples, rounding_mode="floor")
    end = (j + 1) * whole + torch.div((j + 1) * part, samples, rounding_mode="floor")
    at = start + words_of(Words(seed, step), samples, residual.device) % (end - start)
    return keys_of(residual[at] + gradient[at], 0, 1)


def counts(residual: torch.Tensor, gradient: torch.Tensor, least: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """The largest keys of residual + gradient, one for each program, of which there is one here; and of each program
    and side how many keys are above least and how many equal it.

    residual: n values, float32. gradient: n values, float32, float16 or bfloat16. least: of each side, at least 1."""
    x, sides = residual + gradient, len(least)
    found: List[torch.Tensor] = []
    for side in range(sides):
        keys = keys_of(x, side, sides)
        found += [(keys > least[side]).sum(), (keys == least[side]).sum()]
    return keys_of(x, 0, 1).amax().view(1), torch.stack(found).view(1, sides, 2)


def lists(residual: torch.Tensor, gradient: torch.Tensor, least: torch.Tensor, starts: torch.Tensor,
          equals: torch.Tensor, ties: Optional[torch.Tensor], rest: torch.Tensor, k: int,
          whole: bool) -> Tuple[torch.Tensor, torch.Tensor]:
    """Positions of the first k values whose keys are above least, or among the first of those that equal it, and these
    values. rest becomes residual + gradient. whole: 0 where one is listed.

    starts: where the lists of each program begin. equals: of each program and side, how many keys before it equal
    least. ties: of each side, how many of these are listed; None: all. Neither matters to the only program here."""
    sides = len(least)
    torch.add(residual, gradient, out=rest)
    listed = torch.zeros_like(rest, dtype=torch.bool)
    for side in range(sides):
        keys = keys_of(rest, side, sides)
        equal = keys == least[side]
        if ties is not None:
            equal &= equal.cumsum(0) <= ties[side]
        listed |= (keys > least[side]) | equal
    positions = listed.nonzero()[:k, 0]
    values = rest[positions]
    if whole:
        rest[positions] = 0
    return positions, values
