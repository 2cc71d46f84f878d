# SPDX-License-Identifier: MIT
"""Steps of PushPull and ShardedOptimizer, whose ranks are threads: what they count, compare, clip, keep and say."""
import copy
import math
import unittest
import warnings
from contextlib import suppress
from types import SimpleNamespace

import torch

import threelc
import threelc.torch
from thread_ranks import RanksTest

SIZES = (300, 7)  # of the parameters: one has the codec, the other goes as floats


class Two(torch.nn.Module):
    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.large, self.small = (torch.nn.Parameter(torch.ones(n, dtype=dtype)) for n in SIZES)
        self.register_buffer("seen", torch.zeros(3))

    def lose(self, large, small=0.0):
        """The gradients of a step."""
        for parameter, value in zip(self.parameters(), (large, small)):
            parameter.grad = torch.full_like(parameter, value)


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.5)


def push_pull(model, **settings):
    return threelc.torch.PushPull(model, sgd, **{"codec": "raw", **settings})


def sharded(model, **settings):
    return threelc.torch.ShardedOptimizer(model, sgd, **{"codec": "raw", **settings})


def compiled(model, **settings):
    """As torch.compile() of PyTorch 2 wraps a module."""
    outside = torch.nn.Module()
    outside._orig_mod = model
    return sharded(outside, **settings)



