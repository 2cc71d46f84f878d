# SPDX-License-Identifier: MIT
"""A stream of a GPU beside those of the model, for what is exchanged: there gradients are quantized and cross to the
host, and answers come back and are decoded.

Streams wait for each other by events. The side stream waits for the gradients that it is given, not for what the model
queues meanwhile, and whoever reads what it made waits for it. The host waits for the side stream alone, where it reads
what has crossed. Other devices than CUDA's have no streams here: they do all in the order in which it was queued. Not
yet run on a GPU.
"""
from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, TypeVar, cast

import torch

C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")
_STREAMS: Dict[torch.device, Any] = {}


def has_streams(device: Optional[torch.device]) -> bool:
    """None: the host."""
    return device is not None and device.type == "cuda"


def side_stream(device: torch.device) -> Any:
    """One for each device. No collective of NCCL is queued in it: objects of several ranks would wait for each other in
    different orders."""
    found = _STREAMS.get(device)
    return _STREAMS.setdefault(device, torch.cuda.Stream(device)) if found is None else found  # of whoever came first


@contextmanager
def on_side_stream(*devices: torch.device) -> Iterator[None]:
    """Meanwhile this thread queues on the side streams of these devices, which wait for nothing."""
    with ExitStack() as stack:
        for device in devices:
            if has_streams(device):
                stack.enter_context(torch.cuda.stream(side_stream(device)))
        yield


def queued(device: Optional[torch.device]) -> Callable[[], None]:
    """Marks what this thread has queued on a device until now. What is returned makes all that its caller, perhaps
    another thread, queues from then on wait for that. The host waits for nothing."""
    event = torch.cuda.current_stream(device).record_event() if has_streams(device) else None

    def wait() -> None:
        if event is not None:
            torch.cuda.current_stream(device).wait_event(event)

    return wait


class SideWork:
    """Work on side streams that a thread hands to another one, or does itself."""

    def __init__(self, *devices: Optional[torch.device]) -> None:
        """The work begins after what this thread has queued on these devices until now."""
        self._devices = [device for device in devices if device is not None]
        self._before = self._after = list(map(queued, self._devices))

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Meanwhile the thread that does the work queues it."""
        with on_side_stream(*self._devices):
            for wait in self._before:
                wait()
            try:
                yield
            finally:
                self._after = list(map(queued, self._devices))

    def wait(self) -> None:
        """What this thread queues from now on begins after the work, all of which was queued."""
        for wait in self._after:
            wait()

    def done_by(self, call: Callable[[Callable[[], T]], T], function: Callable[[], T]) -> T:
        """What function() returns, which is the work. call: calls it in another thread, and waits for that."""
        def work() -> T:
            with self.begun():
                return function()

        try:
            return call(work)
        finally:
            self.wait()


@contextmanager
def fork_join(device: Optional[torch.device]) -> Iterator[None]:
    """Meanwhile this thread queues on the side stream: after what it has queued before, and before what follows."""
    work = SideWork(device)
    try:
        with work.begun():
            yield
    finally:
        work.wait()


def forked(method: C) -> C:
    """A method of an object with a _device, in fork_join()."""
    @wraps(method)
    def call(self: Any, *arguments: Any, **others: Any) -> Any:
        with fork_join(self._device):
            return method(self, *arguments, **others)

    return cast(C, call)


def lent(tensors: Iterable[torch.Tensor]) -> None:
    """This thread is about to use tensors of another stream: if they are let go, their memory is not used again before
    that is done."""
    for tensor in tensors:
        if has_streams(tensor.device):
            tensor.record_stream(torch.cuda.current_stream(tensor.device))
