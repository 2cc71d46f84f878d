# SPDX-License-Identifier: MIT
"""Which rank is lost: after an exchange has failed, each rank that is there says so in the store of PyTorch's process
groups. Those that do not are the ones to look at."""
from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import Any, List

import torch.distributed as dist

from .versions import store_of

_WAIT = 1.0  # seconds; connections to a rank that ends or gives up are closed on all others at once


def begin(group: Any) -> None:
    """Before the first exchange: takes back what a rank of this number has said in a training before. The store is the
    same if torchrun has it and starts ranks again."""
    with suppress(LookupError, RuntimeError):  # PyTorch has not made the group, or the store takes nothing back
        store, name = store_of(group)
        store.delete_key(_key(name, dist.get_rank(group)))


def silent_ranks(group: Any) -> List[int]:
    """The ranks of a process group that do not say within a second that their exchange has failed, too. Empty: all do,
    or there is no way to know."""
    heard: List[List[int]] = []  # who was silent, at each look
    answers = threading.Event()
    try:
        store, name = store_of(group)
    except LookupError:  # a group that torch.distributed has not made
        return []
    keys = [_key(name, rank) for rank in range(dist.get_world_size(group))]
    own = dist.get_rank(group)

    def call() -> None:
        with suppress(RuntimeError, OSError):  # the store is gone
            _call(store, keys, own, heard)
        answers.set()

    # A store on a rank that stands still does not answer, and has no timeout.
    threading.Thread(target=call, name="threelc-roll-call", daemon=True).start()
    answers.wait(_WAIT + 0.5)
    return heard[-1] if heard else _host_of_the_store(group)


def _key(name: str, rank: int) -> str:
    return f"threelc/lost/{name}/{rank}"


def _call(store: Any, keys: List[str], own: int, heard: List[List[int]]) -> None:
    store.add(keys[own], 1)
    end = time.monotonic() + _WAIT
    silent = list(range(len(keys)))
    while silent and time.monotonic() < end:
        silent = [rank for rank in silent if not store.add(keys[rank], 0)]
        heard.append(silent)
        time.sleep(0.05 if silent else 0)


def _host_of_the_store(group: Any) -> List[int]:
    """The rank that has the store which does not answer: the first of all, unless torchrun has it."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" or dist.get_rank() == 0:
        return []
    return [rank for rank in range(dist.get_world_size(group)) if dist.get_global_rank(group, rank) == 0]


def named(ranks: List[int], otherwise: str) -> str:
    """For messages: "rank 1", "ranks 1 and 2"."""
    if not ranks:
        return otherwise
    *most, last = map(str, ranks)
    return f"ranks {', '.join(most)} and {last}" if most else f"rank {last}"
