# SPDX-License-Identifier: MIT
"""A parameter server (3LC, section 2 and Figure 2): workers push gradients and pull changes of the model."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence

import torch

from ._common.optimizer import Maker
from ._common.states import Kind
from ._owners.owners import FORM, OptimizerAtOwners, OwnerStats

STATE_VERSION = 3  # of state_dict()


@dataclass(frozen=True)
class PushPullStats(OwnerStats):
    """Of PushPull."""

    late: int = 0
    """pushes of this rank without which a server went on, as they came too late; one for each server"""


class PushPull(OptimizerAtOwners):
    """Takes the place of the optimizer, which runs on servers: all ranks are workers, and the first `servers` are
    servers, too. Gradients travel compressed, and so do the changes of the model that the optimizer makes of their
    mean.

    model:     the module, not wrapped; torch.compile() is fine. All ranks start from the weights and buffers of rank 0,
               and parameters stay bit-identical; buffers are each rank's own. Parameters are of float32, float16 or
               bfloat16, or complex; a complex value is two floats. Servers have float32 weights, and so have workers:
               a parameter of another dtype is that weight, rounded once. Sparse gradients are made dense. Tied
               weights are one parameter; two that only have memory in common are refused.
    optimizer: makes the optimizer: a function of a list of parameters, for example
               `lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)`. Parameters are flat float32 parts of tensors, so it
               should treat each value alone; they lie where gradients are quantized. Every rank has one, `.optimizer`,
               so that schedules run on all alike; they take it, or this object, whose groups are the same.
    codec:     of gradients. pull: of changes of the model; None: exchange.pull_codec(codec).
    backup:    a server goes on when all ranks but this many have pushed (backup workers: 3LC, section 2.1), so one that
               is slow now and then holds nobody up. 0: it waits for all. A push that comes later is dropped, and
               `.stats.late` counts it: what it sent goes back into the residual, and is lost only where the codec keeps
               none, as "raw". All ranks take the changes of all steps in order, so replicas are bit-identical after
               equal steps. So:
               - A rank may be 3 steps behind, then servers wait for it.
               - Servers answer inside their own step(), and all wait for them: let the first ranks be fast ones.
               - All ranks call flush(), state_dict() and load_state_dict() after equal steps, and come together there.
                 End a training with one of the first two: others may still need answers of a server that ends.
               - max_norm and scaler, which need all ranks in each step, are refused. Weights are not compared.
               - A process_group needs the backend gloo.
    groups, max_norm, momentum_correction, second_moment, warmup_steps, scaler, buffers: as in ShardedOptimizer.
    min_numel, compare_every, seed, threads, quantize, residual_dtype, process_group: as in register().

    >>> optimizer = threelc.torch.PushPull(model, lambda p: torch.optim.SGD(p, lr=0.1), servers=2, codec="3lc-golomb")
    >>> loss.backward()
    >>> optimizer.step()
    """

    _kind = Kind("PushPull", STATE_VERSION, FORM)

    def __init__(self, model: Any, optimizer: Maker, *, servers: int = 1, codec: str = "3lc",
                 pull: Optional[str] = None, groups: Optional[Sequence[Mapping[str, Any]]] = None,
                 max_norm: Optional[float] = None, momentum_correction: Optional[float] = None,
                 second_moment: Optional[float] = None, warmup_steps: int = 0, scaler: Any = None,
                 buffers: str = "own", backup: int = 0, min_numel: int = 256, compare_every: int = 1000, seed: int = 0,
                 threads: Optional[int] = None, quantize: str = "auto",
                 residual_dtype: torch.dtype = torch.float32, process_group: Any = None) -> None:
        super().__init__(model, optimizer, servers, codec=codec, pull=pull, groups=groups, max_norm=max_norm,
                         scaler=scaler, buffers=buffers, min_numel=min_numel, seed=seed, threads=threads,
                         process_group=process_group, momentum_correction=momentum_correction,
                         second_moment=second_moment, warmup_steps=warmup_steps, compare_every=compare_every,
                         quantize=quantize, residual_dtype=residual_dtype, backup=backup)

    @property
    def stats(self) -> PushPullStats:
        """Bytes and seconds."""
        return PushPullStats(**self._counts(), late=self._late)
