# SPDX-License-Identifier: MIT
"""Which parameters make up a fragment of a model."""
from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Tuple

import torch

from .._common.arguments import one_of, shown, whole
from .._common.module import Model, size_of
from .._common.states import plain

_PATTERNS = ("strided", "sequential")
_LAYER = re.compile(r"(?:.*?\.)?\d+(?=\.)")  # a name of a parameter up to its first number, as "transformer.h.3"


def fragments_of(model: Model, fragments: Any, pattern: str) -> List[List[str]]:
    """The names of the trained parameters of each fragment, in the order of the model. fragments: how many, or of each
    a list of modules or names. pattern: of layers, if it is a number. ValueError: a parameter is in none or in two, or
    there are fewer layers than fragments."""
    one_of(pattern, _PATTERNS, "pattern")
    if isinstance(fragments, str) or not isinstance(fragments, Iterable):
        return _by_layers(model, whole(fragments, "fragments", 1), pattern)
    return _as_given(model, list(fragments))


def _by_layers(model: Model, count: int, pattern: str) -> List[List[str]]:
    if count == 1:  # parameters may have no shape yet
        return [list(model.parameters)]
    layers, others = _layers(model, count)
    if len(layers) < count:
        raise ValueError(f"the model has {len(layers)} layers, which are not enough for fragments={count}: use fewer, "
                         "or list the modules of each fragment")
    place = {}
    for i, names in enumerate(layers):
        fragment = i % count if pattern == "strided" else i * count // len(layers)
        place.update(dict.fromkeys(names, fragment))
    sizes = {name: size_of(parameter) for name, parameter in model.parameters.items()}
    loads = [sum(sizes[name] for name, at in place.items() if at == fragment) for fragment in range(count)]
    for names in sorted(others, key=lambda names: -sum(sizes[name] for name in names)):
        fragment = loads.index(min(loads))
        loads[fragment] += sum(sizes[name] for name in names)
        place.update(dict.fromkeys(names, fragment))
    return [[name for name in model.parameters if place[name] == fragment] for fragment in range(count)]


def _layers(model: Model, count: int) -> Tuple[List[List[str]], List[List[str]]]:
    """The parameters of each layer, and those of modules beside the layers. Layers are numbered modules; if there are
    too few, each module with parameters of its own is one."""
    numbered: Dict[str, List[str]] = {}
    others: Dict[str, List[str]] = {}
    for name in model.parameters:
        found = _LAYER.match(name)
        if found:
            numbered.setdefault(found[0], []).append(name)
        else:
            others.setdefault(name.rpartition(".")[0], []).append(name)
    if len(numbered) >= count:
        return list(numbered.values()), list(others.values())
    modules: Dict[str, List[str]] = {}
    for name in model.parameters:
        modules.setdefault(name.rpartition(".")[0], []).append(name)
    return list(modules.values()), []


def _as_given(model: Model, fragments: List[Any]) -> List[List[str]]:
    place: Dict[str, int] = {}
    for i, entries in enumerate(fragments):
        if isinstance(entries, (str, torch.nn.Module)) or not isinstance(entries, Iterable):
            raise TypeError("fragments should be a number, or a list of lists of modules or names, not a list with "
                            f"{shown(entries)}")
        for entry in entries:
            for name in _names(model, entry):
                if place.setdefault(name, i) != i:
                    raise ValueError(f"parameter {name} is in fragments {place[name]} and {i}: it belongs into one")
        if i not in place.values():
            raise ValueError(f"fragment {i} has no parameter that is trained")
    for name in model.parameters:
        if name not in place:
            raise ValueError(f"parameter {name} is in no fragment, so it would never be exchanged")
    return [[name for name in model.parameters if place[name] == i] for i in range(len(fragments))]


def _names(model: Model, entry: Any) -> List[str]:
    """Trained parameters of a module, or of one that is named, or the parameter of this name."""
    if isinstance(entry, torch.nn.Module):
        theirs = {id(parameter) for parameter in entry.parameters()}
        return [name for name, parameter in model.parameters.items() if id(parameter) in theirs]
    if not isinstance(entry, str):
        raise TypeError(f"a fragment has modules or names of them or of parameters, not {shown(entry)}")
    entry = plain(entry)
    found = [name for name in model.parameters if name == entry or name.startswith(f"{entry}.")]
    if not found and entry not in {plain(name) for name, _ in model.module.named_modules()}:
        raise ValueError(f"the model has no module, and no parameter that is trained, of the name {entry!r}")
    return found
