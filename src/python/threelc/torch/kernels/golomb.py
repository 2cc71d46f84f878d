# SPDX-License-Identifier: MIT
"""Golomb codes of 3-value symbols on a device: they cross the bus, not the quartic bytes, unless these are not more.
Triton's kernels make them, if they make the bytes of the C library there."""
from __future__ import annotations

from functools import lru_cache
from typing import Callable, List, Tuple

import torch

from ...quartic import compress_quartic
from . import _golomb_torch
from ._golomb_torch import parameter
from .tried import tried
from .zerorun import payload_of

GolombCodes = Callable[[torch.Tensor, Tuple[int, ...]], Tuple[torch.Tensor, torch.Tensor]]
"""As _golomb_torch.py describes it."""
OPERATIONS: GolombCodes = _golomb_torch.codes


@lru_cache(maxsize=None)
def codes_for(device: torch.device) -> GolombCodes:
    """Compiles Triton's kernels and checks them at the first call for a device. If they cannot be used though Triton is
    there, a warning says so."""
    def load() -> GolombCodes:
        from . import _golomb_triton  # imports triton
        return _golomb_triton.codes

    return tried(device, "3-value symbols", load, lambda codes: same_bytes(codes, device), OPERATIONS)


def payloads(codes: GolombCodes, quartic: torch.Tensor, ns: Tuple[int, ...],
             to_host: Callable[[torch.Tensor], torch.Tensor]) -> List[torch.Tensor]:
    """As those of zerorun.py."""
    coded, found = codes(quartic, ns)
    sizes, heads, parts = [-(-n // 5) for n in ns], [], []
    for n, (k, bits), plain, codes_of_it in zip(ns, found.tolist(), quartic.split(sizes), coded.split(sizes)):
        head, size = _varint(k) + bytes([parameter(k, n)]), -(-bits // 8)
        is_shorter = len(head) + size < len(plain)
        heads.append((head, bits % 8) if is_shorter else (b"", 0))
        parts.append(codes_of_it[:size] if is_shorter else plain)
    made = to_host(torch.cat([quartic[:0], *parts])).split(list(map(len, parts)))
    return [_whole(*head, part) for head, part in zip(heads, made)]


def _whole(head: bytes, bits: int, codes: torch.Tensor) -> torch.Tensor:
    """A payload. bits: of the last byte, those after which there are none; 0: all are codes."""
    if bits:
        codes[-1] &= -1 << 8 - bits & 255
    return torch.cat([torch.frombuffer(bytearray(head), dtype=torch.uint8), codes]) if head else codes


def _varint(number: int) -> bytes:
    """LEB128."""
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


def same_bytes(codes: GolombCodes, device: torch.device) -> bool:
    """Whether payloads are those of the C library."""
    pieces, ns = zip(*_pieces())
    made = payloads(codes, torch.cat(pieces).to(device), ns, torch.Tensor.cpu)
    return [piece.tolist() for piece in made] == [
        list(payload_of(compress_quartic(piece, [1.0], n, "3lc-golomb"))) for piece, n in zip(pieces, ns)]


def _pieces() -> List[Tuple[torch.Tensor, int]]:
    """Quartic bytes, and how many symbols they have: many of them 0, few, all and none; and a long distance."""
    generator = torch.Generator().manual_seed(1)
    found = []
    for n, share, first in ((3001, 0.01, 0), (1, 0, 0), (400, 1, 0), (11003, 0.1, 0), (1500, 0.3, 1100)):
        symbols = torch.randint(0, 2, (n,), generator=generator, dtype=torch.uint8) * 2
        symbols[torch.rand(n, generator=generator) >= share] = 1
        symbols[:first] = 1
        digits = torch.zeros(5 * -(-n // 5), dtype=torch.uint8)
        digits[:n] = symbols
        found.append(((digits.view(5, -1) * torch.tensor([[81], [27], [9], [3], [1]], dtype=torch.uint8)).sum(
            0, dtype=torch.uint8), n))
    return found
