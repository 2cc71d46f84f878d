# SPDX-License-Identifier: MIT
"""What tlc-sim --device counts of the kernels (bench/sim/kernels.def): as many bytes as they load and store, of all
codecs that have some."""
import re
import unittest
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import torch

from kernel_tools import HERE, Traffic  # before others import triton

if HERE:
    import kernels
    import kernels_codes
    import kernels_lossless
    import kernels_members
    from threelc.torch.kernels import _golomb_triton, choice, code_choice, golomb, members
    from threelc.torch.kernels.codes import Codes, Words
    from threelc.torch.kernels.quantizer import Quantizer
    from threelc.torch.kernels.selector import Selector

import threelc
from threelc import Context
from threelc._c import EntryKind
from threelc.codec_strings import stages_of
from threelc.torch.kernels import ways
from threelc.torch.kernels.ways import quantizer_for, way_of

ROOT = Path(__file__).resolve().parents[2]


class Sweeps(NamedTuple):
    """Bytes for each value of float32, without what crosses to the host."""

    form: str
    measure: float
    encode: float
    decode: float
    exact: float


class Lossless(NamedTuple):
    """Bytes for each quartic byte, symbol that is not 0, and byte of the payload; the same of answers."""

    quartic: float
    nonzero: float
    payload: float
    answer_quartic: float
    answer_nonzero: float
    answer_payload: float


LIST = (ROOT / "bench" / "sim" / "kernels.def").read_text(encoding="utf-8")
SWEEPS = {name: Sweeps(form, *map(float, numbers.split(", "))) for name, form, numbers in
          re.findall(r'^SWEEPS\("([a-z0-9-]+)", ([A-Z]+), ([0-9., ]+)\)$', LIST, re.MULTILINE)}
LOSSLESS = {stages: Lossless(*map(float, numbers.split(", "))) for stages, numbers in
            re.findall(r'^LOSSLESS\("([a-z+]+)", ([0-9., ]+)\)$', LIST, re.MULTILINE)}


