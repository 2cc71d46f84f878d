# SPDX-License-Identifier: MIT
"""The rows of topk and sbc of device.py."""
import sys

import torch

from device_rows import Table, require
import threelc
from threelc.torch.kernels.members import OPERATIONS, choose, frames, sweeps_for, threshold
from threelc.torch.kernels.operations import bits_of
from threelc.torch.kernels.selector import Selector


def sparse_rows(table: Table, codec: str) -> None:
    """A row for each sweep, and one for all of them."""
    n, dtype, residual, gradient = table.values, table.dtype, table.residual, table.gradient
    selector = Selector.of(codec)
    if selector is None:
        sys.exit(f"device.py: --sparse {codec}: it is not of topk or sparse-binary, or has blocks")
    wanted = residual.cpu().clone()
    frame = threelc.Context(n, codec, dtype, residual=wanted, seed=1).compress(gradient.cpu())
    for how, sweeps in table.ways(codec, sweeps_for(table.device, dtype), OPERATIONS):
        found = choose(sweeps, selector, residual, gradient, 1, 0)
        assert found is not None
        require(frames(selector, [found], dtype) == [frame], f"{how}, {codec}, {dtype}: frame")
        require(torch.equal(bits_of(found.rest.cpu()), bits_of(wanted)), f"{how}, {codec}, {dtype}: residual")
        k, seen, both = len(found.positions), n if selector.exact else selector.samples(n), 4 + table.size
        least = threshold(sweeps, selector, residual, gradient, 1, 0)
        table.row(f"{codec} threshold", how, both * seen / n,
                  lambda: threshold(sweeps, selector, residual, gradient, 1, 0))
        table.row(f"{codec} counts", how, both, lambda: sweeps.counts(residual, gradient, least))
        table.row(f"{codec} all", how, both * (2 + seen / n) + 4 + 8 * k / n,
                  lambda: choose(sweeps, selector, residual, gradient, 1, 0))
