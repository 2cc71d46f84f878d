# SPDX-License-Identifier: MIT
"""Kernels of natural, int8, qsgd and onebit in Triton's interpreter: some of what kernels.py tries, what they read and
write, what becomes of kernels that are wrong, trainings with them, and what is compiled for GPUs."""
import re
import sys
import unittest
from pathlib import Path
from unittest import mock

import torch

from kernel_tools import CPU, HERE, LastProgram, Traffic, chosen, compiled, mutant  # before others import triton

if HERE:
    import kernels_codes as kernels
    import triton
    import triton.language as tl
    from kernels import DTYPES, NONFINITE, Accesses
    from threelc.torch.kernels import _codes_torch, _codes_triton, code_choice, usable
    from threelc.torch.kernels.codes import CHUNK, Codes, Words

    @triton.jit
    def words_at(out, first, seed, step, ALIGNED: tl.constexpr):
        words = _codes_triton._words(tl.zeros([1, 1], tl.int64) + first, seed, step, 1, 8, ALIGNED)
        tl.store(out + tl.arange(0, 8)[None, :], words.to(tl.int64))

from cluster import CLUSTER  # noqa: E402
from test_ddp import bits, start, train  # noqa: E402

sys.path.append(str(Path(__file__).resolve().parents[1] / "vectors"))
import philox  # noqa: E402

WRONG = {  # what a device may do, as changes of the source
    "flushes subnormals": ("natural", "small = magnitude < 0x800000", "magnitude = tl.where(magnitude < 0x800000, 0, "
                           "magnitude)\n        small = magnitude < 0x800000"),
    "divides approximately": ("qsgd", "tl.math.div_rn(x, tl.where(largest > 0, largest, 1.0))",
                              "(x * (1 / tl.where(largest > 0, largest, 1.0)))"),
    "decodes approximately": ("qsgd", "tl.load(scalars + row, mask=length > 0, other=0) * tl.math.div_rn(\n"
                              "            q, tl.full(q.shape, levels, tl.float32))",
                              "tl.load(scalars + row, mask=length > 0, other=0) * (q * (1 / levels))"),
    "rounds halves up": ("int8", "level = y + 12582912.0 - 12582912.0", "level = tl.floor(y + 0.5)"),
    "flushes levels": ("int8", "tl.where(largest > 0, largest, 1.0)", "tl.where(largest > 1e-37, largest, 1.0)"),
    "rounds sums once": ("int8", "tl.load(at, mask=there, other=0) + weight * value",
                         "(tl.load(at, mask=there, other=0) + value.to(tl.float64) * weight).to(tl.float32)"),
    "draws other words": ("qsgd", "place == 1, b", "place == 1, c"),
    "sums in binary32": ("onebit", "tl.where(upper, x, 0.0).to(tl.float64)",
                         "(above.to(tl.float32) + tl.where(upper, x, 0.0)).to(tl.float64) - above"),
    "sums in another order": ("onebit", "tl.sum(tl.reshape(lanes, [ROWS, 2, HALF]), axis=1)",
                              "tl.sum(tl.reshape(lanes, [ROWS, HALF, 2]), axis=2)"),
    "cannot compile": ("onebit", "upper = x >= 0\n        byte", "upper = x.above(0)\n        byte"),
}