class Steps(RanksTest):
    def test_counts(self):
        """Floats of all steps; a step in which no gradient was finite changes nothing, counts as failed, and is
        raised once."""
        def train(rank, make, **settings):
            model = Two()
            optimizer = make(model, **settings)
            raised = []
            for step in range(4):
                if step == 2:
                    model.lose(math.nan, math.inf)
                else:
                    model.lose(1.0 + rank, 2.0)
                try:
                    optimizer.step()
                except threelc.StepError:
                    raised.append(step)
            try:
                optimizer.state_dict()
            except threelc.StepError:
                raised.append("state")
            stats = optimizer.stats
            weights = [float(p.detach()[3]) for p in model.parameters()]
            return raised, stats.steps, stats.failed, stats.float_bytes, weights

        for make, settings in ((push_pull, {}), (push_pull, {"servers": 2}), (sharded, {})):
            floats = 4 * sum(2 * 4 * n * 2 // 3 for n in SIZES)
            self.assertEqual(self.on(3, lambda rank: train(rank, make, **settings)),
                             3 * [([2], 4, 1, floats, [1 - 3 * 0.5 * 2, 1 - 3 * 0.5 * 2])])

    def test_who_steps(self):
        """Owners make the optimizer's step where there are means; a rank that owns nothing does for schedules."""
        class Counted(torch.optim.SGD):
            count = 0

            def step(self, closure=None):
                self.count += 1
                return super().step(closure)

        def train(rank):
            model = Two()
            optimizer = threelc.torch.PushPull(model, lambda p: Counted(p, 0.5), servers=2, codec="raw")
            for value in 1.0, math.nan, 1.0:
                model.lose(value, value)
                with suppress(threelc.StepError):
                    optimizer.step()
            return optimizer.optimizer.count, [part.numel() for part in optimizer.param_groups[0]["params"]]

        self.assertEqual(self.on(4, train), [(2, [300]), (2, [7]), (3, [0]), (3, [0])])

    def test_small_tensors(self):
        """From min_numel values on there are codecs, in answers, too."""
        def train(rank, min_numel):
            model = Two()
            optimizer = push_pull(model, codec="3lc", min_numel=min_numel)
            for _ in range(2):
                model.lose(1.0)
                optimizer.step()
            return optimizer.stats.sent

        for min_numel, floats in ((300, False), (301, True)):
            for sent in self.on(2, lambda rank: train(rank, min_numel)):  # rank 0 answers, rank 1 pushes
                self.assertTrue(sent > 2 * 4 * 300 if floats else sent < 4 * 300)
                self.assertGreater(sent, 2 * 4 * 7)

    def test_warmup(self):
        """The first steps go as floats, and no others, also after a state is loaded."""
        def train(rank, stop):
            model = Two()
            optimizer = push_pull(model, codec="3lc", warmup_steps=3)
            sent = []
            for step in range(5):
                if step == stop:
                    state = optimizer.state_dict()
                    optimizer = push_pull(model, codec="3lc", warmup_steps=3)
                    optimizer.load_state_dict(state)
                before = optimizer.stats.sent
                model.lose(1.0 + step % 2)
                model.large.grad[7] = 3.0
                optimizer.step()
                sent.append(optimizer.stats.sent - before > 4 * 300)
                if step == 2:
                    floats = model.large[:8].tolist()
            return sent, floats, model.large.tolist()

        found = [self.on(2, lambda rank, stop=stop: train(rank, stop)) for stop in (None, 1, 3)]
        self.assertEqual(found[0][0][:2], ([True] * 3 + [False] * 2, [-1.0] * 7 + [-3.5]))
        for others in found:
            self.assertEqual(others, 2 * found[0][:1])

    def test_patience(self):
        """The third time in a row that a rank is left out it is warned, there alone, and once."""
        def train(rank):
            model = Two()
            optimizer = push_pull(model, codec="3lc")
            for step in range(9):
                model.lose(1.0)
                if rank == 1 and step not in (2, 8):
                    model.large.grad[5] = math.nan
                optimizer.step()
                model.zero_grad()

        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            self.on(2, train)
        self.assertEqual([(each.category, str(each.message)) for each in found], [
            (RuntimeWarning, "the gradients of this rank were left out 3 times in a row. The last time: worker 1: NaN "
                             'or infinity in the gradient of tensor "large"')])

    def test_comparing(self):
        """Weights are compared after every so many steps, at the beginning of the next one, and not with backup
        workers."""
        for settings, wanted in (({}, []), ({"compare_every": 3}, ["after step 3", "after step 6"]),
                                 ({"compare_every": 1}, [f"after step {i}" for i in range(1, 7)]),
                                 ({"compare_every": 0}, []), ({"compare_every": 3, "backup": 1}, [])):
            def train(rank, settings=settings):
                model, told = Two(), []
                optimizer = push_pull(model, **settings)
                optimizer._replicas.compare = lambda transport, when: told.append(when)
                for _ in range(7):
                    model.lose(1.0)
                    optimizer.step()
                optimizer.state_dict()
                return told
            self.assertEqual(self.on(2, train), 2 * [wanted], settings)

    def test_norms(self):
        """Of the mean of all gradients, before it is clipped, whoever owns them."""
        def train(rank, make, max_norm):
            model = Two()
            optimizer = make(model, max_norm=max_norm)
            found = [optimizer.grad_norm]
            for large, small in ((3.0, 4.0), (0.0, 0.0)):
                model.lose(large - rank, small)
                optimizer.step()
                found.append(optimizer.grad_norm)
            return found, optimizer.max_norm, [p.detach()[0].item() for p in model.parameters()]

        norms = [math.sqrt(300 * 2**2 + 7 * 4**2), math.sqrt(300)]
        for make in (push_pull, sharded):
            for max_norm, factors in ((None, (1, 1)), (math.inf, (1, 1)), (20, (20 / norms[0], 1)),
                                      (2.0, (2 / norms[0], 2 / norms[1]))):
                for found, limit, weights in self.on(3, lambda rank: train(rank, make, max_norm)):
                    self.assertEqual(found[0], None)
                    if max_norm is None:
                        self.assertEqual(found, [None] * 3)
                    else:
                        for here, norm in zip(found[1:], norms):
                            self.assertAlmostEqual(here, norm, places=9)
                    self.assertEqual((limit, type(limit)), (max_norm, type(max_norm and float(max_norm))))
                    for weight, one, other in zip(weights, (2, 4), (-1, 0)):
                        self.assertAlmostEqual(weight, 1 - 0.5 * (one * factors[0] + other * factors[1]), places=5)

    def test_what_others_write(self):
        """Where a bfloat16 parameter was written between steps, training goes on from what was written, and elsewhere
        from the float32 weights."""
        def train(rank, make, codec):
            model = Two(torch.bfloat16)
            optimizer = make(model, codec=codec, min_numel=1)
            for step in range(4):
                if step == 2:
                    with torch.no_grad():
                        model.large[:100] += 4
                        model.large[100:200] -= 4
                model.lose(2.0**-9)
                optimizer.step()
            state = optimizer.state_dict()["masters"]["large"]
            return [state[at].item() for at in (0, 150, 250)], [model.large[at].item() for at in (0, 150, 250)]

        for make in (push_pull, sharded):
            for codec in ("raw", "topk:p=1"):
                for masters, values in self.on(2, lambda rank: train(rank, make, codec)):
                    self.assertEqual(masters, [5 - 2 * 2.0**-10, -3 - 2 * 2.0**-10, 1 - 4 * 2.0**-10], codec)
                    self.assertEqual(values, [5, -3, 1 - 2.0**-8])

    def test_sparse(self):
        def train(rank):
            model = Two()
            optimizer = push_pull(model)
            model.large.grad = (torch.arange(300) % 2 * (1.0 + rank)).to_sparse()
            optimizer.step()
            return model.large[:4].tolist(), model.small[:2].tolist()

        self.assertEqual(self.on(2, train), 2 * [([1, 0.25, 1, 0.25], [1, 1])])

    def test_flush(self):
        """Then all that gradients held is in the weights, of parameters of each dtype, and nothing is left."""
        def train(rank, make, dtype, settings):
            model = Two(dtype)
            optimizer = make(model, codec="3lc:s=1.9", **settings)
            for step in range(3):
                model.lose(1.0, 2.0**-4)
                model.large.grad *= (torch.arange(300) % 16 + rank) / 16
                optimizer.step()
            before = model.large.detach().clone()
            found = []
            for _ in range(2):
                optimizer.flush()
                found.append([p.detach().clone() for p in model.parameters()])
            return before, found, optimizer.state_dict()["masters"]

        large = 1 - 0.5 * 3 * (torch.arange(300) % 16 + 0.5) / 16
        for make, settings in ((push_pull, {}), (push_pull, {"servers": 2}), (sharded, {})):
            for dtype in torch.float32, torch.bfloat16:
                for before, (once, twice), masters in self.on(2, lambda rank: train(rank, make, dtype, settings)):
                    self.assertGreater(float((before - large).abs().max()), 0.02)
                    for found in once, twice:
                        if dtype == torch.bfloat16:
                            self.assertTrue(torch.equal(found[0], masters["large"].bfloat16()))
                            found = [masters["large"], masters["small"]]
                        torch.testing.assert_close(found[0], large, atol=1e-5, rtol=0)
                        torch.testing.assert_close(found[1], torch.full((7,), 1 - 1.5 * 2.0**-4))

    def test_zero_grad(self):
        def train(rank):
            model = Two()
            optimizer = sharded(model)
            model.lose(1.0, 2.0)
            model.small.grad = None
            optimizer.zero_grad(set_to_none=False)
            found = [model.large.grad.abs().sum().item(), model.small.grad]
            optimizer.zero_grad()
            return found, model.large.grad

        self.assertEqual(self.on(1, train), [([0, None], None)])

    def test_no_gradients(self):
        """A parameter without a gradient on any rank, as a frozen one, is what it was, as by the optimizer alone."""
        def train(model, optimizer, rank, world):
            for step in range(5):
                model.lose(1.0, 2.0)
                if step == 2:
                    model.large.grad = None
                if step in (1, 2):
                    model.small.grad = None
                if step == 3 and rank == 0:  # only on this one
                    model.large.grad = None if world > 1 else 0.5 * model.large.grad
                optimizer.step()
            return optimizer

        def exchange(rank, make, settings):
            model = Two()
            train(model, make(model, adamw, codec="raw", **settings), rank, 2).state_dict()
            return [p.detach() for p in model.parameters()]

        def adamw(parameters):
            return torch.optim.AdamW(parameters, 0.1, weight_decay=0.1)

        alone = Two()
        train(alone, adamw(alone.parameters()), 0, 1)
        one, other = threelc.torch.PushPull, threelc.torch.ShardedOptimizer
        for make, settings in ((one, {}), (one, {"servers": 2}), (other, {}), (other, {"overlap": True}),
                               (other, {"quantize": "device"})):
            for found in self.on(2, lambda rank, make=make, settings=settings: exchange(rank, make, settings)):
                self.assertTrue(all(map(torch.equal, found, alone.parameters())), settings)

    def test_states(self):
        """Where a run goes on, its counts do, and nothing has changed if it cannot."""
        def save(rank):
            model = Two(torch.bfloat16)
            optimizer = sharded(model, codec="3lc", min_numel=1)
            for step in range(3):
                model.lose(math.nan if step == 1 else 2.0**-10 * (rank + step))
                try:
                    optimizer.step()
                except threelc.StepError:
                    pass
            state, stats = optimizer.state_dict(), optimizer.stats
            before = copy.deepcopy(state)
            model.lose(2.0)
            optimizer.step()
            self.assertEqual(str(state), str(before))  # it stays what it was
            return state, stats

        found = self.on(2, save)
        states = [state for state, _ in found]

        def load(rank, own=True):
            """own: the state of this rank, not those of all."""
            optimizer = sharded(Two(torch.bfloat16), codec="3lc", min_numel=1)
            before = optimizer.state_dict()
            masters = {**states[rank]["masters"], "large": torch.zeros(299)}
            for wrong in (masters, {"small": masters["small"]}) if own else ():
                self.raises(ValueError, "the float32 weights of large are not in the state", optimizer.load_state_dict,
                            {**states[rank], "masters": wrong})
            after = optimizer.state_dict()
            self.assertEqual([after[key] for key in ("steps", "failed", "late")],
                             [before[key] for key in ("steps", "failed", "late")])
            optimizer.load_state_dict(states[rank] if own else states)
            return optimizer.state_dict(), optimizer.stats

        for (state, stats), (again, other) in zip(found, self.on(2, load)):
            self.assertEqual((other.steps, other.failed, other.float_bytes), (3, 1, stats.float_bytes))
            self.assertEqual((again["steps"], again["failed"]), (3, 1))
            for key in ("large", "small"):
                self.assertTrue(torch.equal(again["masters"][key], state["masters"][key]))
            self.assertEqual([part.tolist() for part in again["parts"]], [part.tolist() for part in state["parts"]])
        (more, stats), = self.on(1, lambda rank: load(rank, False))
        self.assertEqual((stats.steps, stats.failed), (3, 1))
        self.assertEqual(more["traffic"]["float_bytes"], sum(stats.float_bytes for _, stats in found))


class Settings(RanksTest):
    def test_what_is_refused(self):
        """Whole sentences."""
        needs = ("needs all ranks in each step, and with backup=1 servers go on without the slowest: leave out {} or "
                 "backup")
        norm = "max_norm should be a number above 0, or None, not {}"
        for make, settings, kind, words in (
                (push_pull, {"max_norm": 0}, ValueError, norm.format(0)),
                (push_pull, {"max_norm": True}, ValueError, norm.format(True)),
                (push_pull, {"max_norm": math.nan}, ValueError, norm.format("nan")),
                (push_pull, {"max_norm": "2"}, ValueError, norm.format("'2'")),
                (push_pull, {"max_norm": [2]}, ValueError, norm.format("a list")),
                (push_pull, {"max_norm": 1, "backup": 1}, ValueError, "max_norm " + needs.format("max_norm")),
                (push_pull, {"scaler": SimpleNamespace(get_scale=float), "backup": 1}, ValueError,
                 "scaler " + needs.format("scaler")),
                (push_pull, {"max_norm": 1, "second_moment": 0.9}, ValueError,
                 "max_norm is for means of gradients, and with second_moment ranks send what has another norm: clip "
                 "the gradients of each rank before step()"),
                (push_pull, {"servers": 0}, ValueError, "servers should be from 1 to 2, not 0"),
                (push_pull, {"servers": 3}, ValueError, "servers should be from 1 to 2, not 3"),
                (push_pull, {"backup": 2}, ValueError, "backup should be from 0 to 1, not 2"),
                (push_pull, {"warmup_steps": -1}, ValueError, "warmup_steps should be at least 0, not -1"),
                (push_pull, {"buffers": "one"}, ValueError,
                 "buffers should be one of own, first, not 'one': did you mean own?"),
                (compiled, {"overlap": True}, TypeError, "overlap=True waits in the hooks of modules, which "
                 "torch.compile() leaves out: give the module that is not compiled, or overlap=False"),
                (sharded, {"bucket_mb": 0}, ValueError, "bucket_mb should be a number above 0, not 0"),
                (sharded, {"bucket_mb": True}, ValueError, "bucket_mb should be a number above 0, not True"),
                (sharded, {"bucket_mb": math.nan}, ValueError, "bucket_mb should be a number above 0, not nan"),
                (sharded, {"bucket_mb": "25"}, ValueError, "bucket_mb should be a number above 0, not '25'")):
            def refuse(rank, make=make, settings=settings, kind=kind, words=words):
                self.raises(kind, words, make, Two(), **settings)
            self.on(2, refuse)

    def test_what_may_be(self):
        """Limits, and settings that are changed between steps."""
        def make(rank):
            optimizer = push_pull(Two(), servers=2, backup=1)
            self.raises(ValueError, "max_norm needs all ranks in each step, and with backup=1 servers go on without "
                                    "the slowest: leave out max_norm or backup", setattr, optimizer, "max_norm", 2)
            optimizer.max_norm = None
            optimizer = sharded(Two(), max_norm=1e-30, overlap=True, bucket_mb=1e-6)
            optimizer.max_norm = 3
            self.raises(ValueError, "with overlap=True gradients are on their way before step() is called, so their "
                                    "weight is 1, not 1.5", optimizer.step, weight=1.5)
            self.raises(ValueError, "weight should be from 2^-50 to 2^50, not 0.0", optimizer.step, weight=0)
            return optimizer.max_norm, optimizer.grad_norm, repr(optimizer)

        self.assertEqual(self.on(2, make), 2 * [(3.0, None, "<threelc.torch.ShardedOptimizer around SGD>")])

    def test_adam(self):
        """Rank 0 warns, where pushes have residuals and ranks do not divide themselves."""
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for settings in {"codec": "raw"}, {"second_moment": 0.9}, {}:
                self.on(3, lambda rank, settings=settings: threelc.torch.PushPull(
                    Two(), lambda p: torch.optim.Adam(p, 0.1), **settings) and None)
        self.assertEqual([(each.category, str(each.message)) for each in found], [
            (RuntimeWarning, "threelc: Adam divides by the root of a mean square, and of gradients in 3lc small values "
                             "come rarely, and are large then, so the training may lose much. With second_moment= "
                             "ranks divide before they compress, and little is lost")])



if __name__ == "__main__":
    unittest.main()
