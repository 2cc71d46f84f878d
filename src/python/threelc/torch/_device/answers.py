# SPDX-License-Identifier: MIT
"""Answers of an owner, made where gradients are: the pushes of its parts are added there, and the means quantized.

The host checks the pushes, and finishes the frames of answers. 3-value symbols come and go.
"""
from __future__ import annotations

import math
from itertools import chain, islice
from typing import Any, Callable, Container, Dict, List, Optional, Sequence, Tuple

import torch

from ... import exchange
from ..._arrays import View, borrowed
from ..._c import DType
from ..._errors import Status, StepError
from ...codec_strings import quantizer_of
from ...frames import FrameInfo, peek
from ...quartic import block_count, quartic_bytes
from ..kernels.codes import Words
from ..kernels.quantizer import Quantizer
from ..kernels.sums import add_for
from ..kernels.ways import scalars_of, way_of
from .crossing import Quartic, on_device, symbols_on_device, way_of_symbols
from .norms import Norms, Taken, values_at
from .residuals import Residuals
from .streams import forked

_Made = Tuple[List[Optional[bytes]], Dict[int, torch.Tensor], Taken]
"""the frames of answers; if these are taken the residuals, and what norms look at"""


def answers_for(allreduce: exchange.AllReduce, push: str, pull: str, tensors: Container[int], device: torch.device,
                residual_dtype: torch.dtype = torch.float32) -> Optional[Answers]:
    """push, pull: the codecs now. tensors: the indices of those that have them. None: the host makes the answers."""
    quantizer = Quantizer.of(pull)
    ours = [i for i, part in enumerate(allreduce.parts()) if part.tensor in tensors and part.n]
    if not ours or quantizer is None or Quantizer.of(push) is None:
        return None
    return Answers(allreduce, quantizer, ours, device, residual_dtype)


class Answers(Residuals):
    """Of a rank of an all-reduce, whose residuals of answers are on the device, too."""

    def __init__(self, allreduce: exchange.AllReduce, quantizer: Quantizer, ours: Sequence[int],
                 device: torch.device, residual_dtype: torch.dtype) -> None:
        """ours: which of allreduce.parts()."""
        self._allreduce = allreduce
        self._quantizer = quantizer
        self._device = device
        parts = allreduce.parts()
        self._count = len(parts)
        self._sizes = {i: parts[i].n for i in ours}
        self.norms = Norms(list(self._sizes.values()), device)
        self._residual_dtype = residual_dtype
        super().__init__({i: _writable(parts[i], allreduce) for i in ours}, device, residual_dtype)

    @forked
    def reduce(self, pushes: Sequence[Any]) -> memoryview:
        """AllReduce.reduce(). What it cannot do here, the host does."""
        made = self._made(pushes)
        if made is None:
            with self.on_host():
                message = self._allreduce.reduce(pushes)
            if self._allreduce.outcome().cause == Status.OK:
                self.norms.forget()
            return message
        frames, rest, taken = made
        message = self._allreduce.reduce_frames(pushes, frames)
        if self._allreduce.outcome().cause == Status.OK:
            self.norms.keep(*taken)
            for i, residual in self.residuals.items():
                residual.data = rest[i]
        return message

    def _made(self, pushes: Sequence[Any]) -> Optional[_Made]:
        """None: a push is at fault, or ranks push with other codecs or blocks, or a value is not finite."""
        try:
            came = self._allreduce.owned_frames(pushes)
        except StepError:
            return None
        means = self._means([list(came[i].values()) for i in self._sizes])
        if means is None:
            return None
        ns = list(self._sizes.values())
        way = way_of(self._quantizer, self._device, torch.float32, self._residual_dtype)
        scalars = scalars_of(way, list(zip(self.residuals.values(), means)), self._device)
        if not all(map(math.isfinite, chain(*scalars))):
            return None
        step, places = self._allreduce.step, self.norms.places(self._allreduce.step)
        signal = values_at(means, places)
        sizes = [way.size(n) for n in ns]
        made = torch.empty(sum(sizes), dtype=torch.uint8, device=self._device)
        rest = means  # whose place it takes
        if self._residual_dtype != torch.float32:
            rest = [torch.empty_like(residual) for residual in self.residuals.values()]
        for residual, mean, scalar, left, piece in zip(self.residuals.values(), means,
                                                       on_device(scalars, self._device), rest, made.split(sizes)):
            way.encode(residual, mean, scalar, Words(0, 0), left, piece)
        taken = step, signal, values_at(rest, places)
        frames: List[Optional[bytes]] = [None] * self._count
        for i, frame in zip(self._sizes, way.frames(made, scalars, ns, DType.F32)):
            frames[i] = frame
        return frames, dict(zip(self._sizes, rest)), taken

    def _means(self, came: Sequence[Sequence[Tuple[Any, float]]]) -> Optional[List[torch.Tensor]]:
        """Of each part. came: the frames of each, with their factors. None: not of these."""
        frames, factors = [frame for frame, _ in chain(*came)], [factor for _, factor in chain(*came)]
        infos = [peek(frame) for frame in frames]
        rest, sizes, counts = iter(infos), list(self._sizes.values()), list(map(len, came))
        blocks = [{info.block for info in islice(rest, count)} or {0} for count in counts]
        if not all(map(_is_symbols, infos)) or any(len(found) > 1 for found in blocks):
            return None
        ways = set(map(way_of_symbols, infos))
        quartic_of: Callable[..., Quartic] = symbols_on_device
        if len(ways) == 1:
            quartic_of = ways.pop()
        scales, quartic = quartic_of(frames, [info.n for info in infos], [info.block for info in infos], self._device)
        products = [torch.tensor(found, dtype=torch.float64) * factor for factor, found in zip(factors, scales)]
        weights = torch.cat([torch.empty(0), *products]).to(torch.float32)  # as floats multiply
        if not weights.isfinite().all():
            return None
        parts = [(count, n, block) for count, n, (block,) in zip(counts, sizes, blocks)]
        pieces = quartic.split([count * quartic_bytes(n, block) for count, n, block in parts])
        there = weights.to(self._device).split([count * block_count(n, block) for count, n, block in parts])
        means = torch.empty(sum(sizes), device=self._device).split(sizes)
        for piece, weight, mean, (_, _, block) in zip(pieces, there, means, parts):
            add_for(self._device)(piece, weight, block, mean)
        return list(means)


def _is_symbols(info: FrameInfo) -> bool:
    return quantizer_of(info.codec)[0] in ("ternary", "stochastic-ternary")


def _writable(part: exchange.Part, allreduce: exchange.AllReduce) -> torch.Tensor:
    """The residual of a part, in its memory."""
    assert part.residual is not None  # these codecs keep one
    address = View(part.residual, False, "residual").address
    return torch.frombuffer(borrowed(address, 4 * part.n, allreduce, "f", writable=True), dtype=torch.float32)
