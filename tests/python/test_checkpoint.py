# SPDX-License-Identifier: MIT
"""States of ranks in a checkpoint of torch.distributed.checkpoint, by every way to train: as many ranks go on with the
same bits, others as from the states of all."""
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import threelc
import torch
import torch.distributed as dist

from cluster import CLUSTER, attempt
from outer_models import HAS_FSDP2
from test_states import Way
from threelc.torch import checkpoint
from threelc.torch._common import versions
from threelc.torch.checkpoint import from_dcp, to_dcp

try:
    import torch.distributed.checkpoint as dcp
except ImportError:  # PyTorch 1.13
    dcp = None


def make(way):
    return Way(way, groups=2) if way == "PushPull" else Way(way)


def saved(rank, world, way, folder):
    """Saves after three steps, and once more in the background of two others. Returns the state and the weights."""
    one = make(way)
    one.train(rank, range(3))
    group = dist.new_group()
    state = one.state.state_dict()
    dcp.save({"model": one.net.state_dict(), "ways": {"ours": to_dcp(one.state)}}, checkpoint_id=f"{folder}/now")
    copy = {name: tensor.clone() for name, tensor in one.net.state_dict().items()}  # PyTorch 2.6 would not copy
    later = dcp.async_save({"model": copy, "ways": {"ours": to_dcp(one.state)}},
                           checkpoint_id=f"{folder}/later", process_group=group)
    weights = one.train(rank, range(3, 5))
    later.result()
    return state, weights


def gone_on(rank, world, way, folder, states=None):
    """The weights after two steps more, from the checkpoint, or from the states of all ranks."""
    one = make(way)
    held = {"model": one.net.state_dict()}
    dcp.load(held, checkpoint_id=folder)
    one.net.load_state_dict(held["model"])
    if states is None:
        from_dcp(one.state, dcp.FileSystemReader(folder) if folder.endswith("now") else folder, "ways.ours")
    else:
        one.state.load_state_dict(states)
    return one.train(rank, range(3, 5))


def refusals(rank, world, folder):
    found = []
    one = make("LocalSteps")
    dcp.save({"ours": to_dcp(one.state)}, checkpoint_id=folder)
    found.append(attempt(from_dcp, one.state, folder, "our")[:2])
    found.append(attempt(from_dcp, make("register").state, folder, "ours")[:2])
    if HAS_FSDP2:
        state = make("register_fsdp").state
        found += [attempt(to_dcp, state)[:2], attempt(from_dcp, state, folder, "ours")[:2]]
    return found


@unittest.skipUnless(hasattr(dcp, "async_save"), "PyTorch 1.13 has no torch.distributed.checkpoint")
class Checkpoints(unittest.TestCase):
    def check(self, way):
        with tempfile.TemporaryDirectory() as folder:
            states, weights = zip(*CLUSTER.run(2, saved, way, folder))
            for name in ("now", "later"):
                self.assertEqual(CLUSTER.run(2, gone_on, way, str(Path(folder, name))), list(weights), name)
            for world in (3, *[1] * (way != "Gossip")):  # which needs a neighbour
                one, other = (CLUSTER.run(world, gone_on, way, str(Path(folder, "now")), *given)
                              for given in ((), (list(states),)))
                self.assertEqual(one, other, world)

    def test_register(self):
        self.check("register")

    def test_local_steps(self):
        self.check("LocalSteps")

    def test_sharded_optimizer(self):
        self.check("ShardedOptimizer")

    def test_push_pull(self):
        self.check("PushPull")

    def test_gossip(self):
        self.check("Gossip")

    def test_refusals(self):
        with tempfile.TemporaryDirectory() as folder:
            for found in CLUSTER.run(2, refusals, folder):
                self.assertEqual(found[0], ("ValueError", "the checkpoint has nothing of to_dcp() under 'our'"))
                self.assertEqual(found[1][0], "ValueError")
                self.assertIn("a state of version 1 is needed, that of register()", found[1][1])
                for kind, words in found[2:]:
                    self.assertEqual(kind, "TypeError")
                    self.assertIn("sharded_state_dict()", words)


class Named(SimpleNamespace):
    """An object with a state, and a reader of checkpoints of it, without ranks."""

    def __init__(self, rank, world, shard="", saved=()):
        super().__init__(_transport=SimpleNamespace(rank=rank, world=world), _model=SimpleNamespace(shard=shard),
                         state_dict=lambda: {"of": rank}, load_state_dict=self.load, saved=saved)

    def load(self, states, **more):
        self.loaded = [state["of"] for state in states], more

    def read_metadata(self):
        return SimpleNamespace(state_dict_metadata={name: SimpleNamespace(size=octets.shape)
                                                    for name, octets in self.saved.items()})


@unittest.skipUnless(hasattr(dcp, "async_save"), "PyTorch 1.13 has no torch.distributed.checkpoint")
class Names(unittest.TestCase):
    def test_which_are_read(self):
        """Of as many ranks the own state, of others those of all; those of this shard alone."""
        saved = {}
        for shard, world in ("", 3), ("shard1", 2):
            for rank in range(world):
                entry = to_dcp(Named(rank, world, shard))
                self.assertEqual([(name, octets.dtype) for name, octets in entry.items()],
                                 [(f"{shard}.rank{rank}" if shard else f"rank{rank}", torch.uint8)])
                saved.update({f"a.b.{name}": octets for name, octets in entry.items()})
        odd = torch.tensor([7], dtype=torch.uint8)
        saved.update({"a.b.rankx": odd, "axb.rank0": odd, "a.b.rank": odd, "more.a.b.rank0": odd, "a.b.rank0x": odd,
                      "a.brank0": odd})

        def fill(tensors, reader):
            for name, tensor in tensors.items():
                tensor.copy_(reader.saved[name])

        with mock.patch.object(checkpoint, "load_alone", fill), mock.patch.object(dcp, "StorageReader", Named):
            for rank, world, shard, found in ((1, 3, "", [1]), (2, 3, "", [2]), (1, 2, "", [0, 1, 2]),
                                              (3, 4, "", [0, 1, 2]), (0, 2, "shard1", [0]), (0, 3, "shard1", [0, 1])):
                for lost in False, True:
                    one = Named(rank, world, shard)
                    from_dcp(one, Named(0, 1, saved=saved), "a.b", *([lost] if lost else []))
                    self.assertEqual(one.loaded, (found, {"lost": True} if lost else {}))
            with self.assertRaisesRegex(ValueError, "^the checkpoint has nothing of to_dcp\\(\\) under 'a'$"):
                from_dcp(one, Named(0, 1, saved=saved), "a")
            with self.assertRaises(threelc.CorruptError) as caught:
                from_dcp(Named(0, 1), Named(0, 1, saved={"x.rank0": odd}), "x")
            self.assertRegex(str(caught.exception), "^these bytes are no state: .")
            self.assertEqual(caught.exception.status, threelc.Status.CORRUPT)

    def test_loading_alone(self):
        """Where each rank wants other tensors, in each release of PyTorch."""
        calls = []

        def new(tensors, storage_reader, no_dist):
            calls.append((tensors, storage_reader, no_dist))

        def old(tensors, storage_reader):
            raise AssertionError

        def private(tensors, reader, no_dist):
            calls.append((tensors, reader, no_dist))

        for load in new, old:
            with mock.patch.object(dcp, "load", load), mock.patch.object(
                    dcp.state_dict_loader, "_load_state_dict", private):
                versions.load_alone("tensors", "reader")
        self.assertEqual(calls, [("tensors", "reader", True)] * 2)
