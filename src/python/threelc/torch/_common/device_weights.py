# SPDX-License-Identifier: MIT
"""Frames of weights that lie on a device: what changed comes from it or goes there, not the weights."""
from __future__ import annotations

from typing import Any, Iterator, List, Optional, Tuple

import torch

from ... import delta
from ..._arrays import weight_dtype_of
from ..kernels import delta as kernels
from ..kernels.digest import digest

_TOGETHER = 1 << 20  # changes that go to the device at once, or a few more
_POSITION = 8  # bytes


def frame_of(base: torch.Tensor, now: torch.Tensor, threads: Optional[int]) -> Optional[bytes]:
    """The delta that takes base to now, with digests. None: what changed is more than both are. Contiguous, on a
    device."""
    dtype = weight_dtype_of(now.dtype)
    most = 2 * now.numel() * now.element_size() // (_POSITION + 2 * now.element_size())
    found = kernels.find(base, now, most=most)
    if found is None:
        return None
    return delta.from_changes(found.positions.cpu(), found.before.cpu(), found.after.cpu(), _count(now), dtype=dtype,
                              digests=(digest(base), digest(now)), threads=threads)


def _count(weights: torch.Tensor) -> int:
    """Weights: of 4 bits two are in an element."""
    return int(8 * weights.numel() * weights.element_size() // weight_dtype_of(weights.dtype).bits)


def goes_there(frame: Any, weights: torch.Tensor) -> bool:
    """Whether the frame can be applied on the device. It is checked whole. If not, the host takes it, or says what is
    wrong."""
    if not weights.is_contiguous() or weights.is_neg():
        return False
    info = delta.inspect(frame)
    return (info.dtype, info.n) == (weight_dtype_of(weights.dtype), _count(weights)) and info.base_digest is not None


class Applied:
    """A frame that goes_there() on its way, and back if the call fails."""

    def __init__(self, weights: torch.Tensor) -> None:
        self._weights = weights
        self._before: List[Tuple[torch.Tensor, torch.Tensor]] = []  # where changes were, and what was there

    def apply(self, frame: Any) -> None:
        """Writes to the weights."""
        device = self._weights.device
        for positions, values, are_values in _batches(frame):
            at, by = positions.to(device), values.to(device)
            self._before.append(kernels.elements(self._weights, at))
            kernels.apply(self._weights, at, by, are_values)

    def take_back(self) -> None:
        """Writes what was there."""
        for at, elements in reversed(self._before):
            kernels.put(self._weights, at, elements)


def _batches(frame: Any) -> Iterator[Tuple[torch.Tensor, torch.Tensor, int]]:
    """Positions, values and what these are, of many pieces of changes."""
    kept: List[delta.Changes] = []
    count = 0
    for piece in delta.changes(frame):
        if kept and (count >= _TOGETHER or kept[0].are_values != piece.are_values):
            yield _joined(kept)
            kept, count = [], 0
        kept.append(piece)
        count += len(piece.positions)
    if kept:
        yield _joined(kept)


_DTYPES = {"B": torch.uint8, "H": torch.int16, "I": torch.int32, "Q": torch.int64}


def _joined(pieces: List[delta.Changes]) -> Tuple[torch.Tensor, torch.Tensor, int]:
    return (torch.cat([torch.frombuffer(piece.positions, dtype=torch.int64) for piece in pieces]),
            torch.cat([torch.frombuffer(piece.values, dtype=_DTYPES[piece.values.format]) for piece in pieces]),
            pieces[0].are_values)
