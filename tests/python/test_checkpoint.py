# SPDX-License-Identifier: MIT
"""States of ranks in a checkpoint of torch.distributed.checkpoint, by every way to train: as many ranks go on with the
same bits, others as from the states of all."""
import tempfile
import unittest
from pathlib import Path

import torch.distributed as dist

from cluster import CLUSTER, attempt
from outer_models import HAS_FSDP2
from test_states import Way
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
