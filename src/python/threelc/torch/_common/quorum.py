# SPDX-License-Identifier: MIT
"""Exchanges between replicas whose number changes from step to step, as in torchft.

A step is a transaction: until it is known whether it counts, residuals before and after it are there.
"""
from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import torch
import torch.distributed as dist

from ... import exchange
from ..._c import DType
from ...context import Context
from .arguments import check_numbers
from .groups import Clock, Group, Traffic, check_choices, ring_bytes, saved_traffic
from .module import copied
from .staging import Direct
from .states import TENSORS, TRAFFIC, Kind
from .transport import Transport

STATE_VERSION = 1  # of state_dict()
_STATE = Kind("threelc.torch.torchft", STATE_VERSION,
              {"residuals": TENSORS, "participants": {str: int}, "traffic": TRAFFIC})


class _QuorumTransport(Transport):
    """Carries messages over the process group that torchft makes anew for each quorum, and that torch.distributed does
    not know."""

    def __init__(self, group: Any) -> None:  # pylint: disable=super-init-not-called
        """group: a torchft.ProcessGroupGloo, with the group of the quorum in it."""
        self.group = group
        self.rank, self.world = 0, 1
        self.sent = self.received = 0
        self._held = ()
        self._staging = Direct()
        self._joined: Callable[[], Any] = lambda: None

    def join(self) -> bool:
        """Uses the group of the quorum. Returns whether it is another one than before. Nothing holds it: torchft closes
        its connections by letting it go."""
        group = self.group.parent
        if self._joined() is group:
            return False
        self._joined = weakref.ref(group)
        self.rank, self.world = group.rank(), group.size()
        return True

    def _all_to_all_single(self, target: torch.Tensor, source: torch.Tensor, come: Optional[List[int]],
                           to: Optional[List[int]]) -> None:
        self.group.alltoall_base(target, source, come or [], to or [], dist.AllToAllOptions()).wait()


class Slot:
    """A tensor that is averaged in each step, and what this rank did not send of it."""

    def __init__(self, name: str, residual: torch.Tensor, participants: int) -> None:
        """residual: flat, float32. participants: of the mean, in which it counts as residual / participants; 0: it is
        all zeros."""
        self.name = name
        self.residual = residual
        self.participants = participants
        self.group: Optional[Group] = None  # of the quorum
        self._before: Optional[Tuple[torch.Tensor, int]] = None
        self._after: Optional[Tuple[torch.Tensor, int]] = None

    def carried(self) -> Tuple[torch.Tensor, int]:
        """A copy of all that waits here, what this rank did not answer as an owner included, and of how many
        participants it is."""
        waits = self.residual.clone()
        for part in self.group.allreduce.parts() if self.group else ():
            if part.residual is not None:
                waits[part.first:part.first + part.n].add_(copied(part.residual), alpha=self.participants)
        return waits, self.participants

    def saved(self) -> Tuple[torch.Tensor, int]:
        """What waits if the step under way does not count."""
        return self.carried() if self._before is None else self._before

    def _set(self, carried: Tuple[torch.Tensor, int]) -> None:
        self.residual, self.participants = carried
        self.group = None

    def leave(self) -> None:
        """The quorum is over."""
        self._set(self.carried())

    def begin(self, participants: int) -> None:
        """A step of so many participants."""
        self._before = self.carried()
        if self.participants not in (0, participants):
            self.residual *= participants / self.participants
        self.participants = participants

    def commit(self) -> None:
        self._before = None

    def fail(self) -> None:
        """Goes back to what was before the step. What would be after it is known until forget()."""
        self._after = self.carried()
        assert self._before is not None
        self._set(self._before)
        self._before = None

    def go_on(self) -> None:
        """The step counts after all."""
        assert self._after is not None
        self._set(self._after)

    def forget(self) -> None:
        self._after = None


