# SPDX-License-Identifier: MIT
"""Adam's second moment at the ranks: real processes over gloo."""
import warnings

import torch
from torch.nn.parallel import DistributedDataParallel

import threelc.torch
from cluster import CLUSTER, Refusals
from outer_models import Scaler, in_pieces, memory

N, STEPS, RATE, BETA, DECAY = 400, 120, 0.05, 0.9, 0.01
BEST = torch.randn(N, generator=torch.Generator().manual_seed(0))


class Uneven(torch.nn.Module):
    """A quadratic whose gradients differ by a factor of 10,000 within a tensor. Each rank has noise of its own."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(N))
        self.small = torch.nn.Parameter(torch.zeros(7))

    def forward(self, rank, step):
        noise = torch.randn(N, generator=torch.Generator().manual_seed(100 * step + rank))
        scale = torch.logspace(-4, 0, N)
        return (scale * (0.5 * (self.weight - BEST) ** 2 + 0.3 * noise * self.weight)).sum() + \
            0.5 * ((self.small - BEST[:7]) ** 2).sum()


def distance(model):
    """From the minimum, as a part of that at the start."""
    return float((model.weight.detach() - BEST).norm() / BEST.norm())


def at_owners(model, adam, settings):
    """adam: the optimizer has both moments. Else it has the first one, and ranks the second."""
    if adam:
        return threelc.torch.ShardedOptimizer(model, lambda p: torch.optim.AdamW(
            p, RATE, betas=(0.9, BETA), weight_decay=DECAY), **settings)
    return threelc.torch.ShardedOptimizer(model, lambda p: torch.optim.SGD(
        p, RATE, momentum=0.9, dampening=0.9, weight_decay=DECAY), second_moment=BETA, **settings)


def halves(count, stop):
    return [(0, count)] if stop is None else [(0, stop), (stop, count)]


def stepping(rank, count, spoiled=None):
    """A step. The rate falls to 0. spoiled: a step in which the gradient of rank 1 has infinities."""
    def step(number, model, optimizer, *_):
        optimizer.param_groups[0]["lr"] = RATE * (1 - number / count)
        optimizer.zero_grad()
        (model(rank, number) * (float("inf") if rank == 1 and number == spoiled else 1.0)).backward()
        optimizer.step()
    return step


def trained(rank, world, count, settings, adam=False, stop=None, spoiled=None):
    """stop: the run is stopped after this number of steps, and goes on in other objects. spoiled: as in stepping().
    Returns the distance from the minimum, the bits of the model, and the largest second moment."""
    def made():
        model = Uneven()
        return model, at_owners(model, adam, settings)

    (model, optimizer), _ = in_pieces(halves(count, stop), made, stepping(rank, count, spoiled))
    optimizer.ready()
    moments = optimizer.state_dict()["second_moments"]
    largest = max(float(squares.max()) for squares in moments["squares"].values()) if moments else None
    return distance(model), memory(model.parameters()), largest


def by_hand(world, count):
    """The same as floats, without a process."""
    model = Uneven()
    squares = [[torch.zeros(p.shape) for p in model.parameters()] for _ in range(world)]
    optimizer = torch.optim.SGD(model.parameters(), RATE, momentum=0.9, dampening=0.9, weight_decay=DECAY)
    for step in range(count):
        means = [torch.zeros(p.shape) for p in model.parameters()]
        for rank in range(world):
            gradients = torch.autograd.grad(model(rank, step), list(model.parameters()))
            for mean, gradient, v in zip(means, gradients, squares[rank]):
                v.mul_(BETA).add_((1 - BETA) * gradient ** 2)
                mean += gradient / ((v / (1 - BETA ** (step + 1))).sqrt() + 1e-8) / world
        for p, mean in zip(model.parameters(), means):
            p.grad = mean
        optimizer.param_groups[0]["lr"] = RATE * (1 - step / count)
        optimizer.step()
    return model


def reduced(rank, world, states):
    """Two ranks' states on one: the second moments are their means."""
    optimizer = at_owners(Uneven(), False, {})
    optimizer.load_state_dict(states)
    found = optimizer.state_dict()["second_moments"]["squares"]["weight"]
    mean = sum(state["second_moments"]["squares"]["weight"] for state in states) / len(states)
    return torch.equal(found, mean)


def state_after(rank, world, count):
    model = Uneven()
    optimizer = at_owners(model, False, {})
    for number in range(count):
        stepping(rank, count)(number, model, optimizer)
    return optimizer.state_dict()


