# SPDX-License-Identifier: MIT
"""Processes that train together: real ones, over gloo, on this machine."""
import atexit
import multiprocessing
import os
import sys
import tempfile
import threading
import time
import traceback
import unittest
from datetime import timedelta
from pathlib import Path

if sys.platform == "linux":  # else gloo asks DNS for the name of the host, which may take seconds
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ.setdefault("USE_LIBUV", "0")  # Debian's PyTorch is built without, but takes it for the default

CONTEXT = multiprocessing.get_context("forkserver")
# Imported once for all ranks, which then share the seed of str hashes: the tests, with all that they need.
CONTEXT.set_forkserver_preload(["torch", "threelc.torch", *(Path(word).stem for word in sys.argv[1:]
                                                            if word.endswith(".py"))])


def _serve(pipe):
    """A process: does what comes through the pipe, until it is closed."""
    import torch
    torch.set_num_threads(1)
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        _together(pipe)  # the modules are imported, which takes long on a busy machine: the timeout begins now
        pipe.send(_do(pipe, *job))


def _together(pipe):
    """Waits for the other ranks, without gloo."""
    pipe.send(None)
    pipe.recv()


def _do(pipe, function, rank, world, store, timeout, arguments):
    import torch
    import torch.distributed as dist
    torch.manual_seed(0)
    try:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world,
                                timeout=timedelta(seconds=timeout))
        _together(pipe)  # a function that ends at once must not close connections that others still make
        return "result", function(rank, world, *arguments)
    except Exception as error:  # pylint: disable=broad-except
        return "error", (type(error).__name__, str(error), traceback.format_exc())
    finally:
        if dist.is_initialized():
            _settle()
            dist.destroy_process_group()


def _runs(stat):
    """Whether a thread runs. stat: its file, which goes when it ends."""
    try:
        return stat.read_text().rsplit(")", 1)[1].split()[0] == "R"
    except OSError:
        return False


def _settle():
    """Waits until no other thread runs. After a collective has returned, a thread of gloo lets go of its tensors. If no
    other has them, it needs the GIL for that. In PyTorch 2.6 destroy_process_group() keeps the GIL while it waits for
    the thread, and hangs: so do six processes that repeat init_process_group(), all_reduce(torch.ones(3)) and
    destroy_process_group()."""
    quiet, own = 0, str(threading.get_native_id())
    end = time.monotonic() + 1  # a thread of gloo may turn in circles after a connection was closed
    while quiet < 3 and time.monotonic() < end and sys.platform == "linux":
        time.sleep(0.01)
        others = [path for path in Path("/proc/self/task").glob("*/stat") if path.parent.name != own]
        quiet = 0 if any(map(_runs, others)) else quiet + 1


def _lead(pipes):
    """The ranks' two calls of _together(). Returns what those say that fail before."""
    pipes, early = list(pipes), {}
    for _ in range(2):
        for pipe in pipes:
            said = pipe.recv()
            if said is not None:
                early[pipe] = said
        pipes = [pipe for pipe in pipes if pipe not in early]
        for pipe in pipes:
            pipe.send(None)
    return early


class Failure(Exception):
    """What a rank raised: its type, its words, its traceback."""

    def __init__(self, kind, words, trace):
        super().__init__(f"{kind}: {words}\n{trace}")
        self.kind, self.words = kind, words


class Died(Exception):
    """The process of a rank is gone."""


def attempt(call, *arguments):
    """The type of what a call raised, its words, and after how many seconds. Empty: nothing was raised."""
    start, kind, words = time.monotonic(), "", ""
    try:
        call(*arguments)
    except Exception as error:  # pylint: disable=broad-except
        kind, words = type(error).__name__, str(error)
    return kind, words, time.monotonic() - start


def names(rank):
    """A pattern: an exception says that this rank is lost. On a busy machine others may not answer in time, either."""
    return rf"\brank \d+ lost (rank {rank}|ranks [\d, and]*\b{rank}\b[\d, and]*) \d+\.\d s after"


class Cluster:
    """Processes that stay from one test to the next."""

    def __init__(self):
        self.processes = []

    def _rank(self, i):
        while len(self.processes) <= i:
            self.processes.append(None)
        if self.processes[i] is None or not self.processes[i][0].is_alive():
            here, there = CONTEXT.Pipe()
            process = CONTEXT.Process(target=_serve, args=(there,), daemon=True)
            process.start()
            there.close()
            self.processes[i] = (process, here)
        return self.processes[i]

    def outcomes(self, world, function, *arguments, timeout=60):
        """What function(rank, world, *arguments) returned on each rank, or the exception."""
        with tempfile.TemporaryDirectory() as folder:
            ranks = [self._rank(i) for i in range(world)]
            for rank, (_, pipe) in enumerate(ranks):
                pipe.send((function, rank, world, str(Path(folder, "store")), timeout, arguments))
            early = _lead(pipe for _, pipe in ranks)
            found = []
            for process, pipe in ranks:
                try:
                    if pipe not in early and not pipe.poll(2 * timeout + 30):
                        self._kill()  # the others, too, have answers that nobody reads
                        raise TimeoutError("a rank hangs")
                    kind, result = early.get(pipe) or pipe.recv()
                    found.append(result if kind == "result" else Failure(*result))
                except (EOFError, ConnectionResetError):
                    process.join()
                    found.append(Died())
            return found

    def run(self, world, function, *arguments, timeout=60):
        """The results of all ranks; an exception of one of them is raised."""
        found = self.outcomes(world, function, *arguments, timeout=timeout)
        for result in found:
            if isinstance(result, Exception):
                raise result
        return found

    def _kill(self):
        for process, pipe in filter(None, self.processes):
            process.kill()
            process.join()
            pipe.close()
        self.processes = [None] * len(self.processes)

    def close(self):
        for entry in filter(None, self.processes):
            entry[1].close()
            entry[0].join(5)
        self.processes = []


class Refusals(unittest.TestCase):
    """Tests of what all ranks must refuse, and of trainings that are stopped and go on."""

    def goes_on(self, world, function, pieces, *arguments):
        """function(rank, world, pieces, *arguments) trains in these pieces, and its first result is what it is in one
        piece. Returns the results of one piece."""
        whole, stopped = (CLUSTER.run(world, function, each, *arguments) for each in ([(0, pieces[-1][1])], pieces))
        self.assertEqual([result[0] for result in whole], [result[0] for result in stopped])
        return whole

    def refused(self, outcomes, kind, words):
        """Each rank raised an exception of this type (None: of any) with these words."""
        for outcome in outcomes:
            self.assertIsInstance(outcome, Failure, words)
            self.assertEqual(kind or outcome.kind, outcome.kind, words)
            self.assertIn(words, outcome.words)


CLUSTER = Cluster()  # of all tests of a file
atexit.register(CLUSTER.close)
