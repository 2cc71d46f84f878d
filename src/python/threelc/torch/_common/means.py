# SPDX-License-Identifier: MIT
"""Exchanges that are called by names, whenever there is a tensor: what AllReduce and FSDP2 have in common."""
from __future__ import annotations

import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence

import torch

from ... import exchange
from ..._errors import Status, StepError
from ...context import Context
from .device import place_of
from .groups import DTYPES, Clock, Group, ring_bytes, saved_traffic
from .moments import Moments
from .states import made_with
from .transport import Transport


class Means:
    """Each exchange is of a group of tensors, which lie one after the other in a flat one. Groups have names, and keep
    residuals from one exchange to the next."""

    def __init__(self, transport: Transport, config: Dict[str, Any], on_nonfinite: str, momentum: Optional[float],
                 beta: Optional[float], quantize: str, residual_dtype: torch.dtype) -> None:
        """config: of exchange.Config, but for workers and dtype. momentum, beta: momentum_correction and second_moment
        of register(), and the others as there."""
        self.transport = transport
        self.config: Dict[str, Any] = {**config, "workers": transport.world}
        self.has_feedback = Context(1, config["push"]).residual is not None
        self.moments = Moments(momentum, beta)
        self.made = made_with(config["push"], config["min_n"], config["pull"],
                              "gather" if config["gather"] else "sharded")
        self.made.update(momentum_correction=momentum, second_moment=beta)
        self.clock = Clock()
        self.float_bytes = 0
        self.residuals: Dict[str, torch.Tensor] = {}
        self._quantize = quantize
        self._residual_dtype = residual_dtype
        self._skips = on_nonfinite == "skip"
        self._warned = False  # that a gradient was not finite
        self.groups: Dict[str, Group] = {}
        self.loaded: Dict[str, Group] = {}  # had no tensor yet, so that dtype and device are unknown

    def run(self, name: str, sizes: Mapping[str, int], tensor: torch.Tensor) -> None:
        """tensor becomes its mean over all ranks. name: of the group. sizes: of its tensors, by name, where the group
        is new and was not loaded."""
        flat = tensor.detach().contiguous().view(-1)
        if tensor.dtype in DTYPES:
            mean = self._compressed(self._group_of(name, sizes, flat), flat)
        elif self.moments.active:
            raise ValueError(f"momentum_correction and second_moment do not take gradients of {tensor.dtype}")
        else:
            mean = flat.cpu().div_(self.transport.world)  # no codec takes it: as floats
            with self.clock.sending("floats"):
                self.float_bytes += self.transport.all_reduce(mean)
        if mean.data_ptr() != tensor.data_ptr():
            tensor.detach().copy_(mean.view(tensor.shape))

    def _group_of(self, name: str, sizes: Mapping[str, int], flat: torch.Tensor) -> Group:
        if name not in self.groups:
            self.groups[name] = self._made(name, sizes, flat)
        group = self.groups[name]
        if sum(group.sizes) != flat.numel():
            raise ValueError(f"the gradient of {name} has {flat.numel()} values, and had {sum(group.sizes)} before: "
                             "the same parameters have to get gradients each time")
        if group.dtype != DTYPES[flat.dtype]:
            raise ValueError(f"the gradient of {name} is of {flat.dtype}, and was of another dtype before")
        return group

    def _made(self, name: str, sizes: Mapping[str, int], flat: torch.Tensor) -> Group:
        loaded = self.loaded.get(name)
        if loaded is not None:
            sizes = dict(zip(loaded.names, loaded.sizes))
        group = Group(exchange.Config(dtype=DTYPES[flat.dtype], **self.config), self.transport.rank, list(sizes),
                      list(sizes.values()), self.residuals if self.has_feedback else None,
                      device=place_of(self._quantize, [flat.device], self.moments.on_host,
                                      residual_dtype=self._residual_dtype),
                      called=None if loaded is None else loaded.called, residual_dtype=self._residual_dtype)
        if loaded is not None:
            group.load_states([loaded.state_dict()], False)
            del self.loaded[name]
        return group

    def _compressed(self, group: Group, gradient: torch.Tensor) -> torch.Tensor:
        """The mean, where the gradient is or on the CPU."""
        if group.on_device:
            out = torch.empty_like(gradient)
        else:
            gradient = out = gradient.to("cpu")
        self.float_bytes += ring_bytes([out], self.transport.world)
        sizes = list(group.sizes)
        try:
            if self.moments.active:
                self.moments.run(group, self.transport, gradient.split(sizes), out.split(sizes), self.clock)
            else:
                group.run(self.transport, gradient.split(sizes), out.split(sizes), self.clock)
        except StepError as error:
            if not self._skips or error.outcome is None or error.outcome.cause != Status.NONFINITE:
                raise
            if not self._warned:
                self._warned = True
                rank = "" if error.sentence.startswith("rank") else f"rank {self.transport.rank}: "
                warnings.warn(f"threelc: {rank}{error.sentence}. All ranks get NaN there, which a loss scaler skips; "
                              'without one, find the cause, or use on_nonfinite="raise"', RuntimeWarning)
            out.fill_(float("nan"))
        return out

    def traffic(self) -> Dict[str, Any]:
        return saved_traffic(self.float_bytes, self.transport, self.clock)

    def states(self) -> Dict[str, Any]:
        """Of groups, by name."""
        return {name: group.state_dict() for name, group in {**self.loaded, **self.groups}.items()}

    def new_group(self, names: Sequence[str], sizes: Sequence[int], residuals: Optional[Dict[str, torch.Tensor]] = None,
                  called: Optional[Sequence[str]] = None) -> Group:
        """One that had no tensor yet. residuals: those that it begins with, by name; None: 0."""
        kept = {} if residuals is None else residuals
        return Group(exchange.Config(**self.config), self.transport.rank, names, sizes,
                     kept if self.has_feedback else None, called=called)

    def loaded_group(self, names: Sequence[str], sizes: Sequence[int], states: List[Dict[str, Any]], lost: bool,
                     called: Optional[Sequence[str]] = None) -> Group:
        """One that goes on from its states, of one rank or of all. They do not depend on the dtype of gradients."""
        group = self.new_group(names, sizes, called=called)
        group.check_states(states, lost)
        group.load_states(states, lost)
        return group
