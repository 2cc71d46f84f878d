# SPDX-License-Identifier: MIT
"""Deltas of weights, and models that follow another."""
import unittest

import numpy
import threelc
import threelc.torch
import torch
from test_weight_sync import bits

RANDOM = numpy.random.default_rng(1)


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
                 f"has digest {threelc.delta.digest(base)}: theirs is {threelc.delta.digest(following)}"),
                (lambda: threelc.delta.apply(other, base.copy()), threelc.CorruptError,
                 "the bytes of a frame, not of a delta"),
                (lambda: threelc.delta.inspect(other), threelc.CorruptError, "the bytes of a frame, not of a delta"),
                (lambda: threelc.delta.inspect(frame[:-1]), threelc.CorruptError, "checksum of the delta")):
            with self.assertRaisesRegex(error, words):
                call()
        with self.assertRaisesRegex(ValueError, "base has 2999 weights, next has 3000"):
            threelc.delta.compress(base[:-1], following)
        threelc.delta.apply(threelc.delta.compress(base, following, digests=False), weights := base.copy())
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
                for name in mine:
                    if not name.endswith("num_batches_tracked"):
                        self.assertEqual(mine[name], theirs[name], name)
                trained(source, 1, 1e-6)
            self.assertLess(max(sizes[1:]) * smaller, sizes[0])

    def test_what_does_not_fit_is_named(self):
        message = threelc.torch.WeightSync(build(1)).publish()
        smaller, without, more, halves = build(1, 299), build(1)[:2], build(1), build(1).half()
        more.add_module("3", torch.nn.Linear(3, 3))
        for model, words in (
                (smaller, r"0\.weight is f32 of shape \[300, 40\] in the message, f32 of \[299, 40\] in the model"),
                (without, r"the model has no 2\.weight"), (more, r"the message has no 3\.bias"),
                (halves, r"0\.weight is f32 of shape \[300, 40\] in the message, f16")):
            before = bits(model)
            with self.assertRaisesRegex(ValueError, words):
                threelc.torch.WeightSync(model).receive(message)
            self.assertEqual(bits(model), before)
