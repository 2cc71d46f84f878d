# SPDX-License-Identifier: MIT
"""LocalSteps between sites, in each of which FSDP2 shards the model: four ranks, two sites of two shards."""
import tempfile
import unittest

import torch
import torch.distributed as dist

import threelc.torch
import threelc.torch.checkpoint
from cluster import CLUSTER, Refusals, attempt
from outer_models import HAS_FSDP2, Net, batch, memory, nesterov, sgd

try:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
except ImportError:
    fully_shard = None

EVERY = 3


class Scaled(Net):
    """Without batch normalization, whose statistics are of a rank's own batches. One shard has nothing of the scale."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.Identity()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.scale * super().forward(x)


def built(site):
    torch.manual_seed(site)  # sites start from the weights of the first
    return Scaled()


def sharded(rank, sites=2, shards=2):
    """A model whose blocks are sharded within a site, and the group of the ranks of all sites with the same shard."""
    mesh = init_device_mesh("cpu", (sites, shards), mesh_dim_names=("replicate", "shard"))
    model = built(rank // shards)
    for module in model.first, model.second, model:
        fully_shard(module, mesh=mesh["shard"])
    return model, mesh.get_group("replicate"), mesh


class Run:
    def __init__(self, rank, settings, outer=nesterov, sites=2):
        self.rank, self.steps = rank, 0
        self.model, group, _ = sharded(rank, sites)
        self.inner = sgd(self.model)
        self.optimizer = threelc.torch.LocalSteps(self.model, self.inner, outer, every=EVERY, process_group=group,
                                                  average_buffers=False, **settings)

    def train(self, steps):
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.model(batch(self.rank, self.steps)).pow(2).mean().backward()
            self.optimizer.step()
            self.steps += 1

    def shards(self):
        self.model.reshard()  # FSDP2 keeps parameters of the outermost module gathered after a forward pass
        return memory(p.to_local() for p in self.model.parameters())

    def whole(self):
        self.model.reshard()
        return [p.full_tensor().detach().clone() for p in self.model.parameters()]


def trained(rank, world, settings, rounds):
    run = Run(rank, settings)
    run.train(rounds * EVERY)
    local = run.shards()
    with run.optimizer.common_model():
        loss = float(run.model(batch(7, 0)).detach().pow(2).mean())  # a forward pass gathers weights
        common, whole = run.shards(), run.whole()
    restored = run.shards() == local
    run.train(1)
    again = Run(rank, settings)
    again.train(rounds * EVERY + 1)  # without a look at the common model
    sizes = [anchor.numel() for anchor in run.optimizer._anchors.values()]
    return whole, common, local, loss, restored, run.shards() == again.shards(), sizes, run.optimizer.stats


def reference(rounds):
    """Floats, both sites in one process; each step has the mean gradient of a site's ranks."""
    sites = []
    for _ in range(2):
        model = built(0)
        sites.append((model, sgd(model)))
    anchors = [torch.nn.Parameter(p.detach().clone()) for p in sites[0][0].parameters()]
    outer = nesterov(anchors)
    for step in range(rounds * EVERY):
        for site, (model, inner) in enumerate(sites):
            inner.zero_grad()
            for rank in 2 * site, 2 * site + 1:
                (model(batch(rank, step)).pow(2).mean() / 2).backward()
            inner.step()
        if (step + 1) % EVERY:
            continue
        with torch.no_grad():
            for anchor, *parameters in zip(anchors, *(model.parameters() for model, _ in sites)):
                anchor.grad = anchor - sum(parameters) / 2
            outer.step()
            for model, _ in sites:
                for parameter, anchor in zip(model.parameters(), anchors):
                    parameter.copy_(anchor)
    return [anchor.detach() for anchor in anchors], float(sites[0][0](batch(7, 0)).detach().pow(2).mean())


def resumed(rank, world, folder, sites):
    """From a checkpoint of four ranks after a round, with the weights of one site: residuals, the bits of a run that
    begins there and of the one that went on, and their rounds. On one site residuals alone."""
    whole = Run(rank, {"codec": "3lc"}) if sites == 2 else None
    if whole:
        whole.train(2 * EVERY)
        dcp.save({"model": whole.model.state_dict(), "ours": threelc.torch.checkpoint.to_dcp(whole.optimizer)},
                 checkpoint_id=folder)
        momenta = [whole.inner.state[p]["momentum_buffer"].clone() for p in whole.model.parameters()]
    run = Run(rank, {"codec": "3lc"}, sites=sites)
    run.steps = 2 * EVERY
    model = {"model": run.model.state_dict()}
    dcp.load(model, checkpoint_id=folder)
    run.model.load_state_dict(model["model"])
    threelc.torch.checkpoint.from_dcp(run.optimizer, folder, "ours")
    left = {name: residual.clone() for name, residual in run.optimizer.residuals.items()}
    if not whole:
        run.train(2)
        return left
    for p, momentum in zip(run.model.parameters(), momenta):
        run.inner.state[p]["momentum_buffer"] = momentum
    for each in run, whole:
        each.train(5)
    dist.barrier()
    return left, [each.shards() for each in (run, whole)], [each.optimizer.stats.rounds for each in (run, whole)]


