# SPDX-License-Identifier: MIT
"""The hook of DistributedDataParallel with autocast, a GradScaler on CPUs, and a device mesh: raw is the same training
without the hook, and replicas are identical with any codec. test_compile.py has autocast in compiled modules."""
import math
import unittest
from inspect import signature

import torch
from torch.nn.parallel import DistributedDataParallel

import threelc.torch
from cluster import CLUSTER
from outer_models import Scaler
from test_ddp import batch, bits, build, train
from test_outer_optimizers import SCALER

STEPS = 8
INFINITE = 3  # the step in which a gradient of rank 1 is infinite


def sgd(model):
    return torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)


def casted(rank, codec, enabled):
    """The weights, the stats, and the dtypes of what the module returns and of gradients."""
    model = build()
    state = codec and threelc.torch.register(model, codec)
    optimizer = sgd(model)
    for step in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            y = model(batch(rank, step))
        y.float().pow(2).mean().backward()
        optimizer.step()
    return bits(model), state and state.stats, str(y.dtype), str(model.module.head.weight.grad.dtype)


def scaled(rank, codec, scales, infinite):
    """The weights, the stats, the steps that changed weights, and the scale before each. Without a scaler steps with
    infinities are left out here. infinite: one has them."""
    model = build()
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2, enabled=scales)
    state = codec and threelc.torch.register(model, codec, scaler=scaler if scales else Scaler(1.0))
    taken, factors = [], []
    for step in range(STEPS):
        before = bits(model)
        factors.append(scaler.get_scale())
        optimizer.zero_grad()
        loss = model(batch(rank, step)).pow(2).mean()
        if infinite and step == INFINITE and rank == 1:
            loss = loss + (model.module.head.weight * math.inf).sum()
        scaler.scale(loss).backward()
        if scales or all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters()):
            scaler.step(optimizer)
        scaler.update()
        if bits(model) != before:
            taken.append(step)
    return bits(model), state and state.stats, taken, factors


def meshed(rank, codec, world):
    """The weights and the stats. Without a codec there is neither hook nor mesh."""
    settings = {}
    if codec:
        from torch.distributed.device_mesh import init_device_mesh
        settings["device_mesh"] = init_device_mesh("cpu", (world,))
    model = build(**settings)
    state = codec and threelc.torch.register(model, codec)
    train(rank, model, sgd(model), range(STEPS))
    return bits(model), state and state.stats


def trainings(rank, world, function, *arguments):
    """function(rank, codec, *arguments) by codec. None: there is no hook."""
    return {codec: function(rank, codec, *arguments) for codec in (None, "raw", "3lc")}


class Features(unittest.TestCase):
    def equal(self, weights, others):
        self.assertEqual([name for name in weights if weights[name] != others[name]], [])

    def found(self, function, *arguments, world=2):
        """The results of rank 0, by codec."""
        first, *others = CLUSTER.run(world, trainings, function, *arguments)
        for codec, (weights, stats, *more) in first.items():
            for other in others:
                self.equal(weights, other[codec][0])
                self.assertEqual(more, list(other[codec][2:]))
            if codec:
                self.assertEqual((stats.steps, stats.float_steps), (STEPS, STEPS if codec == "raw" else 1))
        self.equal(first["raw"][0], first[None][0])
        self.assertNotEqual(first["3lc"][0], first[None][0])
        self.assertLess(first["3lc"][1].sent, first["raw"][1].sent / 1.5)
        return first

    def test_autocast(self):
        """Gradients of parameters are float32, and differ from those without it."""
        found, others = (self.found(casted, enabled) for enabled in (True, False))
        for codec, (weights, _, *dtypes) in found.items():
            self.assertEqual(dtypes, ["torch.bfloat16", "torch.float32"])
            self.assertNotEqual(weights, others[codec][0])

    @unittest.skipUnless(SCALER, "this PyTorch scales losses on GPUs only")
    def test_scaler(self):
        """Scales are powers of two, so that nothing is rounded. Residuals follow when the scale grows."""
        found, others = (self.found(scaled, scales, False) for scales in (True, False))
        for codec, (weights, stats, taken, factors) in found.items():
            self.equal(weights, others[codec][0])
            self.assertEqual(taken, list(range(STEPS)))
            self.assertEqual(factors, [1024.0 * 2 ** (step // 2) for step in range(STEPS)])
            self.assertEqual(stats and stats.sent, codec and others[codec][1].sent)

    @unittest.skipUnless(SCALER, "this PyTorch scales losses on GPUs only")
    def test_scaler_with_an_infinity(self):
        """A gradient of rank 1 has it. All ranks leave the step out, and their scales stay equal."""
        found, others = (self.found(scaled, scales, True) for scales in (True, False))
        for codec, (weights, stats, taken, factors) in found.items():
            self.equal(weights, others[codec][0])
            self.assertEqual(taken, [step for step in range(STEPS) if step != INFINITE])
            self.assertEqual(factors, [1024.0 * factor for factor in (1, 1, 2, 2, 1, 1, 2, 2)])
        self.assertEqual(found["3lc"][1].skipped, 1)

    @unittest.skipUnless("device_mesh" in signature(DistributedDataParallel).parameters,
                         "DistributedDataParallel of this PyTorch takes no mesh")
    def test_device_mesh(self):
        for world in (2, 3):
            self.found(meshed, world, world=world)
