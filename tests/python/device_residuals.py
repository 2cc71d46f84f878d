# SPDX-License-Identifier: MIT
"""Residuals of the C library as a device keeps them."""
import torch


def kept(residual, dtype):
    """float32 values in a dtype. bfloat16 is made of bits: half to even, and at most its largest number."""
    if dtype == torch.float32:
        return residual
    bits = residual.view(torch.int32).long()
    magnitude = bits & 0x7fffffff
    half = ((magnitude + 0x7fff + (magnitude >> 16 & 1)) >> 16).clamp(max=0x7f7f)
    return torch.where(bits < 0, half - 0x8000, half).to(torch.int16).view(torch.bfloat16)
