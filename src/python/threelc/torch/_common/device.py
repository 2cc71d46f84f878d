# SPDX-License-Identifier: MIT
"""3-value quantization where the gradients are.

Accumulation, quantization, residual and quartic packing run there, and 1.6 bits a value come to the host, where frames
are finished. Answers go back in 1.6 bits a value, too, and are decoded there.
"""
from __future__ import annotations

import math
from contextlib import contextmanager
from itertools import chain
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import torch

from ... import exchange
from ..._errors import Status, StepError
from ...codec_strings import quantizer_of
from ...frames import decompress, peek
from ...quartic import block_count, compress_quartic, decompress_quartic, quartic_bytes
from ..kernels.choice import sweeps_for
from ..kernels.quantizer import Quantizer
from .arguments import one_of
from .runners import nothing


def check_quantize(quantize: str, momentum_correction: Optional[float]) -> None:
    """Checks an argument that is as in register()."""
    one_of(quantize, ("auto", "host", "device"), "quantize")
    if momentum_correction is not None and quantize == "device":
        raise ValueError('momentum_correction goes with quantize="auto" or "host": velocities are on the host')


def place_of(quantize: str, devices: Iterable[torch.device], needs_host: bool) -> Optional[torch.device]:
    """Where tensors that lie on these devices are quantized. None: on the host. quantize: as in register().
    needs_host: the codec is the library's, or what else is done with them is done there."""
    found = set(devices)
    if quantize == "host" or needs_host or len(found) != 1:
        return None
    device, = found
    return device if quantize == "device" or device.type != "cpu" else None


def queued(device: Optional[torch.device]) -> Callable[[], None]:
    """A function that waits until the device has done what this thread asked of it until now: another thread may have
    another stream. None, or the CPU: nothing waits."""
    if device is None or device.type == "cpu":
        return nothing
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))
    wait: Callable[[], None] = event.synchronize
    return wait


