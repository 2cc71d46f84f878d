# SPDX-License-Identifier: MIT
"""Parameters whose gradients leave together, and the parts of them that this rank owns."""
from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union

import torch

from ... import exchange
from ..._errors import Status, StepError
from .._device.answers import parts_of
from .._device.norms import with_norms
from .._device.on_device import OnDevice
from .._device.streams import lent
from .._common.groups import Clock
from .._common.module import HOST, assign
from .._common.runners import nothing
from ..kernels.ways import quantizer_for
from .mail import Mail
from .places import Place
from .server import ServerOfParts

_MIB = 1 << 20
_LEAST = 4096  # values of a tensor that is split
_FIRST = 1.0  # MiB: the first bucket is small, so that sending begins early (as in DistributedDataParallel)


def in_buckets(sizes: Mapping[str, int], bucket_mb: Optional[float]) -> List[Dict[str, int]]:
    """Names and sizes of the parameters of each bucket, in the order in which backward passes make gradients: the last
    parameters come first. bucket_mb: the MiB of floats that fill a bucket. None: there is one bucket."""
    if bucket_mb is None:
        return [dict(sizes)]
    found: List[List[str]] = [[]]
    limit, here = min(_FIRST, bucket_mb) * _MIB, 0
    for name in reversed(list(sizes)):
        if here >= limit:
            found.append([])
            limit, here = bucket_mb * _MIB, 0
        found[-1].append(name)
        here += 4 * sizes[name]
    return [{name: sizes[name] for name in reversed(names)} for names in found]


