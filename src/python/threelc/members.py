# SPDX-License-Identifier: MIT
"""Frames of values that are chosen elsewhere, as on a GPU: positions and values, without the others."""
from __future__ import annotations

from ctypes import POINTER, byref, c_float, c_size_t, c_uint64, cast, sizeof
from typing import Any, Tuple

from . import _c
from ._arrays import DTypeLike, dtype_of, octets, taken, values as values_of, weights as weights_of
from ._c import DType
from ._library import check, coded, count, give_scratch, lib, message_of
from .codec_strings import check_codec, codec_bound
from .frames import inspect, run_decoder


def compress_members(positions: Any, values: Any, n: int, codec: str, *, dtype: DTypeLike = "f32",
                     checksum: bool = False, sent: Any = None) -> bytes:
    """The frame of some of n values: the one that Context.compress makes of all, if it chooses these.

    positions, values: integers of 64 bits, which rise; float32, gradient and residual added. random-sparse: x / p.
    codec: of topk, random-sparse or sparse-binary (sbc). Of the last both sides come, and one is sent.
    sent:  float32, which is written: what each value decodes to; 0: it is not sent. It may be `values`.
    """
    check_codec(codec)
    at, k, _ = weights_of(positions, DType.I64, "positions")
    source, found, _ = taken(values, DType.F32, "values")
    n = count(n, "n")
    if found != k:
        raise ValueError(f"there are {k} positions and {found} values")
    parameters = _c.MembersParams(struct_size=sizeof(_c.MembersParams), codec=coded(codec, "codec"),
                                  dtype=dtype_of(dtype), checksum=int(checksum))
    if sent is not None:
        parameters.sent = values_of(sent, k, DType.F32, "sent", writable=True).address
    give_scratch(parameters, lib.tlc_members_scratch(parameters.codec, n))
    frame, written = bytearray(codec_bound(codec, n, dtype)), c_size_t()
    target = octets(frame, "frame", writable=True)
    message = message_of(parameters)
    check(lib.tlc_compress_members(cast(at.address, POINTER(c_uint64)), source.address, k, n, byref(parameters),
                                   target.address, target.size, byref(written)), message.value)
    return bytes(memoryview(frame)[:written.value])


def decompress_members(frame: Any, n: int) -> Tuple[memoryview, memoryview]:
    """The other way round, of a frame of n values: positions, and what the value at each decodes to, for
    numpy.frombuffer() or torch.frombuffer(). UnsupportedError: a frame of another codec."""
    source, n = octets(frame, "frame"), count(n, "n")
    cap, k = inspect(frame).nonzero or 0, c_size_t()
    positions, values = (c_uint64 * cap)(), (c_float * cap)()
    run_decoder(lib.tlc_decompress_members, source.address, source.size, n, positions, values, cap, byref(k))
    return memoryview(positions).cast("B").cast("Q")[:k.value], memoryview(values).cast("B").cast("f")[:k.value]
