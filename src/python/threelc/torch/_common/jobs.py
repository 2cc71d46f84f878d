# SPDX-License-Identifier: MIT
"""A thread that does one job after the other."""
from __future__ import annotations

import atexit
import queue
import threading
import time
import weakref
from typing import Any, Callable, List, Optional, Tuple

_Queue = queue.SimpleQueue


class Jobs:
    """Ends when it is no longer used."""

    def __init__(self, name: str) -> None:
        self._queue: _Queue[Optional[Callable[[], None]]] = queue.SimpleQueue()
        self._busy = [0.0]  # seconds
        thread = threading.Thread(target=_run, args=(self._queue, self._busy), name=name, daemon=True)
        thread.start()
        _RUNNING[thread] = self._queue

    def __del__(self) -> None:
        self._queue.put(None)

    def __reduce__(self) -> Any:
        raise TypeError("what exchanges in a thread of its own cannot be copied or pickled: use its state_dict()")

    def put(self, job: Callable[[], None]) -> None:
        """The job must not raise an exception."""
        self._queue.put(job)

    def call(self, function: Callable[[], Any]) -> Any:
        """What function() returns or raises in the thread, after all jobs that were put before."""
        done: _Queue[Tuple[Any, Optional[BaseException]]] = queue.SimpleQueue()

        def job() -> None:
            try:
                done.put((function(), None))
            except BaseException as error:
                done.put((None, error))

        self._queue.put(job)
        result, error = done.get()
        if error is not None:
            raise error
        return result

    @property
    def busy(self) -> float:
        """Seconds in which the thread did something."""
        return self._busy[0]

    @busy.setter
    def busy(self, seconds: float) -> None:
        self._busy[0] = seconds


_RUNNING: "weakref.WeakKeyDictionary[threading.Thread, _Queue[Optional[Callable[[], None]]]]" = \
    weakref.WeakKeyDictionary()


@atexit.register
def _end_threads() -> None:
    """The interpreter must not end while a thread of ours is in C++. It may take long if other ranks are gone."""
    for thread, jobs in list(_RUNNING.items()):
        jobs.put(None)
        thread.join(5)


def _run(jobs: _Queue[Optional[Callable[[], None]]], busy: List[float]) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        start = time.perf_counter()
        job()
        busy[0] += time.perf_counter() - start
        del job  # which keeps its state alive
