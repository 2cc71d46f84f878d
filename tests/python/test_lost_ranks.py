# SPDX-License-Identifier: MIT
"""Whatever fails on a rank, backward() raises there, and the other ranks do not wait longer than their timeout."""
import os
import subprocess
import sys
import tempfile
import time
import unittest
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import threelc.torch
from cluster import CLUSTER, attempt, names
from outer_models import HAS_FSDP2, Scaler, shard
from test_ddp import build, start, train
from threelc.torch._common.transport import timeout_of

TIMEOUT = 20  # of the process groups here; exceptions that come at once come long before


class Breakage(Exception):
    """Something that the hook does not expect."""


def failing(*arguments, **settings):
    raise Breakage("on this rank alone")


def fails_in_groups(state):
    for group in state._order:
        group.run = failing


def fails_with_the_scale(state):
    state._scale_residuals = failing
    state._scaler.scale = 2.0


def ends_the_thread(state):
    state._jobs._queue.put(None)
    state._jobs._thread.join()


def fails_when_it_fails(state):
    """Whatever is to be done about a failure fails, too."""
    fails_in_groups(state)
    state._failed = failing


BREAKS = {  # what fails in the hook, in its thread, or at the end of the backward pass
    "hook": lambda state: setattr(state, "_take", failing),
    "scaler": lambda state: setattr(state._scaler, "get_scale", failing),
    "exchange": fails_in_groups,
    "end of the step": lambda state: setattr(state, "_end_step", failing),
    "residuals": fails_with_the_scale,
    "unused": lambda state: setattr(state, "_keep_unused", failing),
    "parameters": lambda state: setattr(state._places, "_names", {}),
    "infinity": lambda state: setattr(state._scaler, "scale", float("inf")),
    "arrivals": lambda state: setattr(threelc.torch._hook.arrival.Arrival, "finish", failing),
    "thread": ends_the_thread,
    "failure": fails_when_it_fails,
    "results": lambda state: setattr(threelc.torch._hook.arrival.Arrival, "results", failing),
}


# What the rank says where that is not the exception itself; PyTorch may make one of its own of what a hook raises
EXPECTED = {"infinity": "ParameterError: .*factor", "parameters": "ValueError",
            "thread": "RuntimeError: .*the thread threelc-ddp has ended", "failure": "on this rank alone",
            "results": "on this rank alone"}


def broken(rank, world, what):
    """Rank 1 fails in step 3: what backward() raises on each rank, and after how long."""
    kind = threelc.torch._hook.arrival.Arrival
    results, finish = kind.results, kind.finish
    model, state, optimizer = start(scaler=Scaler(1.0))
    train(rank, model, optimizer, range(3))
    if rank == 1:
        BREAKS[what](state)
    try:
        return attempt(train, rank, model, optimizer, range(3, 8))
    finally:
        kind.results, kind.finish = results, finish


def other_state(rank, world):
    """Rank 0 alone goes on from a state, so it sends frames where rank 1 sends floats."""
    model, state, optimizer = start()
    train(rank, model, optimizer, range(3))
    saved = state.state_dict()
    model, state, optimizer = start()
    if rank == 0:
        state.load_state_dict(saved)
    train(rank, model, optimizer, range(3))


def other_codec(rank, world):
    """Rank 1 alone changes to floats, before there are residuals that have to be sent."""
    model, state, optimizer = start(reserve=["raw"])
    if rank == 1:
        state.set_codec("raw")
    train(rank, model, optimizer, range(3))


def sums(rank, world, size):
    """A sum of another size on rank 1."""
    transport = threelc.torch._common.transport.Transport()
    transport.all_reduce(torch.ones(size[rank]))


def kept(rank, world, done):
    """A collective of rank 0 fails within PyTorch, and who gives up keeps the exception. What rank 1 is told."""
    transport = threelc.torch._common.transport.Transport()
    if rank == 1:
        found = attempt(transport.gather, 1)
        done.touch()
        return found
    try:
        with transport.exchanging():
            dist.all_to_all_single(torch.empty(3), torch.empty(3), [1, 1], [1, 1], group=transport.group)
    except RuntimeError as error:
        transport.abort()
        wait_for(done)
        return type(error).__name__, str(error), 0


def wait_for(done):
    end = time.monotonic() + 60
    while not done.exists() and time.monotonic() < end:
        time.sleep(0.05)


def after_rank_0(rank, done, call, *arguments):
    """What a call raises on rank 0, which makes the file `done` then. Rank 1 waits for it: it comes as late as that."""
    if rank == 1:
        wait_for(done)
    found = attempt(call, *arguments)
    done.touch()
    return found


def late(rank, world, done):
    """Rank 1 comes when rank 0 has given up: what that says, and after how long."""
    model, state, optimizer = start()
    train(rank, model, optimizer, range(3))
    found = after_rank_0(rank, done, train, rank, model, optimizer, range(3, 6))
    return (*found, state.stats.steps)  # which does not wait, either


def absent(rank, world, done):
    """Rank 1 does not come to make an object: what rank 0 says, and after how long."""
    model = build()
    return after_rank_0(rank, done, threelc.torch.register if rank == 0 else lambda model: None, model)


