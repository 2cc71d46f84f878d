# SPDX-License-Identifier: MIT
"""Replicas of torchft that come and go: a real lighthouse, real managers, one process for each replica."""
import os
import signal
import tempfile
import time
import unittest
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from cluster import CONTEXT

try:
    import torchft
    from torchft.coordination import LighthouseServer

    from threelc.torch.torchft import DiLoCo, DistributedDataParallel, Manager
except ImportError:
    torchft = None

SHAPES = ((40, 60), (60,), (4, 5, 7), ())
NONFINITE, OWN_ERROR, KILLED, WAITS, LAST = 2, 4, 6, 9, 14  # steps
LIMIT = timedelta(seconds=20)


def managed(address, name, state, codec="3lc-golomb", **settings):
    """A manager of a replica of one rank."""
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    manager = Manager(torchft.ProcessGroupGloo(timeout=LIMIT), load_state_dict=state.load_state_dict,
                      state_dict=state.state_dict, min_replica_size=1, rank=0, world_size=1, store_addr="localhost",
                      store_port=store.port, lighthouse_addr=address, replica_id=name, timeout=LIMIT,
                      quorum_timeout=LIMIT, connect_timeout=LIMIT, hostname="localhost", codec=codec, min_numel=1,
                      **settings)
    return manager, store


class Weights:
    """What replicas have alike."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.tensors = [torch.randn(shape, generator=generator) for shape in SHAPES]

    def state_dict(self):
        return {str(i): tensor.clone() for i, tensor in enumerate(self.tensors)}

    def load_state_dict(self, state):
        for i, tensor in enumerate(self.tensors):
            tensor.copy_(state[str(i)])


def train(folder, address, replica, life, settings):
    """Steps to the minimum of a square, as a replica; each attempt leaves a file."""
    torch.set_num_threads(1)
    weights = Weights()
    manager, _store = managed(address, f"replica_{replica}", weights, init_sync=False, **settings)
    Path(folder, f"ready.{replica}.{life}").touch()
    generator = torch.Generator().manual_seed(10 * replica + life)
    attempt, troubles = 0, {NONFINITE, OWN_ERROR, KILLED} if (replica, life) == (1, 0) else set()
    while manager.current_step() < LAST:
        if (replica, manager.current_step()) == (0, WAITS):
            await_file(folder, "ready.1.1")
        before = manager.compression.residuals
        manager.start_quorum()
        gradients = [tensor + torch.randn(tensor.shape, generator=generator) for tensor in weights.tensors]
        manager.wait_quorum()
        step, trouble = manager.current_step(), None
        if step in troubles:
            troubles.remove(step)
            trouble = step
        if trouble == NONFINITE:
            gradients[2][1, 2, 3] = float("nan")
        means = [gradient.clone() for gradient in gradients]
        for i, mean in enumerate(means):
            if trouble == KILLED and i == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            manager.allreduce(mean, should_quantize=True).wait()
        if trouble == OWN_ERROR:
            manager.report_error(RuntimeError("this replica alone fails"))
        takes_part, participants = manager.is_participating(), manager.num_participants()
        committed = manager.should_commit()
        if committed:
            for tensor, mean in zip(weights.tensors, means):
                tensor -= 0.2 * mean
        torch.save({"step": step, "committed": committed, "takes_part": takes_part, "participants": participants,
                    "gradients": gradients, "means": means, "before": before, "weights": weights.state_dict(),
                    "residuals": manager.compression.residuals, "traffic": manager.compression.stats.scalars()},
                   Path(folder, f"{replica}.{life}.{attempt}"))
        attempt += 1
    manager.shutdown(wait=False)


def await_file(folder, name):
    end = time.monotonic() + 60
    while not Path(folder, name).exists():
        if time.monotonic() > end:
            raise TimeoutError(name)
        time.sleep(0.02)


class Lighthouse:
    """A lighthouse, and the processes of its replicas."""

    def __init__(self):
        self.server = LighthouseServer(bind="[::]:0", min_replicas=1, join_timeout_ms=10000, quorum_tick_ms=20,
                                       heartbeat_timeout_ms=1500)
        self.processes = []

    def start(self, function, *arguments):
        self.processes.append(CONTEXT.Process(target=function, args=arguments, daemon=True))
        self.processes[-1].start()
        return self.processes[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.join()
        self.server.shutdown()


@unittest.skipIf(torchft is None, "there is no torchft")
class Replicas(unittest.TestCase):
    def killed_and_back(self, **settings):
        """The attempts of replica 0, and of the two lives of replica 1."""
        with tempfile.TemporaryDirectory() as folder, Lighthouse() as lighthouse:
            address = lighthouse.server.address()
            survivor = lighthouse.start(train, folder, address, 0, 0, settings)
            victim = lighthouse.start(train, folder, address, 1, 0, settings)
            victim.join(60)
            self.assertEqual(-signal.SIGKILL, victim.exitcode)
            back = lighthouse.start(train, folder, address, 1, 1, settings)
            for process in (survivor, back):
                process.join(60)
                self.assertEqual(0, process.exitcode)
            return [[torch.load(Path(folder, f"{name}.{i}")) for i in range(len(list(Path(folder).glob(f"{name}.*"))))]
                    for name in ("0.0", "1.0", "1.1")]

    def test_residuals_survive_a_replica(self):
        """All that was given is in the weights, in residuals, or was lost with the replica that was killed."""
        for mode in ("sharded", "gather"):
            with self.subTest(mode):
                survivor, victim, back = self.killed_and_back(mode=mode)
                self.check(survivor, victim, back)

    def check(self, survivor, victim, back):
        given = [torch.zeros(shape) for shape in SHAPES]
        for attempts in (survivor, victim, back):
            for attempt in attempts:
                counts = attempt["committed"] or attempt["step"] == OWN_ERROR
                if counts and attempt["takes_part"]:
                    for total, gradient in zip(given, attempt["gradients"]):
                        total += gradient / attempt["participants"]
        for attempt in survivor:
            if attempt["committed"]:
                for total, mean in zip(given, attempt["means"]):
                    total -= mean
        for i, total in enumerate(given):
            for attempts in (survivor, victim, back):
                total -= attempts[-1]["residuals"][f"0.{i}"].view(total.shape)
            print("residual error", i, float(total.abs().max()))
            self.assertLess(float(total.abs().max()), 2e-5)
        for attempts in (survivor, victim, back):
            print([(a["step"], a["committed"], a["takes_part"], a["participants"]) for a in attempts])
        print(attempts[-1]["traffic"])


if __name__ == "__main__":
    unittest.main()
