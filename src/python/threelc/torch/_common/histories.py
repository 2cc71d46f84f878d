# SPDX-License-Identifier: MIT
"""Whether ranks go on from states of one run. Those of two runs fit each other in all that one rank can see."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence

from ... import exchange
from .transport import Transport

_STRANGERS = "load the states of one checkpoint on all ranks"


class _Known(NamedTuple):
    rank: int
    step: int
    history: int  # 0: not known


def compare_histories(transport: Transport, pushing: Sequence[Any],
                      servers: Sequence[List[exchange.Server]] = ()) -> None:
    """All ranks call it together, before the first step. pushing: workers of this rank, or ranks of an all-reduce.
    servers: beside each, the server of this rank, or nothing. ValueError on all: a state is of another run. What was
    never saved, or by a release that had no histories, is not compared."""
    own = [[[one.step, one.history] for one in objects] for objects in [*([each] for each in pushing), *servers]]
    every = transport.gather(own)
    for i in range(len(pushing)):
        known = [_Known(rank, *said[i][0]) for rank, said in enumerate(every)]
        _check(known)
        if servers:
            _check_servers(known, [_Known(rank, *found) for rank, said in enumerate(every)
                                   for found in said[len(pushing) + i]])


def _check(ranks: Sequence[_Known]) -> None:
    first: Dict[int, _Known] = {}  # by step
    for one in ranks:
        other = first.setdefault(one.step, one) if one.history else one
        if other.history != one.history:
            raise ValueError(f"the states of ranks {other.rank} and {one.rank} are not of one run: before step "
                             f"{one.step} they got different messages; {_STRANGERS}")


def _check_servers(workers: Sequence[_Known], servers: Sequence[_Known]) -> None:
    if not all(server.history for server in servers):
        return
    total = sum(server.history for server in servers) % 2**64
    for one in workers:
        if one.history not in (0, total) and all(server.step == one.step for server in servers):
            raise ValueError(f"the states of rank {one.rank} and of the servers are not of one run: before step "
                             f"{one.step} it got other answers than they gave; {_STRANGERS}")
