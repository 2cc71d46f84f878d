# SPDX-License-Identifier: MIT
"""A rank is killed, stopped or interrupted at a random moment of a training: all others must raise an exception within
the timeout of their process group and some seconds, and end.

trials.py [--way ddp|local-steps|streaming|owners|servers|backup|gossip|fsdp|group]
          [--event killed|stopped|interrupted|all]
          [--trials N] [--ranks N] [--timeout SECONDS] [--slack SECONDS] [--seed N]

Prints a table. The exit status is 1 if a rank hung, ended by a signal, or ended as if nothing had happened.
"""
import argparse
import importlib
import json
import os
import random
import re
import select
import signal
import socket
import sys
import time
import warnings
from collections import Counter
from datetime import timedelta
from functools import partial
from pathlib import Path

from cluster import names

EVENTS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP, "interrupted": signal.SIGINT}
END = 60.0  # seconds after its exception in which a rank must have ended
LONGEST = 1.0  # seconds of training before the event


def ddp(begun, hooked=True):
    """The hook of a module with several buckets."""
    import torch
    import threelc.torch
    torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = 10000
    model = torch.nn.Sequential(*(torch.nn.Linear(60, 60) for _ in range(6)))
    model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.03)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    begun()
    if hooked:
        threelc.torch.register(model)
    return model, optimizer


def local_steps(begun):
    """Rounds of two local steps. Buffers of batch normalization are exchanged, too."""
    import torch
    import threelc.torch
    model = torch.nn.Sequential(torch.nn.Linear(60, 60), torch.nn.BatchNorm1d(60), torch.nn.Linear(60, 60))
    inner = torch.optim.SGD(model.parameters(), 0.01)
    begun()
    return model, threelc.torch.LocalSteps(
        model, inner, lambda p: torch.optim.SGD(p, lr=0.7, momentum=0.9, nesterov=True), every=2)


def streaming(begun):
    """Local steps in two fragments, each of which is on its way while three steps are made."""
    import torch
    import threelc.torch
    model = torch.nn.Sequential(*(torch.nn.Linear(60, 60) for _ in range(4)))
    inner = torch.optim.SGD(model.parameters(), 0.01)
    begun()
    return model, threelc.torch.LocalSteps(
        model, inner, lambda p: torch.optim.SGD(p, lr=0.7, momentum=0.9, nesterov=True), every=8, fragments=2, delay=3)


def owners(begun):
    """Each rank owns a part of the model. Gradients leave during the backward pass, and answers come in the next
    forward pass."""
    import torch
    import threelc.torch
    model = torch.nn.Sequential(*(torch.nn.Linear(60, 60) for _ in range(4)))
    torch.optim.SGD(model.parameters(), 0.01)  # with the first one PyTorch imports much
    begun()
    return model, threelc.torch.ShardedOptimizer(model, lambda p: torch.optim.SGD(p, 0.01), overlap=True)


def servers(begun, **settings):
    """Parameter servers."""
    import torch
    import threelc.torch
    model = torch.nn.Sequential(*(torch.nn.Linear(60, 60) for _ in range(3)))
    torch.optim.SGD(model.parameters(), 0.01)  # with the first one PyTorch imports much
    begun()
    return model, threelc.torch.PushPull(model, lambda p: torch.optim.SGD(p, 0.01), servers=2, **settings)


def gossip(begun):
    """Neighbours in a ring."""
    import torch
    import threelc.torch
    model = torch.nn.Sequential(*(torch.nn.Linear(60, 60) for _ in range(3)))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    begun()
    return model, threelc.torch.Gossip(model, optimizer)


