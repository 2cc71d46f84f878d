# SPDX-License-Identifier: MIT
"""Lossless deltas of weights: what a machine needs to go from the weights that it has to those of a later step.

    frame = threelc.delta.compress(base, next)       # bytes
    threelc.delta.apply(frame, weights)              # weights were base, and are next now

After a step at a small learning rate few weights differ, and most of these by one unit in the last place: then a
frame is 30 to 200 times smaller than the weights. Any bits come out as they went in.
"""
from __future__ import annotations

from ctypes import POINTER, byref, c_size_t, c_uint64, c_void_p, cast, sizeof
from dataclasses import dataclass
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence, Tuple

from . import _c
from ._arrays import DTypeLike, octets, weight_dtype_of, weights as weights_of
from ._c import DType, Format
from ._library import check as check_status, check_bytes, count as whole, lib, listed, message_of
from ._parallel import call, threads_of

__all__ = ["Changes", "DeltaInfo", "Repaired", "apply", "apply_range", "bound", "changes", "check", "compress",
           "compress_into", "digest", "fold", "from_changes", "inspect", "peek", "repair"]

_BLOCK = 65536  # weights: changes() reads whole blocks
_IN_A_BYTE = (DType.F4_E2M1, DType.U4)
_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}


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


class Changes(NamedTuple):
    """Weights that differ, as changes() reads them."""

    positions: memoryview
    """rising, of 64 bits"""
    values: memoryview
    """one for each, as unsigned integers of the width of the dtype; weights of 4 bits have a byte each"""
    are_values: int
    """0: differences; 1: the next weights themselves. Of 64 bits 1: the lower halves are those of the next weights; 2:
    the upper ones; 3: both"""


class Repaired(NamedTuple):
    """Blocks of 65,536 weights, as repair() found them."""

    at_result: int
    at_base: int
    between: int


def _call(threads: Optional[int], n: int, function: Callable[..., int], *arguments: Any,
          without_digests: bool = False, block_digests: bool = False, check_result: bool = False) -> None:
    """Calls a function of the library whose last argument are options."""
    options = _c.DeltaOptions(struct_size=sizeof(_c.DeltaOptions), without_digests=int(without_digests),
                              block_digests=int(block_digests), check_result=int(check_result))
    message = message_of(options)
    pool = threads_of(threads, n)
    if pool is not None:
        options.parallel = pool.parallel
    check_status(call(pool, function, *arguments, byref(options)), message.value)


def compress(base: Any, next: Any, *, dtype: Optional[DTypeLike] = None, digests: bool = True,
             block_digests: bool = False, threads: Optional[int] = None) -> bytes:
    """The delta that makes `next` of `base`. base None: it has all weights, losslessly packed.

    Arrays have any of these dtypes: float32, float16, bfloat16, float8, 8-bit, 32-bit and 64-bit integers, bool,
    float64. What numpy has no name for is given as bits and named by `dtype`: "bf16" (16-bit integers), "f8_e4m3",
    "f8_e5m2" (bytes), "f4_e2m1", "u4" (bytes that have two values each). digests: of base and result, 16 bytes, by
    which apply() finds out whether it has the right base. block_digests: also of each 65,536 weights, 16 bytes for
    these, by which repair() completes an apply() that was broken off.
    """
    _, n, kind = weights_of(next, dtype, "next")
    frame = bytearray(bound(n, kind))
    written = compress_into(base, next, frame, dtype=kind, digests=digests, block_digests=block_digests,
                            threads=threads)
    return bytes(memoryview(frame)[:written])


def bound(n: int, dtype: DTypeLike) -> int:
    """The most bytes that a frame of n weights has."""
    found = c_size_t()
    check_status(lib.tlc_delta_bound(weight_dtype_of(dtype), whole(n, "n"), byref(found)))
    return found.value


def compress_into(base: Any, next: Any, out: Any, *, dtype: Optional[DTypeLike] = None, digests: bool = True,
                  block_digests: bool = False, threads: Optional[int] = None) -> int:
    """As compress, into a writable array of at least bound() bytes. Returns the bytes of the frame."""
    target, n, kind = weights_of(next, dtype, "next")
    source = None
    if base is not None:
        source, found, _ = weights_of(base, kind, "base")
        if found != n:
            raise ValueError(f"base has {found} weights, next has {n}")
    room, written = octets(out, "out", writable=True), c_size_t()
    _call(threads, n, lib.tlc_delta_compress, kind, source and source.address, target.address, n, room.address,
          room.size, byref(written), without_digests=not digests, block_digests=block_digests)
    return written.value

def apply(frame: Any, weights: Any, *, dtype: Optional[DTypeLike] = None, check_result: bool = False,
          threads: Optional[int] = None) -> Any:
    """Makes the next weights of `weights`, in place, and returns them. An exception leaves them as they were:
    BaseError: they are not the base; SizeError: the frame has another number of weights; CorruptError: it was altered.

    check_result: what was written is compared with the digest of the result, in another sweep. CorruptError, of
    status CHECKSUM: it is not what the sender had. Then the weights have changed, and are not to be used.
    """
    source = octets(frame, "frame")
    target, n, kind = weights_of(weights, dtype, "weights", writable=True)
    _call(threads, n, lib.tlc_delta_apply, source.address, source.size, kind, target.address, n,
          check_result=check_result)
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


