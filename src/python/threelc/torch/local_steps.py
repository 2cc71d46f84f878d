# SPDX-License-Identifier: MIT
"""Local steps: ranks train alone for a while, then exchange the changes of their weights.

DiLoCo (Douillard et al., 2023), federated averaging (McMahan et al., 2017), SBC's Algorithm 1 (Sattler et al., 2018)
and SparseLoCo (Sarfi et al., 2025) are settings of it.
"""
from __future__ import annotations

import copy
import random
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Union

import torch

from .. import exchange
from .._errors import Status, StepError
from ..context import Context
from ._common.arguments import check_numbers, shown, weight_of, whole
from ._common.buffers import Buffers
from ._common.groups import Group, check_choices, ring_bytes
from ._common.module import Model, assign, flat, rounded, size_of
from ._common.optimizer import InPlaceOfOptimizer, Maker, Patience, check_maker, check_optimizer, made_optimizer
from ._common.replicas import Replicas
from ._common.scaler import take_scale
from ._common.starving import LoopStats, Starving, residual_ratios, warn_starving
from ._common.states import GROUP, MADE, RANKS, TENSORS, TRAFFIC, Kind, Optionally, check_made, check_places, \
    made_with, states_for
from ._common.transport import Transport

STATE_VERSION = 2  # of state_dict()
_STATE = Kind("LocalSteps", STATE_VERSION, {
    **RANKS, "steps": int, "rounds": int, "skipped": int, "traffic": TRAFFIC, "anchors": TENSORS, "buffers": TENSORS,
    "outer": Optionally(Mapping), "group": GROUP, "made": MADE})

_MOMENTA = ("momentum_buffer", "exp_avg")  # names of torch's optimizers for it


def _has_momentum(group: Dict[str, Any]) -> bool:
    return bool(group.get("momentum") or (group.get("betas") or (0,))[0])


@dataclass(frozen=True)
class LocalStats(LoopStats):
    """What this rank did since the start, also before it was stopped and went on from a state_dict(). float_bytes: what
    a ring all-reduce of the parameters and buffers as float32 would have sent, once in each round."""

    steps: int
    rounds: int
    skipped: int
    """rounds in which a change was not finite on some rank: all went back to the model before"""
    residual_norms: Dict[str, float]
    """by parameter: the 2-norm of what was not sent yet"""


