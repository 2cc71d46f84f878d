# SPDX-License-Identifier: MIT
"""What register_fsdp() reads of FSDP2: shards and their places in what hooks get, modules, meshes, and which process
group carries messages. Whole sentences of what is refused."""
import unittest
from datetime import timedelta
from types import SimpleNamespace
from unittest import mock

import torch

import threelc.torch
from fake_dist import Network
from faults import prepared
from outer_models import HAS_FSDP2
from threelc.torch import _fsdp2, fsdp
from threelc.torch._common.versions import fsdp_param_groups

try:
    from torch.distributed._composable.replicate_with_fsdp import replicate
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor
except ImportError:
    DTensor = None


def parameter(n, padded, requires_grad=True, name="p", module=None):
    """As FSDP2 keeps one: this rank has n values of a row, and others have at most `padded`."""
    mesh = init_device_mesh("cpu", (1,))
    whole = torch.nn.Parameter(DTensor.from_local(torch.full((n,), 2.0), mesh, shape=(n,), stride=(1,)), requires_grad)
    return SimpleNamespace(padded_sharded_param_size=(padded,), sharded_size=(n,), sharded_param=whole,
                           _module_info=SimpleNamespace(module=module, param_name=name))


@unittest.skipUnless(HAS_FSDP2, "PyTorch has no FSDP2 that runs on CPUs")
class Shards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        prepared()

    def made(self):
        """This rank has all of a, less than others of b, nothing of c, and nobody trains d."""
        parameters = [parameter(3, 3, name="a"), parameter(2, 3, name="b"), parameter(0, 1, name="c"),
                      parameter(4, 4, False, name="d"), parameter(0, 0, name="e")]
        groups = [SimpleNamespace(fsdp_params=parameters[:2], all_reduce_grads=True),
                  SimpleNamespace(fsdp_params=parameters[2:], all_reduce_grads=True)]
        with mock.patch.object(_fsdp2, "fsdp_param_groups", lambda module: groups):
            return _fsdp2.Shards(None, {None: "_orig_mod.net"}), groups, parameters

    def test_pieces(self):
        """Places of others, which have more, are 0."""
        shards, _, parameters = self.made()
        self.assertEqual(shards.sizes, {"net.a": 3, "net.b": 3, "net.c": 1})
        self.assertEqual(shards.shapes, {"net.a": [3], "net.b": [2], "net.c": [0], "net.d": [4], "net.e": [0]})
        given = {"net.a": torch.arange(3.0), "net.b": torch.tensor([5.0, 6.0, 0.0]), "net.c": torch.zeros(1)}
        tensors = shards.to_dtensors(given)
        self.assertEqual({name: tensor.to_local().tolist() for name, tensor in tensors.items()},
                         {"net.a": [0, 1, 2], "net.b": [5, 6], "net.c": [], "net.e": []})
        back = shards.to_pieces(tensors)
        self.assertEqual({name: piece.tolist() for name, piece in back.items()},
                         {name: piece.tolist() for name, piece in given.items()})
        marked = {f"{name}.x": tensor for name, tensor in tensors.items()}
        self.assertEqual({name: piece.tolist() for name, piece in shards.to_pieces(marked, ".x").items()},
                         {name: piece.tolist() for name, piece in given.items()})
        given["net.a"] += 1  # pieces are copies
        self.assertEqual(tensors["net.a"].to_local().tolist(), [0, 1, 2])
        shards.set_gradients({"net.b": torch.tensor([7.0, 8.0, 0.0])})
        self.assertEqual([each.sharded_param.grad is None for each in parameters], [True, False, True, True, True])
        self.assertEqual(parameters[1].sharded_param.grad.to_local().tolist(), [7, 8])

    def test_groups(self):
        """A module may have several, and all count."""
        shards, groups, _ = self.made()
        self.assertEqual((shards.all_reduces, shards.divides_afterwards), (True, False))
        for group in groups:
            group.all_reduce_grads, group.force_sum_reduction_for_comms = False, True
            self.assertEqual((shards.all_reduces, shards.divides_afterwards), (False, True))
            group.all_reduce_grads = True
            del group.force_sum_reduction_for_comms


