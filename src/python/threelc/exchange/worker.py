# SPDX-License-Identifier: MIT
"""The worker of a parameter server (3LC, section 2 and Figure 2)."""
from __future__ import annotations

from ctypes import byref, sizeof
from typing import Any, List, Optional, Sequence

from .. import _c
from .._arrays import Lists
from .._errors import Status, error_of
from .._library import check, count, listed
from ._base import Config, Outcome, Tensor, outcome_of, steps_of
from ._pushing import PushingObject


class Worker(PushingObject):
    """Gradients, or changes of the model, go out; what the servers make of them comes back.

    >>> messages = worker.push(gradients)         # messages[i] is for server i
    >>> worker.pull(answers, out=updates)         # answers[i] came from server i
    """

    _name = "worker"

    def __init__(self, config: Config, worker: int, tensors: Sequence[Tensor]) -> None:
        super().__init__(config, tensors, count(worker, "worker", 32))
        self._to = (_c.Message * config.servers)()

    def push(self, gradients: Optional[Sequence[Any]], weight: float = 1.0) -> List[memoryview]:
        """The messages of a step, one for each server. They are valid until the next push.

        gradients: an array for each tensor; None: this worker is not in the round. weight: of its gradients in the
        mean. If a value is not finite, the messages say so, and the whole gradient is dropped.
        """
        return self._pushed("push", gradients, weight)

    def push_frames(self, gradients: Sequence[Any], frames: Sequence[Optional[Any]],
                    weight: float = 1.0) -> List[memoryview]:
        """The same for gradients that were quantized elsewhere, as on a GPU. frames: for each of pushed_parts() its
        frame, as compress_payload makes it; None: it is compressed as always. gradients: None for a tensor whose parts
        all have frames. What these do not send is the caller's to keep; the tensor's residual here gets only what comes
        back when a push is not taken. If outcome() has a cause, a gradient was not finite, and no frame is sent.
        OrderError: also in the step of join().
        """
        return self._pushed_frames(gradients, frames, weight)

    def pull(self, answers: Sequence[Any], out: Sequence[Any]) -> None:
        """Ends the step. out: an array for each tensor, for what the servers answered.

        StepError: the step failed on a server; its parts of out are not written. Other errors: a message is at fault;
        fetch it again, and repeat the call.
        """
        messages = self._messages(answers, self.config.servers)
        target = Lists(out, self._sizes, self._dtype, "out", writable=True)
        with self._lock:
            self._call("pull", messages.array, target.array)

    def pull_frames(self, answers: Sequence[Any], out: Sequence[Any]) -> List[Optional[memoryview]]:
        """The same for who decodes elsewhere, as on a GPU. out: None for a tensor whose parts are all among
        pulled_parts(). Returns for each of these its frame, a view of a message, for decompress() or
        decompress_quartic(); None for those of other tensors. StepError: it has the frames of the servers on which the
        step did not fail.
        """
        messages = self._messages(answers, self.config.servers)
        with self._lock:
            return self._pulled_frames(messages, out)

    def again(self, step: int) -> List[memoryview]:
        """The messages of the step under way, as after Ctrl-C in push(). OrderError: there are none."""
        with self._lock:
            if not step == self._pushing == self.step or not self._to[0].len:
                raise error_of(Status.ORDER, f"nothing was pushed in step {step}")
            return [self._message(message) for message in self._to]

    def join(self, step: int, taken: Optional[Sequence[int]] = None) -> None:
        """The worker came late, or comes back, with a model of the caller's: it goes on with `step`, and only listens
        in that step. taken[i]: what Server.taken of server i says of this worker."""
        steps = None if taken is None else steps_of(listed(taken, self.config.servers, "taken", "steps"))
        with self._lock:
            self._call("join", count(step, "step", 64), steps)

    def outcome(self, server: int = 0) -> Outcome:
        """What the last call found of a server."""
        found = _c.Outcome(struct_size=sizeof(_c.Outcome))
        with self._lock:
            check(self._function("outcome")(self._handle, count(server, "server", 32), byref(found)))
            return outcome_of(found)

    def _outcome(self) -> Outcome:
        """That of the server that the call failed for."""
        found = _c.Outcome(struct_size=sizeof(_c.Outcome))
        first = None
        for server in range(self.config.servers):
            check(self._function("outcome")(self._handle, server, byref(found)))
            if found.status:
                return outcome_of(found)
            first = first or outcome_of(found)
        assert first is not None
        return first
