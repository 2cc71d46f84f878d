# SPDX-License-Identifier: MIT
"""A fragment of a model: parameters whose changes travel together, in rounds of their own."""
from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

import torch

from ... import exchange
from ..._errors import Status, StepError
from ...exchange import Outcome
from .._common.buffers import Buffers
from .._common.groups import Clock, Group
from .._common.jobs import Job
from .._common.replicas import Replicas
from .._common.runners import Background, Inline, nothing
from .._common.starving import Starving
from .._common.states import GROUP, TENSORS, Optionally
from .._common.transport import Transport

ROUND = {"number": int, "ends": int, "means": [torch.Tensor], "buffers": TENSORS, "merged": [str],
         "failure": Optionally({"sentence": str, "step": int, "rank": Optionally(int), "tensor": Optionally(int)})}
FRAGMENT = {"rounds": int, "group": GROUP, "round": Optionally(ROUND), "in_weights": Optionally(float),
            "at_start": Optionally(bool)}  # in states


@dataclass
class Round:
    """An exchange that has begun, and is not yet taken."""

    number: int
    """of all rounds of the model"""
    ends: int
    """after this local step it is taken"""
    takes_part: bool
    """whether this rank is in the mean"""
    means: List[torch.Tensor]
    """of changes, by parameter; the same on all ranks"""
    buffers: Dict[str, torch.Tensor]
    """as they were when it began; empty: they go with another fragment"""
    merged: Dict[str, torch.Tensor] = field(default_factory=dict)
    """what those of them become that ranks did not have alike"""
    failure: Optional[StepError] = None
    """a change was not finite on some rank"""
    wait: Job = nothing
    done: bool = False
    """the results are there"""


class Fragment:
    """Its group, and its round under way."""

    def __init__(self, anchors: Mapping[str, torch.Tensor], config: exchange.Config, rank: int,
                 residuals: Optional[Dict[str, torch.Tensor]], warmup_rounds: int, compare_every: int,
                 buffers: Optional[Buffers], device: Optional[torch.device] = None,
                 residual_dtype: torch.dtype = torch.float32) -> None:
        """anchors: flat parameters of the model of all ranks, by name. residuals, device, residual_dtype: as those of
        Group. buffers: travel with this fragment."""
        self.names = tuple(anchors)
        self.group = Group(config, rank, self.names, [anchor.numel() for anchor in anchors.values()], residuals,
                           device=device, residual_dtype=residual_dtype)
        self._device = device
        self.replicas = Replicas(compare_every, lambda: anchors, config.threads)
        self.starving = Starving()
        self.buffers = buffers
        self.rounds = 0
        """that have begun"""
        self.round: Optional[Round] = None
        """that is under way"""
        self.in_weights = 0.0
        """weights are the common ones, this share of residuals, and what local steps changed"""
        self.at_start = True
        """no local step was made after the last round, and nothing was mixed"""
        self.placed = False
        """before the next local step weights become those of the start of a round"""
        self.largest = 0
        """bytes sent in a round, at most"""
        self._config = config
        self._warmup_rounds = warmup_rounds
        self._floats: Optional[Group] = None  # in the first rounds

    @property
    def dense(self) -> bool:
        """The last round sent floats."""
        return self._floats is not None

    def begin(self, started: Round, changes: Sequence[torch.Tensor], weight: float, runner: Union[Inline, Background],
              transport: Transport, clock: Clock) -> None:
        """A round. changes: those of this rank, which are not written any more. weight: of this rank in the mean."""
        self.rounds += 1
        self.round = started
        group = self._group_of_round(transport.rank)
        started.wait = runner.put(partial(self._run, group, started, changes, weight, transport, clock))

    def _run(self, group: Group, started: Round, changes: Sequence[torch.Tensor], weight: float, transport: Transport,
             clock: Clock) -> None:
        before = transport.sent
        taking_part = started.takes_part
        try:
            if self.buffers is not None:
                with clock.sending("buffers"):
                    started.merged = self.buffers.merge(transport, started.buffers, weight if taking_part else None,
                                                        started.number)
            means = started.means
            if self._device is not None and not group.on_device:  # a group of floats takes what is on the CPU
                changes, means = [change.cpu() for change in changes], [mean.cpu() for mean in means]
            group.run(transport, changes if taking_part else None, means, clock, weight)
            for mean, found in zip(started.means, means):
                if mean is not found:
                    mean.copy_(found)
        except StepError as error:
            if error.outcome is None or error.outcome.cause != Status.NONFINITE:
                raise
            started.failure = error
        started.done = True
        self.largest = max(self.largest, transport.sent - before)

    def _group_of_round(self, rank: int) -> Group:
        """Messages of floats are large, so the first rounds have a group of their own, which goes when they have
        ended."""
        if self.rounds > self._warmup_rounds:
            self._floats = None
            return self.group
        if self._floats is None:
            self._floats = Group(replace(self._config, push="raw", pull="raw"), rank, self.names, self.group.sizes,
                                 None)
        return self._floats

    def wait(self) -> None:
        """Until the exchange of the round under way is done. RuntimeError: it has failed."""
        if self.round is not None:
            self.round.wait()
            if not self.round.done:
                raise RuntimeError(f"the exchange of round {self.round.number} has failed, so its results are not "
                                   "there: go on from a state that was saved before")

    def take(self) -> Optional[Round]:
        """The round under way, which ends. None: there is none."""
        self.wait()
        ended, self.round = self.round, None
        return ended

    def state_dict(self) -> Dict[str, Any]:
        """After wait()."""
        found: Dict[str, Any] = {"rounds": self.rounds, "group": self.group.state_dict(), "round": None,
                                 "in_weights": self.in_weights, "at_start": self.at_start}
        if self.round is not None:
            buffers = {**self.round.buffers, **self.round.merged}
            outcome = self.round.failure and self.round.failure.outcome
            found["round"] = {
                "number": self.round.number, "ends": self.round.ends,
                "means": _copies(mean.cpu() for mean in self.round.means),
                "buffers": dict(zip(buffers, _copies(buffers.values()))), "merged": list(self.round.merged),
                "failure": outcome and {"sentence": str(self.round.failure), "step": outcome.step,
                                        "rank": outcome.rank, "tensor": outcome.tensor}}
        return found

    def load_round(self, saved: Mapping[str, Any], same: bool) -> None:
        """From a state of any rank: what a round finds is the same on all. same: residuals are this rank's. Else they
        are not in its weights, and what local steps changed after the round is lost."""
        self.in_weights = float(saved.get("in_weights") or 0)
        self.at_start = self.placed = self.in_weights > 0 and (not same or bool(saved.get("at_start")))
        self.rounds, self.round, self._floats = saved["rounds"], None, None  # floats begin anew on all ranks
        entry = saved.get("round")
        if entry is None:
            return
        means = dict(zip(saved["group"]["names"], _copies(entry["means"])))
        buffers = dict(zip(entry["buffers"], _copies(entry["buffers"].values())))
        self.round = Round(entry["number"], entry["ends"], False, [means[name] for name in self.names], buffers,
                           {name: buffers[name] for name in entry["merged"]},
                           entry["failure"] and _not_finite(**entry["failure"]), done=True)


