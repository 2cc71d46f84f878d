# SPDX-License-Identifier: MIT
"""The tensors of a module, as the exchange takes them: flat, float32, on the CPU or where gradients are quantized; a
complex value is a pair.

float16 and bfloat16 tensors hold float32 values that were rounded once.
"""
from __future__ import annotations

import ctypes
import hashlib
from typing import Any, Dict, Iterable, Iterator, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from ..._arrays import View
from .sharing import overlaps_itself, shared
from .states import by_plain_name
from .transport import Transport

HOST = torch.device("cpu")
_CARRIED = (torch.float32, torch.float16, torch.bfloat16)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Of a DTensor the part that this rank has, in the same memory."""
    found: Any = tensor.detach()
    part: torch.Tensor = found.to_local() if is_sharded(tensor) else found
    return part


def is_sharded(tensor: torch.Tensor) -> bool:
    """It is a DTensor."""
    return hasattr(tensor, "to_local")


def real(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory. A complex value is a pair."""
    tensor = local(tensor)
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def size_of(tensor: torch.Tensor) -> int:
    """Values that the exchange sees."""
    return int(tensor.numel()) * (2 if tensor.is_complex() else 1)


def flat(tensor: torch.Tensor, device: torch.device = HOST) -> torch.Tensor:
    """A copy. device: where it lies."""
    return real(tensor).to(device, torch.float32, copy=True).reshape(-1)


def flat_view(tensor: torch.Tensor, device: torch.device = HOST) -> torch.Tensor:
    """The same values, perhaps the same memory."""
    return real(tensor).to(device, torch.float32).reshape(-1)


