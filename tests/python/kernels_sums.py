# SPDX-License-Identifier: MIT
"""The kernel that adds 3-value symbols, and torch operations, against the C library, for kernels.py."""
import random

import kernels  # before triton is imported
import torch

import threelc
from kernels_lossless import quartic_of
from threelc.torch.kernels import _sums_triton, sums
from threelc.torch.kernels.operations import bits_of


def drawn(seed):
    """Quartic bytes of pieces, their scales, and how many values they have."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    n, count = draw.choice((1, 2, 4, 5, 7, draw.randint(8, 6000), 5 * 1024 + draw.randint(-1, 1))), draw.randint(0, 5)
    share = draw.choice((0.01, 0.3, 1))
    pieces = [quartic_of(torch.where(torch.rand(n) < share, torch.randint(0, 3, (n,)), 1).to(torch.uint8))[0]
              for _ in range(count)]
    scales = torch.randn(count).abs() * 10.0**draw.choice((-40, -3, 0, 30))
    return torch.cat([torch.empty(0, dtype=torch.uint8), *pieces]), scales, n


def trial(seed):
    """Of the kernel, with what it touches, and of torch operations."""
    quartic, scales, n = drawn(seed)
    wanted, (found, by_operations) = torch.empty(n), torch.empty(2, n)
    threelc.decompress_add_many([threelc.compress_quartic(piece, [scale], n) for piece, scale in
                                 zip(quartic.split(-(-n // 5)), scales.tolist())], wanted, from_zero=True)
    with kernels.Accesses() as touched:
        _sums_triton.add(quartic, scales, found)
    reads = touched("reads", {"quartic": quartic, "scales": scales})
    assert (reads["quartic"] == 1).all() and (reads["scales"] >= 1).all(), f"seed {seed}: reads"
    assert (touched("writes", {"out": found})["out"] == 1).all(), f"seed {seed}: writes"
    sums.OPERATIONS(quartic, scales, by_operations)
    for each in found, by_operations:
        assert torch.equal(bits_of(each), bits_of(wanted)), f"seed {seed}: sums"
