# SPDX-License-Identifier: MIT
"""Triton's kernels in Triton's interpreter: some of what kernels.py tries, what they read and write, what becomes of
kernels that are wrong, trainings with them, and what is compiled for GPUs."""
import contextlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import torch

HERE = importlib.util.find_spec("triton") is not None and not torch.__version__.startswith("1.")
if HERE:  # before others import triton
    import kernels
    import numpy
    import triton
    from triton.runtime import interpreter
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_flatten
    from threelc.torch.kernels import choice, ternary, usable
    from threelc.torch.kernels.quantizer import Quantizer

from cluster import CLUSTER
from test_ddp import bits, start, train

CPU = torch.device("cpu")
SOURCE = Path(__file__).resolve().parents[2] / "src" / "python" / "threelc" / "torch" / "kernels" / "ternary.py"
SUM = "tl.load(residual + at, mask=there, other=0) + x"
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


@contextlib.contextmanager
def mutant(old, new, source=SOURCE):
    """The module with another text."""
    text = source.read_text()
    assert text.count(old) == 1, old
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutant.py"
        path.write_text(text.replace(old, new))
        spec = importlib.util.spec_from_file_location(f"{ternary.__package__}.mutant", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


class LastProgram:
    """Of the programs of a kernel only the last one runs."""

    def __init__(self, kernel):
        self._kernel = kernel

    def __getitem__(self, grid):
        last = numpy.array([grid[0] - 1], numpy.int32)

        def run(*args, **kwargs):
            with mock.patch.object(interpreter.InterpreterBuilder, "create_get_program_id",
                                   lambda builder, axis: interpreter.TensorHandle(last, triton.language.int32)):
                self._kernel[1,](*args, **kwargs)
        return run


@contextlib.contextmanager
def none_chosen():
    choice.sweeps_for.cache_clear()
    try:
        yield
    finally:
        choice.sweeps_for.cache_clear()


def chosen(module, dtype):
    """What is chosen if the kernels are those of a module, and the warnings."""
    with none_chosen(), mock.patch.dict(sys.modules, {ternary.__name__: module}), \
            mock.patch.object(sys.modules[ternary.__package__], "ternary", module), \
            warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sweeps = [choice.sweeps_for(CPU, dtype) for _ in range(2)]
    return sweeps[0], [str(warning.message) for warning in caught if "threelc" in str(warning.message)]


class Traffic(TorchDispatchMode if HERE else object):
    """Counts the bytes that torch operations read and write. Views are free, and so is memory that is only taken."""

    def __init__(self):
        super().__init__()
        self.read = self.written = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if function.is_view or "empty" in str(function):
            return out
        tensors, out_tensors = ([item for item in tree_flatten(items)[0] if isinstance(item, torch.Tensor)]
                                for items in ((args, kwargs or {}), out))
        overwritten = [args[0]] if "copy_" in str(function) else [(kwargs or {}).get("out")]
        self.read += sum(t.nbytes for t in tensors if all(t is not o for o in overwritten))
        self.written += sum(t.nbytes for t in out_tensors)
        return out


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
        for dtype, read in ((torch.float32, 16), (torch.bfloat16, 12)):
            residual, gradient = torch.randn(n), torch.randn(n).to(dtype)
            with kernels.Accesses() as touched:
                choice.quantized(kernels.SWEEPS, quantizer, residual, gradient)
            self.assertAlmostEqual(touched.bytes("reads") / n, read, delta=0.01)
            self.assertAlmostEqual(touched.bytes("writes") / n, 4.2, delta=0.01)
            self.assertLess(touched.bytes("maxima") / n, 0.01)
            with Traffic() as traffic:
                choice.quantized(choice.OPERATIONS, quantizer, residual, gradient)
            self.assertGreater(traffic.read + traffic.written, 3 * n * (read + 4.2))
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
            self.assertEqual(chosen(ternary, dtype), (kernels.SWEEPS, []))

    def test_wrong_kernels_are_refused(self):
        for what, change in WRONG.items():
            with self.subTest(what), mutant(*change) as module:
                sweeps, caught = chosen(module, torch.float32)
                self.assertIs(sweeps, choice.OPERATIONS)
                self.assertEqual(len(caught), 1)
                self.assertRegex(caught[0], "torch operations work on gradients on cpu.*: " + (
                    "InterpreterError.*half" if what == "cannot compile" else "they do not make what the host makes"))

    def test_without_triton(self):
        """No warning, and torch operations."""
        for name in ("_INSTALLED", "_INTERPRETED"):
            with mock.patch.object(usable, name, False):
                self.assertEqual(chosen(ternary, torch.float32), (choice.OPERATIONS, []))
        with none_chosen():
            for name in ("mps", "xpu", "meta"):
                self.assertIs(choice.sweeps_for(torch.device(name), torch.float32), choice.OPERATIONS)

    def test_trainings(self):
        for codec in ("3lc:s=1.75", "ternary:block=100+golomb"):
            host, device = (CLUSTER.run(2, trained, quantize, codec) for quantize in ("host", "device"))
            self.assertEqual(device, host)
            self.assertEqual(device[0][2], ternary.__name__)


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Programs(unittest.TestCase):
    def test_device(self):
        """The benchmark for GPUs: it compares all bytes, and prints a row for each sweep."""
        program = SOURCE.parents[5] / "bench" / "experiments" / "torch" / "device.py"
        done = subprocess.run([sys.executable, program, "--device", "cpu", "--values", "5003", "--rounds", "1",
                               "--models", "--codes", "qsgd", "--sparse", "topk", "sbc"],
                              check=True, capture_output=True, text=True)
        rows = [re.split("  +", line)[:3] for line in done.stdout.replace("bfloat16 ", "bfloat16  ").splitlines()[2:]]
        self.assertEqual(rows, [[dtype, *row] for dtype in ("float32", "bfloat16") for row in (
            ("copy", "torch"), *((sweep, by) for by in ("triton", "operations")
                                 for sweep in ("maxima", "quantize", "decode")),
            *((f"{codec} {sweep}", by) for codec, sweeps in (("qsgd", ("measure", "encode", "decode")),
                                                             *((codec, ("threshold", "counts", "all"))
                                                               for codec in ("topk", "sbc")))
              for by in ("triton", "operations") for sweep in sweeps))])


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Compiled(unittest.TestCase):
    PROGRAM = """
import sys
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from threelc.torch.kernels import ternary

POINTERS = {"residual": "*fp32", "gradient": sys.argv[1], "found": "*i32", "scales": "*fp32", "rest": "*fp32",
            "quartic": "*u8", "out": "*i16"}
for kernel in (ternary._maxima, ternary._quantize, ternary._decode):
    pointers = {**POINTERS, "scales": "*i16"} if kernel is ternary._decode else POINTERS
    signature = {name: "constexpr" if name.isupper() else pointers.get(name, "i32") for name in kernel.arg_names}
    for target in (GPUTarget("cuda", 80, 32), GPUTarget("hip", "gfx942", 64)):
        made = compile(ASTSource(kernel, signature, {"ROWS": 1, "COLUMNS": 1024}), target=target,
                       options={"enable_fp_fusion": False})
        print(made.asm["ptx" if target.backend == "cuda" else "amdgcn"])
"""

    def test_float_modes(self):
        """Kernels compile for GPUs of NVIDIA and AMD, without what would change bits: nothing is fused or flushed."""
        for gradient in ("*fp32", "*i16"):
            with tempfile.TemporaryDirectory() as cache:
                made = subprocess.run([sys.executable, "-c", self.PROGRAM, gradient], check=True, capture_output=True,
                                      text=True, env={**os.environ, "TRITON_INTERPRET": "0",
                                                      "TRITON_CACHE_DIR": cache}).stdout
            self.assertEqual(made.count(".visible .entry"), 3)
            self.assertGreater(len(re.findall(r"add(\.rn)?\.f32", made)), 10)
            self.assertEqual(re.findall(r"\S*ftz\S*|fma\.\S*f32|div\.(?:approx|full)\S*", made), [])
            self.assertEqual(re.findall(r"denorm_mode_32 (\d)", made), ["3"] * 3)  # neither inputs nor results


if __name__ == "__main__":
    unittest.main()
