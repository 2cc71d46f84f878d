# SPDX-License-Identifier: MIT
"""Frames of values that were chosen elsewhere; those of sparse codecs by torch operations, as on a GPU, here on the
CPU: the bytes and results are those of the C library."""
import unittest

import torch

import threelc
from test_device import SHAPES
from threelc.torch.kernels import members
from threelc.torch.kernels.operations import bits_of
from threelc.torch.kernels.selector import Selector

CODECS = ("topk", "topk:p=0.3+golomb", "topk:p=0.01,bits=1", "topk:p=0.2,bits=2+golomb", "topk:p=1",
          "topk:select=exact,p=0.001", "topk:select=exact,p=0.1,bits=2", "sbc", "sbc:p=0.2",
          "random-sparse:p=0.1", "topk:p=0.1,bits=2,block=4500", "sbc:p=0.1,block=100")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def floats(values):
    return torch.frombuffer(values, dtype=torch.float32) if len(values) else torch.empty(0)


class Frames(unittest.TestCase):
    def test_there_and_back(self):
        """Positions and values of a frame make it again; random-sparse sends x / p."""
        torch.manual_seed(1)
        for codec in ("topk:p=0.1", "topk:p=0.1,block=100+golomb", "random-sparse:p=0.1", "random-sparse:block=64"):
            for n in (0, 1, 64, 3001):
                frame = threelc.Context(n, codec, checksum=True).compress(torch.randn(n))
                positions, values = threelc.decompress_members(frame, n)
                decoded = torch.zeros(n)
                decoded[list(positions)] = floats(values)
                self.assertTrue(torch.equal(decoded, threelc.decompress(frame, torch.empty(n))))
                at, sent = torch.tensor(list(positions), dtype=torch.int64), torch.zeros(len(values))
                again = threelc.compress_members(at, floats(values), n, codec, checksum=True, sent=sent)
                self.assertEqual(again, frame)
                self.assertTrue(torch.equal(sent, floats(values)))

    def test_sides(self):
        """Of both sides that with the larger mean is sent."""
        x = torch.tensor([3.0, -5, 1, -5.5])
        sent = x.clone()
        frame = threelc.compress_members(torch.tensor([1, 2, 5, 7]), sent, 10, "sbc:p=0.2", sent=sent)
        self.assertEqual(sent.tolist(), [0, -5.25, 0, -5.25])
        self.assertEqual(threelc.decompress(frame, torch.empty(10)).tolist(), [0, 0, -5.25, 0, 0, 0, 0, -5.25, 0, 0])

    def test_refusals(self):
        at, x, n = torch.tensor([0, 3]), torch.tensor([1.0, 2]), 10
        make = threelc.compress_members
        for call, error, words in (
                (lambda: make(at, x[:1], n, "topk"), ValueError, "there are 2 positions and 1 values"),
                (lambda: make(at.int(), x, n, "topk"), TypeError, "positions"),
                (lambda: make(at, x.half(), n, "topk"), TypeError, "values"),
                (lambda: make(at, x, n, "topk", sent=torch.zeros(3)), ValueError, "sent"),
                (lambda: make(at, x, n, "3lc"), threelc.ParameterError, "does not send some"),
                (lambda: make(at.flip(0), x, n, "topk"), threelc.ParameterError, r"positions\[1\] is 0"),
                (lambda: make(at, x, 3, "topk:p=1"), threelc.ParameterError, "but there are 3 values"),
                (lambda: make(at, x, n, "topk:p=0.1,select=exact"), threelc.ParameterError, "the codec sends 1"),
                (lambda: make(at, x * 0, n, "topk"), threelc.ParameterError, "is 0"),
                (lambda: make(at, x / 0, n, "topk"), threelc.NonFiniteError, "infinity"),
                (lambda: threelc.decompress_members(threelc.Context(9, "natural").compress(torch.ones(9)), 9),
                 threelc.UnsupportedError, "natural"),
                (lambda: threelc.decompress_members(make(at, x, n, "topk"), 9), threelc.SizeError, "")):
            self.assertRaisesRegex(error, words, call)


class Operations(unittest.TestCase):
    def test_bytes_and_residuals(self):
        """Three steps with error feedback."""
        torch.manual_seed(3)
        for codec in CODECS:
            selector = Selector.of(codec)
            for dtype in DTYPES:
                for n in (1, 63, 5001):
                    for name, shape in SHAPES.items():
                        context = threelc.Context(n, codec, dtype=dtype, feedback=True, seed=2**64 - 3)
                        residual = torch.zeros(n)
                        for step in range(3):
                            where = f"{codec}, {dtype}, {n} values, {name}"
                            gradient = shape(torch.randn(n)).clamp(-6e4, 6e4).to(dtype)
                            chosen = members.choose(members.OPERATIONS, selector, residual, gradient, 2**64 - 3, step)
                            frame, = members.frames(selector, [chosen], dtype)
                            residual = chosen.rest
                            self.assertEqual(frame, context.compress(gradient), where)
                            self.assertEqual(residual.numpy().tobytes(), bytes(context.residual), where)
                            out = torch.ones(n, dtype=dtype)
                            members.put(frame, out)
                            wanted = threelc.decompress(frame, torch.empty(n, dtype=dtype))
                            self.assertTrue(torch.equal(bits_of(out), bits_of(wanted)), where)

    def test_selectors(self):
        for codec in ("3lc", "natural", "raw"):
            self.assertIsNone(Selector.of(codec))
        for codec, n, most, samples in (("topk", 100, 10, 100), ("topk:p=0.001", 10**6, 2000, 200000),
                                        ("topk:p=1", 9000, 9000, 4096), ("topk:p=0.000001", 5000, 2, 5000)):
            selector = Selector.of(codec)
            self.assertEqual((selector.most(n), selector.samples(n)), (most, samples))
        for codec, n, most in (("topk:select=exact,p=0.5", 5, 2), ("topk:select=exact,p=0.5", 7, 4), ("sbc", 10, 1),
                               ("sbc:p=1", 9, 9)):
            self.assertEqual(Selector.of(codec).most(n), most)


if __name__ == "__main__":
    unittest.main()
