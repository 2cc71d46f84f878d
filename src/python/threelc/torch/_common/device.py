# SPDX-License-Identifier: MIT
"""Where tensors are quantized."""
from __future__ import annotations

from typing import Iterable, NoReturn, Optional

import torch

from ...context import Context
from ..kernels.ways import quantizer_for
from .arguments import one_of


def check_quantize(quantize: str, momentum_correction: Optional[float], codec: str = "raw",
                   residual_dtype: torch.dtype = torch.float32) -> None:
    """Checks arguments that are as in register(). place_of() checks residual_dtype, too, once devices are known."""
    one_of(quantize, ("auto", "host", "device"), "quantize")
    if momentum_correction is not None and quantize == "device":
        raise ValueError('momentum_correction goes with quantize="auto" or "host": velocities are on the host')
    if residual_dtype == torch.float32:
        return
    if residual_dtype != torch.bfloat16:
        raise ValueError(f"residual_dtype should be torch.float32 or torch.bfloat16, not {residual_dtype!r}")
    if Context(1, codec).residual is None:
        raise ValueError(f"residual_dtype=torch.bfloat16 is for codecs with residuals, and {codec} keeps none")
    if momentum_correction is not None:
        _refuse_bfloat16("with momentum_correction nothing is")
    if quantize == "host":
        _refuse_bfloat16('with quantize="host" nothing is')


def _refuse_bfloat16(why: str) -> NoReturn:
    raise ValueError(f"residual_dtype=torch.bfloat16 is for what is quantized on a device, and {why}")


def place_of(quantize: str, devices: Iterable[torch.device], needs_host: bool,
             codec: Optional[str] = None, residual_dtype: torch.dtype = torch.float32) -> Optional[torch.device]:
    """Where tensors that lie on these devices are quantized. None: on the host. quantize: as in register().
    needs_host: what else is done with them is done there. codec: of all of them; None: there may be several.
    residual_dtype: other residuals than float32 are not for the host, so ValueError."""
    found = set(devices)
    place = None
    if quantize != "host" and not needs_host and len(found) == 1:
        device, = found
        if (device.type != "cpu" or quantize == "device") and (
                codec is None or quantizer_for(codec, device) is not None):
            place = device
    if place is None and residual_dtype != torch.float32:
        where = " and ".join(sorted(map(str, found))) or "nowhere"
        _refuse_bfloat16(f'with quantize="{quantize}" nothing on {where} is')
    return place
