# SPDX-License-Identifier: MIT
"""The rows of device.py: what calls on a device take, beside a copy."""
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Tuple

import torch

sys.path.append(str(Path(__file__).resolve().parents[3] / "src" / "python"))


class Clock:
    """Medians of calls on a device."""

    def __init__(self, device: torch.device, rounds: int) -> None:
        self._device = device
        self._rounds = rounds

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()

    def __call__(self, call: Callable[[], Any]) -> float:
        """Seconds. The first call, which may compile, does not count."""
        call()
        seconds = []
        for _ in range(self._rounds):
            start = self._now()
            call()
            seconds.append(self._now() - start)
        return statistics.median(seconds)


def require(same: bool, what: str) -> None:
    if not same:
        sys.exit(f"device.py: {what}: not what the C library makes")


class Table:
    """Of a dtype of gradients. Bytes are those that a value needs, whatever an implementation moves besides."""

    def __init__(self, values: int, device: torch.device, dtype: torch.dtype, clock: Clock) -> None:
        torch.manual_seed(1)
        self.values, self.device, self.dtype, self._clock = values, device, dtype, clock
        self.residual = torch.randn(values, device=device)
        self.gradient = torch.randn(values, device=device).to(dtype)
        self.size = self.gradient.element_size()
        self.out = torch.empty_like(self.gradient)
        self._copy = 2 * self.size * values / self.row("copy", "torch", 2 * self.size,
                                                       lambda: self.out.copy_(self.gradient))

    @staticmethod
    def heading() -> str:
        return f"{'dtype':9} {'sweep':34} {'by':11} {'ms':>9} {'B/value':>8} {'GB/s':>8} {'of copy':>7}"

    def row(self, what: str, how: str, per_value: float, call: Callable[[], Any]) -> float:
        """Seconds."""
        taken = self._clock(call)
        rate = per_value * self.values / taken
        copied = f"{rate / self._copy:7.2f}" if what != "copy" else "      1"
        print(f"{str(self.dtype)[6:]:9} {what:34} {how:11} {1e3 * taken:9.3f} {per_value:8.2f} {rate / 1e9:8.1f} "
              f"{copied}", flush=True)
        return taken

    def ways(self, what: str, chosen: Any, operations: Any) -> Iterator[Tuple[str, Any]]:
        """Sweeps by name. chosen: for the device."""
        if chosen is operations:
            print(f"{str(self.dtype)[6:]:9} {what}: there is no Triton for {self.device}, or it does not work: see the "
                  "warning")
        else:
            yield "triton", chosen
        yield "operations", operations
