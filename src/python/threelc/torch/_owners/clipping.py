# SPDX-License-Identifier: MIT
"""Clips the means of all owners by their norm together."""
from __future__ import annotations

import math
import struct
from typing import Sequence

import torch

from .._common.transport import Transport

_SQUARES = struct.Struct("<d")


def clip(means: Sequence[torch.Tensor], max_norm: float, transport: Transport) -> float:
    """As torch.nn.utils.clip_grad_norm_ does. means: of this rank; all are on one device. Returns the norm before."""
    squares = torch.stack([mean.double().pow(2).sum() for mean in means]).tolist() if means else []
    total = sum(_SQUARES.unpack(bytes(said.tolist()))[0]
                for said in transport.all_gather(memoryview(_SQUARES.pack(sum(squares)))))
    norm = math.sqrt(total)
    factor = max_norm / (norm + 1e-6)
    if factor < 1:
        for mean in means:
            mean.mul_(factor)
    return norm
