# SPDX-License-Identifier: MIT
"""Signals and residuals in statistics, on recorded gradients, and the warning if a loop starves."""
import re
import unittest
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy
from threelc.exchange import STARVES_FROM, AllReduce, Config, Tensor
from threelc.torch._common.starving import Starving, residual_ratios, warn_starving

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "bench" / "data" / "resnet20-cifar10-s1.75"
NAMES = ("conv1.weight", "b.3.conv2.weight", "b.8.conv1.weight", "fc.weight")


class Loop:
    """An all-reduce of two ranks. Rank 0 owns everything."""

    def __init__(self, sizes, push, pull):
        self.residuals = [numpy.zeros(n, "f4") for n in sizes]
        config = Config(workers=2, owners=1, push=push, pull=pull, min_n=1)
        kept = push != "raw"
        self.ranks = [AllReduce(config, rank, [Tensor(f"t{i}", n, residual=residual if kept and rank == 0 else None)
                                               for i, (n, residual) in enumerate(zip(sizes, self.residuals))])
                      for rank in range(2)]

    def step(self, *gradients):
        """Of each rank. Returns the statistics of rank 0."""
        to = [rank.push(arrays) for rank, arrays in zip(self.ranks, gradients)]
        answers = [rank.reduce([messages[i] for messages in to]) for i, rank in enumerate(self.ranks)]
        for rank, arrays in zip(self.ranks, gradients):
            rank.pull(answers, [numpy.empty(array.size, "f4") for array in arrays])
        return self.ranks[0].stats


def norm(arrays):
    return numpy.sqrt(sum(numpy.square(numpy.asarray(array, "f8")).sum() for array in arrays))


class OnGradients(unittest.TestCase):
    def test_ratios(self):
        """Those of plain sums to a few percent, as large tensors are looked at in pieces, and of small ones exactly."""
        steps = list(zip(*(numpy.load(TRACES / f"{name}.npy") for name in NAMES)))
        sizes = [array.size for array in steps[0]]
        for codec in ("3lc", "3lc:s=1.75", "topk:p=0.01", "sbc", "onebit"):
            loop, small = Loop(sizes, codec, codec), Loop(sizes[:1], codec, codec)
            for arrays, others in zip(steps, steps[1:]):
                stats, exact = loop.step(arrays, others), small.step(arrays[:1], others[:1])
                parts = loop.ranks[0].parts()
                for found, plain in ((stats.push_residual_ratio, norm(loop.residuals) / norm(arrays)),
                                     (stats.pull_residual_ratio,
                                      norm(part.residual for part in parts) / norm(part.mean for part in parts))):
                    self.assertLess(abs(found / plain - 1), 0.25, codec)
                self.assertAlmostEqual(exact.push_residual_ratio / (norm(small.residuals) / norm(arrays[:1])), 1, 9)

    def test_limit(self):
        header = (ROOT / "include" / "threelc" / "exchange.h").read_text()
        self.assertEqual(re.findall(r"#define TLC_STARVES_FROM (\d+)", header), [str(STARVES_FROM)])


class Warns(unittest.TestCase):
    def warnings_of(self, pull, fades=1.0):
        """fades: what gradients are multiplied by from step to step."""
        draw, starving = numpy.random.default_rng(1), Starving()
        loop = Loop([20000], "raw", pull)
        found = []
        for i in range(160):
            loop.step(*([(fades**i * (draw.normal(size=20000) + 0.5)).astype("f4")] for _ in range(2)))
            found.append(starving.look(lambda: [loop.ranks[0].stats]))
        return [(step, warning) for step, warning in enumerate(found, 1) if warning]

    def test_once_where_answers_starve(self):
        (step, warning), = self.warnings_of("sbc:p=0.001")
        self.assertRegex(warning, rf"(\d+) times what they are made of, in step {step}: the training starves")
        for pull in ("3lc", "raw", "onebit"):
            self.assertEqual(self.warnings_of(pull), [])

    def test_a_signal_that_fades(self):
        """Such as changes of the model where the rate falls to 0: a residual is large beside them, and does no harm."""
        self.assertEqual(self.warnings_of("sbc:p=0.001", 0.9), [])

    def looked(self, *looks):
        """The warnings of steps, of which each 16th looks: at a ratio, and a signal. Also how many have looked."""
        starving, found, given = Starving(), [], iter(looks)

        def stats():
            ratio, signal = next(given)
            return 2 * [SimpleNamespace(
                push_residual_squares=0.0, push_signal_squares=1.0, pull_residual_squares=(ratio * signal)**2 / 2,
                pull_signal_squares=signal**2 / 2)]

        for step in range(1, 16 * len(looks) + 16):
            found.append((step, starving.look(stats)))
        return [each for each in found if each[1]], len(looks) - len(list(given))

    def test_when(self):
        """In the third look in a row, in each 16th step, above the limit, at a signal that is not a tenth of another
        one: then nobody looks any more."""
        high, at, small = (STARVES_FROM + 1, 1.0), (STARVES_FROM, 1.0), (STARVES_FROM + 1, 0.099)
        words = (f"threelc: what answers leave for later is {STARVES_FROM + 1} times what they are made of, in step "
                 "{}: the training starves. A pull codec that sends more keeps up, such as 3lc-golomb or natural")
        for looks, step in (([high] * 5, 48), ([high] * 2, None), ([high, high, at, high, high], None),
                            ([high, high, at, high, high, high], 96), ([at] * 5, None), ([small] * 3, 48),
                            ([high, small, small, small], None), ([(STARVES_FROM + 1, 0.101), high, high, high], 48),
                            ([(1.0, 10.0), high, high, high], 64), ([(1.0, 10.1), high, high, high], None)):
            found, looked = self.looked(*looks)
            self.assertEqual(found, [(step, words.format(step))] if step else [], looks)
            self.assertEqual(looked, step // 16 if step else len(looks))

    def test_one_rank_warns(self):
        for warning, rank, count in (("it starves", 0, 1), ("it starves", 1, 0), ("it starves", 2, 0), (None, 0, 0)):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                warn_starving(warning, rank)
            self.assertEqual([(each.category, str(each.message)) for each in found],
                             [(RuntimeWarning, warning)] * count)

    def test_objects_together(self):
        """As if all tensors were in one object. Without a step there is nothing."""
        arrays = [numpy.arange(1, 300, dtype="f4"), numpy.arange(500, 900, dtype="f4")]
        others = [2 * array[::-1].copy() for array in arrays]
        together = Loop([array.size for array in arrays], "3lc", "3lc")
        alone = [Loop([array.size], "3lc", "3lc") for array in arrays]
        self.assertEqual(set(residual_ratios([together.ranks[0].stats]).values()), {0.0})
        ratios = residual_ratios([loop.step([a], [b]) for loop, a, b in zip(alone, arrays, others)])
        for name, ratio in residual_ratios([together.step(arrays, others)]).items():
            self.assertGreater(ratio, 0)
            self.assertAlmostEqual(ratio, ratios[name], 12, name)
