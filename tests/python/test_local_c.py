# SPDX-License-Identifier: MIT
"""threelc/local.h against LocalSteps: the same bits of weights, common model and momentum. In real processes over gloo,
which carry the messages of both."""
import ctypes
import unittest

import torch

import threelc.torch
from cluster import CLUSTER
from outer_models import Linear
from threelc import _c, exchange
from threelc._library import check, lib
from threelc.torch._common.groups import Clock, Group
from threelc.torch._common.transport import Transport

EVERY, STEPS, RATE = 3, 15, 0.1
DTYPES = {torch.float32: _c.DType.F32, torch.float16: _c.DType.F16, torch.bfloat16: _c.DType.BF16}


def built(dtype):
    model = Linear()
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(torch.randn(p.shape, generator=torch.Generator().manual_seed(i)))
    return model.to(dtype)


def is_fused():
    """Whether PyTorch rounds a * b + c once on this CPU, as the library does everywhere."""
    a, b = torch.full((2, 64), 1 + 2.0 ** -12)
    return float(torch.add(-a, b, alpha=float(a[0])).unique()) == float(a[0].double() * b[0].double() - a[0].double())


class InC:
    """Local steps of a model with threelc/local.h."""

    def __init__(self, rank, world, model, settings):
        self.parameters = dict(model.named_parameters())
        self.transport, self.clock, self.residuals = Transport(), Clock(), {}
        self.decay = settings.get("residual_decay", 1)
        self.common = {name: p.detach().float().reshape(-1).clone() for name, p in self.parameters.items()}
        self.momentum = {name: torch.zeros_like(each) for name, each in self.common.items()}
        config = exchange.Config(workers=world, push=settings["codec"], gather=True)
        self.group = Group(config, rank, list(self.common), [each.numel() for each in self.common.values()],
                           self.residuals)
        outer = settings.get("sgd", {})
        self.config = _c.LocalConfig(
            struct_size=ctypes.sizeof(_c.LocalConfig), rate=outer.get("lr", 1), momentum=outer.get("momentum", 0),
            nesterov=int(outer.get("nesterov", False)), error_reset=settings.get("error_reset", 1),
            mix=settings.get("mix", 0))
        self.tensors = {
            name: _c.LocalTensor(
                struct_size=ctypes.sizeof(_c.LocalTensor), n=each.numel(), common=each.data_ptr(),
                momentum=self.momentum[name].data_ptr(), residual=self.residuals[name].data_ptr(),
                weights=self.parameters[name].data_ptr(), dtype=DTYPES[self.parameters[name].dtype])
            for name, each in self.common.items()}

    def call(self, verb, name, *arrays):
        check(getattr(lib, f"tlc_local_{verb}")(ctypes.byref(self.config), ctypes.byref(self.tensors[name]),
                                                *(array.data_ptr() for array in arrays)))

    def end_round(self):
        changes = [torch.empty_like(each) for each in self.common.values()]
        for name, change in zip(self.common, changes):
            self.call("change", name, change)
        self.group.run(self.transport, changes, changes, self.clock)
        if self.decay != 1:
            self.group.residual_scale(self.decay)
        for name, mean in zip(self.common, changes):
            self.call("outer", name, mean)
            self.call("start", name)


def bits(tensors):
    """A zero has no sign."""
    return [(tensor.detach().float().reshape(-1) + 0.0).view(torch.int32).tolist() for tensor in tensors]


def both(rank, world, dtype, settings):
    """After each step, whether all that there is has the same bits; and whether weights are not the common ones."""
    ours, theirs = built(dtype), built(dtype)
    sgd = settings.get("sgd")
    optimizer = threelc.torch.LocalSteps(
        theirs, torch.optim.SGD(theirs.parameters(), RATE), sgd and (lambda p: torch.optim.SGD(p, **sgd)), every=EVERY,
        average_buffers=False, **{name: value for name, value in settings.items() if name != "sgd"})
    inner = torch.optim.SGD(ours.parameters(), RATE)
    in_c = InC(rank, world, ours, settings)
    found = []
    for step in range(STEPS):
        for model, way in (ours, inner), (theirs, optimizer):
            way.zero_grad()
            model(rank, step).backward()
            way.step()
        if (step + 1) % EVERY == 0:
            in_c.end_round()
        found.append(bits(ours.parameters()) == bits(theirs.parameters())
                     and bits(in_c.common.values()) == bits(optimizer._anchors.values())
                     and bits(in_c.residuals.values()) == bits(optimizer.residuals.values()))
    if sgd and sgd.get("momentum"):
        theirs = [-optimizer.outer_optimizer.state[anchor]["momentum_buffer"] for anchor in optimizer._anchors.values()]
        found.append(bits(in_c.momentum.values()) == bits(theirs))
    return found, bits(in_c.common.values()) != bits(ours.parameters())


class LocalStepsInC(unittest.TestCase):
    def same(self, dtype, settings):
        for found, differs in CLUSTER.run(2, both, dtype, {"codec": "topk:p=0.05+golomb", **settings}):
            self.assertTrue(all(found), (dtype, settings, found))
            self.assertTrue(differs)

    def test_exact_products(self):
        """On any CPU."""
        self.same(torch.float32, {})
        self.same(torch.bfloat16, {"codec": "3lc", "residual_decay": 0.95})
        self.same(torch.float32, {"sgd": {"lr": 0.5, "momentum": 0.5, "nesterov": True}, "error_reset": 0.5})

    @unittest.skipUnless(is_fused(), "PyTorch does not fuse multiplications and additions on this CPU")
    def test_fused_products(self):
        self.same(torch.float32, {"sgd": {"lr": 0.7, "momentum": 0.9, "nesterov": True}, "residual_decay": 0.9})
        self.same(torch.float16, {"sgd": {"lr": 0.7, "momentum": 0.9}, "error_reset": 0.3})
        self.same(torch.float32, {"sgd": {"lr": 0.3}, "mix": 0.3})
        self.same(torch.bfloat16, {"mix": 0.7, "codec": "3lc"})
