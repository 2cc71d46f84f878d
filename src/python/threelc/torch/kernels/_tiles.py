# SPDX-License-Identifier: MIT
"""How programs share the pieces of a tensor, each of which is coded by itself."""
from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Tuple

import torch


class Tiles(NamedTuple):
    """Of each program its tile. It lies in one piece."""

    piece: torch.Tensor
    first: torch.Tensor
    """in the piece"""
    before: torch.Tensor
    """of each piece, and of all: how many tiles are before it"""
    borders: torch.Tensor
    """where each piece begins, and the last one ends, if one follows the other"""


@lru_cache(maxsize=256)
def tiles_of(lengths: Tuple[int, ...], tile: int, device: torch.device) -> Tiles:
    """lengths: of the pieces. Steps of a training have the same ones."""
    borders = torch.tensor((0, *lengths), dtype=torch.int64).cumsum(0)
    counts = (borders[1:] - borders[:-1] + tile - 1) // tile
    before = torch.cat([borders[:1], counts.cumsum(0)])
    piece = torch.arange(len(lengths)).repeat_interleave(counts)
    first = (torch.arange(len(piece)) - before[piece]) * tile
    return Tiles(piece.to(device), first.to(device), before.to(device), borders.to(device))
