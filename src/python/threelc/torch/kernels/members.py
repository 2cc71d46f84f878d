# SPDX-License-Identifier: MIT
"""Frames of topk, sparse-binary and random-sparse of gradients where these lie, as on a GPU: the values that are sent
cross the bus with their positions, not the others.

A threshold is found first, of each block if there are some: of topk in a sample, of sparse-binary among all values by
torch; random-sparse has none. Then two sweeps count and list what reaches it, or is drawn; the second writes what is
left, too. Sums for means are made on the host, in the order of the C library, from the values that are sent.
"""
from __future__ import annotations

import math
import struct
from ctypes import c_float
from functools import lru_cache
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..._errors import Error
from ...context import Context
from ...members import compress_members
from . import _members_torch
from ._members_torch import keys_of
from .choice import tensors_of
from .operations import bits_of, rounded, summed
from .selector import Chance, Selector
from .tried import tried


class Sweeps(NamedTuple):
    """What goes over the values, as _members_torch.py describes it."""

    draw: Callable[..., torch.Tensor]
    counts: Callable[..., Tuple[torch.Tensor, torch.Tensor]]
    lists: Callable[..., Tuple[torch.Tensor, torch.Tensor]]


OPERATIONS = Sweeps(_members_torch.draw, _members_torch.counts, _members_torch.lists)


@lru_cache(maxsize=None)
def sweeps_for(device: torch.device, dtype: torch.dtype, residual_dtype: torch.dtype = torch.float32) -> Sweeps:
    """dtype: of gradients. Compiles Triton's kernels and checks them at the first call for a device. If they cannot be
    used though Triton is there, a warning says so."""
    def load() -> Sweeps:
        from . import _members_triton  # imports triton
        return Sweeps(_members_triton.draw, _members_triton.counts, _members_triton.lists)

    return tried(device, "sparse gradients", load, lambda sweeps: same_bits(sweeps, device, dtype, residual_dtype),
                 OPERATIONS)


class Measured(NamedTuple):
    """What is known before values are listed, on their device."""

    found: torch.Tensor
    """the largest key, and how many values reach the threshold"""
    least: torch.Tensor
    starts: torch.Tensor
    equals: torch.Tensor
    ties: Optional[torch.Tensor]
    chance: Optional[Chance]


class Chosen(NamedTuple):
    """What is sent of n values, on their device."""

    n: int

    positions: torch.Tensor
    """rising"""
    values: torch.Tensor
    rest: Optional[torch.Tensor]
    """residual + gradient, less what is sent if that is known; None: there is no residual"""


def threshold(sweeps: Sweeps, selector: Selector, residual: Optional[torch.Tensor], gradient: torch.Tensor, seed: int,
              step: int) -> torch.Tensor:
    """The least key that is sent, at least 1, of each unit, a block or the tensor, and side."""
    n = len(gradient)
    block = min(selector.block or n, n)
    units, rest = divmod(n, block)
    found = [_threshold(sweeps, selector, residual, gradient, 0, units, block, seed, step)]
    if rest:
        found.append(_threshold(sweeps, selector, residual, gradient, n - rest, 1, rest, seed, step))
    return torch.cat(found)


def _threshold(sweeps: Sweeps, selector: Selector, residual: Optional[torch.Tensor], gradient: torch.Tensor, first: int,
               units: int, n: int, seed: int, step: int) -> torch.Tensor:
    """Of units of n values, from the first value on."""
    there = slice(first, first + units * n)
    residual, gradient = None if residual is None else residual[there], gradient[there]
    none = torch.ones(units, selector.sides, dtype=torch.int32, device=gradient.device)
    if selector.limit:
        return none
    if selector.exact:
        x, k = summed(residual, gradient), min(selector.most(n), n)
        least = [keys_of(x, side, selector.sides).view(units, n).topk(k).values[:, -1:]
                 for side in range(selector.sides)]
        return torch.cat(least, 1).clamp_(min=1)
    samples = selector.samples(n)
    k = selector.wanted(samples)
    if k == samples:
        return none
    keys = (keys_of(summed(residual, gradient), 0, 1) if samples == n else
            sweeps.draw(residual, gradient, samples, seed, step, first, units))
    largest = keys.view(units, samples).topk(k + 1).values
    return torch.where(largest[:, k:] > 0, largest[:, k - 1:k], none)


def measure(sweeps: Sweeps, selector: Selector, residual: Optional[torch.Tensor], gradient: torch.Tensor, seed: int,
            step: int) -> Measured:
    """For tensors on one device, of at least one value. residual None: 0. The host does not wait for it."""
    n, chance = len(gradient), Chance(seed, step, selector.limit) if selector.limit else None
    least = threshold(sweeps, selector, residual, gradient, seed, step)
    largest, counts = sweeps.counts(residual, gradient, least, chance, selector.block)
    above, equal = counts.long().view(len(least), -1, selector.sides, 2).unbind(3)  # of units, tiles, sides
    equals = equal.cumsum(1) - equal
    most = torch.full((len(least), 1), selector.most(min(selector.block or n, n)), device=gradient.device)
    if selector.block and n % selector.block:
        most[-1] = selector.most(n % selector.block)
    listed, ties = (above + equal).sum(2), None
    if selector.exact:
        ties = most - above.sum(1)
        listed = (above + (ties.unsqueeze(1) - equals).clamp(min=0).minimum(equal)).sum(2)
    else:
        listed = (most - listed.cumsum(1) + listed).clamp(min=0).minimum(listed)
    starts = torch.nn.functional.pad(listed.view(-1).cumsum(0), (1, 0))
    return Measured(torch.stack([largest.amax().long(), starts[-1]]), least, starts, equals, ties, chance)


