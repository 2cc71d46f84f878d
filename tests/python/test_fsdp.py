# SPDX-License-Identifier: MIT
"""register_fsdp() on a real FSDP2, two replicas of two shards, on CPUs."""
import logging
import unittest
import warnings
from unittest import mock

import torch
import torch.distributed as dist

import threelc
import threelc.torch
from cluster import CLUSTER, Refusals
from test_log import ranges_of

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


def hybrid(rank, world, codec, settings, pieces=range(5), spoiled=None):
    """Shards on a mesh of two dimensions. spoiled: the second replica has other weights before
    this step."""
    if settings.get("mp_policy"):
        settings = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)}
    model, _ = sharded(rank, True, **settings)
    kinds = [(type(p).__name__, p.device_mesh.ndim) for p in model.parameters()]
    state = codec and threelc.torch.register_fsdp(model, codec, min_numel=1, compare_every=2)
    for step in pieces:
        if step == spoiled and rank >= 2:
            with torch.no_grad():
                list(model.parameters())[2].to_local()[0, 0] += 1
        shards = steps(rank, model, [step])
    assert kinds == [(type(p).__name__, p.device_mesh.ndim) for p in model.parameters()]
    return shards, state and state.stats.ratio


def logged(rank, world):
    """The lines of eight backward passes, and the bytes sent."""
    model, _ = sharded(rank, True)
    state = threelc.torch.register_fsdp(model, "raw", min_numel=1)
    state.log_every(3)
    with mock.patch.object(logging.getLogger("threelc"), "info") as info:
        steps(rank, model, range(7))
        sent = state.stats.sent
        steps(rank, model, range(7, 8))
    return [call.args[1:5] for call in info.call_args_list], sent


def traced(rank, world, dtype):
    """The names of ranges in a trace of two steps."""
    model, _ = sharded(rank, True, dtype)
    threelc.torch.register_fsdp(model, "3lc-golomb", min_numel=1)
    return ranges_of(lambda: steps(rank, model, range(2)))


def accumulated(rank, world, codec):
    """Several backward passes for a step, and clipping: the norm before, and gradients."""
    model, _ = sharded(rank, True)
    if codec:
        threelc.torch.register_fsdp(model, codec, min_numel=1)
    for i in range(4):
        model.set_requires_gradient_sync(i == 3)
        x = torch.randn(8, 60, generator=torch.Generator().manual_seed(10 * i + rank))
        model(x).pow(2).mean().backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    return [norm.full_tensor(), *(p.grad.to_local().clone() for p in model.parameters())]


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


def other_group(rank, world):
    model, _ = sharded(rank, True)
    groups = [dist.new_group([i, i + 1], backend="gloo") for i in (0, 2)]
    threelc.torch.register_fsdp(model, process_group=groups[rank // 2])


def other_meshes(rank, world):
    model = torch.nn.Sequential(torch.nn.Linear(60, 80), torch.nn.Linear(80, 60))
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh["shard"])
    threelc.torch.register_fsdp(model)


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

    def equal(self, found, wanted):
        for ours, theirs in zip(found, wanted):
            for one, other in zip(ours, theirs):
                self.assertTrue(torch.equal(one, other))

    def test_hybrid(self):
        """On a mesh of two dimensions raw is PyTorch's own mean over two replicas, bit for bit."""
        for settings in ({}, {"mp_policy": True}, {"reshard_after_forward": False}):
            plain, raw, coded = ([shards for shards, _ in CLUSTER.run(4, hybrid, codec, settings)]
                                 for codec in (None, "raw", "3lc:s=1.75"))
            self.equal(raw, plain)
            self.equal(coded[:2], coded[2:])
        self.assertGreater(CLUSTER.run(4, hybrid, "3lc:s=1.75", {})[0][1], 4)

    def test_hybrid_accumulates(self):
        found = CLUSTER.run(4, accumulated, "raw")
        self.equal(found, CLUSTER.run(4, accumulated, None))
        self.assertGreater(float(found[0][0]), 0.01)  # it was clipped

    def test_hybrid_replicas_that_differ(self):
        """In both shards."""
        self.refused(CLUSTER.outcomes(4, hybrid, "3lc", {}, range(5), 2), "RuntimeError",
                     "rank 1 has other weights than rank 0 after 2 backward passes, in 2.weight.")

    def test_log(self):
        """When the next backward pass begins: after passes 3 and 6, on the first replica."""
        for rank, (lines, sent) in enumerate(CLUSTER.run(4, logged)):
            self.assertEqual([line[:2] for line in lines], [("backward pass", done) for done in (3, 6) if rank < 2])
            self.assertTrue(all(7 * line[2] == sent for line in lines))

    def test_ranges(self):
        """Of an exchange; float64 goes as floats."""
        phases = {f"threelc::{phase}" for phase in ("compress", "pushes", "average", "answers", "decompress")}
        self.assertEqual(CLUSTER.run(4, traced, torch.float32), [phases] * 4)
        self.assertEqual(CLUSTER.run(4, traced, torch.float64), [{"threelc::floats"}] * 4)

    def test_other_groups(self):
        self.refused(CLUSTER.outcomes(4, other_group), "ValueError", "and the replicas of the mesh are [")
        self.refused(CLUSTER.outcomes(4, other_meshes), "ValueError", "needs the same replicas for all modules")


@unittest.skipIf(RUNS or fully_shard is None, "FSDP2 runs here, or there is none")
class OlderFSDP2(unittest.TestCase):
    def test_sentence(self):
        """PyTorch 2.6 has no hook, later ones had one on GPUs only."""
        for result in CLUSTER.outcomes(1, no_cpu):
            self.assertEqual(result.kind, "RuntimeError")
            self.assertRegex(result.words, "does not run on CPUs, with or without this hook|set_all_reduce_hook.*newer")
