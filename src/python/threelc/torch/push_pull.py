# SPDX-License-Identifier: MIT
"""A parameter server (3LC, section 2 and Figure 2): workers push gradients and pull changes of the model."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

import torch

from .. import exchange
from .._errors import StepError
from ..codec_strings import check_codec
from ._groups import Clock, Traffic, ring_bytes, states_for
from ._module import assign, copied, flat, trained
from ._places import Place, load_optimizer, optimizer_state, values_at
from ._transport import Transport

STATE_VERSION = 2  # of state_dict()


@dataclass(frozen=True)
class PushPullStats(Traffic):
    """What this rank did since the start."""

    steps: int
    failed: int
    """steps that changed nothing, as no gradient was finite"""


class PushPull:
    """Takes the place of the optimizer, which runs on servers: all ranks are workers, and the first `servers` are
    servers, too. Gradients travel compressed, and so do the changes of the model that the optimizer makes of their
    mean.

    model:     the module, not wrapped. All ranks start from the weights of rank 0, and stay bit-identical.
    optimizer: makes the optimizer: a function of a list of parameters, for example
               `lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)`. Parameters are flat parts of tensors, so it should
               treat each value alone. Every rank has one, `.optimizer`, so that schedules run on all alike.
    codec:     of gradients. pull: of changes of the model; None: as `codec`.
    min_numel, seed, threads, process_group: as in register().

    >>> optimizer = threelc.torch.PushPull(model, lambda p: torch.optim.SGD(p, lr=0.1), servers=2, codec="3lc:s=1.75")
    >>> loss.backward()
    >>> optimizer.step()
    """

    def __init__(self, model: Any, optimizer: Callable[[List[Any]], Any], *, servers: int = 1, codec: str = "3lc",
                 pull: Optional[str] = None, min_numel: int = 256, seed: int = 0, threads: Optional[int] = None,
                 process_group: Any = None) -> None:
        for each in (codec, pull):
            if each is not None:
                check_codec(each)
        self._transport = transport = Transport(process_group)
        if not 1 <= servers <= transport.world:
            raise ValueError(f"servers should be from 1 to {transport.world}, not {servers}")
        transport.agree({"codec": codec, "pull": pull, "servers": servers, "min_numel": min_numel, "seed": seed})
        self._parameters = trained(model)
        transport.copy_model(list(self._parameters.values()))
        config = exchange.Config(workers=transport.world, servers=servers, push=codec, pull=pull, min_n=min_numel,
                                 seed=seed, threads=threads)
        tensors = [exchange.Tensor(name, p.numel()) for name, p in self._parameters.items()]
        self._servers = servers
        self._worker = exchange.Worker(config, transport.rank, tensors)
        self._server = exchange.Server(config, transport.rank, tensors) if transport.rank < servers else None
        self._parts = [torch.nn.Parameter(part) for part in self._parts_of_model()]
        self.optimizer = optimizer(list(self._parts) or [torch.nn.Parameter(torch.empty(0))])
        self._clock = Clock()
        self._steps = self._failed = self._float_bytes = 0

    def _parts_of_model(self) -> List[torch.Tensor]:
        """What this server owns of the model."""
        flats = list(self._parameters.values())
        return [] if self._server is None else [
            flat(flats[part.tensor])[part.first:part.first + part.n] for part in self._server.parts()]

    def _places(self) -> List[Place]:
        """Where these parts are: name of the tensor, first value, number of values."""
        names = list(self._parameters)
        return [] if self._server is None else [(names[p.tensor], p.first, p.n) for p in self._server.parts()]

    def step(self, weight: float = 1.0) -> None:
        """Pushes the gradients, and pulls the change of the model. weight: of these gradients in the mean.

        A gradient that is not finite is left out. StepError: there was none that is; the model stays what it was.
        """
        transport, clock = self._transport, self._clock
        gradients = [torch.zeros(p.numel()) if p.grad is None else flat(p.grad) for p in self._parameters.values()]
        self._float_bytes += ring_bytes(gradients, transport.world)
        self._steps += 1
        clock.start()
        push = self._worker.push(gradients, weight)
        clock.was_codec()
        came = transport.all_to_all([*push, *[memoryview(b"")] * (transport.world - self._servers)])
        clock.was_wire()
        answer = memoryview(b"")
        if self._server is not None:
            answer = self._serve(self._server, came)
            clock.was_codec()
        answers = [transport.broadcast(answer, server) for server in range(self._servers)]
        clock.was_wire()
        try:
            self._worker.pull(answers, gradients)  # the changes take the place of the gradients
        except StepError:
            self._failed += 1
            raise
        finally:
            clock.was_codec()
        for parameter, change in zip(self._parameters.values(), gradients):
            assign(parameter, flat(parameter).add_(change))

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
        return server.answer([parameter.detach() - old for parameter, old in zip(self._parts, before)])

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self._parameters.values():
            if parameter.grad is not None:
                if set_to_none:
                    parameter.grad = None
                else:
                    parameter.grad.zero_()

    @property
    def stats(self) -> PushPullStats:
        """Bytes and seconds."""
        return PushPullStats(
            float_bytes=self._float_bytes, sent=self._transport.sent, received=self._transport.received,
            codec_seconds=self._clock.codec, wire_seconds=self._clock.wire, steps=self._steps, failed=self._failed)

    def state_dict(self) -> Dict[str, Any]:
        """Residuals of this rank, and what its server has: optimizer and parts of the model. The model is the caller's
        to save. Each rank saves its own."""
        return {"version": STATE_VERSION, "rank": self._transport.rank, "world": self._transport.world,
                "servers": self._servers, "steps": self._steps, "worker": self._worker.state_dict(),
                "server": self._server and self._server.state_dict(), "places": self._places(),
                "parts": [part.detach().clone() for part in self._parts],
                "optimizer": optimizer_state(self.optimizer, self._parts)}

    def load_state_dict(self, states: Union[Dict[str, Any], Sequence[Dict[str, Any]]]) -> None:
        """Goes on from the state_dict() of this rank, with the same bits; the model has been loaded before. On another
        number of ranks or servers give each the states of all: no residual is lost, and what the optimizer keeps for
        each value goes to the server that owns the value now."""
        every = [states] if isinstance(states, dict) else list(states)
        found = states_for(every, STATE_VERSION, self._transport)
        servers = self._of_servers(every) if self._server is not None else []
        self._worker.load_state_dict([state["worker"] for state in found])
        self._steps = found[0]["steps"]
        if self._server is not None:
            self._server.load_state_dict([state["server"] for state in servers])
        saved = [(place, part) for state in servers for place, part in zip(state["places"], state["parts"])]
        for place, part in zip(self._places(), self._parts):
            assign(part, values_at(place, saved))
        load_optimizer(self.optimizer, self._parts, self._places(),
                       [(state["places"], state["optimizer"]) for state in servers or found])

    def _of_servers(self, states: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
        """Those that this server needs: its own, or, if there were more or fewer servers, those of all."""
        count = states[0]["servers"]
        found = sorted((state for state in states if state["server"] is not None), key=lambda state: int(state["rank"]))
        if count == self._servers:
            return [state for state in found if state["rank"] == self._transport.rank]
        if [state["rank"] for state in found] != list(range(count)):
            raise ValueError(f"{count} servers were saved, here are {self._servers}: the states of all are needed")
        return found
