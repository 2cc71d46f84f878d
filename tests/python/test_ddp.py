# SPDX-License-Identifier: MIT
"""The hook of DistributedDataParallel, in real processes over gloo."""
import dataclasses
import os
import unittest

import torch
from torch.nn.parallel import DistributedDataParallel

import threelc
import threelc.torch
from cluster import CLUSTER, Died, Refusals
from outer_models import Scaler, in_pieces


class Net(torch.nn.Module):
    """Some layers, so that there are several buckets, with a shared and a frozen parameter."""

    def __init__(self, unused=False):
        super().__init__()
        self.body = torch.nn.Sequential(*(torch.nn.Linear(40, 40) for _ in range(6)))
        self.head = torch.nn.Linear(40, 10)
        self.tied = self.body[0]
        self.frozen = torch.nn.Linear(40, 40)
        for parameter in self.frozen.parameters():
            parameter.requires_grad_(False)
        self.unused = torch.nn.Linear(40, 40) if unused else None
        self.sometimes, self.step = False, 0

    def forward(self, x):
        if self.sometimes and self.step % 4 < 2:
            x = x + self.unused(x)
        for layer in self.body:
            x = torch.tanh(layer(x))
        return self.head(torch.tanh(self.tied(self.frozen(x))))


def build(dtype=torch.float32, unused=False, **settings):
    torch.manual_seed(1)
    model = Net(unused).to(dtype)
    torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = 10000  # 1 MiB would hold all
    return DistributedDataParallel(model, bucket_cap_mb=0.01, find_unused_parameters=unused, **settings)


def batch(rank, step, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(8, 40, generator=generator).to(dtype)


def train(rank, model, optimizer, steps, dtype=torch.float32):
    for step in steps:
        optimizer.zero_grad()
        model(batch(rank, step, dtype)).float().pow(2).mean().backward()
        optimizer.step()


def start(momentum=0.0, **settings):
    """A module, the state of its hook, and its optimizer."""
    model = build()
    state = threelc.torch.register(model, **settings)
    return model, state, torch.optim.SGD(model.parameters(), 0.1, momentum=momentum)


def bits(model):
    return {name: parameter.detach().view(-1).contiguous().view(torch.uint8).numpy().tobytes()
            for name, parameter in model.module.named_parameters()}


def plain(rank, world, steps, hooked, settings):
    """The bits of the model after some steps, with the hook or without, and its stats."""
    model = build()
    state = threelc.torch.register(model, **settings) if hooked else None
    train(rank, model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), range(steps))
    return bits(model), state and state.stats


class Training(unittest.TestCase):
    def test_raw_is_training_without_the_hook(self):
        for world in (2, 3, 4):
            without = CLUSTER.run(world, plain, 8, False, {})
            for mode in ("sharded", "gather"):
                found = CLUSTER.run(world, plain, 8, True, {"codec": "raw", "mode": mode})
                self.assertEqual([result[0] for result in found], [result[0] for result in without])

    def test_replicas_are_identical(self):
        for world, mode, codec in ((2, "gather", "3lc:s=1.75"), (3, "sharded", "3lc:s=1.75"), (4, "sharded", "sbc"),
                                   (4, "gather", "qsgd:bits=8")):
            found = CLUSTER.run(world, plain, 60, True, {"codec": codec, "mode": mode})
            for model, stats in found:
                self.assertEqual(model, found[0][0])
                self.assertEqual((stats.steps, stats.float_steps, stats.skipped), (60, 1, 0))
                self.assertGreater(stats.ratio, 1)
                self.assertEqual(len(stats.residual_norms), 0 if codec.startswith("qsgd") else 14)

    def test_many_buckets_in_flight(self):
        """More than a hundred steps of many buckets."""
        found = CLUSTER.run(3, plain, 150, True, {"codec": "3lc"}, timeout=120)
        self.assertEqual(found[0][0], found[1][0])
        self.assertEqual(found[0][0], found[2][0])


def gradient(parameter):
    grad = parameter.grad
    return torch.zeros(parameter.numel()).double() if grad is None else grad.double().view(-1)


