# SPDX-License-Identifier: MIT
"""A model that others serve or sample from while it is trained: what changed travels, losslessly."""
from __future__ import annotations

import json
import math
import secrets
import zlib
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

import torch

from .. import _bundles, delta
from .._arrays import WEIGHT_NAMES, check_memory, check_writable, weight_dtype_of
from .._c import DType
from .._errors import BaseError, CorruptError, OrderError, Status
from .._library import described
from .._parallel import uninterrupted
from ._common.module import is_sharded, local
from ._common.sharing import Place, check_same, dense, overlaps_itself, places, reach, values_in
from ._common.states import TENSORS, Kind, Optionally, plain

FORMAT = 3  # of messages
_FLOATS_ONLY = 2  # the format before 0.5.1, whose messages have floats of 32 and 16 bits alone
STATE_VERSION = 1  # of state_dict()
_STATE = Kind("WeightSync", STATE_VERSION, {"trainer": str, "sequence": int, "published": TENSORS,
                                            "heard": Optionally((str, int)), "replaced": [str]})
_FLOATS = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
_DTYPES = {getattr(torch, name): name for name in WEIGHT_NAMES if isinstance(getattr(torch, name, None), torch.dtype)}
_DTYPES.update(_FLOATS)


class _Entry(NamedTuple):
    """A tensor of a message."""

    shape: List[int]
    dtype: str
    place: Place
    frame: Optional[memoryview]
    """None: its values are in another tensor"""


class _Message(NamedTuple):
    format: int
    trainer: str
    sequence: int
    entries: Dict[str, _Entry]


