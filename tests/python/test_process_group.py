# SPDX-License-Identifier: MIT
"""threelc.torch.new_group(): process groups that compress the gradients of trainers that know nothing of it."""
import _thread
import copy
import threading
import unittest

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import threelc.torch
from cluster import CLUSTER, Refusals, attempt
from outer_models import HAS_FSDP2
from test_ddp import Net, batch, bits
from threelc.torch._common.versions import has_backward_passes, in_two_backward_passes

try:
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
except (ImportError, ValueError):  # PyTorch 1.13, where no test here runs
    pass


def build(codec, unused=False, **settings):
    """A module, and its process group; that of PyTorch without a codec."""
    torch.manual_seed(1)
    model = Net(unused)
    torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = 10000  # 1 MiB would hold all
    group = codec and threelc.torch.new_group(codec, **settings)
    return DistributedDataParallel(model, bucket_cap_mb=0.01, find_unused_parameters=unused, process_group=group), group


def train(rank, model, numbers, accumulated=1):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in numbers:
        optimizer.zero_grad()
        model.module.step = step
        for i in range(accumulated - 1):
            with model.no_sync():
                model(batch(rank, 1000 * step + i)).pow(2).mean().backward()
        model(batch(rank, step)).pow(2).mean().backward()
        optimizer.step()


def trained(rank, world, codec, settings, accumulated=1):
    """The bits of the model after some steps, stats, and where residuals are."""
    model, group = build(codec, **settings)
    if settings.get("unused"):
        model.module.sometimes = True
    train(rank, model, range(8), accumulated)
    return bits(model), group and group.exchange.stats, group and sorted(group.exchange.residuals)


def resumed(rank, world, stop):
    """The bits after eight steps, around a stop. After it a step makes the buckets, before the weights are loaded."""
    model, group = build("3lc", warmup_steps=1)
    train(rank, model, range(stop))
    state, weights = copy.deepcopy(group.exchange.state_dict()), model.module.state_dict()
    if stop == 8:
        return bits(model)
    model, group = build("3lc", warmup_steps=1)
    train(rank, model, range(1))  # makes the buckets
    model.module.load_state_dict(weights)
    group.exchange.load_state_dict(state)
    train(rank, model, range(stop, 8))
    return bits(model)


def others(rank, world):
    """What goes on beside gradients is exact."""
    group = threelc.torch.new_group("3lc:s=1.75")
    found = [torch.full((300,), 0.3 + rank), torch.tensor([rank]), torch.full((300,), 0.3 + rank)]
    dist.all_reduce(found[0], group=group)
    dist.all_reduce(found[1], op=dist.ReduceOp.MAX, group=group)
    work = dist.all_reduce(found[2], group=group, async_op=True)
    work.wait()
    gathered = [torch.empty(2) for _ in range(world)]
    dist.all_gather(gathered, torch.full((2,), float(rank)), group=group)
    sent = torch.full((3,), float(rank))
    dist.broadcast(sent, 1, group=group)
    dist.barrier(group=group)
    objects = [None] * world
    dist.all_gather_object(objects, {"rank": rank}, group=group)
    return found, gathered, sent, objects, (dist.get_rank(group), dist.get_world_size(group), dist.get_backend(group))


def lost(rank, world):
    """Rank 1 ends in the third step."""
    model, _ = build("3lc")
    train(rank, model, range(2))
    if rank == 1:
        raise SystemError("on purpose")
    return attempt(train, rank, model, range(2, 5))[:2]


class Nested(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(40, 40) for _ in range(4)])

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=True)
        return x


def nested(rank, world):
    model = DistributedDataParallel(Nested(), process_group=threelc.torch.new_group("3lc", warmup_steps=0),
                                    bucket_cap_mb=0.001)
    for step in range(3):
        model(batch(rank, step).requires_grad_()).pow(2).mean().backward()


def first_fsdp(model, codec, shards, replicas):
    """FSDP1, HYBRID_SHARD."""
    return FullyShardedDataParallel(model, process_group=(shards, replicas), device_id=torch.device("cpu"),
                                    sharding_strategy=ShardingStrategy.HYBRID_SHARD,
                                    auto_wrap_policy=ModuleWrapPolicy({torch.nn.Linear}))


def second_fsdp(model, codec, shards, replicas):
    """FSDP2. PyTorch makes the groups of its own mesh."""
    names = ("replicate", "shard")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=names) if codec is None else \
        DeviceMesh.from_group([replicas, shards], "cpu", mesh=torch.arange(4).view(2, 2), mesh_dim_names=names)
    for module in (model[0], model[2], model):
        fully_shard(module, mesh=mesh)
    return model


