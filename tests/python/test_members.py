# SPDX-License-Identifier: MIT
"""Frames of values that were chosen elsewhere; those of sparse codecs by torch operations, as on a GPU, here on the
CPU: the bytes and results are those of the C library."""
import unittest

import torch

import threelc
from test_device import SHAPES
from threelc.torch._device.crossing import put_members
from threelc.torch.kernels import members
from threelc.torch.kernels.operations import bits_of
from threelc.torch.kernels.selector import Chance, Selector

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
                            put_members([frame], [out], out.device)
                            wanted = threelc.decompress(frame, torch.empty(n, dtype=dtype))
                            self.assertTrue(torch.equal(bits_of(out), bits_of(wanted)), where)

    def test_units(self):
        """Blocks that are all whole, or not, and whose thresholds samples set or not; x / p at the largest number."""
        torch.manual_seed(4)
        for codec, n in (("topk:p=0.1,block=4500", 9000), ("topk:p=0.1,bits=2,block=4200", 14000),
                         ("topk:p=0.1,block=100", 300), ("topk:select=exact,p=0.1,block=50", 150),
                         ("sbc:p=0.1,block=100", 301)):
            residual, gradient, selector = torch.randn(n), torch.randn(n), Selector.of(codec)
            wanted = residual.clone()
            frame = threelc.Context(n, codec, residual=wanted, seed=9).compress(gradient)
            chosen = members.choose(members.OPERATIONS, selector, residual, gradient, 9, 0)
            self.assertEqual(members.frames(selector, [chosen], torch.float32), [frame], codec)
            self.assertTrue(torch.equal(chosen.rest, wanted), codec)

    def test_what_is_finite(self):
        """Of random-sparse x / p, too."""
        infinity = 0x7f800000
        for codec, least in (("topk", infinity), ("random-sparse:p=0.25", infinity - (2 << 23)),
                             ("random-sparse:p=1", infinity)):
            for key, is_finite in ((0, True), (least - 1, True), (least, False), (infinity, False), (1 << 30, True),
                                   (infinity + 1, False)):
                self.assertEqual(members.is_finite(Selector.of(codec), [key, 5]), is_finite, (codec, key))

    def test_parameters(self):
        """Those that codecs name, and defaults."""
        for codec, *wanted in (("topk", 0.05, 1, False, True, 0, 0), ("sbc", 0.01, 2, True, False, 0, 0),
                               ("topk:select=exact,bits=1,block=7", 0.05, 1, True, False, 7, 0),
                               ("topk:bits=32,p=0.5,select=sample", 0.5, 1, False, True, 0, 0),
                               ("sbc:p=0.25,block=9", 0.25, 2, True, False, 9, 0),
                               ("random-sparse", 0.25, 1, False, True, 0, 1 << 22),
                               ("random-sparse:p=1", 1.0, 1, False, True, 0, 1 << 24),
                               ("random-sparse:p=0.3,block=7", 0.3, 1, False, True, 0, 5033165)):
            self.assertEqual(Selector.of(codec), (codec, *wanted))
        self.assertEqual([Chance(1, 2, limit).p for limit in (1, 1 << 22, 1 << 24)], [2.0**-24, 0.25, 1.0])

    def test_selectors(self):
        for codec in ("3lc", "natural", "raw"):
            self.assertIsNone(Selector.of(codec))
        for codec, n, most, samples in (("topk", 100, 10, 100), ("topk:p=0.001", 10**6, 2000, 200000),
                                        ("topk:p=1", 9000, 9000, 4096), ("topk:p=0.000001", 5000, 2, 5000)):
            selector = Selector.of(codec)
            self.assertEqual((selector.most(n), selector.samples(n)), (most, samples))
        for codec, samples, wanted in ("topk:p=0.3", 10, 3), ("topk:p=0.3", 11, 4), ("topk:p=1", 7, 7):
            self.assertEqual(Selector.of(codec).wanted(samples), wanted)
        for codec, n, most in (("topk:select=exact,p=0.5", 5, 2), ("topk:select=exact,p=0.5", 7, 4), ("sbc", 10, 1),
                               ("sbc:p=1", 9, 9)):
            self.assertEqual(Selector.of(codec).most(n), most)


if __name__ == "__main__":
    unittest.main()
