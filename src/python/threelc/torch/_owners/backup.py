# SPDX-License-Identifier: MIT
"""Mail with backup workers (3LC, section 2.1): servers go on without the last pushes of a step.

What a worker sends to a server, as often as it pushes, each part with a tag of its own:

    head   2 int64   2 * step, the bytes of the push. Or 2 * step + 1, 0: this rank has come to meet() after this step
    push   bytes
    end    1 int64   1: the push is there

A server sends a head, 1 int64 with the bytes of the answer, and the answer. Servers answer all steps to all workers,
and a worker takes the answers in order, so a late one has the model of each step, too. It has taken the answers of all
steps before the one that it pushes for. So the heads tell a server how far its workers are.

A wait of gloo for any one of several ranks does not end when one of them dies, and gloo does not tell whether
something has come. So a server receives from each worker apart, and looks into the memory where the head, or the end,
will be: they are not 0. That is a hint; waiting for what is there makes sure. The end is received after the push, on
the same connection, so the push is there when the end is, and a slow link holds nobody up.
"""
from __future__ import annotations

import math
import time
from collections import deque
from datetime import timedelta
from typing import Any, Callable, Deque, List, Optional, Sequence, Tuple

import torch

from ... import exchange
from ..._errors import Error, OrderError, Status
from .._common.groups import Clock
from .._common.transport import Transport, copied_bytes, timeout_of
from .mail import Mail

KEPT = 4  # answers that wait for stragglers
_HEAD, _PUSH, _END, _ANSWER_HEAD, _ANSWER = range(1, 6)  # tags
_SHORTEST, _LONGEST = 0.00005, 0.001  # seconds from one look to the next
_PROBE, _RARELY = 1.0, 30.0  # seconds until a server asks whether its workers live, at first and at most


class _Going:
    """Tensors on their way to another rank, each with its tag."""

    def __init__(self, transport: Transport, rank: int, step: int, pieces: Sequence[Tuple[int, torch.Tensor]]) -> None:
        self.step = step
        self._tensors = [tensor for _, tensor in pieces]
        self._works = [transport.isend(tensor, rank, tag) for tag, tensor in pieces]

    def wait(self) -> None:
        for work in self._works:
            work.wait()

    def __del__(self) -> None:
        self.__dict__.pop("_works", None)  # first: until then gloo reads the tensors


class _Coming:
    """A tensor that comes from another rank."""

    def __init__(self, transport: Transport, rank: int, tag: int, tensor: torch.Tensor) -> None:
        self._transport = transport
        self._tensor = tensor
        self._work = transport.irecv(tensor, rank, tag)

    def is_here(self) -> bool:
        """For numbers of which the first is not 0 once they are here. A hint: another thread writes them."""
        return bool(self._tensor[0])

    def wait(self, *timeout: timedelta) -> torch.Tensor:
        self._work.wait(*timeout)
        self._transport.received += self._tensor.numel() * self._tensor.element_size()
        return self._tensor

    def __del__(self) -> None:
        self.__dict__.pop("_work", None)  # first: until then gloo writes into the tensor


def _number(transport: Transport, rank: int, tag: int, count: int = 1) -> _Coming:
    return _Coming(transport, rank, tag, torch.zeros(count, dtype=torch.int64))


class _Worker:
    """What comes from a worker to the server of this rank."""

    def __init__(self, transport: Transport, rank: int) -> None:
        self._transport = transport
        self.rank = rank
        self.step = 0
        """of its last push"""
        self.met: Optional[int] = None
        """it has come to meet() after this step"""
        self._heads: Deque[_Coming] = deque()
        self._under_way: Optional[Tuple[_Coming, _Coming]] = None  # a push, and its end
        self.listen()

    def listen(self) -> None:
        """Receives one more head. Fails if the worker is gone."""
        self._heads.append(_number(self._transport, self.rank, _HEAD, 2))

    def has_come(self) -> bool:
        """Whether a head or a push waits to be taken."""
        return self._next().is_here()

    def _next(self) -> _Coming:
        return self._heads[0] if self._under_way is None else self._under_way[1]

    def take(self) -> Optional[torch.Tensor]:
        """What has come: a push, or None, a head."""
        if self._under_way is None:
            self._take_head()
            return None
        push, end = self._under_way
        end.wait()
        self._under_way = None
        return push.wait()

    def _take_head(self) -> None:
        what, length = self._heads.popleft().wait().tolist()
        if not self._heads:
            self.listen()
        if what % 2:
            self.met = what // 2
            return
        self.step = what // 2
        push = _Coming(self._transport, self.rank, _PUSH, torch.empty(length, dtype=torch.uint8))
        self._under_way = push, _number(self._transport, self.rank, _END)

    def lose(self) -> None:
        """Fails as a timeout of gloo does, which closes all connections."""
        self._next().wait(timedelta(milliseconds=1))


