#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What quantization and decoding take where gradients are, as on a GPU: each sweep beside a copy, then whole steps.

All bytes are compared with those of the C library. With TRITON_INTERPRET=1 and --device cpu Triton's interpreter runs
the kernels: that tests them, and says nothing of their speed.
"""
import argparse

CODES = ("natural", "natural:bits=9", "int8", "qsgd", "qsgd:bits=4", "onebit")
SPARSE = ("topk:p=0.05", "topk:p=0.01,select=exact", "sbc:p=0.01", "random-sparse:p=0.25",
          "topk:p=0.03,bits=2,block=4096+golomb")
LOSSLESS = ("3lc", "3lc-golomb")
PUSHES = 4  # that an owner adds
MODELS = {"resnet50": (25_557_032, 161), "gpt2": (124_439_808, 148)}  # values, tensors


def options() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    found.add_argument("--device", default="cuda")
    found.add_argument("--values", type=int, default=1 << 26, help="of the tensor that sweeps go over")
    found.add_argument("--rounds", type=int, default=20, help="of each measurement, whose median is shown")
    found.add_argument("--codec", default="3lc", help="of 3-value symbols")
    found.add_argument("--codes", nargs="*", choices=CODES, default=list(CODES),
                       help="other codecs whose sweeps are measured")
    found.add_argument("--sparse", nargs="*", default=list(SPARSE),
                       help="of topk, sparse-binary or random-sparse: the same")
    found.add_argument("--lossless", nargs="*", choices=LOSSLESS, default=list(LOSSLESS),
                       help="whose payloads are made of 3-value symbols, too")
    found.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS), help="whose steps are measured")
    return found


if __name__ == "__main__":
    OPTIONS = options().parse_args()  # before PyTorch is loaded: --help needs nothing

import sys  # noqa: E402
from typing import Any, Dict, List, Optional  # noqa: E402

import torch  # noqa: E402

from device_lossless import lossless_rows  # noqa: E402
from device_rows import Clock, Table, require  # noqa: E402
from device_sparse import sparse_rows  # noqa: E402
import threelc  # noqa: E402
from threelc import exchange  # noqa: E402
from threelc.torch._device.on_device import OnDevice  # noqa: E402
from threelc.torch.kernels.choice import OPERATIONS, quantized, sweeps_for  # noqa: E402
from threelc.torch.kernels.code_choice import OPERATIONS as CODE_OPERATIONS  # noqa: E402
from threelc.torch.kernels.code_choice import WEIGHT, WORDS, code_sweeps_for, coded  # noqa: E402
from threelc.torch.kernels.codes import Codes  # noqa: E402
from threelc.torch.kernels.operations import bits_of  # noqa: E402
from threelc.torch.kernels.quantizer import Quantizer  # noqa: E402
from threelc.torch.kernels.sums import OPERATIONS as SUM_OPERATIONS  # noqa: E402
from threelc.torch.kernels.sums import add_for  # noqa: E402
from threelc.quartic import block_count  # noqa: E402


def check(sweeps: Any, name: str, quantizer: Quantizer, residual: torch.Tensor, gradient: torch.Tensor) -> None:
    """Frame, residual and decoded values of all values."""
    n = len(gradient)
    scales, quartic, rest = quantized(sweeps, quantizer, residual, gradient)
    wanted = residual.cpu()
    frame = threelc.Context(n, quantizer.codec, gradient.dtype, residual=wanted).compress(gradient.cpu())
    what = f"{name}, {gradient.dtype}"
    require(threelc.compress_quartic(quartic.cpu(), scales, n, quantizer.codec, dtype=gradient.dtype) == frame,
            f"{what}: frame")
    require(torch.equal(bits_of(rest.cpu()), bits_of(wanted)), f"{what}: residual")
    out = torch.empty_like(gradient)
    sweeps.decode(quartic, torch.tensor(scales, device=gradient.device), quantizer.block, out)
    values = threelc.decompress(frame, torch.empty(n, dtype=gradient.dtype))
    require(torch.equal(bits_of(out.cpu()), bits_of(values)), f"{what}: decoded values")


def sweep_rows(table: Table, codec: str) -> None:
    """A row for each sweep of 3-value symbols."""
    quantizer, residual, gradient = Quantizer.of(codec), table.residual, table.gradient
    if quantizer is None:
        sys.exit(f"device.py: --codec {codec}: it has no 3-value symbols")
    for how, sweeps in table.ways(codec, sweeps_for(table.device, table.dtype), OPERATIONS):
        check(sweeps, how, quantizer, residual, gradient)
        found = torch.zeros(block_count(table.values, quantizer.block), device=table.device)
        scales, quartic, rest = quantized(sweeps, quantizer, residual, gradient)
        there = torch.tensor(scales, device=table.device)
        table.row("maxima", how, 4 + table.size, lambda: sweeps.maxima(residual, gradient, quantizer.block, found))
        table.row("quantize", how, 8 + table.size + 0.2,
                  lambda: sweeps.quantize(residual, gradient, quantizer.block, there, rest, quartic))
        table.row("decode", how, 0.2 + table.size,
                  lambda: sweeps.decode(quartic, there, quantizer.block, table.out))


def sum_rows(table: Table) -> None:
    """A row for the sums of an owner, of pushes that follow each other. They are float32, as is the table."""
    n, rest, pieces, scales, frames, quantizer = table.values, table.residual, [], [], [], Quantizer.of("3lc")
    assert quantizer is not None
    for _ in range(PUSHES):
        scale, quartic, rest = quantized(OPERATIONS, quantizer, rest, table.gradient)
        pieces.append(quartic)
        scales += scale
        frames.append(threelc.compress_quartic(quartic.cpu(), scale, n, "3lc"))
    wanted = torch.empty(n)
    threelc.decompress_add_many(frames, wanted, from_zero=True)
    pushes, there = torch.cat(pieces), torch.tensor(scales, device=table.device)
    for how, add in table.ways("sums", add_for(table.device), SUM_OPERATIONS):
        table.out.fill_(1)
        add(pushes, there, 0, table.out)
        require(torch.equal(bits_of(table.out.cpu()), bits_of(wanted)), f"{how}: sums of {PUSHES} pushes")
        table.row(f"sums of {PUSHES} pushes", how, 4 + 0.2 * PUSHES, lambda: add(pushes, there, 0, table.out))


def check_codes(sweeps: Any, name: str, codes: Codes, residual: Optional[torch.Tensor], gradient: torch.Tensor) -> None:
    """The same of codes."""
    n, what = len(gradient), f"{name}, {codes.codec}, {gradient.dtype}"
    scalars, payload, rest = coded(sweeps, codes, residual, gradient, WORDS)
    wanted = None if residual is None else residual.cpu()
    context = threelc.Context(n, codes.codec, gradient.dtype, residual=wanted, seed=WORDS.seed)
    frame = context.compress(gradient.cpu())
    require(codes.frame(payload.cpu(), scalars, n, gradient.dtype) == frame, f"{what}: frame")
    require(rest is None or wanted is None or torch.equal(bits_of(rest.cpu()), bits_of(wanted)), f"{what}: residual")
    out = torch.empty_like(gradient)
    sent = codes.planes(payload, n), codes.read(payload, n, frame[:threelc.peek(frame).header_size])
    sweeps.decode(codes, *sent, out)
    values = threelc.decompress(frame, torch.empty(n, dtype=gradient.dtype))
    require(torch.equal(bits_of(out.cpu()), bits_of(values)), f"{what}: decoded values")
    total = gradient.float().abs()
    sums = total.clone()
    sweeps.add(codes, *sent, WEIGHT, sums)
    require(torch.equal(bits_of(sums.cpu()), bits_of(threelc.decompress_add(frame, total.cpu(), WEIGHT))),
            f"{what}: sums")


def code_rows(table: Table, codec: str) -> None:
    """A row for each sweep of codes; that of onebit has a residual, as in a training."""
    n, codes, gradient = table.values, Codes.of(codec), table.gradient
    assert codes is not None
    residual = table.residual if codes.name == "onebit" else None
    more, sent = 0 if residual is None else 4, codes.size(n) / n
    for how, sweeps in table.ways(codec, code_sweeps_for(table.device, table.dtype, codes.name), CODE_OPERATIONS):
        check_codes(sweeps, how, codes, residual, gradient)
        found = torch.zeros(codes.measured(n), dtype=codes.measured_dtype, device=table.device)
        scalars, payload, rest = coded(sweeps, codes, residual, gradient, WORDS)
        there, planes = torch.tensor(scalars, device=table.device), codes.planes(payload, n)
        clipped = torch.zeros(1, dtype=torch.int32, device=table.device)
        table.row(f"{codec} measure", how, table.size + more,
                  lambda: sweeps.measure(codes, residual, gradient, found))
        table.row(f"{codec} encode", how, table.size + 2 * more + sent,
                  lambda: sweeps.encode(codes, residual, gradient, there, WORDS, rest, planes, clipped))
        table.row(f"{codec} decode", how, sent + table.size, lambda: sweeps.decode(codes, planes, there, table.out))
        sums = torch.zeros(n, device=table.device)
        table.row(f"{codec} add", how, sent + 8, lambda: sweeps.add(codes, planes, there, 0.5, sums))


def step_row(o: Any, device: torch.device, model: str, clock: Clock) -> None:
    """A step of one rank with equally large tensors, no network: frames made and taken, on the device and on the
    host. The results are the same."""
    values, count = MODELS[model]
    sizes = [values // count] * count
    gradients = [torch.randn(n, device=device) for n in sizes]
    config = exchange.Config(workers=1, push=o.codec)
    seconds, results = {}, []
    for way in ("host", "device"):
        residuals: Dict[int, torch.Tensor] = {i: torch.zeros(n) for i, n in enumerate(sizes)}
        allreduce = exchange.AllReduce(config, 0, [exchange.Tensor(str(i), n, residual=residuals[i])
                                                   for i, n in enumerate(sizes)])
        out: List[torch.Tensor] = [torch.empty_like(gradient) for gradient in gradients]
        if way == "device":
            quantizer = Quantizer.of(o.codec)
            assert quantizer is not None
            on_device = OnDevice(allreduce, quantizer, dict(residuals), device)

            def step() -> None:
                on_device.pull([allreduce.reduce(on_device.push(gradients, 1.0)[0:1])], out)
        else:
            def step() -> None:
                host = [gradient.cpu() for gradient in gradients]
                allreduce.pull([allreduce.reduce(allreduce.push(host))], host)
                for target, mean in zip(out, host):
                    target.copy_(mean)
        seconds[way] = clock(step)
        results.append(out)
    require(all(torch.equal(bits_of(a), bits_of(b)) for a, b in zip(*results)), f"{model}: means")
    print(f"{model:9} {values / 1e6:.1f} M values, a step of one rank: {1e3 * seconds['device']:.1f} ms with sweeps on "
          f"{device}, {1e3 * seconds['host']:.1f} ms with all of it on the host", flush=True)


def main(o: Any) -> None:
    device = torch.device(o.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "Triton's interpreter or torch on the CPU"
    print(f"{name}, PyTorch {torch.__version__}, {o.codec}, {o.values} values, median of {o.rounds}")
    print(Table.heading())
    clock = Clock(device, o.rounds)
    for dtype in (torch.float32, torch.bfloat16):
        table = Table(o.values, device, dtype, clock)
        sweep_rows(table, o.codec)
        for codec in o.codes:
            code_rows(table, codec)
        for codec in o.sparse:
            sparse_rows(table, codec)
        for codec in o.lossless:
            lossless_rows(table, codec)
        if dtype == torch.float32:
            sum_rows(table)
    for model in o.models:
        step_row(o, device, model, clock)


if __name__ == "__main__":
    main(OPTIONS)