def fsdp(begun):
    """FSDP2, where each rank has a replica of one shard."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    import threelc.torch
    model = torch.nn.Sequential(*(torch.nn.Linear(60, 60) for _ in range(4)))
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(), 1), mesh_dim_names=("replicate", "shard"))
    for module in (*model, model):
        fully_shard(module, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    begun()
    threelc.torch.register_fsdp(model)
    return model, optimizer


def group(begun):
    """A process group that compresses, for a module with several buckets."""
    import torch
    import threelc.torch
    torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = 10000
    model = torch.nn.Sequential(*(torch.nn.Linear(60, 60) for _ in range(6)))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    begun()
    made = threelc.torch.new_group("3lc")
    return torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.03, process_group=made), optimizer


# Each makes a model and its optimizer. It calls begun() before the exchange is made. plain: without it, to compare.
WAYS = {"ddp": ddp, "plain": partial(ddp, hooked=False), "local-steps": local_steps,
        "streaming": streaming, "owners": owners, "servers": servers, "backup": partial(servers, backup=1),
        "gossip": gossip, "fsdp": fsdp, "group": group}


def train(way, rank, begun):
    """Until something happens."""
    import torch
    torch.manual_seed(0)
    model, optimizer = WAYS[way](begun)
    torch.manual_seed(1 + rank)
    while True:
        optimizer.zero_grad()
        model(torch.randn(8, 60)).pow(2).mean().backward()
        optimizer.step()


def be_rank(way, rank, world, port, timeout, pipe):
    """A rank: writes a line when it begins to train, and one about its exception."""
    import torch.distributed as dist

    def say(*words):
        os.write(pipe, (json.dumps(words) + "\n").encode())

    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells switch it off in the background
    try:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world,
                                timeout=timedelta(seconds=timeout))
        train(way, rank, lambda: say("begun"))
    except BaseException as error:
        say("raised", type(error).__name__, str(error))
        os.close(pipe)
        sys.exit(1)  # as after a traceback
    os._exit(0)


class Rank:
    """A process, and what is known of it."""

    def __init__(self, *arguments):
        self.pipe, there = os.pipe()
        sys.stdout.flush()
        self.process = os.fork()
        if self.process == 0:
            os.close(self.pipe)
            be_rank(*arguments, there)
        os.close(there)
        self.begun = False
        self.raised = self.ended = self.words = self.status = None
        self._text = b""

    def look(self, now):
        """Reads what it wrote, and whether it has ended."""
        while select.select([self.pipe], [], [], 0)[0]:
            piece = os.read(self.pipe, 65536)
            if not piece:
                break
            self._text += piece
        *lines, self._text = self._text.split(b"\n")
        for line in map(json.loads, lines):
            if line[0] == "begun":
                self.begun = True
            else:
                self.raised, self.words = now, f"{line[1]}: {line[2]}"
        if self.ended is None:
            done, status = os.waitpid(self.process, os.WNOHANG)
            if done:
                self.ended, self.status = now, status

    def close(self):
        if self.ended is None:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        os.close(self.pipe)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def wait(ranks, until, seconds):
    """Whether until() came true."""
    deadline = time.monotonic() + seconds
    while True:
        for rank in ranks:
            rank.look(time.monotonic())
        if until():
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)


def begin(way, world, timeout):
    """Ranks that train. On a busy machine they may lose each other when they connect, so there are three attempts."""
    words = []
    for _ in range(3):
        port = free_port()
        ranks = [Rank(way, rank, world, port, timeout) for rank in range(world)]
        begun = False
        try:
            wait(ranks, lambda: all(rank.begun for rank in ranks) or any(rank.ended for rank in ranks), 60)
            begun = all(rank.begun and rank.ended is None for rank in ranks)
            if begun:
                return ranks
            words = [rank.words for rank in ranks]
        finally:
            for rank in [] if begun else ranks:
                rank.close()
    raise RuntimeError(f"the ranks do not begin: {words}")


def trial(way, event, world, timeout, slack, draw):
    """Returns, for each rank that must notice, how it ended, after how many seconds, its words, and whether they name
    the rank that something happened to. None: it is this rank."""
    ranks = begin(way, world, timeout)
    try:
        time.sleep(draw.uniform(0, LONGEST))
        victim = draw.randrange(world)
        os.kill(ranks[victim].process, EVENTS[event])
        start = time.monotonic()
        watched = [rank for i, rank in enumerate(ranks) if i != victim or event == "interrupted"]
        if wait(ranks, lambda: all(rank.raised or rank.ended for rank in watched), timeout + slack):
            wait(ranks, lambda: all(rank.ended for rank in watched), END)
        return [(*outcome(rank, start), None if rank is ranks[victim] else said(rank, victim))
                for rank in watched]
    finally:
        for rank in ranks:
            rank.close()


def said(rank, victim):
    """Whether its exception names another rank."""
    return re.search(names(victim), (rank.words or "").partition(": ")[2]) is not None


def outcome(rank, start):
    if rank.ended is None:
        return ("hung", None, "") if rank.raised is None else ("did not end", rank.raised - start, rank.words)
    if os.WIFSIGNALED(rank.status):
        return f"signal {os.WTERMSIG(rank.status)}", rank.ended - start, rank.words
    return ("raised" if rank.raised is not None else "silent"), rank.ended - start, rank.words


def table(event, found):
    """A line about all ranks of all trials of an event."""
    counts = Counter(how for how, *_ in found)
    seconds = sorted(after for how, after, *_ in found if how == "raised")
    others = [named for *_, named in found if named is not None]
    near = sum(after <= 3 for after in seconds)
    bad = {how: n for how, n in counts.items() if how != "raised"}
    if not seconds:
        return f"{event:12} {len(found):6} {bad}"
    return (f"{event:12} {len(found):6} {near:14} {len(seconds) - near:18} {seconds[len(seconds) // 2]:8.2f} s "
            f"{seconds[-1]:8.2f} s {sum(others):5} of {len(others):3}   {bad or 'none'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=list(WAYS), default="ddp", help="of training (default: ddp)")
    parser.add_argument("--event", choices=[*EVENTS, "all"], default="all", help="what happens to a rank")
    parser.add_argument("--trials", type=int, default=10, help="of each event (default: 10)")
    parser.add_argument("--ranks", type=int, default=3, help="default: 3")
    parser.add_argument("--timeout", type=float, default=5, help="of the process group, in seconds (default: 5)")
    parser.add_argument("--slack", type=float, default=5, help="seconds after the timeout in which the others must "
                        "have raised an exception (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="of moments and ranks (default: 0)")
    parser.add_argument("--verbose", action="store_true", help="prints what each rank said")
    arguments = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "python"))
    import torch
    importlib.import_module("threelc.torch")  # once, before processes are forked
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # on one machine floats are faster, which the hook says
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # no rank is left behind
    print(f"PyTorch {torch.__version__}, {arguments.way}, {arguments.ranks} ranks, timeout {arguments.timeout:g} s, "
          f"{arguments.trials} trials of each event, seed {arguments.seed}")
    print("event         ranks  raised in 3 s  raised after more     median    longest  named it      not raised")
    right = True
    for event in EVENTS if arguments.event == "all" else [arguments.event]:
        draw = random.Random(f"{arguments.seed} {event}")
        found = []
        for _ in range(arguments.trials):
            outcomes = trial(arguments.way, event, arguments.ranks, arguments.timeout, arguments.slack, draw)
            found += outcomes
            for each in outcomes:
                if arguments.verbose or each[0] != "raised":
                    print("  ", *each, flush=True)
        print(table(event, found), flush=True)
        right = right and all(how == "raised" for how, *_ in found)
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