@unittest.skipUnless(HAS_FSDP2, "PyTorch has no FSDP2 that runs on CPUs")
class Replicas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        prepared()

    def test_no_mean_over_replicas(self):
        """FSDP2 then knows of the shards alone, and the next register_fsdp() of the replicas."""
        mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("replicate", "shard"))
        both, single = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        fully_shard(both, mesh=mesh)
        replicate(single)
        for module, before, after in ((both, "HSDPMeshInfo", "FSDPMeshInfo"),
                                      (single, "DDPMeshInfo", "DataParallelMeshInfo")):
            group, = fsdp_param_groups(module)
            info, replicas = group.mesh_info, _fsdp2.replicas_of(group)
            self.assertEqual(type(info).__name__, before)
            self.assertIsNotNone(replicas)
            separate = info.reduce_scatter_process_group = object()
            for _ in range(2):
                _fsdp2.average_no_replicas(group)
                now = group.mesh_info
                self.assertEqual((type(now).__name__, now.mesh, now.replicate_mesh_dim),
                                 (after, info.mesh, None if module is both else info.replicate_mesh_dim))
                self.assertIs(_fsdp2.replicas_of(group), replicas)
                if module is both:
                    self.assertEqual((now.shard_mesh_dim, now.shard_mesh_size), (1, 1))
                    self.assertIs(now.reduce_scatter_process_group, separate)

    def test_nothing_to_train(self):
        """A module without parameters has shards of nothing."""
        net = torch.nn.Sequential(torch.nn.Identity())
        fully_shard(net, mesh=init_device_mesh("cpu", (1,)))
        (how, state), = Network(1).run(lambda rank: threelc.torch.register_fsdp(net).state_dict())
        self.assertEqual((how, state["shard"], state["groups"]), ("returned", 0, {}))


