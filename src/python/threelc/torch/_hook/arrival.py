# SPDX-License-Identifier: MIT
"""Gradients that are being exchanged."""
from __future__ import annotations

import math
from typing import List, Optional, Sequence, Tuple

import torch

from .._common.transport import Transport
from .._device.streams import has_streams, queued


class Arrival:
    """A bucket whose gradients are being exchanged. Its future is done when all parameters in it are."""

    def __init__(self, buffer: torch.Tensor) -> None:
        self.buffer = buffer
        self.parts: Sequence[Tuple[str, int, int]] = ()
        """name, first value and number of values of each parameter in the flat buffer"""
        self.whole = False
        """it is one part, which no codec takes"""
        self._done = 0  # parts
        self._error: Optional[Exception] = None
        on_cpu = buffer.device.type == "cpu"
        self.future: torch.futures.Future[torch.Tensor] = (
            torch.futures.Future() if on_cpu else torch.futures.Future(devices=[buffer.device]))
        self._host: Optional[torch.Tensor] = buffer if on_cpu else None
        self._copied = on_cpu
        self._written: List[slice] = []  # results on the host that are to come to the buffer
        self._computed = queued(buffer.device)

    def as_floats(self, names: Sequence[str]) -> None:
        """No codec takes the gradients of these parameters: sparse ones, or complex ones."""
        self.parts = [(", ".join(names), 0, self.buffer.numel())]
        self.whole = True

    def gradients(self) -> torch.Tensor:
        """The buffer where it is. What this thread queues from now on begins when the gradients are in it."""
        self._computed()
        return self.buffer

    def results(self, first: int = 0, n: Optional[int] = None) -> torch.Tensor:
        """On the CPU: where n results go, from the first on. None: all that follow it."""
        self._written.append(slice(first, None if n is None else first + n))
        return _dense(self._memory()).view(-1)[self._written[-1]]

    def _memory(self) -> torch.Tensor:
        if self._host is None:
            self._host = torch.empty_like(self.buffer, device="cpu", pin_memory=has_streams(self.buffer.device))
        return self._host

    def host(self) -> torch.Tensor:
        """The gradients on the CPU."""
        if not self._copied:
            if self.buffer.is_sparse:
                self._host = self.gradients().cpu()
            else:
                self._memory().copy_(self.gradients())
            self._copied = True
        return self._memory()

    def average(self, transport: Transport) -> int:
        """The gradients become their mean over all ranks, in floats. Returns the bytes sent for it."""
        gradients = self.host()
        self.results()
        if gradients.is_sparse:
            gradients.div_(transport.world)
        else:
            gradients.mul_(1.0 / transport.world)
        return transport.all_reduce(gradients)

    def nonfinite(self) -> Optional[str]:
        """The name of a parameter whose gradient has a NaN or an infinity."""
        values = _dense(self.host())
        if math.isfinite(abs(values.sum())):  # one pass; a sum may be infinite by itself
            return None
        if self.buffer.is_sparse:
            return None if bool(torch.isfinite(values).all()) else self.parts[0][0]
        return next((name for name, first, n in self.parts if not torch.isfinite(values[first:first + n]).all()), None)

    def spoil(self, first: int = 0, n: Optional[int] = None) -> None:
        """n results become NaN, from the first on. None: all that follow it."""
        try:
            self.results(first, n).fill_(math.nan)
        except Exception as error:
            self._error = error

    def finish(self, parts: int) -> None:
        """This many more parameters are done."""
        self._done += parts
        if self._done == len(self.parts):
            self._complete()

    def give_up(self) -> None:
        """Ends it with NaN, if it is not done yet."""
        if not self.future.done():
            self.spoil()
            self._complete()

    def _complete(self) -> None:
        """The backward pass goes on, whatever happens."""
        if self.future.done():
            return
        try:
            if self._host is not None and self._host is not self.buffer:
                self._to_buffer(self._host)
        except Exception as error:
            self._error = self._error or error
        if self._error is None:
            self.future.set_result(self.buffer)
        else:
            self.future.set_exception(self._error)

    def _to_buffer(self, host: torch.Tensor) -> None:
        buffer = self.gradients()
        if buffer.is_sparse:
            buffer.copy_(host)
            return
        for part in self._written:
            buffer[part] = host[part]


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """The values of a gradient."""
    return tensor._values() if tensor.is_sparse else tensor
