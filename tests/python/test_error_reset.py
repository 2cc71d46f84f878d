# SPDX-License-Identifier: MIT
"""Error reset in LocalSteps: what a rank did not send stays in its weights. In real processes over gloo."""
import torch

import threelc.torch
from cluster import CLUSTER, Refusals, attempt
from outer_models import Linear, memory, nesterov

CODEC = "topk:p=0.05+golomb"
OLDER = ("in_weights", "at_start")  # what states of older releases do not have


class Quadratic(torch.nn.Module):
    """Curvatures from 0.01 to 1. Ranks have optima of their own, whose mean is 0."""

    def __init__(self, rank):
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        self.weights = torch.nn.Parameter(torch.randn(2000, generator=draw))
        self.curvatures = 10 ** (2 * torch.rand(2000, generator=draw) - 2)
        self.optima = (0.3 if rank else -0.3) * torch.randn(2000, generator=draw)

    def forward(self, optima):
        return 0.5 * (self.curvatures * (self.weights - optima) ** 2).sum()


def learns(rank, world, codec, error_reset):
    """The loss of all ranks together, before and after 40 rounds of ten steps at a constant rate."""
    model = Quadratic(rank)
    start = float(model(torch.zeros(()))) / 2000
    optimizer = threelc.torch.LocalSteps(model, torch.optim.SGD(model.parameters(), 0.5), every=10, codec=codec,
                                         error_reset=error_reset)
    for _ in range(400):
        optimizer.zero_grad()
        model(model.optima).backward()
        optimizer.step()
    with optimizer.common_model(), torch.no_grad():
        return start, float(model(torch.zeros(()))) / 2000


class Run:
    """A training whose gradients do not depend on the weights, so that changes can be added up."""

    def __init__(self, rank, dtype=torch.float32, **settings):
        self.rank, self.steps = rank, 0
        self.model = Linear().to(dtype)
        inner = torch.optim.SGD(self.model.parameters(), 0.1)
        self.optimizer = threelc.torch.LocalSteps(self.model, inner, **{
            "every": 3, "codec": CODEC, "average_buffers": False, **settings})

    def train(self, steps):
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.model(self.rank, self.steps).backward()
            self.optimizer.step()
            self.steps += 1

    def changed(self, first, last):
        """What local steps added, by parameter."""
        return [-0.1 * sum(each).double().view(-1)
                for each in zip(*(self.model.gradient(self.rank, step) for step in range(first, last)))]

    def common(self):
        with self.optimizer.common_model():
            return [p.detach().double().view(-1) for p in self.model.parameters()]

    def residuals(self):
        return [self.optimizer.residuals[name].double() for name in ("weight", "bias")]

    def weights(self):
        return memory(self.model.parameters())


def rounds(rank, world, dtype, settings):
    """After each step: whether weights are common ones + residuals, rounded once; the bits of the common ones."""
    run = Run(rank, dtype, **settings)
    found = []
    for _ in range(12):
        run.train(1)
        share = settings.get("error_reset", 1)
        starts = [(anchor.detach() + share * run.optimizer.residuals[name]).to(dtype)
                  for name, anchor in run.optimizer._anchors.items()]
        found.append((memory(starts) == run.weights(), memory(run.optimizer._anchors.values())))
    return found, any(float(r.abs().max()) > 0.1 for r in run.residuals())


def conserved(rank, world, steps, settings):
    run = Run(rank, **settings)
    run.train(steps)
    run.optimizer.synchronize()
    after = run.weights()
    run.train(3)
    run.optimizer.synchronize()
    return run.changed(0, steps + 3), run.common(), run.residuals(), after


def resumed(rank, world, how):
    """A run that is stopped after a round, and one that is not: weights and residuals."""
    whole = Run(rank)
    whole.train(6)
    state = whole.optimizer.state_dict()
    weights = whole.model.state_dict()
    weights = [{name: tensor.clone() for name, tensor in weights.items()}]
    torch.distributed.broadcast_object_list(weights, 0)  # rank 0 alone has saved its model
    run = Run(rank)
    run.steps = 6
    if how == "model first":
        run.model.load_state_dict(weights[0])
    run.optimizer.load_state_dict(state)
    if how == "model last":
        run.model.load_state_dict(weights[0])
    for each in run, whole:
        each.train(4)
    return run.weights() == whole.weights() and memory(run.residuals()) == memory(whole.residuals())


def from_older(rank, world, steps, keep):
    """A run with error feedback is saved as older releases did, or as it is, and goes on with error reset."""
    before = Run(rank, error_reset=0)
    before.train(steps)
    state = before.optimizer.state_dict()
    for fragment in [] if keep else state["fragments"]:
        for name in OLDER:
            del fragment[name]
    run = Run(rank)
    run.steps = steps
    run.model.load_state_dict(before.model.state_dict())
    run.optimizer.load_state_dict(state)
    run.train(9 - steps % 3)
    return run.changed(0, run.steps), run.common(), run.residuals()


