# SPDX-License-Identifier: MIT
"""Whether all ranks have the same weights. Replicas that differ go on training, and nothing else would show it."""
from __future__ import annotations

import hashlib
import struct
from typing import Callable, Dict, List, Mapping, Optional

import torch

from ... import delta
from .arguments import whole
from .transport import Transport

_NAMED = 3  # parameters in a sentence


class Replicas:
    """Compares the weights of all ranks after every so many steps."""

    def __init__(self, every: int, parameters: Callable[[], Mapping[str, torch.Tensor]],
                 threads: Optional[int]) -> None:
        """every: 0: never. parameters(): those of the moment, by name."""
        self._every = whole(every, "compare_every", 0)
        self._parameters = parameters
        self._threads = threads

    def due(self, count: int) -> bool:
        """After so many steps or rounds."""
        return self._every > 0 and count > 0 and count % self._every == 0

    def compare(self, transport: Transport, when: str, takes_part: bool = True) -> None:
        """All ranks call it together. RuntimeError on all: weights differ. takes_part: this rank trains no more, so
        that its weights are old, if it does not."""
        parameters = self._parameters()
        names, form = list(parameters), f"<{len(parameters)}Q"
        mine = struct.pack(form, *(_digest(values, self._threads) for values in parameters.values()))
        short = bytes([takes_part]) + hashlib.blake2b(mine, digest_size=8).digest()
        said = [bytes(message.tolist()) for message in transport.all_gather(memoryview(short))]
        if len({message for message in said if message[0]}) <= 1:
            return
        every = [struct.unpack(form, bytes(message.tolist())) for message in transport.all_gather(memoryview(mine))]
        raise RuntimeError(_sentence([dict(zip(names, found)) if message[0] else {}
                                      for found, message in zip(every, said)], when))


def _sentence(ranks: List[Dict[str, int]], when: str) -> str:
    """ranks: the digests of each by name; nothing of those that take no part."""
    first = next(rank for rank, found in enumerate(ranks) if found)
    others = [rank for rank, found in enumerate(ranks) if found and found != ranks[first]]
    names = [name for name, found in ranks[first].items() if any(ranks[rank][name] != found for rank in others)]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    who = f"rank {others[0]} has" if len(others) == 1 else f"ranks {', '.join(map(str, others))} have"
    return (f"{who} other weights than rank {first} {when}, in {', '.join(names[:_NAMED])}{more}. Something has "
            "written into weights on one rank alone, or processors of other kinds round a step differently. Go on from "
            "a checkpoint that all ranks load. With compare_every=0 ranks are not compared")


def _digest(tensor: torch.Tensor, threads: Optional[int]) -> int:
    octets = tensor.detach().to("cpu").contiguous().view(-1).view(torch.uint8)
    odd = octets.numel() % 2
    if odd or octets.storage_offset() % 2:
        octets = torch.cat([octets, octets.new_zeros(odd)])
    return delta.digest(octets.view(torch.float16), threads=threads)
