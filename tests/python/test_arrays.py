# SPDX-License-Identifier: MIT
"""What arrays are taken, without a copy, and what is refused, with a sentence."""
import array
import ctypes
import gc
import sys
import unittest
import weakref
from types import SimpleNamespace

import numpy
import threelc
from sentences import check_sentences
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


class Managed(ctypes.Structure):
    """DLManagedTensor, as DLPack has it."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int),
                ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Capsule:
    """Memory that says of itself by DLPack what a test wants."""

    def __init__(self, data=None, shape=(), strides=None, code=2, bits=32, lanes=1, byte_offset=0):
        self.data = data
        self.lengths = (ctypes.c_int64 * len(shape))(*shape)
        self.steps = None if strides is None else (ctypes.c_int64 * len(shape))(*strides)
        self.tensor = Managed(data=None if data is None else ctypes.addressof(data), device_type=1, ndim=len(shape),
                              code=code, bits=bits, lanes=lanes, byte_offset=byte_offset, shape=self.lengths,
                              strides=self.steps)

    def __dlpack__(self, stream=None):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.tensor), b"dltensor", None)

    def __dlpack_device__(self):
        return 1, 0


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

    def test_strides_of_dlpack(self):
        """None, or those of memory without holes; that of an axis of one value does not matter."""
        for shape, strides, offset in (((6,), None, 0), ((2, 3), (3, 1), 4), ((1, 6), (77, 1), 8), ((6, 1), (1, 5), 0),
                                       ((2, 1, 3), (3, 9, 1), 0)):
            room = (ctypes.c_float * 9)()
            self.taken(Capsule(room, shape, strides, byte_offset=offset))
            first = offset // 4
            self.assertEqual(room[first:first + 6], [0, 1, 2, 3, 4, 5])
            self.assertEqual(room[:first] + room[first + 6:], [0] * 3)
        one = threelc.Context(1, "raw").compress(numpy.ones(1, "f4"))
        threelc.decompress(one, Capsule(room, ()))
        self.assertEqual(room[0], 1)
        none = threelc.Context(0, "raw").compress(Capsule(None, (0, 3), (3, 1)))
        self.assertEqual(threelc.inspect(none).n, 0)
        hole, words = "out is not contiguous; give a contiguous copy", "out should have values of float32, float16 or "
        check_sentences(self, *((lambda given=given: threelc.decompress(FRAME, given), error, sentence)
                                for given, error, sentence in (
            (Capsule(room, (2, 3), (1, 2)), ValueError, hole), (Capsule(room, (3,), (2,)), ValueError, hole),
            (Capsule(room, (2, 2), (1, 1)), ValueError, hole),
            (Capsule(room, (2, -3)), ValueError, "out has a negative length, -3"),
            (Capsule(None, (2, 3)), ValueError, "out has no memory for its 6 values"),
            (Capsule(room, (6,), bits=16, lanes=2), TypeError, words + "bfloat16, not vectors of 2"))))

    def test_kinds_of_dlpack(self):
        """Digests of weights are those of numpy's."""
        room = (ctypes.c_uint8 * 48)(*range(48))
        for code, bits, kind in ((0, 8, "i1"), (0, 32, "i4"), (0, 64, "i8"), (1, 8, "u1"), (1, 32, "u4"), (1, 64, "u8"),
                                 (2, 16, "f2"), (2, 32, "f4"), (2, 64, "f8")):
            given = Capsule(room, (384 // bits,), code=code, bits=bits)
            self.assertEqual(threelc.delta.digest(given), threelc.delta.digest(numpy.frombuffer(bytes(room), kind)))
        halves = numpy.frombuffer(bytes(room), "u2")
        self.assertEqual(threelc.delta.digest(Capsule(room, (24,), code=4, bits=16)),
                         threelc.delta.digest(halves, dtype="bf16"))
        words = "weights should have values of a dtype of threelc.DType, not "
        check_sentences(
            self,
            (lambda: threelc.delta.digest(Capsule(room, (24,), code=1, bits=16)), TypeError,
             words + 'uint16; if these are the bits of bfloat16, say so: dtype="bf16"'),
            (lambda: threelc.delta.digest(Capsule(room, (6,), code=5, bits=64)), TypeError, words + "?8"))

    def test_dtypes_of_ml_dtypes(self):
        """Arrays of numpy whose dtypes have no buffers: their bits are taken."""
        class Other:
            def __init__(self, bits, name):
                self.bits, self.dtype = bits, SimpleNamespace(name=name, itemsize=bits.itemsize)

        class Array(Other):
            def view(self, kind):
                return self.bits.view(kind)

        bits = numpy.zeros(6, "i2")
        self.taken(Array(bits, "bfloat16"))
        self.assertEqual(bits.tolist(), [0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0])
        for name, dtype in (("float8_e4m3fn", "f8_e4m3"), ("float8_e5m2", "f8_e5m2"), ("float8_e8m0fnu", "u8")):
            given = numpy.arange(6, dtype="u1")
            view, n, found = _arrays.weights(Array(given, name), None, "weights")
            self.assertEqual((view.address, n, found), (given.ctypes.data, 6, threelc.DType[dtype.upper()]))
        fixed = Array(numpy.frombuffer(bytes(12), "u2"), "bfloat16")
        words = "out should be an array (of numpy, a torch tensor on the CPU, or with the buffer protocol or DLPack), "
        check_sentences(
            self, (lambda: threelc.decompress(FRAME, fixed), ValueError, "out is read-only, and would be written"),
            (lambda: threelc.decompress(FRAME, Other(bits, "bfloat16")), TypeError, words + "not an Other"),
            (lambda: threelc.decompress(FRAME, Array(bits, "int3")), TypeError, words + "not an Array"))

    def test_orders_of_bytes(self):
        """Of ctypes, which name theirs."""
        native, other = ctypes.c_float.__ctype_le__, ctypes.c_float.__ctype_be__
        if sys.byteorder == "big":
            native, other = other, native
        room = (native * 6)()
        self.taken(room)
        self.assertEqual(list(room), [0, 1, 2, 3, 4, 5])
        with self.assertRaisesRegex(TypeError, "not [<>]f$"):
            threelc.decompress(FRAME, (other * 6)())
        for integer in "lLqQiI":
            given = numpy.arange(5, dtype=integer)
            self.assertEqual(threelc.delta.digest(given),
                             threelc.delta.digest(given, dtype=f"i{8 * given.itemsize}"))

    def test_numbers_of_values(self):
        for given, dtype, n in ((numpy.zeros(6, "f4"), None, 6), (numpy.zeros(6, "f8"), None, 6),
                                (numpy.zeros(6, "u1"), "u4", 12), (numpy.zeros(6, "u1"), "f4_e2m1", 12),
                                (numpy.zeros(6, "i1"), None, 6), (numpy.zeros(6, "u2"), "bf16", 6),
                                (numpy.zeros(6, "?"), None, 6), (numpy.zeros((2, 0), "i8"), None, 0)):
            view, found, _ = _arrays.weights(given, dtype, "weights")
            self.assertEqual((found, view.size, view.address != 0), (n, given.nbytes, True))

    def test_memory_in_common(self):
        """Next to each other is no harm, nor is nothing."""
        room = numpy.zeros(9, "f4")

        def views(*parts):
            return [None if part is None else _arrays.View(room[part], True, f"part {i}") for i, part in
                    enumerate(parts)]

        empty = slice(0, 0)
        _arrays.check_apart(views(slice(3, 6), slice(0, 3), None, slice(6, 9), empty, empty, slice(0, 0)))
        check_sentences(self, (lambda: _arrays.check_apart(views(slice(5, 9), None, slice(0, 6))), ValueError,
                               "part 2 and part 0 have memory in common, and each gets values of its own"))

    def test_borrowed(self):
        room = (ctypes.c_float * 3)(1, 2, 3)
        address = ctypes.addressof(room)
        view = _arrays.borrowed(address, 12, room, "f")
        self.assertEqual((view.tolist(), view.readonly, view.format), ([1, 2, 3], True, "f"))
        view = _arrays.borrowed(address, 4, room, writable=True)
        view[0] = 1
        self.assertEqual((len(view), view.readonly, room[0] != 1), (4, False, True))
        for nothing in _arrays.borrowed(None, 12, room), _arrays.borrowed(address, 0, room):
            self.assertEqual((len(nothing), nothing.readonly), (0, True))

    def test_dtypes(self):
        for words, dtype in (("f32", 0), ("float16", 1), ("bf16", 2), (numpy.float32, 0), (numpy.dtype("f2"), 1)):
            self.assertEqual(_arrays.dtype_of(words), dtype)
        for dtype in threelc.DType:
            self.assertEqual(_arrays.weight_dtype_of(dtype), dtype)
            if dtype in (threelc.DType.F32, threelc.DType.F16, threelc.DType.BF16):
                self.assertEqual(_arrays.dtype_of(dtype), dtype)
        hint = '; if these are the bits of bfloat16, say so: dtype="bf16"'
        words, known = "values are float32, float16 or bfloat16, not ", ", ".join(d.name.lower() for d in threelc.DType)
        check_sentences(
            self, *((lambda given=given: _arrays.dtype_of(given), TypeError, words + said) for given, said in (
                ("f64", "f64"), (numpy.int8, "int8"), (None, "None"), (threelc.DType.U8, "u8"),
                ("torch.int16", "torch.int16" + hint), (numpy.uint16, "uint16" + hint))),
            (lambda: _arrays.weight_dtype_of("q"), TypeError, f"weights are one of {known}, not q"),
            (lambda: _arrays.weight_dtype_of("torch.uint16"), TypeError,
             f"weights are one of {known}, not torch.uint16{hint}"))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_writing_in_place(self):
        """As torch refuses it."""
        row = torch.ones(12).as_strided((1, 6), (0, 1))  # a stride of 0, of one value
        _arrays.check_writable(row, "row")
        _arrays.check_writable(torch.ones(6).requires_grad_().detach(), "detached")
        with torch.no_grad():
            _arrays.check_writable(torch.ones(6).requires_grad_(), "leaf")
        with torch.inference_mode():
            inferred = torch.ones(6)
            _arrays.check_writable(inferred, "inferred")
        no_grad = "make this call under torch.no_grad(), or give x.detach()"
        check_sentences(self, *((lambda tensor=tensor: _arrays.check_writable(tensor, "x"), RuntimeError, sentence)
                                for tensor, sentence in (
            (torch.ones(1, 3).expand(2, 3), "x is expanded: several of its values are the same memory; give a clone()"),
            (inferred, "x is an inference tensor, which is written only under torch.inference_mode(); give a clone()"),
            (torch.ones(6).requires_grad_(), "x is a leaf Variable that requires grad and is being used in an in-place "
                                             f"operation: {no_grad}"),
            (torch.ones(6).requires_grad_() * 2, "x requires grad, and there is no derivative of what is written: "
                                                 + no_grad))))