def accounting(rank, world, mode, codec, sometimes=False):
    """What the optimizer got, the sum of the local gradients, and the residuals of owners and senders."""
    model = build(unused=sometimes)
    model.module.sometimes = sometimes
    state = threelc.torch.register(model, codec=codec, mode=mode, min_numel=1)
    names = dict(model.module.named_parameters())
    got = {name: torch.zeros(p.numel(), dtype=torch.float64) for name, p in names.items() if p.requires_grad}
    given = {name: torch.zeros_like(total) for name, total in got.items()}
    for step in range(12):
        model.module.step = step
        with model.no_sync():  # the local gradient, which the hook must not change
            model.zero_grad()
            model(batch(rank, step)).pow(2).mean().backward()
            for name in got:
                given[name] += gradient(names[name])
        model.zero_grad(set_to_none=step % 2 == 0)
        model(batch(rank, step)).pow(2).mean().backward()
        for name in got:
            got[name] += gradient(names[name])
    owned = {name: torch.zeros_like(total) for name, total in got.items()}
    for group in state._order:
        for part in group.allreduce.parts():
            owned[group.names[part.tensor]][part.first:part.first + part.n] += torch.tensor(part.residual).double()
    return got, given, owned, {name: residual.double() for name, residual in state.residuals.items()}


def resumed(rank, world, pieces, settings):
    """The bits of a model that is trained in pieces, and the state of the hook."""
    def made():
        model, state, optimizer = start(0.9, **settings)
        return model, optimizer, state

    (model, *_), states = in_pieces(pieces, made, lambda step, *both: train(rank, *both[:2], [step]))
    return bits(model), states[2]


def continued(rank, world, states, lost=False):
    """Residuals of a run on other ranks, and a step."""
    model, state, optimizer = start(min_numel=1)
    state.load_state_dict(states, lost)
    left = {name: residual.clone() for name, residual in state.residuals.items()}
    owned = {name: torch.zeros(residual.numel()) for name, residual in left.items()}
    for group in state._order:
        for part in group.allreduce.parts():
            owned[group.names[part.tensor]][part.first:part.first + part.n] += torch.tensor(part.residual)
    train(rank, model, optimizer, range(1))
    return left, owned, bits(model)


