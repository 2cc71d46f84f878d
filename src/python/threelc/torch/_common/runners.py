# SPDX-License-Identifier: MIT
"""Where the jobs of a step are done: at once, or in a thread while the caller computes."""
from __future__ import annotations

import queue
from typing import Any, Callable, Optional

import torch

from .._device.streams import SideWork
from .jobs import Job, Jobs
from .transport import Transport


class Inline:
    """Does jobs at once."""

    def put(self, job: Job) -> Job:
        job()
        return nothing

    def call(self, function: Callable[[], Any]) -> Any:
        return function()


class Background:
    """Does jobs in a thread, one after the other. If one fails, it and all that follow raise the same exception where
    the caller waits, and the other ranks get an error, too."""

    def __init__(self, name: str, transport: Transport, device: Optional[torch.device] = None) -> None:
        """device: of the model; jobs work there beside what it computes. None: of several devices."""
        self._device = device
        self._jobs = Jobs(name)
        self._transport = transport
        self._failure: Optional[BaseException] = None

    def put(self, job: Job) -> Job:
        """Returns what waits until the job is done, and those before it. On the device the job begins after what this
        thread has queued, and what the one that waits queues then begins after the job."""
        work = SideWork(self._device)
        done: "queue.SimpleQueue[None]" = queue.SimpleQueue()

        def guarded() -> None:
            try:
                if self._failure is None:
                    with work.begun():
                        job()
            except BaseException as error:
                self._failure = error
                self._transport.abort()
            finally:
                done.put(None)

        def wait() -> None:
            self._jobs.wait(done)
            done.put(None)  # for who waits again
            work.wait()
            if self._failure is not None:
                raise self._failure

        try:
            self._jobs.put(guarded)
        except BaseException:  # the thread has ended
            self._transport.abort()
            raise
        return wait

    def call(self, function: Callable[[], Any]) -> Any:
        """What function() returns in the thread, after all jobs before it, failed ones, too."""
        return SideWork(self._device).done_by(self._jobs.call, function)


def nothing() -> None:
    """A job that is done, or what waits for one."""
