# SPDX-License-Identifier: MIT
"""Which sweeps quantize on a device: Triton's kernels, if they make the bytes of the C library there."""
from __future__ import annotations

import math
import warnings
from functools import lru_cache
from typing import Callable, Iterator, List, NamedTuple, Tuple

import torch

from ...context import Context
from ...quartic import compress_quartic
from . import operations
from .quantizer import Quantizer
from .usable import runs_triton


class Sweeps(NamedTuple):
    """What goes over the values, as operations.py describes it."""

    maxima: Callable[[torch.Tensor, torch.Tensor, int, torch.Tensor], None]
    quantize: Callable[[torch.Tensor, torch.Tensor, int, torch.Tensor, torch.Tensor, torch.Tensor], None]


OPERATIONS = Sweeps(operations.maxima, operations.quantize)
CODECS = ("3lc:s=1.75", "ternary:block=7+quartic")  # of the check
VALUES = 9001  # several programs of each kernel, and one that is not whole


@lru_cache(maxsize=None)
def sweeps_for(device: torch.device, dtype: torch.dtype) -> Sweeps:
    """dtype: of gradients. Compiles Triton's kernels and checks them at the first call for a device. If they cannot be
    used though Triton is there, a warning says so."""
    if not runs_triton(device):
        return OPERATIONS
    reason = "results are not those of IEEE 754 arithmetic"
    try:
        from . import ternary  # imports triton
        sweeps = Sweeps(ternary.maxima, ternary.quantize)
        if same_bits(sweeps, device, dtype):
            return sweeps
    except Exception as error:  # of Triton, of its compilers or of the driver
        reason = f"{type(error).__name__}: {error}"
    warnings.warn(f"threelc: gradients on {device} are quantized by torch operations, which takes longer, as Triton's "
                  f"kernels do not work there: {reason}", RuntimeWarning)
    return OPERATIONS


def quantized(sweeps: Sweeps, quantizer: Quantizer, residual: torch.Tensor,
              gradient: torch.Tensor) -> Tuple[List[float], torch.Tensor, torch.Tensor]:
    """Scales, quartic bytes, and what is left, for tensors on one device; residual stays as it is. Of a block that is
    not finite the scale is not finite, either, and its bytes mean nothing."""
    n, device = len(residual), residual.device
    found = torch.zeros(quantizer.blocks(n), device=device)
    sweeps.maxima(residual, gradient, quantizer.block, found)
    scales = quantizer.scales(found.tolist())
    rest = torch.empty_like(residual)
    quartic = torch.empty(quantizer.quartic_bytes(n), dtype=torch.uint8, device=device)
    sweeps.quantize(residual, gradient, quantizer.block, torch.tensor(scales, device=device), rest, quartic)
    return scales, quartic, rest


def same_bits(sweeps: Sweeps, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether frames and residuals are those of the C library, and values that are not finite are found."""
    return all(all(_same(sweeps, codec, *tensors, device) for tensors in _tensors(dtype)) and
               all(_finds(sweeps, codec, value, device, dtype) for value in (math.nan, math.inf, -math.inf))
               for codec in CODECS)


def _tensors(dtype: torch.dtype) -> Iterator[Tuple[torch.Tensor, torch.Tensor]]:
    """Residuals and gradients. Bits of subnormals are drawn as integers, as this thread may flush them to 0."""
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


def _there(sweeps: Sweeps, codec: str, residual: torch.Tensor, gradient: torch.Tensor,
           device: torch.device) -> Tuple[List[float], torch.Tensor, torch.Tensor]:
    quantizer = Quantizer.of(codec)
    assert quantizer is not None
    return quantized(sweeps, quantizer, residual.to(device), gradient.to(device))


def _same(sweeps: Sweeps, codec: str, residual: torch.Tensor, gradient: torch.Tensor, device: torch.device) -> bool:
    scales, quartic, rest = _there(sweeps, codec, residual, gradient, device)
    wanted = residual.clone()
    frame = Context(VALUES, codec, gradient.dtype, residual=wanted).compress(gradient)
    return (compress_quartic(quartic.cpu(), scales, VALUES, codec, dtype=gradient.dtype) == frame and
            torch.equal(rest.cpu().view(torch.int32), wanted.view(torch.int32)))


def _finds(sweeps: Sweeps, codec: str, value: float, device: torch.device, dtype: torch.dtype) -> bool:
    """The value is one of the last block."""
    gradient = torch.ones(VALUES, dtype=dtype)
    gradient[-1] = value
    scales, _, _ = _there(sweeps, codec, torch.zeros(VALUES), gradient, device)
    return not math.isfinite(scales[-1])
