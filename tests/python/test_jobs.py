# SPDX-License-Identifier: MIT
"""Threads that do one job after the other, what waits for them, and who is silent after an exchange has failed."""
import copy
import gc
import os
import threading
import time
import unittest
import weakref
from contextlib import contextmanager
from types import SimpleNamespace
from unittest import mock

from cluster import attempt
from threelc.torch._common import jobs, roll_call
from threelc.torch._common.jobs import Jobs
from threelc.torch._common.runners import Background, Inline, nothing

ENDED = "the thread x has ended: after os.fork() it is in the other process alone, and so are its connections"


def fails(error):
    def job():
        raise error
    return job


def finished(one, seconds=20):
    """Whether the thread of jobs ends."""
    one._thread.join(seconds)
    return not one._thread.is_alive()


class Threads(unittest.TestCase):
    def test_order(self):
        """One after the other, in one thread of this name, which the end of the interpreter does not wait for."""
        one, found = Jobs("x"), []
        for i in range(5):
            one.put(lambda i=i: found.append((i, threading.current_thread())))
        self.assertEqual(one.call(lambda: len(found)), 5)
        self.assertEqual(found, [(i, one._thread) for i in range(5)])
        self.assertEqual((one._thread.name, one._thread.daemon), ("x", True))

    def test_what_calls_return_and_raise(self):
        """An exception of call() is the caller's alone."""
        one = Jobs("x")
        self.assertIsNone(one.call(lambda: None))
        for error in ValueError("y"), KeyboardInterrupt():
            with self.assertRaises(type(error)) as caught:
                one.call(fails(error))
            self.assertIs(caught.exception, error)
        self.assertEqual(one.call(lambda: 3), 3)

    def test_a_job_that_fails(self):
        """Whoever puts or waits from then on gets its exception; the thread does what is there."""
        one, error, found = Jobs("x"), ValueError("y"), []
        begun = threading.Event()
        one.put(lambda: begun.wait(20))
        one.put(fails(error))
        one.put(fails(KeyError()))
        one.put(lambda: found.append(1))
        begun.set()
        with mock.patch.object(jobs, "_LOOK", 0.01), self.assertRaises(ValueError) as caught:
            one.wait(jobs.queue.SimpleQueue())
        self.assertIs(caught.exception, error)
        for call in one.check, lambda: one.put(print), lambda: one.call(print):
            self.assertEqual(attempt(call)[:2], ("ValueError", "y"))
        one._queue.put(None)
        self.assertTrue(finished(one))
        self.assertEqual(found, [1])

    def test_a_thread_that_has_ended(self):
        """It calls what it was told to call then."""
        ended = mock.Mock()
        one = Jobs("x", ended)
        one.check()
        self.assertEqual(ended.mock_calls, [])
        one._queue.put(None)
        self.assertTrue(finished(one))
        self.assertEqual(ended.mock_calls, [mock.call()])
        for call in one.check, lambda: one.put(print), lambda: one.call(print):
            self.assertEqual(attempt(call)[:2], ("RuntimeError", ENDED))

    def test_it_ends_when_nobody_uses_it(self):
        """Nor does it keep what jobs used."""
        one, used = Jobs("x"), mock.Mock()
        thread, gone = one._thread, weakref.ref(used)
        one.put(used)
        one.call(lambda: None)
        del used
        gc.collect()
        self.assertIsNone(gone())
        del one
        gc.collect()
        thread.join(20)
        self.assertFalse(thread.is_alive())

    def test_waiting(self):
        """It looks at the thread now and then, and goes on when the job has ended."""
        one, done, looks = Jobs("x"), jobs.queue.SimpleQueue(), []
        one.check = lambda: looks.append(1) or (len(looks) == 3 and done.put(None))
        with mock.patch.object(jobs, "_LOOK", 0.01):
            one.wait(done)
        self.assertEqual(len(looks), 3)
        self.assertTrue(done.empty())

    def test_busy(self):
        """Seconds of jobs, failed ones, too, on top of those from a state."""
        one = Jobs("x")
        self.assertEqual(one.busy, 0)
        one.busy = 100.0
        for job in lambda: time.sleep(0.02), fails(ValueError()):
            one.put(job)
        one._queue.put(None)
        self.assertTrue(finished(one))
        self.assertTrue(100.02 <= one.busy < 110, one.busy)

    def test_no_copies(self):
        self.assertEqual(attempt(copy.copy, Jobs("x"))[:2], (
            "TypeError", "what exchanges in a thread of its own cannot be copied or pickled: use its state_dict()"))

    def test_the_end_of_the_interpreter(self):
        """All threads end first."""
        one, two = Jobs("x"), Jobs("x")
        with mock.patch.object(jobs, "_RUNNING", {each._thread: each._queue for each in (one, two)}):
            jobs._end_threads()
        self.assertFalse(one._thread.is_alive() or two._thread.is_alive())
        self.assertIs(jobs._RUNNING[one._thread], one._queue)


