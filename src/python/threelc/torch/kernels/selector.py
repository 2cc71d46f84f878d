# SPDX-License-Identifier: MIT
"""How a sparse codec chooses the values that it sends: its parameters, and the numbers that the C library makes of
them."""
from __future__ import annotations

import math
from typing import NamedTuple, Optional

from ...codec_strings import quantizer_of


def _up(x: float, n: int) -> int:
    """Rounded up; at most n."""
    return math.ceil(x) if x < n else n


class Chance(NamedTuple):
    """Which values random-sparse sends: those that are not 0 and whose random word has its upper 24 bits below limit.
    The words are those of Philox 4x32-10 with this seed and step, word i for value i."""

    seed: int
    step: int
    limit: int

    @property
    def p(self) -> float:
        """The probability, exact in binary32."""
        return self.limit * 2.0**-24


class Selector(NamedTuple):
    """Of topk, sparse-binary or random-sparse."""

    codec: str
    p: float
    sides: int
    """2: positive and negative values are chosen apart, as sparse-binary does"""
    exact: bool
    """so many values are sent; else a sample says from which magnitude on they are"""
    whole: bool
    """what a value that is sent leaves behind is known without its frame: nothing, or of random-sparse x - x / p"""
    block: int
    """values that choose by themselves; 0: all do together"""
    limit: int = 0
    """of random-sparse: as in Chance; of others 0"""

    @classmethod
    def of(cls, codec: str) -> Optional[Selector]:
        """None: the codec is another one."""
        name, parameters = quantizer_of(codec)
        if name not in ("topk", "sparse-binary", "random-sparse"):
            return None
        if name == "random-sparse":  # each value is drawn by itself
            p = float(parameters.get("p", 0.25))
            return cls(codec, p, 1, False, True, 0, _up(p * (1 << 24), 1 << 24))
        block = int(parameters.get("block", 0))
        if name == "sparse-binary":
            return cls(codec, float(parameters.get("p", 0.01)), 2, True, False, block)
        return cls(codec, float(parameters.get("p", 0.05)), 1, parameters.get("select") == "exact",
                   parameters.get("bits", "32") == "32", block)

    def most(self, n: int) -> int:
        """How many of the n values of a unit are sent of each side at most."""
        if self.limit:
            return n
        if not self.exact:
            return min(2 * _up(self.p * n, n), n)
        return max(round(self.p * n) if self.p * n < n else n, 1)

    def samples(self, n: int) -> int:
        return max(_up(200 / self.p, n), min(4096, n))

    def wanted(self, samples: int) -> int:
        """How many of the samples reach the threshold."""
        return _up(self.p * samples, samples)
