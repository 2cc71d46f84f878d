# SPDX-License-Identifier: MIT
"""What releases of PyTorch name or do differently, from 1.13 on. What GradScalers tell an optimizer is in scaler.py;
what no import of torch is needed for, in threelc/_arrays.py."""
from __future__ import annotations

import sys
import threading
import warnings
from contextlib import suppress
from inspect import signature
from typing import Any, Dict, List, Optional, Tuple

import torch


def backends_of(group: Any) -> List[Any]:
    """Those of a process group. In PyTorch 1 it is one itself; in PyTorch 2 it has one for each kind of device."""
    if not hasattr(group, "_get_backend"):
        return [group]
    backends = []
    for device in ("cpu", "cuda"):
        with suppress(RuntimeError):
            backends.append(group._get_backend(torch.device(device)))
    return backends


def store_of(group: Any) -> Tuple[Any, str]:
    """A store that all ranks share, and the name that a process group has on all of them."""
    c10d = torch.distributed.distributed_c10d
    name = (c10d._world.pg_names if hasattr(c10d, "_world") else c10d._pg_names)[group]
    return c10d._get_default_store(), str(name)


def call_step_hooks(optimizer: Any) -> None:
    """From now on hooks and profilers see calls of step(). The constructor of torch.optim.Optimizer does this."""
    (optimizer._patch_step_function if hasattr(optimizer, "_patch_step_function") else  # PyTorch 2
     optimizer._hook_for_profile)()


def outside_graphs(function: Any) -> Any:
    """Dynamo calls this function as it is, with all that it calls."""
    return torch._disable_dynamo(function) if hasattr(torch, "_disable_dynamo") else function


def has_optimizer_in_backward(parameter: torch.Tensor) -> bool:
    """_apply_optimizer_in_backward() of PyTorch 2 was called for it."""
    return hasattr(parameter, "_in_backward_optimizers")


def has_backward_passes() -> bool:
    """backward_pass() works. PyTorch 1.13 does not tell."""
    return hasattr(torch._C, "_current_graph_task_id") and hasattr(torch.autograd.graph, "_engine_run_backward")


def backward_pass() -> int:
    """The number of the backward pass that this thread is in. -1: of none. A later one has a larger number."""
    return int(torch._C._current_graph_task_id())


def in_two_backward_passes() -> bool:
    """This thread is in a backward pass that another one has begun. Either it is on the stack twice, or it is there
    once in a thread of PyTorch's, of a GPU, which is only called for passes."""
    frame, depth = sys._getframe(), 0
    while frame is not None:
        depth += frame.f_code is torch.autograd.graph._engine_run_backward.__code__
        frame = frame.f_back  # type: ignore[assignment]
    return depth > 1 or (depth == 1 and isinstance(threading.current_thread(), threading._DummyThread))


def load_alone(tensors: Dict[str, torch.Tensor], reader: Any) -> None:
    """torch.distributed.checkpoint.load(), where each rank wants other tensors. PyTorch 2.6 needs a private one."""
    from torch.distributed.checkpoint import load, state_dict_loader
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it is alone
        if "no_dist" in signature(load).parameters:
            load(tensors, storage_reader=reader, no_dist=True)
        else:
            state_dict_loader._load_state_dict(tensors, reader, no_dist=True)


# ---- FSDP2, from PyTorch 2.4 on ----

def is_fsdp_module(module: Any) -> bool:
    """fully_shard() was called for it."""
    return hasattr(module, "_get_fsdp_state")


def has_all_reduce_hook(module: Any) -> bool:
    """It can have a hook in place of the all-reduce between replicas. PyTorch 2.6 has none."""
    return hasattr(module, "set_all_reduce_hook")


def fsdp_runs_on_cpus() -> bool:
    """FSDP2 of PyTorch 2.6 needs streams."""
    return hasattr(torch, "cpu") and hasattr(torch.cpu, "Stream") and hasattr(torch.cpu.Stream, "record_event")


def fsdp_reduced() -> Optional[List[Any]]:
    """What FSDP2 keeps for the parameters whose gradients it hands to the hook that calls this. Only a variable of its
    function foreach_reduce() has them. None: this release has no such function, or none of that name in it."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "foreach_reduce":
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else frame.f_locals.get("fsdp_params")


def fsdp_param_groups(module: Any) -> List[Any]:
    """What FSDP2 keeps for the parameters of a module: one group, in PyTorch 2.13 several."""
    state = module._get_fsdp_state() if is_fsdp_module(module) else None
    groups = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
    return [group for group in groups if group is not None]
