# SPDX-License-Identifier: MIT
"""MNIST and CIFAR-10 from the files of their publishers, packed (gzip, xz) or not."""
import gzip
import lzma
from pathlib import Path

import torch
import torch.nn.functional as F

from training import chance


class Images:
    """Images and labels for training and for the test; on a device."""

    def __init__(self, train, test, device):
        self.train = tuple(tensor.to(device) for tensor in train)
        self.test = tuple(tensor.to(device) for tensor in test)


def content(folder, name):
    """The bytes of a file, whose name may end in .gz or .xz."""
    for path, opened in ((Path(folder, name), open), (Path(folder, name + ".gz"), gzip.open),
                         (Path(folder, name + ".xz"), lzma.open)):
        if path.exists():
            with opened(path, "rb") as file:
                return bytearray(file.read())
    raise SystemExit(f"{folder} has no {name}")


def mnist(o):
    def part(name):
        pixels = torch.frombuffer(content(o.data, f"{name}-images-idx3-ubyte"), dtype=torch.uint8, offset=16)
        labels = torch.frombuffer(content(o.data, f"{name}-labels-idx1-ubyte"), dtype=torch.uint8, offset=8)
        return pixels.view(-1, 1, 28, 28).float() / 255, labels.long()

    return Images(part("train"), part("t10k"), o.device)


def cifar10(o):
    """Images of o.size x o.size: those of 32 x 32 pixels, or means of their pixels."""
    def part(names):
        records = torch.cat([torch.frombuffer(content(o.data, f"{name}.bin"), dtype=torch.uint8) for name in names])
        records = records.view(-1, 3073)
        return records[:, 1:].reshape(-1, 3, 32, 32).float() / 255, records[:, 0].long()

    names = [f"data_batch_{i}" for i in range(1, 6)
             if any(Path(o.data, f"data_batch_{i}.bin{end}").exists() for end in ("", ".gz", ".xz"))]
    (images, labels), (test, test_labels) = part(names), part(["test_batch"])
    images, test = (F.adaptive_avg_pool2d(part, o.size) for part in (images, test))
    mean, deviation = images.mean((0, 2, 3), keepdim=True), images.std((0, 2, 3), keepdim=True)
    return Images(((images - mean) / deviation, labels), ((test - mean) / deviation, test_labels), o.device)


def batch(data, o, step, rank, augment=False):
    """augment: a random half is mirrored, and all are shifted by up to an eighth of their size."""
    draw = chance(o, step, rank)
    images, labels = data.train
    chosen = torch.randint(len(labels), (o.batch,), generator=draw).to(labels.device)
    x, y = images[chosen], labels[chosen]
    if augment:
        mirrored = (torch.rand(o.batch, generator=draw) < 0.5).to(x.device)
        x = torch.where(mirrored.view(-1, 1, 1, 1), x.flip(3), x)
        size = x.shape[-1]
        edge = size // 8
        down, right = torch.randint(0, 2 * edge + 1, (2,), generator=draw).tolist()
        x = F.pad(x, (edge,) * 4)[:, :, down:down + size, right:right + size]
    return x, y


def sgd(parameters, o, decay=0.0):
    """With momentum, of the optimizer or of the ranks. Weight decay of the optimizer has no momentum of the ranks, so
    there is so much more of it."""
    momentum = o.momentum_correction
    return torch.optim.SGD(parameters, o.lr, momentum=0.0 if momentum else 0.9, weight_decay=decay / (1 - momentum))


def loss(model, pair):
    x, y = pair
    return F.cross_entropy(model(x), y)


def evaluate(model, data):
    """Loss and accuracy in percent, of the test images."""
    images, labels = data.test
    total = right = 0.0
    for x, y in zip(images.split(500), labels.split(500)):
        out = model(x)
        total += float(F.cross_entropy(out, y, reduction="sum"))
        right += float((out.argmax(1) == y).sum())
    return {"loss": total / len(labels), "accuracy": 100 * right / len(labels)}
