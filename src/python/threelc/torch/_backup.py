# SPDX-License-Identifier: MIT
"""Mail with backup workers (3LC, section 2.1): servers go on without the last pushes of a step.

What a worker sends to a server, as often as it pushes, each part with a tag of its own:

    head   2 int64   2 * step, the bytes of the push. Or 2 * step + 1, 0: this rank has come to meet() after this step
    push   bytes
    end    1 int64   1: the push is there

A server sends a head, 1 int64 with the bytes of the answer, and the answer. All steps are answered, to all workers, and
a worker takes the answers in order, so one that is late has the model of each step, too. It has taken the answers of
all steps before the one that it pushes for. So the heads tell a server how far its workers are.

gloo cannot wait for one of several ranks so that it hears of one that has died, nor can it be asked whether something
has come. So a server receives from each worker apart, and looks into the memory where the head, or the end, will be:
they are not 0. That is a hint; waiting for what is there makes sure. The end is received after the push, on the same
connection, so the push is there when the end is, and a slow link holds nobody up.
"""
from __future__ import annotations

import math
import time
from collections import deque
from datetime import timedelta
from typing import Any, Callable, Deque, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .. import exchange
from .._errors import OrderError, Status
from ._groups import Clock
from ._mail import Mail
from ._transport import Transport, copied_bytes, timeout_of

KEPT = 4  # answers that wait for stragglers
_HEAD, _PUSH, _END, _ANSWER_HEAD, _ANSWER = range(1, 6)  # tags
_SHORTEST, _LONGEST = 0.00005, 0.001  # seconds from one look to the next
_PROBE, _RARELY = 1.0, 30.0  # seconds until a server asks whether its workers live, at first and at most


class _Sent(NamedTuple):
    """What gloo sends, perhaps still."""

    step: int
    tensors: List[torch.Tensor]
    works: List[Any]


class _Note:
    """A few numbers that will come, the first of them not 0."""

    def __init__(self, transport: Transport, rank: int, tag: int, count: int) -> None:
        self._numbers = torch.zeros(count, dtype=torch.int64)
        self._transport = transport
        self.work = transport.irecv(self._numbers, rank, tag)

    def is_here(self) -> bool:
        """A hint: another thread writes them."""
        return bool(self._numbers[0])

    def read(self) -> List[int]:
        """Waits for them."""
        self.work.wait()
        self._transport.received += 8 * len(self._numbers)
        return [int(number) for number in self._numbers]


