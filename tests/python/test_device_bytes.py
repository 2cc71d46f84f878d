# SPDX-License-Identifier: MIT
"""What tlc-sim --device counts of the kernels (bench/sim/kernels.def): as many bytes as they load and store, of all
codecs that have some."""
import re
import unittest
from pathlib import Path
from typing import NamedTuple

import torch

from kernel_tools import HERE, Traffic  # before others import triton

if HERE:
    import kernels
    import kernels_codes
    import kernels_members
    from threelc.torch.kernels import choice, code_choice, members
    from threelc.torch.kernels.codes import Codes, Words
    from threelc.torch.kernels.quantizer import Quantizer
    from threelc.torch.kernels.selector import Selector

import threelc
from threelc import Context
from threelc._c import EntryKind
from threelc.torch.kernels.ways import quantizer_for

ROOT = Path(__file__).resolve().parents[2]


class Sweeps(NamedTuple):
    """Bytes for each value of float32, without what crosses to the host."""

    form: str
    measure: float
    encode: float
    decode: float
    exact: float


def listed():
    text = (ROOT / "bench" / "sim" / "kernels.def").read_text(encoding="utf-8")
    return {name: Sweeps(form, *map(float, numbers.split(", "))) for name, form, numbers in
            re.findall(r'^SWEEPS\("([a-z-]+)", ([A-Z]+), ([0-9., ]+)\)$', text, re.MULTILINE)}


SWEEPS = listed()


class Listed(unittest.TestCase):
    def test_codecs(self):
        """All quantizers whose pushes have kernels are in the list, and no others."""
        quantizers = {entry.name for entry in threelc.codecs() if entry.kind == EntryKind.QUANTIZER}
        self.assertLessEqual(set(SWEEPS), quantizers)
        self.assertEqual({name for name, sweeps in SWEEPS.items() if sweeps.encode},
                         {name for name in quantizers if quantizer_for(name, torch.device("cpu")) is not None})


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Counted(unittest.TestCase):
    def check(self, codec, pushed, answered, crossing):
        """crossing: bytes for each value, of those that were moved, that cross to the host or back."""
        sweeps = SWEEPS[codec.partition(":")[0]]
        self.assertAlmostEqual(pushed - crossing, sweeps.measure + sweeps.encode, delta=0.02, msg=codec)
        self.assertAlmostEqual(answered - crossing, sweeps.decode, delta=0.02, msg=codec)

    def test_quartic(self):
        n = 20480
        residual, gradient = torch.randn(n), torch.randn(n)
        with kernels.Accesses() as pushed:
            scales, quartic, _ = choice.quantized(kernels.SWEEPS, Quantizer.of("ternary+quartic"), residual, gradient)
        with kernels.Accesses() as answered:
            kernels.SWEEPS.decode(quartic, torch.tensor(scales), 0, gradient)
        self.check("ternary", moved(pushed) / n, moved(answered) / n, len(quartic) / n)

    def test_payloads(self):
        n = 8192
        for codec in (name for name, sweeps in SWEEPS.items() if sweeps.form == "PAYLOAD"):
            codes, gradient = Codes.of(codec), torch.randn(n)
            residual = torch.randn(n) if Context(1, codec).residual is not None else None
            with kernels.Accesses() as pushed:
                scalars, payload, _ = code_choice.coded(kernels_codes.SWEEPS, codes, residual, gradient, Words(1, 0))
            with kernels.Accesses() as answered:
                kernels_codes.SWEEPS.decode(codes, codes.planes(payload, n), torch.tensor(scalars), gradient)
            self.check(codec, moved(pushed) / n, moved(answered) / n, len(payload) / n)

    def test_members(self):
        n = 20480
        for codec in ("topk:p=0.05", "topk:p=0.01,select=exact", "sparse-binary:p=0.01"):
            sweeps, selector = SWEEPS[codec.partition(":")[0]], Selector.of(codec)
            residual, gradient = torch.randn(n), torch.randn(n)
            with kernels.Accesses() as pushed:
                k = len(members.choose(kernels_members.SWEEPS, selector, residual, gradient, 1, 0).positions)
            samples = 0 if selector.exact else 12 * selector.samples(n)
            self.assertAlmostEqual((moved(pushed) - samples - 8 * k) / n, sweeps.measure + sweeps.encode, delta=0.1,
                                   msg=codec)
            if selector.exact:
                with Traffic() as torchs:
                    members.threshold(kernels_members.SWEEPS, selector, residual, gradient, 1, 0)
                self.assertAlmostEqual((torchs.read + torchs.written - 12 * k) / n, sweeps.exact, delta=0.02, msg=codec)


def moved(touched):
    return touched.bytes("reads") + touched.bytes("writes")
