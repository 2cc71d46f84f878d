# SPDX-License-Identifier: MIT
"""The optimizer where the parts of a model have their owners (3LC, section 2 and Figure 2).

Each rank pushes its gradients. The owner of a part averages what comes, takes the optimizer's step on it, and answers
all ranks with the change. Answers are compressed with a residual of their own. Where answers go as floats, they are the
weights: a difference, rounded, and added again would not be the weights that the optimizer has made.
"""
from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import torch

from .. import exchange
from .._errors import Status, StepError
from ..codec_strings import check_codec
from ..context import Context
from ._arguments import check_numbers, one_of, scaler_of, shown, weight_of, whole
from ._buffers import BuffersOfOne
from ._groups import ring_bytes
from ._module import Model, assign, copied, flat, is_rounded, rounded, size_of
from ._optimizer import InPlaceOfOptimizer, Maker, Patience, check_closure, check_maker, check_trains, made_optimizer
from ._param_groups import ParameterGroups
from ._places import Place, optimizer_for, optimizer_state, values_at
from ._scaler import inverse_of, scaler_that_steps, tell
from ._starving import LoopStats, Starving, residual_ratios, warn_starving
from ._states import MADE, RANKS, TENSORS, TRAFFIC, Kind, Optionally, check_made, listed_states, made_with, states_for
from ._transport import Transport

