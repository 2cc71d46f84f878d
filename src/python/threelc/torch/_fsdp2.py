# SPDX-License-Identifier: MIT
"""What FSDP2 keeps of a module: its parameter groups, their meshes, and the shards of its parameters.

FSDP2 hands a hook one flat tensor for each module: the gradients of this rank's shards, one after the other, each as
long as the longest shard of its parameter. PyTorch tells this nowhere but in attributes of its own.
"""
from __future__ import annotations

import dataclasses
import math
from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch

from ._common.states import plain
from ._common.versions import fsdp_param_groups, fsdp_reduced


class Shards:
    """Those that this rank has of the parameters of a module."""

    def __init__(self, module: Any, names: Mapping[Any, str]) -> None:
        """names: of all modules."""
        self._parameters: Dict[str, Any] = {}
        self._groups = fsdp_param_groups(module)
        for group in self._groups:
            for parameter in group.fsdp_params:
                info = parameter._module_info
                prefix = plain(names[info.module])
                self._parameters[f"{prefix}.{info.param_name}" if prefix else info.param_name] = parameter

    def of_replica(self) -> Dict[str, torch.Tensor]:
        """The shards as they are now, by names of parameters. FSDP2 may make them anew."""
        return {name: parameter.sharded_param.to_local() for name, parameter in self._parameters.items()}

    @property
    def shapes(self) -> Dict[str, List[int]]:
        """Of of_replica()."""
        return {name: list(shard.shape) for name, shard in self.of_replica().items()}

    @property
    def all_reduces(self) -> bool:
        """What FSDPModule.set_requires_all_reduce() was last called with."""
        return all(group.all_reduce_grads for group in self._groups)

    def _trained(self) -> List[Tuple[str, Any, int]]:
        """Name and parameter of those that get gradients, and their places in what a hook gets."""
        return [(name, parameter, math.prod(parameter.padded_sharded_param_size))
                for name, parameter in self._parameters.items() if parameter.sharded_param.requires_grad]

    @property
    def sizes(self) -> Dict[str, int]:
        """What a hook gets: how many values for each parameter that gets gradients, by name."""
        return {name: places for name, _, places in self._trained() if places}

    def reduced(self) -> Optional[List[str]]:
        """Names of the parameters whose gradients the hook gets that calls this. None: PyTorch does not tell."""
        given = fsdp_reduced()
        return None if given is None else [
            name for name, parameter in self._parameters.items() if any(parameter is each for each in given)]

    def to_dtensors(self, pieces: Mapping[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
        """pieces: by name of a parameter, flat, as a hook gets them, the same on all replicas. Returns a DTensor for
        each parameter that gets gradients, placed as the parameter is; where there is no piece, of zeros."""
        from torch.distributed.tensor import DTensor  # PyTorch 1.13 has none
        found = {}
        for name, parameter, places in self._trained():
            whole = parameter.sharded_param
            piece = pieces[name] if name in pieces else torch.zeros(places)
            local = piece[:math.prod(parameter.sharded_size)].view(parameter.sharded_size).clone()
            found[name] = DTensor.from_local(local, whole.device_mesh, whole.placements, run_check=False,
                                             shape=whole.size(), stride=whole.stride())
        return found

    def to_pieces(self, tensors: Mapping[str, Any], suffix: str = "") -> Dict[str, torch.Tensor]:
        """What to_dtensors() was given, in floats on the CPU. suffix: follows names in tensors. ValueError: a tensor is
        missing, or has another shard."""
        from torch.distributed.tensor import DTensor
        pieces = {}
        for name, parameter, places in self._trained():
            tensor = tensors.get(name + suffix)
            local: Any = tensor.to_local() if isinstance(tensor, DTensor) else tensor
            if not torch.is_tensor(local) or local.shape != parameter.sharded_size:
                what = f"of shape {list(local.shape)}" if torch.is_tensor(local) else "missing"
                raise ValueError(f"{name}{suffix} is {what}, and this rank has a shard of shape "
                                 f"{list(parameter.sharded_size)} of it: let torch.distributed.checkpoint.load() fill "
                                 "what sharded_state_dict() returns")
            if places:
                pieces[name] = torch.zeros(places)
                pieces[name][:local.numel()] = local.detach().reshape(-1)
        return pieces

    def set_gradients(self, pieces: Mapping[str, torch.Tensor]) -> None:
        """Those that optimizers see. pieces: as in to_dtensors(). Where there is none, the gradient becomes None."""
        found = self.to_dtensors(pieces)
        for name, parameter, _ in self._trained():
            whole = parameter.sharded_param
            whole.grad = found[name].to(device=whole.device, dtype=whole.dtype) if name in pieces else None

    @property
    def divides_afterwards(self) -> bool:
        """FSDPModule.set_force_sum_reduction_for_comms(True) was called: what a hook returns is divided."""
        return any(getattr(group, "force_sum_reduction_for_comms", False) for group in self._groups)


# ---- meshes with replicas ----

_REPLICAS = "_threelc_replicas"  # an attribute of mesh_info


def replicas_of(group: Any) -> Any:
    """PyTorch's process group of the replicas. None: the mesh has no dimension of replicas."""
    return getattr(group.mesh_info, _REPLICAS, None) or getattr(group.mesh_info, "replicate_process_group", None)


def shard_index(group: Any) -> int:
    """Which of the shards of a replica this rank has."""
    return int(getattr(group.mesh_info, "shard_mesh_rank", 0))


def shard_count(group: Any) -> int:
    """How many shards a replica has."""
    return int(getattr(group.mesh_info, "shard_mesh_size", 1))


def average_no_replicas(group: Any) -> None:
    """From now on FSDP2 does not average over replicas: it knows of the mesh no more than how it shards, if it does."""
    info, replicas = group.mesh_info, replicas_of(group)
    kinds = {kind.__name__: kind for kind in type(info).__mro__}
    values = {field.name: getattr(info, field.name) for field in dataclasses.fields(info) if field.init}
    if "FSDPMeshInfo" in kinds:
        group.mesh_info = kinds["FSDPMeshInfo"](**{**values, "replicate_mesh_dim": None})
        # set_separate_reduce_scatter_group() may have been called; PyTorch before 2.13 has none
        group.mesh_info.reduce_scatter_process_group = getattr(info, "reduce_scatter_process_group", None)
    else:
        group.mesh_info = kinds["DataParallelMeshInfo"](**values)
    setattr(group.mesh_info, _REPLICAS, replicas)  # for a register_fsdp() to come
