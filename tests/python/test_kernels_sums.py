# SPDX-License-Identifier: MIT
"""Sums of 3-value symbols by Triton's kernel in Triton's interpreter, beside torch operations: random pieces, what it
reads and writes, and what becomes of kernels that are wrong."""
import unittest
from unittest import mock

import torch

from kernel_tools import CPU, HERE, Traffic, chosen, mutant  # before others import triton

from threelc.torch.kernels import sums, usable

if HERE:
    import kernels
    import kernels_sums
    from threelc.torch.kernels import _sums_triton

LEAST = "2.0**-126"  # of normal floats
WRONG = {  # what a device may do, as changes of the source
    "flushes subnormals": ("total + scale,", f"tl.where(tl.abs(total + scale) < {LEAST}, 0.0, total + scale),"),
    "has another order": ("for i in range(count):", "for j in range(count):\n        i = count - 1 - j"),
    "sums in float64": ("v3 = tl.zeros([ROWS, COLUMNS], tl.float32)",
                        "v3 = tl.zeros([ROWS, COLUMNS], tl.float64)"),
    "swaps streams": ("byte // 27 % 3", "byte // 9 % 3"),
    "takes 0 for a symbol": ("digit == 0, total - scale", "digit <= 1, total - scale"),
    "has one scale": ("scales + i * blocks + row", "scales + i * blocks + row * 0"),
    "cannot compile": ("byte // 81", "byte.first()"),
}


@unittest.skipUnless(HERE, "this Python has no Triton, or PyTorch 1")
class Kernel(unittest.TestCase):
    def test_random_pieces(self):
        for seed in range(12):
            kernels_sums.trial(seed)

    def test_bytes(self):
        """How many go over the memory of the device for each value, of four pieces."""
        n = 20480
        quartic, scales, out = torch.full((4 * n // 5,), 121, dtype=torch.uint8), torch.ones(4), torch.empty(n)
        with kernels.Accesses() as touched:
            _sums_triton.add(quartic, scales, 0, out)
        with Traffic() as traffic:
            sums.OPERATIONS(quartic, scales, 0, out)
        read, written = touched.bytes("reads") / n, touched.bytes("writes") / n
        self.assertAlmostEqual(read, 0.8, delta=0.01)
        self.assertEqual(written, 4)
        print(f"# sums of 4 pieces: {read:.1f} + {written:.1f} bytes a value; torch operations {traffic.read / n:.1f} "
              f"+ {traffic.written / n:.1f}")

    def test_launches(self):
        """Programs are full, but for the last one."""
        kernel, tile = mock.MagicMock(), 5 * _sums_triton.TILE
        with mock.patch.object(_sums_triton, "_add", kernel):
            for n in (1, tile, tile + 1, 3 * tile):
                _sums_triton.add(torch.empty(0, dtype=torch.uint8), torch.empty(0), 0, torch.empty(n))
        self.assertEqual([call.args[0] for call in kernel.__getitem__.call_args_list], [(1,), (1,), (2,), (3,)])
        self.assertEqual([call.kwargs["enable_fp_fusion"] for call in
                          kernel.__getitem__.return_value.call_args_list], [False] * 4)

    def test_which_is_taken(self):
        self.assertEqual(chosen(_sums_triton, sums.add_for, CPU), (_sums_triton.add, []))
        with mock.patch.object(usable, "_INSTALLED", False):
            self.assertEqual(chosen(_sums_triton, sums.add_for, CPU), (sums.OPERATIONS, []))
        for what, change in WRONG.items():
            with self.subTest(what), mutant(_sums_triton, *change) as module:
                found, caught = chosen(_sums_triton, sums.add_for, CPU, module=module)
                self.assertIs(found, sums.OPERATIONS)
                self.assertEqual(len(caught), 1)
                self.assertRegex(caught[0], "torch operations work on sums of symbols on cpu.*: " + (
                    "InterpreterError.*first" if what == "cannot compile" else "they do not make what the host makes"))


if __name__ == "__main__":
    unittest.main()
