# SPDX-License-Identifier: MIT
"""Means of pushes, added up where gradients are: of 3-value symbols, in frames that the host has checked."""
from __future__ import annotations

from itertools import chain, islice
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch

from ...codec_strings import quantizer_of
from ...frames import FrameInfo, peek
from ...quartic import block_count, quartic_bytes
from ..kernels.sums import add_for
from .crossing import Quartic, symbols_on_device, way_of_symbols


def means_of(came: Sequence[Sequence[Tuple[Any, float]]], sizes: Sequence[int],
             device: torch.device) -> Optional[List[torch.Tensor]]:
    """Of parts. came: the frames of each, with their factors. sizes: values of each. None: a frame is not of symbols,
    or the frames of a part have other blocks, or what a symbol stands for is not finite."""
    frames, factors = [frame for frame, _ in chain(*came)], [factor for _, factor in chain(*came)]
    infos = [peek(frame) for frame in frames]
    rest, counts = iter(infos), list(map(len, came))
    blocks = [{info.block for info in islice(rest, count)} or {0} for count in counts]
    if not all(map(_is_symbols, infos)) or any(len(found) > 1 for found in blocks):
        return None
    ways = set(map(way_of_symbols, infos))
    quartic_of: Callable[..., Quartic] = symbols_on_device
    if len(ways) == 1:
        quartic_of = ways.pop()
    scales, quartic = quartic_of(frames, [info.n for info in infos], [info.block for info in infos], device)
    products = [torch.tensor(found, dtype=torch.float64) * factor for factor, found in zip(factors, scales)]
    weights = torch.cat([torch.empty(0), *products]).to(torch.float32)  # as floats multiply
    if not weights.isfinite().all():
        return None
    parts = [(count, n, block) for count, n, (block,) in zip(counts, sizes, blocks)]
    pieces = quartic.split([count * quartic_bytes(n, block) for count, n, block in parts])
    there = weights.to(device).split([count * block_count(n, block) for count, n, block in parts])
    means = torch.empty(sum(sizes), device=device).split(list(sizes))
    for piece, weight, mean, (_, _, block) in zip(pieces, there, means, parts):
        add_for(device)(piece, weight, block, mean)
    return list(means)


def are_finite(tensors: Sequence[torch.Tensor]) -> bool:
    """Of at least one value each. The host waits once."""
    ends = [end for tensor in tensors for end in (tensor.amin(), tensor.amax())]  # NaN if there is one
    return not ends or bool(torch.stack(ends).isfinite().all())


def _is_symbols(info: FrameInfo) -> bool:
    return quantizer_of(info.codec)[0] in ("ternary", "stochastic-ternary")
