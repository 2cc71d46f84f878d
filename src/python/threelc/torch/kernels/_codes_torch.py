# SPDX-License-Identifier: MIT
"""Codes of natural, int8, qsgd and onebit as torch operations, for devices without Triton.

All operations are those of the C library, in the same order and precision, so the bytes are, too.
"""
from __future__ import annotations

from typing import Optional

import torch

from . import operations
from .codes import CHUNK, Codes, Words
from .operations import bits_of, rounded, rows_of, summed

ZERO = 0x40  # natural's code of 0 with 8 bits
LANES = 16  # of the sums of a chunk


def measure(codes: Codes, residual: Optional[torch.Tensor], gradient: torch.Tensor, found: torch.Tensor) -> None:
    """What Codes.measured() counts. found: zeros."""
    if codes.name != "onebit":
        operations.maxima(residual, gradient, codes.block, found)
        return
    at = 0
    for rows in rows_of(summed(residual, gradient), codes.block):
        count, n = rows.shape
        chunks = -(-n // CHUNK)
        size = CHUNK if n > CHUNK else -(-n // LANES) * LANES  # values of a chunk, with padding
        upper = torch.nn.functional.pad(rows >= 0, (0, chunks * size - n)).view(count * chunks, size)
        x = torch.nn.functional.pad(rows, (0, chunks * size - n)).view(count * chunks, size // LANES, LANES)
        sides = upper.view_as(x)
        into = found[at:at + 3 * len(x)].view(-1, 3)
        for side in range(2):
            lanes = torch.zeros(len(x), LANES, dtype=torch.float64, device=x.device)
            for i in range(x.shape[1]):  # the order of sums
                lanes += torch.where(sides[:, i] == (side == 0), x[:, i], torch.zeros_like(x[:, i])).double()
            while lanes.shape[1] > 1:
                half = lanes.shape[1] // 2
                lanes = lanes[:, :half] + lanes[:, half:]
            into[:, side] = lanes[:, 0]
        into[:, 2] = upper.sum(1)
        at += 3 * len(x)


def words_of(words: Words, n: int, device: torch.device) -> torch.Tensor:
    """n random words, as int64."""
    return _blocks_of(words, torch.arange(-(-n // 4), device=device)).view(-1)[:n]


def words_from(words: Words, first: torch.Tensor, n: int) -> torch.Tensor:
    """The n random words from each of first on, as rows."""
    counter = (first >> 2).unsqueeze(1) + torch.arange(n // 4 + 2, device=first.device)
    found = _blocks_of(words, counter.view(-1)).view(len(first), -1)
    return found.gather(1, (first & 3).unsqueeze(1) + torch.arange(n, device=first.device))


def _blocks_of(words: Words, counter: torch.Tensor) -> torch.Tensor:
    """The four words that each counter makes."""
    low = 0xffffffff
    c0, c1 = counter & low, counter >> 32
    c2, c3 = torch.full_like(c0, words.step & low), torch.full_like(c0, words.step >> 32)
    k0, k1 = words.seed & low, words.seed >> 32
    for _ in range(10):
        p0, p1 = c0 * 0xd2511f53, c2 * 0xcd9e8d57  # modulo 2^64, as signed numbers
        c0, c1, c2, c3 = (p1 >> 32 & low) ^ c1 ^ k0, p1 & low, (p0 >> 32 & low) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + 0x9e3779b9) & low, (k1 + 0xbb67ae85) & low
    return torch.stack([c0, c1, c2, c3], 1)


def _packed(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Rows of numbers of so many bits as bytes, the lowest first."""
    per = 8 // bits
    n = values.shape[1]
    padded = torch.nn.functional.pad(values, (0, -n % per)).view(len(values), -1, per)
    return (padded << torch.arange(0, 8, bits, device=values.device)).sum(2).to(torch.uint8)


def _unpacked(octets: torch.Tensor, bits: int, n: int) -> torch.Tensor:
    """The reverse, as int32."""
    places = torch.arange(0, 8, bits, dtype=torch.int32, device=octets.device)
    numbers = octets.to(torch.int32).unsqueeze(2) >> places & ((1 << bits) - 1)
    return numbers.view(len(octets), -1)[:, :n]


def encode(codes: Codes, residual: Optional[torch.Tensor], gradient: torch.Tensor, scalars: torch.Tensor, words: Words,
           rest: Optional[torch.Tensor], planes: torch.Tensor, clipped: torch.Tensor) -> None:
    """Writes the planes of residual + gradient, whose values are finite.

    scalars: of Codes.scalars(), float32. rest: what is not sent, as in operations.quantize(); None: it is not kept.
    planes: of Codes.planes(). clipped: for each block how many exponents of natural were out of range, int32."""
    x = summed(residual, gradient)
    n = len(x)
    if not n:
        return
    drawn = words_of(words, n, x.device) if codes.random else torch.zeros(n, dtype=torch.int64, device=x.device)
    kept = x if rest is None else rest
    block = min(codes.block or n, n)
    unit, stride = 0, codes.unit_size(block)
    scalars = scalars.view(-(-n // block), -1)
    for rows, random, left in zip(rows_of(x, block), rows_of(drawn, block), rows_of(kept, block)):
        count, length = rows.shape
        size = codes.unit_size(length) - codes.head
        to = planes[unit * stride:].as_strided((count, size), (stride, 1))
        scalar = scalars[unit:unit + count]
        if codes.name == "natural":
            _natural(codes, rows, random, to, clipped[unit:unit + count])
        elif codes.name == "onebit":
            to.copy_(_packed((rows >= 0).to(torch.int32), 1))
        else:
            _levels(codes, rows, random, scalar, to)
        if rest is not None:
            left.copy_(rounded(rows - _values(codes, to, scalar, length), left.dtype))
        unit += count


def _natural(codes: Codes, rows: torch.Tensor, random: torch.Tensor, to: torch.Tensor, clipped: torch.Tensor) -> None:
    bits = bits_of(rows)
    magnitude = bits & 0x7fffffff
    small = magnitude < 0x800000  # a subnormal is a whole number of 2^-149: as a float it has a leading bit
    normal = torch.where(small, bits_of(magnitude.to(torch.float32)), magnitude)
    mantissa = normal & 0x7fffff
    exponent = (normal >> 23) - torch.where(small, 276, 127)
    exponent += mantissa >= 0x400000 if codes.nearest else (random >> 9) < mantissa
    exponent -= codes.shift
    least, most = (-50, 10) if codes.bits == 8 else (-126, 127 - codes.shift)
    is_zero = magnitude == 0
    inside = exponent.clamp(least, most)
    clipped += ((inside != exponent) & ~is_zero).sum(1)
    sign = (bits >> 31 & 1).masked_fill(is_zero, 0)
    if codes.bits == 8:
        to.copy_((sign << 7 | inside - least).masked_fill(is_zero, ZERO))
        return
    n = rows.shape[1]
    to[:, :n] = (inside + 127).masked_fill(is_zero, 0)
    to[:, n:] = _packed(sign, 1)


def _levels_of(codes: Codes, like: torch.Tensor) -> torch.Tensor:
    """As a tensor: a GPU multiplies by the reciprocal where it should divide by a number of Python."""
    return torch.full((1,), 127.0 if codes.bits == 8 else 7.0, device=like.device)


def _levels(codes: Codes, rows: torch.Tensor, random: torch.Tensor, largest: torch.Tensor, to: torch.Tensor) -> None:
    y = rows / torch.where(largest > 0, largest, torch.ones_like(largest)) * _levels_of(codes, rows)
    level = y.round() if codes.nearest else y.floor()
    if not codes.nearest:
        level += (random >> 8).to(torch.float32) * 2.0**-24 < y - level
    q = level.to(torch.int32)
    to.copy_(q & 255 if codes.bits == 8 else _packed(q & 15, 4))


def _values(codes: Codes, planes: torch.Tensor, scalar: torch.Tensor, n: int) -> torch.Tensor:
    """What rows of planes decode to, in float32."""
    if codes.name == "onebit":
        return torch.where(_unpacked(planes, 1, n) > 0, scalar[:, :1], scalar[:, 1:])
    if codes.name != "natural":
        half = 1 << (codes.bits - 1)
        q = (_unpacked(planes, codes.bits, n) ^ half) - half
        return scalar * (q.to(torch.float32) / _levels_of(codes, scalar))
    code = planes[:, :n].to(torch.int32)
    if codes.bits == 8:
        sign, exponent, is_zero = code >> 7, (code & 0x7f) + (77 + codes.shift), code == ZERO
    else:
        sign, exponent, is_zero = _unpacked(planes[:, n:], 1, n), code + codes.shift, code == 0
    return (sign << 31 | exponent << 23).masked_fill(is_zero, 0).view(torch.float32)


def decode(codes: Codes, planes: torch.Tensor, scalars: torch.Tensor, out: torch.Tensor) -> None:
    """The values of planes. scalars: as in Codes.read(). out: n values, float32, float16 or bfloat16."""
    n = len(out)
    block = min(codes.block or n, n)
    unit, stride = 0, codes.unit_size(block)
    for rows in rows_of(out, block):
        count, length = rows.shape
        size = codes.unit_size(length) - codes.head
        of_units = planes[unit * stride:].as_strided((count, size), (stride, 1))
        scalar = scalars.view(-1, max(codes.sent, 1))[unit:unit + count]
        rows.copy_(_values(codes, of_units, scalar, length))
        unit += count


def add(codes: Codes, planes: torch.Tensor, scalars: torch.Tensor, weight: float, out: torch.Tensor) -> None:
    """out += weight * the values of planes, products and sums rounded to float32. weight: a float32. out: n values,
    float32, none of them -0."""
    values = torch.empty_like(out)
    decode(codes, planes, scalars, values)
    out += values.mul_(weight)