class Residuals(Refusals):
    def left_of(self, found, name):
        """What all ranks got, plus the residuals of senders and owners, which are returned, is the mean of the
        gradients."""
        mean = sum(given[name] for _, given, _, _ in found) / len(found)
        left = sum(owned[name] for _, _, owned, _ in found) + \
            sum(residuals[name] for _, _, _, residuals in found) / len(found)
        torch.testing.assert_close(found[0][0][name] + left, mean, atol=2e-6, rtol=1e-4)
        return left

    def test_nothing_is_lost(self):
        for world, mode in ((2, "sharded"), (3, "sharded"), (3, "gather")):
            found = CLUSTER.run(world, accounting, mode, "3lc:s=1.75")
            for name, got in found[0][0].items():
                left = self.left_of(found, name)
                if name != "tied.weight" and got.numel() > 1000:
                    self.assertGreater(float(left.norm()), 0)

    def test_unused_parameters(self):
        """A layer that is used now and then: in steps in which nobody uses it, DistributedDataParallel does not give it
        what came out of the residuals."""
        for mode in ("sharded", "gather"):
            found = CLUSTER.run(2, accounting, mode, "3lc:s=1.75", True)
            for name in ("unused.weight", "unused.bias"):
                self.left_of(found, name)

    def test_resuming_is_bit_identical(self):
        for settings in ({"codec": "3lc:s=1.5"}, {"codec": "topk:p=0.05,bits=2+golomb", "mode": "gather"},
                         {"codec": "3lc", "pull": "qsgd:bits=8", "seed": 3}):
            self.goes_on(3, resumed, [(0, 4), (4, 5), (5, 9)], settings)

    def test_resuming_on_other_ranks(self):
        """The mean of the residuals stays what it was, so nothing is lost."""
        states = [state for _, state in CLUSTER.run(4, resumed, [(0, 6)], {"codec": "3lc", "min_numel": 1})]
        same = CLUSTER.run(4, continued, states)
        for world in (1, 3):
            found = CLUSTER.run(world, continued, states)
            for name in found[0][0]:
                for which, share in ((0, True), (1, False)):
                    before = sum(result[which][name].double() for result in same) / (4 if share else 1)
                    after = sum(result[which][name].double() for result in found) / (world if share else 1)
                    torch.testing.assert_close(after, before, atol=1e-6, rtol=1e-5)
            self.assertEqual({str(result[2]) for result in found}, {str(found[0][2])})

    def test_states_that_are_missing(self):
        """They are named, unless the caller says that they are lost: then the residuals of the others stay."""
        states = [state for _, state in CLUSTER.run(4, resumed, [(0, 6)], {"codec": "3lc", "min_numel": 1})]
        for given, words in ((states[:3] + [states[0]], "the state of rank 0 is given twice"),
                             ([states[2], states[0]], "a run on 4 ranks was saved, this is one on 2: the states of all "
                                                      "its ranks are needed, and those of ranks 1, 3 are missing")):
            self.refused(CLUSTER.outcomes(2, continued, given), None, words)
        self.assertIn("the state of rank 1 is needed", str(CLUSTER.outcomes(4, continued, states[:1])[1]))
        same = CLUSTER.run(4, continued, states)
        found = CLUSTER.run(4, continued, states[:1] + states[2:], True)  # that of rank 1 is lost
        for (left, owned, _), (left_before, owned_before, _), rank in zip(found, same, range(4)):
            for name, residual in left.items():
                expected = (left_before[name], owned_before[name]) if rank != 1 else [torch.zeros_like(residual)] * 2
                self.assertTrue(torch.equal(residual, expected[0]) and torch.equal(owned[name], expected[1].view(-1)))
        self.assertEqual(len({str(result[2]) for result in found}), 1)
        fewer = CLUSTER.run(2, continued, states[:1] + states[2:], True)
        for name in fewer[0][0]:
            before = sum(result[0][name].double() for rank, result in enumerate(same) if rank != 1) / 4
            after = sum(result[0][name].double() for result in fewer) / 2
            torch.testing.assert_close(after, before, atol=1e-6, rtol=1e-5)
        self.assertEqual(len({str(result[2]) for result in fewer}), 1)


def with_nan(rank, world, policy, mode):
    """A NaN on rank 1 in step 3: the names of parameters with NaN gradients, and what was raised."""
    model, state, optimizer = start(mode=mode, on_nonfinite=policy)
    seen = []
    for step in range(6):
        optimizer.zero_grad()
        loss = model(batch(rank, step)).pow(2).mean()
        if step == 3 and rank == 1:
            loss = loss + (model.module.head.weight * float("nan")).sum()
        try:
            loss.backward()
        except threelc.StepError as error:
            seen.append((step, str(error)))
        bad = sorted(name for name, p in model.module.named_parameters()
                     if p.grad is not None and not torch.isfinite(p.grad).all())
        if bad:
            seen.append((step, bad))
        else:
            optimizer.step()
    return seen, bits(model), state.stats


def with_scaler(rank, world, change):
    """The gradients, unscaled, where the loss scale changes after step 3 or does not."""
    scaler = Scaler(8.0)
    model, _, _ = start(scaler=scaler)
    found = []
    for step in range(6):
        if step == 3:
            scaler.scale = change
        model.zero_grad()
        (model(batch(rank, step)).pow(2).mean() * scaler.scale).backward()
        found.append({name: p.grad / scaler.scale for name, p in model.module.named_parameters() if p.grad is not None})
    return found


def other_settings(rank, world, settings):
    start(**settings[rank])


def other_codec(rank, world):
    """Rank 1 changes its codec after register(): only the exchange can see it."""
    model, state, optimizer = start()
    if rank == 1:
        state._settings = dataclasses.replace(state._settings, codec="sbc")
    train(rank, model, optimizer, range(4))


def dies(rank, world, mode):
    model, _, optimizer = start(mode=mode)
    train(rank, model, optimizer, range(4))
    if rank == 1:
        os._exit(1)
    train(rank, model, optimizer, range(4, 8))


