# SPDX-License-Identifier: MIT
"""What a GradScaler tells an optimizer that it steps: the scale of the gradients, and whether all are finite.

A scaler that finds an infinity on one rank would not call step() there, and this rank would be one step behind the
others. An optimizer with _step_supports_amp_scaling is called always, and decides for itself. PyTorch 1 gives its
step() the scaler as the argument grad_scaler; PyTorch 2 gives the optimizer two attributes, and takes them away later.
"""
from __future__ import annotations

from typing import Any, Dict

import torch


def is_scaled(optimizer: Any, arguments: Dict[str, Any]) -> bool:
    """Whether a scaler has called step(). arguments: by name, those that step() does not know. TypeError: another."""
    for name in arguments:
        if name != "grad_scaler":
            raise TypeError(f"step() has no argument {name}")
    return bool(arguments) or getattr(optimizer, "found_inf", None) is not None


def take_scale(optimizer: Any, arguments: Dict[str, Any]) -> bool:
    """Takes the scale from the gradients, if a scaler has called step() and has not done it. Returns whether all
    gradients are finite, as far as a scaler has looked."""
    if not is_scaled(optimizer, arguments):
        return True
    if arguments:
        return _of_pytorch_1(optimizer, arguments["grad_scaler"])
    found, scale = float(optimizer.found_inf), optimizer.grad_scale
    forget(optimizer)
    if scale is not None and float(scale) != 1:
        _unscale(optimizer, float(scale))
    return not found


def forget(optimizer: Any) -> None:
    """If step() raises an exception, PyTorch 2 leaves the attributes, and multiplies the next scale by this one."""
    if getattr(optimizer, "found_inf", None) is not None:
        optimizer.found_inf, optimizer.grad_scale = None, 1.0


def inverse_of(scale: float) -> float:
    """What unscale_() of a scaler multiplies gradients by."""
    return float(torch.tensor(scale, dtype=torch.float64).reciprocal().float())


def _unscale(optimizer: Any, scale: float) -> None:
    """As scaler.unscale_() does."""
    inverse = inverse_of(scale)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            if parameter.grad.dtype == torch.float16:
                raise ValueError("a GradScaler cannot unscale float16 gradients: keep the parameters in float32, and "
                                 "let torch.autocast choose float16")
            parameter.grad.mul_(inverse)


def _of_pytorch_1(optimizer: Any, scaler: Any) -> bool:
    found = _found(scaler, optimizer)
    if found["stage"].name == "READY":
        scaler.unscale_(optimizer)
    return not sum(float(value) for value in found["found_inf_per_device"].values())


# ---- an optimizer whose groups do not hold the gradients ----

def scaler_that_steps(optimizer: Any, given: Any, arguments: Dict[str, Any]) -> Any:
    """The scaler that has called step(), or None. given: when the optimizer was made; None: no scaler."""
    if not is_scaled(optimizer, arguments):
        return None
    forget(optimizer)
    who = type(optimizer).__name__
    if given is None:
        raise TypeError(f"a GradScaler has called step() of {who}, which does not know it: give it when {who} is made, "
                        "scaler=scaler")
    if _found(given, optimizer)["stage"].name == "UNSCALED":
        raise TypeError(f"unscale_() of a GradScaler does nothing for {who}, whose step() takes the scale from the "
                        "gradients: leave it out, and clip with max_norm")
    return given


def tell(scaler: Any, optimizer: Any, found: bool) -> None:
    """update() of the scaler counts this step. found: a gradient was not finite."""
    _found(scaler, optimizer)["found_inf_per_device"] = {torch.device("cpu"): torch.tensor(float(found))}


def _found(scaler: Any, optimizer: Any) -> Any:
    """What a scaler has found of an optimizer since its last update()."""
    return scaler._per_optimizer_states[id(optimizer)]
