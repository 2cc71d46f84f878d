# SPDX-License-Identifier: MIT
"""FSDP2: the all-reduce between replicas of a sharded model, which is where slow links are.

PyTorch has FSDP2 from 2.4 on, and from 2.7 on what is needed here: FSDPModule.set_all_reduce_hook takes
hook(reduce_output: Tensor) -> None. With a mesh of two dimensions PyTorch averages over replicas before the hook,
unless it is told that there is only the dimension of shards. Tested with FSDP2 of PyTorch 2.13 on CPUs.

set_custom_reduce_scatter and set_custom_all_gather are no places for a codec: with a mesh of two dimensions both stay
inside a replica, where links are fast. PyTorch 2.13 has no such method for the all-reduce, so the hook takes its place.
"""
from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import torch
import torch.distributed as dist

from .._errors import StepError
from ._common.arguments import check_numbers, shown
from ._common.device import check_quantize, place_of
from ._common.groups import Group, Traffic, check_choices, load_traffic
from ._common.log import Log
from ._common.means import Means
from ._common.moments import MOMENTS, check_moments
from ._common.replicas import Replicas
from ._common.signals import signals_wait
from ._common.states import GROUP, MADE, RANKS, TRAFFIC, Kind, Optionally, check_made, check_places, plain, states_for
from ._common.transport import Transport, timeout_of
from ._common.versions import fsdp_param_groups, fsdp_runs_on_cpus, has_all_reduce_hook, is_fsdp_module
from ._fsdp2 import Shards, average_no_replicas, replicas_of, shard_count, shard_index

STATE_VERSION = 1  # of state_dict()
_STATE = Kind("register_fsdp()", STATE_VERSION, {**RANKS, **MOMENTS, "shard": Optionally(int), "groups": {str: GROUP},
                                                 "traffic": Optionally(TRAFFIC), "made": MADE})
_ROOT = "(root)"  # stands for the empty name
_STEPS = ".second_moment_steps"  # follows the name of a parameter in sharded_state_dict()


