# SPDX-License-Identifier: MIT
"""Deltas of weights where these lie, as on a GPU: what changed crosses the bus, not the weights.

    found = threelc.torch.kernels.delta.find(old, new)                   # on their device
    frame = threelc.delta.from_changes(*(each.cpu() for each in found), new.numel(), dtype=new.dtype)

    for piece in threelc.delta.changes(frame):                           # a receiver, whose weights are old
        at = torch.frombuffer(piece.positions, dtype=torch.int64).to(weights.device)
        by = torch.frombuffer(piece.values, dtype=torch.int16).to(weights.device)     # of bf16
        threelc.torch.kernels.delta.apply(weights, at, by, piece.are_values)

Weights are compared as bits: NaN payloads and -0 come out as they went in. Kernels of Triton do the work where it is
installed and has the device, else torch operations do the same. They are tried first: what they do to some weights is
compared with the CPU. Neither has run on a GPU yet.
"""
from __future__ import annotations

from functools import lru_cache
from typing import Any, List, NamedTuple, Optional, Tuple

import torch

from ..._arrays import DTypeLike, check_memory, is_written
from . import _delta_torch
from ._units import BLOCK, Unit, bits_of
from .tried import tried

__all__ = ["Found", "apply", "elements", "find", "put"]

_FEW = 2048  # weights of a block, in which the heads of payloads may be longer than what they save


class Found(NamedTuple):
    """Weights that are listed, on their device, as threelc.delta.from_changes() takes them."""

    positions: torch.Tensor
    """rising, of 64 bits"""
    before: torch.Tensor
    """the weights there; those of 4 bits have a byte each"""
    after: torch.Tensor


def find(old: torch.Tensor, new: torch.Tensor, *, dtype: Optional[DTypeLike] = None,
         most: Optional[int] = None) -> Optional[Found]:
    """The weights that are others in `new` than in `old`: tensors of the same shape and dtype on a device, contiguous.
    dtype: as in threelc.delta.compress(). None: more than `most` would be listed.

    Of a block of 65,536 weights all are listed if more than half of them differ, and of a last one that has less than
    2,048, if any do: a frame may have such a block as it is, and then from_changes() makes the bytes of compress().
    """
    before, unit = bits_of(old, dtype, "old")
    after, _ = bits_of(new, dtype, "new")
    if (old.shape, old.dtype, old.device) != (new.shape, new.dtype, new.device):
        raise ValueError(f"old is {old.dtype} of shape {list(old.shape)} on {old.device}, new {new.dtype} of "
                         f"{list(new.shape)} on {new.device}")
    n = len(before) * unit.in_a_byte
    k = 0
    if n:
        path = _path(old.device, unit)
        starts, is_whole, k = _places(path.counts(before, after, n, unit), n, path.TILE)
    if most is not None and k > most:
        return None
    if k:
        positions, *values = path.lists(before, after, n, unit, starts, is_whole, k)
    else:
        positions, *values = before.new_empty(0, dtype=torch.int64), before[:0], after[:0]
    if unit.width != 4:
        values = [each.view(new.dtype) for each in values]
    return Found(positions, *values)


