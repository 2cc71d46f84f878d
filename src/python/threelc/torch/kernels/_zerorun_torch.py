# SPDX-License-Identifier: MIT
"""Zero-run encoding of quartic bytes by torch operations, for devices without Triton: 3LC's section 3.3."""
from __future__ import annotations

from typing import Tuple

import torch

ZERO = 121  # the quartic byte of five symbols 0
RUN = 14  # so many of them are one byte 255


def shrink(quartic: torch.Tensor, sizes: Tuple[int, ...]) -> Tuple[torch.Tensor, torch.Tensor]:
    """The zero-run bytes of pieces of quartic bytes, one piece after the other, and where each ends in them, int64.
    There may be more bytes after the last piece.

    sizes: bytes of the pieces."""
    made = [_shrink(piece) for piece in quartic.split(sizes)]
    ends = torch.tensor([len(piece) for piece in made], dtype=torch.int64, device=quartic.device).cumsum(0)
    return torch.cat([quartic[:0], *made]), ends


def _shrink(quartic: torch.Tensor) -> torch.Tensor:
    others = (quartic != ZERO).nonzero().view(-1)
    borders = torch.cat([others.new_full((1,), -1), others, others.new_full((1,), len(quartic))])
    runs = borders[1:] - borders[:-1] - 1  # before each of the others, and after the last one
    codes = (runs + RUN - 1) // RUN
    slots = codes.cumsum(0) + torch.arange(len(runs), device=quartic.device)  # of what follows each run
    made = torch.full((int(slots[-1]),), 255, dtype=torch.uint8, device=quartic.device)
    made[slots[:-1]] = quartic[others]
    rest = runs % RUN
    last = torch.where(rest == 1, torch.full_like(rest, ZERO), 241 + rest).to(torch.uint8)
    is_short = rest > 0
    made[slots[is_short] - 1] = last[is_short]
    return made


def expand(coded: torch.Tensor, quartic: torch.Tensor) -> None:
    """The other way round. coded: of pieces, one after the other, and nothing else. quartic: all their bytes."""
    size = coded.long()
    ends = torch.where(size > 242, torch.where(size == 255, torch.full_like(size, RUN), size - 241),
                       torch.ones_like(size)).cumsum(0)
    is_byte = coded <= 242
    quartic.fill_(ZERO)
    quartic[ends[is_byte] - 1] = coded[is_byte]
