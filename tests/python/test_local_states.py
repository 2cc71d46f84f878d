# SPDX-License-Identifier: MIT
"""Local steps on ranks of one process: arguments, states, the model that all have in common, buffers,
momentum, shards. Signals,
which wait for the end of a call, as in gossip."""
import copy
import inspect
import itertools
import math
import signal
import unittest

import threelc
import threelc.torch
import torch
from device_frames import counted
from thread_ranks import Layers, RanksTest, local_steps, mesh, sgd, sharded


class Arguments(RanksTest):
    def test_defaults(self):
        """What one may leave out."""
        given = {"outer": None, "fragments": 1, "pattern": "strided", "delay": 0, "mix": 0.0, "codec": "3lc",
                 "pull": None, "mode": "gather", "warmup_rounds": 0, "participants": None, "error_reset": 1.0,
                 "residual_decay": 1.0, "mask_momentum": False, "average_buffers": True, "min_numel": 256,
                 "on_nonfinite": "raise", "compare_every": 10, "seed": 0, "threads": None, "quantize": "host",
                 "residual_dtype": torch.float32, "process_group": None}
        found = {name: parameter.default for name, parameter in
                 inspect.signature(threelc.torch.LocalSteps).parameters.items()
                 if parameter.default is not inspect.Parameter.empty}
        self.assertEqual(found, given)
        self.assertEqual({name: type(value) for name, value in found.items()},
                         {name: type(value) for name, value in given.items()})

    def test_limits(self):
        """What is just allowed, and what no more, with the whole sentence."""
        for name, right, wrong, sentence in (
                ("mix", (0, 0.0, 0.999), (1, 1.0, -0.001, True, "1", None), "from 0 to below 1"),
                ("residual_decay", (0, 0.0, 1, 1.0), (1.001, -0.001, "1", None), "from 0 to 1"),
                ("error_reset", (0, 0.0, 1, 1.0), (1.001, -0.001, "1", None), "from 0 to 1")):
            for value in right:
                self.on(1, lambda rank: local_steps(Layers(3), **{name: value}))
            for value in wrong:
                self.refused(1, lambda rank: local_steps(Layers(3), **{name: value}), "ValueError",
                             f"{name} should be {sentence}, not {value!r}")
        for settings, sentence in (
                ({"delay": -1}, "delay should be at least 0, not -1"),
                ({"warmup_rounds": -1}, "warmup_rounds should be at least 0, not -1"),
                ({"every": 0}, "every should be at least 1, not 0"),
                ({"every": 1, "delay": 1}, "every should be at least 2, not 1"),
                ({"every": 2, "delay": 2}, "every should be at least 3, not 2"),
                ({"every": 3, "delay": 3}, "every should be at least 4, not 3"),
                ({"every": 1, "fragments": 2}, "every should be at least 2, not 1"),
                ({"participants": 0}, "participants should be from 1 to 1, not 0"),
                ({"participants": 2}, "participants should be from 1 to 1, not 2"),
                ({"compare_every": -1}, "compare_every should be at least 0, not -1"),
                ({"min_numel": 2**62 + 1}, f"min_numel should be at most {2**62}, not {2**62 + 1}"),
                ({"threads": 2**16}, "threads should be at most 65535, not 65536"),
                ({"mask_momentum": True, "every": 2, "delay": 1, "momentum": 0.9},
                 "mask_momentum masks momentum where a value was sent in this step, so delay should be 0, not 1")):
            def make(rank):
                model, given = Layers(3, 3), dict(settings)
                local_steps(model, sgd(model, momentum=given.pop("momentum", 0.0)), **given)
            self.refused(1, make, "ValueError", sentence)
        for settings in ({"every": 3, "delay": 2}, {"every": 2, "fragments": 2}, {"participants": 1},
                         {"compare_every": 0}, {"min_numel": 2**62}, {"threads": 2}, {"seed": 2**64 - 1}):
            self.on(1, lambda rank: local_steps(Layers(3, 3), **settings))
        self.refused(1, lambda rank: local_steps(Layers(3), None, 3), "TypeError",
                     "outer should be a function of a list of parameters that makes an optimizer, such as lambda p: "
                     "torch.optim.SGD(p, lr=0.7, momentum=0.9, nesterov=True), not 3")

    def test_the_first_step(self):
        """It refuses weights that were loaded after the start; later ones are local changes."""
        def train(rank, steps):
            model = Layers(2)
            optimizer = local_steps(model, every=3)
            for _ in range(steps):
                optimizer.step()
            model.layers[0].weight.data.fill_(1.0)
            optimizer.step()
        self.refused(1, lambda rank: train(rank, 0), "ValueError",
                     "parameter layers.0.weight has other values than those from which all ranks began: load weights "
                     "before LocalSteps is made; with a checkpoint of LocalSteps, load its state_dict(), too")
        self.on(1, lambda rank: train(rank, 1))

    def test_every(self):
        def change(rank):
            optimizer = local_steps(Layers(3, 3), every=6, fragments=2, delay=2)
            with self.assertRaisesRegex(ValueError, "^every should be at least 3, not 2$"):
                optimizer.every = 2
            optimizer.every = 3
            with self.assertRaisesRegex(ValueError, "^weight should be from 2\\^-50 to 2\\^50, not 0.0$"):
                optimizer.weight = 0
            optimizer.weight = 2
            return optimizer.every, optimizer.weight
        self.assertEqual(self.on(1, change), [(3, 2.0)])

    def test_all_ranks_alike(self):
        """Each setting that all ranks need alike."""
        for name, here, there in (
                ("codec", "raw", "3lc"), ("pull", None, "raw"), ("mode", "gather", "sharded"), ("every", 6, 7),
                ("fragments", 1, 2), ("delay", 0, 1), ("mix", 0.0, 0.5), ("warmup_rounds", 0, 1),
                ("participants", None, 2), ("error_reset", 1.0, 0.5), ("residual_decay", 1.0, 0.5),
                ("average_buffers", True, False), ("min_numel", 1, 2), ("seed", 0, 1),
                ("on_nonfinite", "raise", "skip"), ("compare_every", 10, 0)):
            def make(rank):
                local_steps(Layers(30, 30), **{"every": 6, name: there if rank else here})
            for how, error in self.ends(2, make):
                self.assertEqual((how, type(error).__name__), ("raised", "ValueError"), name)
                self.assertIn(name, str(error))
        for how, error in self.ends(2, lambda rank: local_steps(Layers(3), None, [None, sgd][rank] and
                                                                (lambda p: torch.optim.SGD(p, 1.0)))):
            self.assertEqual((how, type(error).__name__), ("raised", "ValueError"))
            self.assertIn("outer", str(error))

    def test_fragments_alike(self):
        names = [["layers.0", "layers.1"], ["layers.2"]], [["layers.0"], ["layers.1", "layers.2"]]
        self.refused(2, lambda rank: local_steps(Layers(3, 3, 3), every=2, fragments=names[rank]), "ValueError",
                     "all ranks need the same model: layers.1.weight in fragment 1 on rank 1 is layers.1.weight in "
                     "fragment 0 on rank 0")

    def test_where_it_is(self):
        """quantize="device" compresses where the model is, here on the CPU, with the same bits."""
        bits = []
        for quantize in "host", "device":
            models = [Layers(300) for _ in range(2)]

            def train(rank):
                optimizer = local_steps(models[rank], codec="3lc", quantize=quantize)
                for step in range(3):
                    models[rank].move(torch.linspace(-1, rank + step, 300))
                    optimizer.step()
                return models[rank].values()
            with counted() as frames:
                bits.append(self.on(2, train))
            self.assertEqual(frames()[0], {"host": 0, "device": 6}[quantize])
        self.assertEqual(*bits)


