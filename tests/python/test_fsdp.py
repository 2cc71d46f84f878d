# SPDX-License-Identifier: MIT
"""register_fsdp() on a real FSDP2 on CPUs: mostly two replicas of two shards."""
import logging
import tempfile
import unittest
import warnings
from unittest import mock

import torch
import torch.distributed as dist

import threelc
import threelc.torch
from cluster import CLUSTER, Refusals
from outer_models import HAS_FSDP2
from test_log import ranges_of

try:
    import torch.distributed.checkpoint as dcp
    from torch.distributed._composable.replicate_with_fsdp import replicate
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
except ImportError:
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        fully_shard = None


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
    if settings.get("offload_policy"):
        settings = {"offload_policy": CPUOffloadPolicy(pin_memory=False)}
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


def accumulated(rank, world, codec, method):
    """Several backward passes for a step, and clipping: the norm before and gradients, the sum of gradients before the
    last pass, and bytes sent. method: the one that puts the exchange off to the last pass."""
    model, _ = sharded(rank, True)
    state = codec and threelc.torch.register_fsdp(model, codec, min_numel=1)
    for i in range(4):
        early = sum(float(p.grad.full_tensor().abs().sum()) for p in model.parameters() if p.grad is not None)
        getattr(model, method)(i == 3)
        x = torch.randn(8, 60, generator=torch.Generator().manual_seed(10 * i + rank))
        model(x).pow(2).mean().backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    return [norm.full_tensor(), *(p.grad.to_local().clone() for p in model.parameters())], early, \
        state and state.stats.sent


def trained(rank, world, codec, settings, dtype=torch.float32, nan=None):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        if settings.get("mp_policy"):
            settings = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16)}
        model, group = sharded(rank, codec is None, dtype, **settings)
        state = codec and threelc.torch.register_fsdp(model, codec, process_group=group, min_numel=1)
        shards = steps(rank, model, range(5), nan)
        return shards, state and state.stats, [str(w.message) for w in found if "threelc" in str(w.message)]


def raising(rank, world):
    """A NaN in the second step."""
    model, group = sharded(rank)
    threelc.torch.register_fsdp(model, "3lc", process_group=group, on_nonfinite="raise", min_numel=1)
    steps(rank, model, range(3), 1)


def resumed(rank, world, stop):
    """The shards after six steps, and the stats around a stop."""
    model, group = sharded(rank)
    state = threelc.torch.register_fsdp(model, process_group=group, min_numel=1)
    steps(rank, model, range(stop))
    saved, before = state.state_dict(), state.stats
    state = threelc.torch.register_fsdp(model, process_group=group, min_numel=1)
    state.load_state_dict(saved)
    after = state.stats
    return steps(rank, model, range(stop, 6)), before, after, sorted(state.residuals)


def of_another_shard(rank, world):
    model, _ = sharded(rank, True)
    state = threelc.torch.register_fsdp(model)
    steps(rank, model, range(1))
    states = [None] * world
    dist.all_gather_object(states, state.state_dict())
    threelc.torch.register_fsdp(sharded(rank, True)[0]).load_state_dict(states[rank ^ 1])


