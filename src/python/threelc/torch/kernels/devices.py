# SPDX-License-Identifier: MIT
"""On which devices Triton's kernels run."""
from __future__ import annotations

import os
from importlib.util import find_spec

import torch


def has_triton(device: torch.device) -> bool:
    """Whether Triton is installed and runs kernels there: on GPUs of NVIDIA and AMD, and on the CPU in its interpreter,
    which TRITON_INTERPRET=1 chooses before the first import of triton."""
    there = device.type == "cuda" or device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
    return there and find_spec("triton") is not None
