# SPDX-License-Identifier: MIT
"""FSDP2: the all-reduce between replicas of a sharded model, which is where slow links are.

PyTorch has it from 2.4 on. FSDPModule.set_all_reduce_hook takes hook(reduce_output: Tensor) -> None. With a mesh of two
dimensions PyTorch averages over replicas before the hook, unless it is told that there is only the dimension of shards.
Tested with FSDP2 of PyTorch 2.13 on CPUs; that of 2.6 runs on GPUs only.

set_custom_reduce_scatter and set_custom_all_gather are no places for a codec: with a mesh of two dimensions both stay
inside a replica, where links are fast. PyTorch 2.13 has no such method for the all-reduce, so the hook takes its place.
"""
from __future__ import annotations

import warnings
from functools import partial
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import torch
import torch.distributed as dist

from .. import exchange
from .._errors import Status, StepError
from ..context import Context
from ._common.arguments import check_numbers, shown
from ._common.groups import Clock, Group, Traffic, check_choices, load_traffic, ring_bytes, saved_traffic
from ._common.log import Log
from ._common.replicas import Replicas
from ._common.states import GROUP, MADE, RANKS, TRAFFIC, Kind, Optionally, check_made, check_places, made_with, plain, \
    states_for
from ._common.transport import Transport, timeout_of
from ._common.versions import fsdp_param_groups, fsdp_runs_on_cpus, has_all_reduce_hook, is_fsdp_module
from ._fsdp2 import Shards, average_no_replicas, replicas_of, shard_count, shard_index
from ._hook.places import DTYPES

STATE_VERSION = 1  # of state_dict()
_STATE = Kind("register_fsdp()", STATE_VERSION, {**RANKS, "shard": Optionally(int), "groups": {str: GROUP},
                                                 "traffic": Optionally(TRAFFIC), "made": MADE})
_ROOT = "(root)"  # stands for the empty name


