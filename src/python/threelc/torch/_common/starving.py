# SPDX-License-Identifier: MIT
"""What residuals have beside what was to be sent, and a warning if a loop starves."""
from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Sequence

from ... import exchange
from ...exchange import STARVES_FROM, residual_ratio
from .groups import Traffic

_EVERY = 16  # steps from one look to the next
_LOOKS = 3  # in a row, of steps that starve
_FADED = 0.01  # of the largest signal (squares): a rate that falls to 0 makes any residual large beside it


@dataclass(frozen=True)
class LoopStats(Traffic):
    push_residual_ratio: float
    """what the pushes of the last step left for later, over the gradients or changes that came: 2-norms. 0: nothing is
    left"""
    pull_residual_ratio: float
    """the same of the answers that this rank makes. If it stays above exchange.STARVES_FROM, the loop starves"""


def residual_ratios(found: Sequence[exchange.Stats]) -> Dict[str, Any]:
    """Those of LoopStats, of objects together."""
    return {
        "push_residual_ratio": residual_ratio(sum(stats.push_residual_squares for stats in found),
                                              sum(stats.push_signal_squares for stats in found)),
        "pull_residual_ratio": residual_ratio(sum(stats.pull_residual_squares for stats in found),
                                              sum(stats.pull_signal_squares for stats in found))}


class Starving:
    """Finds out once whether a loop starves."""

    def __init__(self) -> None:
        self._steps = self._looks = 0
        self._largest = 0.0

    def look(self, found: Callable[[], Sequence[exchange.Stats]]) -> Optional[str]:
        """After a step. found: the statistics of the objects of this rank. Returns the warning, once."""
        self._steps += 1
        if self._steps % _EVERY or self._looks == _LOOKS:
            return None
        objects = found()
        ratio = residual_ratios(objects)["pull_residual_ratio"]
        signal = sum(stats.pull_signal_squares for stats in objects)
        self._largest = max(self._largest, signal)
        starves = ratio > STARVES_FROM and signal >= _FADED * self._largest
        self._looks = self._looks + 1 if starves else 0
        if self._looks < _LOOKS:
            return None
        return (f"threelc: what answers leave for later is {ratio:.0f} times what they are made of, in step "
                f"{self._steps}: the training starves. A pull codec that sends more keeps up, such as 3lc-golomb or "
                "natural")


def warn_starving(warning: Optional[str], rank: int) -> None:
    """One rank speaks for all."""
    if warning is not None and rank == 0:
        warnings.warn(warning, RuntimeWarning, stacklevel=3)
