# SPDX-License-Identifier: MIT
"""Answers of an owner, made where gradients are: what it sends of its parts is quantized there.

The host checks the pushes, and finishes the frames of answers.
"""
from __future__ import annotations

from typing import Any, Container, Dict, List, NamedTuple, Optional, Sequence, Union

import torch

from ... import exchange
from ..._arrays import View, borrowed
from ..._c import DType
from ..._errors import Status, StepError
from ..kernels.codes import Codes, Words
from ..kernels.ways import AnyQuantizer, coding_of, quantizer_for
from .means import means_of
from .norms import Norms, Taken, values_at
from .residuals import Residuals
from .streams import forked


class Made(NamedTuple):
    """Answers, before they are sent."""

    frames: List[Optional[bytes]]
    """of all parts; None: the host makes it"""
    residuals: Dict[int, torch.Tensor]
    """if they are taken"""
    norms: Taken
    """what these look at"""


def answers_for(allreduce: exchange.AllReduce, pull: str, tensors: Container[int], device: torch.device,
                residual_dtype: torch.dtype = torch.float32) -> Optional[ReducedAnswers]:
    """pull: the codec now. tensors: the indices of those that have it. None: the host makes the answers."""
    quantizer, ours = quantizer_for(pull, device), parts_of(allreduce, tensors)
    if quantizer is None or not ours or _adds_frames(allreduce.config, quantizer):
        return None
    return ReducedAnswers(allreduce, quantizer, ours, device, residual_dtype)


def _adds_frames(config: exchange.Config, quantizer: AnyQuantizer) -> bool:
    """Whether the C library may make the frame of a sum from frames of natural, without their values (IntML)."""
    return config.sum and isinstance(quantizer, Codes) and quantizer.name == "natural" and not quantizer.block


def parts_of(owner: Union[exchange.AllReduce, exchange.Server], tensors: Container[int]) -> List[int]:
    """Which of owner.parts() are of these tensors, and have values."""
    return [i for i, part in enumerate(owner.parts()) if part.tensor in tensors and part.n]


class Answers(Residuals):
    """Of some parts of an owner. If they are made on the device, their residuals are there, too."""

    def __init__(self, owner: Union[exchange.AllReduce, exchange.Server], quantizer: Optional[AnyQuantizer],
                 ours: Sequence[int], device: torch.device, residual_dtype: torch.dtype = torch.float32) -> None:
        """ours: which of owner.parts(). quantizer: of their answers; None: the host makes these."""
        self._owner = owner
        self._quantizer = quantizer
        self._device = device
        parts = owner.parts()
        self._count = len(parts)
        self._sizes = {i: parts[i].n for i in ours}
        self._seeds = {i: parts[i].seed for i in ours}
        self._residual_dtype = residual_dtype
        kept = {i: parts[i] for i in ours if quantizer is not None and parts[i].residual is not None}
        self.norms = Norms([part.n for part in kept.values()], device)
        super().__init__({i: _writable(part, owner) for i, part in kept.items()}, device, residual_dtype)

    def _make(self, values: List[torch.Tensor]) -> Optional[Made]:
        """Of residual + values, which may be overwritten. None: the host makes the answers, or a sum is not finite."""
        if self._quantizer is None:
            return None
        step, places = self._owner.step, self.norms.places(self._owner.step)
        of_parts = dict(zip(self._sizes, values))
        coding = coding_of(self._quantizer, [(self.residuals.get(i), one) for i, one in of_parts.items()],
                           [Words(seed, step) for seed in self._seeds.values()], self._device, self._residual_dtype)
        if not all(coding.finite):
            return None
        kept = [of_parts[i] for i in self.residuals]
        signal = values_at(kept, places)
        rest = dict(zip(self.residuals, kept))  # whose place it takes
        if self._residual_dtype != torch.float32:
            rest = {i: torch.empty_like(residual) for i, residual in self.residuals.items()}
        frames: List[Optional[bytes]] = [None] * self._count
        for i, frame in zip(of_parts, coding.frames([rest.get(i) for i in of_parts], DType.F32)):
            frames[i] = frame
        return Made(frames, rest, (step, signal, values_at(list(rest.values()), places)))

    def _keep(self, made: Made) -> None:
        """They were sent."""
        self.norms.keep(*made.norms)
        for i, residual in self.residuals.items():
            residual.data = made.residuals[i]


class ReducedAnswers(Answers):
    """Of a rank of an all-reduce: the means."""

    _owner: exchange.AllReduce

    @forked
    def reduce(self, pushes: Sequence[Any]) -> memoryview:
        """AllReduce.reduce(). What it cannot do here, the host does."""
        made = self._made(pushes)
        if made is None:
            with self.on_host():
                message = self._owner.reduce(pushes)
            if self._owner.outcome().cause == Status.OK:
                self.norms.forget()
            return message
        message = self._owner.reduce_frames(pushes, made.frames)
        if self._owner.outcome().cause == Status.OK:
            self._keep(made)
        return message

    def _made(self, pushes: Sequence[Any]) -> Optional[Made]:
        """None: a push is at fault, a part has no sum here (means_of), or a value is not finite."""
        try:
            came = self._owner.owned_frames(pushes)
        except StepError:
            return None
        means = means_of([list(came[i].values()) for i in self._sizes], list(self._sizes.values()), self._device)
        there = [mean for mean in means if mean is not None]
        return self._make(there) if len(there) == len(means) else None


def _writable(part: exchange.Part, owner: Union[exchange.AllReduce, exchange.Server]) -> torch.Tensor:
    """The residual of a part, in its memory."""
    address = View(part.residual, False, "residual").address
    return torch.frombuffer(borrowed(address, 4 * part.n, owner, "f", writable=True), dtype=torch.float32)
