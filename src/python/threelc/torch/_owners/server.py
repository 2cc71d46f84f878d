# SPDX-License-Identifier: MIT
"""A server that hands out means, and takes changes, where its parts of the model are: on the CPU, or on a device.

On a device pushes are added up there, and answers quantized, if they have 3-value symbols, codes, or values with
positions. All else crosses as floats.
"""
from __future__ import annotations

from typing import Dict, List, Optional, Sequence

import torch

from ... import exchange
from ..._errors import StepError
from .._common.module import HOST, copied
from .._device.answers import Answers
from .._device.crossing import crossed
from .._device.means import are_finite, means_of
from .._device.streams import forked
from ..kernels.ways import AnyQuantizer


class ServerOfParts(Answers):
    """Residuals of answers that are made on the device are there, too."""

    def __init__(self, server: exchange.Server, quantizer: Optional[AnyQuantizer], ours: Sequence[int],
                 device: torch.device) -> None:
        """ours: the parts whose pushes a device adds up. quantizer: as in Answers."""
        super().__init__(server, quantizer, ours, device)
        self.object = server
        self.parts = server.parts()  # they stay where they are

    @forked
    def reduce(self) -> List[torch.Tensor]:
        """Server.reduce(). Returns the means of all parts. What it cannot do on the device, the host does."""
        there = self._means() if self._sizes else None
        if there is None:
            self.object.reduce()
            there = {}
        else:
            self.object.reduce_rest(there)
        rest = iter(crossed([copied(part.mean) for i, part in enumerate(self.parts) if i not in there], self._device))
        return [there[i] if i in there else next(rest) for i in range(self._count)]

    def _means(self) -> Optional[Dict[int, torch.Tensor]]:
        """Those that the device makes, by part. None: a push is at fault, or a mean is not finite."""
        try:
            came = self.object.owned_frames()
        except StepError:
            return None
        means = means_of([list(came[i].values()) for i in self._sizes], list(self._sizes.values()), self._device)
        there = {i: mean for i, mean in zip(self._sizes, means) if mean is not None}
        return there if are_finite(list(there.values())) else None

    @forked
    def answer(self, changes: Optional[Sequence[torch.Tensor]]) -> memoryview:
        """Server.answer(). changes: of all parts, which may be overwritten; None: reduce() has failed."""
        if changes is None:
            return self.object.answer()
        made = self._make([changes[i] for i in self._sizes]) if self._sizes else None
        if made is None:
            with self.on_host():
                answer = self.object.answer(crossed(changes, HOST))
            if self.object.outcome().taken is not None:
                self.norms.forget()
            return answer
        rest = iter(crossed([changes[i] for i, frame in enumerate(made.frames) if frame is None], HOST))
        answer = self.object.answer_frames([next(rest) if frame is None else None for frame in made.frames],
                                           made.frames)
        if self.object.outcome().taken is not None:
            self._keep(made)
        return answer

    def negate_zeros(self) -> None:
        """Residuals of answers in a dense start, which are 0, become -0: a weight of -0 plus 0 would be 0."""
        self.object.residual_scale(-0.0)

    def waits(self, i: int) -> Optional[torch.Tensor]:
        """What answers have not sent yet of a part. None: the codec keeps nothing."""
        if i in self.residuals:
            return self.residuals[i]
        residual = self.parts[i].residual
        return None if residual is None else copied(residual).to(self._device)
