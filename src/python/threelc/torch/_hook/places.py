# SPDX-License-Identifier: MIT
"""The parameters of a DistributedDataParallel module, and whether what a state has of them finds its place."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import torch

from .._common.groups import DTYPES
from .._common.states import by_plain_name, check_places, plain


class _Parameter(NamedTuple):
    n: int
    dtype: torch.dtype
    device: torch.device
    trained: bool


class Places:
    """By name, without what torch.compile() puts into names."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._names: Dict[int, str] = {}
        self._parameters: Dict[str, _Parameter] = {}
        for name, p in by_plain_name(module.named_parameters(), "parameters").items():
            self._names[id(p)] = name
            self._parameters[name] = _Parameter(p.numel(), p.dtype, p.device, p.requires_grad)

    def name_of(self, parameter: Any) -> str:
        """ValueError: the module did not have it."""
        name = self._names.get(id(parameter))
        if name is None:
            raise ValueError(f"a gradient of shape {list(parameter.shape)} is of a parameter that the module did not "
                             "have when register() was called: register a new DistributedDataParallel module")
        return name

    def set_gradients(self, values: Dict[str, torch.Tensor]) -> None:
        """values: flat, by name; the others get None."""
        for name, p in self._module.named_parameters():
            found = values.get(plain(name))
            p.grad = None if found is None else found.view(p.shape).to(p.device, p.dtype, copy=True)

    def device_of(self, name: str) -> torch.device:
        return self._parameters[name].device

    def members(self, group: Dict[str, Any]) -> List[Tuple[str, str, int]]:
        """Of the parameters of a group of a state: those that are trained here, as named here and in the state, and
        their sizes."""
        return [(plain(name), name, n) for name, n in zip(group["names"], group["sizes"])
                if plain(name) in self._parameters and self._parameters[plain(name)].trained]

    def check(self, states: Sequence[Dict[str, Any]], lost: bool) -> None:
        """ValueError: a parameter of the states is missing here, frozen, or another one. lost: it may be missing."""
        groups = states[0]["groups"]
        if any([group["names"] for group in state["groups"]] != [group["names"] for group in groups]
               for state in states):
            raise ValueError("the states do not belong together: parameters travel in other groups in some of them")
        names = [plain(name) for group in groups for name in group["names"]]
        if len(set(names)) < len(names):
            raise ValueError("the state has a parameter twice")
        check_places((name for name in names if name not in self._parameters), "that no parameter has here", lost)
        check_places((name for name in names if name in self._parameters and not self._parameters[name].trained),
                     "whose parameters are frozen here, so that no gradients will come", lost)
        for group in groups:
            for name, _, n in self.members(group):
                here = self._parameters[name]
                if here.n != n:
                    raise ValueError(f"{name} has {here.n} values, in the state it has {n}")
                if DTYPES.get(here.dtype) != group["dtype"]:
                    there = next((str(dtype) for dtype, number in DTYPES.items() if number == group["dtype"]), "others")
                    raise ValueError(f"{name} is of {here.dtype} here, and the state is of gradients of {there}: give "
                                     "the module the dtype that it had, before it is wrapped")
