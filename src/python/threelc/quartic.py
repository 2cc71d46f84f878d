# SPDX-License-Identifier: MIT
"""Frames of values that are quantized and decoded elsewhere, as on a GPU."""
from __future__ import annotations

import math
from ctypes import byref, c_float, c_size_t, sizeof
from typing import Any, List, Sequence, Tuple

from . import _c
from ._arrays import DTypeLike, dtype_of, octets
from ._library import check, coded, count, give_scratch, lib, listed, message_of, real
from .codec_strings import check_codec, codec_bound, quantizer_of
from .frames import peek, run_decoder

MOST_SCALARS = 2  # in a header
MOST_HEADER = 64  # bytes: a header has at most 27, a checksum 4


def block_count(n: int, block: int) -> int:
    """How many blocks n values have. block: values of one; 0: the tensor is one."""
    return -(-n // (block or n or 1))


def quartic_bytes(n: int, block: int) -> int:
    """How many bytes their symbols have."""
    whole, rest = divmod(n, block or n or 1)
    return whole * -(-(block or n) // 5) - (-rest // 5)


def compress_quartic(quartic: Any, scales: Sequence[float], n: int, codec: str = "3lc", *, dtype: DTypeLike = "f32",
                     checksum: bool = False) -> bytes:
    """The frame of n 3-value symbols: the one that Context.compress makes of values, if it finds these symbols.

    quartic:   ceil(n / 5) bytes: the symbols + 1, padded with 0 and split into five partitions p0 to p4, as bytes
               81 p0 + 27 p1 + 9 p2 + 3 p3 + p4 (3LC, section 3.2). With blocks, those of each block, one after
               the other.
    scales:    what a symbol 1 decodes to; one, or one for each block.
    codec:     of 3-value symbols: "3lc", "3lc-golomb", "ternary:block=4096+golomb" and so on; s is not used.
    dtype:     of the values before.
    """
    check_codec(codec)
    source, n = octets(quartic, "quartic"), count(n, "n")
    block = int(quantizer_of(codec)[1].get("block", 0))
    floats = _floats(scales, "scales")
    if len(floats) != block_count(n, block):
        raise ValueError(f"{block_count(n, block)} scales are needed, not {len(floats)}")
    parameters = _parameters(codec, dtype, checksum)
    give_scratch(parameters, lib.tlc_quartic_scratch(parameters.codec, n))
    return _framed(lib.tlc_compress_quartic, source, floats, n, parameters, codec_bound(codec, n, dtype))


def compress_payload(payload: Any, n: int, codec: str, scalars: Sequence[float] = (), *, dtype: DTypeLike = "f32",
                     checksum: bool = False) -> bytes:
    """The frame of a payload of n values: the one that Context.compress makes of values, if it makes this payload.

    payload:   as src/docs/format.md draws it, with blocks the table and all payloads; in a frame what follows
               header_size of inspect(). It is checked as decompress() does it: CorruptError.
               An unblocked one of "3lc-golomb" with as many bytes as quartic ones, or more, is taken for these.
    scalars:   of an unblocked frame, the numbers before its payload: what a 3-value symbol 1 decodes to, the largest
               magnitude of int8 and qsgd, the mean of sparse-binary, the two of onebit, the magnitudes of topk.
    dtype:     of the values before.
    """
    check_codec(codec)
    source, n = octets(payload, "payload"), count(n, "n")
    given = listed(scalars, None, "scalars", "numbers")
    floats = _floats([*given, *[math.nan] * (MOST_SCALARS - len(given))], "scalars")  # NaN is refused where needed
    return _framed(lib.tlc_compress_payload, source, floats, n, _parameters(codec, dtype, checksum),
                   source.size + MOST_HEADER)


def _floats(numbers: Sequence[float], name: str) -> Any:
    """The array of C."""
    found = [real(number, f"one of {name}") for number in listed(numbers, None, name, "numbers")]
    return (c_float * len(found))(*found)


def _parameters(codec: str, dtype: DTypeLike, checksum: bool) -> _c.QuarticParams:
    return _c.QuarticParams(struct_size=sizeof(_c.QuarticParams), codec=coded(codec, "codec"), dtype=dtype_of(dtype),
                            checksum=int(checksum))


def _framed(function: Any, source: Any, floats: Any, n: int, parameters: _c.QuarticParams, room: int) -> bytes:
    frame, written = bytearray(room), c_size_t()
    target = octets(frame, "frame", writable=True)
    message = message_of(parameters)
    check(function(source.address, source.size, floats, n, byref(parameters), target.address, target.size,
                   byref(written)), message.value)
    return bytes(memoryview(frame)[:written.value])


def decompress_quartic(frame: Any, n: int, out: Any = None) -> Tuple[Any, List[float]]:
    """The other way round: the quartic bytes of a frame of n 3-value symbols, and what a symbol 1 of each block means.

    out: bytes that are written in place of new ones, at least as many as compress_quartic() takes. UnsupportedError: a
    frame of another codec.
    """
    source, n = octets(frame, "frame"), count(n, "n")
    block = peek(frame).block
    if out is None:
        out = bytearray(quartic_bytes(n, block))
    target, scales = octets(out, "out", writable=True), (c_float * block_count(n, block))()
    run_decoder(lib.tlc_decompress_quartic, source.address, source.size, n, target.address, target.size, scales,
                len(scales))
    return out, list(scales)
