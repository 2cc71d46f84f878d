# SPDX-License-Identifier: MIT
"""The same as _delta_triton.py by torch operations, for devices that Triton does not have. Weights are integers of
their width."""
from __future__ import annotations

from typing import Tuple

import torch

from ._units import BLOCK, Unit

TILE = BLOCK


def _differs(old: torch.Tensor, new: torch.Tensor, unit: Unit) -> torch.Tensor:
    if unit.width != 4:
        return old != new
    differing = old ^ new
    return torch.stack([differing % 16 != 0, differing >= 16], 1).view(-1)


def counts(old: torch.Tensor, new: torch.Tensor, n: int, unit: Unit) -> torch.Tensor:
    """Of each TILE of weights, how many differ."""
    positions = _differs(old, new, unit).nonzero()[:, 0]
    return torch.bincount(torch.div(positions, TILE, rounding_mode="floor"), minlength=-(-n // TILE))


def lists(old: torch.Tensor, new: torch.Tensor, n: int, unit: Unit, starts: torch.Tensor, is_whole: torch.Tensor,
          k: int) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Positions of the k weights that are listed, and what they are in old and in new."""
    listed = _differs(old, new, unit)
    if is_whole.any():
        listed |= is_whole.repeat_interleave(BLOCK)[:n]
    positions = listed.nonzero()[:, 0]
    if unit.width != 4:
        return positions, old[positions], new[positions]
    byte, shift = positions >> 1, (positions & 1) * 4
    return positions, (old[byte] >> shift & 15).to(torch.uint8), (new[byte] >> shift & 15).to(torch.uint8)


def _ordered(x: torch.Tensor, width: int) -> torch.Tensor:
    return x ^ (-(x >> (width - 1) & 1) & ((1 << (width - 1)) - 1))


def _moved(x: torch.Tensor, value: torch.Tensor, are_values: int, unit: Unit) -> torch.Tensor:
    """The next weights, of 64 bits; the lowest bits count."""
    x, value = x.to(torch.int64), value.to(torch.int64)
    if unit.width == 64:
        low = value if are_values & 1 else x + value
        high = value >> 32 if are_values & 2 else (x >> 32) + (value >> 32)
        return high << 32 | low & 0xffffffff
    if are_values:
        return value
    return _ordered(_ordered(x, unit.width) + value, unit.width) if unit.is_float else x + value


def apply(weights: torch.Tensor, positions: torch.Tensor, values: torch.Tensor, are_values: int, unit: Unit) -> None:
    """Positions rise, and are those of weights."""
    if unit.width != 4:
        weights[positions] = _moved(weights[positions], values, are_values, unit).to(weights.dtype)
        return
    for half in range(2):  # each has bytes of its own
        chosen = positions & 1 == half
        byte, shift = positions[chosen] >> 1, 4 * half
        pair = weights[byte].to(torch.int64)
        x = _moved(pair >> shift & 15, values[chosen], are_values, unit) & 15
        weights[byte] = (pair & ~(15 << shift) | x << shift).to(weights.dtype)
