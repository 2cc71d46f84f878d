# SPDX-License-Identifier: MIT
"""3-value quantization as torch operations, for devices without Triton: 3LC's sections 3.1 and 3.2.

All operations are those of the C library, in the same order and precision, so the bytes are, too.
"""
from __future__ import annotations

from typing import Iterator

import torch


def _rows(x: torch.Tensor, block: int) -> Iterator[torch.Tensor]:
    """Views of the blocks as rows: those that are whole, then the last one."""
    n = len(x)
    block = block or n
    whole = n // block * block if n else 0
    if whole:
        yield x[:whole].view(-1, block)
    if whole < n:
        yield x[whole:].view(1, -1)


def maxima(residual: torch.Tensor, gradient: torch.Tensor, block: int, found: torch.Tensor) -> None:
    """The largest magnitude of residual + gradient in each block; NaN if there is one.

    residual: n values, float32. gradient: n values, float32, float16 or bfloat16. block: values of a block; 0: all n.
    found: where the magnitudes go, ceil(n / block) values, float32, which are 0."""
    at = 0
    for rows in _rows(residual + gradient, block):
        found[at:at + len(rows)] = rows.abs_().amax(1)
        at += len(rows)


def quantize(residual: torch.Tensor, gradient: torch.Tensor, block: int, scales: torch.Tensor, rest: torch.Tensor,
             quartic: torch.Tensor) -> None:
    """Quantizes residual + gradient, whose magnitudes are finite.

    scales: what a symbol 1 stands for, one for each block, float32. rest: n values, float32: residual + gradient -
    symbols * scale. quartic: the bytes of each block, ceil(values / 5) of them."""
    torch.add(residual, gradient, out=rest)
    at = end = 0
    for rows in _rows(rest, block):
        scale = scales[at:at + len(rows)].unsqueeze(1)
        at += len(rows)
        threshold = scale / 2
        symbols = (rows > threshold).view(torch.int8) - (rows < -threshold).view(torch.int8)
        rows -= scale * symbols
        packed = _pack(symbols)
        quartic[end:end + len(packed)] = packed
        end += len(packed)


def _pack(symbols: torch.Tensor) -> torch.Tensor:
    """Quartic encoding of each row."""
    rows, n = symbols.shape
    length = -(-n // 5)
    digits = torch.zeros(rows, 5 * length, dtype=torch.uint8, device=symbols.device)
    digits[:, :n] = symbols + 1
    p = digits.view(rows, 5, length)
    return (81 * p[:, 0] + 27 * p[:, 1] + 9 * p[:, 2] + 3 * p[:, 3] + p[:, 4]).view(-1)
