# SPDX-License-Identifier: MIT
"""The optimizer where the parts of a model have their owners (3LC, section 2 and Figure 2).

Each rank pushes its gradients. The owner of a part averages what comes, takes the optimizer's step on it, and answers
all ranks with the change, compressed with a residual of its own. Where answers go as floats, they are the weights: a
difference, rounded, and added again would not be the weights that the optimizer has made.
"""
from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any, Deque, Dict, List, Mapping, Optional, Sequence, Set, Union

import torch

from ... import exchange
from ..._errors import OrderError, Status, StepError
from ...codec_strings import check_codec
from ...context import Context
from .._common.arguments import check_numbers, one_of, scaler_of, shown, weight_of, whole
from .._common.buffers import BuffersOfOne
from .._common.device import check_quantize, place_of
from .._common.groups import ring_bytes
from .._common.module import HOST, Model, add, assign, flat, flat_view, is_rounded, rounded, size_of
from .._common.moments import MOMENTS, Moments, check_moments
from .._common.optimizer import (InPlaceOfOptimizer, Maker, Patience, check_closure, check_maker, check_trains,
                                 load_optimizer, made_optimizer, warn_second_moment)
from .._common.replicas import Replicas
from .._common.runners import Background, Inline, nothing
from .._common.scaler import inverse_of, scaler_that_steps, tell
from .._common.signals import signals_wait
from .._common.starving import LoopStats, Starving, residual_ratios, warn_starving
from .._common.states import (MADE, RANKS, TENSORS, TRAFFIC, Kind, Optionally, check_made, listed_states, made_with,
                              states_for)
from .._common.transport import Transport
from .backup import BackupMail
from .bucket_states import BUCKETS, check_buckets, compare_buckets, load_buckets, saved_buckets, states_of_servers
from .buckets import Bucket, in_buckets, spread
from .clipping import clip
from .mail import Mail
from .overlap import Overlap
from .param_groups import ParameterGroups
from .places import Place, optimizer_for, optimizer_state, values_at

_YES, _NO = b"\x01", b"\x00"
FORM = {**RANKS, "servers": int, "steps": int, "failed": int, "late": Optionally(int), "traffic": TRAFFIC,
        "masters": TENSORS, **BUCKETS, "places": [(str, int, int)], "parts": [torch.Tensor], **MOMENTS,
        "optimizer": {"parts": [Mapping], "groups": [Mapping]}, "made": MADE}


@dataclass(frozen=True)
class OwnerStats(LoopStats):
    """What this rank did since the start, also before it was stopped and went on from a state_dict(). float_bytes: of
    gradients."""

    steps: int
    failed: int
    """steps that changed nothing, as no gradient was finite, or as a GradScaler skipped them"""