def sharded(rank, world, codec, wrapped):
    """FSDP on 2 x 2 ranks, whose replicas are a group of ours: the shards after some steps, and how many times fewer
    bytes."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(60, 80), torch.nn.Tanh(), torch.nn.Linear(80, 60))
    groups = [dist.new_group(ranks) for ranks in ((0, 1), (2, 3), (0, 2), (1, 3))]
    replicas = groups[2 + rank % 2]
    if codec is not None:
        replicas = threelc.torch.new_group(codec, ranks=[rank % 2, rank % 2 + 2], warmup_steps=0)
    model = wrapped(model, codec, groups[rank // 2], replicas)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(5):
        optimizer.zero_grad()
        model(torch.randn(8, 60, generator=torch.Generator().manual_seed(10 * step + rank))).pow(2).mean().backward()
        optimizer.step()
    return ([getattr(p, "_local_tensor", p).detach().clone() for p in model.parameters()],
            codec and replicas.exchange.stats.ratio)


def refusals(rank, world):
    return [attempt(threelc.torch.new_group, "4lc")[:2],
            attempt(lambda: threelc.torch.new_group("3lc", warmup_steps=-1))[:2],
            attempt(lambda: threelc.torch.new_group("3lc", ranks=[1 - rank]))[:2],
            attempt(lambda: dist.new_group(backend="threelc"))[:2]]


@unittest.skipUnless(has_backward_passes(), "PyTorch 1 does not say which backward pass runs")
class ProcessGroups(Refusals):
    def test_ddp(self):
        """raw is training with gloo, bit for bit, in two ranks. With a codec replicas are equal, and gradients have
        residuals by their places; the bitmap of unused parameters stays exact."""
        for settings in ({}, {"unused": True}):
            for accumulated in (1, 3):
                plain, raw, coded = (CLUSTER.run(2, trained, codec, settings, accumulated)
                                     for codec in (None, "raw", "3lc-golomb"))
                self.assertEqual([each[0] for each in raw], [each[0] for each in plain])
                self.assertEqual(coded[0][0], coded[1][0])
                self.assertNotEqual(coded[0][0], plain[0][0])
                _, stats, residuals = coded[0]
                self.assertGreater(stats.ratio, 20)
                self.assertEqual([name.split()[0] for name in residuals], [str(i + 1) for i in range(len(residuals))])
                self.assertGreater(len(residuals), 2)
        for found in CLUSTER.run(3, trained, "3lc", {"mode": "gather"}):
            self.assertGreater(found[1].ratio, 4)

    def test_a_pass_that_another_one_has_begun(self):
        """It is known in a thread that Python did not start, too: there a GPU's passes have the outer one elsewhere."""
        found, done = [], threading.Event()

        def passes(inner):
            with torch.enable_grad():  # a pass is without
                one = 2 * torch.ones(1, requires_grad=True)
            one.register_hook(lambda _: passes(False) if inner else found.append(in_two_backward_passes()))
            one.backward()

        passes(False)
        passes(True)
        thread = threading.Thread(target=passes, args=(False,))
        thread.start()
        thread.join()
        _thread.start_new_thread(lambda: (passes(False), done.set()), ())
        self.assertTrue(done.wait(60))
        self.assertEqual(found, [False, True, False, True])

    def test_resumed(self):
        """With the same bits."""
        self.assertEqual(CLUSTER.run(2, resumed, 8), CLUSTER.run(2, resumed, 3))

    def test_other_collectives(self):
        for rank, (found, gathered, sent, objects, about) in enumerate(CLUSTER.run(2, others)):
            self.assertTrue(torch.equal(found[0], torch.full((300,), 0.3) + torch.full((300,), 1.3)))
            self.assertEqual(found[1].tolist(), [1])
            self.assertTrue(torch.equal(found[2], found[0]))
            self.assertEqual([tensor.tolist() for tensor in gathered], [[0, 0], [1, 1]])
            self.assertEqual(sent.tolist(), [1, 1, 1])
            self.assertEqual(objects, [{"rank": 0}, {"rank": 1}])
            self.assertEqual(about, (rank, 2, "threelc"))

    def test_lost_rank(self):
        """backward() raises."""
        outcomes = CLUSTER.outcomes(2, lost, timeout=10)
        self.assertEqual(outcomes[0][0], "RuntimeError")
        self.assertIn("rank 0 lost ", outcomes[0][1])

    def test_passes_in_passes(self):
        self.refused(CLUSTER.outcomes(2, nested), None, "a backward pass inside another one")

    def _check_replicas(self, wrapped):
        """With raw the bits are PyTorch's own."""
        plain, raw, coded = (CLUSTER.run(4, sharded, codec, wrapped) for codec in (None, "raw", "3lc:s=1.75"))
        for (one, _), (other, _) in zip(raw, plain):
            self.assertTrue(all(map(torch.equal, one, other)))
        for i in range(2):
            self.assertTrue(all(map(torch.equal, coded[i][0], coded[i + 2][0])))
            self.assertFalse(all(map(torch.equal, coded[i][0], plain[i][0])))
            self.assertGreater(coded[i][1], 4)

    @unittest.skipUnless(HAS_FSDP2, "PyTorch has no FSDP2 that runs on CPUs")
    def test_fsdp(self):
        """As replicas of a device mesh."""
        self._check_replicas(second_fsdp)

    def test_first_fsdp(self):
        """As replicas of HYBRID_SHARD, for which PyTorch takes no hook."""
        self._check_replicas(first_fsdp)

    def test_refusals(self):
        for found in CLUSTER.run(2, refusals):
            for (kind, said), words in zip(found, ("4lc", "warmup_steps should be at least 0, not -1",
                                                   "only ranks of the group call new_group()",
                                                   "threelc.torch.new_group() makes groups of this backend")):
                self.assertTrue(kind)
                self.assertIn(words, said)


@unittest.skipIf(has_backward_passes(), "PyTorch 2 says which backward pass runs")
class OlderPyTorch(Refusals):
    def test_sentence(self):
        self.refused(CLUSTER.outcomes(2, build_only), "RuntimeError", "it needs PyTorch 2")


def build_only(rank, world):
    threelc.torch.new_group("3lc")
