# SPDX-License-Identifier: MIT
"""The pool of threads itself: who gets one, in which thread calls are made, what is left of a job, and that threads
outlive what they do."""
import gc
import subprocess
import sys
import threading
import time
import unittest
import weakref
from unittest import mock

from threelc import _parallel

THREADS = 3


def elsewhere(function):
    """What it returns in another thread than the main one."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join(30)
    return found[0]


class Thing:
    """An argument or a result that can be watched."""


class Pools(unittest.TestCase):
    def test_who_gets_one(self):
        """The same for all who ask for as many; none for one thread, or for little work."""
        pool = _parallel.threads_of(2)
        self.assertIs(_parallel.threads_of(2), pool)
        self.assertIs(_parallel.threads_of(2, 8192), pool)
        self.assertIs(_parallel.threads_of(2, 8193), pool)
        self.assertIsNot(_parallel.threads_of(3), pool)
        self.assertEqual((pool._count, _parallel.threads_of(2**16 - 1)._count), (2, 2**16 - 1))
        for count, values in (None, 1 << 20), (0, 1 << 20), (1, 1 << 20), (2, 8191), (2, 0):
            self.assertIsNone(_parallel.threads_of(count, values))
        for values in 0, 8192:
            for count, error, words in ((-1, ValueError, "from 0 to 2\\^16 - 1, not -1"),
                                        (2**16, ValueError, "not 65536"),
                                        ("2", TypeError, "a whole number, not '2'"), (2.0, TypeError, "not 2.0")):
                with self.assertRaisesRegex(error, f"^threads should be .*{words}"):
                    _parallel.threads_of(count, values)

    def test_how_many_are_started(self):
        """As many as the pool has, once, and again after a fork."""
        for count in 1, 2, THREADS, 300:
            pool = _parallel.Threads(count)
            with mock.patch("_thread.start_new_thread") as start, \
                    mock.patch.object(_parallel, "_STARTED", []) as started:
                start.side_effect = count * [None] + [AssertionError]
                self.assertTrue(pool._start() and pool._start())
                self.assertEqual((start.call_count, len(started)), (count, count))
                pool._forget()
                start.side_effect = [None, RuntimeError]  # the system has no more: those that there are do the work
                self.assertTrue(pool._start())
                pool._forget()
                start.side_effect = RuntimeError
                self.assertFalse(pool._start())
                self.assertEqual(len(started), count + 1)

    def test_calls_that_end_for_themselves(self):
        """They take one thread besides that of the caller, whatever they do."""
        with mock.patch.object(_parallel, "_pool") as pool:
            _parallel.uninterrupted(pow, 2, 3)
        self.assertEqual(pool.mock_calls, [mock.call(1), mock.call().call(pow, 2, 3)])

    def test_each_thread_for_itself(self):
        """From the main thread a call is made in the pool, from any other thread, and while the interpreter ends, in
        that thread."""
        pool, main = _parallel._pool(THREADS), threading.get_ident()
        self.assertNotEqual(pool.call(threading.get_ident), main)
        self.assertTrue(elsewhere(lambda: pool.call(threading.get_ident) == threading.get_ident()))
        with mock.patch("sys.is_finalizing", lambda: True):
            self.assertEqual(pool.call(threading.get_ident), main)
        self.assertNotEqual(_parallel.uninterrupted(threading.get_ident), main)
        self.assertEqual(_parallel.call(None, threading.get_ident), main)
        self.assertNotEqual(_parallel.call(pool, threading.get_ident), main)

    def test_many_calls_at_once(self):
        """Each thread that waits gets what its own call returns."""
        pool, wrong = _parallel._pool(THREADS), []

        def ask(number):
            for i in range(200):
                if pool.call(lambda: number) != number or _parallel.uninterrupted(pow, number, 1) != number:
                    wrong.append((number, i))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        ask(7)
        for thread in threads:
            thread.join(30)
        self.assertEqual(wrong, [])


class Jobs(unittest.TestCase):
    def test_exceptions(self):
        """What a job raises reaches the caller, whatever it is; the threads go on."""
        pool = _parallel.Threads(1)
        for error in ValueError("x"), KeyboardInterrupt(), SystemExit(3), MemoryError(), RecursionError():
            def fails(error=error):
                raise error

            with self.assertRaises(type(error)) as caught:
                pool.call(fails)
            self.assertIs(caught.exception, error)
            self.assertEqual(pool.call(int), 0)

    def test_a_job_without_memory(self):
        """A job of the queue that raises ends neither its thread, nor the wait for it."""
        pool, told = _parallel.Threads(1), threading.Event()
        pool._start()

        def fails():
            raise MemoryError

        for _ in range(2):
            pool._jobs.put((fails, told.set))
            self.assertTrue(told.wait(10))
            told.clear()
        self.assertEqual(pool.call(int), 0)

    def test_a_job_that_has_not_begun(self):
        self.assertRaisesRegex(MemoryError, "no memory to begin the call", _parallel._Job(int, ()).result)

    def test_nothing_is_kept(self):
        """Of arguments and results, when a call has returned and the thread does something else."""
        pool, thing = _parallel.Threads(1), Thing()
        there = weakref.ref(thing)
        self.assertIs(pool.call(lambda found: found, thing), thing)
        del thing
        end = time.monotonic() + 10
        while there() is not None and time.monotonic() < end:  # the thread lets go of it a moment later
            gc.collect()
            time.sleep(0.001)
        self.assertIsNone(there())

    def test_tasks(self):
        """Each once, for any number of them; one task takes no other thread."""
        pool = _parallel.Threads(THREADS)
        for started in False, True:
            if started:
                pool._start()
            for count in 0, 1, 2, 3, 4, 50:
                done = []
                pool._run_tasks(None, count, lambda _, i, done=done: done.append((i, threading.get_ident())), None)
                self.assertEqual(sorted(i for i, _ in done), list(range(count)))
                if count == 1 or not started:
                    self.assertLessEqual({thread for _, thread in done}, {threading.get_ident()})

    def test_tasks_at_once(self):
        """As many as there are threads, the caller's with them; or as there are tasks, if these are fewer."""
        pool = _parallel.Threads(THREADS)
        pool._start()
        for count in 2, 3:
            together = threading.Barrier(count)
            pool._run_tasks(None, count, lambda _, i, together=together: together.wait(10), None)
        running, most, lock = [], [], threading.Lock()

        def task(_, i):
            with lock:
                running.append(i)
                most.append(len(running))
            time.sleep(0.02)
            with lock:
                running.remove(i)

        pool._run_tasks(None, 12, task, None)
        self.assertEqual(max(most), THREADS)


