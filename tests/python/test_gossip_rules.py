# SPDX-License-Identifier: MIT
"""Gossip on ranks of one process: what a step is, with floats; what is refused, counted, and said. What PushPull may be
given. States of all ranks that one rank saves."""
import inspect
import math
import unittest
import warnings
from types import SimpleNamespace
from unittest.mock import patch

import threelc
import threelc.torch
import torch
from device_frames import counted
from thread_ranks import Layers, RanksTest, sgd
from threelc.exchange import GossipKind, Graph, GraphKind
from threelc.torch._common.transport import Transport
from threelc.torch.checkpoint import gather_states, scatter_states
from threelc.torch.fsdp import FSDPState


def gossip(model, inner=None, **settings):
    return threelc.torch.Gossip(model, inner or sgd(model), **{"codec": "raw", "min_numel": 1, **settings})


class Steps(RanksTest):
    def test_rule(self):
        """Each rank goes on from the weighted mean of its model and those of its neighbours. Bytes are counted for
        each of these."""
        for world, graph, kind in ((3, "complete", "dcd"), (5, "ring", "dcd"), (2, "ring", "ecd"),
                                   (4, Graph(GraphKind.TORUS, 4, rows=2), GossipKind.DCD)):
            models = [Layers(3, 5) for _ in range(world)]

            def train(rank):
                optimizer, found = gossip(models[rank], graph=graph, kind=kind), []
                for step in range(3):
                    models[rank].move(1.0 + rank + step, 0.0 if rank else 8.0)
                    self.assertIsNone(optimizer.step())
                    found.append([layer[0] for layer in models[rank].values()])
                stats = optimizer.stats
                return found, stats.float_bytes, stats.steps, stats.stayed, optimizer.average()

            graphs = graph if isinstance(graph, Graph) else Graph(GraphKind[graph.upper()], world)
            x = [[0.0, 0.0] for _ in range(world)]
            ranks = self.on(world, train)
            for step in range(3):
                starts = []
                for rank in range(world):
                    near, weights = graphs.neighbours(rank)
                    starts.append([sum(w * x[other][i] for other, w in zip([*near, rank], weights)) for i in range(2)])
                x = [[start[0] + 1 + rank + step, start[1] + (0 if rank else 8)] for rank, start in enumerate(starts)]
                for rank in range(world):
                    for one, other in zip(ranks[rank][0][step], x[rank]):
                        self.assertAlmostEqual(one, other, places=3)
            for rank, (_, float_bytes, steps, stayed, average) in enumerate(ranks):
                self.assertEqual((float_bytes, steps, stayed), (len(graphs.neighbours(rank)[0]) * 3 * 4 * 8, 3, 0))
                for i, (name, mean) in enumerate(average.items()):
                    self.assertEqual((name, mean.shape, mean.dtype),
                                     (f"layers.{i}.weight", (3 + 2 * i,), torch.float32))
                    self.assertAlmostEqual(float(mean[0]), sum(one[i] for one in x) / world, places=3)

    def test_who_hears(self):
        """Neighbours alone: in a ring of five ranks two messages leave in a step, in a complete graph four."""
        sent = {}
        for graph in "ring", "complete":
            models = [Layers(50) for _ in range(5)]

            def train(rank):
                optimizer = gossip(models[rank], graph=graph)
                optimizer.step()
                before = optimizer.stats.sent
                optimizer.step()
                return optimizer.stats.sent - before
            sent[graph], = set(self.on(5, train))
        lengths = 4 * 2 * 8  # of messages to four ranks
        self.assertLess(abs(2 * (sent["ring"] - lengths) - (sent["complete"] - lengths)), 2 * lengths)
        self.assertGreater(sent["ring"], 2 * 200)

    def test_rounded(self):
        """A parameter of bfloat16 is its model, rounded once; what rounding takes away is no change. A complex one is
        two floats."""
        models = [Layers(1, dtype=torch.bfloat16) for _ in range(2)]

        def train(rank):
            model = models[rank]
            model.layers[0].weight.data.fill_(1.0)
            optimizer, found = gossip(model), []
            for step in range(3):
                model.move(2.0**-7 if rank and step < 1 else 0.0)
                optimizer.step()
                found.append((model.values()[0][0], float(optimizer.average()["layers.0.weight"])))
            return found
        half = 2.0**-8
        for found in self.on(2, train):
            self.assertEqual(found[1:], [(1.0, 1 + half)] * 2)  # 1 + 2^-8 lies between two values
        waves = [Layers((2, 1), dtype=torch.complex64) for _ in range(2)]

        def turn(rank):
            optimizer = gossip(waves[rank])
            waves[rank].move(2 + 4j if rank else 0j)
            optimizer.step()
            mean, = optimizer.average().values()
            return mean.tolist(), mean.dtype
        self.assertEqual(self.on(2, turn), [([[1 + 2j]] * 2, torch.complex64)] * 2)

    def test_scalers(self):
        """Where one finds infinities the optimizer makes no step; the models are mixed."""
        models = [Layers(1) for _ in range(2)]

        def train(rank):
            optimizer = gossip(models[rank])
            models[rank].move(4.0 * rank)
            optimizer.step()
            optimizer.found_inf, optimizer.grad_scale = torch.tensor(1.0), None
            optimizer.step()
            with self.assertRaisesRegex(TypeError, "^step\\(\\) has no argument closure$"):
                optimizer.step(closure=1)
            return models[rank].values()[0][0]
        self.assertEqual(self.on(2, train), [2.0, 2.0])

    def test_ranks_that_stay(self):
        """One whose weights would not be finite; the third time in a row it says so."""
        for bad, warned in ((0, 1, 2), 1), ((0, 1, 3, 4), 0):
            models = [Layers(2, 2) for _ in range(2)]

            def train(rank):
                optimizer = gossip(models[rank])
                for step in range(5):
                    models[rank].move(1.0, math.nan if rank and step in bad else 1.0)
                    optimizer.step()
                return optimizer.stats.stayed, bool(torch.isfinite(models[rank].layers[1].weight).all())

            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                self.assertEqual(self.on(2, train), [(0, True), (len(bad), True)])
            said = [str(each.message) for each in caught if "stayed" in str(each.message)]
            self.assertEqual(len(said), warned)
            for words in said:
                self.assertRegex(words, "^this rank stayed where it was 3 times in a row. .*\"layers.1.weight\"")

    def test_what_is_logged(self):
        models = [Layers(2) for _ in range(2)]

        def train(rank):
            optimizer = gossip(models[rank])
            optimizer.log_every(2)
            for _ in range(4):
                optimizer.step()
        with self.assertLogs("threelc", "INFO") as log:
            self.on(2, train)
        self.assertEqual([line.split(":")[2] for line in log.output], ["step 2", "step 4"])

    def test_where_it_is(self):
        """quantize="device" quantizes changes where the model is, here on the CPU, with the same bits."""
        for codec, kind in ("qsgd:bits=4", "dcd"), ("natural", "dcd"), ("qsgd:bits=4", "ecd"), ("raw", "dcd"):
            bits = []
            for quantize in "host", "device":
                models = [Layers(300, 5) for _ in range(2)]

                def train(rank):
                    optimizer = gossip(models[rank], codec=codec, kind=kind, quantize=quantize, min_numel=10)
                    for step in range(3):
                        models[rank].move(torch.linspace(-1, rank + step, 300), 1.0)
                        optimizer.step()
                    return models[rank].values()
                with counted() as frames:
                    bits.append(self.on(2, train))
                there = quantize == "device" and codec != "raw"
                self.assertEqual(frames()[0], 6 if there else 0, (codec, kind, quantize))
            self.assertEqual(*bits)

    def test_the_first_step(self):
        """It refuses weights that were loaded after the start; later ones may come."""
        def train(rank):
            model = Layers(2)
            optimizer = gossip(model)
            if rank == 2:
                optimizer.step()
                optimizer.step()
            model.layers[0].weight.data.fill_(1.0)
            optimizer.step()
        self.refused(2, train, "ValueError",
                     "parameter layers.0.weight has other values than those from which all ranks began: load weights "
                     "before Gossip is made; with a checkpoint of Gossip, load its state_dict(), too")

        def later(rank):
            model = Layers(2)
            optimizer = gossip(model)
            optimizer.step()
            model.layers[0].weight.data.fill_(1.0)
            optimizer.step()
        self.on(2, later)


