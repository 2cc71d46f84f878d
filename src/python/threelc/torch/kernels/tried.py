# SPDX-License-Identifier: MIT
"""Kernels of Triton are tried on a device before they are used there."""
from __future__ import annotations

import warnings
from typing import Callable, TypeVar

import torch

from .usable import runs_triton

T = TypeVar("T")


def tried(device: torch.device, what: str, load: Callable[[], T], is_right: Callable[[T], bool], otherwise: T) -> T:
    """What `load` imports, if Triton runs on the device and is_right() says so; else `otherwise`, and a warning if
    Triton should have done. what: the kernels work on."""
    if not runs_triton(device):
        return otherwise
    reason = "they do not make what the host makes"
    try:
        loaded = load()
        if is_right(loaded):
            return loaded
    except Exception as error:  # of Triton, of its compilers or of the driver
        reason = f"{type(error).__name__}: {error}"
    warnings.warn(f"threelc: torch operations work on {what} on {device}, which takes longer, as Triton's kernels do "
                  f"not work there: {reason}", RuntimeWarning)
    return otherwise
