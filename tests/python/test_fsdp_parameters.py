# SPDX-License-Identifier: MIT
"""register_fsdp(): what each parameter of a sharded module has of its own: scale, moments, residual."""
import tempfile
import unittest
from unittest import mock

import torch

import threelc.torch
import threelc.torch._fsdp2
from cluster import CLUSTER, Refusals
from outer_models import HAS_FSDP2
from test_fsdp import Both, both, given, sharded, steps, sums, unsent

try:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
except ImportError:
    fully_shard = None

MOMENTS = {"momentum_correction": 0.9, "second_moment": 0.95}


class Uneven(torch.nn.Module):
    """One parameter has gradients that are 1000 times those of the other."""

    def __init__(self):
        super().__init__()
        self.large, self.small = (torch.nn.Parameter(torch.zeros(64, 32)) for _ in range(2))

    def forward(self, rank):
        draw = torch.Generator().manual_seed(rank)
        large, small = (torch.randn(64, 32, generator=draw) for _ in range(2))
        return (self.large * large).sum() + (self.small * small).sum() / 1000


def uneven(rank, world):
    """How many values arrive in the first step, and the names of residuals."""
    model = Uneven()
    fully_shard(model, mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")))
    state = threelc.torch.register_fsdp(model, "3lc:s=1.5")
    model(rank).backward()
    return [int(p.grad.to_local().count_nonzero()) for p in (model.large, model.small)], sorted(state.residuals)


class Partly(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.given = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(20, 30)) for _ in range(3)])

    def forward(self, used):
        return sum(p.sum() for p, uses in zip(self.given, used) if uses)