class States(RanksTest):
    def test_going_on(self):
        """With the same bits and counts, in the middle of a round, too."""
        draw = torch.Generator().manual_seed(5)
        moves = torch.randn(9, 2, 200, generator=draw)
        settings = {"codec": "3lc", "every": 4, "fragments": 2, "delay": 2, "error_reset": 0.5, "min_numel": 50}

        def outer(parameters):
            return torch.optim.SGD(parameters, 0.7, momentum=0.9)

        for saved_after in 3, 5:
            models = [[Layers(100, 100) for _ in range(2)] for _ in range(2)]

            def train(rank):
                one, two = models[rank]
                optimizer = local_steps(one, None, outer, **settings)
                for step in range(9):
                    if step == saved_after:
                        state, weights = optimizer.state_dict(), copy.deepcopy(one.state_dict())
                        counts = optimizer.stats
                    one.move(*moves[step, rank].split(100))
                    optimizer.step()
                other = local_steps(two, None, outer, **settings)
                two.load_state_dict(weights)
                other.load_state_dict(state)
                for name in ("sent", "received", "codec_seconds", "wire_seconds", "steps", "rounds", "residual_norms"):
                    self.assertEqual(getattr(other.stats, name), getattr(counts, name), name)
                for step in range(saved_after, 9):
                    two.move(*moves[step, rank].split(100))
                    other.step()
                self.assertEqual(two.values(), one.values())
                for name in ("steps", "rounds", "float_bytes", "residual_norms", "largest_round", "skipped"):
                    self.assertEqual(getattr(other.stats, name), getattr(optimizer.stats, name), name)
            self.on(2, train)

    def test_skipped_are_counted(self):
        def train(rank):
            model = Layers(30)
            optimizer = local_steps(model, codec="3lc", on_nonfinite="skip")
            for change in math.nan, 1.0, 1.0:
                model.move(change)
                optimizer.step()
            other = local_steps(Layers(30), codec="3lc", on_nonfinite="skip")
            other.load_state_dict(optimizer.state_dict())
            return other.stats.steps, other.stats.rounds, other.stats.skipped
        self.assertEqual(self.on(1, train), [(3, 3, 1)])

    def test_weights_after_a_round(self):
        """Of a state from the end of a round they are what it left, whichever the model has; after a local step the
        caller's are right."""
        def train(rank):
            model, other = Layers(30), Layers(30)
            optimizer = local_steps(model, codec="3lc", every=2)
            found = []
            for step in range(3):
                model.move(torch.linspace(-1, 2, 30))
                optimizer.step()
                if step:
                    again = local_steps(other, codec="3lc", every=2)
                    with torch.no_grad():
                        other.layers[0].weight.fill_(9.0)
                    again.load_state_dict(optimizer.state_dict())
                    found.append(other.values() == model.values())
                    other.load_state_dict({name: torch.zeros(30) for name, _ in other.named_parameters()})
            return found
        self.assertEqual(self.on(1, train), [[True, False]])

    def test_what_does_not_fit(self):
        """The whole sentence, and nothing has changed."""
        def check(rank):
            def outer(parameters):
                return torch.optim.SGD(parameters, 1.0)

            def made(shapes=(30, 20), outer=None, model=None):
                return local_steps(model or Layers(*shapes), None, outer, codec="3lc")

            one, plain = made(outer=outer), made()
            one.step()
            with_outer, without, before = one.state_dict(), plain.state_dict(), plain.state_dict()
            anchors = without["anchors"]
            for state, words in (
                    ({**without, "shard": "shard1"}, "the state is of shard1, and this rank has all of the model"),
                    (with_outer, "the state is of a run with an outer optimizer, and this one is not"),
                    ({**without, "anchors": {"layers.0.weight": anchors["layers.0.weight"]}},
                     "layers.1.weight of 20 values is not in the state"),
                    ({**without, "anchors": {**anchors, "layers.1.weight": torch.zeros(21)}},
                     "layers.1.weight of 20 values is not in the state")):
                with self.assertRaises(ValueError) as caught:
                    plain.load_state_dict(state)
                self.assertEqual(str(caught.exception), words)
            with self.assertRaisesRegex(ValueError, "^the state is of a run without an outer optimizer, and this one "
                                                    "is not$"):
                one.load_state_dict(without)
            with self.assertRaisesRegex(ValueError, "^the state does not fit SGD: "):
                one.load_state_dict({**with_outer, "outer": {"state": {}, "param_groups": []}})
            more = made((30, 20, 5)).state_dict()
            with self.assertRaisesRegex(ValueError, "that no trained parameter has here: layers.2.weight \\(1 in "):
                plain.load_state_dict(more)
            self.assertEqual(str(plain.state_dict()), str(before))
            plain.load_state_dict({**without, "shard": None})
            plain.load_state_dict(more, lost=True)
            return True
        self.assertEqual(self.on(1, check), [True])

    def test_on_fewer_ranks(self):
        """Counts are those of all, and the largest round that of any."""
        models = [Layers(30, 300) for _ in range(2)]

        def train(rank):
            optimizer = local_steps(models[rank], codec="3lc", every=2, fragments=2)
            for _ in range(2):
                models[rank].move(torch.linspace(-1, rank, 30), 1.0)
                optimizer.step()
            return optimizer.state_dict()

        first, second = self.on(2, train)
        second["largest_round"] += 7

        def load(rank):
            optimizer = local_steps(Layers(30, 300), codec="3lc", every=2, fragments=2)
            optimizer.load_state_dict([first, second])
            stats, residuals = optimizer.stats, optimizer.residuals
            self.assertEqual((stats.sent, stats.largest_round, stats.steps), (
                first["traffic"]["sent"] + second["traffic"]["sent"], second["largest_round"], 2))
            self.assertEqual(optimizer.state_dict()["fragments"][0]["at_start"], True)
            return residuals
        self.on(1, load)


