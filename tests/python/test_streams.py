# SPDX-License-Identifier: MIT
"""Streams of a GPU, over a fake of one that watches them: what is exchanged has a stream of its own in all ways to
train, streams wait for each other where they must and nowhere else, and bits are those of the host."""
import contextlib
import sys
import threading
import unittest
from unittest import mock

import threelc.torch
import torch
from fake_gpu import Stream, fake_gpu
from outer_models import Linear
from test_hook_steps import Bucket, given
from test_states import frozen
from thread_ranks import RanksTest
from threelc.torch import all_reduce
from threelc.torch._common.runners import Background
from threelc.torch._device import crossing, on_device, streams
from threelc.torch._device.answers import Answers
from threelc.torch._hook.arrival import Arrival
from threelc.torch._owners.server import ServerOfParts
from threelc.torch.kernels.selector import Selector
from threelc.torch.kernels.ways import on_host
from torch.nn.parallel import DistributedDataParallel

GPU = torch.device("cuda", 1)
STEPS = 3


class Layer(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, n))
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        with torch.no_grad():
            self.seen.add_(x.amax())
        return (x * self.weight).sin()


def net(place):
    """Parameters are where place() puts them."""
    model = torch.nn.Sequential(Layer(600), Layer(600), Layer(600))
    for layer in model:
        layer.weight, layer.seen = torch.nn.Parameter(place(layer.weight.detach())), place(layer.seen)
    return model


def trained(model, optimizer, place, rank):
    for step in range(STEPS):
        x = torch.randn(600, generator=torch.Generator().manual_seed(10 * step + rank))
        optimizer.zero_grad()
        model(place(x)).sum().as_subclass(torch.Tensor).backward()
        optimizer.step()
    state = {key: value for key, value in optimizer.state_dict().items() if key != "traffic"}  # which has times
    tensors = [tensor.detach().tolist() for layer in model for tensor in (layer.weight, layer.seen)]
    return tensors, optimizer.stats.sent, frozen(state)


def owners(rank, place, kind="ShardedOptimizer", **settings):
    model = net(place)
    return trained(model, getattr(threelc.torch, kind)(
        model, lambda p: torch.optim.SGD(p, 0.1), **{"codec": "3lc", "min_numel": 1, **settings}), place, rank)


def overlapping(rank, place, **settings):
    """A bucket for each layer. The first step goes as floats."""
    return owners(rank, place, overlap=True, bucket_mb=0.002, warmup_steps=1, buffers="first", **settings)


def overlapping_host(rank, place):
    return overlapping(rank, place, quantize="host")


def push_pull(rank, place):
    return owners(rank, place, "PushPull", codec="topk:p=0.3", pull="natural")


def local(rank, place, **settings):
    model = net(place)
    return trained(model, threelc.torch.LocalSteps(
        model, torch.optim.SGD(model.parameters(), 0.1), every=2, min_numel=1, compare_every=1,
        **{"codec": "topk:p=0.1+golomb", "residual_decay": 0.9, "quantize": "auto", **settings}), place, rank)


def streaming(rank, place, **settings):
    return local(rank, place, delay=1, codec="3lc", mode="sharded", **settings)


def streaming_host(rank, place):
    return streaming(rank, place, quantize="host")


def gossip(rank, place):
    model = net(place)
    return trained(model, threelc.torch.Gossip(model, torch.optim.SGD(model.parameters(), 0.1), graph="complete",
                                               min_numel=1), place, rank)


def hooked(rank, place):
    """The hook, with weights that somebody writes after each step."""
    model = DistributedDataParallel(Linear())
    for name in "weight", "bias":
        setattr(model.module, name, torch.nn.Parameter(place(getattr(model.module, name).detach())))
    parameters, found = list(model.module.parameters()), []
    gradients = [[place(gradient) for gradient in model.module.gradient(rank, step)] for step in range(STEPS)]
    state = threelc.torch.register(model, "3lc", compare_every=1)
    for its in gradients:
        buffer, = given(state, Bucket(parameters, its))
        found.append((2 * buffer).tolist())
        with torch.no_grad():
            parameters[0].add_(1.0)
    return found, state.residuals["weight"].tolist(), state.stats.sent, frozen(state.state_dict()["groups"])


