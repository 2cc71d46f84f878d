# SPDX-License-Identifier: MIT
"""What the communication hook of DistributedDataParallel counts."""
from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

from ..._errors import StepError
from .._common.groups import Clock, load_traffic, saved_traffic
from .._common.starving import LoopStats
from .._common.transport import Transport


_JUDGED_STEPS = 10  # compressed steps after which they are compared with floats


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
    in_codec: float = 0.0
    """of them in the codec"""
    float_seconds: float = math.inf
    """of the fastest step that went as floats"""
    step_seconds: List[float] = field(default_factory=list)
    """of the first steps that did not"""
    step_codec: List[float] = field(default_factory=list)
    """seconds in the codec, of each of these"""

    def saved(self, transport: Transport, clock: Clock, busy: float) -> Dict[str, Any]:
        """For a state. busy: seconds of the thread."""
        return {"steps": self.steps, "float_steps": self.float_steps, "skipped": self.skipped, "dropped": self.dropped,
                **saved_traffic(self.float_bytes, transport, clock), "thread_seconds": busy}

    def load(self, states: List[Dict[str, Any]], transport: Transport, clock: Clock) -> Optional[float]:
        """Steps are those of all ranks, bytes and seconds those of each. Returns the seconds of the thread. None: 0.3.4
        did not save them."""
        if any(state.get("counts") is None for state in states):
            return None
        all_ranks, own = states[0]["counts"], load_traffic(states, "counts", transport, clock)
        self.steps, self.float_steps = all_ranks["steps"], all_ranks["float_steps"]
        self.skipped, self.dropped = all_ranks["skipped"], all_ranks["dropped"]
        self.float_bytes = own["float_bytes"]
        self.spent, self.in_codec = clock.codec + clock.wire, clock.codec
        return float(own["thread_seconds"])

    def end_step(self, step: Step, clock: Clock, counts: bool, codec: str) -> Optional[str]:
        """counts: it succeeded. Returns the verdict, once."""
        self.steps += 1
        if step.failure is not None:
            self.skipped += 1
            self.dropped += step.taken
        spent = clock.codec + clock.wire
        seconds, self.spent = spent - self.spent, spent
        in_codec, self.in_codec = clock.codec - self.in_codec, clock.codec
        if step.floats:
            self.float_steps += 1
            self.float_seconds = min(self.float_seconds, seconds)
        elif counts and len(self.step_seconds) < _JUDGED_STEPS:
            self.step_seconds.append(seconds)
            self.step_codec.append(in_codec)
            if len(self.step_seconds) == _JUDGED_STEPS:
                return self._verdict(codec)
        return None

    def _verdict(self, codec: str) -> Optional[str]:
        """A warning, if floats were faster than `codec`."""
        floats, ours = self.float_seconds, statistics.median(self.step_seconds)
        if ours <= floats:
            return None
        in_codec = statistics.median(self.step_codec)
        return (f"threelc: the exchange of a step takes {1e3 * ours:.1f} ms, {1e3 * in_codec:.1f} ms of them in the "
                f"codec {codec}, and took {1e3 * floats:.1f} ms as floats: this link is fast enough for floats")
