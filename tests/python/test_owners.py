# SPDX-License-Identifier: MIT
"""The parts of a model and their owners, without processes: who has which bucket, part and group, what of a state goes
where, what modules wait for, and that signals wait for steps."""
import math
import signal
import sys
import unittest
from types import SimpleNamespace

import torch

import fake_dist
import test_fsdp_state
import threelc
from outer_models import HAS_FSDP2
from test_owner_steps import push_pull, sharded
from thread_ranks import RanksTest
from threelc.torch import fsdp
from threelc.torch._common.module import Model
from threelc.torch._owners import owners, places
from threelc.torch._owners.bucket_states import states_of_servers
from threelc.torch._owners.buckets import in_buckets, spread
from threelc.torch._owners.overlap import Overlap
from threelc.torch._owners.param_groups import ParameterGroups

MIB = 2**18  # floats


class Buckets(unittest.TestCase):
    def test_who_is_in_which(self):
        """The last parameters come first. A bucket is full with its MiB, the first one with 1 MiB."""
        for sizes, bucket_mb, found in (
                ((5, 3, 4), None, ["abc"]),
                ((5, 3, 4), 25.0, ["abc"]),
                ((1, MIB, 2), 25.0, ["bc", "a"]),
                ((1, MIB), 25.0, ["b", "a"]),
                ((1, MIB - 1), 25.0, ["ab"]),
                ((1, 1, MIB, MIB, MIB), 2.0, ["e", "cd", "ab"]),
                ((1, 1, MIB - 1, MIB, MIB), 2.0, ["e", "bcd", "a"]),
                ((1, MIB // 2, MIB // 2 - 1, 1), 0.5, ["cd", "b", "a"]),
                ((1, MIB // 2, MIB // 2 - 2, 1), 0.5, ["bcd", "a"]),
                ((2, 2, 2, 2, 2), 9 / 2**20, ["de", "bc", "a"])):
            sizes = dict(zip("abcde", sizes))
            buckets = in_buckets(sizes, bucket_mb)
            self.assertEqual([list(bucket.items()) for bucket in buckets],
                             [[(name, sizes[name]) for name in names] for names in found], (sizes, bucket_mb))

    def test_spread(self):
        """Tensors of a bucket are split from the share of an owner on, but not below 4,096 values."""
        for servers, total, split in ((4, 100000, 25000), (3, 100000, 33333), (4, 100, 4096), (2, 2 * 4097, 4097),
                                      (2, 2 * 4097 - 1, 4096), (2, 2**20, 65536), (1, 65535, 65535)):
            config = threelc.exchange.Config(workers=4, servers=servers, seed=3)
            found = spread(config, {"one": total - 7, "other": 7})
            self.assertEqual((found.split_n, found.workers, found.servers, found.seed), (split, 4, servers, 3))


def state_of(rank, servers, at=(("w", 0, 2),), buckets=None):
    return {"rank": rank, "servers": servers, "places": [list(place) for place in at], "buckets": buckets}


class Places(unittest.TestCase):
    def test_states_of_servers(self):
        """A server needs its own state, or, where parts are others, those of all servers, in their order."""
        here = [("w", 0, 2)]
        one, two = [SimpleNamespace(names=["w"])], [SimpleNamespace(names=["w"]), SimpleNamespace(names=["v"])]
        both = [{"names": ("w",)}, {"names": ("v",)}]
        swapped = both[::-1]
        for states, servers, rank, buckets, found in (
                ([state_of(1, 2), state_of(0, 2)], 2, 1, one, [1]),
                ([state_of(1, 2)], 2, 1, one, [1]),
                ([state_of(2, 2), state_of(1, 2), state_of(0, 2)], 2, 0, one, [0]),
                ([state_of(2, 2), state_of(1, 2), state_of(0, 2)], 1, 0, one, [0, 1]),
                ([state_of(1, 2), state_of(0, 2)], 3, 2, one, [0, 1]),
                ([state_of(1, 2, [("w", 2, 2)]), state_of(0, 2)], 2, 1, one, [0, 1]),
                ([state_of(0, 1, buckets=both)], 1, 0, two, [0]),
                ([state_of(0, 2, buckets=swapped), state_of(1, 2, buckets=swapped)], 2, 1, two, [0, 1]),
                ([state_of(0, 2), state_of(1, 2)], 2, 1, two, [0, 1]),
                ([state_of(0, 2, buckets=both), state_of(1, 2, buckets=both)], 2, 1, one, [0, 1])):
            every = states_of_servers(states, servers, rank, buckets, here)
            self.assertEqual([state["rank"] for state in every], found, (states, servers, rank))

    def test_states_that_are_missing(self):
        here, one = [("w", 0, 2)], [SimpleNamespace(names=["w"])]
        two = [*one, SimpleNamespace(names=["v"])]
        for states, servers, rank, buckets, words in (
                ([state_of(0, 2)], 2, 1, one, "the state of server 1 is needed: it holds a part of the model"),
                ([state_of(0, 2)], 3, 1, one, "2 servers were saved, here are 3: the states of all are needed"),
                ([state_of(1, 2), state_of(2, 2)], 1, 0, one,
                 "2 servers were saved, here are 1: the states of all are needed"),
                ([state_of(1, 2)], 2, 1, two,
                 "2 servers were saved, here are 2, with other buckets: the states of all are needed")):
            with self.assertRaises(ValueError) as caught:
                states_of_servers(states, servers, rank, buckets, here)
            self.assertEqual(str(caught.exception), words)

    def test_values(self):
        """Of parts that are divided anew: each value once, in order, and a sentence about those that are missing."""
        saved = [(("w", 6, 4), torch.arange(6.0, 10)), (("v", 0, 2), torch.tensor([50.0, 51.0])),
                 (("w", 0, 6), torch.arange(6.0))]
        found = places.values_at([("w", 0, 10), ("w", 4, 3), ("v", 1, 1), ("w", 6, 4), ("w", 3, 0)], saved)
        self.assertEqual([values.tolist() for values in found],
                         [list(range(10)), [4, 5, 6], [51], [6, 7, 8, 9], []])
        self.assertEqual([values.dtype for values in places.values_at([("w", 0, 2)], [
            (("w", 0, 2), torch.ones(2, dtype=torch.float64))])], [torch.float64])
        for place, missing, name in ((("w", 7, 5), "10 to 11", "w"), (("u", 0, 3), "0 to 2", "u"),
                                     (("v", 1, 3), "2 to 3", "v")):
            with self.assertRaises(ValueError) as caught:
                places.values_at([place], saved)
            self.assertEqual(str(caught.exception), f"values {missing} of {name} are in no state")

    def test_optimizers(self):
        """What an optimizer keeps goes where values are now, with the settings of its groups; a part of which nothing
        was kept has no state, and values that a server had no state of are 0."""
        at = [("w", 0, 3), ("w", 3, 3), ("v", 0, 2)]
        parts = [torch.nn.Parameter(torch.zeros(n)) for _, _, n in at]
        optimizer = torch.optim.SGD([{"params": parts[:1]}, {"params": parts[1:]}], 0.1, momentum=0.5)
        groups = [{"lr": 7.0, "momentum": 0.25}, {"lr": 8.0, "momentum": 0.5}]
        step = torch.tensor(4.0)
        saved = [([("w", 0, 4)], {"parts": [{"m": torch.arange(4.0), "step": step, "none": None}], "groups": groups}),
                 ([("w", 4, 2), ("v", 0, 2)], {"parts": [{}, {}], "groups": [{}, {}]})]
        found = places.optimizer_for(optimizer, parts, at, saved)
        self.assertEqual(found["param_groups"], [{**groups[0], "params": [0]}, {**groups[1], "params": [1, 2]}])
        self.assertEqual({i: state["m"].tolist() for i, state in found["state"].items()}, {0: [0, 1, 2], 1: [3, 0, 0]})
        self.assertEqual([(float(state["step"]), state["none"]) for state in found["state"].values()], 2 * [(4, None)])
        self.assertEqual(len({state["step"].data_ptr() for state in found["state"].values()} | {step.data_ptr()}), 3)
        saved[0][1]["groups"] = groups[:1]
        with self.assertRaises(ValueError) as caught:
            places.optimizer_for(optimizer, parts, at, saved)
        self.assertEqual(str(caught.exception), "an optimizer of 1 groups was saved, this one has 2")

    def test_a_copy(self):
        """What is saved of an optimizer stays what it was."""
        part, other = (torch.nn.Parameter(torch.zeros(3)) for _ in range(2))
        optimizer = torch.optim.SGD([part, other], 0.1, momentum=0.5)
        part.grad = torch.ones(3)
        optimizer.step()
        found = places.optimizer_state(optimizer, [other, part])
        optimizer.step()
        self.assertEqual(list(found), ["parts", "groups"])
        self.assertEqual([len(state) for state in found["parts"]], [0, 1])
        self.assertEqual(found["parts"][1]["momentum_buffer"].tolist(), [1, 1, 1])
        (group,) = found["groups"]
        self.assertEqual(({"params"} & {*group}, group["lr"], group["momentum"]), (set(), 0.1, 0.5))


class Groups(unittest.TestCase):
    def setUp(self):
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
        self.net[1].bias.requires_grad_(False)
        self.model = Model(self.net, "the test")
        (self.first, self.bias, self.second, self.frozen) = self.net.parameters()

    def test_what_is_refused(self):
        twin = torch.nn.Parameter(torch.zeros(1))
        for groups, kind, words in (
                ([{"params": [self.first]}, self.bias], TypeError,
                 "groups[1] should be a dict with the entry 'params', not a Parameter"),
                ([{"param": [self.first]}], TypeError,
                 "groups[0] should be a dict with the entry 'params', not a dict"),
                ([3], TypeError, "groups[0] should be a dict with the entry 'params', not 3"),
                ([{"params": self.first}, {"params": [self.bias, twin]}], ValueError,
                 "groups[1] has a parameter that is not the model's"),
                ([{"params": self.first}, {"params": [self.bias, self.first]}], ValueError,
                 "parameter 0.weight is in the groups twice"),
                ([{"params": [self.first, self.first]}], ValueError, "parameter 0.weight is in the groups twice"),
                ([{"params": self.first}, {"params": self.second}], ValueError,
                 "parameter 0.bias is in none of the groups, so it would never be trained: add it to one, or freeze it "
                 "with requires_grad_(False)")):
            with self.assertRaises(kind) as caught:
                ParameterGroups(groups, self.model)
            self.assertEqual(str(caught.exception), words)

    def test_parts(self):
        """Each group has its parts and options, those of frozen parameters, too. One without parts has one without
        values."""
        parts = [(name, torch.nn.Parameter(torch.ones(2))) for name in ("0.weight", "1.weight", "0.weight")]
        none = ParameterGroups(None, self.model)
        self.assertIsNone(none.summary())
        groups, every = none.of(parts)
        self.assertEqual([[id(part) for part in found] for found in (groups, every)], 2 * [[id(p) for _, p in parts]])
        (empty,), every = none.of([])
        self.assertEqual(([id(part) for part in every], empty.shape, empty.requires_grad), ([id(empty)], (0,), True))
        some = ParameterGroups([{"params": self.first, "lr": 3}, {"lr": 4, "params": (p for p in [self.bias])},
                                {"weight_decay": 1, "params": [self.second, self.frozen], "lr": 5}], self.model)
        groups, every = some.of(parts)
        self.assertEqual([{**group, "params": [id(part) for part in group["params"]]} for group in groups],
                         [{"params": [id(parts[0][1]), id(parts[2][1])], "lr": 3}, {"params": [id(every[2])], "lr": 4},
                          {"params": [id(parts[1][1])], "lr": 5, "weight_decay": 1}])
        self.assertEqual([part.numel() for part in every], [2, 2, 0, 2])
        self.assertRegex("; ".join(some.summary()),
                         r"^1 parameters \([0-9a-f]{8}\), \[\('lr', 3\)\]; 1 parameters \([0-9a-f]{8}\), "
                         r"\[\('lr', 4\)\]; 2 parameters \([0-9a-f]{8}\), \[\('lr', 5\), \('weight_decay', 1\)\]$")
        self.assertEqual(len({*some.summary()}), 3)


class Nested(torch.nn.Module):
    """The parameter of `read` is read where it is not called; `called` is called."""

    def __init__(self):
        super().__init__()
        self.own = torch.nn.Parameter(torch.ones(2))
        self.read, self.called = torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.called(torch.nn.functional.linear(x * self.own, self.read.weight))


class Watcher:
    def __init__(self):
        self.asked, self.filled = [], []

    def needed(self, names):
        self.asked.append(names)

    def full(self, i):
        self.filled.append(i)


class Overlaps(unittest.TestCase):
    def made(self):
        model, watcher = Nested(), Watcher()
        watch = Overlap(Model(model, "the test"), [["called.bias"], ["called.weight", "own"], ["read.weight"]],
                        watcher.needed, watcher.full)
        return model, watcher, watch

    def test_what_modules_read(self):
        """The parameters of modules that are not called count as read by the one around them; without gradients, at
        the end of forward(), and in states, all do."""
        model, watcher, watch = self.made()
        called = {"called.weight", "called.bias"}
        for outer in ({"own", "read.weight"} | called, {"own", "read.weight"}, {"own", "read.weight"}):
            model(torch.ones(2))
            self.assertEqual(watcher.asked, [outer, called, None])
            watcher.asked.clear()
        for run in (lambda: model.eval()(torch.ones(2)), lambda: torch.no_grad()(model.train())(torch.ones(2))):
            run()
            self.assertEqual(watcher.asked, [None, None, None])
            watcher.asked.clear()
        model.load_state_dict(model.state_dict())
        self.assertEqual(watcher.asked, [None, None])
        watcher.asked.clear()
        del watch
        model(torch.ones(2)).sum().backward()
        self.assertEqual((watcher.asked, watcher.filled), ([], []))

    def test_buckets_are_full(self):
        """In their order, once in a step, with the last gradient of each; those under accumulating() are not the
        last."""
        model, watcher, watch = self.made()
        for _ in range(2):
            with watch.accumulating():
                with watch.accumulating():
                    pass
                model(torch.ones(2)).sum().backward()
            self.assertEqual(watcher.filled, [])
            model(torch.ones(2)).sum().backward()
            self.assertEqual(watcher.filled, [0, 1, 2])
            with self.assertRaisesRegex(RuntimeError, r"^a second gradient of (own|called\.bias|called\.weight|read\."
                                        r"weight) came before step\(\), when the first was on its way: with overlap="
                                        r"True all backward passes of a step but the last go into `with optimizer\."
                                        r"no_sync\(\):`$"):
                model(torch.ones(2)).sum().backward()
            self.assertEqual(watcher.filled, [0, 1, 2])
            watcher.filled.clear()
            watch.begin()
        # a bucket that is full waits for those before it
        model.own.sum().backward()
        model.read.weight.sum().backward()
        self.assertEqual(watcher.filled, [])
        model.called(torch.ones(2)).sum().backward()
        self.assertEqual(watcher.filled, [0, 1, 2])


# ---- trainings that overlap ----

class Layers(torch.nn.Sequential):
    """Each parameter is a bucket where these are small."""

    def __init__(self):
        super().__init__(*(torch.nn.Linear(20, 20) for _ in range(3)))
        with torch.no_grad():
            for i, parameter in enumerate(self.parameters(), 1):
                parameter.copy_(torch.arange(parameter.numel()).view(parameter.shape) % 7 / (10.0 * i))
        self.register_buffer("seen", torch.zeros(3))

    def lose(self, rank, step):
        x = 1 + torch.arange(60.0).view(3, 20) * (1 + rank) % (5 + step)
        self(x / 50).pow(2).mean().backward()


class Trainings(RanksTest):
    def test_bits(self):
        """In buckets of any size, and in one, the model is that without overlap, whoever owns what; norms are, too."""
        def train(rank, overlap, bucket_mb, codec, max_norm):
            model = Layers()
            optimizer = sharded(model, codec=codec, overlap=overlap, bucket_mb=bucket_mb, max_norm=max_norm)
            norms = []
            for step in range(4):
                optimizer.zero_grad()
                with optimizer.no_sync():
                    model.lose(rank, 2 * step)
                model.lose(rank, 2 * step + 1)
                optimizer.step()
                norms.append(optimizer.grad_norm and round(optimizer.grad_norm, 4))
            optimizer.ready()
            stats = optimizer.stats
            return [p.detach().numpy().tobytes() for p in model.parameters()], norms, stats.steps, stats.float_bytes

        for codec, limit, sizes in (("raw", None, (1e-6, 0.0015, 9.0)), ("raw", 0.3, (1e-6,)), ("3lc", None, (9.0,))):
            whole = self.on(3, lambda rank: train(rank, False, 9.0, codec, limit))
            self.assertEqual(whole[0], whole[2])
            for bucket_mb in sizes:
                self.assertEqual(self.on(3, lambda rank: train(rank, True, bucket_mb, codec, limit)), whole)

    def test_who_owns_what(self):
        """The largest tensors of buckets go to one rank after the other; with overlap smaller ones are divided."""
        def own(rank, model, **settings):
            optimizer = sharded(model, bucket_mb=1e-6, **settings)
            return sum(n for _, _, n in optimizer.state_dict()["places"])

        self.assertEqual(self.on(3, lambda rank: own(rank, Layers(), overlap=True)), 3 * [420])
        wide = [torch.nn.Linear(50, 300, bias=False) for _ in range(3)]
        self.assertEqual(self.on(3, lambda rank: own(rank, wide[rank])), [15000, 0, 0])
        self.assertEqual(self.on(3, lambda rank: own(rank, wide[rank], overlap=True)),
                         [5008, 5008, 4984])

    def test_flush(self):
        """Also of a tensor that is divided among owners all that gradients held is in the weights."""
        given = torch.arange(15000.0).view(300, 50) % 13

        def train(rank):
            model = torch.nn.Linear(50, 300, bias=False)
            torch.nn.init.zeros_(model.weight)
            optimizer = sharded(model, codec="3lc:s=1.9", overlap=True, bucket_mb=1e-6)
            (model.weight * (given + rank)).sum().backward()
            optimizer.step()
            optimizer.flush()
            return model.weight.detach()

        for weight in self.on(3, train):
            torch.testing.assert_close(weight, -0.5 * (given + 1), atol=1e-4, rtol=0)

    def test_what_modules_find(self):
        """Buffers of rank 0 and the parameters of a module are there before it computes."""
        def train(rank):
            model, found = Layers(), []
            optimizer = sharded(model, overlap=True, bucket_mb=1e-6, buffers="first")
            model[0].register_forward_pre_hook(lambda module, inputs: found.append(
                (model.seen.tolist(), module.weight[0, 0].item(), module.bias[0].item())))
            for step in range(3):
                optimizer.zero_grad()
                model.lose(rank, step)
                model.seen += 1 + rank
                optimizer.step()
            return found, [model[0].weight[0, 0].item(), model[0].bias[0].item()], optimizer.ready()

        (found, end, _), other = self.on(2, train)
        self.assertEqual((found, end), other[:2])
        self.assertEqual([seen for seen, _, _ in found], [[step] * 3 for step in range(3)])
        self.assertEqual(len({weight for _, weight, _ in found}), 3)
        self.assertEqual(len({bias for _, _, bias in found}), 3)

    def test_steps_that_fail(self):
        """The next call that waits tells of it, once, whichever it is. One bucket that is not finite is left out alone
        on a rank, and fails the step on all."""
        def train(rank, call):
            model = Layers()
            optimizer = sharded(model, codec="3lc", overlap=True, bucket_mb=1e-6)
            model.lose(rank, 0)
            before = model[1].bias.detach().clone()
            model[1].bias.grad[3] = math.nan  # this late it has left
            optimizer.step()
            optimizer.ready()
            self.assertFalse(torch.equal(model[1].bias, before))
            before = [p.detach().clone() for p in model.parameters()]
            handle = model[1].bias.register_hook(lambda gradient: gradient * math.nan)
            model.lose(rank, 1)
            handle.remove()
            if call == "early":
                self.raises(threelc.OrderError, "gradients of this step are on their way: call step() first",
                            optimizer.flush)
            optimizer.step()
            if call != "early":
                with self.assertRaisesRegex(threelc.StepError, "NaN or infinity"):
                    getattr(optimizer, call)()
                optimizer.ready()
                changed = [not torch.equal(p, old) for p, old in zip(model.parameters(), before)]
                self.assertEqual(changed, [True, True, True, False, True, True])
            return optimizer.stats.steps, optimizer.stats.failed

        for call in "step", "ready", "flush", "state_dict", "early":
            found = self.on(2, lambda rank: train(rank, call) if call != "step" else (2, 1))
            self.assertEqual(found, 2 * [(2, 1)] if call != "early" else found)


# ---- signals ----

def handled_inside(call, path):
    """Whether the handler of a signal, which comes with the first call of a function of a file, runs while one of that
    file does. None: it does not run."""
    found, old = [], sys.getprofile()

    def handle(number, frame):
        inside = False
        while frame is not None:
            inside |= frame.f_code.co_filename == path
            frame = frame.f_back
        found.append(inside)

    def look(frame, event, argument):
        if event == "call" and frame.f_code.co_filename == path:
            sys.setprofile(old)
            signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, handle)
    try:
        sys.setprofile(look)
        call()
    finally:
        sys.setprofile(old)
        signal.signal(signal.SIGTERM, before)
    return found[0] if found else None


class Signals(RanksTest):
    """In a world of one rank, in the main thread."""

    def setUp(self):
        fake_dist._OWN.default = fake_dist.Group(fake_dist.Network(1), -1, 0)
        self.addCleanup(delattr, fake_dist._OWN, "default")

    def test_owners(self):
        for make, settings in ((push_pull, {}), (sharded, {"overlap": True})):
            model = Layers()
            optimizer = make(model, **settings)
            model.lose(0, 0)
            for name in "step", "ready", "flush", "state_dict":
                if hasattr(optimizer, name):
                    self.assertIs(handled_inside(getattr(optimizer, name), owners.__file__), False, name)
            state = optimizer.state_dict()
            self.assertIs(handled_inside(lambda: optimizer.load_state_dict(state), owners.__file__), False)
            self.assertIs(handled_inside(lambda: optimizer.grad_norm, owners.__file__), True)

    @unittest.skipUnless(HAS_FSDP2, "PyTorch has no FSDP2 that runs on CPUs")
    def test_fsdp(self):
        _, state = test_fsdp_state.made()
        self.assertIs(handled_inside(lambda: state.reduce("first", torch.ones(28)), fsdp.__file__), False)
        self.assertIs(handled_inside(state.flush, fsdp.__file__), False)


if __name__ == "__main__":
    unittest.main()
