# SPDX-License-Identifier: MIT
"""Sums of 3-value symbols on a device, in the order of the C library. Triton's kernel makes them, if it makes the sums
of the C library there."""
from __future__ import annotations

from functools import lru_cache
from typing import Callable, Sequence

import torch

from ...frames import decompress_add_many
from ...quartic import block_count, compress_quartic, quartic_bytes
from . import _sums_torch
from .operations import bits_of
from .tried import tried

Add = Callable[[torch.Tensor, torch.Tensor, int, torch.Tensor], None]
"""As _sums_torch.py describes it."""
OPERATIONS: Add = _sums_torch.add
VALUES = 9001  # of the check: several programs, and one that is not whole, also with blocks of 55


@lru_cache(maxsize=None)
def add_for(device: torch.device) -> Add:
    """Compiles Triton's kernel and checks it at the first call for a device. If it cannot be used though Triton is
    there, a warning says so."""
    def load() -> Add:
        from . import _sums_triton  # imports triton
        return _sums_triton.add

    return tried(device, "sums of symbols", load, lambda add: same_sums(add, device), OPERATIONS)


def same_sums(add: Add, device: torch.device) -> bool:
    """Whether sums are those of the C library: of scales that are rounded when they are added, and of subnormals; with
    blocks, too."""
    return all(_same(add, device, scales, block) for block in (0, 55) for scales in (
        (1.0, 1e-3, 3e7, 0.7, 3e7), (1e-45, 3e-39, 1.1e-38, 7e-42), (0.0, 1.5)))


def _same(add: Add, device: torch.device, scales: Sequence[float], block: int) -> bool:
    """scales: of pieces. Those of their blocks are among them."""
    generator, blocks = torch.Generator().manual_seed(1), block_count(VALUES, block)
    quartic = torch.randint(0, 243, (len(scales), quartic_bytes(VALUES, block)), generator=generator, dtype=torch.uint8)
    quartic[:, -4:] -= quartic[:, -4:] % 3  # the digits after the last symbol
    each = [[scales[(i + 3 * j) % len(scales)] for j in range(blocks)] for i in range(len(scales))]
    wanted, found = torch.empty(VALUES), torch.empty(VALUES, device=device)
    codec = f"ternary:block={block}+quartic" if block else "3lc"
    decompress_add_many([compress_quartic(piece, numbers, VALUES, codec) for piece, numbers in zip(quartic, each)],
                        wanted, from_zero=True)
    add(quartic.view(-1).to(device), torch.tensor(each, device=device).view(-1), block, found)
    return bool(torch.equal(bits_of(found.cpu()), bits_of(wanted)))