class Common(RanksTest):
    def test_common_model(self):
        """Whatever happens inside, weights are this rank's afterwards, bit for bit."""
        models = [Layers(3, dtype=torch.bfloat16) for _ in range(2)]

        def train(rank):
            model = models[rank]
            optimizer = local_steps(model, every=2)
            for _ in range(3):
                model.move(0.3 + rank)
                optimizer.step()
            before = model.values()
            with self.assertRaises(KeyError), optimizer.common_model():
                common = model.values()
                with torch.no_grad():
                    model.layers[0].weight.fill_(7)
                raise KeyError
            return before == model.values() != common
        self.assertEqual(self.on(2, train), [True, True])

    def test_rounded(self):
        """A parameter of bfloat16 is the common model, rounded once; what rounding took away is no change."""
        models = [Layers(1, dtype=torch.bfloat16) for _ in range(2)]

        def train(rank):
            model = models[rank]
            with torch.no_grad():
                model.layers[0].weight.fill_(1.0)
            optimizer, found = local_steps(model), []
            for step in range(4):
                model.move(2.0**-7 if rank and step < 2 else 0.0)
                optimizer.step()
                found.append((float(optimizer._anchors["layers.0.weight"].detach()), model.values()[0][0]))
            return found
        eighth = 2.0**-8
        wanted = [(1 + eighth, 1.0), (1 + 2 * eighth, 1 + 2 * eighth)] + [(1 + 2 * eighth, 1 + 2 * eighth)] * 2
        self.assertEqual(self.on(2, train), [wanted, wanted])

    def test_buffers(self):
        """Those of all ranks go with the last fragment, as they were when its round began; else each keeps its own."""
        for average, delay in (True, 0), (True, 1), (False, 0):
            models = [Layers(3, 3) for _ in range(2)]
            for model in models:
                model.register_buffer("mean", torch.zeros(2))

            def train(rank):
                model, found = models[rank], []
                optimizer = local_steps(model, every=4, fragments=2, average_buffers=average, delay=delay, mix=0.5)
                for _ in range(6):
                    model.mean += 1.0 + rank
                    optimizer.step()
                    found.append(model.mean.tolist()[0])
                return found, optimizer.stats.float_bytes

            (one, floats), (other, _) = self.on(2, train)
            # after step 4 they are 4 and 8; mixed one half with the mean 6, when the round ends
            wanted = {(True, 0): ([1, 2, 3, 5, 6, 7], [2, 4, 6, 7, 9, 11]),
                      (True, 1): ([1, 2, 3, 4, 5.5, 6.5], [2, 4, 6, 8, 8, 10]),
                      (False, 0): ([1, 2, 3, 4, 5, 6], [2, 4, 6, 8, 10, 12])}[average, delay]
            self.assertEqual((one, other), wanted)
            self.assertEqual(floats, 3 * 12 + 8 * average)