def timeouts(rank, world):
    """Of the groups that each way makes, and of one that is made for the module."""
    one, two, three, four = (torch.nn.Linear(4, 4) for _ in range(4))
    other = dist.new_group(backend="gloo", timeout=timedelta(seconds=7))
    found = [threelc.torch.register(build()),
             threelc.torch.LocalSteps(one, torch.optim.SGD(one.parameters(), 0.1), every=2),
             threelc.torch.PushPull(two, lambda p: torch.optim.SGD(p, 0.1)),
             threelc.torch.Gossip(three, torch.optim.SGD(three.parameters(), 0.1), graph="complete"),
             threelc.torch.register(build(process_group=other)),
             *map(threelc.torch.register_fsdp, shard(world, four) if HAS_FSDP2 else ())]
    return [timeout_of(each._transport.group).total_seconds() for each in found]


class Gone:
    """A store whose rank has ended."""

    def add(self, key, number):
        raise RuntimeError("Connection reset by peer")


class Still:
    """A store whose rank stands still."""

    def add(self, key, number):
        time.sleep(5)


def roll_calls(rank, world):
    """Who is silent: with the real store, which has answers of a training before, when rank 1 does not take part, with
    stores that do not answer, with that of torchrun, in a group that PyTorch does not know."""
    from threelc.torch._common import roll_call
    from threelc.torch._common.transport import Transport
    group = dist.new_group(backend="gloo")
    store, name = roll_call.store_of(group)
    store.add(f"threelc/lost/{name}/{rank}", 1)  # said before torchrun has started the ranks again
    Transport(group)
    dist.barrier(group)  # so that none is late
    found = [[] if rank == 1 else roll_call.silent_ranks(group)]
    real = roll_call.store_of
    try:
        for store in (Gone(), Still()):
            roll_call.store_of = lambda group, store=store: (store, "name")
            found.append(roll_call.silent_ranks(group))
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        found.append(roll_call.silent_ranks(group))
    finally:
        roll_call.store_of = real
        os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    return [*found, roll_call.silent_ranks("no group")]


class Exceptions(unittest.TestCase):
    def test_on_one_rank(self):
        for what in BREAKS:
            with self.subTest(what):
                found = CLUSTER.outcomes(3, broken, what, timeout=TIMEOUT)
                kind, words, seconds = found[1]
                self.assertRegex(f"{kind}: {words}", EXPECTED.get(what, "Breakage: on this rank alone"))
                for kind, words, seconds in found:
                    self.assertNotEqual(kind, "")
                    self.assertLess(seconds, TIMEOUT / 2)
                for kind, words, seconds in (found[0], found[2]):
                    self.assertRegex(words, names(1) + ".* see what they printed")

    def test_who_is_silent(self):
        """If the store does not answer it is rank 0, which has it, unless torchrun has it."""
        self.assertEqual(CLUSTER.run(3, roll_calls), [[[1], [], [], [], []], [[], [0], [0], [], []],
                                                      [[1], [0], [0], [], []]])

    def test_ranks_that_do_other_things(self):
        """gloo would end the process."""
        for function in (other_state, other_codec):
            for result in CLUSTER.outcomes(2, function, timeout=TIMEOUT):
                self.assertEqual(result.kind, "OrderError")
                self.assertRegex(result.words, "rank [01] sends (a message|floats) of [0-9]+ bytes where rank [01] "
                                 "sends (floats|a message) of [0-9]+: all ranks need the same model")

    def test_sums_of_other_sizes(self):
        for result in CLUSTER.outcomes(2, sums, (10, 1000), timeout=TIMEOUT):
            self.assertEqual(result.kind, "OrderError")


class Time(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.done = Path(folder.name, "done")

    def test_timeout_of_the_modules_group(self):
        self.assertEqual(CLUSTER.run(2, timeouts, timeout=33), [[33.0] * 4 + [7.0] + [33.0] * HAS_FSDP2] * 2)

    def test_a_rank_is_late(self):
        """The others raise, with a sentence, and nothing waits longer."""
        kind, words, seconds, steps = CLUSTER.run(2, late, self.done, timeout=4)[0]
        self.assertEqual(kind, "RuntimeError")
        self.assertRegex(words, r"rank 0 lost rank 1 \d+\.\d s after an exchange began \(timeout: 0:00:04\)\. Lost "
                         "ranks have ended, stand still, are busy for longer, or have raised an exception: see what "
                         "they printed")
        self.assertLess(seconds, 30)
        self.assertGreaterEqual(steps, 3)

    def test_an_exception_is_kept(self):
        """What an exception has of PyTorch's frames does not keep connections open."""
        given_up, waiting = CLUSTER.run(2, kept, self.done, timeout=TIMEOUT)
        for kind, words, seconds in (given_up, waiting):
            self.assertEqual(kind, "RuntimeError")
            self.assertLess(seconds, TIMEOUT / 2)

    def test_a_rank_does_not_come_to_make_an_object(self):
        kind, words, seconds = CLUSTER.run(2, absent, self.done, timeout=4)[0]
        self.assertEqual(kind, "RuntimeError")
        self.assertRegex(words, names(1) + r" (an exchange began|it began to make a process group .*) \(timeout: "
                         r"0:00:04\)")
        self.assertLess(seconds, 30)


class Trials(unittest.TestCase):
    def test_ranks_that_are_killed_stopped_interrupted(self):
        """A few of those that README.md in this folder tells about."""
        done = subprocess.run([sys.executable, str(Path(__file__).with_name("trials.py")), "--trials", "2",
                               "--timeout", "4", "--slack", "30"], capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
