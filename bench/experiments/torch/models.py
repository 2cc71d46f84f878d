# SPDX-License-Identifier: MIT
"""The networks of the experiments."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """Two convolutions and a short cut, which pads new channels with zeros (He et al., 2016, option A)."""

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.stride, self.more = stride, channels - channels_in

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        short = F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, 0, self.more))
        return F.relu(y + short)


class ResNet(nn.Module):
    """For images of 32 x 32 (He et al., 2016): ResNet-20 has 269,722 parameters, ResNet-110 has 1,727,962."""

    def __init__(self, layers=20):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        blocks = (layers - 2) // 6  # of each width
        widths = [16] + [16] * blocks + [32] * blocks + [64] * blocks
        self.blocks = nn.Sequential(*(Block(a, b, 1 if a == b else 2) for a, b in zip(widths, widths[1:])))
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = self.blocks(F.relu(self.norm(self.conv(x))))
        return self.head(x.mean((2, 3)))


class LeNet5(nn.Module):
    """LeNet-5 as in the SBC paper (20, 50, 500 units): 431,080 parameters."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.hidden, self.head = nn.Linear(800, 500), nn.Linear(500, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.head(F.relu(self.hidden(x.flatten(1))))


class CharacterLSTM(nn.Module):
    """Predicts the next character with two layers of LSTM."""

    def __init__(self, characters, width=256):
        super().__init__()
        self.embedding = nn.Embedding(characters, 64)
        self.lstm = nn.LSTM(64, width, 2, batch_first=True)
        self.head = nn.Linear(width, characters)

    def forward(self, x):
        return self.head(self.lstm(self.embedding(x))[0])


class Attention(nn.Module):
    """Each character looks at those before it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.inward(x).split(width, 2))
        score = q @ k.transpose(2, 3) / math.sqrt(width // self.heads)
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weight = score.masked_fill(later, -math.inf).softmax(3)
        return self.outward((weight @ v).transpose(1, 2).reshape(batch, length, width))


class CharacterGPT(nn.Module):
    """A GPT on characters (Radford et al., 2019): 4 layers of width 128 have 834,432 parameters, 6 of width 384 have
    10.8 million."""

    def __init__(self, characters, length, width=128, layers=4, heads=4):
        super().__init__()
        self.embedding, self.position = nn.Embedding(characters, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(nn.ModuleDict({
            "norm1": nn.LayerNorm(width), "attention": Attention(width, heads), "norm2": nn.LayerNorm(width),
            "hidden": nn.Linear(width, 4 * width), "out": nn.Linear(4 * width, width)}) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, 0, 0.02)
                if isinstance(module, nn.Linear):
                    nn.init.zeros_(module.bias)

    def forward(self, x):
        x = self.embedding(x) + self.position(torch.arange(x.shape[1], device=x.device))
        for layer in self.layers:
            x = x + layer["attention"](layer["norm1"](x))
            x = x + layer["out"](F.gelu(layer["hidden"](layer["norm2"](x))))
        return self.head(self.norm(x))
