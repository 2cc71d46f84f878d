# SPDX-License-Identifier: MIT
"""Tensors of all kinds in local steps, the parameter server and gossip: nothing is narrowed without a word, and rounded
parameters are the float32 model, rounded once."""
import unittest

import torch

import threelc
import threelc.torch
from cluster import CLUSTER, Refusals
from outer_models import in_pieces, memory, server_parts
from test_outer_arguments import WAYS
from test_streaming import built, gradients, sgd

LR = 0.05


def make(way, model, lr=LR, **settings):
    """What trains the model with SGD; with raw that is plain SGD on the mean of gradients, for a step or always."""
    more = {"PushPull": {"servers": 2}, "Gossip": {"graph": "complete"}, "LocalSteps": {"every": 1}}[way]
    inner = (lambda p: torch.optim.SGD(p, lr)) if way == "PushPull" else \
        torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr)
    return getattr(threelc.torch, way)(model, inner, **{"codec": "raw", **more, **settings})


class Odd(torch.nn.Module):
    """Tensors of all kinds."""

    def __init__(self, rank):
        super().__init__()
        draw = torch.Generator().manual_seed(rank)
        self.weight = torch.nn.Parameter(torch.randn(300, generator=draw))
        self.spectrum = torch.nn.Parameter(torch.randn(20, 30, dtype=torch.complex64, generator=draw))
        self.phase = torch.nn.Parameter(torch.randn(3, dtype=torch.complex64, generator=draw))
        self.nothing = torch.nn.Parameter(torch.empty(0, 4))
        self.table = torch.nn.Parameter(torch.randn(5, dtype=torch.float64, generator=draw), requires_grad=False)
        self.index = torch.nn.Parameter(torch.arange(4) + rank, requires_grad=False)
        self.register_buffer("exact", torch.randn(7, dtype=torch.float64, generator=draw))
        self.register_buffer("count", torch.tensor(2**53 + 1 + rank))
        self.register_buffer("waves", torch.randn(7, dtype=torch.complex128, generator=draw))
        self.register_buffer("small", torch.randn(7, generator=draw).half())
        self.register_buffer("flags", torch.tensor([rank == 0, False]))
        self.register_buffer("void", torch.empty(0))

    def loss(self, rank, step):
        draw = torch.Generator().manual_seed(100 * step + rank)
        target = torch.randn(20, 30, dtype=torch.complex64, generator=draw)
        return ((self.weight - torch.randn(300, generator=draw)).pow(2).sum() + self.nothing.sum()
                + (self.spectrum - target).abs().pow(2).sum() + (self.phase * target[0, :3]).imag.sum())


def train(rank, model, optimizer, steps):
    for step in steps:
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        model.loss(rank, step).backward()
        optimizer.step()


def odd(rank, world, way, steps):
    model = Odd(rank)
    optimizer = make(way, model)
    start = memory(model.state_dict().values())
    train(rank, model, optimizer, range(steps))
    found = optimizer.average() if way == "Gossip" else dict(model.named_parameters())
    return start, {name: p.detach().clone() for name, p in found.items()}, optimizer.stats.ratio


def odd_resumed(rank, world, way, pieces):
    def made():
        model = Odd(rank)
        return model, make(way, model, codec="qsgd:bits=8")

    (model, _), _ = in_pieces(pieces, made, lambda step, *both: train(rank, *both, [step]))
    return memory(model.parameters())


def refused(rank, world, way, dtype):
    model = torch.nn.Linear(20, 20).to(dtype)
    make(way, model)


def of_kind(rank, world, way, kind):
    model = torch.nn.Linear(20, 20)
    if kind == "meta":
        model.extra = torch.nn.Parameter(torch.empty(5, device="meta"), requires_grad=False)
    elif kind == "lazy":
        model.extra = torch.nn.LazyLinear(5)
    else:
        model.register_buffer("mask", torch.eye(5).to_sparse())
    make(way, model)


