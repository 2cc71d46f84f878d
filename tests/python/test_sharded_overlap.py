# SPDX-License-Identifier: MIT
"""ShardedOptimizer with overlap=True, in real processes over gloo: gradients leave while backward() goes on, answers
come while the next forward pass has begun, and the model is the same bit for bit."""
import copy
import math
import os
import pickle
import tempfile
import time
import unittest
from pathlib import Path

import torch

import threelc
import threelc.torch
from cluster import CLUSTER, Died, Refusals
from outer_models import memory, server_parts
from test_sharded import adamw, sgd

RANKS = 3
SMALL = 0.02  # MiB of a bucket: the model below has several


class Deep(torch.nn.Module):
    """Layers in a row, with a large one that is split among owners; a tied layer, one that is read by another module,
    a frozen one, one that is never used, and one that the second rank does not use."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.unused = torch.nn.Linear(30, 30)
        self.sometimes = torch.nn.Linear(40, 40)
        self.first = torch.nn.Linear(20, 300)
        self.wide = torch.nn.Linear(300, 300)
        self.norm = torch.nn.BatchNorm1d(300)
        self.middle = torch.nn.ModuleList([torch.nn.Linear(300, 40), torch.nn.Linear(40, 40)])
        self.attention = torch.nn.MultiheadAttention(40, 2, batch_first=True)
        self.frozen = torch.nn.Linear(40, 40).requires_grad_(False)
        self.last = torch.nn.Linear(40, 40)
        self.last.weight = self.middle[1].weight

    def forward(self, x, rank):
        x = torch.relu(self.norm(self.wide(torch.relu(self.first(x)))))
        for layer in self.middle:
            x = layer(x)
        x = x[:, None] + self.attention(*[x[:, None]] * 3)[0]
        if rank != 1:
            x = self.sometimes(x)
        return self.last(self.frozen(x))


def backward(model, rank, step):
    draw = torch.Generator().manual_seed(100 * step + rank)
    loss = model(torch.randn(8, 20, generator=draw), rank).pow(2).mean()
    loss.backward()
    return float(loss.detach())


def make(model, maker=adamw, **settings):
    settings = {"overlap": True, "bucket_mb": SMALL, **settings}
    return threelc.torch.ShardedOptimizer(model, maker, **settings)


def trained(rank, world, maker, early, settings, passes=1, steps=4):
    """early: gradients leave in backward(); else in step(), as all passes are under no_sync(). Returns the bits of the
    model, the bytes that left before each step(), and the norms."""
    model = Deep()
    optimizer = make(model, maker, **settings)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    left, losses, norms = [], [], []
    for step in range(steps):
        optimizer.zero_grad()
        before = optimizer.stats.sent
        for i in range(passes):
            if early and i == passes - 1:
                losses.append(backward(model, rank, step * passes + i))
            else:
                with optimizer.no_sync():
                    losses.append(backward(model, rank, step * passes + i))
        left.append(optimizer.stats.sent - before)
        optimizer.step()
        schedule.step()
        norms.append(optimizer.grad_norm)
    saved = model.state_dict()  # waits
    return {name: value.numpy().tobytes() for name, value in saved.items()}, left, losses, norms


def compared(rank, world, *trainings):
    """What several trainings give."""
    return [trained(rank, world, *training) for training in trainings]


def owned(rank, world, settings):
    """How many values this rank owns of one weight of 20,000."""
    optimizer = threelc.torch.ShardedOptimizer(torch.nn.Linear(200, 100, bias=False), sgd, **settings)
    return sum(n for _, _, n in optimizer.state_dict()["places"])


class Exactness(unittest.TestCase):
    def test_who_owns_what(self):
        """A bucket is split among all owners, as it goes alone; a model is split where it is large."""
        self.assertEqual(sorted(CLUSTER.run(2, owned, {})), [0, 20000])
        self.assertGreater(min(CLUSTER.run(2, owned, {"overlap": True, "bucket_mb": SMALL})), 9000)

    def test_bits(self):
        """Whether gradients leave early or in step(), answers are hidden or not, the model is the same."""
        for maker, settings, passes in (
                (adamw, {"codec": "3lc:s=1.75"}, 1), (sgd, {"codec": "qsgd:bits=8"}, 2),
                (sgd, {"codec": "3lc", "max_norm": 0.1}, 1), (adamw, {"codec": "raw", "buffers": "first"}, 1)):
            for early, late in CLUSTER.run(RANKS, compared, (maker, True, settings, passes),
                                           (maker, False, settings, passes)):
                self.assertEqual(early[0], late[0], settings)
                self.assertEqual(early[2:], late[2:])
                self.assertTrue(all(early[1]), early[1])
                self.assertFalse(any(late[1]))

    def test_raw_and_one_bucket_are_as_without(self):
        """Of floats the buckets make no difference, and one bucket makes none of any codec."""
        for codec, bucket_mb in (("raw", SMALL), ("3lc", 0.9)):
            for here, there in CLUSTER.run(RANKS, compared, (adamw, True, {"codec": codec, "bucket_mb": bucket_mb}),
                                           (adamw, True, {"codec": codec, "overlap": False})):
                self.assertEqual(here[0], there[0])


# ---- what overlaps ----

def watched(rank, world, reached):
    """Rank 1 answers when rank 0 has come to its first layer, and then makes the file `reached`: what the modules of
    rank 0 found, what a copy of the model has, and whether rank 1 waited in vain."""
    model = Deep()
    optimizer = make(model, codec="3lc")
    backward(model, rank, 0)
    answer, in_vain = optimizer._answer, []
    if rank == 1:
        def slow(bucket, *rest):
            if bucket is optimizer._buckets[0]:  # the last that is answered
                end = time.monotonic() + 30
                while not reached.exists() and time.monotonic() < end:
                    time.sleep(0.01)
                in_vain.append(not reached.exists())
            answer(bucket, *rest)
        optimizer._answer = slow
    optimizer.step()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer.zero_grad()
    read = {}

    def look(name):
        def hook(module, inputs):
            if rank == 0 and name == "first":
                reached.touch()
            read[name] = {id(p): p.detach().clone() for p in module.parameters()}
        return hook

    for name, module in model.named_children():
        if name != "middle":
            module.register_forward_pre_hook(look(name))
    backward(model, rank, 1)
    moved = {name: p.detach().clone() for name, p in model.named_parameters()}
    by_id = {id(p): moved[name] for name, p in model.named_parameters()}
    fresh = all(torch.equal(value, by_id[i]) for parts in read.values() for i, value in parts.items())
    stale = [name for name, p in before.items() if not torch.equal(p, moved[name])]
    optimizer.step()
    optimizer.ready()
    return in_vain, fresh, stale, len(optimizer._buckets), memory(model.parameters())


def evaluated(rank, world):
    """Without gradients, and copies: the model is whole."""
    model = Deep()
    optimizer = make(model, sgd)
    backward(model, rank, 0)
    optimizer.step()
    found = []
    handle = model.first.register_forward_hook(lambda *_: found.append(memory(model.parameters())))
    with torch.no_grad():
        model(torch.zeros(8, 20), 0)
    handle.remove()
    optimizer.ready()
    weights, same = memory(model.parameters()), [found[0] == memory(model.parameters())]
    for twin in copy.deepcopy(model), pickle.loads(pickle.dumps(model)):
        backward(twin, rank, 3)
        same.append(memory(twin.parameters()) == weights)
    return same


class Waiting(unittest.TestCase):
    def test_modules_wait_for_what_they_read(self):
        """The first layers compute while the answer of the last ones is on its way."""
        with tempfile.TemporaryDirectory() as folder:
            found = CLUSTER.run(2, watched, Path(folder, "reached"))
        _, fresh, stale, buckets, _ = found[0]
        self.assertGreater(buckets, 3)
        self.assertEqual(found[1][0][0], False)  # rank 0 came to its first layer without the answer
        self.assertTrue(fresh)
        self.assertIn("last.bias", stale)  # step() returned before it was there
        self.assertEqual(found[0][4], found[1][4])

    def test_evaluation_and_copies(self):
        self.assertEqual(CLUSTER.run(2, evaluated), [[True] * 3] * 2)


# ---- failures ----

def nonfinite(rank, world, everywhere):
    """The second of four steps has a NaN in one bucket. Which call raised, and what."""
    model = Deep()
    optimizer = make(model, sgd, codec="3lc")
    found = []
    for step in range(4):
        optimizer.zero_grad()
        handle = None
        if step == 1 and (everywhere or rank == 1):
            handle = model.last.bias.register_hook(lambda gradient: gradient * math.nan)
        backward(model, rank, step)
        if handle is not None:
            handle.remove()
        try:
            optimizer.step()
        except threelc.StepError as error:
            found.append((step, str(error)))
    optimizer.ready()
    return memory(model.parameters()), found, optimizer.stats.failed, optimizer.stats.steps


def lost(rank, world, how):
    """Rank 1 goes wrong in step 2. What rank 0 raises, where, and after how long."""
    model = Deep()
    optimizer = make(model, sgd)
    for step in range(2):
        backward(model, rank, step)
        optimizer.step()
        optimizer.zero_grad()
    start, where = time.monotonic(), "backward"
    try:
        if rank == 1 and how == "dies":
            os._exit(1)
        if rank == 1:
            optimizer._answer = None  # cannot be called: the thread fails
        backward(model, rank, 2)
        where = "step"
        optimizer.step()
        where = "ready"
        optimizer.ready()
    except Exception as error:
        return where, type(error).__name__, str(error), time.monotonic() - start
    return where, "", "", 0.0


def twice(rank, world):
    model = Deep()
    make(model)
    backward(model, rank, 0)
    backward(model, rank, 1)  # nobody holds the optimizer, so nothing is sent
    optimizer = make(model)
    backward(model, rank, 0)
    backward(model, rank, 1)
    return optimizer


def refused(rank, world, what):
    model = Deep()
    if what == "compiled":
        model._orig_mod = torch.nn.Linear(2, 2)
    optimizer = make(model, **({"bucket_mb": 0} if what == "bucket" else {}))
    if what == "weight":
        optimizer.step(weight=2.0)
    backward(model, rank, 0)
    optimizer.flush()


class Failures(Refusals):
    def test_nonfinite(self):
        """One is left out in its bucket. If all are, the next step() tells of it, and that step is taken."""
        found = CLUSTER.run(2, nonfinite, False)
        self.assertEqual([result[1:] for result in found], [([], 0, 4)] * 2)
        self.assertEqual(found[0][0], found[1][0])
        found = CLUSTER.run(2, nonfinite, True)
        for model, raised, failed, steps in found:
            self.assertEqual(model, found[0][0])
            self.assertEqual(([step for step, _ in raised], failed, steps), ([2], 1, 4))
            self.assertIn("NaN or infinity", raised[0][1])

    def test_a_rank_is_lost(self):
        for how in ("dies", "fails"):
            found = CLUSTER.outcomes(2, lost, how, timeout=10)
            where, kind, words, seconds = found[0]
            self.assertEqual(kind, "RuntimeError", found)
            self.assertRegex(words, "^rank 0 lost rank 1 ")
            self.assertLess(seconds, 40)
            if how == "dies":
                self.assertIsInstance(found[1], Died)
            else:
                self.assertEqual(found[1][:2], ("step", "TypeError"))

    def test_refused(self):
        for result in CLUSTER.outcomes(2, twice):
            self.assertIn("a second gradient of", result.words)
            self.assertIn("no_sync()", result.words)
        for what, words in (("compiled", "which torch.compile() leaves out"), ("weight", "so their weight is 1"),
                            ("bucket", "bucket_mb should be a number above 0"),
                            ("flush", "are on their way: call step() first")):
            self.refused(CLUSTER.outcomes(2, refused, what), None, words)


# ---- states ----

def resumed(rank, world, codec, pieces):
    """Training in pieces: first step, last step, size of buckets. Each goes on from the states of all ranks."""
    saved = None
    for first, last, bucket_mb in pieces:
        model = Deep()
        optimizer = make(model, codec=codec, overlap=bucket_mb is not None, bucket_mb=bucket_mb or 1)
        if saved is not None:
            model.load_state_dict(saved[rank][0])
            optimizer.load_state_dict([state for _, state in saved])
        for step in range(first, last):
            optimizer.zero_grad()
            backward(model, rank, step)
            optimizer.step()
        state = optimizer.state_dict(), {name: t.clone() for name, t in model.state_dict().items()}
        saved = [None] * world
        torch.distributed.all_gather_object(saved, state[::-1])
    left = sum(float(torch.tensor(list(part.residual)).double().sum())
               for part in server_parts(optimizer) if part.residual is not None)
    pushes = sum(float(residual.double().sum()) for b in optimizer._buckets for residual in b.residuals.values())
    return memory(model.parameters()), left, pushes, optimizer.stats.steps


def several(rank, world, codec, trainings):
    return [resumed(rank, world, codec, pieces) for pieces in trainings]


class States(unittest.TestCase):
    def test_resuming(self):
        """With the same buckets the bits are the same; with others nothing is lost."""
        def of_ranks(codec, *trainings):
            return zip(*CLUSTER.run(RANKS, several, codec, trainings))

        whole, pieces, one, others = of_ranks("3lc", [(0, 4, SMALL)], [(0, 2, SMALL), (2, 4, SMALL)],
                                              [(0, 4, SMALL), (4, 4, None)], [(0, 4, SMALL), (4, 4, 0.1)])
        self.assertEqual(pieces, whole)
        for found in (one, others):
            for here, there in zip(found, whole):
                self.assertEqual((here[0], here[3]), (there[0], there[3]))
                self.assertAlmostEqual(here[2], there[2], places=4)
            self.assertAlmostEqual(sum(r[1] for r in found), sum(r[1] for r in whole), places=4)
            self.assertNotEqual(sum(r[1] for r in found), 0)
        floats, mixed = of_ranks("raw", [(0, 6, None)], [(0, 2, None), (2, 4, SMALL), (4, 6, 0.1)])
        self.assertEqual([result[0] for result in mixed], [result[0] for result in floats])
