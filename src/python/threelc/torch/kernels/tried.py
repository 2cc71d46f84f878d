# SPDX-License-Identifier: MIT
"""Kernels of Triton are tried on a device before they are used there."""
from __future__ import annotations

import warnings
from typing import Any, Callable

import torch

from .usable import runs_triton


def tried(device: torch.device, load: Callable[[], Any], is_right: Callable[[Any], bool], otherwise: Any) -> Any:
    """What `load` imports, if Triton runs on the device and is_right() says so; else `otherwise`, and a warning if
    Triton should have done."""
    if not runs_triton(device):
        return otherwise
    reason = "they do not make what the host makes"
    try:
        loaded = load()
        if is_right(loaded):
            return loaded
    except Exception as error:  # of Triton, of its compilers or of the driver
        reason = f"{type(error).__name__}: {error}"
    warnings.warn(f"threelc: deltas of weights on {device} are made by torch operations, which takes longer, as "
                  f"Triton's kernels do not work there: {reason}", RuntimeWarning)
    return otherwise
