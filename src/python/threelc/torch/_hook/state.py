# SPDX-License-Identifier: MIT
"""What the communication hook of DistributedDataParallel keeps, and how it exchanges gradients in a thread."""
from __future__ import annotations

import warnings
import weakref
from dataclasses import replace
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Union

import torch

from ... import exchange
from ..._c import DType
from ..._errors import Error, Status, StepError
from ...codec_strings import check_codec
from ...context import Context
from .._common.device import place_of
from .._common.groups import DTYPES, Clock, Group, ring_bytes
from .._common.jobs import Job
from .._common.log import Log
from .._common.moments import MOMENTS, Moments
from .._common.replicas import Replicas
from .._common.signals import SignalsWait
from .._common.starving import Starving, residual_ratios
from .._common.states import GROUP, MADE, RANKS, TRAFFIC, Kind, Optionally, check_made, made_with, plain, states_for
from .._common.transport import Transport
from .._device.streams import fork_join
from .arrival import Arrival
from .arrival_jobs import ArrivalJobs
from .counts import Counts, Stats, Step
from .places import Places, in_order, not_taken, shaped
from .settings import Settings

STATE_VERSION = 1  # of state_dict()
_COUNTS = {**TRAFFIC, "steps": int, "float_steps": int, "skipped": int, "dropped": int, "thread_seconds": float}
_STATE = Kind("register()", STATE_VERSION, {
    **RANKS, **MOMENTS, "steps": int, "scale": Optionally(float), "counts": Optionally(_COUNTS), "made": MADE,
    "orders": Optionally({str: [int]}), "changed": Optionally({"codec": str, "pull": Optionally(str)}),
    "groups": [{**GROUP, "dtype": int, "push": Optionally(str), "pull": Optionally(str)}]}, changes=True)