class WeightSync:
    """One side trains and publishes, others receive. A message has what changed since the last one; the first has all
    weights, packed without loss.

    model: a module. Its parameters and buffers are sent; those of a receiver have the same names, shapes and dtypes, in
    any order. Memory that several of them share, as tied weights do, is sent once; tensors that share memory in a
    receiver must share it in the same way in the trainer. Dtypes are those of threelc.DType, such as float8 and int8;
    buffers of others, such as complex ones, are not sent: left_out() has their names. Of a DTensor the part is sent
    that this rank has, for a receiver that has the same part; for others gather the weights first, as full_tensor()
    does.

    Messages are taken in the order in which they were published; each is taken once. Of a new trainer, which is a new
    WeightSync, the first message must have all weights; then no message of the one before is taken any more.

    >>> message = threelc.torch.WeightSync(trained).publish()    # bytes, for all receivers
    >>> threelc.torch.WeightSync(served).receive(message)
    """

    def __init__(self, model: Any, *, threads: Optional[int] = None) -> None:
        """threads: of the library, in each call."""
        if not isinstance(model, torch.nn.Module):
            advice = ": load the state_dict into a module, and give that" if isinstance(model, Mapping) else ""
            raise TypeError(f"model should be a torch.nn.Module, not {described(model)}{advice}")
        self._model = model
        self._threads = threads
        self._trainer = secrets.token_hex(16)
        self._sequence = 0
        self._published: Dict[str, torch.Tensor] = {}
        self._heard: Optional[Tuple[str, int]] = None  # trainer and sequence of the last message that was received
        self._replaced: Set[str] = set()  # trainers before that one

    def _named(self) -> Dict[str, torch.Tensor]:
        """All parameters and buffers, by all their names."""
        found: Dict[str, torch.Tensor] = {}
        for prefix, module in self._model.named_modules(remove_duplicate=False):
            for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
                if tensor is not None:
                    found[plain(f"{prefix}.{name}" if prefix else name)] = tensor
        return found

    def left_out(self) -> List[str]:
        """The buffers that are not sent."""
        return [name for name, tensor in self._named().items() if tensor.dtype not in _DTYPES]

    def _tensors(self) -> Dict[str, torch.Tensor]:
        """What is sent."""
        found = {}
        for name, tensor in self._named().items():
            if tensor.dtype in _DTYPES:
                tensor = local(tensor) if is_sharded(tensor) else tensor
                check_memory(tensor, name)
                found[name] = tensor.detach()
            elif isinstance(tensor, torch.nn.Parameter):
                raise TypeError(f"parameter {name} is of {tensor.dtype}, which cannot be sent: threelc.DType has those "
                                "that can")
        return found

    def publish(self, *, full: bool = False) -> bytes:
        """The message that takes receivers from the weights of the last one to those of now. full: it has all weights,
        for receivers that are new or missed a message. It costs a copy of the model in memory."""
        listed: List[Dict[str, Any]] = []
        frames: List[bytes] = []
        published: Dict[str, torch.Tensor] = {}
        tensors = self._tensors()
        for name, place in places(tensors).items():
            tensor = tensors[name]
            entry: Dict[str, Any] = {"name": name, "shape": list(tensor.shape), "dtype": _DTYPES[tensor.dtype]}
            listed.append(entry)
            if place.root != name:
                entry["in"] = place.root
                if place.root_strides is not None:
                    entry.update(root_strides=place.root_strides, strides=place.strides, first=place.first)
                continue
            now = _on_host(tensor)
            base = None if full else self._published.get(name)
            if base is not None and (base.shape != now.shape or base.dtype != now.dtype):
                base = None
            frames.append(delta.compress(base, now, threads=self._threads))
            published[name] = now.clone() if now.data_ptr() == tensor.data_ptr() else now
        sequence = self._sequence + 1
        head = json.dumps({"format": FORMAT, "trainer": self._trainer, "sequence": sequence,
                           "tensors": listed}).encode()
        message = _bundles.pack([zlib.crc32(head).to_bytes(4, "little") + head, *frames])
        self._published, self._sequence = published, sequence
        return message

    def receive(self, message: Any) -> None:
        """Takes the model to the weights of a message. All of it is checked first: after an exception the model is
        what it was, bit for bit. Meanwhile it costs a copy of the model in memory.

        OrderError: the message is old, or was received before. BaseError: one before was missed, so one with all
        weights is needed. CorruptError: these bytes are not a message, or were altered. ValueError names a tensor that
        does not fit. Ctrl-C ends the call when the whole message has been taken, or none of it.
        """
        came = _message_of(message)
        mine = self._tensors()
        entries = came.entries
        if came.format == _FLOATS_ONLY:
            mine = {name: tensor for name, tensor in mine.items() if tensor.dtype in _FLOATS}
        if missing := sorted(mine.keys() - entries.keys()):
            raise ValueError(f"the message has no {missing[0]}")
        for name, entry in entries.items():
            if name not in mine:
                raise ValueError(f"the model has no {name}")
            if entry.shape != list(mine[name].shape) or entry.dtype != _DTYPES[mine[name].dtype]:
                raise ValueError(f"{name} is {entry.dtype} of shape {entry.shape} in the message, "
                                 f"{_DTYPES[mine[name].dtype]} of {list(mine[name].shape)} in the model")
        here = places(mine)
        check_same(here, {name: entry.place for name, entry in entries.items()})
        found = {name: _inspected(name, entry) for name, entry in entries.items() if entry.frame is not None}
        self._check_order(came, all(not info.has_base for info in found.values()))
        hosts = {}
        for name, info in found.items():
            hosts[name] = _on_host(mine[name])
            if info.has_base and delta.digest(hosts[name], threads=self._threads) != info.base_digest:
                raise BaseError(Status.BASE, f"{name} is not what the message begins with: publish(full=True) is "
                                             "needed")
        apart = [name for name, entry in entries.items()
                 if entry.frame is None and here[name].root != here[entry.place.root].root]
        for name in [*hosts, *apart]:
            check_writable(mine[name], name)
            if overlaps_itself(mine[name]):
                raise ValueError(f"several values of {name} are the same memory: give it memory of its own")
        uninterrupted(self._write, came, mine, hosts, apart, torch.is_inference_mode_enabled())

    def _check_order(self, came: _Message, full: bool) -> None:
        if came.trainer in self._replaced:
            raise OrderError(Status.ORDER, "the message is of a trainer that another one has replaced")
        if self._heard is None or full and came.trainer != self._heard[0]:
            return
        trainer, last = self._heard
        if came.trainer != trainer:
            raise BaseError(Status.BASE, "the message is of another trainer than the one before, and does not "
                                         "have all weights: publish(full=True) is needed")
        if came.sequence <= last:
            raise OrderError(Status.ORDER, f"the message is number {came.sequence} of its trainer, and number {last} "
                                           "has been received: it is old, or came twice")
        if came.sequence > last + 1 and not full:
            raise BaseError(Status.BASE, f"the message is number {came.sequence} of its trainer, and number {last + 1} "
                                         "was missed: publish(full=True) is needed")

    def _write(self, came: _Message, mine: Dict[str, torch.Tensor], hosts: Dict[str, torch.Tensor], apart: List[str],
               inference: bool) -> None:
        """hosts: the tensors that have frames, on the CPU. apart: those that have none, and are to be written."""
        before: List[Tuple[torch.Tensor, torch.Tensor]] = []
        with torch.inference_mode(inference), torch.no_grad():
            try:
                for name, host in hosts.items():
                    before.append((mine[name], host.clone()))
                    delta.apply(came.entries[name].frame, host, threads=self._threads)
                    if host.data_ptr() != mine[name].data_ptr():
                        mine[name].copy_(host)
                for name in apart:
                    before.append((mine[name], mine[name].clone()))
                    entry = came.entries[name]
                    mine[name].copy_(values_in(hosts[entry.place.root], entry.place, entry.shape))
            except BaseException:
                for tensor, values in reversed(before):
                    tensor.copy_(values)
                raise
        if self._heard is not None and self._heard[0] != came.trainer:
            self._replaced.add(self._heard[0])
        self._heard = came.trainer, came.sequence

    def state_dict(self) -> Dict[str, Any]:
        """To go on after a restart: of a trainer what was published last, of a receiver which message was received
        last. The model is the caller's to save. Save it after the last message: a trainer that goes back further
        begins anew, with a new WeightSync and without this state."""
        return {"version": STATE_VERSION, "kind": _STATE.name, "trainer": self._trainer, "sequence": self._sequence,
                "published": dict(self._published), "heard": self._heard, "replaced": sorted(self._replaced)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state_dict()."""
        state = _STATE.checked(state, several=False)
        heard = state["heard"]
        self._trainer, self._sequence = state["trainer"], state["sequence"]
        self._published = {plain(name): tensor for name, tensor in state["published"].items()}
        self._heard = None if heard is None else (heard[0], heard[1])
        self._replaced = set(state["replaced"])


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself if it lies on the CPU in one piece, else a copy."""
    return tensor.to("cpu").contiguous()


def _inspected(name: str, entry: _Entry) -> delta.DeltaInfo:
    info = delta.inspect(entry.frame)
    dtype = weight_dtype_of(entry.dtype)
    in_a_byte = 2 if dtype == DType.F4_E2M1 else 1  # shapes are of bytes
    if info.n != in_a_byte * math.prod(entry.shape) or info.dtype != dtype:
        raise CorruptError(Status.CORRUPT, f"{name} is of {info.n} weights of {info.dtype.name.lower()}")
    return info


def _need(fits: bool, what: str) -> None:
    if not fits:
        raise CorruptError(Status.CORRUPT, f"this is not a message of WeightSync: {what}")


def _is_numbers(thing: Any) -> bool:
    """Whether it is a list of whole numbers from 0 on."""
    return type(thing) is list and all(type(number) is int and number >= 0 for number in thing)


def _message_of(message: Any) -> _Message:
    """Its parts. CorruptError: these bytes are no message."""
    head, *frames = _bundles.unpack(message) or [memoryview(b"")]
    if int.from_bytes(head[:4], "little") != zlib.crc32(head[4:]) or len(head) < 5:
        raise CorruptError(Status.CORRUPT, "this is not a message of WeightSync, or it was altered")
    try:
        found = json.loads(bytes(head[4:]))
    except (ValueError, RecursionError):
        found = None
    _need(type(found) is dict and type(found.get("format")) is int, "it has no format")
    if found["format"] not in (FORMAT, _FLOATS_ONLY):
        raise CorruptError(Status.VERSION, f"the message has format {found['format']}, not {FORMAT} or {_FLOATS_ONLY}")
    trainer, sequence, listed = found.get("trainer"), found.get("sequence"), found.get("tensors")
    _need(type(trainer) is str and type(sequence) is int and sequence > 0, "it has no trainer and number")
    _need(type(listed) is list and all(type(entry) is dict for entry in listed), "it has no tensors")
    entries: Dict[str, _Entry] = {}
    left = iter(frames)
    for entry in listed:
        _need(type(entry.get("name")) is str, "a tensor has no name")
        name = plain(entry["name"])  # before 0.5.0 names were those that torch.compile() makes
        _need(name not in entries, f"two tensors have the name {name}")
        _need(_is_numbers(entry.get("shape")) and entry.get("dtype") in list(WEIGHT_NAMES),
              f"{name} has no shape and dtype")
        shared = "in" in entry
        frame = None if shared else next(left, None)
        _need(shared or frame is not None, f"there is no frame of {name}")
        place = Place(name)
        if shared:
            _need(type(entry["in"]) is str, f"{name} is in no tensor")
            place = Place(plain(entry["in"]), *_part_of(entry, name))
        entries[name] = _Entry(entry["shape"], entry["dtype"], place, frame)
    _need(next(left, None) is None, "it has more frames than tensors")
    for name, one in entries.items():
        if one.frame is None:
            _need(one.place.root in entries, f"{name} is in no tensor")
            _need(_fits(one, entries[one.place.root]), f"{name} is no part of {one.place.root}")
    return _Message(found["format"], trainer, sequence, entries)


def _part_of(entry: Dict[str, Any], name: str) -> Tuple[Any, ...]:
    """What follows the root in a Place."""
    if "root_strides" not in entry:
        return ()
    strides = entry["root_strides"], entry.get("strides")
    _need(all(map(_is_numbers, strides)) and _is_numbers([entry.get("first")]), f"{name} has no place")
    return (*map(tuple, strides), entry["first"])


def _fits(entry: _Entry, root: _Entry) -> bool:
    """Whether an entry without a frame is a part of this one, or all of it."""
    place = entry.place
    if root.frame is None or root.dtype != entry.dtype:
        return False
    if place.root_strides is None:
        return root.shape == entry.shape
    if len(place.root_strides) != len(root.shape) or len(place.strides) != len(entry.shape):
        return False
    return (dense(root.shape, place.root_strides)
            and place.first + reach(entry.shape, place.strides) <= math.prod(root.shape))
