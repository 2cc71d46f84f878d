# SPDX-License-Identifier: MIT
"""What takes the place of an optimizer, and checks of the optimizers that users give it."""
from __future__ import annotations

import inspect
import warnings
from collections import OrderedDict
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set

import torch

from .arguments import shown
from .groups import Clock, Traffic, load_traffic, saved_traffic
from .log import Log
from .module import Model
from .transport import Transport
from .versions import call_step_hooks

_PATIENCE = 3  # steps in a row that are left out before a warning
_WITH_SECOND_MOMENT = (torch.optim.Adagrad, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adamax, torch.optim.NAdam,
                       torch.optim.RAdam, torch.optim.RMSprop)


class InPlaceOfOptimizer(torch.optim.Optimizer):  # type: ignore[misc]
    """Groups and state are those of the optimizer inside, so that schedules and loss scalers act on it."""

    _step_supports_amp_scaling = True  # for GradScaler: see scaler.py

    def __init__(self, inside: Any, transport: Transport, model: Model, unit: str = "step") -> None:
        """unit: of exchanges."""
        # The constructor of Optimizer would make groups of its own, and load_state_dict() of `inside` makes new ones.
        for hooks in ("step_pre", "step_post"):
            setattr(self, f"_optimizer_{hooks}_hooks", OrderedDict())
        call_step_hooks(self)
        self._inside = inside
        self._transport = transport
        self._model = model
        self._clock = Clock()
        self._float_bytes = 0
        self._log = Log(transport.rank, unit)

    def log_every(self, count: int) -> None:
        """From now on rank 0 logs what an exchange sends, and what it takes, in every so many exchanges, at level INFO
        of the logger "threelc". 0: never."""
        self._log.set_every(count, Traffic(**self._traffic()))

    def _tell(self, number: int) -> None:
        """After each exchange. number: of it."""
        self._log.look(number, lambda: Traffic(**self._traffic()))

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"{type(self).__name__} has connections to other ranks, so it cannot be copied or pickled: "
                        "save its state_dict()")

    def _no_hooks(self, *arguments: Any, **settings: Any) -> Any:
        """TypeError: there are no hooks."""
        raise TypeError(f"state_dict() and load_state_dict() of {type(self).__name__} call no hooks")

    register_state_dict_pre_hook = register_state_dict_post_hook = _no_hooks
    register_load_state_dict_pre_hook = register_load_state_dict_post_hook = _no_hooks

    def _check(self, starts: Optional[Callable[[], Iterable[torch.Tensor]]] = None) -> None:
        """ValueError: the model is no longer what is exchanged, or the optimizer does not have its parameters. starts:
        gives what parameters were at the start, if this is the first step. Ranks where all is right get an error, too,
        when they wait for this one."""
        try:
            self._model.check()
            self._check_inside()
            if starts is not None:
                self._model.check_start(starts())
        except Exception:
            self._abort()
            raise

    def _abort(self) -> None:
        """Closes the connections."""
        self._transport.abort()

    def _check_inside(self) -> None:
        check_optimizer(self._inside, self._model, "the optimizer")

    @property
    def param_groups(self) -> List[Dict[str, Any]]:
        """Those of the optimizer inside, which schedules of the rate change."""
        found: List[Dict[str, Any]] = self._inside.param_groups
        return found

    @property
    def state(self) -> Any:
        """That of the optimizer inside."""
        return self._inside.state

    @property
    def defaults(self) -> Any:
        """Those of the optimizer inside."""
        return self._inside.defaults

    def add_param_group(self, param_group: Any) -> None:
        """TypeError: the parameters are those that the model had at the start."""
        raise TypeError(f"the parameters of {type(self).__name__} are those that the model had at the start")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As that of an optimizer."""
        self._inside.zero_grad(set_to_none=set_to_none)

    def _traffic(self) -> Dict[str, Any]:
        """The counts of Traffic."""
        return saved_traffic(self._float_bytes, self._transport, self._clock)

    def _load_traffic(self, states: Sequence[Dict[str, Any]]) -> None:
        """Goes on from the counts of states, which states_for() found."""
        self._float_bytes = load_traffic(states, "traffic", self._transport, self._clock)["float_bytes"]

    def __repr__(self) -> str:
        return f"<threelc.torch.{type(self).__name__} around {type(self._inside).__name__}>"


def load_optimizer(optimizer: Any, state: Mapping[str, Any]) -> None:
    """ValueError: the state does not fit. Then the optimizer is what it was."""
    try:
        optimizer.load_state_dict(state)
    except Exception as error:  # PyTorch does not say which there may be
        raise ValueError(f"the state does not fit {type(optimizer).__name__}: {error}") from error


def check_optimizer(optimizer: Any, model: Model, name: str) -> None:
    """An optimizer of the user's must have all parameters that are trained, and no others."""
    if not hasattr(optimizer, "param_groups") or not hasattr(optimizer, "step"):
        raise TypeError(f"{name} should be an optimizer, such as torch.optim.SGD(model.parameters(), lr=0.1), not "
                        f"{shown(optimizer)}")
    theirs = _parameters_of(optimizer)
    if theirs.isdisjoint(map(id, model.parameters.values())):
        raise ValueError(f"{name} is of another model: it has none of the parameters that are trained here")
    if not theirs.issubset(map(id, model.module.parameters())):
        raise ValueError(f"{name} has parameters that are not the model's: each rank would train its own. Put all into "
                         "one module")
    for parameter, tensor in model.parameters.items():
        if id(tensor) not in theirs and tensor.requires_grad:
            raise ValueError(f"{name} does not have the parameter {parameter}, which would never be trained: give it "
                             "to the optimizer, or freeze it with requires_grad_(False)")


