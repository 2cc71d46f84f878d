# SPDX-License-Identifier: MIT
"""Digests of weights where these lie, as on a GPU. Not yet run on one."""
from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, Optional

import torch

from ... import delta
from ..._arrays import DTypeLike, weight_dtype_of
from . import _xxh3
from ._units import bits_of
from .tried import tried

__all__ = ["digest"]

_PIECE = 4096  # weights that are hashed together


def digest(weights: torch.Tensor, *, dtype: Optional[DTypeLike] = None) -> int:
    """That of threelc.delta.digest(), of a contiguous tensor on any device. dtype: as there. What is left of pieces of
    4,096 weights comes to the host."""
    bits, unit = bits_of(weights, dtype, "weights")
    kind = weight_dtype_of(weights.dtype if dtype is None else dtype)
    elements = _PIECE // unit.in_a_byte  # of a piece
    pieces = len(bits) // elements if sys.byteorder == "little" else 0
    whole = bits[:pieces * elements]
    rest = weights.detach().view(-1)[pieces * elements:].cpu()
    found = delta.digest(rest, first=_PIECE * pieces, dtype=kind)
    if pieces:
        if whole.data_ptr() % 8:
            whole = whole.clone()
        sums = _sums(weights.device)(whole.view(torch.uint8).view(torch.int64), pieces)
        found += int(sums.sum())
    return found % 2**64


@lru_cache(maxsize=None)
def _sums(device: torch.device) -> Any:
    """The function that does the work there."""
    weights = torch.arange(3 * _PIECE, dtype=torch.int64) * _xxh3.signed(_xxh3.START[1])

    def load() -> Any:
        from . import _xxh3_triton
        return _xxh3_triton.sums

    def is_right(sums: Any) -> bool:
        return int(sums(weights.to(device), 3).sum()) % 2**64 == delta.digest(weights)

    return tried(device, "weights", load, is_right, _xxh3.sums)