class Arguments(RanksTest):
    def test_defaults(self):
        """What one may leave out."""
        for way, given in (
                ("Gossip", {"graph": "ring", "kind": "dcd", "codec": "qsgd:bits=8", "min_numel": 256, "seed": 0,
                            "threads": None, "quantize": "auto", "process_group": None}),
                ("PushPull", {"servers": 1, "codec": "3lc", "pull": None, "groups": None, "max_norm": None,
                              "momentum_correction": None, "second_moment": None, "warmup_steps": 0, "scaler": None,
                              "buffers": "own", "backup": 0, "min_numel": 256, "compare_every": 1000, "seed": 0,
                              "threads": None, "quantize": "auto", "residual_dtype": torch.float32,
                              "process_group": None})):
            found = {name: parameter.default for name, parameter in
                     inspect.signature(getattr(threelc.torch, way)).parameters.items()
                     if parameter.default is not inspect.Parameter.empty}
            self.assertEqual({name: (value, type(value)) for name, value in found.items()},
                             {name: (value, type(value)) for name, value in given.items()})

    def test_refused(self):
        """The whole sentence."""
        codecs = "has a bias or error feedback, and gossip needs a codec without them: natural, qsgd, random-sparse, " \
                 "raw, stochastic-ternary"
        for settings, error, sentence in (
                ({"codec": "3lc"}, "ValueError", f"codec '3lc' {codecs}"),
                ({"codec": "ternary+quartic"}, "ValueError", f"codec 'ternary+quartic' {codecs}"),
                ({"graph": "rings"}, "ValueError", "graph should be one of ring, torus, complete, not 'rings': did you "
                                                   "mean ring?"),
                ({"kind": "cd"}, "ValueError", "kind should be one of dcd, ecd, not 'cd': did you mean ecd?"),
                ({"quantize": "there"}, "ValueError", "quantize should be one of auto, host, device, not 'there'"),
                ({"seed": -1}, "ValueError", "seed should be at least 0, not -1"),
                ({"graph": Graph(GraphKind.RING, 3)}, "ValueError", "the graph has 3 nodes, but there are 2 ranks")):
            self.refused(2, lambda rank: gossip(Layers(2), **settings), error, sentence)
        for codec in "natural", "qsgd", "random-sparse", "raw", "stochastic-ternary+quartic":
            self.on(2, lambda rank: gossip(Layers(2), codec=codec))
        for name, here, there in (("codec", "raw", "qsgd"), ("graph", "ring", "complete"), ("kind", "dcd", "ecd"),
                                  ("min_numel", 1, 2)):
            for how, error in self.ends(3, lambda rank: gossip(Layers(2), **{name: there if rank else here})):
                self.assertEqual((how, type(error)), ("raised", ValueError))
                self.assertIn(name, str(error))

    def test_push_pull(self):
        """What reaches the servers of what is given: each argument is refused as it should be."""
        def made(rank, **settings):
            threelc.torch.PushPull(Layers(300), lambda p: torch.optim.SGD(p, 1.0), **settings)

        for settings, words in (
                ({"servers": 3}, "servers"), ({"codec": "4lc"}, "4lc"), ({"pull": "5lc"}, "5lc"),
                ({"groups": [3]}, "groups[0] should be a dict"), ({"max_norm": -1.0}, "max_norm"),
                ({"momentum_correction": 2.0}, "momentum"),
                ({"second_moment": 2.0}, "second_moment"), ({"warmup_steps": -1}, "warmup_steps"),
                ({"scaler": 3}, "scaler"), ({"buffers": "all"}, "buffers"), ({"backup": 5}, "backup"),
                ({"min_numel": -1}, "min_numel"), ({"compare_every": -1}, "compare_every"), ({"seed": -1}, "seed"),
                ({"threads": -1}, "threads"), ({"quantize": "there"}, "quantize")):
            for how, error in self.ends(2, lambda rank: made(rank, **settings)):
                self.assertEqual(how, "raised", settings)
                self.assertIn(words, str(error))

    def test_late_pushes(self):
        """None at the start."""
        def late(rank):
            optimizer = threelc.torch.PushPull(Layers(300), lambda p: torch.optim.SGD(p, 1.0))
            return optimizer.stats.late, optimizer.state_dict()["version"]
        self.assertEqual(self.on(2, late), [(0, 3)] * 2)
        others = {name: 0 for name in threelc.torch.push_pull.PushPullStats.__dataclass_fields__ if name != "late"}
        self.assertEqual(threelc.torch.push_pull.PushPullStats(**others).late, 0)


