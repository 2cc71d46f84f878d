# SPDX-License-Identifier: MIT
"""Where Triton runs."""
from __future__ import annotations

import importlib.util
import os

import torch

_INSTALLED = importlib.util.find_spec("triton") is not None
_INTERPRETED = os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes", "y")  # as Triton reads it
_OLDEST = (7, 0)  # the compute capability from which on PyTorch uses Triton


def runs_triton(device: torch.device) -> bool:
    """Whether kernels of Triton take tensors of this device. Where TRITON_INTERPRET is set, those of the CPU."""
    if not _INSTALLED or device.type != ("cpu" if _INTERPRETED else "cuda"):
        return False
    return _INTERPRETED or torch.version.hip is not None or torch.cuda.get_device_capability(device) >= _OLDEST
