# SPDX-License-Identifier: MIT
"""The thread that exchanges gradients. Whatever fails in it, the backward pass does not wait for ever."""
from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, Callable, Iterable, List

import torch

from .._common.jobs import Job, Jobs
from .._common.transport import Transport
from .._device.streams import SideWork, on_side_stream
from .arrival import Arrival


class ArrivalJobs(Jobs):
    """Its jobs end arrivals. One that fails ends all of them, and so does the end of the thread."""

    def __init__(self, transport: Transport, devices: Iterable[torch.device] = ()) -> None:
        """devices: of the model. Jobs work there beside what it computes."""
        self._devices = tuple(set(devices))
        self._arrivals: List[Arrival] = []  # that may not be done yet
        super().__init__("threelc-ddp", partial(_give_up, self._arrivals))
        self._transport = transport

    def arrived(self, buffer: torch.Tensor) -> Arrival:
        """A bucket whose exchange jobs will end."""
        self.forget()
        arrival = Arrival(buffer)
        self._arrivals.append(arrival)
        return arrival

    def forget(self) -> None:
        """Lets go of those that are done."""
        for arrival in list(self._arrivals):
            if arrival.future.done():
                with suppress(ValueError):  # the thread of another GPU came first
                    self._arrivals.remove(arrival)

    def after_now(self, job: Job) -> Job:
        """The job, which begins after what this thread has queued on the devices until now."""
        work = SideWork(*self._devices)

        def in_order() -> None:
            with work.begun():
                job()

        return in_order

    def guard(self, job: Job, failed: Callable[[BaseException], None]) -> None:
        """Puts a job that may raise an exception. failed: is called with it, and tells the other ranks."""
        devices = self._devices

        def guarded() -> None:
            try:
                with on_side_stream(*devices):
                    job()
            except BaseException as error:
                try:
                    failed(error)
                finally:
                    _give_up(self._arrivals)

        try:
            self.put(guarded)
        except BaseException:  # the thread has ended, or `failed` failed
            self._transport.abort()
            raise

    def call(self, function: Callable[[], Any]) -> Any:
        return SideWork(*self._devices).done_by(super().call, function)


def _give_up(arrivals: List[Arrival]) -> None:
    for arrival in arrivals:
        arrival.give_up()
