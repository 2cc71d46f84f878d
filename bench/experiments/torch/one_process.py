#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Trains ResNet-20 on CIFAR-10 with all workers in one process: the accuracy of a loop, without waiting for others.

The workers are copies of the network that share their weights; each has its own batches and batch-norm statistics. What
they exchange are the messages of threelc.exchange. --data: a folder with data_batch_*.bin and test_batch.bin.
"""
from options import one_process_options

OPTIONS = one_process_options()

if __name__ == "__main__":
    OPTIONS.parse_args()  # before PyTorch is loaded: --help needs nothing

import copy  # noqa: E402
import math  # noqa: E402
import os  # noqa: E402
import time  # noqa: E402
from dataclasses import replace  # noqa: E402
from typing import Any, Dict, List, Sequence  # noqa: E402

import torch  # noqa: E402

import images  # noqa: E402
from models import ResNet20  # noqa: E402
from training import add_row, check_codecs, rate  # noqa: E402
import threelc.exchange as exchange  # noqa: E402

COLUMNS = ["way", "codec", "pull", "size", "lr", "seed", "workers", "step", "steps", "seconds", "train_loss",
           "loss", "accuracy", "push_bits", "pull_bits", "worker_ratio", "owner_ratio"]
SMALL = 256  # values; smaller tensors travel as floats, as in threelc.torch
Gradients = List[torch.Tensor]  # of a worker, flat


def norm(vectors: Sequence[Any]) -> float:
    """The 2-norm of all values."""
    return math.sqrt(sum(float(torch.as_tensor(v, dtype=torch.float64).square().sum()) for v in vectors))


class Floats:
    """The mean of all gradients, as floats."""

    push_bits = pull_bits = 32.0
    worker_ratio = owner_ratio = 0.0

    def __init__(self, o: Any, parameters: List[torch.nn.Parameter]) -> None:
        self.parameters = parameters
        self.optimizers = [optimizer_of(parameters, o)]

    def step(self, gradients: List[Gradients]) -> None:
        self.apply([torch.stack(all_workers).mean(0) for all_workers in zip(*gradients)])

    def apply(self, means: Gradients) -> None:
        """A step of the optimizer that every worker has."""
        for parameter, mean in zip(self.parameters, means):
            parameter.grad = mean.view_as(parameter)
        self.optimizers[0].step()

    def state_dict(self) -> Dict[str, Any]:
        return {"optimizers": [optimizer.state_dict() for optimizer in self.optimizers]}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        for optimizer, saved in zip(self.optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)


class Halves(Floats):
    """As torch's fp16_compress_hook: halves are divided, then added."""

    push_bits = pull_bits = 16.0

    def step(self, gradients: List[Gradients]) -> None:
        self.apply([sum((g.half() / len(gradients) for g in all_workers[1:]), all_workers[0].half() / len(gradients))
                    .float() for all_workers in zip(*gradients)])


class Compressed(Floats):
    """What the ways with codecs have in common: objects of the exchange, and what they sent."""

    def __init__(self, o: Any, parameters: List[torch.nn.Parameter]) -> None:
        super().__init__(o, parameters)
        self.tensors = [exchange.Tensor(str(i), p.numel()) for i, p in enumerate(parameters)]
        self.values = sum(p.numel() for p in parameters)
        self.pushed = self.answered = self.steps = 0
        self.dense = o.dense_start
        self.done = 0

    @property
    def push_bits(self) -> float:  # type: ignore[override]
        return 8 * self.pushed / (self.values * max(1, self.steps))

    @property
    def pull_bits(self) -> float:  # type: ignore[override]
        return 8 * self.answered / (self.values * max(1, self.steps))

    def sent(self, pushes: List[List[memoryview]], answers: Sequence[Any]) -> None:
        """Counts a step. Pushes of all workers, to all owners; answers of all owners, each sent to all alike."""
        self.steps += 1
        self.pushed += sum(len(message) for of_worker in pushes for message in of_worker) / len(pushes)
        self.answered += sum(len(message) for message in answers)

    def objects(self) -> List[Any]:
        raise NotImplementedError

    def step(self, gradients: List[Gradients]) -> None:
        self.done += 1
        if self.done <= self.dense:
            super().step(gradients)
        else:
            self.exchange(gradients)

    def exchange(self, gradients: List[Gradients]) -> None:
        raise NotImplementedError

    def state_dict(self) -> Dict[str, Any]:
        return {**super().state_dict(), "objects": [one.state_dict() for one in self.objects()],
                "counts": (self.pushed, self.answered, self.steps, self.done)}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        super().load_state_dict(state)
        for one, saved in zip(self.objects(), state["objects"]):
            one.load_state_dict(saved)
        self.pushed, self.answered, self.steps, self.done = state["counts"]


