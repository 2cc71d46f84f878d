# SPDX-License-Identifier: MIT
"""The tensors of a module, as the exchange takes them: flat, float32, on the CPU."""
from __future__ import annotations

import ctypes
from typing import Any, Dict

import torch

from .._arrays import View


def trained(module: Any) -> Dict[str, torch.Tensor]:
    """The parameters that are trained, by name."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def float_buffers(module: Any) -> Dict[str, torch.Tensor]:
    """The buffers that have a mean, such as the statistics of batch normalization."""
    return {name: b for name, b in module.named_buffers() if b.is_floating_point() and b.numel()}


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """A copy."""
    return tensor.detach().to("cpu", torch.float32, copy=True).reshape(-1)


def copied(memory: memoryview) -> torch.Tensor:
    """A copy of floats of the library."""
    tensor = torch.empty(len(memory))
    if len(memory):
        ctypes.memmove(tensor.data_ptr(), View(memory, False, "memory").address, memory.nbytes)
    return tensor


def assign(tensor: torch.Tensor, values: torch.Tensor) -> None:
    with torch.no_grad():
        tensor.copy_(values.view(tensor.shape))