class Listed(unittest.TestCase):
    def test_codecs(self):
        """All quantizers whose pushes have kernels are in the list, and no others."""
        quantizers = {entry.name for entry in threelc.codecs() if entry.kind == EntryKind.QUANTIZER}
        self.assertLessEqual(set(SWEEPS), quantizers)
        self.assertEqual({name for name, sweeps in SWEEPS.items() if sweeps.encode},
                         {name for name in quantizers if quantizer_for(name, torch.device("cpu")) is not None})


    def test_stages(self):
        """The same of stages that the device does."""
        cpu, n = torch.device("cpu"), 1000
        for codec in ("3lc", "3lc-golomb", "ternary+quartic", "3lc:block=300", "ternary:block=300+golomb"):
            way, made = way_of(quantizer_for(codec, cpu), cpu, torch.float32), []
            scales = [1.0] * way.measured(n)
            with mock.patch.object(ways, "compress_payload", lambda payload, *_, **__: made.append(payload)):
                way.frames(torch.full((way.size(n),), 121, dtype=torch.uint8), [scales], [n], torch.float32)
            self.assertEqual(bool(made), "block" not in codec and "+".join(stages_of(codec)) in LOSSLESS, codec)


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

    def test_zero_runs(self):
        """Two loads of a sweep share a byte. Nearly all bytes stand for themselves."""
        quartic, _ = symbols(0.6)
        with kernels.Accesses() as pushed:
            coded, ends = kernels_lossless.RUNS.shrink(quartic, (len(quartic),))
        with kernels.Accesses() as answered:
            kernels_lossless.RUNS.expand(coded[:ends[0]], quartic)
        listed, size = LOSSLESS["quartic+zerorun"], int(ends[0])
        self.assertEqual(octets(pushed, "writes"), size)
        self.assertAlmostEqual(octets(pushed, "reads") / 2 / len(quartic), listed.quartic - 1, delta=0.01)  # 1 before
        self.assertEqual((listed.nonzero, listed.payload, listed.answer_nonzero), (0, 0, 0))
        self.assertEqual(listed.answer_quartic, 2)  # torch's fill_(), and what decodes
        self.assertAlmostEqual((octets(answered, "reads") + octets(answered, "writes")) / size,
                               listed.answer_payload + 1, delta=0.02)

    def test_golomb(self):
        """All but the first sweep load the digit before, too."""
        quartic, n = symbols(0.05)
        with kernels.Accesses() as pushed:
            _, found = _golomb_triton.codes(quartic, (n,))
        listed, sent = LOSSLESS["golomb"], int(found[0, 0])
        # 2: the quantizer writes the bytes, and torch the words; all are copied into the payload
        self.assertAlmostEqual(octets(pushed, "reads") * 3 / 5 / len(quartic), listed.quartic - 2, delta=0.01)
        self.assertAlmostEqual(2 * pushed.bytes("maxima") / sent, listed.nonzero, delta=2)
        self.assertEqual(listed.payload, 1)

    def test_golomb_answers(self):
        """Octets are those of codes, and of states."""
        quartic, n = symbols(0.05)
        payload, = golomb.payloads(kernels_lossless.GOLOMB, quartic, (n,), torch.Tensor.clone)
        piece = golomb.coded_of(bytes(payload.tolist()), n)
        with kernels.Accesses() as answered:
            kernels_lossless.GOLOMB.expand(payload, [piece])
        listed, size = LOSSLESS["golomb"], len(payload)
        moved_octets = octets(answered, "reads") + octets(answered, "writes")
        self.assertAlmostEqual(moved_octets / size, listed.answer_payload + 1, delta=0.05)
        self.assertEqual(2 * answered.bytes("maxima") / piece.k, listed.answer_nonzero)
        self.assertEqual(listed.answer_quartic, 2)  # torch's full(), and what decodes

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

    def test_bfloat16_residuals(self):
        """6 bytes less for each value: each of two sweeps reads the residual, and one writes it."""
        n, gradient = 20480, torch.randn(20480)
        residual = torch.randn(n).bfloat16()
        for codec in "ternary", "onebit", "topk", "sparse-binary":
            with kernels.Accesses() as pushed:
                if codec == "ternary":
                    crossing = len(choice.quantized(kernels.SWEEPS, Quantizer.of("ternary+quartic"), residual,
                                                    gradient)[1])
                elif codec == "onebit":
                    crossing = len(code_choice.coded(kernels_codes.SWEEPS, Codes.of(codec), residual, gradient,
                                                     Words(1, 0))[1])
                else:
                    selector = Selector.of(codec)
                    found = members.choose(kernels_members.SWEEPS, selector, residual, gradient, 1, 0)
                    samples = 0 if selector.exact else selector.samples(n)
                    crossing = 8 * len(found.positions) + 10 * samples
            sweeps = SWEEPS[codec]
            self.assertAlmostEqual((moved(pushed) - crossing) / n, sweeps.measure + sweeps.encode - 6, delta=0.1,
                                   msg=codec)

    def test_members(self):
        n = 20480
        for codec in ("topk:p=0.05", "topk:p=0.01,select=exact", "sparse-binary:p=0.01", "random-sparse",
                      "topk:p=0.05,block=4096", "sparse-binary:block=10240"):
            sweeps, selector = SWEEPS[codec.partition(":")[0]], Selector.of(codec)
            residual, gradient = None if selector.limit else torch.randn(n), torch.randn(n)
            with kernels.Accesses() as pushed:
                k = len(members.choose(kernels_members.SWEEPS, selector, residual, gradient, 1, 0).positions)
            are_all = selector.exact or 0 < selector.block <= selector.samples(selector.block)  # they set the threshold
            samples = 0 if are_all or selector.limit else 12 * selector.samples(n)
            self.assertAlmostEqual((moved(pushed) - samples - 8 * k) / n, sweeps.measure + sweeps.encode, delta=0.1,
                                   msg=codec)
            if are_all:
                with Traffic() as torchs:
                    members.threshold(kernels_members.SWEEPS, selector, residual, gradient, 1, 0)
                self.assertAlmostEqual((torchs.read + torchs.written - 12 * k) / n, sweeps.exact, delta=0.02, msg=codec)


def moved(touched):
    return touched.bytes("reads") + touched.bytes("writes")


def symbols(share):
    """Quartic bytes of which so many symbols are not 0, and how many symbols they have."""
    torch.manual_seed(3)
    return kernels_lossless.quartic_of(torch.where(torch.rand(1 << 16) < share, 2, 1).to(torch.uint8))


def octets(touched, kind):
    """How many single bytes; others are what is known of tiles."""
    return sum(len(where) for where, size in getattr(touched, kind) if size == 1)
