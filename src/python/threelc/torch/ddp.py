# SPDX-License-Identifier: MIT
"""A communication hook for DistributedDataParallel."""
from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
import torch.distributed as dist

from ._ddp_state import DDPState, Settings
from ._groups import check_choices
from ._transport import Transport


def hook(state: DDPState, bucket: Any) -> Any:
    """The communication hook: ddp_model.register_comm_hook(state, hook). register() does that.

    The compiled reducer of PyTorch 2 gives it a pair (gradient, parameter) instead of a bucket.
    """
    if isinstance(bucket, tuple):
        return state._gradient_arrived(*bucket)
    return state._bucket_arrived(bucket)


# DistributedDataParallel looks at these, and wants types, not their names.
hook.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}


def register(model: Any, codec: str = "3lc", mode: str = "sharded", *, pull: Optional[str] = None,
             reserve: Sequence[str] = (), min_numel: int = 256, warmup_steps: int = 1, on_nonfinite: str = "skip",
             scaler: Any = None, seed: int = 0, threads: Optional[int] = None, quantize: str = "auto",
             process_group: Any = None) -> DDPState:
    """Compresses the gradients of a DistributedDataParallel module from now on. All ranks call it alike.

    codec:         of gradients, e.g. "3lc:s=1.75". "raw": floats, exactly as without the hook.
    mode:          "sharded": each rank averages a part of the gradients, and sends the compressed mean to all; bytes do
                   not grow with the ranks. "gather": each rank sends its gradients to all; one lossy step less.
    pull:          codec of means in mode sharded; None: as `codec`.
    reserve:       codecs that set_codec() must be able to switch to.
    min_numel:     smaller parameters are sent as floats.
    warmup_steps:  the first steps go as floats. At least 1 is good: buckets get their final order in the first step.
    on_nonfinite:  what happens if the gradients of a rank have a NaN or an infinity. "skip": in that bucket all ranks
                   get NaN, so that all GradScalers skip the step. "raise": backward() raises StepError on all ranks.
    scaler:        the GradScaler, or another object with get_scale(): residuals follow when its scale changes.
    seed:          of stochastic codecs.
    threads:       that compress and decode.
    quantize:      where codecs of 3-value symbols quantize. "auto": where the gradients are; from a GPU 1.6 bits a
                   value come to the host. "host": always by the library, "device": always by torch operations. Bytes
                   and results are the same. Other codecs are always the library's.
    process_group: a group of backend gloo for the messages, which nobody else uses. None: a new one is made.

    Returns the state: its stats, state_dict() and load_state_dict().
    """
    check_choices(mode, on_nonfinite, codec, pull, *reserve)
    if quantize not in ("auto", "host", "device"):
        raise ValueError(f"quantize should be one of auto, host, device, not {quantize!r}")
    if process_group is None and dist.get_world_size(model.process_group) != dist.get_world_size():
        raise ValueError("the module's process group is a part of the world: give a process_group of its ranks")
    transport = Transport(process_group)
    settings = Settings(codec, pull, tuple(reserve), mode, min_numel, warmup_steps, on_nonfinite)
    transport.agree(settings.__dict__)
    state = DDPState(model, settings, transport, scaler, seed, threads, quantize)
    model.register_comm_hook(state, hook)
    return state
