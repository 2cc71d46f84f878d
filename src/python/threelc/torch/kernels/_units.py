# SPDX-License-Identifier: MIT
"""What weights are to deltas: integers."""
from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

import torch

from ..._arrays import DTypeLike, check_memory, weight_dtype_of
from ..._c import DType

BLOCK = 65536  # weights that have a payload of their own in a frame
_FLOATS = (DType.F32, DType.F16, DType.BF16, DType.F8_E4M3, DType.F8_E5M2, DType.F4_E2M1)
_INTEGERS = {4: torch.uint8, 8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}


class Unit(NamedTuple):
    """Of 4 bits two weights are in a byte, the first in the lower half. Of 64 bits the halves differ apart, as
    integers."""

    width: int
    is_float: bool
    """it orders as a float, once all bits but the sign are inverted where the sign is 1"""

    @property
    def in_a_byte(self) -> int:
        """Weights in an element of a tensor."""
        return 2 if self.width == 4 else 1

    @property
    def integer(self) -> torch.dtype:
        """An element of a tensor as an integer."""
        return _INTEGERS[self.width]


def unit_of(dtype: DType) -> Unit:
    """What weights of a dtype are."""
    return Unit(dtype.bits, dtype in _FLOATS)


def bits_of(tensor: torch.Tensor, dtype: Optional[DTypeLike], what: str) -> Tuple[torch.Tensor, Unit]:
    """The weights as integers, and what they are."""
    check_memory(tensor, what)
    unit = unit_of(weight_dtype_of(tensor.dtype if dtype is None else dtype))
    if not tensor.is_contiguous() or tensor.is_neg():
        raise ValueError(f"{what} is not contiguous, or has another sign than its memory; give a clone of it")
    if 8 * tensor.element_size() != max(unit.width, 8):
        raise TypeError(f"{what} has {tensor.dtype}, and weights of {unit.width} bits are needed")
    return tensor.detach().view(-1).view(unit.integer), unit
