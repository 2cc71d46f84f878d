#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Federated training in one process: LeNet-5 on MNIST with many clients, of which some train in a round.

Federated averaging (McMahan et al., 2017) and SBC's Algorithm 1 (Sattler et al., 2018). In a round each participant
trains from the server's model for --every steps and sends the change; the server adds the mean. A client keeps its
optimizer, and what it has not sent. --data: a folder with the four idx files, perhaps packed.
"""
from pathlib import Path

from options import common

IMAGES = {"all": "each client draws from all images, as the ranks of mnist.py",
          "iid": "each has images of its own, drawn at random",
          "two-classes": "each has two pieces of the images, which were sorted by class"}

OPTIONS = common()
OPTIONS.add_argument("--codec", default="sbc", help="of the changes that clients send")
OPTIONS.add_argument("--workers", type=int, default=100, help="clients")
OPTIONS.add_argument("--participants", type=int, metavar="CLIENTS", help="in a round, drawn anew for each; else all")
OPTIONS.add_argument("--every", type=int, default=10, metavar="STEPS", help="of a participant in a round")
OPTIONS.add_argument("--images", choices=IMAGES, default="iid", help="; ".join(f"{k}: {v}" for k, v in IMAGES.items()))
OPTIONS.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd", help="of each client; sgd has momentum 0.9")
OPTIONS.add_argument("--mask-momentum", action="store_true",
                     help="momentum becomes 0 where a value was sent, as in SBC")
OPTIONS.add_argument("--error-reset", type=float, default=1.0, metavar="SHARE",
                     help="of what a client has not sent, that it trains on from, beside the server's model")
OPTIONS.add_argument("--checkpoint", type=Path, help="file: saves at each evaluation, and goes on from there")
OPTIONS.set_defaults(lr=0.01, batch=10, device="cpu")

if __name__ == "__main__":
    chosen = OPTIONS.parse_args()  # before PyTorch is loaded: --help needs nothing
    if chosen.steps % chosen.every or chosen.evaluate_every % chosen.every:
        OPTIONS.error("--steps and --evaluate-every are multiples of --every")
    if chosen.participants is not None and not 1 <= chosen.participants <= chosen.workers:
        OPTIONS.error(f"--participants: from 1 to {chosen.workers}, the number of --workers")

import random  # noqa: E402
import time  # noqa: E402
from typing import Any, Dict, List, Tuple  # noqa: E402

import torch  # noqa: E402

import images  # noqa: E402
from models import LeNet5  # noqa: E402
from training import add_row, check_codecs, rate, settings, take_place  # noqa: E402
import threelc.exchange  # noqa: E402

COLUMNS = ["images", "codec", "pull", "optimizer", "every", "participants", "error_reset", "lr", "seed", "workers",
           "step", "steps", "seconds", "train_loss", "loss", "accuracy", "push_bits", "pull_bits"]
SMALL = 256  # values; smaller tensors travel as floats, as in threelc.torch
MOMENTA = ("momentum_buffer", "exp_avg")  # names of torch's optimizers for it


def codec_of(values: int, codec: str) -> str:
    return "raw" if values < SMALL else codec


def residual_of(context: threelc.Context) -> torch.Tensor:
    """What was not sent yet; 0 where the codec keeps nothing."""
    return torch.zeros(()) if context.residual is None else torch.frombuffer(context.residual, dtype=torch.float32)


def shares_of(data: images.Images, o: Any) -> List[images.Images]:
    """The images of each client. All have the same number."""
    if o.images == "all":
        return [data] * o.workers
    pixels, labels = data.train
    draw = torch.Generator().manual_seed(o.seed)
    if o.images == "iid":
        pieces = torch.randperm(len(labels), generator=draw)
        pieces = pieces[:len(labels) // o.workers * o.workers].view(o.workers, -1)
    else:
        size = len(labels) // (2 * o.workers)
        pieces = torch.sort(labels, stable=True).indices[:2 * o.workers * size].view(2 * o.workers, size)
        pieces = pieces[torch.randperm(2 * o.workers, generator=draw)].view(o.workers, -1)
    return [images.Images((pixels[piece], labels[piece]), data.test, o.device) for piece in pieces]


class Client:
    """What one has, but for the model, in which clients train one after the other."""

    def __init__(self, o: Any, number: int, parameters: List[torch.nn.Parameter]) -> None:
        self.o, self.number, self.parameters = o, number, parameters
        self.optimizer = torch.optim.Adam(parameters, o.lr) if o.optimizer == "adam" else \
            torch.optim.SGD(parameters, o.lr, momentum=0.9)
        self.contexts = [threelc.Context(p.numel(), codec_of(p.numel(), o.codec),
                                         seed=(o.seed * o.workers + number) * len(parameters) + i)
                         for i, p in enumerate(parameters)]

    def round(self, model: LeNet5, common: List[torch.Tensor], data: images.Images, first: int,
              room: bytearray) -> Tuple[List[bytes], float]:
        """The local steps. Returns frames of what they changed, and the loss of the last one."""
        starts = [torch.add(values, residual_of(context), alpha=self.o.error_reset)
                  for values, context in zip(common, self.contexts)]
        for parameter, start in zip(self.parameters, starts):
            parameter.data.view(-1).copy_(start)
        for step in range(first, first + self.o.every):
            for group in self.optimizer.param_groups:
                group["lr"] = self.o.lr * rate(step, self.o.steps)
            self.optimizer.zero_grad()
            loss = images.loss(model, images.batch(data, self.o, step, self.number))
            loss.backward()
            self.optimizer.step()
        frames = []
        for context, parameter, start in zip(self.contexts, self.parameters, starts):
            length = context.compress_into(parameter.data.view(-1) - start, room)
            frames.append(bytes(memoryview(room)[:length]))
        if self.o.mask_momentum:
            self.mask(frames)
        return frames, float(loss)

    def mask(self, frames: List[bytes]) -> None:
        for frame, parameter in zip(frames, self.parameters):
            state = self.optimizer.state[parameter]
            if codec_of(parameter.numel(), self.o.codec) != "raw":
                threelc.mask(frame, next(state[name] for name in MOMENTA if name in state).view(-1))

    def state_dict(self) -> Dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict(), "contexts": [one.state_dict() for one in self.contexts]}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        for context, saved in zip(self.contexts, state["contexts"]):
            context.load_state_dict(saved)


class Federation:
    """The server's model, and the clients that have been in a round."""

    def __init__(self, o: Any, data: images.Images) -> None:
        self.o, self.shares, self.model = o, shares_of(data, o), LeNet5()
        self.parameters = list(self.model.parameters())
        self.common = [parameter.detach().flatten().clone() for parameter in self.parameters]
        self.clients: Dict[int, Client] = {}
        pull = o.pull or threelc.exchange.pull_codec(o.codec)
        self.answers = [threelc.Context(p.numel(), codec_of(p.numel(), pull), seed=o.seed + i)
                        for i, p in enumerate(self.parameters)]
        self.pushed = self.answered = 0.0  # bytes, of a participant

    def client(self, number: int) -> Client:
        if number not in self.clients:
            self.clients[number] = Client(self.o, number, self.parameters)
        return self.clients[number]

    def participants(self, first: int) -> List[int]:
        """Of the round that begins with this step."""
        draw = random.Random(f"{self.o.seed}/{first // self.o.every}")
        return sorted(draw.sample(range(self.o.workers), self.o.participants or self.o.workers))

    def round(self, first: int) -> float:
        """Returns the mean loss of the participants' last steps."""
        taken = self.participants(first)
        clients = [self.client(number) for number in taken]
        room = bytearray(max(context.bound for context in clients[0].contexts))
        sent, losses = zip(*(client.round(self.model, self.common, self.shares[client.number], first, room)
                             for client in clients))
        weights = [1 / len(taken)] * len(taken)
        for i, (values, answer) in enumerate(zip(self.common, self.answers)):
            mean = torch.zeros(len(values))
            threelc.decompress_add_many([frames[i] for frames in sent], mean, weights, from_zero=True)
            frame = answer.compress(mean)
            threelc.decompress(frame, mean)
            values += mean
            self.answered += len(frame)
        self.pushed += sum(len(frame) for frames in sent for frame in frames) / len(taken)
        return sum(losses) / len(losses)

    def network(self) -> LeNet5:
        """With the server's model."""
        for parameter, values in zip(self.parameters, self.common):
            parameter.data.view(-1).copy_(values)
        return self.model

    def bits(self, steps: int) -> Dict[str, float]:
        """Of a value and step, of what a participant sends and gets."""
        count = sum(map(len, self.common)) * steps
        return {"push_bits": 8 * self.pushed / count, "pull_bits": 8 * self.answered / count}

    def state_dict(self) -> Dict[str, Any]:
        return {"common": self.common, "clients": {number: one.state_dict() for number, one in self.clients.items()},
                "answers": [one.state_dict() for one in self.answers], "bytes": (self.pushed, self.answered)}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.common = state["common"]
        for number, saved in state["clients"].items():
            self.client(number).load_state_dict(saved)
        for answer, saved in zip(self.answers, state["answers"]):
            answer.load_state_dict(saved)
        self.pushed, self.answered = state["bytes"]


