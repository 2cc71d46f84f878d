# SPDX-License-Identifier: MIT
"""Golomb codes of the positions and signs of 3-value symbols by torch operations, for devices without Triton."""
from __future__ import annotations

from typing import NamedTuple, Sequence, Tuple

import torch

MOST = 48  # of the parameter


class Coded(NamedTuple):
    """A payload of Golomb codes."""

    n: int
    """symbols, at least 1"""
    k: int
    """codes"""
    b: int
    """the parameter"""
    head: int
    """bytes before the codes"""
    size: int
    """bytes of the payload"""


def parameter(k: int, n: int) -> int:
    """How many bits of a distance have a code of fixed length, if k of n symbols are not 0."""
    if not k:
        return 0
    b, q = 0, 1.0 - k / n
    while not q < 0.6180339887498949 and b < MOST:
        q *= q
        b += 1
    return b


def codes(quartic: torch.Tensor, ns: Tuple[int, ...]) -> Tuple[torch.Tensor, torch.Tensor]:
    """The codes of pieces of quartic bytes, each at the place of the piece, as bytes; and of each how many symbols are
    not 0, and how many bits their codes have, int64. Codes that need more bytes than the piece has mean nothing. Bits
    that are left of the last byte do not, either.

    ns: symbols of the pieces."""
    coded, found = torch.empty_like(quartic), []
    sizes = [-(-n // 5) for n in ns]
    for piece, made, n in zip(quartic.split(sizes), coded.split(sizes), ns):
        found.append(_codes(piece, made, n))
    return coded, torch.tensor(found, dtype=torch.int64, device=quartic.device).view(len(ns), 2)


def _codes(quartic: torch.Tensor, made: torch.Tensor, n: int) -> Tuple[int, int]:
    device = quartic.device
    powers = torch.tensor([[81], [27], [9], [3], [1]], dtype=torch.uint8, device=device)
    digits = torch.div(quartic, powers, rounding_mode="floor").remainder_(3).view(-1)[:n]
    at = (digits != 1).nonzero().view(-1)
    if not len(at):
        return 0, 0
    b = parameter(len(at), n)
    between = at - torch.cat([at.new_full((1,), -1), at[:-1]]) - 1
    ends = ((between >> b) + b + 2).cumsum(0)
    count = int(ends[-1])
    size = -(-count // 8)
    if size <= len(made):
        bits = torch.ones(8 * size, dtype=torch.uint8, device=device)
        bits[ends - b - 2] = 0  # after the ones of the quotients
        for i in range(b):
            bits[ends - 2 - i] = (between >> i & 1).to(torch.uint8)
        bits[ends - 1] = (digits[at] == 0).to(torch.uint8)
        made[:size] = (bits.view(-1, 8) << torch.arange(7, -1, -1, dtype=torch.uint8, device=device)).sum(1)
    return len(at), count


def expand(payloads: torch.Tensor, pieces: Sequence[Coded]) -> torch.Tensor:
    """The quartic bytes of payloads that were checked, which lie one after the other, as these do then."""
    made = [_expand(payload[piece.head:], piece) for payload, piece in
            zip(payloads.split([piece.size for piece in pieces]), pieces)]
    return torch.cat([payloads[:0], *made])


def _expand(codes: torch.Tensor, piece: Coded) -> torch.Tensor:
    device, n, b = codes.device, piece.n, piece.b
    digits = torch.ones(5 * -(-n // 5), dtype=torch.uint8, device=device)
    digits[n:] = 0
    if piece.k:
        bits = ((codes.unsqueeze(1) >> torch.arange(7, -1, -1, dtype=torch.uint8, device=device)) & 1).view(-1)
        ends = _ends(bits == 0, piece)
        quotients = ends - torch.cat([ends.new_zeros(1), ends[:-1] + b + 2])
        between = quotients << b
        for i in range(b):
            between += bits[ends + 1 + i].long() << b - 1 - i
        digits[(between + 1).cumsum(0) - 1] = 2 - 2 * bits[ends + b + 1]
    powers = torch.tensor([[81], [27], [9], [3], [1]], dtype=torch.uint8, device=device)
    return (digits.view(5, -1) * powers).sum(0, dtype=torch.uint8)


def _ends(is_zero: torch.Tensor, piece: Coded) -> torch.Tensor:
    """The bits that end quotients. The next code begins b + 2 bits later, so each zero says which zero is the next of
    these. Steps of 2, 4, 8 codes and so on are made of each other."""
    zeros, last = is_zero.nonzero().view(-1), len(is_zero) - 1
    following = is_zero.cumsum(0)[(zeros + piece.b + 1).clamp(max=last)]
    following = torch.cat([following, following.new_full((1,), len(zeros))])
    found = zeros.new_zeros(1)
    while len(found) < piece.k:
        found = torch.cat([found, following[found]])
        if len(found) < piece.k:
            following = following[following]
    return zeros[found[:piece.k]]
