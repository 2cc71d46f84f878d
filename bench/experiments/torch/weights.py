#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Records weights of a GPT on characters that is trained with AdamW, for tlc-bench --delta. The model is first trained
at 1e-3. From there it goes on at each of several learning rates, each time from the same weights and moments. Weights
are rounded to bfloat16, the optimizer keeps float32. --out gets a folder `base`, and for each learning rate R and
number of steps K a folder `lrR-K`, all with a file NAME.npy for each tensor: the bits as 16-bit integers."""
import argparse
import copy
import time
from fnmatch import fnmatch
from pathlib import Path

from options import Parser, folder


def options():
    parser = Parser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--data", type=folder, required=True, help="folder with a text file (*.txt)")
    parser.add_argument("--out", type=Path, required=True, help="folder for the weights")
    parser.add_argument("--steps", type=int, default=2000, help="before the weights are recorded")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=64, help="characters in a piece of text")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tensors", nargs="*", default=["*"], metavar="PATTERN", help="which are written")
    parser.set_defaults(device="cpu")
    return parser.parse_args()


if __name__ == "__main__":
    options()  # before PyTorch is loaded: --help needs nothing

import numpy as np  # noqa: E402
import torch  # noqa: E402

import text  # noqa: E402
from models import CharacterGPT  # noqa: E402

RATES = ("1e-3", "1e-4", "1e-5", "1e-6")
STEPS = (1, 8)


def train(model, optimizer, data, o, steps):
    for step in steps:
        optimizer.zero_grad()
        text.loss(model, text.batch(data, o, step, 0)).backward()
        optimizer.step()


def write(model, folder, patterns):
    folder.mkdir(parents=True, exist_ok=True)
    for name, parameter in model.named_parameters():
        if any(fnmatch(name, pattern) for pattern in patterns):
            bits = parameter.detach().bfloat16().view(torch.int16).numpy().view(np.uint16)
            np.save(folder / f"{name}.npy", bits.reshape(-1))


def main():
    o = options()
    start = time.monotonic()
    data = text.load(o)
    torch.manual_seed(o.seed)
    model = CharacterGPT(text.CHARACTERS, o.length)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, betas=(0.9, 0.95))
    train(model, optimizer, data, o, range(o.steps))
    with torch.no_grad():
        loss = text.evaluate(model.eval(), data)["loss"]
    write(model, o.out / "base", o.tensors)
    for rate in RATES:
        later = copy.deepcopy(model)
        follower = torch.optim.AdamW(later.parameters(), float(rate), betas=(0.9, 0.95))
        follower.load_state_dict(optimizer.state_dict())
        for group in follower.param_groups:
            group["lr"] = float(rate)
        done = 0
        for steps in STEPS:
            train(later, follower, data, o, range(o.steps + done, o.steps + steps))
            write(later, o.out / f"lr{rate}-{steps}", o.tensors)
            done = steps
    print(f"{o.steps} steps, loss {loss:.3f} on the validation text, {time.monotonic() - start:.0f} s, "
          f"{sum(p.numel() for p in model.parameters())} weights")


if __name__ == "__main__":
    main()
