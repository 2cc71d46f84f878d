# SPDX-License-Identifier: MIT
"""A thread that does one job after the other."""
from __future__ import annotations

import atexit
import queue
import threading
import time
import weakref
from typing import Any, Callable, List, Optional

Job = Callable[[], None]
_Queue = queue.SimpleQueue
_LOOK = 1.0  # seconds from one look at the thread to the next


class Jobs:
    """Ends when it is no longer used. A job that raises an exception is the last that counts: the thread goes on, and
    whoever puts or waits gets the exception."""

    def __init__(self, name: str, ended: Job = lambda: None) -> None:
        """ended: is called in the thread when it ends, also where that is a fault. It must not keep this alive."""
        self._queue: _Queue[Optional[Job]] = queue.SimpleQueue()
        self._busy = [0.0]  # seconds
        self._failures: List[BaseException] = []
        self._thread = threading.Thread(target=_run, name=name, daemon=True,
                                        args=(self._queue, self._busy, self._failures, ended))
        self._thread.start()
        _RUNNING[self._thread] = self._queue

    def __del__(self) -> None:
        self._queue.put(None)

    def __reduce__(self) -> Any:
        raise TypeError("what exchanges in a thread of its own cannot be copied or pickled: use its state_dict()")

    def check(self) -> None:
        """Raises what a job has raised. RuntimeError: the thread has ended, as after a fork, which leaves it in the
        other process."""
        for failure in self._failures:
            raise failure
        if not self._thread.is_alive():
            raise RuntimeError(f"the thread {self._thread.name} has ended: after os.fork() it is in the other process "
                               "alone, and so are its connections")

    def put(self, job: Job) -> None:
        """The job should not raise an exception."""
        self.check()
        self._queue.put(job)

    def wait(self, done: _Queue[None]) -> None:
        """Until something is in it, which a job puts there last."""
        while True:
            try:
                done.get(timeout=_LOOK)
                return
            except queue.Empty:
                self.check()

    def call(self, function: Callable[[], Any]) -> Any:
        """What function() returns or raises in the thread, after all jobs that were put before."""
        done: _Queue[None] = queue.SimpleQueue()
        found: List[Any] = []
        errors: List[BaseException] = []

        def job() -> None:
            try:
                found.append(function())
            except BaseException as error:
                errors.append(error)
            finally:
                done.put(None)

        self.put(job)
        self.wait(done)
        for error in errors:
            raise error
        return found[0]

    @property
    def busy(self) -> float:
        """Seconds in which the thread did something."""
        return self._busy[0]

    @busy.setter
    def busy(self, seconds: float) -> None:
        self._busy[0] = seconds


_RUNNING: "weakref.WeakKeyDictionary[threading.Thread, _Queue[Optional[Job]]]" = \
    weakref.WeakKeyDictionary()


@atexit.register
def _end_threads() -> None:
    """The interpreter must not end while a thread of ours is in C++. It may take long if other ranks are gone."""
    for thread, jobs in list(_RUNNING.items()):
        jobs.put(None)
        thread.join(5)


def _run(jobs: _Queue[Optional[Job]], busy: List[float], failures: List[BaseException], ended: Job) -> None:
    try:
        while True:
            job = jobs.get()
            if job is None:
                return
            start = time.perf_counter()
            try:
                job()
            except BaseException as error:
                failures.append(error)
            busy[0] += time.perf_counter() - start
            del job  # which keeps its state alive
    except BaseException as error:
        failures.append(error)
    finally:
        ended()
