# SPDX-License-Identifier: MIT
"""States of buckets. Those of one division of a model into buckets load into another one."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

from ... import exchange
from .._common.histories import compare_histories
from .._common.states import Names, Optionally
from .._common.transport import Transport
from .buckets import Bucket
from .places import Place

# One bucket is saved as before there were several.
BUCKETS = {"worker": Mapping, "server": Optionally(Mapping),
           "buckets": Optionally([{"names": Names(), "worker": Mapping, "server": Optionally(Mapping)}])}


def saved_buckets(buckets: Sequence[Bucket]) -> Dict[str, Any]:
    """The entries BUCKETS of a state."""
    saved = [_saved(bucket) for bucket in buckets]
    if len(saved) > 1:
        return {"worker": {}, "server": None, "buckets": saved}
    return {"worker": saved[0]["worker"], "server": saved[0]["server"], "buckets": None}


def _saved(bucket: Bucket) -> Dict[str, Any]:
    with bucket.on_host():
        return {"names": list(bucket.names), "worker": bucket.worker.state_dict(),
                "server": bucket.server and bucket.server.state_dict()}


def _are_same_buckets(buckets: Sequence[Bucket], state: Mapping[str, Any]) -> bool:
    """Whether the state is of a rank with these buckets."""
    saved = state.get("buckets")
    return len(buckets) == 1 if saved is None else [b.names for b in buckets] == [list(b["names"]) for b in saved]


def check_buckets(buckets: Sequence[Bucket], workers: Sequence[Mapping[str, Any]],
                  servers: Sequence[Mapping[str, Any]], lost: bool) -> None:
    """Raises what load_buckets() would raise, and changes nothing. workers, servers: states of ranks."""
    of_workers, of_servers = _of(workers, "worker"), _of(servers, "server")
    first = buckets[0].worker
    whole = exchange.Worker(first.config, first._which[0], [
        exchange.Tensor(tensor.name, tensor.n) for bucket in buckets for tensor in bucket.worker.tensors])
    whole.check_states(of_workers, lost)
    for bucket in buckets:
        bucket.worker.check_states(of_workers, lost, partly=True)
        if bucket.server is not None:
            # The worker has looked for names. Owners of 0.4.0 kept residuals of what goes as floats, which were 0.
            bucket.server.check_states(of_servers, partly=True)


def load_buckets(buckets: Sequence[Bucket], workers: Sequence[Mapping[str, Any]],
                 servers: Sequence[Mapping[str, Any]], lost: bool) -> None:
    """After check_buckets()."""
    for bucket in buckets:
        bucket.go_as_floats(False)  # a dense start begins anew on all ranks
        with bucket.on_host():
            bucket.worker.load_checked(_of(workers, "worker"), lost)
            if bucket.server is not None:
                bucket.server.load_checked(_of(servers, "server"))


def states_of_servers(states: Sequence[Dict[str, Any]], servers: int, rank: int, buckets: Sequence[Bucket],
                      places: Sequence[Place]) -> List[Dict[str, Any]]:
    """Those that the server of this rank needs: its own, or, if there were more or fewer servers or other buckets,
    those of all. servers, places: here."""
    count = states[0]["servers"]
    found = sorted((state for state in states if state["rank"] < count), key=lambda state: int(state["rank"]))
    own = [state for state in found if state["rank"] == rank]
    same = _are_same_buckets(buckets, states[0]) and all(
        [tuple(place) for place in state["places"]] == places for state in own)
    if count == servers and same:
        if not own:
            raise ValueError(f"the state of server {rank} is needed: it holds a part of the model")
        return own
    if len(found) != count:
        raise ValueError(f"{count} servers were saved, here are {servers}{'' if same else ', with other buckets'}: the "
                         "states of all are needed")
    return found


def compare_buckets(transport: Transport, buckets: Sequence[Bucket]) -> None:
    """compare_histories() of their objects."""
    compare_histories(transport, [bucket.worker for bucket in buckets],
                      [[] if bucket.server is None else [bucket.server] for bucket in buckets])


def _of(states: Sequence[Mapping[str, Any]], kind: str) -> List[Any]:
    """Those of the workers or servers of all buckets."""
    return [bucket.get(kind) for state in states for bucket in state.get("buckets") or [state]]
