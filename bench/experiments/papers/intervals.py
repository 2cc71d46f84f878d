# SPDX-License-Identifier: MIT
"""Means with their 95% intervals over seeds, by Student's t, and what they say of a figure of a paper."""
import math
import statistics
from dataclasses import dataclass
from typing import Mapping, Optional, Sequence

# the 97.5% quantiles of Student's t, of 1, 2, 3 ... degrees of freedom
QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


@dataclass(frozen=True)
class Mean:
    value: float
    half: Optional[float]
    """of the interval; None of one seed"""
    seeds: int

    @property
    def low(self) -> float:
        return self.value - (self.half or 0.0)

    @property
    def high(self) -> float:
        return self.value + (self.half or 0.0)


def mean(values: Sequence[float]) -> Optional[Mean]:
    """None if there are no values. Of more seeds than the table has: with the last quantile, which is too wide."""
    if not values:
        return None
    half = None
    if len(values) > 1:
        quantile = QUANTILES[min(len(values) - 1, len(QUANTILES)) - 1]
        half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return Mean(statistics.mean(values), half, len(values))


def difference(ours: Mapping[int, float], base: Mapping[int, float]) -> Optional[Mean]:
    """Of values by seed: seeds that both have, which have the same batches and the same start, are compared."""
    return mean([ours[seed] - base[seed] for seed in sorted(ours) if seed in base])


def verdict(ours: Optional[Mean], paper: Optional[float], widest: float, higher_is_better: bool = True) -> str:
    """reproduced: the paper's figure lies in our interval, which is at most +- widest; else whether ours is better.
    Nothing of one seed."""
    if ours is None or ours.half is None or paper is None:
        return ""
    if ours.low <= paper <= ours.high:
        return "reproduced" if ours.half <= widest else "not decided"
    return "better" if (ours.value > paper) == higher_is_better else "not"
