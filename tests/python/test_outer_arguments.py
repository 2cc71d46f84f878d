# SPDX-License-Identifier: MIT
"""What users give local steps, the parameter server and gossip: other models, optimizers, schedules, arguments."""
import copy
import unittest

import torch

import threelc
import threelc.torch
from cluster import CLUSTER, Refusals, attempt
from outer_models import backward, bits, build, memory, nesterov, ones, resumed, sgd, train
from test_register import FullyShardedDataParallel, fully_sharded

WAYS = ("LocalSteps", "PushPull", "Gossip")


def make(way, model, optimizer=None, **settings):
    if way == "PushPull":
        return threelc.torch.PushPull(model, optimizer or (lambda p: torch.optim.SGD(p, 0.1)), **settings)
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1)
    if way == "Gossip":
        return threelc.torch.Gossip(model, optimizer, **settings)
    return threelc.torch.LocalSteps(model, optimizer, **{"every": 2, **settings})


def small(rows=20):
    return torch.nn.Sequential(torch.nn.Linear(20, rows), torch.nn.BatchNorm1d(rows))


# ---- the model ----

WRAPPED = {
    "ddp": torch.nn.parallel.DistributedDataParallel,
    "inside": lambda model: torch.nn.Sequential(torch.nn.parallel.DistributedDataParallel(model)),
    "fsdp": lambda model: torch.nn.Sequential(fully_sharded(model)),
    "frozen": lambda model: model.requires_grad_(False),
    "state": lambda model: model.state_dict(),
}


def wrapped(rank, world, way, kind):
    model = small()
    make(way, WRAPPED[kind](model), None if way == "PushPull" else torch.optim.SGD(model.parameters(), 0.1))


def compiled(rank, world, way):
    optimizer = make(way, torch.compile(build(rank)))
    return list(optimizer._parameters)


def with_double(model):
    model[0] = model[0].double()


OTHERS = {  # what becomes of a model; None: it is changed
    "shape": lambda model: small(30), "dtype": with_double, "name": torch.nn.Sequential,
    "frozen": lambda model: setattr(model[0].bias, "requires_grad", False),
    "more": lambda model: model.register_buffer("scale", torch.ones(3)), "fewer": lambda model: model[:1],
}


def another_model(rank, world, way, kind):
    """Rank 1 has another model than the others. Nothing is written into any."""
    model = small()
    with torch.no_grad():
        next(model.parameters()).fill_(rank)
    if rank == 1:
        model = OTHERS[kind](model) or model
    before = memory(model.parameters())
    try:
        make(way, model, None if way == "PushPull" else torch.optim.SGD(model.parameters(), 0.1))
    finally:
        assert memory(model.parameters()) == before, "something was sent"


def thawed(rank, world, way):
    model = small()
    model[0].bias.requires_grad_(False)
    optimizer = make(way, model)
    ones(model, optimizer, 2)
    model[0].bias.requires_grad_(True)
    ones(model, optimizer, 2)


class Models(Refusals):
    def test_wrapped(self):
        for way in WAYS:
            for kind, words in (("ddp", f"{way} takes the module inside DistributedDataParallel, model.module"),
                                ("inside", f"{way} takes the module inside DistributedDataParallel"),
                                ("fsdp", f"{way} takes a module that is whole on each rank"),
                                ("state", f"{way} takes a torch.nn.Module, not OrderedDict")):
                if kind == "fsdp" and not FullyShardedDataParallel:
                    continue
                self.refused(CLUSTER.outcomes(2, wrapped, way, kind), "TypeError", words)
            self.refused(CLUSTER.outcomes(2, wrapped, way, "frozen"), "ValueError", "none has requires_grad")

    @unittest.skipUnless(hasattr(torch, "compile"), "this PyTorch compiles nothing")
    def test_compiled(self):
        """It has the names of the module inside, so that states fit both."""
        for way in WAYS:
            self.assertEqual(CLUSTER.run(2, compiled, way)[0], [name for name, _ in build(0).named_parameters()])

    def test_other_models(self):
        for way in WAYS:
            for kind, words in (
                    ("shape", "parameter 0.weight of shape [30, 20], torch.float32 on rank 1 is parameter 0.weight of "
                              "shape [20, 20], torch.float32 on rank 0"),
                    ("dtype", "parameter 0.weight of shape [20, 20], torch.float64 on rank 1 is parameter 0.weight of "
                              "shape [20, 20], torch.float32 on rank 0"),
                    ("name", "parameter 0.0.weight of shape [20, 20], torch.float32 on rank 1 is parameter 0.weight"),
                    ("frozen", "frozen parameter 0.bias of shape [20], torch.float32 on rank 1 is parameter 0.bias"),
                    ("more", "buffer scale of shape [3], torch.float32 on rank 1 is buffer 1.running_mean"),
                    ("fewer", "rank 1 has no parameter 1.weight of shape [20], torch.float32, which rank 0 has")):
                results = CLUSTER.outcomes(3, another_model, way, kind)
                self.refused(results, "ValueError", words)

    def test_thawed(self):
        for way in WAYS:
            self.refused(CLUSTER.outcomes(2, thawed, way), "ValueError", "parameter 0.bias was frozen at the start")