class FSDPState:
    """What the hooks keep; register_fsdp() makes it. Residuals belong to the names of the sharded modules."""

    def __init__(self, transport: Transport, config: Dict[str, Any], on_nonfinite: str, shards: Mapping[str, Shards],
                 shard: int, compare_every: int) -> None:
        self._transport = transport
        self._config = config
        self._skips = on_nonfinite == "skip"
        self._has_feedback = Context(1, config["push"]).residual is not None
        self._made = made_with(config["push"], config["min_n"], config["pull"],
                               "gather" if config["gather"] else "sharded")
        self._shards = shards  # by module
        self._shard = shard
        self._groups: Dict[str, Group] = {}
        self._loaded: Dict[str, Group] = {}  # of modules that had no gradient yet, so that dtype and device are unknown
        self._partial: Dict[str, torch.Tensor] = {}  # of modules: gradients that wait for set_requires_all_reduce(True)
        self._replicas = {name: Replicas(compare_every, module.of_replica, config["threads"])
                          for name, module in shards.items()}
        self._reduced: Dict[str, int] = {}  # how often
        self._log = Log(transport.rank, "backward pass")
        self._clock = Clock()
        self._float_bytes = 0
        self._warned = False  # that a gradient was not finite
        self.residuals: Dict[str, torch.Tensor] = {}
        """what was not sent yet, flat, by module; empty if the codec keeps no residual"""

    def reduce(self, name: str, output: torch.Tensor) -> None:
        """The hook of a module: its part of the gradient becomes the mean over the replicas."""
        try:
            if name in self._partial:
                output.add_(self._partial.pop(name))
            if self._shards[name].all_reduces:
                self._reduce(name, output)
            else:
                self._partial[name] = output.clone()
                output.zero_()
        except BaseException as error:
            if not isinstance(error, StepError):
                self._transport.abort()  # so that other ranks do not wait for this one
            raise

    def _reduce(self, name: str, output: torch.Tensor) -> None:
        done = self._reduced.setdefault(name, 0)
        if done and name == next(iter(self._reduced)):  # the next backward pass begins
            self._log.look(done, lambda: self.stats)
        if self._replicas[name].due(done):
            self._replicas[name].compare(self._transport, f"after {done} backward passes")
        self._reduced[name] += 1
        gradient = output.detach().contiguous().view(-1)
        if output.dtype in DTYPES:
            host = self._compressed(self._group_of(name, gradient), gradient)
        else:
            host = gradient.cpu().div_(self._transport.world)  # no codec takes it: as floats
            with self._clock.sending("floats"):
                self._float_bytes += self._transport.all_reduce(host)
        if host.data_ptr() != output.data_ptr():
            output.copy_(host.view(output.shape))

    def _group_of(self, name: str, gradient: torch.Tensor) -> Group:
        if name not in self._groups:
            loaded = self._loaded.get(name)
            config = exchange.Config(dtype=DTYPES[gradient.dtype], **self._config)
            group = Group(config, self._transport.rank, [name], [gradient.numel()],
                          self.residuals if self._has_feedback else None,
                          device=None if gradient.device.type == "cpu" else gradient.device,
                          called=None if loaded is None else loaded.called)
            if loaded is not None:
                group.load_states([loaded.state_dict()], False)
                del self._loaded[name]
            self._groups[name] = group
        return self._groups[name]

    def _compressed(self, group: Group, gradient: torch.Tensor) -> torch.Tensor:
        """The mean, on the CPU."""
        if group.on_device:
            host = torch.empty_like(gradient, device="cpu")
        else:
            gradient = host = gradient.to("cpu")
        self._float_bytes += ring_bytes([host], self._transport.world)
        try:
            group.run(self._transport, [gradient], [host], self._clock)
        except StepError as error:
            if not self._skips or error.outcome is None or error.outcome.cause != Status.NONFINITE:
                raise
            if not self._warned:
                self._warned = True
                rank = "" if error.sentence.startswith("rank") else f"rank {self._transport.rank}: "
                warnings.warn(f"threelc: {rank}{error.sentence}. All replicas get NaN in that module, which a loss "
                              'scaler skips; without one, find the cause, or use on_nonfinite="raise"', RuntimeWarning)
            host.fill_(float("nan"))
        return host

    @property
    def stats(self) -> Traffic:
        """Bytes and seconds, also before this went on from a state_dict()."""
        return Traffic(**self._traffic())

    def log_every(self, count: int) -> None:
        """From now on rank 0 of the replicas logs what a backward pass sends, and what it takes, after every so many of
        them, at level INFO of the logger "threelc". 0: never."""
        self._log.set_every(count, self.stats)

    def _traffic(self) -> Dict[str, Any]:
        return saved_traffic(self._float_bytes, self._transport, self._clock)

    def state_dict(self) -> Dict[str, Any]:
        """Residuals of this rank, by names of modules, and its stats. Each rank saves its own."""
        return {**_STATE.head(self._transport), "shard": self._shard, "made": dict(self._made),
                "traffic": self._traffic(),
                "groups": {name: group.state_dict() for name, group in {**self._loaded, **self._groups}.items()}}

    def load_state_dict(self, states: Union[Dict[str, Any], Sequence[Dict[str, Any]]], lost: bool = False) -> None:
        """Goes on from the state_dict() of this rank, or, on another number of replicas with as many shards, from those
        of all replicas of its shard. lost: states that are missing are lost, and their residuals with them; so is what
        the state has of modules that are not sharded here. Call it before the first backward pass. An exception changes
        nothing."""
        if self._groups:
            raise ValueError("states are loaded before the first backward pass")
        found = states_for(states, _STATE, self._transport, lost)
        for state in found:
            if state.get("shard") not in (None, self._shard):  # 0.4.1 did not save it
                raise ValueError(f"the state is of shard {state['shard']}, and this rank has shard {self._shard}. For "
                                 "torch.distributed.checkpoint, and other numbers of shards, use sharded_state_dict()")
        every = [state["groups"] for state in found]
        if any(groups.keys() != every[0].keys() for groups in every):
            raise ValueError("the states do not belong together: some have other modules than others")
        check_made(_STATE, found, self._made, [n for group in every[0].values() for n in group["sizes"]])
        names = {name: _plain(name) for name in every[0]}
        check_places((name for name in names if names[name] not in self._shards),
                     "that no sharded module has here", lost)
        self._loaded = {names[name]: self._group_from([groups[name] for groups in every], lost)
                        for name in names if names[name] in self._shards}
        if all(state.get("traffic") for state in found):  # 0.3.4 did not save it
            self._float_bytes = load_traffic(found, "traffic", self._transport, self._clock)["float_bytes"]

    def sharded_state_dict(self) -> Dict[str, torch.Tensor]:
        """What was not sent yet, for torch.distributed.checkpoint, which loads it on any number of replicas and shards:
        a DTensor of floats for each parameter, placed as it is, with the mean over the replicas. All ranks call it
        together. Before the first backward pass it is what load() fills."""
        found: Dict[str, torch.Tensor] = {}
        for name, shards in self._shards.items():
            group = self._groups.get(name) or self._loaded.get(name)
            flat = torch.zeros(shards.numel) if group is None else group.unsent(self._transport)[0]
            if len(flat) != shards.numel:
                raise ValueError(f"the gradients of module {name} have {len(flat)} values, and its parameters that are "
                                 f"trained {shards.numel}: some got no gradient, or were frozen since")
            found.update(shards.to_dtensors(flat))
        return found

    def load_sharded_state_dict(self, state: Mapping[str, torch.Tensor], lost: bool = False) -> None:
        """Goes on from a sharded_state_dict(): each replica has the mean over those that were saved, so that the mean
        stays. lost: what the state has of parameters that are not trained here is lost; so is all of it if the codec
        keeps no residual. Call it before the first backward pass. An exception changes nothing."""
        if self._groups:
            raise ValueError("states are loaded before the first backward pass")
        here = {name for shards in self._shards.values() for name in shards.names}
        check_places((name for name in state if name not in here), "that no sharded module trains here", lost)
        unsent = {name: shards.to_flat(state) for name, shards in self._shards.items() if shards.names}
        if self._has_feedback:
            self._loaded = {name: self._group([name], [len(flat)], {name: flat}) for name, flat in unsent.items()}
        elif not lost and any(flat.any() for flat in unsent.values()):
            raise ValueError(f"codec {self._config['push']!r} keeps no residual, and the state has some: use one that "
                             "does. With lost=True the run goes on without them")

    def _group_from(self, states: List[Dict[str, Any]], lost: bool) -> Group:
        """states: of a module, of one rank or of all. They do not depend on the dtype of gradients."""
        group = self._group(states[0]["names"], states[0]["sizes"], {} if self._has_feedback else None)
        group.check_states(states, lost)
        group.load_states(states, lost)
        return group

    def _group(self, names: Sequence[str], sizes: Sequence[int], residuals: Optional[Dict[str, torch.Tensor]]) -> Group:
        """Of a module that had no gradient yet."""
        return Group(exchange.Config(**self._config), self._transport.rank, names, sizes, residuals)


