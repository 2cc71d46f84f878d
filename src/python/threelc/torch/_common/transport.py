# SPDX-License-Identifier: MIT
"""Messages of any length over torch.distributed, whose collectives want to know lengths beforehand.

all_to_all_single takes sizes that differ, but each rank must know what it receives, so the lengths are sent first. It
also takes the place of all_gather, which wants equal sizes, and in gloo goes around a ring: this way each message takes
one hop, and none is padded. The bytes are the same.

gloo ends the process if a rank sends more than another one expects. So what comes first is always as long on all ranks,
and says what follows.
"""
from __future__ import annotations

import ctypes
import json
import time
import traceback
from collections import deque
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Deque, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from ..._arrays import octets
from ..._errors import CorruptError, OrderError, Status
from ..._json import parsed
from .roll_call import begin, named, silent_ranks
from .staging import Direct, backends_named, staging_of
from .versions import backends_of

# What a rank says about the message that follows, beside its length.
_MESSAGE, _SUM, _SPARSE_SUM = range(3)
_KINDS = ("a message", "floats", "a sparse gradient")
_KIND_BITS = 2
_NOTHING = object()
_WITH_GLOO = 'torch.distributed.new_group(backend="gloo")'


def timeout_of(group: Any) -> Optional[timedelta]:
    """After how long collectives of a process group fail. None: its backend does not say."""
    for backend in backends_of(group):
        backend = getattr(backend, "wrapped_pg", backend)
        found = getattr(getattr(backend, "options", None), "_timeout", None)
        if isinstance(found, timedelta):
            return found
    return None


def _made(like: Any) -> Any:
    """A new group of all ranks, with the timeout of another one."""
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError("there are no other ranks yet: call torch.distributed.init_process_group() first")
    everyone = dist.distributed_c10d._get_default_group()
    timeout = timeout_of(everyone if like is None else like)
    start = time.monotonic()
    begin(everyone)
    try:
        return dist.new_group(backend="gloo", **({} if timeout is None else {"timeout": timeout}))
    except RuntimeError as error:
        seconds = time.monotonic() - start
        lost = named(silent_ranks(everyone), "another rank")
        raise RuntimeError(f"rank {dist.get_rank()} lost {lost} {seconds:.1f} s after it began to make a process group "
                           f"with the others (timeout: {timeout or 'unknown'}): all ranks make the same objects of "
                           f"threelc.torch, in the same order. PyTorch says: {error}") from error


def _checked(group: Any) -> Any:
    """A group that a user has made."""
    if not isinstance(group, dist.ProcessGroup) or dist.get_rank(group) < 0:
        raise ValueError("process_group should be a process group that this rank is in")
    found = backends_named(group)
    if "gloo" not in found and "nccl" not in found:
        raise ValueError(f"process_group has the backend {found}, and messages need gloo, or NCCL: {_WITH_GLOO}")
    return group


# A thread of gloo lets go of the tensors of a collective a moment after the call has returned, and of one that failed
# much later. PyTorch may need the GIL for that, and a thread that waits for it while the interpreter ends, ends the
# process with a signal. So after a failure a transport waits a moment, before a script may end. It holds the last
# tensors, and those of transports that are gone, as after Ctrl-C, lie here. The list itself is never freed.
_UNTIL_FREE = 0.05  # seconds
# PyTorch 2.6 waits for that thread with the GIL in its hands when a group is destroyed, and would wait for ever.
_UNTIL_CLOSED = 0.2
_LEFT: Deque[torch.Tensor] = deque(maxlen=16)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_LEFT))