class States(RanksTest):
    def trained(self, world, steps, **settings):
        """Models, and the states of ranks, after steps."""
        models = [Layers(40, 3) for _ in range(world)]

        def train(rank):
            optimizer = gossip(models[rank], **settings)
            self.move(models[rank], optimizer, rank, range(steps))
            return optimizer.state_dict()
        return models, self.on(world, train)

    def move(self, model, optimizer, rank, steps):
        for step in steps:
            model.move(torch.linspace(-1, 1 + rank + step, 40), math.nan if rank == 1 and step == 1 else 1.0)
            optimizer.step()

    def test_going_on(self):
        """With the same bits and counts."""
        for settings in {"codec": "qsgd"}, {"codec": "qsgd", "kind": "ecd"}, {"codec": "qsgd", "quantize": "device"}:
            whole, _ = self.trained(2, 5, **settings)
            _, states = self.trained(2, 3, **settings)
            models = [Layers(40, 3) for _ in range(2)]

            def train(rank):
                optimizer = gossip(models[rank], **settings)
                optimizer.load_state_dict(states[rank])
                stats = optimizer.stats
                self.assertEqual((stats.steps, stats.stayed, stats.sent),
                                 (3, rank, states[rank]["traffic"]["sent"]))
                self.move(models[rank], optimizer, rank, range(3, 5))
                self.assertEqual((optimizer.stats.steps, optimizer.state_dict()["version"]), (5, 2))
                return models[rank].values()
            self.assertEqual(self.on(2, train), [model.values() for model in whole], settings)

    def test_on_other_ranks(self):
        """They go on from the mean of all models; nobody has stayed."""
        models, states = self.trained(3, 3)
        mean = [sum(values) / 3 for values in zip(*(model.values()[0] for model in models))]

        def load(rank):
            model = Layers(40, 3)
            optimizer = gossip(model)
            optimizer.load_state_dict(states)
            stats = optimizer.stats
            torch.testing.assert_close(torch.tensor(model.values()[0]), torch.tensor(mean), atol=1e-4, rtol=1e-5)
            optimizer.step()
            return stats.steps, stats.stayed
        self.assertEqual(self.on(2, load), [(3, 0)] * 2)

    def test_what_does_not_fit(self):
        _, states = self.trained(2, 1)

        def load(rank):
            optimizer = gossip(Layers(40))
            before = str(optimizer.state_dict())
            with self.assertRaisesRegex(ValueError, "^the state is of a model with parameters that are not trained "
                                                    "here: .*layers.1.weight"):
                optimizer.load_state_dict(states[rank])
            with self.assertRaisesRegex(ValueError, "^the state is of Gossip with codec='raw', and this one was made"):
                gossip(Layers(40, 3), codec="qsgd").load_state_dict(states[rank])
            with self.assertRaisesRegex(ValueError, "and those of ranks 2 are missing$"):  # and no lost=True would help
                optimizer.load_state_dict([{**state, "world": 3} for state in states])
            return before == str(optimizer.state_dict())
        self.assertEqual(self.on(2, load), [True] * 2)

    def test_new_layer(self):
        """It keeps its values, and a warning says so."""
        models, states = self.trained(2, 1)
        grown = [Layers(40, 3, 5) for _ in range(2)]
        with patch("warnings.warn") as warn:
            self.on(2, lambda rank: gossip(grown[rank]).load_state_dict(states[rank]))
            self.on(2, lambda rank: gossip(Layers(40, 3)).load_state_dict(states[rank]))
        self.assertEqual([model.values() for model in grown], [[*model.values(), [0.0] * 5] for model in models])
        self.assertEqual([str(call.args[0]) for call in warn.call_args_list], [
            'threelc: entries of the states without a place here: 0; tensors in no state: 1, first "layers.2.weight". '
            "These parameters keep their values"] * 2)

    def test_states_of_two_runs(self):
        """All ranks hear of it before the next step, and can load others."""
        _, states = self.trained(2, 2)
        _, others = self.trained(2, 3)

        def load(rank):
            model = Layers(40, 3)
            optimizer = gossip(model)
            optimizer.load_state_dict((others if rank else states)[rank])
            with self.assertRaises(ValueError) as caught:
                optimizer.step()
            optimizer.load_state_dict(states[rank])
            optimizer.step()
            return str(caught.exception), optimizer.stats.steps
        (one, steps), other = self.on(2, load)
        self.assertEqual(((one, steps), steps), (other, 3))
        self.assertEqual(one, "node 1 sent step 4, this is step 3")


