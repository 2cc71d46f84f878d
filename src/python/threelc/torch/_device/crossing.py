# SPDX-License-Identifier: MIT
"""Frames that were checked cross to a device: their payloads, the quartic bytes of their symbols, or positions and
values."""
from __future__ import annotations

import struct
from ctypes import memmove
from itertools import chain
from typing import Any, Callable, List, Sequence, Tuple

import torch

from ..._arrays import View, octets
from ...codec_strings import stages_of
from ...frames import FrameInfo, peek
from ...members import decompress_members
from ...quartic import decompress_quartic, quartic_bytes
from ..kernels import golomb
from ..kernels.operations import bits_of
from ..kernels.zerorun import zero_runs_for

Quartic = Tuple[List[Sequence[float]], torch.Tensor]
"""what a symbol 1 of each block decodes to, for each frame, and the bytes of all on the device"""


def shrunk_on_device(frames: Sequence[Any], ns: Sequence[int], blocks: Sequence[int], device: torch.device) -> Quartic:
    """Of frames that the device expands. ns: values of each. blocks: values of a block; 0: the tensor is one."""
    headers, payloads, _ = payloads_on_device(frames, device)
    quartic = torch.empty(sum(map(quartic_bytes, ns, blocks)), dtype=torch.uint8, device=device)
    if frames:
        zero_runs_for(device).expand(payloads, quartic)
    return [struct.unpack("<f", header[-4:]) for header in headers], quartic


def codes_on_device(frames: Sequence[Any], ns: Sequence[int], blocks: Sequence[int], device: torch.device) -> Quartic:
    """The same of Golomb codes."""
    headers, payloads, sizes = payloads_on_device(frames, device)
    pieces = [golomb.coded_of(memoryview(frame)[len(header):len(header) + size], n)
              for frame, header, size, n in zip(frames, headers, sizes, ns)]
    quartic = golomb.codes_for(device).expand(payloads, pieces)
    return [struct.unpack("<f", header[-4:]) for header in headers], quartic


def symbols_on_device(frames: Sequence[Any], ns: Sequence[int], blocks: Sequence[int], device: torch.device) -> Quartic:
    """The same of any frames of 3-value symbols: the host makes quartic bytes of them."""
    sizes = list(map(quartic_bytes, ns, blocks))
    host = _room(sum(sizes), device)
    scales: List[Sequence[float]] = [decompress_quartic(frame, n, piece)[1]
                                     for frame, n, piece in zip(frames, ns, host.split(sizes))]
    return scales, _there(host, device)


def way_of_symbols(info: FrameInfo) -> Callable[..., Quartic]:
    """Which of these takes a frame of 3-value symbols."""
    stages = stages_of(info.codec) if info.n and not info.block else ()
    if stages == ("quartic", "zerorun"):
        return shrunk_on_device
    if stages == ("golomb",) and info.payload_size < quartic_bytes(info.n, 0):  # else these are sent
        return codes_on_device
    return symbols_on_device


def payloads_on_device(frames: Sequence[Any], device: torch.device) -> Tuple[List[bytes], torch.Tensor, List[int]]:
    """Headers of frames; their payloads, one after the other, on the device; and the sizes of these."""
    infos = [peek(frame) for frame in frames]
    heads, sizes = [info.header_size for info in infos], [info.payload_size for info in infos]
    host = _room(sum(sizes), device)
    for frame, head, piece in zip(frames, heads, host.split(sizes)):
        memmove(piece.data_ptr(), octets(frame, "frame").address + head, len(piece))
    return [bytes(frame[:head]) for frame, head in zip(frames, heads)], _there(host, device), sizes


def members_on_device(frames: Sequence[Any], ns: Sequence[int],
                      device: torch.device) -> List[Tuple[torch.Tensor, torch.Tensor]]:
    """Of frames of topk, sparse-binary or random-sparse: positions, and the values there, in one crossing. ns: values
    of each tensor."""
    found = list(map(decompress_members, frames, ns))
    pieces = [View(piece, False, "members") for piece in chain.from_iterable(zip(*found))]
    sizes = [piece.size for piece in pieces]
    host = _room(sum(sizes), device)
    for piece, room in zip(pieces, host.split(sizes)):
        memmove(room.data_ptr(), piece.address, piece.size)
    there = _there(host, device).split(sizes)
    return [(at.view(torch.int64), values.view(torch.float32)) for at, values in zip(there, there[len(frames):])]


def put_members(frames: Sequence[Any], targets: Sequence[torch.Tensor], device: torch.device) -> None:
    """Decodes frames of members into flat tensors there. Bits are written, so that nothing is flushed to 0."""
    for target, (at, values) in zip(targets, members_on_device(frames, list(map(len, targets)), device)):
        bits = bits_of(target)
        bits.zero_()
        bits[at] = bits_of(values.to(target.dtype))


def crossed(tensors: Sequence[torch.Tensor], device: torch.device) -> Sequence[torch.Tensor]:
    """Flat tensors, there, in one crossing. Those that are there stay what they are."""
    if all(tensor.device == device for tensor in tensors):
        return tensors
    found: Sequence[torch.Tensor] = torch.cat(list(tensors)).to(device).split(list(map(len, tensors)))
    return found


def _there(host: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Memory of _room() on the device, as soon as that comes to it. The host does not wait."""
    return host.to(device, non_blocking=device.type == "cuda")


def _room(size: int, device: torch.device) -> torch.Tensor:
    """Bytes on the host that the device reaches without another copy."""
    return torch.empty(size, dtype=torch.uint8, pin_memory=device.type == "cuda")
