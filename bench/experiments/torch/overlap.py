#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What is hidden of an exchange behind computing: steps of ResNet-20 or of the small GPT, with drawn data, that are
computed alone, with the exchange after computing, and beside it. All take turns in the same processes. Prints
milliseconds of a step, medians of all turns, and how much of what the exchange adds is hidden. On slow links:
bench/network/run --rate 100mbit -- bench/experiments/torch/overlap.py"""
import argparse
import os
import statistics
import time

from options import Parser

parser = Parser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument("--model", choices=("resnet20", "gpt"), default="resnet20")
parser.add_argument("--way", choices=("owners", "hook", "local"), default="owners",
                    help="owners: ShardedOptimizer, and with overlap=True. hook: register, with one bucket, and with "
                    "many. local: LocalSteps with a round every 8 steps, and with delay=7")
parser.add_argument("--codec", action="append", help="of gradients; may be given several times")
parser.add_argument("--bucket-mb", type=float, default=0.25, help="of floats in a bucket")
parser.add_argument("--offload", type=float, metavar="MS", help="layers take so much time of a step, "
                    "and no core, as where an accelerator computes")
parser.add_argument("--workers", type=int, default=4)
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--steps", type=int, default=8, help="in a turn; of local steps a multiple of 8")
parser.add_argument("--turns", type=int, default=5)

if __name__ == "__main__":
    parser.parse_args()  # before PyTorch is loaded: --help needs nothing

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from models import CharacterGPT, ResNet  # noqa: E402
from offload import Offloaded  # noqa: E402
from training import check_codecs, run_ranks, threelc  # noqa: E402

CHARACTERS, LENGTH = 128, 64
EVERY = 8  # local steps in a round
WARM = 3  # steps; DistributedDataParallel divides buckets after the first


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.01, momentum=0.9)


def task(o):
    """A model, and what computes the loss of one such model."""
    torch.manual_seed(1)
    draw = torch.Generator().manual_seed(dist.get_rank())
    model = ResNet() if o.model == "resnet20" else CharacterGPT(CHARACTERS, LENGTH)
    if o.offload:
        away = Offloaded(model, o.offload, draw)
        return away, lambda model: model(torch.zeros(1)).sum()
    if o.model == "resnet20":
        x = torch.randn(o.batch, 3, 32, 32, generator=draw)
        y = torch.randint(10, (o.batch,), generator=draw)
    else:
        text = torch.randint(CHARACTERS, (o.batch, LENGTH + 1), generator=draw)
        x, y = text[:, :-1], text[:, 1:].flatten()
    return model, lambda model: F.cross_entropy(model(x).flatten(0, -2), y)


class Way:
    """A model of its own, and what trains it. codec: None: the rank trains alone. overlap: beside computing."""

    def __init__(self, o, codec, overlap):
        self._model, self._loss = task(o)
        if codec is None or o.way == "hook":
            self._optimizer = sgd(self._model.parameters())
        elif o.way == "owners":
            self._optimizer = threelc.torch.ShardedOptimizer(self._model, sgd, codec=codec, overlap=overlap,
                                                             bucket_mb=o.bucket_mb)
        else:
            self._optimizer = threelc.torch.LocalSteps(self._model, sgd(self._model.parameters()), codec=codec,
                                                       every=EVERY, delay=overlap * (EVERY - 1))
        if codec is not None and o.way == "hook":
            dist._DEFAULT_FIRST_BUCKET_BYTES = int(o.bucket_mb * 2 ** 20) if overlap else 1 << 40
            self._model = DistributedDataParallel(self._model, bucket_cap_mb=o.bucket_mb if overlap else 1 << 20)
            self._state = threelc.torch.register(self._model, codec)
        for _ in range(EVERY if o.way == "local" else WARM):
            self.step()

    def step(self):
        self._optimizer.zero_grad()
        self._loss(self._model).backward()
        self._optimizer.step()

    def turn(self, steps):
        """Milliseconds of a step. The answers of the last one are awaited, too."""
        dist.barrier()
        start = time.perf_counter()
        for _ in range(steps):
            self.step()
        if hasattr(self._optimizer, "ready"):
            self._optimizer.ready()
        dist.barrier()
        return 1e3 * (time.perf_counter() - start) / steps


def main(o):
    codecs = o.codec or ["raw", "3lc", "3lc:s=1.75"]
    names = [(None, False), *((codec, overlap) for codec in codecs for overlap in (False, True))]
    ways = {name: Way(o, *name) for name in names}
    found = {name: [] for name in names}
    for _ in range(o.turns):
        for name, way in ways.items():
            found[name].append(way.turn(o.steps))
    if dist.get_rank():
        return
    alone = statistics.median(found[None, False])
    link = os.environ.get("TLC_NETWORK_RATE", "loopback")
    for codec in codecs:
        plain, hidden = (statistics.median(found[codec, overlap]) for overlap in (False, True))
        share = f"{100 * (plain - hidden) / (plain - alone):8.0f}%" if plain > alone else f"{'-':>9}"
        print(f"{o.way:8} {o.model:10} {link:10} {codec:12} {alone:9.0f} {plain:9.0f} {hidden:9.0f} {share}",
              flush=True)


if __name__ == "__main__":
    options = parser.parse_args()
    check_codecs(parser, options.codec or ())
    if options.way == "local" and options.steps % EVERY:
        parser.error(f"--steps {options.steps}: it should be a multiple of {EVERY}, the steps of a round")
    run_ranks(options, lambda: main(options), f"{'way':8} {'model':10} {'link':10} {'codec':12} {'alone ms':>9} "
              f"{'step ms':>9} {'overlap':>9} {'hidden':>9}\n")
