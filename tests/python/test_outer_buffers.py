# SPDX-License-Identifier: MIT
"""Buffers in local steps, and what is left out because it is not finite."""
import math
import unittest
import warnings
from types import SimpleNamespace

import torch

import threelc
import threelc.torch
import test_outer_arguments
from cluster import CLUSTER, Refusals
from outer_models import in_pieces, ones
from threelc.torch._common import buffers


class Masked(torch.nn.Module):
    """A causal mask, and buffers that a local step changes on all ranks alike, or on each in its own way."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(300))
        self.register_buffer("mask", torch.full((8, 8), -math.inf).triu(1))
        self.register_buffer("same", torch.tensor([0.1, -0.0]))
        self.register_buffer("mixed", torch.tensor([-math.inf, 0.0, math.nan]))
        self.register_buffer("exact", torch.zeros(3, dtype=torch.float64))
        self.register_buffer("brief", torch.zeros(3, dtype=torch.bfloat16))
        self.register_buffer("waves", torch.zeros(2, dtype=torch.complex64))
        self.register_buffer("count", torch.tensor(0))
        self.register_buffer("flags", torch.zeros(4, dtype=torch.bool))
        self.register_buffer("replaced", torch.zeros(2))

    def local_step(self, rank):
        self.weight.grad = torch.full_like(self.weight, 1.0 + rank)
        self.same *= 1.1
        self.mixed[1] += 1 + rank
        self.exact += 2.0**-40 * (1 + rank)
        self.brief += 1 + rank
        self.waves += 1 + 1j * rank
        self.count += 2**53 + 1 + rank
        self.flags[rank] = True
        self.replaced = self.replaced + 1 + rank


def copies(model):
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def make(model, **settings):
    return threelc.torch.LocalSteps(model, torch.optim.SGD(model.parameters(), 0.1),
                                    **{"codec": "raw", "every": 1, **settings})


def masked(rank, world, steps, settings, weight=1.0):
    model = Masked()
    optimizer = make(model, **settings)
    optimizer.weight = weight if rank == 0 else 1.0
    taken, found = [], []
    for _ in range(steps):
        taken.append(optimizer.participates)
        model.local_step(rank)
        optimizer.step()
        found.append(copies(model))
    return taken, found, optimizer.stats


def resumed(rank, world, pieces):
    """Rounds of two steps; the last one fails, so its buffers are those at its start."""
    def made():
        model = Masked()
        return model, make(model, every=2, on_nonfinite="skip")

    def local_step(step, model, optimizer):
        model.local_step(rank)
        if step == 5 and rank == 1:
            model.exact[1] = math.inf
        optimizer.step()

    return in_pieces(pieces, made, local_step)[1][0]


def not_finite(rank, world, policy):
    """In the second round a buffer of rank 1 is not finite."""
    model = Masked()
    optimizer = make(model, on_nonfinite=policy)
    raised = []
    for step in range(3):
        model.local_step(rank)
        if step == 1 and rank == 1:
            model.exact[2] = math.nan
        before = copies(model)
        try:
            optimizer.step()
        except threelc.StepError as error:
            raised.append(str(error))
        if step == 0:
            first = copies(model)
        if step == 1:
            second = copies(model)
    return raised, first, second, copies(model), before, optimizer.stats


def bytes_of_masks(rank, world, n):
    model = torch.nn.Linear(20, 20)
    for i in range(n):
        model.register_buffer(f"mask{i}", torch.zeros(10000))
    optimizer = make(model)
    ones(model, optimizer)
    return optimizer.stats.sent


def another(rank, world):
    model = Masked()
    optimizer = make(model)
    model.local_step(rank)
    model.exact = torch.zeros(4, dtype=torch.float64)
    optimizer.step()


def alone(rank, world):
    model = Masked()
    optimizer = make(model, average_buffers=False)
    model.local_step(rank)
    optimizer.step()
    return copies(model)


def same(a, b):
    return a.dtype == b.dtype and a.view(-1).view(torch.uint8).tolist() == b.view(-1).view(torch.uint8).tolist()


class Buffers(Refusals):
    def test_masks(self):
        """What all ranks have alike stays, to the bit, and the model is trained."""
        for settings in ({}, {"mode": "sharded", "codec": "3lc"}, {"on_nonfinite": "skip"}):
            found = CLUSTER.run(3, masked, 3, settings)
            alone = Masked()
            for step in range(3):
                alone.local_step(0)
                for _, models, stats in found:
                    for name in ("mask", "same"):
                        self.assertTrue(same(models[step][name], getattr(alone, name)), name)
                    self.assertEqual((stats.rounds, stats.skipped), (3, 0))
            if "codec" not in settings:
                torch.testing.assert_close(found[0][1][2]["weight"], torch.full((300,), 1 - 3 * 0.2))

    def test_kinds(self):
        """Floats become their mean in their own precision; integers and booleans are those of the first rank."""
        for weight in (1.0, 3.0):
            mean = (weight * 1 + 2 + 3) / (weight + 2)
            for _, models, _ in CLUSTER.run(3, masked, 2, {}, weight):
                model = models[1]
                self.assertEqual(model["mixed"][0], -math.inf)
                self.assertTrue(math.isnan(model["mixed"][2]))
                self.assertAlmostEqual(float(model["mixed"][1]), 2 * mean, places=5)
                torch.testing.assert_close(model["exact"], torch.full((3,), 2**-39 * mean, dtype=torch.float64),
                                           rtol=1e-15, atol=0)
                torch.testing.assert_close(model["brief"].float(), torch.full((3,), 2 * mean), rtol=2**-7, atol=0)
                torch.testing.assert_close(model["waves"], torch.full((2,), 2 + 2j * (mean - 1)))
                self.assertEqual(int(model["count"]), 2 * (2**53 + 1))
                self.assertEqual(model["flags"].tolist(), [True, False, False, False])
                torch.testing.assert_close(model["replaced"], torch.full((2,), 2 * mean))

    def test_participants(self):
        found = CLUSTER.run(3, masked, 6, {"participants": 2})
        count, mean = 0, torch.zeros(3, dtype=torch.float64)
        for step in range(6):
            ranks = [rank for rank, (taken, _, _) in enumerate(found) if taken[step]]
            count += 2**53 + 1 + ranks[0]
            mean += 2.0**-40 * (1 + sum(ranks) / 2)
            for _, models, _ in found:
                self.assertEqual(int(models[step]["count"]), count)
                torch.testing.assert_close(models[step]["exact"], mean, rtol=1e-14, atol=0)
        self.assertTrue(all(any(taken) and not all(taken) for taken, _, _ in found))

    def test_resuming(self):
        for whole, pieces in zip(CLUSTER.run(2, resumed, [(0, 6)]),
                                 CLUSTER.run(2, resumed, [(0, 2), (2, 5), (5, 6)])):
            for name, tensor in whole.items():
                self.assertTrue(same(tensor, pieces[name]), name)
            torch.testing.assert_close(whole["exact"], torch.full((3,), 4 * 1.5 * 2.0**-40, dtype=torch.float64),
                                       rtol=1e-12, atol=0)

    def test_not_finite(self):
        """The round fails on all ranks, which go back to the buffers before it, too."""
        for policy in ("raise", "skip"):
            for raised, first, second, last, _, stats in CLUSTER.run(2, not_finite, policy):
                self.assertEqual(raised, ['rank 1: NaN or infinity in buffer "exact"'] if policy == "raise" else [])
                self.assertEqual((stats.rounds, stats.skipped), (3, 1))
                for name in first:
                    self.assertTrue(same(first[name], second[name]), name)
                torch.testing.assert_close(last["exact"], 2 * first["exact"], rtol=1e-12, atol=0)

    def test_equal_ones_are_not_sent(self):
        """But for 16 bytes to each rank."""
        self.assertEqual(CLUSTER.run(2, bytes_of_masks, 9)[0] - CLUSTER.run(2, bytes_of_masks, 1)[0], 8 * 16)

    def test_bytes_of_floats(self):
        """8 for each value that has a mean, less the share of a rank."""
        model = SimpleNamespace(buffers=lambda: dict(Masked().named_buffers()))
        counts = (8 * 8, 2, 3, 3, 3, 2 * 2, 2)
        for world in 1, 2, 3, 5:
            self.assertEqual(buffers.Buffers(model, True).ring_bytes(world),
                             sum(8 * count * (world - 1) // world for count in counts))
            self.assertEqual(buffers.Buffers(model, False).ring_bytes(world), 0)

    def test_another_one(self):
        self.refused(CLUSTER.outcomes(2, another), None, "buffer exact of shape [3], torch.float64, is another one now")

    def test_left_alone(self):
        for rank, found in enumerate(CLUSTER.run(2, alone)):
            self.assertEqual(int(found["count"]), 2**53 + 1 + rank)
            self.assertEqual(float(found["mixed"][1]), 1 + rank)


# ---- what is left out again and again ----

def left_out(rank, world, way, bad):
    """Steps in which rank 1 has a NaN: the warnings, and which steps raised."""
    model = torch.nn.Sequential(torch.nn.Linear(20, 20), torch.nn.Linear(20, 20))
    settings = {"every": 1, "on_nonfinite": "skip"} if way == "LocalSteps" else {}
    optimizer = test_outer_arguments.make(way, model, codec="raw", **settings)
    told = []
    for step in range(len(bad)):
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        if rank == 1 and bad[step]:
            model[1].weight.grad[2, 3] = math.nan
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            optimizer.step()
        told += [(step, issubclass(w.category, RuntimeWarning), str(w.message)) for w in found]
    return told


class LeftOut(unittest.TestCase):
    def test_warnings(self):
        """At the third time in a row, once, where it happens: a round is skipped on all ranks."""
        for way, who in (("LocalSteps", (0, 1)), ("PushPull", (1,)), ("Gossip", (1,))):
            for bad, at in (("110110", []), ("0111110111", [3, 9])):
                for rank, told in enumerate(CLUSTER.run(2, left_out, way, [b == "1" for b in bad])):
                    self.assertEqual([step for step, *_ in told], at if rank in who else [], way)
                    for _, right, words in told:
                        self.assertTrue(right)
                        self.assertIn("3 times in a row", words)
                        self.assertIn('"1.weight"', words)
                        self.assertRegex(words, "(rank|worker|node) 1")
