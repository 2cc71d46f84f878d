# SPDX-License-Identifier: MIT
"""How pushes come to servers, and answers to workers. Here all ranks wait for all; backup.py has another way."""
from __future__ import annotations

from typing import Any, List, Sequence

import torch

from ... import exchange
from .._common.transport import Transport


class Mail:
    """Collectives. The first `servers` ranks are servers."""

    def __init__(self, transport: Transport, servers: int) -> None:
        self._transport = transport
        self._servers = servers

    def push(self, messages: Sequence[memoryview]) -> List[Any]:
        """Sends messages[i] to rank i. Returns the pushes that have come to this rank."""
        return list(self._transport.all_to_all(messages))

    def deliver(self, pushes: Sequence[Any], server: exchange.Server) -> None:
        """The server of this rank takes the pushes of a step, those that push() returned among them."""
        for push in pushes:
            server.push(push)

    def answer(self, answer: memoryview) -> List[torch.Tensor]:
        """Sends the answer of this rank, if it is a server, to all. Returns those of all servers."""
        return self._transport.all_gather(answer)[:self._servers]

    def meet(self) -> None:
        """Between two steps: afterwards no push and no answer is on its way."""