class Compression:
    """Residuals of this rank, and its exchanges. A manager makes it."""

    def __init__(self, group: Any, codec: str, pull: Optional[str], mode: str, min_numel: int, seed: int,
                 threads: Optional[int]) -> None:
        check_choices(mode, "skip", codec, pull)
        check_numbers(min_numel, seed, threads)
        self._has_feedback = Context(1, codec).residual is not None
        answers = pull or exchange.pull_codec(codec)
        if mode == "sharded" and not self._has_feedback and Context(1, answers).residual is not None:
            raise ValueError(f"the codec {codec!r} keeps no residual, and could not send that of pull={answers!r} when "
                             "the quorum changes: use one that does, or the same codec for both")
        self._config: Dict[str, Any] = {"push": codec, "pull": pull, "gather": mode == "gather", "min_n": min_numel,
                                        "seed": seed, "threads": threads}
        self.turns = 1
        """steps take turns at so many lists of tensors, such as the fragments of DiLoCo"""
        self._transport = _QuorumTransport(group)
        self._clock = Clock()
        self._float_bytes = 0
        self._slots: Dict[str, Slot] = {}
        self._under_way: List[Slot] = []
        self._failed: List[Slot] = []
        self._failed_step = 0

    def slot_of(self, tensor: torch.Tensor, step: int) -> Slot:
        """That of the next tensor of a step. ValueError: it had another size before."""
        name = f"{step % self.turns}.{len(self._under_way)}"
        if name not in self._slots:
            self._slots[name] = Slot(name, torch.zeros(tensor.numel()), 0)
        slot = self._slots[name]
        if slot.residual.numel() != tensor.numel():
            raise ValueError(f"tensor {len(self._under_way)} of this step has {tensor.numel()} values, and had "
                             f"{slot.residual.numel()} before: all steps need the same tensors in the same order")
        self._settle(step)
        return slot

    def average(self, slot: Slot, tensor: torch.Tensor, dtype: DType, taking_part: bool, participants: int) -> None:
        """tensor, of dtype, becomes the mean of those that take part. Its step ends with end_step(), also if this
        fails."""
        if self._transport.join():
            for each in self._slots.values():
                each.leave()
        slot.begin(max(participants, 1))
        self._under_way.append(slot)
        host = tensor.detach().to("cpu").contiguous().view(-1)
        if slot.group is None:
            config = exchange.Config(workers=self._transport.world, dtype=dtype, **self._config)
            slot.group = Group(config, self._transport.rank, [slot.name], [host.numel()],
                               {slot.name: slot.residual} if self._has_feedback else None)
        self._float_bytes += ring_bytes([host], self._transport.world)
        slot.group.run(self._transport, [host] if taking_part else None, [host], self._clock)
        if host.data_ptr() != tensor.data_ptr():
            tensor.copy_(host.view(tensor.shape))

    def end_step(self, committed: bool, step: int) -> None:
        """Whether the tensors that were averaged since the last call count. step: their number."""
        if not self._under_way:
            return
        ended, self._under_way = self._under_way, []
        for slot in ended:
            if committed:
                slot.commit()
            else:
                slot.fail()
        if not committed:
            self._failed, self._failed_step = ended, step

    def _settle(self, step: int) -> None:
        """If the step that failed here counted for other replicas, this one got their weights, and the next step is
        another one: what was sent in it was taken."""
        for slot in self._failed:
            if step > self._failed_step:
                slot.go_on()
            slot.forget()
        self._failed = []

    @property
    def stats(self) -> Traffic:
        """Bytes and seconds of this rank. float_bytes are those of a ring over the replicas of each quorum."""
        return Traffic(**self._traffic())

    def _traffic(self) -> Dict[str, Any]:
        return saved_traffic(self._float_bytes, self._transport, self._clock)

    @property
    def residuals(self) -> Dict[str, torch.Tensor]:
        """What waits, flat, as a part of the mean of the last step, by turn and place of the tensor in it ("0.2")."""
        return {name: waits / max(participants, 1)
                for name, (waits, participants) in ((slot.name, slot.saved()) for slot in self._slots.values())}

    def state_dict(self) -> Dict[str, Any]:
        """Residuals of this rank, and its stats. A rank that starts again may load its own. It does not belong into the
        state that a replica gets from another one when it heals: residuals would count twice."""
        saved = {slot.name: slot.saved() for slot in self._slots.values()}
        return _STATE.saved(None, {
            "traffic": self._traffic(),
            "residuals": {name: waits for name, (waits, _) in saved.items()},
            "participants": {name: participants for name, (_, participants) in saved.items()}})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state_dict(), before the first step, with any number of replicas and any codec that keeps
        residuals."""
        state = _STATE.checked(state, several=False)
        if self._slots:
            raise ValueError("a state is loaded before the first step")
        if state["residuals"].keys() != state["participants"].keys():
            raise ValueError("this state is damaged: its entries do not belong together")
        self._slots = {name: Slot(name, residual.detach().clone(), state["participants"][name])
                       for name, residual in state["residuals"].items()}
        traffic = state["traffic"]
        self._float_bytes = traffic["float_bytes"]
        self._transport.sent, self._transport.received = traffic["sent"], traffic["received"]
        self._clock.codec, self._clock.wire = traffic["codec_seconds"], traffic["wire_seconds"]