def rounded(values: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """flat(tensor) as it is after assign(tensor, values). Perhaps the values themselves."""
    return values.detach().to(real(tensor).dtype).to(torch.float32)


def is_rounded(tensor: torch.Tensor) -> bool:
    """Whether float32 values are rounded in it."""
    return bool(real(tensor).dtype != torch.float32)


def copied(memory: memoryview) -> torch.Tensor:
    """A copy of floats of the library."""
    tensor = torch.empty(len(memory))
    if len(memory):
        ctypes.memmove(tensor.data_ptr(), View(memory, False, "memory").address, memory.nbytes)
    return tensor


def assign(tensor: torch.Tensor, values: torch.Tensor) -> None:
    with torch.no_grad():
        target = real(tensor)
        target.copy_(values.view(target.shape))


def add(tensor: torch.Tensor, values: torch.Tensor) -> None:
    """tensor: of float32."""
    with torch.no_grad():
        target = real(tensor)
        target += values.view(target.shape).to(target.device)


class Model:
    """A module that is trained. Ranks that exchange it have the same one: all of it, or the same shard."""

    def __init__(self, module: Any, who: str, may_share: bool = True, may_be_sharded: bool = False) -> None:
        """who: takes the module, for messages. may_share: several parameters may lie in one memory. may_be_sharded:
        parameters may be DTensors. TypeError: the module is one that others exchange already."""
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"{who} takes a torch.nn.Module, not {type(module).__name__}")
        for part in module.modules():
            kinds = {kind.__name__ for kind in type(part).__mro__}
            if "DistributedDataParallel" in kinds:
                raise TypeError(f"{who} takes the module inside DistributedDataParallel, model.module: the wrapper "
                                "would send floats in every step. Compute the loss with that module, too")
            if kinds & {"FullyShardedDataParallel", *(() if may_be_sharded else ("FSDPModule",))}:
                raise TypeError(f"{who} takes a module that is whole on each rank; FSDP has sharded this one")
        self.module = getattr(module, "_orig_mod", module)  # of torch.compile()
        self._fsdp = [part for part in module.modules() if any(k.__name__ == "FSDPModule" for k in type(part).__mro__)]
        self.reshard()
        self.parameters: Dict[str, torch.Tensor] = {n: p for n, p in self.named_parameters() if p.requires_grad}
        """those that are trained, by name"""
        self._frozen = {name: p for name, p in self.named_parameters() if not p.requires_grad}
        meshes = [p.device_mesh for _, p in self.named_parameters() if is_sharded(p)]
        self.shards: int = max((mesh.size() for mesh in meshes), default=1)
        """into how many a parameter is divided, at most"""
        places = sorted({"-".join(map(str, mesh.get_coordinate())) for mesh in meshes})
        self.shard = "shard" + "+".join(places) if places else ""
        """which one this rank has, as a word for names in checkpoints; empty: it has all of the model"""
        self._kinds: Dict[str, Tuple[torch.Size, torch.dtype]] = {}  # of parameters
        self._who = who
        self._may_share = may_share
        self._may_be_sharded = may_be_sharded
        if not self.parameters:
            raise ValueError(f"{who} takes a model with parameters that are trained; here none has requires_grad")

    @property
    def device(self) -> Optional[torch.device]:
        """Where all parameters lie that are trained. None: on several devices."""
        found = {parameter.device for parameter in self.parameters.values()}
        return found.pop() if len(found) == 1 else None

    def reshard(self) -> None:
        """Parameters are shards, also where FSDP2 has kept whole ones from the last forward pass."""
        for part in self._fsdp:
            part.reshard()

    def named_parameters(self) -> Iterator[Tuple[str, torch.nn.Parameter]]:
        """All of them, as they are now, by names without what torch.compile() puts into them."""
        return iter(by_plain_name(self.module.named_parameters(), "parameters").items())

    def buffers(self) -> Dict[str, torch.Tensor]:
        """By name. They may be other tensors than before."""
        return by_plain_name(self.module.named_buffers(), "buffers")

    def start(self, transport: Transport, order: Sequence[str] = ()) -> None:
        """All ranks start from the parameters and buffers of rank 0. All get an exception if those of a rank have other
        names, shapes or dtypes, or if one cannot be carried. order: of what is exchanged, in words; another one on a
        rank is an exception, too."""
        tensors = list(self._tensors())
        problem = self._mesh_problem(transport)
        for rank, found in enumerate(transport.gather(problem)):
            if found:
                raise ValueError(problem or f"rank {rank}: {found}")
        _compare([_description(*tensor) for tensor in tensors], transport)
        if order:
            _compare(order, transport)
        problems = transport.gather(self._problem())
        for rank, problem in enumerate(problems):
            if problem:
                raise TypeError(problem if len(set(problems)) == 1 else f"rank {rank}: {problem}")
        self._kinds = {name: (p.shape, p.dtype) for name, p in self.parameters.items()}
        transport.copy_model([local(tensor) for _, _, tensor in tensors])

    def _mesh_problem(self, transport: Transport) -> str:
        """Why the ranks of the process group do not have the same shard; else empty."""
        theirs = set(transport.ranks()) - {dist.get_rank()}
        for name, parameter in self.named_parameters():
            mesh: Any = getattr(parameter, "device_mesh", None)
            together = sorted(theirs & set(mesh.mesh.flatten().tolist())) if mesh is not None else []
            if together:
                return (f"parameter {name} is divided over a mesh in which this rank and rank {together[0]} are both, "
                        f"and {self._who} exchanges between ranks that have the same shard: call fully_shard() with "
                        "the mesh of one site alone, as mesh[\"shard\"], and pass process_group=, a group of one rank "
                        "of each site, as mesh.get_group(\"replicate\")")
        return ""

    def _problem(self) -> str:
        """Why this rank's tensors cannot be carried; else empty."""
        for kind, name, tensor in self._tensors():
            whole = not (self._may_be_sharded and is_sharded(tensor))
            problem = problem_of(tensor if whole else local(tensor), kind == "parameter")
            if problem:
                return f"{kind} {name} {problem}"
        both = None if self._may_share else shared(self.parameters)
        return "" if both is None else (
            f"parameters {both[0]} and {both[1]} have memory in common, but are two objects, and {self._who} would "
            "train each as if it were alone: make them one, as in b.weight = a.weight, or give each its own memory")

    def check(self) -> None:
        """ValueError: the parameters are not those of the start, or one that was frozen is trained now."""
        self.reshard()
        known = {*map(id, self.parameters.values()), *map(id, self._frozen.values())}
        now = set()
        for name, parameter in self.named_parameters():
            now.add(id(parameter))
            if id(parameter) not in known:
                raise ValueError(f"parameter {name} was added or replaced after the start, so it is not exchanged: "
                                 f"change the model first, then make {self._who}")
        for name, parameter in self.parameters.items():
            if id(parameter) not in now:
                raise ValueError(f"parameter {name} is no longer in the model, but it is exchanged: change the model "
                                 f"first, then make {self._who}")
            if (parameter.shape, parameter.dtype) != self._kinds[name]:
                shape, dtype = self._kinds[name]
                raise ValueError(f"parameter {name} was of shape {list(shape)}, {dtype} at the start, and is of shape "
                                 f"{list(parameter.shape)}, {parameter.dtype} now: convert the model first, then make "
                                 f"{self._who}")
        for name, parameter in self._frozen.items():
            if parameter.requires_grad:
                raise ValueError(f"parameter {name} was frozen at the start, so it is not exchanged: let it be trained "
                                 "first, then begin anew with the state of this one")

    def check_start(self, starts: Iterable[torch.Tensor]) -> None:
        """ValueError: before the first step the parameters are not `starts`, flat, from which all ranks began."""
        for (name, parameter), start in zip(self.parameters.items(), starts):
            here, there = flat(parameter), rounded(start, parameter).cpu()
            if not ((here == there) | (here.isnan() & there.isnan())).all():
                raise ValueError(f"parameter {name} has other values than those from which all ranks began: load "
                                 f"weights before {self._who} is made; with a checkpoint of {self._who}, load its "
                                 "state_dict(), too")

    def _tensors(self) -> Iterator[Tuple[str, str, torch.Tensor]]:
        """Kind, name and tensor of all parameters and buffers."""
        for name, parameter in self.named_parameters():
            yield "parameter" if name in self.parameters else "frozen parameter", name, parameter
        for name, buffer in self.buffers().items():
            yield "buffer", name, buffer


