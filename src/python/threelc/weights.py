# SPDX-License-Identifier: MIT
"""Messages that take a whole model from one state to another: the deltas of all tensors with their names, dtypes and
shapes, who sent them and in which order (threelc/weights.h). threelc.torch.WeightSync makes and takes them for you.

    with open("step-8.weights", "wb") as file:
        writer = threelc.weights.Writer(file, trainer=identity, sequence=8, count=len(model))
        for name in sorted(model):                                  # in the order of names
            writer.add(name, threelc.delta.compress(before[name], model[name]), model[name].shape)
        writer.finish()

    with open("step-8.weights", "rb") as file:
        threelc.weights.Reader(file).apply(served)                  # name -> array: all of them change, or none

Only one frame is in memory at a time. A message may also be bytes or a memory map, and a receiver may have a part of
its tensors.
"""
from __future__ import annotations

import ctypes
from ctypes import byref, c_uint64, c_void_p, sizeof
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Sequence, Tuple

from . import _c, delta
from ._arrays import borrowed, octets, weights as weights_of
from ._c import DType
from ._library import check as check_status, coded, count as whole, described, lib, message_of
from ._object import CObject
from ._parallel import Threads, threads_of, uninterrupted

__all__ = ["Entry", "Info", "Reader", "TRAINER_SIZE", "View", "Writer", "check_order"]

TRAINER_SIZE = _c.TRAINER_SIZE  # bytes of a trainer's identity
_PIECE = 1 << 20  # bytes: a frame is given to its file in such pieces


@dataclass(frozen=True)
class Info:
    """What a message says of itself."""

    trainer: bytes
    """who sent it: 16 bytes"""
    sequence: int
    """its number among the messages of its trainer, from 1 on"""
    full: bool
    """it has all weights"""
    count: int
    """entries"""
    size: int
    """bytes"""
    base_digest: int
    """of the model before it, as far as frames have a base; 0: none has one"""
    result_digest: int
    """of the model after it; if all frames of the next message have a base, its base_digest"""
    frame_max: int
    """bytes of the longest frame"""


@dataclass(frozen=True)
class View:
    """Where a tensor without a frame lies in another one, the root. The values of the root lie in memory as its
    strides say, each once, and value (i, j, ...) of the view is at first + i strides[0] + j strides[1] + ... there.
    Where two weights share a byte, strides and first are in bytes, and the last dimension counts half."""

    root: int
    """the number of its entry"""
    root_strides: Optional[Tuple[int, ...]] = None
    """None: the view is all of the root, in the same shape"""
    strides: Tuple[int, ...] = ()
    first: int = 0


@dataclass(frozen=True)
class Entry:
    """A tensor of a message."""

    number: int
    name: str
    dtype: DType
    shape: Tuple[int, ...]
    """in weights, also where two of them share a byte"""
    n: int
    """weights"""
    view: Optional[View]
    """None: it has a frame, which the rest tells of"""
    frame_len: int
    has_base: bool
    base_digest: int
    result_digest: int


