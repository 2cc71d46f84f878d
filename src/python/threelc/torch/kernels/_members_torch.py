# SPDX-License-Identifier: MIT
"""Values are chosen and listed by torch operations, for devices without Triton. Keys are magnitudes as integers: those
of infinity are above all numbers, and those of NaN above infinity."""
from __future__ import annotations

from typing import List, Optional, Tuple

import torch

from ._codes_torch import words_of
from .codes import Words
from .operations import bits_of, summed
from .selector import Chance


def keys_of(x: torch.Tensor, side: int, sides: int) -> torch.Tensor:
    """side: of two, 0 for positive values and 1 for negative ones; the values of the other one have key 0."""
    bits = bits_of(x)
    if sides == 1:
        return bits & 0x7fffffff
    return (bits ^ torch.iinfo(bits.dtype).min if side else bits).clamp(min=0)


def draw(residual: Optional[torch.Tensor], gradient: torch.Tensor, samples: int, seed: int, step: int) -> torch.Tensor:
    """The keys of samples of residual + gradient: one is drawn from each of so many equal parts."""
    whole, part = divmod(len(gradient), samples)
    j = torch.arange(samples, device=gradient.device)
    start = j * whole + torch.div(j * part, samples, rounding_mode="floor")
    end = (j + 1) * whole + torch.div((j + 1) * part, samples, rounding_mode="floor")
    at = start + words_of(Words(seed, step), samples, gradient.device) % (end - start)
    return keys_of(summed(None if residual is None else residual[at], gradient[at]), 0, 1)


def _lots(chance: Optional[Chance], gradient: torch.Tensor) -> Optional[torch.Tensor]:
    """Whether each value is sent, if chance decides."""
    if chance is None:
        return None
    return words_of(Words(chance.seed, chance.step), len(gradient), gradient.device) >> 8 < chance.limit


def counts(residual: Optional[torch.Tensor], gradient: torch.Tensor, least: torch.Tensor,
           chance: Optional[Chance]) -> Tuple[torch.Tensor, torch.Tensor]:
    """The largest keys of residual + gradient, one for each program, of which there is one here; and of each program
    and side how many keys are above least and how many equal it.

    residual: n values, float32; None: 0. gradient: n values, float32, float16 or bfloat16. least: of each side, at
    least 1. chance: only values that it sends count."""
    x, sides, drawn = summed(residual, gradient), len(least), _lots(chance, gradient)
    found: List[torch.Tensor] = []
    for side in range(sides):
        keys = keys_of(x, side, sides)
        if drawn is not None:
            keys = keys.masked_fill(~drawn, 0)
        found += [(keys > least[side]).sum(), (keys == least[side]).sum()]
    return keys_of(x, 0, 1).amax().view(1), torch.stack(found).view(1, sides, 2)


def lists(residual: Optional[torch.Tensor], gradient: torch.Tensor, least: torch.Tensor, starts: torch.Tensor,
          equals: torch.Tensor, ties: Optional[torch.Tensor], chance: Optional[Chance], rest: Optional[torch.Tensor],
          k: int, whole: bool) -> Tuple[torch.Tensor, torch.Tensor]:
    """Positions of the first k values whose keys are above least, or among the first of those that equal it, and these
    values, with chance divided by its p. rest, if there is a residual, becomes residual + gradient. whole: less the
    value that is listed.

    starts: where the lists of each program begin. equals: of each program and side, how many keys before it equal
    least. ties: of each side, how many of these are listed; None: all. Neither matters to the only program here."""
    sides, drawn = len(least), _lots(chance, gradient)
    x = summed(residual, gradient) if residual is None or rest is None else torch.add(residual, gradient, out=rest)
    listed = torch.zeros_like(x, dtype=torch.bool)
    for side in range(sides):
        keys = keys_of(x, side, sides)
        if drawn is not None:
            keys = keys.masked_fill(~drawn, 0)
        equal = keys == least[side]
        if ties is not None:
            equal &= equal.cumsum(0) <= ties[side]
        listed |= (keys > least[side]) | equal
    positions = listed.nonzero()[:k, 0]
    values = x[positions]
    if chance is not None:
        values /= torch.full((1,), chance.p, device=x.device)
    if rest is not None and whole:
        rest[positions] = 0 if chance is None else rest[positions] - values
    return positions, values