def means(rank, place):
    """Without a thread, as FSDP2's hook calls them, also in another stream than the default one; then in a thread."""
    mean, found = threelc.torch.AllReduce(codec="onebit", pull="topk:p=0.3", min_numel=1), []
    for step in range(STEPS):
        with torch.cuda.stream(torch.cuda.Stream(GPU)) if place is there and step % 2 else mock.MagicMock():
            tensor = place(torch.randn(600, generator=torch.Generator().manual_seed(10 * step + rank))).mul_(2)
            if step > 1:
                mean.start("b", tensor).wait()
                found.append((3 * tensor).tolist())
            found.append((2 * mean("a", tensor)).tolist())
    return found, mean.residuals["a"].tolist(), mean.stats.sent


def there(tensor):
    return tensor.to(GPU)


def site():
    """Who waits. Of work that is begun, or waited for: where."""
    frame = sys._getframe(2)
    if frame.f_code.co_filename != streams.__file__:
        return "future"
    frame = frame.f_back
    name = frame.f_code.co_name
    if frame.f_code.co_filename != streams.__file__:
        return name
    frame = frame.f_back
    while frame.f_code.co_filename == contextlib.__file__:
        frame = frame.f_back
    return f"{name} in {frame.f_code.co_name}"


WITH_THREADS = (overlapping, overlapping_host, streaming, streaming_host, hooked, means)


class Ways(RanksTest):
    def test_all(self):
        """What is quantized and decoded, and all that other threads do, is in the side stream."""
        for way in (*WITH_THREADS, push_pull, local, gossip):
            world, queued = 1 + (way is gossip), set()

            def watched(place, name, queued=queued):
                method = getattr(place, name)

                def call(*arguments):
                    queued.add((name, torch.cuda.current_stream(GPU) is streams.side_stream(GPU)))
                    return method(*arguments)
                return mock.patch.object(place, name, call)

            with self.subTest(way.__name__):
                wanted = self.on(world, lambda rank, way=way: way(rank, lambda tensor: tensor))
                with fake_gpu(1, 1) as gpu, watched(on_device.PushedFrames, "_push_frames"), \
                        watched(on_device.OnDevice, "_decode"), watched(Answers, "_make"), \
                        watched(ServerOfParts, "_means"):
                    found = self.on(world, lambda rank, way=way: way(rank, there))
                    own = streams.side_stream(GPU)
                self.assertTrue(found == wanted)  # a list of differences would be long
                done = ["_push_frames"] if way is gossip else ["_push_frames", "_decode"]
                if way in (streaming, hooked, means, overlapping, push_pull):
                    done.append("_make")
                if way in (overlapping, push_pull):
                    done.append("_means")
                if way in (overlapping_host, streaming_host):
                    done = []
                self.assertEqual(queued, {(name, True) for name in done})
                threads = {stream for thread, stream, _ in gpu.queued if thread.name.startswith("threelc")}
                self.assertEqual(threads, {own} if way in WITH_THREADS else set())

    def test_each_wait(self):
        """Without any of them, something is used too early."""
        wait, seen = Stream.wait_event, set()
        cases = (("begun in guarded", overlapping), ("begun in guarded", overlapping_host),
                 ("begun in guarded", streaming_host), ("begun in work", streaming), ("begun in work", means),
                 ("begun in work", hooked), ("begun in job", means), ("begun in fork_join", push_pull),
                 ("begun in in_order", hooked), ("wait in wait", overlapping), ("wait in done_by", means),
                 ("wait in fork_join", push_pull), ("wait in fork_join", means), ("gradients", hooked),
                 ("future", hooked), ("future", means))
        for name, way in cases:
            def skips(stream, event, name=name):
                where = site()
                seen.add(where)
                if where != name:
                    wait(stream, event)

            with self.subTest(wait=name, way=way.__name__), mock.patch.object(Stream, "wait_event", skips):
                with self.assertRaises(Exception), fake_gpu(1, 1) as gpu:
                    self.on(1, lambda rank, way=way: way(rank, there))
                self.assertTrue(gpu.faults)
        self.assertEqual(seen, {name for name, _ in cases})


