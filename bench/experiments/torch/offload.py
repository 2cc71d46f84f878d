# SPDX-License-Identifier: MIT
"""A model that computes elsewhere, as on an accelerator: its layers take time, but no core of this machine."""
import time

import torch

DRAWN = 4  # gradients, in turn


class _Away(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, layer, *parameters):
        ctx.layer = layer
        time.sleep(layer.seconds)
        return x + 0

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(2 * ctx.layer.seconds)
        return (gradient, None, *ctx.layer.gradients())


class _Layer(torch.nn.Module):
    """Has the parameters that a layer has, and gradients that were drawn."""

    def __init__(self, like, seconds, draw):
        super().__init__()
        own = like.parameters(recurse=False)
        self.own = torch.nn.ParameterList(torch.nn.Parameter(p.detach().clone()) for p in own)
        self.seconds = seconds
        self._drawn = [[1e-3 * torch.randn(p.shape, generator=draw) ** 3 for p in self.own] for _ in range(DRAWN)]
        self._steps = 0

    def gradients(self):
        self._steps += 1
        return [gradient.clone() for gradient in self._drawn[self._steps % DRAWN]]

    def forward(self, x):
        return _Away.apply(x, self, *self.own)


class Offloaded(torch.nn.Module):
    """milliseconds: of a step, a third of it for the forward pass. All layers with a matrix take the same time, others
    none."""

    def __init__(self, like, milliseconds, draw):
        super().__init__()
        layers = [module for module in like.modules() if any(True for _ in module.parameters(recurse=False))]
        matrices = [any(p.dim() > 1 for p in layer.parameters(recurse=False)) for layer in layers]
        seconds = milliseconds / 1e3 / 3 / sum(matrices)
        self.layers = torch.nn.ModuleList(_Layer(layer, seconds * is_matrix, draw)
                                          for layer, is_matrix in zip(layers, matrices))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
