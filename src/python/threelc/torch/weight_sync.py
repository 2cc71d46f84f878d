# SPDX-License-Identifier: MIT
"""A model that others serve or sample from while it is trained: what changed travels, losslessly."""
from __future__ import annotations

import io
import math
import re
import secrets
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Set, Tuple

import torch

from .. import delta, weights
from .._arrays import borrowed, check_memory, check_writable, octets, weight_dtype_of
from .._errors import BaseError, Error, OrderError, Status, error_of
from .._library import described
from .._parallel import uninterrupted
from ._common import device_weights, older_weights, weight_messages
from ._common.arguments import one_of
from ._common.module import is_sharded, local
from ._common.sharing import check_same, overlaps_itself, places, values_in
from ._common.states import TENSORS, Kind, Optionally, by_plain_name, plain
from ._common.weight_messages import DTYPES, Message, is_float, note_of, same_dtype, shape_of, view_of
from .kernels.digest import digest

STATE_VERSION = 1  # of state_dict()
_STATE = Kind("WeightSync", STATE_VERSION, {"trainer": str, "sequence": int, "published": TENSORS,
                                            "heard": Optionally((str, int)), "replaced": [str]})
_NEEDED = "publish(full=True) is needed"
_IDENTITY = re.compile(f"[0-9a-f]{{{2 * weights.TRAINER_SIZE}}}")  # of a trainer


