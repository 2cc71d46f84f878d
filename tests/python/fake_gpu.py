# SPDX-License-Identifier: MIT
"""A GPU that is memory of this machine, and its streams. Operations are done when they are queued, and it is watched
whether streams wait as they must:
  - AssertionError: a stream uses what another one wrote, or writes what another one reads, and does not wait for it
  - memory that is let go while another stream uses it is a fault, unless record_stream() was called
  - what is copied to the host without waiting is there only after the stream was waited for.
What a thread of the host has waited for, others do not know: streams wait for each other, whatever comes first."""
import threading
import weakref
from contextlib import ExitStack, contextmanager
from unittest import mock

import torch
from threelc.torch._device import streams
from threelc.torch.kernels import tried

_OWN = threading.local()  # stream: the current one of this thread; host: what it has waited for
_GARBAGE = 0x5a
_NO_FUNCTION = torch._C.DisableTorchFunction
_WAITS = ("tolist", "item", "equal", "__bool__", "__int__", "__float__", "__index__", "is_nonzero")  # of the host
_PLAIN = ("as_subclass", "expand_as")  # whose results stay what they are: the last one leads to a node of autograd
_OTHERS = ("requires_grad_", "__init__", "__int__", "__index__", "__invert__")  # that write nothing
_FACTORIES = ("empty", "zeros", "ones", "full", "tensor", "arange")
_LIKE = ("empty_like", "zeros_like", "full_like")
_FUTURE = torch.futures.Future
_there = []  # the GPU, if it is there


class Gpu(torch.Tensor):
    """A tensor of the GPU."""

    device = property(lambda self: _there[0].device if _there else torch.device("cuda"))
    is_cuda = property(lambda self: True)

    def numpy(self, *_, **__):
        raise RuntimeError("this tensor is not on the host")

    def record_stream(self, stream):
        memory = _there[0].memory_of(self)
        if memory is not None:
            memory.lent.add(stream)

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), others=None):
        if _there:
            return _there[0].call(function, arguments, others or {})
        return super().__torch_function__(function, types, arguments, others or {})


class Stream:
    def __init__(self, device=None):
        self.device = device
        self.seen = {}
        """by stream: how many of its operations are done before what is queued from now on"""
        self._copies = []

    def record_event(self):
        return dict(self.seen)

    def wait_event(self, event):
        _later(self.seen, event)

    def add(self, copy):
        self._copies.append(copy)

    def synchronize(self):
        while self._copies:
            self._copies.pop(0)()
        for gpu in _there:
            _later(gpu.host(), self.seen)
            _later(gpu.done, self.seen)


class Future(_FUTURE):
    """For what is on the GPU: who waits for it waits for the streams of who has set it."""

    def __init__(self, *, devices=None):
        super().__init__()
        self._devices, self._events = devices or [], []

    def __class_getitem__(cls, item):
        return _FUTURE[item]

    def set_result(self, result):
        self._events = [torch.cuda.current_stream(device).record_event() for device in self._devices]
        super().set_result(result)

    def wait(self):
        found = super().wait()
        for device, event in zip(self._devices, self._events):
            torch.cuda.current_stream(device).wait_event(event)
        return found


class _Memory:
    """Of a tensor and its views. written: by which stream, in which of its operations. read, used: the last operations
    of streams, since then and ever."""

    def __init__(self, stream):
        self.stream, self.written, self.read, self.used, self.lent = stream, None, {}, {}, set()
        self.objects = 0


def _later(seen, other):
    for stream, number in list(other.items()):
        seen[stream] = max(seen.get(stream, 0), number)


def _plain(tensor):
    with _NO_FUNCTION():
        return tensor.as_subclass(torch.Tensor)


def carried(tensor):
    """What NCCL takes to other ranks, who do not wait for streams of this one."""
    return _plain(tensor) if isinstance(tensor, Gpu) else tensor


def _address(tensor):
    with _NO_FUNCTION():
        return getattr(tensor, "untyped_storage", tensor.storage)().data_ptr()


def _garbage(tensor):
    with _NO_FUNCTION():
        if tensor.numel():
            tensor.detach().view(-1).view(torch.uint8).fill_(_GARBAGE)
    return tensor


def _tensors(thing):
    if isinstance(thing, torch.Tensor):
        return [thing]
    if isinstance(thing, dict):
        thing = list(thing.values())
    return [tensor for part in thing for tensor in _tensors(part)] if isinstance(thing, (list, tuple)) else []


