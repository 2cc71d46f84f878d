# SPDX-License-Identifier: MIT
"""What the communication hook of DistributedDataParallel keeps, and the thread that exchanges its gradients."""
from __future__ import annotations

import atexit
import math
import queue
import statistics
import threading
import time
import warnings
import weakref
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Union

import torch

from .. import exchange
from .._c import DType
from .._errors import Error, Status, StepError
from ..codec_strings import check_codec
from ..context import Context
from ._groups import Clock, Group, Traffic, ring_bytes, states_for
from ._transport import Transport

STATE_VERSION = 1  # of state_dict()
DTYPES = {torch.float32: DType.F32, torch.float16: DType.F16, torch.bfloat16: DType.BF16}
_JUDGED_STEPS = 10  # compressed steps after which they are compared with floats


@dataclass(frozen=True)
class Settings:
    """What all ranks must agree on."""

    codec: str
    pull: Optional[str]
    reserve: Tuple[str, ...]
    mode: str
    min_numel: int
    warmup_steps: int
    on_nonfinite: str


@dataclass(frozen=True)
class Stats(Traffic):
    """What this rank did since register()."""

    steps: int
    float_steps: int
    """of them: those that went as floats, at the start"""
    skipped: int
    """steps in which a gradient was not finite on some rank"""
    dropped: int
    """values that other buckets sent in skipped steps: nobody used them, as in float training"""
    thread_seconds: float
    """of the thread that exchanges gradients: codec, wire, and what Python does in between"""
    residual_norms: Dict[str, float]
    """by parameter: the 2-norm of what was not sent yet"""


class _Arrival:
    """A bucket whose gradients are being exchanged. Its future is done when all parameters in it are."""

    def __init__(self, buffer: torch.Tensor, parts: Sequence[Tuple[str, int, int]]) -> None:
        """parts: name, first value and number of values of each parameter in the flat buffer."""
        self.buffer = buffer
        self.parts = parts
        self.left = len(parts)
        on_cpu = buffer.device.type == "cpu"
        self.future: torch.futures.Future[torch.Tensor] = (
            torch.futures.Future() if on_cpu else torch.futures.Future(devices=[buffer.device]))
        self._host: Optional[torch.Tensor] = buffer if on_cpu else None
        self._copied = on_cpu
        self._event: Any = None
        if not on_cpu:
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(buffer.device))

    def gradients(self) -> torch.Tensor:
        """The buffer where it is, as soon as the gradients are in it."""
        if self._event is not None:
            self._event.synchronize()
        return self.buffer

    def results(self) -> torch.Tensor:
        """On the CPU: where the results go."""
        if self._host is None:
            self._host = torch.empty_like(self.buffer, device="cpu")
        return self._host

    def host(self) -> torch.Tensor:
        """The same, with the gradients."""
        results = self.results()
        if not self._copied:
            results.copy_(self.gradients())
            self._copied = True
        return results

    def finish(self, parts: int) -> None:
        """So many more parameters are done."""
        self.left -= parts
        if self.left == 0:
            if self._host is not None and self._host is not self.buffer:
                self.buffer.copy_(self._host)
            self.future.set_result(self.buffer)


@dataclass
class _Step:
    """What happened in the groups of a step."""

    floats: bool = False
    taken: int = 0
    """values of groups whose step succeeded"""
    failure: Optional[StepError] = None


@dataclass
class _Counts:
    steps: int = 0
    float_steps: int = 0
    skipped: int = 0
    dropped: int = 0
    float_bytes: int = 0
    spent: float = 0.0
    """seconds of all steps in codec and on the wire"""
    float_seconds: float = math.inf
    """of the fastest step that went as floats"""
    step_seconds: List[float] = field(default_factory=list)
    """of the first steps that did not"""
    step_codec: float = 0.0
    """seconds in the codec, of these"""


