# SPDX-License-Identifier: MIT
"""Local steps, the parameter server and gossip as optimizers of PyTorch: scalers, hooks, copies."""
import copy
import enum
import io
import math
import unittest
from collections import defaultdict

import torch

import threelc
import threelc.torch
from cluster import CLUSTER, Refusals, attempt
from test_outer_arguments import WAYS, make

SCALER = hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler")  # also on CPUs


class Stage(enum.Enum):
    """As of the scaler of PyTorch 1."""

    READY = 0
    UNSCALED = 1


class OldScaler:
    """Calls step() as the scaler of PyTorch 1 does, which needs a GPU."""

    def __init__(self):
        self._per_optimizer_states = defaultdict(lambda: {"stage": Stage.READY, "found_inf_per_device": {}})

    def scale(self, loss):
        return loss * 1024

    def unscale_(self, optimizer):
        found = self._per_optimizer_states[id(optimizer)]
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        for gradient in gradients:
            gradient /= 1024
        found["found_inf_per_device"]["cpu"] = torch.tensor(float(any(not g.isfinite().all() for g in gradients)))
        found["stage"] = Stage.UNSCALED

    def step(self, optimizer):
        optimizer.step(grad_scaler=self)

    def update(self):
        self._per_optimizer_states.clear()


def scaled_steps(rank, model, optimizer, scaler, kind, bad):
    """Four steps with gradients of 1; rank 1 has an infinity in those of `bad`. Yields what each told the scaler."""
    for step in range(4):
        optimizer.zero_grad()
        scaler.scale(model.weight.sum() * (math.inf if rank == 1 and step in bad else 1.0)).backward()
        if kind == "unscaled":
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        told = [float(v) for state in scaler._per_optimizer_states.values()
                for v in state["found_inf_per_device"].values()]
        scaler.update()
        yield told


def scaled(rank, world, way, kind, bad):
    """Weights after each of the steps."""
    model = torch.nn.Linear(20, 20)
    with torch.no_grad():
        model.weight.fill_(0.0)
    optimizer = make(way, model, codec="raw")
    scaler = OldScaler() if kind == "old" else torch.amp.GradScaler("cpu", init_scale=1024.0)
    found = []
    for _ in scaled_steps(rank, model, optimizer, scaler, kind, bad):
        found.append(round(float(model.weight.detach()[0, 0]), 5))
    return found, optimizer.stats.steps


def after_an_exception(rank, world):
    """The scale of the next step is right after a round that raised an exception."""
    model = torch.nn.Linear(20, 20)
    torch.nn.init.zeros_(model.weight)
    optimizer = make("LocalSteps", model, codec="raw", every=1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    raised = []
    for step in range(2):
        optimizer.zero_grad()
        scaler.scale(model.weight.sum()).backward()
        optimizer.param_groups[0]["lr"] = math.inf if step == 0 and rank == 1 else 0.1
        try:
            scaler.step(optimizer)
        except threelc.StepError as error:
            raised.append(str(error))
        scaler.update()
    optimizer.zero_grad()
    model.weight.sum().backward()
    optimizer.step()  # without a scaler
    return len(raised), round(float(model.weight.detach()[0, 0]), 5)


def float16(rank, world):
    model = torch.nn.Linear(20, 20).half()
    optimizer = make("LocalSteps", model)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(model.weight.float().sum()).backward()
    scaler.step(optimizer)


def unknown(rank, world, way):
    make(way, torch.nn.Linear(3, 3)).step(scale=3)


def copied(rank, world, way):
    """What copies and pickles raise; the steps after it are as ever."""
    model = torch.nn.Linear(20, 20)
    optimizer = make(way, model)
    raised = [attempt(function, optimizer)[:2] for function in (
        copy.copy, copy.deepcopy, lambda o: torch.save({"optimizer": o}, io.BytesIO()))]
    model(torch.ones(4, 20)).sum().backward()
    optimizer.step()
    return raised


def hooked(rank, world, way):
    model = torch.nn.Linear(20, 20)
    optimizer = make(way, model)
    called = []
    optimizer.register_step_pre_hook(lambda *arguments: called.append(("pre", arguments[0] is optimizer)))
    handle = optimizer.register_step_post_hook(lambda *arguments: called.append(("post", arguments[0] is optimizer)))
    model(torch.ones(4, 20)).sum().backward()
    optimizer.step()
    handle.remove()
    optimizer.step()
    return called, [attempt(getattr(optimizer, f"register_{name}_hook"), print)[:2]
                    for name in ("state_dict_pre", "load_state_dict_post")]


class Scalers(Refusals):
    def check(self, kind):
        """A step is left out on the rank with the infinity, and counted."""
        for found, steps in CLUSTER.run(2, scaled, "LocalSteps", kind, ()):
            self.assertEqual((found[1], found[3], steps), (-0.2, -0.4, 4))
        for found, steps in CLUSTER.run(2, scaled, "LocalSteps", kind, (0, 3)):
            self.assertEqual((found[1], found[3], steps), (-0.15, -0.3, 4))
        models = CLUSTER.run(2, scaled, "Gossip", kind, (1,))
        self.assertEqual([steps for _, steps in models], [4, 4])
        self.assertAlmostEqual(sum(found[3] for found, _ in models) / 2, -0.35, places=5)

    @unittest.skipUnless(SCALER, "this PyTorch scales losses on GPUs only")
    def test_scaler(self):
        for kind in ("plain", "unscaled"):
            self.check(kind)

    def test_scaler_of_pytorch_1(self):
        self.check("old")

    @unittest.skipUnless(SCALER, "this PyTorch scales losses on GPUs only")
    def test_after_an_exception(self):
        for raised, weight in CLUSTER.run(2, after_an_exception):
            self.assertEqual((raised, weight), (1, -0.2))

    @unittest.skipUnless(SCALER, "this PyTorch scales losses on GPUs only")
    def test_refusals(self):
        for kind in ("plain", "unscaled"):
            self.refused(CLUSTER.outcomes(2, scaled, "PushPull", kind, ()), "TypeError",
                         "a GradScaler has called step() of PushPull, which does not know it")
        self.refused(CLUSTER.outcomes(2, float16), "ValueError", "a GradScaler cannot unscale float16 gradients")

    def test_refusals_of_all(self):
        self.refused(CLUSTER.outcomes(2, scaled, "PushPull", "old", ()), "TypeError",
                     "a GradScaler has called step() of PushPull, which does not know it")
        for way in WAYS:
            self.refused(CLUSTER.outcomes(2, unknown, way), "TypeError", "step() has no argument scale")


class Copies(unittest.TestCase):
    def test_copies(self):
        for way in WAYS:
            for raised in CLUSTER.run(2, copied, way):
                self.assertEqual(raised, [("TypeError", f"{way} has connections to other ranks, so it cannot be copied "
                                                        "or pickled: save its state_dict()")] * 3)

    @unittest.skipUnless(hasattr(torch.optim.Optimizer, "register_step_post_hook"), "this PyTorch has no such hooks")
    def test_hooks(self):
        for way in WAYS:
            for called, refused in CLUSTER.run(2, hooked, way):
                self.assertEqual(called, [("pre", True), ("post", True), ("pre", True)])
                words = f"state_dict() and load_state_dict() of {way} call no hooks"
                self.assertEqual(refused, [("TypeError", words)] * 2)
