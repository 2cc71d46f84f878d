# SPDX-License-Identifier: MIT
"""ShardedOptimizer, in real processes over gloo: it is the optimizer, each rank has a part of it, and all have one
model."""
import math
import unittest

import torch

import threelc
import threelc.torch
from cluster import CLUSTER, Refusals
from outer_models import backward, build, memory, server_parts, resumed, train
from test_outer_optimizers import SCALER, OldScaler, scaled_steps

RANKS = 3
CODECS = ("3lc:s=1.75", "3lc-golomb", "qsgd:bits=8", "topk:p=0.05")


class Wide(torch.nn.Module):
    """A tensor that is split among owners, and small ones, both with a weight of -0 whose gradient is 0; a frozen one,
    and a tied one."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        draw = torch.Generator().manual_seed(1)
        self.large = torch.nn.Parameter(torch.randn(70001, generator=draw).to(dtype))
        self.large.data[0] = -0.0
        self.some = torch.nn.Parameter(torch.randn(20, 30, generator=draw).to(dtype))
        self.few = torch.nn.Parameter(torch.randn(5, generator=draw).to(dtype))
        self.zero = torch.nn.Parameter(torch.tensor([-0.0, 1.0]).to(dtype))
        self.frozen = torch.nn.Parameter(torch.randn(9, generator=draw).to(dtype), requires_grad=False)
        self.tied = self.some

    def trained(self):
        return [p for p in self.parameters() if p.requires_grad]

    def set_gradients(self, rank, step):
        for i, p in enumerate(self.trained()):
            draw = torch.Generator().manual_seed(1000 * step + 10 * rank + i)
            p.grad = (torch.randn(p.shape, generator=draw) * 0.1).to(p.dtype)
        self.zero.grad[0] = self.large.grad[0] = 0.0


def adamw(parameters):
    return torch.optim.AdamW(parameters, 1e-2)


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.05, momentum=0.9)


def mean(gradients):
    """As the library adds them up: in the order of ranks, each times 1/N."""
    total = torch.zeros_like(gradients[0])
    for gradient in gradients:
        total += gradient * torch.tensor(1 / len(gradients))
    return total


def halved(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)


def alone(make, steps, groups=None):
    """The optimizer on the whole model, with the mean of the gradients of all ranks. groups: of the model, for a
    training with a schedule."""
    models = [Wide() for _ in range(RANKS)]
    optimizer = make(groups(models[0]) if groups else models[0].trained())
    schedule = halved(optimizer) if groups else None
    for step in range(steps):
        for rank, model in enumerate(models):
            model.set_gradients(rank, step)
        for parameters in zip(*(model.trained() for model in models)):
            parameters[0].grad = mean([p.grad for p in parameters])
        optimizer.step()
        if schedule:
            schedule.step()
    return memory(models[0].parameters())


def sharded(rank, world, make, steps, settings, dtype=torch.float32):
    model = Wide(dtype)
    optimizer = threelc.torch.ShardedOptimizer(model, make, **settings)
    for step in range(steps):
        model.set_gradients(rank, step)
        optimizer.step()
    kept = sum(value.numel() for state in optimizer.state.values() for value in state.values()
               if torch.is_tensor(value) and value.dim())
    return memory(model.parameters()), optimizer.stats, kept


def trained(rank, world, settings):
    """Whether the loss falls, gradients of two passes added up; and the model."""
    model = build(rank)
    optimizer = threelc.torch.ShardedOptimizer(model, adamw, **settings)
    losses = []
    for step in range(30):
        optimizer.zero_grad()
        losses.append(backward(model, rank, 0))
        backward(model, rank, 1)
        optimizer.step()
    return losses[0], losses[-1], memory(model.parameters())


class Exactness(unittest.TestCase):
    def test_raw_is_the_optimizer(self):
        """Bit for bit, over 100 steps."""
        for make in (sgd, adamw):
            expected = alone(make, 100)
            for found, stats, _ in CLUSTER.run(RANKS, sharded, make, 100, {"codec": "raw"}):
                self.assertEqual(found, expected)
                self.assertEqual((stats.steps, stats.failed), (100, 0))

    def test_replicas_are_identical(self):
        for i, codec in enumerate(CODECS):
            dtype = (torch.float32, torch.bfloat16)[i % 2]
            found = CLUSTER.run(RANKS, sharded, adamw, 10, {"codec": codec}, dtype)
            for model, stats, _ in found:
                self.assertEqual(model, found[0][0])
                self.assertGreater(stats.ratio, 2)

    def test_memory(self):
        """A rank keeps 1/N of what the optimizer keeps, as far as parts divide."""
        whole = 2 * sum(p.numel() for p in Wide().trained())
        kept = [n for _, _, n in CLUSTER.run(RANKS, sharded, adamw, 1, {})]
        self.assertEqual(sum(kept), whole)
        self.assertLess(max(kept), whole / RANKS * 1.05)

    def test_training(self):
        found = CLUSTER.run(RANKS, trained, {"codec": "3lc:s=1.75"})
        for first, last, model in found:
            self.assertLess(last, 0.5 * first)
            self.assertEqual(model, found[0][2])


# ---- groups, schedules, clipping ----

def groups_of(model):
    return [{"params": [model.large, model.some], "weight_decay": 0.1},
            {"params": [model.few, model.zero, model.frozen], "weight_decay": 0.0, "lr": 0.02}]


def grouped(rank, world, codec, wrong):
    """The model after steps with groups and a schedule."""
    model = Wide()
    groups = groups_of(model)
    if wrong == "missing":
        groups[1]["params"].pop(0)
    elif wrong == "twice":
        groups[1]["params"].append(model.some)
    elif wrong == "foreign":
        groups[1]["params"].append(torch.nn.Parameter(torch.zeros(3)))
    elif wrong == "rank" and rank == 1:
        groups[0]["weight_decay"] = 0.2
    optimizer = threelc.torch.ShardedOptimizer(model, adamw, groups=groups, codec=codec)
    schedule = halved(optimizer)
    for step in range(6):
        model.set_gradients(rank, step)
        optimizer.step()
        schedule.step()
    return memory(model.parameters()), [group["lr"] for group in optimizer.param_groups]


def clipped(rank, world, max_norm):
    model = Wide()
    optimizer = threelc.torch.ShardedOptimizer(model, lambda p: torch.optim.SGD(p, 1.0), codec="raw", max_norm=max_norm)
    before = [p.detach().clone() for p in model.trained()]
    model.set_gradients(rank, 0)
    optimizer.step()
    return [old - p.detach() for old, p in zip(before, model.trained())], optimizer.grad_norm, optimizer.max_norm


class Settings(Refusals):
    def test_groups_and_schedules(self):
        expected = alone(adamw, 6, groups_of)
        for found, rates in CLUSTER.run(RANKS, grouped, "raw", None):
            self.assertEqual(found, expected)
            self.assertEqual(rates, [1e-2 / 8, 0.02 / 8])

    def test_wrong_groups(self):
        for wrong, words in (("missing", "parameter few is in none of the groups"),
                             ("twice", "parameter some is in the groups twice"),
                             ("foreign", "groups[1] has a parameter that is not the model's"),
                             ("rank", "all ranks need the same settings: groups is")):
            self.refused(CLUSTER.outcomes(2, grouped, "raw", wrong), "ValueError", words)

    def test_clipping(self):
        """By the norm of the mean of all gradients, whoever owns them."""
        models = [Wide() for _ in range(RANKS)]
        for rank, model in enumerate(models):
            model.set_gradients(rank, 0)
        means = [mean([p.grad for p in parameters]) for parameters in zip(*(model.trained() for model in models))]
        norm = math.sqrt(sum(float(m.double().pow(2).sum()) for m in means))
        for max_norm in (0.5, math.inf):
            found = CLUSTER.run(RANKS, clipped, max_norm)
            for changes, seen, _ in found:
                self.assertEqual(seen, found[0][1])
                self.assertAlmostEqual(seen, norm, places=4)
                for change, m in zip(changes, means):
                    torch.testing.assert_close(change, m * min(1, max_norm / norm), atol=1e-6, rtol=1e-4)
        self.refused(CLUSTER.outcomes(2, clipped, -1.0), None, "max_norm should be a number above 0")


# ---- loss scalers ----

def scaled(rank, world, kind, bad):
    """Weights and scales after each of the steps."""
    model = torch.nn.Linear(20, 20)
    torch.nn.init.zeros_(model.weight)
    scaler = OldScaler() if kind == "old" else torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.get_scale = scaler.get_scale if kind != "old" else lambda: 1024.0
    optimizer = threelc.torch.ShardedOptimizer(model, lambda p: torch.optim.SGD(p, 0.1), codec="3lc", scaler=scaler)
    found = []
    for told in scaled_steps(rank, model, optimizer, scaler, kind, bad):
        found.append((round(float(model.weight.detach()[0, 0]), 5), scaler.get_scale(), told))
    return found, optimizer.stats.steps, optimizer.stats.failed


class Scalers(Refusals):
    def check(self, kind, halves):
        """A step is skipped on all ranks, and all scalers learn of it."""
        for found, steps, failed in CLUSTER.run(2, scaled, kind, (0, 2)):
            self.assertEqual([weight for weight, _, _ in found], [0.0, -0.1, -0.1, -0.2])
            self.assertEqual([told for _, _, told in found], [[1.0], [0.0], [1.0], [0.0]])
            self.assertEqual([scale for _, scale, _ in found], halves)
            self.assertEqual((steps, failed), (4, 2))

    @unittest.skipUnless(SCALER, "this PyTorch scales losses on GPUs only")
    def test_scaler(self):
        self.check("plain", [512.0, 512.0, 256.0, 256.0])
        self.refused(CLUSTER.outcomes(2, scaled, "unscaled", ()), "TypeError",
                     "unscale_() of a GradScaler does nothing for ShardedOptimizer")

    def test_scaler_of_pytorch_1(self):
        self.check("old", [1024.0] * 4)


# ---- buffers and states ----

def with_buffers(rank, world, buffers, added):
    """Buffers after three steps, and those of the last forward pass."""
    model = build(rank)
    optimizer = threelc.torch.ShardedOptimizer(model, sgd, buffers=buffers)
    if added and rank == 1:
        model.register_buffer("more", torch.zeros(3))
    for step in range(3):
        optimizer.zero_grad()
        backward(model, rank, step)
        own = memory(model.buffers())
        optimizer.step()
    return memory(model.buffers()), own


def make_sharded(model, settings):
    return threelc.torch.ShardedOptimizer(model, adamw, **settings), None


def on_other_ranks(rank, world, saved, codec):
    """What residuals of answers and moments there are after loading, summed up over values; and the model a step
    later."""
    model = build(rank)
    optimizer = threelc.torch.ShardedOptimizer(model, adamw, codec=codec)
    model.load_state_dict(saved[0][0])
    optimizer.load_state_dict([state for _, state in saved])
    left = sum(sum(part.residual) for part in server_parts(optimizer) if part.residual is not None)
    moments = sum(float(state["exp_avg"].double().sum()) for state in optimizer.state.values())
    train(0, model, optimizer, [9])  # all have the same gradients, so their number makes no difference
    return left, moments, memory(model.parameters()), optimizer.stats.steps


class States(Refusals):
    def test_buffers(self):
        own = CLUSTER.run(2, with_buffers, "own", False)
        self.assertNotEqual(own[0][0], own[1][0])
        first = CLUSTER.run(2, with_buffers, "first", False)
        self.assertEqual([found for found, _ in first], [first[0][1]] * 2)
        self.assertNotEqual(first[1][1], first[0][1])
        found = CLUSTER.outcomes(2, with_buffers, "first", True, timeout=5)
        self.assertIn("other names, shapes or dtypes than those of rank 0", found[1].words)
        self.assertRegex(found[0].words, "^rank 0 lost rank 1 ")

    def test_resuming(self):
        for codec in ("3lc:s=1.75", "raw"):
            self.goes_on(RANKS, resumed, [(0, 3), (3, 8)], make_sharded, {"codec": codec})

    def test_resuming_on_other_ranks(self):
        for codec in ("3lc", "raw"):
            before = CLUSTER.run(RANKS, resumed, [(0, 8)], make_sharded, {"codec": codec})
            saved = [rest for _, *rest in before]
            same = CLUSTER.run(RANKS, on_other_ranks, saved, codec)
            for world in (2, 4) if codec == "3lc" else (2,):
                found = CLUSTER.run(world, on_other_ranks, saved, codec)
                for i in range(2):
                    self.assertAlmostEqual(sum(r[i] for r in found), sum(r[i] for r in same), places=4)
                self.assertTrue(all(result[2:] == found[0][2:] for result in found))
                self.assertEqual(found[0][3], 9)
            self.assertEqual(any(result[0] for result in same), codec == "3lc")
