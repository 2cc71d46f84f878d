# SPDX-License-Identifier: MIT
"""Where tensors are quantized."""
from __future__ import annotations

from typing import Callable, Iterable, Optional

import torch

from ..kernels.ways import quantizer_for
from .arguments import one_of
from .runners import nothing


def check_quantize(quantize: str, momentum_correction: Optional[float]) -> None:
    """Checks an argument that is as in register()."""
    one_of(quantize, ("auto", "host", "device"), "quantize")
    if momentum_correction is not None and quantize == "device":
        raise ValueError('momentum_correction goes with quantize="auto" or "host": velocities are on the host')


def place_of(quantize: str, devices: Iterable[torch.device], needs_host: bool,
             codec: Optional[str] = None) -> Optional[torch.device]:
    """Where tensors that lie on these devices are quantized. None: on the host. quantize: as in register().
    needs_host: what else is done with them is done there. codec: of all of them; None: there may be several."""
    found = set(devices)
    if quantize == "host" or needs_host or len(found) != 1:
        return None
    device, = found
    if device.type == "cpu" and quantize != "device" or codec is not None and quantizer_for(codec, device) is None:
        return None
    return device


def queued(device: Optional[torch.device]) -> Callable[[], None]:
    """A function that waits until the device has done what this thread asked of it until now: another thread may have
    another stream. None, or the CPU: nothing waits."""
    if device is None or device.type == "cpu":
        return nothing
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))
    wait: Callable[[], None] = event.synchronize
    return wait
