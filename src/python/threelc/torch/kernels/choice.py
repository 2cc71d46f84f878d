# SPDX-License-Identifier: MIT
"""Which sweeps quantize on a device: Triton's kernels, if they make the bytes of the C library there."""
from __future__ import annotations

import math
from functools import lru_cache
from typing import Callable, Iterator, List, NamedTuple, Tuple

import torch

from ...context import Context
from ...frames import decompress
from ...quartic import block_count, compress_quartic, quartic_bytes
from . import operations
from .operations import bits_of, rounded
from .quantizer import Quantizer
from .tried import tried


class Sweeps(NamedTuple):
    """What goes over the values, as operations.py describes it."""

    maxima: Callable[[torch.Tensor, torch.Tensor, int, torch.Tensor], None]
    quantize: Callable[[torch.Tensor, torch.Tensor, int, torch.Tensor, torch.Tensor, torch.Tensor], None]
    decode: Callable[[torch.Tensor, torch.Tensor, int, torch.Tensor], None]


OPERATIONS = Sweeps(operations.maxima, operations.quantize, operations.decode)
CODECS = ("3lc:s=1.75", "ternary:block=7+quartic")  # of the check
VALUES = 9001  # several programs of each kernel, and one that is not whole


@lru_cache(maxsize=None)
def sweeps_for(device: torch.device, dtype: torch.dtype, residual_dtype: torch.dtype = torch.float32) -> Sweeps:
    """dtype: of gradients. Compiles Triton's kernels and checks them at the first call for a device. If they cannot be
    used though Triton is there, a warning says so."""
    def load() -> Sweeps:
        from . import ternary  # imports triton
        return Sweeps(ternary.maxima, ternary.quantize, ternary.decode)

    return tried(device, "gradients", load, lambda sweeps: same_bits(sweeps, device, dtype, residual_dtype),
                 OPERATIONS)


def quantized(sweeps: Sweeps, quantizer: Quantizer, residual: torch.Tensor,
              gradient: torch.Tensor) -> Tuple[List[float], torch.Tensor, torch.Tensor]:
    """Scales, quartic bytes, and what is left, for tensors on one device; residual stays as it is. Of a block that is
    not finite the scale is not finite, either, and its bytes mean nothing."""
    n, device = len(residual), residual.device
    found = torch.zeros(block_count(n, quantizer.block), device=device)
    sweeps.maxima(residual, gradient, quantizer.block, found)
    scales = quantizer.scales(found.tolist())
    rest = torch.empty_like(residual)
    quartic = torch.empty(quartic_bytes(n, quantizer.block), dtype=torch.uint8, device=device)
    sweeps.quantize(residual, gradient, quantizer.block, torch.tensor(scales, device=device), rest, quartic)
    return scales, quartic, rest


def same_bits(sweeps: Sweeps, device: torch.device, dtype: torch.dtype, residual_dtype: torch.dtype) -> bool:
    """Whether frames, residuals and decoded values are those of the C library, and what is not finite is found."""
    return all(all(_same(sweeps, codec, *tensors, device) for tensors in tensors_of(dtype, residual_dtype)) and
               all(_finds(sweeps, codec, value, device, dtype) for value in (math.nan, math.inf, -math.inf))
               for codec in CODECS)


def tensors_of(dtype: torch.dtype, residual_dtype: torch.dtype) -> Iterator[Tuple[torch.Tensor, torch.Tensor]]:
    """Residuals and gradients."""
    for residual, gradient in _drawn(dtype):
        yield rounded(residual, residual_dtype), gradient


def _drawn(dtype: torch.dtype) -> Iterator[Tuple[torch.Tensor, torch.Tensor]]:
    """Bits of subnormals are drawn as integers, as this thread may flush them to 0."""
    generator = torch.Generator().manual_seed(1)

    def drawn(low: int, high: int) -> torch.Tensor:
        return torch.randint(low, high, (VALUES,), generator=generator)

    def of_all_sizes() -> torch.Tensor:
        """Sums of two of them are rounded, so that another order of sums, or more precision, changes bits."""
        return torch.ldexp(torch.randn(VALUES, generator=generator), drawn(-12, 3))

    yield of_all_sizes(), of_all_sizes().to(dtype)
    yield drawn(-4, 5) / 8, (drawn(-4, 5) / 8).to(dtype)  # ties
    signs = drawn(0, 2)
    yield (drawn(0, 1 << 22) - (signs << 31)).to(torch.int32).view(torch.float32), torch.zeros(VALUES, dtype=dtype)
    if dtype == torch.float32:
        yield torch.zeros(VALUES), (drawn(0, 1 << 22) - (signs << 31)).to(torch.int32).view(dtype)
    else:
        yield torch.zeros(VALUES), (drawn(0, 1 << 7) - (signs << 15)).to(torch.int16).view(dtype)


def _quantizer(codec: str) -> Quantizer:
    found = Quantizer.of(codec)
    assert found is not None
    return found


def _same(sweeps: Sweeps, codec: str, residual: torch.Tensor, gradient: torch.Tensor, device: torch.device) -> bool:
    quantizer = _quantizer(codec)
    scales, quartic, rest = quantized(sweeps, quantizer, residual.to(device), gradient.to(device))
    decoded = torch.empty(VALUES, dtype=gradient.dtype, device=device)
    sweeps.decode(quartic, torch.tensor(scales, device=device), quantizer.block, decoded)
    wanted = residual.to(torch.float32, copy=True)
    frame = Context(VALUES, codec, gradient.dtype, residual=wanted).compress(gradient)
    return (compress_quartic(quartic.cpu(), scales, VALUES, codec, dtype=gradient.dtype) == frame and
            torch.equal(bits_of(rest.cpu()), bits_of(rounded(wanted, rest.dtype))) and
            torch.equal(bits_of(decoded.cpu()), bits_of(decompress(frame, torch.empty_like(gradient)))))


def _finds(sweeps: Sweeps, codec: str, value: float, device: torch.device, dtype: torch.dtype) -> bool:
    """The value is one of the last block."""
    gradient = torch.ones(VALUES, dtype=dtype)
    gradient[-1] = value
    scales, _, _ = quantized(sweeps, _quantizer(codec), torch.zeros(VALUES, device=device), gradient.to(device))
    return not math.isfinite(scales[-1])
