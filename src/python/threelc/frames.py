# SPDX-License-Identifier: MIT
"""Decoding of frames. Frames may be any bytes: a bad one raises an exception, and changes nothing."""
from __future__ import annotations

from ctypes import byref, c_float, sizeof
from dataclasses import dataclass
from typing import Any, Optional, Sequence

from . import _c
from ._arrays import DTypeLike, Messages, dtype_of, octets, taken
from ._c import DType, Format
from ._library import check, check_bytes, lib, listed, message_of, real, text


@dataclass(frozen=True)
class FrameInfo:
    """What a frame says of itself."""

    n: int
    """values"""
    dtype: DType
    """of the gradients that were compressed"""
    codec: str
    """what a decoder must know of it: "ternary+quartic+zerorun\""""
    block: int
    """values in a block; 0: not blocked"""
    nonzero: Optional[int]
    """symbols, or values, that are not 0. None: the codec has no zero, or peek was asked"""
    header_size: int
    payload_size: int
    checksum: bool
    clipped: Optional[int]
    """natural: values that were out of its range"""
    version: int
    """of the format"""


def _info(function: Any, frame: Any) -> FrameInfo:
    view = octets(frame, "frame")
    info = _c.FrameInfo(struct_size=sizeof(_c.FrameInfo))
    check_bytes(function(view.address, view.size, byref(info)), view, Format.FRAME)

    def known(number: int) -> Optional[int]:
        return None if number == _c.UNKNOWN else number

    return FrameInfo(n=info.n, dtype=DType(info.dtype), codec=text(info.codec), block=info.block,
                     nonzero=known(info.nonzero), header_size=info.header_size, payload_size=info.payload_size,
                     checksum=bool(info.checksum), clipped=known(info.clipped), version=info.version)


def run_decoder(function: Any, *arguments: Any, from_zero: bool = False) -> None:
    """Calls a decoder, whose last argument are options."""
    options = _c.DecodeOptions(struct_size=sizeof(_c.DecodeOptions), from_zero=int(from_zero))
    message = message_of(options)
    check(function(*arguments, byref(options)), message.value)


def inspect(frame: Any) -> FrameInfo:
    """Checks a whole frame and describes it."""
    return _info(lib.tlc_inspect, frame)


def peek(frame: Any) -> FrameInfo:
    """Describes a frame by its header alone. Decoding may fail later."""
    return _info(lib.tlc_peek, frame)


def decompress(frame: Any, out: Any = None, *, dtype: Optional[DTypeLike] = None) -> Any:
    """Decodes a frame into `out` and returns it. The number of values must be equal.

    Without `out` it returns a new numpy array of `dtype`, float32 by default, as long as the frame says: give `out` for
    frames that come over a network, since a few bytes may stand for very many zeros.
    """
    source = octets(frame, "frame")
    if out is None:
        import numpy
        dtype = dtype_of("f32" if dtype is None else dtype)
        out = numpy.empty(inspect(frame).n, {DType.F32: "f4", DType.F16: "f2", DType.BF16: "u2"}[dtype])
    target, n, kind = taken(out, dtype, "out", writable=True)
    run_decoder(lib.tlc_decompress, source.address, source.size, kind, target.address, n)
    return out


def decompress_add(frame: Any, sum: Any, weight: float = 1.0) -> Any:
    """sum += weight * the values of a frame. sum: float32. Returns it."""
    source = octets(frame, "frame")
    target, n, _ = taken(sum, DType.F32, "sum", writable=True)
    run_decoder(lib.tlc_decompress_add, source.address, source.size, real(weight, "weight"), target.address, n)
    return sum


def decompress_add_many(frames: Sequence[Any], sum: Any, weights: Any = None, *, from_zero: bool = False) -> Any:
    """sum += weights[i] * frame i, in one sweep; the same bits as one decompress_add after the other. Returns sum.

    weights: numbers, or None: all are 1. from_zero: begin with zeros, whatever sum holds. If one frame is bad, sum does
    not change, and the exception says which one.
    """
    sources = Messages(frames, "frames")
    target, n, _ = taken(sum, DType.F32, "sum", writable=True)
    numbers = None
    if weights is not None:
        found = listed(weights, len(sources), "weights", "numbers")
        numbers = (c_float * len(sources))(*(real(weight, f"weights[{i}]") for i, weight in enumerate(found)))
    run_decoder(lib.tlc_decompress_add_many, sources.array, numbers, len(sources), target.address, n, None,
            from_zero=from_zero)
    return sum


def mask(frame: Any, momentum: Any) -> Any:
    """Sets momentum (float32) to 0 where the frame has a value (SBC's momentum masking). Returns it."""
    source = octets(frame, "frame")
    target, n, _ = taken(momentum, DType.F32, "momentum", writable=True)
    run_decoder(lib.tlc_mask, source.address, source.size, target.address, n)
    return momentum
