# SPDX-License-Identifier: MIT
"""A GPU that is memory of this machine, for messages that cross to it: what a stream copies to the host is there only
after the stream was waited for."""
import threading
from contextlib import ExitStack, contextmanager
from unittest import mock

import torch

_OWN = threading.local()  # stream: the current one of this thread
_GARBAGE = 0x5a


class Gpu(torch.Tensor):
    """A tensor of the GPU. The host does not read it."""

    def _refused(self, *_):
        raise RuntimeError("this tensor is not on the host")

    data_ptr = numpy = tolist = item = __bool__ = __int__ = __float__ = _refused


class Stream:
    def __init__(self, device):
        self.device = device
        self._waiting = []

    def add(self, copy):
        self._waiting.append(copy)

    def synchronize(self):
        while self._waiting:
            self._waiting.pop(0)()


@contextmanager
def _current(stream):
    before, _OWN.stream = getattr(_OWN, "stream", None), stream
    try:
        yield
    finally:
        _OWN.stream = before


def _garbage(tensor):
    if tensor.numel():
        tensor.detach().view(-1).view(torch.uint8).fill_(_GARBAGE)
    return tensor


@contextmanager
def fake_gpu(index, current=None):
    """Meanwhile cuda:INDEX is there, in all threads. Yields the sizes of messages in pinned memory. current: the number
    of the current device; None: nobody asks."""
    device, pinned = torch.device("cuda", index), []
    to, copy, empty, empty_like = torch.Tensor.to, torch.Tensor.copy_, torch.empty, torch.empty_like

    def check(other):
        if other != device or _OWN.stream.device != device:
            raise AssertionError(f"a tensor on {other}, a stream on {_OWN.stream.device}")

    def fake_to(tensor, *arguments, **others):
        if not arguments or getattr(arguments[0], "type", "") != "cuda":
            return to(tensor, *arguments, **others)
        check(arguments[0])
        return tensor.detach().clone().as_subclass(Gpu)

    def fake_copy(tensor, source, non_blocking=False):
        if isinstance(source, Gpu) == isinstance(tensor, Gpu):
            return copy(tensor, source, non_blocking=non_blocking)
        if isinstance(tensor, Gpu):
            raise AssertionError("what is sent comes by to()")
        kept = source.detach().clone().as_subclass(torch.Tensor)
        _OWN.stream.add(lambda: copy(tensor.detach(), kept))
        return _garbage(tensor)

    def fake_empty(*sizes, pin_memory=False, **others):
        if pin_memory:
            pinned.append(sizes)
        return empty(*sizes, **others)

    def fake_empty_like(tensor, device=None, **others):
        if getattr(device, "type", "cpu") != "cuda":
            return empty_like(tensor, **({} if device is None else {"device": device}), **others)
        check(device)
        return _garbage(empty_like(tensor)).as_subclass(Gpu)

    with ExitStack() as stack:
        for where, fakes in ((torch.Tensor, {"to": fake_to, "copy_": fake_copy}),
                             (torch, {"empty": fake_empty, "empty_like": fake_empty_like}),
                             (torch.cuda, {"Stream": Stream, "stream": _current, "current_device": lambda: current})):
            for name, fake in fakes.items():
                stack.enter_context(mock.patch.object(where, name, fake))
        yield pinned