class WeightSync:
    """One side trains and publishes, others receive. A message has what changed since the last one; the first has all
    weights, packed without loss.

    model: a module, or a mapping of names to tensors, such as a state_dict(). Parameters and buffers of a module are
    sent; those of a receiver have the same names, shapes and dtypes, in any order. Memory that several of them share,
    as tied weights do, is sent once; tensors that share memory in a receiver must share it in the same way in the
    trainer. Dtypes are those of threelc.DType, such as float8 and int8; buffers of others, such as complex ones, are
    not sent: left_out() has their names. A mapping has tensors of these dtypes alone. It is asked at each call for the
    tensors that it has then. Of a DTensor the part is sent that this rank has, for a receiver that has the same part;
    for others gather the weights first, as full_tensor() does.

    Messages are taken in the order in which they were published; each is taken once. Of a new trainer, which is a new
    WeightSync, the first message must have all weights; then no message of the one before is taken any more.

    Memory besides the model: a trainer keeps the weights that it published last, and a receiver, during receive(),
    those that it changes; each is one copy, on the CPU, but see `deltas`. A frame, and the copy of a tensor that lies
    on another device, are there for one tensor at a time. publish() returns the whole message; publish_to(), pieces(),
    and receive() from a file do not have it in memory. A state_dict() is one more copy from the next publish() on.

    >>> message = threelc.torch.WeightSync(trained).publish()    # bytes, for all receivers
    >>> threelc.torch.WeightSync(served).receive(message)
    """

    def __init__(self, model: Any, *, threads: Optional[int] = None, deltas: str = "host") -> None:
        """threads: of the library, in each call.
        deltas: where what changed is found and applied. "host": all weights come there. "device": where the weights
        are, as on a GPU; what changed leaves it alone, or all weights if that is less, or the message has no base. The
        copy of a trainer is there, too; a receiver keeps what was where it writes. The messages are the same. Not yet
        run on a GPU.
        """
        if not isinstance(model, (torch.nn.Module, Mapping)):
            raise TypeError("model should be a torch.nn.Module, or a mapping of names to tensors, not "
                            f"{described(model)}")
        one_of(deltas, ("host", "device"), "deltas")
        self._model = model
        self._threads = threads
        self._on_device = deltas == "device"
        self._trainer = secrets.token_hex(weights.TRAINER_SIZE)
        self._sequence = 0
        self._published: Dict[str, torch.Tensor] = {}
        self._unfinished: Set[str] = set()  # tensors of a message that is not finished: receivers do not have them
        self._lent: Set[str] = set()  # tensors of _published that are in a state, too
        self._heard: Optional[Tuple[str, int]] = None  # trainer and sequence of the last message that was received
        self._replaced: Set[str] = set()  # trainers before that one

    def _named(self) -> Dict[str, torch.Tensor]:
        """All tensors, by all their names."""
        if isinstance(self._model, Mapping):
            return by_plain_name((_checked(name, tensor) for name, tensor in self._model.items()), "tensors")
        return by_plain_name(((f"{prefix}.{name}" if prefix else name, tensor)
                              for prefix, module in self._model.named_modules(remove_duplicate=False)
                              for name, tensor in [*module._parameters.items(), *module._buffers.items()]
                              if tensor is not None), "tensors")

    def left_out(self) -> List[str]:
        """The buffers that are not sent."""
        return [name for name, tensor in self._named().items() if tensor.dtype not in DTYPES]

    def _tensors(self) -> Dict[str, torch.Tensor]:
        """What is sent."""
        found = {}
        for name, tensor in self._named().items():
            if tensor.dtype in DTYPES:
                tensor = local(tensor) if is_sharded(tensor) else tensor
                check_memory(tensor, name)
                found[name] = tensor.detach()
            elif isinstance(tensor, torch.nn.Parameter) or isinstance(self._model, Mapping):
                kind = "parameter" if isinstance(tensor, torch.nn.Parameter) else "tensor"
                raise TypeError(f"{kind} {name} is of {tensor.dtype}, which cannot be sent: threelc.DType has those "
                                "that can")
        return found

    # ---- the trainer ----

    def publish(self, *, full: bool = False) -> bytes:
        """The message that takes receivers from the weights of the last one to those of now. full: it has all weights,
        for receivers that are new or missed a message."""
        message = io.BytesIO()
        self.publish_to(message, full=full)
        return message.getvalue()

    def publish_to(self, file: Any, *, full: bool = False) -> None:
        """The same, written to a file tensor by tensor. After an exception the file has no message that a receiver
        takes, and the next message has all weights of the tensors that were written."""
        for _ in self._messages(file, full):
            pass

    def pieces(self, *, full: bool = False) -> Iterator[bytes]:
        """The same as pieces of bytes, tensor by tensor. The weights stay as they are until the last piece has been
        taken. If they are not all taken, the next message has all weights of the tensors that were."""
        made: List[bytes] = []
        for _ in self._messages(made.append, full):
            yield b"".join(made)
            made.clear()

    def _messages(self, sink: Any, full: bool) -> Iterator[None]:
        """Writes a message. Stops before each tensor, and after the end, when it has been published."""
        self._published = self._bases()
        unfinished: Set[str] = set()
        self._unfinished = unfinished
        tensors = self._tensors()
        found = places(tensors)
        number = {name: i for i, name in enumerate(sorted(found))}
        dtypes = {name: DTYPES[tensors[name].dtype] for name in number}
        shapes = {name: shape_of(tensors[name].shape, dtype) for name, dtype in dtypes.items()}
        sequence = self._sequence + 1
        writer = weights.Writer(sink, trainer=bytes.fromhex(self._trainer), sequence=sequence, count=len(number),
                                note=note_of(list(dtypes.values())))
        room = bytearray(max([delta.bound(math.prod(shape), dtypes[name]) for name, shape in shapes.items()
                              if found[name].root == name], default=0))
        for name, dtype in dtypes.items():
            yield
            if self._unfinished is not unfinished:
                raise RuntimeError("another message has been begun, or a state loaded, so this one cannot go on")
            if found[name].root != name:
                writer.add_view(name, weight_dtype_of(dtype), shapes[name], view_of(found[name], number))
                continue
            unfinished.add(name)
            now = self._now(tensors[name])
            writer.add(name, self._frame(None if full else self._base(name, now), now, room), shapes[name])
            self._keep(name, now, now.data_ptr() != tensors[name].data_ptr())
        writer.finish()
        for name in self._published.keys() - number.keys():
            del self._published[name]
        self._sequence, self._unfinished = sequence, set()
        yield

    def _now(self, tensor: torch.Tensor) -> torch.Tensor:
        """In one piece, where the next base is to be."""
        if not self._on_device:
            return _on_host(tensor)
        with torch.inference_mode(False):
            return tensor.contiguous()

    def _frame(self, base: Optional[torch.Tensor], now: torch.Tensor, room: bytearray) -> Any:
        """The frame that takes receivers from the base to now."""
        if self._on_device and base is not None:
            frame = device_weights.frame_of(base, now, self._threads)
            if frame is not None:
                return frame
        size = delta.compress_into(None if base is None else _on_host(base), _on_host(now), room, threads=self._threads)
        return memoryview(room)[:size]

    def _base(self, name: str, now: torch.Tensor) -> Optional[torch.Tensor]:
        """What was published last of a tensor. None: nothing, or it was another tensor."""
        base = self._published.get(name)
        if base is None or base.shape != now.shape or base.dtype != now.dtype:
            return None
        if base.device != now.device:  # after load_state_dict(), or the model was moved
            with torch.inference_mode(False):
                base = self._published[name] = base.to(now.device)
            self._lent.discard(name)
        return base

    def _keep(self, name: str, now: torch.Tensor, is_copy: bool) -> None:
        """Makes these weights the base of the next message, where those before are if they may be overwritten."""
        with torch.inference_mode(False), torch.no_grad():  # which the next call may not be in
            base = self._base(name, now)
            if base is not None and name not in self._lent and not is_copy:
                base.copy_(now)
                return
            del base
            self._published.pop(name, None)  # before there is another copy
            self._published[name] = now if is_copy else now.clone()
            self._lent.discard(name)

    def _bases(self) -> Dict[str, torch.Tensor]:
        """What receivers have."""
        return {name: tensor for name, tensor in self._published.items() if name not in self._unfinished}

    # ---- receivers ----

    def receive(self, message: Any, *, strict: bool = True) -> None:
        """Takes the model to the weights of a message: bytes, a memory map, or a file that is open for reading. All of
        it is checked first: after an exception the model is what it was, bit for bit. If the call is cut off between
        two tensors, as by the end of a process while others have the memory, the same message completes it: tensors
        that have its result already stay as they are. strict: False leaves out the tensors that only the message has,
        and those that only the model has.

        OrderError: the message is old, or was received before. BaseError: one before was missed, so one with all
        weights is needed. CorruptError: these bytes are not a message, or were altered. ValueError names a tensor that
        does not fit. Ctrl-C ends the call when the whole message has been taken, or none of it.
        """
        came = _message_of(message)
        mine = self._tensors()
        if came.floats_only:
            mine = {name: tensor for name, tensor in mine.items() if is_float(DTYPES[tensor.dtype])}
        if not strict:
            mine = {name: tensor for name, tensor in mine.items() if name in came.entries}
            came = came._replace(entries=_with_roots(came, mine))
        _check_fit(came, mine)
        here = places(mine)
        check_same(here, {name: entry.place for name, entry in came.entries.items()})
        self._check_order(came)
        own = [name for name, entry in came.entries.items() if entry.frame is not None]
        done = {name for name in own if not self._fits_frame(came, name, mine[name])}
        apart = [name for name, entry in came.entries.items()
                 if entry.frame is None and here[name].root != here[entry.place.root].root]
        for name in [*own, *apart]:
            check_writable(mine[name], name)
            if overlaps_itself(mine[name]):
                raise ValueError(f"several values of {name} are the same memory: give it memory of its own")
        changing = [name for name in own if not came.entries[name].unchanged and name not in done]
        uninterrupted(self._write, came, mine, changing, apart, torch.is_inference_mode_enabled())

    def _check_order(self, came: Message) -> None:
        if came.trainer.hex() in self._replaced:
            raise OrderError(Status.ORDER, "the message is of a trainer that another one has replaced")
        heard = None if self._heard is None else (bytes.fromhex(self._heard[0]), self._heard[1])
        try:
            weights.check_order(came.trainer, came.sequence, came.full, heard)
        except BaseError as error:
            raise BaseError(Status.BASE, f"{error.sentence}: {_NEEDED}") from None

    def _fits_frame(self, came: Message, name: str, tensor: torch.Tensor) -> bool:
        """Checks the frame of a tensor. False: it is not to be applied, as the tensor has its result already."""
        make, result = came.entries[name].frame, came.entries[name].result_digest
        assert make is not None
        frame = make()
        try:
            if self._on_device and device_weights.goes_there(frame, tensor):
                found = digest(tensor)
                if found == delta.peek(frame).base_digest:
                    return True
            else:
                host = _on_host(tensor)
                try:
                    delta.check(frame, host, threads=self._threads)
                    return True
                except BaseError:
                    found = delta.digest(host, threads=self._threads)
        except Error as error:
            raise error_of(error.status, f"{name}: {error.sentence}") from None
        if found != result:
            raise BaseError(Status.BASE, f"{name} is not what the message begins with: {_NEEDED}")
        return False

    def _write(self, came: Message, mine: Dict[str, torch.Tensor], own: List[str], apart: List[str],
               inference: bool) -> None:
        """own: the tensors whose frames change them. apart: those that have none, and are to be written."""
        back: List[Callable[[], Any]] = []  # what takes each tensor back
        with torch.inference_mode(inference), torch.no_grad():
            try:
                for name in own:
                    make = came.entries[name].frame
                    assert make is not None
                    self._apply(make, mine[name], back)
                for name in apart:
                    place = came.entries[name].place
                    back.append(partial(mine[name].copy_, _on_host(mine[name]).clone()))
                    mine[name].copy_(values_in(_on_host(mine[place.root]), place, mine[name].shape))
            except BaseException:
                for take_back in reversed(back):
                    take_back()
                raise
        if self._heard is not None and self._heard[0] != came.trainer.hex():
            self._replaced.add(self._heard[0])
        self._heard = came.trainer.hex(), came.sequence

    def _apply(self, make: Callable[[], Any], tensor: torch.Tensor, back: List[Callable[[], Any]]) -> None:
        """make: of its frame."""
        if self._on_device:
            frame = make()
            if device_weights.goes_there(frame, tensor):
                applied = device_weights.Applied(tensor)
                back.append(applied.take_back)
                applied.apply(frame)
                return
        host = _on_host(tensor)
        back.append(partial(tensor.copy_, host.clone()))  # before there is a frame, which would leave a gap
        delta.apply(make(), host, threads=self._threads)
        if host.data_ptr() != tensor.data_ptr():
            tensor.copy_(host)

    def state_dict(self) -> Dict[str, Any]:
        """To go on after a restart: of a trainer what was published last, of a receiver which message was received
        last. The model is the caller's to save. Save it after the last message: a trainer that goes back further
        begins anew, with a new WeightSync and without this state."""
        published = {name: tensor.cpu() for name, tensor in self._bases().items()}
        self._lent.update(name for name, tensor in published.items() if tensor is self._published[name])
        return _STATE.saved(None, {"trainer": self._trainer, "sequence": self._sequence, "published": published,
                                   "heard": self._heard, "replaced": sorted(self._replaced)})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state_dict()."""
        state = _STATE.checked(state, several=False)
        heard = state.get("heard")
        for trainer, sequence in [(state["trainer"], state["sequence"]), *([] if heard is None else [heard])]:
            if not _IDENTITY.fullmatch(trainer) or not 0 <= sequence < 2**64:
                raise ValueError(f"this state of WeightSync is damaged: {trainer!r}, {sequence} is no trainer with the "
                                 "number of a message")
        self._trainer, self._sequence = state["trainer"], state["sequence"]
        self._unfinished = set()
        self._published = {plain(name): tensor for name, tensor in state["published"].items()}
        self._lent = set(self._published)
        self._heard = None if heard is None else (heard[0], heard[1])
        self._replaced = set(state["replaced"])


def _checked(name: Any, tensor: Any) -> Tuple[str, torch.Tensor]:
    """An item of a mapping."""
    if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
        raise TypeError(f"the mapping should have names and tensors, not {described(name)}: {described(tensor)}")
    return name, tensor


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself if it lies on the CPU in one piece, else a copy."""
    with torch.inference_mode(False):  # a copy may be kept for a call out of it
        return tensor.to("cpu").contiguous()


