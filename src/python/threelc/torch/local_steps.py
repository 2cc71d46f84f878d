# SPDX-License-Identifier: MIT
"""Local steps: ranks train alone for a while, then exchange the changes of their weights.

DiLoCo (Douillard et al., 2023), Streaming DiLoCo (Douillard et al., 2025), federated averaging (McMahan et al., 2017),
SBC's Algorithm 1 (Sattler et al., 2018), SparseLoCo (Sarfi et al., 2025) and the error reset of CSER (Xie et al., 2020)
are settings of it.
"""
from __future__ import annotations

import copy
import random
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union

import torch

from .. import exchange
from .._errors import StepError
from ..context import Context
from ._common.arguments import check_numbers, shown, weight_of, whole
from ._common.buffers import Buffers
from ._common.device import check_quantize, place_of
from ._common.groups import check_choices, ring_bytes
from ._common.module import HOST, Model, assign, flat
from ._common.optimizer import (InPlaceOfOptimizer, Maker, Patience, check_maker, check_optimizer, load_optimizer,
                                made_optimizer)
from ._common.runners import Background, Inline
from ._common.scaler import take_scale
from ._common.signals import signals_wait
from ._common.starving import LoopStats, residual_ratios, warn_starving
from ._common.states import GROUP, MADE, RANKS, TENSORS, TRAFFIC, Kind, Optionally, check_made, check_places, \
    made_with, states_for
from ._common.transport import Transport
from ._local.division import fragments_of
from ._local.fragment import FRAGMENT, Fragment, Round, check_fragments, fragments_saved
from ._local.weights import Weights

STATE_VERSION = 2  # of state_dict()
_STATE = Kind("LocalSteps", STATE_VERSION, {
    **RANKS, "shard": Optionally(str), "steps": int, "rounds": int, "skipped": int, "traffic": TRAFFIC,
    "anchors": TENSORS, "buffers": TENSORS, "fragments": Optionally([FRAGMENT]),
    "outer": Optionally({"state": Mapping, "param_groups": [{"params": [int]}]}), "group": Optionally(GROUP),
    "largest_round": Optionally(int), "made": MADE})

_MOMENTA = ("momentum_buffer", "exp_avg")  # names of torch's optimizers for it


def _has_momentum(group: Dict[str, Any]) -> bool:
    return bool(group.get("momentum") or (group.get("betas") or (0,))[0])


@dataclass(frozen=True)
class LocalStats(LoopStats):
    """What this rank did since the start, also before it was stopped and went on from a state_dict(). float_bytes: what
    a ring all-reduce of the parameters and buffers as float32 would have sent, those of a fragment in each of its
    rounds."""

    steps: int
    rounds: int
    """those of all fragments"""
    largest_round: int
    """the most bytes sent in one round"""
    skipped: int
    """rounds in which a change was not finite on some rank: all went back to the model before"""
    residual_norms: Dict[str, float]
    """by parameter: the 2-norm of what was not sent yet"""


