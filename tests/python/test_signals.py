# SPDX-License-Identifier: MIT
"""Storms of signals whose handlers raise, while threads of the library work: what a call returns is right, and what a
handler raises reaches the caller, also if several come in one call. Each storm has a process of its own, as what it
looks for may end or hang it.

test_signals.py [STORM CALLS]: one storm, by hand.
"""
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

import numpy
import threelc
from threelc.exchange import AllReduce, Config, Server, Tensor, Worker

CALLS = 80  # of each storm that a handler broke off
LONGEST = 120  # seconds of a storm
N = 1 << 17
PACKAGE = str(Path(threelc.__file__).resolve().parents[1])


class Rang(Exception):
    """What the handler raises."""


class Storm:
    """Signals at all times. The handler raises whenever something else runs than this file, whose own lines would have
    to be prepared for it everywhere."""

    def __init__(self):
        self.raised = self.caught = self.calls = 0
        self.on = False
        self._pause = 0

    def ring(self, _, frame):
        if self.on and frame is not None and frame.f_code.co_filename != __file__:
            self.raised += 1
            raise Rang

    def call(self, function, *arguments):
        """What it returned, and whether it was broken off."""
        raised, found, broken = self.raised, None, False
        self.calls += 1
        self._pause = (self._pause + 37) % 1000
        signal.setitimer(signal.ITIMER_REAL, 1e-5 * (1 + self._pause), 5e-5)
        self.on = True
        try:
            found = function(*arguments)
        except Rang:
            broken = True
        finally:
            self.on = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        if broken != (self.raised > raised):
            raise AssertionError("what the handler raised is lost")
        self.caught += broken
        return found, broken


def contexts(storm):
    """Each call is made wholly or not at all, so the residual is that of some number of calls."""
    gradient = numpy.random.default_rng(1).standard_normal(N).astype("f4")
    context = threelc.Context(N, "3lc:block=1024", threads=2)
    again = threelc.Context(N, "3lc:block=1024")
    expected = threelc.Context(N, "3lc:block=1024").compress(gradient)

    def step():
        nonlocal expected
        frame, broken = storm.call(context.compress, gradient)
        now = numpy.array(context.residual).tobytes()
        before = numpy.array(again.residual).tobytes()
        if not broken or now != before:
            expected = again.compress(gradient)
            assert now == numpy.array(again.residual).tobytes(), "a call was made in part"
        assert broken or frame == expected, "another frame"
        values, broken = storm.call(threelc.decompress, expected)
        assert broken or values.tobytes() == threelc.decompress(expected).tobytes(), "other values"
    return step


def deltas(storm):
    """The weights are always those before or after a delta."""
    random = numpy.random.default_rng(1)
    base = random.standard_normal(4 * N).astype("f4")
    following = base * (1 + 1e-6 * (random.random(base.size) < 0.1).astype("f4"))
    frame = threelc.delta.compress(base, following)
    weights = base.copy()

    def step():
        _, broken = storm.call(lambda: threelc.delta.apply(frame, weights, threads=2))
        whole = weights.tobytes()
        assert whole == following.tobytes() or (broken and whole == base.tobytes()), "a delta was applied in part"
        weights[:] = base
        made, broken = storm.call(lambda: threelc.delta.compress(base, following, threads=2))
        assert broken or made == frame, "another frame"
    return step


def exchanges(storm):
    """One rank alone. Who was broken off in a step begins anew, as what was returned is lost."""
    gradient = numpy.random.default_rng(1).standard_normal(N).astype("f4")
    tensors = [Tensor("w", N, push="raw", pull="raw"), Tensor("v", N, push="int8:block=1024", pull="int8:block=1024")]

    def in_one(threads):
        return [AllReduce(Config(workers=1, threads=threads), 0, tensors)]

    def with_server(threads):
        config = Config(workers=1, servers=1, threads=threads)
        return [Worker(config, 0, tensors), Server(config, 0, tensors)]

    def calls(rank, server=None):
        """Those of a step, each with what the one before returned."""
        yield lambda _: rank.push([gradient, gradient])
        if server is not None:
            yield lambda pushes: server.push(bytes(pushes[0]))
            yield lambda _: server.reduce()
            yield lambda _: server.answer()
        else:
            yield lambda pushes: rank.reduce([bytes(pushes[0])])
        out = [numpy.zeros(N, "f4") for _ in range(2)]
        yield lambda answer: rank.pull([bytes(answer)], out)
        yield lambda _: out

    def mean(call, ranks):
        found, broken = None, False
        for function in calls(*ranks):
            found, broken = call(function, found)
            if broken:
                return None
        return [values.tobytes() for values in found]

    ways = [in_one, with_server]
    expected = [mean(lambda function, given: (function(given), False), way(None)) for way in ways]
    made = [way(2) for way in ways]

    def step():
        for i, way in enumerate(ways):
            found = mean(storm.call, made[i])
            assert found in (None, expected[i]), "another mean"
            if found is None:
                made[i] = way(2)
    return step


STORMS = {"contexts": contexts, "deltas": deltas, "exchanges": exchanges}


def rage(name, calls):
    """One storm, until so many calls were broken off."""
    storm = Storm()
    signal.signal(signal.SIGALRM, storm.ring)
    step = STORMS[name](storm)
    while storm.caught < calls:
        step()
    print(f"{name}: {storm.calls} calls, {storm.caught} broken off by {storm.raised} exceptions: right")


class Storms(unittest.TestCase):
    def storm(self, name):
        environment = {**os.environ, "PYTHONPATH": PACKAGE, "OMP_NUM_THREADS": "1"}
        found = subprocess.run([sys.executable, "-X", "faulthandler", __file__, name, str(CALLS)], env=environment,
                               capture_output=True, text=True, timeout=LONGEST, check=False)
        self.assertEqual((found.returncode, found.stderr), (0, ""))
        self.assertIn("right", found.stdout)

    def test_contexts(self):
        self.storm("contexts")

    def test_deltas(self):
        self.storm("deltas")

    def test_exchanges(self):
        self.storm("exchanges")


if __name__ == "__main__":
    rage(sys.argv[1], int(sys.argv[2]))
