# SPDX-License-Identifier: MIT
"""Which weights of some tensors changed, and what they are now, as bytes: for code bases whose receivers have no copy
of the old weights. One frame has the positions in all tensors, another one the values of each dtype.

A message is a bundle: a head, a delta of u8 from zeros that has ones where weights changed, of all tensors one after
the other, then for each dtype, in the order in which they occur first, a delta without a base of the values. The head
is the CRC-32 of the rest of it, in 4 bytes, and JSON: "tensors" has [name, dtype, shape, changed] for each tensor,
"note" what the plug has to say itself.
"""
from __future__ import annotations

import json
import math
import zlib
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

import numpy
import torch

from .. import _bundles, delta
from .._errors import CorruptError, Error, Status
from .._json import parsed

_DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "f8_e4m3",
           "float8_e5m2": "f8_e5m2", "uint8": "u8", "int8": "u8", "int32": "i32", "int64": "i64", "float64": "f64"}
_MOST = 65536  # values for each byte of a frame: it has 4 for each block of so many
Tensor = Any


class Patch(NamedTuple):
    name: str
    shape: Tuple[int, ...]
    positions: Tensor
    """in the flattened tensor, of a dtype of integers, in any order"""
    values: Tensor
    """as many; those of unpack() are in the order of positions, which rise"""


def pack(patches: Iterable[Patch], note: Any = None) -> bytes:
    """note: anything that JSON has. ValueError names the tensor whose positions are not below its size, or come twice.
    Tensors may be on a GPU."""
    head: List[List[Any]] = []
    positions: List[numpy.ndarray[Any, Any]] = []
    values: Dict[str, List[Tensor]] = {}
    total = 0
    for patch in patches:
        shape = [int(length) for length in patch.shape]
        where, order = patch.positions.detach().cpu().to(torch.int64).reshape(-1).sort()
        what = patch.values.detach().cpu().reshape(-1)
        size = math.prod(shape)
        name = _name(what.dtype)
        if name not in _DTYPES:
            raise TypeError(f"{patch.name} is of {what.dtype}; these can be sent: {', '.join(_DTYPES)}")
        if len(where) != len(what):
            raise ValueError(f"{patch.name} has {len(where)} positions and {len(what)} values")
        if len(where) and (where[0] < 0 or where[-1] >= size or (where[1:] == where[:-1]).any()):
            raise ValueError(f"positions of {patch.name} are not below {size}, or come twice")
        head.append([patch.name, name, shape, len(where)])
        positions.append(where.numpy() + total)
        values.setdefault(name, []).append(_bits(what)[order])
        total += size
    where = numpy.concatenate(positions) if positions else numpy.empty(0, numpy.int64)
    ones = numpy.ones(len(where), numpy.uint8)
    frames = [delta.from_changes(where, ones - 1, ones, total, dtype="u8")]
    for dtype, parts in values.items():
        frames.append(delta.compress(None, torch.cat(parts), dtype=_DTYPES[dtype], digests=False))
    text = json.dumps({"tensors": head, "note": note}).encode()
    return _bundles.pack([zlib.crc32(text).to_bytes(4, "little") + text, *frames])


def unpack(message: Any) -> Tuple[List[Patch], Any]:
    """What was packed, and the note. CorruptError: these bytes are not a message of pack(), or were altered."""
    try:
        return _unpacked(message)
    except Error:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise CorruptError(Status.CORRUPT, f"not a message of changed weights: {error}") from error


def _unpacked(message: Any) -> Tuple[List[Patch], Any]:
    first, marks, *frames = _bundles.unpack(message)
    text = bytes(first[4:])
    if first[:4] != zlib.crc32(text).to_bytes(4, "little"):
        raise ValueError("the head was altered")
    told = parsed(text)
    head = [(str(name), str(dtype), tuple(map(int, shape)), int(count))
            for name, dtype, shape, count in told["tensors"]]
    sizes = [math.prod(shape) for _, _, shape, _ in head]
    counts: Dict[str, int] = {}
    for (_, dtype, shape, count), size in zip(head, sizes):
        if dtype not in _DTYPES or min(shape, default=0) < 0 or not 0 <= count <= size:
            raise ValueError("the head has wrong sizes")
        counts[dtype] = counts.get(dtype, 0) + count
    where = numpy.concatenate([numpy.empty(0, numpy.int64), *(numpy.frombuffer(found.positions, numpy.int64)
                                                              for found in delta.changes(marks))])
    if len(frames) != len(counts) or (delta.peek(marks).n, len(where)) != (sum(sizes), sum(counts.values())):
        raise ValueError("head and frames differ")
    values = {dtype: _values(frame, dtype, count) for frame, (dtype, count) in zip(frames, counts.items())}
    patches: List[Patch] = []
    start = first_place = 0
    begun = dict.fromkeys(counts, 0)
    for (name, dtype, shape, count), size in zip(head, sizes):
        places = where[start:start + count] - first_place
        if count and (places[0] < 0 or places[-1] >= size):
            raise ValueError(f"{name} has other positions")
        part = values[dtype][begun[dtype]:begun[dtype] + count]
        patches.append(Patch(name, shape, torch.from_numpy(places), part))
        begun[dtype] += count
        start += count
        first_place += size
    return patches, told["note"]


def _values(frame: memoryview, dtype: str, count: int) -> Tensor:
    if count > len(frame) * _MOST:
        raise ValueError(f"{len(frame)} bytes cannot have {count} values")
    values = torch.zeros(count, dtype=getattr(torch, dtype))
    delta.apply(frame, _bits(values), dtype=_DTYPES[dtype])
    return values


def _name(dtype: torch.dtype) -> str:
    return str(dtype).rpartition(".")[2]


def _bits(tensor: Tensor) -> Tensor:
    """The same memory: of float8 as bytes, which torch can sort."""
    return tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor
