# SPDX-License-Identifier: MIT
"""Streaming DiLoCo in LocalSteps: fragments of a model in turn, exchanges that local steps go on beside, and mixing. In
real processes over gloo."""
import time
import unittest

import torch

import threelc
import threelc.torch
from cluster import CLUSTER, Refusals, attempt
from outer_models import bits, in_pieces, nesterov
from threelc.torch._common.module import Model
from threelc.torch._local.division import fragments_of


class Layers(torch.nn.Module):
    """Layers of equal size, and a head that is beside them."""

    def __init__(self, count=4, width=16, dtype=torch.float32):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(count))
        self.head = torch.nn.Linear(width, 1, bias=False)
        self.to(dtype)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.head(x)


def built(rank, **settings):
    torch.manual_seed(rank)
    return Layers(**settings)


def sgd(model):
    return torch.optim.SGD(model.parameters(), 0.005, momentum=0.9)


def gradients(model, rank, step):
    """Of a batch that rank and step draw."""
    draw = torch.Generator().manual_seed(1000 * step + rank)
    dtype = model.head.weight.dtype
    x = torch.randn(8, model.head.in_features, generator=draw).to(dtype)
    model.zero_grad()
    (model(x).float() - x.float().sum(1, keepdim=True).sin()).pow(2).mean().backward()


# ---- the rule of the paper ----

EVERY, STEPS = 6, 20
CASES = (  # fragments, delay, mix
    (1, 0, 0.0), (1, 2, 0.0), (1, 5, 0.5), (3, 0, 0.0), (3, 1, 0.5), (2, 5, 0.25), (6, 3, 0.5))


def divided(count):
    """Layers i, i + count, ...; the head goes with the smallest fragment."""
    found = [[f"layers.{i}.{kind}" for i in range(fragment, 6, count) for kind in ("weight", "bias")]
             for fragment in range(count)]
    min(found, key=len).append("head.weight")
    return found


def rule(world, outer, count, delay, mix):
    """Algorithm 2 of Streaming DiLoCo, all ranks in one process. Returns each rank's parameters after each step."""
    models = [built(0, count=6) for _ in range(world)]
    inner = [sgd(model) for model in models]
    fragments = divided(count)
    common = {name: torch.nn.Parameter(p.detach().clone()) for name, p in models[0].named_parameters()}
    optimizers = [outer([common[name] for name in names]) for names in fragments]
    sent, found = {}, []
    for step in range(1, STEPS + 1):
        for rank, model in enumerate(models):
            gradients(model, rank, step)
            inner[rank].step()
        of = [dict(model.named_parameters()) for model in models]
        with torch.no_grad():
            for i, names in enumerate(fragments):
                if (step - (i + 1) * EVERY // count) % EVERY == 0:
                    sent[i, step + delay] = {
                        name: sum(common[name] - parameters[name] for parameters in of) / world for name in names}
            for i, names in enumerate(fragments):
                for name, gradient in sent.pop((i, step), {}).items():
                    common[name].grad = gradient
                if common[names[0]].grad is None:
                    continue
                optimizers[i].step()
                for name in names:
                    common[name].grad = None
                    for parameters in of:
                        parameters[name].copy_(mix * parameters[name] + (1 - mix) * common[name])
        found.append([{name: p.detach().clone() for name, p in parameters.items()} for parameters in of])
    return found


def followed(rank, world, cases):
    """By case: parameters after each step, and bytes sent until then."""
    found = []
    for count, delay, mix in cases:
        model = built(rank, count=6)
        optimizer = threelc.torch.LocalSteps(
            model, sgd(model), nesterov, every=EVERY, codec="raw", fragments=count, delay=delay, mix=mix)
        steps, sent = [], []
        for step in range(1, STEPS + 1):
            gradients(model, rank, step)
            optimizer.step()
            steps.append({name: p.detach().clone() for name, p in model.named_parameters()})
            sent.append(optimizer.stats.sent)
        stats = optimizer.stats
        optimizer.synchronize()
        found.append((steps, sent, stats, bits(model)))
    return found


class Rule(Refusals):
    def test_as_it_is_written_down(self):
        found = CLUSTER.run(3, followed, CASES)
        for case, ranks in zip(CASES, zip(*found)):
            with self.subTest(case=case):
                count, delay, mix = case
                expected = rule(3, nesterov, *case)
                for step, of_ranks in enumerate(expected):
                    for rank, parameters in enumerate(of_ranks):
                        for name, tensor in parameters.items():
                            torch.testing.assert_close(ranks[rank][0][step][name], tensor, atol=1e-5, rtol=1e-4)
                if not delay and not mix:  # after its round a fragment is the same on all
                    for step in range(1, STEPS + 1):
                        for i, names in enumerate(divided(count)):
                            if (step - (i + 1) * EVERY // count) % EVERY == 0:
                                for name in names:
                                    self.assertTrue(torch.equal(*(ranks[r][0][step - 1][name] for r in (0, 2))))
                self.assertEqual(ranks[0][3], ranks[1][3])  # after synchronize()
                self.assertEqual(ranks[0][3], ranks[2][3])

    def test_bytes(self):
        """The largest exchange becomes as many times smaller as there are fragments, and the sum stays."""
        found = dict(zip(CASES, CLUSTER.run(2, followed, CASES)[0]))
        of_one = found[1, 0, 0.0]
        for (count, delay, _), (_, sent, stats, _) in found.items():
            each = [after - before for before, after in zip([0, *sent], sent)]
            self.assertEqual(max(each), stats.largest_round)
            self.assertEqual(sum(1 for size in each if size), stats.rounds)
            starts = [(i + 1) * EVERY // count for i in range(count)]
            self.assertEqual(stats.rounds, sum((STEPS - start) // EVERY + 1 for start in starts))
            if count > 1:
                self.assertLess(stats.largest_round, 1.2 * of_one[2].largest_round / count)
            total, of_floats = (sizes[2 * EVERY - 1] - sizes[EVERY - 1] for sizes in (sent, of_one[1]))
            self.assertLess(abs(total / of_floats - 1), 0.1)


# ---- what goes on beside an exchange ----

def overlapped(rank, world, late):
    """Rank 1 comes late to each step by so many seconds. The seconds of each step."""
    model = built(rank)
    optimizer = threelc.torch.LocalSteps(model, sgd(model), every=3, delay=2)
    seconds = []
    for step in range(1, 6):
        if rank == 1 and step == 3:
            time.sleep(late)
        gradients(model, rank, step)
        start = time.monotonic()
        optimizer.step()
        seconds.append(time.monotonic() - start)
    optimizer.synchronize()
    return seconds


def lost(rank, world):
    """Rank 1 ends with an exchange under way: what the others get, after how long, and whether they get it again."""
    model = built(rank)
    optimizer = threelc.torch.LocalSteps(model, sgd(model), every=4, fragments=2, delay=2)
    gradients(model, rank, 1)
    optimizer.step()
    if rank == 1:
        return None
    first = attempt(lambda: [optimizer.step() for _ in range(6)])
    return first, attempt(optimizer.synchronize), optimizer.stats.steps if False else 0


class Overlap(Refusals):
    def test_steps_go_on(self):
        """An exchange waits for a rank that is late, and local steps do not: only the one that takes the result."""
        seconds = CLUSTER.run(2, overlapped, 2.0)[0]
        self.assertLess(max(seconds[:4]), 1.5)
        self.assertGreater(seconds[4], 0.2)


# ---- states ----

STREAM = {"every": 4, "fragments": 2, "delay": 3, "mix": 0.5, "codec": "3lc", "min_numel": 1}


def streamed(rank, world, pieces, settings):
    """The bits of a model that is trained in pieces, its state, and that of LocalSteps."""
    def made():
        model = built(rank)
        inner = sgd(model)
        return model, threelc.torch.LocalSteps(model, inner, nesterov, **settings), inner

    def step(number, model, optimizer, _):
        gradients(model, rank, number)
        optimizer.step()

    (model, optimizer, _), states = in_pieces(pieces, made, step)
    optimizer.synchronize()
    return bits(model), *states[:2]


def elsewhere(rank, world, states, steps=0):
    """On other ranks, from the states of others. The model of all ranks before and after the rounds under way end."""
    model = built(rank)
    optimizer = threelc.torch.LocalSteps(model, sgd(model), nesterov, **{**STREAM, "every": 100})
    optimizer.load_state_dict(states)
    found = []
    for _ in range(2):
        found.append({name: anchor.detach().clone() for name, anchor in optimizer._anchors.items()})
        for _ in range(4):
            optimizer.step()
    left = {name: residual.clone() for name, residual in optimizer.residuals.items()}
    counts = optimizer.stats.rounds, optimizer.stats.steps
    optimizer.flush()
    return found, left, counts, bits(model), [float(r.abs().max()) for r in optimizer.residuals.values()]


def refused_states(rank, world, states):
    """What is said of the state of other fragments, and that nothing has changed."""
    said = []
    for fragments in (1, 4, [["layers.0", "layers.1", "head"], ["layers.2", "layers.3"]]):
        model = built(rank)
        optimizer = threelc.torch.LocalSteps(model, sgd(model), nesterov, **{**STREAM, "fragments": fragments})
        said.append(attempt(optimizer.load_state_dict, states[rank])[:2])
        assert optimizer.stats.steps == 0
    state = {name: entry for name, entry in states[rank].items() if name != "fragments"}
    said.append(attempt(optimizer.load_state_dict, state)[:2])
    return said


class States(Refusals):
    def test_resuming(self):
        """Also with exchanges under way."""
        for settings in (STREAM, {**STREAM, "mode": "gather", "codec": "topk:p=0.1+golomb", "residual_decay": 0.9,
                                  "warmup_rounds": 1, "participants": 2}):
            whole = self.goes_on(3, streamed, [(0, 3), (3, 6), (6, 11)], settings)
            self.assertEqual(whole[0][0], whole[2][0])
            under_way = [each["round"] is not None for each in whole[0][2]["fragments"]]
            self.assertEqual(under_way, [True, True])  # begun after steps 10 and 8

    def test_on_other_ranks(self):
        """No result under way is lost, and no residual."""
        states = [state for _, _, state in CLUSTER.run(3, streamed, [(0, 11)], STREAM)]
        same, fewer = CLUSTER.run(3, elsewhere, states), CLUSTER.run(2, elsewhere, states)
        for model in range(2):
            for name, tensor in same[0][0][model].items():
                for found in (*same, *fewer):
                    self.assertTrue(torch.equal(found[0][model][name], tensor))
        self.assertFalse(torch.equal(*(same[0][0][i]["layers.0.weight"] for i in range(2))))
        for name in same[0][1]:
            torch.testing.assert_close(sum(found[1][name] for found in fewer) / 2,
                                       sum(found[1][name] for found in same) / 3, atol=1e-6, rtol=1e-5)
        for found in (same, fewer):
            self.assertEqual(found[0][3], found[1][3])  # after flush()
            self.assertEqual(max(found[0][4]), 0)
        self.assertEqual(fewer[0][2], (5, 19))

    def test_of_other_fragments(self):
        states = [state for _, _, state in CLUSTER.run(2, streamed, [(0, 3)], STREAM)]
        for one, four, other, none in CLUSTER.run(2, refused_states, states):
            self.assertIn("the state has 2 fragments, and this one 1", one[1])
            self.assertIn("the state has 2 fragments, and this one 4", four[1])
            self.assertIn("fragment 0 of the state has other parameters, without layers.1.bias", other[1])
            self.assertIn("damaged: it has no 'fragments'", none[1])
