# SPDX-License-Identifier: MIT
"""Faults at the k-th call of torch.distributed on one rank, for k = 1, 2, ... until a run has no more calls. Each rank
must end, with an exception that is documented or with the same weights as all; what state_dict() gives afterwards must
load, or be refused.

faults.py [--way WAY] [--kind KIND] [--ranks N] [--step N] [--first N]

--step: every how many of the faults, all in their order; --first: the first of them. The exit status is 1 if a rank
hung, or raised something else."""
import argparse
import itertools
import sys
import threading
import traceback

import torch
import torch.distributed

import threelc
from fake_dist import KINDS, Fault, Network, install
from test_states import Net, Way

WAYS = {"LocalSteps": {"error_reset": 0}, "streaming": {"fragments": 2, "every": 2, "delay": 1},
        "PushPull": {}, "ShardedOptimizer": {"overlap": True}, "Gossip": {}, "register": {}}
ALLOWED = (RuntimeError, ValueError, threelc.Error)  # of a run that a fault ends
STEPS = 3


def made(ranks):
    """Models, one after the other: they share the seed."""
    found = []
    for _ in range(ranks):
        torch.manual_seed(1)
        found.append(Net())
    return found


def one_run(way, ranks, fault=None, states=None, steps=range(STEPS)):
    """Trains with a fault. Returns the network, how each rank ended, and the objects that were made."""
    network, nets, objects = Network(ranks, fault), made(ranks), [None] * ranks

    def train(rank):
        one = Way("LocalSteps" if way == "streaming" else way, net=nets[rank], **WAYS[way])
        objects[rank] = one
        if states is not None:
            one.net.load_state_dict(states[rank][0])
            one.state.load_state_dict(states[rank][1])
        return one.train(rank, steps)

    return network, network.run(train), objects


def saved(one):
    """The states of a rank after a fault, in a thread, as they may wait for ever. None: they were refused."""
    found = [("hangs", None)]

    def save():
        try:
            found[0] = "returned", (one.net.state_dict(), one.state.state_dict())
        except BaseException as error:  # pylint: disable=broad-except
            found[0] = "raised", error
    thread = threading.Thread(target=save, daemon=True)
    thread.start()
    thread.join(5)
    return found[0]


def problems(ends, may_fail, alike=False):
    """What is wrong with the ends of ranks. alike: all that return anything return the same."""
    found = [f"rank {rank} hangs" for rank, (how, _) in enumerate(ends) if how == "hangs"]
    for rank, (how, what) in enumerate(ends):
        if how == "raised" and not (may_fail and isinstance(what, ALLOWED)):
            found.append(f"rank {rank}: " + "".join(traceback.format_exception(type(what), what, what.__traceback__)))
    returned = [what for how, what in ends if how == "returned"]
    if alike and not found and len(returned) == len(ends) and any(what != returned[0] for what in returned):
        found.append("ranks have different weights")
    return found


def after(way, ranks, fault):
    """What is wrong in a run with a fault, and after it. None: the run has fewer calls."""
    network, ends, objects = one_run(way, ranks, fault)
    if not network.fired:
        return None
    alike = way not in ("Gossip", "streaming") and fault.kind != "alters"  # floats that were altered look like others
    found = problems(ends, fault.kind != "late", alike)
    if found or any(one is None for one in objects):
        return found
    states = [saved(one) for one in objects]
    found = problems(states, True)
    if found or any(how == "raised" for how, _ in states):
        return found
    _, ends, _ = one_run(way, ranks, None, [state for _, state in states], range(STEPS, STEPS + 2))
    return problems(ends, True, alike)


def run(way, kind, ranks, step=1, first=0):
    """Returns how many faults were tried, and what was wrong."""
    tried, wrong = 0, []
    for number in itertools.count():
        call, rank = divmod(number, ranks)
        if number % step != first:
            continue
        fault = Fault(rank, call + 1, kind)
        found = after(way, ranks, fault)
        if found is None:
            break
        tried += 1
        wrong += [f"{way}, {fault}: {problem}" for problem in found]
    return tried, wrong


def prepared():
    """DistributedDataParallel needs a group of its own, of one rank."""
    torch.set_num_threads(1)
    install()
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=list(WAYS))
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    prepared()
    bad = 0
    for way in [options.way] if options.way else WAYS:
        for kind in [options.kind] if options.kind else KINDS:
            tried, wrong = run(way, kind, options.ranks, options.step, options.first)
            bad += len(wrong)
            print(f"{way}, {kind}: {tried} faults, {len(wrong)} wrong", *wrong, sep="\n  ", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
