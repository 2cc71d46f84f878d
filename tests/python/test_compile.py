# SPDX-License-Identifier: MIT
"""The hook of DistributedDataParallel with torch.compile(), in each of Dynamo's modes, with static_graph and with
activation checkpointing: raw is the same training without the hook, and replicas are identical with any codec."""
import unittest

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import threelc.torch
from cluster import CLUSTER, Cluster

LAYERS = 3  # each has a bucket of its own, with a weight and a bias
STEPS = 4


class Net(torch.nn.Module):
    def __init__(self, checkpoints):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(40, 40) for _ in range(LAYERS))
        self.checkpoints = checkpoints

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(checkpoint(layer, x, use_reentrant=False) if self.checkpoints else layer(x))
        return x


def trained(rank, codec, mode, static_graph, checkpoints):
    """codec: of the hook; None: there is none. mode: of Dynamo; None: nothing is compiled. Returns the weights, the
    stats, how many groups of parameters travelled, and how many graphs were compiled. With static_graph buckets are
    divided after the second step."""
    torch.manual_seed(1)
    torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = 5000  # 1 MiB would hold all
    if hasattr(torch, "compile"):
        from torch import _dynamo
        _dynamo.reset()
        _dynamo.config.optimize_ddp = True if mode is None else mode  # True: the default
    ddp = DistributedDataParallel(Net(checkpoints), bucket_cap_mb=0.005, static_graph=static_graph)
    state = threelc.torch.register(ddp, codec, warmup_steps=1 + static_graph, compare_every=1) if codec else None
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    model = ddp if mode is None else torch.compile(ddp, backend=backend)
    optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(8, 40, generator=torch.Generator().manual_seed(10 * step + rank))).pow(2).mean().backward()
        optimizer.step()
    return ([p.detach().numpy().tobytes() for p in ddp.parameters()], state and state.stats,
            state and len(state.state_dict()["groups"]), len(graphs))


def trainings(rank, world, mode=None, static_graph=False, checkpoints=False):
    """As trained(), by codec. Graphs are computed by the same operations as what is not compiled."""
    found = {None: trained(rank, None, None, static_graph, checkpoints)}
    return {**found, **{codec: trained(rank, codec, mode, static_graph, checkpoints) for codec in ("raw", "3lc")}}


class Hooked(unittest.TestCase):
    def check(self, mode=None, static_graph=False, checkpoints=False, groups=(LAYERS,), cluster=CLUSTER):
        """groups: in which parameters may travel. Returns how many graphs were compiled."""
        one, other = cluster.run(2, trainings, mode, static_graph, checkpoints, timeout=100)
        self.assertEqual(one["raw"][0], one[None][0])
        for codec in "raw", "3lc":
            weights, stats, travelled, _ = one[codec]
            self.assertEqual(weights, other[codec][0])
            self.assertEqual((stats.steps, stats.float_steps), (STEPS, STEPS if codec == "raw" else 1 + static_graph))
            self.assertIn(travelled, (0,) if codec == "raw" else groups)
        self.assertGreater(one["3lc"][1].ratio, 1.5)
        return one["3lc"][3]


@unittest.skipUnless(hasattr(torch, "compile"), "this PyTorch compiles nothing")
class Compiled(Hooked):
    def test_ddp_optimizer(self):
        """The default. It divides the graph where buckets end."""
        self.assertEqual(self.check(True), LAYERS)

    def test_no_optimization(self):
        self.assertEqual(self.check(False, static_graph=True), 1)

    def test_checkpoints(self):
        self.assertEqual(self.check("no_optimization", checkpoints=True), 1)


class Eager(Hooked):
    def test_static_graph(self):
        self.check(static_graph=True)

    def test_checkpoints(self):
        self.check(checkpoints=True)

    def test_static_graph_with_checkpoints(self):
        self.check(static_graph=True, checkpoints=True)


@unittest.skipUnless(hasattr(torch, "compile"), "this PyTorch compiles nothing")
class PythonReducer(Hooked):
    """In processes of its own: from then on Dynamo follows calls into DistributedDataParallel."""

    def fresh(self):
        cluster = Cluster()
        self.addCleanup(cluster.close)
        return cluster

    def test_each_parameter_travels_alone(self):
        self.check("python_reducer", groups=(2 * LAYERS,), cluster=self.fresh())

    def test_without_compiled_forward(self):
        """PyTorch 2.6 has the Python reducer in this mode, 2.13 has not."""
        self.check("python_reducer_without_compiled_forward", groups=(LAYERS, 2 * LAYERS), cluster=self.fresh())
