# SPDX-License-Identifier: MIT
"""How tensors on a device become frames, whatever the codec: what is measured of them, scalars, bytes, frames."""
from __future__ import annotations

import math
from functools import lru_cache, partial
from itertools import chain, islice
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import torch

from ...codec_strings import stages_of
from ...quartic import block_count, compress_payload, compress_quartic, quartic_bytes
from . import golomb, members, zerorun
from .choice import sweeps_for
from .code_choice import code_sweeps_for, encode
from .codes import Codes, Words
from .quantizer import Quantizer
from .selector import Selector

AnyQuantizer = Union[Quantizer, Codes, Selector]
Values = Tuple[Optional[torch.Tensor], torch.Tensor]
"""a residual, or None, and a gradient"""


class TernaryWay:
    """Of codecs of 3-value symbols, which keep residuals."""

    def __init__(self, quantizer: Quantizer, device: torch.device, dtype: torch.dtype,
                 residual_dtype: torch.dtype) -> None:
        """dtype: of the gradients."""
        self._quantizer = quantizer
        self._sweeps = sweeps_for(device, dtype, residual_dtype)
        stages = () if quantizer.block else stages_of(quantizer.codec)
        self._payloads: Optional[Callable[..., Sequence[torch.Tensor]]] = None  # if the device makes them
        if stages == ("quartic", "zerorun"):
            self._payloads = partial(zerorun.payloads, zerorun.zero_runs_for(device))
        elif stages == ("golomb",):
            self._payloads = partial(golomb.payloads, golomb.codes_for(device))
        self.measured_dtype = torch.float32

    def measured(self, n: int) -> int:
        """How many numbers measure() finds for n values."""
        return block_count(n, self._quantizer.block)

    def measure(self, residual: Optional[torch.Tensor], gradient: torch.Tensor, found: torch.Tensor) -> None:
        """found: zeros of measured_dtype."""
        self._sweeps.maxima(residual, gradient, self._quantizer.block, found)

    def scalars(self, measured: Sequence[float], n: int) -> List[float]:
        """What values are encoded with. One is not finite if they cannot be sent."""
        return self._quantizer.scales(measured)

    def size(self, n: int) -> int:
        """How many bytes encode() makes of n values."""
        return quartic_bytes(n, self._quantizer.block)

    def encode(self, residual: Optional[torch.Tensor], gradient: torch.Tensor, scalars: torch.Tensor, words: Words,
               rest: Optional[torch.Tensor], made: torch.Tensor) -> None:
        """made: the bytes. rest: what is not sent; None: there is no residual. words: for codecs that round at
        random."""
        assert residual is not None and rest is not None  # these codecs keep one
        self._sweeps.quantize(residual, gradient, self._quantizer.block, scalars, rest, made)

    def frames(self, made: torch.Tensor, scalars: Sequence[Sequence[float]], ns: Sequence[int],
               dtype: Any) -> List[bytes]:
        """made: the bytes of some tensors, one after the other. scalars, ns: of each. dtype: of the gradients."""
        codec = self._quantizer.codec
        if self._payloads is None:
            pieces = on_host(made).split([self.size(n) for n in ns])
            return [compress_quartic(piece, scales, n, codec, dtype=dtype)
                    for piece, scales, n in zip(pieces, scalars, ns)]
        return [compress_payload(payload, n, codec, scales, dtype=dtype)
                for payload, scales, n in zip(self._payloads(made, tuple(ns), on_host), scalars, ns)]


