# SPDX-License-Identifier: MIT
"""Parameters that travel together: an all-reduce object, and the steps of a message exchange around it.

What all ways of training have in common is here, too: traffic.
"""
from __future__ import annotations

import math
import time
import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from typing import Any, ContextManager, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import torch
from torch.profiler import record_function

from ... import exchange
from ..._arrays import dtype_of
from ..._c import DType
from ..._errors import StepError
from ...codec_strings import check_codec
from ..kernels.ways import quantizer_for
from .._device.answers import ReducedAnswers, answers_for
from .._device.norms import with_norms
from .._device.on_device import OnDevice
from .histories import compare_histories
from .module import copied
from .states import traffic_saved
from .transport import Transport

DTYPES = {torch.float32: DType.F32, torch.float16: DType.F16, torch.bfloat16: DType.BF16}  # that codecs take


@dataclass(frozen=True)
class Traffic:
    """What this rank sent and received."""

    float_bytes: int
    """what a ring all-reduce of floats would have sent"""
    sent: int
    """bytes to other ranks, with lengths"""
    received: int
    codec_seconds: float
    wire_seconds: float
    """of collectives, waiting for other ranks included"""

    @property
    def ratio(self) -> float:
        """How many times fewer bytes than floats."""
        return self.float_bytes / self.sent if self.sent else 1.0

    def scalars(self) -> Dict[str, float]:
        """All numbers by name, for TensorBoard, wandb and the like. Of residual_norms the norm of all."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        norms = found.pop("residual_norms", None)
        if norms is not None:
            found["residual_norm"] = math.hypot(*norms.values())
        return {name: float(value) for name, value in {**found, "ratio": self.ratio}.items()}


def ring_bytes(tensors: Sequence[torch.Tensor], world: int) -> int:
    """What each rank sends if tensors are summed up by a ring all-reduce."""
    return sum(2 * tensor.numel() * tensor.element_size() * (world - 1) // world for tensor in tensors)


def weights_of_all(transport: Transport, weight: float) -> float:
    """The sum of the weights that ranks give."""
    total = torch.tensor([weight], dtype=torch.float64)
    transport.all_reduce(total)
    return float(total)


def check_choices(mode: str, on_nonfinite: str, codec: str, pull: Optional[str], *reserve: str) -> None:
    """Raises ValueError for a mode, a policy or a codec that does not exist. Warns of a pull that starves."""
    for value, allowed, name in ((mode, ("sharded", "gather"), "mode"),
                                 (on_nonfinite, ("skip", "raise"), "on_nonfinite")):
        if value not in allowed:
            raise ValueError(f"{name} should be one of {', '.join(allowed)}, not {value!r}")
    for given in (codec, *reserve) if pull is None else (codec, pull, *reserve):
        check_codec(given)
    if mode == "sharded" and pull is not None and exchange.pull_codec(pull) != pull:
        warnings.warn(f"threelc: pull={pull!r} sends too little of the means, so the training starves; "
                      f"{exchange.pull_codec(pull)!r} keeps up, and so does pull=None", RuntimeWarning, stacklevel=3)


class Clock:
    """Seconds spent in codecs and on the wire, summed up. Each phase is a range threelc::PHASE in the traces of
    torch.profiler. One thread at a time."""

    def __init__(self) -> None:
        self.codec = 0.0
        self.wire = 0.0
        self._kind = ""  # of the phase under way: what it counts as
        self._last = 0.0

    def coding(self, phase: str) -> ContextManager[None]:
        return self._phase(phase, "codec")

    def sending(self, phase: str) -> ContextManager[None]:
        """Waiting for other ranks included."""
        return self._phase(phase, "wire")

    @contextmanager
    def _phase(self, phase: str, kind: str) -> Iterator[None]:
        """The time of a phase in another one counts once, for the inner one."""
        self._lap()
        around, self._kind = self._kind, kind
        try:
            with record_function(f"threelc::{phase}"):
                yield
        finally:
            self._lap()
            self._kind = around

    def _lap(self) -> None:
        now = time.perf_counter()
        if self._kind == "codec":
            self.codec += now - self._last
        elif self._kind == "wire":
            self.wire += now - self._last
        self._last = now


def saved_traffic(float_bytes: int, transport: Transport, clock: Clock) -> Dict[str, Any]:
    """The counts of Traffic, for a state."""
    return {"float_bytes": float_bytes, "sent": transport.sent, "received": transport.received,
            "codec_seconds": clock.codec, "wire_seconds": clock.wire}


def load_traffic(states: Sequence[Dict[str, Any]], key: str, transport: Transport, clock: Clock) -> Dict[str, Any]:
    """Goes on from the counts of states, which states_for() found. Returns those of this rank."""
    own = traffic_saved(states, key, transport)
    transport.sent, transport.received = own["sent"], own["received"]
    clock.codec, clock.wire = own["codec_seconds"], own["wire_seconds"]
    return own


class Group:
    """Exchanges the gradients of the parameters `names`, which have `sizes` values each."""

    def __init__(self, config: exchange.Config, rank: int, names: Sequence[str], sizes: Sequence[int],
                 residuals: Optional[Dict[str, torch.Tensor]], raw: Sequence[str] = (),
                 device: Optional[torch.device] = None, called: Optional[Sequence[str]] = None,
                 residual_dtype: torch.dtype = torch.float32) -> None:
        """residuals: where what was not sent is kept, by name; filled up with zeros. None: the codec keeps none. raw:
        the names of those that go as floats. device: where gradients are quantized, if kernels do the codec.
        None: on the host. called: other names in messages and states, as those of a state before this one.
        residual_dtype: of residuals on the device."""
        self.names: Tuple[str, ...] = tuple(names)
        self.sizes: Tuple[int, ...] = tuple(sizes)
        self.called: Tuple[str, ...] = self.names if called is None else tuple(called)
        self.gather = config.gather
        self.dtype: DType = dtype_of(config.dtype)
        self._residuals = residuals
        self._host: Dict[int, torch.Tensor] = {}  # of the object, by index
        self._quantizable: Dict[int, str] = {}
        self._device = device
        self._residual_dtype = residual_dtype
        self._on_device: Optional[OnDevice] = None
        self._answers: Optional[ReducedAnswers] = None  # if the device makes them
        tensors = []
        for i, (name, n, word) in enumerate(zip(names, sizes, self.called)):
            if name in raw:
                tensors.append(exchange.Tensor(word, n, push="raw", pull="raw"))
                continue
            if residuals is not None:
                self._host[i] = residuals.setdefault(name, torch.zeros(n))
            if n >= config.min_n:
                self._quantizable[i] = name
            tensors.append(exchange.Tensor(word, n, residual=self._host.get(i)))
        self.allreduce = exchange.AllReduce(config, rank, tensors)
        self._compared = False  # with other ranks, before the first step
        push = config.push or ""
        self._choose_place(push, config.pull or exchange.pull_codec(push))

    @property
    def on_device(self) -> bool:
        """Gradients are quantized, and answers decoded, where they are. If not, run() wants them on the CPU."""
        return self._on_device is not None

    @property
    def stats(self) -> exchange.Stats:
        """Of the object. Frames that a device made count, too."""
        return with_norms(self.allreduce.stats, self._on_device, self._answers)

    def _choose_place(self, push: str, pull: str) -> None:
        quantizer = None if self._device is None else quantizer_for(push, self._device)
        self._on_device = self._answers = None
        residuals = self._host
        # what the object keeps for itself, as with `reserve`, would be missing on the device
        hidden = {part.tensor for part in self.allreduce.pushed_parts() if part.residual is not None} - set(self._host)
        ours = [i for i in self._quantizable if i not in hidden]
        if quantizer is not None and self._device is not None and ours:
            self._on_device = OnDevice(self.allreduce, quantizer, {i: self._host.get(i) for i in ours}, self._device,
                                       self._residual_dtype)
            self._answers = answers_for(self.allreduce, pull, ours, self._device, self._residual_dtype)
            residuals = self._on_device.residuals
        if self._residuals is not None:
            for i, name in self._quantizable.items():
                self._residuals[name] = residuals[i]

    def run(self, transport: Transport, gradients: Optional[Sequence[torch.Tensor]], out: Sequence[torch.Tensor],
            clock: Clock, weight: float = 1.0) -> None:
        """A step. gradients: a tensor for each name; None: this rank is not in the round. out: for the means, perhaps
        the gradients: where these are, if on_device, else on the CPU. weight: of the gradients in the mean. StepError:
        the step failed on all ranks, out is not written. ValueError: before the first step, if ranks go on from states
        of different runs."""
        if not self._compared:
            compare_histories(transport, [self.allreduce])
            self._compared = True
        with clock.coding("compress"):
            if self._on_device is not None and gradients is not None:
                push = self._on_device.push(gradients, weight)
            else:
                push = self.allreduce.push(gradients, weight)
        if self.gather:
            with clock.sending("pushes"):
                last = transport.all_gather(push[0])
        else:
            with clock.sending("pushes"):
                came = transport.all_to_all(push)
            with clock.coding("average"):
                reduced = (self._answers or self.allreduce).reduce(came)
            with clock.sending("answers"):
                last = transport.all_gather(reduced)
        with clock.coding("decompress"):
            try:
                (self._on_device or self.allreduce).pull(last, out)
            except StepError:
                if self._answers is not None:
                    self._answers.take_back()
                raise

    def _there(self) -> List[Union[OnDevice, ReducedAnswers]]:
        """Those with residuals on the device."""
        return [each for each in (self._on_device, self._answers) if each is not None]

    @contextmanager
    def _on_host(self) -> Iterator[None]:
        """Meanwhile the object has all residuals."""
        with ExitStack() as stack:
            for each in self._there():
                stack.enter_context(each.on_host())
            yield

    def unsent(self, transport: Transport, weight: float = 1.0) -> List[torch.Tensor]:
        """What residuals hold, which stay, on all ranks together: the mean of those of pushes, and what owners had not
        answered. The same on all ranks, in floats on the CPU, for each name. weight: of this rank's in the mean."""
        sums = [torch.zeros(n) for n in self.sizes]
        with self._on_host():
            share = weight / weights_of_all(transport, weight)
            for i, residual in self._host.items():
                sums[i] += share * residual
            for part in self.allreduce.parts():
                if part.residual is not None:
                    sums[part.tensor][part.first:part.first + part.n] += copied(part.residual)
        summed = torch.cat(sums)
        transport.all_reduce(summed)
        return list(torch.split(summed, list(self.sizes)))

    def flush(self, transport: Transport, weight: float = 1.0) -> List[torch.Tensor]:
        """All residuals become 0, on all ranks together. Returns what they held, as unsent()."""
        held = self.unsent(transport, weight)
        self.residual_scale(0.0)
        return held

    def residual_scale(self, factor: float) -> None:
        with self._on_host():
            self.allreduce.residual_scale(factor)

    def set_codec(self, push: str, pull: str) -> None:
        with self._on_host():
            self.allreduce.set_codec(None, push, pull)
        for each in self._there():
            each.to_host()
        self._choose_place(push, pull)

    def state_dict(self) -> Dict[str, Any]:
        with self._on_host():
            state = self.allreduce.state_dict()
        return {"names": list(self.called), "sizes": list(self.sizes), "state": state}

    def check_states(self, states: Sequence[Dict[str, Any]], lost: bool) -> None:
        """Raises what load_states() would raise, and changes nothing."""
        self.allreduce.check_states([state["state"] for state in states], lost)

    def load_states(self, states: Sequence[Dict[str, Any]], lost: bool) -> None:
        """states: of this group, of one rank or of all, that check_states() took. lost: others may be missing."""
        with self._on_host():
            self.allreduce.load_checked([state["state"] for state in states], lost)
        self._compared = False
