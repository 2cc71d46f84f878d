# SPDX-License-Identifier: MIT
"""Threads for the library, which starts none itself (tlc_parallel), and calls that Ctrl-C does not cut in two.

Python handles signals in the main thread, between two steps of any Python code that it runs there. A handler that
raises an exception in a callback of the library would end the callback before its work is done, and ctypes would print
and drop the exception. So what must not be cut in two runs in another thread while the main thread waits.
"""
from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from functools import lru_cache
from queue import SimpleQueue
from typing import Any, Callable, List, Optional

from ._c import RUN, Parallel
from ._library import count as whole


class _Job:
    """A function that is called once, by the first thread that takes the job."""

    def __init__(self, function: Callable[..., Any], arguments: Any) -> None:
        self._function = function
        self._arguments = arguments
        self._taken = threading.Lock()
        self._ended = threading.Lock()
        self._ended.acquire()
        self._result: Any = None
        self._error: Optional[BaseException] = None

    def take(self) -> bool:
        """Whether the caller is the first."""
        return self._taken.acquire(False)

    def run(self) -> None:
        """For the thread that took it."""
        try:
            self._result = self._function(*self._arguments)
        except BaseException as error:
            self._error = error
        self._ended.release()

    def wait(self) -> None:
        """Returns when it has ended."""
        with self._ended:
            pass

    def result(self) -> Any:
        """What the function returned or raised."""
        if self._error is not None:
            raise self._error
        return self._result


_BEGUN: List[threading.Event] = []  # of all threads


def _after_forks(function: Callable[[], None]) -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


_after_forks(_BEGUN.clear)


@atexit.register
def _let_threads_begin() -> None:
    """A thread whose start Ctrl-C interrupted may not have begun yet. It must not begin after the interpreter's end."""
    for begun in _BEGUN:
        begun.wait(1)


def _serve(jobs: "SimpleQueue[_Job]", begun: threading.Event) -> None:
    begun.set()
    while True:
        job = jobs.get()
        if job.take():
            job.run()
        del job  # which keeps arrays alive


class Threads:
    """A pool of threads. `parallel` goes into configurations, which must keep the pool alive."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._run = RUN(self._run_tasks)
        self.parallel = Parallel(self._run, None)
        self._forget()
        _after_forks(self._forget)

    def _forget(self) -> None:
        """There are no threads: this is the beginning, or a fork left them in the other process."""
        self._jobs: "SimpleQueue[_Job]" = SimpleQueue()
        self._started = 0

    def _put(self, job: _Job) -> bool:
        """False: no thread can be started, and there is none."""
        if self._started < self._count:
            begun = threading.Event()
            _BEGUN.append(begun)
            try:
                threading.Thread(target=_serve, args=(self._jobs, begun), name="threelc", daemon=True).start()
                self._started += 1
            except RuntimeError:
                begun.set()
                if not self._started:
                    return False
        self._jobs.put(job)
        return True

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function whose work Ctrl-C must not cut in two. After Ctrl-C, KeyboardInterrupt is raised when the
        function has ended."""
        if threading.current_thread() is not threading.main_thread():  # no signal is handled here
            return function(*arguments)
        job = _Job(function, arguments)
        interrupt: Optional[BaseException] = None
        put = False
        while True:
            try:
                put = put or self._put(job)  # if this is interrupted, the job may be there twice; it is run once
                if put:
                    job.wait()
                break
            except BaseException as error:  # of a handler of signals
                interrupt = error
        if interrupt is not None:
            raise interrupt
        if not put:
            raise RuntimeError("no thread can be started: this call needs one besides the main thread")
        return job.result()

    def _run_tasks(self, _: Any, count: int, task: Callable[[Any, int], None], arg: Any) -> None:
        """Calls task(arg, i) for each i < count. Returns when all calls have."""
        todo = deque(range(count))

        def work() -> None:
            while True:
                try:
                    i = todo.popleft()
                except IndexError:
                    return
                task(arg, i)

        helpers: List[_Job] = [_Job(work, ()) for _ in range(min(self._count, count) - 1)]
        for helper in helpers:
            self._put(helper)
        work()
        for helper in helpers:
            if not helper.take():  # another thread is at it
                helper.wait()


@lru_cache(maxsize=None)
def _pool(count: int) -> Threads:
    return Threads(count)


_WORTH = 8192  # values: the library divides less work among no threads (TLC_RANGE_MIN is 16384 values or bytes)


def threads_of(count: Optional[int], values: int = _WORTH) -> Optional[Threads]:
    """The pool of that many threads, shared by all who ask for it. values: of the work. None: the caller's thread alone
    does it, as count is None, 0 or 1, or the work is little."""
    known = 0 if count is None else whole(count, "threads", 16)
    return _pool(known) if known > 1 and values >= _WORTH else None


def call(threads: Optional[Threads], function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function of the library that may use these threads. Without threads it calls nothing of Python's."""
    return function(*arguments) if threads is None else threads.call(function, *arguments)


def uninterrupted(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function of Python that a signal must not end halfway."""
    return _pool(1).call(function, *arguments)
