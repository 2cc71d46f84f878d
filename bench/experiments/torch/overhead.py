#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What the hook of DistributedDataParallel costs: gradients of the shapes of a list in bench/shapes are drawn, and
exchanged on this machine. Prints a row for each codec and number of ranks: milliseconds of a step in the codec, on the
wire, and in Python between them, and the bytes that a rank sends."""
import argparse
import math
import time
from pathlib import Path

from options import Parser

parser = Parser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument("--shapes", type=Path, required=True, help="a list of bench/shapes")
parser.add_argument("--codec", action="append", help="of gradients; may be given several times")
parser.add_argument("--mode", choices=("sharded", "gather"), default="sharded")
parser.add_argument("--workers", type=int, default=4)
parser.add_argument("--steps", type=int, default=20)

if __name__ == "__main__":
    parser.parse_args()  # before PyTorch is loaded: --help needs nothing

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from training import check_codecs, run_ranks, threelc  # noqa: E402


class Shapes(torch.nn.Module):
    """Parameters of these shapes. The gradient of the loss is what was drawn, without computing anything else."""

    def __init__(self, path):
        super().__init__()
        for line in path.read_text().splitlines():
            words = line.split("#")[0].split()
            if words:
                n = math.prod(map(int, words[1].split("x")))
                self.register_parameter(words[0].replace(".", "_"), torch.nn.Parameter(torch.zeros(n)))

    def forward(self, drawn):
        return sum((p * g).sum() for p, g in zip(self.parameters(), drawn))


def main(o):
    for codec in o.codec or ["raw", "3lc", "3lc:s=1.75", "3lc-golomb"]:
        module = Shapes(o.shapes)
        model = DistributedDataParallel(module)
        state = threelc.torch.register(model, codec=codec, mode=o.mode)
        draw = torch.Generator().manual_seed(dist.get_rank())
        drawn = [torch.randn(p.shape, generator=draw).pow_(3) for p in module.parameters()]  # heavy tails
        for step in range(2 + o.steps):
            if step == 2:
                before, start = state.stats, time.perf_counter()
            model.zero_grad(set_to_none=True)
            model(drawn).backward()
            dist.barrier()
        seconds, after = time.perf_counter() - start, state.stats
        if dist.get_rank() == 0:
            codec_ms, wire_ms, thread_ms = (1e3 * (getattr(after, name) - getattr(before, name)) / o.steps
                                            for name in ("codec_seconds", "wire_seconds", "thread_seconds"))
            values = sum(p.numel() for p in module.parameters())
            print(f"{o.shapes.stem:16} {dist.get_world_size():5} {codec:12} {1e3 * seconds / o.steps:9.1f} "
                  f"{codec_ms:9.2f} {wire_ms:9.2f} {thread_ms - codec_ms - wire_ms:9.2f} "
                  f"{(after.sent - before.sent) / o.steps / 1e3:12.1f} {values / 1e6:8.2f}", flush=True)
        del state, model, module


if __name__ == "__main__":
    options = parser.parse_args()
    check_codecs(parser, options.codec or ())
    run_ranks(options, lambda: main(options), f"{'shapes':16} {'ranks':>5} {'codec':12} {'step ms':>9} {'codec ms':>9} "
              f"{'wire ms':>9} {'Python ms':>9} {'sent kB':>12} {'Mvalues':>8}\n")
