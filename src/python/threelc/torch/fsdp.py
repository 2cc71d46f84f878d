# SPDX-License-Identifier: MIT
"""FSDP2: the all-reduce between replicas of a sharded model, which is where slow links are.

Not yet run on a real FSDP2, which PyTorch has from 2.4 on: this follows the signature that its documentation gives for
FSDPModule.set_all_reduce_hook, hook(reduce_output: Tensor) -> None, and is tested against a stand-in of it.
"""
from __future__ import annotations

from functools import partial
from typing import Any, Dict, List, Optional, Sequence, Union

import torch

from .. import exchange
from .._errors import Status, StepError
from ..context import Context
from ._ddp_state import DTYPES
from ._groups import Clock, Group, Traffic, check_choices, ring_bytes, states_for
from ._transport import Transport

STATE_VERSION = 1  # of state_dict()


class FSDPState:
    """What the hooks keep; register_fsdp() makes it. Residuals belong to the names of the sharded modules."""

    def __init__(self, transport: Transport, config: Dict[str, Any], on_nonfinite: str) -> None:
        self._transport = transport
        self._config = config
        self._skips = on_nonfinite == "skip"
        self._has_feedback = Context(1, config["push"]).residual is not None
        self._groups: Dict[str, Group] = {}
        self._saved: Dict[str, List[Dict[str, Any]]] = {}  # states of modules that had no gradient yet
        self._clock = Clock()
        self._float_bytes = 0
        self.residuals: Dict[str, torch.Tensor] = {}
        """what was not sent yet, flat, by module; empty if the codec keeps no residual"""

    def reduce(self, name: str, output: torch.Tensor) -> None:
        """The hook of a module: its part of the gradient becomes the mean over the replicas."""
        gradient = output.detach().contiguous().view(-1)
        if name not in self._groups:
            config = exchange.Config(dtype=DTYPES[output.dtype], **self._config)
            self._groups[name] = Group(config, self._transport.rank, [name], [gradient.numel()],
                                       self.residuals if self._has_feedback else None,
                                       device=None if gradient.device.type == "cpu" else gradient.device)
            if name in self._saved:
                self._groups[name].load_states(self._saved.pop(name))
        if self._groups[name].on_device:
            host = torch.empty_like(gradient, device="cpu")
        else:
            gradient = host = gradient.to("cpu")
        self._float_bytes += ring_bytes([host], self._transport.world)
        try:
            self._groups[name].run(self._transport, [gradient], [host], self._clock)
        except StepError as error:
            if not self._skips or error.outcome is None or error.outcome.cause != Status.NONFINITE:
                raise
            host.fill_(float("nan"))
        if host.data_ptr() != output.data_ptr():
            output.copy_(host.view(output.shape))

    @property
    def stats(self) -> Traffic:
        """Bytes and seconds."""
        return Traffic(float_bytes=self._float_bytes, sent=self._transport.sent, received=self._transport.received,
                       codec_seconds=self._clock.codec, wire_seconds=self._clock.wire)

    def state_dict(self) -> Dict[str, Any]:
        """Residuals of this rank, by names of modules. Each rank saves its own."""
        return {"version": STATE_VERSION, "rank": self._transport.rank, "world": self._transport.world,
                "groups": {name: group.state_dict() for name, group in self._groups.items()}}

    def load_state_dict(self, states: Union[Dict[str, Any], Sequence[Dict[str, Any]]]) -> None:
        """Goes on from the state_dict() of this rank, or, on another number of replicas with as many shards, from those
        of all replicas of its shard. Call it before the first backward pass."""
        if self._groups:
            raise ValueError("states are loaded before the first backward pass")
        found = states_for(states, STATE_VERSION, self._transport)
        self._saved = {name: [state["groups"][name] for state in found] for name in found[0]["groups"]}


def register_fsdp(model: Any, codec: str = "3lc", mode: str = "sharded", *, process_group: Any = None,
                  pull: Optional[str] = None, min_numel: int = 256, on_nonfinite: str = "skip", seed: int = 0,
                  threads: Optional[int] = None) -> FSDPState:
    """Compresses what replicas of a model send each other, where fully_shard() was called with the mesh of one replica
    (not with a mesh of two dimensions: then PyTorch itself has averaged before the hook).

    process_group: of backend gloo, which nobody else uses: the ranks of all replicas that have the same shard. None: a
    new one of all ranks, for replicas of one rank each. The other arguments are those of register().
    """
    check_choices(mode, on_nonfinite, codec, pull)
    transport = Transport(process_group)
    config = {"push": codec, "pull": pull, "gather": mode == "gather", "min_n": min_numel, "seed": seed}
    transport.agree({**config, "on_nonfinite": on_nonfinite})
    state = FSDPState(transport, {**config, "workers": transport.world, "threads": threads}, on_nonfinite)
    modules = {name: module for name, module in model.named_modules() if hasattr(module, "set_all_reduce_hook")}
    if not modules:
        raise ValueError("fully_shard() was called for no module of this model")
    for name, module in modules.items():
        module.set_all_reduce_hook(partial(state.reduce, name or "(root)"))
    return state
