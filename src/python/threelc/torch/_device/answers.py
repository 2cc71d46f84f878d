# SPDX-License-Identifier: MIT
"""Answers of an owner, made where gradients are: the pushes of its parts are added there, and the means quantized.

The host checks the pushes, and finishes the frames of answers. 3-value symbols without blocks come and go.
"""
from __future__ import annotations

import math
from ctypes import c_float
from itertools import chain
from typing import Any, Callable, Container, Dict, List, Optional, Sequence, Tuple

import torch

from ... import exchange
from ..._arrays import View, borrowed
from ..._c import DType
from ..._errors import Status, StepError
from ...codec_strings import quantizer_of
from ...frames import FrameInfo, peek
from ...quartic import quartic_bytes
from ..kernels.codes import Words
from ..kernels.quantizer import Quantizer
from ..kernels.sums import add_for
from ..kernels.ways import way_of
from .crossing import Quartic, on_device, symbols_on_device, way_of_symbols
from .norms import Norms, taken
from .residuals import Residuals

_Made = Tuple[List[Optional[bytes]], Dict[int, torch.Tensor], torch.Tensor, torch.Tensor]
"""the frames of answers; if these are taken the residuals, and what norms look at: of the means, and of residuals"""


def answers_for(allreduce: exchange.AllReduce, push: str, pull: str, tensors: Container[int],
                device: torch.device) -> Optional[Answers]:
    """push, pull: the codecs now. tensors: the indices of those that have them. None: the host makes the answers."""
    quantizers = Quantizer.of(push), Quantizer.of(pull)
    if any(quantizer is None or quantizer.block for quantizer in quantizers):
        return None
    ours = [i for i, part in enumerate(allreduce.parts()) if part.tensor in tensors and part.n]
    assert quantizers[1] is not None
    return Answers(allreduce, quantizers[1], ours, device) if ours else None


class Answers(Residuals):
    """Of a rank of an all-reduce, whose residuals of answers are on the device, too."""

    def __init__(self, allreduce: exchange.AllReduce, quantizer: Quantizer, ours: Sequence[int],
                 device: torch.device) -> None:
        """ours: which of allreduce.parts()."""
        self._allreduce = allreduce
        self._quantizer = quantizer
        self._device = device
        parts = allreduce.parts()
        self._count = len(parts)
        self._sizes = {i: parts[i].n for i in ours}
        self.norms = Norms(list(self._sizes.values()), device)
        super().__init__({i: _writable(parts[i], allreduce) for i in ours}, device)

    def reduce(self, pushes: Sequence[Any]) -> memoryview:
        """AllReduce.reduce(). What it cannot do here, the host does."""
        made = self._made(pushes)
        if made is None:
            with self.on_host():
                message = self._allreduce.reduce(pushes)
            if self._allreduce.outcome().cause == Status.OK:
                self.norms.forget()
            return message
        frames, rest, *norms = made
        step, message = self._allreduce.step, self._allreduce.reduce_frames(pushes, frames)
        if self._allreduce.outcome().cause == Status.OK:
            self.norms.keep(step, *norms)
            for i, residual in self.residuals.items():
                residual.data = rest[i]
        return message

    def _made(self, pushes: Sequence[Any]) -> Optional[_Made]:
        """None: a push is at fault, or has another codec, or a value is not finite."""
        try:
            came = self._allreduce.owned_frames(pushes)
        except StepError:
            return None
        means = self._means([list(came[i].values()) for i in self._sizes])
        if means is None:
            return None
        ns = list(self._sizes.values())
        way = way_of(self._quantizer, self._device, torch.float32)
        found = torch.zeros(len(ns), dtype=way.measured_dtype, device=self._device)
        for residual, mean, piece in zip(self.residuals.values(), means, found.split(1)):
            way.measure(residual, mean, piece)
        scalars = [way.scalars([number], n) for number, n in zip(found.tolist(), ns)]
        if not all(map(math.isfinite, chain(*scalars))):
            return None
        places = self.norms.places(self._allreduce.step)
        signal = taken(means, places)
        sizes = [way.size(n) for n in ns]
        made = torch.empty(sum(sizes), dtype=torch.uint8, device=self._device)
        for residual, mean, scalar, piece in zip(self.residuals.values(), means, on_device(scalars, self._device),
                                                 made.split(sizes)):
            way.encode(residual, mean, scalar, Words(0, 0), mean, piece)  # what is left takes the place of the mean
        frames: List[Optional[bytes]] = [None] * self._count
        for i, frame in zip(self._sizes, way.frames(made, scalars, ns, DType.F32)):
            frames[i] = frame
        return frames, dict(zip(self._sizes, means)), signal, taken(means, places)

    def _means(self, came: Sequence[Sequence[Tuple[Any, float]]]) -> Optional[List[torch.Tensor]]:
        """Of each part. came: the frames of each, with their factors. None: not of these."""
        frames, factors = [frame for frame, _ in chain(*came)], [factor for _, factor in chain(*came)]
        infos = [peek(frame) for frame in frames]
        if not all(map(_is_symbols, infos)):
            return None
        ns = [n for n, part in zip(self._sizes.values(), came) for _ in part]
        ways = set(map(way_of_symbols, infos))
        quartic_of: Callable[..., Quartic] = symbols_on_device
        if len(ways) == 1:
            quartic_of = ways.pop()
        scales, quartic = quartic_of(frames, ns, [0] * len(ns), self._device)
        weights = [c_float(factor * scale).value for factor, (scale,) in zip(factors, scales)]  # as floats multiply
        if not all(map(math.isfinite, weights)):
            return None
        counts = list(map(len, came))
        means = torch.empty(sum(self._sizes.values()), device=self._device).split(list(self._sizes.values()))
        pieces = quartic.split([count * quartic_bytes(len(mean), 0) for count, mean in zip(counts, means)])
        there = torch.tensor(weights, dtype=torch.float32, device=self._device).split(counts)
        for piece, weight, mean in zip(pieces, there, means):
            add_for(self._device)(piece, weight, mean)
        return list(means)


def _is_symbols(info: FrameInfo) -> bool:
    return quantizer_of(info.codec)[0] in ("ternary", "stochastic-ternary") and not info.block


def _writable(part: exchange.Part, allreduce: exchange.AllReduce) -> torch.Tensor:
    """The residual of a part, in its memory."""
    assert part.residual is not None  # these codecs keep one
    address = View(part.residual, False, "residual").address
    return torch.frombuffer(borrowed(address, 4 * part.n, allreduce, "f", writable=True), dtype=torch.float32)