class FSDPState:
    """What the hooks keep; register_fsdp() makes it. Residuals belong to the names of parameters."""

    def __init__(self, means: Means, shards: Mapping[str, Shards], shard: int, compare_every: int) -> None:
        self._means = means
        self._transport = means.transport
        self._shards = shards  # by module
        self._shard = shard
        self._partial: Dict[str, torch.Tensor] = {}  # of modules: gradients that wait for set_requires_all_reduce(True)
        self._replicas = {name: Replicas(compare_every, module.of_replica, means.config["threads"])
                          for name, module in shards.items()}
        self._reduced: Dict[str, int] = {}  # how often
        self._had: Dict[str, Tuple[int, Optional[List[str]]]] = {}  # values of a module, and of which parameters
        self._log = Log(self._transport.rank, "backward pass")

    @property
    def residuals(self) -> Dict[str, torch.Tensor]:
        """What was not sent yet of this rank's shards, flat, by parameter, or by module where some parameters of it got
        no gradient; empty if the codec keeps no residual."""
        return self._means.residuals

    @signals_wait
    def reduce(self, name: str, output: torch.Tensor) -> None:
        """The hook of a module: its part of the gradient becomes the mean over the replicas."""
        try:
            self._check_same(name, output.numel())
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

    def _check_same(self, name: str, count: int) -> None:
        """ValueError: as many values as before of a module are of other parameters."""
        names = self._shards[name].reduced()
        before = self._had.setdefault(name, (count, names))
        if before[0] == count and before[1] != names:
            raise ValueError(f"other parameters of {name} got gradients than before: the same parameters have to get "
                             "gradients each time, in each module that fully_shard() was called for")

    def _reduce(self, name: str, output: torch.Tensor) -> None:
        done = self._reduced.setdefault(name, 0)
        if done and name == next(iter(self._reduced)):  # the next backward pass begins
            self._log.look(done, lambda: self.stats)
        if self._replicas[name].due(done):
            self._replicas[name].compare(self._transport, f"after {done} backward passes")
        self._reduced[name] += 1
        shards = self._shards[name]
        if self._means.moments.normalizes and (output.dtype == torch.float16 or shards.divides_afterwards):
            raise ValueError("second_moment takes gradients that PyTorch divides before the exchange: of float32 or "
                             "bfloat16, without set_force_sum_reduction_for_comms(True)")
        sizes = shards.sizes
        if sum(sizes.values()) != output.numel():  # some got no gradient
            sizes = {name: output.numel()}
        self._means.run(name, sizes, output)

    @property
    def stats(self) -> Traffic:
        """Bytes and seconds, also before this went on from a state_dict()."""
        return Traffic(**self._means.traffic())

    def log_every(self, count: int) -> None:
        """From now on rank 0 of the replicas logs what a backward pass sends, and what it takes, after every so many of
        them, at level INFO of the logger "threelc". 0: never."""
        self._log.set_every(count, self.stats)

    @signals_wait
    def flush(self) -> None:
        """Between two steps, on all ranks together, for the end of a training: sends what residuals hold as floats, as
        a backward pass with gradients of 0 would. The gradient of each parameter becomes that, or None where no
        residual was kept, for a last step of the optimizer with a rate above 0. Residuals are 0 then, on all ranks."""
        for name, shards in self._shards.items():
            held = self._held(name, lambda group: group.flush(self._transport)) if self._means.has_feedback else {}
            shards.set_gradients(held)

    def state_dict(self) -> Dict[str, Any]:
        """Residuals of this rank, by names of parameters, and its stats. Each rank saves its own."""
        means = self._means
        return _STATE.saved(self._transport, {
            "shard": self._shard, "made": dict(means.made),
            **means.moments.state_dict(), "traffic": means.traffic(), "groups": means.states()})

    def load_state_dict(self, states: Union[Dict[str, Any], Sequence[Dict[str, Any]]], lost: bool = False) -> None:
        """Goes on from the state_dict() of this rank, or, on another number of replicas with as many shards, from those
        of all replicas of its shard. lost: states that are missing are lost, and their residuals with them; so is what
        the state has of parameters that are not trained here, or not in a sharded module. Call it before the first
        backward pass. An exception changes nothing."""
        if self._means.groups:
            raise ValueError("states are loaded before the first backward pass")
        found = states_for(states, _STATE, self._transport, lost)
        for state in found:
            if state.get("shard") not in (None, self._shard):  # 0.4.1 did not save it
                raise ValueError(f"the state is of shard {state['shard']}, and this rank has shard {self._shard}. For "
                                 "torch.distributed.checkpoint, and other numbers of shards, use sharded_state_dict()")
        every = [state["groups"] for state in found]
        if any(groups.keys() != every[0].keys() for groups in every):
            raise ValueError("the states do not belong together: some have other modules than others")
        if self._means.moments.active and any("velocities" not in state for state in found):
            raise ValueError("the state is of a release whose register_fsdp() had neither momentum_correction nor "
                             "second_moment: leave them out")
        check_made(_STATE, found, self._means.made, [n for group in every[0].values() for n in group["sizes"]])
        names = {name: _plain(name) for name in every[0]}
        check_places((name for name in names if names[name] not in self._shards),
                     "that no sharded module has here", lost)
        self._means.loaded = {names[name]: self._group_from(names[name], [groups[name] for groups in every], lost)
                        for name in names if names[name] in self._shards}
        self._means.moments.load(found)
        if all(state.get("traffic") for state in found):  # 0.3.4 did not save it
            own = load_traffic(found, "traffic", self._transport, self._means.clock)
            self._means.float_bytes = own["float_bytes"]

    def sharded_state_dict(self) -> Dict[str, torch.Tensor]:
        """What was not sent yet, for torch.distributed.checkpoint, which loads it on any number of replicas and shards:
        a DTensor of floats for each parameter, placed as it is, with the mean over the replicas; with
        momentum_correction and second_moment theirs, too, as PARAMETER.velocity and PARAMETER.second_moment. All ranks
        call it together. Before the first backward pass it is what load() fills."""
        found: Dict[str, torch.Tensor] = {}
        for name, shards in self._shards.items():
            found.update(shards.to_dtensors(self._held(name, lambda group: group.unsent(self._transport))))
            for kind, tensors in self._means.moments.tensors().items():
                mean = self._mean(tensors, shards.sizes)
                found.update({f"{each}.{kind}": tensor for each, tensor in shards.to_dtensors(mean).items()})
            if self._means.moments.normalizes:
                found.update({each + _STEPS: torch.tensor(self._means.moments.steps(each)) for each in shards.sizes})
        return found

    def _mean(self, tensors: Mapping[str, torch.Tensor], sizes: Mapping[str, int]) -> Dict[str, torch.Tensor]:
        """Over the replicas, by parameter."""
        if not sizes:
            return {}
        flat = torch.cat([tensors[name].cpu() if name in tensors else torch.zeros(n) for name, n in sizes.items()])
        self._transport.all_reduce(flat)
        return dict(zip(sizes, flat.div_(self._transport.world).split(list(sizes.values()))))

    def _held(self, name: str, ask: Callable[[Group], List[torch.Tensor]]) -> Dict[str, torch.Tensor]:
        """What ask returns for the group of a module, by parameter. Empty: the module had no gradient yet."""
        group = self._means.groups.get(name) or self._means.loaded.get(name)
        if group is None:
            return {}
        sizes = self._shards[name].sizes
        if sum(group.sizes) != sum(sizes.values()):
            raise ValueError(f"the gradients of module {name} have {sum(group.sizes)} values, and its parameters that "
                             f"are trained {sum(sizes.values())}: some got no gradient, or were frozen since")
        return dict(zip(sizes, torch.cat(ask(group)).split(list(sizes.values()))))

    def load_sharded_state_dict(self, state: Mapping[str, torch.Tensor], lost: bool = False) -> None:
        """Goes on from a sharded_state_dict(): each replica has the mean over those that were saved, so that the mean
        stays. lost: what the state has of parameters that are not trained here is lost; so are residuals if the codec
        keeps none. Call it before the first backward pass. An exception changes nothing."""
        means = self._means
        if means.groups:
            raise ValueError("states are loaded before the first backward pass")
        kinds = means.moments.tensors()
        suffixes = ["", *map(".{}".format, kinds), *[_STEPS] * means.moments.normalizes]
        sizes = {name: n for shards in self._shards.values() for name, n in shards.sizes.items()}
        here = {name + suffix for name in sizes for suffix in suffixes}
        check_places((name for name in state if name not in here), "that no sharded module trains here", lost)
        unsent = {name: shards.to_pieces(state) for name, shards in self._shards.items() if shards.sizes}
        moments = {kind: {name: piece for shards in self._shards.values()
                          for name, piece in shards.to_pieces(state, f".{kind}").items()} for kind in kinds}
        if means.moments.normalizes and any(name + _STEPS not in state for name in sizes):
            raise ValueError("the state lacks steps of second moments: let torch.distributed.checkpoint.load() fill "
                             "what sharded_state_dict() returns")
        steps = {name: int(state.get(name + _STEPS, 0)) for name in sizes}
        if means.has_feedback:
            means.loaded = {name: means.new_group(list(pieces), [len(piece) for piece in pieces.values()], pieces)
                            for name, pieces in unsent.items()}
        elif not lost and any(piece.any() for pieces in unsent.values() for piece in pieces.values()):
            raise ValueError(f"codec {means.config['push']!r} keeps no residual, and the state has some: use one that "
                             "does. With lost=True the run goes on without them")
        means.moments.load_tensors(moments, steps)

    def _group_from(self, name: str, states: List[Dict[str, Any]], lost: bool) -> Group:
        """name: of a module. states: of it, of one rank or of all. They do not depend on the dtype of gradients."""
        names, sizes = states[0]["names"], states[0]["sizes"]
        here = self._shards[name].sizes
        called = None
        if [_plain(each) for each in names] == [name]:  # all of the module as one tensor, as it always was before 0.5.0
            names, called = [name], names
        else:
            check_places((each for each in names if each not in here), "that no sharded module trains here", lost)
            names, sizes = list(here), list(here.values())
        return self._means.loaded_group(names, sizes, states, lost, called)


