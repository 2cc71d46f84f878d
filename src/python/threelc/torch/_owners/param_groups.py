# SPDX-License-Identifier: MIT
"""Groups of a model's parameters, each with options of its own, for an optimizer of parts of them."""
from __future__ import annotations

import hashlib
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import torch

from .._common.arguments import shown
from .._common.module import Model


class ParameterGroups:
    """As optimizers of PyTorch take them. Every rank has all groups, so that schedules run on all alike."""

    def __init__(self, groups: Optional[Sequence[Mapping[str, Any]]], model: Model) -> None:
        """groups: of the model's parameters; None: there is one without options. Frozen parameters may be in them.
        ValueError: a parameter that is trained is in none or in two, or one is not the model's."""
        self._groups: Optional[List[Tuple[Dict[str, Any], Set[str]]]] = None
        if groups is None:
            return
        names = {id(p): name for name, p in model.named_parameters()}
        seen: Set[str] = set()
        self._groups = []
        for i, group in enumerate(groups):
            if not isinstance(group, Mapping) or "params" not in group:
                raise TypeError(f"groups[{i}] should be a dict with the entry 'params', not {shown(group)}")
            params = group["params"]
            here: Set[str] = set()
            for parameter in [params] if torch.is_tensor(params) else params:
                if id(parameter) not in names:
                    raise ValueError(f"groups[{i}] has a parameter that is not the model's")
                name = names[id(parameter)]
                if name in seen:
                    raise ValueError(f"parameter {name} is in the groups twice")
                seen.add(name)
                here.add(name)
            self._groups.append(({key: value for key, value in group.items() if key != "params"}, here))
        for name in model.parameters:
            if name not in seen:
                raise ValueError(f"parameter {name} is in none of the groups, so it would never be trained: add it to "
                                 "one, or freeze it with requires_grad_(False)")

    def summary(self) -> Optional[List[str]]:
        """To be compared between ranks."""
        if self._groups is None:
            return None
        return [f"{len(names)} parameters ({hashlib.sha256(repr(sorted(names)).encode()).hexdigest()[:8]}), "
                f"{sorted(options.items(), key=lambda item: item[0])}" for options, names in self._groups]

    def of(self, parts: Sequence[Tuple[str, torch.Tensor]]) -> Tuple[List[Any], List[torch.Tensor]]:
        """What makes the optimizer of parts, each with the name of its parameter: a list of tensors, or of groups of
        them; and all tensors in it. A group without parts has one without values, as optimizers want one."""
        if self._groups is None:
            given = [part for _, part in parts] or [_nothing()]
            return list(given), given
        groups, given = [], []
        for options, names in self._groups:
            here = [part for name, part in parts if name in names] or [_nothing()]
            groups.append({"params": here, **options})
            given += here
        return groups, given


def _nothing() -> torch.Tensor:
    return torch.nn.Parameter(torch.empty(0))
