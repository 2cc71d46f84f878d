# SPDX-License-Identifier: MIT
"""Codes of natural, int8, qsgd and onebit as Triton kernels: one sweep that measures, and one that makes codes.

The bytes are those of the C library under the conditions of ternary.py, and these:
- x / max and q / levels are rounded as IEEE 754 says (div_rn): Triton's own division is not;
- sums are made in the order of the C library (src/values/sums.h), in binary64: a lane adds its values one after the
  other, and then pairs of lanes are added. The host adds the chunks.
Natural's codes are made of integers. A subnormal becomes a whole number, and then a float with a leading bit.
"""
from __future__ import annotations

from typing import Optional

import torch
import triton
import triton.language as tl

from . import ternary
from .codes import CHUNK, Codes, Words
from .ternary import keep, launch, loadable, summed

TILE = 2048  # values of a program
CHUNKS = 8  # of a program that sums up
NAMES = {"natural": 0, "int8": 1, "qsgd": 1, "onebit": 2}
ARRAYS = ["residual", "gradient", "scalars", "rest", "planes", "clipped", "out", "found"]
NUMBERS = ["weight", "seed", "step", "stride", "shift", "chunks", "n", "block"]


@triton.jit
def _halved(lanes, ROWS: tl.constexpr, HALF: tl.constexpr):
    return tl.sum(tl.reshape(lanes, [ROWS, 2, HALF]), axis=1)


@triton.jit
def _folded(lanes, ROWS: tl.constexpr):
    lanes = _halved(lanes, ROWS, 8)
    lanes = _halved(lanes, ROWS, 4)
    lanes = _halved(lanes, ROWS, 2)
    return tl.sum(lanes, axis=1)


@triton.jit(do_not_specialize=["residual", "gradient", "found", "chunks", "n", "block"])
def _sides(residual, gradient, found, chunks, n, block, SIZE: tl.constexpr, ROWS: tl.constexpr):
    """A program takes ROWS chunks of SIZE values. chunks: of all blocks."""
    block = block.to(tl.int64)
    of_block = (block + SIZE - 1) // SIZE
    chunk = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    first = chunk % of_block * SIZE  # in the block
    start = chunk // of_block * block
    length = tl.minimum(tl.minimum(block, n - start) - first, SIZE)[:, None]
    lane = tl.arange(0, 16)[None, :]
    above = tl.zeros([ROWS, 16], tl.float64)
    below = tl.zeros([ROWS, 16], tl.float64)
    count = tl.zeros([ROWS, 16], tl.int32)
    for i in range(0, tl.minimum(block, SIZE).to(tl.int32), 16):
        there = i + lane < length
        x = summed(residual, gradient, (start + first)[:, None] + i + lane, there)
        upper = x >= 0
        above += tl.where(upper, x, 0.0).to(tl.float64)
        below += tl.where(upper, 0.0, x).to(tl.float64)
        count += (upper & there).to(tl.int32)
    is_one = chunk < chunks
    tl.store(found + 3 * chunk, _folded(above, ROWS), mask=is_one)
    tl.store(found + 3 * chunk + 1, _folded(below, ROWS), mask=is_one)
    tl.store(found + 3 * chunk + 2, tl.sum(count, axis=1).to(tl.float64), mask=is_one)


