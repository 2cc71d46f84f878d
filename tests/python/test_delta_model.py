# SPDX-License-Identifier: MIT
"""Deltas of several blocks against the independent model of tests/vectors."""
import sys
import unittest
from pathlib import Path

import numpy
import threelc

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "vectors"))
import delta as model  # noqa: E402  pylint: disable=wrong-import-position,import-error
import delta_cases as cases  # noqa: E402  pylint: disable=wrong-import-position,import-error
from record import Random  # noqa: E402  pylint: disable=wrong-import-position,import-error


class Model(unittest.TestCase):
    def same_frames(self, dtype, n, kind_of, fresh=False):
        rnd = Random(f"{dtype} {n} {fresh}")
        old = cases.weights(rnd, n, dtype)
        new = [cases.change(kind_of(i), i, x, rnd, dtype) for i, x in enumerate(old)]
        base, following = model.unwords(old, dtype), model.unwords(new, dtype)
        if sys.byteorder == "big":
            self.skipTest("weights of the model are little-endian")
        kind = {"f32": "f4", "f16": "f2", "bf16": "u2", "i32": "i4", "i64": "i8", "f64": "f8"}.get(dtype, "u1")
        start = None if fresh else numpy.frombuffer(base, kind)
        frame = threelc.delta.compress(start, numpy.frombuffer(following, kind), dtype=dtype)
        self.assertEqual(frame, model.encode(None if fresh else base, following, dtype))
        weights = bytearray(base)
        threelc.delta.apply(frame, numpy.frombuffer(weights, kind), dtype=dtype)
        self.assertEqual(weights, following)
        self.assertEqual(model.decode(frame, base, dtype), following)

    def test_blocks(self):
        """Blocks of each kind in one frame, the last of them short."""
        kinds = ("few", "same", "many", "any", "all")
        for dtype in model.GRADIENTS:
            self.same_frames(dtype, 5 * model.BLOCK + 333, lambda i: kinds[min(i // model.BLOCK, 4)])
        kinds = ("few", "many", "all")
        for dtype in model.DTYPES:
            if dtype not in model.GRADIENTS:
                self.same_frames(dtype, 2 * model.BLOCK + 334, lambda i: kinds[i // model.BLOCK])

    def test_all_weights(self):
        for dtype in model.DTYPES:
            self.same_frames(dtype, model.BLOCK + 4100 if dtype in model.GRADIENTS else 20000, lambda i: "few", True)

    def test_densities(self):
        """Around the density where the choice of the payload changes."""
        for one_in in (2, 3, 5, 7, 8, 9, 12):
            for kind in ("many", "all", "signs"):
                self.same_frames("bf16", 3000, lambda i, k=kind, m=one_in: "same" if i * 2654435761 % m else k)
