# SPDX-License-Identifier: MIT
"""What is computed where tensors are, as on a GPU: kernels in Triton, and the same as torch operations."""
from __future__ import annotations

import os
from importlib.util import find_spec

import torch


def bits_of(values: torch.Tensor) -> torch.Tensor:
    """The same memory as integers."""
    return values.view(torch.int16 if values.element_size() == 2 else torch.int32)


def has_triton(device: torch.device) -> bool:
    """Whether Triton is installed and runs kernels there: on GPUs of NVIDIA and AMD, and on the CPU in its interpreter,
    which TRITON_INTERPRET=1 chooses before the first import of triton."""
    there = device.type == "cuda" or device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
    return there and find_spec("triton") is not None