class OfAllRanks(RanksTest):
    def test_one_rank_saves(self):
        """What it gathers, and what each rank gets of it, on as many ranks, on others, and from another root."""
        def thing(rank, values=None):
            return SimpleNamespace(state_dict=lambda: {"of": rank, "x": 0.5, "t": torch.arange(rank)},
                                   _transport=Transport())

        for root in 0, 2:
            gathered = self.on(3, lambda rank: gather_states(thing(rank), *([root] if root else [])))
            self.assertEqual([found is not None for found in gathered], [rank == root for rank in range(3)])
            states = gathered[root]
            self.assertEqual([(state["of"], state["x"], state["t"].tolist()) for state in states],
                             [(rank, {"float": (0.5).hex()}, [*range(rank)]) for rank in range(3)])
            for world in 3, 2, 4:
                given = root if root < world else 1
                found = self.on(world, lambda rank: scatter_states(
                    thing(rank), states if rank == given else None, **({"root": given} if given else {})))
                for rank, came in enumerate(found):
                    self.assertEqual([state["of"] for state in came], [rank] if world == 3 else [0, 1, 2])
        older = [{"x": 0.5}, {"x": 1.5}]  # with floats
        self.assertEqual(self.on(2, lambda rank: scatter_states(thing(rank), older)),
                         [[{"x": {"float": (x).hex()}}] for x in (0.5, 1.5)])
        for wrong in None, []:
            self.refused(2, lambda rank: scatter_states(thing(rank), wrong, 1), "ValueError",
                         "rank 1 has given no states")
        for call in gather_states, lambda one, root: scatter_states(one, [{}, {}], root):
            for root in -1, 2:
                self.refused(2, lambda rank: call(thing(rank), root), "ValueError",
                             f"root should be from 0 to 1, not {root}")
            with self.assertRaisesRegex(TypeError, "^the state of register_fsdp\\(\\) has sharded_state_dict\\(\\) for "
                                                   "torch.distributed.checkpoint$"):
                call(object.__new__(FSDPState), 0)


if __name__ == "__main__":
    unittest.main()
