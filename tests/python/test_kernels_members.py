# SPDX-License-Identifier: MIT
"""Triton's kernels of sparse codecs in Triton's interpreter, beside torch operations: some of what kernels.py tries,
what they read and write, what becomes of kernels that are wrong, and what is compiled for GPUs."""
import math
import random
import re
import sys
import unittest
from pathlib import Path
from unittest import mock

import torch

from kernel_tools import CPU, HERE, LastProgram, Traffic, chosen, compiled, mutant  # before others import triton

if HERE:
    import kernels
    import kernels_members
    import triton
    import triton.language as tl
    from threelc.torch.kernels import _members_triton, members, usable
    from threelc.torch.kernels.selector import Selector

    @triton.jit
    def words_of(index, random, found, n: tl.constexpr):
        i = tl.arange(0, n)
        tl.store(found + i, _members_triton._word(tl.load(index + i), random))

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "vectors"))
from philox import random_words  # noqa: E402

WRONG = {  # what a device may do: the codec that finds it, and a change of the source
    "flushes subnormal sums": (
        0, "    bits = x.to(tl.int32", "    x = tl.where(tl.abs(x) < 2.0**-126, 0.0, x)\n    bits = x.to(tl.int32"),
    "knows no NaN": (0, "tl.max(bits & 0x7fffffff, 1)", "tl.max(bits & 0x7f7fffff, 1)"),
    "takes the last ties": (1, "rank <= tl.load", "rank > tl.load"),
    "draws other samples": (0, "counter = index >> 2", "counter = index >> 3"),
    "lists the other side": (2, "(bits < 0) == (side == 1)", "(bits < 0) == (side == 0)"),
    "divides approximately": (3, "tl.math.div_rn(x, tl.zeros([ROWS, WIDTH], tl.float32) + p)", "x * (1 / p)"),
    "sends other values": (3, "(words >> 8).to(tl.int32) < limit", "(words >> 8).to(tl.int32) + limit >= 1 << 24"),
    "cannot compile": (0, "tl.cumsum(listed, 1)", "listed.cumulated()"),
    "looks into the next block": (4, "(place < block) & (at < n)", "at < n"),
}


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Kernels(unittest.TestCase):
    def test_golden_vectors(self):
        """Every seventeenth; kernels.py takes all."""
        records = kernels_members.golden()
        self.assertGreater(len(records), 300)
        for record in records[::17]:
            kernels_members.replay(record)

    def test_random_tensors(self):
        for i, codec in enumerate(kernels_members.CODECS):
            for seed in range(2):
                kernels_members.trial(codec, 10 * i + seed)

    def test_edges(self):
        """Sizes about those of programs; ties before, at and after their borders; values that have no room."""
        torch.manual_seed(7)
        tile = _members_triton.TILE
        for n in (tile - 1, tile, tile + 1, 4095, 4096, 4097, 5 * tile):
            for codec in ("topk:p=0.3", "topk:p=0.3,select=exact", "sbc:p=0.3"):
                with self.subTest(f"{codec}, {n} values"):
                    kernels_members.compare(codec, torch.zeros(n), torch.randn(n), n)
                    kernels_members.compare(codec, torch.zeros(n), torch.randn(n).sign(), n)
        for n in (tile - 1, tile, 2 * tile + 1):
            kernels_members.compare("random-sparse", None, torch.randn(n), n)
        for p in (0.1, 0.2, 0.4):
            gradient = torch.ones(5 * tile)
            gradient[::7] = 2
            gradient[3::7] = -2
            for codec, most in (("topk:p={}", min(2 * math.ceil(p * 5 * tile), 5 * tile)),
                                ("topk:p={},select=exact", round(p * 5 * tile)), ("sbc:p={}", None)):
                k = kernels_members.compare(codec.format(p), torch.zeros(5 * tile), gradient)
                if codec == "topk:p={},select=exact" or (most and p == 0.4):
                    self.assertEqual(k, most)

    def test_as_many_samples_as_wanted(self):
        """Samples that are not 0: fewer than are wanted, as many, and more."""
        n, samples = 6000, 4096
        words = random_words(3, 0, 0, samples)
        at = [j * n // samples + word % ((j + 1) * n // samples - j * n // samples) for j, word in enumerate(words)]
        for large in (204, 205, 206):
            gradient = torch.ones(n)
            gradient[at] = 0
            gradient[at[:large]] = torch.arange(4.0, 4 + large)
            k = kernels_members.compare("topk:p=0.05", torch.zeros(n), gradient, 3)
            self.assertEqual(k, 205 if large > 205 else 600)

    def test_values_that_are_not_finite(self):
        for codec in ("topk:p=0.01", "topk:p=0.01,select=exact", "sbc"):
            for dtype in kernels.DTYPES.values():
                for value in kernels.NONFINITE:
                    for at in (0, 5000):
                        residual, gradient = torch.full((5001,), 3e38), torch.zeros(5001, dtype=dtype)
                        gradient[at] = value
                        kernels_members.compare(codec, residual, gradient)
            kernels_members.compare(codec, torch.full((10,), 3e38), torch.full((10,), 3e38))  # the sum is infinite
        for value in (*kernels.NONFINITE, 3.4e37, 3.41e37):  # the last one is more than the largest number / 10
            gradient = torch.ones(2000)
            gradient[1500] = value
            kernels_members.compare("random-sparse:p=0.1", None, gradient)

    def test_random_words(self):
        """Of large numbers, against the model. (Those of torch operations are tested with qsgd.)"""
        draw = random.Random(1)
        for _ in range(5):
            seed, step, first = (draw.getrandbits(bits) for bits in (64, 64, 50))
            index = torch.arange(first, first + 16)
            found = torch.empty(16, dtype=torch.int64)
            signed = torch.tensor([_members_triton._signed(seed), _members_triton._signed(step)])
            words_of[1,](index, signed, found, 16)
            self.assertEqual(found.tolist(), random_words(seed, step, first, 16))

    def test_samples(self):
        """One of each of equal parts, also where these are not equally long, and several programs draw."""
        for n, samples in ((5000, 4096), (4097, 4096), (9000, 1025), (123457, 1000)):
            words = random_words(2**63 + 7, 9, 0, samples)
            wanted = [j * n // samples + word % ((j + 1) * n // samples - j * n // samples)
                      for j, word in enumerate(words)]
            residual = torch.arange(n, dtype=torch.int32).view(torch.float32)
            for way in kernels_members.WAYS:
                keys = way.draw(residual, torch.zeros(n), samples, 2**63 + 7, 9)
                self.assertEqual(keys.tolist(), wanted)

    def test_samples_of_units(self):
        """Units follow each other, the first one anywhere in the tensor: their words are those of their values."""
        n, units, samples, first = 1009, 5, 400, 4711
        wanted = [unit * n + j * n // samples + word % ((j + 1) * n // samples - j * n // samples)
                  for unit in range(units) for j, word in enumerate(random_words(7, 3, first + unit * n, samples))]
        residual = torch.arange(units * n, dtype=torch.int32).view(torch.float32)
        for way in kernels_members.WAYS:
            self.assertEqual(way.draw(residual, torch.zeros(units * n), samples, 7, 3, first, units).tolist(), wanted)

    def test_more_values_than_an_int_counts(self):
        """The last program of a tensor that is there on paper: its other pages are never touched."""
        n = 2**31 + 4098
        first, programs = n - n % _members_triton.TILE, -(-n // _members_triton.TILE)
        residual, gradient = torch.empty(n), torch.empty(n, dtype=torch.float16)
        residual[first:], gradient[first:] = torch.tensor([3.0, -2.0]), 0.5
        least = torch.tensor([[3.5, 1.5]]).view(torch.int32)
        starts, equals = torch.zeros(programs + 1, dtype=torch.int64), torch.zeros(programs, 2, dtype=torch.int64)
        starts[-1] = 2
        with mock.patch.multiple(_members_triton, _count=LastProgram(_members_triton._count),
                                 _list=LastProgram(_members_triton._list)):
            largest, counts = _members_triton.counts(residual, gradient, least, None)
            rest = torch.empty_like(residual)
            positions, values = _members_triton.lists(residual, gradient, least, starts, equals, torch.tensor([[1, 0]]),
                                                      None, rest, 2, True)
        self.assertEqual((largest[-1:].view(torch.float32).item(), counts[-1].tolist()), (3.5, [[0, 1], [0, 1]]))
        self.assertEqual((positions[0].item(), values[0].item(), rest[first:].tolist()), (first, 3.5, [0, -1.5]))

    def test_samples_of_more_values_than_an_int_counts(self):
        """The same; each part has one sample."""
        n, samples = 2**31 + 4098, 4096
        words = random_words(5, 0, 0, samples)
        at = torch.tensor([j * n // samples + word % ((j + 1) * n // samples - j * n // samples)
                           for j, word in enumerate(words)])
        residual, gradient = torch.empty(n), torch.empty(n, dtype=torch.float16)
        residual[at], gradient[at] = torch.arange(1.0, samples + 1), 0.5
        for way in kernels_members.WAYS:
            keys = way.draw(residual, gradient, samples, 5, 0)
            self.assertTrue(torch.equal(keys.view(torch.float32), torch.arange(1.5, samples + 1)))

    def test_launches(self):
        """Programs are full, but for the last one; products and sums stay apart."""
        x = torch.ones(2500)
        kernel = mock.MagicMock()
        with mock.patch.multiple(_members_triton, _draw=kernel, _count=kernel, _list=kernel):
            _members_triton.draw(x, x, 1025, 1, 2)
            _members_triton.counts(x, x, x[:1, None], None)
            _members_triton.lists(x, x, x[:1, None], x[:4], x[:3], None, None, x, 5, True)
            for block in (64, 1500):  # 40 rows of 64 values, 16 in a program; and 2 times 2 rows
                _members_triton.counts(x, x, x[:40, None], None, block)
        self.assertEqual([call.args[0] for call in kernel.__getitem__.call_args_list], [(2,), (3,), (3,), (3,), (4,)])
        self.assertEqual([call.kwargs["enable_fp_fusion"] for call in
                          kernel.__getitem__.return_value.call_args_list], [False] * 5)

    def test_sweeps(self):
        """Two: each value is read twice and written once, and 8 bytes for each that is sent. Torch operations read and
        write more than twice as many bytes."""
        n, selector = 50000, Selector.of("topk:p=0.05")
        for dtype, read in ((torch.float32, 16), (torch.bfloat16, 12)):
            residual, gradient = torch.randn(n), torch.randn(n).to(dtype)
            samples = 4096 * (4 + gradient.element_size()) / n
            with kernels.Accesses() as touched:
                k = len(members.choose(kernels_members.SWEEPS, selector, residual, gradient, 1, 0).positions)
            self.assertAlmostEqual(touched.bytes("reads") / n, read + samples, delta=0.05)
            self.assertAlmostEqual(touched.bytes("writes") / n, 4 + (8 * k + 4 * 4096) / n, delta=0.05)
            self.assertEqual(touched.maxima, [])
            with Traffic() as traffic:
                members.choose(members.OPERATIONS, selector, residual, gradient, 1, 0)
            self.assertGreater(traffic.read + traffic.written, 2 * n * (read + 4.4))
            print(f"# {dtype}: kernels {touched.bytes('reads') / n:.1f} + {touched.bytes('writes') / n:.1f} bytes a "
                  f"value, torch operations {traffic.read / n:.1f} + {traffic.written / n:.1f}")


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Choice(unittest.TestCase):
    def test_right_kernels_are_taken(self):
        every = members.CODECS  # together they take longer, and kernels.py tries them
        for dtype, codecs in zip(kernels.DTYPES.values(), (every[:2], every[2:], every[1:3])):
            with mock.patch.object(members, "CODECS", codecs):
                self.assertEqual(chosen(_members_triton, members.sweeps_for, CPU, dtype), (kernels_members.SWEEPS, []))

    def test_wrong_kernels_are_refused(self):
        for what, (codec, *change) in WRONG.items():
            with self.subTest(what), mutant(_members_triton, *change) as module, \
                    mock.patch.object(members, "CODECS", members.CODECS[codec:codec + 1]):
                sweeps, caught = chosen(_members_triton, members.sweeps_for, CPU, torch.float32, module=module)
                self.assertIs(sweeps, members.OPERATIONS)
                self.assertEqual(len(caught), 1)
                reason = "InterpreterError.*cumulated" if what == "cannot compile" else "they do not make what the host"
                self.assertRegex(caught[0], "torch operations work on sparse gradients on cpu.*: " + reason)

    def test_what_is_compared(self):
        """Each thing by itself: values, positions, what is left, and that NaN and infinity are found."""
        right = members.OPERATIONS

        def lists(change):
            def changed(*arguments):
                found = right.lists(*arguments)
                change(*found, arguments[7])
                return found
            return right._replace(lists=changed)

        def blind(to):
            """The largest key is 0 in place of some."""
            def counts(*arguments):
                largest, found = right.counts(*arguments)
                return largest.where(~to(largest), largest.new_zeros(1)), found
            return right._replace(counts=counts)

        for sweeps, is_right in (
                (right, True), (lists(lambda at, values, rest: values[:1].neg_()), False),
                (lists(lambda at, values, rest: at[:1].neg_().sub_(1)), False),
                (lists(lambda at, values, rest: rest[-1:].add_(1)), False),
                (blind(lambda key: key > 0x7f800000), False), (blind(lambda key: key == 0x7f800000), False)):
            with mock.patch.object(members, "CODECS", members.CODECS[:1]):
                self.assertEqual(members.same_bits(sweeps, CPU, torch.float32, torch.float32), is_right)

    def test_without_triton(self):
        with mock.patch.object(usable, "_INSTALLED", False):
            self.assertEqual(chosen(_members_triton, members.sweeps_for, CPU, torch.float32),
                             (members.OPERATIONS, []))


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Compiled(unittest.TestCase):
    PROGRAM = """
from threelc.torch.kernels import _members_triton as kernels
types = {"residual": sys.argv[1], "gradient": sys.argv[1], "keys": "*i32", "random": "*i64", "least": "*i32",
         "largest": "*i32", "counts": "*i32", "starts": "*i64", "equals": "*i64", "ties": "*i64", "positions": "*i32",
         "values": "*fp32", "rest": sys.argv[1], "n": "i64", "seed": "i64", "step": "i64"}
made(kernels._draw, types, {"TILE": kernels.TILE})
tile = {"ROWS": 1, "WIDTH": kernels.TILE}
made(kernels._count, types, {**tile, "SIDES": 2, "CHANCE": False})
made(kernels._count, types, {**tile, "SIDES": 1, "CHANCE": True, "residual": None})
made(kernels._list, types, {**tile, "SIDES": 2, "TIES": True, "WHOLE": False, "CHANCE": False})
made(kernels._list, types, {"ROWS": 16, "WIDTH": 64, "SIDES": 1, "TIES": False, "WHOLE": True, "CHANCE": False})
made(kernels._list, types, {**tile, "SIDES": 1, "TIES": False, "WHOLE": True, "CHANCE": True})
"""

    def test_float_modes(self):
        """Kernels compile for GPUs of NVIDIA and AMD, without what would change bits: nothing is fused or flushed."""
        for gradient in ("*fp32", "*i16"):
            made = compiled(self.PROGRAM, gradient)
            self.assertEqual(made.count(".visible .entry"), 6)
            self.assertGreater(len(re.findall(r"add(\.rn)?\.f32", made)), 10)
            self.assertEqual(re.findall(r"\S*ftz\S*|fma\.\S*f32", made), [])
            self.assertEqual(re.findall(r"denorm_mode_32 (\d)", made), ["3"] * 6)


if __name__ == "__main__":
    unittest.main()