class DDPState:
    """The state of the hook; register() makes it. It belongs to one DistributedDataParallel module.

    Residuals are kept by the names of parameters. A thread of its own runs all collectives, in the order in which
    buckets arrive, on a process group of its own, while the backward pass goes on.
    """

    def __init__(self, model: Any, settings: Settings, transport: Transport, scaler: Any, seed: int,
                 threads: Optional[int], quantize: str) -> None:
        self._jobs: queue.SimpleQueue[Optional[Callable[[], None]]] = queue.SimpleQueue()
        self._settings = settings
        self._transport = transport
        self._scaler = scaler
        self._seed = seed
        self._threads = threads
        self._quantize = quantize
        self._names = {id(parameter): name for name, parameter in model.module.named_parameters()}
        self._finds_unused: bool = model.find_unused_parameters
        self._results: List[Tuple[str, Any, torch.Tensor]] = []  # of this step: name, parameter, what it should get
        self._sizes = {name: parameter.numel() for name, parameter in model.module.named_parameters()}
        self._devices = {name: parameter.device for name, parameter in model.module.named_parameters()}
        has_feedback = Context(1, settings.codec).residual is not None
        self.residuals: Dict[str, torch.Tensor] = {}
        """what was not sent yet, flat, by parameter; empty if the codec keeps no residual"""
        self._kept = self.residuals if has_feedback else None
        self._groups: Dict[str, Group] = {}  # by the name of each of its parameters
        self._waiting: Dict[str, Tuple[_Arrival, int, int]] = {}  # parameters whose group is not complete yet
        self._order: List[Group] = []
        self._dtypes: Dict[str, DType] = {}
        self._scale: Optional[float] = None
        self._started = 0  # steps whose first bucket has arrived
        self._joined = False  # in this step: the rank has run out of data
        self._seen: Set[str] = set()  # by the compiled reducer in this step
        self._step = _Step()
        self._counts = _Counts()
        self._clock = Clock()
        self._failure: Optional[BaseException] = None  # to be raised at the end of the backward pass
        self._broken: Optional[BaseException] = None  # no step can succeed any more
        self._busy = [0.0]  # seconds of the thread
        self._thread = threading.Thread(target=_run_jobs, args=(self._jobs, self._busy), name="threelc-ddp",
                                        daemon=True)
        self._thread.start()
        _RUNNING[self._thread] = self._jobs

    def __del__(self) -> None:
        self._jobs.put(None)

    # ---- the hook: buckets arrive ----

    def _bucket_arrived(self, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        buffer = bucket.buffer()
        parts = [(self._names[id(parameter)], gradient.storage_offset() - buffer.storage_offset(), gradient.numel())
                 for parameter, gradient in zip(bucket.parameters(), bucket.gradients())]
        if bucket.index() == 0:
            self._begin_step()
        if self._finds_unused:
            self._results += [(name, parameter, gradient) for (name, _, _), parameter, gradient in
                              zip(parts, bucket.parameters(), bucket.gradients())]
        arrival = _Arrival(buffer, parts)
        self._take(arrival)
        if bucket.is_last():
            self._jobs.put(self._end_step)
        return arrival.future

    def _gradient_arrived(self, gradient: torch.Tensor, parameter: Any) -> None:
        """The mean is written into the gradient before this returns."""
        name = self._names[id(parameter)]
        if name in self._seen or not self._seen:  # a step ends where a parameter comes again
            if self._seen:
                self._jobs.put(self._end_step)
            self._seen.clear()
            self._begin_step(compiled=True)
        self._seen.add(name)
        flat = gradient.detach().contiguous().view(-1)
        arrival = _Arrival(flat, [(name, 0, flat.numel())])
        self._take(arrival)
        if name in self._waiting:
            raise ValueError(f"{name} travelled with other parameters when this state was saved")
        arrival.future.wait()
        if flat.data_ptr() != gradient.data_ptr():
            gradient.copy_(flat.view_as(gradient))
        self._raise_failure()

    def _begin_step(self, compiled: bool = False) -> None:
        self._joined = False
        try:
            if not compiled:
                torch.autograd.Variable._execution_engine.queue_callback(self._backward_ends)
        except RuntimeError:  # not in a backward pass: DistributedDataParallel.join() shadows those of other ranks
            self._joined = True
            if self._broken is not None:
                raise self._broken
        self._started += 1
        if self._scaler is not None:
            self._follow_scale(float(self._scaler.get_scale()))

    def _follow_scale(self, scale: float) -> None:
        before, self._scale = self._scale, scale
        if before is not None and before != scale:
            factor = scale / before
            self._jobs.put(lambda: self._scale_residuals(factor))

    def _take(self, arrival: _Arrival) -> None:
        """Hands the parameters of a bucket to the thread, as soon as their groups are complete."""
        dtype = DTYPES.get(arrival.buffer.dtype)
        if dtype is None or self._settings.codec == "raw" or self._started <= self._settings.warmup_steps:
            self._jobs.put(lambda: self._all_reduce(arrival))
            return
        fresh = [(name, n) for name, _, n in arrival.parts if name not in self._groups]
        if fresh:
            self._make_group([name for name, _ in fresh], [n for _, n in fresh], dtype, arrival.buffer.device)
        for name, first, n in arrival.parts:
            self._waiting[name] = (arrival, first, n)
        complete = {id(self._groups[name]): self._groups[name] for name, _, _ in arrival.parts}
        for group in complete.values():
            if all(name in self._waiting for name in group.names):
                self._jobs.put(self._job_of(group, [self._waiting.pop(name) for name in group.names], self._joined))

    def _make_group(self, names: Sequence[str], sizes: Sequence[int], dtype: DType, device: torch.device) -> Group:
        settings = self._settings
        config = exchange.Config(
            workers=self._transport.world, push=settings.codec, pull=settings.pull, reserve=settings.reserve or None,
            gather=settings.mode == "gather", min_n=settings.min_numel, dtype=dtype, seed=self._seed,
            threads=self._threads)
        there = self._quantize == "device" or (self._quantize == "auto" and device.type != "cpu")
        group = Group(config, self._transport.rank, names, sizes, self._kept, device=device if there else None)
        self._order.append(group)
        for name in names:
            self._groups[name] = group
            self._dtypes[name] = dtype
        return group

    def _backward_ends(self) -> None:
        """Called when all buckets have arrived, before DistributedDataParallel waits for them."""
        if self._waiting:
            missing = sorted(name for _, group in self._groups.items() for name in group.names
                             if name not in self._waiting and any(other in self._waiting for other in group.names))
            self._failure = self._failure or Error(
                Status.ORDER, f"no gradients of {', '.join(sorted(set(missing)))} came, which travel with others")
            for arrival, first, n in self._waiting.values():
                arrival.results()[first:first + n].fill_(float("nan"))
                arrival.finish(1)
            self._waiting.clear()
        # This one is called after that of DistributedDataParallel: an exception must not keep it from cleaning up.
        torch.autograd.Variable._execution_engine.queue_callback(self._step_ended)

    def _step_ended(self) -> None:
        """Called after DistributedDataParallel has written the gradients."""
        for name, parameter, result in self._results:
            # A parameter that no rank used does not get what came out of the residuals, so it goes back: with the same
            # values on all ranks, the next mean has them again.
            if name in self.residuals and torch.isfinite(result).all() and result.any() and (
                    parameter.grad is None or not torch.equal(parameter.grad, result)):
                residual = self.residuals[name]
                residual += result.as_strided((result.numel(),), (1,)).float().to(residual.device)
        self._results.clear()
        self._raise_failure()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    # ---- the thread: collectives, one after the other ----

    def _job_of(self, group: Group, members: Sequence[Tuple[_Arrival, int, int]], joined: bool) -> Callable[[], None]:
        def job() -> None:
            views = [arrival.results()[first:first + n] for arrival, first, n in members]
            try:
                self._check_broken()
                gradients = [(arrival.gradients() if group.on_device else arrival.host())[first:first + n]
                             for arrival, first, n in members]
                group.run(self._transport, None if joined else gradients, views, self._clock)
                self._step.taken += sum(group.sizes)
            except BaseException as error:
                for view in views:
                    view.fill_(float("nan"))
                self._failed(error)
            self._counts.float_bytes += ring_bytes(views, self._transport.world)
            for arrival, _, _ in members:
                arrival.finish(1)

        return job

    def _all_reduce(self, arrival: _Arrival) -> None:
        """The mean as DistributedDataParallel computes it, in floats."""
        buffer = arrival.host()
        try:
            self._check_broken()
            self._step.floats = True
            self._clock.start()
            buffer.mul_(1.0 / self._transport.world)
            self._transport.all_reduce(buffer)
            self._clock.was_wire()
        except BaseException as error:
            buffer.fill_(float("nan"))
            self._failed(error)
        self._counts.float_bytes += ring_bytes([buffer], self._transport.world)
        arrival.finish(len(arrival.parts))

    def _check_broken(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _failed(self, error: BaseException) -> None:
        """A group's step failed. A gradient that is not finite concerns this step alone, anything else all to come."""
        if isinstance(error, StepError) and error.outcome is not None and error.outcome.cause == Status.NONFINITE:
            self._step.failure = error
            if self._settings.on_nonfinite == "raise":
                self._failure = error
            return
        if self._broken is None:
            self._broken = error
            if not isinstance(error, StepError):
                self._transport.abort()  # so that other ranks do not wait for this one
        self._failure = self._broken

    def _end_step(self) -> None:
        step, self._step = self._step, _Step()
        counts = self._counts
        counts.steps += 1
        if step.failure is not None:
            counts.skipped += 1
            counts.dropped += step.taken
        spent = self._clock.codec + self._clock.wire
        seconds, counts.spent = spent - counts.spent, spent
        if step.floats:
            counts.float_steps += 1
            counts.float_seconds = min(counts.float_seconds, seconds)
        elif self._broken is None and len(counts.step_seconds) < _JUDGED_STEPS:
            counts.step_seconds.append(seconds)
            counts.step_codec = self._clock.codec
            if len(counts.step_seconds) == _JUDGED_STEPS:
                self._judge()

    def _judge(self) -> None:
        """Warns once, on rank 0, if floats were faster."""
        counts = self._counts
        floats, ours = counts.float_seconds, statistics.median(counts.step_seconds)
        if ours > floats and self._transport.rank == 0:
            codec = counts.step_codec / len(counts.step_seconds)
            warnings.warn(
                f"threelc: the exchange of a step takes {1e3 * ours:.1f} ms, {1e3 * codec:.1f} ms of them in the codec "
                f"{self._settings.codec}, and took {1e3 * floats:.1f} ms as floats: this link is fast enough for "
                "floats", RuntimeWarning)

    def _scale_residuals(self, factor: float) -> None:
        for group in self._order:
            group.residual_scale(factor)

    def _in_thread(self, call: Callable[[], Any]) -> Any:
        """What call() returns in the thread, after all that was begun before."""
        done: queue.SimpleQueue[Tuple[Any, Optional[BaseException]]] = queue.SimpleQueue()

        def job() -> None:
            try:
                done.put((call(), None))
            except BaseException as error:
                done.put((None, error))

        self._jobs.put(job)
        result, error = done.get()
        if error is not None:
            raise error
        return result

    # ---- for users ----

    @property
    def stats(self) -> Stats:
        """Bytes and seconds since register(), and the residual of each parameter."""
        def collect() -> Stats:
            counts = self._counts
            return Stats(
                steps=counts.steps, float_steps=counts.float_steps, skipped=counts.skipped, dropped=counts.dropped,
                float_bytes=counts.float_bytes, sent=self._transport.sent, received=self._transport.received,
                codec_seconds=self._clock.codec, wire_seconds=self._clock.wire, thread_seconds=self._busy[0],
                residual_norms={name: float(residual.norm()) for name, residual in self.residuals.items()})

        result: Stats = self._in_thread(collect)
        return result

    def set_codec(self, codec: str, pull: Optional[str] = None) -> None:
        """Changes the codec between two steps, on all ranks alike; residuals stay. It must have been reserved."""
        check_codec(codec)

        def change() -> None:
            for group in self._order:
                group.set_codec(codec, pull or codec)

        self._in_thread(change)
        self._settings = replace(self._settings, codec=codec, pull=pull)

    def state_dict(self) -> Dict[str, Any]:
        """Residuals and steps of this rank, by names of parameters. Each rank saves its own."""
        def collect() -> Dict[str, Any]:
            return {"version": STATE_VERSION, "rank": self._transport.rank, "world": self._transport.world,
                    "steps": self._started, "scale": self._scale,
                    "groups": [{**group.state_dict(), "dtype": int(self._dtypes[group.names[0]])}
                               for group in self._order]}

        result: Dict[str, Any] = self._in_thread(collect)
        return result

    def load_state_dict(self, states: Union[Dict[str, Any], Sequence[Dict[str, Any]]]) -> None:
        """Goes on from the state_dict() of this rank, with the same bits. On another number of ranks give each the
        states of all: no residual is lost. Call it before the first backward pass."""
        found = states_for(states, STATE_VERSION, self._transport)
        if self._order:
            raise ValueError("states are loaded before the first backward pass")
        self._in_thread(lambda: self._load(found))

    def _load(self, states: List[Dict[str, Any]]) -> None:
        for i, saved in enumerate(states[0]["groups"]):
            members = [(name, n) for name, n in zip(saved["names"], saved["sizes"]) if name in self._sizes]
            for name, n in members:
                if self._sizes[name] != n:
                    raise ValueError(f"{name} has {self._sizes[name]} values, in the state it has {n}")
            if members:
                group = self._make_group([name for name, _ in members], [n for _, n in members], DType(saved["dtype"]),
                                         self._devices[members[0][0]])
                group.load_states([state["groups"][i] for state in states])
        self._started = states[0]["steps"]
        self._scale = states[0]["scale"]


_RUNNING: "weakref.WeakKeyDictionary[threading.Thread, queue.SimpleQueue[Optional[Callable[[], None]]]]" = \
    weakref.WeakKeyDictionary()


@atexit.register
def _end_threads() -> None:
    """The interpreter must not end while a thread of ours is in C++. It may take long if other ranks are gone."""
    for thread, jobs in list(_RUNNING.items()):
        jobs.put(None)
        thread.join(5)


def _run_jobs(jobs: queue.SimpleQueue[Optional[Callable[[], None]]], busy: List[float]) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        start = time.perf_counter()
        job()
        busy[0] += time.perf_counter() - start
        del job  # which keeps the state alive
