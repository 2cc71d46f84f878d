# SPDX-License-Identifier: MIT
"""AllReduce over the fake of torch.distributed: sums, bytes, defaults, sentences, calls in its thread, states."""
import inspect
import logging
import math
import os
import signal
import threading
import unittest
import warnings
from types import SimpleNamespace
from unittest import mock

import torch

import fake_dist
import threelc
import threelc.torch
from cluster import attempt
from fake_dist import Network
from faults import prepared
from threelc._errors import Status
from threelc.torch import all_reduce

SIZES = {"one": 300, "two": 500, "small": 9}


def drawn(rank, step):
    draw = torch.Generator().manual_seed(100 * step + rank)
    return {name: torch.randn(n, generator=draw) for name, n in SIZES.items()}


def wanted(world, steps, name):
    return sum(drawn(rank, step)[name] for step in steps for rank in range(world)) / world


def averaged(mean, rank, steps):
    """The sum of what comes out, by name, and all of it."""
    total, found = dict.fromkeys(SIZES, 0), []
    for step in steps:
        for name, tensor in drawn(rank, step).items():
            total[name] = total[name] + mean(name, tensor)
            found.append(tensor)
    return total, found


class Talks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        prepared()

    def talk(self, world, function, *arguments, **settings):
        """What function(rank, mean) returned on each rank."""
        found = Network(world).run(lambda rank: function(rank, threelc.torch.AllReduce(*arguments, **settings)))
        for how, ended in found:
            if how != "returned":
                raise ended or AssertionError("a rank hangs")
        return [ended for _, ended in found]

    def said(self, world, function, **settings):
        """The same, and the warnings of this library."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = self.talk(world, function, **settings)
        return found, [(each.category, str(each.message)) for each in caught if "threelc" in str(each.message)]


class Means(Talks):
    def test_nothing_is_lost(self):
        """What comes out and what is flushed is what went in; bytes of floats are those of a ring."""
        def run(rank, mean):
            total, found = averaged(mean, rank, range(3))
            held = {name: values.clone() for name, values in mean.residuals.items()}
            return total, found, held, mean.flush(), [bool(values.any()) for values in mean.residuals.values()], \
                mean.stats

        for world, settings in ((2, {}), (3, {"codec": "3lc-golomb", "mode": "gather"}), (2, {"codec": "raw"}),
                                (2, {"codec": "topk:p=0.1", "pull": "3lc", "min_numel": 1}), (2, {"codec": "natural"})):
            names = [] if settings.get("codec") in ("raw", "natural") else list(SIZES)
            ended = self.talk(world, run, **settings)
            for total, found, held, rest, left, stats in ended:
                self.assertTrue(all(map(torch.equal, found, ended[0][1])))
                self.assertEqual((list(held), list(rest), any(left)), (names, names, False))
                self.assertEqual(stats.float_bytes, 3 * sum(2 * 4 * n * (world - 1) // world for n in SIZES.values()))
                if settings.get("codec") != "natural":
                    for name in SIZES:
                        torch.testing.assert_close(total[name] + rest.get(name, 0), wanted(world, range(3), name),
                                                   atol=1e-5, rtol=1e-5)
                        self.assertEqual(bool((total[name] - wanted(world, range(3), name)).abs().max() > 0.01),
                                         bool(names) and (name != "small" or "min_numel" in settings))

    def test_on_a_device(self):
        """By torch operations, as on a GPU: the bits and residuals of the host, in as many bytes."""
        def run(rank, mean):
            found = averaged(mean, rank, range(3))[1]
            return [*found, *(mean.residuals[name].clone() for name in SIZES), *mean.flush().values()], \
                mean.stats.sent, {name: group.on_device for name, group in mean._means.groups.items()}

        for settings in {}, {"mode": "gather", "codec": "topk:p=0.1"}:
            host, device = (self.talk(2, run, quantize=quantize, **settings) for quantize in ("host", "device"))
            for (found, sent, _), (other, size, there) in zip(host, device):
                self.assertTrue(all(map(torch.equal, found, other)))
                self.assertEqual((sent, there), (size, {"one": True, "two": True, "small": False}))

    def test_defaults(self):
        """Tensors of 256 values are compressed; what is drawn is that of seed 0, and not of another one."""
        def run(rank, mean):
            tensors = [torch.randn(n, generator=torch.Generator().manual_seed(n)) for n in (255, 256)]
            return [torch.equal(mean(str(len(tensor)), tensor.clone()), tensor) for tensor in tensors], \
                mean("300", torch.ones(300) + torch.arange(300) / 300)

        codec = "stochastic-ternary+quartic"
        (whole, default), = self.talk(1, run, None, codec)
        self.assertEqual(whole, [True, False])
        self.assertEqual([torch.equal(self.talk(1, run, codec=codec, seed=seed)[0][1], default) for seed in (0, 1)],
                         [True, False])
        for function, wanted_of in ((threelc.torch.register, {
                "codec": "3lc", "mode": "sharded", "min_numel": 256, "warmup_steps": 1, "on_nonfinite": "skip",
                "compare_every": 1000, "seed": 0, "reserve": ()}), (threelc.torch.new_group, {"warmup_steps": 1})):
            parameters = inspect.signature(function).parameters
            self.assertEqual({name: parameters[name].default for name in wanted_of}, wanted_of)

    def test_tensors_of_all_kinds(self):
        """Those that no codec takes become means in floats; all stay where they are."""
        def run(rank, mean):
            double = torch.full((30,), 0.1 + rank, dtype=torch.float64)
            across = torch.full((3, 4), 1.0 + rank, dtype=torch.float64).t()
            half, part = torch.full((300,), 1.0 + rank).half(), torch.full((4, 100), 1.0 + rank)
            trained = torch.nn.Parameter(torch.full((300,), 1.0 + rank))
            for name, tensor in (("double", double), ("across", across), ("half", half), ("part", part[:, 1:99]),
                                 ("trained", trained)):
                self.assertIs(mean(name, tensor), tensor)
            return double, across, half, part[:, 1:99], trained.detach(), part[:, ::99], mean.stats.float_bytes

        for double, across, half, part, trained, around, size in self.talk(2, run):
            torch.testing.assert_close(double, torch.full((30,), 0.6, dtype=torch.float64), atol=1e-15, rtol=0)
            for tensor in across, half, part, trained:
                self.assertTrue((tensor == 1.5).all())
            self.assertFalse((around == 1.5).any())
            self.assertEqual(size, 30 * 8 + 12 * 8 + 300 * 2 + 392 * 4 + 300 * 4)

    def test_refusals(self):
        """Before anything is sent, so the object goes on."""
        class DTensor(torch.Tensor):
            """Has the name of PyTorch's."""

        def run(rank, mean):
            mean("one", torch.ones(300))
            shard = torch.ones(3).as_subclass(DTensor)
            bad = [("", torch.ones(3)), (3, torch.ones(3)), ("two", [1.0]), ("two", shard),
                   ("two", torch.ones(3, dtype=torch.int32)), ("two", torch.ones(3).to_sparse()),
                   ("two", torch.ones(0))]
            return [attempt(call, *each)[:2] for each in bad for call in (mean, mean.start)], \
                attempt(mean.load_state_dict, mean.state_dict())[:2], mean("one", torch.ones(300)).tolist()

        tensor = "the tensor two should be "
        local = "; of a DTensor its to_local(), with a process_group of the ranks that have the same shard"
        dense = tensor + "dense and of floating point, not "
        for found, loaded, one in self.talk(2, run):
            self.assertEqual(found[::2], found[1::2])
            self.assertEqual(found[::2], [
                ("TypeError", "name should be the name of a tensor, not ''"),
                ("TypeError", "name should be the name of a tensor, not 3"),
                ("TypeError", tensor + "a torch.Tensor, not a list" + local),
                ("TypeError", tensor + "a torch.Tensor, not a DTensor" + local),
                ("TypeError", dense + "torch.strided of torch.int32"),
                ("TypeError", dense + "torch.sparse_coo of torch.float32"),
                ("ValueError", "the tensor two has no values")])
            self.assertEqual(loaded, ("ValueError", "states are loaded before the first exchange"))
            self.assertEqual(one, [1.0] * 300)

    def test_another_tensor_than_before(self):
        """The other ranks hear of it, and no call succeeds any more."""
        for tensor, words in (
                (torch.ones(400), "the gradient of one has 400 values, and had 300 before: the same parameters have to "
                                  "get gradients each time"),
                (torch.ones(300).half(), "the gradient of one is of torch.float16, and was of another dtype before")):
            def run(rank, mean, tensor=tensor):
                mean("one", torch.ones(300))
                return attempt(mean, "one", tensor if rank else torch.ones(300))[:2], attempt(mean, "three", tensor)[:2]

            (lost, later), (said, after) = self.talk(2, run)
            self.assertEqual(said, ("ValueError", words))
            self.assertRegex(lost[1], "^rank 0 lost .* Gloo says: connection closed by peer$")
            self.assertEqual({later, after}, {("RuntimeError", "the connections to the other ranks are closed, as an "
                                                               "exchange with them has failed")})

    def test_nonfinite(self):
        """NaN on all ranks, with a warning for the first; no residual has it, and nothing else is lost."""
        def run(rank, mean):
            found = []
            for step in range(4):
                tensor = drawn(rank, step)["one"]
                if step in (1, 3) and rank == 1:
                    tensor[7] = math.nan
                found.append((attempt(mean, "one", tensor)[:2], tensor))
            return found, mean.flush()["one"], mean.stats

        words = ". All ranks get NaN there, which a loss scaler skips; without one, find the cause, or use " \
                'on_nonfinite="raise"'
        given = wanted(2, (0, 2), "one") + sum(drawn(0, step)["one"] for step in (1, 3)) / 2
        for policy in "skip", "raise":
            found, caught = self.said(2, run, on_nonfinite=policy)
            self.assertEqual(caught, [] if policy == "raise" else [
                (RuntimeWarning, 'threelc: rank 1: NaN or infinity in the gradient of tensor "one", says rank 0'
                 + words)] * 2)
            for steps, rest, stats in found:
                self.assertEqual([kind for (kind, _), _ in steps], ["", "StepError"] * 2 if policy == "raise" else
                                 [""] * 4)
                if policy == "skip":
                    self.assertEqual([int(tensor.isnan().sum()) for _, tensor in steps], [0, 300, 0, 300])
                torch.testing.assert_close(steps[0][1] + steps[2][1] + rest, given, atol=1e-5, rtol=1e-5)

    def test_other_failures(self):
        """A step that fails for another reason is no NaN, and the next one can begin."""
        def run(rank, mean):
            mean("one", torch.ones(300))
            found = []
            for outcome in None, *(SimpleNamespace(cause=cause) for cause in Status):
                error = threelc.StepError(Status.STEP, "x", outcome)
                with mock.patch.object(mean._means.groups["one"], "run", side_effect=error):
                    found.append(attempt(mean, "one", torch.ones(300))[0])
            return found, mean("one", torch.ones(300)).tolist()

        (found, after), = self.said(1, run)[0]
        self.assertEqual(found, ["StepError", *("" if cause == Status.NONFINITE else "StepError" for cause in Status)])
        self.assertEqual(after, [1.0] * 300)

    def test_moments(self):
        """Not of gradients that no codec takes."""
        def run(rank, mean):
            found = [mean("one", torch.full((300,), 3.0)) for _ in range(2)]
            return found, attempt(mean, "two", torch.ones(300).double())[:2]

        for settings, values in (({"momentum_correction": 0.5, "codec": "3lc"}, None), ({"second_moment": 0.5}, 1.0)):
            for found, said in self.talk(2, run, **{"codec": "raw", **settings}):
                self.assertEqual(said, ("ValueError", "momentum_correction and second_moment do not take gradients of "
                                                      "torch.float64"))
                if values is not None:
                    torch.testing.assert_close(found[1], torch.full((300,), values))

    def test_log(self):
        """After every second exchange, of those that went well; rank 0 does."""
        def run(rank, mean):
            mean("one", torch.ones(300))
            before = mean.stats
            mean.log_every(2)
            for i in range(3):
                mean("one", torch.ones(300))
            return mean.stats.sent - before.sent

        with self.assertLogs("threelc", logging.INFO) as caught:
            sent, _ = self.talk(2, run)
        self.assertEqual(len(caught.output), 1)
        self.assertRegex(caught.output[0], rf"^INFO:threelc:exchange 3: {sent // 3} bytes sent in a exchange, ")


