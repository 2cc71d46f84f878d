# SPDX-License-Identifier: MIT
"""Bytes of old weights XOR bytes of new ones, as several code bases send them: a delta from zeros."""
from __future__ import annotations

from typing import Any

from .. import delta
from .._errors import CorruptError, Status

_SAMPLE = 1 << 20  # bytes by which the width of the weights is guessed
_DTYPES = {1: "u8", 2: "bf16", 4: "f32"}  # by width: a weight of 16 or 32 bits is one value, however its bytes changed


def compress(changed: Any) -> bytes:
    """A frame without digests. Whoever sends an XOR has checksums of the weights themselves."""
    view = memoryview(changed).cast("B")
    part = view[:min(_SAMPLE, view.nbytes // 4 * 4) or view.nbytes]
    kinds = [kind for width, kind in _DTYPES.items() if view.nbytes % width == 0]
    kind = min(kinds, key=lambda kind: len(_from_zeros(part, kind)))
    return _from_zeros(view, kind)


def _from_zeros(view: memoryview, kind: str) -> bytes:
    return delta.compress(_values(bytearray(view.nbytes), kind), _values(view, kind), dtype=kind, digests=False)


def _values(octets: Any, kind: str) -> memoryview:
    return memoryview(octets).cast("B").cast({"u8": "B", "bf16": "H", "f32": "f"}[kind])


def decompress(frame: Any, size: int) -> bytearray:
    """The XOR, of `size` bytes, which the caller knows: a few bytes could claim any. CorruptError: the frame has
    another size, or was altered."""
    info = delta.peek(frame)
    kind = info.dtype.name.lower()
    if kind not in _DTYPES.values() or info.n * info.dtype.bits != 8 * size:
        raise CorruptError(Status.CORRUPT, f"{info.n} weights of {kind} are not {size} bytes")
    changed = bytearray(size)
    delta.apply(frame, _values(changed, kind), dtype=kind)
    return changed