class OptimizerAtOwners(InPlaceOfOptimizer):
    """What PushPull and ShardedOptimizer have in common. The first `servers` ranks are owners."""

    _kind: Kind  # of states

    def __init__(self, model: Any, optimizer: Maker, servers: Optional[int], *, codec: str, pull: Optional[str],
                 groups: Optional[Sequence[Mapping[str, Any]]], max_norm: Optional[float], scaler: Any, buffers: str,
                 min_numel: int, seed: int, threads: Optional[int], process_group: Any,
                 momentum_correction: Optional[float], second_moment: Optional[float], warmup_steps: int,
                 compare_every: int, quantize: str, residual_dtype: torch.dtype, bucket_mb: Optional[float] = None,
                 backup: int = 0) -> None:
        """servers: None: all ranks. bucket_mb: what is sent goes in such buckets, in a thread. None: at once, in
        step(). backup: as in PushPull. The rest as in ShardedOptimizer."""
        check_codec(codec)
        if pull is not None:
            check_codec(pull)
        check_numbers(min_numel, seed, threads)
        check_moments(momentum_correction, second_moment, codec)
        check_quantize(quantize, momentum_correction, codec, residual_dtype)
        self._moments = Moments(momentum_correction, second_moment)
        self._warmup_steps = whole(warmup_steps, "warmup_steps", 0)
        self._model = Model(model, type(self).__name__, may_share=False)
        check_maker(optimizer, "optimizer", "lambda p: torch.optim.SGD(p, lr=0.1)")
        self._groups = ParameterGroups(groups, self._model)
        one_of(buffers, ("own", "first"), "buffers")
        self._backup = whole(backup, "backup", 0)
        self._scaler = scaler_of(scaler)
        self._check_backup("scaler", self._scaler)
        self._made = {**made_with(codec, min_numel, pull), "momentum_correction": momentum_correction,
                      "second_moment": second_moment}
        self.max_norm = max_norm
        transport = Transport(process_group)
        if whole(backup, "backup", 0, transport.world - 1):
            transport.check_gloo(f"backup={backup}")
        servers = transport.world if servers is None else whole(servers, "servers", 1, transport.world)
        transport.agree({"codec": codec, "pull": pull, "servers": servers, "min_numel": min_numel, "seed": seed,
                         "groups": self._groups.summary(), "max_norm": max_norm, "buffers": buffers,
                         "scaler": self._scaler is not None, "momentum_correction": momentum_correction,
                         "second_moment": second_moment, "warmup_steps": warmup_steps, "bucket_mb": bucket_mb,
                         "backup": backup, "compare_every": compare_every})
        self._model.start(transport)
        self._parameters = self._model.parameters
        self._replicas = Replicas(compare_every, lambda: self._parameters, threads)
        config = exchange.Config(workers=transport.world, servers=servers, push=codec, pull=pull, min_n=min_numel,
                                 backup=backup, seed=seed, threads=threads)
        sizes = {name: size_of(p) for name, p in self._parameters.items()}
        as_weights = {name for name, n in sizes.items()
                      if n < min_numel or (pull or exchange.pull_codec(codec)) == "raw"}
        self._servers = servers
        keeps = Context(1, codec).residual is not None
        place = place_of(quantize, [p.device for p in self._parameters.values()], self._moments.on_host, codec,
                         residual_dtype)
        self._place = place or HOST  # of gradients, of what is pulled, and of float32 weights of other dtypes
        weights = {name: flat(p) for name, p in self._parameters.items()}
        self._buckets = [Bucket(config if bucket_mb is None else spread(config, some), transport.rank, some, as_weights,
                                keeps, weights, i % servers, place, residual_dtype)
                         for i, some in enumerate(in_buckets(sizes, bucket_mb))]
        self._compared = False  # states, with those of other ranks, before the first push
        self._sent = 0  # buckets in this step
        self._answered: Deque[Bucket] = deque()  # whose answers are to be taken
        self._failure: Optional[StepError] = None  # of a step, to be raised
        self._masters = {name: weights[name].to(self._place) for name, p in self._parameters.items() if is_rounded(p)}
        self._parts = [part for bucket in self._buckets for part in bucket.parts]
        given, self._given = self._groups.of([(name, part) for (name, _, _), part in zip(self._places(), self._parts)])
        self.optimizer = made_optimizer(optimizer, given, self._given, "optimizer")
        check_closure(self.optimizer, "optimizer")
        if keeps and second_moment is None and transport.rank == 0:
            warn_second_moment(self.optimizer, codec)
        super().__init__(self.optimizer, transport, self._model)
        self._buffers = BuffersOfOne(self._model) if buffers == "first" else None
        self._patience = Patience("the gradients of this rank were left out")
        self._starving = Starving()
        self._grad_norm: Optional[float] = None
        self._steps = self._failed = self._late = 0
        self._mail = BackupMail(transport, servers, self._clock) if backup else Mail(transport, servers)
        self._runner: Union[Inline, Background] = Inline()
        self._overlap: Optional[Overlap] = None
        if bucket_mb is not None:
            self._runner = Background("threelc-owners", transport, self._model.device)
            # with a scaler step() looks at all gradients before any is sent
            self._overlap = Overlap(self._model, [bucket.names for bucket in self._buckets], self._needed,
                                    self._full if self._scaler is None else None)

    @property
    def max_norm(self) -> Optional[float]:
        """Gradients are clipped to it; None: they are not. On all ranks alike."""
        return self._max_norm

    @max_norm.setter
    def max_norm(self, max_norm: Optional[float]) -> None:
        if max_norm is not None and (isinstance(max_norm, bool) or not hasattr(max_norm, "__float__")
                                     or not float(max_norm) > 0):
            raise ValueError(f"max_norm should be a number above 0, or None, not {shown(max_norm)}")
        if max_norm is not None and self._made["second_moment"] is not None:
            raise ValueError("max_norm is for means of gradients, and with second_moment ranks send what has another "
                             "norm: clip the gradients of each rank before step()")
        self._check_backup("max_norm", max_norm)
        self._max_norm = None if max_norm is None else float(max_norm)

    def _check_backup(self, name: str, value: Any) -> None:
        """ValueError: it would need all ranks in each step."""
        if self._backup and value is not None:
            raise ValueError(f"{name} needs all ranks in each step, and with backup={self._backup} servers go on "
                             f"without the slowest: leave out {name} or backup")

    @property
    def grad_norm(self) -> Optional[float]:
        """The 2-norm of the mean of the gradients in the last step, before it was clipped: the same on all ranks. None:
        there was no step, or no max_norm."""
        return self._grad_norm

    def _places(self) -> List[Place]:
        """What this rank owns of the model."""
        return [place for bucket in self._buckets for place in bucket.places()]

    def _weights_now(self, name: str) -> torch.Tensor:
        """The float32 weights of a parameter, flat, perhaps where they are."""
        return self._masters[name] if name in self._masters else flat_view(self._parameters[name], self._place)

    def _weights(self, name: str) -> torch.Tensor:
        """The same, as a copy. Where others have written into it, they are its values."""
        parameter = self._parameters[name]
        values = flat(parameter, self._place)
        if name not in self._masters:
            return values
        return torch.where(rounded(self._masters[name], parameter) == values, self._masters[name], values)

    def _set_weights(self, name: str, weights: torch.Tensor) -> None:
        assign(self._parameters[name], weights)
        if name in self._masters:
            self._masters[name] = weights.to(self._place)

    def _check_inside(self) -> None:
        check_trains(self.optimizer, self._given, "optimizer")

    # ---- a step ----

    @signals_wait
    def step(self, weight: float = 1.0, **scaling: Any) -> None:
        """Pushes the gradients, and pulls the change of the model. weight: of these gradients in the mean.

        A gradient that is not finite is left out; if that happens three times in a row, a warning names the rank and
        the parameter. StepError: there was none that is finite; the model stays what it was. If a GradScaler calls it,
        a gradient that is not finite on any rank skips the step on all.
        """
        self._take()
        self._runner.put(nothing)()  # the check below may end what is under way
        self._check()
        scaler = scaler_that_steps(self, self._scaler, scaling)
        weight = self._weight(weight)
        rest = self._buckets[self._sent:]
        gradients = [[self._gradient(self._parameters[name]) for name in bucket.names] for bucket in rest]
        if scaler is not None and self._is_skipped(scaler, [values for some in gradients for values in some]):
            self._steps += 1
            self._failed += 1
            return
        for bucket, values in zip(rest, gradients):
            self._push(bucket, values, weight)
        self._steps += 1
        self._runner.put(nothing)()
        if self._replicas.due(self._steps - 1) and not self._backup:  # with it ranks are not in the same step
            self._replicas.compare(self._transport, f"after step {self._steps - 1}")
        self._begin_answers()
        if self._overlap is None:
            self._take()
        else:
            self._overlap.begin()
        self._raise_failure()

    def _weight(self, weight: float) -> float:
        """Checked."""
        weight = weight_of(weight)
        if self._overlap is not None and weight != 1:
            raise ValueError("with overlap=True gradients are on their way before step() is called, so their weight is "
                             f"1, not {weight}")
        return weight

    def _push(self, bucket: Bucket, gradients: List[torch.Tensor], weight: float) -> None:
        if not self._compared:
            self._compared = True
            self._runner.put(self._compare)
        self._sent += 1
        self._float_bytes += ring_bytes(gradients, self._transport.world)
        if self._moments.active:
            gradients = self._moments.moved(bucket.names, gradients)
            bucket.moved = [u.clone() for u in self._moments.masked(gradients)]
        bucket.take(gradients, {name for name in bucket.names if self._parameters[name].grad is None})
        bucket.go_as_floats(self._steps < self._warmup_steps)
        self._runner.put(partial(bucket.push, weight, self._mail, self._clock))

    def _compare(self) -> None:
        """ValueError, on all ranks: they went on from states of different runs."""
        try:
            compare_buckets(self._transport, self._buckets)
        except ValueError:
            self._compared = False
            raise

    def _begin_answers(self) -> None:
        """All pushes have come: the optimizer's step, and answers, first to what the next forward pass reads first."""
        left_out = next(filter(None, (bucket.left_out for bucket in self._buckets)), "")
        if left_out:
            self._patience.left_out(left_out)
        else:
            self._patience.went_well()
        with self._clock.coding("average"):
            reduced = [bucket.reduce(self._weights, self._mail) for bucket in self._buckets]
        if self._max_norm is not None:
            with self._clock.sending("norms"):
                means = [parameter.grad for parameter in self._parts if parameter.grad is not None]
                self._grad_norm = clip(means, self._max_norm, self._transport)
        changes = self._update(reduced)
        buffers = self._buffers.message() if self._buffers is not None and self._transport.rank == 0 else b""
        self._sent = 0
        for i, bucket in reversed(list(enumerate(self._buckets))):
            first = i == len(self._buckets) - 1
            self._answered.append(bucket)
            bucket.wait = self._runner.put(partial(self._answer, bucket, changes[i], first, buffers if first else b""))

    # ---- what overlaps with computing ----

    def _full(self, i: int) -> None:
        """All gradients of a bucket are there."""
        bucket = self._buckets[i]
        self._take({*bucket.names})
        self._push(bucket, [self._gradient(self._parameters[name]) for name in bucket.names], 1.0)

    def _needed(self, names: Optional[Set[str]]) -> None:
        """Parameters are about to be read. None: all."""
        if self._answered:
            if self._answered[0] is self._buckets[-1]:
                self._take({*self._buckets[-1].names})  # and buffers, which are taken with it
            self._take(names)

    @signals_wait
    def _take(self, names: Optional[Set[str]] = None) -> None:
        """Waits for the answers of these parameters, and of those that were answered before. None: of all."""
        while self._answered and (names is None or any(not names.isdisjoint(b.names) for b in self._answered)):
            bucket = self._answered[0]
            bucket.wait()
            self._answered.popleft()
            self._move(bucket)
            self._failure = self._failure or bucket.failure
            if not self._answered:
                self._end_step()

    def _end_step(self) -> None:
        """All answers were taken."""
        self._failed += any(bucket.failure is not None for bucket in self._buckets)
        warn_starving(self._starving.look(self._object_stats), self._transport.rank)
        self._tell(self._steps)

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _all_taken(self) -> None:
        """Nothing is under way; with backup workers all ranks come together. StepError: the last step failed.
        OrderError: gradients are on their way."""
        if self._sent:
            raise OrderError(Status.ORDER, "gradients of this step are on their way: call step() first")
        self._take()
        self._raise_failure()
        self._runner.put(nothing)()
        self._mail.meet()

    # ---- its parts ----

    def _gradient(self, parameter: torch.Tensor) -> torch.Tensor:
        if parameter.grad is None:
            return torch.zeros(size_of(parameter), device=self._place)
        gradient = parameter.grad.detach()
        return flat(gradient if gradient.layout == torch.strided else gradient.to_dense(), self._place)

    def _is_skipped(self, scaler: Any, gradients: Sequence[torch.Tensor]) -> bool:
        """Takes the scale from the gradients. Whether a rank has one that is not finite; the scaler is told."""
        inverse = inverse_of(scaler.get_scale())
        for gradient in gradients:
            gradient.mul_(inverse)
        mine = _NO if all(bool(gradient.isfinite().all()) for gradient in gradients) else _YES
        with self._clock.sending("norms"):
            found = any(bool(said[0]) for said in self._transport.all_gather(memoryview(mine)))
        tell(scaler, self, found)
        return found

    def _answer(self, bucket: Bucket, changes: Optional[List[torch.Tensor]], first: bool, buffers: bytes) -> None:
        """Sends the answer of this rank, and pulls those of all owners. first: in this step; buffers come with it."""
        clock = self._clock
        with clock.coding("compress"):
            answer = bucket.answer(changes)
            if buffers:
                answer = memoryview(answer.tobytes() + buffers)
        with clock.sending("answers"):
            answers = self._mail.answer(answer)
        if self._buffers is not None and first:
            try:
                answers[0] = self._buffers.take(answers[0])
            except ValueError:
                self._transport.abort()  # other ranks must not wait for this one
                raise
        with clock.coding("decompress"):
            bucket.pull(answers)
        self._late += bucket.late

    def _update(self, reduced: Sequence[bool]) -> List[Optional[List[torch.Tensor]]]:
        """The optimizer's step. reduced: whether there are means, of each bucket. Returns what its answer sends."""
        before = [bucket.before() if found else None for bucket, found in zip(self._buckets, reduced)]
        if any(reduced) or self._transport.rank >= self._servers:  # of nothing; schedules want to see it
            self.optimizer.step()
        for parameter in self._parts:
            parameter.grad = None
        return [None if old is None else bucket.changes(old) for bucket, old in zip(self._buckets, before)]

    def _move(self, bucket: Bucket) -> None:
        """All take what was pulled. An owner has what all ranks have, and what its answers have not sent yet."""
        for name, values in zip(bucket.names, bucket.values):
            if name in bucket.as_weights:
                self._set_weights(name, values)
            elif name in self._masters:
                self._set_weights(name, self._weights(name).add_(values))
            else:
                add(self._parameters[name], values)
        if self._moments.active and bucket.failure is None and not bucket.left_out:
            self._moments.keep(bucket.names, bucket.moved)
        bucket.follow(self._weights_now)
        bucket.values = []

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self._parameters.values():
            if parameter.grad is not None:
                if set_to_none:
                    parameter.grad = None
                else:
                    parameter.grad.zero_()

    @signals_wait
    def flush(self) -> None:
        """Sends what residuals hold as floats, on all ranks together, for the end of a training: the optimizer takes a
        last step with the mean of those of pushes, and all move by its change and by what owners had not answered.
        Residuals are 0 then, on all ranks."""
        self._all_taken()
        self._check()
        sizes = {name: size_of(p) for name, p in self._parameters.items()}
        residuals = {name: residual for bucket in self._buckets for name, residual in bucket.unsent().items()}
        mean = torch.cat([residuals.get(name, torch.zeros(n)) for name, n in sizes.items()])
        self._transport.all_reduce(mean.div_(self._transport.world))
        means = dict(zip(sizes, torch.split(mean, list(sizes.values()))))
        after = {name: torch.zeros(n) for name, n in sizes.items()}
        for (name, first, n), parameter in zip(self._places(), self._parts):
            parameter.grad = means[name][first:first + n].to(parameter.device, copy=True)
        self.optimizer.step()
        for (name, first, n), parameter in zip(self._places(), self._parts):
            parameter.grad = None
            after[name][first:first + n] = parameter.detach()
        weights = torch.cat(list(after.values()))  # an owner's part is what all have, and what was not answered
        self._transport.all_reduce(weights)
        for bucket in self._buckets:
            bucket.forget()
        for name, values in zip(self._parameters, torch.split(weights, list(sizes.values()))):
            self._set_weights(name, values)

    # ---- what it did, and states ----

    def _object_stats(self) -> List[exchange.Stats]:
        return [stats for bucket in self._buckets for stats in bucket.stats()]

    def _counts(self) -> Dict[str, Any]:
        """Of OwnerStats."""
        found: Dict[str, Any] = self._runner.call(lambda: {
            **self._traffic(), **residual_ratios(self._object_stats()), "steps": self._steps, "failed": self._failed})
        return found

    @signals_wait
    def state_dict(self) -> Dict[str, Any]:
        """Residuals of this rank, float32 weights of parameters of other dtypes, and what it owns: optimizer and parts
        of the model. The model is the caller's to save. Each rank saves its own."""
        self._all_taken()
        return self._kind.saved(self._transport, {
            "made": dict(self._made),
            "servers": self._servers, "steps": self._steps, "failed": self._failed, "late": self._late,
            "traffic": self._traffic(),
            "masters": {name: flat(master) for name, master in self._masters.items()},
            **saved_buckets(self._buckets), "places": self._places(),
            **self._moments.state_dict(), "parts": [flat(part) for part in self._parts],
            "optimizer": optimizer_state(self.optimizer, self._parts)})

    @signals_wait
    def load_state_dict(self, states: Union[Dict[str, Any], Sequence[Dict[str, Any]]], lost: bool = False) -> None:
        """Goes on from the state_dict() of this rank, with the same bits; the caller loads the model, too. On another
        number of ranks or servers give each the states of all: no residual is lost, and what the optimizer keeps for
        each value goes to the owner that has the value now; so it is with other buckets. lost: states of workers that
        are missing are lost, and their residuals with them; those of servers hold the model and are needed. An
        exception changes nothing."""
        self._all_taken()
        every = listed_states(states, self._kind)
        found = states_for(every, self._kind, self._transport, lost)
        check_made(self._kind, found, self._made, map(size_of, self._parameters.values()))
        servers = [] if self._transport.rank >= self._servers else states_of_servers(
            every, self._servers, self._transport.rank, self._buckets, self._places())
        masters = found[0]["masters"]
        for name, master in self._masters.items():
            if name not in masters or masters[name].shape != master.shape:
                raise ValueError(f"the float32 weights of {name} are not in the state")
        check_buckets(self._buckets, found, servers, lost)
        parts = values_at(self._places(), [pair for state in servers for pair in zip(state["places"], state["parts"])])
        load_optimizer(self.optimizer, optimizer_for(  # the last that may fail, and then changes nothing
            self.optimizer, self._parts, self._places(),
            [(state["places"], state["optimizer"]) for state in servers or found]))
        load_buckets(self._buckets, found, servers, lost)
        self._compared = False
        self._moments.load(found)
        self._masters = {name: flat(masters[name], self._place) for name in self._masters}
        for part, values in zip(self._parts, parts):
            assign(part, values)
        self._steps, self._failed = found[0]["steps"], found[0]["failed"]
        self._late = sum(state.get("late") or 0 for state in found
                         if state["rank"] % self._transport.world == self._transport.rank)
        self._load_traffic(found)
