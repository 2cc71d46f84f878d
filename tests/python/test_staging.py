# SPDX-License-Identifier: MIT
"""Messages over groups of NCCL, over fakes of torch.distributed and of a GPU: the same comes out as over gloo, each
tensor of a collective is on the GPU, and nothing is read before it is there. What needs gloo is refused."""
import threading
import unittest
from types import SimpleNamespace
from unittest import mock

import threelc.torch
import torch
from fake_dist import Group, Network
from fake_gpu import fake_gpu
from faults import made
from test_states import Way
from thread_ranks import Layers, RanksTest
from threelc.torch._common import staging, transport
from threelc.torch._common.transport import Transport


def group_of(backend):
    return transport.dist.new_group(backend=backend)


class Messages(RanksTest):
    def both(self, world, function):
        """What function(transport, rank) returned over NCCL, which is what it returned over gloo."""
        with fake_gpu(3, 3):
            found, wanted = (self.on(world, lambda rank, backend=backend: function(Transport(group_of(backend)), rank))
                             for backend in ("nccl", "gloo"))
        self.assertEqual(found, wanted)
        return found

    def test_messages(self):
        """Of any length, also none, and settings; they are counted alike."""
        def ask(one, rank):
            found = one.all_to_all([memoryview(bytes([rank, to]) * (rank * to)) for to in range(3)])
            every = one.all_gather(memoryview(bytes([rank]) * rank))
            one.agree({"a": 1})
            return [each.tolist() for each in (*found, *every)], one.gather((rank, "x")), one.sent, one.received

        found = self.both(3, ask)
        self.assertEqual(found[2][0], [[], [1, 2] * 2, [2, 2] * 4, [], [1], [2, 2]])
        self.assertEqual(found[1][1], [[0, "x"], [1, "x"], [2, "x"]])

    def test_tensors(self):
        """Sums, and the model of rank 0."""
        def ask(one, rank):
            draw, found = torch.Generator().manual_seed(rank), []
            for dtype in torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64:
                for shape in (), (5,), (2, 3), (0,):
                    tensor = torch.randn(shape, generator=draw).to(dtype)
                    found.append((one.all_reduce(tensor), tensor.tolist()))
            tensors = [torch.randn(4, 3, generator=draw).t(), torch.tensor([rank == 0, True]), torch.empty(0, 3),
                       torch.nn.Parameter(torch.randn(5, generator=draw)), torch.full((2,), 2**40 + rank)]
            one.copy_model(tensors)
            return found, [tensor.tolist() for tensor in tensors], one.sent

        self.both(3, ask)

    def test_what_crosses(self):
        """Messages do so from and to pinned memory: those of all ranks."""
        with fake_gpu(3, 3) as gpu:
            self.on(1, lambda rank: Transport(group_of("nccl")).all_gather(memoryview(b"abc")) and None)
        self.assertEqual(gpu.pinned, [(3,), (3,)])

    def test_trainings(self):
        """The same bits, also where a thread sends."""
        for way, settings in ("LocalSteps", {}), ("ShardedOptimizer", {"overlap": True}), ("register", {}):
            found = []
            for backend in "nccl", "gloo":
                nets = made(2)

                def train(rank, nets=nets, way=way, settings=settings, backend=backend):
                    one = Way(way, net=nets[rank], process_group=group_of(backend), **settings)
                    return one.train(rank, range(2)), one.state.stats.sent

                with fake_gpu(3, 3):
                    found.append(self.on(2, train))
            self.assertTrue(found[0] == found[1], way)  # a list of differences would be long


class Groups(RanksTest):
    def test_devices(self):
        """That of the group, else the current one of the thread that makes the object. None, if there is gloo."""
        for backend, bound, index in (("nccl", None, 2), ("nccl", torch.device("cuda", 1), 1), ("cuda:nccl", None, 2),
                                      ("gloo", None, None), ("cpu:gloo,cuda:nccl", torch.device("cuda", 1), None)):
            group = Group(Network(1), 5, 0, backend)
            group.bound_device_id = bound
            with fake_gpu(2, 2):
                found = staging.staging_of(group)
            self.assertEqual(getattr(found, "device", None), index if index is None else torch.device("cuda", index))
        del group.bound_device_id  # PyTorch 1
        group.backend = "nccl"
        with fake_gpu(2, 2):
            self.assertEqual(staging.staging_of(group).device, torch.device("cuda", 2))

    def test_another_thread(self):
        """Has another current device."""
        with fake_gpu(2, 2):
            one, found = Transport(Group(Network(1), 5, 0, "nccl")), []
            with mock.patch.object(torch.cuda, "current_device", lambda: 0):
                thread = threading.Thread(target=lambda: found.append(one.gather([7])))
                thread.start()
                thread.join()
        self.assertEqual(found, [[[7]]])

    def test_backends(self):
        """Also of groups that have none of their own, as init_process_group() was told none."""
        group = Group(Network(1), 5, 0, "undefined")
        for config, kind in ("cpu:gloo,cuda:nccl", staging.Direct), ("cuda:nccl", staging.Staged):
            with mock.patch.object(transport.dist.distributed_c10d, "_world", create=True,
                                   new=SimpleNamespace(pg_backend_config={group: config})), fake_gpu(2, 2):
                self.assertIs(type(Transport(group)._staging), kind)
        for other in "mpi", "ucc":
            self.raises(ValueError, f"process_group has the backend {other}, and messages need gloo, or NCCL: "
                        'torch.distributed.new_group(backend="gloo")', Transport, Group(Network(1), 5, 0, other))

    def test_what_needs_gloo(self):
        """Is refused at once: nothing was sent, so no rank waits."""
        ending = 'needs the backend gloo, and process_group has NCCL: torch.distributed.new_group(backend="gloo")'
        with fake_gpu(3, 3):
            group = Group(Network(2), 5, 0, "nccl")
            self.raises(ValueError, f"backup=1 {ending}", threelc.torch.PushPull, Layers(3), sgd_of, backup=1,
                        process_group=group)
            one = Transport(group)
            self.raises(ValueError, f"a sparse gradient {ending}", one.all_reduce,
                        torch.zeros(9).to_sparse())
        self.assertEqual((group.calls, one.sent), (0, 0))

    def test_failures(self):
        """What is said, and how the group is closed: without waiting for others, if PyTorch can."""
        for has_abort in True, False:
            closed = []
            with fake_gpu(3, 3), mock.patch.multiple(transport.dist, destroy_process_group=lambda group: closed.append(
                    "destroyed")), mock.patch.object(transport, "silent_ranks", lambda group: [1]):
                group = Group(Network(2), 5, 0, "nccl")
                one = Transport(group)
                with mock.patch.object(group.network, "all_to_all_single", side_effect=RuntimeError("timed out")):
                    with self.assertRaisesRegex(RuntimeError, "^rank 0 lost rank 1 .* PyTorch says: timed out$"):
                        one.gather(3)
                if has_abort:
                    with mock.patch.object(transport.dist.distributed_c10d, "_abort_process_group", create=True,
                                           new=lambda group: closed.append("aborted")):
                        one.abort()
                else:
                    one.abort()
            self.assertEqual(closed, ["aborted" if has_abort else "destroyed"])
            self.assertIsNone(one.group)


def sgd_of(parameters):
    return torch.optim.SGD(parameters, 0.1)


if __name__ == "__main__":
    unittest.main()
