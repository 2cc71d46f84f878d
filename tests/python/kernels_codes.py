# SPDX-License-Identifier: MIT
"""Kernels of natural, int8, qsgd and onebit against the C library, for kernels.py: golden vectors, random tensors."""
import random

import numpy
import torch

import threelc
from device_residuals import kept
from kernels import DTYPES, NONFINITE, Accesses, records_of, steps_of
from test_device import SHAPES
from test_vectors import octets
from threelc.torch.kernels import _codes_triton, code_choice
from threelc.torch.kernels.codes import Codes, Words
from threelc.torch.kernels.operations import bits_of

SWEEPS = code_choice.CodeSweeps(_codes_triton.measure, _codes_triton.encode, _codes_triton.decode,
                                _codes_triton.add)
CODECS = ("natural:bits={bits9},rounding={rounding},shift={shift}", "qsgd:bits={bits4}", "onebit", "int8")


def once(touched, kind, tensors, *also):
    """Each value of tensors was touched once, and of `also` at least so."""
    counts = touched(kind, {**tensors, **dict(also)})
    names = [name for name, _ in also]
    for name, count in counts.items():
        assert (count >= 1).all() if name in names else (count == 1).all(), f"{kind} of {name}"


def measured(codes, residual, gradient):
    """What kernels measure, with what they touch."""
    n = len(gradient)
    found = torch.zeros(codes.measured(n), dtype=codes.measured_dtype)
    with Accesses() as touched:
        SWEEPS.measure(codes, residual, gradient, found)
    once(touched, "reads", {"gradient": gradient, **({} if residual is None else {"residual": residual})})
    if codes.name == "onebit":
        once(touched, "writes", {"found": found})
        touched("maxima", {})
    else:
        touched("writes", {})
        touched("maxima", {"found": found})
    others = torch.zeros_like(found)
    code_choice.OPERATIONS.measure(codes, residual, gradient, others)
    assert torch.equal(others.nan_to_num(-1, posinf=-2, neginf=-3), found.nan_to_num(-1, posinf=-2, neginf=-3))
    return codes.scalars(found.tolist(), n)


def encoded(codes, residual, gradient, scalars, words):
    """Payload and rest, by kernels, with what they touch, and by torch operations."""
    n, found = len(gradient), []
    scalars = torch.tensor(scalars)
    inputs = {"gradient": gradient, **({} if residual is None else {"residual": residual})}
    for sweeps in (SWEEPS, code_choice.OPERATIONS):
        rest = None if residual is None else torch.full_like(residual, 7)
        payload = torch.full((codes.size(n) + 1,), 0xaa, dtype=torch.uint8)[1:]
        with Accesses() as touched:
            code_choice.encode(sweeps, codes, residual, gradient, scalars, words, rest, payload)
        found.append((payload, rest))
        if sweeps is SWEEPS and n:
            # without a residual the means of onebit are not needed
            once(touched, "reads", inputs, *([("scalars", scalars)] if codes.sent == 1 else []),
                 *([("means", scalars)] if codes.name == "onebit" else []))
            counts = touched("writes", {"payload": payload, **({} if rest is None else {"rest": rest})})
            assert counts["payload"].max() == 1, "writes of the payload"
            around = codes.table_size(n) + codes.head * len(scalars) * (codes.name == "natural")
            assert counts["payload"].sum() == len(payload) - around, "writes of the payload"
            assert rest is None or (counts["rest"] == 1).all(), "writes of the rest"
    return found


def compare(codec, residual, gradient, words=Words(1, 0), checksum=False):
    """Frame and residual of the C library and of the kernels."""
    codes, n, before = Codes.of(codec), len(gradient), None if residual is None else residual.clone()
    scalars = measured(codes, residual, gradient)
    wanted = None if residual is None else residual.to(torch.float32, copy=True)
    context = threelc.Context(n, codec, gradient.dtype, residual=wanted, feedback=residual is not None,
                              seed=words.seed, checksum=checksum)
    for _ in range(words.step):  # which the residual is not to feel
        context.compress(torch.zeros_like(gradient))
        if wanted is not None:
            wanted.copy_(before)
    if not torch.isfinite(torch.tensor(scalars)).all():
        try:
            context.compress(gradient.contiguous())
        except threelc.NonFiniteError:
            return
        raise AssertionError(f"scalars {scalars}, and the library takes these values")
    frame = context.compress(gradient.contiguous())
    for payload, rest in encoded(codes, residual, gradient, scalars, words):
        assert codes.frame(payload, scalars, n, gradient.dtype, checksum) == frame, "frames differ"
        assert rest is None or torch.equal(bits_of(rest), bits_of(kept(wanted, rest.dtype))), "residuals differ"
    assert residual is None or torch.equal(bits_of(residual), bits_of(before)), "the residual was written"
    decoded(codes, payload, n, frame)


