# SPDX-License-Identifier: MIT
"""Which sweeps make and decode codes on a device: Triton's kernels, if they make the bytes of the C library there."""
from __future__ import annotations

import math
from ctypes import c_float
from functools import lru_cache
from typing import Callable, List, NamedTuple, Optional, Tuple

import torch

from ...context import Context
from ...frames import decompress, decompress_add, peek
from ...quartic import block_count
from . import _codes_torch
from .choice import VALUES, tensors_of
from .codes import Codes, Words
from .operations import bits_of, rounded
from .tried import tried


class CodeSweeps(NamedTuple):
    """What goes over the values, as _codes_torch.py describes it."""

    measure: Callable[[Codes, Optional[torch.Tensor], torch.Tensor, torch.Tensor], None]
    encode: Callable[[Codes, Optional[torch.Tensor], torch.Tensor, torch.Tensor, Words, Optional[torch.Tensor],
                      torch.Tensor, torch.Tensor], None]
    decode: Callable[[Codes, torch.Tensor, torch.Tensor, torch.Tensor], None]
    add: Callable[[Codes, torch.Tensor, torch.Tensor, float, torch.Tensor], None]


OPERATIONS = CodeSweeps(_codes_torch.measure, _codes_torch.encode, _codes_torch.decode, _codes_torch.add)
CODECS = {"natural": ("natural", "natural:bits=9,shift=2,block=3001", "natural:rounding=nearest"),
          "int8": ("int8", "int8:block=701"), "qsgd": ("qsgd", "qsgd:bits=4,block=701"),
          "onebit": ("onebit:block=64", "onebit:block=5001")}  # of the check
WEIGHT = c_float(0.3).value  # of sums
WORDS = Words(0x8000000180000002, 0)  # what is signed somewhere would be negative


@lru_cache(maxsize=None)
def code_sweeps_for(device: torch.device, dtype: torch.dtype, name: str,
                    residual_dtype: torch.dtype = torch.float32) -> CodeSweeps:
    """As sweeps_for(), for codecs of this name."""
    def load() -> CodeSweeps:
        from . import _codes_triton  # imports triton
        return CodeSweeps(_codes_triton.measure, _codes_triton.encode, _codes_triton.decode, _codes_triton.add)

    return tried(device, "gradients", load, lambda sweeps: same_codes(sweeps, device, dtype, name, residual_dtype),
                 OPERATIONS)


def measured(sweeps: CodeSweeps, codes: Codes, residual: Optional[torch.Tensor],
             gradient: torch.Tensor) -> List[float]:
    """Scalars, for tensors on one device."""
    n = len(gradient)
    found = torch.zeros(codes.measured(n), dtype=codes.measured_dtype, device=gradient.device)
    sweeps.measure(codes, residual, gradient, found)
    return codes.scalars(found.tolist(), n)


def coded(sweeps: CodeSweeps, codes: Codes, residual: Optional[torch.Tensor], gradient: torch.Tensor,
          words: Words) -> Tuple[List[float], torch.Tensor, Optional[torch.Tensor]]:
    """Scalars, payload, and what is left, of values that are finite; the residual stays as it is."""
    device = gradient.device
    scalars = measured(sweeps, codes, residual, gradient)
    rest = None if residual is None else torch.empty_like(residual)
    payload = torch.empty(codes.size(len(gradient)), dtype=torch.uint8, device=device)
    encode(sweeps, codes, residual, gradient, torch.tensor(scalars, device=device), words, rest, payload)
    return scalars, payload, rest


def encode(sweeps: CodeSweeps, codes: Codes, residual: Optional[torch.Tensor], gradient: torch.Tensor,
           scalars: torch.Tensor, words: Words, rest: Optional[torch.Tensor], payload: torch.Tensor) -> None:
    """The whole payload."""
    n = len(gradient)
    clipped = torch.zeros(block_count(n, codes.block), dtype=torch.int32, device=gradient.device)
    sweeps.encode(codes, residual, gradient, scalars, words, rest, codes.planes(payload, n), clipped)
    codes.fill(payload, n, scalars, clipped)