class Means(Compressed):
    """An all-reduce: means travel back, and every worker has the optimizer. gather: pushes go to all."""

    def __init__(self, o: Any, parameters: List[torch.nn.Parameter]) -> None:
        super().__init__(o, parameters)
        self.gather = o.way == "gather"
        config = exchange.Config(workers=o.workers, push=o.codec, pull=o.pull, gather=self.gather, seed=o.seed)
        self.ranks = [exchange.AllReduce(config, rank, self.tensors) for rank in range(o.workers)]

    def objects(self) -> List[Any]:
        return self.ranks

    def exchange(self, gradients: List[Gradients]) -> None:
        pushes = [rank.push(of_worker) for rank, of_worker in zip(self.ranks, gradients)]
        if self.gather:
            answers = [push[0] for push in pushes]
            self.sent([push[:1] for push in pushes], [])
        else:
            answers = [rank.reduce([push[i] for push in pushes]) for i, rank in enumerate(self.ranks)]
            self.sent(pushes, answers)
        means = [torch.zeros(tensor.n) for tensor in self.tensors]
        for rank in self.ranks:
            rank.pull(answers, means)
        self.ratios([part for rank in self.ranks for part in rank.parts()], gradients)
        self.apply(means)

    def ratios(self, parts: List[Any], gradients: List[Gradients]) -> None:
        pushed = [part.residual for part in self.ranks[0].pushed_parts() if part.residual is not None]
        self.worker_ratio = norm(pushed) / norm(gradients[0]) if norm(gradients[0]) else 0.0
        answered = norm([part.mean for part in parts])
        kept = norm([part.residual for part in parts if part.residual is not None])
        self.owner_ratio = kept / answered if answered else 0.0


class Owners(Compressed):
    """Each rank owns a part of the model and its optimizer (3LC, Figure 2). Changes of the model travel back, or its
    weights where floats do."""

    def __init__(self, o: Any, parameters: List[torch.nn.Parameter]) -> None:
        super().__init__(o, parameters)
        self.weights = [parameter.data.view(-1) for parameter in parameters]
        floats = [tensor.n < SMALL or o.codec == "raw" for tensor in self.tensors]
        self.tensors = [replace(tensor, pull="raw" if whole else None) for tensor, whole in zip(self.tensors, floats)]
        self.whole = floats
        self.moved = 0.0
        config = exchange.Config(workers=o.workers, servers=o.workers, push=o.codec, pull=o.pull, seed=o.seed)
        self.workers = [exchange.Worker(config, rank, self.tensors) for rank in range(o.workers)]
        self.servers = [exchange.Server(config, rank, self.tensors) for rank in range(o.workers)]
        self.parts = [[torch.nn.Parameter(self.weights[part.tensor][part.first:part.first + part.n].clone())
                       for part in server.parts()] for server in self.servers]
        self.optimizers = [optimizer_of(part or [torch.nn.Parameter(torch.empty(0))], o) for part in self.parts]
        self.dense = 0

    def objects(self) -> List[Any]:
        return [*self.workers, *self.servers]

    def exchange(self, gradients: List[Gradients]) -> None:
        pushes = [worker.push(of_worker) for worker, of_worker in zip(self.workers, gradients)]
        answers = [self.serve(i, [push[i] for push in pushes]) for i in range(len(self.servers))]
        self.sent(pushes, answers)
        pulled = [torch.zeros(tensor.n) for tensor in self.tensors]
        for worker in self.workers:
            worker.pull(answers, pulled)
        for weights, values, whole in zip(self.weights, pulled, self.whole):
            weights.copy_(values if whole else weights + values)
        for server, own in zip(self.servers, self.parts):
            for part, parameter in zip(server.parts(), own):
                values = self.weights[part.tensor][part.first:part.first + part.n]
                kept = 0 if part.residual is None else torch.frombuffer(part.residual, dtype=torch.float32)
                parameter.data.copy_(values + kept)
        kept = norm([part.residual for server in self.servers for part in server.parts() if part.residual is not None])
        self.owner_ratio = kept / self.moved if self.moved else 0.0

    def serve(self, i: int, pushes: List[memoryview]) -> memoryview:
        server, own = self.servers[i], self.parts[i]
        for push in pushes:
            server.push(push)
        server.reduce()
        for part, parameter in zip(server.parts(), own):
            parameter.grad = torch.frombuffer(part.mean, dtype=torch.float32).clone()
        whole = [self.whole[part.tensor] for part in server.parts()]
        before = [parameter.detach().clone() for parameter in own]
        self.optimizers[i].step()
        changes = [parameter.detach() - old for parameter, old in zip(own, before)]
        self.moved = math.hypot(self.moved if i else 0.0,
                                norm([change for change, as_it_is in zip(changes, whole) if not as_it_is]))
        return server.answer([parameter.detach() if as_it_is else change
                              for parameter, change, as_it_is in zip(own, changes, whole)])

    def state_dict(self) -> Dict[str, Any]:
        return {**super().state_dict(), "parts": [[p.data for p in part] for part in self.parts]}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        super().load_state_dict(state)
        for own, saved in zip(self.parts, state["parts"]):
            for parameter, values in zip(own, saved):
                parameter.data.copy_(values)


