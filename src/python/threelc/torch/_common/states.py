# SPDX-License-Identifier: MIT
"""States of ranks: what they are made of, whose they are, whether they fit, and which of them a rank needs.

All of it is checked before an object changes.
"""
from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, TypeVar

import torch

from .arguments import shown
from .transport import Transport

# Older states have no kind: they are known by these entries. The first that fits counts.
_MARKS: Tuple[Tuple[str, Tuple[str, ...]], ...] = (
    ("register()", ("groups", "scale")), ("register_fsdp()", ("groups",)), ("LocalSteps", ("anchors",)),
    ("PushPull", ("worker",)), ("Gossip", ("node",)), ("WeightSync", ("published",)))
_MOST_NAMED = 3
_FLOAT = "float"
_T = TypeVar("_T")


def loadable(value: Any) -> Any:
    """A state, or a part of one, of what torch.load(weights_only=True) takes in all releases of PyTorch: 1.13 takes
    neither floats nor bytes. A float x is {"float": x.hex()}, bytes are a tensor of uint8."""
    if isinstance(value, float):
        return {_FLOAT: value.hex()}
    if isinstance(value, bytes):
        return torch.frombuffer(bytearray(value), dtype=torch.uint8) if value else torch.empty(0, dtype=torch.uint8)
    if isinstance(value, Mapping):
        return {key: loadable(part) for key, part in value.items()}
    return type(value)(map(loadable, value)) if type(value) in (list, tuple) else value


def _with_floats(value: Any) -> Any:
    """What loadable() was given. Bytes stay tensors, which the library takes, too."""
    if isinstance(value, Mapping):
        if set(value) == {_FLOAT} and isinstance(value[_FLOAT], str):
            return float.fromhex(value[_FLOAT])
        return {key: _with_floats(part) for key, part in value.items()}
    return type(value)(map(_with_floats, value)) if type(value) in (list, tuple) else value


class Optionally:
    """An entry that may be None, or missing."""

    def __init__(self, form: Any) -> None:
        self.form = form


class Names:
    """An entry that is a list of names, each of them once."""


TENSORS = {str: torch.Tensor}
TRAFFIC = {"float_bytes": int, "sent": int, "received": int, "codec_seconds": float, "wire_seconds": float}
GROUP = {"names": Names(), "sizes": [int], "state": Mapping}
MADE = Optionally({"codec": str, "min_numel": int})


@dataclass(frozen=True)
class Kind:
    """What a state is of."""

    name: str
    version: int
    form: Dict[Any, Any]
    """its entries: of which type, or a dict of entries, {str: form of each}, [form of each], Names, or (form of the
    first, ...)"""
    changes: bool = False
    """whether there is set_codec()"""

    def saved(self, transport: Optional[Transport], entries: Dict[str, Any]) -> Dict[str, Any]:
        """The state with these entries. transport: None: other ranks have nothing to do with it."""
        ranks = {} if transport is None else {"rank": transport.rank, "world": transport.world}
        state: Dict[str, Any] = loadable({"version": self.version, "kind": self.name, **ranks, **entries})
        return state

    def checked(self, state: Any, several: bool = True) -> Mapping[str, Any]:
        """ValueError: it is not a state of this kind and version. several: a list would have been right, too."""
        of_kind = isinstance(state, Mapping) and _kind_of(state) == self.name
        if not of_kind or state.get("version") != self.version:
            ranks = ", or a list of those of all ranks" if several else ""
            what = f"one of version {shown(state.get('version'))}" if of_kind else _what(state)
            raise ValueError(f"a state of version {self.version} is needed, that of {self.name}{ranks}, not {what}")
        try:
            found: Mapping[str, Any] = _with_floats(state)
            problem = _misfit(found, self.form, "")
        except (ValueError, OverflowError, RecursionError) as error:
            problem = f"it cannot be read: {error}"
        if problem:
            raise ValueError(f"this state of {self.name} is damaged: {problem}")
        return found


RANKS = {"rank": int, "world": int}


def _kind_of(state: Mapping[Any, Any]) -> Optional[str]:
    if "kind" in state:
        return str(state["kind"])
    if "state" in state or "version" not in state:
        return None
    return next((name for name, marks in _MARKS if all(mark in state for mark in marks)), None)


def _what(state: Any) -> str:
    """For messages."""
    if not isinstance(state, Mapping):
        return shown(state)
    kind = _kind_of(state)
    if kind is not None:
        return f"one of {kind}"
    if "param_groups" in state:
        return "one of an optimizer"
    if "state" in state and "version" in state:
        return "one of a threelc.Context"
    if state and all(torch.is_tensor(value) for value in state.values()):
        return "one of a module"
    return f"a dict with {', '.join(map(shown, list(state)[:_MOST_NAMED])) or 'nothing'} in it"


def _misfit(value: Any, form: Any, where: str) -> str:
    """What is wrong with a part of a state, `where`; empty: nothing."""
    if isinstance(form, Optionally):
        return "" if value is None else _misfit(value, form.form, where)
    if isinstance(form, dict):
        if not isinstance(value, Mapping):
            return f"{where or 'it'} is {shown(value)}, not a dict"
        if str in form and not _has_names(value):
            return f"names in {where or 'it'} are no words, or one comes twice"
        items = [(key, form[str]) for key in value] if str in form else list(form.items())
        for key, part in items:
            name = f"{where}[{key!r}]" if where else repr(key)
            if key not in value and not isinstance(part, Optionally):
                return f"it has no {name}"
            problem = _misfit(value.get(key), part, name)
            if problem:
                return problem
        return ""
    if isinstance(form, Names):
        fits = isinstance(value, (list, tuple)) and _has_names(value)
        return "" if fits else f"{where} is no list of names, each of them once"
    if isinstance(form, list):
        if not isinstance(value, (list, tuple)):
            return f"{where} is {shown(value)}, not a list"
        return next(filter(None, (_misfit(part, form[0], f"{where}[{i}]") for i, part in enumerate(value))), "")
    if isinstance(form, tuple):
        if not isinstance(value, (list, tuple)) or len(value) != len(form):
            return f"{where} is {shown(value)}, not a list of {len(form)} entries"
        parts = enumerate(zip(value, form))
        return next(filter(None, (_misfit(part, each, f"{where}[{i}]") for i, (part, each) in parts)), "")
    fits = isinstance(value, form) or (form is int and hasattr(value, "__index__")) or \
        (form is float and hasattr(value, "__float__"))
    return "" if fits else f"{where} is {shown(value)}, not a {form.__name__}"


