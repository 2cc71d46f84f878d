# SPDX-License-Identifier: MIT
"""A parameter server (3LC, section 2 and Figure 2)."""
from __future__ import annotations

from ctypes import byref, c_uint64, sizeof
from dataclasses import dataclass
from typing import Any, List, Optional, Sequence, Tuple

from .. import _c
from .._arrays import Lists, View, octets
from .._c import DType, Message
from .._library import count
from ._base import Config, FeedbackObject, Part, Tensor, use_again


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

    def parts(self) -> List[Part]:
        """The parts that this server owns, with the means of the last reduce."""
        return self._parts()

    def answer(self, delta: Optional[Sequence[Any]] = None) -> memoryview:
        """Ends the step, with one message for all workers. It is valid until `keep` more answers were made.

        delta: a float32 array for each part, the change of the model; None: the means.
        """
        message = Message()
        source = None if delta is None else Lists(delta, self._part_sizes, DType.F32, "delta")
        with self._lock:
            use_again(self._taken())
            self._call("answer", source and source.array, byref(message))
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
