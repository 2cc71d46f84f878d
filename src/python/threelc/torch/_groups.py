# SPDX-License-Identifier: MIT
"""Parameters that travel together: an all-reduce object, and the steps of a message exchange around it."""
from __future__ import annotations

import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from .. import exchange
from ._transport import Transport


class Clock:
    """Seconds spent in codecs and on the wire, summed up."""

    def __init__(self) -> None:
        self.codec = 0.0
        self.wire = 0.0
        self._last = time.perf_counter()

    def start(self) -> None:
        self._last = time.perf_counter()

    def _lap(self) -> float:
        now = time.perf_counter()
        lap, self._last = now - self._last, now
        return lap

    def was_codec(self) -> None:
        self.codec += self._lap()

    def was_wire(self) -> None:
        self.wire += self._lap()


class Group:
    """Exchanges the gradients of the parameters `names`, which have `sizes` values each."""

    def __init__(self, config: exchange.Config, rank: int, names: Sequence[str], sizes: Sequence[int],
                 residuals: Optional[Dict[str, torch.Tensor]]) -> None:
        """residuals: where what was not sent is kept, by name; filled up with zeros. None: the codec keeps none."""
        self.names: Tuple[str, ...] = tuple(names)
        self.sizes: Tuple[int, ...] = tuple(sizes)
        self.gather = config.gather
        tensors = []
        for name, n in zip(names, sizes):
            residual = None
            if residuals is not None:
                residual = residuals.setdefault(name, torch.zeros(n))
            tensors.append(exchange.Tensor(name, n, residual=residual))
        self.allreduce = exchange.AllReduce(config, rank, tensors)

    def run(self, transport: Transport, gradients: Optional[Sequence[torch.Tensor]], out: Sequence[torch.Tensor],
            clock: Clock) -> None:
        """A step. gradients: a tensor for each name; None: this rank is not in the round. out: for the means, perhaps
        the gradients. StepError: the step failed on all ranks, out is not written."""
        clock.start()
        push = self.allreduce.push(gradients)
        clock.was_codec()
        if self.gather:
            last = transport.all_gather(push[0])
            clock.was_wire()
        else:
            came = transport.all_to_all(push)
            clock.was_wire()
            reduced = self.allreduce.reduce(came)
            clock.was_codec()
            last = transport.all_gather(reduced)
            clock.was_wire()
        try:
            self.allreduce.pull(last, out)
        finally:
            clock.was_codec()

    def state_dict(self) -> Dict[str, Any]:
        return {"names": list(self.names), "sizes": list(self.sizes), "state": self.allreduce.state_dict()}

    def load_states(self, states: List[Dict[str, Any]]) -> None:
        """states: of this group, of one rank or of all."""
        self.allreduce.load_state_dict([state["state"] for state in states])
