# SPDX-License-Identifier: MIT
"""Residuals of an object of the exchange, where its tensors are quantized."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Dict, Iterator

import torch

from ..kernels.operations import rounded
from .streams import fork_join, forked


class Residuals:
    """On a device. The object's own, on the host, are 0 between steps, and float32.

    Of bfloat16 those on the device move to the host as they are, and what comes from there is rounded."""

    def __init__(self, host: Dict[int, torch.Tensor], device: torch.device, dtype: torch.dtype) -> None:
        """host: those of the object, by any index. Those on the device, of this dtype, begin with their values."""
        self._host = host
        self._device = device
        with fork_join(device):
            self.residuals = {i: torch.zeros(len(residual), dtype=dtype, device=device)
                              for i, residual in host.items()}
        self._is_away = True
        self.from_host()

    @forked
    def from_host(self) -> None:
        """Moves residuals from the object to the device, if they are not there."""
        for i, residual in self.residuals.items() if self._is_away else ():
            residual.copy_(rounded(self._host[i], residual.dtype))
            self._host[i].zero_()
        self._is_away = False

    @forked
    def to_host(self) -> None:
        """Moves them to the object; then its functions may be called that use them."""
        for i, residual in self.residuals.items() if not self._is_away else ():
            self._host[i].copy_(residual)
        self._is_away = True

    @contextmanager
    def on_host(self) -> Iterator[None]:
        """Meanwhile the object has all residuals."""
        was_away = self._is_away
        self.to_host()
        try:
            yield
        finally:
            if not was_away:
                self.from_host()

    @forked
    def take_back(self) -> None:
        """Adds what the object has got back. Where that is 0, residuals keep their bits."""
        for i, residual in self.residuals.items():
            came = self._host[i].to(residual.device)
            residual.copy_(torch.where(came != 0, rounded(residual.float() + came, residual.dtype), residual))
            self._host[i].zero_()
