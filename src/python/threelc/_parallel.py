# SPDX-License-Identifier: MIT
"""Threads for the library, which starts none itself (tlc_parallel)."""
from __future__ import annotations

import _thread
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache
from typing import Any, Callable, List, Optional

from ._c import RUN, Parallel


class Threads:
    """A pool of threads. `parallel` goes into configurations, which must keep the pool alive."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._process = 0
        self._run = RUN(self._run_tasks)
        self.parallel = Parallel(self._run, None)

    def _submit(self, work: Callable[[], None]) -> Future[None]:
        if self._process != os.getpid():  # the first call, or the threads stayed behind in a fork
            self._pool = ThreadPoolExecutor(self._count, thread_name_prefix="threelc")
            self._process = os.getpid()
        return self._pool.submit(work)

    def _run_tasks(self, _: Any, count: int, task: Callable[[Any, int], None], arg: Any) -> None:
        """Calls task(arg, i) for each i < count. Returns only when all calls have, even if somebody presses Ctrl-C."""
        todo = deque(range(count))
        finished: List[int] = []

        def work() -> None:
            while True:
                try:
                    i = todo.popleft()
                except IndexError:
                    return
                task(arg, i)
                finished.append(i)

        interrupted = False
        while len(finished) < count:
            try:
                wait([self._submit(work) for _ in range(min(self._count, count))])
            except KeyboardInterrupt:
                interrupted = True
            except RuntimeError:  # no thread can be started any more
                work()
        if interrupted:
            _thread.interrupt_main()


@lru_cache(maxsize=None)
def _pool(count: int) -> Threads:
    return Threads(count)


def threads_of(count: Optional[int]) -> Optional[Threads]:
    """The pool of that many threads, shared by all who ask for it. None, 0 and 1: the caller's thread alone."""
    if count is None or count in (0, 1):
        return None
    if count < 0:
        raise ValueError(f"threads should be at least 0, not {count}")
    return _pool(count)
