# SPDX-License-Identifier: MIT
"""What NeMo-RL's encode_sparse_infos makes, smaller (nemo_rl.utils.weight_transfer_sparse_codec of the main branch in
August 2026, 0.6 and later): encode() in place of torch.save() and zstd, where weight_transfer_stream serializes a
payload, and decode() at the vLLM worker, in place of both of their opposites.

decode() gives the tensors and metadata that encode() got, bit for bit, so that everything else is NeMo-RL's.
"""
from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch

from .._errors import CorruptError, Status
from . import _patches

__all__ = ["decode", "encode"]

Payload = Tuple[torch.Tensor, Tuple[torch.Tensor, ...], List[Dict[str, Any]]]
"""TensorPayload of NeMo-RL: packed locations, groups of values, metadata"""

_LOCATIONS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # gaps, less 1, of so many bytes
_WIDE = torch.int32
"""of XORs of 16 bits: as integers of 32 bits small ones take few bits"""


def encode(payload: Payload) -> bytes:
    """The bytes of a payload of encode_sparse_infos or merge_sparse_payloads, whose tensors are on the CPU."""
    locations, groups, items = payload
    patches, notes = [], []
    for item in items:
        values = groups[item["value_group"]][item["value_start"]:item["value_end"]]
        dtype = getattr(torch, item["dtype"])
        sent = values.to(_WIDE) if item["operation"] == "xor" and values.element_size() == 2 else values.view(
            dtype if item["operation"] == "overwrite" else values.dtype)
        width = len(locations[item["index_start"]:item["index_end"]]) // max(len(values), 1)
        patches.append(_patches.Patch(item["name"], tuple(item["shape"]), _places(item, locations, len(values)), sent))
        notes.append({"item": item, "width": width, "values": str(values.dtype).rpartition(".")[2]})
    return _patches.pack(patches, notes)


def _places(item: Dict[str, Any], locations: torch.Tensor, count: int) -> torch.Tensor:
    if item["index_encoding"] == "range":
        return torch.arange(item["range_start"], item["range_start"] + count)
    packed = locations[item["index_start"]:item["index_end"]]
    width = len(packed) // count
    gaps = packed.clone().view(_LOCATIONS[width]).to(torch.int64)
    if width < 8:
        gaps &= (1 << 8 * width) - 1
    return torch.cumsum(gaps + 1, 0) - 1


def decode(message: Any) -> Payload:
    """The payload. CorruptError: these bytes are not a message of encode(), or were altered."""
    patches, notes = _patches.unpack(message)
    try:
        return _payload(notes, patches)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise CorruptError(Status.CORRUPT, f"not a payload: {error}") from error


def _payload(notes: List[Dict[str, Any]], patches: List[_patches.Patch]) -> Payload:
    if len(notes) != len(patches):
        raise ValueError("the parts differ in length")
    locations = [torch.empty(0, dtype=torch.uint8)]
    groups: Dict[int, List[torch.Tensor]] = {}
    items = []
    for note, patch in zip(notes, patches):
        item = note["item"]
        item["shape"] = tuple(item["shape"])
        items.append(item)
        dtype = getattr(torch, note["values"])
        values = patch.values.to(dtype) if patch.values.dtype == _WIDE else patch.values.view(dtype)
        groups.setdefault(item["value_group"], []).append(values)
        if item["index_encoding"] != "range":
            before = torch.cat([torch.tensor([-1]), patch.positions[:-1]])
            locations.append((patch.positions - before - 1).to(_LOCATIONS[note["width"]]).view(torch.uint8))
    return torch.cat(locations), tuple(torch.cat(groups[i]) for i in range(len(groups))), items