def _plain(name: str) -> str:
    return plain(name) or _ROOT


def register_fsdp(model: Any, codec: str = "3lc", mode: str = "sharded", *, process_group: Any = None,
                  pull: Optional[str] = None, min_numel: int = 256, on_nonfinite: str = "skip",
                  momentum_correction: Optional[float] = None, second_moment: Optional[float] = None,
                  compare_every: int = 1000, seed: int = 0, threads: Optional[int] = None,
                  quantize: str = "auto", residual_dtype: torch.dtype = torch.float32) -> FSDPState:
    """Compresses what replicas of a model send each other, where fully_shard() was called with a mesh of two dimensions
    (hybrid sharding), or with the mesh of one replica, or where PyTorch's replicate() was called in its place.

    process_group: of backend gloo, or of NCCL as in register(), which nobody else uses: the ranks of all replicas that
    have the same shard. None: a new one of gloo, of the ranks along the mesh's dimension of replicas, or, with a mesh
    of one shard, of all ranks. The other arguments are those of register(). min_numel is of the shard of a parameter. A
    parameter has a scale of its own, in each shard, unless some parameters of its module get no gradient: then all of
    the module has one.

    With a mesh that has replicas parameters and checkpoints stay what they are. After set_requires_all_reduce(False)
    backward passes send nothing to other replicas, as without the hook, and add 0 to gradients: what was summed up
    comes with the next exchange.
    """
    modules = _modules_of(model)
    check_choices(mode, on_nonfinite, codec, pull)
    check_numbers(min_numel, seed, threads)
    check_moments(momentum_correction, second_moment, codec)
    check_quantize(quantize, momentum_correction, codec, residual_dtype)
    replicas = _replicas_of(modules)
    names = {module: name for name, module in model.named_modules()}
    groups = [group for module in modules.values() for group in fsdp_param_groups(module)]
    for group in groups:
        place_of(quantize, [group.device], False, codec, residual_dtype)
    shards = {name: Shards(module, names) for name, module in modules.items()}
    shard = shard_index(groups[0]) if groups else 0
    transport = Transport(_group_of(replicas, process_group, max(map(shard_count, groups), default=1)))
    config = {"push": codec, "pull": pull, "gather": mode == "gather", "min_n": min_numel, "seed": seed}
    transport.agree({**config, "on_nonfinite": on_nonfinite, "modules": list(modules), "compare_every": compare_every,
                     "momentum_correction": momentum_correction, "second_moment": second_moment,
                     "shapes": {name: each.shapes for name, each in shards.items()}, "the shard": shard})
    means = Means(transport, {**config, "threads": threads}, on_nonfinite, momentum_correction, second_moment,
                  quantize, residual_dtype)
    state = FSDPState(means, shards, shard, compare_every)
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
                        "FullyShardedDataParallel: for its HYBRID_SHARD make the group of replicas with new_group()")
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
