# SPDX-License-Identifier: MIT
"""The kernel that adds 3-value symbols, and torch operations, against the C library, for kernels.py."""
import random

import kernels  # before triton is imported
import torch

import threelc
from kernels_lossless import quartic_of
from threelc.quartic import block_count, quartic_bytes
from threelc.torch.kernels import _sums_triton, sums
from threelc.torch.kernels.operations import bits_of


def drawn(seed):
    """Quartic bytes of pieces, their scales, how many values they have, and in which blocks."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    n, count = draw.choice((1, 2, 4, 5, 7, draw.randint(8, 6000), 5 * 1024 + draw.randint(-1, 1))), draw.randint(0, 5)
    share = draw.choice((0.01, 0.3, 1))
    block = draw.choice((0, 0, draw.randint(1, 40), draw.randint(41, 7000)))
    pieces = [quartic_of(part)[0] for _ in range(count) for part in torch.where(
        torch.rand(n) < share, torch.randint(0, 3, (n,)), 1).to(torch.uint8).split(block or n)]
    scales = torch.randn(count * block_count(n, block)).abs() * 10.0**draw.choice((-40, -3, 0, 30))
    return torch.cat([torch.empty(0, dtype=torch.uint8), *pieces]), scales, n, block


def trial(seed):
    """Of the kernel, with what it touches, and of torch operations."""
    quartic, scales, n, block = drawn(seed)
    codec = f"ternary:block={block}+quartic" if block else "3lc"
    wanted, (found, by_operations) = torch.empty(n), torch.empty(2, n)
    pieces = zip(quartic.split(quartic_bytes(n, block)), scales.view(-1, block_count(n, block)).tolist())
    threelc.decompress_add_many([threelc.compress_quartic(piece, numbers, n, codec) for piece, numbers in pieces],
                                wanted, from_zero=True)
    with kernels.Accesses() as touched:
        _sums_triton.add(quartic, scales, block, found)
    reads = touched("reads", {"quartic": quartic, "scales": scales})
    assert (reads["quartic"] == 1).all() and (reads["scales"] >= 1).all(), f"seed {seed}: reads"
    assert (touched("writes", {"out": found})["out"] == 1).all(), f"seed {seed}: writes"
    sums.OPERATIONS(quartic, scales, block, by_operations)
    for each in found, by_operations:
        assert torch.equal(bits_of(each), bits_of(wanted)), f"seed {seed}: sums"
