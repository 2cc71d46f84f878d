# SPDX-License-Identifier: MIT
"""Replicas of torchft that come and go: a real lighthouse, real managers, a process for each replica."""
import os
import signal
import tempfile
import time
import unittest
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from threelc._c import DType
from cluster import CONTEXT

try:
    import torchft
    import torchft.local_sgd
    from torchft.coordination import LighthouseServer
except ImportError:
    torchft = None
else:
    from threelc.torch import torchft as ours
    CONTEXT.set_forkserver_preload(["torch", "torchft"])

PYTORCH = tuple(map(int, torch.__version__.split(".")[:2]))
LIMIT = timedelta(seconds=30)
SHAPES = ((40, 60), (60,), (4, 5, 7), ())
NONFINITE, ALONE, KILLED = 2, 4, 6  # the steps in which something happens to replica 1
TOGETHER = 4  # steps after it is back
RANKS = 2  # of a replica
KINDS = {"torchft": {}, "raw": {"codec": "raw"}, "3lc-golomb": {"codec": "3lc-golomb", "mode": "gather"}}


def managed(kind, address, name, state, rank=0, world=1, store=None, **settings):
    """A manager of a rank of a replica, and the store that it needs."""
    store = store or dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    return kind(torchft.ProcessGroupGloo(timeout=LIMIT), state.load_state_dict, state.state_dict, 1, timeout=LIMIT,
                quorum_timeout=LIMIT, connect_timeout=LIMIT, rank=rank, world_size=world, store_addr="localhost",
                store_port=store.port, lighthouse_addr=address, replica_id=name, hostname="localhost",
                init_sync=False, **settings), store


class Weights:
    """What a rank of each replica has alike, as if they were sharded. The smallest sum of squares is at 0."""

    def __init__(self, rank):
        generator = torch.Generator().manual_seed(rank)
        self.tensors = [torch.randn(shape, generator=generator) for shape in SHAPES]

    def loss(self):
        return sum(float(tensor.square().sum()) for tensor in self.tensors)

    def state_dict(self):
        return {str(i): tensor.clone() for i, tensor in enumerate(self.tensors)}

    def load_state_dict(self, state):
        for i, tensor in enumerate(self.tensors):
            tensor.copy_(state[str(i)])


def train(folder, address, replica, life, rank):
    """Steps of a rank of a replica. Each attempt leaves a file."""
    torch.set_num_threads(1)
    weights = Weights(rank)
    manager, _store = managed(ours.Manager, address, f"replica_{replica}", weights, rank, RANKS,
                              store_of(folder, f"store.{replica}.{life}", rank), codec="3lc-golomb", min_numel=1)
    compression = manager.compression
    Path(folder, f"ready.{replica}.{life}.{rank}").touch()
    for other in range(RANKS):
        wait_for(folder, f"ready.{1 - replica}.0.{other}")
    generator = torch.Generator().manual_seed(100 * replica + 10 * life + rank)
    troubles = {NONFINITE, ALONE, KILLED} if (replica, life, rank) == (1, 0, 0) else set()
    attempt = together = 0
    while together < TOGETHER:
        before = compression.residuals
        manager.start_quorum()
        gradients = [tensor + 0.1 * torch.randn(tensor.shape, generator=generator) for tensor in weights.tensors]
        manager.wait_quorum()
        step = manager.current_step()
        trouble = step if step in troubles else None
        troubles.discard(step)
        if trouble == NONFINITE:
            gradients[2][1, 2, 3] = float("nan")
        means = [gradient.clone() for gradient in gradients]
        for i, mean in enumerate(means):
            if trouble == KILLED and i == 1:  # the others have done a part of the step
                os.kill(os.getpid(), signal.SIGKILL)
            manager.allreduce(mean, should_quantize=True).wait()
        if trouble == ALONE:
            manager.report_error(RuntimeError("this replica alone fails"))
        takes_part, participants = manager.is_participating(), manager.num_participants()
        committed = manager.should_commit()
        if committed:
            for tensor, mean in zip(weights.tensors, means):
                tensor -= 0.2 * mean
        together += committed and participants == 2 and step > KILLED
        torch.save({"step": step, "committed": committed, "takes_part": takes_part, "participants": participants,
                    "gradients": gradients, "means": means, "before": before, "weights": weights.state_dict(),
                    "residuals": compression.residuals, "loss": weights.loss()},
                   Path(folder, f"{replica}.{life}.{rank}.{attempt}"))
        attempt += 1
        if step > KILLED and participants == 1:
            time.sleep(0.05)
    manager.shutdown(wait=False)


