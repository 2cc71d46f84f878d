# SPDX-License-Identifier: MIT
"""Counts frames that come from a device, and that it decodes."""
from contextlib import contextmanager
from unittest import mock

import torch

from threelc.torch._device import on_device


@contextmanager
def counted():
    """Gives a function: how many frames were made of what a device quantized, and how many of 3-value symbols it
    decoded. cpu() makes copies, as of what is on a GPU."""
    made, push = [], on_device.PushedFrames._push_frames
    decoded, decode = [], on_device.OnDevice._decode_quartic

    def pushed(self, gradients, frames, *rest):
        made.append(len(frames))
        return push(self, gradients, frames, *rest)

    def put(self, answers, *rest):
        decoded.append(len(answers))
        decode(self, answers, *rest)

    with mock.patch.object(torch.Tensor, "cpu", torch.Tensor.clone), \
            mock.patch.object(on_device.PushedFrames, "_push_frames", pushed), \
            mock.patch.object(on_device.OnDevice, "_decode_quartic", put):
        yield lambda: (sum(made), sum(decoded))
