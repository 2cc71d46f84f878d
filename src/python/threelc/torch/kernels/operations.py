# SPDX-License-Identifier: MIT
"""3-value quantization as torch operations, for devices without Triton: 3LC's sections 3.1 and 3.2.

All operations are those of the C library, in the same order and precision, so the bytes are, too.
"""
from __future__ import annotations

from typing import Iterator, Optional

import torch


def rows_of(x: torch.Tensor, block: int) -> Iterator[torch.Tensor]:
    """Views of the blocks as rows: those that are whole, then the last one."""
    n = len(x)
    block = block or n
    whole = n // block * block if n else 0
    if whole:
        yield x[:whole].view(-1, block)
    if whole < n:
        yield x[whole:].view(1, -1)


def summed(residual: Optional[torch.Tensor], gradient: torch.Tensor) -> torch.Tensor:
    """residual + gradient in float32, new; residual None: the gradient."""
    return gradient.to(torch.float32, copy=True) if residual is None else residual.float() + gradient


def summed_for(rest: Optional[torch.Tensor], residual: Optional[torch.Tensor], gradient: torch.Tensor) -> torch.Tensor:
    """The same, in the memory of rest if that is float32."""
    if residual is None or rest is None or rest.dtype != torch.float32:
        return summed(residual, gradient)
    return torch.add(residual, gradient, out=rest)


def rounded(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """values, float32 and finite, as a residual of this dtype, rounded half to even. For bfloat16 what is above its
    largest number becomes that: an infinity would never leave a residual."""
    return values if dtype == torch.float32 else values.to(dtype).nan_to_num_()


def maxima(residual: Optional[torch.Tensor], gradient: torch.Tensor, block: int, found: torch.Tensor) -> None:
    """The largest magnitude of residual + gradient in each block; NaN if there is one.

    residual: n values, float32 or bfloat16; None: 0. gradient: n values, float32, float16 or bfloat16. block: values of
    a block; 0: all n. found: where the magnitudes go, ceil(n / block) values, float32, which are 0."""
    at = 0
    for rows in rows_of(summed(residual, gradient), block):
        found[at:at + len(rows)] = rows.abs_().amax(1)
        at += len(rows)


def quantize(residual: torch.Tensor, gradient: torch.Tensor, block: int, scales: torch.Tensor, rest: torch.Tensor,
             quartic: torch.Tensor) -> None:
    """Quantizes residual + gradient, whose magnitudes are finite.

    scales: what a symbol 1 stands for, one for each block, float32. rest: n values of the residual's dtype: residual +
    gradient - symbols * scale, in float32, then rounded half to even. quartic: the bytes of each block, ceil(values /
    5) of them."""
    x = summed_for(rest, residual, gradient)
    at = end = 0
    for rows in rows_of(x, block):
        scale = scales[at:at + len(rows)].unsqueeze(1)
        at += len(rows)
        threshold = scale / 2
        symbols = (rows > threshold).view(torch.int8) - (rows < -threshold).view(torch.int8)
        rows -= scale * symbols
        packed = _pack(symbols)
        quartic[end:end + len(packed)] = packed
        end += len(packed)
    if x is not rest:
        rest.copy_(rounded(x, rest.dtype))


def _pack(symbols: torch.Tensor) -> torch.Tensor:
    """Quartic encoding of each row."""
    rows, n = symbols.shape
    length = -(-n // 5)
    digits = torch.zeros(rows, 5 * length, dtype=torch.uint8, device=symbols.device)
    digits[:, :n] = symbols + 1
    p = digits.view(rows, 5, length)
    return (81 * p[:, 0] + 27 * p[:, 1] + 9 * p[:, 2] + 3 * p[:, 3] + p[:, 4]).view(-1)


def bits_of(values: torch.Tensor) -> torch.Tensor:
    """The same memory as integers."""
    return values.view(torch.int16 if values.element_size() == 2 else torch.int32)


def decode(quartic: torch.Tensor, scales: torch.Tensor, block: int, out: torch.Tensor) -> None:
    """The values of symbols. Bits are chosen, not computed, so that nothing is flushed to 0.

    quartic, block, scales: as in quantize(). out: n values, float32, float16 or bfloat16."""
    bits = bits_of(scales.to(out.dtype)).unsqueeze(1)
    powers = torch.tensor([81, 27, 9, 3, 1], dtype=torch.uint8, device=quartic.device).view(1, 5, 1)
    at = end = 0
    for rows in rows_of(bits_of(out), block):
        count, n = rows.shape
        length = -(-n // 5)
        packed = quartic[end:end + count * length].view(count, 1, length)
        digits = torch.div(packed, powers, rounding_mode="floor").remainder_(3).view(count, -1)[:, :n]
        scale = bits[at:at + count]
        negative = scale ^ torch.iinfo(scale.dtype).min
        rows.copy_(torch.where(digits == 2, scale, torch.where(digits == 0, negative, torch.zeros_like(scale))))
        at += count
        end += count * length
