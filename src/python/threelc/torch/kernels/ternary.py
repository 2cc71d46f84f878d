# SPDX-License-Identifier: MIT
"""3-value quantization as Triton kernels: 3LC's sections 3.1 and 3.2 in two sweeps over residual and gradient.

The first finds the largest magnitudes and writes nothing else. The second reads both again and writes what is left and
the quartic bytes. So for each value a step reads the residual twice and the gradient twice, and writes 4.2 bytes. A
residual of bfloat16 is widened when it is read, and rounded when it is written; between that nothing differs.

The bytes are those of the C library, as long as the device adds, halves and compares binary32 as IEEE 754 says. What
could break them:
- subnormals that are flushed to 0, in residual + gradient, in x - M or in the comparison with M / 2;
- residual + gradient that is not rounded before M is subtracted: excess precision, or another order;
- contraction of a product and a sum. The kernels are compiled without it. They have no product but M / 2, which is
  compared only;
- comparisons that take NaN for impossible. None sees one: magnitudes are compared as integers, in which infinity is
  above all numbers and NaN above infinity, and with such a magnitude no second sweep is made.
Division and TF32 do not matter: nothing is divided but indices, and there is no matrix. choice.py tests the rest on
the device.
"""
from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
import triton
import triton.language as tl

from .operations import bits_of

TILE = 4096  # values of a program that looks for the largest magnitude
QUARTIC_TILE = 1024  # bytes of a program that quantizes: five values each


@triton.jit
def _widened(x):
    if x.dtype == tl.int16:  # bits of bfloat16: the conversion of Triton's interpreter loses subnormals
        x = (x.to(tl.int32) << 16).to(tl.float32, bitcast=True)
    return x.to(tl.float32)


@triton.jit
def summed(residual, gradient, at, there):
    """residual + gradient; residual None: the gradient."""
    x = _widened(tl.load(gradient + at, mask=there, other=0))
    if residual is not None:
        x = _widened(tl.load(residual + at, mask=there, other=0)) + x
    return x


@triton.jit
def keep(rest, at, x, there):
    """Stores what is left. As bits of bfloat16 it is rounded half to even, and at most its largest number."""
    if rest.dtype.element_ty == tl.int16:
        bits = x.to(tl.int32, bitcast=True)
        magnitude = bits & 0x7fffffff
        magnitude = tl.minimum(magnitude + 0x7fff + (magnitude >> 16 & 1), 0x7f7fffff)
        tl.store(rest + at, (bits >> 16 & 0x8000 | magnitude >> 16).to(tl.int16), mask=there)
    else:
        tl.store(rest + at, x, mask=there)