# ---- optimizers ----

def given(rank, world, way, kind):
    model = small()
    parameters = list(model.parameters())
    made = {"other": lambda: torch.optim.SGD(small().parameters(), 0.1),
            "fewer": lambda: torch.optim.SGD(parameters[1:], 0.1),
            "more": lambda: torch.optim.SGD([*parameters, torch.nn.Parameter(torch.ones(1))], 0.1),
            "model": lambda: model, "none": lambda: None, "closure": lambda: torch.optim.LBFGS(parameters)}[kind]()
    if way == "LocalSteps":
        return threelc.torch.LocalSteps(model, made, every=1)
    threelc.torch.Gossip(model, made)


def maker_given(rank, world, name, kind):
    """name: of the argument."""
    model = small()
    made = {"name": "nesterov", "optimizer": sgd(model), "none": lambda p: None, "other": lambda p: sgd(model),
            "fewer": lambda p: torch.optim.SGD(p[1:], 0.1), "closure": torch.optim.LBFGS}[kind]
    if name == "outer":
        threelc.torch.LocalSteps(model, sgd(model), made, every=1)
    else:
        threelc.torch.PushPull(model, made, servers=2)


def scheduled(rank, world, way, inside):
    """The rates of three steps, and how far a weight went in each, with a gradient of 1."""
    model = torch.nn.Linear(20, 20)
    optimizer = make(way, model, codec="raw", **({"every": 1} if way == "LocalSteps" else {}))
    inner = optimizer.inner_optimizer if way == "LocalSteps" else optimizer.optimizer
    scheduler = torch.optim.lr_scheduler.StepLR(inner if inside else optimizer, 1, 0.5)
    rates, moves = [], []
    for _ in range(3):
        before = float(model.weight[0, 0])
        ones(model, optimizer)
        scheduler.step()
        optimizer.zero_grad()
        rates.append(optimizer.param_groups[0]["lr"])
        moves.append(before - float(model.weight[0, 0]))
    inner.load_state_dict(inner.state_dict())  # makes new groups
    rates.append(optimizer.param_groups[0]["lr"])
    return rates, moves, repr(optimizer), isinstance(optimizer, torch.optim.Optimizer)


def more_parameters(rank, world, way):
    make(way, small()).add_param_group({"params": [torch.nn.Parameter(torch.ones(3))]})


class Optimizers(Refusals):
    def test_of_users(self):
        for way, name in (("LocalSteps", "inner_optimizer"), ("Gossip", "optimizer")):
            for kind, error, words in (
                    ("other", "ValueError", f"{name} is of another model"),
                    ("fewer", "ValueError", f"{name} does not have the parameter 0.weight, which would never be"),
                    ("more", "ValueError", f"{name} has parameters that are not the model's"),
                    ("model", "TypeError", f"{name} should be an optimizer, such as"),
                    ("none", "TypeError", "not None")):
                self.refused(CLUSTER.outcomes(2, given, way, kind), error, words)
        self.refused(CLUSTER.outcomes(2, given, "Gossip", "closure"), "TypeError", "optimizer is a LBFGS, which")

    def test_makers(self):
        for name in ("outer", "optimizer"):
            for kind, error, words in (
                    ("name", "TypeError", f"{name} should be a function of a list of parameters that makes an"),
                    ("optimizer", "TypeError", "not a SGD"),
                    ("none", "TypeError", f"{name} should make an optimizer, not None"),
                    ("other", "ValueError", f"{name} made an optimizer of other parameters than it was given")):
                self.refused(CLUSTER.outcomes(2, maker_given, name, kind), error, words)
        self.refused(CLUSTER.outcomes(2, maker_given, "outer", "fewer"), "ValueError", "of other parameters than it")
        self.refused(CLUSTER.outcomes(2, maker_given, "outer", "name"), "TypeError", "not 'nesterov'")
        self.refused(CLUSTER.outcomes(2, maker_given, "optimizer", "closure"), "TypeError",
                     "optimizer is a LBFGS, which computes")

    def test_schedules(self):
        for way in WAYS:
            for inside in (False, True):
                for rates, moves, text, right in CLUSTER.run(2, scheduled, way, inside):
                    self.assertEqual(rates, [0.05, 0.025, 0.0125, 0.0125])
                    torch.testing.assert_close(moves, [0.1, 0.05, 0.025], atol=1e-6, rtol=0)
                    self.assertEqual(text, f"<threelc.torch.{way} around SGD>")
                    self.assertTrue(right)
            self.refused(CLUSTER.outcomes(2, more_parameters, way), "TypeError", "that the model had at the start")


