# SPDX-License-Identifier: MIT
"""PushPull with backup workers: servers go on without the last pushes. Real processes over gloo.

A straggler waits until rank 0 has ended a later step, which it tells with a file. If a server waited for the straggler,
none of them would end.
"""
import os
import tempfile
import time
import unittest
from pathlib import Path

import torch

import threelc
import threelc.torch
from cluster import CLUSTER, Died, Failure, Refusals, attempt, names
from outer_models import Linear, Scaler, ones
from threelc.torch._owners.backup import KEPT

STEPS = 10
RATE = 0.1
TIMEOUT = 60


def sgd(parameters):
    return torch.optim.SGD(parameters, RATE)


def wait_until(is_so):
    end = time.monotonic() + TIMEOUT / 2
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError("rank 0 does not go on")
        time.sleep(0.002)


class Race:
    """Steps of a training in which a rank is late. late: {(rank, step): the step that rank 0 ends before}."""

    def __init__(self, rank, folder, late):
        self.rank, self.folder, self.late = rank, Path(folder), late
        self.held = []
        """each time that this rank was late, whether rank 0 went no further without it"""

    def has_ended(self, step):
        return (self.folder / str(step)).exists()

    def run(self, model, optimizer, steps, silent=()):
        """silent: ranks whose gradients are 0. Returns the bits after each step."""
        bits = []
        for step in steps:
            before = self.late.get((self.rank, step))
            if before is not None:
                wait_until(lambda: self.has_ended(before))
                time.sleep(0.1)
                self.held.append(not self.has_ended(before + 1))
            model.seen += 1 + self.rank
            for p, gradient in zip(model.parameters(), model.gradient(self.rank, step)):
                p.grad = torch.zeros_like(p) if self.rank in silent else gradient
            optimizer.step()
            bits.append([p.detach().numpy().tobytes() for p in model.parameters()])
            if self.rank == 0:
                (self.folder / str(step)).touch()
        return bits


def raced(rank, world, folder, late, settings):
    """Returns bits after each step, buffers, stats, and whether rank 0 was held up."""
    model = Linear()
    optimizer = threelc.torch.PushPull(model, sgd, **settings)
    race = Race(rank, folder, late)
    bits = race.run(model, optimizer, range(STEPS))
    optimizer.state_dict()
    return bits, model.seen.tolist(), optimizer.stats, race.held


def saved_and_flushed(rank, world, folder, late, settings):
    """The gradients of rank 0 are 0. The run goes on from a state in other objects. Returns weights before and after
    flush(), stats, and what was late before the state was taken."""
    race = Race(rank, folder, late)
    model = Linear()
    optimizer = threelc.torch.PushPull(model, sgd, **settings)
    race.run(model, optimizer, range(STEPS), silent=[0])
    state = optimizer.state_dict()
    optimizer = threelc.torch.PushPull(model, sgd, **settings)
    optimizer.load_state_dict(state)
    late = optimizer.stats.late
    race.run(model, optimizer, range(STEPS, 2 * STEPS), silent=[0])
    before = model.weight.detach().clone()
    optimizer.flush()
    return before, [p.detach().clone() for p in model.parameters()], optimizer.stats, late


def dies(rank, world):
    """Rank 2 ends after 3 steps. Returns what the others raise, and after how long."""
    model = Linear()
    optimizer = threelc.torch.PushPull(model, sgd, servers=2, backup=1)
    ones(model, optimizer, 3)
    if rank == 2:
        os._exit(1)
    return attempt(ones, model, optimizer, STEPS - 3)


def other_steps(rank, world):
    """Rank 1 has made fewer steps than the others when it saves its state."""
    model = Linear()
    optimizer = threelc.torch.PushPull(model, sgd, backup=1)
    ones(model, optimizer, 3 if rank == 1 else 5)
    optimizer.state_dict()


def resumed(rank, world, states):
    """The state of a run of this rank, in which its pushes were late 10^rank times; or what is late after states."""
    model = Linear()
    optimizer = threelc.torch.PushPull(model, sgd, backup=1)
    if states:
        optimizer.load_state_dict(states)
        return optimizer.stats.late
    ones(model, optimizer, 1)
    return {**optimizer.state_dict(), "late": 10**rank}


def made(rank, world, settings, later=None):
    """later: max_norm is set afterwards."""
    model = Linear()
    optimizer = threelc.torch.PushPull(model, sgd, **(settings[rank] if isinstance(settings, list) else settings))
    if later is not None:
        optimizer.max_norm = later


def race(world, function, late, settings):
    with tempfile.TemporaryDirectory() as folder:
        return CLUSTER.run(world, function, folder, late, settings, timeout=TIMEOUT)


