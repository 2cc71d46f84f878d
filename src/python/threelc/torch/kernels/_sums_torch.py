# SPDX-License-Identifier: MIT
"""Sums of 3-value symbols as torch operations, for devices without Triton."""
from __future__ import annotations

import torch

from . import operations


def add(quartic: torch.Tensor, scales: torch.Tensor, out: torch.Tensor) -> None:
    """+0 + scale * symbol of the first piece, then of the next one and so on, each sum rounded to float32.

    quartic: the bytes of pieces, one after the other, each with the symbols of all values. scales: of each piece, on
    the device. out: where the sums go, float32."""
    out.zero_()
    if len(scales):
        values = torch.empty_like(out)
        for piece, scale in zip(quartic.view(len(scales), -1), scales.split(1)):
            operations.decode(piece, scale, 0, values)
            out += values