class _Callback:
    """A function that the library calls. What it raises is raised again when the library has returned."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self._error: Optional[BaseException] = None

    def __call__(self, _: Any, *arguments: Any) -> int:
        try:
            self._function(*arguments)
            return 0
        except BaseException as error:
            self._error = error
            return 1

    def raised(self) -> None:
        """Raises it."""
        error, self._error = self._error, None
        if error is not None:
            raise error


def _into(sink: Any) -> Callable[[int, int], None]:
    """A function that gives bytes to a file, or to a function."""
    put = getattr(sink, "write", sink)
    if not callable(put):
        raise TypeError(f"sink should be a file, or a function that takes bytes, not {described(sink)}")

    def write(src: int, size: int) -> None:
        at = 0
        while at < size:
            piece = ctypes.string_at(src + at, min(size - at, _PIECE))
            done = put(piece)
            at += done if isinstance(done, int) else len(piece)  # a file without a buffer may take a part
    return write


def _from(file: Any) -> Callable[[int, int, int], None]:
    """A function that reads a part of a file."""
    def read(offset: int, dst: int, size: int) -> None:
        left = memoryview((ctypes.c_uint8 * size).from_address(dst)).cast("B")
        file.seek(offset)
        while left:
            came = file.readinto(left)
            if not came:
                raise EOFError(f"the file has become shorter: there are no {size} bytes at {offset}")
            left = left[came:]
    return read


class _Message(CObject):
    """A message that is written or read. callbacks: what the library calls. make: makes the C object."""

    def __init__(self, callbacks: Sequence[_Callback], config: Any, make: Callable[..., int],
                 destroy: Callable[[Any], None], threads: Optional[Threads] = None) -> None:
        self._callbacks = callbacks
        self._room = message_of(config)
        super().__init__(lambda made: self._called(callbacks, make, made, byref(config)), destroy, threads, ())

    def _called(self, callbacks: Sequence[_Callback], function: Callable[..., int], *arguments: Any) -> None:
        status = uninterrupted(function, *arguments) if callbacks else function(*arguments)
        for callback in callbacks:
            callback.raised()
        check_status(status, self._room.value)

    def _call(self, function: Callable[..., int], *arguments: Any) -> None:
        with self._lock:
            self._called(self._callbacks, function, self._handle, *arguments)


def _numbers(values: Sequence[int], what: str) -> Any:
    return (c_uint64 * len(values))(*[whole(value, what, 64) for value in values])


class Writer(_Message):
    """Writes a message, piece by piece. sink: a file that is open for writing, or a function that takes bytes.
    trainer: 16 bytes, the same in all messages of a run, and others than those of any other run. count: how many
    entries are added. note: bytes of yours for the receivers."""

    def __init__(self, sink: Any, *, trainer: bytes, sequence: int, count: int, note: Any = b"") -> None:
        callback, view = _Callback(_into(sink)), octets(note, "note")
        self._write = _c.WEIGHTS_WRITE(callback)
        config = _c.WeightsWriterConfig(
            struct_size=sizeof(_c.WeightsWriterConfig), write=self._write, trainer=_identity(trainer),
            sequence=whole(sequence, "sequence", 64), count=whole(count, "count", 64), note=view.address,
            note_len=view.size)
        super().__init__((callback,), config, lib.tlc_weights_writer_create, lib.tlc_weights_writer_destroy)

    def add(self, name: str, frame: Any, shape: Sequence[int]) -> None:
        """The next tensor, whose name comes after those before, and a delta of it, with digests. shape: in weights,
        also where two of them share a byte."""
        self._add(name, delta.peek(frame).dtype, shape, None, octets(frame, "frame"))

    def add_view(self, name: str, dtype: DType, shape: Sequence[int], view: View) -> None:
        """The next tensor, whose values are in another one. Readers refuse a message with a view that does not fit."""
        self._add(name, dtype, shape, view, None)

    def _add(self, name: str, dtype: DType, shape: Sequence[int], view: Optional[View], frame: Any) -> None:
        lengths = _numbers(shape, "shape")
        entry = _c.WeightsEntry(struct_size=sizeof(_c.WeightsEntry), name=coded(name, "name"), dtype=DType(dtype),
                                dims=len(lengths), shape=lengths)
        if view is not None:
            entry.is_view, entry.root, entry.first = 1, whole(view.root, "root", 64), whole(view.first, "first", 64)
            if view.root_strides is not None:
                strides = _numbers(view.strides, "strides")
                if len(strides) != len(lengths):
                    raise ValueError(f"{name} has {len(lengths)} dimensions, and {len(strides)} strides")
                entry.root_dims, entry.strides = len(view.root_strides), strides
                entry.root_strides = _numbers(view.root_strides, "root_strides")
        self._call(lib.tlc_weights_add, byref(entry), frame and frame.address, frame.size if frame else 0)

    def finish(self) -> None:
        """Writes the end. Without it a message is refused."""
        self._call(lib.tlc_weights_finish)


class Reader(_Message):
    """Reads a message: bytes, a memory map, or a file that is open for reading and has nothing else. It is checked
    whole, except its frames, which are checked when they are applied. CorruptError: it was altered, cut, or is no
    message. The file, or the memory, must not change meanwhile. len() tells how many entries it has; the reader gives
    them by their number, and one after the other, in the order of their names."""

    def __init__(self, source: Any, *, threads: Optional[int] = None) -> None:
        """threads: of the library, in apply()."""
        self._in_memory = not hasattr(source, "readinto")
        pool, found = threads_of(threads), _c.WeightsInfo()
        callbacks = () if self._in_memory else (_Callback(_from(source)),)
        config = _c.WeightsReaderConfig(struct_size=sizeof(_c.WeightsReaderConfig))
        if self._in_memory:
            self._memory = octets(source, "message")
            config.src, config.size = self._memory.address, self._memory.size
        else:
            self._read = _c.WEIGHTS_READ(*callbacks)
            config.read, config.size = self._read, source.seek(0, 2)
        if pool is not None:
            config.parallel = pool.parallel
        super().__init__(callbacks, config, lib.tlc_weights_open, lib.tlc_weights_close, pool)
        found.struct_size = sizeof(found)
        check_status(lib.tlc_weights_describe(self._handle, byref(found)))
        self._note_len = found.note_len
        self.info = Info(trainer=bytes(found.trainer), sequence=found.sequence, full=bool(found.full),
                         count=found.count, size=found.size, base_digest=found.base_digest,
                         result_digest=found.result_digest, frame_max=found.frame_max)
        """what the message says of itself"""

    def __len__(self) -> int:
        return self.info.count

    def __iter__(self) -> Iterator[Entry]:
        return map(self.__getitem__, range(self.info.count))

    def __getitem__(self, number: int) -> Entry:
        if not 0 <= number < self.info.count:
            raise IndexError(f"there is no entry {number}: the message has {self.info.count}")
        found = _c.WeightsEntry(struct_size=sizeof(_c.WeightsEntry))
        self._call(lib.tlc_weights_at, number, byref(found))
        return _entry_of(number, found)

    def note(self) -> bytes:
        """What the trainer wrote for receivers."""
        room = bytearray(self._note_len)
        view = octets(room, "note", writable=True)
        self._call(lib.tlc_weights_note, view.address, view.size)
        return bytes(room)

    def frame(self, entry: Entry) -> memoryview:
        """The frame of an entry that is no view, for the functions of threelc.delta, which check it. In the memory of
        the message, or read from its file."""
        room, found = None, c_void_p()
        if not self._in_memory:
            room = octets(bytearray(entry.frame_len), "frame", writable=True)
        self._call(lib.tlc_weights_frame, entry.number, room and room.address, room.size if room else 0, byref(found))
        return borrowed(found.value, entry.frame_len, room or self._memory)

    def copy_view(self, entry: Entry, values: Any, out: Any) -> Any:
        """Writes the values of a view to `out`, and returns it. values: all of its root."""
        if entry.view is None:
            raise ValueError(f"{entry.name} is no view")
        root = self[entry.view.root]
        source, target = _all_of(root, values, "values", False), _all_of(entry, out, "out", True)
        self._call(lib.tlc_weights_copy_view, entry.number, source.address, target.address)
        return out

    def apply(self, arrays: Mapping[str, Any]) -> None:
        """Takes these arrays, by the names of their tensors, to the weights after the message: all of them, or none.
        The tensors of the message that are not among them are left out, also views whose memory is that of their root:
        leave those out. BaseError: an array is not what the message begins with. Whether the message is in order is
        yours to ask: check_order()."""
        names = set(arrays)
        places: Dict[bytes, Any] = {}
        for entry in self:
            if entry.name in names:
                places[entry.name.encode()] = _all_of(entry, arrays[entry.name], entry.name, True)

        def find(found: Any, place: Any) -> None:
            view = places.get(found[0].name)
            if view is not None:
                place[0].base = None if found[0].is_view else view.address
                place[0].out, place[0].count = view.address, found[0].n
        room = octets(bytearray(0 if self._in_memory else self.info.frame_max), "frame", writable=True)
        finding = _Callback(find)
        with self._lock:
            self._called((*self._callbacks, finding), lib.tlc_weights_apply, self._handle, _c.WEIGHTS_FIND(finding),
                         None, room.address, room.size)


def _identity(trainer: Any) -> Any:
    view = octets(trainer, "trainer")
    if view.size != _c.TRAINER_SIZE:
        raise ValueError(f"trainer should have {_c.TRAINER_SIZE} bytes, not {view.size}")
    return (ctypes.c_ubyte * _c.TRAINER_SIZE)(*bytes(trainer))


def _entry_of(number: int, found: Any) -> Entry:
    view = None
    if found.is_view:
        view = View(found.root)
        if found.root_strides:
            view = View(found.root, tuple(found.root_strides[:found.root_dims]), tuple(found.strides[:found.dims]),
                        found.first)
    return Entry(number=number, name=found.name.decode(), dtype=DType(found.dtype),
                 shape=tuple(found.shape[:found.dims]), n=found.n, view=view, frame_len=found.frame_len,
                 has_base=bool(found.has_base), base_digest=found.base_digest, result_digest=found.result_digest)


def _all_of(entry: Entry, array: Any, what: str, writable: bool) -> Any:
    """The memory of all weights of an entry."""
    view, n, _ = weights_of(array, entry.dtype, what, writable)
    if n != entry.n:
        raise ValueError(f"{entry.name} has {entry.n} weights, {what} has {n}")
    return view


def check_order(trainer: bytes, sequence: int, full: bool, heard: Optional[Tuple[bytes, int]]) -> None:
    """Whether a message of this Info may be applied now. heard: trainer and sequence of the last one that was; None:
    there was none. OrderError: it is old, or came twice. BaseError: one before it was missed, or it is of another
    trainer, and it does not have all weights."""
    told = _c.WeightsInfo(struct_size=sizeof(_c.WeightsInfo), trainer=_identity(trainer),
                          sequence=whole(sequence, "sequence", 64), full=int(full))
    last = _c.WeightsHeard() if heard is None else _c.WeightsHeard(_identity(heard[0]), whole(heard[1], "heard", 64))
    message = ctypes.create_string_buffer(_c.MESSAGE_SIZE)
    check_status(lib.tlc_weights_follows(byref(told), byref(last), message, len(message)), message.value)