class Order(RanksTest):
    def test_what_is_waited_for(self):
        """What was queued before the work was handed over, and nothing that came later."""
        def run(rank):
            gate, mean = threading.Event(), threelc.torch.AllReduce(codec="3lc", min_numel=1)
            mean.start("a", there(torch.ones(600))).wait()
            runner, own = Background("x", mock.Mock(), GPU), streams.side_stream(GPU)
            tensor = there(torch.ones(600))
            handed = gpu.default.seen[gpu.default]
            for put in (lambda: mean.start("a", tensor).wait, lambda: runner.put(lambda: tensor.add_(1))):
                gate.clear()
                mean._jobs.put(gate.wait)
                runner._jobs.put(gate.wait)
                tensor.add_(1)
                handed, wait = gpu.default.seen[gpu.default], put()
                torch.ones(5, device=GPU)
                gate.set()
                wait()
                self.assertEqual(own.seen[gpu.default], handed)
                tensor.mul_(2)
            runner.call(lambda: tensor.add_(1))
            tensor.mul_(2)

        with fake_gpu(1, 1) as gpu:
            self.on(1, run)

    def test_given_up(self):
        """NaN comes to a bucket after its gradients, also where nobody has read these."""
        with fake_gpu(1, 1):
            buffer = there(torch.ones(9))
            one = Arrival(buffer.add_(1))
            one.parts = [("a", 0, 9)]
            with streams.on_side_stream(GPU):
                one.give_up()
            self.assertTrue((2 * one.future.wait()).isnan().all())

    def test_pinned(self):
        """Payloads, gradients that the host quantizes, and answers lie in memory that the GPU reaches."""
        with fake_gpu(1, 1) as gpu:
            tensor = there(torch.ones(9))
            self.assertEqual((on_host(tensor).tolist(), Arrival(tensor).host().tolist()), ([1.0] * 9, [1.0] * 9))
            crossing._room(5, GPU)
            self.assertEqual(len(gpu.pinned), 3)

    def test_memory(self):
        """Of a tensor that its owner lets go is not used again before the exchange is done."""
        def run(rank):
            gate, mean = threading.Event(), threelc.torch.AllReduce(codec="3lc", min_numel=1)
            mean.start("a", there(torch.ones(600))).wait()
            mean._jobs.put(gate.wait)
            mean.start("a", there(torch.ones(20, 30)).t())
            gate.set()
            mean._jobs.call(lambda: None)
            mean.start("b", torch.ones(9)).wait()  # forgets the future

        with fake_gpu(1, 1):
            self.on(1, run)
        with self.assertRaisesRegex(AssertionError, "memory is let go"), fake_gpu(1, 1), \
                mock.patch.object(all_reduce, "lent", lambda tensors: None):
            self.on(1, run)

    def test_memory_of_pushes_and_pulls(self):
        """The same of gradients, and of what is pulled."""
        def exchange():
            residual = torch.zeros(600)
            one = threelc.exchange.AllReduce(threelc.exchange.Config(workers=1, push="topk:p=0.1", pull="3lc", min_n=1),
                                             0, [threelc.exchange.Tensor("a", 600, residual=residual)])
            there_too = on_device.OnDevice(one, Selector.of("topk:p=0.1"), {0: residual}, GPU)
            gradient, out = there(torch.ones(600)), torch.zeros(600, device=GPU)
            work = streams.SideWork(GPU)
            with work.begun():
                there_too.pull([one.reduce(there_too.push([gradient], 1.0))], [out])

        def run(left_out):
            calls = []

            def lent(tensors):
                calls.append(None)
                if len(calls) != left_out:
                    streams.lent(tensors)

            with fake_gpu(1, 1), mock.patch.object(on_device, "lent", lent):
                exchange()

        run(0)
        for left_out in 1, 2:
            with self.subTest(left_out), self.assertRaisesRegex(AssertionError, "memory is let go"):
                run(left_out)

    def test_other_devices(self):
        """The CPU and those of other makers have no streams: nothing waits, nothing is made."""
        with mock.patch.object(torch, "cuda", None):
            for device in (None, torch.device("cpu"), torch.device("mps"), torch.device("xpu", 0)):
                self.assertFalse(streams.has_streams(device))
                streams.queued(device)()
                with streams.fork_join(device), streams.on_side_stream(*filter(None, [device])):
                    streams.lent([torch.ones(1)])


if __name__ == "__main__":
    unittest.main()