LATE = """
import atexit, time
atexit.register(lambda: print(time.monotonic() - end))  # comes last
from threelc import _parallel
_parallel._LONGEST = 0.5
_parallel._STARTED.append(None)  # a thread that never begins
end = time.monotonic()
"""


class Ends(unittest.TestCase):
    def test_threads_that_have_not_begun(self):
        """The interpreter's end waits for them, not for ever, and not if all have."""
        for started, begun, later, longest, least in (
                (1, 1, False, 20, 0), (300, 300, False, 20, 0), (1, 0, True, 20, 0.05), (1, 0, False, 0.1, 0.1)):
            entries = [None] * begun
            with mock.patch.multiple(_parallel, _STARTED=[None] * started, _BEGUN=entries, _LONGEST=longest):
                if later:
                    threading.Timer(0.05, lambda entries=entries: entries.append(None)).start()
                start = time.monotonic()
                _parallel._let_threads_begin()
                self.assertTrue(least - 0.01 <= time.monotonic() - start < 10, (started, begun))
        self.assertEqual(_parallel._LONGEST, 1.0)

    def test_the_end_of_an_interpreter(self):
        done = subprocess.run([sys.executable, "-c", LATE], check=True, capture_output=True, text=True)
        self.assertGreater(float(done.stdout), 0.5)


if __name__ == "__main__":
    unittest.main()
