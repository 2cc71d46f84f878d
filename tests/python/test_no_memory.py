# SPDX-License-Identifier: MIT
"""Python may have no memory in the middle of a callback of the library, where nobody can take an exception. So for k =
1, 2, ... MemoryError is raised before the k-th line that the pool runs in a call, in the thread that calls, and in the
threads of the pool. No work is lost, no call waits for ever, and the pool goes on with all its threads.
"""
import linecache
import sys
import threading
import unittest
from contextlib import suppress
from functools import partial
from unittest import mock

import numpy
import threelc
from threelc import _parallel

THREADS = 3
N = 1 << 17
RANDOM = numpy.random.default_rng(1)
GRADIENT = RANDOM.standard_normal(N).astype("f4")
FILE = _parallel.__file__
LONGEST = 60  # seconds of a call


NO_MEMORY = ("try:", "finally:", "wait()", "return", "if lock.locked():", "lock.release()", "self._error = None")
"""lines that need none"""


class Broken:
    """Raises before the k-th line of the pool in a thread, and where a function begins."""

    def __init__(self, k):
        self._left = k
        self.raised = False

    def trace(self, frame, event, _):
        if frame.f_code.co_filename != FILE:
            return None
        if event == "call" or event == "line" and linecache.getline(FILE, frame.f_lineno).strip() not in NO_MEMORY and (
                frame.f_code.co_name != "_serve"):
            self._left -= 1
            if self._left == 0:
                self.raised = True
                raise MemoryError
        return self.trace


def in_thread(function):
    """What it returns in a thread that no signal comes to, as callbacks run in the thread that calls."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()), daemon=True)
    thread.start()
    thread.join(LONGEST)
    return found[0] if found else None


def in_pool(pool, function):
    """Calls function(i) once in each thread of the pool."""
    barrier, ended = threading.Barrier(THREADS), threading.Barrier(THREADS + 1)

    def job(i):
        barrier.wait(LONGEST)
        function(i)
        ended.wait(LONGEST)

    for i in range(THREADS):
        pool._jobs.put((lambda i=i: job(i), int))
    ended.wait(LONGEST)


class NoMemory(unittest.TestCase):
    def setUp(self):
        self.ignored = []
        hook, sys.unraisablehook = sys.unraisablehook, self.ignored.append
        self.addCleanup(setattr, sys, "unraisablehook", hook)
        self.pool = _parallel._pool(THREADS)
        self.expected = self.compressed()

    def compressed(self):
        return bytes(threelc.Context(N, "3lc", threads=THREADS).compress(GRADIENT))

    def check(self, found):
        self.assertEqual(found, self.expected)
        in_pool(self.pool, lambda i: None)

    def test_all_threads_work(self):
        """What they leave out the library does, so results alone do not tell."""
        together, done = threading.Barrier(THREADS), []

        def task(_, i):
            together.wait(5)
            done.append((i, threading.get_ident()))

        for _ in range(2):
            self.pool._run_tasks(None, 2 * THREADS, task, None)
            tasks, threads = zip(*done)
            self.assertEqual((sorted(tasks), len(set(threads))), (list(range(2 * THREADS)), THREADS))
            done.clear()

    def test_no_threads(self):
        """Where the system has none to give, the thread that calls does all, but for the main thread."""
        pool, done = _parallel.Threads(THREADS), []
        with mock.patch("_thread.start_new_thread", side_effect=RuntimeError):
            run = partial(pool.call, pool._run_tasks, None, 2, lambda _, i: done.append(i), None)
            self.assertTrue(in_thread(lambda: run() is None))
            with self.assertRaisesRegex(RuntimeError, "no thread can be started"):
                run()
        self.assertEqual(done, [0, 1])

    def test_none_to_tell_that_a_job_has_ended(self):
        tries, told = [], threading.Event()

        def tell():
            tries.append(None)
            if len(tries) < 3:
                raise MemoryError
            told.set()

        self.pool._jobs.put((int, tell))
        self.assertTrue(told.wait(5))
        in_pool(self.pool, lambda i: None)

    def test_in_the_thread_that_calls(self):
        for k in range(1, 1000):
            context = threelc.Context(N, "3lc", threads=THREADS)
            broken = Broken(k)

            def compress():
                sys.settrace(broken.trace)
                try:
                    return bytes(context.compress(GRADIENT))
                except MemoryError:  # before the library was called
                    sys.settrace(None)
                    return bytes(context.compress(GRADIENT))
                finally:
                    sys.settrace(None)

            self.check(in_thread(compress))
            if not broken.raised:
                break
        self.assertGreater(k, 20)

    def test_in_the_pool(self):
        for k in range(1, 1000):
            broken = [Broken(k) for _ in range(THREADS)]
            in_pool(self.pool, lambda i: sys.settrace(broken[i].trace))
            for run in in_thread, lambda function: function():  # the main thread has all done in the pool
                found = None
                while found is None:
                    with suppress(MemoryError):  # once in each thread, before the library was called
                        found = run(self.compressed)
                self.assertEqual(found, self.expected)
            in_pool(self.pool, lambda i: sys.settrace(None))
            self.check(found)
            if not any(each.raised for each in broken):
                break
        self.assertGreater(k, 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
