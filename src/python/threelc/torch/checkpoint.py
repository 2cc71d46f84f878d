# SPDX-License-Identifier: MIT
"""States of ranks in a checkpoint of torch.distributed.checkpoint, which has one folder for all ranks.

    dcp.save({"model": model.state_dict(), "threelc": to_dcp(state)}, checkpoint_id=folder)
    from_dcp(state, folder, "threelc")  # in the next run, on any number of ranks

dcp.async_save() takes the same dict. Tested with PyTorch 2.6 and 2.13.
"""
from __future__ import annotations

import io
import re
from typing import Any, Dict

import torch

from ._common.versions import load_alone
from .fsdp import FSDPState


def to_dcp(state: Any) -> Dict[str, torch.Tensor]:
    """The state_dict() of this rank's object, of register(), LocalSteps, ShardedOptimizer, PushPull or Gossip, for
    dcp.save(). Each rank adds a tensor of bytes under a name of its own."""
    _refuse_shards(state)
    written = io.BytesIO()
    torch.save(state.state_dict(), written)
    return {f"rank{state._transport.rank}": torch.frombuffer(written.getbuffer(), dtype=torch.uint8)}


def from_dcp(state: Any, source: Any, key: str, lost: bool = False) -> None:
    """Goes on from a checkpoint: on as many ranks as have saved it each reads its own state, with the same bits, on
    another number those of all. All ranks call this together, when load_state_dict() may be called. source: the folder,
    or a StorageReader. key: where to_dcp() was in the dict that was saved; "a.b" for ["a"]["b"]. lost: as in
    load_state_dict(); that of Gossip has none. An exception changes nothing."""
    import torch.distributed.checkpoint as dcp

    _refuse_shards(state)
    reader = source if isinstance(source, dcp.StorageReader) else dcp.FileSystemReader(source)
    saved = {name: kind for name, kind in reader.read_metadata().state_dict_metadata.items()
             if re.fullmatch(re.escape(key) + r"\.rank\d+", name)}
    if not saved:
        raise ValueError(f"the checkpoint has nothing of to_dcp() under {key!r}")
    own = f"{key}.rank{state._transport.rank}"
    if len(saved) == state._transport.world and own in saved:
        saved = {own: saved[own]}
    bytes_of = {name: torch.empty(kind.size, dtype=torch.uint8) for name, kind in saved.items()}
    load_alone(bytes_of, reader)
    states = [torch.load(io.BytesIO(found.numpy().tobytes()), weights_only=True) for found in bytes_of.values()]
    state.load_state_dict(states, **({"lost": True} if lost else {}))


def _refuse_shards(state: Any) -> None:
    if isinstance(state, FSDPState):
        raise TypeError("the state of register_fsdp() has sharded_state_dict() for torch.distributed.checkpoint")