_SQUARES = struct.Struct("<d")
_YES, _NO = b"\x01", b"\x00"
FORM = {**RANKS, "servers": int, "steps": int, "failed": int, "traffic": TRAFFIC, "masters": TENSORS, "worker": Mapping,
        "server": Optionally(Mapping), "places": [(str, int, int)], "parts": [torch.Tensor],
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
                 min_numel: int, seed: int, threads: Optional[int], process_group: Any) -> None:
        """servers: None: all ranks. The rest as in ShardedOptimizer."""
        check_codec(codec)
        if pull is not None:
            check_codec(pull)
        check_numbers(min_numel, seed, threads)
        self._model = Model(model, type(self).__name__, may_share=False)
        check_maker(optimizer, "optimizer", "lambda p: torch.optim.SGD(p, lr=0.1)")
        self._groups = ParameterGroups(groups, self._model)
        one_of(buffers, ("own", "first"), "buffers")
        self._scaler = scaler_of(scaler)
        self.max_norm = max_norm
        transport = Transport(process_group)
        servers = transport.world if servers is None else whole(servers, "servers", 1, transport.world)
        transport.agree({"codec": codec, "pull": pull, "servers": servers, "min_numel": min_numel, "seed": seed,
                         "groups": self._groups.summary(), "max_norm": max_norm, "buffers": buffers,
                         "scaler": self._scaler is not None})
        self._model.start(transport)
        self._parameters = self._model.parameters
        self._made = made_with(codec, min_numel, pull)
        config = exchange.Config(workers=transport.world, servers=servers, push=codec, pull=pull, min_n=min_numel,
                                 seed=seed, threads=threads)
        sizes = {name: size_of(p) for name, p in self._parameters.items()}
        self._as_weights = {name for name, n in sizes.items()
                            if n < min_numel or (pull or exchange.pull_codec(codec)) == "raw"}
        tensors = [exchange.Tensor(name, n, pull="raw" if name in self._as_weights else None)
                   for name, n in sizes.items()]
        self._servers = servers
        keeps = Context(1, codec).residual is not None
        self._residuals = [torch.zeros(tensor.n) for tensor in tensors] if keeps else []
        self._worker = exchange.Worker(config, transport.rank, [
            replace(tensor, residual=residual) for tensor, residual in zip(tensors, self._residuals)] or tensors)
        self._server = exchange.Server(config, transport.rank, tensors) if transport.rank < servers else None
        self._masters = {name: flat(p) for name, p in self._parameters.items() if is_rounded(p)}
        weights = [flat(p) for p in self._parameters.values()]
        self._parts = [torch.nn.Parameter(weights[part.tensor][part.first:part.first + part.n].clone())
                       for part in self._owned()]
        given, self._given = self._groups.of([(name, part) for (name, _, _), part in zip(self._places(), self._parts)])
        self.optimizer = made_optimizer(optimizer, given, self._given, "optimizer")
        check_closure(self.optimizer, "optimizer")
        super().__init__(self.optimizer, transport, self._model)
        self._buffers = BuffersOfOne(self._model) if buffers == "first" else None
        self._patience = Patience("the gradients of this rank were left out")
        self._starving = Starving()
        self._grad_norm: Optional[float] = None
        self._steps = self._failed = 0

    @property
    def max_norm(self) -> Optional[float]:
        """Gradients are clipped to it; None: they are not. On all ranks alike."""
        return self._max_norm

    @max_norm.setter
    def max_norm(self, max_norm: Optional[float]) -> None:
        if max_norm is not None and (isinstance(max_norm, bool) or not hasattr(max_norm, "__float__")
                                     or not float(max_norm) > 0):
            raise ValueError(f"max_norm should be a number above 0, or None, not {shown(max_norm)}")
        self._max_norm = None if max_norm is None else float(max_norm)

    @property
    def grad_norm(self) -> Optional[float]:
        """The 2-norm of the mean of the gradients in the last step, before it was clipped: the same on all ranks. None:
        there was no step, or no max_norm."""
        return self._grad_norm

    def _owned(self) -> List[exchange.Part]:
        """What this rank owns of the model."""
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

    # ---- a step ----

    def step(self, weight: float = 1.0, **scaling: Any) -> None:
        """Pushes the gradients, and pulls the change of the model. weight: of these gradients in the mean.

        A gradient that is not finite is left out; if that happens three times in a row, a warning names the rank and
        the parameter. StepError: there was none that is finite; the model stays what it was. If a GradScaler calls it,
        a gradient that is not finite on any rank skips the step on all.
        """
        self._check()
        scaler = scaler_that_steps(self, self._scaler, scaling)
        weight = weight_of(weight)
        transport, clock = self._transport, self._clock
        gradients = [self._gradient(p) for p in self._parameters.values()]
        self._steps += 1
        clock.start()
        if scaler is not None and self._is_skipped(scaler, gradients):
            self._failed += 1
            clock.was_wire()
            return
        self._float_bytes += ring_bytes(gradients, transport.world)
        push = self._worker.push(gradients, weight)
        left_out = self._worker.outcome()
        clock.was_codec()
        came = transport.all_to_all([*push, *[memoryview(b"")] * (transport.world - self._servers)])
        clock.was_wire()
        for name, values in zip(self._parameters, gradients):  # what is pulled takes their place; what a server that
            if name in self._as_weights:                       # failed does not send changes nothing
                values.copy_(self._weights(name))
            else:
                values.zero_()
        answers = self._answers(came, gradients)
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

    def _is_skipped(self, scaler: Any, gradients: Sequence[torch.Tensor]) -> bool:
        """Takes the scale from the gradients. Whether a rank has one that is not finite; the scaler is told."""
        inverse = inverse_of(scaler.get_scale())
        for gradient in gradients:
            gradient.mul_(inverse)
        mine = _NO if all(bool(gradient.isfinite().all()) for gradient in gradients) else _YES
        found = any(bool(said[0]) for said in self._transport.all_gather(memoryview(mine)))
        tell(scaler, self, found)
        return found

    def _answers(self, pushes: Sequence[torch.Tensor], current: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        """The answers of all owners to the pushes to this one. current: what pull() will overwrite."""
        reduced = self._reduce(pushes, current)
        if self._max_norm is not None:
            self._clock.was_codec()
            self._clip(self._max_norm)
            self._clock.was_wire()
        answer = self._update(reduced)
        if self._buffers is not None and self._transport.rank == 0:
            answer = memoryview(answer.tobytes() + self._buffers.message())
        self._clock.was_codec()
        answers = self._transport.all_gather(answer)[:self._servers]
        self._clock.was_wire()
        if self._buffers is not None:
            try:
                answers[0] = self._buffers.take(answers[0])
            except ValueError:
                self._transport.abort()  # ranks that are content must not wait for this one
                raise
        return answers

    def _reduce(self, pushes: Sequence[torch.Tensor], current: Sequence[torch.Tensor]) -> bool:
        """Parts get the means of the pushes as gradients. Returns whether there are means."""
        if self._server is None:
            return False
        for push in pushes:
            self._server.push(push)
        try:
            self._server.reduce()
        except StepError:
            return False  # the answer says so
        for (name, first, n), part, parameter in zip(self._places(), self._server.parts(), self._parts):
            parameter.grad = copied(part.mean)
            if name in self._as_weights:  # others may have written into them
                assign(parameter, current[part.tensor][first:first + n])
        return True

    def _clip(self, max_norm: float) -> None:
        """As torch.nn.utils.clip_grad_norm_ does, by the norm of all owners' means together."""
        means = [parameter.grad for parameter in self._parts if parameter.grad is not None]
        squares = sum(float(mean.double().pow(2).sum()) for mean in means)
        total = sum(_SQUARES.unpack(bytes(said.tolist()))[0]
                    for said in self._transport.all_gather(memoryview(_SQUARES.pack(squares))))
        self._grad_norm = math.sqrt(total)
        factor = max_norm / (self._grad_norm + 1e-6)
        if factor < 1:
            for mean in means:
                mean.mul_(factor)

    def _update(self, reduced: bool) -> memoryview:
        """The optimizer's step. Returns the answer to all ranks."""
        if self._server is None:
            self.optimizer.step()  # of nothing; schedules want to see it
            return memoryview(b"")
        if not reduced:
            return self._server.answer()
        whole = [name in self._as_weights for name, _, _ in self._places()]
        before = [None if is_whole else parameter.detach().clone() for is_whole, parameter in zip(whole, self._parts)]
        self.optimizer.step()
        for parameter in self._parts:
            parameter.grad = None
        return self._server.answer([parameter.detach() if old is None else parameter.detach() - old
                                    for parameter, old in zip(self._parts, before)])

    def _move(self, pulled: Sequence[torch.Tensor]) -> None:
        """All take what was pulled. An owner has what all ranks have, and what its answers have not sent yet."""
        moved = [values if name in self._as_weights else self._weights(name).add_(values)
                 for name, values in zip(self._parameters, pulled)]
        for name, weights in zip(self._parameters, moved):
            self._set_weights(name, weights)
        for part, parameter in zip(self._owned(), self._parts):
            weights = moved[part.tensor][part.first:part.first + part.n]
            assign(parameter, weights if part.residual is None else weights + copied(part.residual))

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self._parameters.values():
            if parameter.grad is not None:
                if set_to_none:
                    parameter.grad = None
                else:
                    parameter.grad.zero_()

    def flush(self) -> None:
        """Sends what residuals hold as floats, on all ranks together, for the end of a training: the optimizer takes a
        last step with the mean of those of pushes, and all move by its change and by what owners had not answered.
        Residuals are 0 then, on all ranks."""
        self._check()
        sizes = [size_of(p) for p in self._parameters.values()]
        mean = torch.cat(self._residuals or [torch.zeros(n) for n in sizes]).div_(self._transport.world)
        self._transport.all_reduce(mean)
        means, after = torch.split(mean, sizes), [torch.zeros(n) for n in sizes]
        for part, parameter in zip(self._owned(), self._parts):
            parameter.grad = means[part.tensor][part.first:part.first + part.n].clone()
        self.optimizer.step()
        for part, parameter in zip(self._owned(), self._parts):
            parameter.grad = None
            after[part.tensor][part.first:part.first + part.n] = parameter.detach()
        weights = torch.cat(after)  # an owner's part is what all have, and what was not answered
        self._transport.all_reduce(weights)
        self._worker.residual_scale(0.0)
        if self._server is not None:
            self._server.residual_scale(0.0)
        for name, values in zip(self._parameters, torch.split(weights, sizes)):
            self._set_weights(name, values)

    # ---- what it did, and states ----

    def _object_stats(self) -> List[exchange.Stats]:
        return [one.stats for one in (self._worker, self._server) if one is not None]

    def _counts(self) -> Dict[str, Any]:
        """Of OwnerStats."""
        return {**self._traffic(), **residual_ratios(self._object_stats()), "steps": self._steps,
                "failed": self._failed}

    def state_dict(self) -> Dict[str, Any]:
        """Residuals of this rank, float32 weights of parameters of other dtypes, and what it owns: optimizer and parts
        of the model. The model is the caller's to save. Each rank saves its own."""
        return {**self._kind.head(self._transport), "made": dict(self._made),
                "servers": self._servers, "steps": self._steps, "failed": self._failed, "traffic": self._traffic(),
                "masters": {name: master.clone() for name, master in self._masters.items()},
                "worker": self._worker.state_dict(),
                "server": self._server and self._server.state_dict(), "places": self._places(),
                "parts": [part.detach().clone() for part in self._parts],
                "optimizer": optimizer_state(self.optimizer, self._parts)}

    def load_state_dict(self, states: Union[Dict[str, Any], Sequence[Dict[str, Any]]], lost: bool = False) -> None:
        """Goes on from the state_dict() of this rank, with the same bits; the caller loads the model, too. On another
        number of ranks or servers give each the states of all: no residual is lost, and what the optimizer keeps for
        each value goes to the owner that has the value now. lost: states of workers that are missing are lost, and
        their residuals with them; those of servers hold the model and are needed. An exception changes nothing."""
        every = listed_states(states, self._kind)
        found = states_for(every, self._kind, self._transport, lost)
        check_made(self._kind, found, self._made, map(size_of, self._parameters.values()))
        servers = self._of_servers(every) if self._server is not None else []
        masters = found[0]["masters"]
        for name, master in self._masters.items():
            if name not in masters or masters[name].shape != master.shape:
                raise ValueError(f"the float32 weights of {name} are not in the state")
        of_workers, of_servers = [state["worker"] for state in found], [state["server"] for state in servers]
        self._worker.check_states(of_workers, lost)
        if self._server is not None:
            # The worker has looked for names. Owners of 0.4.0 kept residuals of what goes as floats, which were 0.
            self._server.check_states(of_servers, partly=True)
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
