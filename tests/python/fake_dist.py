# SPDX-License-Identifier: MIT
"""What threelc.torch uses of torch.distributed, for ranks that are threads of one process: no sockets, the same calls
in each run, and a fault at the k-th of one rank."""
import threading
import time
import types
from collections import defaultdict, namedtuple

import threelc.torch
import torch
from fake_gpu import Gpu, carried
from threelc.torch._common import staging, transport

# rank, the number of its call from 1 on, and what happens:
#   raises   the call fails at once
#   ends     it goes well, and raises then
#   lost     the rank stands still for longer than the timeout
#   late     it comes late, but in time
#   alters   the bytes that it sends to others are changed
Fault = namedtuple("Fault", "rank call kind")
KINDS = ("raises", "ends", "lost", "late", "alters")


class Group:
    """A process group, as one rank has it. Collectives of NCCL take tensors of the GPU, and others none of these."""

    def __init__(self, network, number, rank, backend="gloo"):
        self.network, self.number, self.rank, self.calls = network, number, rank, 0
        self.backend = backend
        self.tags = defaultdict(int)


class _Work:
    def __init__(self, wait):
        self.wait = wait


class Network:
    """Joins the ranks. All waits end after `timeout` seconds with an exception, as those of gloo do: soon where a rank
    is lost, and else late, as the machine may be busy."""

    def __init__(self, world, fault=None):
        self.world, self.fault = world, fault
        self.timeout = 0.2 if fault is not None and fault.kind == "lost" else 20.0
        self.fired = False
        self._calls = [0] * world
        self._made = [0] * world
        self._boxes = defaultdict(dict)  # of collectives: by group and number what each rank gives
        self._closed = set()  # groups that a rank has closed
        self._changed = threading.Condition()

    # ---- faults ----

    def _begin(self, group):
        """Counts a call. Returns the fault of this one."""
        with self._changed:
            self._calls[group.rank] += 1
            fault = self.fault
            if fault is None or (group.rank, self._calls[group.rank]) != (fault.rank, fault.call):
                return ""
            self.fired = True
        if fault.kind == "raises":
            raise RuntimeError("a fault at the beginning of a call")
        if fault.kind in ("late", "lost"):
            time.sleep(0.03 if fault.kind == "late" else 1.2 * self.timeout)
            if fault.kind == "lost":
                raise RuntimeError("timed out: this rank stood still")
        return fault.kind

    def _wait(self, ready, group, timeout=None):
        """Holds the lock."""
        end = time.monotonic() + (self.timeout if timeout is None else timeout.total_seconds())
        while not ready():
            if group.number in self._closed:
                raise RuntimeError("connection closed by peer")
            left = end - time.monotonic()
            if left <= 0 or not self._changed.wait(left):
                raise RuntimeError("timed out waiting for another rank")

    def _together(self, group, what, given):
        """A collective: what all ranks give, by rank."""
        for part in given or ():
            if isinstance(part, Gpu) != (group.backend == "nccl") or part.is_sparse and group.backend == "nccl":
                raise ValueError(f"{group.backend} takes no such tensor")
        given = given and list(map(carried, given))
        kind = self._begin(group)
        if kind == "alters":
            given = _altered(given)
        key = (group.number, group.calls)
        group.calls += 1
        with self._changed:
            if group.number in self._closed:
                raise RuntimeError("connection closed by peer")
            box = self._boxes[key]
            box[group.rank] = what, given
            self._changed.notify_all()
            self._wait(lambda: len(box) == self.world, group)
        if len({other for other, _ in box.values()}) > 1:
            raise RuntimeError("ranks are in different collectives")
        if kind == "ends":
            raise RuntimeError("a fault at the end of a call")
        return [box[rank][1] for rank in range(self.world)]

    # ---- torch.distributed ----

    def new_group(self, rank, backend):
        group = Group(self, self._made[rank], rank, backend)
        self._made[rank] += 1
        self._together(group, "new_group", None)
        return group

    def all_to_all_single(self, target, source, come=None, to=None, group=None):
        parts = source.chunk(self.world) if to is None else source.split(to)
        given = self._together(group, "all_to_all", [part.clone() for part in parts])
        found = torch.cat([parts[group.rank] for parts in given])
        if found.dtype != target.dtype or found.numel() != target.numel() or (
                come is not None and [parts[group.rank].numel() for parts in given] != list(come)):
            raise RuntimeError("a rank sent another number of bytes than was expected")
        target.copy_(found, non_blocking=True)

    def all_reduce(self, tensor, group=None):
        given = self._together(group, "all_reduce", [tensor.clone()])
        first, *others = (part[0] for part in given)
        tensor.copy_(sum(others, first), non_blocking=True)  # sparse ones are not added to a number

    def broadcast(self, tensor, root, group=None):
        tensor.copy_(self._together(group, "broadcast", [tensor.clone()])[root][0], non_blocking=True)

    def isend(self, tensor, rank, group=None, tag=0):
        kind = self._begin(group)
        with self._changed:
            key = ("mail", group.number, group.rank, rank, tag, group.tags["to", rank, tag])
            group.tags["to", rank, tag] += 1
            self._boxes[key]["came"] = (_altered([tensor.clone()]) if kind == "alters" else [tensor.clone()])[0]
            _hand_over(self._boxes[key])
            self._changed.notify_all()
        if kind == "ends":
            raise RuntimeError("a fault at the end of a call")
        return _Work(self._taken(key, group))

    def irecv(self, tensor, rank, group=None, tag=0):
        """As in gloo, what comes is in the tensor before anybody waits for it."""
        self._begin(group)
        with self._changed:
            if group.number in self._closed:
                raise RuntimeError("connection closed by peer")
            key = ("mail", group.number, rank, group.rank, tag, group.tags["from", rank, tag])
            group.tags["from", rank, tag] += 1
            self._boxes[key]["to"] = tensor
            _hand_over(self._boxes[key])
            self._changed.notify_all()
        return _Work(self._taken(key, group))

    def _taken(self, key, group):
        def wait(timeout=None):
            with self._changed:
                self._wait(lambda: "taken" in self._boxes[key], group, timeout)
        return wait

    def destroy_process_group(self, group):
        with self._changed:
            self._closed.add(group.number)
            self._changed.notify_all()

    # ---- ranks ----

    def run(self, function, limit=60.0):
        """function(rank) in a thread for each rank. Returns for each ("returned", value), ("raised", exception), or
        ("hangs", None) if it has not ended within the limit. A rank that has raised closes its connections, as the end
        of its process would."""
        found = [("hangs", None)] * self.world

        def serve(rank):
            _OWN.default = Group(self, -1, rank)
            try:
                found[rank] = "returned", function(rank)
            except BaseException as error:  # pylint: disable=broad-except
                found[rank] = "raised", error
                for number in range(-1, self._made[rank]):
                    self.destroy_process_group(Group(self, number, rank))

        threads = [threading.Thread(target=serve, args=(rank,), daemon=True) for rank in range(self.world)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + limit
        for thread in threads:
            thread.join(max(end - time.monotonic(), 0))
        return list(found)


_OWN = threading.local()  # default: the group of all ranks, in the thread of a rank


def _of(group, name):
    return getattr((_OWN.default if group is None else group), name)


def _passed_on(name):
    def call(*arguments, group=None, async_op=False, **others):
        def exchange():
            return getattr(group.network, name)(*arguments, group=group, **others)
        return _Work(exchange) if async_op else exchange()
    return call


_FAKE = types.SimpleNamespace(
    ProcessGroup=Group, is_available=lambda: True, is_initialized=lambda: True,
    get_rank=lambda group=None: _of(group, "rank"), get_world_size=lambda group=None: _of(group, "network").world,
    get_global_rank=lambda group, rank: rank, get_backend=lambda group: group.backend,
    new_group=lambda backend="gloo", **others: _OWN.default.network.new_group(_OWN.default.rank, backend),
    destroy_process_group=lambda group: group.network.destroy_process_group(group),
    distributed_c10d=types.SimpleNamespace(_get_default_group=lambda: _OWN.default),
    **{name: _passed_on(name) for name in ("all_to_all_single", "all_reduce", "broadcast", "isend", "irecv")})


def install():
    """From now on threelc.torch uses this in place of torch.distributed, in all threads."""
    for module in (transport, staging, threelc.torch._common.module, threelc.torch._common.roll_call):
        module.dist = _FAKE
    transport._UNTIL_FREE = transport._UNTIL_CLOSED = 0  # for threads of gloo


def _hand_over(box):
    """What was sent comes to who receives it."""
    if "came" in box and "to" in box:
        box["to"].copy_(box["came"])
        box["taken"] = True


def _altered(parts):
    """Of what goes to each rank a byte in the middle is another one; of numbers the first, as ranks make room for any
    length that another one announces."""
    for part in parts or []:
        octets = part.view(-1).view(torch.uint8)
        at = len(octets) // 2 if part.dtype == torch.uint8 else 0
        octets[at:at + 1] ^= 4
    return parts
