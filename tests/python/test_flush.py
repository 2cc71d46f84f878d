# SPDX-License-Identifier: MIT
"""What is left in residuals at the end of a training, in real processes over gloo.

The loss is linear in the parameters, so gradients do not depend on the model, and a run that has sent all it had ends
where one with floats ends.
"""
import unittest

import torch
from torch.nn.parallel import DistributedDataParallel

import threelc.torch
from cluster import CLUSTER
from outer_models import Linear

STEPS = 6


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.1)


def train(rank, model, optimizer, steps):
    for step in steps:
        optimizer.zero_grad()
        model(rank, step).backward()
        optimizer.step()


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def hooked(rank, world, codec, settings, end):
    """end: what is done after the steps. Returns the weights before and after, and what is left."""
    model = Linear()
    wrapped = DistributedDataParallel(model)
    state = threelc.torch.register(wrapped, codec, **settings)
    optimizer = sgd(wrapped.parameters())
    train(rank, wrapped, optimizer, range(STEPS))
    before = weights(model)
    if end == "flush":
        state.flush()
        optimizer.step()
    else:
        state.set_codec("raw")
        train(rank, wrapped, optimizer, range(STEPS, STEPS + 1))
    owned = [part.residual for group in state._order for part in group.allreduce.parts() if part.residual]
    left = [*state.stats.residual_norms.values(), *(max(map(abs, residual)) for residual in owned)]
    return before, weights(model), left


def outer(rank, world, way, settings):
    model = Linear()
    if way == "LocalSteps":
        optimizer = threelc.torch.LocalSteps(model, sgd(model.parameters()), every=2, **settings)
        optimizer.weight = 1.0 + rank
    else:
        optimizer = getattr(threelc.torch, way)(model, sgd, **settings)
    train(rank, model, optimizer, range(STEPS))
    before = weights(model)
    optimizer.flush()
    after = weights(model)
    optimizer.flush()
    again = weights(model)
    return before, after, again


class Flush(unittest.TestCase):
    def check(self, found, floats, close=2e-5):
        for before, after, _ in found:
            for name, value in after.items():
                self.assertTrue(torch.equal(value, found[0][1][name]), name)
                torch.testing.assert_close(value, floats[name], atol=close, rtol=1e-4)
            self.assertGreater(float((before["weight"] - floats["weight"]).norm()), 0.1)

    def test_hook(self):
        """set_codec("raw") sends in the next step what flush() sends without one."""
        floats = {end: CLUSTER.run(3, hooked, "raw", {}, end)[0][1] for end in ("flush", "raw")}
        for codec, end, settings in (("3lc:s=1.75", "flush", {}), ("sbc:p=0.05", "flush", {"mode": "gather"}),
                                     ("3lc:s=1.75", "raw", {"reserve": ["raw"]})):
            found = CLUSTER.run(3, hooked, codec, settings, end)
            self.check(found, floats[end])
            for _, _, left in found:
                self.assertTrue(left)
                self.assertEqual(set(left), {0.0})

    def test_local_steps_and_servers(self):
        for way, codec, settings in (("LocalSteps", "3lc:s=1.75", {"mode": "sharded"}),
                                     ("LocalSteps", "sbc:p=0.05", {"mode": "gather"}),
                                     ("PushPull", "3lc:s=1.75", {"servers": 2}),
                                     ("ShardedOptimizer", "3lc:s=1.75", {})):
            floats = CLUSTER.run(3, outer, way, {"codec": "raw", **settings})[0][1]
            found = CLUSTER.run(3, outer, way, {"codec": codec, **settings})
            self.check(found, floats)
            for _, after, again in found:  # nothing is left
                for name, value in after.items():
                    self.assertTrue(torch.equal(value, again[name]), name)
