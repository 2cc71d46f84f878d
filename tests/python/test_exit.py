# SPDX-License-Identifier: MIT
"""Scripts end as they should: with a thread that is busy, and with process groups that they destroy or leave."""
import os
import socket
import subprocess
import sys
import tempfile
import unittest

import torch

import threelc.torch
from cluster import CLUSTER

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

EXIT = """
import sys, time, torch, torch.distributed as dist, threelc.torch
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(10, 10))
state = threelc.torch.register(model)
model(torch.ones(1, 10)).sum().backward()
state._jobs.put(lambda: (time.sleep(0.5), sys.stderr.write("the thread has ended")))
"""


# Within a function, so that all of it dies after the group: pytorch#154976. A rank of two.
DESTROYED = """
import sys, torch, torch.distributed as dist, threelc.torch

def train(i):
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/{i}", rank=int(sys.argv[2]), world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(10, 10))
    state = threelc.torch.register(model)
    other = torch.nn.Linear(4, 4)
    optimizer = threelc.torch.LocalSteps(other, torch.optim.SGD(other.parameters(), 0.1), every=2)
    model(torch.ones(1, 10)).sum().backward()
    dist.destroy_process_group()

for i in range(4):
    train(i)
"""


def held(rank, world):
    """Whether tensors of collectives are still held when these have returned."""
    transport = threelc.torch._common.transport.Transport()
    tensor = torch.ones(1)
    transport.all_reduce(tensor)
    found = [any(other is tensor for other in transport._held)]
    came = transport.all_to_all([memoryview(b"abc")] * world)
    found.append(any(other.data_ptr() == came[0].data_ptr() for other in transport._held))
    if rank == 0:  # and when the collective fails
        tensor = torch.ones(1)
        try:
            transport.all_reduce(tensor)
        except RuntimeError:
            found.append(len(transport._held) == 4)  # two of the call before, two of this one
    else:
        found.append(True)
    return found


class Exit(unittest.TestCase):
    def test_thread_is_busy(self):
        """A script ends without destroying its process group. The interpreter must wait for the thread: if it ended one
        that comes back from C++, that would end the process with a signal."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        done = subprocess.run([sys.executable, "-c", EXIT], capture_output=True, text=True, timeout=60, env={
            **ENVIRONMENT, "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the thread has ended", done.stderr)

    def test_the_group_is_destroyed(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks = [subprocess.Popen([sys.executable, "-c", DESTROYED, folder, str(rank)], stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT) for rank in range(2)]
            try:
                for said, rank in [(rank.communicate(timeout=100)[0], rank) for rank in ranks]:
                    self.assertEqual(rank.returncode, 0, said)
            finally:
                for rank in ranks:
                    rank.kill()

    def test_tensors_of_collectives_are_held(self):
        """A thread of gloo may not be the last to let go of them: one of 50 scripts ended with a signal then."""
        self.assertEqual(CLUSTER.run(2, held), [[True, True, True], [True, True, True]])
