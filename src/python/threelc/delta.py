# SPDX-License-Identifier: MIT
"""Lossless deltas of weights: what a machine needs to go from the weights that it has to those of a later step.

    frame = threelc.delta.compress(base, next)       # bytes
    threelc.delta.apply(frame, weights)              # weights were base, and are next now

After a step at a small learning rate few weights differ, and most of these by one unit in the last place: then a
frame is 30 to 200 times smaller than the weights. Any bits come out as they went in.
"""
from __future__ import annotations

from ctypes import byref, c_size_t, c_uint64, sizeof
from dataclasses import dataclass
from typing import Any, Callable, Optional

from . import _c
from ._arrays import DTypeLike, octets, weights as weights_of
from ._c import DType, Format
from ._library import check as check_status, check_bytes, count as whole, lib, message_of
from ._parallel import call, threads_of

__all__ = ["DeltaInfo", "apply", "apply_range", "check", "compress", "digest", "inspect", "peek"]


@dataclass(frozen=True)
class DeltaInfo:
    """What a delta says of itself."""

    n: int
    """weights"""
    dtype: DType
    has_base: bool
    """False: it has all weights"""
    base_digest: Optional[int]
    """of the weights that it changes. None: there is no base, or there are no digests"""
    result_digest: Optional[int]
    """of the weights that it makes. None: there are no digests"""
    unchanged_blocks: int
    sparse_blocks: int
    dense_blocks: int
    raw_blocks: int
    changed: int
    """weights in sparse blocks that differ"""
    version: int
    """of the format"""


def _call(threads: Optional[int], n: int, function: Callable[..., int], *arguments: Any,
          without_digests: bool = False) -> None:
    """Calls a function of the library whose last argument are options."""
    options = _c.DeltaOptions(struct_size=sizeof(_c.DeltaOptions), without_digests=int(without_digests))
    message = message_of(options)
    pool = threads_of(threads, n)
    if pool is not None:
        options.parallel = pool.parallel
    check_status(call(pool, function, *arguments, byref(options)), message.value)


def compress(base: Any, next: Any, *, dtype: Optional[DTypeLike] = None, digests: bool = True,
             threads: Optional[int] = None) -> bytes:
    """The delta that makes `next` of `base`. base None: it has all weights, losslessly packed.

    Arrays have any of these dtypes: float32, float16, bfloat16, float8, 8-bit, 32-bit and 64-bit integers, bool,
    float64. What numpy has no name for is given as bits and named by `dtype`: "bf16" (16-bit integers), "f8_e4m3",
    "f8_e5m2" (bytes), "f4_e2m1", "u4" (bytes that have two values each). digests: of base and result, 16 bytes, by
    which apply() finds out whether it has the right base.
    """
    target, n, kind = weights_of(next, dtype, "next")
    source = None
    if base is not None:
        source, found, _ = weights_of(base, kind, "base")
        if found != n:
            raise ValueError(f"base has {found} weights, next has {n}")
    bound, written = c_size_t(), c_size_t()
    check_status(lib.tlc_delta_bound(kind, n, byref(bound)))
    frame = bytearray(bound.value)
    room = octets(frame, "frame", writable=True)
    _call(threads, n, lib.tlc_delta_compress, kind, source and source.address, target.address, n, room.address,
          room.size, byref(written), without_digests=not digests)
    return bytes(memoryview(frame)[:written.value])


def apply(frame: Any, weights: Any, *, dtype: Optional[DTypeLike] = None, threads: Optional[int] = None) -> Any:
    """Makes the next weights of `weights`, in place, and returns them. An exception leaves them as they were:
    BaseError: they are not the base; SizeError: the frame has another number of weights; CorruptError: it was altered.
    """
    source = octets(frame, "frame")
    target, n, kind = weights_of(weights, dtype, "weights", writable=True)
    _call(threads, n, lib.tlc_delta_apply, source.address, source.size, kind, target.address, n)
    return weights


def apply_range(frame: Any, base: Any, out: Any, *, n: int, first: int, dtype: Optional[DTypeLike] = None,
                threads: Optional[int] = None) -> Any:
    """Makes the next weights of a part of them, such as a shard, in `out`, and returns it: those from `first` on, as
    many as out has, of n in all. base: the same part of the weights before; None: the frame has none. It may be out
    itself. Only blocks of 65,536 weights that have some of the part are decoded. The base of a part is not checked."""
    source = octets(frame, "frame")
    target, count, kind = weights_of(out, dtype, "out", writable=True)
    start = None
    if base is not None:
        start, found, _ = weights_of(base, kind, "base")
        if found != count:
            raise ValueError(f"base has {found} weights, out has {count}")
    _call(threads, count, lib.tlc_delta_apply_range, source.address, source.size, kind, start and start.address,
          target.address, whole(n, "n"), whole(first, "first"), count)
    return out


def check(frame: Any, weights: Any, *, dtype: Optional[DTypeLike] = None, threads: Optional[int] = None) -> None:
    """Raises the exception that apply() would raise, and writes nothing."""
    source = octets(frame, "frame")
    target, n, kind = weights_of(weights, dtype, "weights")
    _call(threads, n, lib.tlc_delta_check, source.address, source.size, kind, target.address, n)


def inspect(frame: Any) -> DeltaInfo:
    """Checks a whole delta and describes it."""
    return _described(lib.tlc_delta_inspect, frame)


def peek(frame: Any) -> DeltaInfo:
    """What the head of a delta says: the rest is not looked at, and may not have come yet; 30 bytes are enough. Numbers
    of blocks and of changed weights are 0."""
    return _described(lib.tlc_delta_peek, frame)


def _described(function: Callable[..., int], frame: Any) -> DeltaInfo:
    source = octets(frame, "frame")
    info = _c.DeltaInfo(struct_size=sizeof(_c.DeltaInfo))
    check_bytes(function(source.address, source.size, byref(info)), source, Format.DELTA)
    return DeltaInfo(
        n=info.n, dtype=DType(info.dtype), has_base=bool(info.has_base),
        base_digest=info.base_digest if info.has_digests and info.has_base else None,
        result_digest=info.result_digest if info.has_digests else None, unchanged_blocks=info.blocks[0],
        sparse_blocks=info.blocks[1], dense_blocks=info.blocks[2], raw_blocks=info.blocks[3], changed=info.changed,
        version=info.version)


def digest(weights: Any, *, dtype: Optional[DTypeLike] = None, threads: Optional[int] = None) -> int:
    """What deltas carry of these weights: by it a machine finds the delta that it needs."""
    view, n, kind = weights_of(weights, dtype, "weights")
    found = c_uint64()
    _call(threads, n, lib.tlc_delta_digest, kind, view.address, n, byref(found))
    return found.value
