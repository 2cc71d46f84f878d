# SPDX-License-Identifier: MIT
"""Dense starts of ShardedOptimizer, PushPull and LocalSteps, in real processes over gloo: the first steps or rounds are
those of the codec "raw", bit for bit, and after them codecs begin."""
import contextlib

import torch

import threelc.torch
from cluster import CLUSTER, Refusals
from outer_models import batch, build, memory, resumed, train
from test_momentum import MOMENTUM, SPARSE, by_the_paper, trained_at_owners
from test_outer_optimizers import OldScaler
from test_sharded import RANKS, adamw, alone, sgd, sharded
from test_sharded_overlap import trained as overlapped

DENSE = 4
CODEC = "3lc:s=1.75"


def make_owners(model, settings):
    kind = threelc.torch.PushPull if "servers" in settings else threelc.torch.ShardedOptimizer
    return kind(model, sgd, **settings), None


def make_local(model, settings):
    inner = sgd(model.parameters())
    return threelc.torch.LocalSteps(model, inner, every=2, **settings), inner


def followed(rank, world, make, steps, settings):
    """After each step the bits of the model, after rounds those of the common one, and the bytes sent in the step."""
    model = build(rank)
    optimizer, _ = make(model, settings)
    found, sent = [], 0
    for step in range(steps):
        train(rank, model, optimizer, [step])
        round_ended = (step + 1) % getattr(optimizer, "every", steps + 1) == 0
        with optimizer.common_model() if round_ended else contextlib.nullcontext():
            found.append((memory(model.parameters()), optimizer.stats.sent - sent))
        sent = optimizer.stats.sent
    return found