class Runners(unittest.TestCase):
    def setUp(self):
        self.transport = mock.Mock()
        self.one = Background("x", self.transport)

    def test_at_once(self):
        found = []
        self.assertIsNone(Inline().put(lambda: found.append(1))())
        self.assertEqual((found, Inline().call(lambda: 7), nothing()), ([1], 7, None))
        self.assertEqual(attempt(Inline().put, fails(ValueError("y")))[:2], ("ValueError", "y"))

    def test_in_the_background(self):
        """Who waits, also again, has what came before done."""
        begin, found = threading.Event(), []
        self.one.put(lambda: begin.wait(20))
        wait = self.one.put(lambda: found.append(threading.current_thread().name))
        self.assertEqual(found, [])
        begin.set()
        for _ in range(2):
            wait()
            self.assertEqual(found, ["x"])
        self.assertEqual((self.one.call(lambda: len(found)), self.transport.mock_calls), (1, []))

    def test_a_job_that_fails(self):
        """It and all that follow raise its exception, and do nothing; calls go on. Other ranks hear of it."""
        for error in ValueError("y"), KeyboardInterrupt():
            transport, found = mock.Mock(), []
            one = Background("x", transport)
            before = one.put(lambda: found.append(1))
            before()
            waits = [one.put(fails(error)), one.put(lambda: found.append(2))]
            for wait in 2 * waits:
                with self.assertRaises(type(error)) as caught:
                    wait()
                self.assertIs(caught.exception, error)
            self.assertEqual((found, one.call(lambda: 3), transport.mock_calls), ([1], 3, [mock.call.abort()]))

    def test_a_thread_that_has_ended(self):
        self.one._jobs._queue.put(None)
        self.assertTrue(finished(self.one._jobs))
        self.assertEqual(attempt(self.one.put, print)[:2], ("RuntimeError", ENDED))
        self.assertEqual(self.transport.mock_calls, [mock.call.abort()])


class Store:
    """That of the process groups. others: what other ranks add, each after so many questions."""

    def __init__(self, others=()):
        self.values, self.others, self.asked, self.deleted = {}, dict(others), 0, []

    def add(self, key, number):
        self.asked += 1
        for other, after in self.others.items():
            if self.asked > after:
                self.values[other] = 1
        self.values[key] = self.values.get(key, 0) + number
        return self.values[key]

    def delete_key(self, key):
        self.deleted.append(key)


@contextmanager
def group_of(world, rank, store, torchrun=None):
    """A group whose ranks are 4, 0, 5, ... of the default group, and where its store is."""
    numbers = [4, 0, 5, 6][:world]
    fake = SimpleNamespace(
        get_rank=lambda group=None: rank if group else numbers[rank], get_world_size=lambda group: world,
        get_global_rank=lambda group, each: numbers[each])
    environment = {} if torchrun is None else {"TORCHELASTIC_USE_AGENT_STORE": torchrun}
    with mock.patch.object(roll_call, "dist", fake), mock.patch.dict(os.environ, environment), \
            mock.patch.object(roll_call, "store_of", store if callable(store) else lambda group: (store, "name")), \
            mock.patch.object(roll_call, "_WAIT", 0.3):
        yield


class RollCall(unittest.TestCase):
    def silent(self, world, rank, store, torchrun=None):
        with group_of(world, rank, store, torchrun):
            return roll_call.silent_ranks("group")

    def test_names(self):
        for ranks, words in (([], "others"), ([3], "rank 3"), ([1, 2], "ranks 1 and 2"),
                             ([0, 2, 5], "ranks 0, 2 and 5")):
            self.assertEqual(roll_call.named(ranks, "others"), words)

    def test_who_says_nothing(self):
        """Within a moment, in which this rank says so itself."""
        store = Store({"threelc/lost/name/1": 0, "threelc/lost/name/3": 4})
        self.assertEqual(self.silent(4, 0, store), [2])
        self.assertEqual({key: value for key, value in store.values.items() if value},
                         {f"threelc/lost/name/{rank}": 1 for rank in (0, 1, 3)})
        start = time.monotonic()
        self.assertEqual(self.silent(2, 1, Store({"threelc/lost/name/0": 3})), [])
        self.assertLess(time.monotonic() - start, 0.3)

    def test_stores_that_do_not_answer(self):
        """The rank that has the store is named, unless torchrun has it, or this rank does."""
        end = threading.Event()
        self.addCleanup(end.set)
        for error in RuntimeError, OSError, None:
            store = SimpleNamespace(add=mock.Mock(side_effect=error) if error else lambda *_: end.wait(20))
            start = time.monotonic()
            self.assertEqual(self.silent(3, 2, store), [1])
            self.assertTrue(time.monotonic() - start < 0.7 if error else time.monotonic() - start >= 0.8)
            if error:
                self.assertEqual(self.silent(3, 2, store, "False"), [1])
                self.assertEqual(self.silent(3, 2, store, "True"), [])
                self.assertEqual(self.silent(3, 1, store), [])

    def test_a_group_that_pytorch_does_not_know(self):
        def unknown(group):
            raise KeyError(group)

        self.assertEqual(self.silent(3, 0, unknown), [])
        with group_of(3, 0, unknown):
            roll_call.begin("group")

    def test_what_was_said_before(self):
        """In a training before, with the same store."""
        store = Store()
        with group_of(3, 2, store):
            roll_call.begin("group")
        self.assertEqual(store.deleted, ["threelc/lost/name/2"])
        with group_of(3, 2, SimpleNamespace(delete_key=mock.Mock(side_effect=RuntimeError))):
            roll_call.begin("group")


if __name__ == "__main__":
    unittest.main()