class Machine:
    """The GPU."""

    def __init__(self, index):
        self.device = torch.device("cuda", index)
        self.default = Stream(self.device)
        self.done = {}
        """what some thread of the host has waited for, as in Stream"""
        self.pinned = []
        """sizes of memory of the host that the GPU reaches"""
        self.queued = []
        """thread, stream and name of all operations"""
        self.faults = []
        self._memories = {}  # by address
        self._lock = threading.RLock()

    def stream(self):
        return getattr(_OWN, "stream", None) or self.default

    def host(self):
        """What this thread has waited for."""
        _OWN.__dict__.setdefault("host", {})
        return _OWN.host

    def check(self, device):
        if device != self.device or self.stream().device != self.device:
            raise AssertionError(f"a tensor on {device}, a stream on {self.stream().device}")

    # ---- memory ----

    def memory_of(self, tensor):
        """None: it has none."""
        with self._lock:
            return self._memories.get(_address(tensor))

    def made(self, tensor, fresh=True):
        """The tensor on the GPU. fresh: its memory, too."""
        with self._lock:
            address = _address(tensor)
            with _NO_FUNCTION():
                found = tensor.as_subclass(Gpu)
            if not address:
                return found
            if fresh or address not in self._memories:
                self._memories[address] = _Memory(self.stream())
                self._use(found, True)
            self._memories[address].objects += 1
            found._memory = [address, self._memories[address]]
            weakref.finalize(found, self._let_go, found._memory).atexit = False
            return found

    def _let_go(self, of):
        with self._lock:
            address, memory = of
            memory.objects -= 1
            if memory.objects:
                return
            if self._memories.get(address) is memory:
                del self._memories[address]
            for stream, number in memory.used.items():
                if stream is not memory.stream and stream not in memory.lent and \
                        max(memory.stream.seen.get(stream, 0), self.done.get(stream, 0)) < number:
                    self.faults.append("memory is let go that another stream uses")

    def _moves(self, tensor, values):
        """tensor.data = values"""
        if hasattr(tensor, "_memory"):
            memory = self.memory_of(tensor)
            memory.objects += 1
            before, tensor._memory[:] = list(tensor._memory), [_address(tensor), memory]
            self._let_go(before)

    # ---- operations ----

    def begin(self, name):
        """Queues one."""
        stream = self.stream()
        _later(stream.seen, self.host())
        stream.seen[stream] = stream.seen.get(stream, 0) + 1
        self.queued.append((threading.current_thread(), stream, name))
        return stream

    def _use(self, tensor, writes):
        with self._lock:
            stream, memory = self.stream(), self.memory_of(tensor)
            if memory is None:
                return
            number = stream.seen[stream] if stream in stream.seen else 0
            for other, last in [memory.written or (stream, 0), *(memory.read.items() if writes else ())]:
                if other is not stream and stream.seen.get(other, 0) < last:
                    self.faults.append(f"{self.queued[-1][2]} does not wait for another stream")
                    raise AssertionError(self.faults[-1])
            memory.used[stream] = number
            if writes:
                memory.written, memory.read = (stream, number), {}
            else:
                memory.read[stream] = number

    def read(self, *tensors):
        for tensor in tensors:
            if isinstance(tensor, Gpu):
                self._use(tensor, False)

    def write(self, *tensors):
        for tensor in tensors:
            if isinstance(tensor, Gpu):
                self._use(tensor, True)

    def call(self, function, arguments, others):
        name = function.__name__
        if name in ("__get__", "__set__"):
            name = f"{function.__self__.__name__}.{name}"
        with _NO_FUNCTION():
            found = function(*arguments, **others)
        if name in _PLAIN:
            return found
        if name == "data.__set__":
            self._moves(*arguments)
        given, results = _tensors((arguments, others)), _tensors(found)
        places = set(map(_address, given))
        fresh = [result for result in results if _address(result) not in places]
        writes = _tensors(others.get("out", []))
        if name not in _OTHERS and (name.endswith("_") and not name.endswith("__") or name.startswith("__i") or
                                    name == "__setitem__"):
            writes += _tensors(arguments[0])
        with self._lock:
            if name not in ("grad.__get__", "data.__get__") and (fresh or writes or name in _WAITS):
                stream = self.begin(name)
                self.read(*given)
                self.write(*writes)
                if name in _WAITS or any(not isinstance(tensor, Gpu) for tensor in writes):
                    stream.synchronize()
            return self._on_gpu(found, fresh if name != "grad.__get__" else [])

    def _on_gpu(self, found, fresh):
        if isinstance(found, torch.Tensor):
            return found if isinstance(found, Gpu) else self.made(found, any(found is each for each in fresh))
        if isinstance(found, (list, tuple)):
            made = [self._on_gpu(part, fresh) for part in found]
            return type(found)(made)
        return found

    # ---- what goes to the GPU, and comes from there ----

    def comes(self, tensor, waits):
        """A copy of what is on the host."""
        self.check(self.device)
        with self._lock:
            stream = self.begin("to the GPU")
            if waits:
                stream.synchronize()
            return self.made(_plain(tensor.detach()).clone())

    def goes(self, host, tensor, waits):
        with self._lock:
            stream = self.begin("to the host")
            self.read(tensor)
            kept = _plain(tensor.detach()).clone()
            stream.add(lambda: _copy(host.detach(), kept))
            if waits:
                stream.synchronize()
            else:
                _garbage(host)
        return host


