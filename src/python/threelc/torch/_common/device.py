# SPDX-License-Identifier: MIT
"""3-value quantization where the gradients are.

Accumulation, quantization, residual and quartic packing run there, and 1.6 bits a value come to the host, where frames
are finished.
"""
from __future__ import annotations

import math
from typing import Any, Dict, List, Sequence, Tuple

import torch

from ... import exchange
from ..._errors import Status
from ...quartic import compress_quartic
from ..kernels.choice import sweeps_for
from ..kernels.quantizer import Quantizer


class OnDevice:
    """The tensors of an all-reduce that are quantized on a device, where their residuals are, too.

    The object's own residuals of these tensors, on the host, are 0 between steps. When a step fails, it puts there what
    comes back; take_back() adds it to those of the device.
    """

    def __init__(self, allreduce: exchange.AllReduce, quantizer: Quantizer, host: Dict[int, torch.Tensor],
                 device: torch.device) -> None:
        """host: the residuals of the object, by index of the tensor. Those on the device begin with their values."""
        self._allreduce = allreduce
        self._quantizer = quantizer
        self._host = host
        self._device = device
        self._parts: List[Tuple[int, int, int]] = [(p.tensor, p.first, p.n) for p in allreduce.pushed_parts()]
        self.residuals = {i: torch.zeros(len(residual), device=device) for i, residual in host.items()}
        self.from_host()

    def from_host(self) -> None:
        """Moves residuals from the object to the device."""
        for i, residual in self.residuals.items():
            residual.copy_(self._host[i])
            self._host[i].zero_()

    def to_host(self) -> None:
        """Moves them to the object; then its functions may be called that use them."""
        for i, residual in self.residuals.items():
            self._host[i].copy_(residual)

    def take_back(self) -> None:
        """After a step that failed."""
        for i, residual in self.residuals.items():
            residual += self._host[i].to(residual.device)
            self._host[i].zero_()

    def push(self, gradients: Sequence[torch.Tensor], weight: float) -> List[memoryview]:
        """AllReduce.push of gradients on the device."""
        sweeps, block = sweeps_for(self._device, gradients[0].dtype), self._quantizer.block
        ours = [part for part in self._parts if part[0] in self.residuals]
        blocks = [self._quantizer.blocks(n) for _, _, n in ours]
        values = [(self.residuals[i][first:first + n], gradients[i].view(-1)[first:first + n]) for i, first, n in ours]
        maxima = torch.zeros(sum(blocks), device=self._device)
        for (residual, gradient), found in zip(values, maxima.split(blocks)):
            sweeps.maxima(residual, gradient, block, found)
        scales = self._quantizer.scales(maxima.tolist())
        if not all(map(math.isfinite, scales)):
            return self._push_nothing(gradients, ours, blocks, scales, weight)
        rest = {i: torch.empty_like(residual) for i, residual in self.residuals.items()}
        sizes = [self._quantizer.quartic_bytes(n) for _, _, n in ours]
        quartic = torch.empty(sum(sizes), dtype=torch.uint8, device=self._device)
        on_device = torch.tensor(scales, dtype=torch.float32, device=self._device)
        for (i, first, n), tensors, scale, piece in zip(ours, values, on_device.split(blocks), quartic.split(sizes)):
            sweeps.quantize(*tensors, block, scale, rest[i][first:first + n], piece)
        frames = self._frames(_pinned(quartic).split(sizes), ours, blocks, scales)
        others = [None if i in self.residuals else gradient.cpu() for i, gradient in enumerate(gradients)]
        messages = self._allreduce.push_frames(others, [frames.get(part) for part in self._parts], weight)
        if self._allreduce.outcome().cause == Status.OK:
            for i, residual in self.residuals.items():
                residual.data = rest[i]
        return messages

    def _frames(self, quartic: Sequence[torch.Tensor], parts: Sequence[Tuple[int, int, int]], blocks: Sequence[int],
                scales: Sequence[float]) -> Dict[Tuple[int, int, int], bytes]:
        frames, at = {}, 0
        for part, piece, count in zip(parts, quartic, blocks):
            frames[part] = compress_quartic(piece, scales[at:at + count], part[2], self._quantizer.codec,
                                            dtype=self._allreduce.config.dtype)
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
        return self._allreduce.push(found, weight)


def _pinned(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the host, in memory that a GPU reaches without another copy."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
    return host.copy_(tensor)
