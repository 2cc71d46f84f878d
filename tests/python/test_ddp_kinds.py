# SPDX-License-Identifier: MIT
"""The hook of DistributedDataParallel and gradients that no codec takes: they go as floats, as without the hook."""
import unittest

import torch
from torch.nn.parallel import DistributedDataParallel

import threelc.torch
from cluster import CLUSTER


class Words(torch.nn.Module):
    """A sparse gradient, and dense ones."""

    def __init__(self, dtype=None):
        super().__init__()
        self.embedding = torch.nn.Embedding(50, 30, sparse=True, dtype=dtype)
        self.body = torch.nn.Sequential(torch.nn.Linear(30, 60), torch.nn.Tanh(), torch.nn.Linear(60, 10))
        self.unused = torch.nn.Linear(5, 5)

    def forward(self, words):
        return self.body(self.embedding(words).float())


class Kinds(torch.nn.Module):
    """Parameters of all kinds; those of integers cannot be trained."""

    def __init__(self, *dtypes):
        super().__init__()
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(600, dtype=dtype)) for dtype in dtypes])
        self.empty = torch.nn.Parameter(torch.ones(0))
        self.empty_matrix = torch.nn.Parameter(torch.ones(3, 0))
        self.count = torch.nn.Parameter(torch.ones(5, dtype=torch.int32), requires_grad=False)

    def forward(self, x):
        return sum(((weight + self.count[0]) * x.to(weight.dtype)).abs().sum().double() for weight in self.weights) + \
            self.empty.sum() + self.empty_matrix.sum()


def gradients(model):
    found = {}
    for name, parameter in model.module.named_parameters():
        if parameter.grad is not None:
            dense = parameter.grad.to_dense().contiguous()
            found[name] = (dense.float() if dense.dtype == torch.bfloat16 else dense).numpy().tobytes()
    return found


def trained(rank, model, codec, steps, loss):
    """The gradients of each step, and the stats. codec: of the hook, if there is one."""
    state = threelc.torch.register(model, codec=codec, min_numel=1) if codec else None
    found = []
    for step in range(steps):
        model.zero_grad()
        loss(model, torch.Generator().manual_seed(10 * step + rank)).backward()
        found.append(gradients(model))
    return found, state and state.stats


def words(rank, world, hooked, codec="3lc", steps=6, unused=False):
    """As trained()."""
    torch.manual_seed(1)
    module = Words()
    if not unused:
        del module.unused
    return trained(rank, DistributedDataParallel(module, find_unused_parameters=unused), hooked and codec, steps,
                   lambda model, draw: model(torch.randint(50, (8 + rank,), generator=draw)).pow(2).mean())


def kinds(rank, world, dtypes, hooked):
    """The same, of parameters of these dtypes."""
    return trained(rank, DistributedDataParallel(Kinds(*dtypes)), hooked and "3lc", 4,
                   lambda model, draw: model(torch.randn(600, generator=draw)))


def compiled(rank, world, kind):
    """The compiled reducer of PyTorch 2 calls the hook with each gradient and its parameter: the mean."""
    model = DistributedDataParallel(torch.nn.Linear(20, 30, bias=False))
    state = threelc.torch.register(model, codec="3lc", min_numel=1)
    for _ in range(3):
        gradient = torch.randn(30, 20, generator=torch.Generator().manual_seed(rank))
        if kind == "complex":
            gradient = torch.complex(gradient, 1 + gradient)
        elif kind == "sparse":
            gradient = gradient.to_sparse()
        else:
            gradient = gradient.double() / 3
        threelc.torch.hook(state, (gradient, model.module.weight))
    dense = gradient.to_dense()
    return (torch.view_as_real(dense) if dense.is_complex() else dense).tolist()


class Sparse(unittest.TestCase):
    def test_gradients_are_those_without_the_hook(self):
        for unused in (False, True):
            for world in (2, 3):
                without = CLUSTER.run(world, words, False, "", 6, unused, timeout=20)
                for codec in ("3lc", "raw"):
                    found = CLUSTER.run(world, words, True, codec, 6, unused, timeout=20)
                    for rank in range(world):
                        for step, (ours, plain) in enumerate(zip(found[rank][0], without[rank][0])):
                            self.assertEqual(ours["embedding.weight"], plain["embedding.weight"])
                            if codec == "raw" or step == 0:
                                self.assertEqual(ours, plain)
                        self.assertEqual(found[rank][0], found[0][0])

    def test_half(self):
        """gloo does not add up sparse gradients of float16: they go as float32."""
        found = CLUSTER.run(2, sparse_half, timeout=20)
        if found[0] is None:
            self.skipTest("this PyTorch has no sparse gradients of float16 on the CPU")
        for ours, expected in found:
            torch.testing.assert_close(torch.tensor(ours), torch.tensor(expected), atol=1e-6, rtol=2e-3)

    def test_stats(self):
        """Sparse gradients are counted, and do not make a step one of floats."""
        for _, stats in CLUSTER.run(2, words, True, timeout=20):
            self.assertEqual((stats.steps, stats.float_steps), (6, 1))
            self.assertGreater(stats.sent, 6 * 8 * 30 * 4)

    def test_nan(self):
        """A NaN in a sparse gradient is named."""
        for result in CLUSTER.run(2, nan_in_words, timeout=20):
            self.assertEqual(len(result), 1)
            self.assertIn('NaN or infinity in the gradient of tensor "embedding.weight", in step 2', result[0])