def made_optimizer(make: Any, given: Sequence[Any], parameters: Sequence[torch.Tensor], name: str) -> Any:
    """What a function of the user's makes of what it is given: parameters, or groups of them."""
    optimizer = make(list(given))
    if not hasattr(optimizer, "param_groups") or not hasattr(optimizer, "step"):
        raise TypeError(f"{name} should make an optimizer, not {shown(optimizer)}")
    check_trains(optimizer, parameters, name)
    check_closure(optimizer, name)
    return optimizer


def check_trains(optimizer: Any, parameters: Sequence[torch.Tensor], name: str) -> None:
    """An optimizer that was made for parameters must have them, and no others."""
    if _parameters_of(optimizer) != set(map(id, parameters)):
        raise ValueError(f"{name} made an optimizer of other parameters than it was given")


def check_maker(make: Any, name: str, example: str) -> None:
    if not callable(make):
        raise TypeError(f"{name} should be a function of a list of parameters that makes an optimizer, such as "
                        f"{example}, not {shown(make)}")


def check_closure(optimizer: Any, name: str) -> None:
    """Where step() is called without one."""
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise TypeError(f"{name} is {shown(optimizer)}, which computes the loss several times in a step; here there is "
                        "one gradient in a step")


def warn_second_moment(optimizer: Any, codec: str) -> None:
    """An optimizer divides by the root of its second moment, which gets what `codec` makes of gradients."""
    if isinstance(optimizer, _WITH_SECOND_MOMENT):
        warnings.warn(f"threelc: {type(optimizer).__name__} divides by the root of a mean square, and of gradients in "
                      f"{codec} small values come rarely, and are large then, so the training may lose much. With "
                      "second_moment= ranks divide before they compress, and little is lost", RuntimeWarning,
                      stacklevel=4)


def _parameters_of(optimizer: Any) -> Set[int]:
    return {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}


class Patience:
    """Warns once if what is left out now and then is left out again and again."""

    def __init__(self, what: str) -> None:
        """what: happened "3 times in a row"."""
        self._what = what
        self._in_a_row = 0

    def left_out(self, why: str) -> None:
        self._in_a_row += 1
        if self._in_a_row == _PATIENCE:
            warnings.warn(f"{self._what} {_PATIENCE} times in a row. The last time: {why}", RuntimeWarning,
                          stacklevel=3)

    def went_well(self) -> None:
        self._in_a_row = 0


Maker = Callable[[List[Any]], Any]
