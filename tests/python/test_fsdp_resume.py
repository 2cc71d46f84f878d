# SPDX-License-Identifier: MIT
"""A training that FSDP2 shards is stopped, and goes on from torch.distributed.checkpoint on other meshes."""
import tempfile
import unittest

import torch

import threelc.torch
from cluster import CLUSTER
from outer_models import HAS_FSDP2

try:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
except ImportError:
    fully_shard = None


def loss_of(model, seed, points=32):
    """Of points in the plane, which are within a circle or not: each is as likely."""
    x = torch.randn(points, 2, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], (x.norm(dim=1) < 1.18).float())


class Training:
    def __init__(self, rank, shape):
        """shape: of the mesh, replicas by shards. Each has other weights at the start."""
        torch.manual_seed(sum(shape))
        self.rank = rank
        self.model = torch.nn.Sequential(torch.nn.Linear(2, 50), torch.nn.Tanh(), torch.nn.Linear(50, 30),
                                         torch.nn.Tanh(), torch.nn.Linear(30, 1))
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard"))
        for module in (self.model[2], self.model):
            fully_shard(module, mesh=mesh)
        self.state = threelc.torch.register_fsdp(self.model, "3lc-golomb", min_numel=1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)

    def train(self, numbers):
        for step in numbers:
            self.optimizer.zero_grad()
            loss_of(self.model, 10 * step + self.rank).backward()
            self.optimizer.step()

    @torch.no_grad()
    def loss(self):
        """Of the same points on all ranks."""
        return float(loss_of(self.model, 10**6, 500))

    def held(self):
        """What a checkpoint has."""
        return {"model": self.model.state_dict(), "residuals": self.state.sharded_state_dict(),
                "optimizer": get_optimizer_state_dict(self.model, self.optimizer)}

    def load(self, folder):
        held = self.held()
        dcp.load(held, checkpoint_id=folder)
        self.model.load_state_dict(held["model"])
        set_optimizer_state_dict(self.model, self.optimizer, optim_state_dict=held["optimizer"])
        self.state.load_sharded_state_dict(held["residuals"])

    def whole(self):
        """Weights, momentum and residuals, by name, of whole parameters. Residuals: the mean over the replicas."""
        held = self.held()
        held["optimizer"] = {name: each["momentum_buffer"] for name, each in held["optimizer"]["state"].items()}
        return {kind: {name: tensor.full_tensor().clone() for name, tensor in held[kind].items()} for kind in held}


def first(rank, world, folder):
    """Saves after some steps. The losses before and after, and what was saved."""
    training = Training(rank, (2, 2))
    before = training.loss()
    training.train(range(25))
    dcp.save(training.held(), checkpoint_id=folder)
    return before, training.loss(), training.whole()


def second(rank, world, folder, shape):
    """Goes on. What was loaded, the losses before and after, and the shards then."""
    training = Training(rank, shape)
    training.load(folder)
    found, before = training.whole(), training.loss()
    training.train(range(25, 50))
    shards = [p.to_local().detach().clone() for p in training.model.parameters()]
    return found, before, training.loss(), shards


@unittest.skipUnless(HAS_FSDP2, "PyTorch has no FSDP2 that runs on CPUs")
class Resume(unittest.TestCase):
    def same(self, found, wanted):
        """Bit for bit."""
        self.assertEqual(sorted(found), sorted(wanted))
        for name, tensor in found.items():
            self.assertTrue(torch.equal(tensor, wanted[name]), name)

    def test_other_meshes(self):
        """Weights and momentum have the saved bits, and residuals the saved mean. The loss goes on from where it was,
        and falls; all replicas have the same weights."""
        with tempfile.TemporaryDirectory() as folder:
            saved = CLUSTER.run(4, first, folder)
            start, stop, wanted = saved[0]
            self.assertLess(stop, 0.9 * start)
            self.assertTrue(all(tensor.any() for tensor in wanted["residuals"].values() if tensor.numel() > 1))
            for shape in ((2, 1), (4, 1)):
                ranks = CLUSTER.run(shape[0] * shape[1], second, folder, shape)
                for i, (found, before, after, shards) in enumerate(ranks):
                    for kind in ("model", "optimizer"):
                        self.same(found[kind], wanted[kind])
                    self.assertEqual(sorted(found["residuals"]), sorted(wanted["residuals"]))
                    for name, tensor in found["residuals"].items():
                        torch.testing.assert_close(tensor, wanted["residuals"][name], atol=1e-7, rtol=1e-6)
                    self.assertAlmostEqual(before, stop, 6)
                    self.assertLess(after, 0.9 * stop)
                    for one, other in zip(shards, ranks[i % shape[1]][3]):
                        self.assertTrue(torch.equal(one, other))