class _Worker:
    """What comes from a worker to the server of this rank."""

    def __init__(self, transport: Transport, rank: int) -> None:
        self._transport = transport
        self.rank = rank
        self.step = 0
        """of its last push"""
        self.met: Optional[int] = None
        """it has come to meet() after this step"""
        self._heads: Deque[_Note] = deque()
        self._end: Optional[_Note] = None  # of the push under way
        self._push = torch.empty(0, dtype=torch.uint8)
        self._work: Any = None
        self.listen()

    def listen(self) -> None:
        """Receives one more head. Fails if the worker is gone."""
        self._heads.append(_Note(self._transport, self.rank, _HEAD, 2))

    def look(self) -> bool:
        """Whether a head has come, or a push."""
        if self._end is None and self._heads[0].is_here():
            self._take_head()
            return True
        return self._end is not None and self._end.is_here()

    def _take_head(self) -> None:
        what, length = self._heads.popleft().read()
        if not self._heads:
            self.listen()
        if what % 2:
            self.met = what // 2
            return
        self.step = what // 2
        self._push = torch.empty(length, dtype=torch.uint8)
        self._work = self._transport.irecv(self._push, self.rank, _PUSH)
        self._end = _Note(self._transport, self.rank, _END, 1)

    def take(self) -> Optional[torch.Tensor]:
        """The push that has come, if one has."""
        if self._end is None or not self._end.is_here():
            return None
        self._end.read()
        self._work.wait()
        self._transport.received += len(self._push)
        self._end = None
        return self._push

    def lose(self) -> None:
        """Fails as a timeout of gloo does, which closes all connections."""
        note = self._heads[0] if self._end is None else self._end
        note.work.wait(timedelta(milliseconds=1))


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
        self._pushed: Deque[_Sent] = deque()
        self._answered: Deque[_Sent] = deque()
        self._workers: List[_Worker] = []  # of a server: the others
        if transport.rank < servers:
            with transport.exchanging():
                self._workers = [_Worker(transport, rank) for rank in range(transport.world) if rank != transport.rank]

    def push(self, messages: Sequence[memoryview]) -> List[Any]:
        self._step += 1
        # Servers answer a step when they have the pushes up to KEPT steps before, and this rank has all answers but
        # that of the new step.
        self._forget(self._pushed, self._step - KEPT - 1)
        self._to_servers(2 * self._step, messages)
        return [messages[self._transport.rank]] if self._workers else []

    def _to_servers(self, what: int, messages: Optional[Sequence[memoryview]]) -> None:
        """messages: None: a head alone."""
        with self._transport.exchanging():
            for server in range(self._servers):
                if server == self._transport.rank:
                    continue
                pieces = [(_HEAD, torch.tensor([what, 0]))]
                if messages is not None:
                    push = copied_bytes(messages[server])
                    pieces = [(_HEAD, torch.tensor([what, len(push)])), (_PUSH, push), (_END, torch.ones(1).long())]
                self._pushed.append(self._begin(server, pieces))

    def _begin(self, rank: int, pieces: Sequence[Tuple[int, torch.Tensor]]) -> _Sent:
        """Sends tensors, each with its tag."""
        return _Sent(self._step, [tensor for _, tensor in pieces],
                     [self._transport.isend(tensor, rank, tag) for tag, tensor in pieces])

    def _forget(self, sent: Deque[_Sent], step: int) -> None:
        """What was sent up to this step has come, or will soon."""
        with self._transport.exchanging():
            while sent and sent[0].step <= step:
                for work in sent[0].works:
                    work.wait()
                sent.popleft()

    # ---- servers ----

    def deliver(self, pushes: Sequence[Any], server: exchange.Server) -> None:
        for push in pushes:
            server.push(push)
        self._clock.was_codec()
        self._serve(server, lambda: server.ready() and self._has_room())
        self._clock.was_wire()

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
        except OrderError:
            self._transport.abort()  # ranks that are content must not wait for this one
            raise

    def _attend(self, worker: _Worker, server: Optional[exchange.Server]) -> bool:
        """Whether something has come from a worker."""
        if not worker.look():
            return False
        push = worker.take()
        if push is not None and worker.step == self._step and server is not None:
            server.push(push)  # others are late
        ahead = worker.step if worker.step > self._step else worker.met
        if ahead is not None and (server is not None or ahead != self._step):
            raise OrderError(Status.ORDER, f"rank {worker.rank} is in step {ahead} where rank {self._transport.rank} is "
                             f"in step {self._step}: all ranks call state_dict(), load_state_dict() and flush() after "
                             "the same steps")
        return True

    def _look_after(self, wait: _Wait) -> None:
        """Fails if a worker is gone, or if nothing has come for too long."""
        if wait.is_over(self._timeout):
            min(self._workers, key=lambda worker: (worker.met is not None, worker.step)).lose()
        if wait.should_probe():
            for worker in self._workers:
                worker.listen()

    def answer(self, answer: memoryview) -> List[torch.Tensor]:
        transport = self._transport
        own = copied_bytes(answer)
        found = []
        if self._workers:
            self._forget(self._answered, self._step - KEPT)
        with transport.exchanging():
            for worker in self._workers:
                self._answered.append(self._begin(worker.rank, (
                    (_ANSWER_HEAD, torch.tensor([len(own)])), (_ANSWER, own))))
            for server in range(self._servers):
                found.append(own if server == transport.rank else self._answer_of(server))
        return found

    def _answer_of(self, server: int) -> torch.Tensor:
        length, = _Note(self._transport, server, _ANSWER_HEAD, 1).read()
        answer = torch.empty(length, dtype=torch.uint8)
        self._transport.irecv(answer, server, _ANSWER).wait()
        self._transport.received += length
        return answer

    # ---- together ----

    def meet(self) -> None:
        self._to_servers(2 * self._step + 1, None)
        self._serve(None, lambda: all(worker.met is not None for worker in self._workers))
        for worker in self._workers:
            worker.met = None
        self._forget(self._pushed, self._step)
        self._forget(self._answered, self._step)
        self._transport.gather(None)  # who has all may end
