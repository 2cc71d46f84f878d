# SPDX-License-Identifier: MIT
"""Deltas of weights where these lie, against the C library: kernels of Triton, in its interpreter, and torch
operations. Tensors end, or begin, at memory that must not be touched.

    PYTHONPATH=src/python python3 tests/python/test_kernels_delta.py 1000    # shapes for each way, in place of 33
"""
import ctypes
import mmap
import os
import sys
import types
import unittest
from unittest import mock

os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import torch
from threelc import delta
from threelc._arrays import weight_dtype_of
from threelc.torch import kernels as package
from threelc.torch.kernels import _delta_torch, delta as kernels, tried, usable
from threelc.torch.kernels._units import BLOCK, bits_of, unit_of

WAYS = {"torch": _delta_torch}
try:
    from threelc.torch.kernels import _delta_triton
    WAYS["triton"], TILE = _delta_triton, _delta_triton.TILE
except ImportError:
    _delta_triton = None
    print("# triton is not installed: its kernels are not tested")
TRIALS = 33
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f8_e4m3": torch.uint8,
          "f8_e5m2": torch.uint8, "f4_e2m1": torch.uint8, "u8": torch.int8, "u4": torch.uint8, "i32": torch.int32,
          "i64": torch.int64, "f64": torch.float64}
LENGTHS = (1, 2, 7, 1023, 1024, 1025, 3000, BLOCK - 1, BLOCK, BLOCK + 1, BLOCK + 1100, 2 * BLOCK + 5)
SHARES = (0, 0.001, 0.01, 0.1, 0.45, 0.7, 0.95, 1)
PAGE = mmap.PAGESIZE
LIBC = ctypes.CDLL(None)


def guarded(tensor, at_end):
    """A copy that ends where memory ends, or begins where it begins."""
    size = tensor.numel() * tensor.element_size()
    pages = -(-size // PAGE)
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (start, start + (pages + 1) * PAGE):
        assert LIBC.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), 0) == 0
    if not size:
        return tensor.clone()
    offset = PAGE + (pages * PAGE - size if at_end else 0)
    return torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel(), offset=offset).copy_(tensor)


