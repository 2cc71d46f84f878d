# SPDX-License-Identifier: MIT
"""Zero-run and Golomb coding by Triton's kernels in Triton's interpreter, beside torch operations: some of what
kernels.py tries, what they read and write, what becomes of kernels that are wrong, and what is compiled for GPUs."""
import contextlib
import io
import re
import sys
import unittest
from pathlib import Path
from unittest import mock

import torch

from kernel_tools import CPU, HERE, Traffic, chosen, compiled, mutant  # before others import triton

import threelc
from threelc.codec_strings import stages_of
from threelc.torch.kernels import _golomb_torch, choice, golomb, tried, usable, ways, zerorun
from threelc.torch.kernels.quantizer import Quantizer

if HERE:
    import kernels
    import kernels_lossless
    from threelc.torch.kernels import _golomb_expand_triton, _golomb_triton, _zerorun_triton

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench" / "experiments" / "torch"))
import device_lossless  # noqa: E402
import device_rows  # noqa: E402

CARRY = "-1 - tl.load(carries + tl.program_id(0))"
WRONG = {  # what a device may do, as changes of the source
    "takes runs for shorter": ("zerorun", "-1 - carry", "-1"),
    "has longer runs": ("zerorun", "before)) % 14", "before)) % 15"),
    "looks beyond pieces": ("zerorun", "is_zero | (i >= size)", "is_zero"),
    "ends runs at tiles": ("zerorun", "mask=at + 1 < end", "mask=(at + 1 < end) & (i + 1 < TILE)"),
    "expands to less": ("zerorun", "byte - 241)", "byte - 242)"),
    "cannot compile": ("zerorun", "tl.cumsum(is_coded.to(tl.int32), 0)", "is_coded.cumulated()"),
    "takes distances for shorter": ("golomb", CARRY, "-1"),
    "has words in another order": ("golomb", "_swapped(cleared >> shift)", "(cleared >> shift)"),
    "shifts by too much": ("golomb", "cleared << 1 << (63 - shift)", "cleared << (63 - shift)"),
    "writes what has no room": ("golomb", "is_sent & (end <= ", "is_sent & (end != "),
    "swaps streams": ("golomb", "byte // place % 3", "byte // (81 // place) % 3"),
    "reads on in the next piece": ("expand", "tl.where((first + SIZE < end)[:, None], state, 0)", "state"),
    "forgets the piece before": ("expand", " - tl.load(origin)", ""),
    "takes leftover bits for codes": ("expand", "(state == 1) & (rank < k)", "(state == 1)"),
    "has other digits": ("expand", "digit // 3, digit", "digit // 9, digit"),
    "swaps signs": ("expand", "tl.where(bit == 1, -digit, digit)", "tl.where(bit == 1, digit, -digit)"),
}


def forget():
    """How kernels did when they were tried."""
    for sweeps in choice.sweeps_for, zerorun.zero_runs_for, golomb.codes_for:
        sweeps.cache_clear()


class Checked:
    """A kernel that may touch the tensors among its arguments, and no other memory."""

    def __init__(self, kernel):
        self._kernel = kernel

    def __getitem__(self, grid):
        def run(*args, **kwargs):
            with kernels.Accesses() as touched:
                self._kernel[grid](*args, **kwargs)
            tensors = {str(i): each for i, each in enumerate(args) if isinstance(each, torch.Tensor)}
            for kind in "reads", "writes", "maxima":
                touched(kind, tensors)
        return run


