# SPDX-License-Identifier: MIT
"""The rows of topk, sbc and random-sparse of device.py."""
import sys

import torch

from device_rows import Table, require
import threelc
from threelc.torch.kernels.members import OPERATIONS, choose, frames, measure, sweeps_for, threshold
from threelc.torch.kernels.operations import bits_of
from threelc.torch.kernels.selector import Selector


def sparse_rows(table: Table, codec: str) -> None:
    """A row for each sweep, and one for all of them. random-sparse has no residual, as in a training."""
    n, dtype, gradient = table.values, table.dtype, table.gradient
    selector = Selector.of(codec)
    if selector is None:
        sys.exit(f"device.py: --sparse {codec}: it is not of topk, sparse-binary or random-sparse")
    residual = None if selector.limit else table.residual
    wanted = None if residual is None else residual.cpu().clone()
    frame = threelc.Context(n, codec, dtype, residual=wanted, seed=1).compress(gradient.cpu())
    for how, sweeps in table.ways(codec, sweeps_for(table.device, dtype), OPERATIONS):
        found = choose(sweeps, selector, residual, gradient, 1, 0)
        assert found is not None
        require(frames(selector, [found], dtype) == [frame], f"{how}, {codec}, {dtype}: frame")
        require(found.rest is None or wanted is None or torch.equal(bits_of(found.rest.cpu()), bits_of(wanted)),
                f"{how}, {codec}, {dtype}: residual")
        k, kept = len(found.positions), 0 if residual is None else 4
        unit = min(selector.block or n, n)
        seen = 0 if selector.limit else n if selector.exact else n // unit * selector.samples(unit)
        both = kept + table.size
        measured = measure(sweeps, selector, residual, gradient, 1, 0)
        if seen:
            table.row(f"{codec} threshold", how, both * seen / n,
                      lambda: threshold(sweeps, selector, residual, gradient, 1, 0))
        table.row(f"{codec} counts", how, both,
                  lambda: sweeps.counts(residual, gradient, measured.least, measured.chance, selector.block))
        table.row(f"{codec} all", how, both * (2 + seen / n) + kept + 8 * k / n,
                  lambda: choose(sweeps, selector, residual, gradient, 1, 0))