def _description(kind: str, name: str, tensor: torch.Tensor) -> str:
    shape = "unknown shape" if torch.nn.parameter.is_lazy(tensor) else f"shape {list(tensor.shape)}"
    part = f", of which this rank has {list(local(tensor).shape)}" if is_sharded(tensor) else ""
    return f"{kind} {name} of {shape}, {tensor.dtype}{part}"


def problem_of(tensor: torch.Tensor, exchanged: bool) -> str:
    """Why a tensor cannot be carried, as the end of a sentence; else empty. exchanged: through float32."""
    if torch.nn.parameter.is_lazy(tensor):
        return "has no shape yet: call the model once before"
    if hasattr(tensor, "to_local"):
        return "is a DTensor, of which this rank has a part: a module that is whole on each rank is needed"
    if tensor.is_meta:
        return "has no values, as it is on the device meta"
    if tensor.layout != torch.strided or tensor.is_quantized:
        return "is sparse or quantized: a dense tensor is needed"
    if tensor.is_conj() or tensor.is_neg():
        return ("is a conjugate or negative view of other memory: give it memory of its own, as with "
                ".resolve_conj().resolve_neg().clone()")
    if overlaps_itself(tensor):
        return "is expanded, several of its values are one in memory: give it memory of its own, as with .contiguous()"
    if exchanged and real(tensor).dtype not in _CARRIED:
        return (f"is of {tensor.dtype}, whose bits would be lost on the way: float32, float16, bfloat16 and complex "
                "values of them are exchanged. Convert the model, as with model.float(), or freeze the parameter with "
                "requires_grad_(False)")
    return ""


def _compare(mine: Sequence[str], transport: Transport) -> None:
    """ValueError on all ranks: one has another list."""
    if len(set(transport.gather(hashlib.sha256("\n".join(mine).encode()).hexdigest()))) == 1:
        return
    lists = transport.gather(mine)
    for rank, theirs in enumerate(lists):
        for here, there in zip(lists[0], theirs):
            if here != there:
                raise ValueError(f"all ranks need the same model: {there} on rank {rank} is {here} on rank 0")
        if len(theirs) != len(lists[0]):
            first, second = (0, rank) if len(theirs) < len(lists[0]) else (rank, 0)
            more = max(theirs, lists[0], key=len)[min(len(theirs), len(lists[0]))]
            raise ValueError(f"all ranks need the same model: rank {second} has no {more}, which rank {first} has")
