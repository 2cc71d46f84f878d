# SPDX-License-Identifier: MIT
"""What the communication hook of DistributedDataParallel counts."""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Dict, List, Optional

from .._errors import StepError
from ._starving import LoopStats


@dataclass(frozen=True)
class Stats(LoopStats):
    """What this rank did since register(), and, if it went on from a state_dict(), before."""

    steps: int
    float_steps: int
    """of them: those that went as floats, at the start"""
    skipped: int
    """steps in which a gradient was not finite on some rank"""
    dropped: int
    """values that other buckets sent in skipped steps: nobody used them, as in float training"""
    thread_seconds: float
    """of the thread that exchanges gradients: codec, wire, and what Python does in between"""
    residual_norms: Dict[str, float]
    """by parameter: the 2-norm of what was not sent yet"""


@dataclass
class Step:
    """What happened in the groups of a step."""

    floats: bool = False
    taken: int = 0
    """values of groups whose step succeeded"""
    failure: Optional[StepError] = None


@dataclass
class Counts:
    steps: int = 0
    float_steps: int = 0
    skipped: int = 0
    dropped: int = 0
    float_bytes: int = 0
    spent: float = 0.0
    """seconds of all steps in codec and on the wire"""
    float_seconds: float = math.inf
    """of the fastest step that went as floats"""
    step_seconds: List[float] = field(default_factory=list)
    """of the first steps that did not"""
    step_codec: float = 0.0
    """seconds in the codec, of these"""
