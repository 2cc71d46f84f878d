# SPDX-License-Identifier: MIT
"""Values are chosen and listed by torch operations, for devices without Triton. Keys are magnitudes as integers: those
of infinity are above all numbers, and those of NaN above infinity."""
from __future__ import annotations

from typing import List, Optional, Tuple

import torch

from ._codes_torch import words_from, words_of
from .codes import Words
from .operations import bits_of, rounded, summed, summed_for
from .selector import Chance


def keys_of(x: torch.Tensor, side: int, sides: int) -> torch.Tensor:
    """side: of two, 0 for positive values and 1 for negative ones; the values of the other one have key 0."""
    bits = bits_of(x)
    if sides == 1:
        return bits & 0x7fffffff
    return (bits ^ torch.iinfo(bits.dtype).min if side else bits).clamp(min=0)


def draw(residual: Optional[torch.Tensor], gradient: torch.Tensor, samples: int, seed: int, step: int, first: int = 0,
         units: int = 1) -> torch.Tensor:
    """The keys of samples of residual + gradient: one is drawn from each of so many equal parts of each unit. Units
    have equally many values. first: of them, in the tensor."""
    length = len(gradient) // units
    whole, part = divmod(length, samples)
    j = torch.arange(samples, device=gradient.device)
    start = j * whole + torch.div(j * part, samples, rounding_mode="floor")
    end = (j + 1) * whole + torch.div((j + 1) * part, samples, rounding_mode="floor")
    begins = torch.arange(units, device=gradient.device).unsqueeze(1) * length
    words = words_from(Words(seed, step), first + begins[:, 0], samples)
    at = (begins + start + words % (end - start)).view(-1)
    return keys_of(summed(None if residual is None else residual[at], gradient[at]), 0, 1)


def _lots(chance: Optional[Chance], gradient: torch.Tensor) -> Optional[torch.Tensor]:
    """Whether each value is sent, if chance decides."""
    if chance is None:
        return None
    return words_of(Words(chance.seed, chance.step), len(gradient), gradient.device) >> 8 < chance.limit


def _rows_of(x: torch.Tensor, block: int) -> torch.Tensor:
    """The units as rows; the last one ends with zeros."""
    return torch.nn.functional.pad(x, (0, -len(x) % block)).view(-1, block) if block else x.view(1, -1)


def counts(residual: Optional[torch.Tensor], gradient: torch.Tensor, least: torch.Tensor,
           chance: Optional[Chance], block: int = 0) -> Tuple[torch.Tensor, torch.Tensor]:
    """The largest keys of residual + gradient, one for each tile, which are the units here; and of each tile and side
    how many keys are above least and how many equal it.

    residual: n values, float32 or bfloat16; None: 0. gradient: n values, float32, float16 or bfloat16. least: of each
    unit and side, at least 1. chance: only values that it sends count. block: values of a unit; 0: all n. Each unit has
    equally many tiles."""
    x, sides, drawn = summed(residual, gradient), least.shape[1], _lots(chance, gradient)
    found: List[torch.Tensor] = []
    for side in range(sides):
        keys = keys_of(x, side, sides)
        if drawn is not None:
            keys = keys.masked_fill(~drawn, 0)
        rows = _rows_of(keys, block)
        found += [(rows > least[:, side:side + 1]).sum(1), (rows == least[:, side:side + 1]).sum(1)]
    return _rows_of(keys_of(x, 0, 1), block).amax(1), torch.stack(found, 1).view(-1, sides, 2)


def lists(residual: Optional[torch.Tensor], gradient: torch.Tensor, least: torch.Tensor, starts: torch.Tensor,
          equals: torch.Tensor, ties: Optional[torch.Tensor], chance: Optional[Chance], rest: Optional[torch.Tensor],
          k: int, whole: bool, block: int = 0) -> Tuple[torch.Tensor, torch.Tensor]:
    """Positions of k values whose keys are above least, or among the first of their unit that equal it, and these
    values, with chance divided by its p. rest, if there is a residual, becomes residual + gradient, rounded as in
    operations.quantize(). whole: less the value that is listed.

    starts: where the lists of each tile begin, and the last one ends; what has no room there is not listed. equals: of
    each tile and side, how many keys before it in its unit equal least. ties: of each unit and side, how many of these
    are listed; None: all."""
    sides, drawn = least.shape[1], _lots(chance, gradient)
    x = summed_for(rest, residual, gradient)
    listed = torch.zeros_like(_rows_of(x, block), dtype=torch.bool)
    for side in range(sides):
        keys = keys_of(x, side, sides)
        if drawn is not None:
            keys = keys.masked_fill(~drawn, 0)
        rows = _rows_of(keys, block)
        equal = rows == least[:, side:side + 1]
        if ties is not None:
            equal &= equal.cumsum(1) <= ties[:, side:side + 1]
        listed |= (rows > least[:, side:side + 1]) | equal
    if ties is None and block:
        listed &= listed.cumsum(1) <= (starts[1:] - starts[:-1]).unsqueeze(1)
    positions = listed.view(-1).nonzero()[:k, 0]
    values = x[positions]
    if chance is not None:
        values /= torch.full((1,), chance.p, device=x.device)
    if rest is not None and whole:
        x[positions] = 0 if chance is None else x[positions] - values
    if rest is not None and x is not rest:
        rest.copy_(rounded(x, rest.dtype))
    return positions, values
