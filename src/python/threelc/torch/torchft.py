# SPDX-License-Identifier: MIT
"""Training with torchft, whose replicas come and go: frames in place of its fp8, with residuals.

    from threelc.torch.torchft import DiLoCo, DistributedDataParallel, Manager

take the place of torchft's:

    manager = Manager(pg=torchft.ProcessGroupGloo(), codec="3lc-golomb", ...)
    model = DistributedDataParallel(manager, model)

It needs torchft, and was tried with torchft 0.2.0.
"""
from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any, Optional, Sequence

import torch
import torch.distributed as dist
import torchft
from torchft.local_sgd import DiLoCo as _DiLoCo

from ._common.groups import DTYPES
from ._common.quorum import Compression

__all__ = ["Compression", "DiLoCo", "DistributedDataParallel", "Manager"]

_LOGGER = logging.getLogger("threelc")
_OPS = (dist.ReduceOp.AVG, dist.ReduceOp.SUM)


class _Done(dist._Work):  # type: ignore[misc]
    """An exchange that has ended."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__()
        self._future: Any = torch.futures.Future()
        self._future.set_result(tensor)

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        return True

    def get_future(self) -> Any:
        return self._future


class Manager(torchft.Manager):  # type: ignore[misc]
    """torchft's Manager, whose allreduce(tensor, should_quantize=True) exchanges frames with error feedback.

    pg:            a torchft.ProcessGroupGloo. Tensors on a GPU come to the host.
    codec, pull, mode, min_numel, seed, threads: as in register(), on all replicas alike. With two replicas the mode
                   "gather" has one lossy step less.
    Other arguments are those of torchft.Manager.

    Tensors of float32, float16 and bfloat16 are compressed, of any shape. Others, and what is reduced without
    should_quantize, such as the weights that torchft's LocalSGD averages, go as floats.

    Residuals belong to the place of a tensor in its step: all steps, or all syncs of a DiLoCo fragment, reduce the same
    tensors in the same order. They count as a part of the mean, so they are scaled when the number of participants
    changes. What a rank had not answered as an owner joins its own residual when the quorum changes. If should_commit()
    is False, they are what they were before the step, unless the other replicas went on with it. What a replica held
    that is gone is lost; a new one starts with 0, or with what it saved of `compression`.

    allreduce() returns when the exchange has ended. If it fails, as when a replica dies or a gradient is not finite,
    the manager is told, and should_commit() is False.
    """

    def __init__(self, pg: Any, *arguments: Any, codec: str = "3lc", pull: Optional[str] = None,
                 mode: str = "sharded", min_numel: int = 256, seed: int = 0, threads: Optional[int] = None,
                 **keywords: Any) -> None:
        if not isinstance(pg, torchft.ProcessGroupGloo):
            raise TypeError(f"frames travel over a torchft.ProcessGroupGloo, and pg is a {type(pg).__name__}")
        self.compression = Compression(pg, codec, pull, mode, min_numel, seed, threads)
        """residuals of this rank, their state_dict() and load_state_dict(), and stats"""
        super().__init__(pg, *arguments, **keywords)

    def start_quorum(self, *arguments: Any, **keywords: Any) -> None:
        """That of torchft. A step that was not committed has failed."""
        self.compression.end_step(False, self.current_step())
        super().start_quorum(*arguments, **keywords)

    def allreduce(self, tensor: torch.Tensor, should_quantize: bool = False,
                  reduce_op: Any = dist.ReduceOp.AVG) -> Any:
        """tensor becomes the mean (or the sum) over the replicas that take part, the same bits on all. should_quantize:
        as frames. Returns a finished work, also after an error, which errored() has; tensor is then not to be used."""
        self.wait_quorum()
        if not should_quantize or tensor.dtype not in DTYPES or not tensor.numel() or self.errored():
            return super().allreduce(tensor, reduce_op=reduce_op)
        if reduce_op not in _OPS:
            raise ValueError(f"frames are of means and sums, not of {reduce_op}")
        slot = self.compression.slot_of(tensor, self.current_step())
        participants = self.num_participants()
        try:
            self.compression.average(slot, tensor, DTYPES[tensor.dtype], self.is_participating(), participants)
            if reduce_op == dist.ReduceOp.SUM:
                tensor *= participants
        except Exception as error:  # pylint: disable=broad-except
            _LOGGER.warning("step %d of torchft fails: %s", self.current_step(), error)
            self.report_error(error)
        return _Done(tensor)

    def should_commit(self, timeout: Optional[timedelta] = None) -> bool:
        """That of torchft. False: residuals go back."""
        step, committed = self.current_step(), False
        try:
            committed = super().should_commit(timeout)
        finally:
            self.compression.end_step(committed, step)
        return committed


def _check(manager: Any) -> None:
    if not isinstance(manager, Manager):
        raise TypeError("manager should be a threelc.torch.torchft.Manager, which sends frames, not a "
                        f"{type(manager).__module__}.{type(manager).__name__}")


def _hook(state: Manager, bucket: Any) -> Any:
    return state.allreduce(bucket.buffer(), should_quantize=True).get_future()


# DistributedDataParallel looks at these, and wants types, not their names.
_hook.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}


class DistributedDataParallel(torchft.DistributedDataParallel):  # type: ignore[misc]
    """torchft's, with a Manager of this module: gradients travel as frames. The arguments are those of torchft's."""

    _comm_hook = staticmethod(_hook)

    def __init__(self, manager: Manager, *arguments: Any, **keywords: Any) -> None:
        _check(manager)
        super().__init__(manager, *arguments, **keywords)


class DiLoCo(_DiLoCo):  # type: ignore[misc]
    """torchft's DiLoCo, with a Manager of this module: changes of weights travel as frames. Fragments have residuals of
    their own. The other arguments are those of torchft's."""

    def __init__(self, manager: Manager, model_fragments: Sequence[Any], *arguments: Any, **keywords: Any) -> None:
        _check(manager)
        super().__init__(manager, model_fragments, *arguments, should_quantize=True, **keywords)
        manager.compression.turns = len(model_fragments)