class CodesWay:
    """The same of natural, int8, qsgd and onebit."""

    def __init__(self, codes: Codes, device: torch.device, dtype: torch.dtype, residual_dtype: torch.dtype) -> None:
        self._codes = codes
        self._sweeps = code_sweeps_for(device, dtype, codes.name, residual_dtype)
        self.measured_dtype, self.measured = codes.measured_dtype, codes.measured
        self.scalars, self.size = codes.scalars, codes.size

    def measure(self, residual: Optional[torch.Tensor], gradient: torch.Tensor, found: torch.Tensor) -> None:
        self._sweeps.measure(self._codes, residual, gradient, found)

    def encode(self, residual: Optional[torch.Tensor], gradient: torch.Tensor, scalars: torch.Tensor, words: Words,
               rest: Optional[torch.Tensor], made: torch.Tensor) -> None:
        encode(self._sweeps, self._codes, residual, gradient, scalars, words, rest, made)

    def frames(self, made: torch.Tensor, scalars: Sequence[Sequence[float]], ns: Sequence[int],
               dtype: Any) -> List[bytes]:
        return [self._codes.frame(piece, numbers, n, dtype)
                for piece, numbers, n in zip(on_host(made).split([self.size(n) for n in ns]), scalars, ns)]


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """A copy, in memory that a GPU reaches without another copy."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
    return host.copy_(tensor)


def floats_on_device(numbers: Sequence[Sequence[float]], device: torch.device) -> Sequence[torch.Tensor]:
    """Lists of floats, each as a tensor, in one crossing."""
    there = torch.tensor(list(chain(*numbers)), dtype=torch.float32, device=device)
    found: Sequence[torch.Tensor] = there.split(list(map(len, numbers)))
    return found


def quantizer_for(codec: str, device: torch.device) -> Optional[AnyQuantizer]:
    """None: only the C library does this codec, or only it has the binary64 that it needs."""
    codes = Codes.of(codec)
    if codes is not None and codes.measured_dtype == torch.float64 and device.type == "mps":
        return None
    return Quantizer.of(codec) or codes or Selector.of(codec)


def scalars_of(way: Union[TernaryWay, CodesWay], values: Sequence[Values],
               device: torch.device) -> List[Sequence[float]]:
    """The scalars of residuals and gradients. The host waits once."""
    counts = [way.measured(len(gradient)) for _, gradient in values]
    found = torch.zeros(sum(counts), dtype=way.measured_dtype, device=device)
    for tensors, piece in zip(values, found.split(counts)):
        way.measure(*tensors, piece)
    numbers = iter(found.tolist())
    return [way.scalars(list(islice(numbers, count)), len(gradient)) for count, (_, gradient) in zip(counts, values)]


class Coding:
    """Some tensors on a device that become frames of 3-value symbols or codes. The host waits once to measure them."""

    def __init__(self, way: Union[TernaryWay, CodesWay], values: Sequence[Values], words: Sequence[Words],
                 device: torch.device) -> None:
        self._way, self._values, self._words, self._device = way, values, words, device
        self._scalars = scalars_of(way, values, device)
        self.finite = [all(map(math.isfinite, scalars)) for scalars in self._scalars]
        """of each, whether it can be sent"""

    def frames(self, rests: Sequence[Optional[torch.Tensor]], dtype: Any) -> List[bytes]:
        """If all are finite. rests: become what is not sent; None: there is no residual. dtype: of gradients."""
        ns = [len(gradient) for _, gradient in self._values]
        sizes = list(map(self._way.size, ns))
        made = torch.empty(sum(sizes), dtype=torch.uint8, device=self._device)
        for tensors, scalars, words, rest, piece in zip(self._values, floats_on_device(self._scalars, self._device),
                                                        self._words, rests, made.split(sizes)):
            self._way.encode(*tensors, scalars, words, rest, piece)
        return self._way.frames(made, self._scalars, ns, dtype)


class Choosing:
    """The same of topk, sparse-binary and random-sparse."""

    def __init__(self, selector: Selector, values: Sequence[Values], words: Sequence[Words], device: torch.device,
                 dtype: torch.dtype, residual_dtype: torch.dtype) -> None:
        self._selector, self._values = selector, values
        self._sweeps = members.sweeps_for(device, dtype, residual_dtype)
        self._measured = [members.measure(self._sweeps, selector, *tensors, *words_of)
                          for tensors, words_of in zip(values, words)]
        self._found = torch.stack([each.found for each in self._measured]).tolist()
        self.finite = [members.is_finite(selector, numbers) for numbers in self._found]

    def frames(self, rests: Sequence[Optional[torch.Tensor]], dtype: Any) -> List[bytes]:
        chosen = [members.take(self._sweeps, self._selector, *tensors, measured, numbers, rest)
                  for tensors, measured, numbers, rest in zip(self._values, self._measured, self._found, rests)]
        return members.frames(self._selector, chosen, dtype, to_host=on_host)


def coding_of(quantizer: AnyQuantizer, values: Sequence[Values], words: Sequence[Words], device: torch.device,
              residual_dtype: torch.dtype = torch.float32) -> Union[Coding, Choosing]:
    """values: at least one residual with its gradient, of at least one value. words: of each."""
    dtype = values[0][1].dtype
    if isinstance(quantizer, Selector):
        return Choosing(quantizer, values, words, device, dtype, residual_dtype)
    return Coding(way_of(quantizer, device, dtype, residual_dtype), values, words, device)


@lru_cache(maxsize=None)
def way_of(quantizer: Union[Quantizer, Codes], device: torch.device, dtype: torch.dtype,
           residual_dtype: torch.dtype = torch.float32) -> Union[TernaryWay, CodesWay]:
    """Compiles and checks kernels at the first call, as sweeps_for() does."""
    if isinstance(quantizer, Quantizer):
        return TernaryWay(quantizer, device, dtype, residual_dtype)
    return CodesWay(quantizer, device, dtype, residual_dtype)