def whole(rank, form):
    """A model on two ranks, each of which has all of it."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(60, 80), torch.nn.Tanh(), torch.nn.Linear(80, 60))
    for module in (model[0], model):
        if form == "replicate":
            replicate(module)
        else:
            fully_shard(module, mesh=init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard")),
                        **({"offload_policy": CPUOffloadPolicy(pin_memory=False)} if form == "offload" else {}))
    return model


def on_two(rank, world):
    """By form: shards without the hook, as raw and with a codec, how many times fewer bytes that sends, and its
    residuals."""
    found = {}
    for form in ("replicate", "one shard", "offload"):
        model = whole(rank, form)
        found[form] = [steps(rank, model, range(4))]
        for codec in ("raw", "3lc:s=1.75"):
            model = whole(rank, form)
            state = threelc.torch.register_fsdp(model, codec, min_numel=1)
            found[form].append(steps(rank, model, range(4)))
        found[form] += [state.stats.ratio, [tensor.clone() for tensor in state.residuals.values()]]
    return found


# ---- checkpoints with torch.distributed.checkpoint ----

class Given(torch.nn.Module):
    """Its gradients do not depend on its parameters, of which some ranks have a smaller shard, or none."""

    def __init__(self, *shapes):
        super().__init__()
        self.given = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(shape)) for shape in shapes])
        self.frozen = torch.nn.Parameter(torch.ones(9), requires_grad=False)

    def gradients(self, rank, step):
        draw = torch.Generator().manual_seed(100 * step + rank + sum(p.numel() for p in self.given))
        return [torch.randn(p.shape, generator=draw) for p in self.given]

    def forward(self, rank, step):
        return self.frozen[0] * sum((p * g).sum() for p, g in zip(self.given, self.gradients(rank, step)))


class Both(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Given((41, 30), (7,), (3, 20)), Given((40, 13), (1,))

    def forward(self, rank, step):
        return self.first(rank, step) + self.second(rank, step)


def both(rank, form, settings):
    """form: the mesh, replicas by shards, or "one shard" for a mesh of one dimension, or "replicate"."""
    model, group = Both(), None
    if form == "replicate":
        for module in (model.first, model):
            replicate(module)
    else:
        mesh = init_device_mesh("cpu", (2, 2) if form == "shards" else form, mesh_dim_names=("replicate", "shard"))
        for module in (model.first, model.second, model):
            fully_shard(module, mesh=mesh["shard"] if form == "shards" else mesh)
        if form == "shards":
            group = [dist.new_group([i, i + 2], backend="gloo") for i in range(2)][rank % 2]
    return model, threelc.torch.register_fsdp(model, process_group=group, min_numel=1, **settings)


def given(rank, model, numbers):
    """Steps: the sum of the gradients that come out of the hook, of whole parameters by name."""
    total = {name: 0 for name, p in model.named_parameters() if p.requires_grad}
    for step in numbers:
        model.zero_grad()
        model(rank, step).backward()
        for name, p in model.named_parameters():
            if p.requires_grad:
                total[name] = total[name] + p.grad.full_tensor()
    return total


def clipped(rank, world, method, settings):
    """Two steps of three backward passes each, clipped: the sum of what comes out of the hook, what is left, and
    whether clipping has only scaled gradients."""
    model, state = both(rank, (2, 2), settings)
    total, right = {name: 0 for name, p in model.named_parameters() if p.requires_grad}, []
    for step in range(2):
        model.zero_grad()
        for i in range(3):
            getattr(model, method)(i == 2)
            model(rank, 3 * step + i).backward()
        came = {name: p.grad.full_tensor().clone() for name, p in model.named_parameters() if p.requires_grad}
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()
        wanted = torch.stack([tensor.norm() for tensor in came.values()]).norm()
        right += [norm > 1, torch.allclose(norm, wanted)]
        for name, p in model.named_parameters():
            if p.requires_grad:
                total[name] = total[name] + came[name]
                right.append(torch.allclose(p.grad.full_tensor(), came[name] / wanted, atol=1e-6))
    return total, unsent(state), all(right)


def sums(world, numbers):
    """Of the means of what goes into the hook."""
    model, total = Both(), {}
    for part in ("first", "second"):
        for step in numbers:
            every = zip(*(getattr(model, part).gradients(rank, step) for rank in range(world)))
            for i, gradients in enumerate(every):
                name = f"{part}.given.{i}"
                total[name] = total.get(name, 0) + sum(gradients) / world
    return total


def unsent(state):
    return {name: tensor.full_tensor() for name, tensor in state.sharded_state_dict().items()}


def saved(rank, world, folder, settings):
    """Two replicas of two shards save after three steps, at once, and while a fourth step is trained."""
    model, state = both(rank, (2, 2), settings)
    group = dist.new_group()
    total, left = given(rank, model, range(3)), unsent(state)
    dcp.save({"unsent": state.sharded_state_dict()}, checkpoint_id=f"{folder}/now")
    future = dcp.async_save({"unsent": state.sharded_state_dict()}, checkpoint_id=f"{folder}/later",
                            process_group=group)
    given(rank, model, [3])
    future.result()
    return total, left


def loaded(rank, world, folder, form, settings):
    """What was loaded, the sums of three steps more, and what is left. Saved again before the first step it stays."""
    model, state = both(rank, form, settings)
    held = {"unsent": state.sharded_state_dict()}
    dcp.load(held, checkpoint_id=folder)
    state.load_sharded_state_dict(held["unsent"])
    found = unsent(state)
    kept = state.state_dict()
    model, state = both(rank, form, settings)
    state.load_state_dict(kept)
    return found, given(rank, model, range(3, 6)), unsent(state)


def not_loaded(rank, world, what):
    model, state = both(rank, (2, 2), {"codec": "raw"} if what == "codec" else {})
    held = {name: tensor + (what == "codec") for name, tensor in state.sharded_state_dict().items()}
    if what == "name":
        held["third"] = held["first.given.0"]
    elif what == "missing":
        del held["first.given.0"]
    elif what == "shape":
        held["first.given.0"] = torch.zeros(3)
    elif what == "late":
        given(rank, model, [0])
    state.load_sharded_state_dict(held)


def other_group(rank, world):
    model, _ = sharded(rank, True)
    groups = [dist.new_group([i, i + 1], backend="gloo") for i in (0, 2)]
    threelc.torch.register_fsdp(model, process_group=groups[rank // 2])


def no_group(rank, world):
    """Two shards, and nothing says who has the same."""
    threelc.torch.register_fsdp(sharded(rank)[0])


def other_shards(rank, world, outputs):
    """A group of ranks that have different shards, whose shapes may differ, too."""
    model = torch.nn.Linear(4, outputs)
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    threelc.torch.register_fsdp(model, process_group=dist.new_group([0, 1], backend="gloo"))


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


@unittest.skipUnless(HAS_FSDP2, "PyTorch has no FSDP2 that runs on CPUs")
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
        self.refused(CLUSTER.outcomes(4, raising), "StepError", "NaN or infinity")

    def test_resuming(self):
        """With the same bits, in shards of the same replicas."""
        for (one, *_), (other, before, after, names) in zip(*(CLUSTER.run(4, resumed, stop) for stop in (5, 2))):
            self.equal([one], [other])
            self.assertEqual(before, after)
            self.assertEqual(names, ["0.bias", "0.weight", "2.bias", "2.weight"])
        self.refused(CLUSTER.outcomes(4, of_another_shard), "ValueError", ", and this rank has shard ")

    def equal(self, found, wanted):
        for ours, theirs in zip(found, wanted):
            for one, other in zip(ours, theirs):
                self.assertTrue(torch.equal(one, other))

    def test_hybrid(self):
        """On a mesh of two dimensions raw is PyTorch's own mean over two replicas, bit for bit."""
        for settings in ({}, {"mp_policy": True}, {"reshard_after_forward": False}, {"offload_policy": True}):
            plain, raw, coded = ([shards for shards, _ in CLUSTER.run(4, hybrid, codec, settings)]
                                 for codec in (None, "raw", "3lc:s=1.75"))
            self.equal(raw, plain)
            self.equal(coded[:2], coded[2:])
        self.assertGreater(CLUSTER.run(4, hybrid, "3lc:s=1.75", {})[0][1], 4)

    def test_replicas_of_one_shard(self):
        """With replicate(), with a mesh of one shard and with parameters on the CPU. The hook gets gradients of its own
        replica, so that residuals differ."""
        found = CLUSTER.run(2, on_two)
        for form in found[0]:
            plain, raw, coded = ([rank[form][i] for rank in found] for i in range(3))
            self.equal(raw, plain)
            self.equal(coded[:1], coded[1:])
            self.assertGreater(found[0][form][3], 4)
            for one, other in zip(*(rank[form][4] for rank in found)):
                self.assertFalse(torch.equal(one, other))

    def test_hybrid_accumulates(self):
        """With the bits of plain PyTorch, in one exchange, before which gradients have nothing."""
        for method in ("set_requires_gradient_sync", "set_requires_all_reduce"):
            found = CLUSTER.run(4, accumulated, "raw", method)
            plain = CLUSTER.run(4, accumulated, None, method)
            self.equal([rank[0] for rank in found], [rank[0] for rank in plain])
            self.assertGreater(float(found[0][0][0]), 0.01)  # it was clipped
            for (_, early, sent), (_, as_plain, _) in zip(found, plain):
                self.assertEqual((early, as_plain), (0, 0))
                self.assertLess(sent, 4 * (2 * 60 * 80 + 60 + 80))  # two exchanges of this shard send as many floats

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
        self.refused(CLUSTER.outcomes(4, no_group), "ValueError", "a mesh of 2 shards and no replicas: pass ")
        self.refused(CLUSTER.outcomes(2, other_shards, 4), "ValueError", "the shard is 1 on rank 1 and 0 on rank 0")
        self.refused(CLUSTER.outcomes(2, other_shards, 5), "ValueError", "shapes is {'(root)': {'weight': [2, 4], ")


