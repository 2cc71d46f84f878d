# SPDX-License-Identifier: MIT
"""Local steps: ranks train alone for a while, then exchange the changes of their weights.

DiLoCo (Douillard et al., 2023), federated averaging (McMahan et al., 2017), SBC's Algorithm 1 (Sattler et al., 2018)
and SparseLoCo (Sarfi et al., 2025) are settings of it.
"""
from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

import torch

from .. import exchange
from .._errors import Status, StepError
from ..context import Context
from ._groups import Clock, Group, Traffic, check_choices, ring_bytes, states_for
from ._module import assign, flat, float_buffers, trained
from ._transport import Transport

STATE_VERSION = 1  # of state_dict()


@dataclass(frozen=True)
class LocalStats(Traffic):
    """What this rank did since the start."""

    steps: int
    rounds: int
    skipped: int
    """rounds in which a change was not finite on some rank: all went back to the model before"""
    residual_norms: Dict[str, float]
    """by parameter: the 2-norm of what was not sent yet"""


class LocalSteps:
    """Takes the place of the optimizer: step() is a local step, and each `every`-th one ends a round.

    At the end of a round the change of the weights plus the residual is compressed, averaged over the ranks, and given
    to the outer optimizer as a gradient (with the opposite sign). All ranks go on from its result, bit-identical.

    model:           the module, not wrapped. All ranks start from the weights of rank 0.
    inner_optimizer: of the local steps, over the model's parameters.
    outer:           makes the outer optimizer: a function of a list of parameters, for DiLoCo
                     `lambda p: torch.optim.SGD(p, lr=0.7, momentum=0.9, nesterov=True)`. None: the mean change is added
                     as it is (federated averaging, SBC).
    every:           local steps in a round; may be changed between rounds, on all ranks alike.
    codec, pull, mode, min_numel, seed, threads, process_group: as in register(). The mode "gather" has no second lossy
                     step, which sparse codecs with an outer momentum do not bear well.
    participants:    so many ranks, drawn anew for each round, are in it; the others only receive. None: all.
    residual_decay:  what was not sent is multiplied by it after each round. 1: it stays. A rank goes on from the common
                     model, so what it did not send it mostly does again; with few values sent in a round, residuals
                     grow old, and large. SparseLoCo has 0.95.
    mask_momentum:   SBC's momentum masking: the inner optimizer's momentum becomes 0 where a value was sent.
    average_buffers: buffers such as batch-norm statistics are averaged, too, as floats.
    on_nonfinite:    "raise": step() raises StepError on all ranks. "skip": all go back to the model before the round.

    >>> optimizer = threelc.torch.LocalSteps(model, torch.optim.AdamW(model.parameters()), every=20,
    ...                                      codec="topk:p=0.03,bits=2,block=4096+golomb")
    >>> loss.backward()
    >>> optimizer.step()
    >>> optimizer.zero_grad()
    """

    def __init__(self, model: Any, inner_optimizer: Any, outer: Optional[Callable[[List[Any]], Any]] = None, *,
                 every: int, codec: str = "3lc", pull: Optional[str] = None, mode: str = "gather",
                 participants: Optional[int] = None, residual_decay: float = 1.0, mask_momentum: bool = False,
                 average_buffers: bool = True, min_numel: int = 256, on_nonfinite: str = "raise", seed: int = 0,
                 threads: Optional[int] = None, process_group: Any = None) -> None:
        check_choices(mode, on_nonfinite, codec, pull)
        if not 0 <= residual_decay <= 1:
            raise ValueError(f"residual_decay should be from 0 to 1, not {residual_decay}")
        if every < 1:
            raise ValueError(f"every should be at least 1, not {every}")
        self._transport = transport = Transport(process_group)
        if participants is not None and not 1 <= participants <= transport.world:
            raise ValueError(f"participants should be from 1 to {transport.world}, not {participants}")
        transport.agree({"codec": codec, "pull": pull, "mode": mode, "every": every, "participants": participants,
                         "residual_decay": residual_decay, "average_buffers": average_buffers, "min_numel": min_numel,
                         "seed": seed, "on_nonfinite": on_nonfinite, "outer": outer is not None})
        self.inner_optimizer = inner_optimizer
        self.every = every
        self._participants = participants
        self._residual_decay = residual_decay
        self._mask_momentum = mask_momentum
        self._skips = on_nonfinite == "skip"
        self._seed = seed
        self._parameters = trained(model)
        self._buffers = float_buffers(model) if average_buffers else {}
        self._tensors = {**self._parameters, **self._buffers}
        transport.copy_model(list(self._tensors.values()))
        self._anchors = {name: torch.nn.Parameter(flat(t)) for name, t in self._tensors.items()}
        self.outer_optimizer = outer and outer([self._anchors[name] for name in self._parameters])
        self.residuals: Dict[str, torch.Tensor] = {}
        """what was not sent yet, flat, by parameter; empty if the codec keeps no residual"""
        config = exchange.Config(workers=transport.world, push=codec, pull=pull, gather=mode == "gather",
                                 min_n=min_numel, seed=seed, threads=threads)
        self._group = Group(config, transport.rank, list(self._tensors), [t.numel() for t in self._tensors.values()],
                            self.residuals if Context(1, codec).residual is not None else None, list(self._buffers))
        self._clock = Clock()
        self._steps = self._rounds = self._skipped = self._float_bytes = 0
        self.weight = 1.0
        """of this rank's changes in the mean, for federated averaging the number of its samples"""

    @property
    def participates(self) -> bool:
        """Whether this rank is in the round under way. If it is not, its local steps are of no use."""
        if self._participants is None:
            return True
        draw = random.Random(f"{self._seed}/{self._rounds}")
        return self._transport.rank in draw.sample(range(self._transport.world), self._participants)

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """A local step, and at the end of a round the exchange. Returns what the inner optimizer returns."""
        result = self.inner_optimizer.step(closure) if closure else self.inner_optimizer.step()
        self._steps += 1
        if self._steps % self.every == 0:
            self.synchronize()
        return result

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.inner_optimizer.zero_grad(set_to_none=set_to_none)

    def synchronize(self) -> None:
        """Ends a round now, on all ranks together."""
        changes = [flat(tensor).sub_(self._anchors[name].detach()) for name, tensor in self._tensors.items()]
        means = [torch.empty_like(change) for change in changes]
        self._float_bytes += ring_bytes(changes, self._transport.world)
        taking_part, self._rounds = self.participates, self._rounds + 1
        try:
            self._group.run(self._transport, changes if taking_part else None, means, self._clock, self.weight)
        except StepError as error:
            if error.outcome is None or error.outcome.cause != Status.NONFINITE:
                raise
            self._skipped += 1
            self._set_model()
            if not self._skips:
                raise
            return
        if self._residual_decay != 1:
            self._group.residual_scale(self._residual_decay)
        if self._mask_momentum and taking_part:
            self._mask()
        self._apply(dict(zip(self._tensors, means)))
        self._set_model()

    def _apply(self, means: Dict[str, torch.Tensor]) -> None:
        with torch.no_grad():
            for name, anchor in self._anchors.items():
                if self.outer_optimizer is None or name in self._buffers:
                    anchor += means[name]
                else:
                    anchor.grad = means[name].neg_()
        if self.outer_optimizer is not None:
            self.outer_optimizer.step()
            self.outer_optimizer.zero_grad()

    def _set_model(self) -> None:
        for name, tensor in self._tensors.items():
            assign(tensor, self._anchors[name].detach())

    def _mask(self) -> None:
        found = [self.inner_optimizer.state.get(tensor, {}).get("momentum_buffer") for tensor in self._tensors.values()]
        copies = [None if momentum is None else flat(momentum) for momentum in found]
        self._group.allreduce.mask(copies)
        for momentum, copy in zip(found, copies):
            if momentum is not None and copy is not None:
                assign(momentum, copy)

    @property
    def stats(self) -> LocalStats:
        """Bytes and seconds, and the residual of each parameter."""
        return LocalStats(
            float_bytes=self._float_bytes, sent=self._transport.sent, received=self._transport.received,
            codec_seconds=self._clock.codec, wire_seconds=self._clock.wire, steps=self._steps, rounds=self._rounds,
            skipped=self._skipped,
            residual_norms={name: float(residual.norm()) for name, residual in self.residuals.items()})

    def state_dict(self) -> Dict[str, Any]:
        """Rounds, residuals of this rank, the outer optimizer and the weights that it works on. Model and inner
        optimizer are the caller's to save. Each rank saves its own."""
        return {"version": STATE_VERSION, "rank": self._transport.rank, "world": self._transport.world,
                "steps": self._steps, "rounds": self._rounds,
                "anchors": {name: anchor.detach().clone() for name, anchor in self._anchors.items()},
                "outer": self.outer_optimizer and self.outer_optimizer.state_dict(),
                "group": self._group.state_dict()}

    def load_state_dict(self, states: Union[Dict[str, Any], Sequence[Dict[str, Any]]]) -> None:
        """Goes on from the state_dict() of this rank, with the same bits. On another number of ranks give each the
        states of all: no residual is lost."""
        found = states_for(states, STATE_VERSION, self._transport)
        for name, anchor in self._anchors.items():
            if name not in found[0]["anchors"] or found[0]["anchors"][name].shape != anchor.shape:
                raise ValueError(f"{name} of {anchor.numel()} values is not in the state")
        self._group.load_states([state["group"] for state in found])
        for name, anchor in self._anchors.items():
            assign(anchor, found[0]["anchors"][name])
        if self.outer_optimizer is not None:
            self.outer_optimizer.load_state_dict(found[0]["outer"])
        self._steps, self._rounds = found[0]["steps"], found[0]["rounds"]
