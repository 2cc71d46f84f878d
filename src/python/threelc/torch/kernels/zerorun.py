# SPDX-License-Identifier: MIT
"""Zero-run encoding on a device: the coded bytes cross the bus, not the quartic ones. Triton's kernels do it, if they
make the bytes of the C library there."""
from __future__ import annotations

from functools import lru_cache
from typing import Callable, List, NamedTuple, Sequence, Tuple

import torch

from ...frames import peek
from ...quartic import compress_quartic
from . import _zerorun_torch
from .tried import tried


class ZeroRuns(NamedTuple):
    """As _zerorun_torch.py describes it."""

    shrink: Callable[[torch.Tensor, Tuple[int, ...]], Tuple[torch.Tensor, torch.Tensor]]
    expand: Callable[[torch.Tensor, torch.Tensor], None]


OPERATIONS = ZeroRuns(_zerorun_torch.shrink, _zerorun_torch.expand)


@lru_cache(maxsize=None)
def zero_runs_for(device: torch.device) -> ZeroRuns:
    """Compiles Triton's kernels and checks them at the first call for a device. If they cannot be used though Triton is
    there, a warning says so."""
    def load() -> ZeroRuns:
        from . import _zerorun_triton  # imports triton
        return ZeroRuns(_zerorun_triton.shrink, _zerorun_triton.expand)

    return tried(device, "quartic bytes", load, lambda runs: same_bytes(runs, device), OPERATIONS)


def payloads(runs: ZeroRuns, quartic: torch.Tensor, ns: Tuple[int, ...],
             to_host: Callable[[torch.Tensor], torch.Tensor]) -> Sequence[torch.Tensor]:
    """Of pieces of quartic bytes on a device, each of so many symbols. The host waits once to know how long they are.
    to_host: makes a copy there."""
    coded, ends = runs.shrink(quartic, tuple(-(-n // 5) for n in ns))
    borders = [0, *ends.tolist()]
    found: Sequence[torch.Tensor] = to_host(coded[:borders[-1]]).split(
        [end - begin for begin, end in zip(borders, borders[1:])])
    return found


def same_bytes(runs: ZeroRuns, device: torch.device) -> bool:
    """Whether payloads are those of the C library, and expand to what they are made of."""
    pieces = _pieces()
    ns, quartic = tuple(5 * len(piece) for piece in pieces), torch.cat(pieces).to(device)
    made = payloads(runs, quartic, ns, torch.Tensor.cpu)
    if [payload.tolist() for payload in made] != [
            list(payload_of(compress_quartic(piece, [1.0], n))) for piece, n in zip(pieces, ns)]:
        return False  # and they might expand to more
    expanded = torch.empty_like(quartic)
    runs.expand(torch.cat([*made]).to(device), expanded)
    is_same: bool = torch.equal(expanded, quartic)
    return is_same


def payload_of(frame: bytes) -> memoryview:
    """Of a frame without a checksum."""
    return memoryview(frame)[peek(frame).header_size:]


def _pieces() -> List[torch.Tensor]:
    """With runs of all lengths, some of which cross the borders of programs, or pieces. Two of them are one run."""
    generator = torch.Generator().manual_seed(1)
    zeros = torch.full((2500,), _zerorun_torch.ZERO, dtype=torch.uint8)
    drawn = torch.randint(0, 243, (2500,), generator=generator, dtype=torch.uint8)
    often, seldom = (torch.rand(2500, generator=generator) < share for share in (0.8, 0.02))
    return [torch.where(often, zeros, drawn), zeros[:1], zeros[:2061], torch.where(seldom, drawn, zeros)]
