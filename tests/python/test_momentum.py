# SPDX-License-Identifier: MIT
"""Momentum correction with masking, in the hook of DistributedDataParallel and at owners: real processes over gloo."""

import torch
from torch.nn.parallel import DistributedDataParallel

import threelc.torch
from cluster import CLUSTER, Refusals
from outer_models import in_pieces, memory

N, RATE, MOMENTUM = 400, 0.05, 0.9
SPARSE = "topk:p=0.05,select=exact"


class Bowl(torch.nn.Module):
    """A quadratic; each rank has a minimum of its own, and their mean is that of all."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(N))
        self.small = torch.nn.Parameter(torch.zeros(7))

    def forward(self, rank):
        draw = torch.Generator().manual_seed(rank)
        curved = torch.linspace(0.05, 1, N) * (self.weight - torch.randn(N, generator=draw)) ** 2
        return 0.5 * (curved.sum() + ((self.small - torch.randn(7, generator=draw)) ** 2).sum())


def distance(model, world):
    """From the minimum of all, as a part of that at the start."""
    draws = [torch.randn(N, generator=torch.Generator().manual_seed(rank)) for rank in range(world)]
    best = sum(draws) / world
    return float((model.weight.detach() - best).norm() / best.norm())


def steps(rank, model, optimizer, count):
    for _ in range(count):
        optimizer.zero_grad()
        model(rank).backward()
        optimizer.step()


def trained(rank, world, count, settings, momentum=0.0):
    """The rate falls to 0."""
    model = DistributedDataParallel(Bowl())
    state = threelc.torch.register(model, **settings)
    optimizer = torch.optim.SGD(model.parameters(), RATE, momentum=momentum)
    for step in range(count):
        optimizer.param_groups[0]["lr"] = RATE * (1 - step / count)
        steps(rank, model, optimizer, 1)
    zeros = sum(int((u == 0).sum()) for u in (state.state_dict()["velocities"] or {}).values())
    return distance(model.module, world), memory(model.parameters()), zeros


def trained_at_owners(rank, world, count, settings, momentum=0.0, stop=None):
    """The same. stop: the run is stopped after this number of steps, and goes on in other objects."""
    def made():
        model = Bowl()
        return model, threelc.torch.ShardedOptimizer(model, lambda p: torch.optim.SGD(p, RATE, momentum=momentum),
                                                     **settings)

    def step(number, model, optimizer):
        optimizer.param_groups[0]["lr"] = RATE * (1 - number / count)
        steps(rank, model, optimizer, 1)

    pieces = [(0, count)] if stop is None else [(0, stop), (stop, count)]
    (model, optimizer), _ = in_pieces(pieces, made, step)
    optimizer.ready()
    zeros = sum(int((u == 0).sum()) for u in (optimizer.state_dict()["velocities"] or {}).values())
    return distance(model, world), memory(model.parameters()), zeros


def by_the_paper(world, count, dense=1):
    """The distance after Algorithm 1 of the paper with momentum correction and masking, without a process. dense: so
    many steps go as floats at first."""
    minima = [torch.randn(N, generator=torch.Generator().manual_seed(rank)) for rank in range(world)]
    model, best, curvature = torch.zeros(N), sum(minima) / world, torch.linspace(0.05, 1, N)
    velocity, residual = torch.zeros(world, N), torch.zeros(world, N)
    for step in range(count):
        mean = torch.zeros(N)
        for rank in range(world):
            velocity[rank] = MOMENTUM * velocity[rank] + curvature * (model - minima[rank])
            residual[rank] += velocity[rank]
            sent = residual[rank].abs().topk(N if step < dense else N // 20).indices
            mean[sent] += residual[rank, sent] / world
            residual[rank, sent] = 0
            velocity[rank, sent] *= step < dense
        model = model - RATE * (1 - step / count) * mean
    return float((model - best).norm() / best.norm())


def resumed(rank, world, settings):
    """The bits of a run, and of one that was stopped and went on."""
    def made():
        model = DistributedDataParallel(Bowl())
        return model, threelc.torch.register(model, **settings)

    def step(number, model, _):
        steps(rank, model, torch.optim.SGD(model.parameters(), RATE), 1)

    return [memory(in_pieces(pieces, made, step)[0][0].parameters()) for pieces in ([(0, 20)], [(0, 9), (9, 20)])]


def spoil(rank, model, optimizer):
    optimizer.zero_grad()
    (model(rank) * (float("inf") if rank == 1 else 1.0)).backward()


def nonfinite(rank, world):
    """A gradient of one rank has infinities in a step as floats, which leaves no trace. Whether velocities are finite
    after a step that is compressed has some, too."""
    found = []
    for bad in (False, True):
        model = DistributedDataParallel(Bowl())
        state = threelc.torch.register(model, codec=SPARSE, momentum_correction=MOMENTUM, warmup_steps=2 + bad)
        optimizer = torch.optim.SGD(model.parameters(), RATE)
        for step in range(6):
            if bad and step == 1:
                spoil(rank, model, optimizer)
            steps(rank, model, optimizer, 1)
        found.append(distance(model.module, world))
        spoil(rank, model, optimizer)
        steps(rank, model, optimizer, 1)
        found.append(all(bool(torch.isfinite(u).all()) for u in state.state_dict()["velocities"].values()))
    return found


def nonfinite_at_owners(rank, world):
    """A gradient of one rank has infinities. Whether velocities are finite afterwards, and the bits of the model."""
    model = Bowl()
    optimizer = threelc.torch.ShardedOptimizer(model, lambda p: torch.optim.SGD(p, RATE), codec=SPARSE,
                                               momentum_correction=MOMENTUM)
    steps(rank, model, optimizer, 3)
    spoil(rank, model, optimizer)
    optimizer.step()
    steps(rank, model, optimizer, 3)
    velocities = optimizer.state_dict()["velocities"].values()
    return all(bool(u.isfinite().all()) for u in velocities), memory(model.parameters())


def refused(rank, world, settings):
    threelc.torch.register(DistributedDataParallel(Bowl()), **settings)


class Rule(Refusals):
    def follows_the_paper(self, training, settings, dense):
        """And comes nearer than momentum of the optimizer, of which each mean gives a part only as it arrives."""
        corrected = CLUSTER.run(2, training, 300, {**settings, "momentum_correction": MOMENTUM})
        plain = CLUSTER.run(2, training, 300, settings, MOMENTUM)
        self.assertEqual(corrected[0][1], corrected[1][1])
        self.assertAlmostEqual(corrected[0][0], by_the_paper(2, 300, dense), places=3)
        self.assertLess(corrected[0][0], 0.6 * plain[0][0])
        self.assertEqual((corrected[0][2], plain[0][2]), (20, 0))  # 5% of 400: what the last step sent

    def test_it_is_the_rule_of_the_paper(self):
        self.follows_the_paper(trained_at_owners, {"codec": SPARSE, "pull": "raw"}, 0)
        self.follows_the_paper(trained, {"codec": SPARSE, "mode": "gather"}, 1)


class AtOwners(Refusals):
    def test_going_on_and_overlap(self):
        settings = {"codec": "3lc:s=1.75", "momentum_correction": MOMENTUM}
        whole = CLUSTER.run(2, trained_at_owners, 20, settings)
        self.assertEqual(whole, CLUSTER.run(2, trained_at_owners, 20, settings, 0.0, 9))
        self.assertEqual(whole, CLUSTER.run(2, trained_at_owners, 20, {**settings, "overlap": True}))

    def test_infinities_of_one_rank(self):
        """They are left out, and the velocities before them count."""
        (finite, bits), (finite_too, others) = CLUSTER.run(2, nonfinite_at_owners)
        self.assertTrue(finite and finite_too)
        self.assertEqual(bits, others)

    def test_wrong_settings(self):
        settings = {"momentum_correction": 0.9, "codec": "natural"}
        self.refused(CLUSTER.outcomes(2, trained_at_owners, 1, settings), "ValueError", "natural keeps nothing")


class Correction(Refusals):
    def test_dense_start_is_momentum(self):
        """In floats it is the optimizer's momentum."""
        settings = {"codec": SPARSE, "warmup_steps": 12}
        here = CLUSTER.run(2, trained, 12, {**settings, "momentum_correction": MOMENTUM})
        there = CLUSTER.run(2, trained, 12, settings, MOMENTUM)
        self.assertAlmostEqual(here[0][0], there[0][0], places=5)

    def test_going_on(self):
        for settings in ({"codec": SPARSE}, {"codec": "3lc:s=1.75", "mode": "gather"}):
            for whole, parts in CLUSTER.run(2, resumed, {**settings, "momentum_correction": MOMENTUM}):
                self.assertEqual(whole, parts)

    def test_infinities(self):
        for near, finite, far, finite_too in CLUSTER.run(2, nonfinite):
            self.assertTrue(finite and finite_too)
            self.assertAlmostEqual(near, far, places=6)

    def test_wrong_settings(self):
        for settings, words in (({"momentum_correction": 1.0}, "should be above 0 and below 1, not 1.0"),
                                ({"momentum_correction": 0.9, "codec": "qsgd:bits=8"}, "qsgd:bits=8 keeps nothing"),
                                ({"momentum_correction": 0.9, "quantize": "device"}, "velocities are on the host")):
            self.refused(CLUSTER.outcomes(2, refused, settings), "ValueError", words)