def fragments_saved(state: Mapping[str, Any]) -> List[Mapping[str, Any]]:
    """Those of a state of LocalSteps. Older ones have a group for the whole model."""
    if state.get("fragments"):
        return list(state["fragments"])
    if state.get("group") is None:
        raise ValueError("this state of LocalSteps is damaged: it has no 'fragments'")
    return [{"rounds": state["rounds"], "group": state["group"]}]


def check_fragments(fragments: Sequence[Fragment], saved: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """ValueError: the fragments of states are not these. saved: those of each state."""
    here = [set(fragment.names) for fragment in fragments]
    for state in saved:
        there = [set(entry["group"]["names"]) for entry in state]
        for names, under_way in zip(there, (entry.get("round") for entry in state)):
            if under_way and (len(under_way["means"]) != len(names)
                              or not set(under_way["merged"]) <= set(under_way["buffers"])):
                raise ValueError("this state of LocalSteps is damaged: a round has other tensors than its fragment")
        if len(there) != len(here):
            raise ValueError(f"the state has {len(there)} fragments, and this one {len(here)}: make it with the same; "
                             "to change them, begin anew from the weights of the model")
        for i, (ours, theirs) in enumerate(zip(here, there)):
            if not ours <= theirs:
                raise ValueError(f"fragment {i} of the state has other parameters, without {min(ours - theirs)}: make "
                                 "it with the same fragments; to change them, begin anew from the weights of the model")


def _copies(tensors: Iterable[torch.Tensor]) -> List[torch.Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


def _not_finite(sentence: str, step: int, rank: Optional[int] = None, tensor: Optional[int] = None) -> StepError:
    return StepError(Status.STEP, sentence, Outcome(
        status=Status.STEP, cause=Status.NONFINITE, step=step, rank=rank, tensor=tensor, taken=None, unknown=0,
        missing=0, sentence=sentence))
