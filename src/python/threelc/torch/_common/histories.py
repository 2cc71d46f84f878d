# SPDX-License-Identifier: MIT
"""Whether ranks go on from states of one run. Those of two runs fit each other in all that one rank can see."""
from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from ... import exchange
from .transport import Transport

_STRANGERS = "load the states of one checkpoint on all ranks"


def compare_histories(transport: Transport, pushing: Sequence[Any],
                      servers: Sequence[List[exchange.Server]] = ()) -> None:
    """All ranks call it together, before the first step. pushing: workers of this rank, or ranks of an all-reduce.
    servers: beside each, the server of this rank, or nothing. ValueError on all: a state is of another run. What was
    never saved, or by a release that had no histories, is not compared."""
    own = [[[one.step, one.history] for one in objects] for objects in [*([each] for each in pushing), *servers]]
    every = transport.gather(own)
    for i in range(len(pushing)):
        _check([(rank, *said[i][0]) for rank, said in enumerate(every)])
        if servers:
            _check_servers([(rank, *said[i][0]) for rank, said in enumerate(every)],
                           [found for said in every for found in said[len(pushing) + i]])


def _check(said: Sequence[Tuple[int, int, int]]) -> None:
    """said: rank, step and history of each."""
    first: Dict[int, Tuple[int, int]] = {}  # that knows its history, by step
    for rank, step, history in said:
        if history and first.setdefault(step, (rank, history))[1] != history:
            raise ValueError(f"the states of ranks {first[step][0]} and {rank} are not of one run: before step {step} "
                             f"they got different messages; {_STRANGERS}")


def _check_servers(workers: Sequence[Tuple[int, int, int]], servers: Sequence[Sequence[int]]) -> None:
    """servers: step and history of each."""
    if not all(history for _, history in servers):
        return
    total = sum(history for _, history in servers) % 2**64
    for rank, step, history in workers:
        if history and all(theirs == step for theirs, _ in servers) and history != total:
            raise ValueError(f"the states of rank {rank} and of the servers are not of one run: before step {step} it "
                             f"got other answers than they gave; {_STRANGERS}")