def decoded(codes, payload, n, frame):
    """Values, by kernels, with what they touch, and by torch operations."""
    scalars = codes.read(payload, n, frame[:threelc.peek(frame).header_size])
    for dtype in DTYPES.values():
        wanted = bits_of(threelc.decompress(frame, torch.empty(n, dtype=dtype)))
        for sweeps in (SWEEPS, code_choice.OPERATIONS):
            out = torch.full((n + 1,), 7, dtype=dtype)[1:]
            with Accesses() as touched, numpy.errstate(over="ignore"):  # float16 ends at 65504
                sweeps.decode(codes, codes.planes(payload, n), scalars, out)
            assert torch.equal(bits_of(out), wanted), f"decoded {dtype} differ"
            if sweeps is SWEEPS and n:
                once(touched, "writes", {"out": out})
                counts = touched("reads", {"payload": payload, "scalars": scalars})
                units = len(range(0, n, codes.block or n))
                assert counts["payload"].max() == 1, "reads of the payload"
                assert counts["payload"].sum() == len(payload) - codes.table_size(n) - codes.head * units
                assert (counts["scalars"] >= 1).all(), "reads of scalars"
    added(codes, payload, n, frame, scalars)


def added(codes, payload, n, frame, scalars):
    """Sums."""
    wanted = torch.rand(n).pow(9)
    sums = [torch.cat([torch.ones(1), wanted])[1:] for _ in range(2)]
    threelc.decompress_add(frame, wanted, code_choice.WEIGHT)
    for sweeps, total in zip((SWEEPS, code_choice.OPERATIONS), sums):
        with Accesses() as touched:
            sweeps.add(codes, codes.planes(payload, n), scalars, code_choice.WEIGHT, total)
        assert torch.equal(bits_of(total), bits_of(wanted)), "sums differ"
        if sweeps is SWEEPS and n:
            once(touched, "writes", {"out": total})


def drawn(codec, seed):
    """A codec, residual or None, gradient, and words. Tensors begin anywhere in their memory."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    n = draw.choice((0, 1, draw.randint(2, 40), draw.randint(41, 3000), draw.randint(3001, 10000),
                     draw.choice((2048, 4096)) * draw.randint(1, 3) + draw.randint(-1, 1)))
    codec = codec.format(bits9=draw.choice((8, 9)), bits4=draw.choice((8, 4)), shift=draw.choice((0, 1, 60, 117)),
                         rounding=draw.choice(("random", "nearest")))
    if draw.random() < 0.5:
        block = draw.choice((draw.randint(1, 40), draw.randint(41, 5000), 8 * draw.randint(1, 700)))
        codec += f"{',' if ':' in codec else ':'}block={block}"
        n -= draw.choice((0, n % block))  # so that the last block is whole
    dtype = draw.choice(tuple(DTYPES.values()))
    shapes = [SHAPES[draw.choice(tuple(SHAPES))] for _ in range(2)]
    gradient = shapes[0](torch.randn(n)).clamp(-6e4, 6e4).to(dtype)
    residual = draw.choice((None, torch.zeros(n), shapes[1](torch.randn(n)), shapes[0](torch.randn(n))))
    if n and draw.random() < 0.1:
        gradient[draw.randrange(n)] = draw.choice(NONFINITE)
    if residual is not None:
        residual = residual.to(draw.choice((torch.float32, torch.bfloat16)))
    words = Words(draw.choice((draw.getrandbits(64), draw.getrandbits(31))), draw.choice((0, 0, 1, 2)))
    return codec, *(None if tensor is None else torch.cat([torch.ones(first, dtype=tensor.dtype), tensor])[first:]
                    for tensor, first in ((residual, draw.randrange(8)), (gradient, draw.randrange(8)))), words


def trial(codec, seed):
    case = drawn(codec, seed)
    try:
        compare(*case)
    except Exception as error:
        raise AssertionError(f"{case[0]}, seed {seed}: {error}") from error


def golden():
    return records_of(Codes.of)


def replay(record):
    r = dict(record)
    codes, dtype, n = Codes.of(r["codec"]), DTYPES[r["dtype"]], int(r["n"])
    residual, gradients = steps_of(record)
    residual = residual if r["feedback"] == "1" else None
    for step, (i, gradient) in enumerate(gradients):
        scalars, payload, residual = code_choice.coded(SWEEPS, codes, residual, gradient, Words(int(r["seed"]), step))
        frame = codes.frame(payload, scalars, n, dtype, r["checksum"] == "1")
        assert frame == octets(record[i][1]), r["name"]
        out = torch.empty(n)
        SWEEPS.decode(codes, codes.planes(payload, n), codes.read(payload, n, frame[:threelc.peek(frame).header_size]),
                      out)
        assert out.numpy().tobytes() == octets(record[i + 1][1]), r["name"]
    if residual is not None:
        assert residual.numpy().tobytes() == octets(r["residual"]), r["name"]