def hooked(rank, world, count, mode, stop=None):
    """As trained(), with an optimizer on each rank and register()."""
    def made():
        model = DistributedDataParallel(Uneven())
        return (model, torch.optim.SGD(model.parameters(), RATE, momentum=0.9, dampening=0.9, weight_decay=DECAY),
                threelc.torch.register(model, codec="3lc-golomb", mode=mode, second_moment=BETA))

    (model, *_), _ = in_pieces(halves(count, stop), made, stepping(rank, count))
    return distance(model.module), memory(model.parameters())


def warned(rank, world, settings):
    """The warning about an AdamW at the owners."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        at_owners(Uneven(), True, settings)
        at_owners(Uneven(), False, settings)
    return [str(one.message) for one in found if "divides by the root" in str(one.message)]


def refused_hook(rank, world):
    threelc.torch.register(DistributedDataParallel(Uneven()), second_moment=BETA, scaler=Scaler(1024.0))


def refused(rank, world, settings, later=None):
    optimizer = threelc.torch.ShardedOptimizer(Uneven(), lambda p: torch.optim.SGD(p, 0.1), **settings)
    optimizer.max_norm = later


class SecondMoment(Refusals):
    def test_as_floats_it_is_the_rule(self):
        model = by_hand(2, 30)
        for _, weights, _ in CLUSTER.run(2, trained, 30, {"codec": "raw"}):
            for p, found in zip(model.parameters(), weights):
                self.assertTrue(torch.allclose(p.detach(), torch.frombuffer(bytearray(found), dtype=torch.float32),
                                               atol=1e-6))

    def test_it_keeps_what_adam_at_the_owners_loses(self):
        """Of uneven gradients, in few bits."""
        settings = {"codec": "3lc-golomb"}
        floats = CLUSTER.run(2, trained, STEPS, {"codec": "raw"}, True)[0][0]
        (here, first, _), (_, second, _) = CLUSTER.run(2, trained, STEPS, settings)
        there = CLUSTER.run(2, trained, STEPS, settings, True)[0][0]
        self.assertEqual(first, second)
        self.assertLess(here, 1.3 * floats)
        self.assertGreater(there, 2 * floats)

    def test_going_on_and_overlap(self):
        settings = {"codec": "3lc:s=1.75"}
        whole = CLUSTER.run(2, trained, 20, settings)
        self.assertEqual(whole, CLUSTER.run(2, trained, 20, settings, False, 9))
        self.assertEqual(whole, CLUSTER.run(2, trained, 20, {**settings, "overlap": True}))

    def test_in_the_hook(self):
        for mode in ("sharded", "gather"):
            (near, first), (_, second) = CLUSTER.run(2, hooked, STEPS, mode)
            self.assertLess(near, 0.15)
            self.assertEqual(first, second)
            self.assertEqual(CLUSTER.run(2, hooked, 20, mode), CLUSTER.run(2, hooked, 20, mode, 9))

    def test_adam_at_the_owners_is_told(self):
        """By one rank, if the codec keeps something back."""
        (first, second) = CLUSTER.run(2, warned, {"codec": "3lc"})
        self.assertEqual((len(first), second), (1, []))
        self.assertIn("AdamW divides", first[0])
        self.assertEqual(CLUSTER.run(2, warned, {"codec": "raw"}), [[], []])

    def test_on_fewer_ranks(self):
        states = CLUSTER.run(2, state_after, 3)
        self.assertEqual(CLUSTER.run(1, reduced, states), [True])

    def test_infinities_of_one_rank(self):
        """They are left out, and the second moments before them count."""
        for settings in ({}, {"momentum_correction": 0.9}):
            (_, first, _), (_, second, largest) = CLUSTER.run(2, trained, 6, settings, False, None, 4)
            self.assertEqual(first, second)
            self.assertLess(largest, 100)

    def test_wrong_settings(self):
        for settings, later, words in (({"second_moment": 1}, None, "should be above 0 and below 1, not 1"),
                                       ({"second_moment": 0.9, "max_norm": 1.0}, None, "max_norm is for means"),
                                       ({"second_moment": 0.9}, 1.0, "max_norm is for means")):
            self.refused(CLUSTER.outcomes(2, refused, settings, later), "ValueError", words)
        self.refused(CLUSTER.outcomes(2, refused_hook), None, "without a GradScaler")
