# SPDX-License-Identifier: MIT
"""threelc.torch.AllReduce, in real processes over gloo; states that rank 0 gathers and deals out."""
import copy
import logging
import os
import signal
import threading
import time
import warnings
from datetime import timedelta
from unittest import mock

import torch
import torch.distributed as dist

import threelc.torch
from cluster import CLUSTER, Refusals, attempt
from test_states import Way
from threelc.torch._common.transport import Transport, timeout_of
from threelc.torch.checkpoint import gather_states, scatter_states

SHAPES = {"weight": (40, 30), "bias": (40,), "half": (500,), "more": (25, 20)}


def drawn(rank, step):
    draw = torch.Generator().manual_seed(100 * step + rank)
    found = {name: torch.randn(shape, generator=draw) for name, shape in SHAPES.items()}
    return {**found, "half": found["half"].half()}


def averaged(mean, rank, steps):
    """The sum of what comes out, by name, and the bits of the last step."""
    total, last = {}, {}
    for step in steps:
        for name, tensor in drawn(rank, step).items():
            returned = mean(name, tensor)
            assert returned is tensor
            total[name] = total.get(name, 0) + tensor.double()
            last[name] = tensor.view(-1).view(torch.uint8).numpy().tobytes()
    return total, last


def wanted(world, steps):
    return {name: sum(drawn(rank, step)[name].double() for step in steps for rank in range(world)) / world
            for name in SHAPES}


def steps_of(rank, world, settings, count):
    mean = threelc.torch.AllReduce(**settings)
    total, last = averaged(mean, rank, range(count))
    held = {name: values.clone() for name, values in mean.residuals.items()}
    rest = mean.flush()
    return total, last, rest, held, [float(values.abs().sum()) for values in mean.residuals.values()], mean.stats


def timeouts(rank, world):
    """Of the default group, and of those that are made like it and like another one."""
    other = dist.new_group(backend="gloo", timeout=timedelta(seconds=47))
    return [timeout_of(group) for group in (dist.distributed_c10d._get_default_group(), Transport().group,
                                            Transport(like=other).group)]


def given_up(rank, world):
    """Rank 1 closes its connections: what rank 0 hears, and how long each call takes."""
    one = Transport()
    start = time.monotonic()
    said = one.abort() if rank else attempt(one.all_gather, memoryview(b"x"))[:2]
    return said, time.monotonic() - start


def summed(rank, world):
    """In bfloat16, which gloo of PyTorch 1 does not know."""
    tensor = torch.full((3,), 1.5 + rank, dtype=torch.bfloat16)
    return Transport().all_reduce(tensor), tensor.tolist()


def forked(rank, world):
    """What calls raise in a process that is forked while the thread exchanges."""
    mean = threelc.torch.AllReduce()
    begun, end = threading.Event(), threading.Event()

    def waits(*_):
        begun.set()
        end.wait(60)

    mean._means.run = waits
    tensor = torch.ones(4)
    future = mean.start("w", tensor)
    begun.wait(60)
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # ends it if it hangs
        calls = lambda: mean.stats, mean.state_dict, lambda: mean.start("v", tensor), lambda: mean("v", tensor)
        os.write(there, repr([attempt(call)[0] for call in calls]).encode())
        os._exit(0)
    os.close(there)
    found = os.read(here, 1000).decode()
    os.waitpid(child, 0)
    end.set()
    future.wait()
    return found


def started(rank, world):
    """As steps_of(), with all of a step under way at once, and one tensor by a call after them."""
    mean = threelc.torch.AllReduce(codec="3lc")
    last = {}
    for step in range(3):
        tensors = drawn(rank, step)
        futures = {name: mean.start(name, tensors[name]) for name in SHAPES if name != "more"}
        mean("more", tensors["more"])
        assert all(future.done() for future in futures.values())
        last = {name: (futures[name].wait() if name in futures else tensors[name]).view(-1).view(torch.uint8)
                .numpy().tobytes() for name in SHAPES}
    return last