def trained(rank, world, quantize, codec):
    """Bits, stats, and the module whose sweeps quantize."""
    model, state, optimizer = start(codec=codec, quantize=quantize)
    with mock.patch.dict(code_choice.CODECS, {codec: [codec]}):
        train(rank, model, optimizer, range(3))
        stats = state.stats
        return (bits(model), (stats.sent, stats.received, stats.residual_norms),
                code_choice.code_sweeps_for(CPU, torch.float32, codec).encode.__module__)


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Kernels(unittest.TestCase):
    def test_golden_vectors(self):
        """Every thirteenth; kernels.py takes all."""
        records = kernels.golden()
        self.assertGreater(len(records), 300)
        for record in records[::13]:
            kernels.replay(record)

    def test_random_tensors(self):
        for i, (codec, count) in enumerate(zip(kernels.CODECS, (8, 5, 2, 4))):
            for seed in range(count):
                kernels.trial(codec, 100 * i + seed)

    def test_edges(self):
        """Sizes about those of programs, chunks and bytes, and blocks of which the last is whole, or has one value."""
        torch.manual_seed(7)
        tile = _codes_triton.TILE
        cases = [(codec, n) for codec in ("natural:bits=9", "qsgd:bits=4") for n in (1, 7, 8, 9, tile - 1, tile + 1)]
        cases += [(f"natural:bits=9,block={block}", 2 * block + more)
                  for block in (1, 3, 8, 20, tile + 4) for more in (0, 1)]
        cases += [(f"qsgd:bits=4,block={block}", 2 * block + 1) for block in (2, 5, 24, tile + 1)]
        cases += [("int8", tile + 1), ("int8:block=5", 11)]
        cases += [("onebit", CHUNK + 1), ("onebit:block=8", 17), (f"onebit:block={CHUNK + 1}", 2 * CHUNK + 4)]
        for codec, n in cases:
            with self.subTest(f"{codec}, {n} values"):
                kernels.compare(codec, torch.randn(n), torch.randn(n), Words(3, 1))

    def test_values_that_are_not_finite(self):
        for codec in ("natural", "int8", "qsgd:block=7", "onebit:block=6"):
            for dtype in DTYPES.values():
                for value in NONFINITE:
                    gradient = torch.ones(20, dtype=dtype)
                    gradient[9] = value
                    kernels.compare(codec, None, gradient)
        kernels.compare("qsgd", torch.full((10,), 3e38), torch.full((10,), 3e38))  # the sum is infinite

    def test_exponents(self):
        """All of them, with the mantissas about a half, and those that are clipped; the largest value; zeros."""
        words = torch.arange(256) << 23
        values = torch.cat([words[:255] + more for more in (0, 1, 0x3fffff, 0x400000, 0x7fffff)] + [
            1 << torch.arange(23), torch.tensor([0x7f7fffff, 0])])
        values = torch.cat([values, values - (1 << 31)]).to(torch.int32).view(torch.float32)
        for codec in ("natural", "natural:rounding=nearest", "natural:shift=117", "natural:bits=9",
                      "natural:bits=9,shift=60,rounding=nearest", "int8", "qsgd", "qsgd:bits=4", "onebit"):
            for residual in (None, values.flip(0) / 2):
                kernels.compare(codec, residual, values, Words(5, 0))
        kernels.compare("natural:block=1", None, torch.tensor([1e30, 1, 1e-30]))  # a count for each value

    def test_order_of_sums(self):
        """In lanes, between lanes, and between chunks."""
        kernels.compare("onebit:block=64", code_choice._ties(), torch.zeros(code_choice.VALUES))
        for places in ((0, 1, 2), (0, 0, 2), (1, 2, 2), (2, 0, 1)):  # chunks of 1 and of what is lost beside it
            x = torch.full((3, CHUNK), -1.0)
            x[:2] = 0
            x[2, :16] = 0
            x[0, 16:32] = -1.0
            for place, (at, value) in zip((0, *places), ((5, 2.0**-24), (3, 1.0), (7, 1.5 * 2.0**-54),
                                                         (9, 1.5 * 2.0**-54))):
                x[place, at] = value
            self.assertEqual(int((x >= 0).sum()), 2 * CHUNK)  # so that the mean is half way between two floats
            kernels.compare("onebit", x.view(-1), torch.zeros(3 * CHUNK))

    def test_words(self):
        """Of seeds, steps and indices with more than 32 bits."""
        for seed, step, first in ((2**63 + 5, 7, 0), (6, 2**40 + 1, 2**34 + 8), (2**32, 2**63, 2**45 + 4)):
            for aligned, begin in ((True, first), (False, first), (False, first + 3)):
                out = torch.empty(8, dtype=torch.int64)
                words_at[(1,)](out, begin, _codes_triton._signed(seed), _codes_triton._signed(step), ALIGNED=aligned)
                self.assertEqual(out.tolist(), philox.random_words(seed, step, begin, 8))
            self.assertEqual(_codes_torch.words_of(Words(seed, step), 9, CPU).tolist(),
                             philox.random_words(seed, step, 0, 9))

    def test_more_values_than_an_int_counts(self):
        """The last program of a tensor that is there on paper: its other pages are never touched."""
        n = 2**31 + 4093
        first = n - n % _codes_triton.TILE
        gradient, planes = torch.empty(n, dtype=torch.float16), torch.empty(n, dtype=torch.uint8)
        clipped = torch.zeros(1, dtype=torch.int32)
        gradient[first:] = 0.25
        codes = Codes.of("natural")
        with mock.patch.multiple(_codes_triton, _encode=LastProgram(_codes_triton._encode),
                                 _decode=LastProgram(_codes_triton._decode)):
            _codes_triton.encode(codes, None, gradient, torch.ones(1), Words(1, 0), None, planes, clipped)
            gradient[first:] = 7
            _codes_triton.decode(codes, planes, torch.ones(1), gradient)
        self.assertTrue((planes[first:] == 48).all() and (gradient[first:] == 0.25).all())

    def test_launches(self):
        """Programs are full, but for those at the end; products and sums stay apart; no values, no program."""
        x, octets = torch.ones(5000), torch.zeros(6000, dtype=torch.uint8)
        for codec, n, grid, rows, columns in (
                ("natural", 5000, 3, 1, 2048), ("qsgd:block=7", 5000, 3, 256, 8), ("qsgd:block=9", 5000, 5, 128, 16),
                ("onebit:block=2500", 5000, 4, 1, 2048), ("natural", 1, 1, 1, 2048), ("natural", 0, None, 0, 0)):
            kernel, codes = mock.MagicMock(), Codes.of(codec)
            with mock.patch.multiple(_codes_triton, _encode=kernel, _decode=kernel):
                _codes_triton.encode(codes, None, x[:n], x, Words(1, 2), None, octets, x)
                _codes_triton.decode(codes, octets, x, x[:n])
            calls = kernel.__getitem__.return_value.call_args_list
            self.assertEqual([call.args[0] for call in kernel.__getitem__.call_args_list],
                             [] if grid is None else [(grid,)] * 2)
            for call in calls:
                self.assertEqual((call.kwargs["ROWS"], call.kwargs["COLUMNS"], call.kwargs["enable_fp_fusion"]),
                                 (rows, columns, False))
            if calls:
                self.assertEqual(calls[0].kwargs["ALIGNED"], codec not in ("qsgd:block=7", "qsgd:block=9"))

    def test_sweeps(self):
        """Two: each value is read twice. Torch operations make more than five times as many bytes."""
        n = 1 << 13
        for codec, size in (("natural", 1), ("natural:bits=9", 1.125), ("int8", 1), ("qsgd", 1),
                            ("qsgd:bits=4", 0.5), ("onebit", 0.125)):
            codes, residual = Codes.of(codec), None if codec != "onebit" else torch.randn(n)
            gradient, kept = torch.randn(n), 0 if residual is None else 4
            with Accesses() as touched:
                scalars, payload, _ = code_choice.coded(kernels.SWEEPS, codes, residual, gradient, Words(1, 0))
            self.assertAlmostEqual(touched.bytes("reads") / n, 8 + 2 * kept, delta=0.02)
            self.assertAlmostEqual(touched.bytes("writes") / n, size + kept, delta=0.02)
            with Traffic() as traffic:
                code_choice.coded(code_choice.OPERATIONS, codes, residual, gradient, Words(1, 0))
            self.assertGreater(traffic.read + traffic.written, 5 * n * (8 + size))
            with Accesses() as answer:
                kernels.SWEEPS.decode(codes, codes.planes(payload, n), torch.tensor(scalars), gradient)
            self.assertAlmostEqual(answer.bytes("reads") / n, size, delta=0.01)
            self.assertEqual(answer.bytes("writes"), 4 * n)
            with Traffic() as operations:
                code_choice.OPERATIONS.decode(codes, codes.planes(payload, n), torch.tensor(scalars), gradient)
            print(f"# {codec}: kernels {8 + 2 * kept} + {size + kept} bytes a value, torch operations "
                  f"{traffic.read / n:.1f} + {traffic.written / n:.1f}; decoding {size} + 4, "
                  f"{operations.read / n:.1f} + {operations.written / n:.1f}")


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Choice(unittest.TestCase):
    def test_right_kernels_are_taken(self):
        few = {"natural": ["natural:bits=9,block=3001"], "int8": ["int8"], "qsgd": ["qsgd:bits=4"],
               "onebit": ["onebit:block=64"]}
        with mock.patch.dict(code_choice.CODECS, few):  # others take longer, and kernels.py tries them
            for name, dtype in zip(few, (*DTYPES.values(), torch.float32)):
                self.assertEqual(chosen(_codes_triton, code_choice.code_sweeps_for, CPU, dtype, name),
                                 (kernels.SWEEPS, []))

    def test_wrong_kernels_are_refused(self):
        for what, (name, *change) in WRONG.items():
            with self.subTest(what), mutant(_codes_triton, *change) as module:
                sweeps, caught = chosen(_codes_triton, code_choice.code_sweeps_for, CPU, torch.float32, name,
                                        module=module)
                self.assertIs(sweeps, code_choice.OPERATIONS)
                self.assertEqual(len(caught), 1)
                self.assertRegex(caught[0], "torch operations work on gradients on cpu.*: " + (
                    "InterpreterError.*above" if what == "cannot compile" else "they do not make what the host makes"))

    def test_without_triton(self):
        """No warning, and torch operations, which make the same bytes."""
        for name in code_choice.CODECS:
            with mock.patch.object(usable, "_INSTALLED", False):
                self.assertEqual(chosen(_codes_triton, code_choice.code_sweeps_for, CPU, torch.float32, name),
                                 (code_choice.OPERATIONS, []))
            pairs = [(dtype, torch.float32) for dtype in DTYPES.values()]
            for dtype, kept in (*pairs, (torch.float32, torch.bfloat16)):
                self.assertTrue(code_choice.same_codes(code_choice.OPERATIONS, CPU, dtype, name, kept))

    def test_trainings(self):
        host, device = (CLUSTER.run(2, trained, quantize, "natural") for quantize in ("host", "device"))
        self.assertEqual(device, host)
        self.assertEqual(device[0][2], _codes_triton.__name__)


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Compiled(unittest.TestCase):
    PROGRAM = """
from threelc.torch.kernels import _codes_triton as kernels, ternary
types = {"residual": "*i16", "gradient": "*i16", "scalars": "*fp32", "rest": "*i16", "planes": "*u8",
         "clipped": "*i32", "out": "*i16", "found": "*fp64", "seed": "i64", "step": "i64", "weight": "fp32"}
for kind, bits, nearest, aligned in ((0, 8, False, True), (0, 9, False, False), (1, 4, False, True),
                                     (1, 8, False, True), (1, 8, True, True), (2, 1, False, True)):
    tile = {"KIND": kind, "BITS": bits, "ROWS": 1, "COLUMNS": kernels.TILE}
    none = {"residual": None, "rest": None} if kind < 2 else {}
    made(kernels._encode, types, {**tile, "NEAREST": nearest, "ALIGNED": aligned, **none})
    made(kernels._decode, types, {**tile, "ADD": False})
made(kernels._decode, {**types, "out": "*fp32"}, {"KIND": 0, "BITS": 8, "ADD": True, "ROWS": 1, "COLUMNS": 256})
made(kernels._sides, types, {"SIZE": kernels.CHUNK, "ROWS": kernels.CHUNKS})
made(ternary._maxima, {"gradient": "*fp32", "found": "*i32"}, {"ROWS": 1, "COLUMNS": 1024, "residual": None})
"""

    def test_float_modes(self):
        """As those of test_kernels.py; and what is divided is rounded."""
        made = compiled(self.PROGRAM)
        self.assertEqual(made.count(".visible .entry"), 15)
        self.assertGreater(made.count("div.rn.f32"), 20)
        self.assertGreater(made.count("add.rn.f64"), 8)
        self.assertEqual(re.findall(r"\S*ftz\S*|fma\.\S*f(?:32|64)|div\.(?:approx|full)\S*", made), [])
        self.assertEqual(re.findall(r"denorm_mode_32 (\d)", made), ["3"] * 15)


if __name__ == "__main__":
    unittest.main()
