# SPDX-License-Identifier: MIT
"""Moments at the ranks, in place of the optimizer's: what ranks send in place of their gradients.

The first is DGC's momentum correction (Lin et al., 2018, Deep Gradient Compression, section 3), the second Adam's.
"""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch

from ...context import Context
from .arguments import shown
from .groups import Clock, Group
from .second_moment import SECOND_MOMENTS, SecondMoments
from .states import TENSORS, Optionally, plain
from .transport import Transport

MOMENTS = {"velocities": Optionally(TENSORS), "second_moments": Optionally(SECOND_MOMENTS)}


def check_moments(momentum: Any, beta: Any, codec: str) -> None:
    """Checks momentum_correction and second_moment, which are as in register()."""
    for value, name in ((momentum, "momentum_correction"), (beta, "second_moment")):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
            raise ValueError(f"{name} should be above 0 and below 1, not {shown(value)}")
    if momentum is not None and Context(1, codec).residual is None:
        raise ValueError(f"momentum_correction is for codecs that keep what they do not send, and {codec} keeps "
                         "nothing: give the momentum to the optimizer")


class Moments:
    """u = momentum * u + gradient, by parameter. What is sent is u; where a value of it was sent, u becomes 0. Before,
    gradients are divided by the root of their second moment. Each may be left out."""

    def __init__(self, momentum: Optional[float], beta: Optional[float]) -> None:
        self._momentum = momentum
        self._velocities: Dict[str, torch.Tensor] = {}
        self._second = None if beta is None else SecondMoments(beta)

    @property
    def active(self) -> bool:
        """Whether there is one of them."""
        return self._momentum is not None or self._second is not None

    @property
    def normalizes(self) -> bool:
        """Gradients are divided by the root of their second moment."""
        return self._second is not None

    @property
    def on_host(self) -> bool:
        """Gradients come to the host for them."""
        return self._momentum is not None

    def moved(self, names: Sequence[str], gradients: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        """What is sent in a step with these gradients, of float32 or float64. It counts once it is kept: if the step
        fails, the moments before do."""
        found = [gradient.to(torch.promote_types(gradient.dtype, torch.float32), copy=True).view(-1)
                 for gradient in gradients]
        if self._second is not None:
            self._second.normalize(names, found)
        if self._momentum is not None:
            for name, velocity in zip(names, found):
                if name in self._velocities:
                    velocity += self._momentum * self._velocities[name]
        return found

    def masked(self, moved: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        """Of these, those that become 0 where a value was sent."""
        return [] if self._momentum is None else list(moved)

    def keep(self, names: Sequence[str], moved: Sequence[torch.Tensor]) -> None:
        if self._momentum is not None:
            self._velocities.update(zip(names, moved))
        if self._second is not None:
            self._second.keep(names)

    def run(self, group: Group, transport: Transport, gradients: Sequence[torch.Tensor], out: Sequence[torch.Tensor],
            clock: Clock) -> None:
        """A step of the group."""
        moved = self.moved(group.names, gradients)
        group.run(transport, [u.to(g.dtype) for u, g in zip(moved, gradients)], out, clock)
        if self._momentum is not None:
            group.allreduce.mask(moved)
        self.keep(group.names, moved)

    def move_all(self, buffer: torch.Tensor, parts: Sequence[Tuple[str, int, int]]) -> List[torch.Tensor]:
        """moved() of the parts of a buffer, which has them afterwards."""
        found = self.moved([name for name, _, _ in parts], [buffer[first:first + n] for _, first, n in parts])
        for (_, first, n), u in zip(parts, found):
            buffer[first:first + n] = u
        return found

    def scale(self, factor: float) -> None:
        """For another loss scale."""
        for velocity in self._velocities.values():
            velocity *= factor

    def tensors(self) -> Dict[str, Mapping[str, torch.Tensor]]:
        """By kind, flat, by parameter, of those that were kept."""
        found: Dict[str, Mapping[str, torch.Tensor]] = {}
        if self._momentum is not None:
            found["velocity"] = self._velocities
        if self._second is not None:
            found["second_moment"] = self._second.squares
        return found

    def steps(self, name: str) -> int:
        """That its second moment has seen."""
        return 0 if self._second is None else self._second.steps.get(name, 0)

    def load_tensors(self, tensors: Mapping[str, Mapping[str, torch.Tensor]], steps: Mapping[str, int]) -> None:
        """tensors: as tensors() returns them. steps: by parameter."""
        if self._momentum is not None:
            self._velocities = dict(tensors["velocity"])
        if self._second is not None:
            self._second.load([{"squares": tensors["second_moment"], "steps": steps}])

    def state_dict(self) -> Dict[str, Any]:
        """Entries of a state."""
        velocities = {name: velocity.clone() for name, velocity in self._velocities.items()}
        return {"velocities": None if self._momentum is None else velocities,
                "second_moments": self._second and self._second.state_dict()}

    def load(self, states: Sequence[Mapping[str, Any]]) -> None:
        """states: of one rank, or of all. On another number of ranks each gets the mean, so that the mean stays."""
        if self._momentum is not None and states[0].get("velocities") is not None:
            self._velocities = {plain(name): sum(state["velocities"][name] for state in states) / len(states)
                                for name in states[0]["velocities"]}
        if self._second is not None and states[0].get("second_moments") is not None:
            self._second.load([state["second_moments"] for state in states])