class LocalSteps(InPlaceOfOptimizer):
    """Takes the place of the optimizer: step() is a local step, and each `every`-th one ends a round.

    At the end of a round the change of the weights plus the residual is compressed, averaged over the ranks, and given
    to the outer optimizer as a gradient (with the opposite sign). Its result is the common model, bit-identical on all
    ranks, which they go on from: each adds its own residual, so weights differ by what was not sent. common_model() is
    for looking at it, and synchronize() ends a training with it.

    Streaming DiLoCo exchanges `fragments` of the model in turn, so fewer bytes travel at a time, and with `delay` local
    steps go on meanwhile: fragments=4, delay=5, mix=0.5. Rounds are those of each fragment then.

    model:           the module, not wrapped; torch.compile() is fine. So is FSDP2's fully_shard() on the mesh of one
                     site, with process_group=, the ranks of all sites that have the same shard. All ranks start from
                     the weights and buffers of rank 0. Parameters are of float32, float16 or bfloat16, or complex; a
                     complex value is two floats. The model of all ranks is kept in float32, and parameters are that
                     model, rounded once. Load weights before LocalSteps is made: later they would count as a change
                     that this rank made, and the first step refuses them.
    inner_optimizer: of the local steps, over the model's parameters. Schedules of learning rates take it, or this
                     object, whose groups are the same. A GradScaler may call step(): where it finds infinities, the
                     local step is left out on this rank, and counted.
    outer:           makes the outer optimizer: a function of a list of parameters, for DiLoCo
                     `lambda p: torch.optim.SGD(p, lr=0.7, momentum=0.9, nesterov=True)`. None: the mean change is added
                     as it is (federated averaging, SBC).
    every:           local steps in a round; may be changed between rounds, on all ranks alike.
    fragments:       into how many the layers are divided, or of each fragment a list of modules or of names of modules
                     or parameters. Every fragment has a round in `every` steps, a `fragments`-th of them after the one
                     before. Buffers go with the last. Layers are the numbered modules; others fill up the smallest
                     fragments.
    pattern:         of layers, if `fragments` is a number: "strided" (layers 0, P, 2P, ...) or "sequential".
    delay:           local steps, fewer than `every`, from the start of an exchange to its result. A thread exchanges
                     meanwhile. Call synchronize() after the last step.
    mix:             from 0 to below 1: parameters become mix * local + (1 - mix) * common ones after a round. With it
                     or `delay`, ranks differ; outer parameters are bit-identical.
    codec, pull, mode, min_numel, seed, threads, process_group: as in register(). The mode "gather" has no second lossy
                     step, which harms sparse codecs with an outer momentum.
    warmup_rounds:   the first rounds send changes as floats: a dense start. Momentum is not masked in them.
    participants:    how many ranks, drawn anew for each round, take part; the others only receive. None: all.
    error_reset:     how much of what a rank did not send stays in its weights, from 0 to 1. 1: all (error reset, CSER,
                     section 3), so it does not do it again. 0: it only joins the next change (error feedback, as in SBC
                     and SparseLoCo). Ranks that go on from the common model alone mostly do again what they did not
                     send, so it counts twice, and the more is learned in a round, the sooner a training diverges. With
                     1 the common model is behind that of a rank: where sbc sends 1% of the values and there is no
                     outer optimizer, 0 with residual_decay=0.9 learned faster.
    residual_decay:  what was not sent is multiplied by it after each round. 1: it stays. SparseLoCo has 0.95, with
                     error feedback.
    mask_momentum:   SBC's momentum masking: the inner optimizer's momentum becomes 0 where a value was sent:
                     momentum_buffer of SGD and RMSprop, exp_avg of Adam and similar ones. An optimizer that keeps it
                     elsewhere is refused, and so is `delay`.
    average_buffers: buffers are the same on all ranks after a round. What all ranks have alike, bit for bit, stays as
                     it is, a mask of -inf, too. Of the others, floats, such as batch-norm statistics, become their
                     mean. Integers and booleans, such as counters, become those of the first rank in the round;
                     DistributedDataParallel takes those of rank 0, too. A buffer that is added or filled later is
                     one of them, if it has the same shape on all ranks. False: each rank keeps its own.
    on_nonfinite:    "raise": step() raises StepError on all ranks. "skip": all go back to the model before the round;
                     if that happens three times in a row, a warning names the rank and the tensor. With fragments all
                     of them go back.
    quantize:        "auto" or "device", as in register(): the model of all ranks, which the outer optimizer works on,
                     and residuals lie where the model is: 8 bytes a value there, and the outer optimizer's state.
                     "host": on the CPU. residual_dtype: as in register(), too; torch.bfloat16 takes 6.
    compare_every:   rounds from one comparison of outer parameters to the next, as in register().

    >>> optimizer = threelc.torch.LocalSteps(model, torch.optim.AdamW(model.parameters()), every=20,
    ...                                      codec="topk:p=0.03,bits=2,block=4096+golomb")
    >>> loss.backward()
    >>> optimizer.step()
    >>> optimizer.zero_grad()
    """

    def __init__(self, model: Any, inner_optimizer: Any, outer: Optional[Maker] = None, *,
                 every: int, fragments: Any = 1, pattern: str = "strided", delay: int = 0, mix: float = 0.0,
                 codec: str = "3lc", pull: Optional[str] = None, mode: str = "gather",
                 warmup_rounds: int = 0, participants: Optional[int] = None, error_reset: float = 1.0,
                 residual_decay: float = 1.0, mask_momentum: bool = False, average_buffers: bool = True,
                 min_numel: int = 256,
                 on_nonfinite: str = "raise", compare_every: int = 10, seed: int = 0, threads: Optional[int] = None,
                 quantize: str = "host", residual_dtype: torch.dtype = torch.float32,
                 process_group: Any = None) -> None:
        check_choices(mode, on_nonfinite, codec, pull)
        check_quantize(quantize, None, codec, residual_dtype)
        check_numbers(min_numel, seed, threads)
        whole(warmup_rounds, "warmup_rounds", 0)
        self._delay = whole(delay, "delay", 0)
        if isinstance(mix, bool) or not isinstance(mix, (int, float)) or not 0 <= mix < 1:
            raise ValueError(f"mix should be from 0 to below 1, not {shown(mix)}")
        if not isinstance(residual_decay, (int, float)) or not 0 <= residual_decay <= 1:
            raise ValueError(f"residual_decay should be from 0 to 1, not {shown(residual_decay)}")
        if not isinstance(error_reset, (int, float)) or not 0 <= error_reset <= 1:
            raise ValueError(f"error_reset should be from 0 to 1, not {shown(error_reset)}")
        self._model = Model(model, "LocalSteps", may_be_sharded=True)
        if on_nonfinite == "skip" and self._model.shards > 1:
            raise ValueError("on_nonfinite=\"skip\" is for models that are whole on each rank: ranks with other shards "
                             "would not skip the round")
        divided = fragments_of(self._model, fragments, pattern)
        self._least = max(len(divided), self._delay + 1)  # local steps in a round
        self.every = every
        check_optimizer(inner_optimizer, self._model, "inner_optimizer")
        if mask_momentum and not any(map(_has_momentum, inner_optimizer.param_groups)):
            raise ValueError(f"mask_momentum masks the momentum of SGD, RMSprop or Adam, and this "
                             f"{type(inner_optimizer).__name__} has none")
        if mask_momentum and delay:
            raise ValueError("mask_momentum masks momentum where a value was sent in this step, so delay should be 0, "
                             f"not {delay}")
        if outer is not None:
            check_maker(outer, "outer", "lambda p: torch.optim.SGD(p, lr=0.7, momentum=0.9, nesterov=True)")
        transport = Transport(process_group)
        if participants is not None:
            whole(participants, "participants", 1, transport.world)
        transport.agree({"codec": codec, "pull": pull, "mode": mode, "every": every, "fragments": len(divided),
                         "delay": delay, "mix": mix, "warmup_rounds": warmup_rounds,
                         "participants": participants, "error_reset": error_reset,
                         "residual_decay": residual_decay, "average_buffers": average_buffers, "min_numel": min_numel,
                         "seed": seed, "on_nonfinite": on_nonfinite, "compare_every": compare_every,
                         "outer": outer is not None})
        self._model.start(transport, [] if len(divided) == 1 else [
            f"{name} in fragment {i}" for i, names in enumerate(divided) for name in names])
        super().__init__(inner_optimizer, transport, self._model, "round")
        self.inner_optimizer = inner_optimizer
        self._participants = participants
        self._error_reset = float(error_reset)
        self._residual_decay = residual_decay
        self._mask_momentum = mask_momentum
        self._skips = on_nonfinite == "skip"
        self._patience = Patience("a round of LocalSteps was skipped")
        self._starves = False  # a warning was given
        self._seed = seed
        self._mix = mix
        self._parameters = self._model.parameters
        self._buffers = Buffers(self._model, average_buffers)
        place = place_of(quantize, [p.device for p in self._parameters.values()], False, codec, residual_dtype)
        self._anchors = {name: torch.nn.Parameter(flat(p, place or HOST)) for name, p in self._parameters.items()}
        anchors = list(self._anchors.values())
        self.outer_optimizer = outer and made_optimizer(outer, anchors, anchors, "outer")
        self.residuals: Dict[str, torch.Tensor] = {}
        """what was not sent yet, flat, by parameter; empty if the codec keeps no residual"""
        self._weights = Weights(self._model, self._anchors, self.residuals)
        self._made = made_with(codec, min_numel, pull, mode)
        config = exchange.Config(workers=transport.world, push=codec, pull=pull, gather=mode == "gather",
                                 min_n=min_numel, threads=threads)
        residuals = self.residuals if Context(1, codec).residual is not None else None
        self._fragments = [
            Fragment({name: self._anchors[name] for name in names}, replace(config, seed=(seed + i) % 2**64),
                     transport.rank, residuals, warmup_rounds, compare_every,
                     self._buffers if i == len(divided) - 1 else None, place, residual_dtype)
            for i, names in enumerate(divided)]
        self._runner: Union[Inline, Background] = Inline()
        if delay:
            self._runner = Background("threelc-local", transport, self._model.device)
        self._steps = self._rounds = self._skipped = 0
        self._largest_before = 0  # of largest_round: before this object went on from a state
        self.weight = 1.0

    @property
    def every(self) -> int:
        """Local steps in a round."""
        return self._every

    @every.setter
    def every(self, every: int) -> None:
        self._every = whole(every, "every", self._least)

    @property
    def weight(self) -> float:
        """Of this rank's changes in the mean, for federated averaging the number of its samples."""
        return self._weight

    @weight.setter
    def weight(self, weight: float) -> None:
        self._weight = weight_of(weight)

    @property
    def participates(self) -> bool:
        """Whether this rank is in the round that begins next. If it is not, its local steps are lost."""
        return self._takes_part(min(self._fragments, key=self._steps_left))

    def _takes_part(self, fragment: Fragment) -> bool:
        if self._participants is None:
            return True
        draw = random.Random(f"{self._seed}/{fragment.rounds}")
        return self._transport.rank in draw.sample(range(self._transport.world), self._participants)

    def _steps_left(self, fragment: Fragment) -> int:
        """Local steps after the next one, until an exchange of a fragment begins."""
        place = self._fragments.index(fragment) + 1
        return (place * self.every // len(self._fragments) - self._steps - 1) % self.every

    @signals_wait
    def step(self, closure: Optional[Callable[[], Any]] = None, **scaling: Any) -> Any:
        """A local step, and at the end of a round the exchange. Returns what the inner optimizer returns."""
        self._check(self._anchors.values if self._steps == self._rounds == 0 else None)
        self._weights.settle(self._fragments, self._error_reset)
        result = None
        if take_scale(self, scaling):
            result = self.inner_optimizer.step(closure) if closure else self.inner_optimizer.step()
        begin = [fragment for fragment in self._fragments if self._steps_left(fragment) == 0]
        self._steps += 1
        for fragment in self._fragments:
            fragment.at_start = False
        failures = self._take(self._ending() + begin, self._mix)
        for fragment in begin:
            self._begin(fragment, self._delay)
        _raise_first(failures + self._take(self._ending(), self._mix))  # those without a delay
        return result

    def _ending(self) -> List[Fragment]:
        """Fragments whose round ends with this step."""
        return [fragment for fragment in self._fragments
                if fragment.round is not None and fragment.round.ends <= self._steps]

    @signals_wait
    def synchronize(self) -> None:
        """Ends the rounds of all fragments now with one more exchange, on all ranks together: all have the common model
        then. Residuals stay, and join the weights again in the next step. common_model() shows it without exchange."""
        self._check()
        failures = self._take(self._fragments, self._mix)
        for fragment in self._fragments:
            self._begin(fragment, 0)
        failures += self._take(self._fragments, 0.0)
        for fragment in self._fragments:
            fragment.in_weights = 0.0
            self._weights.begin(fragment)
        _raise_first(failures)

    @contextmanager
    def common_model(self) -> Iterator[None]:
        """Meanwhile the model has the weights that all ranks have in common, as of the last rounds: to test or to save
        it. Without an exchange; rank 0 alone may do it.

        >>> with optimizer.common_model():
        ...     torch.save(model.state_dict(), "model.pt")
        """
        with self._weights.common():
            yield

    def _begin(self, fragment: Fragment, delay: int) -> None:
        """A round."""
        changes = self._weights.changes(fragment)
        world = self._transport.world
        self._float_bytes += ring_bytes(changes, world)
        buffers: Dict[str, torch.Tensor] = {}
        if fragment.buffers is not None:
            self._float_bytes += fragment.buffers.ring_bytes(world)
            buffers = fragment.buffers.now()
            if self._delay:  # a thread reads them
                buffers = {name: buffer.detach().clone() for name, buffer in buffers.items()}
        self._rounds += 1
        fragment.begin(
            Round(self._rounds, self._steps + delay, self._takes_part(fragment),
                  [torch.empty_like(change) for change in changes], buffers),
            changes, self.weight, self._runner, self._transport, self._clock)

    def _take(self, fragments: Iterable[Fragment], mix: float) -> List[StepError]:
        """The results of rounds under way: fragments become mix * local + (1 - mix) * common ones. Returns what step()
        should raise."""
        failures = []
        for fragment in fragments:
            ended = fragment.take()
            if ended is None:
                continue
            if ended.failure is not None:
                self._skipped += 1
                self._wait()  # residuals of other fragments are in the weights, too
                for each in self._fragments:
                    self._weights.begin(each)
                self._buffers.go_back()
                if self._skips:
                    self._patience.left_out(str(ended.failure))
                else:
                    failures.append(ended.failure)
                continue
            self._patience.went_well()
            self._end_round(fragment, ended, mix)
        return failures

    def _end_round(self, fragment: Fragment, ended: Round, mix: float) -> None:
        if not self._starves:
            warning = fragment.starving.look(lambda: [fragment.group.stats])
            self._starves = warning is not None
            warn_starving(warning, self._transport.rank)
        if self._residual_decay != 1:
            fragment.group.residual_scale(self._residual_decay)
        if self._mask_momentum and ended.takes_part and not fragment.dense:
            self._mask(fragment)
        self._apply(dict(zip(fragment.names, ended.means)))
        fragment.in_weights = self._error_reset
        self._weights.begin(fragment, mix)
        if fragment.buffers is not None:
            fragment.buffers.end_round(ended.buffers, ended.merged, mix)
        if fragment.replicas.due(fragment.rounds):
            self._runner.call(lambda: fragment.replicas.compare(self._transport, f"after round {ended.number}"))
        self._tell(ended.number)

    def _apply(self, means: Dict[str, torch.Tensor]) -> None:
        with torch.no_grad():
            for name, mean in means.items():
                mean = mean.to(self._anchors[name].device)
                if self.outer_optimizer is None:
                    self._anchors[name] += mean
                else:
                    self._anchors[name].grad = mean.neg_()
        if self.outer_optimizer is not None:
            self.outer_optimizer.step()
            for name in means:  # without gradients they stay what they are while other fragments move
                self._anchors[name].grad = None

    @signals_wait
    def flush(self) -> None:
        """Sends what residuals hold as floats, on all ranks together, for the end of a training: all go on from the
        common model with it, through the outer optimizer as at the end of a round. Residuals are 0 then, on all ranks.
        Rounds under way end before. Residuals of very sparse codecs are old, and may do harm: look at the accuracy
        before and after."""
        if self._steps % self.every or len(self._fragments) > 1 or self._delay or self._mix:
            self.synchronize()
        self._check()
        means: Dict[str, torch.Tensor] = {}
        with self._clock.sending("floats"):
            for fragment in self._fragments:
                means.update(zip(fragment.names, fragment.group.flush(self._transport, self.weight)))
        self._apply(means)
        for fragment in self._fragments:
            self._weights.begin(fragment)

    def _abort(self) -> None:
        self._runner.call(super()._abort)

    def _wait(self) -> None:
        """Until no thread exchanges."""
        for fragment in self._fragments:
            fragment.wait()

    def _momentum_of(self, group: Dict[str, Any], parameter: torch.Tensor) -> Optional[torch.Tensor]:
        """None: it has none yet, or never."""
        state = self.inner_optimizer.state.get(parameter, {})
        found: Optional[torch.Tensor] = next((state[name] for name in _MOMENTA if name in state), None)
        if state and found is None and _has_momentum(group):
            raise ValueError(f"mask_momentum looks for {' or '.join(_MOMENTA)} in the state of the optimizer, and this "
                             f"{type(self.inner_optimizer).__name__} has {', '.join(state)}")
        return found

    def _mask(self, fragment: Fragment) -> None:
        momenta = {id(p): self._momentum_of(group, p)
                   for group in self.inner_optimizer.param_groups for p in group["params"]}
        found = [momenta.get(id(self._parameters[name])) for name in fragment.names]
        copies = [None if momentum is None else flat(momentum) for momentum in found]
        fragment.group.allreduce.mask(copies)
        for momentum, masked in zip(found, copies):
            if momentum is not None and masked is not None:
                assign(momentum, masked)

    @property
    def stats(self) -> LocalStats:
        """Bytes and seconds, and what residuals have. Waits for exchanges under way."""
        found: LocalStats = self._runner.call(self._counts)
        return found

    def _counts(self) -> LocalStats:
        return LocalStats(
            **self._traffic(), **residual_ratios([fragment.group.stats for fragment in self._fragments]),
            steps=self._steps, rounds=self._rounds, skipped=self._skipped, largest_round=self._largest_round(),
            residual_norms={name: float(residual.float().norm()) for name, residual in self.residuals.items()})

    def _largest_round(self) -> int:
        return max(self._largest_before, *(fragment.largest for fragment in self._fragments))

    @signals_wait
    def state_dict(self) -> Dict[str, Any]:
        """Rounds, residuals of this rank, the outer optimizer and the float32 weights that it works on. Model and inner
        optimizer are the caller's to save. Each rank saves its own. Waits for exchanges under way, whose results are in
        it."""
        self._wait()
        return _STATE.saved(self._transport, {
            "shard": self._model.shard, "made": dict(self._made),
            "steps": self._steps, "rounds": self._rounds, "skipped": self._skipped, "traffic": self._traffic(),
            "anchors": {name: flat(anchor) for name, anchor in self._anchors.items()},
            "buffers": {name: buffer.clone() for name, buffer in self._buffers.start.items()},
            "outer": self.outer_optimizer and copy.deepcopy(self.outer_optimizer.state_dict()),
            "largest_round": self._largest_round(),
            "fragments": [fragment.state_dict() for fragment in self._fragments]})

    @signals_wait
    def load_state_dict(self, states: Union[Dict[str, Any], Sequence[Dict[str, Any]]], lost: bool = False) -> None:
        """Goes on from the state_dict() of this rank, with the same bits. On another number of ranks give each the
        states of all: no residual is lost. lost: states that are missing are lost, and their residuals with them; so is
        what the state has of parameters that are not trained here. Fragments are those of the run that was saved. What
        is under way here is lost. An exception changes nothing.

        With error reset, weights become those that the last round left, whichever the model has: of a state that was
        saved when a round had ended, and on another number of ranks, where local steps after that round are lost. Of
        another state of this rank, load its own weights into the model."""
        self._wait()
        found = states_for(states, _STATE, self._transport, lost)
        for state in found:
            if (state.get("shard") or "") != self._model.shard:
                raise ValueError(f"the state is of {state.get('shard') or 'a model that is whole on each rank'}, and "
                                 f"this rank has {self._model.shard or 'all of the model'}")
        saved = [fragments_saved(state) for state in found]
        check_made(_STATE, found, self._made, [size for each in saved[0] for size in each["group"]["sizes"]])
        check_places((name for name in found[0]["anchors"] if name not in self._anchors),
                     "that no trained parameter has here", lost)
        for name, anchor in self._anchors.items():
            if name not in found[0]["anchors"] or found[0]["anchors"][name].shape != anchor.shape:
                raise ValueError(f"{name} of {anchor.numel()} values is not in the state")
        if (found[0]["outer"] is None) != (self.outer_optimizer is None):
            raise ValueError("the state is of a run " + ("without" if found[0]["outer"] is None else "with")
                             + " an outer optimizer, and this one is not")
        self._buffers.check(found[0]["buffers"])
        check_fragments(self._fragments, saved)
        groups = [[each["group"] for each in of_ranks] for of_ranks in zip(*saved)]
        for fragment, theirs in zip(self._fragments, groups):
            fragment.group.check_states(theirs, lost)
        if self.outer_optimizer is not None:
            # PyTorch 2 keeps the tensors that it is given
            load_optimizer(self.outer_optimizer, copy.deepcopy(found[0]["outer"]))
        same = (found[0]["world"], found[0]["rank"]) == (self._transport.world, self._transport.rank)
        for fragment, theirs, own in zip(self._fragments, groups, saved[0]):
            fragment.group.load_states(theirs, lost)
            fragment.load_round(own, same)
        self._buffers.load(found[0]["buffers"])
        for name, anchor in self._anchors.items():
            assign(anchor, found[0]["anchors"][name])
        self._model.reshard()
        for fragment in self._fragments:
            if fragment.placed:
                self._weights.begin(fragment)
        self._steps, self._rounds, self._skipped = (found[0][count] for count in ("steps", "rounds", "skipped"))
        self._largest_before = max(state.get("largest_round") or 0 for state in found)
        self._load_traffic(found)


def _raise_first(failures: Sequence[StepError]) -> None:
    for failure in failures:
        raise failure
