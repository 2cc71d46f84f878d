# SPDX-License-Identifier: MIT
"""torchrun --max-restarts: a rank is killed, torchrun starts all ranks again, and they go on from their checkpoints."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch

import restarted
from cluster import CLUSTER

RANKS = 2
KILLED_IN = 4
# Else ranks may find addresses of those before the restart in the store, and wait for them: pytorch#135712.
ENVIRONMENT = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def torchrun_starts():
    """That of PyTorch 1.13 does not with Python 3.11, nor that of Debian's 2.6, which is built without libuv."""
    if torch.__version__ < "2":
        return False
    try:
        torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    except RuntimeError:
        return False
    return True


@unittest.skipUnless(torchrun_starts(), "torchrun of this PyTorch does not start")
class Restarts(unittest.TestCase):
    def test_a_rank_is_killed(self):
        """The bits are those of a training that nothing happened to. There are restarts to spare: on a busy machine
        ranks may lose each other when they connect."""
        with tempfile.TemporaryDirectory() as killed, tempfile.TemporaryDirectory() as whole:
            self.assertEqual(CLUSTER.run(RANKS, restarted.train, Path(whole)), [0] * RANKS)
            # local-addr: else the ranks look for the name of the host, which may have no address
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1",
                       f"--nproc_per_node={RANKS}", "--max-restarts=4", restarted.__file__, killed, str(KILLED_IN)]
            done = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT)
            try:
                said = done.communicate(timeout=250)[0]
            except subprocess.TimeoutExpired:
                done.terminate()  # torchrun ends its ranks
                self.fail(f"it hangs: {done.communicate()[0]}")
            self.assertEqual(done.returncode, 0, said)
            self.assertTrue(Path(killed, "killed").exists())
            last = [[torch.load(Path(folder, f"{restarted.STEPS - 1}.{rank}")) for rank in range(RANKS)]
                    for folder in (killed, whole)]
        for again, once in zip(*last):
            self.assertIn(again["first"], (KILLED_IN - 1, KILLED_IN))
            for name, tensor in once["model"].items():
                self.assertTrue(torch.equal(tensor, again["model"][name]), name)