class Meshes(unittest.TestCase):
    def test_what_is_refused(self):
        """Whole sentences, before anything else is done."""
        class DistributedDataParallel(torch.nn.Module):
            pass

        class FullyShardedDataParallel(torch.nn.Module):
            pass

        for model, kind, words in (
                (3, TypeError, "register_fsdp() takes a module, not 3"),
                (DistributedDataParallel(), TypeError, "register_fsdp() takes a module that fully_shard() was called "
                 "for: this is one of DistributedDataParallel, for register()"),
                (FullyShardedDataParallel(), TypeError, "register_fsdp() takes a module that fully_shard() was called "
                 "for, not FullyShardedDataParallel: for its HYBRID_SHARD make the group of replicas with new_group()"),
                (torch.nn.Linear(2, 2), ValueError, "fully_shard() was called for no module of this model")):
            with self.assertRaises(kind) as caught:
                threelc.torch.register_fsdp(model)
            self.assertEqual(str(caught.exception), words)

    def test_modules(self):
        """Of a list of modules that are sharded together the first counts. Older releases get a sentence."""
        net = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1), torch.nn.Linear(1, 1))
        together = SimpleNamespace()
        one = SimpleNamespace(device=torch.device("cpu"))
        for module, state in ((net[0], together), (net[1], together), (net[2], one)):
            module._get_fsdp_state = lambda state=state: state
        for runs, groups in ((True, [one]), (False, []), (False, [SimpleNamespace(device=torch.device("cuda"))])):
            with mock.patch.object(fsdp, "has_all_reduce_hook", lambda module: module is not net), \
                    mock.patch.object(fsdp, "fsdp_param_groups", lambda module, groups=groups: groups), \
                    mock.patch.object(fsdp, "fsdp_runs_on_cpus", lambda runs=runs: runs):
                self.assertEqual(fsdp._modules_of(net), {"0": net[0], "2": net[2]})
        release = f"FSDP2 of PyTorch {torch.__version__} "
        for hook, words in (
                (True, "does not run on CPUs, with or without this hook: it needs a GPU, or a newer PyTorch"),
                (False, "gives no access to what replicas exchange (set_all_reduce_hook): it needs a newer PyTorch")):
            with mock.patch.object(fsdp, "has_all_reduce_hook", lambda module, hook=hook: hook and module is not net), \
                    mock.patch.object(fsdp, "fsdp_param_groups", lambda module: [one]), \
                    mock.patch.object(fsdp, "fsdp_runs_on_cpus", lambda: False):
                with self.assertRaises(RuntimeError) as caught:
                    fsdp._modules_of(net)
                self.assertEqual(str(caught.exception), release + words)

    def test_groups(self):
        """The group for messages: that of the mesh's replicas, or the user's."""
        class ProcessGroup:
            def __init__(self, ranks, rank=0):
                self.ranks, self.rank = ranks, rank

        asked = []
        dist = SimpleNamespace(ProcessGroup=ProcessGroup, get_rank=lambda group: group.rank,
                               get_process_group_ranks=lambda group: group.ranks,
                               new_group=lambda ranks, **others: asked.append((ranks, others)) or "made")
        own, other, outside = ProcessGroup([0, 2]), ProcessGroup([0, 1]), ProcessGroup([0, 1], -1)
        with mock.patch.object(fsdp, "dist", dist):
            for timeout in None, timedelta(seconds=7):
                with mock.patch.object(fsdp, "timeout_of", lambda group, timeout=timeout: timeout):
                    self.assertEqual(fsdp._group_of(ProcessGroup([0, 2]), None, 2), "made")
            plain = {"backend": "gloo", "use_local_synchronization": True}
            self.assertEqual(asked, [([0, 2], plain), ([0, 2], {**plain, "timeout": timeout})])
            for replicas, group, shards in ((None, None, 1), (None, other, 2), (own, own, 2), (own, outside, 2),
                                            (own, "no group", 2)):
                self.assertIs(fsdp._group_of(replicas, group, shards), group)
            for replicas, group, words in (
                    (None, None, "fully_shard() was called with a mesh of 2 shards and no replicas: pass "
                     "process_group=, a group of the ranks that have the same shard, or call fully_shard() with a mesh "
                     "of two dimensions"),
                    (own, other, "process_group has the ranks [0, 1], and the replicas of the mesh are [0, 2]: leave "
                     "it out")):
                with self.assertRaises(ValueError) as caught:
                    fsdp._group_of(replicas, group, 2)
                self.assertEqual(str(caught.exception), words)
            with mock.patch.object(fsdp, "fsdp_param_groups", lambda groups: groups), \
                    mock.patch.object(fsdp, "replicas_of", lambda group: group):
                self.assertIsNone(fsdp._replicas_of({}))
                self.assertIsNone(fsdp._replicas_of({"a": [None], "b": [None]}))
                self.assertIs(fsdp._replicas_of({"a": [own, ProcessGroup([0, 2])], "b": [own]}), own)
                for modules in {"a": [own], "b": [other]}, {"a": [own, None]}:
                    with self.assertRaises(ValueError) as caught:
                        fsdp._replicas_of(modules)
                    self.assertEqual(str(caught.exception), "fully_shard() was called with meshes of which some have "
                                     "other replicas than others: register_fsdp() needs the same replicas for all "
                                     "modules")

    def test_meshes(self):
        """What meshes say of replicas and shards, where they do."""
        for info, replicas, index, count in (
                ({}, None, 0, 1), ({"shard_mesh_rank": 2, "shard_mesh_size": 4}, None, 2, 4),
                ({"replicate_process_group": "new"}, "new", 0, 1),
                ({"_threelc_replicas": "known", "replicate_process_group": "new"}, "known", 0, 1),
                ({"_threelc_replicas": None, "replicate_process_group": "new"}, "new", 0, 1)):
            group = SimpleNamespace(mesh_info=SimpleNamespace(**info))
            self.assertEqual((_fsdp2.replicas_of(group), _fsdp2.shard_index(group), _fsdp2.shard_count(group)),
                             (replicas, index, count))


if __name__ == "__main__":
    unittest.main()