class Embedded(torch.nn.Module):
    def __init__(self, sparse):
        super().__init__()
        torch.manual_seed(1)
        self.words = torch.nn.Embedding(50, 12, sparse=sparse)
        self.head = torch.nn.Linear(12, 3)

    def loss(self, rank, step):
        words = torch.randint(50, (8,), generator=torch.Generator().manual_seed(10 * step + rank))
        return self.head(self.words(words)).pow(2).sum()


def embedded(rank, world, way, sparse):
    model = Embedded(sparse)
    optimizer = make(way, model)
    train(rank, model, optimizer, range(4))
    return {name: p.detach().clone() for name, p in model.named_parameters()}


class Kinds(Refusals):
    def test_complex_and_empty(self):
        """raw is SGD on the mean of the gradients, imaginary parts and all; what is not trained is rank 0's."""
        steps = {"LocalSteps": 3, "PushPull": 3, "Gossip": 1}
        for way in WAYS:
            model = Odd(0)
            first = memory(model.state_dict().values())
            for step in range(steps[way]):
                model.zero_grad()
                sum(model.loss(rank, step) / 2 for rank in range(2)).backward()
                with torch.no_grad():
                    for p in filter(lambda p: p.requires_grad, model.parameters()):
                        p -= LR * p.grad
            for start, found, _ in CLUSTER.run(2, odd, way, steps[way]):
                self.assertEqual(start, first)
                for name, p in model.named_parameters():
                    if p.requires_grad or way != "Gossip":
                        torch.testing.assert_close(found[name], p.detach(), atol=2e-6, rtol=1e-5)

    def test_resuming(self):
        for way in WAYS:
            self.assertEqual(CLUSTER.run(3, odd_resumed, way, [(0, 5)]),
                             CLUSTER.run(3, odd_resumed, way, [(0, 2), (2, 5)]))

    def test_too_wide(self):
        for way in WAYS:
            for dtype in (torch.float64, torch.complex128):
                self.refused(CLUSTER.outcomes(2, refused, way, dtype), "TypeError",
                             f"parameter weight is of {dtype}, whose bits would be lost")

    def test_no_values(self):
        for way in WAYS:
            for kind, words in (("meta", "frozen parameter extra has no values"),
                                ("lazy", "parameter extra.weight has no shape yet"),
                                ("sparse", "buffer mask is sparse or quantized")):
                self.refused(CLUSTER.outcomes(2, of_kind, way, kind), "TypeError", words)

    def test_sparse_gradients(self):
        for way in WAYS:
            dense = CLUSTER.run(2, embedded, way, False)
            for found, expected in zip(CLUSTER.run(2, embedded, way, True), dense):
                for name, p in expected.items():
                    torch.testing.assert_close(found[name], p, atol=1e-6, rtol=1e-5)


# ---- parameters of float16 and bfloat16 ----

class Ones(torch.nn.Module):
    """Its gradients are what `slopes` says."""

    def __init__(self, dtype):
        super().__init__()
        self.large = torch.nn.Parameter(torch.ones(600, dtype=dtype))
        self.few = torch.nn.Parameter(torch.ones(5, dtype=dtype))

    def set_gradients(self, slope):
        for p in self.parameters():
            p.grad = torch.full_like(p, slope)


def served(rank, world, dtype, settings, pieces, lr=1e-3):
    """Many small steps. After each: whether workers have what servers have, rounded once."""
    equal = []

    def made():
        model = Ones(dtype)
        return model, make("PushPull", model, lr=lr, **settings)

    def step(number, model, optimizer):
        model.set_gradients(1 + 0.25 * rank)
        optimizer.step()
        parameters = list(model.parameters())
        for part, server in zip(server_parts(optimizer), optimizer._parts):
            here = parameters[part.tensor].detach().view(-1)[part.first:part.first + part.n]
            left = 0 if part.residual is None else torch.tensor(list(part.residual))
            equal.append(torch.equal((server.detach() - left).to(dtype), here))

    (model, _), _ = in_pieces(pieces, made, step)
    return all(equal), memory(model.parameters()), [float(p.detach().float().mean()) for p in model.parameters()]