def _places(counts: torch.Tensor, n: int, tile: int) -> Tuple[torch.Tensor, torch.Tensor, int]:
    """Where the lists of each tile begin, which blocks are listed whole, and how many weights are listed. counts: of
    each tile, the weights that differ."""
    blocks, tiles = -(-n // BLOCK), BLOCK // tile  # in a block
    padded = torch.zeros(blocks * tiles, dtype=torch.int64, device=counts.device)
    padded[:len(counts)] = counts
    lengths = (n - tile * torch.arange(blocks * tiles, device=counts.device)).clamp(0, tile)
    of_block, found = lengths.view(blocks, tiles).sum(1), padded.view(blocks, tiles).sum(1)
    is_whole = (found > of_block // 2) | (found > 0) & (of_block < _FEW)
    listed = torch.where(is_whole.repeat_interleave(tiles), lengths, padded)
    ends = listed.cumsum(0)
    return (ends - listed)[:len(counts)], is_whole, int(ends[-1])


def apply(weights: torch.Tensor, positions: torch.Tensor, values: torch.Tensor, are_values: int = 0, *,
          dtype: Optional[DTypeLike] = None) -> None:
    """Changes the weights at these positions, in place; no others are written. All tensors are on a device.

    positions: integers of 64 bits, which rise. values: as many integers of the width of the weights, a byte for each of
    4 bits. are_values: what they are, as in threelc.delta.Changes. ValueError, before anything is written: positions do
    not rise, or are not those of weights.
    """
    bits, unit = bits_of(weights, dtype, "weights")
    at, k = _list(positions, "positions", torch.int64, weights.device)
    by, found = _list(values, "values", unit.integer, weights.device)
    if k != found:
        raise ValueError(f"there are {k} positions and {found} values")
    if not 0 <= are_values <= (3 if unit.width == 64 else 1):
        raise ValueError(f"are_values is {are_values}, of weights of {unit.width} bits")
    _check_positions(at, len(bits) * unit.in_a_byte)
    is_written(weights, "weights")
    if k:
        _path(weights.device, unit).apply(bits, at, by, are_values, unit)


def elements(weights: torch.Tensor, positions: torch.Tensor, *,
             dtype: Optional[DTypeLike] = None) -> Tuple[torch.Tensor, torch.Tensor]:
    """What is in the weights before a call of apply() with these positions, for put()."""
    bits, unit = bits_of(weights, dtype, "weights")
    at = positions if unit.in_a_byte == 1 else positions >> 1
    return at, bits[at]


def put(weights: torch.Tensor, at: torch.Tensor, elements: torch.Tensor, *, dtype: Optional[DTypeLike] = None) -> None:
    """Writes what elements() found."""
    bits_of(weights, dtype, "weights")[0][at] = elements


def _check_positions(positions: torch.Tensor, n: int) -> None:
    wrong = (positions < 0) | (positions >= n)
    wrong[1:] |= positions[1:] <= positions[:-1]
    if wrong.any():
        j = int(wrong.nonzero()[0])
        raise ValueError(f"positions[{j}] is {int(positions[j])}"
                         + (f", after {int(positions[j - 1])}" if j else "") + f": they rise, and are below {n}")


def _list(tensor: torch.Tensor, what: str, dtype: torch.dtype, device: torch.device) -> Tuple[torch.Tensor, int]:
    """The tensor as integers of a dtype, and how many there are."""
    check_memory(tensor, what)
    if tensor.device != device or not tensor.is_contiguous():
        raise ValueError(f"{what} should be contiguous, on {device}")
    if tensor.is_floating_point() or tensor.element_size() != torch.empty(0, dtype=dtype).element_size():
        raise TypeError(f"{what} are {tensor.dtype}, and {dtype} is needed")
    return tensor.detach().view(-1).view(dtype), tensor.numel()


@lru_cache(maxsize=None)
def _path(device: torch.device, unit: Unit) -> Any:
    """The module that does the work there, of such weights."""
    def load() -> Any:
        from . import _delta_triton
        return _delta_triton
    return tried(device, "weights", load, lambda path: _is_right(path, device, unit), _delta_torch)


def _is_right(path: Any, device: torch.device, unit: Unit) -> bool:
    """Whether it does on the device what torch operations do on the CPU."""
    rng = torch.Generator().manual_seed(1)
    size = 8 * _FEW + 6
    octets = torch.randint(0, 256, (2, size * max(unit.width // 8, 1)), generator=rng, dtype=torch.uint8)
    old, step = octets.view(unit.integer)
    new = torch.where(torch.rand(size, generator=rng) < 0.3, step, old)
    n = size * unit.in_a_byte

    def found(path: Any, device: torch.device) -> List[torch.Tensor]:
        before, after = old.to(device), new.to(device)
        starts, is_whole, k = _places(path.counts(before, after, n, unit), n, path.TILE)
        lists = path.lists(before, after, n, unit, starts, is_whole, k)
        made = [torch.tensor(k)]
        for are_values in range(4 if unit.width == 64 else 2):
            made.append(before.clone())
            path.apply(made[-1], lists[0], lists[2], are_values, unit)
        return [tensor.cpu() for tensor in (*lists, *made)]

    return all(torch.equal(one, other) for one, other in zip(found(path, device),
                                                             found(_delta_torch, torch.device("cpu"))))
