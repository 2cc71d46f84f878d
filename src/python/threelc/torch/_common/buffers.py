# SPDX-License-Identifier: MIT
"""The buffers of a module, from which all ranks go on alike: statistics of batch normalization, counters, masks.

What all ranks have alike, bit for bit, is not sent. Of other buffers an owner gets those of all ranks in the round,
and sends all what they become. Buffers that come later, on all ranks, are exchanged from then on.
"""
from __future__ import annotations

import ctypes
import hashlib
import struct
from typing import Any, Dict, List, Optional, Set

import torch

from ..._arrays import borrowed
from ..._errors import Status, StepError
from ...exchange import Outcome
from .module import Model, problem_of, size_of
from .transport import Transport

_DIGEST = 16  # bytes
_HEAD = struct.Struct(f"<d{_DIGEST}s")  # weight of a rank in the mean, 0: it is not in the round; a digest of names,
#                                         shapes and dtypes; then follow digests of values
_PROBLEM = ""  # beside names of buffers, none of which is empty
_FAULT = struct.Struct("<I")  # before each answer: 1 + the rank whose buffer is not finite, or 0


class Buffers:
    """Those of a model, as they were after the last round and as they are."""

    def __init__(self, model: Model, exchanged: bool) -> None:
        """exchanged: False: they stay what they are on each rank."""
        self._model = model
        self._exchanged = exchanged
        self.start = {name: buffer.detach().clone() for name, buffer in self.now().items()}
        """where a round that fails goes back to"""
        self._late: Set[str] = set()  # of them, those that came later

    def now(self) -> Dict[str, torch.Tensor]:
        """Those that are exchanged, by name."""
        return {name: b for name, b in self._model.buffers().items() if b.numel()} if self._exchanged else {}

    def ring_bytes(self, world: int) -> int:
        """What each rank sends if a ring all-reduce sums up those that have a mean, as float32."""
        return sum(2 * 4 * size_of(b) * (world - 1) // world for b in self.start.values() if _has_mean(b))

    def merge(self, transport: Transport, now: Dict[str, torch.Tensor], weight: Optional[float],
              step: int) -> Dict[str, torch.Tensor]:
        """What the buffers of all ranks become, of those that differ. now: those of this rank. weight: of this rank;
        None: it is not in the round. StepError on all ranks: a value is not finite on a rank, and another one
        elsewhere. ValueError on all ranks: a rank has other buffers than rank 0, or another one in place of one that
        it had."""
        if not self._exchanged:
            return {}
        now = dict(sorted(now.items()))
        problem = self._problem(now)
        kinds = {name: f"of shape {list(buffer.shape)}, {buffer.dtype}" for name, buffer in now.items()}
        memory = {} if problem else {name: _octets(buffer) for name, buffer in now.items()}
        digests = [_digest(_view(octets)) for octets in memory.values()]
        heads = [_bytes(head) for head in transport.all_gather(memoryview(
            _HEAD.pack(weight or 0.0, _digest(repr((problem, kinds)).encode())) + b"".join(digests)))]
        if problem or len({_HEAD.unpack_from(head)[1] for head in heads}) > 1:
            _refuse(transport.gather({**kinds, _PROBLEM: problem}))
        weights = {rank: head for rank, (head, _) in enumerate(map(_HEAD.unpack_from, heads)) if head}
        names = [name for i, name in enumerate(memory)
                 if len({head[_HEAD.size + _DIGEST * i:][:_DIGEST] for head in heads}) > 1]
        if not names:
            return {}
        of_owner = [names[owner::transport.world] for owner in range(transport.world)]
        to = [_view(torch.cat([memory[name] for name in owned])) if owned and weight else memoryview(b"")
              for owned in of_owner]
        came = transport.all_to_all(to)
        mine = of_owner[transport.rank]
        pieces = {rank: came[rank].split([len(memory[name]) for name in mine]) for rank in weights} if mine else {}
        answer = b"".join(_answer({rank: of_rank[i] for rank, of_rank in pieces.items()}, weights, now[name])
                          for i, name in enumerate(mine))
        found: Dict[str, torch.Tensor] = {}
        for owned, octets in zip(of_owner, transport.all_gather(memoryview(answer))):
            at = 0
            for name in owned:
                fault, = _FAULT.unpack(_bytes(octets[at:at + _FAULT.size]))
                if fault:
                    raise _not_finite(name, fault - 1, step)
                at += _FAULT.size + len(memory[name])
                found[name] = octets[at - len(memory[name]):at].clone().view(now[name].dtype)
        return found

    def _problem(self, now: Dict[str, torch.Tensor]) -> str:
        """Why the buffers of this rank cannot be exchanged; else empty."""
        for name, start in self.start.items():
            if name not in now or now[name].shape != start.shape or now[name].dtype != start.dtype:
                return f"buffer {name} of shape {list(start.shape)}, {start.dtype}, is another one now, or gone"
        for name, buffer in now.items():
            problem = problem_of(buffer, False)
            if problem:
                return f"buffer {name} {problem}"
        return ""

    def end_round(self, then: Dict[str, torch.Tensor], merged: Dict[str, torch.Tensor], mix: float = 0.0) -> None:
        """The buffers become what merge() found of those that were `then`. mix: how much of those that have a mean
        stays what it is now on this rank."""
        for name, buffer in self.now().items():
            if name not in then:
                continue
            common = merged[name].view(buffer.shape) if name in merged else then[name]
            if name in self.start:
                self.start[name].copy_(common)
            else:
                self.start[name] = common.detach().clone()
                self._late.add(name)
            if name in merged:
                with torch.no_grad():
                    buffer.copy_(mix * buffer + (1 - mix) * common if mix and _has_mean(buffer) else common)

    def go_back(self) -> None:
        """Those that came in this round stay what they are."""
        for name, buffer in self.now().items():
            if name in self.start:
                with torch.no_grad():
                    buffer.copy_(self.start[name])

    def check(self, start: Dict[str, torch.Tensor]) -> None:
        """ValueError: other buffers were saved."""
        for name, buffer in self.start.items():
            if name in self._late and name not in start:
                continue
            if name not in start or start[name].shape != buffer.shape or start[name].dtype != buffer.dtype:
                raise ValueError(f"buffer {name} of shape {list(buffer.shape)}, {buffer.dtype}, is not in the state")

    def load(self, start: Dict[str, torch.Tensor]) -> None:
        """After check(). Buffers that came after the state was taken come anew."""
        self._late.intersection_update(start)
        self.start = {name: buffer for name, buffer in self.start.items() if name in start}
        for name, buffer in self.start.items():
            buffer.copy_(start[name])


class BuffersOfOne:
    """Those of a model, where all ranks follow one rank. They are sent after another message of it, with any
    values."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def _now(self) -> Dict[str, torch.Tensor]:
        return dict(sorted(self._model.buffers().items()))

    def _kinds(self) -> bytes:
        return _digest(repr([(name, list(b.shape), b.dtype) for name, b in self._now().items()]).encode())

    def message(self) -> bytes:
        """Of the rank that the others follow."""
        return self._kinds() + b"".join(_bytes(_octets(buffer)) for buffer in self._now().values())

    def take(self, message: torch.Tensor) -> torch.Tensor:
        """Sets the buffers to those at the end of a message. Returns what precedes them. ValueError: it has others."""
        now = self._now()
        sizes = [b.numel() * b.element_size() for b in now.values()]
        at = len(message) - sum(sizes)
        if at < _DIGEST or _bytes(message[at - _DIGEST:at]) != self._kinds():
            raise ValueError("all ranks need the same buffers, and those of this rank have other names, shapes or "
                             'dtypes than those of rank 0. buffers="own" leaves buffers to each rank')
        for buffer, octets in zip(now.values(), message[at:].split(sizes)):
            if buffer.numel():
                with torch.no_grad():
                    buffer.copy_(octets.clone().view(buffer.dtype).view(buffer.shape))
        return message[:at - _DIGEST]


def _refuse(found: List[Dict[str, str]]) -> None:
    """ValueError, the same on all ranks. found: of each rank its buffers, and its problem."""
    advice = "average_buffers=False leaves buffers to each rank"
    for rank, kinds in enumerate(found):
        if kinds.get(_PROBLEM):
            raise ValueError(f"rank {rank}: {kinds[_PROBLEM]}: {advice}")
    first = found[0]
    for rank, kinds in enumerate(found):
        for name in sorted({*first, *kinds}):
            if kinds.get(name) != first.get(name):
                raise ValueError(f"all ranks need the same buffers at the end of a round: {name} is "
                                 f"{kinds.get(name, 'missing')} on rank {rank} and {first.get(name, 'missing')} on "
                                 f"rank 0. {advice}")


def _answer(octets: Dict[int, torch.Tensor], weights: Dict[int, float], like: torch.Tensor) -> bytes:
    """A buffer of all ranks in the round, and what it becomes: values that differ become their mean if they are floats,
    else those of the first rank."""
    fault, result = 0, next(iter(octets.values())).clone()
    if _has_mean(like):
        each = [values.view(-1, like.element_size()) for values in octets.values()]
        equal = torch.stack([(values == each[0]).all(1) for values in each]).all(0)
        wide = torch.complex128 if like.is_complex() else torch.float64
        values = [piece.clone().view(like.dtype).to(wide) for piece in octets.values()]
        for rank, value in zip(octets, values):
            if not fault and not torch.isfinite(value[~equal]).all():
                fault = rank + 1
        total = sum(weights[rank] for rank in octets)
        mean: Any = sum(weights[rank] / total * value for rank, value in zip(octets, values))
        result = mean.to(like.dtype).view(torch.uint8).view(-1, like.element_size())
        result[equal] = each[0][equal]
        result = result.view(-1)
    return _FAULT.pack(fault) + _bytes(result)


def _has_mean(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _not_finite(name: str, rank: int, step: int) -> StepError:
    sentence = f'rank {rank}: NaN or infinity in buffer "{name}"'
    return StepError(Status.STEP, sentence, Outcome(
        status=Status.STEP, cause=Status.NONFINITE, step=step, rank=rank, tensor=None, taken=None, unknown=0, missing=0,
        sentence=sentence))


def _digest(octets: Any) -> bytes:
    return hashlib.blake2b(octets, digest_size=_DIGEST).digest()


def _octets(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu").contiguous().view(-1).view(torch.uint8)


def _view(octets: torch.Tensor) -> memoryview:
    return borrowed(octets.data_ptr(), len(octets), octets)


def _bytes(octets: torch.Tensor) -> bytes:
    return ctypes.string_at(octets.data_ptr(), len(octets)) if len(octets) else b""
