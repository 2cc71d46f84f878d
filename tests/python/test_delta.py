# SPDX-License-Identifier: MIT
"""Deltas of weights, and models that follow another."""
import unittest

import numpy
import older_messages
import threelc
import threelc.torch
import torch
from test_weight_sync import bits

RANDOM = numpy.random.default_rng(1)


QUANTIZED = ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn_x2", "uint8", "int8", "bool", "int32",
             "int64", "float64")


def as_bytes(tensor):
    return tensor.contiguous().view(torch.uint8).tolist()


def trained(model, steps=1, rate=1e-5):
    """Steps of Adam on drawn data."""
    optimizer = torch.optim.Adam(model.parameters(), rate)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 40, dtype=next(model.parameters()).dtype)).square().sum().backward()
        optimizer.step()


def build(seed, hidden=300):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(40, hidden), torch.nn.BatchNorm1d(hidden), torch.nn.Linear(hidden, 3))


class Backwards(torch.nn.Module):
    """The tensors of build() in another order."""

    def __init__(self, seed):
        super().__init__()
        self.add_module("2", build(seed)[2])
        self.add_module("1", build(seed)[1])
        self.add_module("0", build(seed)[0])


class Deltas(unittest.TestCase):
    def test_arrays(self):
        base = RANDOM.standard_normal((30, 500)).astype("f4")
        following = base.copy()
        following[3] *= 1.5
        following[7, 5] = numpy.nan
        frame = threelc.delta.compress(base, following)
        weights = base.copy()
        self.assertIs(threelc.delta.apply(frame, weights), weights)
        self.assertEqual(weights.tobytes(), following.tobytes())
        info = threelc.delta.inspect(frame)
        self.assertEqual((info.n, info.dtype, info.has_base, info.sparse_blocks), (15000, threelc.DType.F32, True, 1))
        self.assertEqual(info.changed, int((base.view("u4") != following.view("u4")).sum()))
        self.assertEqual(info.base_digest, threelc.delta.digest(base))
        self.assertEqual(info.result_digest, threelc.delta.digest(following))

    def test_check_result(self):
        """A result that is not the sender's is found where that is asked for."""
        base, one = numpy.zeros(1000, "u2"), numpy.ones(1, "u2")
        frame = threelc.delta.from_changes(numpy.array([3]), 0 * one, one, 1000, dtype="bf16",
                                           digests=(threelc.delta.digest(base, dtype="bf16"), 7))
        self.assertEqual(threelc.delta.apply(frame, base.copy(), dtype="bf16")[3], 1)
        with self.assertRaisesRegex(threelc.CorruptError, "not those of the sender") as caught:
            threelc.delta.apply(frame, base, dtype="bf16", check_result=True)
        self.assertEqual(caught.exception.status, threelc.Status.CHECKSUM)

    def test_blocks(self):
        base = RANDOM.integers(0, 256, (10, 65536), "u1")
        following = base.copy()
        following[4:7, 5] += 1
        following[7:9] += 1
        following[9] = RANDOM.integers(0, 256, 65536, "u1")
        info = threelc.delta.inspect(threelc.delta.compress(base, following))
        self.assertEqual((info.unchanged_blocks, info.sparse_blocks, info.dense_blocks, info.raw_blocks, info.changed),
                         (4, 3, 2, 1, 3))

    def test_dtypes(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            base = torch.randn(70000).to(dtype)
            following = base + (torch.rand(70000) < 0.02).to(dtype) * 1e-2
            for start in (base, None):
                frame = threelc.delta.compress(start, following)
                weights = base.clone() if start is not None else torch.zeros_like(base)
                threelc.delta.apply(frame, weights)
                self.assertTrue(torch.equal(weights, following))
        halves = RANDOM.integers(0, 65536, 1000, "u2")
        weights = numpy.zeros(1000, "u2")
        threelc.delta.apply(threelc.delta.compress(None, halves, dtype="bf16"), weights, dtype="bf16")
        self.assertEqual(weights.tobytes(), halves.tobytes())

    def test_serving_dtypes(self):
        """Each dtype of PyTorch that has no gradients in the library, with the dtype that the delta says."""
        names = {"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3",
                 "float8_e5m2fnuz": "F8_E5M2", "float8_e8m0fnu": "U8", "float4_e2m1fn_x2": "F4_E2M1", "uint8": "U8",
                 "int8": "U8", "bool": "U8", "int32": "I32", "uint32": "I32", "int64": "I64", "uint64": "I64",
                 "float64": "F64"}
        for name, kind in names.items():
            if not hasattr(torch, name):
                continue
            base = torch.randint(0, 2, (3, 40000), dtype=torch.uint8).repeat(1, 8)
            following = base ^ (torch.rand(base.shape) < 0.01).to(torch.uint8)
            base, following = (bits.view(getattr(torch, name)) for bits in (base, following))
            for start in (base, None):
                frame = threelc.delta.compress(start, following)
                info = threelc.delta.inspect(frame)
                self.assertEqual((info.dtype.name, info.n, info.version),
                                 (kind, base.numel() * (2 if kind == "F4_E2M1" else 1), 2))
                self.assertEqual(info.result_digest, threelc.delta.digest(following))
                weights = base.clone()
                if start is None:
                    weights.view(torch.uint8).zero_()
                threelc.delta.apply(frame, weights)
                self.assertTrue(torch.equal(weights.view(torch.uint8), following.view(torch.uint8)))
            self.assertLess(len(threelc.delta.compress(base, following)), base.numel() * base.element_size() / 7)

    def test_bits_with_a_name(self):
        """What numpy has no dtype for."""
        base = RANDOM.integers(0, 256, 4000, "u1")
        following = base + (RANDOM.random(4000) < 0.01).astype("u1")
        frames = {}
        for dtype in ("f8_e4m3", "f8_e5m2", "f4_e2m1", "u8", "u4"):
            frames[dtype] = threelc.delta.compress(base, following, dtype=dtype)
            weights = base.copy()
            threelc.delta.apply(frames[dtype], weights, dtype=dtype)
            self.assertEqual(weights.tobytes(), following.tobytes())
        self.assertEqual(len(set(frames.values())), 5)
        self.assertEqual(threelc.delta.inspect(frames["u4"]).n, 8000)
        with self.assertRaisesRegex(threelc.ParameterError, "the delta is for f8_e5m2 weights, the caller has f8_e4m3"):
            threelc.delta.apply(frames["f8_e5m2"], base, dtype="f8_e4m3")

    def test_ranges(self):
        """A shard of the weights, in place and in other memory; the head alone; a check."""
        base = RANDOM.standard_normal(200000).astype("f4")
        following = base * (1 + 1e-3 * (RANDOM.random(200000) < 0.1)).astype("f4")
        for start in (base, None):
            frame = threelc.delta.compress(start, following)
            part = slice(60001, 140000)
            out = numpy.zeros(79999, "f4")
            ours = None if start is None else base[part]
            self.assertIs(threelc.delta.apply_range(frame, ours, out, n=200000, first=60001, threads=2), out)
            self.assertEqual(out.tobytes(), following[part].tobytes())
            weights = base[part].copy()
            threelc.delta.apply_range(frame, weights, weights, n=200000, first=60001)
            self.assertEqual(weights.tobytes(), following[part].tobytes())
        frame = threelc.delta.compress(base, following)
        head, info = threelc.delta.peek(frame[:30]), threelc.delta.inspect(frame)
        self.assertEqual((head.n, head.dtype, head.base_digest, head.result_digest, head.has_base, head.changed),
                         (info.n, info.dtype, info.base_digest, info.result_digest, info.has_base, 0))
        before = base.copy()
        threelc.delta.check(frame, base)
        with self.assertRaises(threelc.BaseError):
            threelc.delta.check(frame, following)
        with self.assertRaisesRegex(threelc.CorruptError, "3 bytes are too few for a delta"):
            threelc.delta.peek(frame[:3])
        self.assertEqual(base.tobytes(), before.tobytes())
        for call, words in ((lambda: threelc.delta.apply_range(frame, base[:3], out, n=200000, first=0), "base has 3"),
                            (lambda: threelc.delta.apply_range(frame, out.copy(), out, n=200000, first=199999),
                             "first is 199999, count 79999, and n 200000"),
                            (lambda: threelc.delta.apply_range(frame, None, out, n=200000, first=0), "base is NULL")):
            with self.assertRaisesRegex(ValueError, words):
                call()

    def test_other_dtypes(self):
        """Weights that deltas do not have, and gradients that no codec has."""
        for values, dtype, words in ((numpy.zeros(4, "i2"), None, 'not int16; .*dtype="bf16"'),
                                     (numpy.zeros(4, "c8"), None, "a dtype of threelc.DType, not complex64"),
                                     (numpy.zeros(4, "f4"), "f8_e4m3", "values of float8_e4m3fn, not float32"),
                                     (numpy.zeros(4, "u1"), "f7", "weights are one of f32, f16, .*, f64, not f7")):
            with self.assertRaisesRegex(TypeError, words):
                threelc.delta.digest(values, dtype=dtype)
        for dtype in (threelc.DType.F8_E4M3, "u8", "float64"):
            with self.assertRaisesRegex(TypeError, "values are float32, float16 or bfloat16, not "):
                threelc.Context(4, "3lc", dtype=dtype)

    def test_any_threads_make_the_same_bytes(self):
        base = RANDOM.standard_normal(400000).astype("f4")
        following = base * (1 + 1e-6 * (RANDOM.random(400000) < 0.1).astype("f4"))
        frames = {threelc.delta.compress(base, following, threads=threads) for threads in (None, 2, 3)}
        self.assertEqual(len(frames), 1)
        threelc.delta.apply(frames.pop(), base, threads=3)
        self.assertEqual(base.tobytes(), following.tobytes())

    def test_failures_change_nothing(self):
        base = RANDOM.standard_normal(3000).astype("f4")
        following = base + numpy.float32(1e-3)
        frame = threelc.delta.compress(base, following)
        altered = bytearray(frame)
        altered[len(frame) // 2] ^= 4
        for bytes_given, start, error in (
                (frame, following, threelc.BaseError), (frame, base[:-1], threelc.SizeError),
                (altered, base, threelc.CorruptError), (frame[:-1], base, threelc.CorruptError),
                (b"", base, threelc.CorruptError), (frame, base.view("u2"), TypeError)):
            weights = start.copy()
            with self.assertRaises(error):
                threelc.delta.apply(bytes_given, weights)
            self.assertEqual(weights.tobytes(), start.tobytes())
        other = threelc.Context(3000).compress(base)
        for call, error, words in (
                (lambda: threelc.delta.apply(frame, numpy.zeros(3000, "f2")), threelc.ParameterError,
                 "the delta is for f32 weights, the caller has f16"),
                (lambda: threelc.delta.apply(frame, base[:-1].copy()), threelc.SizeError,
                 "the delta is for 3000 weights, the caller has 2999"),
                (lambda: threelc.delta.apply(frame, following.copy()), threelc.BaseError,
                 "the weights are the result of the delta already"),
                (lambda: threelc.delta.apply(frame, -base), threelc.BaseError,
                 f"has digest {threelc.delta.digest(base)}: theirs is {threelc.delta.digest(-base)}"),
                (lambda: threelc.delta.apply(other, base.copy()), threelc.CorruptError,
                 "the bytes of a frame, not of a delta"),
                (lambda: threelc.delta.inspect(other), threelc.CorruptError, "the bytes of a frame, not of a delta"),
                (lambda: threelc.delta.inspect(frame[:-1]), threelc.CorruptError, "checksum of the delta")):
            with self.assertRaisesRegex(error, words):
                call()
        with self.assertRaisesRegex(ValueError, "base has 2999 weights, next has 3000"):
            threelc.delta.compress(base[:-1], following)
        plain = threelc.delta.compress(base, following, digests=False)
        self.assertIsNone(threelc.delta.peek(plain).base_digest)
        self.assertIsNone(threelc.delta.inspect(plain).result_digest)
        threelc.delta.apply(plain, weights := base.copy())
        self.assertEqual(weights.tobytes(), following.tobytes())


class WeightSync(unittest.TestCase):
    def test_following(self):
        """A receiver has the bits of the publisher, whatever order its tensors are in."""
        for dtype, smaller in (torch.float32, 2), (torch.bfloat16, 3):
            source, served = build(1).to(dtype), Backwards(2).to(dtype)
            publisher, receiver = threelc.torch.WeightSync(source, threads=2), threelc.torch.WeightSync(served)
            sizes = []
            for step in range(4):
                message = publisher.publish()
                receiver.receive(message)
                sizes.append(len(message))
                mine, theirs = bits(source), bits(served)
                self.assertEqual(mine, theirs)
                trained(source, 1, 1e-6)
            self.assertLess(max(sizes[1:]) * smaller, sizes[0])

    def test_quantized(self):
        """A model as it is served: each tensor with another dtype, one of them with others in its memory."""
        served = {}
        for side in ("trainer", "receiver"):
            torch.manual_seed(len(served))
            model = torch.nn.Module()
            for name in QUANTIZED:
                if hasattr(torch, name):
                    values = torch.randint(0, 2, (64, 48), dtype=torch.uint8).view(getattr(torch, name))
                    model.register_buffer(name, values)
            model.scale = torch.nn.Parameter(torch.randn(64))
            model.register_buffer("lines", model.int8[8:16].t())
            served[side] = model
        publisher, receiver = map(threelc.torch.WeightSync, served.values())
        sizes = []
        for _ in range(3):
            message = publisher.publish()
            receiver.receive(message)
            sizes.append(len(message))
            for name, tensor in served["trainer"].state_dict().items():
                self.assertEqual(tensor.dtype, served["receiver"].state_dict()[name].dtype)
                self.assertEqual(as_bytes(tensor), as_bytes(served["receiver"].state_dict()[name]), name)
            for name in QUANTIZED:
                if hasattr(torch, name):
                    getattr(served["trainer"], name).view(torch.uint8)[3, 5] ^= 1
        self.assertLess(max(sizes[1:]), sizes[0] / 2)

    def test_variants_of_float8(self):
        """Their bits mean other values, so they do not fit."""
        if not hasattr(torch, "float8_e4m3fnuz"):
            self.skipTest("this PyTorch has no float8")
        models = [torch.nn.Module(), torch.nn.Module()]
        for model, dtype in zip(models, (torch.float8_e4m3fn, torch.float8_e4m3fnuz)):
            model.register_buffer("w", torch.zeros(6, dtype=torch.uint8).view(dtype))
        with self.assertRaisesRegex(ValueError, r"w is float8_e4m3fn of shape \[6\] in the message, float8_e4m3fnuz"):
            threelc.torch.WeightSync(models[1]).receive(threelc.torch.WeightSync(models[0]).publish())

    def test_message_of_an_older_release(self):
        """It has no counters: those stay as they are."""
        source, served = build(1), build(2)
        served[1].num_batches_tracked += 5
        listed, frames = older_messages.parts(older_messages.Trainer(source.state_dict().items).publish())
        kept = [(entry, frame) for entry, frame in zip(listed["tensors"], frames) if entry["dtype"] == "f32"]
        self.assertEqual(len(kept), len(listed["tensors"]) - 1)
        listed.update(format=2, tensors=[entry for entry, _ in kept])
        threelc.torch.WeightSync(served).receive(older_messages.sealed(listed, [frame for _, frame in kept]))
        self.assertEqual(served[1].num_batches_tracked, 5)
        self.assertTrue(all(map(torch.equal, source.parameters(), served.parameters())))
        listed.update(format=3)
        with self.assertRaisesRegex(ValueError, "the message has no 1.num_batches_tracked"):
            threelc.torch.WeightSync(served).receive(older_messages.sealed(listed, [frame for _, frame in kept]))

    def test_what_does_not_fit_is_named(self):
        message = threelc.torch.WeightSync(build(1)).publish()
        smaller, without, more, halves = build(1, 299), build(1)[:2], build(1), build(1).half()
        more.add_module("3", torch.nn.Linear(3, 3))
        for model, words in (
                (smaller, r"0\.weight is f32 of shape \[300, 40\] in the message, f32 of \[299, 40\] in the model"),
                (without, r"the model has no 2\.bias"), (more, r"the message has no 3\.bias"),
                (halves, r"0\.weight is f32 of shape \[300, 40\] in the message, f16")):
            before = bits(model)
            with self.assertRaisesRegex(ValueError, words):
                threelc.torch.WeightSync(model).receive(message)
            self.assertEqual(bits(model), before)
