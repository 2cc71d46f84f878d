#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Trains LeNet-5 on MNIST. --data: a folder with the four idx files, perhaps packed."""
import torch

import images
from models import LeNet5
from training import Task, run

TASK = Task(
    name="mnist", model=lambda o: LeNet5(),
    optimizer=lambda parameters, o: torch.optim.SGD(parameters, o.lr, momentum=0.9),
    loss=images.loss, load=images.mnist, batch=images.batch, evaluate=images.evaluate,
    defaults={"steps": 1000, "lr": 0.05, "batch": 64, "evaluate_every": 250})

if __name__ == "__main__":
    run(TASK)
