#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What residuals of bfloat16 cost, beside float32: the loss at the end of a convex problem.

The problem of bench/experiments/quadratic: the mean of curvature[i] x[i]^2 / 2, curvatures from 0.05 to 1.05, ranks
whose gradients have noise of their own, momentum 0.9, a rate that falls linearly to 0. All ranks are in one process,
and quantize by torch operations on the CPU, as on a GPU. For each seed both dtypes get the same noise.
"""
import argparse

CODECS = ("3lc", "3lc:s=1.75", "topk")


def options() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    found.add_argument("--codecs", nargs="*", default=list(CODECS))
    found.add_argument("--modes", nargs="*", choices=("gather", "sharded"), default=["gather", "sharded"])
    found.add_argument("--seeds", type=int, default=3)
    found.add_argument("--ranks", type=int, default=4)
    found.add_argument("--values", type=int, default=20000)
    found.add_argument("--steps", type=int, default=600)
    found.add_argument("--rate", type=float, default=0.05, help="of the first step")
    found.add_argument("--noise", type=float, default=0.2, help="standard deviation, of each rank")
    return found


if __name__ == "__main__":
    OPTIONS = options().parse_args()  # before PyTorch is loaded: --help needs nothing

import sys  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, List, Optional, Sequence  # noqa: E402

import torch  # noqa: E402

sys.path.append(str(Path(__file__).resolve().parents[3] / "src" / "python"))
from threelc import exchange  # noqa: E402
from threelc.torch._device.answers import answers_for  # noqa: E402
from threelc.torch._device.on_device import OnDevice  # noqa: E402
from threelc.torch.kernels.ways import quantizer_for  # noqa: E402

CPU = torch.device("cpu")


class Rank:
    """Of an all-reduce of one tensor."""

    def __init__(self, rank: int, config: exchange.Config, n: int, dtype: torch.dtype) -> None:
        residual = torch.zeros(n)
        self.object = exchange.AllReduce(config, rank, [exchange.Tensor("x", n, residual=residual)])
        push = config.push or ""
        quantizer = quantizer_for(push, CPU)
        assert quantizer is not None
        self.there = OnDevice(self.object, quantizer, {0: residual}, CPU, dtype)
        answers = answers_for(self.object, exchange.pull_codec(push), [0], CPU, dtype)
        self.reduce = (answers or self.object).reduce
        self.mean = torch.zeros(n)


def mean_of(ranks: Sequence[Rank], gradients: Sequence[torch.Tensor]) -> torch.Tensor:
    pushes = [rank.there.push([gradient], 1.0) for rank, gradient in zip(ranks, gradients)]
    if ranks[0].object.config.gather:
        last = [push[0] for push in pushes]
    else:
        last = [rank.reduce([push[i] for push in pushes]) for i, rank in enumerate(ranks)]
    for rank in ranks:
        rank.there.pull(last, [rank.mean])
    return ranks[0].mean


def loss_of(o: Any, codec: Optional[str], mode: str, seed: int, dtype: torch.dtype = torch.float32) -> float:
    """At the end of a training. codec None: floats."""
    draw = torch.Generator().manual_seed(seed)
    curvature = 0.05 + torch.arange(o.values) / o.values
    x, velocity = torch.randn(o.values, generator=draw), torch.zeros(o.values)
    config = exchange.Config(workers=o.ranks, push=codec or "raw", gather=mode == "gather", split_n=1024, seed=seed)
    ranks = [Rank(rank, config, o.values, dtype) for rank in range(o.ranks)] if codec else []
    for step in range(o.steps):
        gradients: List[torch.Tensor] = [
            curvature * x + o.noise * torch.randn(o.values, generator=draw) for _ in range(o.ranks)]
        velocity = 0.9 * velocity + (mean_of(ranks, gradients) if codec else torch.stack(gradients).mean(0))
        x = x - o.rate * (1 - step / o.steps) * velocity
    return float((curvature * x * x / 2).mean())


def main(o: Any) -> None:
    floats = [loss_of(o, None, "", seed) for seed in range(1, o.seeds + 1)]
    print(f"floats: {' '.join(f'{loss:.6f}' for loss in floats)}", flush=True)
    for codec in o.codecs:
        for mode in o.modes:
            for dtype in (torch.float32, torch.bfloat16):
                losses = [loss_of(o, codec, mode, seed, dtype) for seed in range(1, o.seeds + 1)]
                print(f"{codec:12} {mode:8} {str(dtype)[6:]:9} {' '.join(f'{loss:.6f}' for loss in losses)}",
                      flush=True)


if __name__ == "__main__":
    main(OPTIONS)
