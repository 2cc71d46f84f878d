# SPDX-License-Identifier: MIT
"""Deltas that are made of lists of what differs, read as lists, folded and repaired."""
import mmap
import os
import signal
import tempfile
import unittest

import numpy
import threelc
import torch
from threelc import delta

N = 150001
DTYPES = {"f32": "u4", "f16": "u2", "bf16": "u2", "f8_e4m3": "u1", "f8_e5m2": "u1", "u8": "u1", "i32": "u4",
          "i64": "u8", "f64": "u8"}


VIEWS = {"f32": "f4", "f16": "f2", "f64": "f8"}


def given(bits, dtype):
    """Bits as an array that the library takes for this dtype."""
    return bits.view(VIEWS[dtype]) if dtype in VIEWS else bits


def moved(base, seed, share=0.01):
    """Some of the weights, as bits, by one or so."""
    rng = numpy.random.default_rng(seed)
    after = base.copy()
    where = rng.random(len(base)) < share
    after[where] += rng.integers(1, 4, int(where.sum())).astype(base.dtype)
    return after


def ordered(bits, width):
    sign = bits >> (width - 1) & 1
    return bits ^ (sign * ((1 << (width - 1)) - 1))


class Lists(unittest.TestCase):
    def setUp(self):
        self.rng = numpy.random.default_rng(1)

    def weights(self, kind):
        return self.rng.integers(0, numpy.iinfo(kind).max, N, dtype=kind, endpoint=True)

    def test_from_changes(self):
        for dtype, kind in DTYPES.items():
            with self.subTest(dtype):
                base = self.weights(kind)
                after = moved(base, 2)
                at = numpy.flatnonzero(base != after).astype("i8")
                digests = delta.digest(given(base, dtype), dtype=dtype), delta.digest(given(after, dtype), dtype=dtype)
                pairs = (base, after), (base[at], after[at])
                whole, listed = [[given(bits, dtype) for bits in pair] for pair in pairs]
                made = delta.from_changes(at, *listed, N, dtype=dtype, digests=digests, threads=2)
                self.assertEqual(made, delta.compress(*whole, dtype=dtype))
                plain = delta.from_changes(torch.from_numpy(at), *listed, N, dtype=dtype)
                self.assertEqual(plain, delta.compress(*whole, dtype=dtype, digests=False))

    def test_changes_move_the_base(self):
        for dtype, kind in DTYPES.items():
            with self.subTest(dtype):
                base = self.weights(kind)
                after = moved(base, 3)
                frame = delta.compress(given(base, dtype), given(after, dtype), dtype=dtype)
                mine = base.copy()
                for piece in delta.changes(frame):
                    at = numpy.frombuffer(piece.positions, "u8")
                    values = numpy.frombuffer(piece.values, kind)
                    self.assertEqual(piece.are_values, 0)
                    width = 8 * values.itemsize
                    if dtype in ("f64", "i64"):
                        low, high = mine[at] + values & 0xffffffff, (mine[at] >> 32) + (values >> 32)
                        mine[at] = high << 32 | low
                    elif dtype[0] in "fb":
                        mine[at] = ordered(ordered(mine[at], width) + values, width)
                    else:
                        mine[at] += values
                self.assertEqual(mine.tobytes(), after.tobytes())

    def test_changes_of_all_weights(self):
        after = self.weights("u2")
        frame = delta.compress(None, after, dtype="bf16")
        pieces = list(delta.changes(frame, first=1000, end=140000))
        self.assertEqual([len(piece.positions) for piece in pieces], [64536, 65536, 8928])
        self.assertEqual({piece.are_values for piece in pieces}, {1})
        values = numpy.concatenate([numpy.frombuffer(piece.values, "u2") for piece in pieces])
        self.assertEqual(values.tobytes(), after[1000:140000].tobytes())

    def test_weights_of_4_bits(self):
        base = self.weights("u1")
        after = base ^ (self.rng.random(N) < 0.02).astype("u1")
        at = 2 * numpy.flatnonzero(base != after).astype("u8")
        whole = delta.compress(base, after, dtype="u4")
        made = delta.from_changes(at, base[at // 2], after[at // 2], 2 * N, dtype="u4")
        self.assertEqual(made, delta.compress(base, after, dtype="u4", digests=False))
        found = numpy.concatenate([numpy.frombuffer(piece.positions, "u8") for piece in delta.changes(whole)])
        self.assertEqual(found.tolist(), at.tolist())

    def test_nothing_differs(self):
        base = self.weights("u2")
        frame = delta.compress(base, base, dtype="bf16")
        self.assertEqual(list(delta.changes(frame)), [])
        none = numpy.zeros(0, "u2")
        self.assertEqual(delta.from_changes(none.astype("u8"), none, none, N, dtype="bf16"),
                         delta.compress(base, base, dtype="bf16", digests=False))

    def test_wrong_lists(self):
        one = numpy.ones(1, "u2")
        with self.assertRaisesRegex(ValueError, "there are 2 positions, 1 weights before and 1 after"):
            delta.from_changes(numpy.arange(2), one, one, N, dtype="bf16")
        with self.assertRaisesRegex(ValueError, "there are 2 positions, 2 weights before and 1 after"):
            delta.from_changes(numpy.arange(2), numpy.ones(2, "u2"), one, N, dtype="bf16")
        with self.assertRaisesRegex(ValueError, r"positions\[0\] is \d+, and n 150001"):
            delta.from_changes(numpy.array([-1]), one, one, N, dtype="bf16")
        for digests, words in (((0, 2**64), "digests should be from 0 to"), ((-1, 0), "digests should be from 0 to"),
                               ((5,), "digests should have 2 numbers, not 1")):
            with self.assertRaisesRegex(ValueError, words):
                delta.from_changes(numpy.array([3]), one, one, N, dtype="bf16", digests=digests)
        frame = delta.compress(None, self.weights("u2"), dtype="bf16")
        with self.assertRaisesRegex(ValueError, "next is 0, end 150002, and n 150001"):
            list(delta.changes(frame, end=N + 1))
        with self.assertRaises(threelc.CorruptError):
            list(delta.changes(frame[:-1]))


class Folds(unittest.TestCase):
    def chain(self, steps):
        weights = [numpy.random.default_rng(4).integers(0, 1 << 16, N, "u2")]
        for step in range(steps):
            weights.append(moved(weights[-1], step))
        return weights, [delta.compress(*pair, dtype="bf16") for pair in zip(weights, weights[1:])]

    def test_as_small_as_direct(self):
        weights, frames = self.chain(8)
        self.assertEqual(delta.fold(frames, threads=2), delta.compress(weights[0], weights[-1], dtype="bf16"))
        self.assertEqual(delta.fold(frames[:1]), frames[0])
        late = weights[3].copy()
        delta.apply(delta.fold(frames[3:]), late, dtype="bf16")
        self.assertEqual(late.tobytes(), weights[-1].tobytes())

    def test_wrong_chains(self):
        _, frames = self.chain(3)
        with self.assertRaisesRegex(threelc.BaseError, r"frames\[1\] has a base with digest"):
            delta.fold([frames[0], frames[2]])
        with self.assertRaisesRegex(threelc.CorruptError, r"frames\[1\]: "):
            delta.fold([frames[0], frames[1][:-1], frames[2]])
        with self.assertRaisesRegex(ValueError, "there are no frames"):
            delta.fold([])


class Repairs(unittest.TestCase):
    def test_a_mapped_file(self):
        """Killed while it writes to the file, and completed from the same delta."""
        base = numpy.random.default_rng(5).integers(0, 1 << 16, 1 << 23, "u2")
        after = moved(base, 6, 0.05)
        frame = delta.compress(base, after, dtype="bf16", block_digests=True)
        torn = 0
        for _ in range(8):
            with tempfile.NamedTemporaryFile() as file:
                file.write(base.tobytes())
                file.flush()
                memory = mmap.mmap(file.fileno(), 0)
                mapped = numpy.frombuffer(memory, "u2")
                child = os.fork()
                if not child:
                    delta.apply(frame, mapped, dtype="bf16", threads=1)
                    os._exit(0)
                half = len(base) // 2
                while os.waitpid(child, os.WNOHANG)[0] == 0:
                    if (mapped[half:half + 4096] != base[half:half + 4096]).any():
                        os.kill(child, signal.SIGKILL)
                left = mapped.tobytes()
                torn += left not in (base.tobytes(), after.tobytes())
                if left not in (base.tobytes(), after.tobytes()):
                    with self.assertRaisesRegex(threelc.BaseError, "tlc_delta_repair completes it"):
                        delta.apply(frame, mapped, dtype="bf16")
                found = delta.repair(frame, mapped, dtype="bf16")
                self.assertEqual(sum(found), 128)
                self.assertEqual(mapped.tobytes(), after.tobytes())
                del mapped
                memory.close()
        self.assertGreater(torn, 0)

    def test_other_weights(self):
        base = numpy.random.default_rng(7).integers(0, 1 << 16, N, "u2")
        after = moved(base, 8)
        with self.assertRaisesRegex(ValueError, "no digests of blocks"):
            delta.repair(delta.compress(base, after, dtype="bf16"), base, dtype="bf16")
        frame = delta.compress(base, after, dtype="bf16", block_digests=True)
        other = base.copy()
        other[70000] ^= 0x700
        with self.assertRaisesRegex(threelc.BaseError, "neither at the base of the delta nor at its result"):
            delta.repair(frame, other, dtype="bf16")


if __name__ == "__main__":
    unittest.main()
