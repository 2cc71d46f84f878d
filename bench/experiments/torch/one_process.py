#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Trains a ResNet on CIFAR-10 with all workers in one process: the accuracy of a loop, without waiting for others.

What they exchange are the messages of threelc.exchange, on the CPU. --data: a folder with data_batch_*.bin and
test_batch.bin.
"""
from options import one_process_options

OPTIONS = one_process_options()

if __name__ == "__main__":
    chosen = OPTIONS.parse_args()  # before PyTorch is loaded: --help needs nothing
    if (chosen.every > 1 or chosen.bits) and chosen.way in ("floats", "fp16"):
        OPTIONS.error(f"--every and --bits go without --way {chosen.way}, which has no messages")
    if chosen.every > 1 and (chosen.momentum_correction or chosen.dense_start):
        OPTIONS.error("--every goes without --momentum-correction and --dense-start")
    if chosen.steps % chosen.every or chosen.evaluate_every % chosen.every:
        OPTIONS.error("--steps and --evaluate-every are multiples of --every")
    if chosen.layers < 8 or chosen.layers % 6 != 2:
        OPTIONS.error("--layers is two more than a multiple of 6")

import time  # noqa: E402
from dataclasses import replace  # noqa: E402
from typing import Any, Dict, List, Sequence, Tuple  # noqa: E402

import torch  # noqa: E402

import images  # noqa: E402
from models import ResNet  # noqa: E402
from training import add_row, check_codecs, rate, take_place  # noqa: E402
from workers import GpuWorkers, Gradients, Workers  # noqa: E402
import threelc.exchange as exchange  # noqa: E402

COLUMNS = ["way", "codec", "pull", "correction", "size", "lr", "seed", "workers", "step", "steps", "seconds",
           "train_loss", "loss", "accuracy", "push_bits", "pull_bits", "worker_ratio", "owner_ratio", "layers"]
WEIGHT_DECAY = 1e-4
SMALL = 256  # values; smaller tensors travel as floats, as in threelc.torch


class Floats:
    """The mean of all gradients, as floats."""

    push_bits = pull_bits = 32.0

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

    def ratios(self) -> Tuple[float, float]:
        """Residual over signal after the last step: of the workers, and of the owners."""
        return 0.0, 0.0

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
        self.dense = 1 if o.dense_start is None else o.dense_start
        self.done = 0
        self.every = o.every
        self.kept: List[Gradients] = []  # of the steps since the last exchange, added up
        self.recent: List[Tuple[int, float, float]] = []  # step, bits of pushes and of pulls, for --bits
        self.momentum = o.momentum_correction
        with_velocities = o.workers if self.momentum else 0
        self.velocities = [[torch.zeros(tensor.n) for tensor in self.tensors] for _ in range(with_velocities)]

    @property
    def push_bits(self) -> float:  # type: ignore[override]
        return 8 * self.pushed / (self.values * max(1, self.steps))

    @property
    def pull_bits(self) -> float:  # type: ignore[override]
        return 8 * self.answered / (self.values * max(1, self.steps))

    def sent(self, pushes: List[List[memoryview]], answers: Sequence[Any]) -> None:
        """Counts a step. Pushes of all workers, to all owners; answers of all owners, each sent to all alike."""
        pushed = sum(len(message) for of_worker in pushes for message in of_worker) / len(pushes)
        answered = sum(len(message) for message in answers)
        self.steps += self.every
        self.pushed += pushed
        self.answered += answered
        self.recent.append((self.done, 8 * pushed / self.values, 8 * answered / self.values))

    def senders(self) -> List[Any]:
        """The objects that push, one for each worker."""
        raise NotImplementedError

    def objects(self) -> List[Any]:
        return self.senders()

    def ratios(self) -> Tuple[float, float]:
        found = [one.stats for one in self.objects()]
        return (exchange.residual_ratio(sum(stats.push_residual_squares for stats in found),
                                        sum(stats.push_signal_squares for stats in found)),
                exchange.residual_ratio(sum(stats.pull_residual_squares for stats in found),
                                        sum(stats.pull_signal_squares for stats in found)))

    def step(self, gradients: List[Gradients]) -> None:
        self.done += 1
        if self.every > 1:
            gradients = self.added(gradients)
            if self.done % self.every:
                return
            self.kept = []
        if self.done <= self.dense:
            self.dense_step(gradients)
        elif self.momentum:
            self.move(gradients)
            self.exchange(self.velocities)
            for sender, velocities in zip(self.senders(), self.velocities):
                sender.mask(velocities)
        else:
            self.exchange(gradients)

    def added(self, gradients: List[Gradients]) -> List[Gradients]:
        """Those of all steps since the last exchange."""
        zeros = [[torch.zeros_like(gradient) for gradient in of_worker] for of_worker in gradients]
        self.kept = [[kept + gradient for kept, gradient in zip(*pair)] for pair in zip(self.kept or zeros, gradients)]
        return self.kept

    def dense_step(self, gradients: List[Gradients]) -> None:
        """A step as floats. It is not counted."""
        super().step(gradients)

    def move(self, gradients: List[Gradients]) -> None:
        """Momentum correction: velocities are pushed, with the weight decay in them (DGC, section 3.1)."""
        for velocities, of_worker in zip(self.velocities, gradients):
            for velocity, gradient, parameter in zip(velocities, of_worker, self.parameters):
                velocity.mul_(self.momentum).add_(gradient).add_(parameter.detach().view(-1), alpha=WEIGHT_DECAY)

    def exchange(self, gradients: List[Gradients]) -> None:
        raise NotImplementedError

    def state_dict(self) -> Dict[str, Any]:
        return {**super().state_dict(), "objects": [one.state_dict() for one in self.objects()],
                "velocities": self.velocities,
                "counts": (self.pushed, self.answered, self.steps, self.done)}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        super().load_state_dict(state)
        for one, saved in zip(self.objects(), state["objects"]):
            one.load_state_dict(saved)
        self.velocities = state["velocities"]
        self.pushed, self.answered, self.steps, self.done = state["counts"]


class Means(Compressed):
    """An all-reduce: means travel back, and every worker has the optimizer. gather: pushes go to all."""

    def __init__(self, o: Any, parameters: List[torch.nn.Parameter]) -> None:
        super().__init__(o, parameters)
        self.gather = o.way == "gather"
        config = exchange.Config(workers=o.workers, push=o.codec, pull=o.pull, gather=self.gather, seed=o.seed)
        self.ranks = [exchange.AllReduce(config, rank, self.tensors) for rank in range(o.workers)]

    def senders(self) -> List[Any]:
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
        self.apply(means)

class Owners(Compressed):
    """Each rank owns a part of the model and its optimizer (3LC, Figure 2). Changes of the model travel back, or its
    weights where floats do."""

    def __init__(self, o: Any, parameters: List[torch.nn.Parameter]) -> None:
        super().__init__(o, parameters)
        self.weights = [parameter.data.view(-1) for parameter in parameters]
        floats = [tensor.n < SMALL or o.codec == "raw" for tensor in self.tensors]
        self.tensors = [replace(tensor, pull="raw" if whole else None) for tensor, whole in zip(self.tensors, floats)]
        self.whole = floats
        config = exchange.Config(workers=o.workers, servers=o.workers, push=o.codec, pull=o.pull, seed=o.seed)
        self.workers = [exchange.Worker(config, rank, self.tensors) for rank in range(o.workers)]
        self.servers = [exchange.Server(config, rank, self.tensors) for rank in range(o.workers)]
        self.parts = [[torch.nn.Parameter(self.weights[part.tensor][part.first:part.first + part.n].clone())
                       for part in server.parts()] for server in self.servers]
        self.optimizers = [optimizer_of(part or [torch.nn.Parameter(torch.empty(0))], o) for part in self.parts]
        self.dense = o.dense_start or 0

    def senders(self) -> List[Any]:
        return self.workers

    def objects(self) -> List[Any]:
        return [*self.workers, *self.servers]

    def dense_step(self, gradients: List[Gradients]) -> None:
        if self.momentum:
            self.move(gradients)
            gradients = self.velocities
        means = [torch.zeros(tensor.n) for tensor in self.tensors]
        for of_worker in gradients:
            for mean, gradient in zip(means, of_worker):
                mean += gradient * torch.tensor(1 / len(gradients))  # as servers add them up
        for server, own, optimizer in zip(self.servers, self.parts, self.optimizers):
            for part, parameter in zip(server.parts(), own):
                parameter.grad = means[part.tensor][part.first:part.first + part.n]
            optimizer.step()
            for part, parameter in zip(server.parts(), own):
                self.weights[part.tensor][part.first:part.first + part.n] = parameter.detach()

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
    at_workers = o.momentum_correction
    return torch.optim.SGD(parameters, o.lr, momentum=0 if at_workers else 0.9,
                           weight_decay=0 if at_workers else WEIGHT_DECAY)


def save(o: Any, done: Dict[str, Any]) -> None:
    torch.save(done, f"{o.checkpoint}.new")
    take_place(o.checkpoint)


def train(o: Any) -> None:
    torch.manual_seed(o.seed)
    data = images.cifar10(o)
    workers = (Workers if o.device == "cpu" else GpuWorkers)(o, data, ResNet(o.layers))
    way = WAYS[o.way](o, workers.parameters)
    first, before, smooth = 0, 0.0, 0.0
    if o.checkpoint and o.checkpoint.exists():
        saved = torch.load(o.checkpoint)
        workers.load_state_dict(saved["workers"])
        way.load_state_dict(saved["way"])
        first, before, smooth = saved["progress"]
    start = time.perf_counter()
    for step in range(first, o.steps):
        gradients, loss = workers.gradients(step)
        smooth = 0.98 * smooth + 0.02 * loss if step else loss
        for optimizer in way.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = o.lr * rate(step, o.steps)
        way.step(gradients)
        if (step + 1) % o.evaluate_every and step + 1 != o.steps:
            continue
        seconds = before + time.perf_counter() - start
        with torch.no_grad():
            result = images.evaluate(workers.network(), data)
        worker_ratio, owner_ratio = way.ratios()
        row = {"way": o.way, "codec": o.codec if o.way not in ("floats", "fp16") else "", "pull": o.pull or "",
               "correction": o.momentum_correction,
               "size": o.size, "lr": o.lr, "seed": o.seed, "workers": o.workers, "step": step + 1,
               "steps": o.steps, "seconds": seconds, "train_loss": smooth,
               "push_bits": way.push_bits, "pull_bits": way.pull_bits, "worker_ratio": worker_ratio,
               "owner_ratio": owner_ratio, "layers": o.layers, **result}
        print(*(f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
                for key, value in row.items() if value != ""), flush=True)
        if o.csv:
            add_row(o.csv, COLUMNS, row)
        if o.bits:
            for count, pushed, answered in way.recent:
                add_row(o.bits, ["step", "push_bits", "pull_bits"],
                        {"step": count, "push_bits": pushed, "pull_bits": answered})
            way.recent.clear()
        if o.checkpoint:
            save(o, {"workers": workers.state_dict(), "way": way.state_dict(),
                     "progress": (step + 1, seconds, smooth)})
        before, start = seconds, time.perf_counter()


if __name__ == "__main__":
    options = OPTIONS.parse_args()
    check_codecs(OPTIONS, filter(None, (options.codec, options.pull)))
    if options.momentum_correction and options.way in ("floats", "fp16"):
        OPTIONS.error(f"--momentum-correction goes without --way {options.way}, which keeps nothing back")
    if options.dense_start is not None and options.way in ("floats", "fp16"):
        OPTIONS.error(f"--dense-start goes without --way {options.way}")
    torch.set_num_threads(1)
    train(options)
