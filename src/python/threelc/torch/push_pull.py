# SPDX-License-Identifier: MIT
"""A parameter server (3LC, section 2 and Figure 2): workers push gradients and pull changes of the model."""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import torch

from .. import exchange
from .._errors import Status, StepError
from ..codec_strings import check_codec
from ..context import Context
from ._arguments import check_numbers, weight_of, whole
from ._groups import ring_bytes
from ._module import Model, assign, copied, flat, is_rounded, rounded, size_of
from ._optimizer import InPlaceOfOptimizer, Maker, Patience, check_closure, check_maker, check_trains, made_optimizer
from ._places import Place, optimizer_for, optimizer_state, values_at
from ._scaler import forget, is_scaled
from ._starving import LoopStats, Starving, residual_ratios, warn_starving
from ._states import MADE, RANKS, TENSORS, TRAFFIC, Kind, Optionally, check_made, listed_states, made_with, states_for
from ._transport import Transport

STATE_VERSION = 3  # of state_dict()
_STATE = Kind("PushPull", STATE_VERSION, {
    **RANKS, "servers": int, "steps": int, "failed": int, "traffic": TRAFFIC, "masters": TENSORS, "worker": Mapping,
    "server": Optionally(Mapping), "places": [(str, int, int)], "parts": [torch.Tensor],
    "optimizer": {"parts": [Mapping], "groups": [Mapping]}, "made": MADE})


@dataclass(frozen=True)
class PushPullStats(LoopStats):
    """What this rank did since the start, also before it was stopped and went on from a state_dict()."""

    steps: int
    failed: int
    """steps that changed nothing, as no gradient was finite"""


