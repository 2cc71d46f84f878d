# SPDX-License-Identifier: MIT
"""The hook of DistributedDataParallel with torch.compile(), in each of Dynamo's modes, with static_graph, activation
checkpointing, accumulation, unused parameters and autocast: raw is the same training without the hook, and replicas are
identical with any codec."""
import shutil
import sysconfig
import unittest
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import threelc.torch
from cluster import CLUSTER, Cluster

LAYERS = 3  # each has a bucket of its own, with a weight and a bias
WEIGHTS_FIRST = (LAYERS, LAYERS + 1)  # groups: where gradients of weights come first, biases are in the next bucket
STEPS = 4


class Way(NamedTuple):
    """How a module is trained."""
    mode: Any = None  # of Dynamo; None: nothing is compiled
    static_graph: bool = False
    reentrant: Any = None  # of activation checkpointing; None: there is none
    unused: bool = False  # rank 1 does not use the last layer, and nobody uses another
    accumulates: bool = False  # a step has two backward passes, and the first sends nothing
    casts: bool = False  # autocast to bfloat16
    backward: bool = False  # compiled, too
    inductor: bool = False


class Net(torch.nn.Module):
    def __init__(self, rank, way):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(40, 40) for _ in range(LAYERS))
        self.other = torch.nn.Linear(40, 40) if way.unused else None
        self.used = LAYERS - (way.unused and rank == 1)
        self.reentrant = way.reentrant

    def forward(self, x):
        for layer in self.layers[:self.used]:
            x = torch.tanh(layer(x) if self.reentrant is None else checkpoint(layer, x, use_reentrant=self.reentrant))
        return x


def trained(rank, codec, way):
    """codec: of the hook; None: there is none. Returns the weights, the stats, how many groups of parameters travelled,
    and how many graphs were compiled. With static_graph buckets are divided after the second step."""
    torch.manual_seed(1)
    torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = 5000  # 1 MiB would hold all
    if hasattr(torch, "compile"):
        from torch import _dynamo
        _dynamo.reset()
        _dynamo.config.optimize_ddp = True if way.mode is None else way.mode  # True: the default
        _dynamo.config.compiled_autograd = way.backward
    if way.inductor:
        from torch._inductor import config
        config.compile_threads = 1  # in this process: no others, which may outlive it
    ddp = DistributedDataParallel(Net(rank, way), bucket_cap_mb=0.005, static_graph=way.static_graph,
                                  find_unused_parameters=way.unused)
    state = threelc.torch.register(ddp, codec, warmup_steps=1 + way.static_graph, compare_every=1) if codec else None
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return _dynamo.lookup_backend("inductor")(graph, inputs) if way.inductor else graph.forward

    model = ddp if way.mode is None else torch.compile(ddp, backend=backend)

    def backward(x):
        x.requires_grad_(way.reentrant is True)  # else nothing of the first layer is computed again
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=way.casts):
            y = model(x)
        y.float().pow(2).mean().backward()

    if way.backward:
        backward = torch.compile(backward, backend=backend)
    optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        draw = torch.Generator().manual_seed(10 * step + rank)
        if way.accumulates:
            with ddp.no_sync():
                backward(torch.randn(8, 40, generator=draw))
        backward(torch.randn(8, 40, generator=draw))
        optimizer.step()
    return (b"".join(p.detach().numpy().tobytes() for p in ddp.parameters()), state and state.stats,
            state and len(state.state_dict()["groups"]), len(graphs))


def trainings(rank, world, way):
    """As trained(), by codec. Without the hook nothing is compiled, but for Inductor: it alone has other operations."""
    without = way if way.inductor else way._replace(mode=None, backward=False)
    return {codec: trained(rank, codec, way if codec else without) for codec in (None, "raw", "3lc")}


def inductor_starts():
    """Debian's PyTorch has its headers in libtorch-dev."""
    folders = [Path(torch.__file__).parent / "include", Path("/usr/include"), Path(sysconfig.get_path("include"))]
    return shutil.which("g++") and all(any((folder / name).exists() for folder in folders)
                                       for name in ("ATen/NumericUtils.h", "Python.h"))


class Hooked(unittest.TestCase):
    def check(self, way, groups=(LAYERS,), cluster=CLUSTER):
        """groups: in which parameters may travel. Returns how many graphs were compiled."""
        one, other = cluster.run(2, trainings, way, timeout=100)
        self.assertEqual(one["raw"][0], one[None][0])
        for codec in "raw", "3lc":
            weights, stats, travelled, _ = one[codec]
            self.assertEqual(weights, other[codec][0])
            self.assertEqual((stats.steps, stats.float_steps),
                             (STEPS, STEPS if codec == "raw" else 1 + way.static_graph))
            self.assertIn(travelled, (0,) if codec == "raw" else groups)
        self.assertLess(one["3lc"][1].sent, one["raw"][1].sent)
        self.assertGreater(one["3lc"][1].ratio, 1.5)
        return one["3lc"][3]


@unittest.skipUnless(hasattr(torch, "compile"), "this PyTorch compiles nothing")
class Compiled(Hooked):
    def test_ddp_optimizer(self):
        """The default. It divides the graph where buckets end."""
        for mode in (True, "ddp_optimizer"):
            self.assertEqual(self.check(Way(mode)), LAYERS)

    def test_no_optimization(self):
        self.assertEqual(self.check(Way(False, static_graph=True)), 1)

    def test_checkpoints(self):
        for reentrant in (False, True):
            self.assertEqual(self.check(Way("no_optimization", reentrant=reentrant)), 1)

    def test_accumulation(self):
        self.assertEqual(self.check(Way(True, accumulates=True)), LAYERS)

    def test_unused_parameters(self):
        """Ranks have different graphs. Buckets stay in the order of parameters, and each begins with a bias."""
        self.assertEqual(self.check(Way(True, unused=True), groups=(LAYERS + 2,)), LAYERS)

    def test_autocast(self):
        self.assertEqual(self.check(Way(True, casts=True), groups=WEIGHTS_FIRST), LAYERS)

    @unittest.skipUnless(inductor_starts(), "without g++ and headers of PyTorch and Python Inductor does not start")
    def test_inductor(self):
        self.assertEqual(self.check(Way(True, inductor=True), groups=WEIGHTS_FIRST), LAYERS)


class Eager(Hooked):
    def test_static_graph(self):
        self.check(Way(static_graph=True))

    def test_checkpoints(self):
        for reentrant in (False, True):
            self.check(Way(reentrant=reentrant))

    def test_static_graph_with_checkpoints(self):
        for reentrant in (False, True):
            self.check(Way(static_graph=True, reentrant=reentrant))


@unittest.skipUnless(hasattr(torch, "compile"), "this PyTorch compiles nothing")
class PythonReducer(Hooked):
    """In processes of its own: from then on Dynamo follows calls into DistributedDataParallel."""

    def fresh(self):
        cluster = Cluster()
        self.addCleanup(cluster.close)
        return cluster

    def test_each_parameter_travels_alone(self):
        self.check(Way("python_reducer"), groups=(2 * LAYERS,), cluster=self.fresh())

    def test_compiled_autograd(self):
        """It divides the graph of the backward pass at each parameter, too."""
        self.assertGreater(self.check(Way("python_reducer", backward=True), groups=(2 * LAYERS,),
                                      cluster=self.fresh()), 2 * LAYERS)

    def test_without_compiled_forward(self):
        """PyTorch 2.6 has the Python reducer in this mode, 2.13 has not."""
        self.check(Way("python_reducer_without_compiled_forward"), groups=(LAYERS, 2 * LAYERS), cluster=self.fresh())
