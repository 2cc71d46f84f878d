#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Records what workers send while they train a GPT on characters with AdamW and 3LC, for tlc-sim: gradients of an
exchange in every step, and changes of DiLoCo's rounds of local steps (Nesterov momentum 0.9, rate 0.7). All workers are
in this process, each compresses with its own residuals, and all go on from the mean of what was sent.

--out gets a folder for the last of --stages, `transformer` and `changes`, and `transformer-N` and `changes-N` for each
stage of N steps before it. In these a run `gpt-N-s1.00` has the tensors: NAME.npy, float16, a row for each step or
round, and NAME.residual.npy, float32, the residual before the first of them. They are those of the first worker."""
import argparse
import copy
import time
from fnmatch import fnmatch
from pathlib import Path

from options import Parser, folder

KINDS = ["embedding.weight", "layers.1.attention.inward.weight", "layers.1.hidden.weight", "layers.1.norm2.weight"]
LOOPS = ["transformer", "changes"]


def options():
    parser = Parser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--data", type=folder, required=True, help="folder with a text file (*.txt)")
    parser.add_argument("--out", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--loops", nargs="+", choices=LOOPS, default=LOOPS, help="which trainings are run")
    parser.add_argument("--stages", type=int, nargs="+", default=[100, 1000], help="steps before the recorded ones")
    parser.add_argument("--record", type=int, default=4, metavar="N", help="steps, or rounds, that are recorded")
    parser.add_argument("--every", type=int, default=20, help="local steps in a round")
    parser.add_argument("--width", type=int, default=64, help="of the model")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16, help="of each worker")
    parser.add_argument("--length", type=int, default=64, help="characters in a piece of text")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tensors", nargs="*", default=KINDS, metavar="PATTERN", help="which are written")
    parser.set_defaults(device="cpu")
    return parser.parse_args()


if __name__ == "__main__":
    options()  # before PyTorch is loaded: --help needs nothing

import numpy as np  # noqa: E402
import torch  # noqa: E402

import text  # noqa: E402
from models import CharacterGPT  # noqa: E402
from training import threelc  # noqa: E402

S = "1.00"


def adamw(model, o):
    return torch.optim.AdamW(model.parameters(), o.lr, betas=(0.9, 0.95))


class Steps:
    """An exchange in every step: what a worker sends is its gradient."""
    name = "transformer"
    length = 1

    def __init__(self, model, o):
        self.model, self.o, self.optimizer = model, o, adamw(model, o)

    def values(self, data, step, rank):
        self.model.zero_grad()
        text.loss(self.model, text.batch(data, self.o, step, rank)).backward()
        return [parameter.grad.flatten().clone() for parameter in self.model.parameters()]

    def apply(self, means):
        for parameter, mean in zip(self.model.parameters(), means):
            parameter.grad = mean.view_as(parameter)
        self.optimizer.step()


class Rounds:
    """DiLoCo: what a worker sends is the change that its local steps made."""
    name = "changes"

    def __init__(self, model, o):
        self.model, self.o, self.length = model, o, o.every
        self.workers = [copy.deepcopy(model) for _ in range(o.workers)]
        self.inner = [adamw(worker, o) for worker in self.workers]
        self.outer = torch.optim.SGD(model.parameters(), 0.7, momentum=0.9, nesterov=True)

    def values(self, data, step, rank):
        worker = self.workers[rank]
        worker.load_state_dict(self.model.state_dict())
        for local in range(self.length):
            self.inner[rank].zero_grad()
            text.loss(worker, text.batch(data, self.o, step + local, rank)).backward()
            self.inner[rank].step()
        return [(after - before).detach().flatten()
                for after, before in zip(worker.parameters(), self.model.parameters())]

    def apply(self, means):
        for parameter, mean in zip(self.model.parameters(), means):
            parameter.grad = -mean.view_as(parameter)
        self.outer.step()


class Recorder:
    """Writes a stage of a loop: the residuals before it, then what the first worker sends."""

    def __init__(self, loop, stage, o):
        kind = loop.name if stage == max(o.stages) else f"{loop.name}-{stage}"
        self.folder = o.out / kind / f"gpt-{stage}-s{S}"
        self.names = {i: name for i, (name, _) in enumerate(loop.model.named_parameters())
                      if any(fnmatch(name, pattern) for pattern in o.tensors)}
        self.rows = {i: [] for i in self.names}
        self.left = o.record
        self.sent = 0  # bytes, of all workers

    def begin(self, contexts):
        self.folder.mkdir(parents=True, exist_ok=True)
        for i, name in self.names.items():
            np.save(self.folder / f"{name}.residual.npy", np.array(contexts[i].residual, np.float32))

    def take(self, values):
        for i in self.names:
            self.rows[i].append(values[i].numpy().astype(np.float16))
        self.left -= 1
        if not self.left:
            for i, name in self.names.items():
                np.save(self.folder / f"{name}.npy", np.stack(self.rows[i]))


def train(loop, data, o):
    sizes = [parameter.numel() for parameter in loop.model.parameters()]
    contexts = [[threelc.Context(n, f"3lc:s={S}") for n in sizes] for _ in range(o.workers)]
    recorders = {stage: Recorder(loop, stage, o) for stage in o.stages}
    active, start = [], time.monotonic()
    for step in range(0, max(o.stages) + o.record * loop.length, loop.length):
        if step in recorders:
            active.append(recorders[step])
            active[-1].begin(contexts[0])
        means = [torch.zeros(n) for n in sizes]
        for rank in range(o.workers):
            values = loop.values(data, step, rank)
            for recorder in active if rank == 0 else ():
                recorder.take(values)
            for context, value, mean in zip(contexts[rank], values, means):
                frame = context.compress(value)
                threelc.decompress_add(frame, mean, 1 / o.workers)
                for recorder in active:
                    recorder.sent += len(frame)
        loop.apply(means)
        for recorder in active:
            if not recorder.left:
                bits = 8 * recorder.sent / (sum(sizes) * o.workers * o.record)
                print(f"{recorder.folder}: {bits:.3f} bits a value of all {sum(sizes)}, "
                      f"{time.monotonic() - start:.0f} s", flush=True)
        active = [recorder for recorder in active if recorder.left]
    with torch.no_grad():
        print(f"loss {text.evaluate(loop.model.eval(), data)['loss']:.3f} on the validation text")


def main():
    o = options()
    data = text.load(o)
    for loop in (loop for loop in (Steps, Rounds) if loop.name in o.loops):
        torch.manual_seed(o.seed)
        train(loop(CharacterGPT(text.CHARACTERS, o.length, o.width), o), data, o)


if __name__ == "__main__":
    main()