def saved(rank, world, steps):
    run = Run(rank)
    run.train(steps)
    return run.optimizer.state_dict(), run.residuals(), run.common(), run.model.state_dict()


def on_others(rank, world, states, weights):
    run = Run(rank)
    run.steps = 4
    run.model.load_state_dict(weights)
    run.optimizer.load_state_dict(states)
    started, left, common = run.weights(), run.residuals(), run.common()
    run.model.load_state_dict(weights)  # the order does not matter
    run.train(2)
    return started, left, common, run.changed(4, 6), run.common(), run.residuals()


def looks(rank, world):
    run = Run(rank)
    run.train(4)
    before, inside = run.weights(), []

    def fails():
        with run.optimizer.common_model():
            inside.append(run.weights())
            raise ValueError("in the block")

    said = attempt(fails)[:2]
    return said, before == run.weights(), inside[0] == memory(run.optimizer._anchors.values()), before == inside[0]


class ErrorReset(Refusals):
    def close(self, found, expected):
        for one, other in zip(found, expected):
            torch.testing.assert_close(one, other, atol=2e-6, rtol=1e-5)

    def kept(self, found):
        """The mean of changes = common weights + the mean of residuals; the start is 0."""
        for i, common in enumerate(found[0][1]):
            changed, left = (sum(of_rank[part][i] for of_rank in found) / len(found) for part in (0, 2))
            torch.testing.assert_close(common + left, changed, atol=5e-6, rtol=1e-5)

    def test_a_convex_problem(self):
        """What a rank has not sent it does again, if it does not know of it: with error feedback alone 3lc diverges."""
        for codec, kept, added in (("raw", 5e-6, 5e-6), ("3lc", 0.005, 108), (CODEC, 0.003, 0.8), ("sbc", 0.014, 18)):
            (start, reset), (_, feedback) = (CLUSTER.run(2, learns, codec, way)[0] for way in (True, False))
            self.assertLess(reset, min(1.5 * kept, 0.2 * start), codec)
            self.assertGreater(feedback, 0.5 * added, codec)

    def test_weights(self):
        """After a round weights are the common ones + residuals, and the common ones have equal bits on all ranks."""
        for dtype in torch.float32, torch.bfloat16:
            for settings in {}, {"mode": "sharded"}, {"outer": nesterov, "residual_decay": 0.5}, {"participants": 1}, \
                    {"error_reset": 0.5}:
                found = CLUSTER.run(2, rounds, dtype, settings)
                for ranks in zip(*(each for each, _ in found)):
                    self.assertEqual(ranks[0][1], ranks[1][1])
                for each, left in found:
                    self.assertEqual([same for same, _ in each], [False, False, True] * 4)
                    self.assertTrue(left)

    def test_nothing_is_lost(self):
        """Also where synchronize() ends a round early, after which all ranks have the same weights."""
        for steps in 6, 7:
            for settings in {}, {"fragments": [["weight"], ["bias"]]}, {"codec": "3lc", "min_numel": 1}, \
                    {"error_reset": 0.3}:
                found = CLUSTER.run(3, conserved, steps, settings)
                self.kept(found)
                self.assertTrue(all(weights == found[0][3] for _, _, _, weights in found))

    def test_resuming_from_the_model_of_rank_0(self):
        for how in "model first", "model last":
            self.assertEqual(CLUSTER.run(2, resumed, how), [True, True])

    def test_states_with_error_feedback(self):
        for steps, keep in (6, False), (7, False), (6, True):
            self.kept(CLUSTER.run(2, from_older, steps, keep))

    def test_on_other_ranks(self):
        """Each begins with its share of the residuals in its weights, whatever model was loaded. Local steps after the
        last round are lost."""
        found = CLUSTER.run(3, saved, 4)
        states = [state for state, _, _, _ in found]
        others = CLUSTER.run(2, on_others, states, found[2][3])
        for started, left, common, _, _, _ in others:
            self.close(common, found[0][2])
            self.assertEqual(started, memory([(c.float() + r.float()) for c, r in zip(common, left)]))
        for i, common in enumerate(found[0][2]):
            mean = sum(left[i] for _, left, _, _ in found) / 3
            torch.testing.assert_close(sum(other[1][i] for other in others) / 2, mean, atol=1e-6, rtol=1e-5)
            moved = sum(other[3][i] for other in others) / 2
            left = sum(other[5][i] for other in others) / 2
            torch.testing.assert_close(others[0][4][i] + left, common + mean + moved, atol=5e-6, rtol=1e-5)

    def test_common_model(self):
        for said, restored, common, same in CLUSTER.run(2, looks):
            self.assertEqual(said, ("ValueError", "in the block"))
            self.assertEqual((restored, common, same), (True, True, False))
