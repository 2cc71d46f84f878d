# SPDX-License-Identifier: MIT
"""3-value quantization where the gradients are, as torch operations: 3LC's sections 3.1 and 3.2.

Accumulation, quantization, residual and quartic packing run there, and 1.6 bits a value come to the host, where frames
are finished. All operations are those of the C library, in the same order and precision, so the frames are, too.
"""
from __future__ import annotations

import math
import struct
from ctypes import c_float
from fractions import Fraction
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from ... import exchange
from ..._errors import Status
from ...codec_strings import quantizer_of
from ...quartic import compress_quartic


def _nearest(text: str) -> float:
    """The binary32 nearest to a positive number; of two the even one, as the C library reads it."""
    bits, = struct.unpack("<i", struct.pack("<f", float(text)))
    near = [(struct.unpack("<f", struct.pack("<i", b))[0], b % 2) for b in (bits - 1, bits, bits + 1)]
    return float(min(near, key=lambda item: (abs(Fraction(item[0]) - Fraction(text)), item[1]))[0])


class Quantizer:
    """The quantizer of a codec of 3-value symbols."""

    def __init__(self, codec: str, multiplier: float, block: int) -> None:
        self.codec = codec
        self._multiplier = multiplier
        self._block = block

    @classmethod
    def of(cls, codec: str) -> Optional[Quantizer]:
        """None: the codec is another one."""
        name, parameters = quantizer_of(codec)
        if name != "ternary":
            return None
        return cls(codec, _nearest(parameters.get("s", "1")), int(parameters.get("block", 0)))

    def _rows(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
        """Views of the blocks as rows: those that are whole, then the last one."""
        n, block = x.numel(), self._block or x.numel()
        whole = n // block * block
        if whole:
            yield x[:whole].view(-1, block)
        if whole < n:
            yield x[whole:].view(1, -1)

    def maxima(self, x: torch.Tensor) -> torch.Tensor:
        """The largest magnitude of each block; NaN if there is one."""
        return torch.cat([rows.abs().amax(1) for rows in self._rows(x)])

    def scales(self, maxima: Sequence[float]) -> List[float]:
        """M = s * max|x|, rounded once, as floats are multiplied."""
        return [c_float(self._multiplier * largest).value for largest in maxima]

    def quantize(self, x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """Returns quartic bytes; x becomes the residual."""
        found, at = [], 0
        for rows in self._rows(x):
            scale = scales[at:at + len(rows)].unsqueeze(1)
            at += len(rows)
            threshold = scale / 2
            symbols = (rows > threshold).to(torch.int8) - (rows < -threshold).to(torch.int8)
            rows -= scale * symbols
            found.append(_pack(symbols))
        return torch.cat(found)


def _pack(symbols: torch.Tensor) -> torch.Tensor:
    """Quartic encoding of each row."""
    rows, n = symbols.shape
    length = -(-n // 5)
    digits = torch.zeros(rows, 5 * length, dtype=torch.uint8, device=symbols.device)
    digits[:, :n] = symbols + 1
    p = digits.view(rows, 5, length)
    return (81 * p[:, 0] + 27 * p[:, 1] + 9 * p[:, 2] + 3 * p[:, 3] + p[:, 4]).view(-1)


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
        ours = [part for part in self._parts if part[0] in self.residuals]
        values = [self.residuals[i][first:first + n] + gradients[i].view(-1)[first:first + n] for i, first, n in ours]
        lengths, maxima = [], []
        for x in values:
            maxima.append(self._quantizer.maxima(x))
            lengths.append(len(maxima[-1]))
        scales = self._quantizer.scales(torch.cat(maxima).tolist())
        if not all(map(math.isfinite, scales)):
            return self._push_nothing(gradients, ours, lengths, scales, weight)
        on_device = torch.tensor(scales, dtype=torch.float32, device=values[0].device)
        quartic = [self._quantizer.quantize(x, scale) for x, scale in zip(values, on_device.split(lengths))]
        frames = self._frames(quartic, ours, lengths, scales)
        others = [None if i in self.residuals else gradient.cpu() for i, gradient in enumerate(gradients)]
        messages = self._allreduce.push_frames(others, [frames.get(part) for part in self._parts], weight)
        if self._allreduce.outcome().cause == Status.OK:
            for (i, first, n), x in zip(ours, values):
                self.residuals[i][first:first + n] = x
        return messages

    def _frames(self, quartic: Sequence[torch.Tensor], parts: Sequence[Tuple[int, int, int]], lengths: Sequence[int],
                scales: Sequence[float]) -> Dict[Tuple[int, int, int], bytes]:
        sizes = [len(piece) for piece in quartic]
        pieces = torch.cat(list(quartic)).cpu().split(sizes)
        frames, at = {}, 0
        for part, piece, length in zip(parts, pieces, lengths):
            frames[part] = compress_quartic(piece, scales[at:at + length], part[2], self._quantizer.codec,
                                            dtype=self._allreduce.config.dtype)
            at += length
        return frames

    def _push_nothing(self, gradients: Sequence[torch.Tensor], parts: Sequence[Tuple[int, int, int]],
                      lengths: Sequence[int], scales: Sequence[float], weight: float) -> List[memoryview]:
        """A value is not finite. The object finds that itself, and tells all."""
        bad, at = set(), 0
        for (i, _, _), length in zip(parts, lengths):
            if not all(map(math.isfinite, scales[at:at + length])):
                bad.add(i)
            at += length
        found: List[Any] = [
            torch.full_like(gradient, math.nan if i in bad else 0.0, device="cpu") if i in self.residuals else
            gradient.cpu() for i, gradient in enumerate(gradients)]
        return self._allreduce.push(found, weight)
