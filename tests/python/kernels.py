# SPDX-License-Identifier: MIT
"""Triton's kernels in Triton's interpreter against the C library: golden vectors, and random tensors.

kernels.py [COUNT [SEED]]

COUNT: random tensors for each codec, 1000 by default. Each tells its seed if it fails. What a kernel reads and writes
is recorded: each value once in each sweep, and nothing else."""
import argparse
import os
import random
import sys

os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import numpy
import torch
import triton.runtime.interpreter

import threelc
from device_residuals import kept
from test_device import CODECS, SHAPES
from test_vectors import array, octets, records
from threelc.torch.kernels import choice, ternary
from threelc.torch.kernels.operations import bits_of
from threelc.torch.kernels.quantizer import Quantizer

SWEEPS = choice.Sweeps(ternary.maxima, ternary.quantize, ternary.decode)
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
RANDOM = "ternary:s={},block={}+quartic"  # a codec with numbers that are drawn
NONFINITE = (float("nan"), float("inf"), float("-inf"))


class Accesses:
    """Addresses that kernels read, write, or take the maximum of, as lists of arrays, while it is a context."""

    CALLS = {"create_masked_load": ("reads", 0, 1), "create_masked_store": ("writes", 0, 2),
             "create_atomic_rmw": ("maxima", 1, 3)}  # which arguments are pointers and mask

    def __init__(self):
        self.reads, self.writes, self.maxima = [], [], []
        self._builder = triton.runtime.interpreter.InterpreterBuilder
        self._before = {name: getattr(self._builder, name) for name in self.CALLS}

    def __enter__(self):
        for name, (kind, *places) in self.CALLS.items():
            setattr(self._builder, name, self._recorder(self._before[name], getattr(self, kind), *places))
        return self

    def __exit__(self, *_):
        for name, call in self._before.items():
            setattr(self._builder, name, call)

    @staticmethod
    def _recorder(call, found, pointer, mask):
        def recorded(builder, *arguments):
            pointers = arguments[pointer]
            size = pointers.get_element_ty().primitive_bitwidth // 8
            found.append((pointers.data[arguments[mask].data].astype(numpy.uint64), size))
            return call(builder, *arguments)
        return recorded

    def __call__(self, kind, tensors):
        """How often each value of tensors was touched. What else was is an error."""
        total = {name: numpy.zeros(tensor.numel(), int) for name, tensor in tensors.items()}
        for addresses, size in getattr(self, kind):
            left = len(addresses)
            for name, tensor in tensors.items():
                index = addresses.astype(numpy.int64) - tensor.data_ptr()
                index = index[(index >= 0) & (index < tensor.numel() * size)]
                if size == tensor.element_size() and len(index):
                    left -= len(index)
                    total[name] += numpy.bincount(index // size, minlength=tensor.numel())
            if left:
                raise AssertionError(f"{left} {kind} outside of {', '.join(tensors)}")
        return total

    def bytes(self, kind):
        return sum(len(addresses) * size for addresses, size in getattr(self, kind))


def check_accesses(quantizer, residual, gradient):
    """Both sweeps, with what they touch. Returns what choice.quantized() does, and the largest magnitudes."""
    found, tensors = [], {"residual": residual, "gradient": gradient}

    def maxima(residual, gradient, block, into):
        with Accesses() as touched:
            ternary.maxima(residual, gradient, block, into)
        assert all((count == 1).all() for count in touched("reads", tensors).values()), "first sweep: reads"
        touched("writes", {})
        touched("maxima", {"found": into})
        found.append(into)

    def quantize(residual, gradient, block, scales, rest, quartic):
        with Accesses() as touched:
            ternary.quantize(residual, gradient, block, scales, rest, quartic)
        reads = touched("reads", {**tensors, "scales": scales})
        assert (reads.pop("scales") >= 1).all() and all((count == 1).all() for count in reads.values()), "reads"
        writes = touched("writes", {"rest": rest, "quartic": quartic})
        assert all((count == 1).all() for count in writes.values()), "writes"
        touched("maxima", {})

    sweeps = SWEEPS._replace(maxima=maxima, quantize=quantize)
    return (*choice.quantized(sweeps, quantizer, residual, gradient), found[0])


def decoded(quartic, scales, block, like):
    """By kernels, with what they touch, and by torch operations."""
    scales = torch.tensor(scales)
    found = [torch.empty(like.numel() + 1, dtype=like.dtype)[1:] for _ in range(2)]
    with Accesses() as touched:
        ternary.decode(quartic, scales, block, found[0])
    if scales.dtype == like.dtype:  # else the narrowed ones are read
        reads = touched("reads", {"quartic": quartic, "scales": scales})
        assert (reads["quartic"] == 1).all() and (reads["scales"] >= 1).all(), "decode: reads"
    assert all((count == 1).all() for count in touched("writes", {"out": found[0]}).values()), "decode: writes"
    choice.OPERATIONS.decode(quartic, scales, block, found[1])
    return found


def magnitudes(quantizer, x):
    """The largest of each block; -1 for NaN, -2 for infinity."""
    if not len(x):
        return torch.zeros(0)
    return torch.stack([part.abs().max() for part in x.split(quantizer.block or len(x))]).nan_to_num(-1, posinf=-2)


def compare(codec, residual, gradient, checksum=False):
    """Frame and residual of the C library and of both ways."""
    quantizer, before = Quantizer.of(codec), residual.clone()
    scales, quartic, rest, found = check_accesses(quantizer, residual, gradient)
    assert torch.equal(bits_of(residual), bits_of(before)), "the residual was written"
    sums = residual.float() + gradient
    assert torch.equal(found.nan_to_num(-1, posinf=-2), magnitudes(quantizer, sums)), "magnitudes"
    wanted = before.to(torch.float32, copy=True)
    context = threelc.Context(len(residual), codec, gradient.dtype, residual=wanted, checksum=checksum)
    if not torch.isfinite(torch.tensor(scales)).all():
        try:
            context.compress(gradient.contiguous())
        except threelc.NonFiniteError:
            return
        raise AssertionError(f"scales {scales}, and the library takes these values")
    frame = threelc.compress_quartic(quartic, scales, len(residual), codec, dtype=gradient.dtype, checksum=checksum)
    assert frame == context.compress(gradient.contiguous()), "frames differ"
    assert torch.equal(bits_of(rest), bits_of(kept(wanted, rest.dtype))), "residuals differ"
    others = choice.quantized(choice.OPERATIONS, quantizer, residual, gradient)
    assert (others[0], others[1].tolist()) == (scales, quartic.tolist()), "torch operations: frames differ"
    assert torch.equal(bits_of(others[2]), bits_of(rest)), "torch operations: residuals differ"
    for dtype in DTYPES.values():
        values = bits_of(threelc.decompress(frame, torch.empty(len(residual), dtype=dtype)))
        for got in decoded(quartic, scales, quantizer.block, torch.empty_like(residual, dtype=dtype)):
            assert torch.equal(bits_of(got), values), f"decoded {dtype} differ"


def drawn(codec, seed):
    """A codec, residual and gradient. They begin anywhere in their memory."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    n = draw.choice((0, 1, draw.randint(2, 40), draw.randint(41, 6000), draw.randint(6001, 20000),
                     draw.choice((1024, 4096, 5120)) * draw.randint(1, 3) + draw.randint(-1, 1)))
    if codec == RANDOM:
        block = draw.choice((draw.randint(1, 40), draw.randint(41, 9000)))
        codec = codec.format(draw.choice((1, 1.5, 1.999)), block)
        n -= draw.choice((0, n % block))  # so that the last block is whole
    dtype = draw.choice(tuple(DTYPES.values()))
    shapes = [SHAPES[draw.choice(tuple(SHAPES))] for _ in range(2)]
    gradient = shapes[0](torch.randn(n)).clamp(-6e4, 6e4).to(dtype)
    residual = draw.choice((torch.zeros(n), shapes[1](torch.randn(n)), shapes[0](torch.randn(n))))
    if n and draw.random() < 0.1:
        draw.choice((gradient, residual))[draw.randrange(n)] = draw.choice(NONFINITE)
    residual = residual.to(draw.choice((torch.float32, torch.bfloat16)))
    return codec, *(torch.cat([torch.ones(first, dtype=tensor.dtype), tensor])[first:]
                    for tensor, first in ((residual, draw.randrange(8)), (gradient, draw.randrange(8))))


def trial(codec, seed):
    try:
        compare(*drawn(codec, seed))
    except Exception as error:
        raise AssertionError(f"{codec}, seed {seed}: {error}") from error


def records_of(of):
    """Records of good.txt with the codecs for which of() is not None. Those that send from the residual alone are left
    out."""
    return [record for record in records("good.txt") if of(dict(record)["codec"]) is not None and
            ("grad", "null") not in record]


def steps_of(record):
    """The residual before, and the gradients, each with the place in the record of what follows it."""
    r = dict(record)
    dtype = DTYPES[r["dtype"]]
    gradients = []
    for i, (key, value) in enumerate(record):
        if key == "grad":
            gradient = array(value, r["dtype"])
            gradient = torch.from_numpy(gradient.view("<i2") if dtype == torch.bfloat16 else gradient).view(dtype)
            gradients.append((i + 1, gradient))
    residual = torch.from_numpy(array(r["residual0"])) if "residual0" in r else torch.zeros(int(r["n"]))
    return residual, gradients


def golden():
    """Those with 3-value symbols."""
    return records_of(Quantizer.of)


def replay(record):
    r = dict(record)
    quantizer, dtype, n = Quantizer.of(r["codec"]), DTYPES[r["dtype"]], int(r["n"])
    residual, gradients = steps_of(record)
    for i, gradient in gradients:
        scales, quartic, rest = choice.quantized(SWEEPS, quantizer, residual, gradient)
        frame = threelc.compress_quartic(quartic, scales, n, r["codec"], dtype=dtype, checksum=r["checksum"] == "1")
        assert frame == octets(record[i][1]), r["name"]
        if r["feedback"] == "1":
            residual = rest
    if r["feedback"] == "1":
        assert residual.numpy().tobytes() == octets(r["residual"]), r["name"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    options = parser.parse_args()
    import kernels_codes  # these import this
    import kernels_lossless
    import kernels_members
    import kernels_sums
    for i in range(options.count):
        kernels_sums.trial(options.seed + i)
    print(f"sums of symbols: {options.count} random ones from seed {options.seed}: the same", flush=True)
    for kernels, codecs in ((sys.modules[__name__], (*CODECS, RANDOM)), (kernels_codes, kernels_codes.CODECS),
                            (kernels_members, kernels_members.CODECS), (kernels_lossless, kernels_lossless.CODECS)):
        records_of_codecs = kernels.golden()
        for record in records_of_codecs:
            kernels.replay(record)
        print(f"{len(records_of_codecs)} golden vectors: the same")
        for codec in codecs:
            for i in range(options.count):
                kernels.trial(codec, options.seed + i)
            print(f"{codec}: {options.count} random tensors from seed {options.seed}: the same", flush=True)


if __name__ == "__main__":
    main()
