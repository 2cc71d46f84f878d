# SPDX-License-Identifier: MIT
"""The rows of zero-run and Golomb coding of device.py."""
from functools import partial

import torch

from device_rows import Table, require
import threelc
from threelc.torch.kernels import golomb, zerorun
from threelc.torch.kernels.choice import quantized, sweeps_for
from threelc.torch.kernels.quantizer import Quantizer


def lossless_rows(table: Table, codec: str) -> None:
    """A row for payloads on the device, and one for the way back."""
    n, device = table.values, table.device
    quantizer = Quantizer.of(codec)
    assert quantizer is not None
    scales, quartic, _ = quantized(sweeps_for(device, table.dtype), quantizer, table.residual, table.gradient)
    frame = threelc.compress_quartic(quartic.cpu(), scales, n, codec, dtype=table.dtype)
    chosen = golomb.codes_for(device) if codec == "3lc-golomb" else zerorun.zero_runs_for(device)
    for how, way in table.ways(f"{codec} payload", chosen,
                               golomb.OPERATIONS if codec == "3lc-golomb" else zerorun.OPERATIONS):
        make = partial(golomb.payloads if codec == "3lc-golomb" else zerorun.payloads, way, quartic, (n,))
        payload, = make(torch.Tensor.cpu)
        require(threelc.compress_payload(payload, n, codec, scales, dtype=table.dtype) == frame, f"{how}, {codec}")
        sent = len(payload) / n
        table.row(f"{codec} payload", how, (3.2 if codec == "3lc-golomb" else 0.4) + sent,
                  lambda: make(lambda made: made))
        there, expanded = payload.to(device), torch.empty_like(quartic)
        if codec == "3lc":
            expand = partial(way.expand, there, expanded)
        elif len(payload) < len(quartic):
            piece = golomb.coded_of(bytes(payload.tolist()), n)
            expand = partial(way.expand, there, [piece])
        else:  # quartic bytes
            continue
        made = expand()
        require(torch.equal(expanded if made is None else made, quartic), f"{how}, {codec}: quartic bytes")
        table.row(f"{codec} expand", how, 0.4 + (2 * sent if codec == "3lc" else 5 * sent + 8 * piece.k / n), expand)
