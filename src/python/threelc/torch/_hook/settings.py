# SPDX-License-Identifier: MIT
"""What register() was told."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

from ... import exchange


@dataclass(frozen=True)
class Settings:
    """What all ranks must agree on."""

    codec: str
    pull: Optional[str]
    reserve: Tuple[str, ...]
    mode: str
    min_numel: int
    warmup_steps: int
    on_nonfinite: str
    momentum_correction: Optional[float]
    second_moment: Optional[float]
    compare_every: int

    def all_reserved(self) -> Tuple[str, ...]:
        """The codecs that set_codec() may be given, and those of the means that they bring along."""
        return tuple(dict.fromkeys(codec for given in self.reserve for codec in (given, exchange.pull_codec(given))))
