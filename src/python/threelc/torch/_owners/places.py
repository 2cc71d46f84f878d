# SPDX-License-Identifier: MIT
"""Optimizers of parts of tensors: what they keep for each value, for another division into parts, too."""
from __future__ import annotations

import copy
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, TypeVar

import torch

Place = Tuple[str, int, int]
"""a part: name of the tensor, its first value, number of values"""


_Saved = TypeVar("_Saved")


def _by_name(saved: Iterable[Tuple[Place, _Saved]]) -> Dict[str, List[Tuple[Place, _Saved]]]:
    """What was saved of each tensor."""
    found: Dict[str, List[Tuple[Place, _Saved]]] = {}
    for place, what in saved:
        found.setdefault(place[0], []).append((place, what))
    return found


def values_at(places: Sequence[Place], saved: Sequence[Tuple[Place, torch.Tensor]]) -> List[torch.Tensor]:
    """The values of parts, from those of the parts saved. ValueError: some are missing."""
    found = _by_name(saved)
    return [_values_at(place, found.get(place[0], [])) for place in places]


def _values_at(place: Place, saved: Sequence[Tuple[Place, Optional[torch.Tensor]]]) -> torch.Tensor:
    """The values of a part, from those of the parts of its tensor that were saved. None stands for zeros. ValueError:
    some are missing."""
    name, first, n = place
    dtype = next((values.dtype for _, values in saved if values is not None), torch.float32)
    found, at = [torch.empty(0, dtype=dtype)], first
    for (_, start, length), values in sorted(saved, key=lambda item: item[0]):
        end = min(start + length, first + n)
        if start <= at < end:
            found.append(torch.zeros(end - at, dtype=dtype) if values is None else values[at - start:end - start])
            at = end
    if at != first + n:
        raise ValueError(f"values {at} to {first + n - 1} of {name} are in no state")
    return torch.cat(found)


def optimizer_state(optimizer: Any, parts: Sequence[torch.Tensor]) -> Dict[str, Any]:
    """What an optimizer keeps for each part, and its settings. A copy, on the CPU."""
    found: Dict[str, Any] = _saved({
        "parts": [dict(optimizer.state.get(part, {})) for part in parts],
        "groups": [{key: value for key, value in group.items() if key != "params"}
                   for group in optimizer.param_groups]})
    return found


def _saved(value: Any) -> Any:
    if torch.is_tensor(value):
        return value.detach().to("cpu", copy=True)
    if type(value) is dict:
        return {key: _saved(each) for key, each in value.items()}
    return type(value)(map(_saved, value)) if type(value) in (list, tuple) else copy.deepcopy(value)


def optimizer_for(optimizer: Any, parts: Sequence[torch.Tensor], places: Sequence[Place],
                  saved: Sequence[Tuple[Sequence[Place], Dict[str, Any]]]) -> Dict[str, Any]:
    """What the optimizer's load_state_dict() takes. saved: places and optimizer_state() of each server. What has the
    shape of its part is kept for each value, and is divided anew; the rest, as a number of steps, is that of the first
    part that overlaps."""
    groups = saved[0][1]["groups"]
    if len(groups) != len(optimizer.param_groups):
        raise ValueError(f"an optimizer of {len(groups)} groups was saved, this one has "
                         f"{len(optimizer.param_groups)}")
    every: Dict[str, List[Tuple[Place, Dict[str, Any]]]] = _by_name(
        (place, state) for old, found in saved for place, state in zip(old, found["parts"]))
    states = {part: _state_at(place, every.get(place[0], [])) for part, place in zip(parts, places)}
    numbers = {part: i for i, part in enumerate(p for group in optimizer.param_groups for p in group["params"])}
    return {
        "state": {i: states[part] for part, i in numbers.items() if states.get(part)},
        "param_groups": [{**settings, "params": [numbers[part] for part in group["params"]]}
                         for settings, group in zip(groups, optimizer.param_groups)]}


def _state_at(place: Place, saved: List[Tuple[Place, Dict[str, Any]]]) -> Dict[str, Any]:
    _, first, n = place
    over = [(p, state) for p, state in saved if p[1] < first + n and first < p[1] + p[2] and state]
    if not over:
        return {}
    length = over[0][0][2]
    found = {}
    for key, value in over[0][1].items():
        if torch.is_tensor(value) and value.shape == (length,):
            value = _values_at(place, [(p, state.get(key)) for p, state in saved])
        elif torch.is_tensor(value):  # load_state_dict of PyTorch 2 keeps it, and parts must not share it
            value = value.clone()
        found[key] = value
    return found
