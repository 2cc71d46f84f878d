# SPDX-License-Identifier: MIT
"""Means of pushes, added up where gradients are, with the bits of the C library: of 3-value symbols, codes, and values
with positions, in frames that the host has checked."""
from __future__ import annotations

from itertools import chain
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch

from ...codec_strings import quantizer_of
from ...frames import FrameInfo, peek
from ...quartic import block_count, quartic_bytes
from ..kernels.code_choice import code_sweeps_for
from ..kernels.codes import Codes
from ..kernels.selector import Selector
from ..kernels.sums import add_for
from .crossing import Quartic, members_on_device, payloads_on_device, symbols_on_device, way_of_symbols

Came = Sequence[Tuple[Any, float]]
"""the frames of a part, with their factors"""


def means_of(came: Sequence[Came], sizes: Sequence[int], device: torch.device) -> List[Optional[torch.Tensor]]:
    """Of parts. sizes: values of each. None: a frame of the part has no kernel, or they have not the same one, or what
    a symbol stands for is not finite."""
    infos = [[peek(frame) for frame, _ in frames] for frames in came]
    found: List[Optional[torch.Tensor]] = [None] * len(came)
    for can_add, added in ((_are_symbols, _sums_of_symbols), (_are_codes_or_members, _sums_of_others)):
        ours = [i for i, each in enumerate(infos) if can_add(each)]
        sums = added([came[i] for i in ours], [sizes[i] for i in ours], device) if ours else None
        for i, mean in zip(ours, sums or ()):
            found[i] = mean
    return found


def are_finite(tensors: Sequence[torch.Tensor]) -> bool:
    """Of at least one value each. The host waits once."""
    ends = [end for tensor in tensors for end in (tensor.amin(), tensor.amax())]  # NaN if there is one
    return not ends or bool(torch.stack(ends).isfinite().all())


def _are_symbols(infos: Sequence[FrameInfo]) -> bool:
    """Whether all are, and of the same blocks; also if there are none."""
    return len({info.block for info in infos}) <= 1 and all(
        quantizer_of(info.codec)[0] in ("ternary", "stochastic-ternary") for info in infos)


def _sums_of_symbols(came: Sequence[Came], sizes: Sequence[int],
                     device: torch.device) -> Optional[Sequence[torch.Tensor]]:
    """All frames of a part in one sweep. None: what a symbol stands for is not finite."""
    frames, factors = [frame for frame, _ in chain(*came)], [factor for _, factor in chain(*came)]
    infos = [peek(frame) for frame in frames]
    blocks = [peek(some[0][0]).block if some else 0 for some in came]
    ways = set(map(way_of_symbols, infos))
    quartic_of: Callable[..., Quartic] = symbols_on_device
    if len(ways) == 1:
        quartic_of = ways.pop()
    scales, quartic = quartic_of(frames, [info.n for info in infos], [info.block for info in infos], device)
    products = [torch.tensor(found, dtype=torch.float64) * factor for factor, found in zip(factors, scales)]
    weights = torch.cat([torch.empty(0), *products]).to(torch.float32)  # as floats multiply
    if not weights.isfinite().all():
        return None
    parts = [(len(some), n, block) for some, n, block in zip(came, sizes, blocks)]
    pieces = quartic.split([count * quartic_bytes(n, block) for count, n, block in parts])
    there = weights.to(device).split([count * block_count(n, block) for count, n, block in parts])
    sums: Sequence[torch.Tensor] = torch.empty(sum(sizes), device=device).split(list(sizes))
    for piece, weight, total, (_, _, block) in zip(pieces, there, sums, parts):
        add_for(device)(piece, weight, block, total)
    return sums


def _are_codes_or_members(infos: Sequence[FrameInfo]) -> bool:
    return bool(infos) and all(Codes.of(info.codec) or Selector.of(info.codec) for info in infos)


def _sums_of_others(came: Sequence[Came], sizes: Sequence[int], device: torch.device) -> Sequence[torch.Tensor]:
    """One frame after the other. Values that are not sent are not touched."""
    sums: Sequence[torch.Tensor] = torch.zeros(sum(sizes), device=device).split(list(sizes))
    added = [(frame, Codes.of(peek(frame).codec), factor, total)
             for some, total in zip(came, sums) for frame, factor in some]
    headers, payloads, counts = payloads_on_device([frame for frame, codes, _, _ in added if codes], device)
    coded = zip(headers, payloads.split(counts))
    chosen = [(frame, len(total)) for frame, codes, _, total in added if not codes]
    members = iter(members_on_device([frame for frame, _ in chosen], [n for _, n in chosen], device))
    for _, codes, factor, total in added:
        if codes is None:
            at, values = next(members)
            total[at] += values * factor
        else:
            header, payload = next(coded)
            n = len(total)
            code_sweeps_for(device, torch.float32, codes.name).add(
                codes, codes.planes(payload, n), codes.read(payload, n, header), factor, total)
    return sums