def followed(rank, world):
    """The second site follows the first, shard by shard. Whether it has its bits, and what a whole model says of it."""
    model, group, _ = sharded(rank)
    sync, same = threelc.torch.WeightSync(model), []
    for step in range(3):
        message = [sync.publish() if rank < 2 else None]
        dist.broadcast_object_list(message, rank % 2, group=group)
        if rank >= 2:
            sync.receive(message[0])
        found = [None, None]
        dist.all_gather_object(found, memory(p.to_local() for p in model.parameters()), group=group)
        same.append(found[0] == found[1])
        if rank < 2:
            model(batch(rank, step)).sum().backward()
            sgd(model).step()
    whole = threelc.torch.WeightSync(built(0))
    return same, attempt(whole.receive, threelc.torch.WeightSync(model).publish())[:2]


def refused(rank, world):
    model, group, mesh = sharded(rank)
    said = [attempt(lambda settings=settings: threelc.torch.LocalSteps(model, sgd(model), every=2, **settings))[:2]
            for settings in ({}, {"process_group": group, "on_nonfinite": "skip"})]
    hybrid = built(0)
    fully_shard(hybrid, mesh=mesh)
    said.append(attempt(lambda: threelc.torch.LocalSteps(hybrid, sgd(hybrid), every=2, process_group=group))[:2])
    optimizer = threelc.torch.LocalSteps(model, sgd(model), every=2, process_group=group)
    state = optimizer.state_dict()
    state["shard"] = ""
    return said + [attempt(optimizer.load_state_dict, state)[:2]]


@unittest.skipUnless(HAS_FSDP2, "FSDP2 does not run on CPUs in this version of PyTorch")
class Sites(Refusals):
    def test_floats(self):
        """raw is DiLoCo as it is written down, of sites with as many ranks as they like."""
        expected, loss = reference(3)
        for whole, common, local, found, *_ in CLUSTER.run(4, trained, {"codec": "raw"}, 3):
            torch.testing.assert_close(whole, expected, atol=3e-6, rtol=1e-4)
            self.assertAlmostEqual(found, loss, delta=1e-5)
            self.assertEqual(common, local)

    def test_compressed(self):
        """Sites have the same bits in common, and each rank its residuals in its own shard. A look at the common model
        changes nothing, though FSDP2 gathers it."""
        for settings in ({"codec": "3lc", "min_numel": 1}, {"codec": "topk:p=0.1+golomb", "fragments": 2, "delay": 1,
                                                             "mix": 0.5}):
            found = CLUSTER.run(4, trained, settings, 3)
            for shard in 0, 1:
                self.assertEqual(found[shard][1], found[shard + 2][1])
                self.assertNotEqual(found[shard][2], found[shard + 2][2])
            for _, _, _, _, restored, same, sizes, stats in found:
                self.assertTrue(restored)
                self.assertTrue(same)
                self.assertLess(sum(sizes), 1700)  # of 3,090 values
                self.assertGreater(stats.ratio, 3)

    def test_checkpoints(self):
        """In torch.distributed.checkpoint: two sites go on with the same bits, one with the residuals of both."""
        with tempfile.TemporaryDirectory() as folder:
            found = CLUSTER.run(4, resumed, folder, 2)
            for _, (run, whole), rounds in found:
                self.assertEqual(run, whole)
                self.assertEqual(rounds, [3, 3])  # two before
            for shard, left in enumerate(CLUSTER.run(2, resumed, folder, 1)):
                for name, residual in left.items():
                    torch.testing.assert_close(residual, (found[shard][0][name] + found[shard + 2][0][name]) / 2,
                                               atol=1e-6, rtol=1e-5)

    def test_weights_that_are_followed(self):
        for same, (kind, words) in CLUSTER.run(4, followed):
            self.assertEqual(same, [True] * 3)
            self.assertEqual(kind, "ValueError")
            self.assertIn("shape", words)

    def test_what_does_not_fit(self):
        for alone, skip, hybrid, state in CLUSTER.run(4, refused):
            for kind, words in alone, hybrid:
                self.assertEqual(kind, "ValueError")
                self.assertIn("LocalSteps exchanges between ranks that have the same shard", words)
            self.assertIn('on_nonfinite="skip" is for models that are whole', skip[1])
            self.assertRegex(state[1], "the state is of a model that is whole .*, and this rank has shard[01]")