class Started(Talks):
    def test_order(self):
        """With the bits of calls that wait, which come after what was begun."""
        def begun(rank, mean):
            found = []
            for step in range(2):
                tensors = drawn(rank, step)
                futures = [mean.start(name, tensors[name]) for name in ("one", "two")]
                found += [*tensors.values()]
                mean("small", tensors["small"])
                self.assertTrue(all(future.done() for future in futures))
                self.assertIs(futures[0].wait(), tensors["one"])
            mean.start("one", torch.ones(300)).wait()
            return found, len(mean._begun), mean.stats.sent

        called = self.talk(2, lambda rank, mean: averaged(mean, rank, range(2))[1])
        for (found, kept, sent), other in zip(self.talk(2, begun), called):
            self.assertTrue(all(map(torch.equal, found, other)))
            self.assertEqual((kept, sent > 0), (1, True))

    def test_what_fails(self):
        """The future has the exception, and what is no Exception in a sentence."""
        def run(rank, mean):
            found = []
            for error in ValueError("x"), KeyboardInterrupt():
                with mock.patch.object(mean._means, "run", side_effect=error):
                    found.append(attempt(mean.start("one", torch.ones(3)).wait)[:2])
            return found, attempt(mean, "two", torch.ones(300))[0]

        (found, after), = self.talk(1, run)
        self.assertEqual([words.splitlines()[0] for _, words in found],
                         ["ValueError: x" if ":" in found[0][1] else "x", "the exchange of one was ended by "
                          "KeyboardInterrupt()"])
        self.assertEqual(after, "RuntimeError")

    def test_the_end_of_the_thread(self):
        """No future waits for it."""
        def run(rank, mean):
            begin = threading.Event()
            with mock.patch.object(mean._means, "run", lambda *_: begin.wait(20)):
                first = mean.start("one", torch.ones(3))
                mean._jobs._queue.put(None)
                second = mean.start("two", torch.ones(3))
                begin.set()
                first.wait()
                return attempt(second.wait)[:2]

        self.assertEqual(self.talk(1, run), [("RuntimeError", "the thread of this AllReduce has ended")])


