# SPDX-License-Identifier: MIT
"""Ctrl-C at any time, in calls with threads: KeyboardInterrupt reaches the caller, nothing is printed, and each call
has been made wholly or not at all."""
import ctypes
import importlib.util
import os
import random
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import numpy
import threelc
from threelc import _parallel

TRIALS = 4
PACKAGE = str(Path(threelc.__file__).resolve().parents[1])

# Each prints a line when it is about to work, works until Ctrl-C, checks what it has, and prints "right".
BEGIN = """
import sys
import numpy, threelc
random = numpy.random.default_rng(1)

def worked(step):
    try:
        print("ready", flush=True)  # from now on Ctrl-C may come
        while True:
            step()
    except KeyboardInterrupt:
        pass
    else:
        sys.exit("no KeyboardInterrupt")
"""

CONTEXT = BEGIN + """
gradient = random.standard_normal(1 << 18).astype("f4")
context = threelc.Context(gradient.size, "3lc:block=4096", threads=3)
again = threelc.Context(gradient.size, "3lc:block=4096")
frames = []
worked(lambda: frames.append(context.compress(gradient)))
expected = [again.compress(gradient) for _ in frames]
assert frames == expected, "another frame"
found, before = numpy.array(context.residual), numpy.array(again.residual)
if found.tobytes() != before.tobytes():  # the call was made, but its frame did not reach the list
    again.compress(gradient)
    assert found.tobytes() == numpy.array(again.residual).tobytes(), "a call was made in part"
assert context.compress(gradient) == again.compress(gradient), "another frame after Ctrl-C"
print("right")
"""

DELTA = BEGIN + """
base = random.standard_normal(1 << 19).astype("f4")
following = base * (1 + 1e-6 * (random.random(base.size) < 0.1).astype("f4"))
there, back = (threelc.delta.compress(a, b, threads=3) for a, b in ((base, following), (following, base)))
weights = base.copy()

def step():
    threelc.delta.apply(there, weights, threads=3)
    threelc.delta.apply(back, weights, threads=3)

worked(step)
assert weights.tobytes() in (base.tobytes(), following.tobytes()), "a delta was applied in part"
print("right")
"""

EXCHANGE = BEGIN + """
from threelc.exchange import AllReduce, Config, Tensor
gradient = random.standard_normal(1 << 18).astype("f4")
pair = [[AllReduce(Config(workers=1, push="3lc:block=4096", threads=threads), 0, [Tensor("w", gradient.size)])]
        for threads in (3, None)]
means = []

def exchange(rank):
    out = numpy.empty_like(gradient)
    rank.pull([rank.reduce(rank.push([gradient]))], [out])
    return out

worked(lambda: means.append(exchange(pair[0][0])))
for mean in means:
    assert mean.tobytes() == exchange(pair[1][0]).tobytes(), "another mean"
print("right")
"""

WEIGHTS = """
import torch, threelc.torch
""" + BEGIN + """
source, served = (torch.nn.Sequential(*[torch.nn.Linear(60, 60) for _ in range(30)]) for _ in range(2))
publisher, receiver = threelc.torch.WeightSync(source), threelc.torch.WeightSync(served, threads=2)

def bits(model):
    return b"".join(p.detach().numpy().tobytes() for p in model.parameters())

seen = []

def step():
    with torch.no_grad():
        for p in source.parameters():
            p.mul_(1.001)
    seen.append(publisher.publish())
    step.before, step.after = bits(served), bits(source)
    receiver.receive(seen[-1])

step.before = step.after = bits(served)
worked(step)
assert bits(served) in (step.before, step.after), "a message was received in part"
if seen and bits(served) == step.before != step.after:
    receiver.receive(seen[-1])
print("right")
"""

HANDLER = BEGIN.replace("KeyboardInterrupt", "TimeoutError") + """
import signal

def handler(*_):
    raise TimeoutError

signal.signal(signal.SIGINT, handler)
gradient = random.standard_normal(1 << 18).astype("f4")
context = threelc.Context(gradient.size, "3lc:block=4096", threads=3)
worked(lambda: context.compress(gradient))
print("right")
"""