class DDPState:
    """The state of the hook; register() makes it. It belongs to one DistributedDataParallel module.

    Residuals are kept by the names of parameters. A thread of its own runs all collectives, in the order in which
    buckets arrive, on a process group of its own, while the backward pass goes on.
    """

    def __init__(self, model: Any, settings: Settings, transport: Transport, scaler: Any, seed: int,
                 threads: Optional[int], quantize: str, residual_dtype: torch.dtype) -> None:
        self._jobs = ArrivalJobs(transport, (p.device for p in model.module.parameters()))
        self._settings = settings
        self._transport = transport
        self._scaler = scaler
        self._seed = seed
        self._threads = threads
        self._quantize = quantize
        self._residual_dtype = residual_dtype
        self._made = made_with(settings.codec, settings.min_numel, settings.pull, settings.mode)
        self._made.update(momentum_correction=settings.momentum_correction, second_moment=settings.second_moment)
        self._moments = Moments(settings.momentum_correction, settings.second_moment)
        self._changed: Optional[Dict[str, Optional[str]]] = None  # by set_codec()
        self._places = Places(model.module)
        parameters = {name: p for name, p in model.module.named_parameters() if name not in model.parameters_to_ignore}
        self._replicas = Replicas(settings.compare_every, lambda: parameters, threads)
        self._finds_unused: bool = model.find_unused_parameters
        self._results: List[Tuple[str, Any, torch.Tensor]] = []  # of this step: name, parameter, what it should get
        has_feedback = Context(1, settings.codec).residual is not None
        self.residuals: Dict[str, torch.Tensor] = {}
        """what was not sent yet, flat, by parameter; empty if the codec keeps no residual"""
        self._kept = self.residuals if has_feedback else None
        self._groups: Dict[str, Group] = {}  # by the name of each of its parameters
        self._waiting: Dict[str, Tuple[Arrival, int, int]] = {}  # parameters whose group is not complete yet
        self._order: List[Group] = []
        self._scale: Optional[float] = None
        self._scale_known = True  # of this step
        self._started = 0  # steps whose first bucket has arrived
        self._waits: Callable[[], Optional[SignalsWait]] = lambda: None  # of this step
        self._joined = False  # in this step: the rank has run out of data
        self._trained = {plain(name) for name, p in parameters.items() if p.requires_grad}
        self._seen: Set[str] = set()  # by the compiled reducer in this step
        self._step = Step()
        self._counts = Counts()
        self._clock = Clock()
        self._failure: Optional[BaseException] = None  # to be raised at the end of the backward pass
        self._broken: Optional[BaseException] = None  # no step can succeed any more
        self._warnings: List[str] = []  # to be given at the end of the backward pass
        self._warned = False  # that a gradient was not finite
        self._starving = Starving()
        self._log = Log(transport.rank)

    def _put(self, job: Job) -> None:
        """Hands a job to the thread. An exception in it reaches the backward pass, and ends the other ranks'."""
        self._jobs.guard(job, self._failed)

    # ---- the hook: buckets arrive ----

    def _bucket_arrived(self, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        try:
            if bucket.index() == 0:
                self._begin_step()
            arrival = self._jobs.arrived(bucket.buffer())
        except BaseException as error:
            self._give_up(error)
            raise
        try:
            parameters = bucket.parameters()
            names = [self._places.name_of(parameter) for parameter in parameters]
            if arrival.buffer.is_sparse or any(parameter.is_complex() for parameter in parameters):
                # Of complex parameters the buffer has pairs of floats, and bucket.gradients() half of them.
                arrival.as_floats(names)
            else:
                gradients = bucket.gradients()
                start = arrival.buffer.storage_offset()
                arrival.parts = [(name, gradient.storage_offset() - start, gradient.numel())
                                 for name, gradient in zip(names, gradients)]
                if self._finds_unused:
                    self._results += zip(names, parameters, gradients)
            self._follow_scale()
            self._take(arrival)
        except BaseException as error:
            self._give_up(error, arrival)
        if bucket.is_last():
            self._put(self._end_step)
            if not self._joined:  # the pass of a reentrant checkpoint, in which the first bucket came, may have ended
                torch.autograd.Variable._execution_engine.queue_callback(
                    partial(self._backward_ends, self._waits() or SignalsWait()))
        return arrival.future

    def _gradient_arrived(self, gradient: torch.Tensor, parameter: Any) -> None:
        """The mean is written into the gradient before this returns."""
        name = self._places.name_of(parameter)
        if name in self._seen:  # the step before had no gradients of some parameters
            self._compiled_step_ends()
        if not self._seen:
            self._begin_step(compiled=True)
        self._seen.add(name)
        flat = gradient.detach() if gradient.is_sparse else in_order(gradient.detach(), parameter)
        arrival = self._jobs.arrived(flat)
        try:
            arrival.parts, arrival.whole = [(name, 0, flat.numel())], gradient.is_sparse
            self._follow_scale()
            self._take(arrival)
            if name in self._waiting:
                raise ValueError(f"{name} travelled with other parameters when this state was saved")
        except BaseException as error:
            self._give_up(error, arrival)
        arrival.future.wait()
        if gradient.is_sparse or flat.data_ptr() != gradient.data_ptr():
            gradient.copy_(flat if gradient.is_sparse else shaped(flat, parameter))
        if self._seen >= self._trained:
            self._compiled_step_ends()
        self._tell()

    def _compiled_step_ends(self) -> None:
        self._seen.clear()
        self._put(self._end_step)

    def _give_up(self, error: BaseException, arrival: Optional[Arrival] = None) -> None:
        """Something failed before the thread had it, so other ranks would wait for what this one does not send."""
        def job() -> None:
            self._failed(error)
            if arrival is not None:
                arrival.give_up()

        self._put(job)

    def _begin_step(self, compiled: bool = False) -> None:
        self._joined = False
        try:
            if not compiled:
                # Nobody but PyTorch has the object, so signals do not wait for a backward pass that is broken off.
                waits = SignalsWait()
                torch.autograd.Variable._execution_engine.queue_callback(lambda: waits)
                self._waits = weakref.ref(waits)
                waits.__enter__()
        except RuntimeError:  # not in a backward pass: DistributedDataParallel.join() shadows those of other ranks
            self._joined = True
            if self._broken is not None:
                raise self._broken
        if self._replicas.due(self._started):
            when, joined = f"after step {self._started}", self._joined
            self._put(self._jobs.after_now(lambda: self._replicas.compare(self._transport, when, not joined)))
        self._started += 1
        self._scale_known = self._scaler is None

    def _follow_scale(self) -> None:
        """Once in a step: if the loss scale is another one than in the step before, residuals become so, too."""
        if self._scale_known:
            return
        self._scale_known = True
        before, self._scale = self._scale, float(self._scaler.get_scale())
        if before is not None and before != self._scale:
            factor = self._scale / before
            self._put(lambda: self._scale_residuals(factor))

    def _take(self, arrival: Arrival) -> None:
        """Hands the parameters of a bucket to the thread, as soon as their groups are complete."""
        dtype = DTYPES.get(arrival.buffer.dtype)
        # After set_codec("raw") the groups that there are send their residuals.
        as_floats = self._settings.codec == "raw" and not any(name in self._groups for name, _, _ in arrival.parts)
        if dtype is None or arrival.whole or as_floats or self._started <= self._settings.warmup_steps:
            self._put(lambda: self._all_reduce(arrival))
            return
        fresh = [(name, n) for name, _, n in arrival.parts if name not in self._groups]
        if fresh:
            self._add(self._make_group([name for name, _ in fresh], [n for _, n in fresh], dtype,
                                       arrival.buffer.device))
        for name, first, n in arrival.parts:
            self._waiting[name] = (arrival, first, n)
        complete = {id(self._groups[name]): self._groups[name] for name, _, _ in arrival.parts}
        for group in complete.values():
            if all(name in self._waiting for name in group.names):
                self._put(self._job_of(group, [self._waiting.pop(name) for name in group.names], self._joined))

    def _make_group(self, names: Sequence[str], sizes: Sequence[int], dtype: DType, device: torch.device,
                    saved: Optional[Dict[str, Any]] = None, called: Optional[Sequence[str]] = None) -> Group:
        """saved: it was made once, and will go on from this state. called: as in Group."""
        settings = self._settings
        push, pull = settings.codec, settings.pull
        if saved is not None and saved.get("push"):  # set_codec() may have been called before it was made
            push, pull = saved["push"], saved.get("pull")
        config = exchange.Config(
            workers=self._transport.world, push=push, pull=pull, reserve=settings.all_reserved() or None,
            gather=settings.mode == "gather", min_n=settings.min_numel, dtype=dtype, seed=self._seed,
            threads=self._threads)
        return Group(config, self._transport.rank, names, sizes, self._kept, called=called,
                     device=place_of(self._quantize, [device], self._moments.on_host),
                     residual_dtype=self._residual_dtype)

    def _add(self, group: Group) -> None:
        self._order.append(group)
        for name in group.names:
            self._groups[name] = group

    def _backward_ends(self, waits: SignalsWait) -> None:
        """Called when all buckets have arrived, before DistributedDataParallel waits for them."""
        if self._waiting:
            self._put(self._missing_job())
        # This one is called after that of DistributedDataParallel: an exception must not keep it from cleaning up.
        torch.autograd.Variable._execution_engine.queue_callback(partial(self._step_ended, waits))

    def _missing_job(self) -> Job:
        waiting, self._waiting = self._waiting, {}

        def job() -> None:
            missing = sorted({name for group in self._order for name in group.names
                              if name not in waiting and any(other in waiting for other in group.names)})
            self._failure = self._failure or Error(
                Status.ORDER, f"no gradients of {', '.join(missing)} came, which travel with others")
            for arrival, first, n in waiting.values():
                arrival.spoil(first, n)
                arrival.finish(1)

        return job

    def _step_ended(self, waits: SignalsWait) -> None:
        """Called after DistributedDataParallel has written the gradients."""
        with waits:
            self._jobs.forget()
            try:
                self._keep_unused()
            except BaseException as error:
                self._give_up(error)
                raise
            self._tell()

    def _keep_unused(self) -> None:
        """A parameter that no rank used does not get what came out of the residuals, so it goes back: with the same
        values on all ranks, the next mean has them again."""
        results, self._results = self._results, []
        for name, parameter, result in results:
            back = not_taken(result, parameter) if name in self.residuals else None
            if back is not None:
                residual = self.residuals[name]
                with fork_join(residual.device):
                    residual += back.float().to(residual.device)

    def _tell(self) -> None:
        """Warnings and exceptions of the thread, where the user sees them."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        try:
            while self._warnings:
                warnings.warn(self._warnings.pop(0), RuntimeWarning)
        except BaseException as error:  # a warning that is an error
            self._give_up(error)
            raise

    # ---- the thread: collectives, one after the other ----

    def _job_of(self, group: Group, members: Sequence[Tuple[Arrival, int, int]], joined: bool) -> Job:
        def job() -> None:
            try:
                self._check_broken()
                gradients = [(arrival.gradients() if group.on_device else arrival.host())[first:first + n]
                             for arrival, first, n in members]
                views = gradients if group.on_device else [arrival.results(first, n) for arrival, first, n in members]
                self._counts.float_bytes += ring_bytes(views, self._transport.world)
                if joined or not self._moments.active:
                    group.run(self._transport, None if joined else gradients, views, self._clock)
                else:
                    self._moments.run(group, self._transport, gradients, views, self._clock)
                self._step.taken += sum(group.sizes)
            except BaseException as error:
                for arrival, first, n in members:
                    arrival.spoil(first, n)
                self._failed(error)
            finally:
                for arrival, _, _ in members:
                    arrival.finish(1)

        return job

    def _all_reduce(self, arrival: Arrival) -> None:
        """The mean as DistributedDataParallel computes it, in floats."""
        try:
            self._check_broken()
            self._step.floats = self._step.floats or not arrival.whole
            self._check_finite(arrival)
            with self._clock.sending("floats"):
                self._counts.float_bytes += self._mean_of(arrival)
        except BaseException as error:
            arrival.spoil()
            self._failed(error)
        finally:
            arrival.finish(len(arrival.parts))

    def _mean_of(self, arrival: Arrival) -> int:
        """Returns the bytes sent for it."""
        if not self._moments.active:
            return arrival.average(self._transport)
        if arrival.whole:
            raise ValueError("momentum_correction and second_moment take dense gradients of real numbers, and "
                             f"{arrival.parts[0][0]} has others")
        moved = self._moments.move_all(arrival.host(), arrival.parts)
        sent = arrival.average(self._transport)
        if torch.isfinite(arrival.host()).all():  # on all ranks alike; else the optimizer leaves the step out
            self._moments.keep([name for name, _, _ in arrival.parts], moved)
        return sent

    def _check_finite(self, arrival: Arrival) -> None:
        if not self._warned and self._scaler is None:
            name = arrival.nonfinite()
            if name is not None:
                self._warn(f'rank {self._transport.rank}: NaN or infinity in the gradient of tensor "{name}"')

    def _warn(self, what: str) -> None:
        """Once, that a gradient was not finite, where no loss scaler expects it."""
        if not self._warned:
            self._warned = True
            self._warnings.append(
                f"threelc: {what}, in step {self._counts.steps + 1}. All ranks get NaN in its bucket, and an optimizer "
                'without a loss scaler makes the model NaN: find the cause, or give register() on_nonfinite="raise" '
                "or the scaler")

    def _check_broken(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _failed(self, error: BaseException) -> None:
        """A group's step failed. A gradient that is not finite concerns this step alone, anything else all to come."""
        if isinstance(error, StepError) and error.outcome is not None and error.outcome.cause == Status.NONFINITE:
            self._step.failure = error
            if self._settings.on_nonfinite == "raise":
                self._failure = error
            elif self._scaler is None:
                rank = "" if error.sentence.startswith("rank") else f"rank {self._transport.rank}: "
                self._warn(rank + error.sentence)
            return
        if self._broken is None:
            self._broken = error
            if not isinstance(error, StepError):
                self._transport.abort()  # so that other ranks do not wait for this one
        self._failure = self._broken

    def _end_step(self) -> None:
        step, self._step = self._step, Step()
        verdict = self._counts.end_step(step, self._clock, self._broken is None, self._settings.codec)
        starves = self._starving.look(self._object_stats)
        if self._transport.rank == 0:
            self._warnings += filter(None, (verdict, starves))
        self._log.look(self._counts.steps, self._stats)

    def _stats(self) -> Stats:
        return Stats(
            **self._counts.saved(self._transport, self._clock, self._jobs.busy),
            **residual_ratios(self._object_stats()),
            residual_norms={name: float(residual.float().norm()) for name, residual in self.residuals.items()})

    def _object_stats(self) -> List[exchange.Stats]:
        return [group.stats for group in self._order]

    def _scale_residuals(self, factor: float) -> None:
        for group in self._order:
            group.residual_scale(factor)
        self._moments.scale(factor)

    # ---- for users ----

    @property
    def stats(self) -> Stats:
        """Bytes and seconds since register(), and what residuals have."""
        result: Stats = self._jobs.call(self._stats)
        return result

    def log_every(self, steps: int) -> None:
        """From now on rank 0 logs what a step sends, and what it takes, in every so many steps, at level INFO of the
        logger "threelc". 0: never."""
        self._jobs.call(lambda: self._log.set_every(steps, self._stats()))

    def set_codec(self, codec: str, pull: Optional[str] = None) -> None:
        """Changes the codec to a reserved one between two steps, on all ranks alike. Residuals stay; raw sends them."""
        check_codec(codec)

        def change() -> None:
            for group in self._order:
                group.set_codec(codec, pull or exchange.pull_codec(codec))

        self._jobs.call(change)
        self._settings = replace(self._settings, codec=codec, pull=pull)
        self._changed = {"codec": codec, "pull": pull}

    def flush(self) -> None:
        """Between two steps, on all ranks together, for the end of a training: sends what residuals hold as floats, as
        a step with gradients of 0 would. The gradient of each parameter becomes that, or None where no residual was
        kept, for a last step of the optimizer with a rate above 0. Residuals are 0 then, on all ranks."""
        def send() -> List[Tuple[str, torch.Tensor]]:
            self._check_broken()
            return [sent for group in self._order for sent in zip(group.names, group.flush(self._transport))]

        self._places.set_gradients(dict(self._jobs.call(send)) if self._kept is not None else {})

    def state_dict(self) -> Dict[str, Any]:
        """Residuals and steps of this rank, by names of parameters, and its stats. Each rank saves its own."""
        def collect() -> Dict[str, Any]:
            return _STATE.saved(self._transport, {
                "made": dict(self._made), "changed": self._changed and dict(self._changed),
                "orders": self._places.orders(),
                **self._moments.state_dict(), "steps": self._started, "scale": self._scale,
                "counts": self._counts.saved(self._transport, self._clock, self._jobs.busy),
                "groups": [self._saved_group(group) for group in self._order]})

        result: Dict[str, Any] = self._jobs.call(collect)
        return result

    def load_state_dict(self, states: Union[Dict[str, Any], Sequence[Dict[str, Any]]], lost: bool = False) -> None:
        """Goes on from the state_dict() of this rank, with the same bits. On another number of ranks give each the
        states of all: no residual is lost. lost: states that are missing are lost, and their residuals with them; so is
        what the state has of parameters that are not trained here. Call it before the first backward pass. An exception
        changes nothing."""
        found = states_for(states, _STATE, self._transport, lost)
        if self._order:
            raise ValueError("states are loaded before the first backward pass")
        groups = found[0]["groups"]
        if groups:
            check_made(_STATE, found, self._made, [n for group in groups for n in group["sizes"]])
        self._places.check(found, lost)
        self._jobs.call(lambda: self._load(found, lost))

    def _saved_group(self, group: Group) -> Dict[str, Any]:
        config = group.allreduce.config
        return {**group.state_dict(), "dtype": int(group.dtype), "push": config.push, "pull": config.pull}

    def _load(self, states: List[Dict[str, Any]], lost: bool) -> None:
        try:
            groups = [group for i in range(len(states[0]["groups"]))
                      for group in self._loaded([state["groups"][i] for state in states], lost)]
        except BaseException:
            self.residuals.clear()  # of groups that nobody has
            raise
        for group in groups:
            self._add(group)
        self._started = states[0]["steps"]
        self._scale = states[0].get("scale")
        changed = states[0].get("changed")
        if changed:
            for group in groups:  # their states had these codecs; now they know it, too
                group.set_codec(changed["codec"], changed.get("pull") or exchange.pull_codec(changed["codec"]))
            if states[0].get("made") == self._made:
                self._settings = replace(self._settings, codec=changed["codec"], pull=changed.get("pull"))
                self._changed = dict(changed)
        busy = self._counts.load(states, self._transport, self._clock)
        self._jobs.busy = self._jobs.busy if busy is None else busy
        self._moments.load(states)

    def _loaded(self, saved: List[Dict[str, Any]], lost: bool) -> List[Group]:
        """A group that goes on from the states of one rank or of all; none, if none of its parameters is here."""
        members = self._places.members(saved[0])
        if not members:
            return []
        names, called, sizes = zip(*members)
        group = self._make_group(names, sizes, DType(saved[0]["dtype"]), self._places.device_of(names[0]), saved[0],
                                 called)
        group.check_states(saved, lost)
        group.load_states(saved, lost)
        return [group]
