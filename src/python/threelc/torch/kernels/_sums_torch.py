# SPDX-License-Identifier: MIT
"""Sums of 3-value symbols as torch operations, for devices without Triton."""
from __future__ import annotations

import torch

from ...quartic import block_count
from . import operations


def add(quartic: torch.Tensor, scales: torch.Tensor, block: int, out: torch.Tensor) -> None:
    """+0 + scale * symbol of the first piece, then of the next one and so on, each sum rounded to float32.

    quartic: the bytes of pieces, one after the other, each with the symbols of all values. scales: of each piece, one
    for each block, on the device. block: values of a block; 0: the tensor is one. out: where the sums go, at least one,
    float32."""
    out.zero_()
    if len(scales):
        values, blocks = torch.empty_like(out), block_count(len(out), block)
        for piece, scale in zip(quartic.view(len(scales) // blocks, -1), scales.split(blocks)):
            operations.decode(piece, scale, block, values)
            out += values