class Failures(Refusals):
    def test_skip(self):
        for mode in ("sharded", "gather"):
            found = CLUSTER.run(3, with_nan, "skip", mode)
            for seen, model, stats in found:
                self.assertEqual([step for step, _ in seen], [3])
                self.assertIn("head.weight", seen[0][1])
                self.assertLess(len(seen[0][1]), 14)  # one bucket, not all
                self.assertEqual(seen, found[0][0])
                self.assertEqual(model, found[0][1])
                self.assertEqual((stats.skipped, stats.steps), (1, 6))
                self.assertGreater(stats.dropped, 5000)

    def test_raise(self):
        for mode in ("sharded", "gather"):
            found = CLUSTER.run(3, with_nan, "raise", mode)
            for rank, (seen, model, _) in enumerate(found):
                self.assertEqual(seen[0][0], 3)
                self.assertIn('rank 1: NaN or infinity in the gradient of tensor "head.weight"' if rank != 1 else
                              'NaN or infinity in the gradient of tensor "head.weight"', seen[0][1])
                self.assertEqual(seen[1][0], 3)
                self.assertEqual(len(seen), 2)
                self.assertEqual(model, found[0][1])

    def test_loss_scale(self):
        """A power of two changes nothing but the exponents."""
        same = CLUSTER.run(2, with_scaler, 8.0)
        for change in (16.0, 2.0):
            for one, other in zip(CLUSTER.run(2, with_scaler, change), same):
                for a, b in zip(one, other):
                    for name in a:
                        self.assertTrue(torch.equal(a[name], b[name]), name)

    def test_other_settings(self):
        for name, values in (("codec", ("3lc", "sbc")), ("mode", ("sharded", "gather")), ("warmup_steps", (1, 2))):
            self.refused(CLUSTER.outcomes(2, other_settings, [{name: value} for value in values]), "ValueError",
                         f"{name} is {values[1]!r} on rank 1 and {values[0]!r} on rank 0")

    def test_another_codec(self):
        """What register() cannot see, the first exchange does, on all ranks."""
        for result in CLUSTER.outcomes(3, other_codec, timeout=30):
            self.assertEqual(result.kind, "StepError")
            self.assertRegex(result.words, "^rank [01] has other tensors, codecs or settings")

    def test_a_rank_dies(self):
        for mode in ("sharded", "gather"):
            found = CLUSTER.outcomes(3, dies, mode, timeout=30)
            self.assertIsInstance(found[1], Died)
            for result in (found[0], found[2]):
                self.assertEqual(result.kind, "RuntimeError")
                self.assertRegex(result.words, "closed|reset|aborted|Connection")


def accumulated(rank, world, hooked):
    """Two backward passes in one step: the first does not send."""
    model = build()
    if hooked:
        threelc.torch.register(model, codec="raw")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(4):
        optimizer.zero_grad()
        with model.no_sync():
            model(batch(rank, 2 * step)).pow(2).mean().backward()
        model(batch(rank, 2 * step + 1)).pow(2).mean().backward()
        optimizer.step()
    return bits(model)


def uneven(rank, world, batches):
    """Rank 1 has this many batches, the others six."""
    model, state, optimizer = start(codec="int8")
    norms = []
    with model.join():
        for step in range(batches if rank == 1 else 6):
            optimizer.zero_grad()
            model(batch(0, step)).pow(2).mean().backward()  # the same on all ranks
            norms.append(float(model.module.head.weight.grad.norm()))
            optimizer.step()
    return norms, bits(model), state.stats


def unused(rank, world, codec):
    """A layer that is never used, in a module that looks for such; another is used by rank 0 alone."""
    model = build(unused=True)
    state = threelc.torch.register(model, codec=codec)
    train(rank, model, torch.optim.SGD(model.parameters(), 0.1), range(6))
    return bits(model), state.stats.steps, model.module.unused.weight.grad is None


def trained(rank, world, dtype, as_view):
    model = build(dtype, gradient_as_bucket_view=as_view)
    state = threelc.torch.register(model)
    train(rank, model, torch.optim.SGD(model.parameters(), 0.1), range(6), dtype)
    return bits(model), state.stats


