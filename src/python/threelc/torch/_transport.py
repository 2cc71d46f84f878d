# SPDX-License-Identifier: MIT
"""Messages of any length over torch.distributed, whose collectives want to know lengths beforehand.

all_to_all_single takes sizes that differ, but each rank must know what it receives, so the lengths are sent first. It
also takes the place of all_gather, which wants equal sizes, and in gloo goes around a ring: this way each message takes
one hop, and none is padded. The bytes are the same.
"""
from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Sequence, Tuple

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
        """bytes to other ranks, with lengths"""
        self.received = 0
        # Tensors of the last collective. A thread of gloo lets go of them a moment after the call has returned. Were it
        # the last one, it would need the GIL, and while the interpreter ends that ends the process with a signal.
        self._held: Tuple[torch.Tensor, ...] = ()

    def agree(self, settings: Dict[str, Any]) -> None:
        """Raises an exception on all ranks if one has other settings."""
        found: List[Any] = [None] * self.world
        dist.all_gather_object(found, settings, group=self.group)
        for rank, other in enumerate(found):
            for name, value in found[0].items():
                if other[name] != value:
                    raise ValueError(f"all ranks need the same settings: {name} is {other[name]!r} on rank {rank} and "
                                     f"{value!r} on rank 0")

    def all_to_all(self, messages: Sequence[memoryview]) -> List[torch.Tensor]:
        """Sends messages[i] to rank i. Returns those of all ranks to this one, as bytes."""
        to = [len(message) for message in messages]
        lengths, of_lengths = torch.tensor(to, dtype=torch.int64), torch.empty(self.world, dtype=torch.int64)
        dist.all_to_all_single(of_lengths, lengths, group=self.group)
        come = of_lengths.tolist()
        source = torch.empty(sum(to), dtype=torch.uint8)
        at = 0
        for message in messages:
            _copy(message, source, at)
            at += len(message)
        target = torch.empty(sum(come), dtype=torch.uint8)
        dist.all_to_all_single(target, source, come, to, group=self.group)
        self._held = lengths, of_lengths, source, target
        self.sent += sum(to) - to[self.rank] + 8 * (self.world - 1)
        self.received += sum(come) - come[self.rank] + 8 * (self.world - 1)
        return list(torch.split(target, come))

    def all_gather(self, message: memoryview) -> List[torch.Tensor]:
        """The message of each rank, this one's too."""
        return self.all_to_all([message] * self.world)

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
        self._held = length, tensor
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
            self._held = (wide,)
            with torch.no_grad():
                tensor.copy_(wide)

    def abort(self) -> None:
        """Closes the connections, so that ranks that wait for this one get an error at once."""
        if self.group is not None:
            dist.destroy_process_group(self.group)
            self.group = None

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """tensor becomes the sum over all ranks."""
        self._held = (tensor,)
        try:
            dist.all_reduce(tensor, group=self.group)
        except RuntimeError as error:
            if "scalar type" not in str(error):
                raise
            wide = tensor.float()  # gloo of PyTorch 1 does not know bfloat16
            dist.all_reduce(wide, group=self.group)
            self._held = tensor, wide
            tensor.copy_(wide)
        both_ways = 2 * tensor.numel() * tensor.element_size() * (self.world - 1) // self.world
        self.sent += both_ways
        self.received += both_ways


def _copy(message: memoryview, tensor: torch.Tensor, at: int) -> None:
    if len(message):
        ctypes.memmove(tensor.data_ptr() + at, octets(message, "message").address, len(message))