def partly_used(rank, world, *used):
    """Steps that use some of the parameters. The gradients of the last step, and the names of residuals."""
    model = Partly()
    fully_shard(model, mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")))
    state = threelc.torch.register_fsdp(model, "3lc", min_numel=1)
    for each in used:
        model.zero_grad()
        model(each).backward()
    gradients = [None if p.grad is None else float(p.grad.full_tensor().mean()) for p in model.given]
    return gradients, sorted(state.residuals)


def normalized(rank, world, settings):
    """Steps: the sum of what comes out of the hook."""
    model, _ = both(rank, (2, 2), settings)
    return given(rank, model, range(4))


def by_hand(beta):
    """The same for raw, of two replicas of two ranks each."""
    total = {}
    for part in ("first", "second"):
        squares = {}
        for step in range(4):
            every = [getattr(Both(), part).gradients(rank, step) for rank in range(4)]
            for replica in range(2):
                for i, (one, other) in enumerate(zip(*every[2 * replica:2 * replica + 2])):
                    gradient = (one + other) / 2
                    squares[replica, i] = beta * squares.get((replica, i), 0) + (1 - beta) * gradient ** 2
                    root = (squares[replica, i] / (1 - beta ** (step + 1))).sqrt() + 1e-8
                    total[f"{part}.given.{i}"] = total.get(f"{part}.given.{i}", 0) + gradient / root / 2
    return total


def resumed(rank, world, stop, settings):
    """The shards after six steps, around a stop."""
    model, _ = sharded(rank, True)
    state = threelc.torch.register_fsdp(model, min_numel=1, **settings)
    steps(rank, model, range(stop))
    saved = state.state_dict()
    state = threelc.torch.register_fsdp(model, min_numel=1, **settings)
    state.load_state_dict(saved)
    return steps(rank, model, range(stop, 6))


def saved(rank, world, folder):
    model, state = both(rank, (2, 2), {"codec": "3lc", **MOMENTS})
    given(rank, model, range(3))
    left = state.sharded_state_dict()
    dcp.save({"unsent": left}, checkpoint_id=folder)
    return unsent_and_moments(left), moments_of(state)


def unsent_and_moments(state):
    return {name: tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor.clone()
            for name, tensor in state.items()}


def moments_of(state):
    """Of this rank, by kind."""
    own = state.state_dict()
    return {"velocity": own["velocities"], "second_moment": own["second_moments"]["squares"]}


def loaded(rank, world, folder, form):
    """What was loaded, and whether a step after it gives finite gradients."""
    model, state = both(rank, form, {"codec": "3lc", **MOMENTS})
    held = {"unsent": state.sharded_state_dict()}
    dcp.load(held, checkpoint_id=folder)
    state.load_sharded_state_dict(held["unsent"])
    found = unsent_and_moments(state.sharded_state_dict())
    out = given(rank, model, [3])
    return found, all(tensor.isfinite().all() for tensor in out.values())


def flushed(rank, world, codec):
    """Steps, and what comes out of them and of flush(); what is left, and of another flush()."""
    model, state = both(rank, (2, 2), {"codec": codec})
    total = given(rank, model, range(3))
    found = []
    for _ in range(2):
        model.zero_grad()
        state.flush()
        found.append({name: None if p.grad is None else p.grad.full_tensor()
                      for name, p in model.named_parameters() if p.requires_grad})
    return total, *found, unsent(state) if codec != "raw" else {}


def older(rank, world, stop, settings=None):
    """As resumed(), where the state before the stop has a module as one tensor, as it was before 0.5.0. With stop=6 all
    steps are made so. The shards, and what is not sent."""
    model, _ = sharded(rank, True)

    def whole(self):
        return {name: sum(sizes.fget(self).values()) for name in [where[id(self)]]}

    sizes = threelc.torch._fsdp2.Shards.sizes
    with mock.patch.object(threelc.torch._fsdp2.Shards, "sizes", property(whole)):
        state = threelc.torch.register_fsdp(model, min_numel=1)
        where = {id(shards): name for name, shards in state._shards.items()}
        found = steps(rank, model, range(stop))
        saved = state.state_dict()
    for entry in ("velocities", "second_moments"):
        del saved[entry]
    assert all(group["names"] == [name] for name, group in saved["groups"].items())
    if stop < 6:
        state = threelc.torch.register_fsdp(model, min_numel=1, **settings or {})
        state.load_state_dict(saved)
        found = steps(rank, model, range(stop, 6))
    return found, unsent(state)


def frozen_since(rank, world, lost):
    """A parameter of the state is frozen. What was not sent of the others before and after."""
    model, state = both(rank, (2, 2), {"codec": "3lc"})
    given(rank, model, range(2))
    before = unsent(state)
    saved = state.state_dict()
    for name, p in model.named_parameters():
        p.requires_grad_(p.requires_grad and name != "first.given.1")
    state = threelc.torch.register_fsdp(model, "3lc", min_numel=1)
    state.load_state_dict(saved, lost)
    return before, unsent(state)


def refused(rank, world, what):
    if what == "float16":
        model, _ = sharded(rank, True, torch.float16)
    else:
        model, _ = sharded(rank, True)
    if what == "sum":
        for module in (model[0], model[2], model):
            module.set_force_sum_reduction_for_comms(True)
    threelc.torch.register_fsdp(model, "3lc", min_numel=1, second_moment=0.95)
    steps(rank, model, range(1))


@unittest.skipUnless(HAS_FSDP2, "PyTorch has no FSDP2 that runs on CPUs")
class Parameters(Refusals):
    def same(self, found, wanted):
        """Bit for bit."""
        self.assertEqual(len(found), len(wanted))
        for one, other in zip(found, wanted):
            self.assertTrue(torch.equal(one, other))

    def close(self, found, wanted):
        self.assertEqual(sorted(found), sorted(wanted))
        for name, tensor in found.items():
            torch.testing.assert_close(tensor, wanted[name], atol=2e-5, rtol=1e-5)

    def test_scales(self):
        """Small gradients arrive beside large ones."""
        for (large, small), names in CLUSTER.run(4, uneven):
            self.assertGreater(large, 10)
            self.assertGreater(small, 10)
            self.assertEqual(names, ["large", "small"])

    def test_some_have_no_gradient(self):
        """Then the module is one tensor. Others later are an exception."""
        part = (True, False, True)
        for gradients, names in CLUSTER.run(4, partly_used, part, part):
            self.assertEqual(gradients, [1, None, 1])
            self.assertEqual(names, ["(root)"])
        self.refused(CLUSTER.outcomes(4, partly_used, part, (True,) * 3), "ValueError",
                     "the gradient of (root) has 900 values, and had 600 before")
        self.refused(CLUSTER.outcomes(4, partly_used, part, (True, True, False)), "ValueError",
                     "other parameters of (root) got gradients than before")

    def test_second_moment(self):
        """That of the gradients of a replica."""
        for found in CLUSTER.run(4, normalized, {"codec": "raw", "second_moment": 0.95}):
            self.close(found, by_hand(0.95))

    def test_momentum_correction(self):
        """Where all values are sent, velocities become 0 each time; where few are, more arrives of what is left than
        without it."""
        few = {"codec": "topk:p=0.2", "mode": "gather"}
        plain, whole, without, corrected = (CLUSTER.run(4, normalized, settings)[0] for settings in (
            {"codec": "raw"}, {"codec": "topk:p=1", "momentum_correction": 0.9}, few,
            {**few, "momentum_correction": 0.9}))
        self.close(whole, plain)
        self.assertGreater(*(sum(float(tensor.abs().sum()) for tensor in each.values())
                             for each in (corrected, without)))

    def test_moments_resume(self):
        for settings in ({"momentum_correction": 0.9}, {"second_moment": 0.95}, MOMENTS):
            for one, other in zip(*(CLUSTER.run(4, resumed, stop, settings) for stop in (6, 2))):
                self.same(one, other)

    def test_moments_on_other_meshes(self):
        """torch.distributed.checkpoint has the mean over the replicas."""
        with tempfile.TemporaryDirectory() as folder:
            ranks = CLUSTER.run(4, saved, folder)
            wanted, *_ = ranks[0]
            self.assertEqual(len(wanted), 4 * 5)
            for kind in ("velocity", "second_moment"):
                for name in ("first.given.1", "second.given.0"):
                    for shard in range(2):  # a column of the mesh
                        mean = sum(ranks[shard + 2 * i][1][kind][name] for i in range(2)) / 2
                        rows = wanted[f"{name}.{kind}"].chunk(2)[shard].reshape(-1)
                        torch.testing.assert_close(mean[:len(rows)], rows)
            for world, form in ((2, (2, 1)), (4, (4, 1)), (2, "replicate")):
                for found, trains in CLUSTER.run(world, loaded, folder, form):
                    self.close(found, wanted)
                    self.assertTrue(trains)

    def test_flush(self):
        """Then nothing is left, and all that went in came out."""
        for total, first, second, left in CLUSTER.run(4, flushed, "3lc-golomb"):
            self.close({name: total[name] + first[name] for name in total}, sums(4, range(3)))
            self.assertTrue(first["first.given.0"].any())
            for tensor in [*second.values(), *left.values()]:
                self.assertFalse(tensor.any())
        for _, first, _, _ in CLUSTER.run(4, flushed, "raw"):
            self.assertEqual(set(first.values()), {None})

    def test_older_states(self):
        """They go on as they were, with one scale for a module, with the same bits."""
        for (one, left), (other, as_left) in zip(*(CLUSTER.run(4, older, stop) for stop in (6, 3))):
            self.same(other, one)
            self.same(list(as_left.values()), list(left.values()))
        self.refused(CLUSTER.outcomes(4, older, 3, {"second_moment": 0.95}), "ValueError",
                     "had neither momentum_correction nor second_moment: leave them out")

    def test_frozen_since(self):
        self.refused(CLUSTER.outcomes(4, frozen_since, False), "ValueError",
                     "that no sharded module trains here: first.given.1 (1 in all)")
        for before, after in CLUSTER.run(4, frozen_since, True):
            del before["first.given.1"]
            self.close(after, before)

    def test_what_is_divided_later(self):
        for what in ("float16", "sum"):
            self.refused(CLUSTER.outcomes(4, refused, what), "ValueError",
                         "second_moment takes gradients that PyTorch divides before the exchange")