def from_changes(positions: Any, before: Any, after: Any, n: int, *, dtype: Optional[DTypeLike] = None,
                 digests: Optional[Tuple[int, int]] = None, threads: Optional[int] = None) -> bytes:
    """The delta that compress() would make, of the weights that differ: a GPU may find them, and the others need not
    come to the host.

    positions: integers of 64 bits, which rise; before, after: the weights there, of dtypes as in compress(); of 4 bits
    one in the lower half of each byte. n: all weights. digests: digest() of the base and of the result, or None: the
    delta has none.
    """
    at, k, _ = weights_of(positions, DType.I64, "positions")
    target, found, kind = _listed(after, dtype, "after")
    source, others, _ = _listed(before, kind, "before")
    if k != found or k != others:
        raise ValueError(f"there are {k} positions, {others} weights before and {found} after")
    pair = None
    if digests is not None:
        pair = (c_uint64 * 2)(*(whole(one, "digests", 64) for one in listed(digests, 2, "digests", "numbers")))
    bound, written = c_size_t(), c_size_t()
    check_status(lib.tlc_delta_changes_bound(kind, k, whole(n, "n"), byref(bound)))
    frame = bytearray(bound.value)
    room = octets(frame, "frame", writable=True)
    _call(threads, k, lib.tlc_delta_from_changes, kind, cast(at.address, POINTER(c_uint64)), source.address,
          target.address, k, n, pair, room.address, room.size, byref(written))
    return bytes(memoryview(frame)[:written.value])


def _listed(values: Any, dtype: Optional[DTypeLike], name: str) -> Tuple[Any, int, DType]:
    view, n, kind = weights_of(values, dtype, name)
    return view, n // 2 if kind in _IN_A_BYTE else n, kind


def changes(frame: Any, *, first: int = 0, end: Optional[int] = None) -> Iterator[Changes]:
    """The weights from `first` to `end` that differ, in rising order, from the delta alone; each piece has memory of
    its own, of at most 65,536 weights.

    A difference d is that of the weights as integers, modulo 2**bits: after = before + d. Floats of 4 to 32 bits are
    such integers once all bits but the sign are inverted where the sign is 1. numpy.frombuffer() and
    torch.frombuffer() take what comes.
    """
    source = octets(frame, "frame")
    info = peek(frame)
    size = max(info.dtype.bits // 8, 1)
    piece = _c.DeltaPiece(struct_size=sizeof(_c.DeltaPiece), next=whole(first, "first"),
                          end=info.n if end is None else whole(end, "end"))
    while True:
        cap = min(_BLOCK, max(piece.end - piece.next, 0))
        positions, values = bytearray(8 * cap), bytearray(size * cap)
        rooms = octets(positions, "positions", writable=True), octets(values, "values", writable=True)
        piece.positions, piece.values = cast(rooms[0].address, POINTER(c_uint64)), rooms[1].address
        piece.cap = cap
        _call(1, 0, lib.tlc_delta_changes, source.address, source.size, info.dtype, info.n, byref(piece))
        if piece.k:
            yield Changes(memoryview(positions)[:8 * piece.k].cast("Q"),
                          memoryview(values)[:size * piece.k].cast(_FORMATS[size]), piece.are_values)
        if piece.next >= piece.end:
            return


def fold(frames: Sequence[Any], *, threads: Optional[int] = None) -> bytes:
    """One delta of a chain of them, without the weights: it takes the base of the first to the result of the last, and
    is as small as if it were made of these two. BaseError: one does not begin where the one before it ends."""
    sources = [octets(frame, f"frames[{i}]") for i, frame in enumerate(frames)]
    if not sources:
        raise ValueError("there are no frames")
    info = peek(frames[0])
    starts = (c_void_p * len(sources))(*(source.address for source in sources))
    sizes = (c_size_t * len(sources))(*(source.size for source in sources))
    bound, written = c_size_t(), c_size_t()
    check_status(lib.tlc_delta_fold_bound(info.dtype, info.n, len(sources), byref(bound)))
    frame = bytearray(bound.value)
    room = octets(frame, "frame", writable=True)
    _call(threads, info.n, lib.tlc_delta_fold, starts, sizes, len(sources), room.address, room.size, byref(written))
    return bytes(memoryview(frame)[:written.value])


def repair(frame: Any, weights: Any, *, dtype: Optional[DTypeLike] = None, threads: Optional[int] = None) -> Repaired:
    """Completes an apply() that was broken off at any moment, as when a process is killed that writes to a memory map,
    from the same delta, which has block_digests. BaseError: some weights are neither those of the base nor of the
    result, nor did the call end there."""
    source = octets(frame, "frame")
    target, n, kind = weights_of(weights, dtype, "weights", writable=True)
    found = (c_uint64 * 3)()
    _call(threads, n, lib.tlc_delta_repair, source.address, source.size, kind, target.address, n, found)
    return Repaired(*found)


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


def digest(weights: Any, *, first: int = 0, dtype: Optional[DTypeLike] = None, threads: Optional[int] = None) -> int:
    """What deltas carry of these weights: by it a machine finds the delta that it needs. first: the number of the first
    of them, a multiple of 4,096, where they are a part: the digest of all is the sum of those of parts, modulo 2**64.
    """
    view, n, kind = weights_of(weights, dtype, "weights")
    found = c_uint64()
    _call(threads, n, lib.tlc_delta_digest_part, kind, view.address, n, whole(first, "first", 64), byref(found))
    return found.value
