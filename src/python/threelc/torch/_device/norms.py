# SPDX-License-Identifier: MIT
"""Signals and residuals of frames that a device makes: the sums of squares of tlc_exchange_stats, with the bits that
the C library finds for such frames.

It looks at some values of a large part, others in each step (src/exchange/sides/norms.c). The device takes them in each
step; the host sums their squares up when somebody asks.
"""
from __future__ import annotations

from dataclasses import replace
from typing import List, Optional, Protocol, Sequence, Tuple

import torch

from ...exchange import Stats
from .streams import fork_join, forked

_SAMPLE, _PIECE, _TURNS, _STRIDE, _LANES = 512, 64, 64, 7, 8  # as there

Taken = Tuple[int, torch.Tensor, torch.Tensor]
"""a step, and the values of signal and residual that norms look at"""


class Norms:
    """Of parts whose codec keeps a residual."""

    def __init__(self, sizes: Sequence[int], device: torch.device) -> None:
        """sizes: how many values each part has, at least one."""
        turns = [min(max(n // _SAMPLE, 1), _TURNS) for n in sizes]
        self._sizes = list(sizes)
        self._counts = [-(-n // (_PIECE * turn)) for n, turn in zip(sizes, turns)]  # pieces of each part
        i = torch.cat([torch.empty(0, dtype=torch.int64), *map(torch.arange, self._counts)])
        turn, n = (torch.tensor(each, dtype=torch.int64).repeat_interleave(
            torch.tensor(self._counts, dtype=torch.int64)) for each in (turns, self._sizes))
        self._host = i * turn, i * _STRIDE, turn, n
        self._device = device
        with fork_join(device):
            self._there = [each.to(device) for each in self._host]
        self._kept: Optional[Taken] = None

    def places(self, step: int) -> Sequence[torch.Tensor]:
        """Where it looks in a step: for each part a row for each piece, on the device. What would be behind the last
        value is the last one."""
        places = _starts(self._there, step).unsqueeze(1) + torch.arange(_PIECE, device=self._there[0].device)
        found: Sequence[torch.Tensor] = torch.minimum(places, self._there[3].unsqueeze(1) - 1).split(self._counts)
        return found

    def keep(self, step: int, signal: torch.Tensor, residual: torch.Tensor) -> None:
        """Frames were made. signal, residual: what values_at() found at the places of the step."""
        self._kept = step, signal, residual

    def forget(self) -> None:
        """Others made the frames of these parts."""
        self._kept = None

    @forked
    def squares(self) -> Tuple[float, float]:
        """Of signal and residual in the last step that had frames."""
        if self._kept is None or not self._sizes:
            return 0.0, 0.0
        step, signal, residual = self._kept
        counts = (self._host[3] - _starts(self._host, step)).clamp(0, _PIECE)
        return self._sum(signal, counts), self._sum(residual, counts)

    def _sum(self, taken: torch.Tensor, counts: torch.Tensor) -> float:
        """counts: how many values of each piece are looked at."""
        total = 0.0
        for n, squares, seen in zip(self._sizes, _squares(taken.cpu().double(), counts).split(self._counts),
                                    counts.split(self._counts)):
            found = 0.0
            for square in squares.tolist():  # in this order, each sum rounded
                found += square
            total += found * (n / int(seen.sum()))
        return total


def values_at(parts: Sequence[torch.Tensor], places: Sequence[torch.Tensor]) -> torch.Tensor:
    """The values at the places of parts, one after the other."""
    found: List[torch.Tensor] = [part[there] for part, there in zip(parts, places)]
    return torch.cat(found) if found else torch.empty(0)


class HasNorms(Protocol):
    """Makes frames on a device."""

    norms: Norms


def with_norms(stats: Stats, push: Optional[HasNorms], pull: Optional[HasNorms] = None) -> Stats:
    """Of an object of the exchange, with those of frames that a device made for it. None: there are none. Where both
    made some, the host would have added up in another order."""
    signal, residual = (0.0, 0.0) if push is None else push.norms.squares()
    answered, left = (0.0, 0.0) if pull is None else pull.norms.squares()
    return replace(stats, push_signal_squares=stats.push_signal_squares + signal,
                   push_residual_squares=stats.push_residual_squares + residual,
                   pull_signal_squares=stats.pull_signal_squares + answered,
                   pull_residual_squares=stats.pull_residual_squares + left)


def _starts(pieces: Sequence[torch.Tensor], step: int) -> torch.Tensor:
    """The first value of each piece in a step; that of the last piece of a part may be behind it."""
    first, shift, turns, _ = pieces
    return (first + (shift + step) % turns) * _PIECE


def _squares(values: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """The sum of each row, of the first values of it: lanes side by side, then their sum, then the rest one by one.
    Squares of floats are exact in binary64."""
    values = values * values
    whole = (counts // _LANES * _LANES).unsqueeze(1)
    lanes = torch.where(torch.arange(_PIECE) < whole, values, torch.zeros_like(values)).view(-1, _PIECE // _LANES,
                                                                                            _LANES)
    lane = lanes[:, 0]
    for i in range(1, _PIECE // _LANES):
        lane = lane + lanes[:, i]
    while lane.shape[1] > 1:
        half = lane.shape[1] // 2
        lane = lane[:, :half] + lane[:, half:]
    rest = torch.zeros_like(lane)
    for i in range(_LANES - 1):
        at = whole + i
        rest = rest + torch.where(at < counts.unsqueeze(1), values.gather(1, at.clamp(max=_PIECE - 1)),
                                  torch.zeros_like(rest))
    return (lane + rest).squeeze(1)
