# SPDX-License-Identifier: MIT
"""Answers of an owner, made where gradients are: what it sends of its parts is quantized there.

The host checks the pushes, and finishes the frames of answers. 3-value symbols come and go.
"""
from __future__ import annotations

import math
from itertools import chain
from typing import Any, Container, Dict, List, NamedTuple, Optional, Sequence, Union

import torch

from ... import exchange
from ..._arrays import View, borrowed
from ..._c import DType
from ..._errors import Status, StepError
from ..kernels.codes import Words
from ..kernels.quantizer import Quantizer
from ..kernels.ways import scalars_of, way_of
from .crossing import on_device
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


def answers_for(allreduce: exchange.AllReduce, push: str, pull: str, tensors: Container[int], device: torch.device,
                residual_dtype: torch.dtype = torch.float32) -> Optional[ReducedAnswers]:
    """push, pull: the codecs now. tensors: the indices of those that have them. None: the host makes the answers."""
    quantizer = symbols_of(push, pull)
    ours = parts_of(allreduce, tensors)
    return ReducedAnswers(allreduce, quantizer, ours, device, residual_dtype) if quantizer and ours else None


def symbols_of(push: str, pull: str) -> Optional[Quantizer]:
    """Of pull. None: not both have 3-value symbols."""
    return None if Quantizer.of(push) is None else Quantizer.of(pull)


def parts_of(owner: Union[exchange.AllReduce, exchange.Server], tensors: Container[int]) -> List[int]:
    """Which of owner.parts() are of these tensors, and have values."""
    return [i for i, part in enumerate(owner.parts()) if part.tensor in tensors and part.n]


class Answers(Residuals):
    """Of some parts of an owner, whose residuals of answers are on the device, too."""

    def __init__(self, owner: Union[exchange.AllReduce, exchange.Server], quantizer: Optional[Quantizer],
                 ours: Sequence[int], device: torch.device, residual_dtype: torch.dtype = torch.float32) -> None:
        """ours: which of owner.parts(). quantizer: None: there are none."""
        self._owner = owner
        self._quantizer = quantizer
        self._device = device
        parts = owner.parts()
        self._count = len(parts)
        self._sizes = {i: parts[i].n for i in ours}
        self.norms = Norms(list(self._sizes.values()), device)
        self._residual_dtype = residual_dtype
        super().__init__({i: _writable(parts[i], owner) for i in ours}, device, residual_dtype)

    def _make(self, values: List[torch.Tensor]) -> Optional[Made]:
        """Of residual + values, which may be overwritten. None: a sum is not finite."""
        assert self._quantizer is not None  # there are parts
        ns = list(self._sizes.values())
        way = way_of(self._quantizer, self._device, torch.float32, self._residual_dtype)
        scalars = scalars_of(way, list(zip(self.residuals.values(), values)), self._device)
        if not all(map(math.isfinite, chain(*scalars))):
            return None
        step, places = self._owner.step, self.norms.places(self._owner.step)
        signal = values_at(values, places)
        sizes = [way.size(n) for n in ns]
        made = torch.empty(sum(sizes), dtype=torch.uint8, device=self._device)
        rest = values  # whose place it takes
        if self._residual_dtype != torch.float32:
            rest = [torch.empty_like(residual) for residual in self.residuals.values()]
        for residual, one, scalar, left, piece in zip(self.residuals.values(), values,
                                                      on_device(scalars, self._device), rest, made.split(sizes)):
            way.encode(residual, one, scalar, Words(0, 0), left, piece)
        taken = step, signal, values_at(rest, places)
        frames: List[Optional[bytes]] = [None] * self._count
        for i, frame in zip(self._sizes, way.frames(made, scalars, ns, DType.F32)):
            frames[i] = frame
        return Made(frames, dict(zip(self._sizes, rest)), taken)

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
        """None: a push is at fault, or ranks push with other codecs or blocks, or a value is not finite."""
        try:
            came = self._owner.owned_frames(pushes)
        except StepError:
            return None
        means = means_of([list(came[i].values()) for i in self._sizes], list(self._sizes.values()), self._device)
        return None if means is None else self._make(means)


def _writable(part: exchange.Part, owner: Union[exchange.AllReduce, exchange.Server]) -> torch.Tensor:
    """The residual of a part, in its memory."""
    assert part.residual is not None  # these codecs keep one
    address = View(part.residual, False, "residual").address
    return torch.frombuffer(borrowed(address, 4 * part.n, owner, "f", writable=True), dtype=torch.float32)