class Stages(unittest.TestCase):
    def test_names(self):
        for codec, stages in (("3lc:s=1.5", ("quartic", "zerorun")), ("3lc-golomb", ("golomb",)), ("natural", ()),
                              ("ternary:block=5+quartic", ("quartic",)), ("sbc:p=0.1", ("golomb",))):
            self.assertEqual(stages_of(codec), stages)

    def test_frames(self):
        """Of several tensors at once: the coded bytes come to the host, or quartic ones if codecs have blocks."""
        torch.manual_seed(5)
        ns = (3001, 1, 700, 0, 1024)
        gradients = [torch.randn(n) * (torch.rand(n) < share) for n, share in zip(ns, (0.1, 1, 1, 1, 0))]
        for codec in ("3lc", "3lc-golomb:s=1.5", "ternary:block=100+quartic+zerorun", "ternary:block=99+golomb",
                      "ternary+quartic"):
            with mock.patch.object(tried, "runs_triton", lambda device: False):
                forget()
                way, made, scalars = ways.TernaryWay(Quantizer.of(codec), CPU, torch.float32, torch.float32), [], []
                forget()
            for gradient in gradients:
                found = torch.zeros(way.measured(len(gradient)))
                residual = torch.zeros_like(gradient)
                way.measure(residual, gradient, found)
                scalars.append(way.scalars(found.tolist(), len(gradient)))
                made.append(torch.empty(way.size(len(gradient)), dtype=torch.uint8))
                way.encode(residual, gradient, torch.tensor(scalars[-1]), None, residual.clone(), made[-1])
            with mock.patch.object(ways, "on_host", mock.Mock(side_effect=torch.Tensor.clone)) as copies:
                frames = way.frames(torch.cat(made), [each if n else [] for n, each in zip(ns, scalars)], ns, "f32")
            self.assertEqual(frames, [threelc.Context(len(x), codec).compress(x) for x in gradients], codec)
            copied, = copies.call_args.args
            is_less = len(copied) < sum(map(len, made))
            self.assertEqual(is_less, "block" not in codec and codec != "ternary+quartic", codec)

    def test_parameters(self):
        """They are found from how many symbols are not 0 without floats."""
        if HERE:
            for n in (1, 2, 7, 1000, 5003):
                least = _golomb_triton._least(n)
                for k in (*range(1, min(n, 1000) + 1), n):
                    self.assertEqual(sum(k < each for each in least), _golomb_torch.parameter(k, n), (k, n))


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Kernels(unittest.TestCase):
    def test_golden_vectors(self):
        """Some; kernels.py takes all."""
        records = kernels_lossless.golden()
        self.assertGreater(len(records), 200)
        for record in records[::37]:
            kernels_lossless.replay(record)

    def test_random_symbols(self):
        for codec, count in zip(kernels_lossless.CODECS, (6, 2)):
            for seed in range(count):
                kernels_lossless.trial(codec, seed)

    def test_runs(self):
        """Of all lengths, that end at, before and after the border of a tile, and of a piece; and over several."""
        tile = _zerorun_triton.TILE
        for first, last in ((tile - 31, tile - 1), (tile - 14, tile + 15), (tile - 1, tile + 14), (tile, tile + 1),
                            (3, 3 * tile + 5), (0, 2 * tile)):
            quartic = torch.arange(3 * tile + 10).remainder(120).to(torch.uint8)
            quartic[first:last] = 121
            pieces = [(piece, 5 * len(piece)) for piece in quartic.split([tile + 15, 2 * tile - 5])]
            kernels_lossless.compare("3lc", pieces)
            kernels_lossless.compare("3lc", [(quartic, 5 * len(quartic))])
        runs = torch.cat([torch.tensor([121] * length + [7], dtype=torch.uint8) for length in range(45)])
        kernels_lossless.compare("3lc", [(runs, 5 * len(runs))])

    def test_long_codes(self):
        """A distance that has more ones than words, and symbols about the borders of tiles and streams."""
        n = 5 * (_golomb_triton.TILE + 2)
        size = n // 5
        symbols = torch.ones(n, dtype=torch.uint8)
        symbols[3 * size:3 * size + 900] = 2  # so many that the parameter is small
        for at in (0, size - 1, size, size + _golomb_triton.TILE - 1, 2 * size - 2, n - 1):
            symbols[at] = 0
        kernels_lossless.compare("3lc-golomb", [kernels_lossless.quartic_of(symbols)])

    def test_any_parameter(self):
        """Codes that another writer makes: their quotients and remainders are longer than tiles, or end with them."""
        size = 8 * _golomb_expand_triton.SIZE
        cases = [(9000, b, [7, 8, 500, 501, 502, 4000, 8999]) for b in (0, 1, 3, 6, 9, 13, 48)]
        cases += [(1000, 48, [*range(3, 1000, 40)])]  # fewer codes than states, three tiles
        cases += [(2 * size + last, 0, [0, size - 2, size - 1, 2 * size + last - 1]) for last in (1, 2, 3)]
        cases += [(700, 2, [size + first + step for step in (0, 5, 6, 90)]) for first in range(-6, 3)]
        cases = [(19, 0, []), (11, 0, []), *cases[:9], (300, 0, []), *cases[9:], (18, 0, [])]
        coded = [kernels_lossless.written(n, b, at) for n, b, at in cases]
        for way in kernels_lossless.GOLOMB, golomb.OPERATIONS:
            kernels_lossless.expand(way, coded)

    def test_addresses(self):
        """What kernels of answers touch is theirs, also of tiles and bytes that are not there."""
        names, coded = ("_from_all", "_follow", "_write"), [kernels_lossless.written(n, b, at) for n, b, at in (
            (700, 3, [0, 5, 690]), (19, 0, []), (3000, 5, [*range(0, 3000, 40)]))]
        with mock.patch.multiple(_golomb_expand_triton, **{name: Checked(getattr(_golomb_expand_triton, name))
                                                           for name in names}):
            kernels_lossless.expand(kernels_lossless.GOLOMB, coded)

    def test_more_bytes_than_an_int_counts(self):
        """A tile of a tensor that is there on paper: its other pages are never touched."""
        first, tile = 2**31 + 5, _zerorun_triton.TILE
        quartic, coded = (torch.empty(first + 20, dtype=torch.uint8) for _ in range(2))
        quartic[first:] = 121
        quartic[first] = 5
        at, end = torch.tensor([first]), torch.tensor([first + 15])
        _zerorun_triton._shrink[1,](quartic, at, end, torch.zeros(1, dtype=torch.int32), at + 3, coded, TILE=tile)
        self.assertEqual(coded[first + 3:first + 5].tolist(), [5, 255])
        _zerorun_triton._expand[1,](coded[first + 3:], at + 1, quartic, 1, TILE=tile)
        self.assertEqual(quartic[first:first + 3].tolist(), [5, 5, 121])
        coded[-8:], words = 255, torch.empty(2**28 + 2, dtype=torch.int64)
        words[-2:] = -1
        facts, one = torch.tensor([[first, 81, 15]]), torch.ones(1, dtype=torch.int64)
        _golomb_triton._write[1,](quartic, facts, one * 2**33, one * 34, at * 0 + 2**34 + 1, at * 0 + 2**34 + 128,
                                  words, TILE=_golomb_triton.TILE)  # the digits of the first two bytes are 0
        code = "1" + "0" + f"{2**33:034b}" + "1" + "0" + f"{0:034b}" + "1"
        self.assertEqual(bytes(words[-2:].view(torch.uint8).tolist()), int(code.ljust(128, "1"), 2).to_bytes(16, "big"))

    def test_more_codes_than_an_int_counts(self):
        """The same of a code, whose symbol is the last one of the third stream."""
        first, length, b, expand = 2**31 + 5, 2**31 + 8, 34, _golomb_expand_triton
        payloads, words = torch.empty(first + 5, dtype=torch.uint8), torch.empty(length // 4, dtype=torch.int32)
        payloads[first:] = torch.tensor(list(int(f"0{3 * length - 1:034b}1".ljust(40, "0"), 2).to_bytes(5, "big")))
        words[-1], states, sums = 0x79797979, torch.empty(32, dtype=torch.uint8), torch.empty(1, 2, dtype=torch.int64)
        zero, facts = torch.zeros(2, dtype=torch.int64), torch.tensor([[first, first + 5, 0, 0, b, 1, length, 0]])
        sources = payloads, zero, facts, expand._tables((b,), CPU)
        expand._follow[1,](*sources, zero, states, sums, 1, TILES=1, SIZE=32)
        expand._write[1,](*sources, states, zero, words, 1, TILES=1, SIZE=32)
        self.assertEqual(words[-1:].view(torch.uint8).tolist(), [121, 121, 121, 121 - 9])
        self.assertEqual(int(sums[0, 0]) >> 32, 3 * length >> 32)

    def test_sweeps(self):
        """How many bytes go over the memory of the device; its caches hold what two loads of a sweep share."""
        n = 1 << 16
        torch.manual_seed(2)
        for codec, share, loaded, module, kept, way, operations in (
                ("3lc", 0.05, 0.8, _zerorun_triton, "_count _shrink", _zerorun_triton.shrink,
                 zerorun.OPERATIONS.shrink),
                ("3lc-golomb", 0.02, 5, _golomb_triton, "_count _measure _write", _golomb_triton.codes,
                 golomb.OPERATIONS.codes)):
            symbols = torch.where(torch.rand(n) < share, 2, 1).to(torch.uint8)
            quartic, _ = kernels_lossless.quartic_of(symbols)
            lengths = (n,) if "golomb" in codec else (len(quartic),)
            with kernels.Accesses() as touched:
                way(quartic, lengths)
            loads = sum(len(where) for where, size in touched.reads if size == 1) / n
            self.assertAlmostEqual(loads, loaded, delta=0.01)
            written = touched.bytes("writes") + 2 * touched.bytes("maxima")
            with mock.patch.multiple(module, **{name: mock.MagicMock() for name in kept.split()}), Traffic() as tiles:
                way(quartic, lengths)
            with Traffic() as traffic:
                operations(quartic, lengths)
            print(f"# {codec}: {loads:.2f} + {written / n:.2f} bytes a value, of tiles "
                  f"{(tiles.read + tiles.written) / n:.2f}; torch operations {traffic.read / n:.1f} + "
                  f"{traffic.written / n:.1f}")

    def test_sweeps_of_answers(self):
        """The same of Golomb codes that come back."""
        n = 1 << 16
        torch.manual_seed(2)
        quartic, _ = kernels_lossless.quartic_of(torch.where(torch.rand(n) < 0.05, 2, 1).to(torch.uint8))
        payload, = golomb.payloads(golomb.OPERATIONS, quartic, (n,), torch.Tensor.clone)
        piece = golomb.coded_of(bytes(payload.tolist()), n)
        with kernels.Accesses() as touched:
            kernels_lossless.GOLOMB.expand(payload, [piece])
        loads = sum(len(where) for where, size in touched.reads if size == 1)
        self.assertAlmostEqual(loads / len(payload), 4, delta=0.05)
        with Traffic() as traffic:
            golomb.OPERATIONS.expand(payload, [piece])
        kept = {name: mock.MagicMock(**{"__getitem__.return_value": lambda *args, i=i, **_: args[i].zero_()})
                for name, i in (("_from_all", 4), ("_follow", 6), ("_write", 5))}  # which tensor it writes, or reads
        with mock.patch.multiple(_golomb_expand_triton, **kept), Traffic() as tiles:
            kernels_lossless.GOLOMB.expand(payload, [piece])
        # full(), and what counts as all quartic bytes where the last ones are put
        known = (tiles.read + tiles.written - 3 * len(quartic)) / len(payload)
        print(f"# 3lc-golomb, answers: of tiles {known:.1f} bytes for each of {len(payload) / n:.3f} bytes a value, "
              f"symbols {2 * touched.bytes('maxima') / n:.2f}; torch operations {traffic.read / n:.1f} + "
              f"{traffic.written / n:.1f}")


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Choice(unittest.TestCase):
    STAGES = {"zerorun": (lambda: _zerorun_triton, zerorun.zero_runs_for, zerorun.OPERATIONS),
              "golomb": (lambda: _golomb_triton, golomb.codes_for, golomb.OPERATIONS),
              "expand": (lambda: _golomb_expand_triton, golomb.codes_for, golomb.OPERATIONS)}

    def test_right_kernels_are_taken(self):
        for name, right in (("zerorun", kernels_lossless.RUNS), ("golomb", kernels_lossless.GOLOMB)):
            original, choose, _ = self.STAGES[name]
            self.assertEqual(chosen(original(), choose, CPU), (right, []))

    def test_wrong_kernels_are_refused(self):
        for what, (name, *change) in WRONG.items():
            original, choose, operations = self.STAGES[name]
            with self.subTest(what), mutant(original(), *change) as module:
                found, caught = chosen(original(), choose, CPU, module=module)
                self.assertIs(found, operations)
                self.assertEqual(len(caught), 1)
                self.assertRegex(caught[0], "torch operations work on (quartic bytes|3-value symbols) on cpu.*: " + (
                    "InterpreterError.*cumulated" if what == "cannot compile" else "they do not make what the host"))

    def test_without_triton(self):
        """No warning, and torch operations, which make the same bytes."""
        with mock.patch.object(usable, "_INSTALLED", False):
            for original, choose, operations in self.STAGES.values():
                self.assertEqual(chosen(original(), choose, CPU), (operations, []))
        self.assertTrue(zerorun.same_bytes(zerorun.OPERATIONS, CPU))
        self.assertTrue(golomb.same_bytes(golomb.OPERATIONS, CPU))


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Programs(unittest.TestCase):
    def rows(self, expand):
        """Those of device.py, of Golomb codes that torch operations make."""
        way = golomb.OPERATIONS._replace(expand=expand)
        with contextlib.redirect_stdout(io.StringIO()) as printed, \
                mock.patch.object(golomb, "codes_for", lambda device: way), \
                mock.patch.object(device_lossless, "sweeps_for", lambda *_: choice.OPERATIONS):
            table = device_rows.Table(1003, CPU, torch.float32, device_rows.Clock(CPU, 1))
            device_lossless.lossless_rows(table, "3lc-golomb")
        return [re.split("  +", line)[1:3] for line in printed.getvalue().splitlines()]

    def test_answers(self):
        """The benchmark for GPUs has a row for Golomb codes that are expanded, and compares the bytes."""
        self.assertEqual(self.rows(_golomb_expand_triton.expand), [
            ["copy", "torch"], *([f"3lc-golomb {what}", by] for by in ("triton", "operations")
                                 for what in ("payload", "expand"))])
        with self.assertRaisesRegex(SystemExit, "^device.py: triton, 3lc-golomb: quartic bytes: not what"):
            self.rows(lambda payloads, pieces: golomb.OPERATIONS.expand(payloads, pieces).flip(0))


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Compiled(unittest.TestCase):
    PROGRAM = """
from threelc.torch.kernels import _golomb_expand_triton as expand, _golomb_triton as golomb, _zerorun_triton as runs
types = {**dict.fromkeys(("quartic", "coded", "payloads", "states"), "*u8"), **dict.fromkeys(
    ("firsts", "ends", "starts", "tiles", "parameters", "words", "pieces", "facts", "tables", "entries", "sums"),
    "*i64"), "carries": "*i32", "found": "*i32", "n": "i64", "count": "i64"}
tile = {"TILE": 256}
made(runs._count, types, tile)
made(runs._shrink, types, tile)
made(runs._expand, types, tile)
made(golomb._count, types, tile)
made(golomb._write, {**types, "carries": "*i64"}, tile)
tiles = {"TILES": 32, "SIZE": 32}
made(expand._from_all, {**types, "states": "*i64"}, {**tiles, "STATES": 8})
made(expand._follow, types, tiles)
made(expand._write, {**types, "words": "*i32"}, tiles)
"""

    def test_kernels(self):
        """For GPUs of NVIDIA and AMD. Words are changed as the memory has them."""
        made = compiled(self.PROGRAM)
        self.assertEqual(made.count(".visible .entry"), 8)
        self.assertTrue(re.findall(r"red\S*\.and\.b64", made) and re.findall(r"global_atomic_and_x2", made))
        self.assertTrue(re.findall(r"(red|atom)\S*\.add\.\S*32", made) and re.findall(r"global_atomic_add\b", made))


if __name__ == "__main__":
    unittest.main()