class LocalSteps(InPlaceOfOptimizer):
    """Takes the place of the optimizer: step() is a local step, and each `every`-th one ends a round.

    At the end of a round the change of the weights plus the residual is compressed, averaged over the ranks, and given
    to the outer optimizer as a gradient (with the opposite sign). All ranks go on from its result, bit-identical.

    model:           the module, not wrapped; torch.compile() is fine. All ranks start from the weights and buffers of
                     rank 0. Parameters are of float32, float16 or bfloat16, or complex; a complex value is two floats.
                     The model of all ranks is kept in float32, and parameters are that model, rounded once. Load
                     weights before LocalSteps is made: later they would count as a change that this rank made, and the
                     first step refuses them.
    inner_optimizer: of the local steps, over the model's parameters. Schedules of learning rates take it, or this
                     object, whose groups are the same. A GradScaler may call step(): where it finds infinities, the
                     local step is left out on this rank, and counted.
    outer:           makes the outer optimizer: a function of a list of parameters, for DiLoCo
                     `lambda p: torch.optim.SGD(p, lr=0.7, momentum=0.9, nesterov=True)`. None: the mean change is added
                     as it is (federated averaging, SBC).
    every:           local steps in a round; may be changed between rounds, on all ranks alike.
    codec, pull, mode, min_numel, seed, threads, process_group: as in register(). The mode "gather" has no second lossy
                     step, which harms sparse codecs with an outer momentum.
    warmup_rounds:   the first rounds send changes as floats: a dense start. Momentum is not masked in them.
    participants:    how many ranks, drawn anew for each round, take part; the others only receive. None: all.
    residual_decay:  what was not sent is multiplied by it after each round. 1: it stays. A rank goes on from the common
                     model, so what it did not send it mostly does again; with few values sent in a round, residuals
                     grow old, and large. SparseLoCo has 0.95.
    mask_momentum:   SBC's momentum masking: the inner optimizer's momentum becomes 0 where a value was sent:
                     momentum_buffer of SGD and RMSprop, exp_avg of Adam and similar ones. An optimizer that keeps it
                     elsewhere is refused.
    average_buffers: buffers are the same on all ranks after a round. What all ranks have alike, bit for bit, stays as
                     it is, a mask of -inf, too. Of the others, floats, such as batch-norm statistics, become their
                     mean. Integers and booleans, such as counters, become those of the first rank in the round;
                     DistributedDataParallel takes those of rank 0, too. A buffer that is added or filled later is
                     one of them, if it has the same shape on all ranks. False: each rank keeps its own.
    on_nonfinite:    "raise": step() raises StepError on all ranks. "skip": all go back to the model before the round;
                     if that happens three times in a row, a warning names the rank and the tensor.
    compare_every:   rounds from one comparison of weights to the next, as in register().

    >>> optimizer = threelc.torch.LocalSteps(model, torch.optim.AdamW(model.parameters()), every=20,
    ...                                      codec="topk:p=0.03,bits=2,block=4096+golomb")
    >>> loss.backward()
    >>> optimizer.step()
    >>> optimizer.zero_grad()
    """

    def __init__(self, model: Any, inner_optimizer: Any, outer: Optional[Maker] = None, *,
                 every: int, codec: str = "3lc", pull: Optional[str] = None, mode: str = "gather",
                 warmup_rounds: int = 0, participants: Optional[int] = None, residual_decay: float = 1.0,
                 mask_momentum: bool = False, average_buffers: bool = True, min_numel: int = 256,
                 on_nonfinite: str = "raise", compare_every: int = 10, seed: int = 0, threads: Optional[int] = None,
                 process_group: Any = None) -> None:
        check_choices(mode, on_nonfinite, codec, pull)
        check_numbers(min_numel, seed, threads)
        self._warmup_rounds = whole(warmup_rounds, "warmup_rounds", 0)
        if not isinstance(residual_decay, (int, float)) or not 0 <= residual_decay <= 1:
            raise ValueError(f"residual_decay should be from 0 to 1, not {shown(residual_decay)}")
        self.every = every
        self._model = Model(model, "LocalSteps")
        check_optimizer(inner_optimizer, self._model, "inner_optimizer")
        if mask_momentum and not any(map(_has_momentum, inner_optimizer.param_groups)):
            raise ValueError(f"mask_momentum masks the momentum of SGD, RMSprop or Adam, and this "
                             f"{type(inner_optimizer).__name__} has none")
        if outer is not None:
            check_maker(outer, "outer", "lambda p: torch.optim.SGD(p, lr=0.7, momentum=0.9, nesterov=True)")
        transport = Transport(process_group)
        if participants is not None:
            whole(participants, "participants", 1, transport.world)
        transport.agree({"codec": codec, "pull": pull, "mode": mode, "every": every, "warmup_rounds": warmup_rounds,
                         "participants": participants, "residual_decay": residual_decay,
                         "average_buffers": average_buffers, "min_numel": min_numel, "seed": seed,
                         "on_nonfinite": on_nonfinite, "compare_every": compare_every, "outer": outer is not None})
        self._model.start(transport)
        super().__init__(inner_optimizer, transport, self._model, "round")
        self.inner_optimizer = inner_optimizer
        self._participants = participants
        self._residual_decay = residual_decay
        self._mask_momentum = mask_momentum
        self._skips = on_nonfinite == "skip"
        self._patience = Patience("a round of LocalSteps was skipped")
        self._starving = Starving()
        self._seed = seed
        self._parameters = self._model.parameters
        self._replicas = Replicas(compare_every, lambda: self._parameters, threads)
        self._buffers = Buffers(self._model, average_buffers)
        self._anchors = {name: torch.nn.Parameter(flat(p)) for name, p in self._parameters.items()}
        anchors = list(self._anchors.values())
        self.outer_optimizer = outer and made_optimizer(outer, anchors, anchors, "outer")
        self.residuals: Dict[str, torch.Tensor] = {}
        """what was not sent yet, flat, by parameter; empty if the codec keeps no residual"""
        self._made = made_with(codec, min_numel, pull, mode)
        self._config = exchange.Config(workers=transport.world, push=codec, pull=pull, gather=mode == "gather",
                                       min_n=min_numel, seed=seed, threads=threads)
        self._group = Group(self._config, transport.rank, list(self._parameters),
                            [size_of(p) for p in self._parameters.values()],
                            self.residuals if Context(1, codec).residual is not None else None)
        self._floats: Optional[Group] = None  # in the first rounds
        self._steps = self._rounds = self._skipped = 0
        self.weight = 1.0

    @property
    def every(self) -> int:
        """Local steps in a round."""
        return self._every

    @every.setter
    def every(self, every: int) -> None:
        self._every = whole(every, "every", 1)

    @property
    def weight(self) -> float:
        """Of this rank's changes in the mean, for federated averaging the number of its samples."""
        return self._weight

    @weight.setter
    def weight(self, weight: float) -> None:
        self._weight = weight_of(weight)

    @property
    def participates(self) -> bool:
        """Whether this rank is in the current round. If it is not, its local steps are lost."""
        if self._participants is None:
            return True
        draw = random.Random(f"{self._seed}/{self._rounds}")
        return self._transport.rank in draw.sample(range(self._transport.world), self._participants)

    def step(self, closure: Optional[Callable[[], Any]] = None, **scaling: Any) -> Any:
        """A local step, and at the end of a round the exchange. Returns what the inner optimizer returns."""
        self._check(self._anchors.values if self._steps == self._rounds == 0 else None)
        result = None
        if take_scale(self, scaling):
            result = self.inner_optimizer.step(closure) if closure else self.inner_optimizer.step()
        self._steps += 1
        if self._steps % self.every == 0:
            self.synchronize()
        return result

    def synchronize(self) -> None:
        """Ends a round now, on all ranks together."""
        self._check()
        transport, clock = self._transport, self._clock
        changes = [flat(parameter).sub_(rounded(self._anchors[name], parameter))
                   for name, parameter in self._parameters.items()]
        means = [torch.empty_like(change) for change in changes]
        self._float_bytes += ring_bytes(changes, transport.world) + self._buffers.ring_bytes(transport.world)
        taking_part, self._rounds = self.participates, self._rounds + 1
        try:
            with clock.sending("buffers"):
                merged = self._buffers.merge(transport, self.weight if taking_part else None, self._rounds)
            self._group_of_round().run(transport, changes if taking_part else None, means, clock, self.weight)
        except StepError as error:
            if error.outcome is None or error.outcome.cause != Status.NONFINITE:
                raise
            self._skipped += 1
            self._set_model()
            self._buffers.go_back()
            if not self._skips:
                raise
            self._patience.left_out(str(error))
            return
        self._patience.went_well()
        warn_starving(self._starving.look(lambda: [self._group.allreduce.stats]), transport.rank)
        if self._residual_decay != 1:
            self._group.residual_scale(self._residual_decay)
        if self._mask_momentum and taking_part and self._floats is None:
            self._mask()
        self._apply(dict(zip(self._anchors, means)))
        self._set_model()
        self._buffers.end_round(merged)
        if self._replicas.due(self._rounds):
            self._replicas.compare(transport, f"after round {self._rounds}")
        self._tell(self._rounds)

    def _group_of_round(self) -> Group:
        """Messages of floats are large, so the first rounds have a group of their own, which goes when they have
        ended."""
        if self._rounds > self._warmup_rounds:
            self._floats = None
            return self._group
        if self._floats is None:
            self._floats = Group(replace(self._config, push="raw", pull="raw"), self._transport.rank,
                                 self._group.names, self._group.sizes, None)
        return self._floats

    def _apply(self, means: Dict[str, torch.Tensor]) -> None:
        with torch.no_grad():
            for name, anchor in self._anchors.items():
                if self.outer_optimizer is None:
                    anchor += means[name]
                else:
                    anchor.grad = means[name].neg_()
        if self.outer_optimizer is not None:
            self.outer_optimizer.step()
            self.outer_optimizer.zero_grad()

    def _set_model(self) -> None:
        for name, parameter in self._parameters.items():
            assign(parameter, self._anchors[name].detach())

    def flush(self) -> None:
        """Sends what residuals hold as floats, on all ranks together, for the end of a training: all go on from the
        common model with it, through the outer optimizer as at the end of a round. Residuals are 0 then, on all ranks.
        A round under way ends before. Residuals of very sparse codecs are old, and may do harm: look at the accuracy
        before and after."""
        if self._steps % self.every:
            self.synchronize()
        self._check()
        with self._clock.sending("floats"):
            means = self._group.flush(self._transport, self.weight)
        self._apply(dict(zip(self._anchors, means)))
        self._set_model()

    def _momentum_of(self, group: Dict[str, Any], parameter: torch.Tensor) -> Optional[torch.Tensor]:
        """None: it has none yet, or never."""
        state = self.inner_optimizer.state.get(parameter, {})
        found: Optional[torch.Tensor] = next((state[name] for name in _MOMENTA if name in state), None)
        if state and found is None and _has_momentum(group):
            raise ValueError(f"mask_momentum looks for {' or '.join(_MOMENTA)} in the state of the optimizer, and this "
                             f"{type(self.inner_optimizer).__name__} has {', '.join(state)}")
        return found

    def _mask(self) -> None:
        momenta = {id(p): self._momentum_of(group, p)
                   for group in self.inner_optimizer.param_groups for p in group["params"]}
        found = [momenta.get(id(p)) for p in self._parameters.values()]
        copies = [None if momentum is None else flat(momentum) for momentum in found]
        self._group.allreduce.mask(copies)
        for momentum, masked in zip(found, copies):
            if momentum is not None and masked is not None:
                assign(momentum, masked)

    @property
    def stats(self) -> LocalStats:
        """Bytes and seconds, and what residuals have."""
        return LocalStats(
            **self._traffic(), **residual_ratios([self._group.allreduce.stats]), steps=self._steps,
            rounds=self._rounds, skipped=self._skipped,
            residual_norms={name: float(residual.norm()) for name, residual in self.residuals.items()})

    def state_dict(self) -> Dict[str, Any]:
        """Rounds, residuals of this rank, the outer optimizer and the float32 weights that it works on. Model and inner
        optimizer are the caller's to save. Each rank saves its own."""
        return {**_STATE.head(self._transport), "made": dict(self._made),
                "steps": self._steps, "rounds": self._rounds, "skipped": self._skipped, "traffic": self._traffic(),
                "anchors": {name: anchor.detach().clone() for name, anchor in self._anchors.items()},
                "buffers": {name: buffer.clone() for name, buffer in self._buffers.start.items()},
                "outer": self.outer_optimizer and copy.deepcopy(self.outer_optimizer.state_dict()),
                "group": self._group.state_dict()}

    def load_state_dict(self, states: Union[Dict[str, Any], Sequence[Dict[str, Any]]], lost: bool = False) -> None:
        """Goes on from the state_dict() of this rank, with the same bits. On another number of ranks give each the
        states of all: no residual is lost. lost: states that are missing are lost, and their residuals with them; so is
        what the state has of parameters that are not trained here. An exception changes nothing."""
        found = states_for(states, _STATE, self._transport, lost)
        check_made(_STATE, found, self._made, found[0]["group"]["sizes"])
        check_places((name for name in found[0]["anchors"] if name not in self._anchors),
                     "that no trained parameter has here", lost)
        for name, anchor in self._anchors.items():
            if name not in found[0]["anchors"] or found[0]["anchors"][name].shape != anchor.shape:
                raise ValueError(f"{name} of {anchor.numel()} values is not in the state")
        if (found[0]["outer"] is None) != (self.outer_optimizer is None):
            raise ValueError("the state is of a run " + ("without" if found[0]["outer"] is None else "with")
                             + " an outer optimizer, and this one is not")
        groups = [state["group"] for state in found]
        self._buffers.check(found[0]["buffers"])
        self._group.check_states(groups, lost)
        if self.outer_optimizer is not None:
            # PyTorch 2 keeps the tensors that it is given
            self.outer_optimizer.load_state_dict(copy.deepcopy(found[0]["outer"]))
        self._group.load_states(groups, lost)
        self._floats = None  # it begins anew on all ranks
        self._buffers.load(found[0]["buffers"])
        for name, anchor in self._anchors.items():
            assign(anchor, found[0]["anchors"][name])
        self._steps, self._rounds, self._skipped = (found[0][count] for count in ("steps", "rounds", "skipped"))
        self._load_traffic(found)
