# SPDX-License-Identifier: MIT
"""All-reduce: every rank is worker, and owner of parts of the tensors."""
from __future__ import annotations

from ctypes import byref
from typing import Any, Dict, List, Optional, Sequence, Union

from .._arrays import Lists, Messages
from .._c import DType, Message
from .._library import count
from ._base import Config, Kept, OwnedFrame, Part, Tensor, use_again
from ._pushing import PushingObject


class AllReduce(PushingObject):
    """The mean of the gradients of all ranks, the same bits on each.

    >>> to = rank.push(gradients)                 # to[i] is for rank i
    >>> to_all = rank.reduce(pushes)              # pushes[i] came from rank i; not with gather
    >>> rank.pull(reduced, out=means)             # reduced[i] came from rank i

    With an optimizer at each owner, as of 3LC's servers, reduce is made in two halves:

    >>> rank.average(pushes)
    >>> deltas = [optimizer(part) for part in rank.parts()]
    >>> to_all = rank.answer(deltas)
    >>> rank.pull(answers, out=changes)           # of the whole model
    """

    _name = "allreduce"

    def __init__(self, config: Config, rank: int, tensors: Sequence[Tensor]) -> None:
        super().__init__(config, tensors, count(rank, "rank", 32))
        self._to = (Message * config.workers)()
        self._pushes = Kept()  # until answer
        self._deltas = Kept()  # until the end of the step
        self._part_sizes = [part.n for part in self._parts()]

    def push(self, gradients: Optional[Sequence[Any]], weight: float = 1.0) -> List[memoryview]:
        """The messages of a step, one for each rank, this one too; with gather all are the same. An empty one need not
        be sent. They are valid until the next push.

        gradients: an array for each tensor; None: this rank is not in the round. weight: of its gradients in the mean.
        If a value is not finite, the messages say so, and the step fails for all.
        """
        return self._pushed("push", gradients, weight)

    def push_frames(self, gradients: Sequence[Any], frames: Sequence[Optional[Any]],
                    weight: float = 1.0) -> List[memoryview]:
        """The same for gradients that were quantized elsewhere, as on a GPU. frames: for each of pushed_parts() its
        frame, as compress_payload makes it; None: it is compressed as always. gradients: None for a tensor whose parts
        all have frames. What these do not send is the caller's to keep; the tensor's residual here gets only what comes
        back when a step fails. If outcome() has a cause, a gradient was not finite, and no frame is sent.
        """
        return self._pushed_frames(gradients, frames, weight)

    def reduce(self, pushes: Sequence[Any]) -> memoryview:
        """Averages the parts that this rank owns. Returns the message for all ranks, which is empty if it owns none.

        pushes: of each rank, this one too; None or empty: nothing came. If one is at fault, the message says so, and
        the step fails for all.
        """
        messages = self._messages(pushes, self.config.workers)
        to_all = Message()
        with self._lock:
            self._call("reduce", messages.array, byref(to_all))
            return self._message(to_all)

    def owned_frames(self, pushes: Sequence[Any]) -> List[Dict[int, OwnedFrame]]:
        """For owners that average elsewhere, as on a GPU, and go on with reduce_frames(): the frames that ranks pushed
        for each of parts(), by rank, and their factors in the mean, which threelc/exchange.h describes at
        tlc_allreduce_owned_frames. Frames are views of the messages, and were checked. A part that shares a frame with
        others has none. StepError: a push is at fault, or says so; reduce() tells all.
        """
        messages = self._messages(pushes, self.config.workers)
        with self._lock:
            return self._owned_frames(messages.views, messages.array)

    def reduce_frames(self, pushes: Sequence[Any], frames: Sequence[Optional[Any]]) -> memoryview:
        """reduce() for answers that were made elsewhere. frames: for each of parts() that of residual + mean, as
        compress_payload makes it; None: it is averaged and compressed as always. What these do not send is the caller's
        to keep; the residual of such a part here gets only what comes back when a step fails. If outcome() has a cause,
        the step fails, and no frame is sent.
        """
        messages = self._messages(pushes, self.config.workers)
        made = Messages(frames, "frames", len(self._part_sizes))
        to_all = Message()
        with self._lock:
            self._call("reduce_frames", messages.array, made.array, byref(to_all))
            return self._message(to_all)

    def average(self, pushes: Sequence[Any]) -> None:
        """The first half of reduce: afterwards parts() have the means, and answer() comes next. The messages must stay
        as they are until then. StepError: leave model and optimizer as they are; the answer will say so.
        """
        messages = self._messages(pushes, self.config.workers)
        with self._lock:
            with self._pushes.keeping(self.step, messages.views):
                self._call("average", messages.array)

    def answer(self, delta: Optional[Sequence[Any]] = None) -> memoryview:
        """The second half of reduce: the message for all ranks, which is empty if this rank owns no parts.

        delta: a float32 array for each of parts(), the change of the model, which stays as it is until the step has
        ended; None: the means. If one is not finite, the step fails for all, and outcome() has a cause. What an owner
        does with its optimizer when a step fails, threelc/exchange.h says at tlc_allreduce_average.
        """
        to_all = Message()
        source = None if delta is None else Lists(delta, self._part_sizes, DType.F32, "delta")
        with self._lock:
            use_again(self._pushes.views(self.step))
            with self._deltas.keeping(self.step, source.views if source else []):
                self._call("answer", source and source.array, byref(to_all))
            self._pushes.clear()
            return self._message(to_all)

    def pull(self, reduced: Sequence[Any], out: Sequence[Any]) -> None:
        """Ends the step. reduced: the message of reduce or answer (with gather: of push) of each rank, this one too.
        out: an array for each tensor.

        StepError: the step failed, on all ranks; out is not written, and what was sent is back in residuals. Other
        errors: a message is at fault; fetch it again, and repeat the call.
        """
        messages = self._messages(reduced, self.config.workers)
        target = Lists(out, self._sizes, self._dtype, "out", writable=True)
        with self._lock:
            try:
                self._call("pull", messages.array, target.array)
            finally:
                self._deltas.end(self.step)

    def pull_frames(self, reduced: Sequence[Any], out: Sequence[Any]) -> List[Optional[memoryview]]:
        """The same for who decodes elsewhere, as on a GPU; not with gather. out: None for a tensor whose parts are all
        among pulled_parts(). Returns for each of these its frame, a view of a message, for decompress() or
        decompress_quartic(); None for those of other tensors.
        """
        messages = self._messages(reduced, self.config.workers)
        with self._lock:
            try:
                return self._pulled_frames(messages, out)
            finally:
                self._deltas.end(self.step)

    def again(self, step: int) -> memoryview:
        """The message that pull of others takes, of a step before."""
        return self._again(step)

    def cancel(self) -> None:
        """Ends a step that cannot end, as a rank is gone. Either all ranks that are left call it, or none."""
        with self._lock:
            use_again(self._deltas.views(self.step))
            self._call("cancel")
            self._pushes.clear()
            self._deltas.clear()

    def parts(self) -> List[Part]:
        """The parts that this rank owns, with the means of the last reduce or average; none with gather."""
        return self._parts()

    def set_codec(self, tensor: Union[None, int, str], push: Optional[str] = None, pull: Optional[str] = None) -> None:
        """Changes the codecs of a tensor; None: of all that have those of the configuration. A codec that is None stays
        as it is."""
        self._set_codec(tensor, push, pull)
