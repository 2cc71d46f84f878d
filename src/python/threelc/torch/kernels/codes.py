# SPDX-License-Identifier: MIT
"""Codecs that send some bits for each value: natural, int8, qsgd and onebit. Their parameters, and their payloads.

src/docs/format.md draws payloads. Here a payload is a tensor of bytes on the device. The codes of a unit (a block, or
the tensor) are its planes; sweeps make them, and all that lies around them is made here.
"""
from __future__ import annotations

import struct
from ctypes import c_float
from typing import List, NamedTuple, Optional, Sequence

import torch

from ...codec_strings import quantizer_of
from ...quartic import block_count, compress_payload

CHUNK = 4096  # values whose sums are one, for means


def _octets(numbers: torch.Tensor) -> torch.Tensor:
    """The 4 bytes of each, the lowest first."""
    places = torch.arange(0, 32, 8, dtype=torch.int32, device=numbers.device)
    return (numbers.view(torch.int32).unsqueeze(-1) >> places & 255).to(torch.uint8)


def _floats(octets: torch.Tensor) -> torch.Tensor:
    """The reverse, of float32."""
    places = torch.arange(0, 32, 8, dtype=torch.int32, device=octets.device)
    return (octets.to(torch.int32) << places).sum(-1).to(torch.int32).view(torch.float32)


class Words(NamedTuple):
    """Which random words a frame has: those of Philox 4x32-10 with this seed and step, word i for value i."""

    seed: int
    step: int


class Codes(NamedTuple):
    """A codec."""

    codec: str
    name: str
    block: int
    """values of a block; 0: the tensor is one"""
    bits: int
    nearest: bool
    """not at random"""
    shift: int

    @classmethod
    def of(cls, codec: str) -> Optional[Codes]:
        """None: the codec is another one."""
        name, parameters = quantizer_of(codec)
        if name not in ("natural", "int8", "qsgd", "onebit"):
            return None
        bits = int(parameters.get("bits", 1 if name == "onebit" else 8))
        nearest = name == "int8" or parameters.get("rounding") == "nearest"
        return cls(codec, name, int(parameters.get("block", 0)), bits, nearest, int(parameters.get("shift", 0)))

    @property
    def random(self) -> bool:
        return self.name != "onebit" and not self.nearest

    # ---- what is measured before ----

    @property
    def measured_dtype(self) -> torch.dtype:
        return torch.float64 if self.name == "onebit" else torch.float32

    def measured(self, n: int) -> int:
        """How many numbers: the largest magnitude of each block; of onebit for each chunk of a block the sums of both
        sides, and how many values are 0 or more."""
        if self.name != "onebit":
            return block_count(n, self.block)
        whole, rest = divmod(n, self.block or n or 1)
        return 3 * (whole * -(-(self.block or n) // CHUNK) - (-rest // CHUNK))

    def scalars(self, measured: Sequence[float], n: int) -> List[float]:
        """What codes are made with: the largest magnitude of each block, or both means of each. One is not finite if
        a value is not."""
        if self.name != "onebit":
            return list(measured)
        found, at = [], 0
        for first in range(0, n, self.block or n or 1):
            length = min(self.block or n, n - first)
            end = at + 3 * -(-length // CHUNK)
            upper = int(_sum(measured[at + 2:end:3]))
            found += [_mean(_sum(measured[at:end:3]), upper), _mean(_sum(measured[at + 1:end:3]), length - upper)]
            at = end
        return found

    # ---- payloads ----

    @property
    def sent(self) -> int:
        """How many scalars of a block are sent."""
        return {"natural": 0, "int8": 1, "qsgd": 1, "onebit": 2}[self.name]

    @property
    def head(self) -> int:
        """Bytes before the planes of a unit: of natural the count of clipped exponents."""
        return 4 if self.name == "natural" else 0

    def unit_size(self, n: int) -> int:
        """Bytes of the payload of a block of n values."""
        signs = -(-n // 8) if self.bits == 9 else 0
        return self.head + -(-n * min(self.bits, 8) // 8) + signs

    def table_size(self, n: int) -> int:
        return (4 * self.sent + 4) * block_count(n, self.block) if self.block else 0

    def size(self, n: int) -> int:
        """Bytes of the payload of n values, with the table of blocks."""
        whole, rest = divmod(n, self.block or n or 1)
        return self.table_size(n) + whole * self.unit_size(self.block or n) + (self.unit_size(rest) if rest else 0)

    def planes(self, payload: torch.Tensor, n: int) -> torch.Tensor:
        """From the planes of the first unit on. Those of the next one are unit_size() bytes later."""
        return payload[self.table_size(n) + self.head:]

    def _table(self, payload: torch.Tensor, n: int) -> torch.Tensor:
        return payload[:self.table_size(n)].view(block_count(n, self.block), self.sent + 1, 4)

    def fill(self, payload: torch.Tensor, n: int, scalars: torch.Tensor, clipped: torch.Tensor) -> None:
        """Writes what is not in planes. scalars: float32. clipped: int32, of each block."""
        units, stride = block_count(n, self.block), self.unit_size(min(self.block or n, n))
        if self.block and n:
            table = self._table(payload, n)
            table[:, :-1] = _octets(scalars.view(units, -1)[:, :self.sent])
            lengths = torch.full((units,), stride, dtype=torch.int32, device=payload.device)
            lengths[-1] = self.unit_size(n - (units - 1) * self.block)
            table[:, -1] = _octets(lengths)
        if self.head and n:
            heads = payload[self.table_size(n):].as_strided((units, self.head), (stride, 1))
            heads.copy_(_octets(clipped))

    def read(self, payload: torch.Tensor, n: int, header: bytes) -> torch.Tensor:
        """The scalars of a frame that was checked. header: its bytes before the payload."""
        if self.block:
            return _floats(self._table(payload, n)[:, :-1]).view(-1)
        sent = self.sent if n else 0
        return torch.tensor(struct.unpack(f"<{sent}f", header[len(header) - 4 * sent:]), dtype=torch.float32,
                            device=payload.device)

    def frame(self, payload: torch.Tensor, scalars: Sequence[float], n: int, dtype: object,
              checksum: bool = False) -> bytes:
        """payload: on the host."""
        return compress_payload(payload, n, self.codec, () if self.block else scalars[:self.sent], dtype=dtype,
                                checksum=checksum)


def _sum(numbers: Sequence[float]) -> float:
    """In their order, each sum rounded: sum() of Python 3.12 is more precise."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def _mean(total: float, count: int) -> float:
    return c_float(total / count).value if count else 0.0