def save(o: Any, done: Dict[str, Any]) -> None:
    torch.save(done, f"{o.checkpoint}.new")
    take_place(o.checkpoint)


def train(o: Any) -> None:
    torch.manual_seed(o.seed)
    data = images.mnist(o)
    federation = Federation(o, data)
    first, before, smooth = 0, 0.0, 0.0
    if o.checkpoint and o.checkpoint.exists():
        saved = torch.load(o.checkpoint)
        if saved["options"] != settings(o):
            raise SystemExit(f"{o.checkpoint} is of a run with other options: {saved['options']}")
        federation.load_state_dict(saved["federation"])
        first, before, smooth = saved["progress"]
    start = time.perf_counter()
    for begin in range(first, o.steps, o.every):
        loss = federation.round(begin)
        smooth = 0.98 * smooth + 0.02 * loss if begin else loss
        step = begin + o.every
        if step % o.evaluate_every and step != o.steps:
            continue
        seconds = before + time.perf_counter() - start
        with torch.no_grad():
            result = images.evaluate(federation.network(), data)
        row = {"images": o.images, "codec": o.codec, "pull": o.pull or "", "optimizer": o.optimizer, "every": o.every,
               "participants": o.participants or o.workers, "error_reset": o.error_reset, "lr": o.lr, "seed": o.seed,
               "workers": o.workers, "step": step, "steps": o.steps, "seconds": seconds, "train_loss": smooth,
               **federation.bits(step), **result}
        print(*(f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
                for key, value in row.items() if value != ""), flush=True)
        if o.csv:
            add_row(o.csv, COLUMNS, row)
        if o.checkpoint:
            save(o, {"options": settings(o), "federation": federation.state_dict(),
                     "progress": (step, seconds, smooth)})
        before, start = seconds, time.perf_counter()


if __name__ == "__main__":
    options = OPTIONS.parse_args()
    check_codecs(OPTIONS, filter(None, (options.codec, options.pull)))
    torch.set_num_threads(1)
    train(options)