def spread(config: exchange.Config, sizes: Mapping[str, int]) -> exchange.Config:
    """The configuration for a bucket of such tensors: enough of them are split to give each owner a part. If few owners
    had all, their links would be full while others are idle."""
    return replace(config, split_n=min(config.split_n, max(_LEAST, sum(sizes.values()) // config.servers)))


class _Way:
    """What a bucket exchanges with in a step."""

    def __init__(self, worker: exchange.Worker, server: Optional[ServerOfParts], as_weights: Set[str],
                 on_device: Optional[OnDevice]) -> None:
        """on_device: pushes gradients, and pulls, where they are. None: they are on the CPU."""
        self.worker = worker
        self.server = server
        self.on_device = on_device
        self.as_weights = as_weights

    def there(self) -> List[Union[OnDevice, ServerOfParts]]:
        """Those that may have residuals on the device."""
        return [one for one in (self.on_device, self.server) if one is not None]


class Bucket:
    """A worker and, if this rank is an owner, a server of some of the parameters."""

    def __init__(self, config: exchange.Config, rank: int, sizes: Mapping[str, int], as_weights: Set[str], keeps: bool,
                 weights: Mapping[str, torch.Tensor], shift: int, device: Optional[torch.device],
                 residual_dtype: torch.dtype = torch.float32) -> None:
        """as_weights: names of those whose answers are the weights, as floats. keeps: pushes have residuals. weights:
        flat, from which the parts begin. shift: rank 0 is this server, as the first ones get the largest tensors, and
        buckets have few of them. device: where gradients are, parts, and what is pulled, if gradients are quantized
        there. None: all are on the CPU. residual_dtype: of residuals of pushes on the device."""
        tensors = [exchange.Tensor(name, n, pull="raw" if name in as_weights else None) for name, n in sizes.items()]
        self.names = list(sizes)
        self.residuals: Dict[str, torch.Tensor] = {name: torch.zeros(n) for name, n in sizes.items()} if keeps else {}
        self._config, self._rank, self._shift = config, rank, shift
        self._tensors = tensors
        self.worker, self.server = self._objects(config, self.residuals)
        self._places = [(self.names[part.tensor], part.first, part.n)
                        for part in ([] if self.server is None else self.server.parts())]
        self._device, self._residual_dtype = device, residual_dtype
        self._quantizable = {i: self.residuals.get(name) for i, (name, n) in enumerate(sizes.items())
                             if n >= config.min_n}
        push = config.push or ""
        self._home = device or HOST  # of parts
        server = None if self.server is None else ServerOfParts(
            self.server, device and quantizer_for(config.pull or exchange.pull_codec(push), device),
            [] if device is None else parts_of(self.server, self._quantizable), self._home)
        self._coded = self._now = _Way(self.worker, server, as_weights,
                                       self._on_device(self.worker, self._quantizable))
        self.parts = [torch.nn.Parameter(weights[name][first:first + n].to(self._home, copy=True))
                      for name, first, n in self.places()]
        """of weights, with what answers have not sent yet"""
        self.values: List[torch.Tensor] = []
        """the gradients, and then what is pulled"""
        self.moved: List[torch.Tensor] = []
        """the velocities of this step, of which what is sent becomes 0; empty: there are none"""
        self.left_out = ""
        """why the gradients of this rank were left out in this step"""
        self.failure: Optional[StepError] = None
        """of this step"""
        self.late = 0
        """how many servers went on without the push of this step"""
        self.wait: Callable[[], None] = nothing
        """until what is pulled is there"""
        self._came: List[Any] = []  # pushes
        self._absent: Set[str] = set()

    def _on_device(self, worker: exchange.Worker,
                   residuals: Mapping[int, Optional[torch.Tensor]]) -> Optional[OnDevice]:
        if self._device is None:
            return None
        quantizer = quantizer_for(self._config.push or "", self._device)
        assert quantizer is not None  # the caller has looked
        return OnDevice(worker, quantizer, residuals, self._device, self._residual_dtype)

    def _objects(self, config: exchange.Config, residuals: Mapping[str, torch.Tensor]
                 ) -> Tuple[exchange.Worker, Optional[exchange.Server]]:
        server = None
        if self._rank < config.servers:
            server = exchange.Server(config, (self._rank + self._shift) % config.servers, self._tensors)
        return exchange.Worker(config, self._rank, [
            replace(tensor, residual=residuals.get(tensor.name)) for tensor in self._tensors]), server

    def objects(self) -> List[Any]:
        """Those with the codecs."""
        return [one for one in (self.worker, self.server) if one is not None]

    def stats(self) -> List[exchange.Stats]:
        """Of objects(). Frames that a device made count, too."""
        pushed = with_norms(self.worker.stats, self._coded.on_device)
        return [pushed] if self.server is None else [pushed, with_norms(self.server.stats, None, self._coded.server)]

    def unsent(self) -> Dict[str, torch.Tensor]:
        """Copies of the residuals of pushes, by name."""
        with self.on_host():
            return {name: residual.clone() for name, residual in self.residuals.items()}

    def forget(self) -> None:
        """All residuals become 0."""
        with self.on_host():
            for one in self.objects():
                one.residual_scale(0.0)

    @property
    def as_weights(self) -> Set[str]:
        """Names of those whose answers are the weights, as floats, in this step."""
        return self._now.as_weights

    def places(self) -> List[Place]:
        """What this rank owns of these parameters: name of the tensor, first value, number of values."""
        return self._places

    def go_as_floats(self, floats: bool) -> None:
        """Before the first call of a step. floats: this step goes as floats, for a dense start. Other objects do it,
        with the same parts: their messages are large, and the ones with the codecs need no room for them."""
        if floats == (self._now is not self._coded):
            return
        self._now = self._coded
        if not floats and self._coded.on_device is not None:
            self._coded.on_device.from_host()
        if floats:
            if self._coded.on_device is not None:
                self._coded.on_device.to_host()
            # what servers with backup workers do not take waits for later steps, also those of the codecs
            worker, server = self._objects(replace(self._config, reserve="raw"),
                                           self.residuals if self._config.backup else {})
            for one in (worker, server):
                if one is not None:
                    one.set_codec(None, "raw")
            owner = None if server is None else ServerOfParts(server, None, [], self._home)
            self._now = _Way(worker, owner, {*self.names}, self._on_device(worker, {}))
            if owner is not None:
                owner.negate_zeros()

    @contextmanager
    def on_host(self) -> Iterator[None]:
        """Meanwhile the objects have all residuals."""
        with ExitStack() as stack:
            for each in self._coded.there():
                stack.enter_context(each.on_host())
            yield

    # ---- a step, in this order ----

    def take(self, gradients: List[torch.Tensor], absent: Set[str]) -> None:
        """Before push(). absent: names of those that have no gradient on this rank, so that zeros stand for it."""
        self.values = gradients
        self._absent = absent

    def push(self, weight: float, mail: Mail, clock: Clock) -> None:
        """Sends the gradients to their owners. weight: in the mean."""
        with clock.coding("compress"):
            push = (self._now.on_device or self._now.worker).push(self.values, weight)
            outcome = self._now.worker.outcome()
            self.left_out = outcome.sentence if outcome.cause == Status.NONFINITE else ""
        to = [push[(rank + self._shift) % len(push)] for rank in range(len(push))]
        with clock.sending("pushes"):
            self._came = mail.push([*to, *[memoryview(b"")] * (self._config.workers - len(to))])

    def reduce(self, weights: Callable[[str], torch.Tensor], mail: Mail) -> bool:
        """Parts get the means of the pushes as gradients, or None where there was none: the mean is 0 then. weights:
        those of a parameter. Returns whether there are means."""
        for name, values in zip(self.names, self.values):  # what is pulled takes their place; what a server that
            if name in self.as_weights:                    # failed does not send changes nothing
                values.copy_(weights(name))
            else:
                values.zero_()
        server = self._now.server
        if server is None:
            return False
        mail.deliver(self._came, server.object)
        try:
            means = server.reduce()
        except StepError:
            return False  # the answer says so
        lent(means)
        for (name, first, n), part, parameter, mean in zip(self.places(), server.parts, self.parts, means):
            parameter.grad = mean if name not in self._absent or mean.any() else None
            if name in self.as_weights:  # others may have written into them
                assign(parameter, self.values[part.tensor][first:first + n])
        return True

    def before(self) -> List[Optional[torch.Tensor]]:
        """What changes() takes: the parts before the optimizer's step. None: they are sent as they are."""
        return [None if name in self.as_weights else parameter.detach().clone()
                for (name, _, _), parameter in zip(self.places(), self.parts)]

    def changes(self, before: Sequence[Optional[torch.Tensor]]) -> List[torch.Tensor]:
        """What answers send, after the optimizer's step."""
        return [parameter.detach() if old is None else parameter.detach() - old
                for parameter, old in zip(self.parts, before)]

    def answer(self, changes: Optional[Sequence[torch.Tensor]]) -> memoryview:
        """The answer to all ranks. changes: None: there are no means."""
        if self._now.server is None:
            return memoryview(b"")
        found = self._now.server.answer(changes)
        if changes is not None and self._now is not self._coded:
            self._now.server.negate_zeros()
        return found

    def pull(self, answers: Sequence[Any]) -> None:
        """`values` become what owners answered. answers: in the order of ranks."""
        self.failure = None
        self.late = 0
        try:
            (self._now.on_device or self._now.worker).pull(
                [answers[server - self._shift] for server in range(len(answers))], self.values)
            if self.moved:
                self._now.worker.mask(self.moved)
        except StepError as error:
            self.failure = error
        if self._config.backup and not self.left_out:
            self.late = sum(self._is_late(server) for server in range(len(answers)))
        self._came = []

    def follow(self, weights: Callable[[str], torch.Tensor]) -> None:
        """Parts become what all ranks have, and what answers have not sent yet. weights: those of a parameter."""
        for i, ((name, first, n), parameter) in enumerate(zip(self.places(), self.parts)):
            now = weights(name)[first:first + n].to(self._home)
            waits = None if name in self.as_weights or self._now.server is None else self._now.server.waits(i)
            assign(parameter, now if waits is None else now + waits)

    def _is_late(self, server: int) -> bool:
        """Whether a server has gone on without the last push."""
        taken = self._now.worker.outcome(server).taken
        return taken is not None and self._rank not in taken
