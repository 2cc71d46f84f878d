#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Trains a GPT, or an LSTM, to predict the next character. --data: a folder with a text file (*.txt). The last
tenth of the text is for validation."""
from options import options_of

OPTIONS = options_of(steps=1000, lr=1e-3, batch=16, evaluate_every=100)
OPTIONS.add_argument("--model", choices=("gpt", "lstm"), default="gpt")
OPTIONS.add_argument("--layers", type=int, default=4, help="of the GPT")
OPTIONS.add_argument("--width", type=int, default=128, help="of the GPT, which has a head for each 64, or 4")
OPTIONS.add_argument("--length", type=int, default=64, help="characters in a piece of text")
SIZES = tuple(OPTIONS.get_default(name) for name in ("layers", "width"))


def heads(width):
    return max(4, width // 64)


if __name__ == "__main__":
    chosen = OPTIONS.parse_args()  # before PyTorch is loaded: --help needs nothing
    if chosen.momentum_correction and not chosen.second_moment:
        OPTIONS.error("--momentum-correction goes with --second-moment: AdamW divides by a moment of what it gets")
    if chosen.model == "lstm" and (chosen.layers, chosen.width) != SIZES:
        OPTIONS.error("--layers and --width go without --model lstm")
    if chosen.width <= 0 or chosen.width % heads(chosen.width):
        OPTIONS.error("--width is a multiple of the heads")

from pathlib import Path  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from models import CharacterGPT, CharacterLSTM  # noqa: E402
from training import Task, chance, run  # noqa: E402

CHARACTERS = 128  # ASCII


class Text:
    def __init__(self, path, device):
        text = path.read_bytes()
        codes = torch.frombuffer(bytearray(min(code, CHARACTERS - 1) for code in text), dtype=torch.uint8).long()
        cut = len(codes) * 9 // 10
        self.train, self.test = codes[:cut].to(device), codes[cut:].to(device)


def network(o):
    if o.model == "lstm":
        return CharacterLSTM(CHARACTERS)
    return CharacterGPT(CHARACTERS, o.length, o.width, o.layers, heads(o.width))


def variant(o):
    """What rows call the model."""
    return o.model if (o.layers, o.width) == SIZES else f"gpt-{o.layers}x{o.width}"


def load(o):
    found = sorted(Path(o.data).glob("*.txt"))
    if not found:
        raise SystemExit(f"{o.data} has no text file")
    data = Text(found[0], o.device)
    data.length = o.length
    return data


def cut(codes, starts, length):
    """Pieces of the text, and the same one character later."""
    pieces = torch.stack([codes[start:start + length + 1] for start in starts])
    return pieces[:, :-1], pieces[:, 1:]


def batch(data, o, step, rank):
    starts = torch.randint(len(data.train) - o.length - 1, (o.batch,), generator=chance(o, step, rank))
    return cut(data.train, starts.tolist(), o.length)


def loss(model, pair):
    x, y = pair
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def evaluate(model, data):
    """The loss over 32,768 characters, in nats a character."""
    starts = torch.linspace(0, len(data.test) - data.length - 2, 32768 // data.length).long().tolist()
    total = sum(float(loss(model, cut(data.test, starts[i:i + 32], data.length))) * len(starts[i:i + 32])
                for i in range(0, len(starts), 32))
    return {"loss": total / len(starts)}


def optimizer(parameters, o):
    """AdamW, or what is left of it if ranks have the second moment, or both."""
    rest = 1 - o.momentum_correction
    if o.momentum_correction:
        return torch.optim.SGD(parameters, o.lr * rest, weight_decay=0.01 / rest)
    if o.second_moment:
        return torch.optim.SGD(parameters, o.lr, momentum=0.9, dampening=0.9, weight_decay=0.01)
    return torch.optim.AdamW(parameters, o.lr, betas=(0.9, 0.95))


TASK = Task(
    name="text-",
    model=network, optimizer=optimizer, loss=loss, load=load, batch=batch, evaluate=evaluate, variant=variant,
    options=OPTIONS)

if __name__ == "__main__":
    run(TASK)