def _plain(name: str) -> str:
    return plain(name) or _ROOT


def register_fsdp(model: Any, codec: str = "3lc", mode: str = "sharded", *, process_group: Any = None,
                  pull: Optional[str] = None, min_numel: int = 256, on_nonfinite: str = "skip",
                  compare_every: int = 1000, seed: int = 0, threads: Optional[int] = None) -> FSDPState:
    """Compresses what replicas of a model send each other, where fully_shard() was called with a mesh of two dimensions
    (hybrid sharding), or with the mesh of one replica, or where PyTorch's replicate() was called in its place.

    process_group: of backend gloo, which nobody else uses: the ranks of all replicas that have the same shard. None: a
    new one, of the ranks along the mesh's dimension of replicas, or, with a mesh of one shard, of all ranks. The other
    arguments are those of register().

    With a mesh that has replicas parameters and checkpoints stay what they are. After set_requires_all_reduce(False)
    backward passes send nothing to other replicas, as without the hook, and add 0 to gradients: what was summed up
    comes with the next exchange.
    """
    modules = _modules_of(model)
    check_choices(mode, on_nonfinite, codec, pull)
    check_numbers(min_numel, seed, threads)
    replicas = _replicas_of(modules)
    names = {module: name for name, module in model.named_modules()}
    groups = [group for module in modules.values() for group in fsdp_param_groups(module)]
    shards = {name: Shards(module, names) for name, module in modules.items()}
    shard = shard_index(groups[0]) if groups else 0
    transport = Transport(_group_of(replicas, process_group, max(map(shard_count, groups), default=1)))
    config = {"push": codec, "pull": pull, "gather": mode == "gather", "min_n": min_numel, "seed": seed}
    transport.agree({**config, "on_nonfinite": on_nonfinite, "modules": list(modules), "compare_every": compare_every,
                     "shapes": {name: each.shapes for name, each in shards.items()}, "the shard": shard})
    state = FSDPState(transport, {**config, "workers": transport.world, "threads": threads}, on_nonfinite, shards,
                      shard, compare_every)
    for group in groups if replicas else ():
        average_no_replicas(group)
    for name, module in modules.items():
        module.set_all_reduce_hook(partial(state.reduce, name))
    return state


