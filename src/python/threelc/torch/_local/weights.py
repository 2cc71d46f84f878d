# SPDX-License-Identifier: MIT
"""The weights of a rank between rounds: the common ones, a share of its residuals, and what local steps changed.

The share is the error reset of CSER (Xie et al., 2020, section 3): what a rank did not send stays in its weights.
"""
from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator, List, Mapping, Sequence

import torch

from .._common.module import Model, assign, flat, real, rounded
from .fragment import Fragment


class Weights:
    def __init__(self, model: Model, anchors: Mapping[str, torch.Tensor], residuals: Mapping[str, torch.Tensor]
                 ) -> None:
        """anchors: the common ones, flat. residuals: flat; those that codecs keep. All by name."""
        self._model = model
        self._anchors = anchors
        self._residuals = residuals

    def _start(self, fragment: Fragment, name: str) -> torch.Tensor:
        """Flat: what they are, but for local steps."""
        anchor = self._anchors[name].detach()
        if not fragment.in_weights or name not in self._residuals:
            return anchor
        return torch.add(anchor, self._residuals[name].to(anchor.device), alpha=fragment.in_weights)

    def changes(self, fragment: Fragment) -> List[torch.Tensor]:
        """What local steps changed, flat."""
        parameters = self._model.parameters
        return [self._flat(name).sub_(rounded(self._start(fragment, name), parameters[name]))
                for name in fragment.names]

    def _flat(self, name: str) -> torch.Tensor:
        return flat(self._model.parameters[name], self._anchors[name].device)

    def begin(self, fragment: Fragment, mix: float = 0.0) -> None:
        """They become mix * local ones + (1 - mix) * those of the start of a round."""
        for name in fragment.names:
            parameter, start = self._model.parameters[name], self._start(fragment, name)
            assign(parameter, torch.lerp(start, self._flat(name), mix) if mix else start)
        fragment.at_start = not mix

    def settle(self, fragments: Sequence[Fragment], share: float) -> None:
        """Before a local step: they get the share of the residuals, if they do not have it yet, and where a state says
        that no local step was made after a round, they are what the round left, whatever was loaded since."""
        for fragment in fragments:
            if fragment.placed:
                self.begin(fragment)
            elif share and not fragment.in_weights:
                moved = self.changes(fragment)
                fragment.in_weights = share
                for name, change in zip(fragment.names, moved):
                    if name in self._residuals and self._residuals[name].any():  # exact without a local step
                        assign(self._model.parameters[name], self._start(fragment, name) + change)
            fragment.placed = False

    @contextmanager
    def common(self) -> Iterator[None]:
        """Meanwhile they are the common ones."""
        self._model.reshard()
        saved = {name: real(parameter).clone() for name, parameter in self._model.parameters.items()}
        try:
            for name, parameter in self._model.parameters.items():
                assign(parameter, self._anchors[name].detach())
            yield
        finally:
            self._model.reshard()  # what FSDP2 has gathered meanwhile
            for name, parameter in self._model.parameters.items():
                assign(parameter, saved[name])
