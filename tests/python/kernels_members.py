# SPDX-License-Identifier: MIT
"""Kernels of topk, sbc and random-sparse, and torch operations, against the C library, for kernels.py: golden vectors,
and random tensors."""
import random

import kernels  # before triton is imported
import torch

import threelc
from device_residuals import kept
from test_device import SHAPES
from test_vectors import octets
from threelc.torch._device.crossing import put_members
from threelc.torch.kernels import _members_triton, members
from threelc.torch.kernels.operations import bits_of
from threelc.torch.kernels.selector import Selector

SWEEPS = members.Sweeps(_members_triton.draw, _members_triton.counts, _members_triton.lists)
CODECS = ("topk", "topk:p=0.02+golomb", "topk:p=0.3,bits=1", "topk:p=0.001,bits=2+golomb", "topk:p=1",
          "topk:select=exact,p=0.07", "topk:select=exact,bits=2,p=0.5+golomb", "topk:select=exact,p=1", "sbc",
          "sbc:p=0.3", "sbc:p=1", "random-sparse", "random-sparse:p=0.01", "random-sparse:p=1", "topk:block=100",
          "topk:p=0.2,bits=2,block=3000+golomb", "topk:p=0.3,block=4097", "topk:select=exact,p=0.07,block=7",
          "sbc:p=0.3,block=64", "sbc:block=2500", "random-sparse:block=50")
TIES = {"ties": lambda x: (2 * x).round() / 8, "few": lambda x: x * (torch.rand(x.shape) < 0.05),
        "positive": torch.abs, "wide": lambda x: torch.ldexp(x, torch.randint(-140, 60, x.shape))}
SEED = 2**64 - 12345


def once(touched, kind, tensors, others):
    """Each value of tensors is touched once; of others any number of times."""
    found = touched(kind, {**tensors, **others})
    assert all((found[name] == 1).all() for name in tensors), kind


def draw(residual, gradient, samples, seed, step, first=0, units=1):
    with kernels.Accesses() as touched:
        keys = SWEEPS.draw(residual, gradient, samples, seed, step, first, units)
    once(touched, "writes", {"keys": keys}, {})
    count = units * samples
    assert touched.bytes("reads") <= (4 + gradient.element_size()) * count + 16 * -(-count // 1024), "draw: reads"
    return keys


def inputs(residual, gradient):
    return {"gradient": gradient, **({} if residual is None else {"residual": residual})}


def counts(residual, gradient, least, chance, block=0):
    with kernels.Accesses() as touched:
        largest, found = SWEEPS.counts(residual, gradient, least, chance, block)
    once(touched, "reads", inputs(residual, gradient), {"least": least})
    once(touched, "writes", {"largest": largest, "counts": found}, {})
    return largest, found


def lists(residual, gradient, least, starts, equals, ties, chance, rest, k, whole, block=0):
    with kernels.Accesses() as touched:
        positions, values = SWEEPS.lists(residual, gradient, least, starts, equals, ties, chance, rest, k, whole, block)
    once(touched, "reads", inputs(residual, gradient),
         {"starts": starts, "least": least, "equals": equals, **({} if ties is None else {"ties": ties})})
    once(touched, "writes", {"positions": positions, "values": values, **({} if rest is None else {"rest": rest})}, {})
    return positions, values


WAYS = (members.Sweeps(draw, counts, lists), members.OPERATIONS)


def compare(codec, residual, gradient, seed=0, steps=1, checksum=False):
    """Frames and residuals of the C library and of both ways. Returns how many values the last one sends."""
    selector, wanted, k = Selector.of(codec), None if residual is None else residual.to(torch.float32, copy=True), None
    context = threelc.Context(len(gradient), codec, gradient.dtype, residual=wanted, feedback=residual is not None,
                              checksum=checksum, seed=seed)
    for step in range(steps):
        before = None if wanted is None else kept(wanted, residual.dtype).clone()
        if wanted is not None:
            wanted.copy_(before)
        try:
            frame = context.compress(gradient.contiguous())
        except threelc.NonFiniteError:
            frame = None
        for way in WAYS:
            given = None if before is None else residual.copy_(before)
            chosen = members.choose(way, selector, given, gradient, seed, step)
            assert given is None or torch.equal(bits_of(given), bits_of(before)), "the residual was written"
            assert (chosen is None) == (frame is None), "what is not finite"
            if chosen is None:
                continue
            k = len(chosen.positions)
            assert members.frames(selector, [chosen], gradient.dtype, checksum) == [frame], "frames differ"
            assert wanted is None or torch.equal(
                bits_of(chosen.rest), bits_of(kept(wanted, residual.dtype))), "residuals differ"
        for dtype in kernels.DTYPES.values() if frame else ():
            out = torch.full((len(gradient) + 1,), 7, dtype=dtype)[1:]
            put_members([frame], [out], torch.device("cpu"))
            assert torch.equal(bits_of(out), bits_of(threelc.decompress(frame, torch.empty_like(out)))), f"put {dtype}"
    return k


def drawn(seed):
    """Residual and gradient. They begin anywhere in their memory."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    n = draw.choice((0, 1, draw.randint(2, 40), draw.randint(41, 4096), draw.randint(4097, 9000),
                     1024 * draw.randint(1, 9) + draw.randint(-1, 1)))
    dtype = draw.choice(tuple(kernels.DTYPES.values()))
    kinds = {**SHAPES, **TIES}
    shapes = [kinds[draw.choice(tuple(kinds))] for _ in range(2)]
    gradient = shapes[0](torch.randn(n)).clamp(-6e4, 6e4).to(dtype)
    residual = draw.choice((None, torch.zeros(n), shapes[1](torch.randn(n)), shapes[0](torch.randn(n))))
    if n and draw.random() < 0.1:
        (gradient if residual is None else draw.choice((gradient, residual)))[draw.randrange(n)] = draw.choice(
            kernels.NONFINITE)
    if residual is not None:
        residual = residual.to(draw.choice((torch.float32, torch.bfloat16)))
    return tuple(None if tensor is None else torch.cat([torch.ones(first, dtype=tensor.dtype), tensor])[first:]
                 for tensor, first in ((residual, draw.randrange(8)), (gradient, draw.randrange(8))))


def trial(codec, seed):
    try:
        compare(codec, *drawn(seed), (SEED + seed) % 2**64, 1 + seed % 2, bool(seed % 3))
    except Exception as error:
        raise AssertionError(f"{codec}, seed {seed}: {error}") from error


def golden():
    return kernels.records_of(Selector.of)


def replay(record):
    """By each way."""
    r = dict(record)
    selector, dtype = Selector.of(r["codec"]), kernels.DTYPES[r["dtype"]]
    for way in WAYS:
        residual, gradients = kernels.steps_of(record)
        residual = residual if r["feedback"] == "1" else None
        for step, (i, gradient) in enumerate(gradients):
            chosen = members.choose(way, selector, residual, gradient, int(r["seed"]), step)
            frame, = members.frames(selector, [chosen], dtype, r["checksum"] == "1")
            assert frame == octets(record[i][1]), r["name"]
            if r["feedback"] == "1":
                residual = chosen.rest
        if r["feedback"] == "1":
            assert residual.numpy().tobytes() == octets(r["residual"]), r["name"]
