# SPDX-License-Identifier: MIT
"""The quantizer of a codec of 3-value symbols: its parameters, and what they make of sizes and scales."""
from __future__ import annotations

import struct
from ctypes import c_float
from fractions import Fraction
from typing import List, NamedTuple, Optional, Sequence

from ...codec_strings import quantizer_of


def _nearest(text: str) -> float:
    """The binary32 nearest to a positive number; of two the even one, as the C library reads it."""
    bits, = struct.unpack("<i", struct.pack("<f", float(text)))
    near = [(struct.unpack("<f", struct.pack("<i", b))[0], b % 2) for b in (bits - 1, bits, bits + 1)]
    return float(min(near, key=lambda item: (abs(Fraction(item[0]) - Fraction(text)), item[1]))[0])


class Quantizer(NamedTuple):
    """Of 3-value symbols."""

    codec: str
    multiplier: float
    block: int
    """values of a block; 0: the tensor is one"""

    @classmethod
    def of(cls, codec: str) -> Optional[Quantizer]:
        """None: the codec is another one."""
        name, parameters = quantizer_of(codec)
        if name != "ternary":
            return None
        return cls(codec, _nearest(parameters.get("s", "1")), int(parameters.get("block", 0)))

    def blocks(self, n: int) -> int:
        """How many blocks n values have."""
        return -(-n // (self.block or n or 1))

    def quartic_bytes(self, n: int) -> int:
        """How many bytes their symbols have."""
        whole, rest = divmod(n, self.block or n or 1)
        return whole * -(-(self.block or n) // 5) - (-rest // 5)

    def scales(self, maxima: Sequence[float]) -> List[float]:
        """M = s * max|x|, rounded once, as floats are multiplied."""
        return [c_float(self.multiplier * largest).value for largest in maxima]
