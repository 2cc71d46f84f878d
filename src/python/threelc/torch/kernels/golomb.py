# SPDX-License-Identifier: MIT
"""Golomb codes of 3-value symbols on a device: they cross the bus, not the quartic bytes, unless these are not more.
Triton's kernels make and expand them, if they make the bytes of the C library there."""
from __future__ import annotations

from functools import lru_cache
from typing import Callable, List, NamedTuple, Sequence, Tuple, Union

import torch

from ...quartic import compress_quartic
from . import _golomb_torch
from ._golomb_torch import Coded, parameter
from .tried import tried
from .zerorun import payload_of


class GolombCodes(NamedTuple):
    """As _golomb_torch.py describes it."""

    codes: Callable[[torch.Tensor, Tuple[int, ...]], Tuple[torch.Tensor, torch.Tensor]]
    expand: Callable[[torch.Tensor, Sequence[Coded]], torch.Tensor]


OPERATIONS = GolombCodes(_golomb_torch.codes, _golomb_torch.expand)


@lru_cache(maxsize=None)
def codes_for(device: torch.device) -> GolombCodes:
    """Compiles Triton's kernels and checks them at the first call for a device. If they cannot be used though Triton is
    there, a warning says so."""
    def load() -> GolombCodes:
        from . import _golomb_expand_triton, _golomb_triton  # these import triton
        return GolombCodes(_golomb_triton.codes, _golomb_expand_triton.expand)

    return tried(device, "3-value symbols", load, lambda codes: same_bytes(codes, device), OPERATIONS)


def payloads(codes: GolombCodes, quartic: torch.Tensor, ns: Tuple[int, ...],
             to_host: Callable[[torch.Tensor], torch.Tensor]) -> List[torch.Tensor]:
    """As those of zerorun.py."""
    coded, found = codes.codes(quartic, ns)
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


def coded_of(payload: Union[bytes, memoryview], n: int) -> Coded:
    """What a payload of n symbols says before its codes."""
    k = payload[0] & 127
    head = 1
    while payload[head - 1] > 127:
        k |= (payload[head] & 127) << 7 * head
        head += 1
    return Coded(n, k, payload[head], head + 1, len(payload))


def same_bytes(codes: GolombCodes, device: torch.device) -> bool:
    """Whether payloads are those of the C library, and expand to what they are made of."""
    pieces, ns = zip(*_pieces())
    made = payloads(codes, torch.cat(pieces).to(device), ns, torch.Tensor.cpu)
    if [payload.tolist() for payload in made] != [
            list(payload_of(compress_quartic(piece, [1.0], n, "3lc-golomb"))) for piece, n in zip(pieces, ns)]:
        return False  # and they might expand to more
    coded = [each for each in zip(made, pieces, ns) if len(each[0]) < len(each[1])]  # others are quartic bytes
    expanded = codes.expand(torch.cat([payload for payload, _, _ in coded]).to(device),
                            [coded_of(bytes(payload.tolist()), n) for payload, _, n in coded])
    is_same: bool = torch.equal(expanded.cpu(), torch.cat([piece for _, piece, _ in coded]))
    return is_same


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
