# SPDX-License-Identifier: MIT
"""The thread that exchanges gradients. Whatever fails in it, the backward pass does not wait for ever."""
from __future__ import annotations

from typing import Callable, List

import torch

from .._common.jobs import Job, Jobs
from .._common.transport import Transport
from .arrival import Arrival


class ArrivalJobs(Jobs):
    """Its jobs end arrivals. One that fails ends all of them."""

    def __init__(self, transport: Transport) -> None:
        super().__init__("threelc-ddp")
        self._transport = transport
        self._arrivals: List[Arrival] = []  # that may not be done yet

    def arrived(self, buffer: torch.Tensor) -> Arrival:
        """A bucket whose exchange jobs will end."""
        self._arrivals = [arrival for arrival in self._arrivals if not arrival.future.done()]
        self._arrivals.append(Arrival(buffer))
        return self._arrivals[-1]

    def guard(self, job: Job, failed: Callable[[BaseException], None]) -> None:
        """Puts a job that may raise an exception. failed: is called with it, and tells the other ranks."""
        def guarded() -> None:
            try:
                job()
            except BaseException as error:
                try:
                    failed(error)
                finally:
                    for arrival in self._arrivals:
                        arrival.give_up()

        try:
            self.put(guarded)
        except BaseException:  # the thread has ended, or `failed` failed
            self._transport.abort()
            raise
