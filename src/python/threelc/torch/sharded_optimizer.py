# SPDX-License-Identifier: MIT
"""The servers of 3LC on the ranks: each owns a part of the model and of the optimizer's state."""
from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Mapping, Optional, Sequence

import torch

from ._common.arguments import shown
from ._common.optimizer import Maker
from ._common.states import Kind
from ._owners.owners import FORM, OptimizerAtOwners, OwnerStats

STATE_VERSION = 1  # of state_dict()


class ShardedStats(OwnerStats):
    """Of ShardedOptimizer."""


class ShardedOptimizer(OptimizerAtOwners):
    """Takes the place of the optimizer. Each rank owns a part of the model, and the optimizer's state of it, as in
    ZeRO-1 (Rajbhandari et al., 2020): 1/N of its memory. Gradients travel compressed to the owners, and so do the
    changes that their optimizers make of the mean, with a residual of their own (3LC, section 2 and Figure 2).

    With the codec "raw" the result is that of the optimizer alone, bit for bit, if it treats each value alone: answers
    that go as floats carry the weights. Of other codecs small tensors (min_numel) do.

    model:     the module, not wrapped; torch.compile() is fine. All ranks start from the weights and buffers of rank 0,
               and parameters stay bit-identical. They are of float32, float16 or bfloat16, or complex; a complex value
               is two floats. Owners have float32 weights of their parts. Of parameters of another dtype each rank has
               the float32 weights, too, to which changes are added; the parameter is that weight, rounded once. A
               residual of gradients, float32 or residual_dtype, is on each rank. Tensors of 65,536 values and more are
               split among owners. Sparse gradients are made dense. Tied weights are one parameter; two that only have
               memory in common are refused. Frozen parameters are left alone, and so is one without a gradient on any
               rank, as by the optimizer alone, once its residuals are sent. Gradients of several backward passes add up
               until step().
    optimizer: makes the optimizer: a function of a list of parameters, for example
               `lambda p: torch.optim.AdamW(p, lr=1e-3)`. Parameters are flat float32 parts of tensors, so it should
               treat each value alone; they lie where gradients are quantized. Every rank has one, `.optimizer`, so
               that schedules run on all alike; they take it, or this object, whose groups are the same.
    codec:     of gradients. pull: of changes of the model; None: exchange.pull_codec(codec).
    groups:    of the model's parameters, with options of their own, as optimizers take them: `[{"params": matrices},
               {"params": biases, "weight_decay": 0.0}]`. The function then gets a list of such groups, of parts.
    max_norm:  the mean of the gradients is clipped to this 2-norm, which is that of all owners' means together. It
               costs 16 bytes to each rank, and a round trip. `.max_norm` may be changed between steps; `.grad_norm` is
               the norm before clipping. float("inf") only measures. clip_grad_norm_() of a model's gradients would
               clip those of each rank alone.
    momentum_correction: as in register(), e.g. 0.9: momentum of the ranks in place of the optimizer's.
    second_moment: as in register(), e.g. 0.95: Adam's second moment of the ranks in place of the optimizer's. Not with
               max_norm; a GradScaler may call step().
    warmup_steps: the first steps go as floats, and are those of the codec "raw".
    scaler:    the GradScaler that calls step(). step() takes its scale from the gradients, so unscale_() is refused. A
               gradient that is not finite on one rank skips the step on all, and all scalers learn of it.
    buffers:   "own": each rank has its own. "first": after each step all ranks have those of rank 0, as floats, such as
               the statistics of batch normalization (3LC, section 4).
    overlap:   sends while the model computes, in a thread (3LC, section 3). Gradients leave in buckets as backward()
               makes them: the first of 1 MiB of floats, then of bucket_mb. step() returns when all have come and the
               optimizer has made its step, and the next forward pass waits in each module for the answers that it
               reads. So:
               - `with optimizer.no_sync():` goes around all backward passes of a step but the last. What changes
                 gradients after backward() comes too late for what has left; max_norm clips their mean.
               - parameters are up to date inside forward() of their modules, after forward() of the model, and in its
                 state_dict(). Call ready() before you read them elsewhere.
               - a gradient that is not finite is left out in its bucket alone, and the StepError of a step comes from
                 the next call of step(), ready(), flush() or state_dict().
               - step() takes no weight. With a scaler, gradients leave in step(). torch.compile() is not for it.
    bucket_mb: MiB of float32 gradients in a bucket. In small buckets smaller tensors are split, so that all owners have
               their share. Other parts give other bits, but for codec="raw".
    min_numel, compare_every, seed, threads, quantize, residual_dtype, process_group: as in register().

    >>> optimizer = threelc.torch.ShardedOptimizer(
    ...     model, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), codec="3lc-golomb")
    >>> loss.backward()
    >>> optimizer.step()
    >>> optimizer.zero_grad()
    """

    _kind = Kind("ShardedOptimizer", STATE_VERSION, FORM)

    def __init__(self, model: Any, optimizer: Maker, *, codec: str = "3lc", pull: Optional[str] = None,
                 groups: Optional[Sequence[Mapping[str, Any]]] = None, max_norm: Optional[float] = None,
                 momentum_correction: Optional[float] = None, second_moment: Optional[float] = None,
                 warmup_steps: int = 0, scaler: Any = None, buffers: str = "own", overlap: bool = False,
                 bucket_mb: float = 25.0, min_numel: int = 256, compare_every: int = 1000, seed: int = 0,
                 threads: Optional[int] = None, quantize: str = "auto",
                 residual_dtype: torch.dtype = torch.float32, process_group: Any = None) -> None:
        if isinstance(bucket_mb, bool) or not isinstance(bucket_mb, (int, float)) or not bucket_mb > 0:
            raise ValueError(f"bucket_mb should be a number above 0, not {shown(bucket_mb)}")
        if overlap and hasattr(model, "_orig_mod"):
            raise TypeError("overlap=True waits in the hooks of modules, which torch.compile() leaves out: give the "
                            "module that is not compiled, or overlap=False")
        super().__init__(model, optimizer, None, codec=codec, pull=pull, groups=groups, max_norm=max_norm,
                         scaler=scaler, buffers=buffers, min_numel=min_numel, seed=seed, threads=threads,
                         process_group=process_group, momentum_correction=momentum_correction,
                         second_moment=second_moment, warmup_steps=warmup_steps, compare_every=compare_every,
                         quantize=quantize, residual_dtype=residual_dtype,
                         bucket_mb=float(bucket_mb) if overlap else None)

    def no_sync(self) -> Any:
        """A context: gradients of backward passes in it add up, and leave with those of the next one."""
        return nullcontext() if self._overlap is None else self._overlap.accumulating()

    def ready(self) -> None:
        """Waits until the parameters are those of the last step. StepError: that step failed."""
        self._take()
        self._raise_failure()

    @property
    def stats(self) -> ShardedStats:
        """Bytes and seconds."""
        return ShardedStats(**self._counts())