class _Wait:
    """A wait in which a server looks whether something has come, now and then whether its workers are still there."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._pause, self._probe = _SHORTEST, _PROBE

    def pause(self) -> None:
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST)

    def is_over(self, timeout: float) -> bool:
        return time.monotonic() - self._start > timeout

    def should_probe(self) -> bool:
        if time.monotonic() - self._start < self._probe:
            return False
        self._probe += min(self._probe, _RARELY)
        return True


class BackupMail(Mail):
    """Messages from rank to rank."""

    def __init__(self, transport: Transport, servers: int, clock: Clock) -> None:
        super().__init__(transport, servers)
        self._clock = clock
        timeout = timeout_of(transport.group)
        self._timeout = math.inf if timeout is None else timeout.total_seconds()
        self._step = 0
        self._pushed: Deque[_Going] = deque()
        self._answered: Deque[_Going] = deque()
        self._workers: List[_Worker] = []  # of a server: the others
        if transport.rank < servers:
            with transport.exchanging():
                self._workers = [_Worker(transport, rank) for rank in range(transport.world) if rank != transport.rank]

    def push(self, messages: Sequence[memoryview]) -> List[Any]:
        self._step += 1
        # This rank has the answers of the step before. Servers answered when they had its head of step - KEPT or later,
        # and so all its older pushes.
        self._forget(self._pushed, self._step - KEPT - 1)
        self._to_servers(2 * self._step, messages)
        return [messages[self._transport.rank]] if self._workers else []

    def _to_servers(self, what: int, messages: Optional[Sequence[memoryview]]) -> None:
        """messages: None: a head alone."""
        for server in range(self._servers):
            if server == self._transport.rank:
                continue
            pieces = [(_HEAD, torch.tensor([what, 0]))]
            if messages is not None:
                push = copied_bytes(messages[server])
                pieces = [(_HEAD, torch.tensor([what, len(push)])), (_PUSH, push), (_END, torch.tensor([1]))]
            self._begin(self._pushed, server, pieces)

    def _begin(self, kept: Deque[_Going], rank: int, pieces: Sequence[Tuple[int, torch.Tensor]]) -> None:
        """Sends tensors, each with its tag."""
        with self._transport.exchanging():
            kept.append(_Going(self._transport, rank, self._step, pieces))

    def _forget(self, kept: Deque[_Going], step: int) -> None:
        """What was sent up to this step has come, or will soon."""
        with self._transport.exchanging():
            while kept and kept[0].step <= step:
                kept.popleft().wait()

    # ---- servers ----

    def deliver(self, pushes: Sequence[Any], server: exchange.Server) -> None:
        for push in pushes:
            server.push(push)
        with self._clock.sending("pushes"):
            self._serve(server, lambda: server.ready() and self._has_room())

    def _has_room(self) -> bool:
        """Whether all have taken the answer that is KEPT steps old."""
        return all(worker.step > self._step - KEPT for worker in self._workers)

    def _serve(self, server: Optional[exchange.Server], is_done: Callable[[], bool]) -> None:
        """Takes all that has come, until it is enough. server: None: no step is under way."""
        try:
            with self._transport.exchanging():
                while True:
                    wait = _Wait()
                    while not any([self._attend(worker, server) for worker in self._workers]):
                        if is_done():
                            return
                        wait.pause()
                        self._look_after(wait)
        except Error:
            self._transport.abort()  # other ranks must not wait for this one
            raise

    def _attend(self, worker: _Worker, server: Optional[exchange.Server]) -> bool:
        """Whether something has come from a worker."""
        if not worker.has_come():
            return False
        push = worker.take()
        if push is not None and worker.step == self._step and server is not None:
            server.push(push)  # others are late
        there = worker.step if worker.step > self._step else worker.met
        if there is not None and (server is not None or there != self._step):
            raise OrderError(Status.ORDER, f"rank {worker.rank} is in step {there} where rank {self._transport.rank} "
                             f"is in step {self._step}: all ranks call state_dict(), load_state_dict() and flush() "
                             "after as many steps")
        return True

    def _look_after(self, wait: _Wait) -> None:
        """Fails if a worker is gone, or if nothing has come for too long."""
        if wait.is_over(self._timeout):
            min(self._workers, key=lambda worker: (worker.met is not None, worker.step)).lose()
        if wait.should_probe():
            for worker in self._workers:
                worker.listen()

    def answer(self, answer: memoryview) -> List[torch.Tensor]:
        own = copied_bytes(answer)
        self._forget(self._answered, self._step - KEPT)
        for worker in self._workers:
            self._begin(self._answered, worker.rank, [(_ANSWER_HEAD, torch.tensor([len(own)])), (_ANSWER, own)])
        with self._transport.exchanging():
            return [own if server == self._transport.rank else self._answer_of(server)
                    for server in range(self._servers)]

    def _answer_of(self, server: int) -> torch.Tensor:
        length = int(_number(self._transport, server, _ANSWER_HEAD).wait())
        return _Coming(self._transport, server, _ANSWER, torch.empty(length, dtype=torch.uint8)).wait()

    # ---- together ----

    def meet(self) -> None:
        self._to_servers(2 * self._step + 1, None)
        self._serve(None, lambda: all(worker.met is not None for worker in self._workers))
        for worker in self._workers:
            worker.met = None
        self._forget(self._pushed, self._step)
        self._forget(self._answered, self._step)
        self._transport.gather(None)  # a rank that has all may end
