#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Trains LeNet-5 on MNIST. --data: a folder with the four idx files, perhaps packed."""
from options import options_of

OPTIONS = options_of(steps=1000, lr=0.05, batch=64, evaluate_every=250)
OPTIONS.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd")

if __name__ == "__main__":
    OPTIONS.parse_args()  # before PyTorch is loaded: --help needs nothing

import torch  # noqa: E402

import images  # noqa: E402
from models import LeNet5  # noqa: E402
from training import Task, run  # noqa: E402


def optimizer(parameters, o):
    return torch.optim.Adam(parameters, o.lr) if o.optimizer == "adam" else images.sgd(parameters, o)


TASK = Task(
    name="mnist", model=lambda o: LeNet5(), optimizer=optimizer, loss=images.loss, load=images.mnist,
    batch=images.batch, evaluate=images.evaluate, options=OPTIONS)

if __name__ == "__main__":
    run(TASK)