def _has_names(names: Iterable[Any]) -> bool:
    """Whether all are strings, and plain() makes no two of them the same."""
    listed = list(names)
    return all(isinstance(name, str) for name in listed) and len(set(map(plain, listed))) == len(listed)


def listed_states(states: Any, kind: Kind) -> List[Any]:
    """Those of one rank, or of several, checked one by one."""
    if isinstance(states, Mapping):
        found = [states]
    elif isinstance(states, (str, bytes)) or not hasattr(states, "__iter__"):
        kind.checked(states)
        found = []
    else:
        found = list(states)
    if not found:
        raise ValueError("there is no state")
    return [kind.checked(state) for state in found]


def states_for(states: Any, kind: Kind, transport: Transport, lost: Optional[bool]) -> List[Dict[str, Any]]:
    """The states that this rank needs, of one rank or of all: its own, or, if there were more or fewer ranks, all of
    them in the order of ranks. lost: those that are missing are lost; if its own is, the others tell it the step.
    None: none may be lost."""
    found = listed_states(states, kind)
    found.sort(key=lambda state: int(state["rank"]))
    world = found[0]["world"]
    if any(state["world"] != world for state in found):
        raise ValueError("the states are of runs on different numbers of ranks")
    for end in found[0], found[-1]:
        if not 0 <= end["rank"] < world:
            raise ValueError(f"a state is damaged: it is of rank {end['rank']} of {world}")
    for before, state in zip(found, found[1:]):
        if before["rank"] == state["rank"]:
            raise ValueError(f"the state of rank {state['rank']} is given twice")
    own = [state for state in found if state["rank"] == transport.rank]
    if world == transport.world and own:
        return own
    if len(found) < world and not lost:
        here = {state["rank"] for state in found}
        missing = list(islice((rank for rank in range(world) if rank not in here), _MOST_NAMED))
        more = ", ..." if len(here) + len(missing) < world else ""
        hint = "" if lost is None else "; with lost=True the run goes on without the residuals that are missing"
        if world == transport.world:
            raise ValueError(f"the state of rank {transport.rank} is needed{hint}")
        raise ValueError(f"a run on {world} ranks was saved, this is one on {transport.world}: the states of all its "
                         f"ranks are needed, and those of ranks {', '.join(map(str, missing))}{more} are missing{hint}")
    return found


def traffic_saved(states: Sequence[Dict[str, Any]], key: str, transport: Transport) -> Dict[str, Any]:
    """The counts that this rank goes on from, of states_for(): its own. On another number of ranks the counts of all go
    to those that there are now, so that sums over all ranks stay."""
    mine = [state[key] for state in states if state["rank"] % transport.world == transport.rank]
    return {name: sum(counts[name] for counts in mine) for name in states[0][key]}


def made_with(codec: str, min_numel: int, pull: Optional[str] = None, mode: Optional[str] = None) -> Dict[str, Any]:
    """What decides about parts and residuals. States have it, too."""
    made: Dict[str, Any] = {"codec": codec, "min_numel": min_numel}
    if mode != "gather":
        made["pull"] = pull or codec
    if mode is not None:
        made["mode"] = mode
    return made


def check_made(kind: Kind, states: Sequence[Dict[str, Any]], made: Dict[str, Any], sizes: Iterable[int]) -> None:
    """ValueError: the object of the states was made with others, so its parts and residuals do not fit. made:
    made_with() of this one. sizes: of its tensors."""
    sizes = list(sizes)
    for state in states:
        saved = state.get("made") or {}  # older states have none
        for name, here in made.items():
            there = saved.get(name, here)
            if there == here or name == "min_numel" and all((n < here) == (n < there) for n in sizes):
                continue
            then = "to change it, begin anew from the weights of the model"
            if kind.changes and name in ("codec", "pull"):
                then = f"to change it, name {here!r} in reserve, and call set_codec() afterwards"
            raise ValueError(f"the state is of {kind.name} with {name}={there!r}, and this one was made with "
                             f"{name}={here!r}, which its residuals do not fit. Make it with {name}={there!r}; {then}")


def check_places(names: Iterable[str], why: str, lost: bool) -> None:
    """ValueError: names of a state have no place. why: follows "names of the state" in the
    message. lost: what they had is lost."""
    names = list(names)
    if names and not lost:
        first = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
        raise ValueError(f"names of the state {why}: {first} ({len(names)} in all). With lost=True the run goes on "
                         "without what the state has of them")


def by_plain_name(items: Iterable[Tuple[str, _T]], what: str) -> Dict[str, _T]:
    """Of what has names, by plain() names. ValueError: two of them get the same name."""
    found: Dict[str, _T] = {}
    for name, value in items:
        if found.setdefault(plain(name), value) is not value:
            raise ValueError(f"two {what} have the name {plain(name)}")
    return found


def plain(name: str) -> str:
    """A name of a module or parameter, without what torch.compile() puts into it."""
    return ".".join(part for part in name.split(".") if part != "_orig_mod")
