# SPDX-License-Identifier: MIT
"""Momentum at the ranks, in place of the optimizer's (Lin et al., 2018, Deep Gradient Compression, section 3)."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

import torch

from ..context import Context
from ._arguments import shown
from ._groups import Clock, Group
from ._states import plain
from ._transport import Transport


def check_momentum(momentum: Any, codec: str) -> None:
    """momentum: as register() has momentum_correction."""
    if momentum is None:
        return
    if isinstance(momentum, bool) or not isinstance(momentum, (int, float)) or not 0 < momentum < 1:
        raise ValueError(f"momentum_correction should be above 0 and below 1, not {shown(momentum)}")
    if Context(1, codec).residual is None:
        raise ValueError(f"momentum_correction is for codecs that keep what they do not send, and {codec} keeps "
                         "nothing: give the momentum to the optimizer")


class Velocities:
    """u = momentum * u + gradient, by parameter. What is sent is u; where a value of it was sent, u becomes 0."""

    def __init__(self, momentum: float) -> None:
        self._momentum = momentum
        self._kept: Dict[str, torch.Tensor] = {}

    def moved(self, names: Sequence[str], gradients: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        """The velocities after a step with these gradients, on the CPU, of float32 or float64. They count once they are
        kept: if the step fails, those before do."""
        found = [gradient.to(torch.promote_types(gradient.dtype, torch.float32), copy=True).view(-1)
                 for gradient in gradients]
        for name, velocity in zip(names, found):
            if name in self._kept:
                velocity += self._momentum * self._kept[name]
        return found

    def keep(self, names: Sequence[str], moved: Sequence[torch.Tensor]) -> None:
        self._kept.update(zip(names, moved))

    def run(self, group: Group, transport: Transport, gradients: Sequence[torch.Tensor], out: Sequence[torch.Tensor],
            clock: Clock) -> None:
        """A step of the group, of velocities."""
        moved = self.moved(group.names, gradients)
        group.run(transport, [u.to(g.dtype) for u, g in zip(moved, gradients)], out, clock)
        group.allreduce.mask(moved)
        self.keep(group.names, moved)

    def move_all(self, buffer: torch.Tensor, parts: Sequence[Tuple[str, int, int]]) -> List[torch.Tensor]:
        """moved() of the parts of a buffer, which has them afterwards."""
        found = self.moved([name for name, _, _ in parts], [buffer[first:first + n] for _, first, n in parts])
        for (_, first, n), velocity in zip(parts, found):
            buffer[first:first + n] = velocity
        return found

    def scale(self, factor: float) -> None:
        for velocity in self._kept.values():
            velocity *= factor

    def state_dict(self) -> Dict[str, torch.Tensor]:
        return {name: velocity.clone() for name, velocity in self._kept.items()}

    def load(self, states: Sequence[Mapping[str, Any]]) -> None:
        """states: of one rank, or of all. On another number of ranks each gets the mean, so that the mean stays."""
        self._kept = {plain(name): sum(state[name] for state in states) / len(states) for name in states[0]}
