#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Trains ResNet-20 on CIFAR-10. --data: a folder with data_batch_*.bin and test_batch.bin, perhaps packed."""
from options import options_of

OPTIONS = options_of(steps=1500, lr=0.1, batch=32, evaluate_every=250)
OPTIONS.add_argument("--size", type=int, default=32, help="of images; smaller ones are means of pixels")

if __name__ == "__main__":
    OPTIONS.parse_args()  # before PyTorch is loaded: --help needs nothing

from functools import partial  # noqa: E402

import images  # noqa: E402
from models import ResNet  # noqa: E402
from training import Task, run  # noqa: E402

TASK = Task(
    name="cifar", model=lambda o: ResNet(),
    optimizer=partial(images.sgd, decay=1e-4), loss=images.loss, load=images.cifar10,
    batch=partial(images.batch, augment=True), evaluate=images.evaluate,
    variant=lambda o: "" if o.size == OPTIONS.get_default("size") else f"-{o.size}x{o.size}", options=OPTIONS)

if __name__ == "__main__":
    run(TASK)
