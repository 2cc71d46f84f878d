# SPDX-License-Identifier: MIT
"""Triton's kernels in Triton's interpreter: some of what kernels.py tries, what they read and write, what becomes of
kernels that are wrong, trainings with them, and what is compiled for GPUs."""
import re
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

import torch

from kernel_tools import CPU, HERE, LastProgram, Traffic, chosen, compiled, mutant  # before others import triton

if HERE:
    import kernels
    from threelc.torch.kernels import choice, ternary, usable
    from threelc.torch.kernels.quantizer import Quantizer

from cluster import CLUSTER
from test_ddp import bits, start, train
from test_device_bytes import SWEEPS

SUM = "_widened(tl.load(residual + at, mask=there, other=0)) + x"
WRONG = {  # what a device may do, as changes of the source
    "flushes subnormal sums": (SUM, "tl.where(tl.abs({0}) < 2.0**-126, 0.0, {0})".format(f"({SUM})")),
    "flushes halves": ("scale * 0.5", "tl.where(scale * 0.5 < 2.0**-126, 0.0, scale * 0.5)"),
    "sums in another order": (
        "tl.where(up, x - scale,", "tl.where(up, tl.load(residual + at, mask=there, other=0) + "
        "(tl.load(gradient + at, mask=there, other=0).to(tl.float32) - scale),"),
    "sums in float64": ("up, x - scale, tl.where(down, x + scale, x)", "up, (tl.load(residual + at, mask=there, "
                        "other=0).to(tl.float64) + tl.load(gradient + at, mask=there, other=0).to(tl.float64) - scale)"
                        ".to(tl.float32), tl.where(down, x + scale, x)"),
    "takes ties": ("x > threshold", "x >= threshold"),
    "decodes other signs": ("digit == 0, negative", "digit == 0, scale"),
    "knows no NaN": ("bitcast=True) & 0x7fffffff, axis=1)", "bitcast=True) & 0x7f7fffff, axis=1)"),
    "cannot compile": ("scale * 0.5", "scale.half()"),
}


