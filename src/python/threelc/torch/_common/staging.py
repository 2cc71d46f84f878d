# SPDX-License-Identifier: MIT
"""Where the tensors of collectives lie: on the host, as gloo wants them, or on a GPU, as NCCL does. What ranks send is
on the host, where frames are made and read."""
from __future__ import annotations

from typing import Any, Callable, Union

import torch
import torch.distributed as dist

Collective = Callable[..., Any]
"""of a target and a source. With async_op=True it returns its work."""


def backends_named(group: Any) -> str:
    """Such as gloo, nccl or cpu:gloo,cuda:nccl."""
    name = str(dist.get_backend(group))
    # of groups without a backend of their own, if init_process_group() had none, either
    return str(dist.distributed_c10d._world.pg_backend_config[group]) if name == "undefined" else name


class Direct:
    """Collectives of gloo take tensors of the host."""

    speaker = "Gloo"
    """who has raised what collectives raise"""

    def room(self, size: int) -> torch.Tensor:
        """Bytes of a message."""
        return torch.empty(size, dtype=torch.uint8)

    def run(self, collective: Collective, target: torch.Tensor, source: torch.Tensor) -> None:
        """target becomes what the collective makes of source, which may be the same tensor."""
        collective(target, source)

    def close(self, group: Any) -> None:
        """Ranks that wait for this one get an error at once."""
        dist.destroy_process_group(group)


class Staged:
    """Those of NCCL take tensors of a GPU, so messages cross to it and back. The stream is none in which the model
    computes: messages wait for nothing but each other. Not yet run on a GPU."""

    speaker = "PyTorch"  # NCCL or CUDA

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream = torch.cuda.Stream(device)

    def room(self, size: int) -> torch.Tensor:
        """In memory that the GPU reaches without another copy."""
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def run(self, collective: Collective, target: torch.Tensor, source: torch.Tensor) -> None:
        with torch.cuda.stream(self._stream):
            there = source.to(self.device, non_blocking=True)
            made = there if target is source else torch.empty_like(target, device=self.device)
            # With TORCH_NCCL_BLOCKING_WAIT=1 wait() raises after the timeout. Without async_op newer releases of
            # PyTorch do not call it, and the next line would wait for ever.
            collective(made, there, async_op=True).wait()
            target.copy_(made, non_blocking=True)
        self._stream.synchronize()  # neither NCCL nor the copies have waited for the GPU

    def close(self, group: Any) -> None:
        """Ranks that wait for this one get an error after the group's timeout, or earlier. Newer releases of PyTorch
        wait for the other ranks when they destroy a group, and have another function that does not."""
        getattr(dist.distributed_c10d, "_abort_process_group", dist.destroy_process_group)(group)


def staging_of(group: Any) -> Union[Direct, Staged]:
    """gloo, where a group has both."""
    return Direct() if "gloo" in backends_named(group) else Staged(_device_of(group))


def _device_of(group: Any) -> torch.device:
    """That init_process_group() was told, else the current one of this thread. Messages may leave in others, which have
    current devices of their own."""
    device = getattr(group, "bound_device_id", None)  # PyTorch 2
    return torch.device("cuda", torch.cuda.current_device()) if device is None else device