def scaled(rank, world, overlap):
    """The second and third step have an infinity on rank 1. After each step, whether residuals hold something."""
    model = build(rank)
    scaler = OldScaler()
    scaler.get_scale = lambda: 1024.0
    optimizer = threelc.torch.ShardedOptimizer(model, sgd, codec=CODEC, warmup_steps=3, scaler=scaler, overlap=overlap)
    left = []
    for step in range(4):
        optimizer.zero_grad()
        loss = model(batch(rank, step)).pow(2).mean() * (float("inf") if rank == 1 and step in (1, 2) else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.ready()
        left.append(any(bool(values.any()) for b in optimizer._buckets for values in b.residuals.values()))
    return memory(model.parameters()), left, optimizer.stats.failed


def alike(rank, world, first, last, settings, saved):
    """Steps with the same gradients on all ranks, from the states of all. Model and state."""
    model = build(rank)
    optimizer, _ = make_owners(model, settings)
    if saved is not None:
        model.load_state_dict(saved[0][0])
        optimizer.load_state_dict([state for _, state in saved])
    train(0, model, optimizer, range(first, last))
    return model.state_dict(), optimizer.state_dict()


def other_lengths(rank, world, make, name):
    make(build(rank), {name: rank + 1})


class DenseStart(Refusals):
    def check(self, make, settings, length, period=1):
        """length: steps that go as floats. period: of exchanges."""
        here = CLUSTER.run(RANKS, followed, make, length + 2 * period, settings)
        raw = {name: value for name, value in settings.items() if not name.startswith("warmup")}
        there = CLUSTER.run(RANKS, followed, make, length + 2 * period, {**raw, "codec": "raw"})
        for mine, floats in zip(here, there):
            self.assertTrue([model for model, _ in mine[:length]] == [model for model, _ in floats[:length]])
            (model, sent), (other, more) = mine[length + period - 1], floats[length + period - 1]
            self.assertTrue(model != other)
            self.assertLess(sent, more / 2)
            self.assertTrue(all(mine[i][0] == here[0][i][0] for i in range(period - 1, len(mine), period)))

    def test_is_the_optimizer(self):
        """Alone, on one machine."""
        for make in (sgd, adamw):
            expected = alone(make, DENSE)
            for found, _, _ in CLUSTER.run(RANKS, sharded, make, DENSE, {"codec": CODEC, "warmup_steps": DENSE}):
                self.assertEqual(found, expected)

    def test_owners(self):
        for settings in ({"warmup_steps": DENSE}, {"warmup_steps": DENSE, "servers": 2}):
            self.check(make_owners, {"codec": CODEC, **settings}, DENSE)

    def test_bfloat16(self):
        for steps in (DENSE, DENSE + 1):
            here, there = (CLUSTER.run(RANKS, sharded, adamw, steps, settings, torch.bfloat16) for settings in (
                {"codec": CODEC, "warmup_steps": DENSE}, {"codec": "raw"}))
            self.assertEqual(here[0][0] == there[0][0], steps == DENSE)
            self.assertTrue(all(model == here[0][0] for model, _, _ in here))

    def test_local_steps(self):
        for mode in ("gather", "sharded"):
            self.check(make_local, {"codec": CODEC, "mode": mode, "warmup_rounds": 2}, 4, period=2)

    def test_overlap(self):
        """The model is the same, whether gradients leave early or not, and that of floats while the start lasts."""
        for steps in (2, 5):
            early, late, raw = (CLUSTER.run(RANKS, overlapped, adamw, *way, 1, steps)[1][0] for way in (
                (True, {"codec": CODEC, "warmup_steps": 2}), (False, {"codec": CODEC, "warmup_steps": 2}),
                (True, {"codec": "raw"})))
            self.assertTrue(early == late)
            self.assertEqual(early == raw, steps == 2)

    def test_momentum_correction(self):
        """In floats it is the optimizer's momentum."""
        settings = {"codec": SPARSE, "warmup_steps": 12}
        here = CLUSTER.run(2, trained_at_owners, 12, {**settings, "momentum_correction": MOMENTUM})
        there = CLUSTER.run(2, trained_at_owners, 12, settings, MOMENTUM)
        self.assertAlmostEqual(here[0][0], there[0][0], places=5)
        self.assertEqual(here[0][2], 0)  # no velocity was cleared
        settings = {**settings, "pull": "raw", "momentum_correction": MOMENTUM}
        later = CLUSTER.run(2, trained_at_owners, 100, settings)
        self.assertAlmostEqual(later[0][0], by_the_paper(2, 100, dense=12), places=4)
        self.assertEqual(later[0][2], 20)  # 5% of 400: what the last step sent

    def test_skipped_steps(self):
        """They count, as those of register() do."""
        for overlap in (False, True):
            found = CLUSTER.run(2, scaled, overlap)
            self.assertEqual(found[0][0], found[1][0])
            for _, left, failed in found:
                self.assertEqual((left, failed), ([False, False, False, True], 2))

    def test_resuming(self):
        """In the middle of it, in new objects."""
        for make, settings in ((make_owners, {"warmup_steps": 5}), (make_local, {"warmup_rounds": 2})):
            settings = {"codec": CODEC, **settings}
            self.goes_on(RANKS, resumed, [(0, 2), (2, 8)], make, settings)

    def test_resuming_on_other_ranks(self):
        """The start lasts as long, and its bits are those of any number of ranks that have the same gradients."""
        settings = {"codec": CODEC, "warmup_steps": 5}
        saved = CLUSTER.run(4, alike, 0, 3, settings, None)
        whole = CLUSTER.run(2, alike, 0, 5, {"codec": "raw"}, None)
        for steps in (5, 6):
            found = CLUSTER.run(2, alike, 3, steps, settings, saved)
            self.assertEqual(memory(found[0][0].values()), memory(found[1][0].values()))
            self.assertEqual([state["steps"] for _, state in found], [steps] * 2)
            if steps == 5:
                self.assertEqual(memory(found[0][0].values()), memory(whole[0][0].values()))

    def test_wrong_settings(self):
        for make, name in ((make_owners, "warmup_steps"), (make_local, "warmup_rounds")):
            self.refused(CLUSTER.outcomes(2, followed, make, 1, {name: -1}), "ValueError",
                         f"{name} should be at least 0, not -1")
            self.refused(CLUSTER.outcomes(2, other_lengths, make, name), "ValueError",
                         f"{name} is 2 on rank 1 and 1 on rank 0")