class Weights:
    """Random ones before and after a step."""

    def __init__(self, name, n, share, seed):
        rng = torch.Generator().manual_seed(seed)
        self.name, self.dtype = name, DTYPES[name]
        self.unit = unit_of(weight_dtype_of(name))
        self.elements = -(-n // self.unit.in_a_byte)
        self.n = self.elements * self.unit.in_a_byte
        width = max(self.unit.width, 8)
        bits = torch.randint(0, 256, (self.elements * width // 8,), generator=rng, dtype=torch.uint8)
        before = bits.view(self.unit.integer)
        after = before + self.steps(rng, width, seed)
        if self.unit.width == 4:  # of each half
            keep = (torch.rand(2, self.elements, generator=rng) < share).to(torch.uint8)
            after = before ^ (before ^ after) & (keep[0] * 15 + keep[1] * 240)
        else:
            after = torch.where(torch.rand(self.elements, generator=rng) < share, after, before)
        self.before, self.after = before.view(self.dtype), after.view(self.dtype)

    def steps(self, rng, width, seed):
        """Small ones, any, signs alone (0 and -0), or of one half alone."""
        small = torch.randint(-2, 3, (self.elements,), generator=rng)
        full = torch.randint(-2**62, 2**62, (self.elements,), generator=rng) * 2 + small
        kinds = [small, full, torch.full_like(small, 1 << (width - 1) if width < 64 else -2**63)]
        if width == 64:
            kinds += [(full & 0xffffffff) + (small << 32), (full & ~0xffffffff) + small]
        return kinds[seed // len(DTYPES) % len(kinds)].to(self.unit.integer)

    def nibbles(self, tensor):
        bits = tensor.view(self.unit.integer)
        return bits if self.unit.width != 4 else torch.stack([bits & 15, bits >> 4], 1).view(-1)


def integers(view, dtype):
    return torch.frombuffer(view, dtype=dtype)


class Ways(unittest.TestCase):
    def each(self):
        """Runs what follows by each way."""
        for module in WAYS.values():
            with mock.patch.object(kernels, "_path", lambda device, unit: module):
                yield module

    def use_large_tiles(self):
        """Of fewer programs: each takes the interpreter as long."""
        if _delta_triton:
            _delta_triton.TILE = 32768

    def tearDown(self):
        if _delta_triton:
            _delta_triton.TILE = TILE

    def equal(self, one, other, where):
        self.assertTrue(torch.equal(one.view(-1).view(torch.uint8), other.view(-1).view(torch.uint8)), where)


class Random(Ways):
    def test_random_shapes(self):
        for _ in self.each():
            kinds = set()
            for seed in range(TRIALS):
                kinds |= self.trial(seed)
                self.tearDown()
            self.assertTrue(TRIALS < 200 or kinds == {0, 1, 2, 3}, kinds)

    def trial(self, seed):
        rng = torch.Generator().manual_seed(seed)
        pick = lambda among: among[int(torch.randint(len(among), (), generator=rng))]  # noqa: E731
        name, n, share = list(DTYPES)[seed % len(DTYPES)], pick(LENGTHS), pick(SHARES)
        w = Weights(name, n, share, seed)
        if n > 4000:
            self.use_large_tiles()
        where = f"seed {seed}: {name}, {w.n} weights, {share}"
        before, after = (guarded(each, seed % 2) for each in (w.before, w.after))
        found = kernels.find(before, after, dtype=name)
        frame = delta.compress(w.before, w.after, dtype=name)
        digests = delta.digest(w.before, dtype=name), delta.digest(w.after, dtype=name)
        self.assertEqual(delta.from_changes(*found, w.n, dtype=name, digests=digests), frame, where)
        return {*self.applied(w, frame, before, where),
                *self.applied(w, delta.compress(None, w.after, dtype=name), before.zero_(), where)}

    def applied(self, w, frame, weights, where):
        kinds = set()
        for piece in delta.changes(frame):
            kernels.apply(weights, guarded(integers(piece.positions, torch.int64), w.n % 2),
                          guarded(integers(piece.values, w.unit.integer), w.n % 2), piece.are_values, dtype=w.name)
            kinds.add(piece.are_values)
        self.equal(weights, w.after, where)
        return kinds


class Lists(Ways):
    def test_lists(self):
        """What is listed, of each dtype; tiles that end anywhere."""
        for _ in self.each():
            for i, name in enumerate(DTYPES):
                w = Weights(name, 3001, 0.3, i)
                found = kernels.find(guarded(w.before, True), guarded(w.after, True), dtype=name)
                before, after = w.nibbles(w.before), w.nibbles(w.after)
                where = (before != after).nonzero()[:, 0]
                self.assertTrue(torch.equal(found.positions, where), name)
                self.assertEqual([each.dtype for each in found], [torch.int64, w.dtype, w.dtype])
                self.equal(found.before, before[where], name)
                self.equal(found.after, after[where], name)

    def test_blocks_that_are_listed_whole(self):
        """Those of which more than half differ, and short ones; the last one has 3001 weights, or few."""
        self.use_large_tiles()
        for _ in self.each():
            for changed, whole in ((BLOCK // 2, False), (BLOCK // 2 + 1, True)):
                for length, last, last_whole in ((3001, 1500, False), (3001, 1501, True), (2048, 9, False),
                                                 (2047, 1, True), (2047, 0, False), (5, 1, True)):
                    before = torch.zeros(2 * BLOCK + length, dtype=torch.int8)
                    after = before.clone()
                    after[BLOCK:BLOCK + changed], after[2 * BLOCK:2 * BLOCK + last] = 1, 1
                    found = kernels.find(before, after)
                    expected = [*range(BLOCK, BLOCK + (BLOCK if whole else changed)),
                                *range(2 * BLOCK, 2 * BLOCK + (length if last_whole else last))]
                    self.assertEqual(found.positions.tolist(), expected)
                    self.assertEqual(int(found.after.sum()), changed + last)
                    self.assertFalse(found.before.any())

    def test_blocks_that_frames_have_as_they_are(self):
        """Nine of ten weights differ by anything: then weights are shorter than differences."""
        self.use_large_tiles()
        for _ in self.each():
            w = Weights("bf16", BLOCK + 300, 0.97, len(DTYPES))
            frame = delta.compress(w.before, w.after, digests=False)
            self.assertGreater(delta.inspect(frame).raw_blocks, 0)
            self.assertEqual(delta.from_changes(*kernels.find(w.before, w.after), w.n), frame)

    def test_bits(self):
        """0 and -0 differ, a NaN and itself do not, two NaNs do."""
        before, after = torch.zeros(2, 5000, dtype=torch.int32)
        before[:3] = torch.tensor([0, 0x7fc00000, 0x7fc00000])
        after[:3] = torch.tensor([-2**31, 0x7fc00000, 0x7fc00001])
        before, after = before.view(torch.float32), after.view(torch.float32)
        for _ in self.each():
            self.assertEqual(kernels.find(before, after).positions.tolist(), [0, 2])

    def test_most(self):
        before = torch.zeros(5000, dtype=torch.bfloat16)
        after = before.clone()
        after[::10] = 1
        for _ in self.each():
            self.assertIsNone(kernels.find(before, after, most=499))
            self.assertEqual(len(kernels.find(before, after, most=500).positions), 500)

    def test_nothing(self):
        for _ in self.each():
            for name, dtype in DTYPES.items():
                for n in (0, 2000):
                    found = kernels.find(torch.ones(n, dtype=dtype), torch.ones(n, dtype=dtype), dtype=name)
                    self.assertEqual([(len(each), each.dtype) for each in found],
                                     [(0, torch.int64), (0, dtype), (0, dtype)])
                    weights = torch.ones(n, dtype=dtype)
                    kernels.apply(weights, found.positions, found.after.view(bits_of(weights, name, "")[0].dtype),
                                  dtype=name)
                    self.assertTrue((weights == 1).all())

    def test_shapes(self):
        """Views that begin anywhere, of any shape."""
        memory = torch.randint(-9, 9, (4001,), dtype=torch.int16)
        for _ in self.each():
            for first in (0, 1, 3):
                old = memory[first:first + 3990].view(2, 5, 399)
                new = old.clone()
                new[1, 2, 3] += 1
                self.assertEqual(kernels.find(old, new, dtype="bf16").positions.tolist(), [1995 + 2 * 399 + 3])
                copy = memory.clone()
                kernels.apply(copy[first:first + 3990].view(2, 5, 399), torch.tensor([5, 3989]),
                              torch.tensor([100, 101], dtype=torch.int16), 1, dtype="bf16")
                self.assertEqual((copy != memory).nonzero()[:, 0].tolist(), [first + 5, first + 3989])


class Changed(Ways):
    def test_nibbles(self):
        """Two changes in a byte, or one of its halves; in a tile, and at its end. Differences, and values."""
        for _ in self.each():
            for kind in range(2):
                self.check_nibbles(kind)

    def check_nibbles(self, kind):
        for places in ([0], [1], [0, 1], [1, 2], [0, 1, 2, 3], [1, 2, 3, 4], [2046, 2047, 2048, 2049, 2051],
                       list(range(1, 2500)), list(range(0, 2500))):
            weights = torch.full((1250,), 0x21, dtype=torch.uint8)
            after = torch.stack([weights & 15, weights >> 4], 1).view(-1)
            values = (torch.arange(len(places)) * 7 % 16 + 3).to(torch.uint8) % 16
            after[places] = (values if kind else after[places] + values) % 16
            kernels.apply(weights, torch.tensor(places), values, kind, dtype="u4")
            self.assertEqual(weights.tolist(), (after[::2] | after[1::2] << 4).tolist(), places[:9])

    def test_values_of_64_bits(self):
        """Halves are differences, or what the weights are next."""
        x, d = 0x7000_0001_ffff_ffff, 0x0000_0002_0000_0001
        for _ in self.each():
            for kind, expected in ((0, 0x7000_0003_0000_0000), (1, 0x7000_0003_0000_0001), (2, 0x0000_0002_0000_0000),
                                   (3, d)):
                weights = torch.tensor([5, x, 6])
                kernels.apply(weights, torch.tensor([1]), torch.tensor([d]), kind)
                self.assertEqual(weights.tolist(), [5, expected, 6])

    def test_wrong_lists(self):
        """Nothing is written."""
        n = 3000
        good = list(range(0, 2000, 2))
        for _ in self.each():
            for name in ("bf16", "u4"):
                weights = torch.arange(n, dtype=torch.int64).to(DTYPES[name])
                bound = n * (2 if name == "u4" else 1)
                integer = torch.int16 if name == "bf16" else torch.uint8
                for positions, words in (
                        ([*good, bound], rf"positions\[1000\] is {bound}, after 1998: they rise, and are below "
                         f"{bound}"),
                        ([-1, *good], r"positions\[0\] is -1: they rise"), ([-2**63], "is -9223372036854775808"),
                        ([bound], rf"positions\[0\] is {bound}: "), ([2**63 - 1], "is 9223372036854775807"),
                        ([*good, 1998], r"positions\[1000\] is 1998, after 1998"),
                        ([*good, 5], r"positions\[1000\] is 5, after 1998"), ([3, 2], r"positions\[1\] is 2, after 3")):
                    mine = weights.clone()
                    with self.assertRaisesRegex(ValueError, words):
                        kernels.apply(mine, torch.tensor(positions), torch.ones(len(positions), dtype=integer),
                                      dtype=name)
                    self.equal(mine, weights, positions[-3:])
                mine = weights.clone()
                one = torch.ones(1, dtype=integer)
                kernels.apply(mine, torch.tensor([bound - 1]), one, dtype=name)
                self.assertEqual(int((mine != weights).sum()), 1)
                for arguments, words in (((torch.tensor([1, 2]), one), "there are 2 positions and 1 values"),
                                         ((torch.tensor([1]), one, 2), "are_values is 2, of weights of"),
                                         ((torch.tensor([1]), one, -1), "are_values is -1")):
                    with self.assertRaisesRegex(ValueError, words):
                        kernels.apply(weights, *arguments, dtype=name)

    def test_wrong_tensors(self):
        weights, at, by = torch.zeros(9, dtype=torch.bfloat16), torch.tensor([1]), torch.ones(1, dtype=torch.int16)
        for error, words, call in (
                (TypeError, "positions are torch.int32, and torch.int64", lambda: kernels.apply(weights, at.int(), by)),
                (TypeError, "positions are torch.float64", lambda: kernels.apply(weights, at.double(), by)),
                (TypeError, "values are torch.int64, and torch.int16", lambda: kernels.apply(weights, at, at)),
                (ValueError, "values should be contiguous, on cpu", lambda: kernels.apply(
                    weights, torch.tensor([1, 2]), torch.ones(4, dtype=torch.int16)[::2])),
                (ValueError, "positions is a Tensor of 1 values without memory", lambda: kernels.apply(
                    weights, at.to("meta"), by)),
                (ValueError, "weights is not contiguous", lambda: kernels.apply(weights.expand(2, 9).t(), at, by)),
                (RuntimeError, "requires grad", lambda: kernels.apply(torch.ones(9, requires_grad=True), at, at.int())),
                (TypeError, "weights has torch.bfloat16, and weights of 32 bits", lambda: kernels.apply(
                    weights, at, by, dtype="f32")),
                (TypeError, "if these are the bits of bfloat16", lambda: kernels.find(by, by)),
                (ValueError, r"old is torch.bfloat16 of shape \[9\] on cpu, new torch.bfloat16 of \[8\]",
                 lambda: kernels.find(weights, weights[1:])),
                (ValueError, "old is torch.int32", lambda: kernels.find(at.int(), torch.ones(1))),
                (ValueError, "new is not contiguous", lambda: kernels.find(weights[:4], weights[:8:2]))):
            with self.assertRaisesRegex(error, words):
                call()
        self.assertFalse(weights.any())


class Choice(unittest.TestCase):
    def test_where_triton_runs(self):
        cpu, cuda, mps = map(torch.device, ("cpu", "cuda", "mps"))
        for installed, interpreted, capability, hip, expected in (
                (True, True, (9, 0), None, [True, False, False]), (True, False, (9, 0), None, [False, True, False]),
                (True, False, (7, 0), None, [False, True, False]), (True, False, (6, 1), None, [False] * 3),
                (True, False, (6, 1), "6.0", [False, True, False]), (False, True, (9, 0), None, [False] * 3),
                (False, False, (9, 0), None, [False] * 3)):
            with mock.patch.multiple(usable, _INSTALLED=installed, _INTERPRETED=interpreted), \
                    mock.patch.object(torch.cuda, "get_device_capability", lambda device: capability), \
                    mock.patch.object(torch.version, "hip", hip):
                self.assertEqual([usable.runs_triton(device) for device in (cpu, cuda, mps)], expected)

    def chosen(self, name):
        kernels._path.cache_clear()
        self.addCleanup(kernels._path.cache_clear)
        return kernels._path(torch.device("cpu"), unit_of(weight_dtype_of(name)))

    def test_path(self):
        with mock.patch.object(tried, "runs_triton", lambda device: False):
            self.assertIs(self.chosen("bf16"), _delta_torch)
        if "triton" in WAYS:
            for name in ("u4", "bf16", "f64"):
                self.assertIs(self.chosen(name), WAYS["triton"])

    def test_kernels_that_are_wrong(self):
        """They are not used, and a warning says why."""
        def counts(*arguments):
            found = _delta_torch.counts(*arguments)
            found[0] += 1
            return found

        def lists(*arguments):
            positions, before, after = _delta_torch.lists(*arguments)
            after[-1] += 1
            return positions, before, after

        def apply(weights, positions, values, are_values, unit):
            _delta_torch.apply(weights, positions, values, are_values and 1, unit)

        def fails(*arguments):
            raise MemoryError("no room")

        for name, wrong, reason in (("bf16", {"counts": counts}, "they do not make"),
                                    ("u4", {"lists": lists}, "they do not make"),
                                    ("i64", {"apply": apply}, "they do not make"),
                                    ("f32", {"apply": fails}, "MemoryError: no room")):
            good = {each: getattr(_delta_torch, each) for each in ("counts", "lists", "apply", "TILE")}
            module = types.ModuleType("threelc.torch.kernels._delta_triton")
            vars(module).update(good, **wrong)
            with mock.patch.object(tried, "runs_triton", lambda device: True), \
                    mock.patch.dict(sys.modules, {module.__name__: module}), \
                    mock.patch.object(package, "_delta_triton", module, create=True):
                with self.assertWarnsRegex(RuntimeWarning, f"torch operations work on weights on cpu.*{reason}"):
                    self.assertIs(self.chosen(name), _delta_torch)
                vars(module).update(good)
                self.assertIs(self.chosen(name), module)


if __name__ == "__main__":
    TRIALS = int(sys.argv.pop(1)) if sys.argv[1:] and sys.argv[1].isdigit() else TRIALS
    unittest.main()
