# SPDX-License-Identifier: MIT
"""An exception before the k-th line of the package on one rank of two, in its training or in the thread that exchanges:
both ranks end, within the timeout of their process group and what a roll call takes.

test_cut_ranks.py POINTS [SEED]: so many points of each way and place, by hand.
"""
import random
import sys
import threading
import time
import unittest
from pathlib import Path

import torch
import threelc.torch
from cluster import CLUSTER, attempt
from trials import WAYS

PACKAGE = str(Path(threelc.__file__).resolve().parent)
TIMEOUT = 8  # of the process group
LONGEST = 2 * TIMEOUT  # seconds from the cut to the end of both
STEPS = 8
PLACES = [*((way, place) for way in ("ddp", "owners", "streaming") for place in ("step", "thread")),
          *((way, "step") for way in ("local-steps", "servers", "gossip")), ("group", "thread")]


class Cut(Exception):
    """At some line."""


class Lines:
    """Counts lines of the package, and raises before one of them."""

    def __init__(self, k):
        self.count, self.k = 0, k
        self.on = False

    def trace(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if self.on and event == "line":
            self.count += 1
            if self.count == self.k:
                raise Cut(f"before line {frame.f_lineno} of {Path(frame.f_code.co_filename).name}")
        return self.trace


def training(rank, world, way, place, k):
    """What it raised, and after how long; how many lines there are."""
    lines = Lines(k if rank == 1 else 0)
    if place == "thread":
        threading.settrace(lines.trace)  # of threads that begin from now on
    model, optimizer = WAYS[way](lambda: None)

    def train():
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(torch.randn(8, 60)).pow(2).mean().backward()
            optimizer.step()
        optimizer.state_dict()  # which waits for what is under way

    torch.manual_seed(1 + rank)
    lines.on = True
    if place == "step":
        sys.settrace(lines.trace)
    try:
        found = attempt(train)
    finally:
        sys.settrace(None)
        threading.settrace(None)
        lines.on = False
    return (*found, lines.count)


def cut(way, place, number, draw):
    """Cuts so many points. Returns a sentence."""
    if way == "group" and torch.__version__.startswith("1."):
        return f"{way}, {place}: PyTorch 1 has none"
    last = CLUSTER.run(2, training, way, place, 0, timeout=TIMEOUT)[1][3]
    raised = 0
    for _ in range(number):
        k = draw.randint(1, last)
        start = time.monotonic()
        found = CLUSTER.outcomes(2, training, way, place, k, timeout=TIMEOUT)
        seconds = time.monotonic() - start
        for outcome in found:
            if isinstance(outcome, Exception):
                raise AssertionError(f"{way}, {place}, point {k} of {last}: {outcome}")
        raised += any(kind for kind, *_ in found)
        if seconds > LONGEST:
            raise AssertionError(f"{way}, {place}, point {k} of {last}: {seconds:.1f} s, {found}")
    return f"{way}, {place}: {number} of {last} points, {raised} with an exception, none hung"


class CutRanks(unittest.TestCase):
    def test_points(self):
        draw = random.Random(1)
        for way, place in PLACES:
            with self.subTest(f"{way}, {place}"):
                cut(way, place, 2, draw)


if __name__ == "__main__":
    DRAW = random.Random(sys.argv[2] if len(sys.argv) > 2 else "1")
    for WAY, PLACE in PLACES:
        print(cut(WAY, PLACE, int(sys.argv[1]), DRAW), flush=True)