class Signals(Talks):
    def test_they_wait(self):
        """In each call of the main thread: a handler may save a state, and finds all of a step."""
        found = []
        self.addCleanup(signal.signal, signal.SIGUSR1, signal.getsignal(signal.SIGUSR1))
        signal.signal(signal.SIGUSR1, lambda *_: found.append("signal"))
        fake_dist._OWN.default = fake_dist.Group(Network(1), -1, 0)
        self.addCleanup(delattr, fake_dist._OWN, "default")
        mean, other = threelc.torch.AllReduce(), threelc.torch.AllReduce()

        def signalled(owner, name, call, *arguments):
            found.clear()

            def inner(*_, **__):
                os.kill(os.getpid(), signal.SIGUSR1)
                found.append("ends")
                return [{}]

            with mock.patch.object(owner, name, inner):
                attempt(call, *arguments)
            self.assertEqual(found, ["ends", "signal"], name)

        mean("one", torch.ones(300))
        signalled(mean._means, "run", mean, "one", torch.ones(300))
        signalled(mean._means.groups["one"], "flush", mean.flush)
        signalled(mean._means, "states", mean.state_dict)
        signalled(all_reduce, "states_for", other.load_state_dict, {})


class States(Talks):
    SETTINGS = ({"codec": "3lc"}, {"codec": "3lc", "momentum_correction": 0.9, "second_moment": 0.95})

    def saved(self, settings, steps=range(3)):
        return self.talk(2, lambda rank, mean: (averaged(mean, rank, steps)[0], mean.state_dict(), mean.stats),
                         **settings)

    def test_same_bits(self):
        """Of a run in one piece, with its stats, also if a name comes later than others."""
        for settings in self.SETTINGS:
            def run(rank, mean, settings=settings):
                mean.load_state_dict(states[rank])
                loaded = mean.stats, mean.state_dict()["groups"].keys()
                return loaded, averaged(mean, rank, range(3, 6))[1], mean.stats.sent

            _, states, stats = zip(*self.saved(settings))
            whole = self.talk(2, lambda rank, mean: (averaged(mean, rank, range(6))[1], mean.stats.sent), **settings)
            pieces = self.talk(2, run, **settings)
            for (loaded, found, sent), (all_of_it, in_all), before in zip(pieces, whole, stats):
                self.assertEqual(loaded, (before, SIZES.keys()))
                self.assertTrue(all(map(torch.equal, found, all_of_it[3 * len(SIZES):])))
                self.assertEqual(sent, in_all)
            self.assertEqual([state["version"] for state in states], [1, 1])

    def test_other_ranks(self):
        """Nothing is lost, also of names that do not come again."""
        totals, states, _ = zip(*self.saved({"codec": "3lc"}))
        for world in 1, 3:
            def run(rank, mean):
                mean.load_state_dict(states)
                before = {name: 0 for name in SIZES}
                before["one"] = mean("one", drawn(rank, 3)["one"])
                rest = mean.flush()
                return {name: before[name] + rest.get(name, 0) for name in SIZES}

            for found in self.talk(world, run):
                for name in SIZES:
                    more = wanted(world, [3], name) if name == "one" else 0
                    torch.testing.assert_close(totals[0][name] + found[name], wanted(2, range(3), name) + more,
                                               atol=1e-5, rtol=1e-5)

    def test_refused(self):
        _, states, _ = zip(*self.saved({"codec": "3lc"}))
        other = self.talk(2, lambda rank, mean: mean("one", torch.ones(300)) is None or mean.state_dict())

        def run(rank, mean):
            found = [attempt(mean.load_state_dict, given)[:2] for given in (
                [states[0], other[1]], [other[0], states[1]], [states[0]])]
            mean.load_state_dict([states[0]], lost=True)
            return found

        for fewer, more, (kind, _) in self.talk(3, run):
            self.assertEqual({fewer, more}, {("ValueError", "the states do not belong together: some have other names "
                                                            "than others")})
            self.assertEqual(kind, "ValueError")


if __name__ == "__main__":
    unittest.main()