def same_codes(sweeps: CodeSweeps, device: torch.device, dtype: torch.dtype, name: str,
               residual_dtype: torch.dtype) -> bool:
    """Whether frames, residuals, decoded values and sums are those of the C library, and what is not finite is
    found."""
    drawn = ((rounded(_HARD[name](), residual_dtype), torch.zeros(VALUES, dtype=dtype)),
             *tensors_of(dtype, residual_dtype))
    return all(all(_same(sweeps, codec, *tensors, device) for tensors in drawn) and
               _same(sweeps, codec, None, drawn[1][1], device) and
               all(_finds(sweeps, codec, value, device, dtype) for value in (math.nan, math.inf, -math.inf))
               for codec in CODECS[name])


def _close(chance: torch.Tensor) -> torch.Tensor:
    """Values so close to where a codec would go to the next level that another rounding of a quotient changes many.
    chance: how far that is above a level."""
    levels = torch.tensor([127.0, 7.0], dtype=torch.float64).repeat(VALUES)[:VALUES]  # those of 8 bits, and of 4
    whole = (torch.rand(VALUES, generator=torch.Generator().manual_seed(2)) * 2 - 1).double() * levels
    values = (1.7 * ((whole.floor() + chance) / levels)).float()
    values[::7] = 1.7  # the largest of each block
    return values


def _drawn() -> torch.Tensor:
    """Of values that go up at random."""
    return _close((_codes_torch.words_of(WORDS, VALUES, torch.device("cpu")) >> 8).double() * 2.0**-24)


def _middle() -> torch.Tensor:
    """Of those that go to the nearest level."""
    return _close(torch.full((VALUES,), 0.5, dtype=torch.float64))


def _ties() -> torch.Tensor:
    """Blocks of 64 in which the mean of 32 values is half way between two floats, but for two values so small that they
    are lost, unless they are added to each other first."""
    block = torch.tensor([1.0, 2.0**-24, 1.5 * 2.0**-54, 1.5 * 2.0**-54] + [0.0] * 28 + [-1.0] * 32)
    order = torch.rand(-(-VALUES // 64), 64, generator=torch.Generator().manual_seed(3)).argsort(1)
    return block[order].view(-1)[:VALUES]


_HARD = {"natural": _drawn, "int8": _middle, "qsgd": _drawn, "onebit": _ties}  # residuals


def _codes(codec: str) -> Codes:
    found = Codes.of(codec)
    assert found is not None
    return found


def _same(sweeps: CodeSweeps, codec: str, residual: Optional[torch.Tensor], gradient: torch.Tensor,
          device: torch.device) -> bool:
    codes, wanted = _codes(codec), None if residual is None else residual.to(torch.float32, copy=True)
    scalars, payload, rest = coded(sweeps, codes, None if residual is None else residual.to(device),
                                   gradient.to(device), WORDS)
    context = Context(VALUES, codec, gradient.dtype, residual=wanted, feedback=residual is not None, seed=WORDS.seed)
    frame = context.compress(gradient)
    if codes.frame(payload.cpu(), scalars, VALUES, gradient.dtype) != frame:
        return False
    sent = codes.planes(payload, VALUES), codes.read(payload, VALUES, frame[:peek(frame).header_size])
    decoded = torch.empty(VALUES, dtype=gradient.dtype, device=device)
    sweeps.decode(codes, *sent, decoded)
    wanted_sums = gradient.float().abs()
    sums = wanted_sums.to(device, copy=True)
    decompress_add(frame, wanted_sums, WEIGHT)
    sweeps.add(codes, *sent, WEIGHT, sums)
    is_same: bool = (
        torch.equal(bits_of(decoded.cpu()), bits_of(decompress(frame, torch.empty_like(gradient)))) and
        torch.equal(bits_of(sums.cpu()), bits_of(wanted_sums)))
    return is_same and (rest is None or wanted is None or
                        torch.equal(bits_of(rest.cpu()), bits_of(rounded(wanted, rest.dtype))))


def _finds(sweeps: CodeSweeps, codec: str, value: float, device: torch.device, dtype: torch.dtype) -> bool:
    """The value is one of the last block."""
    gradient = torch.ones(VALUES, dtype=dtype)
    gradient[-1] = value
    return not all(map(math.isfinite, measured(sweeps, _codes(codec), None, gradient.to(device))))
