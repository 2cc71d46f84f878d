# SPDX-License-Identifier: MIT
"""Weights that become other ones on one rank are found, whoever trains them, and equal ones raise no alarm."""
from functools import partial

import torch

import threelc.torch
from cluster import CLUSTER, Refusals
from outer_models import batch, build

RANKS = 3
EVERY = 3


def make_hook(model, every):
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    threelc.torch.register(ddp, "3lc-golomb", compare_every=every)
    return ddp, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)


def make_local(model, every):
    return model, threelc.torch.LocalSteps(
        model, torch.optim.SGD(model.parameters(), 0.05), every=1, compare_every=every,
        outer=lambda p: torch.optim.SGD(p, 0.7, momentum=0.9))


def make_sharded(model, every, **settings):
    return model, threelc.torch.ShardedOptimizer(
        model, lambda p: torch.optim.SGD(p, 0.05), compare_every=every, **settings)


def make_overlapped(model, every):
    return make_sharded(model, every, overlap=True)


def make_push_pull(model, every, **settings):
    return model, threelc.torch.PushPull(
        model, lambda p: torch.optim.SGD(p, 0.05), compare_every=every, **settings)


def make_with_backup(model, every):
    return make_push_pull(model, every, backup=1)


MAKERS = (make_hook, make_local, make_sharded, make_overlapped, make_push_pull)


def spoil(model, optimizer):
    """The smallest change of one weight; of LocalSteps, which puts the common model in place, the outer rate's."""
    if isinstance(optimizer, threelc.torch.LocalSteps):
        optimizer.outer_optimizer.param_groups[0]["lr"] = 0.5
        return
    with torch.no_grad():
        weight = next(p for name, p in model.named_parameters() if name.endswith("second.weight"))
        weight[3, 4] = torch.nextafter(weight[3, 4], torch.tensor(1.0))


def trained(rank, world, make, every, steps, spoiled):
    """spoiled: after this step rank 1 has other weights; 0: never. The steps that went well, and the exception."""
    model, optimizer = make(build(rank), every)
    for step in range(1, steps + 1):
        try:
            optimizer.zero_grad()
            model(batch(rank, step)).pow(2).mean().backward()
            optimizer.step()
        except RuntimeError as error:
            return step - 1, str(error)
        if step == spoiled and rank == 1:
            spoil(model, optimizer)
    optimizer.state_dict()  # with backup workers all come together here
    return steps, ""


def by_default(rank, world, way, done):
    """Without compare_every, 12 steps after so many others, which are only counted: what trained() returns."""
    def make(model, _):
        sgd = partial(torch.optim.SGD, lr=0.05)
        if way == "register":
            ddp = torch.nn.parallel.DistributedDataParallel(model)
            threelc.torch.register(ddp)._started = done
            return ddp, sgd(model.parameters())
        if way == "LocalSteps":
            return model, threelc.torch.LocalSteps(model, sgd(model.parameters()), sgd, every=1)
        optimizer = getattr(threelc.torch, way)(model, sgd)
        optimizer._steps = done
        return model, optimizer

    return trained(rank, world, make, None, 12, 4)


def uneven(rank, world):
    """Ranks 1 and 2 run out of data, and keep old weights until all have."""
    model, optimizer = make_hook(build(rank), 1)
    with model.join():
        for step in range(6 - rank):
            optimizer.zero_grad()
            model(batch(rank, step)).pow(2).mean().backward()
            optimizer.step()
    return step


def ignored(rank, world):
    """A parameter that is each rank's own."""
    model = build(rank)
    model._ddp_params_and_buffers_to_ignore = ["second.bias"]
    torch.nn.init.constant_(model.second.bias, rank)
    model, optimizer = make_hook(model, 1)
    for step in range(3):
        optimizer.zero_grad()
        model(batch(rank, step)).pow(2).mean().backward()
        optimizer.step()


def kinds(rank, world):
    """Weights of all kinds. The last one differs, in a byte, on rank 2."""
    weights = {"half": torch.ones(5).half(), "wide": torch.ones(3, 2).t().double(), "none": torch.ones(0),
               "scalar": torch.tensor(2.0), "complex": torch.ones(3, dtype=torch.complex64),
               "bytes": torch.arange(9, dtype=torch.uint8)[1:8]}
    weights["bytes"][6] = rank // 2
    replicas = threelc.torch._common.replicas.Replicas(1, lambda: weights, None)
    replicas.compare(threelc.torch._common.transport.Transport(), "here")


def refused(rank, world, make, every):
    make(build(rank), every[rank])


class ReplicasThatDiffer(Refusals):
    def test_found(self):
        """On all ranks, in the first comparison after it, with the names of rank and parameters."""
        for make in MAKERS:
            with self.subTest(make=make.__name__):
                for went_well, words in CLUSTER.run(RANKS, trained, make, EVERY, 9, 4):
                    rounds = make is make_local
                    self.assertEqual(went_well, 5 if rounds else 6)  # LocalSteps looks at the end of a round
                    self.assertRegex(words, "rank 1 has other weights than rank 0 after "
                                     + ("round 6, in first.weight, " if rounds else r"step 6, in .*second.weight\."))

    def test_by_default(self):
        """In each 10th round and in each 1,000th step, and not in between."""
        for went_well, words in CLUSTER.run(RANKS, by_default, "LocalSteps", 0):
            self.assertEqual(went_well, 9)
            self.assertIn("rank 1 has other weights than rank 0 after round 10, in ", words)
        for way in ("register", "ShardedOptimizer", "PushPull"):
            with self.subTest(way=way):
                self.assertEqual(CLUSTER.run(RANKS, by_default, way, 494), [(12, "")] * RANKS)
                for went_well, words in CLUSTER.run(RANKS, by_default, way, 994):
                    self.assertEqual(went_well, 6)
                    self.assertIn("rank 1 has other weights than rank 0 after step 1000, in ", words)

    def test_equal(self):
        for make in (*MAKERS, make_with_backup):
            self.assertEqual(CLUSTER.run(RANKS, trained, make, 1, 6, 0), [(6, "")] * RANKS)

    def test_never(self):
        for make in MAKERS:
            self.assertEqual(CLUSTER.run(RANKS, trained, make, 0, 6, 2), [(6, "")] * RANKS)

    def test_join(self):
        CLUSTER.run(RANKS, uneven)

    def test_own_parameters(self):
        CLUSTER.run(RANKS, ignored)

    def test_kinds_of_weights(self):
        self.refused(CLUSTER.outcomes(RANKS, kinds), "RuntimeError",
                     "rank 2 has other weights than rank 0 here, in bytes.")

    def test_how_many_more(self):
        for count, more in ((1, ""), (3, ""), (4, " and 1 more"), (5, " and 2 more"), (9, " and 6 more")):
            ranks = [dict.fromkeys([f"w{i}" for i in range(count)], rank > 1) for rank in range(4)]
            named = ", ".join(list(ranks[0])[:3])
            self.assertRegex(threelc.torch._common.replicas._sentence(ranks, "here"),
                             rf"^ranks 2, 3 have other weights than rank 0 here, in {named}{more}\. ")

    def test_arguments(self):
        for make in MAKERS:
            self.refused(CLUSTER.outcomes(RANKS, refused, make, (-1,) * RANKS), "ValueError",
                         "compare_every should be at least 0, not -1")
            self.refused(CLUSTER.outcomes(RANKS, refused, make, (1, 2, 2)), "ValueError",
                         "all ranks need the same settings: compare_every is 2 on rank 1 and 1 on rank 0")
