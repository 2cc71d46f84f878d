# SPDX-License-Identifier: MIT
"""Adam's second moment at a rank: what is compressed is even, and the gradient is not."""
from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence

import torch

from .states import TENSORS, plain

_EPSILON = 1e-8  # torch.optim.Adam's
SECOND_MOMENTS = {"squares": TENSORS, "steps": {str: int}}


class SecondMoments:
    """v = beta * v + (1 - beta) * gradient^2, by parameter, of the gradients of this rank. What is sent is
    gradient / (sqrt(v) + epsilon), with v corrected for its start at 0 (Kingma and Ba, 2015, Adam, Algorithm 1)."""

    def __init__(self, beta: float) -> None:
        self._beta = beta
        self.squares: Dict[str, torch.Tensor] = {}
        """v, flat, by parameter"""
        self.steps: Dict[str, int] = {}
        self._moved: Dict[str, torch.Tensor] = {}  # squares after the step under way

    def normalize(self, names: Sequence[str], gradients: Sequence[torch.Tensor]) -> None:
        """Gradients become what is sent. The second moments count once they are kept."""
        for name, gradient in zip(names, gradients):
            squares = gradient.square().mul_(1 - self._beta)
            if name in self.squares:
                squares.add_(self.squares[name].to(squares.device), alpha=self._beta)
            self._moved[name] = squares
            correction = 1 - self._beta ** (self.steps.get(name, 0) + 1)
            gradient.div_((squares / correction).sqrt_().add_(_EPSILON))

    def keep(self, names: Sequence[str]) -> None:
        for name in names:
            self.squares[name] = self._moved.pop(name)
            self.steps[name] = self.steps.get(name, 0) + 1

    def state_dict(self) -> Dict[str, Any]:
        return {"squares": {name: squares.cpu().clone() for name, squares in self.squares.items()},
                "steps": dict(self.steps)}

    def load(self, states: Sequence[Mapping[str, Any]]) -> None:
        """states: of one rank, or of all."""
        self.squares = {plain(name): sum(state["squares"][name] for state in states) / len(states)
                         for name in states[0]["squares"]}
        self.steps = {plain(name): min(state["steps"][name] for state in states) for name in states[0]["steps"]}
