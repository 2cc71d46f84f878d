# SPDX-License-Identifier: MIT
"""Threads for the library, which starts none itself (tlc_parallel), and calls that Ctrl-C does not cut in two.

The library calls Python where it has work for threads, or asks for bytes of a file. Python handles signals in the main
thread, between two steps of any Python code that it runs there. A handler that raises an exception in a callback would
end the callback before its work is done, and ctypes would print and drop the exception. So what calls Python is called
in another thread. The main thread waits for it within one call of C, in which nothing is handled: handlers run when
the work has ended, as after any call of C.

A callback has nobody to raise MemoryError to, either. So it may leave tasks out, which the library calls then; but it
does not return before its threads have.
"""
from __future__ import annotations

import _thread
import atexit
import ctypes
import os
import sys
import threading
import time
from collections import deque
from functools import lru_cache, partial
from queue import SimpleQueue
from typing import Any, Callable, Deque, List, Optional, Tuple

from ._c import RUN, Parallel
from ._library import count as whole

_PYTHON = ctypes.CDLL(ctypes.pythonapi._name, handle=ctypes.pythonapi._handle)  # which lets go of the GIL
_new_lock, _acquire, _release = (getattr(_PYTHON, f"PyThread_{verb}_lock") for verb in ("allocate", "acquire",
                                                                                        "release"))
_new_lock.restype, _new_lock.argtypes = ctypes.c_void_p, []
_acquire.restype, _acquire.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_int]
_release.restype, _release.argtypes = None, [ctypes.c_void_p]
_DEPTH = 50  # Python calls that a callback needs at most, before it calls a function of the user's
_LONGEST = 1.0  # seconds in which a thread that was started begins


def _at_once(*steps: "partial[Any]") -> None:
    """Calls C functions one after the other, with no step of Python code between them."""
    deque(map(partial.__call__, steps), maxlen=0)


def after_forks(function: Callable[[], None]) -> None:
    """Calls it in each process that this one forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


class _Job:
    """A function to be called in another thread."""

    def __init__(self, function: Callable[..., Any], arguments: Any) -> None:
        self._function = function
        self._arguments = arguments
        self._result: Any = None
        self._error: Optional[BaseException] = MemoryError("there was no memory to begin the call")

    def __call__(self) -> None:
        try:
            self._result = self._function(*self._arguments)
            self._error = None
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        """What the function returned or raised."""
        if self._error is not None:
            raise self._error
        return self._result


class _MainThread:
    """Where the main thread waits: a lock that is locked, but for the moment in which a job has ended."""

    def __init__(self) -> None:
        self.renew()
        after_forks(self.renew)  # the job of the process before may open the old one

    def renew(self) -> None:
        self.lock = _new_lock()
        _acquire(self.lock, 1)


_MAIN = _MainThread()
_STARTED: List[None] = []  # an entry for each thread
_BEGUN: List[None] = []
after_forks(_STARTED.clear)
after_forks(_BEGUN.clear)


@atexit.register
def _let_threads_begin() -> None:
    """A thread that was started just now must not begin after the interpreter's end."""
    end = time.monotonic() + _LONGEST
    while len(_BEGUN) < len(_STARTED) and time.monotonic() < end:
        time.sleep(0.001)


def _serve(jobs: "SimpleQueue[Tuple[Callable[[], None], Callable[[], Any]]]") -> None:
    """jobs: each with what tells that it has ended, which somebody waits for."""
    _BEGUN.append(None)
    while True:
        job, told = jobs.get()
        try:
            job()
        except Exception:  # MemoryError: there was none to begin it, or for a task
            pass
        while True:
            try:
                told()
                break
            except MemoryError:  # others may give some back
                pass
        del job, told  # which keep arrays alive


def _check_depth(left: int = _DEPTH) -> None:
    """RecursionError here, where nothing has happened, and not in a callback."""
    if left:
        _check_depth(left - 1)


class Threads:
    """A pool of threads. `parallel` goes into configurations, which must keep the pool alive."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._run = RUN(self._run_tasks)
        self.parallel = Parallel(self._run, None)
        self._forget()
        after_forks(self._forget)

    def _forget(self) -> None:
        """There are no threads: this is the beginning, or a fork left them in the other process."""
        self._jobs: "SimpleQueue[Tuple[Callable[[], None], Callable[[], Any]]]" = SimpleQueue()
        self._started: Deque[None] = deque(maxlen=self._count)

    def _start(self) -> bool:
        """Whether there are threads."""
        while len(self._started) < self._count:
            try:
                _at_once(partial(_thread.start_new_thread, _serve, (self._jobs,)), partial(self._started.append, None),
                         partial(_STARTED.append, None))
            except RuntimeError:  # the system has no more
                break
        return bool(self._started)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function whose work Ctrl-C must not cut in two. After Ctrl-C, KeyboardInterrupt is raised when the
        function has ended."""
        there = self._start()
        if threading.current_thread() is not threading.main_thread() or sys.is_finalizing():  # no signal is handled
            _check_depth()
            return function(*arguments)
        if not there:
            raise RuntimeError("no thread can be started: this call needs one besides the main thread")
        job = _Job(function, arguments)
        _at_once(partial(self._jobs.put, (job, partial(_release, _MAIN.lock))), partial(_acquire, _MAIN.lock, 1))
        return job.result()

    def _run_tasks(self, _: Any, count: int, task: Callable[[Any, int], None], arg: Any) -> None:
        """Calls task(arg, i) for each i < count, unless there is no memory for it. Returns when all calls have."""
        todo = deque(range(count))

        def work() -> None:
            while True:
                try:
                    i = todo.popleft()
                except IndexError:
                    return
                task(arg, i)

        locks = [_thread.allocate_lock() for _ in range(min(self._count, count) - 1 if self._started else 0)]
        wait = partial(deque(maxlen=0).extend, map(_thread.LockType.acquire, locks))  # which takes no memory
        try:
            for lock in locks:
                try:
                    lock.acquire()
                    self._jobs.put((work, lock.release))
                except MemoryError:
                    if lock.locked():
                        lock.release()
                    break
            work()
        finally:
            wait()


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
    """Calls a function that runs Python code, which a signal must not end halfway."""
    return _pool(1).call(function, *arguments)
