# SPDX-License-Identifier: MIT
"""Means of tensors over ranks, for trainers that know best what they exchange, and when."""
from __future__ import annotations

import threading
from functools import partial
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import torch

from .._errors import StepError
from .._object import share
from ._common.arguments import check_numbers, shown
from ._common.device import check_quantize
from ._common.groups import Group, Traffic, check_choices, load_traffic
from ._common.jobs import Jobs
from ._common.log import Log
from ._common.means import Means
from ._common.moments import MOMENTS, check_moments
from ._common.signals import signals_wait
from ._common.states import GROUP, MADE, RANKS, TRAFFIC, Kind, check_made, states_for
from ._common.transport import Transport
from ._device.streams import SideWork, lent

STATE_VERSION = 1  # of state_dict()
_STATE = Kind("AllReduce", STATE_VERSION,
              {**RANKS, **MOMENTS, "groups": {str: GROUP}, "traffic": TRAFFIC, "made": MADE})


class AllReduce:
    """Replaces a tensor by its mean over all ranks, the same bits on each, in few bytes:

        mean = threelc.torch.AllReduce(codec="3lc-golomb")
        for name, parameter in model.named_parameters():
            mean(name, parameter.grad)

    What was not sent of a tensor is its residual, and goes with the next one of that name. So a name stands for the
    same parameter each time, with as many values and of the same dtype. Tensors of float32, float16 and bfloat16 are
    compressed, on CPUs or GPUs; others go as floats. All ranks call it alike: the same names in the same order.

    process_group: a group of backend gloo for the messages, which nobody else uses, or of NCCL as in register(). None:
                   a new one of gloo, of all ranks, with the timeout of the default group. After this time an exchange
                   with a rank that stands still fails.
    on_nonfinite:  what happens if the tensor of a rank has a NaN or an infinity. "skip": it becomes NaN on all ranks,
                   with a warning for the first. "raise": StepError on all ranks. What other ranks would have sent
                   goes into their residuals.
    codec, mode, pull, min_numel, momentum_correction, second_moment, seed, threads, quantize, residual_dtype: as in
                   register().

    After another failure no call succeeds any more: make a new process group and a new object.
    """

    def __init__(self, process_group: Any = None, codec: str = "3lc", mode: str = "sharded", *,
                 pull: Optional[str] = None, min_numel: int = 256, on_nonfinite: str = "skip",
                 momentum_correction: Optional[float] = None, second_moment: Optional[float] = None, seed: int = 0,
                 threads: Optional[int] = None, quantize: str = "auto",
                 residual_dtype: torch.dtype = torch.float32) -> None:
        check_choices(mode, on_nonfinite, codec, pull)
        check_numbers(min_numel, seed, threads)
        check_moments(momentum_correction, second_moment, codec)
        check_quantize(quantize, momentum_correction, codec, residual_dtype)
        transport = Transport(process_group)
        config = {"push": codec, "pull": pull, "gather": mode == "gather", "min_n": min_numel, "seed": seed}
        transport.agree({**config, "on_nonfinite": on_nonfinite, "momentum_correction": momentum_correction,
                         "second_moment": second_moment})
        self._means = Means(transport, {**config, "threads": threads}, on_nonfinite, momentum_correction, second_moment,
                            quantize, residual_dtype)
        self._transport = transport
        self._jobs: Optional[Jobs] = None  # from the first start() on
        self._begun: List[torch.futures.Future[torch.Tensor]] = []  # that may not be done yet
        self._lock = threading.RLock()
        share(self)
        self._log = Log(transport.rank, "exchange")
        self._done = 0

    @property
    def residuals(self) -> Dict[str, torch.Tensor]:
        """What was not sent yet, flat, by name; empty if the codec keeps no residual."""
        return self._means.residuals

    def __call__(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """tensor becomes the mean, and is returned. What start() has begun comes first."""
        _check(name, tensor)
        if self._jobs is None:
            self._run(name, tensor)
        else:
            SideWork(tensor.device).done_by(self._jobs.call, lambda: self._run(name, tensor))
        return tensor

    def start(self, name: str, tensor: torch.Tensor) -> "torch.futures.Future[torch.Tensor]":
        """Begins the same in a thread, which runs one exchange after the other, in the order of calls. Until the future
        is done, which then has the tensor or the exception, nobody else may use the tensor."""
        _check(name, tensor)
        if self._jobs is None:
            self._jobs = Jobs("threelc-all-reduce", partial(_end, self._begun))
        on_cpu = tensor.device.type == "cpu"
        future: torch.futures.Future[torch.Tensor] = (
            torch.futures.Future() if on_cpu else torch.futures.Future(devices=[tensor.device]))
        self._begun[:] = [each for each in self._begun if not each.done()]
        self._begun.append(future)
        work = SideWork(tensor.device)

        def job() -> None:
            try:
                with work.begun():
                    self._run(name, tensor)
                    future.set_result(tensor)  # who waits for it waits for what was queued until now, too
            except Exception as error:
                future.set_exception(error)
            except BaseException as error:  # which a future does not take
                future.set_exception(RuntimeError(f"the exchange of {name} was ended by {error!r}"))

        self._jobs.put(job)
        return future

    @signals_wait
    def _run(self, name: str, tensor: torch.Tensor) -> None:
        with self._lock:
            try:
                lent([tensor])
                self._means.run(name, {name: tensor.numel()}, tensor)
            except BaseException as error:
                if not isinstance(error, StepError):
                    self._transport.abort()  # so that other ranks do not wait for this one
                raise
            self._done += 1
            self._log.look(self._done, lambda: Traffic(**self._means.traffic()))

    @property
    def stats(self) -> Traffic:
        """Bytes and seconds, also before this went on from a state_dict()."""
        with self._lock:
            return Traffic(**self._means.traffic())

    def log_every(self, count: int) -> None:
        """From now on rank 0 logs what an exchange sends, and what it takes, after every so many of them, at level INFO
        of the logger "threelc". 0: never."""
        stats = self.stats
        with self._lock:
            self._log.set_every(count, stats)

    @signals_wait
    def flush(self) -> Dict[str, torch.Tensor]:
        """On all ranks together, after all that was started is done: sends what residuals hold as floats. Returns that,
        flat, by name: the mean over the ranks, on the CPU. Residuals are 0 then, on all ranks."""
        with self._lock:
            means = self._means
            groups = {**means.loaded, **means.groups} if means.has_feedback else {}
            return {name: group.flush(self._transport)[0] for name, group in groups.items()}

    @signals_wait
    def state_dict(self) -> Dict[str, Any]:
        """Residuals of this rank, by name, and its stats. Each rank saves its own."""
        with self._lock:
            means = self._means
            return _STATE.saved(self._transport, {
                "made": dict(means.made), **means.moments.state_dict(), "traffic": means.traffic(),
                "groups": means.states()})

    @signals_wait
    def load_state_dict(self, states: Union[Dict[str, Any], Sequence[Dict[str, Any]]], lost: bool = False) -> None:
        """Goes on from the state_dict() of this rank, with the same bits. On another number of ranks give each the
        states of all: no residual is lost. lost: states that are missing are lost, and their residuals with them. Call
        it before the first exchange. An exception changes nothing."""
        means = self._means
        if means.groups:
            raise ValueError("states are loaded before the first exchange")
        found = states_for(states, _STATE, self._transport, lost)
        every: List[Mapping[str, Any]] = [state["groups"] for state in found]
        if any(groups.keys() != every[0].keys() for groups in every):
            raise ValueError("the states do not belong together: some have other names than others")
        check_made(_STATE, found, means.made, [n for group in every[0].values() for n in group["sizes"]])
        loaded: Dict[str, Group] = {name: means.loaded_group([name], group["sizes"], [groups[name] for groups in every],
                                                             lost)
                                    for name, group in every[0].items()}
        means.loaded = loaded
        means.moments.load(found)
        means.float_bytes = load_traffic(found, "traffic", self._transport, means.clock)["float_bytes"]


def _end(begun: "List[torch.futures.Future[torch.Tensor]]") -> None:
    """The thread has ended."""
    for future in begun:
        if not future.done():
            future.set_exception(RuntimeError("the thread of this AllReduce has ended"))


def _check(name: Any, tensor: Any) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"name should be the name of a tensor, not {shown(name)}")
    if not isinstance(tensor, torch.Tensor) or type(tensor).__name__ == "DTensor":
        raise TypeError(f"the tensor {name} should be a torch.Tensor, not {shown(tensor)}; of a DTensor its "
                        "to_local(), with a process_group of the ranks that have the same shard")
    if tensor.layout != torch.strided or not tensor.is_floating_point():
        raise TypeError(f"the tensor {name} should be dense and of floating point, not {tensor.layout} of "
                        f"{tensor.dtype}")
    if not tensor.numel():
        raise ValueError(f"the tensor {name} has no values")
