# SPDX-License-Identifier: MIT
"""Frames of values that are quantized and decoded elsewhere, as on a GPU."""
from __future__ import annotations

from ctypes import addressof, byref, c_float, c_size_t, c_uint64, sizeof
from typing import Any, List, Sequence, Tuple

from . import _c
from ._arrays import DTypeLike, dtype_of, octets
from ._library import check, coded, count, lib, listed, message_of, real
from .codec_strings import check_codec, codec_bound, quantizer_of
from .frames import peek, run_decoder


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
    scales = [real(scale, "a scale") for scale in listed(scales, None, "scales", "numbers")]
    if len(scales) != block_count(n, block):
        raise ValueError(f"{block_count(n, block)} scales are needed, not {len(scales)}")
    parameters = _c.QuarticParams(struct_size=sizeof(_c.QuarticParams), codec=coded(codec, "codec"),
                                  dtype=dtype_of(dtype), checksum=int(checksum))
    scratch = (c_uint64 * -(-lib.tlc_quartic_scratch(parameters.codec, n) // 8))()
    if len(scratch):
        parameters.scratch = addressof(scratch)
    frame, written = bytearray(codec_bound(codec, n, dtype)), c_size_t()
    target = octets(frame, "frame", writable=True)
    message = message_of(parameters)
    check(lib.tlc_compress_quartic(source.address, source.size, (c_float * len(scales))(*scales), n, byref(parameters),
                                   target.address, target.size, byref(written)), message.value)
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