WAYS = {"floats": Floats, "fp16": Halves, "sharded": Means, "gather": Means, "sharded-optimizer": Owners}


def optimizer_of(parameters: Sequence[torch.nn.Parameter], o: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, o.lr, momentum=0.9, weight_decay=1e-4)


def copies_of(model: torch.nn.Module, count: int) -> List[torch.nn.Module]:
    """The model and copies that share its parameters and have buffers of their own."""
    shared = {id(parameter): parameter for parameter in model.parameters()}
    return [model] + [copy.deepcopy(model, dict(shared)) for _ in range(count - 1)]


def save(o: Any, done: Dict[str, Any]) -> None:
    torch.save(done, f"{o.checkpoint}.new")
    os.replace(f"{o.checkpoint}.new", o.checkpoint)


def train(o: Any) -> None:
    torch.manual_seed(o.seed)
    data = images.cifar10(o)
    models = copies_of(ResNet20(), o.workers)
    parameters = list(models[0].parameters())
    way = WAYS[o.way](o, parameters)
    first, before, smooth = 0, 0.0, 0.0
    if o.checkpoint and o.checkpoint.exists():
        saved = torch.load(o.checkpoint)
        for model, state in zip(models, saved["models"]):
            model.load_state_dict(state)
        way.load_state_dict(saved["way"])
        first, before, smooth = saved["progress"]
    start = time.perf_counter()
    for step in range(first, o.steps):
        gradients = []
        for rank, model in enumerate(models):
            model.train()
            loss = images.loss(model, images.batch(data, o, step, rank, augment=True))
            gradients.append([g.flatten() for g in torch.autograd.grad(loss, parameters)])
            if rank == 0:
                smooth = 0.98 * smooth + 0.02 * float(loss) if step else float(loss)
        for optimizer in way.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = o.lr * rate(step, o.steps)
        way.step(gradients)
        if (step + 1) % o.evaluate_every and step + 1 != o.steps:
            continue
        seconds = before + time.perf_counter() - start
        models[0].eval()
        with torch.no_grad():
            result = images.evaluate(models[0], data)
        row = {"way": o.way, "codec": o.codec if o.way not in ("floats", "fp16") else "", "pull": o.pull or "",
               "size": o.size, "lr": o.lr, "seed": o.seed, "workers": o.workers, "step": step + 1,
               "steps": o.steps, "seconds": seconds, "train_loss": smooth,
               "push_bits": way.push_bits, "pull_bits": way.pull_bits, "worker_ratio": way.worker_ratio,
               "owner_ratio": way.owner_ratio, **result}
        print(*(f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
                for key, value in row.items() if value != ""), flush=True)
        if o.csv:
            add_row(o.csv, COLUMNS, row)
        if o.checkpoint:
            save(o, {"models": [model.state_dict() for model in models], "way": way.state_dict(),
                     "progress": (step + 1, seconds, smooth)})
        before, start = seconds, time.perf_counter()


if __name__ == "__main__":
    options = OPTIONS.parse_args()
    check_codecs(OPTIONS, filter(None, (options.codec, options.pull)))
    torch.set_num_threads(1)
    train(options)