class Momentum(RanksTest):
    def test_masked_where_sent(self):
        """In rounds of the codec, on ranks that take part; not where there is none."""
        kinds = {"SGD": ("momentum_buffer", lambda model: sgd(model, momentum=0.5)),
                 "Adam": ("exp_avg", lambda model: torch.optim.Adam(model.parameters(), betas=(0.5, 0.9)))}
        for (name, make), settings in itertools.product(kinds.values(), ({}, {"warmup_rounds": 1},
                                                                        {"participants": 1}, {"mask_momentum": False})):
            models = [Layers(100, 100) for _ in range(2)]

            def train(rank):
                model, zeros = models[rank], []
                model.layers[1].weight.requires_grad_(False)
                inner = make(model)
                optimizer = local_steps(model, inner, codec="sbc:p=0.05",
                                        **{"mask_momentum": True, "error_reset": 0, **settings})
                for _ in range(2):
                    part = optimizer.participates
                    model.layers[0].weight.grad = torch.linspace(1, 2, 100)
                    before = optimizer._anchors["layers.0.weight"].detach().clone()
                    optimizer.step()
                    moved = optimizer._anchors["layers.0.weight"].detach() != before
                    zero = inner.state[model.layers[0].weight][name] == 0
                    self.assertTrue(moved[zero].all())
                    zeros.append((part, int(zero.sum()), int(moved.sum())))
                return zeros

            for first, second in self.on(2, train):
                dense = settings.get("warmup_rounds") == 1
                masks = settings.get("mask_momentum", True)
                self.assertEqual(first[1:], (5 if first[0] and masks and not dense else 0, 100 if dense else 5))
                self.assertEqual(second[1], 5 if second[0] and masks else 0)

    def test_who_has_none(self):
        """An optimizer without momentum is refused, and one that keeps it elsewhere."""
        for made, name, has in ((lambda p: torch.optim.SGD(p, 1.0), "SGD", False),
                                (lambda p: torch.optim.SGD(p, 1.0, momentum=0.5), "SGD", True),
                                (lambda p: torch.optim.Adam(p, betas=(0.0, 0.9)), "Adam", False),
                                (lambda p: torch.optim.Adam(p, betas=(0.9, 0.0)), "Adam", True),
                                (lambda p: torch.optim.Adagrad(p), "Adagrad", False),
                                (lambda p: torch.optim.SGD([{"params": p[:1]}, {"params": p[1:], "momentum": 0.9}],
                                                           1.0), "SGD", True)):
            def make(rank):
                model = Layers(30, 30)
                optimizer = local_steps(model, made([*model.parameters()]), codec="3lc", mask_momentum=True)
                for _ in range(2):
                    model.move(torch.linspace(0, 1, 30), 1.0)
                    optimizer.step()
            if has:
                self.on(1, make)
            else:
                self.refused(1, make, "ValueError", "mask_momentum masks the momentum of SGD, RMSprop or Adam, and "
                                                    f"this {name} has none")

    def test_kept_elsewhere(self):
        class Elsewhere(torch.optim.Adam):
            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        self.state[p].update(m=1, v=2)

        def train(rank):
            model = Layers(30)
            optimizer = local_steps(model, Elsewhere(model.parameters()), codec="3lc", mask_momentum=True)
            optimizer.step()

        self.refused(1, train, "ValueError", "mask_momentum looks for momentum_buffer or exp_avg in the state of the "
                                             "optimizer, and this Elsewhere has m, v")