# ---- other arguments ----

def argument(rank, world, way, settings):
    make(way, small(), **settings)


def attribute(rank, world, name, value):
    optimizer = make("LocalSteps", small())
    setattr(optimizer, name, value)


def weighted(rank, world, weight):
    make("PushPull", small()).step(weight)


def gossip_codecs(rank, world):
    """Of each codec: whether threelc.torch takes it, and whether the library does."""
    def library(codec):
        exchange = threelc.exchange
        exchange.Gossip(exchange.Config(workers=2, push=codec), 0, 0, *exchange.Graph("ring", 2).neighbours(0),
                        [exchange.Tensor("a", 300)], [torch.zeros(300)])

    def takes(call, codec):
        kind, _, _ = attempt(call, codec)
        assert kind in ("", "ValueError", "ParameterError"), kind
        return not kind

    return {entry.name: (takes(lambda codec: make("Gossip", small(), codec=codec), entry.name),
                         takes(library, entry.name)) for entry in threelc.codecs() if entry.complete}


GIVEN = {  # to which ways: settings, error, words
    WAYS: [
        ({"codec": "3lc:s=5"}, "ParameterError", "at 6"),
        ({"codec": None}, "TypeError", "a codec is a string such as"),
        ({"min_numel": -1}, "ValueError", "min_numel should be at least 0, not -1"),
        ({"min_numel": 2.5}, "TypeError", "min_numel should be a whole number at least 0, not 2.5"),
        ({"seed": 2**64}, "ValueError", "seed should be at most 18446744073709551615"),
        ({"threads": "2"}, "TypeError", "threads should be a whole number at least 0, not '2'"),
        ({"quantize": "gpu"}, "ValueError", "quantize should be one of auto, host, device, not 'gpu'")],
    ("LocalSteps",): [
        ({"every": 0}, "ValueError", "every should be at least 1, not 0"),
        ({"every": 2.0}, "TypeError", "every should be a whole number at least 1, not 2.0"),
        ({"every": None}, "TypeError", "not None"),
        ({"pull": "4lc"}, "ParameterError", "4lc"),
        ({"participants": 3}, "ValueError", "participants should be from 1 to 2, not 3"),
        ({"participants": 0}, "ValueError", "participants should be from 1 to 2, not 0"),
        ({"mask_momentum": True}, "ValueError", "masks the momentum of SGD, RMSprop or Adam, and this SGD has none"),
        ({"participants": 0.5}, "TypeError", "participants should be a whole number from 1 to 2, not 0.5"),
        ({"mode": "ring"}, "ValueError", "mode should be one of sharded, gather, not 'ring'"),
        ({"error_reset": -1}, "ValueError", "error_reset should be from 0 to 1, not -1"),
        ({"error_reset": "no"}, "ValueError", "error_reset should be from 0 to 1, not 'no'"),
        ({"residual_decay": 1.5}, "ValueError", "residual_decay should be from 0 to 1, not 1.5"),
        ({"residual_decay": "x"}, "ValueError", "residual_decay should be from 0 to 1, not 'x'"),
        ({"residual_decay": float("nan")}, "ValueError", "residual_decay should be from 0 to 1, not nan"),
        ({"on_nonfinite": "ignore"}, "ValueError", "on_nonfinite should be one of")],
    ("PushPull",): [
        ({"quantize": "device", "momentum_correction": 0.9}, "ValueError", "velocities are on the host"),
        ({"servers": 3}, "ValueError", "servers should be from 1 to 2, not 3"),
        ({"servers": True}, "TypeError", "servers should be a whole number from 1 to 2"),
        ({"pull": "3lc+"}, "ParameterError", "3lc+")],
    ("Gossip",): [
        ({"graph": "rng"}, "ValueError", "graph should be one of ring, torus, complete, not 'rng': did you mean ring?"),
        ({"graph": 3}, "ValueError", "graph should be one of ring, torus, complete, not 3"),
        ({"kind": "DCD"}, "ValueError", "kind should be one of dcd, ecd, not 'DCD': did you mean dcd?"),
        ({"codec": "3lc"}, "ValueError", "codec '3lc' has a bias or error feedback")],
}