class Scales(torch.nn.Module):
    """What halves can do on a CPU."""

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(2000)) for _ in range(4)])

    def forward(self, x):
        for weight in self.weights:
            x = x * weight
        return x


def halves(rank, world):
    torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = 10000
    model = DistributedDataParallel(Scales().half(), bucket_cap_mb=0.01)
    state = threelc.torch.register(model, codec="3lc")
    for step in range(6):
        model.zero_grad()
        draw = torch.Generator().manual_seed(10 * step + rank)
        model(torch.randn(2000, generator=draw).half()).backward(torch.randn(2000, generator=draw).half())
    return [p.grad.numpy().tobytes() for p in model.parameters()], state.stats


def compiled(rank, world, dtype):
    """The compiled reducer of PyTorch 2 calls the hook with each gradient and its parameter."""
    model, state, _ = start(codec="3lc:s=1.5")
    trained = [p for p in model.module.parameters() if p.requires_grad]
    local = [torch.randn(p.shape, generator=torch.Generator().manual_seed(rank)).to(dtype) for p in trained]
    for step in range(5):
        found = []
        for parameter, gradient in zip(trained, local):
            gradient = gradient.clone()
            threelc.torch.hook(state, (gradient, parameter))
            found.append(gradient)
    return [gradient.float().numpy().tobytes() for gradient in found], state.stats


def scheduled(rank, world):
    """3lc, sbc, 3lc: the bytes of four steps each."""
    model, state, optimizer = start(reserve=["sbc:p=0.01"])
    train(rank, model, optimizer, range(1))  # as floats
    sent = [state.stats.sent]
    for first, codec in ((1, "3lc"), (5, "sbc:p=0.01"), (9, "3lc")):
        state.set_codec(codec)
        train(rank, model, optimizer, range(first, first + 4))
        sent.append(state.stats.sent)
    return bits(model), [after - before for before, after in zip(sent, sent[1:])]


class Modules(unittest.TestCase):
    def test_no_sync(self):
        self.assertEqual(CLUSTER.run(2, accumulated, True), CLUSTER.run(2, accumulated, False))

    def test_join(self):
        """A rank without data takes no part: the mean is over the others."""
        found = CLUSTER.run(3, uneven, 3)
        for norms, model, stats in found:
            self.assertEqual(model, found[0][1])
            self.assertEqual(stats.steps, 6)
        self.assertEqual(found[0][0], found[2][0])
        self.assertEqual(len(found[1][0]), 3)
        # all have the same gradient, so the mean is as large as if nobody had joined
        for norm, whole in zip(found[0][0], CLUSTER.run(3, uneven, 6)[0][0]):
            self.assertAlmostEqual(norm / whole, 1, delta=0.05)

    def test_unused_parameters(self):
        for codec in ("3lc", "raw"):
            found = CLUSTER.run(2, unused, codec)
            self.assertEqual(found[0], found[1])
            self.assertEqual(found[0][1:], (6, True))

    def test_halves(self):
        found = CLUSTER.run(2, halves)
        self.assertEqual(found[0][0], found[1][0])
        self.assertGreater(found[0][1].ratio, 2)

    def test_gradients_as_views_of_buckets(self):
        one, other = (CLUSTER.run(2, trained, torch.float32, as_view)[0] for as_view in (False, True))
        self.assertEqual(one[0], other[0])
        self.assertEqual(one[1].sent, other[1].sent)

    def test_compiled_reducer(self):
        for dtype in (torch.float32, torch.bfloat16):
            found = CLUSTER.run(2, compiled, dtype)
            self.assertEqual(found[0][0], found[1][0])
            self.assertEqual(found[0][1].steps, 5)

    def test_schedule(self):
        found = CLUSTER.run(2, scheduled)
        self.assertEqual(found[0][0], found[1][0])
        one, between, other = found[0][1]
        self.assertLess(between, 0.8 * one)
        self.assertLess(between, 0.8 * other)

    def test_float64_goes_as_floats(self):
        found = CLUSTER.run(2, trained, torch.float64, False)
        self.assertEqual(found[0][0], found[1][0])
        self.assertEqual(found[0][1].float_steps, 6)
