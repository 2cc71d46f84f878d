# SPDX-License-Identifier: MIT
"""What arrays are taken, without a copy, and what is refused, with a sentence."""
import array
import gc
import sys
import unittest
import weakref

import numpy
import threelc
from threelc import _arrays

try:
    import torch
except ImportError:
    torch = None

FRAME = threelc.Context(6, "raw").compress(numpy.arange(6, dtype="f4"))


class DLPack:
    """An array of a package that has nothing but DLPack."""

    def __init__(self, tensor, device=(1, 0)):
        self.tensor, self.device = tensor, device

    def __dlpack__(self, stream=None):
        return self.tensor.__dlpack__()

    def __dlpack_device__(self):
        return self.device


class Arrays(unittest.TestCase):
    def taken(self, out, dtype=None):
        self.assertIs(threelc.decompress(FRAME, out, dtype=dtype), out)
        return out

    def test_numpy(self):
        self.assertEqual(self.taken(numpy.zeros((2, 3), "f4")).tolist(), [[0, 1, 2], [3, 4, 5]])
        self.assertEqual(self.taken(numpy.zeros(6, "f2")).tolist(), [0, 1, 2, 3, 4, 5])
        self.assertEqual((self.taken(numpy.zeros(6, "u2"), "bf16").astype("u4") << 16).view("f4").tolist(),
                         [0, 1, 2, 3, 4, 5])

    def test_buffers(self):
        self.assertEqual(self.taken(array.array("f", bytes(24))).tolist(), [0, 1, 2, 3, 4, 5])
        memory = memoryview(bytearray(24)).cast("f")
        self.assertEqual(self.taken(memory).tolist(), [0, 1, 2, 3, 4, 5])

    def test_frames_of_any_kind(self):
        for frame in (FRAME, bytearray(FRAME), memoryview(FRAME), numpy.frombuffer(FRAME, "u1"),
                      array.array("B", FRAME), numpy.frombuffer(FRAME, "i1")):
            self.assertEqual(threelc.decompress(frame).tolist(), [0, 1, 2, 3, 4, 5])

    def test_read_only(self):
        """Each call that writes to an array of the caller's refuses one that nobody may write."""
        delta, fixed, some = threelc.delta, numpy.frombuffer(bytes(24), "f4"), numpy.ones(6, "f4")
        change = delta.compress(fixed, some)
        room = bytes(delta.bound(6, "f32"))
        for call, name in (
                (lambda: threelc.decompress(FRAME, fixed), "out"), (lambda: threelc.mask(FRAME, fixed), "momentum"),
                (lambda: threelc.decompress_add(FRAME, fixed), "sum"),
                (lambda: threelc.decompress_add_many([FRAME], fixed), "sum"),
                (lambda: threelc.Context(6).compress_into(some, bytes(threelc.codec_bound("3lc", 6))), "out"),
                (lambda: threelc.Context(6, residual=fixed), "residual"),
                (lambda: delta.compress_into(fixed, some, room), "out"),
                (lambda: delta.apply(change, fixed), "weights"),
                (lambda: delta.apply_range(change, fixed, fixed, n=6, first=0), "out"),
                (lambda: delta.repair(delta.compress(fixed, some, block_digests=True), fixed), "weights")):
            with self.assertRaisesRegex(ValueError, f"{name} is read-only"):
                call()
        self.assertEqual((fixed.tolist(), room), ([0.0] * 6, bytes(len(room))))

    def test_refused(self):
        for out, error, words in (
                (numpy.zeros(6, "f8"), TypeError, "out should have values of .*bfloat16, not float64"),
                (numpy.zeros(6, ">f4" if sys.byteorder == "little" else "<f4"), TypeError, "[<>]f"),
                (numpy.zeros(6, "i4"), TypeError, "not int32"),
                (bytearray(24), TypeError, "out should have values of .*, not uint8"),
                (numpy.zeros(12, "f4")[::2], ValueError, "contiguous"),
                (numpy.zeros((3, 2), "f4").T, ValueError, "contiguous"),
                (numpy.frombuffer(bytes(24), "f4"), ValueError, "out is read-only"),
                (memoryview(bytes(24)).cast("f"), ValueError, "out is read-only"),
                (numpy.broadcast_to(numpy.zeros(1, "f4"), 6), ValueError, "out is read-only"),
                (numpy.zeros(6, "f4")[::-1], ValueError, "out is not contiguous"),
                (numpy.zeros(6, "O"), TypeError, "not objects"),
                (numpy.zeros(6, "M8[s]"), ValueError, "out cannot be used where it lies"),
                (numpy.zeros(6, "u2"), TypeError, 'not uint16; if these are the bits .*: dtype="bf16"'),
                (numpy.zeros(6, "i2"), TypeError, 'not int16; .*dtype="bf16"'),
                ([0.0] * 6, TypeError, "out should be an array .*, not a list"),
                ({}, TypeError, "out should be an array .*, not a dict"),
                (numpy.zeros(5, "f4"), threelc.SizeError, "the frame has 6 values, the caller has 5")):
            with self.assertRaisesRegex(error, words):
                threelc.decompress(FRAME, out)
        context = threelc.Context(6)
        for gradient, error, words in (
                (numpy.zeros(7, "f4"), ValueError, "gradient should have 6 values, not 7"),
                (numpy.zeros(6, "f2"), TypeError, "gradient should have values of float32, not float16"),
                ("gradient", TypeError, "gradient should be an array .*, not 'gradient'"),
                ([1.0], TypeError, "not a list"),
                (numpy.broadcast_to(numpy.zeros(1, "f4"), 6), ValueError, "gradient is not contiguous"),
                (numpy.zeros(6, "u2"), TypeError, "float32, not uint16; .*bf16")):
            with self.assertRaisesRegex(error, words):
                context.compress(gradient)
        with self.assertRaisesRegex(TypeError, "frame should be bytes, not float32"):
            threelc.inspect(numpy.zeros(6, "f4"))

    def test_released(self):
        """A view does not hold the array longer than the call: a bytearray with a view cannot change its length."""
        out = bytearray(threelc.Context(6).bound)
        threelc.Context(6).compress_into(numpy.zeros(6, "f4"), out)
        out.append(1)
        gradient = numpy.zeros(6, "f4")
        before = sys.getrefcount(gradient)
        for _ in range(10):
            threelc.Context(6).compress(gradient)
        self.assertEqual(sys.getrefcount(gradient), before)

    def test_kept_alive(self):
        """A view of the residual keeps the context; a given residual lives as long as the context."""
        residual = threelc.Context(100000).residual
        gc.collect()
        self.assertFalse(numpy.asarray(residual).any())
        given = numpy.zeros(6, "f4")
        seen = weakref.ref(given)
        context = threelc.Context(6, residual=given)
        self.assertIs(context.residual, given)
        del given
        gc.collect()
        self.assertIsNotNone(seen())
        del context
        gc.collect()
        self.assertIsNone(seen())

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            self.assertEqual(self.taken(torch.zeros(2, 3, dtype=dtype)).tolist(), [[0, 1, 2], [3, 4, 5]])
            context = threelc.Context(6, "raw", dtype)
            self.assertEqual(threelc.decompress(context.compress(torch.arange(6).to(dtype))).tolist(),
                             [0, 1, 2, 3, 4, 5])
        parameter = torch.nn.Parameter(torch.ones(6))
        self.assertEqual(threelc.decompress(threelc.Context(6).compress(parameter)).tolist(), [1] * 6)
        frame = torch.frombuffer(bytearray(FRAME), dtype=torch.uint8)
        self.assertEqual(threelc.decompress(frame).tolist(), [0, 1, 2, 3, 4, 5])
        residual = torch.zeros(6)
        threelc.Context(6, "sbc", residual=residual).compress(torch.arange(6.0))
        self.assertEqual(residual.tolist(), [0, 1, 2, 3, 4, 0])

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch_refused(self):
        for out, error, words in (
                (torch.zeros(6, dtype=torch.float64), TypeError, "float64"),
                (torch.zeros(12)[::2], ValueError, "contiguous"),
                (torch.zeros(6, device="meta"), TypeError, "meta"),
                (torch.zeros(6).to_sparse(), TypeError, "out has the layout torch.sparse_coo"),
                (torch.zeros(5), threelc.SizeError, "the frame has 6 values, the caller has 5")):
            with self.assertRaisesRegex(error, words):
                threelc.decompress(FRAME, out)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_dlpack(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            tensor = torch.zeros(2, 3, dtype=dtype)
            self.taken(DLPack(tensor), {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}[dtype])
            self.assertEqual(tensor.tolist(), [[0, 1, 2], [3, 4, 5]])
        tail = torch.zeros(9)
        self.taken(DLPack(tail[3:]))
        self.assertEqual(tail.tolist(), [0, 0, 0, 0, 1, 2, 3, 4, 5])
        with self.assertRaisesRegex(ValueError, "contiguous"):
            self.taken(DLPack(torch.zeros(12)[::2]))
        with self.assertRaisesRegex(TypeError, "not on the CPU"):
            self.taken(DLPack(torch.zeros(6), (2, 0)))
        tensor = torch.zeros(6)
        before = sys.getrefcount(tensor)
        for _ in range(10):
            self.taken(DLPack(tensor))
        self.assertEqual(sys.getrefcount(tensor), before)

    def test_dtypes(self):
        for words, dtype in (("f32", 0), ("float16", 1), ("bf16", 2), (numpy.float32, 0), (numpy.dtype("f2"), 1)):
            self.assertEqual(_arrays.dtype_of(words), dtype)
        for words in ("f64", numpy.int8, None):
            self.assertRaises(TypeError, _arrays.dtype_of, words)