def outer_rounded(rank, world, dtype, pieces):
    """Local steps of one unit in the last place, and an outer optimizer that makes a tenth of it."""
    def made():
        model = Ones(dtype)
        inner = torch.optim.SGD(model.parameters(), 1.0)
        return model, threelc.torch.LocalSteps(model, inner, lambda p: torch.optim.SGD(p, 0.1), every=1, codec="raw")

    def step(number, model, optimizer):
        model.set_gradients(2**-7)
        optimizer.step()

    (model, optimizer), _ = in_pieces(pieces, made, step)
    return model.few.detach().clone(), optimizer._anchors["few"].detach().clone()


def gossip_rounded(rank, world, dtype, steps):
    """One rank moves, the others follow it: means that the dtype does not have."""
    model = Ones(dtype)
    optimizer = make("Gossip", model, lr=1.0)
    for _ in range(steps):
        model.set_gradients(2**-7 if rank == 0 else 0)
        optimizer.step()
    return optimizer.average()["few"], model.few.detach().clone(), torch.tensor(list(optimizer._node.model("few")))


def halves(rank, world):
    """Whether bfloat16 parameters are the model of all ranks, rounded once, after rounds of fragments 0 and 1."""
    model = built(rank, dtype=torch.bfloat16)
    optimizer = threelc.torch.LocalSteps(model, sgd(model), every=4, fragments=[["layers.0", "head"], [
        "layers.1.weight", "layers.1.bias", model.layers[2], model.layers[3]]], codec="3lc", residual_decay=0.0)
    found = []
    for step in range(1, 5):
        gradients(model, rank, step)
        optimizer.step()
        found.append({name for name, p in model.named_parameters()
                      if torch.equal(p.view(-1), optimizer._anchors[name].bfloat16())})
    return found, max(float(r.abs().max()) for r in optimizer.residuals.values())


class Rounded(unittest.TestCase):
    def test_workers_have_what_servers_have(self):
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            for settings in ({}, {"codec": "3lc", "pull": "raw"}, {"pull": "qsgd:bits=8"}, {"pull": "3lc"}):
                if dtype == torch.float32 and settings:
                    continue  # nothing is rounded
                found = CLUSTER.run(2, served, dtype, settings, [(0, 200)])
                self.assertEqual(found[0][1], found[1][1])
                for equal, _, means in found:
                    if settings.get("pull") != "3lc":  # its residual is added up in another order
                        self.assertTrue(equal, (dtype, settings))
                    for mean in means:
                        self.assertAlmostEqual(mean, 1 - 200 * 1.125e-3, delta=4e-3)

    def test_resuming(self):
        for dtype in (torch.bfloat16, torch.float16):
            whole = CLUSTER.run(2, served, dtype, {"pull": "3lc"}, [(0, 40)])
            pieces = CLUSTER.run(2, served, dtype, {"pull": "3lc"}, [(0, 7), (7, 15), (15, 40)])
            self.assertEqual([result[1] for result in whole], [result[1] for result in pieces])

    def test_local_steps(self):
        for dtype in (torch.bfloat16, torch.float16):
            for pieces in ([(0, 30)], [(0, 9), (9, 30)]):
                for parameter, anchor in CLUSTER.run(2, outer_rounded, dtype, pieces):
                    torch.testing.assert_close(anchor, torch.full((5,), 1 - 30 * 0.1 * 2**-7), atol=1e-6, rtol=0)
                    self.assertTrue(torch.equal(parameter, anchor.to(dtype)))

    def test_gossip(self):
        for dtype in (torch.bfloat16, torch.float16):
            for mean, parameter, model in CLUSTER.run(3, gossip_rounded, dtype, 12):
                torch.testing.assert_close(mean, torch.full((5,), 1 - 12 * 2**-7 / 3), atol=1e-6, rtol=0)
                self.assertTrue(torch.equal(parameter, model.to(dtype)))

    def test_fragments(self):
        found = CLUSTER.run(2, halves)
        for (_, second, _, fourth), left in found:
            self.assertLessEqual({"layers.0.weight", "layers.0.bias", "head.weight"}, second)
            self.assertLessEqual({"layers.1.weight", "layers.3.bias"}, fourth)
            self.assertNotIn("layers.0.weight", fourth)
            self.assertEqual(left, 0)
