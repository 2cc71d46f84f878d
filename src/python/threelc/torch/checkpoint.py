# SPDX-License-Identifier: MIT
"""States of all ranks in one checkpoint.

With torch.distributed.checkpoint, which has one folder for all ranks:

    dcp.save({"model": model.state_dict(), "threelc": to_dcp(state)}, checkpoint_id=folder)
    from_dcp(state, folder, "threelc")  # in the next run, on any number of ranks

dcp.async_save() takes the same dict. Tested with PyTorch 2.6 and 2.13.

Where rank 0 alone reads and writes files:

    states = gather_states(state)         # all ranks call it; rank 0 saves what it returns
    state.load_state_dict(scatter_states(state, states))  # in the next run; other ranks than 0 give None
"""
from __future__ import annotations

import io
import re
from typing import Any, Dict, List, Optional, Sequence

import torch

from .._errors import CorruptError, Status
from ._common.arguments import whole
from ._common.states import loadable
from ._common.versions import load_alone
from .fsdp import FSDPState

_NOTHING = memoryview(b"")


def to_dcp(state: Any) -> Dict[str, torch.Tensor]:
    """The state_dict() of this rank's object, of register(), LocalSteps, ShardedOptimizer, PushPull, Gossip or
    AllReduce, for dcp.save(). Each rank adds a tensor of bytes under a name of its own."""
    _refuse_shards(state)
    written = _written(state.state_dict())
    return {f"{_shard(state)}rank{state._transport.rank}": torch.frombuffer(written, dtype=torch.uint8)}


def from_dcp(state: Any, source: Any, key: str, lost: bool = False) -> None:
    """Goes on from a checkpoint: on as many ranks as have saved it each reads its own state, with the same bits, on
    another number those of all. All ranks call this together, when load_state_dict() may be called. source: the folder,
    or a StorageReader. key: where to_dcp() was in the dict that was saved; "a.b" for ["a"]["b"]. lost: as in
    load_state_dict(); that of Gossip has none. An exception changes nothing. CorruptError: bytes are no state."""
    import torch.distributed.checkpoint as dcp

    _refuse_shards(state)
    reader = source if isinstance(source, dcp.StorageReader) else dcp.FileSystemReader(source)
    saved = {name: kind for name, kind in reader.read_metadata().state_dict_metadata.items()
             if re.fullmatch(re.escape(f"{key}.{_shard(state)}") + r"rank\d+", name)}
    if not saved:
        raise ValueError(f"the checkpoint has nothing of to_dcp() under {key!r}")
    own = f"{key}.{_shard(state)}rank{state._transport.rank}"
    if len(saved) == state._transport.world and own in saved:
        saved = {own: saved[own]}
    bytes_of = {name: torch.empty(kind.size, dtype=torch.uint8) for name, kind in saved.items()}
    load_alone(bytes_of, reader)
    state.load_state_dict([_read(found) for found in bytes_of.values()], **({"lost": True} if lost else {}))


def gather_states(state: Any, root: int = 0) -> Optional[List[Dict[str, Any]]]:
    """The state_dict() of every rank, in the order of ranks, on rank `root` of them; None on the others. state: as in
    to_dcp(). All ranks call it together, between two steps."""
    _refuse_shards(state)
    transport = state._transport
    whole(root, "root", 0, transport.world - 1)
    own = _written(state.state_dict())
    found = transport.uncounted([own if rank == root else _NOTHING for rank in range(transport.world)])
    return [_read(each) for each in found] if transport.rank == root else None


def scatter_states(state: Any, states: Optional[Sequence[Dict[str, Any]]], root: int = 0) -> List[Dict[str, Any]]:
    """What load_state_dict() needs on this rank of the states that gather_states() returned: its own, or, on another
    number of ranks, all. states: on rank `root`; None on the others. All ranks call it together."""
    _refuse_shards(state)
    transport = state._transport
    whole(root, "root", 0, transport.world - 1)
    messages = [_NOTHING] * transport.world
    if transport.rank == root and states:
        as_many = len(states) == transport.world
        messages = [*map(_written, states)] if as_many else [_written(list(states))] * transport.world
    found = transport.uncounted(messages)[root]
    if not found.numel():  # on all ranks
        raise ValueError(f"rank {root} has given no states")
    came = _read(found)
    return came if isinstance(came, list) else [came]


def _written(value: Any) -> memoryview:
    found = io.BytesIO()
    torch.save(loadable(value), found)  # states of older releases have floats
    return found.getbuffer()


def _read(octets: torch.Tensor) -> Any:
    try:
        return torch.load(io.BytesIO(octets.numpy().tobytes()), weights_only=True)
    except Exception as error:  # torch.load() does not say which there may be
        raise CorruptError(Status.CORRUPT, f"these bytes are no state: {error}") from error


def _shard(state: Any) -> str:
    """What stands before the rank in names: of LocalSteps, whose model may be sharded."""
    model = getattr(state, "_model", None)
    return f"{model.shard}." if model is not None and model.shard else ""


def _refuse_shards(state: Any) -> None:
    if isinstance(state, FSDPState):
        raise TypeError("the state of register_fsdp() has sharded_state_dict() for torch.distributed.checkpoint")