def trained(rank, world, quantize, codec):
    """Bits, stats, and the module whose sweeps quantize."""
    model, state, optimizer = start(codec=codec, quantize=quantize)
    train(rank, model, optimizer, range(3))
    stats = state.stats
    return (bits(model), (stats.sent, stats.received, stats.residual_norms),
            choice.sweeps_for(CPU, torch.float32).quantize.__module__)


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Kernels(unittest.TestCase):
    def test_golden_vectors(self):
        """Every ninth; kernels.py takes all."""
        records = kernels.golden()
        self.assertGreater(len(records), 300)
        for record in records[::9]:
            kernels.replay(record)

    def test_random_tensors(self):
        for i, codec in enumerate((*kernels.CODECS, kernels.RANDOM)):
            for seed in range(5):
                kernels.trial(codec, 10 * i + seed)

    def test_edges(self):
        """Sizes about those of programs, and blocks of which the last one is whole, or has one value."""
        torch.manual_seed(7)
        values, quartic = ternary.TILE, 5 * ternary.QUARTIC_TILE
        cases = [("3lc", size + more) for size in (values, quartic) for more in (-1, 0, 1)]
        cases += [(kernels.RANDOM.format(1.5, block), 2 * block + more)
                  for block in (1, 5, 6, 64, values, values + 1, quartic + 1) for more in (0, 1)]
        for codec, n in cases:
            with self.subTest(f"{codec}, {n} values"):
                kernels.compare(codec, torch.zeros(n), torch.randn(n))

    def test_values_that_are_not_finite(self):
        """NaN is above infinity, and both above all numbers, also in blocks whose other values are large."""
        for codec in ("3lc", "ternary:block=7+quartic"):
            for dtype in kernels.DTYPES.values():
                for value in kernels.NONFINITE:
                    for at in (0, 5000):
                        residual, gradient = torch.full((5001,), 3e38), torch.zeros(5001, dtype=dtype)
                        gradient[at] = value
                        kernels.compare(codec, residual, gradient)
                        residual[at] = value
                        kernels.compare(codec, residual, torch.zeros(5001, dtype=dtype))
        kernels.compare("3lc", torch.full((10,), 3e38), torch.full((10,), 3e38))  # the sum is infinite
        kernels.compare("3lc:s=1.75", torch.full((10,), 3e38), torch.zeros(10))  # the scale is

    def test_bfloat16_residuals(self):
        """They are rounded half to even, subnormals too, and do not become infinite."""
        bits = torch.cat([torch.arange(0x8000, 0x7f80 << 16, 0x418000), torch.tensor([0x7f7f8000, 0x7f7fffff]),
                          torch.arange(0x4000, 0x300000, 0x4000)]).int()
        values = torch.cat([bits, bits ^ torch.iinfo(torch.int32).min]).view(torch.float32)
        for codec, values in (("3lc:s=1.99", values[values.abs() < 1.7e38]), ("ternary:block=1+quartic", values)):
            kernels.compare(codec, torch.zeros(len(values), dtype=torch.bfloat16), values)
            kernels.compare(codec, kernels.kept(values, torch.bfloat16), values / 512)

    def test_more_values_than_an_int_counts(self):
        """The last program of a tensor that is there on paper: its other pages are never touched."""
        n = 2**31 + 4098
        length = -(-n // 5)
        first = length - length % ternary.QUARTIC_TILE  # byte of the last program
        parts = [slice(part * length + first, min((part + 1) * length, n)) for part in range(5)]
        residual, gradient = torch.empty(n), torch.empty(n, dtype=torch.float16)
        quartic, found = torch.empty(length, dtype=torch.uint8), torch.zeros(1)
        for part, values in enumerate(parts):
            residual[values], gradient[values] = part, 0.5
        with mock.patch.multiple(ternary, _maxima=LastProgram(ternary._maxima), _decode=LastProgram(ternary._decode),
                                 _quantize=LastProgram(ternary._quantize)):
            ternary.maxima(residual, gradient, 0, found)
            ternary.quantize(residual, gradient, 0, torch.tensor([5.0]), residual, quartic)
            ternary.decode(quartic, torch.tensor([5.0]), 0, gradient)
        self.assertEqual(float(found), 4.5)
        for values, left, sent in zip(parts, (0.5, 1.5, 2.5, -1.5, -0.5), (0, 0, 0, 5, 5)):
            self.assertTrue((residual[values] == left).all() and (gradient[values] == sent).all())
        full = 81 + 27 + 9 + 3 * 2 + 2
        self.assertEqual(quartic[first:].tolist(), [full] * (length - first - 4) + [full - 2] * 4)

    def test_launches(self):
        """Programs are full, but for those at the end; products and sums stay apart; no values, no program."""
        x = torch.ones(20000)
        large, small = ((1, 4096), (1, 1024)), ((512, 8), (512, 2))
        for n, block, grids, tiles in ((20000, 0, (5, 4), large), (1, 7, (1, 1), large), (20000, 7, (6, 6), small),
                                       (20000, 5001, (8, 4), large), (0, 0, (), ())):
            kernel = mock.MagicMock()
            with mock.patch.multiple(ternary, _maxima=kernel, _quantize=kernel, _decode=kernel):
                ternary.maxima(x[:n], x[:n], block, x)
                ternary.quantize(x[:n], x[:n], block, x, x, x)
                ternary.decode(x, x, block, x[:n])
            self.assertEqual([call.args[0] for call in kernel.__getitem__.call_args_list],
                             [(grid,) for grid in grids + grids[1:]])
            calls = [call.kwargs for call in kernel.__getitem__.return_value.call_args_list]
            self.assertEqual(calls, [{"ROWS": rows, "COLUMNS": columns, "enable_fp_fusion": False}
                                     for rows, columns in tiles + tiles[1:]])

    def test_sweeps(self):
        """Two: each value is read twice and written once. Torch operations make more than three times as many bytes."""
        n, quantizer = 100000, Quantizer.of("3lc")
        for dtype, kept, read in ((torch.float32, torch.float32, 16), (torch.bfloat16, torch.float32, 12),
                                  (torch.float32, torch.bfloat16, 12), (torch.bfloat16, torch.bfloat16, 8)):
            residual, gradient = torch.randn(n).to(kept), torch.randn(n).to(dtype)
            write = residual.element_size() + 0.2
            with kernels.Accesses() as touched:
                choice.quantized(kernels.SWEEPS, quantizer, residual, gradient)
            self.assertAlmostEqual(touched.bytes("reads") / n, read, delta=0.01)
            self.assertAlmostEqual(touched.bytes("writes") / n, write, delta=0.01)
            self.assertLess(touched.bytes("maxima") / n, 0.01)
            with Traffic() as traffic:
                choice.quantized(choice.OPERATIONS, quantizer, residual, gradient)
            self.assertGreater(traffic.read + traffic.written, 3 * n * (read + write))
            if kept != torch.float32:
                print(f"# {dtype}, residuals {kept}: kernels {read} + {write} bytes a value, torch operations "
                      f"{traffic.read / n:.1f} + {traffic.written / n:.1f}")
                continue
            quartic, scales = torch.full((n // 5,), 121, dtype=torch.uint8), torch.ones(1)
            with kernels.Accesses() as answer:
                ternary.decode(quartic, scales, 0, gradient)
            with Traffic() as operations:
                choice.OPERATIONS.decode(quartic, scales, 0, gradient)
            size = gradient.element_size()
            self.assertAlmostEqual(answer.bytes("reads") / n, 0.2, delta=0.01)
            self.assertEqual(answer.bytes("writes"), n * size)
            self.assertGreater(operations.read + operations.written, 3 * n * (0.2 + size))
            print(f"# {dtype}: decoding: kernel 0.2 + {size} bytes a value, torch operations {operations.read / n:.1f} "
                  f"+ {operations.written / n:.1f}")
            print(f"# {dtype}: kernels {read} + 4.2 bytes a value, torch operations {traffic.read / n:.1f} + "
                  f"{traffic.written / n:.1f}")


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Choice(unittest.TestCase):
    def test_right_kernels_are_taken(self):
        for dtype in kernels.DTYPES.values():
            self.assertEqual(chosen(ternary, choice.sweeps_for, CPU, dtype), (kernels.SWEEPS, []))

    def test_bfloat16_residuals(self):
        """They have a check of their own."""
        dtypes = torch.float32, torch.bfloat16
        self.assertEqual(chosen(ternary, choice.sweeps_for, CPU, *dtypes), (kernels.SWEEPS, []))
        with mutant(ternary, "magnitude + 0x7fff + (magnitude >> 16 & 1)", "magnitude") as module:
            self.assertIs(chosen(ternary, choice.sweeps_for, CPU, *dtypes, module=module)[0], choice.OPERATIONS)

    def test_wrong_kernels_are_refused(self):
        for what, change in WRONG.items():
            with self.subTest(what), mutant(ternary, *change) as module:
                sweeps, caught = chosen(ternary, choice.sweeps_for, CPU, torch.float32, module=module)
                self.assertIs(sweeps, choice.OPERATIONS)
                self.assertEqual(len(caught), 1)
                self.assertRegex(caught[0], "torch operations work on gradients on cpu.*: " + (
                    "InterpreterError.*half" if what == "cannot compile" else "they do not make what the host makes"))

    def test_without_triton(self):
        """No warning, and torch operations."""
        for name in ("_INSTALLED", "_INTERPRETED"):
            with mock.patch.object(usable, name, False):
                self.assertEqual(chosen(ternary, choice.sweeps_for, CPU, torch.float32), (choice.OPERATIONS, []))
        for name in ("mps", "xpu", "meta"):
            self.assertEqual(chosen(ternary, choice.sweeps_for, torch.device(name), torch.float32),
                             (choice.OPERATIONS, []))

    def test_trainings(self):
        for codec in ("3lc:s=1.75", "ternary:block=100+golomb"):
            host, device = (CLUSTER.run(2, trained, quantize, codec) for quantize in ("host", "device"))
            self.assertEqual(device, host)
            self.assertEqual(device[0][2], ternary.__name__)


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Programs(unittest.TestCase):
    def test_device(self):
        """The benchmark for GPUs: it compares all bytes, and prints a row for each sweep."""
        program = Path(__file__).resolve().parents[2] / "bench" / "experiments" / "torch" / "device.py"
        done = subprocess.run([sys.executable, program, "--device", "cpu", "--values", "5003", "--rounds", "1",
                               "--models", "--codes", "qsgd", "--sparse", "topk", "sbc", "random-sparse", "--lossless",
                               "3lc"],
                              check=True, capture_output=True, text=True)
        cells = [re.split("  +", line) for line in done.stdout.replace("bfloat16 ", "bfloat16  ").splitlines()[2:]]
        self.assertEqual([row[:3] for row in cells], [[dtype, *row] for dtype in ("float32", "bfloat16") for row in (
            ("copy", "torch"), *((sweep, by) for by in ("triton", "operations")
                                 for sweep in ("maxima", "quantize", "decode")),
            *((f"{codec} {sweep}", by) for codec, sweeps in (("qsgd", ("measure", "encode", "decode", "add")),
                                                             *((codec, ("threshold", "counts", "all"))
                                                               for codec in ("topk", "sbc")),
                                                             ("random-sparse", ("counts", "all")),
                                                             ("3lc", ("payload", "expand")))
              for by in ("triton", "operations") for sweep in sweeps),
            *(("sums of 4 pushes", by) for by in ("triton", "operations") if dtype == "float32"))])
        printed = {row[1]: float(row[4]) for row in cells if row[0] == "float32"}
        for codec, sent, measure, encode, decode in (("ternary", 0.2, "maxima", "quantize", "decode"),
                                                     ("qsgd", 1, "qsgd measure", "qsgd encode", "qsgd decode")):
            self.assertEqual(SWEEPS[codec][1:4], (printed[measure], round(printed[encode] - sent, 2),
                                                  round(printed[decode] - sent, 2)), "as tlc-sim counts them")
        self.assertEqual([SWEEPS[name].measure for name in ("topk", "sparse-binary")],
                         [printed[f"{name} counts"] for name in ("topk", "sbc")])


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Compiled(unittest.TestCase):
    PROGRAM = """
from threelc.torch.kernels import _sums_triton, ternary
types = {"residual": sys.argv[1], "gradient": sys.argv[1], "found": "*i32", "scales": "*fp32", "rest": sys.argv[1],
         "quartic": "*u8", "out": "*i16"}
tile = {"ROWS": 1, "COLUMNS": 1024}
made(ternary._maxima, types, tile)
made(ternary._quantize, types, tile)
made(ternary._decode, {**types, "scales": "*i16"}, tile)
made(_sums_triton._add, {**types, "out": "*fp32"}, tile)
"""

    def test_float_modes(self):
        """Kernels compile for GPUs of NVIDIA and AMD, without what would change bits: nothing is fused or flushed."""
        for gradient in ("*fp32", "*i16"):
            made = compiled(self.PROGRAM, gradient)
            self.assertEqual(made.count(".visible .entry"), 4)
            self.assertGreater(len(re.findall(r"add(\.rn)?\.f32", made)), 10)
            self.assertEqual(re.findall(r"\S*ftz\S*|fma\.\S*f32|div\.(?:approx|full)\S*", made), [])
            self.assertEqual(re.findall(r"denorm_mode_32 (\d)", made), ["3"] * 4)  # neither inputs nor results


if __name__ == "__main__":
    unittest.main()