class OnDevice:
    """The tensors of a worker, or of a rank of an all-reduce, that are quantized on a device, where their residuals
    are, too.

    The object's own residuals of these tensors, on the host, are 0 between steps. When a push is not taken, or a step
    fails, it puts there what comes back, and pull() adds it to those of the device.
    """

    def __init__(self, pushing: Union[exchange.AllReduce, exchange.Worker], quantizer: Quantizer,
                 host: Dict[int, torch.Tensor], device: torch.device) -> None:
        """host: the residuals of the object, by index of the tensor. Those on the device begin with their values."""
        self._object = pushing
        self._quantizer = quantizer
        self._host = host
        self._device = device
        self._parts: List[Tuple[int, int, int]] = [(p.tensor, p.first, p.n) for p in pushing.pushed_parts()]
        self._pulled: List[Tuple[int, int, int]] = [(p.tensor, p.first, p.n) for p in pushing.pulled_parts()]
        self.residuals = {i: torch.zeros(len(residual), device=device) for i, residual in host.items()}
        self._is_away = True
        self.from_host()

    def from_host(self) -> None:
        """Moves residuals from the object to the device, if they are not there."""
        for i, residual in self.residuals.items() if self._is_away else ():
            residual.copy_(self._host[i])
            self._host[i].zero_()
        self._is_away = False

    def to_host(self) -> None:
        """Moves them to the object; then its functions may be called that use them."""
        for i, residual in self.residuals.items() if not self._is_away else ():
            self._host[i].copy_(residual)
        self._is_away = True

    @contextmanager
    def on_host(self) -> Iterator[None]:
        """Meanwhile the object has all residuals."""
        was_away = self._is_away
        self.to_host()
        try:
            yield
        finally:
            if not was_away:
                self.from_host()

    def _take_back(self) -> None:
        """What comes back."""
        for i, residual in self.residuals.items():
            residual += self._host[i].to(residual.device)
            self._host[i].zero_()

    def push(self, gradients: Sequence[torch.Tensor], weight: float) -> List[memoryview]:
        """The object's push of gradients on the device."""
        if not self.residuals:  # as in steps of floats
            return self._object.push([gradient.cpu() for gradient in gradients], weight)
        sweeps, block = sweeps_for(self._device, gradients[0].dtype), self._quantizer.block
        ours = [part for part in self._parts if part[0] in self.residuals]
        blocks = [block_count(n, block) for _, _, n in ours]
        values = [(self.residuals[i][first:first + n], gradients[i].view(-1)[first:first + n]) for i, first, n in ours]
        maxima = torch.zeros(sum(blocks), device=self._device)
        for (residual, gradient), found in zip(values, maxima.split(blocks)):
            sweeps.maxima(residual, gradient, block, found)
        scales = self._quantizer.scales(maxima.tolist())
        if not all(map(math.isfinite, scales)):
            return self._push_nothing(gradients, ours, blocks, scales, weight)
        rest = {i: torch.empty_like(residual) for i, residual in self.residuals.items()}
        sizes = [quartic_bytes(n, block) for _, _, n in ours]
        quartic = torch.empty(sum(sizes), dtype=torch.uint8, device=self._device)
        on_device = torch.tensor(scales, dtype=torch.float32, device=self._device)
        for (i, first, n), tensors, scale, piece in zip(ours, values, on_device.split(blocks), quartic.split(sizes)):
            sweeps.quantize(*tensors, block, scale, rest[i][first:first + n], piece)
        frames = self._frames(_pinned(quartic).split(sizes), ours, blocks, scales)
        others = [None if i in self.residuals else gradient.cpu() for i, gradient in enumerate(gradients)]
        messages = self._object.push_frames(others, [frames.get(part) for part in self._parts], weight)
        if self._object.outcome().cause == Status.OK:
            for i, residual in self.residuals.items():
                residual.data = rest[i]
        return messages

    def _frames(self, quartic: Sequence[torch.Tensor], parts: Sequence[Tuple[int, int, int]], blocks: Sequence[int],
                scales: Sequence[float]) -> Dict[Tuple[int, int, int], bytes]:
        frames, at = {}, 0
        for part, piece, count in zip(parts, quartic, blocks):
            frames[part] = compress_quartic(piece, scales[at:at + count], part[2], self._quantizer.codec,
                                            dtype=self._object.config.dtype)
            at += count
        return frames

    def _push_nothing(self, gradients: Sequence[torch.Tensor], parts: Sequence[Tuple[int, int, int]],
                      blocks: Sequence[int], scales: Sequence[float], weight: float) -> List[memoryview]:
        """A value is not finite. The object finds that itself, and tells all."""
        bad, at = set(), 0
        for (i, _, _), count in zip(parts, blocks):
            if not all(map(math.isfinite, scales[at:at + count])):
                bad.add(i)
            at += count
        found: List[Any] = [
            torch.full_like(gradient, math.nan if i in bad else 0.0, device="cpu") if i in self.residuals else
            gradient.cpu() for i, gradient in enumerate(gradients)]
        return self._object.push(found, weight)

    def pull(self, messages: Sequence[Any], out: Sequence[torch.Tensor]) -> None:
        """The object's pull to tensors on the device; with gather the host decodes all."""
        gather, late, decoded = self._object.config.gather, self._object.stats.late, {i for i, _, _ in self._pulled}
        # the parts of a server on which the step failed stay what they are
        host = [None if i in decoded else torch.empty_like(o, device="cpu") if gather else o.cpu()
                for i, o in enumerate(out)]
        failure: Optional[StepError] = None
        frames: Sequence[Any] = ()
        try:
            if gather:
                self._object.pull(messages, host)
            else:
                frames = self._object.pull_frames(messages, host)
        except StepError as error:
            failure, frames = error, error.frames
        self._decode(frames, out)
        for target, values in zip(out, host):
            if values is not None and not (gather and failure):
                target.copy_(values)
        if failure is not None or self._object.stats.late != late:
            self._take_back()
        if failure is not None:
            raise failure

    def _decode(self, frames: Sequence[Any], out: Sequence[torch.Tensor]) -> None:
        """frames: of all pulled parts; None: its step failed. Other owners may have other codecs: what has no 3-value
        symbols, the host decodes."""
        answers = []  # frame, where it goes, values of a block
        for (i, first, n), frame in zip(self._pulled, frames):
            if frame is None:
                continue
            target, info = out[i].view(-1)[first:first + n], peek(frame)
            if quantizer_of(info.codec)[0] in ("ternary", "stochastic-ternary"):
                answers.append((frame, target, info.block))
            else:
                target.copy_(decompress(frame, torch.empty_like(target, device="cpu")))
        if not answers:
            return
        sizes = [quartic_bytes(len(target), block) for _, target, block in answers]
        host = torch.empty(sum(sizes), dtype=torch.uint8, pin_memory=self._device.type == "cuda")
        scales = [decompress_quartic(frame, len(target), piece)[1]
                  for (frame, target, _), piece in zip(answers, host.split(sizes))]
        there = torch.tensor(list(chain(*scales)), dtype=torch.float32, device=self._device)
        for (_, target, block), piece, scale in zip(answers, host.to(self._device).split(sizes),
                                                    there.split([len(found) for found in scales])):
            sweeps_for(self._device, target.dtype).decode(piece, scale, block, target)


def _pinned(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the host, in memory that a GPU reaches without another copy."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
    return host.copy_(tensor)
