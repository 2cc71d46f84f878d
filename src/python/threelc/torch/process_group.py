# SPDX-License-Identifier: MIT
"""A process group whose all-reduces of gradients are compressed, for trainers that take a process group and no hook."""
from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, Dict, List, Optional, Sequence

import torch
import torch.distributed as dist

from ._common.arguments import whole
from ._common.groups import DTYPES
from ._common.transport import timeout_of
from ._common.versions import backward_pass, has_backward_passes, in_two_backward_passes
from .all_reduce import AllReduce

_NAME = "threelc"  # of the backend
_OPS = (dist.ReduceOp.SUM, dist.ReduceOp.AVG)


class _Work(dist._Work):  # type: ignore[misc]
    """An exchange that is under way."""

    def __init__(self, exchanged: Any, finished: Any) -> None:
        """exchanged: a future of the mean. finished: called with it; returns what get_future() will have."""
        super().__init__()
        self._exchanged = exchanged
        self._future = exchanged.then(finished)

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        self._exchanged.wait()  # raises the exception as it is; the other future puts words of PyTorch before it
        self._future.wait()
        return True

    def is_completed(self) -> bool:
        return bool(self._future.done())

    def get_future(self) -> Any:
        return self._future


class ProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """new_group() makes it. What is not compressed goes to a group of backend gloo. Its `exchange` is the AllReduce of
    gradients: stats, state_dict() and load_state_dict(), log_every()."""

    def __init__(self, floats: Any, exchange: AllReduce, warmup: int) -> None:
        super().__init__(dist.get_rank(floats), dist.get_world_size(floats))
        self.exchange = exchange
        self._floats = floats
        self._warmup = warmup  # backward passes that go as floats, from now on
        self._called = ""
        self._lock = threading.Lock()
        self._pass = -1  # the backward pass under way, or the last one
        self._place = 0  # of the next gradient in it
        self._works: List[_Work] = []  # of it: PyTorch 2.6 does not hold the Python part of what it works with

    @property
    def group_name(self) -> str:
        """That PyTorch has given."""
        return self._called

    def _set_group_name(self, name: str) -> None:
        super()._set_group_name(name)
        self._called = name

    def getBackendName(self) -> str:  # pylint: disable=invalid-name # as PyTorch calls it
        return _NAME

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        """Of gradients in a backward pass: sums or means of float32, float16 or bfloat16."""
        whole_list: List[torch.Tensor] = [tensors] if torch.is_tensor(tensors) else list(tensors)
        op = opts.reduceOp if hasattr(opts, "reduceOp") else dist.ReduceOp.SUM if opts is None else opts
        name = self._name_of(whole_list, op)
        if name is None:
            return self._floats.allreduce(*([tensors] if opts is None else [tensors, opts]))
        tensor, world = whole_list[0], self.size()

        def finished(future: Any) -> List[torch.Tensor]:
            found = future.value()  # raises what the exchange has raised
            return [found.mul_(world) if op == dist.ReduceOp.SUM else found]

        work = _Work(self.exchange.start(name, tensor.detach()), finished)
        self._works.append(work)
        return work

    def _name_of(self, tensors: Sequence[torch.Tensor], op: Any) -> Optional[str]:
        """Gradients come in the same order in each backward pass, so places have residuals. None: it goes as floats."""
        number = backward_pass()
        if number < 0 or len(tensors) != 1 or tensors[0].dtype not in DTYPES or not tensors[0].is_contiguous() or \
                not tensors[0].numel() or not any(op == each for each in _OPS):  # "in" asks the other way around
            return None
        if in_two_backward_passes():
            raise RuntimeError("gradients come from a backward pass inside another one, as with "
                               "checkpoint(use_reentrant=True), so they have no places: use use_reentrant=False, or "
                               "register()")
        with self._lock:
            if number != self._pass:
                self._warmup -= self._pass >= 0
                self._pass, self._place, self._works = number, 0, []
            self._place += 1
            return f"{self._place} of {tensors[0].numel()}" if self._warmup <= 0 else None


def _as_floats(name: str) -> Any:
    def call(self: ProcessGroup, *arguments: Any, **keywords: Any) -> Any:
        return getattr(self._floats, name)(*arguments, **keywords)

    call.__name__ = name
    return call


# All others, as PyTorch's own code calls them.
for _name in ("allgather", "allgather_coalesced", "allgather_into_tensor_coalesced", "_allgather_base", "alltoall",
              "alltoall_base", "allreduce_coalesced", "barrier", "broadcast", "gather", "monitored_barrier", "recv",
              "recv_anysource", "reduce", "reduce_scatter", "reduce_scatter_tensor_coalesced", "_reduce_scatter_base",
              "scatter", "send"):
    setattr(ProcessGroup, _name, _as_floats(_name))


def new_group(codec: str = "3lc-golomb", mode: str = "sharded", *, ranks: Optional[Sequence[int]] = None,
              timeout: Optional[timedelta] = None, warmup_steps: int = 1, **options: Any) -> ProcessGroup:
    """A process group that compresses all-reduces of gradients:

        ddp_model = DistributedDataParallel(model, process_group=threelc.torch.new_group("3lc-golomb"))

    also as replicas of a DeviceMesh.from_group(), and wherever else a trainer takes a process group. PyTorch 2 has what
    it needs.

    Sums and means of float32, float16 and bfloat16 that a backward pass begins are compressed, each as one tensor, with
    one scale and a residual of its own; they belong to its place among those of the pass. So a module has a group for
    itself: passes of two modules would share residuals. Everything else goes as it would with gloo. register() and
    register_fsdp() know parameters, which is better where there is a hook: each has its own scale, and its residual
    stays with it.

    ranks:        of the group, which call this together; None: all.
    timeout:      None: that of the default group.
    warmup_steps: the first backward passes go as floats. After the first DistributedDataParallel makes other buckets.
    options:      those of AllReduce.
    """
    if not has_backward_passes():
        raise RuntimeError(f"PyTorch {torch.__version__} does not say which backward pass runs: it needs PyTorch 2")
    whole(warmup_steps, "warmup_steps", 0)
    if not dist.is_initialized():
        raise RuntimeError("there are no other ranks yet: call torch.distributed.init_process_group() first")
    everyone = dist.distributed_c10d._get_default_group()
    timeout = timeout or timeout_of(everyone)
    arguments: Dict[str, Any] = {} if timeout is None else {"timeout": timeout}
    if ranks is not None:
        arguments.update(ranks=list(ranks), use_local_synchronization=True)
    if ranks is not None and dist.get_rank() not in ranks:
        raise ValueError(f"ranks is {list(ranks)}, and this is rank {dist.get_rank()}: only ranks of the group call "
                         "new_group()")
    floats, messages = (dist.new_group(backend="gloo", **arguments) for _ in range(2))
    group = ProcessGroup(floats, AllReduce(messages, codec, mode, **options), warmup_steps)
    if not hasattr(dist.Backend, _NAME.upper()):
        dist.Backend.register_backend(_NAME, _take, extended_api=True, devices=["cpu", "cuda"])
    _MADE.append(group)
    found: ProcessGroup = dist.new_group(backend=_NAME, **arguments)
    return found


_MADE: List[ProcessGroup] = []  # for the call of dist.new_group() under way


def _take(*_: Any) -> ProcessGroup:
    if not _MADE:
        raise RuntimeError("threelc.torch.new_group() makes groups of this backend")
    return _MADE.pop()