@triton.jit
def _words(first, seed, step, ROWS: tl.constexpr, COLUMNS: tl.constexpr, ALIGNED: tl.constexpr):
    """The random words of COLUMNS values from each of first on. ALIGNED: these are multiples of 4, and four values
    share one call; else each value has its own."""
    high = (step >> 32).to(tl.uint32)
    low = step.to(tl.uint32)
    if ALIGNED:
        counter = first // 4 + tl.arange(0, COLUMNS // 4)[None, :]
        zero = tl.zeros([ROWS, COLUMNS // 4], tl.uint32)
        a, b, c, d = tl.philox(seed, counter.to(tl.uint32), (counter >> 32).to(tl.uint32), zero + low, zero + high)
        return tl.interleave(tl.interleave(a, c), tl.interleave(b, d))
    else:
        index = first + tl.arange(0, COLUMNS)[None, :]
        counter = index // 4
        zero = tl.zeros([ROWS, COLUMNS], tl.uint32)
        a, b, c, d = tl.philox(seed, counter.to(tl.uint32), (counter >> 32).to(tl.uint32), zero + low, zero + high)
        place = index % 4
        return tl.where(place == 0, a, tl.where(place == 1, b, tl.where(place == 2, c, d)))


@triton.jit
def _packed(values, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BITS: tl.constexpr):
    """Numbers of BITS bits as bytes, the lowest first."""
    places = tl.arange(0, 8 // BITS)[None, None, :] * BITS
    grouped = tl.reshape(values, [ROWS, COLUMNS * BITS // 8, 8 // BITS])
    return tl.sum(grouped << places, axis=2).to(tl.uint8)


@triton.jit
def _unpacked(octets, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BITS: tl.constexpr):
    places = tl.arange(0, 8 // BITS)[None, None, :] * BITS
    return tl.reshape(octets.to(tl.int32)[:, :, None] >> places & ((1 << BITS) - 1), [ROWS, COLUMNS])


@triton.jit
def _floats_of(sign, exponent, is_zero):
    return tl.where(is_zero, 0, sign << 31 | exponent << 23).to(tl.float32, bitcast=True)


@triton.jit(do_not_specialize=ARRAYS + NUMBERS)
def _encode(residual, gradient, scalars, rest, planes, clipped, seed, step, stride, shift, n, block,
            KIND: tl.constexpr, BITS: tl.constexpr, NEAREST: tl.constexpr, ALIGNED: tl.constexpr, ROWS: tl.constexpr,
            COLUMNS: tl.constexpr):
    """A program makes COLUMNS codes of each of ROWS blocks. stride: bytes from the planes of a block to those of the
    next one."""
    program = tl.program_id(0).to(tl.int64)
    block = block.to(tl.int64)
    tiles = (block + COLUMNS - 1) // COLUMNS
    row = program // tiles * ROWS + tl.arange(0, ROWS)[:, None]
    start = program % tiles * COLUMNS
    column = start + tl.arange(0, COLUMNS)[None, :]
    length = tl.minimum(n - row * block, block)  # the last block is shorter, and after it there are none
    there = column < length
    at = row * block + column
    to = planes + row * stride
    x = summed(residual, gradient, at, there)
    if KIND == 0:
        bits = x.to(tl.int32, bitcast=True)
        magnitude = bits & 0x7fffffff
        small = magnitude < 0x800000
        normal = tl.where(small, magnitude.to(tl.float32).to(tl.int32, bitcast=True), magnitude)
        mantissa = normal & 0x7fffff
        if NEAREST:
            up = mantissa >= 0x400000
        else:
            up = (_words(row * block + start, seed, step, ROWS, COLUMNS, ALIGNED) >> 9).to(tl.int32) < mantissa
        exponent = (normal >> 23) - tl.where(small, 276, 127) + up.to(tl.int32) - shift
        least = -50 if BITS == 8 else -126
        most = 10 if BITS == 8 else 127 - shift
        inside = tl.minimum(tl.maximum(exponent, least), most)
        is_zero = magnitude == 0
        count = tl.sum((there & (inside != exponent) & (magnitude != 0)).to(tl.int32), axis=1)
        tl.atomic_add(clipped + row, count[:, None], mask=length > 0, sem="relaxed")
        sign = tl.where(is_zero, 0, bits >> 31 & 1)
        if BITS == 8:
            tl.store(to + column, tl.where(is_zero, 0x40, sign << 7 | inside - least).to(tl.uint8), mask=there)
        else:
            tl.store(to + column, tl.where(is_zero, 0, inside + 127).to(tl.uint8), mask=there)
            byte = start // 8 + tl.arange(0, COLUMNS // 8)[None, :]
            tl.store(to + length + byte, _packed(tl.where(there, sign, 0), ROWS, COLUMNS, 1), mask=8 * byte < length)
        sent = _floats_of(sign, inside + shift + 127, is_zero)
    elif KIND == 1:
        largest = tl.load(scalars + row, mask=length > 0, other=0)
        levels = 127.0 if BITS == 8 else 7.0
        y = tl.math.div_rn(x, tl.where(largest > 0, largest, 1.0)) * levels
        level = y + 12582912.0 - 12582912.0  # to the nearest whole number: the sum has no bits below 1
        if not NEAREST:
            level -= (level > y).to(tl.float32)  # down; floor() flushes subnormals
            words = _words(row * block + start, seed, step, ROWS, COLUMNS, ALIGNED)
            chance = (words >> 8).to(tl.int32).to(tl.float32) * 5.9604644775390625e-08  # 2^-24
            level += (chance < y - level).to(tl.float32)
        q = level.to(tl.int32)
        if BITS == 8:
            tl.store(to + column, (q & 255).to(tl.uint8), mask=there)
        else:
            byte = start // 2 + tl.arange(0, COLUMNS // 2)[None, :]
            tl.store(to + byte, _packed(tl.where(there, q & 15, 0), ROWS, COLUMNS, 4), mask=2 * byte < length)
        sent = largest * tl.math.div_rn(level, tl.full(level.shape, levels, tl.float32))
    else:
        upper = x >= 0
        byte = start // 8 + tl.arange(0, COLUMNS // 8)[None, :]
        tl.store(to + byte, _packed((upper & there).to(tl.int32), ROWS, COLUMNS, 1), mask=8 * byte < length)
        sent = tl.where(upper, tl.load(scalars + 2 * row, mask=length > 0, other=0),
                        tl.load(scalars + 2 * row + 1, mask=length > 0, other=0))
    if rest is not None:
        keep(rest, at, x - sent, there)


@triton.jit(do_not_specialize=ARRAYS + NUMBERS)
def _decode(planes, scalars, out, weight, stride, shift, n, block, KIND: tl.constexpr, BITS: tl.constexpr,
            ADD: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A program takes COLUMNS codes of each of ROWS blocks. ADD: weight * values are added to out, which is float32;
    else values are written."""
    program = tl.program_id(0).to(tl.int64)
    block = block.to(tl.int64)
    tiles = (block + COLUMNS - 1) // COLUMNS
    row = program // tiles * ROWS + tl.arange(0, ROWS)[:, None]
    start = program % tiles * COLUMNS
    column = start + tl.arange(0, COLUMNS)[None, :]
    length = tl.minimum(n - row * block, block)
    there = column < length
    of = planes + row * stride
    if KIND == 0:
        code = tl.load(of + column, mask=there, other=0).to(tl.int32)
        if BITS == 8:
            value = _floats_of(code >> 7, (code & 0x7f) + 77 + shift, code == 0x40)
        else:
            byte = start // 8 + tl.arange(0, COLUMNS // 8)[None, :]
            signs = tl.load(of + length + byte, mask=8 * byte < length, other=0)
            value = _floats_of(_unpacked(signs, ROWS, COLUMNS, 1), code + shift, code == 0)
    elif KIND == 1:
        if BITS == 8:
            code = tl.load(of + column, mask=there, other=0).to(tl.int32)
        else:
            byte = start // 2 + tl.arange(0, COLUMNS // 2)[None, :]
            code = _unpacked(tl.load(of + byte, mask=2 * byte < length, other=0), ROWS, COLUMNS, 4)
        q = ((code ^ (1 << (BITS - 1))) - (1 << (BITS - 1))).to(tl.float32)
        levels = 127.0 if BITS == 8 else 7.0
        value = tl.load(scalars + row, mask=length > 0, other=0) * tl.math.div_rn(
            q, tl.full(q.shape, levels, tl.float32))
    else:
        byte = start // 8 + tl.arange(0, COLUMNS // 8)[None, :]
        upper = _unpacked(tl.load(of + byte, mask=8 * byte < length, other=0), ROWS, COLUMNS, 1) > 0
        value = tl.where(upper, tl.load(scalars + 2 * row, mask=length > 0, other=0),
                         tl.load(scalars + 2 * row + 1, mask=length > 0, other=0))
    if ADD:
        at = out + row * block + column
        tl.store(at, tl.load(at, mask=there, other=0) + weight * value, mask=there)
    elif out.dtype.element_ty == tl.int16:  # bits of bfloat16, rounded half to even
        bits = value.to(tl.int32, bitcast=True)
        tl.store(out + row * block + column, (bits + 0x7fff + (bits >> 16 & 1) >> 16).to(tl.int16), mask=there)
    else:
        tl.store(out + row * block + column, value.to(out.dtype.element_ty), mask=there)


def _signed(number: int) -> int:
    """The same 64 bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def measure(codes: Codes, residual: Optional[torch.Tensor], gradient: torch.Tensor, found: torch.Tensor) -> None:
    """The same as in _codes_torch.py."""
    n = len(gradient)
    if codes.name != "onebit":
        ternary.maxima(residual, gradient, codes.block, found)
    elif n:
        block, chunks = min(codes.block or n, n), len(found) // 3
        with torch.cuda.device_of(gradient):
            _sides[(-(-chunks // CHUNKS),)](loadable(residual), loadable(gradient), found, chunks, n, block,
                                            SIZE=CHUNK, ROWS=CHUNKS, enable_fp_fusion=False)


def encode(codes: Codes, residual: Optional[torch.Tensor], gradient: torch.Tensor, scalars: torch.Tensor, words: Words,
           rest: Optional[torch.Tensor], planes: torch.Tensor, clipped: torch.Tensor) -> None:
    """The same as in _codes_torch.py."""
    n = len(gradient)
    block = min(codes.block or n, n)
    launch(_encode, (loadable(residual), loadable(gradient), scalars, loadable(rest), planes, clipped,
                     _signed(words.seed), _signed(words.step), codes.unit_size(block), codes.shift), n, block, 1, TILE,
           8, KIND=NAMES[codes.name], BITS=codes.bits, NEAREST=codes.nearest, ALIGNED=block in (n, block // 4 * 4))


def decode(codes: Codes, planes: torch.Tensor, scalars: torch.Tensor, out: torch.Tensor) -> None:
    """The same as in _codes_torch.py."""
    _launch_decode(codes, planes, scalars, 1.0, out, False)


def add(codes: Codes, planes: torch.Tensor, scalars: torch.Tensor, weight: float, out: torch.Tensor) -> None:
    """The same as in _codes_torch.py."""
    _launch_decode(codes, planes, scalars, weight, out, True)


def _launch_decode(codes: Codes, planes: torch.Tensor, scalars: torch.Tensor, weight: float, out: torch.Tensor,
                   is_added: bool) -> None:
    n = len(out)
    block = min(codes.block or n, n)
    launch(_decode, (planes, scalars, loadable(out), weight, codes.unit_size(block), codes.shift), n, block, 1, TILE, 8,
           KIND=NAMES[codes.name], BITS=codes.bits, ADD=is_added)