def _message_of(source: Any) -> Message:
    """Its parts. CorruptError: these bytes are no message."""
    if hasattr(source, "readinto"):
        source.seek(0)
        first = source.read(1)
        return older_weights.read(first + source.read()) if first == b"B" else weight_messages.read(source)
    view = octets(source, "message")
    is_older = view.size > 0 and borrowed(view.address, 1, view)[0] == ord("B")
    return older_weights.read(source) if is_older else weight_messages.read(source)


def _with_roots(came: Message, mine: Mapping[str, torch.Tensor]) -> Dict[str, weight_messages.Entry]:
    """The entries of these tensors. ValueError: one needs the values of a tensor that is not among them."""
    found = {name: entry for name, entry in came.entries.items() if name in mine}
    for name, entry in found.items():
        if entry.place.root not in found:
            raise ValueError(f"{name} has its values in {entry.place.root}, which the model does not have")
    return found


def _check_fit(came: Message, mine: Mapping[str, torch.Tensor]) -> None:
    """ValueError: the model has other tensors than the message."""
    if missing := sorted(mine.keys() - came.entries.keys()):
        raise ValueError(f"the message has no {missing[0]}")
    if more := sorted(came.entries.keys() - mine.keys()):
        raise ValueError(f"the model has no {more[0]}")
    for name, tensor in mine.items():
        entry, dtype = came.entries[name], DTYPES[tensor.dtype]
        shape = shape_of(tensor.shape, dtype)
        if entry.shape != shape or not same_dtype(entry.dtype, dtype):
            raise ValueError(f"{name} is {entry.dtype} of shape {entry.shape} in the message, {dtype} of {shape} in "
                             "the model")