def store_of(folder, name, rank):
    """The store of the ranks of a replica. The first one has it."""
    path = Path(folder, name)
    if rank:
        wait_for(folder, name)
        return dist.TCPStore("localhost", int(path.read_text()), is_master=False)
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    Path(folder, "new." + name).write_text(str(store.port))
    Path(folder, "new." + name).rename(path)
    return store


def wait_for(folder, name):
    end = time.monotonic() + 60
    while not Path(folder, name).exists():
        if time.monotonic() > end:
            raise TimeoutError(name)
        time.sleep(0.02)


def step_by_step(address, replica, kind, settings):
    """Weights after a few steps of DistributedDataParallel and a few syncs of DiLoCo, in which fragments take turns."""
    torch.set_num_threads(1)
    manager_type, module = (torchft.Manager, torchft) if kind == "torchft" else (ours.Manager, ours)
    diloco_type = torchft.local_sgd.DiLoCo if kind == "torchft" else ours.DiLoCo
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(30, 30), torch.nn.Linear(30, 30))
    torch.manual_seed(2 + replica)
    found = {}
    manager, _store = managed(manager_type, address[0], f"ddp_{replica}", model, **settings)
    wrapped = module.DistributedDataParallel(manager, model)
    optimizer = torchft.Optimizer(manager, torch.optim.SGD(model.parameters(), 0.05))
    while manager.current_step() < 4:
        optimizer.zero_grad()
        wrapped(torch.randn(8, 30)).square().mean().backward()
        optimizer.step()
    found["ddp"] = [p.detach().clone() for p in model.parameters()]
    if kind != "torchft":
        found["stats"] = manager.compression.stats.scalars()
    manager.shutdown(wait=False)

    manager, _store = managed(manager_type, address[1], f"diloco_{replica}", model, use_async_quorum=False, **settings)
    inner = torch.optim.SGD(model.parameters(), 0.05)
    outer = [torch.optim.SGD(part.parameters(), 0.7, momentum=0.9, nesterov=True) for part in model]
    with diloco_type(manager, list(model), inner, outer, sync_every=4):
        while manager.current_step() < 4:
            inner.zero_grad()
            model(torch.randn(8, 30)).square().mean().backward()
            inner.step()
    found["diloco"] = [p.detach().clone() for p in model.parameters()]
    if kind != "torchft":
        found["names"] = sorted(manager.compression.residuals)
    manager.shutdown(wait=False)
    return found


def all_kinds(path, addresses, replica):
    torch.save({kind: step_by_step(addresses[kind], replica, kind, KINDS[kind]) for kind in KINDS}, path)


class Processes(ExitStack):
    """Processes that end with the block."""

    def lighthouse(self, replicas=1):
        """The address of a lighthouse."""
        server = LighthouseServer(bind="[::]:0", min_replicas=replicas, join_timeout_ms=20000, quorum_tick_ms=20,
                                  heartbeat_timeout_ms=1500)
        self.callback(server.shutdown)
        return server.address()

    def start(self, function, *arguments):
        process = CONTEXT.Process(target=function, args=arguments, daemon=True)
        process.start()
        self.callback(process.join)
        self.callback(process.kill)
        return process