class Interrupts(unittest.TestCase):
    def trials(self, script, count=TRIALS):
        environment = {**os.environ, "PYTHONPATH": PACKAGE, "OMP_NUM_THREADS": "1"}
        rnd = random.Random(1)
        for trial in range(count):
            process = subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            try:
                self.assertEqual(process.stdout.readline(), "ready\n", process.poll())
                time.sleep(rnd.random() * 0.05)
                process.send_signal(signal.SIGINT)
                out, errors = process.communicate(timeout=60)
            finally:
                process.kill()
                process.wait()
            self.assertEqual((out, errors, process.returncode), ("right\n", "", 0), f"trial {trial}")

    def test_contexts(self):
        self.trials(CONTEXT)

    def test_deltas(self):
        self.trials(DELTA)

    def test_exchange(self):
        self.trials(EXCHANGE)

    def test_weight_sync(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("torch is not installed")
        self.trials(WEIGHTS, 2)

    def test_handlers_of_the_caller(self):
        self.trials(HANDLER, 2)


class Threads(unittest.TestCase):
    def test_calls_in_each_other(self):
        """More contexts at work than there are threads, from many threads: all end."""
        gradient = numpy.ones(1 << 16, "f4")
        contexts = [threelc.Context(gradient.size, "3lc:block=1024", threads=2) for _ in range(8)]
        frames = [[] for _ in contexts]
        threads = [threading.Thread(target=lambda c=c, f=f: f.extend(c.compress(gradient) for _ in range(20)))
                   for c, f in zip(contexts, frames)]
        for thread in threads:
            thread.start()
        own = threelc.Context(gradient.size, "3lc:block=1024", threads=2)
        frames.append([own.compress(gradient) for _ in range(20)])
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive())
        self.assertEqual(len({tuple(found) for found in frames}), 1)

    def test_errors_of_calls(self):
        """What a call raises in the other thread reaches the caller."""
        context = threelc.Context(1 << 16, "3lc:block=1024", threads=2)
        with self.assertRaises(threelc.NonFiniteError):
            context.compress(numpy.full(1 << 16, numpy.nan, "f4"))
        with self.assertRaises(ZeroDivisionError):
            _parallel.uninterrupted(lambda: 1 / 0)
        self.assertEqual(_parallel.uninterrupted(divmod, 7, 3), (2, 1))

    def test_deep_recursion(self):
        """A call near the limit of Python's calls fails before anything is done, or is right."""
        gradient = numpy.random.default_rng(1).standard_normal(1 << 16).astype("f4")
        gradients = gradient, -gradient
        expected = [threelc.Context(gradient.size, "int8:block=1024").compress(each) for each in gradients]
        context = threelc.Context(gradient.size, "int8:block=1024", threads=2)
        limit, right, refused = sys.getrecursionlimit(), [], []

        def descend(depth, i):
            if depth:
                descend(depth - 1, i)
            else:
                right.append(context.compress(gradients[i]) == expected[i])

        def work():
            for depth in range(limit - 120, limit):
                try:
                    descend(depth, depth % 2)
                except (RecursionError, ctypes.ArgumentError):
                    refused.append(depth)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(len(right) + len(refused), 120)
        self.assertTrue(right and refused and all(right))

    def test_after_a_fork(self):
        gradient = numpy.ones(1 << 16, "f4")
        context = threelc.Context(gradient.size, "3lc:block=1024", threads=2)
        context.compress(gradient)
        expected = threelc.Context(gradient.size, "3lc:block=1024")
        expected.compress(gradient)
        child = os.fork()
        if child == 0:
            os._exit(0 if context.compress(gradient) == expected.compress(gradient) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_after_a_fork_while_a_thread_works(self):
        """What a thread was using in the other process is refused in this one, and nothing hangs."""
        gradient = numpy.random.default_rng(1).standard_normal(1 << 18).astype("f4")
        busy, idle = threelc.Context(gradient.size), threelc.Context(gradient.size)
        stop, found = threading.Event(), set()

        def work():
            while not stop.is_set():
                busy.compress(gradient)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for _ in range(10):
                child = os.fork()
                if child == 0:
                    signal.alarm(20)  # ends it if it hangs
                    code = 3
                    try:
                        idle.compress(gradient)
                        code = 2
                        busy.compress(gradient)
                        code = 0  # no call was under way
                    except RuntimeError as error:
                        code = 1 if "forked" in str(error) else 3
                    finally:
                        os._exit(code)
                found.add(os.waitpid(child, 0)[1])
        finally:
            stop.set()
            thread.join()
        self.assertLessEqual(found, {0, 1 << 8})
        self.assertIn(1 << 8, found)