class Transport:
    """Carries messages between the ranks of a process group. One thread at a time may call it."""

    def __init__(self, group: Any = None, like: Any = None) -> None:
        """group: of backend gloo or NCCL, which nobody else uses. None: a new one of gloo, of all ranks, which all make
        together, with the timeout of the group `like`; None: with that of the default group."""
        self.group = _made(like) if group is None else _checked(group)
        group = self.group
        self.rank: int = dist.get_rank(group)
        self.world: int = dist.get_world_size(group)
        self.sent = 0
        """bytes to other ranks, with lengths"""
        self.received = 0
        self._held: Tuple[torch.Tensor, ...] = ()
        self._staging = staging_of(group)
        begin(group)

    def __del__(self, left: Deque[torch.Tensor] = _LEFT) -> None:
        left.extend(getattr(self, "_held", ()))

    def check_gloo(self, what: str) -> None:
        """ValueError: the messages go by NCCL, which cannot do this."""
        if not isinstance(self._staging, Direct):
            raise ValueError(f"{what} needs the backend gloo, and process_group has NCCL: {_WITH_GLOO}")

    def ranks(self) -> List[int]:
        """Of the default group, in the order of this one."""
        return [dist.get_global_rank(self.group, rank) for rank in range(self.world)]

    def gather(self, value: Any) -> List[Any]:
        """The value of each rank, as JSON has it: tuples become lists. Not counted. Not by dist.all_gather_object(),
        which runs what other ranks send. CorruptError: a rank sent something of another type."""
        found = self.uncounted([memoryview(json.dumps(value, default=_number).encode())] * self.world)
        return [_of_type(each, value, rank) for rank, each in enumerate(found)]

    def uncounted(self, messages: Sequence[memoryview]) -> List[torch.Tensor]:
        """all_to_all() of what is no part of the training."""
        sent, received = self.sent, self.received
        found = self.all_to_all(messages)
        self.sent, self.received = sent, received
        return found

    def agree(self, settings: Dict[str, Any]) -> None:
        """Raises an exception on all ranks if one has other settings."""
        found = self.gather(settings)
        for rank, other in enumerate(found):
            for name in {**found[0], **other}:
                if other.get(name) != found[0].get(name):
                    raise ValueError(f"all ranks need the same settings: {name} is {other.get(name)!r} on rank {rank} "
                                     f"and {found[0].get(name)!r} on rank 0")

    @contextmanager
    def exchanging(self, *tensors: torch.Tensor) -> Iterator[None]:
        """A failure of gloo or NCCL gets a sentence around it. tensors: those of a collective."""
        if self.group is None:
            raise RuntimeError("the connections to the other ranks are closed, as an exchange with them has failed")
        start = time.monotonic()
        self._held = (*self._held[-2:], *tensors)
        try:
            yield
        except BaseException as error:
            seconds = time.monotonic() - start
            traceback.clear_frames(error.__traceback__)  # PyTorch's have the group, and would keep it after abort()
            time.sleep(_UNTIL_FREE)
            if not isinstance(error, RuntimeError) or isinstance(error, NotImplementedError):
                raise
            lost = named(silent_ranks(self.group), "another rank")
            raise RuntimeError(
                f"rank {self.rank} lost {lost} {seconds:.1f} s after an exchange began (timeout: "
                f"{timeout_of(self.group) or 'unknown'}). Lost ranks have ended, stand still, are busy for longer, or "
                f"have raised an exception: see what they printed. {self._staging.speaker} says: {error}") from error

    def _announce(self, kind: int, lengths: Sequence[int]) -> List[int]:
        """Tells each rank what this one will send to it, and how much. Returns the lengths of what will come."""
        ours = torch.tensor([length << _KIND_BITS | kind for length in lengths], dtype=torch.int64)
        theirs = torch.empty(self.world, dtype=torch.int64)
        with self.exchanging(ours, theirs):
            self._all_to_all_single(theirs, ours, None, None)
        self.sent += 8 * (self.world - 1)
        self.received += 8 * (self.world - 1)
        come = [(int(word) & (1 << _KIND_BITS) - 1, int(word) >> _KIND_BITS) for word in theirs.tolist()]
        for rank, (other, length) in enumerate(come):
            if other != kind or (kind == _SUM and length != lengths[rank]):
                raise OrderError(
                    Status.ORDER, f"rank {self.rank} sends {_KINDS[kind]} of {lengths[rank]} bytes where rank {rank} "
                    f"sends {_KINDS[other]} of {length}: all ranks need the same model, and do the same at the same "
                    "time, such as load_state_dict() and set_codec()")
        return [length for _, length in come]

    def _all_to_all_single(self, target: torch.Tensor, source: torch.Tensor, come: Optional[List[int]],
                           to: Optional[List[int]]) -> None:
        """The collective that carries messages. come, to: values from and to each rank; None: as many each."""
        self._staging.run(lambda target, source, **how: dist.all_to_all_single(target, source, come, to,
                                                                               group=self.group, **how), target, source)

    def all_to_all(self, messages: Sequence[memoryview]) -> List[torch.Tensor]:
        """Sends messages[i] to rank i. Returns those of all ranks to this one, as bytes."""
        to = [len(message) for message in messages]
        come = self._announce(_MESSAGE, to)
        source = self._staging.room(sum(to))
        at = 0
        for message in messages:
            _copy(message, source, at)
            at += len(message)
        target = self._staging.room(sum(come))
        with self.exchanging(source, target):
            self._all_to_all_single(target, source, come, to)
        self.sent += sum(to) - to[self.rank]
        self.received += sum(come) - come[self.rank]
        return list(torch.split(target, come))

    def all_gather(self, message: memoryview) -> List[torch.Tensor]:
        """The message of each rank, this one's too."""
        return self.all_to_all([message] * self.world)

    def isend(self, tensor: torch.Tensor, rank: int, tag: int) -> Any:
        """Begins to send a tensor, which stays as it is until the work that is returned has waited. It leaves when the
        other rank receives it, with as many bytes. Inside exchanging()."""
        self.sent += tensor.numel() * tensor.element_size()
        return dist.isend(tensor, dist.get_global_rank(self.group, rank), group=self.group, tag=tag)

    def irecv(self, tensor: torch.Tensor, rank: int, tag: int) -> Any:
        """Begins to receive. If the connection to the other rank is gone, this fails at once."""
        return dist.irecv(tensor, dist.get_global_rank(self.group, rank), group=self.group, tag=tag)

    def copy_model(self, tensors: Sequence[torch.Tensor]) -> None:
        """All ranks start from the tensors of rank 0, of any dtype. Not counted."""
        root = dist.get_global_rank(self.group, 0)
        for tensor in tensors:
            if not tensor.numel():
                continue
            flat = tensor.detach().cpu().contiguous().view(-1)
            octets = flat.view(torch.uint8)  # gloo does not know all dtypes
            with self.exchanging(octets):
                self._staging.run(lambda octets, _, **how: dist.broadcast(octets, root, group=self.group, **how),
                                  octets, octets)
            with torch.no_grad():
                tensor.copy_(flat.view(tensor.shape))

    def abort(self) -> None:
        """Closes the connections, so that ranks that wait for this one get an error."""
        group, self.group = self.group, None
        if group is not None:
            time.sleep(_UNTIL_CLOSED)
            with suppress(Exception):  # the group may be gone already
                self._staging.close(group)

    def all_reduce(self, tensor: torch.Tensor) -> int:
        """tensor becomes the sum over all ranks. Returns the bytes sent for it."""
        if tensor.is_sparse:
            return self._sparse_all_reduce(tensor)
        size = tensor.numel() * tensor.element_size()
        self._announce(_SUM, [size] * self.world)
        with self.exchanging(tensor):
            self._sum(tensor)
        return self._count(2 * size * (self.world - 1) // self.world)

    def _sum(self, tensor: torch.Tensor) -> None:
        try:
            self._staging.run(lambda tensor, _, **how: dist.all_reduce(tensor, group=self.group, **how), tensor, tensor)
            return
        except RuntimeError as error:
            if tensor.dtype != torch.bfloat16 or "scalar type" not in str(error):
                raise
        wide = tensor.float()  # gloo of PyTorch 1 does not know bfloat16
        self._held += (wide,)
        dist.all_reduce(wide, group=self.group)
        tensor.copy_(wide)

    def _sparse_all_reduce(self, tensor: torch.Tensor) -> int:
        """gloo gathers indices and values of all ranks, and adds them up, but not those of float16. NCCL has no way."""
        self.check_gloo("a sparse gradient")
        if tensor.dtype == torch.float16:
            wide = tensor.float()
            size = self._sparse_all_reduce(wide)
            tensor.copy_(wide.half())
            return size
        indices, values = tensor._indices(), tensor._values()
        size = indices.numel() * indices.element_size() + values.numel() * values.element_size()
        self._announce(_SPARSE_SUM, [size] * self.world)
        with self.exchanging(tensor):
            dist.all_reduce(tensor, group=self.group)
        return self._count(size * (self.world - 1))

    def _count(self, size: int) -> int:
        self.sent += size
        self.received += size
        return size


def _number(value: Any) -> Any:
    """For JSON: a number of numpy and the like."""
    return value.__index__() if hasattr(value, "__index__") else float(value)


def _of_type(octets: torch.Tensor, like: Any, rank: int) -> Any:
    """What a rank sent as JSON, which has the type of what this one did."""
    kind: Any = list if isinstance(like, tuple) else type(like)
    try:
        value = parsed(ctypes.string_at(octets.data_ptr(), octets.numel()))
    except ValueError:
        value = _NOTHING
    if not isinstance(value, kind):
        raise CorruptError(Status.CORRUPT, f"what rank {rank} sent is no {kind.__name__} in JSON")
    return value


def copied_bytes(message: memoryview) -> torch.Tensor:
    """A message in memory of its own."""
    tensor = torch.empty(len(message), dtype=torch.uint8)
    _copy(message, tensor, 0)
    return tensor


def _copy(message: memoryview, tensor: torch.Tensor, at: int) -> None:
    if len(message):
        ctypes.memmove(tensor.data_ptr() + at, octets(message, "message").address, len(message))