_copy, _to = torch.Tensor.copy_, torch.Tensor.to


def _fake_to(tensor, *arguments, non_blocking=False, **others):
    gpu = _there[0]
    places = [each for each in (*arguments, others.get("device")) if isinstance(each, (torch.device, str))]
    kind = torch.device(places[0]).type if places else ""
    if not isinstance(tensor, Gpu) and kind != "cuda":
        return _to(tensor, *arguments, non_blocking=non_blocking, **others)
    left = [each for each in arguments if each not in places]
    others = {key: value for key, value in others.items() if key != "device"}
    if isinstance(tensor, Gpu):
        if kind == "cuda":
            gpu.check(torch.device(places[0]))
        if kind != "cpu":
            return gpu.call(_to, (tensor, *left), others) if left or others else tensor
        with _NO_FUNCTION():
            host = torch.empty_like(_plain(tensor.detach()))
        host = gpu.goes(host, tensor, not non_blocking)
        return _to(host, *left, **others) if left or others else host
    gpu.check(torch.device(places[0]))
    return gpu.comes(_to(tensor, *left, **others) if left or others else tensor, not non_blocking)


def _fake_copy(tensor, source, non_blocking=False):
    gpu = _there[0]
    if isinstance(tensor, Gpu) and not isinstance(source, Gpu):
        with gpu._lock:
            stream = gpu.begin("to the GPU")
            gpu.write(tensor)
            with _NO_FUNCTION():
                _copy(tensor, source)
            if not non_blocking:
                stream.synchronize()
        return tensor
    if isinstance(source, Gpu) and not isinstance(tensor, Gpu):
        return gpu.goes(tensor, source, not non_blocking)
    return gpu.call(_copy, (tensor, source), {}) if isinstance(tensor, Gpu) else _copy(tensor, source)


def _factory(name, made):
    def fake(*arguments, device=None, pin_memory=False, **others):
        gpu, given = _there[0], arguments[:1] if name in _LIKE else ()
        if pin_memory:
            gpu.pinned.append(arguments)
        is_there = any(isinstance(tensor, Gpu) for tensor in given) if device is None else \
            torch.device(device).type == "cuda"
        with _NO_FUNCTION():
            found = made(*map(lambda each: _plain(each) if isinstance(each, Gpu) else each, arguments),
                         **({} if device is None or is_there else {"device": device}), **others)
        if not is_there:
            return found
        if device is not None:
            gpu.check(torch.device(device))
        with gpu._lock:
            gpu.begin(name)
            return gpu.made(_garbage(found) if name.startswith("empty") else found)
    return fake


@contextmanager
def _current(stream):
    before, _OWN.stream = getattr(_OWN, "stream", None), stream
    try:
        yield
    finally:
        _OWN.stream = before


@contextmanager
def fake_gpu(index, current=None):
    """Meanwhile cuda:INDEX is there, in all threads. Yields it. current: the number of the current device; None: nobody
    asks."""
    gpu = Machine(index)
    fakes = ((torch.Tensor, {"to": _fake_to, "copy_": _fake_copy, "cpu": lambda tensor: _fake_to(tensor, "cpu")}),
             (torch, {name: _factory(name, getattr(torch, name)) for name in (*_FACTORIES, *_LIKE)}),
             (torch.futures, {"Future": Future}), (tried, {"runs_triton": lambda device: False}),
             (torch.cuda, {"Stream": Stream, "stream": _current, "current_device": lambda: current,
                           "current_stream": lambda device=None: gpu.stream()}))
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(streams, "_STREAMS", {}))
        _there.append(gpu)
        stack.callback(_there.clear)
        for where, replaced in fakes:
            for name, fake in replaced.items():
                stack.enter_context(mock.patch.object(where, name, fake))
        yield gpu
    if gpu.faults:
        raise AssertionError(f"{len(gpu.faults)} faults; the first: {gpu.faults[0]}")