@unittest.skipUnless(HAS_FSDP2, "PyTorch has no FSDP2 that runs on CPUs")
class Checkpoints(Refusals):
    def close(self, found, wanted):
        self.assertEqual(sorted(found), sorted(wanted))
        for name, tensor in found.items():
            torch.testing.assert_close(tensor, wanted[name], atol=2e-5, rtol=1e-5)

    def test_other_meshes(self):
        """What came out of the hook and what is left are the sum of what went in, before and after."""
        for settings, forms in (({"codec": "3lc:s=1.75"}, ((4, (2, 2)), (2, (2, 1)), (4, (4, 1)), (2, "replicate"))),
                                ({"codec": "3lc", "mode": "gather"}, ((4, "shards"), (2, (1, 2))))):
            with tempfile.TemporaryDirectory() as folder:
                for out, left in (first := CLUSTER.run(4, saved, folder, settings)):
                    self.assertTrue(all(tensor.any() for tensor in left.values() if tensor.numel() > 1))
                    self.close({name: out[name] + left[name] for name in out}, sums(4, range(3)))
                for i, (world, form) in enumerate(forms):
                    where = f"{folder}/{'later' if i % 2 else 'now'}"
                    for found, out, left in CLUSTER.run(world, loaded, where, form, settings):
                        self.close(found, first[0][1])
                        wanted = sums(world, range(3, 6))
                        self.close({name: out[name] + left[name] for name in out},
                                   {name: wanted[name] + found[name] for name in wanted})

    def test_accumulated_and_clipped(self):
        """Nothing is lost: what comes out of the hook and what is left are the sum of what went in."""
        for method in ("set_requires_gradient_sync", "set_requires_all_reduce"):
            for out, left, right in CLUSTER.run(4, clipped, method, {"codec": "3lc-golomb"}):
                self.assertTrue(right)
                self.assertTrue(all(tensor.any() for tensor in left.values() if tensor.numel() > 1))
                self.close({name: out[name] + left[name] for name in out}, sums(4, range(6)))

    def test_what_does_not_fit(self):
        for what, words in (("name", "no sharded module trains here: third (1 in all)"),
                            ("missing", "first.given.0 is missing, and this rank has a shard of shape ["),
                            ("shape", "first.given.0 is of shape [3], and this rank has a shard of shape ["),
                            ("codec", "codec 'raw' keeps no residual, and the state has some"),
                            ("late", "before the first backward pass")):
            self.refused(CLUSTER.outcomes(4, not_loaded, what), "ValueError", words)


@unittest.skipIf(HAS_FSDP2 or fully_shard is None, "FSDP2 runs here, or there is none")
class OlderFSDP2(unittest.TestCase):
    def test_sentence(self):
        """PyTorch 2.6 has no hook, later ones had one on GPUs only."""
        for result in CLUSTER.outcomes(1, no_cpu):
            self.assertEqual(result.kind, "RuntimeError")
            self.assertRegex(result.words, "does not run on CPUs, with or without this hook|set_all_reduce_hook.*newer")
