# SPDX-License-Identifier: MIT
"""What users see of an exchange: a line in the log now and then, numbers for TensorBoard and the like, and ranges in
traces of PyTorch's profiler."""
import logging
import re
import unittest

import torch

import threelc.torch
from cluster import CLUSTER, Refusals
from outer_models import batch, build
from test_replicas import make_local, make_overlapped, make_push_pull, make_sharded, make_with_backup

RANKS = 3


def make_hook(model, _, codec="3lc-golomb"):
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    return ddp, threelc.torch.register(ddp, codec)


def make_raw_hook(model, _):
    return make_hook(model, _, "raw")


def make_clipped(model, every):
    return make_sharded(model, every, max_norm=1.0)


def make_gossip(model, _):
    return model, threelc.torch.Gossip(model, torch.optim.SGD(model.parameters(), 0.05))


def make_fragments(model, _):
    return model, threelc.torch.LocalSteps(
        model, torch.optim.SGD(model.parameters(), 0.05), every=2, fragments=2, delay=1)


GATHER = {"compress", "pushes", "decompress"}  # phases of an exchange
PHASES = GATHER | {"average", "answers"}
MAKERS = (make_hook, make_local, make_sharded, make_overlapped, make_push_pull, make_with_backup, make_gossip)


def logged(rank, world, make, every):
    """The lines of 7 steps, of which 6 are logged, and the stats after the first and the last one."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append((record.name, record.levelname, record.getMessage()))
    logger = logging.getLogger("threelc")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    model, state = make(build(rank), 0)
    optimizer = torch.optim.SGD(model.parameters(), 0.05) if make is make_hook else state
    for step in range(7):
        optimizer.zero_grad()
        model(batch(rank, step)).pow(2).mean().backward()
        optimizer.step()
        if step == 0:
            state.state_dict()  # all answers were taken
            before = state.stats
            state.log_every(every)
    state.state_dict()
    logger.removeHandler(handler)
    return lines, before, state.stats


def all_threads():
    """An argument of the profiler; None: this PyTorch sees the threads alone that it knows."""
    try:
        return torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    except (AttributeError, TypeError):
        return None


def ranges_of(run):
    """The names of this library's ranges in a trace of run()."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                experimental_config=all_threads()) as profile:
        run()
    return {event.key for event in profile.key_averages() if event.key.startswith("threelc::")}


def traced(rank, world, make):
    """The names of ranges in a trace of two steps, after one without."""
    model, state = make(build(rank), 0)
    optimizer = torch.optim.SGD(model.parameters(), 0.05) if make in (make_hook, make_raw_hook) else state

    def train(step):
        optimizer.zero_grad()
        model(batch(rank, step)).pow(2).mean().backward()
        optimizer.step()
        state.state_dict()  # all answers were taken

    train(0)
    return ranges_of(lambda: (train(1), train(2)))


def wrong(rank, world, make):
    make(build(rank), 0)[1].log_every(-1)


class Log(Refusals):
    def test_lines(self):
        for make in MAKERS:
            with self.subTest(make=make.__name__):
                (lines, before, after), *others = CLUSTER.run(RANKS, logged, make, 3)
                self.assertEqual([said for said, _, _ in others], [[]] * (RANKS - 1))
                unit = "round" if make is make_local else "step"
                found = [re.fullmatch(rf"{unit} (\d): (\d+) bytes sent in a {unit}, (\d+\.\d) times fewer than floats; "
                                      r"\d+\.\d ms in codecs, \d+\.\d ms on the wire", text) for _, _, text in lines]
                self.assertEqual([(name, level) for name, level, _ in lines], [("threelc", "INFO")] * 2)
                self.assertEqual([int(match[1]) for match in found], [4, 7])
                sent = after.sent - before.sent
                self.assertAlmostEqual(sum(int(match[2]) for match in found) * 3 / sent, 1, delta=0.05)
                fewer = (after.float_bytes - before.float_bytes) / sent
                self.assertAlmostEqual(sum(float(match[3]) for match in found) / 2 / fewer, 1, delta=0.1)

    def test_never(self):
        for make in MAKERS:
            self.assertEqual([lines for lines, _, _ in CLUSTER.run(RANKS, logged, make, 0)], [[]] * RANKS)

    def test_arguments(self):
        for make in MAKERS:
            self.refused(CLUSTER.outcomes(RANKS, wrong, make), "ValueError", "log_every should be at least 0, not -1")

    def check_ranges(self, expected):
        for make, phases in expected.items():
            with self.subTest(make=make.__name__):
                self.assertEqual(CLUSTER.run(RANKS, traced, make), [{f"threelc::{phase}" for phase in phases}] * RANKS)

    def test_ranges(self):
        self.check_ranges({make_local: GATHER | {"buffers"}, make_sharded: PHASES, make_push_pull: PHASES,
                           make_with_backup: PHASES, make_clipped: PHASES | {"norms"},
                           make_gossip: PHASES - {"answers"}})

    @unittest.skipIf(all_threads() is None, "the profiler of this PyTorch does not see threads of others")
    def test_ranges_in_a_thread(self):
        self.check_ranges({make_hook: PHASES, make_raw_hook: {"floats"}, make_overlapped: PHASES,
                           make_fragments: GATHER | {"buffers"}})

    def test_scalars(self):
        for make in MAKERS:
            _, _, stats = CLUSTER.run(RANKS, logged, make, 0)[0]
            scalars = stats.scalars()
            self.assertTrue(all(isinstance(value, float) for value in scalars.values()))
            self.assertEqual((scalars["sent"], scalars["ratio"]), (stats.sent, stats.float_bytes / stats.sent))
            if make in (make_hook, make_local):
                norms = torch.tensor(list(stats.residual_norms.values()), dtype=torch.float64)
                self.assertAlmostEqual(scalars["residual_norm"], float(norms.norm()), places=9)