def _modules_of(model: Any) -> Dict[str, Any]:
    """Those that FSDP2 has sharded. Raises an exception that says what to do if they cannot have the hook."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"register_fsdp() takes a module, not {shown(model)}")
    kinds = {kind.__name__ for kind in type(model).__mro__}
    if "DistributedDataParallel" in kinds:
        raise TypeError("register_fsdp() takes a module that fully_shard() was called for: this is one of "
                        "DistributedDataParallel, for register()")
    if "FullyShardedDataParallel" in kinds:
        raise TypeError("register_fsdp() takes a module that fully_shard() was called for, not "
                        "FullyShardedDataParallel, whose replicas cannot be compressed: PyTorch takes no communication "
                        "hook for HYBRID_SHARD")
    found: Dict[int, Any] = {}
    for name, module in model.named_modules():
        if has_all_reduce_hook(module):
            found.setdefault(id(module._get_fsdp_state()), (_plain(name), module))  # of a list of modules the first
    modules = dict(found.values())
    if not modules and any(is_fsdp_module(module) for module in model.modules()):
        raise RuntimeError(f"FSDP2 of PyTorch {torch.__version__} gives no access to what replicas exchange "
                           "(set_all_reduce_hook): it needs a newer PyTorch")
    if not modules:
        raise ValueError("fully_shard() was called for no module of this model")
    on_cpu = any(group.device.type == "cpu" for module in modules.values() for group in fsdp_param_groups(module))
    if on_cpu and not fsdp_runs_on_cpus():
        raise RuntimeError(f"FSDP2 of PyTorch {torch.__version__} does not run on CPUs, with or without this hook: it "
                           "needs a GPU, or a newer PyTorch")
    return modules


def _replicas_of(modules: Mapping[str, Any]) -> Any:
    """PyTorch's process group of the replicas of a mesh that has a dimension of them. None: it has none."""
    found = [replicas_of(group) for module in modules.values() for group in fsdp_param_groups(module)]
    if len({group and tuple(dist.get_process_group_ranks(group)) for group in found}) > 1:
        raise ValueError("fully_shard() was called with meshes of which some have other replicas than others: "
                         "register_fsdp() needs the same replicas for all modules")
    return found[0] if found else None


def _group_of(replicas: Any, group: Any, shards: int) -> Any:
    """The process group for messages. replicas: of PyTorch. group: as in register_fsdp(). shards: of a replica."""
    if replicas is None:
        if group is None and shards > 1:
            raise ValueError(f"fully_shard() was called with a mesh of {shards} shards and no replicas: pass "
                             "process_group=, a group of the ranks that have the same shard, or call fully_shard() "
                             "with a mesh of two dimensions")
        return group
    ranks = dist.get_process_group_ranks(replicas)
    if group is None:
        timeout = timeout_of(replicas)
        return dist.new_group(ranks, backend="gloo", use_local_synchronization=True,
                              **({} if timeout is None else {"timeout": timeout}))
    if isinstance(group, dist.ProcessGroup) and dist.get_rank(group) >= 0 and \
            dist.get_process_group_ranks(group) != ranks:
        raise ValueError(f"process_group has the ranks {dist.get_process_group_ranks(group)}, and the replicas of the "
                         f"mesh are {ranks}: leave it out")
    return group
