#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What choosing the values of topk and sbc takes where gradients are, as on a GPU: each sweep beside a copy.

All bytes are compared with those of the C library. With TRITON_INTERPRET=1 and --device cpu Triton's interpreter runs
the kernels: that tests them, and says nothing of their speed.
"""
import argparse

CODECS = ("topk:p=0.05", "topk:p=0.01,select=exact", "sbc:p=0.01")


def options() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    found.add_argument("--device", default="cuda")
    found.add_argument("--values", type=int, default=1 << 26, help="of the tensor that sweeps go over")
    found.add_argument("--rounds", type=int, default=20, help="of each measurement, whose median is shown")
    found.add_argument("--codecs", nargs="+", default=list(CODECS), help="of topk or sparse-binary, without blocks")
    return found


if __name__ == "__main__":
    OPTIONS = options().parse_args()  # before PyTorch is loaded: --help needs nothing

import sys  # noqa: E402
from typing import Any  # noqa: E402

import torch  # noqa: E402

from device import Clock, require  # noqa: E402
import threelc  # noqa: E402
from threelc.torch.kernels.members import OPERATIONS, choose, frames, sweeps_for, threshold  # noqa: E402
from threelc.torch.kernels.operations import bits_of  # noqa: E402
from threelc.torch.kernels.selector import Selector  # noqa: E402


def rows(o: Any, codec: str, dtype: torch.dtype, clock: Clock) -> None:
    """A row for each sweep. Bytes are those that a value needs, whatever an implementation moves besides."""
    n, selector, device = o.values, Selector.of(codec), torch.device(o.device)
    if selector is None:
        sys.exit(f"sparse.py: --codecs {codec}: it is not of topk or sparse-binary, or has blocks")
    torch.manual_seed(1)
    residual, gradient = torch.randn(n, device=device), torch.randn(n, device=device).to(dtype)
    out, wanted, size = torch.empty_like(gradient), residual.cpu().clone(), gradient.element_size()
    seconds = clock(lambda: out.copy_(gradient))
    copy = 2 * size * n / seconds
    frame = threelc.Context(n, codec, dtype, residual=wanted, seed=1).compress(gradient.cpu())
    chosen = sweeps_for(device, dtype)
    for how, sweeps in {"triton": chosen, "operations": OPERATIONS}.items():
        if how == "triton" and chosen is OPERATIONS:
            print(f"{str(dtype)[6:]:9} there is no Triton for {device}, or it does not work: see the warning")
            continue
        found = choose(sweeps, selector, residual, gradient, 1, 0)
        assert found is not None
        require(frames(selector, [found], dtype) == [frame], f"{how}, {codec}, {dtype}: frame")
        require(torch.equal(bits_of(found.rest.cpu()), bits_of(wanted)), f"{how}, {codec}, {dtype}: residual")
        k, seen = len(found.positions), n if selector.exact else selector.samples(n)
        least = threshold(sweeps, selector, residual, gradient, 1, 0)
        both = 4 + size
        for what, per_value, call in (
                ("threshold", both * seen / n, lambda: threshold(sweeps, selector, residual, gradient, 1, 0)),
                ("counts", both, lambda: sweeps.counts(residual, gradient, least)),
                ("all", both * (2 + seen / n) + 4 + 8 * k / n,
                 lambda: choose(sweeps, selector, residual, gradient, 1, 0))):
            taken = clock(call)
            rate = per_value * n / taken
            print(f"{str(dtype)[6:]:9} {codec:24} {what:10} {how:11} {1e3 * taken:9.3f} {per_value:8.2f} "
                  f"{rate / 1e9:8.1f} {rate / copy:7.2f}", flush=True)


def main(o: Any) -> None:
    device = torch.device(o.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "Triton's interpreter or torch on the CPU"
    print(f"{name}, PyTorch {torch.__version__}, {o.values} values, median of {o.rounds}")
    print(f"{'dtype':9} {'codec':24} {'sweep':10} {'by':11} {'ms':>9} {'B/value':>8} {'GB/s':>8} {'of copy':>7}")
    clock = Clock(device, o.rounds)
    for dtype in (torch.float32, torch.bfloat16):
        for codec in o.codecs:
            rows(o, codec, dtype, clock)


if __name__ == "__main__":
    main(OPTIONS)
