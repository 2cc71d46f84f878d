# SPDX-License-Identifier: MIT
"""What objects have that push gradients: workers, and the ranks of an all-reduce."""
from __future__ import annotations

from ctypes import memset, sizeof
from typing import Any, List, Optional, Sequence

from .._arrays import Lists, Messages, borrowed
from .._c import DType, Message
from .._errors import Error, StepError
from .._library import real
from ._base import FeedbackObject, Part


class PushingObject(FeedbackObject):
    """The calls of objects that push gradients. `_to` has room for their messages, those of step `_pushing`."""

    _to: Any
    _pushing: Optional[int] = None

    def _pushed(self, verb: str, gradients: Optional[Sequence[Any]], weight: float, *frames: Any) -> List[memoryview]:
        source = None if gradients is None else Lists(gradients, self._sizes, self._dtype, "gradients")
        with self._lock:
            before, self._pushing = self._pushing, self.step
            if before != self._pushing:
                memset(self._to, 0, sizeof(self._to))  # again() has none until this call has made them
            try:
                self._call(verb, source and source.array, *frames, real(weight, "weight"), self._to)
            except Error:
                self._pushing = before
                raise
            return [self._message(message) for message in self._to]

    def _pushed_frames(self, gradients: Sequence[Any], frames: Sequence[Optional[Any]],
                       weight: float) -> List[memoryview]:
        made = Messages(frames, "frames", self._function("pushed_parts")(self._handle))
        return self._pushed("push_frames", gradients, weight, made.array)

    def _pulled_frames(self, messages: Messages, out: Sequence[Any]) -> List[Optional[memoryview]]:
        """The lock is held."""
        target = Lists(out, self._sizes, self._dtype, "out", writable=True)
        frames = (Message * self._function("pulled_parts")(self._handle))()

        def found() -> List[Optional[memoryview]]:
            return [borrowed(frame.data, frame.len, messages.views) if frame.len else None for frame in frames]

        try:
            self._call("pull_frames", messages.array, target.array, frames)
        except StepError as error:
            error.frames = found()
            raise
        return found()

    def pushed_parts(self) -> List[Part]:
        """The parts of tensors that have a frame of their own in pushes: of those that are not small. They have no
        mean; their residual is that of pushes."""
        return self._parts("pushed_parts", "pushed_part")

    def pulled_parts(self) -> List[Part]:
        """The parts of tensors that have a frame of their own in answers: of those that are not small; none with
        gather. They have no mean and no residual."""
        return self._parts("pulled_parts", "pulled_part")

    def mask(self, momentum: Sequence[Any]) -> None:
        """Sets momentum (float32 arrays, or None) to 0 where the last push sent a value that was taken (SBC)."""
        target = Lists(momentum, self._sizes, DType.F32, "momentum", writable=True)
        with self._lock:
            self._call("mask", target.array)