def is_finite(selector: Selector, found: Sequence[int]) -> bool:
    """found: of Measured, on the host. Also what is sent is finite, x / p."""
    largest, = struct.unpack("<f", struct.pack("<i", found[0]))
    return math.isfinite(c_float(largest / (selector.limit * 2.0**-24)).value if selector.limit else largest)


def take(sweeps: Sweeps, selector: Selector, residual: Optional[torch.Tensor], gradient: torch.Tensor,
         measured: Measured, found: Sequence[int], rest: Optional[torch.Tensor]) -> Chosen:
    """What is sent of values that are finite. rest: n values of the residual's dtype, which are written; None: there is
    no residual."""
    positions, values = sweeps.lists(residual, gradient, *measured[1:], rest, found[1], selector.whole, selector.block)
    return Chosen(len(gradient), positions, values, rest)


def choose(sweeps: Sweeps, selector: Selector, residual: Optional[torch.Tensor], gradient: torch.Tensor, seed: int,
           step: int) -> Optional[Chosen]:
    """All of this for a tensor; residual stays as it is. None: a value is not finite."""
    rest = None if residual is None else torch.empty_like(residual)
    if not len(gradient):
        nothing = torch.empty(0, device=gradient.device)
        return Chosen(0, nothing.long(), nothing, rest)
    measured = measure(sweeps, selector, residual, gradient, seed, step)
    found = measured.found.tolist()
    if not is_finite(selector, found):
        return None
    return take(sweeps, selector, residual, gradient, measured, found, rest)


def frames(selector: Selector, chosen: Sequence[Chosen], dtype: Any, checksum: bool = False,
           to_host: Callable[[torch.Tensor], torch.Tensor] = torch.Tensor.cpu) -> List[bytes]:
    """The frames of what was chosen of some tensors. Then rest of each is what is left. dtype: of the gradients.
    to_host: makes a copy there."""
    sizes = [len(each.values) for each in chosen]
    positions = to_host(torch.cat([each.positions for each in chosen])).long().split(sizes)
    values = to_host(torch.cat([each.values for each in chosen]))
    sent = torch.empty_like(values)
    made = [compress_members(at, x, each.n, selector.codec, dtype=dtype, checksum=checksum, sent=decoded)
            for each, at, x, decoded in zip(chosen, positions, values.split(sizes), sent.split(sizes))]
    if not selector.whole:
        for each, decoded in zip(chosen, sent.to(chosen[0].values.device).split(sizes)):
            if each.rest is not None:
                each.rest[each.positions.long()] = rounded(each.values - decoded, each.rest.dtype)
    return made


# ---- on a device before the first use ----

CODECS = ("topk:p=0.05", "topk:p=0.03,select=exact", "sbc:p=0.02", "random-sparse:p=0.1",
          "topk:p=0.1,block=100")  # of the check


def same_bits(sweeps: Sweeps, device: torch.device, dtype: torch.dtype, residual_dtype: torch.dtype) -> bool:
    """Whether frames and residuals are those of the C library, and what is not finite is found."""
    return all(all(_same(sweeps, codec, *tensors, device) for tensors in tensors_of(dtype, residual_dtype)) and
               all(_finds(sweeps, codec, value, device, dtype) for value in (float("nan"), float("inf")))
               for codec in CODECS)


def _selector(codec: str) -> Selector:
    found = Selector.of(codec)
    assert found is not None
    return found


def _same(sweeps: Sweeps, codec: str, residual: torch.Tensor, gradient: torch.Tensor, device: torch.device) -> bool:
    wanted = residual.to(torch.float32, copy=True)
    frame = Context(len(wanted), codec, gradient.dtype, residual=wanted, feedback=True, seed=5).compress(gradient)
    chosen = choose(sweeps, _selector(codec), residual.to(device), gradient.to(device), 5, 0)
    try:
        return (chosen is not None and frames(_selector(codec), [chosen], gradient.dtype) == [frame] and
                chosen.rest is not None and
                torch.equal(bits_of(chosen.rest.cpu()), bits_of(rounded(wanted, residual.dtype))))
    except Error:  # no frame has these positions, or values
        return False


def _finds(sweeps: Sweeps, codec: str, value: float, device: torch.device, dtype: torch.dtype) -> bool:
    """The value is the last one."""
    gradient = torch.ones(9001, dtype=dtype)
    gradient[-1] = value
    return choose(sweeps, _selector(codec), torch.zeros(9001, device=device), gradient.to(device), 5, 0) is None
