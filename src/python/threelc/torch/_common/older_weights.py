# SPDX-License-Identifier: MIT
"""Messages of WeightSync as they were before threelc.weights: bundles with a head in JSON."""
from __future__ import annotations

import math
import zlib
from typing import Any, Dict, List, Tuple

from ... import _bundles, delta
from ..._arrays import WEIGHT_NAMES, weight_dtype_of
from ..._errors import CorruptError, Status
from ..._json import parsed
from .sharing import Place, dense, reach
from .states import plain
from .weight_messages import Entry, Message, shape_of

_FORMAT = 3
_FLOATS_ONLY = 2  # the format before 0.5.1, whose messages have floats of 32 and 16 bits alone


def _need(fits: bool, what: str) -> None:
    if not fits:
        raise CorruptError(Status.CORRUPT, f"this is not a message of WeightSync: {what}")


def _is_numbers(thing: Any) -> bool:
    """Whether it is a list of whole numbers from 0 on."""
    return type(thing) is list and all(type(number) is int and number >= 0 for number in thing)


def read(message: Any) -> Message:
    """The parts of a message. CorruptError: these bytes are no message."""
    head, *frames = _bundles.unpack(message) or [memoryview(b"")]
    if int.from_bytes(head[:4], "little") != zlib.crc32(head[4:]) or len(head) < 5:
        raise CorruptError(Status.CORRUPT, "this is not a message of WeightSync, or it was altered")
    try:
        found = parsed(bytes(head[4:]))
    except ValueError:
        found = None
    _need(type(found) is dict and type(found.get("format")) is int, "it has no format")
    if found["format"] not in (_FORMAT, _FLOATS_ONLY):
        raise CorruptError(Status.VERSION, f"the message has format {found['format']}, not {_FORMAT} or {_FLOATS_ONLY}")
    sequence, listed = found.get("sequence"), found.get("tensors")
    _need(type(sequence) is int and 0 < sequence < 2**64, "it has no number")
    _need(type(listed) is list and all(type(entry) is dict for entry in listed), "it has no tensors")
    entries: Dict[str, Entry] = {}
    left = iter(frames)
    for entry in listed:
        _need(type(entry.get("name")) is str, "a tensor has no name")
        name = plain(entry["name"])  # before 0.5.0 names were those that torch.compile() makes
        _need(name not in entries, f"two tensors have the name {name}")
        _need(_is_numbers(entry.get("shape")) and entry.get("dtype") in list(WEIGHT_NAMES),
              f"{name} has no shape and dtype")
        entries[name] = _view(name, entry) if "in" in entry else _own(name, entry, next(left, None))
    _need(next(left, None) is None, "it has more frames than tensors")
    shapes = dict(zip(entries, (entry["shape"] for entry in listed)))  # as PyTorch counts
    for name, one in entries.items():
        if one.frame is None:
            root = one.place.root
            _need(root in entries, f"{name} is in no tensor")
            _need(_alike(one, entries[root]) and _fits(one.place, shapes[name], shapes[root]),
                  f"{name} is no part of {root}")
    full = not any(entry.has_base for entry in entries.values())
    return Message(_trainer(found.get("trainer")), sequence, full, entries, found["format"] == _FLOATS_ONLY)


def _trainer(text: Any) -> bytes:
    try:
        identity = bytes.fromhex(text)
    except (TypeError, ValueError):
        identity = b""
    _need(len(identity) == 16, "it has no trainer")
    return identity


def _own(name: str, entry: Dict[str, Any], frame: Any) -> Entry:
    """A tensor with a frame."""
    _need(frame is not None, f"there is no frame of {name}")
    shape, info = shape_of(entry["shape"], entry["dtype"]), delta.peek(frame)
    if info.n != math.prod(shape) or info.dtype != weight_dtype_of(entry["dtype"]):
        raise CorruptError(Status.CORRUPT, f"{name} is of {info.n} weights of {info.dtype.name.lower()}")
    return Entry(shape, entry["dtype"], Place(name), lambda: frame, info.has_base,
                 info.base_digest is not None and info.base_digest == info.result_digest, info.result_digest)


def _view(name: str, entry: Dict[str, Any]) -> Entry:
    """A tensor whose values are in another one."""
    _need(type(entry["in"]) is str, f"{name} is in no tensor")
    return Entry(shape_of(entry["shape"], entry["dtype"]), entry["dtype"],
                 Place(plain(entry["in"]), *_part_of(entry, name)), None, False, False, None)


def _part_of(entry: Dict[str, Any], name: str) -> Tuple[Any, ...]:
    """What follows the root in a Place."""
    if "root_strides" not in entry:
        return ()
    strides = entry["root_strides"], entry.get("strides")
    _need(all(map(_is_numbers, strides)) and _is_numbers([entry.get("first")]), f"{name} has no place")
    return (*map(tuple, strides), entry["first"])


def _alike(entry: Entry, root: Entry) -> bool:
    return root.frame is not None and root.dtype == entry.dtype


def _fits(place: Place, shape: List[int], root_shape: List[int]) -> bool:
    """Whether a tensor is a part of its root, or all of it."""
    if place.root_strides is None:
        return root_shape == shape
    if 0 in shape:  # no trainer sends a view without values, and nothing would bound its strides
        return False
    if len(place.root_strides) != len(root_shape) or len(place.strides) != len(shape):
        return False
    return (dense(root_shape, place.root_strides)
            and place.first + reach(shape, place.strides) <= math.prod(root_shape))
