# SPDX-License-Identifier: MIT
"""SIGTERM at any time of a training, with a handler that calls state_dict(), as when a job is preempted: nothing hangs,
and what the handler gets is the state of a step that has ended, bit for bit."""
import hashlib
import os
import random
import signal
import threading
import time
import unittest
from unittest import mock

import torch
import threelc.torch
from cluster import CLUSTER
from threelc.torch._common import signals
from threelc.torch._common.signals import SignalsWait, signals_wait
from trials import WAYS

STEPS = 16
_COUNTS = {"traffic", "counts"}  # seconds differ


def digest(value, state=None):
    """Of all bits of a state, but for seconds."""
    state = hashlib.sha256() if state is None else state
    if torch.is_tensor(value):
        state.update(value.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            if key not in _COUNTS:
                state.update(str(key).encode())
                digest(value[key], state)
    elif isinstance(value, (list, tuple)):
        for each in value:
            digest(each, state)
    else:
        state.update(repr(value).encode())
    return state.hexdigest()


def saved(saver, model, way):
    """A checkpoint. With the hook weights are the optimizer's to change, in a step of its own."""
    return digest([saver.state_dict(), {} if way == "ddp" else dict(model.named_parameters())])


class Killer(threading.Thread):
    """Sends signals to this process."""

    def __init__(self, seed, count):
        super().__init__(daemon=True)
        self._draw, self._count = random.Random(seed), count
        self.end = threading.Event()

    def run(self):
        for _ in range(self._count):
            if self.end.wait(self._draw.uniform(0, 0.004)):
                return
            os.kill(os.getpid(), signal.SIGTERM)


def training(rank, world, way, signals, seed):
    """The digest of the state after each step, or, with signals, those that a handler saved."""
    threelc.torch.register, register = _remembering(threelc.torch.register)
    torch.manual_seed(0)
    try:
        model, optimizer = WAYS[way](lambda: None)
    finally:
        threelc.torch.register = register
    saver = _STATES.pop() if _STATES else optimizer
    torch.manual_seed(1 + rank)
    found, refused = [saved(saver, model, way)], 0

    def handler(*_):
        nonlocal refused
        try:
            found.append(saved(saver, model, way))
        except threelc.OrderError:
            refused += 1

    old = signal.signal(signal.SIGTERM, handler)
    killer = Killer(seed + rank, signals)
    killer.start()
    try:
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(torch.randn(8, 60)).pow(2).mean().backward()
            optimizer.step()
            if not signals:
                found.append(saved(saver, model, way))
    finally:
        killer.end.set()
        killer.join()
        time.sleep(0.01)
        signal.signal(signal.SIGTERM, old)
    return found, refused


_STATES = []


def _remembering(register):
    def remembering(*arguments, **settings):
        _STATES.append(register(*arguments, **settings))
        return _STATES[-1]
    return remembering, register


class Waiting(unittest.TestCase):
    """Signals in a step."""

    def setUp(self):
        self.found = []
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGUSR1, self.handler)
        signal.signal(signal.SIGUSR2, self.handler)

    def handler(self, number, frame):
        self.assertIsNotNone(frame)
        self.found.append(number)
        raise ZeroDivisionError

    def test_all_come_when_the_step_has_ended(self):
        """Each once, also those after one whose handler raises; Ctrl-C, too."""
        @signals_wait
        def inner():
            os.kill(os.getpid(), signal.SIGUSR2)

        @signals_wait
        def step():
            for number in (signal.SIGUSR1, signal.SIGUSR1, signal.SIGINT):
                os.kill(os.getpid(), number)
            inner()
            self.found.append("ended")

        with self.assertRaises((ZeroDivisionError, KeyboardInterrupt)) as caught:
            step()
        raised = []
        error = caught.exception
        while error is not None:
            raised.append(type(error).__name__)
            error = error.__context__
        self.assertEqual((self.found[0], sorted(self.found[1:])), ("ended", [signal.SIGUSR1, signal.SIGUSR2]))
        self.assertEqual(sorted(raised), ["KeyboardInterrupt", "ZeroDivisionError", "ZeroDivisionError"])
        self.assertEqual(signal.getsignal(signal.SIGUSR1), self.handler)

    def test_the_second_interrupt_does_not_wait(self):
        @signals_wait
        def step():
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                self.found.append("goes on")

        with self.assertRaises(KeyboardInterrupt):
            step()
        self.assertEqual(self.found, ["goes on"])
        self.assertEqual(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    def test_a_step_that_nobody_ends(self):
        waits = SignalsWait()
        waits.__enter__()
        os.kill(os.getpid(), signal.SIGUSR1)
        self.assertEqual(self.found, [])
        del waits
        with self.assertRaises(ZeroDivisionError):
            os.kill(os.getpid(), signal.SIGUSR2)
        self.assertEqual(sorted(self.found), [signal.SIGUSR1, signal.SIGUSR2])

    def test_handlers_that_a_step_sets(self):
        with SignalsWait():
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        self.assertEqual(signal.getsignal(signal.SIGUSR1), signal.SIG_IGN)
        self.assertEqual(signal.getsignal(signal.SIGUSR2), self.handler)

    def test_what_came_goes_to_them(self):
        """The handler that stands there when the step has ended gets it, if there is one."""
        with SignalsWait():
            for number in signal.SIGUSR1, signal.SIGUSR2:
                os.kill(os.getpid(), number)
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            signal.signal(signal.SIGUSR2, lambda number, frame: self.found.append(("other", number)))
        self.assertEqual(self.found, [("other", signal.SIGUSR2)])

    def test_in_another_thread(self):
        """Nothing waits there."""
        inside, end = threading.Event(), threading.Event()

        @signals_wait
        def step():
            inside.set()
            end.wait(20)

        thread = threading.Thread(target=step)
        thread.start()
        inside.wait(20)
        try:
            with self.assertRaises(ZeroDivisionError):
                os.kill(os.getpid(), signal.SIGUSR1)
        finally:
            end.set()
            thread.join()
        self.assertEqual(self.found, [signal.SIGUSR1])

    def test_a_step_that_does_not_begin(self):
        """An exception while handlers are replaced does not keep signals waiting."""
        with mock.patch.object(signals._SIGNALS, "replace", side_effect=MemoryError), self.assertRaises(MemoryError):
            SignalsWait().__enter__()
        with self.assertRaises(ZeroDivisionError), SignalsWait():
            os.kill(os.getpid(), signal.SIGUSR1)
            self.assertEqual(self.found, [])
        self.assertEqual(self.found, [signal.SIGUSR1])

    def test_what_it_wraps(self):
        """It gets all arguments, gives what is returned, and has its name."""
        @signals_wait
        def step(*arguments, **settings):
            return arguments, settings

        self.assertEqual((step(1, 2, some=3), step.__name__), (((1, 2), {"some": 3}), "step"))


class Preemption(unittest.TestCase):
    def preempted(self, way, overlaps=False):
        whole = CLUSTER.run(2, training, way, 0, 1)
        broken = CLUSTER.run(2, training, way, 2000, 2, timeout=30)
        for (expected, _), (found, refused) in zip(whole, broken):
            self.assertFalse(set(found) - set(expected), "a state of no step")
            self.assertGreater(len(found), 2)
            self.assertTrue(overlaps or not refused)

    def test_register(self):
        self.preempted("ddp")

    def test_local_steps(self):
        self.preempted("local-steps")

    def test_streaming(self):
        self.preempted("streaming")

    def test_sharded_optimizer(self):
        """With overlap=True there are no states while gradients are on their way."""
        self.preempted("owners", overlaps=True)

    def test_push_pull(self):
        self.preempted("servers")

    def test_gossip(self):
        self.preempted("gossip")
