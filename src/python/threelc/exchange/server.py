# SPDX-License-Identifier: MIT
"""A parameter server (3LC, section 2 and Figure 2)."""
from __future__ import annotations

from ctypes import byref, c_ubyte, c_uint64, sizeof
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from .. import _c
from .._arrays import Lists, Messages, View, octets
from .._c import DType, Message
from .._library import count
from ._base import Config, FeedbackObject, OwnedFrame, Part, Tensor, use_again


@dataclass(frozen=True)
class PushInfo:
    """Of a push that a server took."""

    worker: int
    step: int
    late: bool
    """its step has been reduced: send the worker the answers from `step` on (Server.again)"""
    repeated: bool
    """the same message came before; this one is not needed"""


class Server(FeedbackObject):
    """Owns parts of tensors, averages what workers push, and answers all of them.

    >>> server.push(message)                      # for each worker
    >>> if server.ready():
    ...     server.reduce()
    ...     answer = server.answer()              # one message for all workers
    """

    _name = "server"

    def __init__(self, config: Config, server: int, tensors: Sequence[Tensor]) -> None:
        super().__init__(config, tensors, count(server, "server", 32))
        self._pushes: List[Tuple[View, _c.PushInfo]] = []
        self._part_sizes = [part.n for part in self._parts()]

    def push(self, message: Any) -> PushInfo:
        """Takes a push of a worker; pushes come in any order. The bytes must stay as they are until answer()."""
        view = octets(message, "message")
        info = _c.PushInfo(struct_size=sizeof(_c.PushInfo))
        with self._lock:
            self._pushes.append((view, info))
            try:
                self._call("push", Message(view.address, view.size), byref(info))
            finally:
                if not self._has_taken(info):
                    self._pushes.pop()
        return PushInfo(info.worker, info.step, bool(info.late), bool(info.repeated))

    def _has_taken(self, info: _c.PushInfo) -> bool:
        """Whether C has a pointer to the bytes of a push. After an exception of a signal there may be others."""
        return bool(info.step == self.step and not info.late and not info.repeated)

    def _taken(self) -> List[View]:
        return [view for view, info in self._pushes if self._has_taken(info)]

    def ready(self) -> bool:
        """Whether enough workers have pushed (workers - backup), so that waiting gains nothing."""
        with self._lock:
            return bool(self._function("ready")(self._handle))

    def reduce(self) -> None:
        """Decodes the pushes and averages them. StepError: leave the model as it is; the answer will say so."""
        with self._lock:
            use_again(self._taken())
            self._call("reduce")

    def owned_frames(self) -> List[Dict[int, OwnedFrame]]:
        """For servers that average elsewhere, as on a GPU, and go on with reduce_rest() and answer_frames(): of the
        pushes that came, what AllReduce.owned_frames() gives. StepError: a frame is at fault; reduce() does without
        its push.
        """
        with self._lock:
            views = self._taken()
            use_again(views)
            return self._owned_frames(views)

    def reduce_rest(self, elsewhere: Iterable[int]) -> None:
        """reduce() after owned_frames(), without some of parts(). elsewhere: their indices; their means are the
        caller's. One that shares a frame with others is averaged as always."""
        flags = (c_ubyte * len(self._part_sizes))()
        for i in elsewhere:
            flags[i] = 1
        with self._lock:
            use_again(self._taken())
            self._call("reduce_rest", flags)

    def parts(self) -> List[Part]:
        """The parts that this server owns, with the means of the last reduce."""
        return self._parts()

    def answer(self, delta: Optional[Sequence[Any]] = None) -> memoryview:
        """Ends the step, with one message for all workers. It is valid until `keep` more answers were made.

        delta: a float32 array for each part, the change of the model; None: the means.
        """
        return self._answered("answer", delta)

    def answer_frames(self, delta: Optional[Sequence[Optional[Any]]], frames: Sequence[Optional[Any]]) -> memoryview:
        """answer() with frames that were made elsewhere. frames: for each of parts() that of residual + delta, or mean,
        as compress_payload makes it; None: it is compressed as always. What these do not send is the caller's to keep.
        delta: None for parts that have a frame. If outcome().taken is None, the step failed, and no frame is sent.
        """
        made = Messages(frames, "frames", len(self._part_sizes))
        return self._answered("answer_frames", delta, made.array)

    def _answered(self, verb: str, delta: Optional[Sequence[Optional[Any]]], *frames: Any) -> memoryview:
        message = Message()
        source = None if delta is None else Lists(delta, self._part_sizes, DType.F32, "delta")
        with self._lock:
            use_again(self._taken())
            self._call(verb, source and source.array, *frames, byref(message))
            self._pushes = []
            return self._message(message)

    def again(self, step: int) -> memoryview:
        """The answer of a step before. ParameterError: it is not kept any more: the worker must join."""
        return self._again(step)

    def taken(self, worker: int) -> int:
        """The last step in which a push of this worker was taken; 0: none. For Worker.join."""
        step = c_uint64()
        with self._lock:
            self._check(self._function("taken")(self._handle, count(worker, "worker", 32), byref(step)))
        return step.value
