# SPDX-License-Identifier: MIT
"""Ranks that are threads of the test's process, which exchange through fake_dist.py, and models of a few numbers."""
from types import SimpleNamespace

import threelc.torch
import torch
from fake_dist import Network
from faults import prepared
from sentences import SentencesTest
from threelc.torch._common.transport import Transport


class Layers(torch.nn.Module):
    """Numbered layers, each of one parameter."""

    def __init__(self, *shapes, dtype=torch.float32):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Module() for _ in shapes)
        for layer, shape in zip(self.layers, shapes):
            layer.weight = torch.nn.Parameter(torch.zeros(shape, dtype=dtype))

    def move(self, *by):
        """With SGD at a rate of 1 the next step adds these to the layers."""
        for layer, change in zip(self.layers, by):
            change = torch.as_tensor(change, dtype=layer.weight.dtype)
            layer.weight.grad = -change.expand(layer.weight.shape).clone()

    def values(self):
        return [layer.weight.detach().view(-1).tolist() for layer in self.layers]


class Part(torch.Tensor):
    """The part of a parameter that a rank has, as a DTensor of FSDP2."""
    device_mesh = None

    def to_local(self):
        return self.detach().as_subclass(torch.Tensor)[:2]


def mesh(size, place, ranks=(0,)):
    return SimpleNamespace(size=lambda: size, get_coordinate=lambda: place, mesh=torch.tensor(ranks))


def sharded(*meshes):
    """A module with a layer for each mesh, of whose 4 values this rank has 2; None: it has all."""
    module = Layers(*[4] * len(meshes))
    for layer, its in zip(module.layers, meshes):
        if its is not None:
            kind = type("Part", (Part,), {"device_mesh": its})
            layer.weight = torch.nn.Parameter(torch.zeros(4).as_subclass(kind))
    return module


def sgd(model, **settings):
    return torch.optim.SGD(model.parameters(), **{"lr": 1.0, **settings})


def local_steps(model, inner=None, outer=None, **settings):
    return threelc.torch.LocalSteps(model, inner or sgd(model), outer,
                                    **{"codec": "raw", "every": 1, "min_numel": 1, **settings})


class RanksTest(SentencesTest):
    @classmethod
    def setUpClass(cls):
        prepared()

    def ends(self, world, function):
        """How function(rank) ended on each rank: ("returned", value) or ("raised", exception)."""
        return Network(world).run(function)

    def on(self, world, function):
        """What function(rank) returned on each rank. Its exceptions are raised here."""
        ends = self.ends(world, function)
        for how, what in ends:
            if how == "raised":
                raise what
            self.assertEqual(how, "returned")
        return [what for _, what in ends]

    def talk(self, world, function):
        """What function(transport, rank) returned on each rank."""
        return self.on(world, lambda rank: function(Transport(), rank))

    def refused(self, world, function, error, sentence):
        """All ranks raise this exception with this sentence."""
        for how, what in self.ends(world, function):
            self.assertEqual((how, type(what).__name__, str(what)), ("raised", error, sentence))