def others(rank, world):
    """Tensors that no codec takes, that do not lie in one piece, of one value, and that belong to the graph."""
    mean = threelc.torch.AllReduce(codec="3lc", min_numel=1)
    double = mean("double", torch.full((30,), 0.1 + rank, dtype=torch.float64))
    across = torch.full((20, 30), float(1 + rank)).t()
    part = torch.full((4, 10), float(1 + rank))
    mean("across", across)
    mean("part", part[:, 2:5])
    scalar = mean("scalar", torch.tensor(float(rank)))
    trained = torch.nn.Parameter(torch.full((50,), float(1 + rank)))
    mean("trained", trained)
    return double, across, part, scalar, trained.detach(), mean.stats.sent


def nonfinite(rank, world, settings):
    """A NaN on rank 1 in the second step of three: what is said, which values arrive, and whether residuals are as they
    were, with what rank 0 would have sent."""
    mean = threelc.torch.AllReduce(codec="3lc", **settings)
    found = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(3):
            tensor = drawn(rank, step)["weight"]
            if step == 1 and rank == 1:
                tensor[3, 4] = float("nan")
            before = [values + (1 - rank) * drawn(rank, step)[name].view(-1) for name, values in mean.residuals.items()]
            said = attempt(mean, "weight", tensor)[:2]
            kept = step != 1 or torch.allclose(mean.residuals["weight"], before[0])
            found.append((said, bool(tensor.isnan().all()), bool(tensor.isfinite().all()), kept))
    return found, [str(w.message) for w in caught if "threelc" in str(w.message)]


def resumed(rank, world, settings, states=None, lost=False):
    """Three steps, then, from these states or the own one, three more: the states between, bits, and all that came out
    with what was left."""
    mean = threelc.torch.AllReduce(**settings)
    if states is None:
        averaged(mean, rank, range(3))
        states = copy.deepcopy(mean.state_dict())
        whole = averaged(mean, rank, range(3, 6))[1]
        mean = threelc.torch.AllReduce(**settings)
        mean.load_state_dict(states)
        return states, whole == averaged(mean, rank, range(3, 6))[1]
    mean.load_state_dict(states, lost)
    total, _ = averaged(mean, rank, range(3, 6))
    rest = mean.flush()
    return {name: total[name].view(-1) + rest.get(name, 0) for name in total}, mean.stats.sent


def unlike(rank, world, what):
    """Rank 1 does something else: what ranks raise."""
    mean = threelc.torch.AllReduce(codec="3lc-golomb" if rank and what == "codec" else "3lc")
    mean("one", torch.ones(300))
    mean("other" if rank and what == "name" else "one", torch.ones(500 if rank and what == "size" else 300))


def changed(rank, world, what):
    """A name that gets another tensor than before, and a call after that."""
    mean = threelc.torch.AllReduce()
    mean("one", torch.ones(300))
    found = [attempt(mean, "one", {"size": torch.ones(400), "dtype": torch.ones(300).half()}[what])[:2]]
    return found + [attempt(mean, "two", torch.ones(300))[:2]]


def refusals(rank, world):
    mean = threelc.torch.AllReduce()
    mean("one", torch.ones(300))
    bad = [("", torch.ones(3)), (3, torch.ones(3)), ("two", [1.0]), ("two", torch.ones(3, dtype=torch.int32)),
           ("two", torch.ones(3).to_sparse()), ("two", torch.ones(0))]
    return [attempt(mean, *each)[:2] for each in bad] + [attempt(mean.load_state_dict, mean.state_dict())[:2]]


def logged(rank, world):
    mean = threelc.torch.AllReduce(codec="3lc")
    mean.log_every(4)
    with mock.patch.object(logging.getLogger("threelc"), "info") as info:
        averaged(mean, rank, range(2))
    return [call.args[1:3] for call in info.call_args_list]


def at_rank_0(rank, world, way, states=None):
    """Trains, and gathers states; or goes on from what rank 0 has: the states it got, and the weights."""
    one = Way(way, groups=2) if way == "PushPull" else Way(way)
    if states is None:
        one.train(rank, range(3))
        own = one.state.state_dict()
        before = one.state.stats.sent
        gathered = gather_states(one.state)
        assert one.state.stats.sent == before
        return own, gathered
    found = scatter_states(one.state, states if rank == 0 else None)
    one.state.load_state_dict(found)
    return len(found), one.state.state_dict()["rank"], one.train(rank, range(3, 5))


