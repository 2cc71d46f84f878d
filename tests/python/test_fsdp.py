# SPDX-License-Identifier: MIT
"""register_fsdp() on a real FSDP2, two replicas of two shards, on CPUs."""
import unittest
import warnings

import torch
import torch.distributed as dist

import threelc
import threelc.torch
from cluster import CLUSTER, Refusals

try:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    RUNS = hasattr(torch.cpu.Stream, "record_event")
except ImportError:
    fully_shard, RUNS = None, False


def sharded(rank, two_dimensions=False, dtype=torch.float32, **settings):
    """A model, and the group of the ranks that have the same shard of it."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(60, 80), torch.nn.Tanh(), torch.nn.Linear(80, 60)).to(dtype)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    for module in (model[0], model[2], model):
        fully_shard(module, mesh=mesh if two_dimensions else mesh["shard"], **settings)
    groups = [dist.new_group([i, i + 2], backend="gloo") for i in range(2)]
    return model, groups[rank % 2]


def steps(rank, model, pieces, nan=None):
    """The shards after some steps."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    dtype = next(model.parameters()).dtype
    for step in pieces:
        optimizer.zero_grad()
        x = torch.randn(8, 60, generator=torch.Generator().manual_seed(10 * step + rank)).to(dtype)
        loss = model(x).double().pow(2).mean()
        (loss * float("nan") if step == nan and rank == 0 else loss).backward()
        optimizer.step()
    return [p.to_local().detach().clone() for p in model.parameters()]


def trained(rank, world, codec, settings, dtype=torch.float32, nan=None):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        if settings.get("mp_policy"):
            settings = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16)}
        model, group = sharded(rank, codec is None, dtype, **settings)
        state = codec and threelc.torch.register_fsdp(model, codec, process_group=group, min_numel=1)
        shards = steps(rank, model, range(5), nan)
        return shards, state and state.stats, [str(w.message) for w in found if "threelc" in str(w.message)]


def resumed(rank, world):
    model, group = sharded(rank)
    state = threelc.torch.register_fsdp(model, process_group=group)
    steps(rank, model, range(3))
    saved, before = state.state_dict(), state.stats
    state = threelc.torch.register_fsdp(model, process_group=group)
    state.load_state_dict(saved)
    return before, state.stats


def two_dimensions(rank, world):
    model, group = sharded(rank, True)
    threelc.torch.register_fsdp(model, process_group=group)


def no_cpu(rank, world):
    model = torch.nn.Linear(4, 4)
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    threelc.torch.register_fsdp(model)


@unittest.skipUnless(RUNS, "PyTorch has no FSDP2 that runs on CPUs")
class FSDP2(Refusals):
    def test_raw_is_the_mean_over_replicas(self):
        """As a mesh of two dimensions computes it."""
        for settings in ({}, {"mp_policy": True}):
            without, found = (CLUSTER.run(4, trained, codec, settings) for codec in (None, "raw"))
            for (ours, _, _), (plain, _, _) in zip(found, without):
                for one, other in zip(ours, plain):
                    torch.testing.assert_close(one, other, atol=2e-3 if settings else 1e-6,
                                               rtol=1e-2 if settings else 1e-5)

    def test_replicas_are_identical(self):
        for settings in ({}, {"mp_policy": True}):
            found = CLUSTER.run(4, trained, "3lc:s=1.75", settings)
            for i in range(2):
                for one, other in zip(found[i][0], found[i + 2][0]):
                    self.assertTrue(torch.equal(one, other))
                self.assertGreater(found[i][1].ratio, 4)

    def test_float64(self):
        """Goes as floats, with all its bits."""
        without, found = (CLUSTER.run(4, trained, codec, {}, torch.float64) for codec in (None, "3lc"))
        for (ours, stats, _), (plain, _, _) in zip(found, without):
            for one, other in zip(ours, plain):
                torch.testing.assert_close(one, other, atol=1e-14, rtol=1e-12)
            self.assertGreaterEqual(stats.sent, stats.float_bytes)

    def test_nan(self):
        """One warning, on the replicas of the shard."""
        for _, _, said in CLUSTER.run(4, trained, "3lc", {}, torch.float32, 2):
            self.assertEqual(len(said), 1)
            self.assertIn("NaN or infinity in the gradient of tensor", said[0])

    def test_stats_go_on(self):
        for before, after in CLUSTER.run(4, resumed):
            self.assertEqual(before, after)

    def test_mesh_of_two_dimensions(self):
        """PyTorch would average in floats before the hook."""
        self.refused(CLUSTER.outcomes(4, two_dimensions), "ValueError",
                     "with a mesh of two dimensions, so PyTorch itself averages over replicas")


@unittest.skipIf(RUNS or fully_shard is None, "FSDP2 runs here, or there is none")
class OlderFSDP2(unittest.TestCase):
    def test_sentence(self):
        """PyTorch 2.6 has no hook, later ones had one on GPUs only."""
        for result in CLUSTER.outcomes(1, no_cpu):
            self.assertEqual(result.kind, "RuntimeError")
            self.assertRegex(result.words, "does not run on CPUs, with or without this hook|set_all_reduce_hook.*newer")