class PushPull(InPlaceOfOptimizer):
    """Takes the place of the optimizer, which runs on servers: all ranks are workers, and the first `servers` are
    servers, too. Gradients travel compressed, and so do the changes of the model that the optimizer makes of their
    mean.

    model:     the module, not wrapped; torch.compile() is fine. All ranks start from the weights and buffers of rank 0,
               and parameters stay bit-identical; buffers are each rank's own. Parameters are of float32, float16 or
               bfloat16, or complex; a complex value is two floats. Servers have float32 weights, and so have workers:
               a parameter of another dtype is that weight, rounded once. Sparse gradients are made dense. Tied
               weights are one parameter; two that only have memory in common are refused. A GradScaler cannot call
               step().
    optimizer: makes the optimizer: a function of a list of parameters, for example
               `lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)`. Parameters are flat float32 parts of tensors, so it
               should treat each value alone. Every rank has one, `.optimizer`, so that schedules run on all alike; they
               take it, or this object, whose groups are the same.
    codec:     of gradients. pull: of changes of the model; None: exchange.pull_codec(codec).
    min_numel, seed, threads, process_group: as in register().

    >>> optimizer = threelc.torch.PushPull(model, lambda p: torch.optim.SGD(p, lr=0.1), servers=2, codec="3lc:s=1.75")
    >>> loss.backward()
    >>> optimizer.step()
    """

    def __init__(self, model: Any, optimizer: Maker, *, servers: int = 1, codec: str = "3lc",
                 pull: Optional[str] = None, min_numel: int = 256, seed: int = 0, threads: Optional[int] = None,
                 process_group: Any = None) -> None:
        check_codec(codec)
        if pull is not None:
            check_codec(pull)
        check_numbers(min_numel, seed, threads)
        self._model = Model(model, "PushPull", may_share=False)
        check_maker(optimizer, "optimizer", "lambda p: torch.optim.SGD(p, lr=0.1)")
        transport = Transport(process_group)
        whole(servers, "servers", 1, transport.world)
        transport.agree({"codec": codec, "pull": pull, "servers": servers, "min_numel": min_numel, "seed": seed})
        self._model.start(transport)
        self._parameters = self._model.parameters
        self._made = made_with(codec, min_numel, pull)
        config = exchange.Config(workers=transport.world, servers=servers, push=codec, pull=pull, min_n=min_numel,
                                 seed=seed, threads=threads)
        tensors = [exchange.Tensor(name, size_of(p)) for name, p in self._parameters.items()]
        keeps = Context(1, codec).residual is not None
        self._residuals = [torch.zeros(tensor.n) for tensor in tensors] if keeps else []
        self._servers = servers
        self._worker = exchange.Worker(config, transport.rank, [
            replace(tensor, residual=residual) for tensor, residual in zip(tensors, self._residuals)] or tensors)
        self._server = exchange.Server(config, transport.rank, tensors) if transport.rank < servers else None
        self._masters = {name: flat(p) for name, p in self._parameters.items() if is_rounded(p)}
        weights = [flat(p) for p in self._parameters.values()]
        self._parts = [torch.nn.Parameter(weights[part.tensor][part.first:part.first + part.n].clone())
                       for part in self._owned()]
        self._given = self._parts or [torch.nn.Parameter(torch.empty(0))]
        self.optimizer = made_optimizer(optimizer, self._given, "optimizer")
        check_closure(self.optimizer, "optimizer")
        super().__init__(self.optimizer, transport, self._model)
        self._patience = Patience("the gradients of this rank were left out")
        self._starving = Starving()
        self._steps = self._failed = 0

    def _owned(self) -> List[exchange.Part]:
        """What this server owns of the model."""
        return [] if self._server is None else self._server.parts()

    def _places(self) -> List[Place]:
        """Where these parts are: name of the tensor, first value, number of values."""
        names = list(self._parameters)
        return [(names[part.tensor], part.first, part.n) for part in self._owned()]

    def _weights(self, name: str) -> torch.Tensor:
        """The float32 weights of a parameter. Where others have written into it, they are its values."""
        parameter = self._parameters[name]
        values = flat(parameter)
        if name not in self._masters:
            return values
        return torch.where(rounded(self._masters[name], parameter) == values, self._masters[name], values)

    def _set_weights(self, name: str, weights: torch.Tensor) -> None:
        assign(self._parameters[name], weights)
        if name in self._masters:
            self._masters[name] = weights

    def _check_inside(self) -> None:
        check_trains(self.optimizer, self._given, "optimizer")

    def step(self, weight: float = 1.0, **scaling: Any) -> None:
        """Pushes the gradients, and pulls the change of the model. weight: of these gradients in the mean.

        A gradient that is not finite is left out; if that happens three times in a row, a warning names the rank and
        the parameter. StepError: there was none that is finite; the model stays what it was.
        """
        self._check()
        if is_scaled(self, scaling):
            forget(self)
            raise TypeError("a GradScaler cannot call step() of PushPull: it looks at the parameters of the servers, "
                            "which have no gradients. Use bfloat16, or multiply the loss by a number, divide the "
                            "gradients by it, and call step(), which leaves out what is not finite")
        weight = weight_of(weight)
        transport, clock = self._transport, self._clock
        gradients = [self._gradient(p) for p in self._parameters.values()]
        self._float_bytes += ring_bytes(gradients, transport.world)
        self._steps += 1
        clock.start()
        push = self._worker.push(gradients, weight)
        left_out = self._worker.outcome()
        clock.was_codec()
        came = transport.all_to_all([*push, *[memoryview(b"")] * (transport.world - self._servers)])
        clock.was_wire()
        answer = memoryview(b"")
        if self._server is not None:
            answer = self._serve(self._server, came)
        else:
            self.optimizer.step()  # of nothing; schedules want to see it
        clock.was_codec()
        answers = [transport.broadcast(answer, server) for server in range(self._servers)]
        clock.was_wire()
        for gradient in gradients:  # changes take their place; those of a server that failed are 0
            gradient.zero_()
        failure: Optional[StepError] = None
        try:
            self._worker.pull(answers, gradients)
        except StepError as error:
            self._failed += 1
            failure = error
        self._move(gradients)
        clock.was_codec()
        warn_starving(self._starving.look(self._object_stats), transport.rank)
        if left_out.cause == Status.NONFINITE:
            self._patience.left_out(left_out.sentence)
        else:
            self._patience.went_well()
        if failure is not None:
            raise failure

    @staticmethod
    def _gradient(parameter: torch.Tensor) -> torch.Tensor:
        if parameter.grad is None:
            return torch.zeros(size_of(parameter))
        gradient = parameter.grad.detach()
        return flat(gradient if gradient.layout == torch.strided else gradient.to_dense())

    def _serve(self, server: exchange.Server, pushes: Sequence[torch.Tensor]) -> memoryview:
        """A step of the optimizer on the mean of the pushes. Returns the answer to all workers."""
        for push in pushes:
            server.push(push)
        try:
            server.reduce()
        except StepError:
            return server.answer()  # says so
        for part, parameter in zip(server.parts(), self._parts):
            parameter.grad = copied(part.mean)
        before = [parameter.detach().clone() for parameter in self._parts]
        self.optimizer.step()
        for parameter in self._parts:
            parameter.grad = None
        return server.answer([parameter.detach() - old for parameter, old in zip(self._parts, before)])

    def _move(self, changes: Sequence[torch.Tensor]) -> None:
        """Workers take the changes. A server has what workers have, and what its answers have not sent yet."""
        moved = [self._weights(name).add_(change) for name, change in zip(self._parameters, changes)]
        for name, weights in zip(self._parameters, moved):
            self._set_weights(name, weights)
        for part, parameter in zip(self._owned(), self._parts):
            weights = moved[part.tensor][part.first:part.first + part.n]
            assign(parameter, weights if part.residual is None else weights + copied(part.residual))

    def flush(self) -> None:
        """Sends what residuals hold as floats, on all ranks together, for the end of a training: the optimizer takes a
        last step with the mean of those of pushes, and all move by its change and by what servers had not answered.
        Residuals are 0 then, on all ranks."""
        self._check()
        sizes = [size_of(p) for p in self._parameters.values()]
        mean = torch.cat(self._residuals or [torch.zeros(n) for n in sizes]).div_(self._transport.world)
        self._transport.all_reduce(mean)
        means, changes = torch.split(mean, sizes), [torch.zeros(n) for n in sizes]
        before = [parameter.detach().clone() for parameter in self._parts]
        for part, parameter in zip(self._owned(), self._parts):
            parameter.grad = means[part.tensor][part.first:part.first + part.n].clone()
        self.optimizer.step()
        for part, parameter, old in zip(self._owned(), self._parts, before):
            change = parameter.detach() - old
            parameter.grad = None
            changes[part.tensor][part.first:part.first + part.n] = \
                change if part.residual is None else change + copied(part.residual)
        change = torch.cat(changes)
        self._transport.all_reduce(change)
        self._worker.residual_scale(0.0)
        if self._server is not None:
            self._server.residual_scale(0.0)
        self._move(torch.split(change, sizes))

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self._parameters.values():
            if parameter.grad is not None:
                if set_to_none:
                    parameter.grad = None
                else:
                    parameter.grad.zero_()

    @property
    def stats(self) -> PushPullStats:
        """Bytes and seconds, and what residuals have."""
        return PushPullStats(**self._traffic(), **residual_ratios(self._object_stats()), steps=self._steps,
                             failed=self._failed)

    def _object_stats(self) -> List[exchange.Stats]:
        return [self._worker.stats] + ([] if self._server is None else [self._server.stats])

    def state_dict(self) -> Dict[str, Any]:
        """Residuals of this rank, float32 weights of parameters of other dtypes, and what its server has: optimizer and
        parts of the model. The model is the caller's to save. Each rank saves its own."""
        return {**_STATE.head(self._transport), "made": dict(self._made),
                "servers": self._servers, "steps": self._steps, "failed": self._failed, "traffic": self._traffic(),
                "masters": {name: master.clone() for name, master in self._masters.items()},
                "worker": self._worker.state_dict(),
                "server": self._server and self._server.state_dict(), "places": self._places(),
                "parts": [part.detach().clone() for part in self._parts],
                "optimizer": optimizer_state(self.optimizer, self._parts)}

    def load_state_dict(self, states: Union[Dict[str, Any], Sequence[Dict[str, Any]]], lost: bool = False) -> None:
        """Goes on from the state_dict() of this rank, with the same bits; the caller loads the model, too. On another
        number of ranks or servers give each the states of all: no residual is lost, and what the optimizer keeps for
        each value goes to the server that owns the value now. lost: states of workers that are missing are lost, and
        their residuals with them; those of servers hold the model and are needed. An exception changes nothing."""
        every = listed_states(states, _STATE)
        found = states_for(every, _STATE, self._transport, lost)
        check_made(_STATE, found, self._made, map(size_of, self._parameters.values()))
        servers = self._of_servers(every) if self._server is not None else []
        masters = found[0]["masters"]
        for name, master in self._masters.items():
            if name not in masters or masters[name].shape != master.shape:
                raise ValueError(f"the float32 weights of {name} are not in the state")
        of_workers, of_servers = [state["worker"] for state in found], [state["server"] for state in servers]
        self._worker.check_states(of_workers, lost)
        if self._server is not None:
            self._server.check_states(of_servers, partly=lost)
        saved = [(place, part) for state in servers for place, part in zip(state["places"], state["parts"])]
        parts = [values_at(place, saved) for place in self._places()]
        self.optimizer.load_state_dict(optimizer_for(  # the last that may fail, and then changes nothing
            self.optimizer, self._parts, self._places(),
            [(state["places"], state["optimizer"]) for state in servers or found]))
        self._worker.load_checked(of_workers, lost)
        if self._server is not None:
            self._server.load_checked(of_servers)
        self._masters = {name: masters[name].clone() for name in self._masters}
        for part, values in zip(self._parts, parts):
            assign(part, values)
        self._steps, self._failed = found[0]["steps"], found[0]["failed"]
        self._load_traffic(found)

    def _of_servers(self, states: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
        """Those that this server needs: its own, or, if there were more or fewer servers, those of all."""
        count = states[0]["servers"]
        found = sorted((state for state in states if state["server"] is not None), key=lambda state: int(state["rank"]))
        if count == self._servers:
            own = [state for state in found if state["rank"] == self._transport.rank]
            if not own:
                raise ValueError(f"the state of server {self._transport.rank} is needed: it holds a part of the model")
            return own
        if [state["rank"] for state in found] != list(range(count)):
            raise ValueError(f"{count} servers were saved, here are {self._servers}: the states of all are needed")
        return found
