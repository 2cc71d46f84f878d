# SPDX-License-Identifier: MIT
"""Messages of any length over torch.distributed, whose collectives want to know lengths beforehand.

all_to_all_single takes sizes that differ, but each rank must know what it receives. all_gather wants equal sizes, so
messages are padded there. Both send the lengths first.
"""
from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Sequence

import torch
import torch.distributed as dist

from .._arrays import octets


class Transport:
    """Carries messages between the ranks of a process group. One thread at a time may call it."""

    def __init__(self, group: Any = None) -> None:
        """group: of backend gloo, which nobody else uses. None: a new one of all ranks, which all make together."""
        self.group = dist.new_group(backend="gloo") if group is None else group
        group = self.group
        self.rank: int = dist.get_rank(group)
        self.world: int = dist.get_world_size(group)
        self.sent = 0
        """bytes to other ranks, with lengths and padding"""
        self.received = 0

    def agree(self, settings: Dict[str, Any]) -> None:
        """Raises an exception on all ranks if one has other settings."""
        found: List[Any] = [None] * self.world
        dist.all_gather_object(found, settings, group=self.group)
        for rank, other in enumerate(found):
            for name, value in found[0].items():
                if other[name] != value:
                    raise ValueError(f"all ranks need the same settings: {name} is {other[name]!r} on rank {rank} and "
                                     f"{value!r} on rank 0")

    def _lengths(self, mine: Sequence[int]) -> torch.Tensor:
        """What each rank says of its messages: a row for each rank."""
        row = torch.tensor(mine, dtype=torch.int64)
        rows = [torch.empty_like(row) for _ in range(self.world)]
        dist.all_gather(rows, row, group=self.group)
        self._count(8 * len(mine))
        return torch.stack(rows)

    def _count(self, to_each: int) -> None:
        self.sent += to_each * (self.world - 1)
        self.received += to_each * (self.world - 1)

    def all_to_all(self, messages: Sequence[memoryview]) -> List[torch.Tensor]:
        """Sends messages[i] to rank i. Returns those of all ranks to this one, as bytes."""
        lengths = self._lengths([len(message) for message in messages])
        to, come = lengths[self.rank].tolist(), lengths[:, self.rank].tolist()
        source = torch.empty(sum(to), dtype=torch.uint8)
        at = 0
        for message in messages:
            _copy(message, source, at)
            at += len(message)
        target = torch.empty(sum(come), dtype=torch.uint8)
        dist.all_to_all_single(target, source, come, to, group=self.group)
        self.sent += sum(to) - to[self.rank]
        self.received += sum(come) - come[self.rank]
        return list(torch.split(target, come))

    def all_gather(self, message: memoryview) -> List[torch.Tensor]:
        """The message of each rank, this one's too."""
        lengths = self._lengths([len(message)])[:, 0].tolist()
        longest = max(lengths)
        if longest == 0:
            return [torch.empty(0, dtype=torch.uint8) for _ in lengths]
        source = torch.zeros(longest, dtype=torch.uint8)
        _copy(message, source, 0)
        targets = [torch.empty(longest, dtype=torch.uint8) for _ in lengths]
        dist.all_gather(targets, source, group=self.group)
        self._count(longest)
        return [target[:length] for target, length in zip(targets, lengths)]

    def broadcast(self, message: memoryview, source: int) -> torch.Tensor:
        """The message of rank `source`, on all ranks; those of the others are not read."""
        here = self.rank == source
        length = torch.tensor([len(message) if here else 0], dtype=torch.int64)
        root = dist.get_global_rank(self.group, source)
        dist.broadcast(length, root, group=self.group)
        tensor = torch.empty(int(length), dtype=torch.uint8)
        if here:
            _copy(message, tensor, 0)
        if len(tensor):
            dist.broadcast(tensor, root, group=self.group)
        if here:
            self.sent += (8 + len(tensor)) * (self.world - 1)
        else:
            self.received += 8 + len(tensor)
        return tensor

    def copy_model(self, tensors: Sequence[torch.Tensor]) -> None:
        """All ranks start from the tensors of rank 0. Not counted."""
        root = dist.get_global_rank(self.group, 0)
        for tensor in tensors:
            wide = tensor.detach().float().cpu().contiguous()
            dist.broadcast(wide, root, group=self.group)
            with torch.no_grad():
                tensor.copy_(wide)

    def abort(self) -> None:
        """Closes the connections, so that ranks that wait for this one get an error at once."""
        if self.group is not None:
            dist.destroy_process_group(self.group)
            self.group = None

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """tensor becomes the sum over all ranks."""
        try:
            dist.all_reduce(tensor, group=self.group)
        except RuntimeError as error:
            if "scalar type" not in str(error):
                raise
            wide = tensor.float()  # gloo of PyTorch 1 does not know bfloat16
            dist.all_reduce(wide, group=self.group)
            tensor.copy_(wide)
        both_ways = 2 * tensor.numel() * tensor.element_size() * (self.world - 1) // self.world
        self.sent += both_ways
        self.received += both_ways


def _copy(message: memoryview, tensor: torch.Tensor, at: int) -> None:
    if len(message):
        ctypes.memmove(tensor.data_ptr() + at, octets(message, "message").address, len(message))