class Arguments(Refusals):
    def test_given(self):
        for ways, table in GIVEN.items():
            for way in ways:
                for settings, error, words in table:
                    self.refused(CLUSTER.outcomes(2, argument, way, settings), error, words)

    def test_later(self):
        for name, value, error, words in (
                ("every", 0, "ValueError", "every should be at least 1"),
                ("weight", 0, "ValueError", "weight should be from 2^-50 to 2^50, not 0.0"),
                ("weight", float("nan"), "ValueError", "not nan"),
                ("weight", "2", "TypeError", "weight should be a number above 0, not '2'")):
            self.refused(CLUSTER.outcomes(2, attribute, name, value), error, words)
        self.refused(CLUSTER.outcomes(2, weighted, -1), "ValueError", "weight should be from 2^-50 to 2^50, not -1.0")

    def test_codecs_of_gossip(self):
        for here, there in CLUSTER.run(2, gossip_codecs)[0].values():
            self.assertEqual(here, there)


# ---- what is counted goes on ----

def counted(model, way):
    if way == "PushPull":
        return make(way, model, lambda p: torch.optim.SGD(p, 0.05), servers=2), None
    inner = sgd(model)
    return make(way, model, inner, **({"outer": nesterov} if way == "LocalSteps" else {})), inner


def counts(rank, world, way, pieces):
    _, _, state = resumed(rank, world, pieces, counted, way)
    return {**state["traffic"], "steps": state["steps"]}


def counts_elsewhere(rank, world, way, states):
    optimizer, _ = counted(build(rank), way)
    optimizer.load_state_dict(states)
    return optimizer.stats


def local_bytes(rank, world):
    model = build(rank)
    optimizer = threelc.torch.LocalSteps(model, sgd(model), every=3, codec="3lc")
    for step in range(9):
        backward(model, rank, step)
        optimizer.step()
    return optimizer.stats


def sgd_of(parameters):
    return torch.optim.SGD(parameters, 0.05, momentum=0.9)


def taken_back(rank, world, way):
    """The same steps twice, from one state that stays in memory. Optimizers have momentum."""
    model = build(rank)
    if way in ("PushPull", "ShardedOptimizer"):
        optimizer, inner = getattr(threelc.torch, way)(model, sgd_of), None
    else:
        optimizer, inner = counted(model, way)
    found = []

    train(rank, model, optimizer, range(4))
    saved = copy.deepcopy((model.state_dict(), inner and inner.state_dict())), optimizer.state_dict()
    for _ in range(2):
        (weights, of_inner), state = copy.deepcopy(saved[0]), saved[1]
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)
        if inner is not None:
            inner.load_state_dict(of_inner)
        train(rank, model, optimizer, range(4, 8))
        found.append(bits(model))
    return found


class Counts(unittest.TestCase):
    def test_states_in_memory(self):
        """A state is what was saved, whatever happens after it was taken or loaded."""
        for way in (*WAYS, "ShardedOptimizer"):
            for first, second in CLUSTER.run(2, taken_back, way):
                self.assertEqual(first, second, way)

    def test_resuming(self):
        for way in WAYS:
            for whole, pieces in zip(CLUSTER.run(3, counts, way, [(0, 8)]),
                                     CLUSTER.run(3, counts, way, [(0, 3), (3, 4), (4, 8)])):
                for name in ("sent", "received", "float_bytes", "steps"):
                    self.assertEqual(whole[name], pieces[name], (way, name))
                for name in ("codec_seconds", "wire_seconds"):
                    self.assertGreater(float.fromhex(whole[name]["float"]), 0)

    def test_resuming_on_fewer_ranks(self):
        for way in WAYS:
            states = [saved[2] for saved in CLUSTER.run(3, resumed, [(0, 4)], counted, way)]
            found = CLUSTER.run(2, counts_elsewhere, way, states)
            for name in ("sent", "received", "float_bytes"):
                self.assertEqual(sum(getattr(stats, name) for stats in found),
                                 sum(state["traffic"][name] for state in states))

    def test_floats_of_local_steps(self):
        """A ring all-reduce of parameters and statistics in each round."""
        values = sum(p.numel() for p in build(0).parameters()) + 2 * 60
        for stats in CLUSTER.run(2, local_bytes):
            self.assertEqual(stats.float_bytes, 3 * 4 * values)
            self.assertEqual(stats.rounds, 3)