class Stragglers(unittest.TestCase):
    def test_nobody_waits_for_one(self):
        """And all have the same model after each step, and after the last one, too."""
        for settings in ({"codec": "3lc:s=1.75"}, {"codec": "raw"},
                         {"codec": "topk:p=0.1,select=exact", "servers": 2, "buffers": "first",
                          "momentum_correction": 0.9},
                         {"codec": "3lc", "warmup_steps": 4, "quantize": "device"}):
            with self.subTest(str(settings)):
                found = race(3, raced, {(2, 3): 4, (2, STEPS - 1): STEPS - 1}, {"backup": 1, **settings})
                servers = settings.get("servers", 1)
                for bits, seen, stats, _ in found:
                    self.assertEqual(bits, found[0][0])
                    self.assertEqual((stats.steps, stats.failed), (STEPS, 0))
                    if "buffers" in settings:
                        self.assertEqual(seen, found[0][1])
                self.assertEqual(len(set(map(str, found[0][0]))), STEPS)
                late = [stats.late for _, _, stats, _ in found]
                self.assertGreaterEqual(late[2], 3 * servers)  # steps 3 and 4, and the last
                self.assertLessEqual(sum(late), STEPS * servers)

    def test_two_of_four(self):
        found = race(4, raced, {(2, 1): 3, (3, 1): 3, (3, 6): 8}, {"backup": 2, "servers": 2})
        for bits, _, stats, _ in found:
            self.assertEqual(bits, found[0][0])
        self.assertGreaterEqual(found[2][2].late, 6)
        self.assertGreaterEqual(found[3][2].late, 12)

    def test_servers_wait_for_one_that_is_far_behind(self):
        ahead = 3 + KEPT - 2  # the last step that is answered before the push of step 3
        for bits, _, stats, _ in (found := race(3, raced, {(2, 3): ahead}, {"backup": 1})):
            self.assertEqual(bits, found[0][0])
        self.assertEqual(found[2][3], [True])
        self.assertGreaterEqual(found[2][2].late, KEPT - 1)

    def test_nothing_is_lost(self):
        """What was not taken is in residuals, goes through states, and leaves them with flush()."""
        model = Linear()
        sums = [sum(each) for each in zip(*(model.gradient(1, step) for step in range(2 * STEPS)))]
        race_of = {(1, 2): 4, (1, STEPS + 3): STEPS + 5}
        for settings in ({"codec": "3lc:s=1.75"}, {"codec": "3lc:s=1.75", "warmup_steps": 4, "quantize": "device"}):
            found = race(2, saved_and_flushed, race_of, {"backup": 1, **settings})
            for before, after, _, _ in found:
                for value, total in zip(after, sums):  # rank 0 takes part in all means
                    torch.testing.assert_close(value, -RATE / 2 * total, atol=2e-5, rtol=1e-4)
                self.assertGreater(float((before - after[0]).norm()), 0.1)
            _, _, stats, late = found[1]
            self.assertGreaterEqual(late, 3)
            self.assertGreaterEqual(stats.late, late + 3)
            self.assertEqual((found[0][2].late, found[0][2].steps), (0, 2 * STEPS))

    def test_counts_go_on(self):
        """Each once, on another number of ranks, too."""
        states = CLUSTER.run(3, resumed, None)
        self.assertEqual(CLUSTER.run(3, resumed, states), [1, 10, 100])
        self.assertEqual(CLUSTER.run(2, resumed, states), [101, 10])


class Failures(Refusals):
    def test_a_rank_dies(self):
        found = CLUSTER.outcomes(3, dies, timeout=TIMEOUT)
        self.assertIsInstance(found[2], Died)
        for kind, words, seconds in found[:2]:
            self.assertEqual(kind, "RuntimeError")
            self.assertRegex(words, names(2) + ".* see what they printed")
            self.assertLess(seconds, TIMEOUT / 2)

    def test_other_steps(self):
        found = CLUSTER.outcomes(3, other_steps, timeout=TIMEOUT)
        self.assertEqual(found[0].kind, "OrderError")
        self.assertRegex(found[0].words, "^rank 1 is in step 3 where rank 0 is in step [45]: all ranks call state_dict")
        for result in found[1:]:
            self.assertIsInstance(result, Failure)

    def test_settings(self):
        for settings, later, words in (
                ({"backup": 1, "max_norm": 1.0}, None, "max_norm needs all ranks in each step, and with backup=1"),
                ({"backup": 1}, 1.0, "max_norm needs all ranks in each step, and with backup=1"),
                ({"backup": 1, "scaler": Scaler(1.0)}, None, "scaler needs all ranks"),
                ({"backup": 2}, None, "backup should be from 0 to 1, not 2"),
                ({"backup": -1}, None, "backup should be at least 0, not -1"),
                ([{"backup": 0}, {"backup": 1}], None, "same settings: backup is 1 on rank 1 and 0 on rank 0")):
            self.refused(CLUSTER.outcomes(2, made, settings, later, timeout=TIMEOUT), "ValueError", words)
