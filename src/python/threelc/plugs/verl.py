# SPDX-License-Identifier: MIT
"""The flushes of verl's delta_sync (verl 0.9.1), smaller, for links that are slower than NCCL is made for.

verl sends a DeltaFlush with int32 positions and the new values, and has no setting for another encoding. pack() and
unpack() stand between its sender and its receiver: the flush that comes out has the same parameters, positions and
values, in the order of positions, and a checksum of its own. Values are sent whole, as a receiver has no copy of the
old ones.
"""
from __future__ import annotations

from typing import Any, List

import torch
from verl.checkpoint_engine.delta_sync.encode import DeltaFlush, DeltaParam, checksum

from . import _patches

__all__ = ["pack", "unpack"]

_WIDTH = 4  # bytes of a position


def pack(flush: Any) -> bytes:
    """The bytes of a DeltaFlush. ValueError: its encoding is not "indices", or its parts do not fit."""
    if flush.encoding != "indices":
        raise ValueError(f"flushes have indices, not {flush.encoding}")
    patches: List[_patches.Patch] = []
    for each in flush.params:
        dtype = getattr(torch, each.dtype)
        if each.pos_width != _WIDTH or dtype != flush.values_gpu.dtype:
            raise ValueError(f"{each.name} has positions of {each.pos_width} bytes and {each.dtype} in a flush of "
                             f"{flush.values_gpu.dtype}")
        positions = flush.positions_cpu[each.pos_start:each.pos_end].contiguous().view(torch.int32)
        patches.append(_patches.Patch(each.name, tuple(each.shape), positions,
                                      flush.values_gpu[each.val_start:each.val_end]))
    return _patches.pack(patches)


def unpack(message: Any) -> DeltaFlush:
    """The flush, on the CPU. CorruptError: these bytes are not a message of pack(), or were altered."""
    params, positions, values = [], [torch.empty(0, dtype=torch.uint8)], []
    place = begun = 0
    for patch in _patches.unpack(message)[0]:
        count = len(patch.values)
        positions.append(patch.positions.to(torch.int32).view(torch.uint8))
        values.append(patch.values)
        params.append(DeltaParam(patch.name, str(patch.values.dtype).rpartition(".")[2], list(patch.shape), place,
                                 place + _WIDTH * count, _WIDTH, begun, begun + count))
        place += _WIDTH * count
        begun += count
    where = torch.cat(positions)
    what = torch.cat(values) if values else torch.empty(0)
    return DeltaFlush("indices", params, where, what, checksum(where, what))