class Sharded(RanksTest):
    def test_shards(self):
        """A rank has the same one as those that it exchanges with; states are of one shard."""
        parts = [sharded(mesh(4, [1, 2], [7])) for _ in range(4)]

        def train(rank):
            optimizer = local_steps(parts[rank])
            self.assertEqual({name: anchor.tolist() for name, anchor in optimizer._anchors.items()},
                             {"layers.0.weight": [0.0, 0.0]})
            state = optimizer.state_dict()
            self.assertEqual(state["shard"], "shard1-2")
            optimizer.load_state_dict({**state, "shard": "-".join(["shard1", "2"])})
            for other, words in (None, "a model that is whole on each rank"), ("shard1-1", "shard1-1"):
                with self.assertRaises(ValueError) as caught:
                    optimizer.load_state_dict({**state, "shard": other})
                self.assertEqual(str(caught.exception), f"the state is of {words}, and this rank has shard1-2")
        self.on(2, train)

    def test_what_is_left_out(self):
        """Ranks of one site would do other things."""
        for size, refused in (1, False), (2, True), (4, True):
            for policy in "skip", "raise":
                parts = [sharded(None, mesh(size, [0], [7])) for _ in range(2)]

                def make(rank):
                    local_steps(parts[rank], on_nonfinite=policy)
                if refused and policy == "skip":
                    self.refused(2, make, "ValueError", "on_nonfinite=\"skip\" is for models that are whole on each "
                                                        "rank: ranks with other shards would not skip the round")
                else:
                    self.on(2, make)

class Signals(unittest.TestCase):
    def test_they_wait(self):
        """In each call that should be whole: a handler that saves a state must not find half of it."""
        class Object:
            """Gets a signal at the first thing that a call wants of it."""
            _optimizer_step_pre_hooks = _optimizer_step_post_hooks = {}  # what PyTorch asks for before the call

            def __getattr__(self, name):
                signal.raise_signal(signal.SIGUSR1)
                self.__dict__["seen"] = list(came)
                raise NotImplementedError

        def handle(number, frame):
            came.append(number)

        before = signal.signal(signal.SIGUSR1, handle)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        for way, calls in (threelc.torch.LocalSteps, ("synchronize", "flush")), (threelc.torch.Gossip, ("average",)):
            for call in "step", "state_dict", "load_state_dict", *calls:
                came, one = [], Object()
                with self.assertRaises(NotImplementedError):
                    getattr(way, call)(one, *[{}] * (call == "load_state_dict"))
                self.assertEqual((one.seen, came), ([], [signal.SIGUSR1]), (way, call))


if __name__ == "__main__":
    unittest.main()
