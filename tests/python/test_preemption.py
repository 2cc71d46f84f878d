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

import torch
import threelc.torch
from cluster import CLUSTER
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