def given(rank, world, way, states):
    one = Way(way)
    one.state.load_state_dict(states)
    return one.train(rank, range(3, 5))


def nothing_given(rank, world):
    scatter_states(threelc.torch.AllReduce(), None)


class AllReduce(Refusals):
    def test_a_fork_while_the_thread_exchanges(self):
        self.assertEqual(CLUSTER.run(1, forked), [repr(["RuntimeError"] * 4)])

    def test_timeouts(self):
        """They are those of the groups of a training."""
        default, own = timedelta(seconds=33), timedelta(seconds=47)
        self.assertEqual(CLUSTER.run(2, timeouts, timeout=33), 2 * [[default, default, own]])

    def test_a_rank_that_gives_up(self):
        """gloo gets a moment to let go of tensors before the exception comes, and before a group is closed."""
        ((kind, words), waited), (_, closed) = CLUSTER.run(2, given_up)
        self.assertEqual(kind, "RuntimeError")
        self.assertRegex(words, r"^rank 0 lost rank 1 [0-9.]+ s after an exchange began .* Gloo says: ")
        self.assertTrue(0.05 <= waited < 20 and 0.2 <= closed < 20, (waited, closed))

    def test_sums(self):
        self.assertEqual(CLUSTER.run(2, summed), 2 * [(6, 3 * [4.0])])

    def test_without_other_ranks(self):
        with self.assertRaisesRegex(RuntimeError, "there are no other ranks yet"):
            threelc.torch.AllReduce()

    def test_mean(self):
        """The same bits on all ranks. What comes out, and what is flushed, is all that went in; nothing is left."""
        for world in (2, 3):
            for settings in ({"codec": "3lc"}, {"codec": "3lc-golomb:s=1.75", "mode": "gather", "min_numel": 1},
                             {"codec": "raw"}, {"codec": "natural"}):
                found = CLUSTER.run(world, steps_of, settings, 3)
                for total, last, rest, held, left, stats in found:
                    self.assertEqual(last, found[0][1])
                    self.assertFalse(any(left))
                    names = {"raw": [], "natural": []}.get(settings["codec"], list(SHAPES))
                    self.assertEqual((sorted(held), sorted(rest)), (sorted(names), sorted(names)))
                    for name, tensor in wanted(world, range(3)).items():
                        if settings["codec"] != "natural":
                            torch.testing.assert_close(total[name].view(-1) + rest.get(name, 0), tensor.view(-1),
                                                       atol=5e-3 if name == "half" else 1e-5, rtol=1e-3)
                    self.assertGreater(stats.ratio, 0.5 if settings["codec"] == "raw" else 2)

    def test_started(self):
        """With the bits of calls that wait."""
        called = CLUSTER.run(2, steps_of, {"codec": "3lc"}, 3)
        self.assertEqual(CLUSTER.run(2, started), [last for _, last, *_ in called])

    def test_other_tensors(self):
        for double, across, part, scalar, trained, _ in CLUSTER.run(2, others):
            torch.testing.assert_close(double, torch.full((30,), 0.6, dtype=torch.float64), atol=1e-15, rtol=0)
            self.assertTrue(torch.equal(across, torch.full((30, 20), 1.5)))
            self.assertTrue(torch.equal(part[:, 2:5], torch.full((4, 3), 1.5)))
            self.assertFalse((part[:, :2] == 1.5).any() or (part[:, 5:] == 1.5).any())
            self.assertEqual(float(scalar), 0.5)
            self.assertTrue(torch.equal(trained, torch.full((50,), 1.5)))

    def test_moments(self):
        """Normalized gradients are near 1, whatever their size."""
        for total, *_ in CLUSTER.run(2, steps_of, {"codec": "raw", "second_moment": 0.5}, 1):
            self.assertTrue(((total["weight"].abs() - 1).abs().min() < 1e-6) and total["weight"].abs().max() < 1.01)

    def test_nonfinite(self):
        for rank, (found, said) in enumerate(CLUSTER.run(2, nonfinite, {})):
            self.assertEqual(found, [(("", ""), False, True, True), (("", ""), True, False, True),
                                     (("", ""), False, True, True)])
            self.assertEqual(len(said), 1)
            self.assertIn('rank 1: NaN or infinity in the gradient of tensor "weight"', said[0])
        for found, said in CLUSTER.run(2, nonfinite, {"on_nonfinite": "raise"}):
            self.assertEqual([each[0][0] for each in found], ["", "StepError", ""])
            self.assertTrue(found[1][3])
            self.assertEqual(said, [])

    def test_resumed(self):
        """As many ranks go on with the same bits; on others nothing is lost."""
        for settings in ({"codec": "3lc"}, {"codec": "3lc", "momentum_correction": 0.9, "second_moment": 0.95}):
            states, same = zip(*CLUSTER.run(2, resumed, settings))
            self.assertEqual(same, (True, True))
        states, _ = zip(*CLUSTER.run(2, resumed, {"codec": "3lc"}))
        left = {name: 0 for name in SHAPES}
        for world in (3, 1):
            for found, sent in CLUSTER.run(world, resumed, {"codec": "3lc"}, states):
                self.assertGreater(sent, 0)
                for name, tensor in wanted(world, range(3, 6)).items():
                    before = found[name] - tensor.view(-1)  # what was left of the first steps
                    left[name] = before if world == 3 else left[name]
                    torch.testing.assert_close(before, left[name], atol=5e-3, rtol=1e-3)
        self.assertTrue(all(tensor.any() for tensor in left.values()))
        self.refused(CLUSTER.outcomes(3, resumed, {"codec": "3lc"}, states[:1]), "ValueError", "rank")
        CLUSTER.run(3, resumed, {"codec": "3lc"}, states[:1], True)
        self.refused(CLUSTER.outcomes(2, resumed, {"codec": "raw"}, states), "ValueError", "codec='3lc'")

    def test_ranks_that_do_other_things(self):
        for what, words in (("codec", "push is '3lc-golomb' on rank 1 and '3lc' on rank 0"),
                            ("name", ""), ("size", "")):
            for outcome in CLUSTER.outcomes(2, unlike, what):
                self.assertIsInstance(outcome, Exception, what)
                self.assertIn(words, str(outcome))

    def test_changed(self):
        for what, words in (("size", "the gradient of one has 400 values, and had 300 before"),
                            ("dtype", "the gradient of one is of torch.float16, and was of another dtype before")):
            for found in CLUSTER.run(2, changed, what):
                self.assertEqual(found[0][0], "ValueError")
                self.assertIn(words, found[0][1])
                self.assertEqual(found[1][0], "RuntimeError")
                self.assertIn("the connections to the other ranks are closed", found[1][1])

    def test_refusals(self):
        for found in CLUSTER.run(2, refusals):
            for (kind, said), words in zip(found, (
                    "name should be the name of a tensor, not ''", "not 3", "should be a torch.Tensor, not a list",
                    "dense and of floating point, not torch.strided of torch.int32",
                    "dense and of floating point, not torch.sparse_coo", "the tensor two has no values",
                    "states are loaded before the first exchange")):
                self.assertIn(kind, ("TypeError", "ValueError"))
                self.assertIn(words, said)

    def test_log(self):
        lines = CLUSTER.run(2, logged)
        self.assertEqual(lines, [[("exchange", 4), ("exchange", 8)], []])


class RankZero(Refusals):
    def test_gathered(self):
        """Rank 0 has what the others have. Dealt out, each rank goes on as from its own, or from all of them."""
        for way in ("register", "LocalSteps", "ShardedOptimizer", "Gossip"):
            own, gathered = zip(*CLUSTER.run(2, at_rank_0, way))
            self.assertIsNone(gathered[1])
            self.assertEqual([state["rank"] for state in gathered[0]], [0, 1])
            wanted_bits = CLUSTER.run(2, given, way, list(own))
            for rank, (count, number, weights) in enumerate(CLUSTER.run(2, at_rank_0, way, gathered[0])):
                self.assertEqual((count, number), (1, rank))
                self.assertEqual(weights, wanted_bits[rank])
            three = CLUSTER.run(3, at_rank_0, way, gathered[0])
            self.assertEqual([weights for _, _, weights in three], CLUSTER.run(3, given, way, list(own)))

    def test_nothing_given(self):
        self.refused(CLUSTER.outcomes(2, nothing_given), "ValueError", "rank 0 has given no states")