@triton.jit(do_not_specialize=["residual", "gradient", "found", "n", "block"])
def _maxima(residual, gradient, found, n, block, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A program takes COLUMNS values of each of ROWS blocks. Their order does not matter: it is a maximum of
    integers."""
    program = tl.program_id(0)
    block = block.to(tl.int64)  # there may be more than 2^31 values
    tiles = (block + COLUMNS - 1) // COLUMNS
    rows = program // tiles * ROWS + tl.arange(0, ROWS)
    column = program % tiles * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    at = rows[:, None] * block + column
    there = (column < block) & (at < n)
    largest = tl.max(summed(residual, gradient, at, there).to(tl.int32, bitcast=True) & 0x7fffffff, axis=1)
    tl.atomic_max(found + rows, largest, mask=rows * block < n, sem="relaxed")


@triton.jit
def bytes_of(n, block, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A program has COLUMNS bytes of each of ROWS blocks: how many bytes a whole block has; the blocks and the columns;
    how many values and bytes each block has. The last one is shorter, and after it there are none."""
    program = tl.program_id(0).to(tl.int64)
    block = block.to(tl.int64)
    whole = (block + 4) // 5
    tiles = (whole + COLUMNS - 1) // COLUMNS
    row = program // tiles * ROWS + tl.arange(0, ROWS)[:, None]
    column = program % tiles * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    values = tl.minimum(n - row * block, block)
    return whole, row, column, values, (values + 4) // 5


@triton.jit(do_not_specialize=["residual", "gradient", "scales", "rest", "quartic", "n", "block"])
def _quantize(residual, gradient, scales, rest, quartic, n, block, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A program makes bytes_of()."""
    whole, row, column, values, length = bytes_of(n, block, ROWS, COLUMNS)
    scale = tl.load(scales + row, mask=values > 0, other=0)
    threshold = scale * 0.5
    byte = tl.zeros([ROWS, COLUMNS], tl.int32)
    for part in tl.static_range(5):
        index = part * length + column
        there = (column < length) & (index < values)
        at = row * block + index
        x = summed(residual, gradient, at, there)
        up = x > threshold
        down = x < -threshold
        keep(rest, at, tl.where(up, x - scale, tl.where(down, x + scale, x)), there)
        digit = tl.where(up, 2, tl.where(down, 0, 1))
        byte = byte * 3 + tl.where(there, digit, 0)
    tl.store(quartic + row * whole + column, byte.to(tl.uint8), mask=column < length)


@triton.jit(do_not_specialize=["quartic", "scales", "out", "n", "block"])
def _decode(quartic, scales, out, n, block, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A program takes bytes_of(). Scales and values are bits."""
    whole, row, column, values, length = bytes_of(n, block, ROWS, COLUMNS)
    scale = tl.load(scales + row, mask=values > 0, other=0)
    negative = scale ^ (-1 << (scale.dtype.primitive_bitwidth - 1))
    byte = tl.load(quartic + row * whole + column, mask=column < length, other=0).to(tl.int32)
    for i in tl.static_range(5):
        digit = byte % 3
        byte = byte // 3
        index = (4 - i) * length + column
        value = tl.where(digit == 2, scale, tl.where(digit == 0, negative, 0))
        tl.store(out + row * block + index, value, mask=(column < length) & (index < values))


def launch(kernel: Any, arguments: Tuple[Any, ...], n: int, block: int, per_item: int, tile: int, least: int = 1,
           **constants: Any) -> None:
    """arguments: the first is a tensor, or None and the second is one. tile: items of a program: values, or bytes of
    per_item values each. Small blocks share one; least: items of each. constants: of the kernel."""
    if not n:
        return
    block = min(block or n, n)
    items = -(-block // per_item)
    columns = min(max(triton.next_power_of_2(items), least), tile) if block < n else tile
    rows = tile // columns
    with torch.cuda.device_of(arguments[1] if arguments[0] is None else arguments[0]):
        kernel[(-(-n // (rows * block)) * -(-items // columns),)](*arguments, n, block, ROWS=rows, COLUMNS=columns,
                                                                  enable_fp_fusion=False, **constants)


def loadable(values: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
    """bfloat16 as bits."""
    return values.view(torch.int16) if values is not None and values.dtype == torch.bfloat16 else values


def maxima(residual: Optional[torch.Tensor], gradient: torch.Tensor, block: int, found: torch.Tensor) -> None:
    """The same as in operations.py."""
    launch(_maxima, (loadable(residual), loadable(gradient), found.view(torch.int32)), len(gradient), block, 1, TILE)


def quantize(residual: torch.Tensor, gradient: torch.Tensor, block: int, scales: torch.Tensor, rest: torch.Tensor,
             quartic: torch.Tensor) -> None:
    """The same as in operations.py."""
    launch(_quantize, (loadable(residual), loadable(gradient), scales, loadable(rest), quartic), len(residual), block,
           5, QUARTIC_TILE)


def decode(quartic: torch.Tensor, scales: torch.Tensor, block: int, out: torch.Tensor) -> None:
    """The same as in operations.py."""
    launch(_decode, (quartic, bits_of(scales.to(out.dtype)), bits_of(out)), len(out), block, 5, QUARTIC_TILE)