@unittest.skipIf(PYTORCH < (2, 7), "torchft needs PyTorch 2.7")
@unittest.skipIf(torchft is None, "torchft is not installed")
class Replicas(unittest.TestCase):
    def test_a_replica_that_is_killed_and_comes_back(self):
        """All that gradients held is in the weights or in residuals, but for what died with the replica."""
        with tempfile.TemporaryDirectory() as folder, Processes() as processes:
            address = processes.lighthouse()

            def start(replica, life):
                return [processes.start(train, folder, address, replica, life, rank) for rank in range(RANKS)]

            survivor, victim = (start(replica, 0) for replica in range(2))
            victim[0].join(90)
            self.assertEqual(-signal.SIGKILL, victim[0].exitcode)
            for process in victim[1:]:  # as torchrun does
                process.kill()
                process.join()
            for process in survivor + start(1, 1):
                process.join(90)
                self.assertEqual(0, process.exitcode)
            for rank in range(RANKS):
                with self.subTest(rank=rank):
                    self.check([[torch.load(Path(folder, f"{life}.{rank}.{i}"))
                                 for i in range(len(list(Path(folder).glob(f"{life}.{rank}.*"))))]
                                for life in ("0.0", "1.0", "1.1")])

    def check(self, lives):
        """Of a rank of both replicas, and of the replica that is back."""
        survivor, victim, back = lives
        failed = [[attempt["step"] for attempt in life if not attempt["committed"]] for life in lives]
        self.assertEqual([[NONFINITE, KILLED], [NONFINITE, ALONE], []], failed)
        for attempt in survivor + victim:
            if not attempt["committed"] and attempt["step"] > 0:
                for name, residual in attempt["before"].items():
                    self.assertTrue(torch.equal(residual, attempt["residuals"][name]), (attempt["step"], name))
        self.assertEqual({}, back[0]["before"])  # it begins with nothing
        self.assertGreater(min(float(r.abs().max()) for r in victim[-1]["residuals"].values() if r.numel() > 1), 0.1)

        left = [torch.zeros(shape) for shape in SHAPES]
        for attempt in survivor + victim + back:
            if attempt["takes_part"] and (attempt["committed"] or attempt["step"] == ALONE):
                for total, gradient in zip(left, attempt["gradients"]):
                    total += gradient / attempt["participants"]
        for attempt in survivor:
            if attempt["committed"]:
                for total, mean in zip(left, attempt["means"]):
                    total -= mean
        for life in lives:
            for i, total in enumerate(left):
                total -= life[-1]["residuals"][f"0.{i}"].view(total.shape)
        self.assertLess(max(float(total.abs().max()) for total in left), 2e-5)

        self.assertEqual(survivor[-1]["step"], back[-1]["step"])
        for name, tensor in survivor[-1]["weights"].items():
            self.assertTrue(torch.equal(tensor, back[-1]["weights"][name]), name)
        self.assertLess(survivor[-1]["loss"], 0.5 * survivor[0]["loss"])

    def test_torchft_itself(self):
        """Replicas have the same bits. Floats give what torchft gives, to rounding. Fragments have residuals of their
        own."""
        with tempfile.TemporaryDirectory() as folder, Processes() as processes:
            addresses = {kind: [processes.lighthouse(2) for _ in range(2)] for kind in KINDS}
            paths = [Path(folder, str(replica)) for replica in range(2)]
            for process in [processes.start(all_kinds, path, addresses, i) for i, path in enumerate(paths)]:
                process.join(90)
                self.assertEqual(0, process.exitcode)
            replicas = [torch.load(path) for path in paths]
        found = {kind: [replica[kind] for replica in replicas] for kind in KINDS}
        for kind, (one, other) in found.items():
            for a, b in zip(one["ddp"], other["ddp"]):
                self.assertTrue(torch.equal(a, b), kind)
        for way in ("ddp", "diloco"):
            for a, b in zip(found["torchft"][0][way], found["raw"][0][way]):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
        self.assertEqual(["0.0", "0.1", "1.0", "1.1"], found["3lc-golomb"][0]["names"])
        self.assertGreater(found["3lc-golomb"][0]["stats"]["ratio"], 4)

    def test_managers_of_torchft(self):
        """Such a manager sends floats."""
        for make in (ours.DistributedDataParallel, ours.DiLoCo):
            with self.assertRaisesRegex(TypeError, r"manager should be a threelc.torch.torchft.Manager, .* not a "
                                                   r"torchft.manager.Manager"):
                make(torchft.Manager.__new__(torchft.Manager), torch.nn.Linear(2, 2))

    def test_states(self):
        """A state goes on with the same bits. While a step is under way it has what was before. A damaged one, and
        codecs that could lose something, are refused."""
        store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        group = torchft.ProcessGroupGloo(timeout=LIMIT)
        group.configure(f"localhost:{store.port}/states", "0", 0, 1)

        def made(codec="3lc", pull=None, mode="gather"):
            return ours.Compression(group, codec, pull, mode, 1, 0, None)

        def step(compression, number):
            tensor = torch.randn(300, generator=torch.Generator().manual_seed(number))
            compression.average(compression.slot_of(tensor, number), tensor, DType.F32, True, 1)
            return tensor

        first, second = made(), made()
        step(first, 0)
        first.end_step(True, 0)
        before = first.residuals["0.0"]
        self.assertGreater(float(before.abs().max()), 0)
        expected = step(first, 1)
        second.load_state_dict(first.state_dict())
        self.assertTrue(torch.equal(before, second.residuals["0.0"]))
        self.assertTrue(torch.equal(expected, step(second, 1)))
        with self.assertRaisesRegex(ValueError, "before the first step"):
            second.load_state_dict(first.state_dict())
        with self.assertRaisesRegex(ValueError, "damaged"):
            made().load_state_dict({**first.state_dict(), "residuals": 3})
        with self.assertRaisesRegex(ValueError, "keeps no residual"):
            made("qsgd:bits=4", "3lc", "sharded")
        with self.assertRaisesRegex(ValueError, "had 300 before"):
            first.end_step(True, 1)
            first.slot_of(torch.zeros(3), 2)


if __name__ == "__main__":
    unittest.main()
