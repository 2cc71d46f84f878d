# SPDX-License-Identifier: MIT
"""The parameters of a DistributedDataParallel module, and whether what a state has of them finds its place."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .._common.groups import DTYPES
from .._common.sharing import dense
from .._common.states import by_plain_name, check_places, plain


def order_of(parameter: torch.Tensor) -> List[int]:
    """In which order a bucket of DistributedDataParallel has the values of a gradient: dimensions of the parameter, the
    one with the largest steps in memory first. Those of one value are left out. Another order than that of the shape
    is, for example, that of channels_last. If values share memory, or leave gaps in it, it is that of the shape."""
    found = [i for i, length in enumerate(parameter.shape) if length > 1]
    if dense(parameter.shape, parameter.stride()):
        found.sort(key=lambda i: int(parameter.stride(i)), reverse=True)
    return found


def in_order(gradient: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """Its values as a bucket has them, flat, perhaps in the same memory."""
    order = order_of(parameter)
    rest = [i for i in range(gradient.dim()) if i not in order]
    return gradient.permute(order + rest).contiguous().view(-1)


def shaped(flat: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """What in_order() was given, in the memory of what it returned."""
    if dense(parameter.shape, parameter.stride()):
        return flat.as_strided(parameter.shape, parameter.stride())
    return flat.view(parameter.shape)


def not_taken(result: torch.Tensor, parameter: torch.Tensor) -> Optional[torch.Tensor]:
    """The values of a result in a bucket that did not become the gradient, flat. None: they did, or are of no use."""
    values = result.as_strided((result.numel(),), (1,))
    if not torch.isfinite(values).all() or not values.any():
        return None
    taken = parameter.grad is not None and torch.equal(parameter.grad, shaped(values, parameter))
    return None if taken else values


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
            p.grad = None if found is None else shaped(found, p).to(p.device, p.dtype, copy=True)

    def orders(self) -> Dict[str, List[int]]:
        """For a state: order_of() of parameters where it is another one than that of the shape."""
        found = {plain(name): order_of(p) for name, p in self._module.named_parameters()}
        return {name: order for name, order in found.items() if order != sorted(order)}

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
        orders, theirs = self.orders(), states[0].get("orders")  # 0.5.0 did not save them
        for group in groups:
            for name, _, n in self.members(group):
                here = self._parameters[name]
                if here.n != n:
                    raise ValueError(f"{name} has {here.n} values, in the state it has {n}")
                if DTYPES.get(here.dtype) != group["dtype"]:
                    there = next((str(dtype) for dtype, number in DTYPES.items() if number == group["dtype"]), "others")
                    raise ValueError(f"{name} is of {here.dtype} here, and the state is of gradients of {there}: give "
                                     "the module the dtype that it had, before it is wrapped")
                if theirs is not None and orders.get(name) != theirs.get(name):
                    raise ValueError(f"{name} lies in memory in another order of its dimensions than in the run that "
                                     "was saved, and its residual has that order: give the module the memory_format "
                                     "that it had, such as torch.channels_last, before it is wrapped")