def sparse_half(rank, world):
    """The gradient of an embedding of float16, and the mean of those of all ranks. None: there is none."""
    def gradient(model, rank):
        model.zero_grad(set_to_none=True)
        draw = torch.Generator().manual_seed(rank)
        model(torch.randint(50, (8,), generator=draw)).pow(2).mean().backward()
        return module.embedding.weight.grad.float().to_dense()

    torch.manual_seed(1)
    module = Words(torch.float16)
    del module.unused
    try:
        expected = sum(gradient(module, other) for other in range(world)) / world
    except RuntimeError:
        return None
    model = DistributedDataParallel(module)
    threelc.torch.register(model, min_numel=1)
    return gradient(model, rank).tolist(), expected.tolist()


def nan_in_words(rank, world):
    import warnings
    torch.manual_seed(1)
    module = Words()
    del module.unused
    model = DistributedDataParallel(module)
    threelc.torch.register(model)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for step in range(4):
            model.zero_grad()
            loss = model(torch.arange(8)).pow(2).mean()
            if step >= 1:
                loss = loss + model.module.embedding(torch.tensor([3])).sum() * float("nan")
            loss.backward()
    return [str(warning.message) for warning in found if "NaN" in str(warning.message)]


class Dtypes(unittest.TestCase):
    def test_float64_keeps_its_precision(self):
        dtypes = (torch.float32, torch.float64)
        without, found = (CLUSTER.run(3, kinds, dtypes, hooked, timeout=20) for hooked in (False, True))
        for (ours, stats), (plain, _) in zip(found, without):
            for step, (one, other) in enumerate(zip(ours, plain)):
                self.assertEqual(one["weights.1"], other["weights.1"])
                self.assertEqual(one["weights.0"] == other["weights.0"], step == 0)
            self.assertEqual(ours, found[0][0])
            self.assertGreater(stats.sent, 4 * 600 * 8)

    def test_complex_keeps_its_imaginary_part(self):
        found = CLUSTER.run(2, complex_mean, timeout=20)
        if found[0] is None:
            self.skipTest("DistributedDataParallel of this PyTorch takes no complex parameters with gloo")
        for ours, expected in found:
            torch.testing.assert_close(ours, expected)
        self.assertEqual(found[0], found[1])

    def test_empty_parameters_and_integers(self):
        found = CLUSTER.run(2, kinds, (torch.float32,), True, timeout=20)
        self.assertEqual(found[0][0], found[1][0])
        self.assertEqual(found[0][0][3]["empty"], b"")

    def test_compiled_reducer(self):
        for kind in ("complex", "sparse", "float64"):
            for mean in CLUSTER.run(2, compiled, kind, timeout=20):
                draws = [torch.randn(30, 20, generator=torch.Generator().manual_seed(rank)) for rank in range(2)]
                expected = (draws[0] + draws[1]) / 2
                if kind == "complex":
                    expected = torch.stack([expected, 1 + expected], -1)
                elif kind == "float64":
                    expected = (draws[0].double() / 3 + draws[1].double() / 3) / 2
                torch.testing.assert_close(torch.tensor(mean, dtype=expected.dtype), expected,
                                           atol=1e-15 if kind == "float64" else 1e-6, rtol=0)


def complex_mean(rank, world):
    """Complex gradients and the means of those of both ranks, as lists. None: there is no such module."""
    torch.manual_seed(1)
    module = torch.nn.Module()
    for i, n in enumerate((600, 7)):
        module.register_parameter(f"weight{i}", torch.nn.Parameter(torch.ones(n, dtype=torch.complex64)))
    module.forward = lambda x, y: (module.weight0 * x).real.sum() + (module.weight1 * y).real.sum()
    try:
        model = DistributedDataParallel(module)
    except RuntimeError as error:
        if "scalar type" not in str(error):
            raise
        return None
    threelc.torch.register(model, codec="3lc", min_numel=1)
    draws = [[torch.randn(n, dtype=torch.complex64, generator=torch.Generator().manual_seed(r)) for n in (600, 7)]
             for r in range(world)]
    for _ in range(3):
        model.zero_grad()
        model(*draws[rank]).backward()
    means = [sum(each).conj() / world for each in zip(*draws)]
    return [parameter.grad.tolist() for parameter in module.parameters()], [mean.tolist() for mean in means]
