# SPDX-License-Identifier: MIT
"""Arguments of threelc.delta: what each call refuses and says, what it takes, and its defaults."""
import unittest
from dataclasses import FrozenInstanceError

import numpy
import threelc
from threelc import delta

N = 3 * 65536
BASE = numpy.random.default_rng(1).integers(0, 1 << 16, N, "u2")
AFTER = BASE.copy()
AFTER[[5, 70000, 150000]] += 1
FRAME = delta.compress(BASE, AFTER, dtype="bf16", block_digests=True)
AT = numpy.array([5, 70000, 150000])
BF16 = {"dtype": "bf16"}


def fixed(array):
    """A copy that cannot be written."""
    array = array.copy()
    array.flags.writeable = False
    return array


def room():
    return bytearray(delta.bound(N, "bf16"))


class Checks(unittest.TestCase):
    def test_what_is_no_array(self):
        """Each argument that is an array, by its name."""
        weights = AFTER.copy()
        for name, call in (
                ("next", lambda x: delta.compress(BASE, x, **BF16)),
                ("base", lambda x: delta.compress(x, AFTER, **BF16)),
                ("next", lambda x: delta.compress_into(BASE, x, room(), **BF16)),
                ("base", lambda x: delta.compress_into(x, AFTER, room(), **BF16)),
                ("out", lambda x: delta.compress_into(BASE, AFTER, x, **BF16)),
                ("frame", lambda x: delta.apply(x, weights, **BF16)),
                ("weights", lambda x: delta.apply(FRAME, x, **BF16)),
                ("frame", lambda x: delta.apply_range(x, BASE, weights, n=N, first=0, **BF16)),
                ("base", lambda x: delta.apply_range(FRAME, x, weights, n=N, first=0, **BF16)),
                ("out", lambda x: delta.apply_range(FRAME, BASE, x, n=N, first=0, **BF16)),
                ("positions", lambda x: delta.from_changes(x, BASE[AT], AFTER[AT], N, **BF16)),
                ("before", lambda x: delta.from_changes(AT, x, AFTER[AT], N, **BF16)),
                ("after", lambda x: delta.from_changes(AT, BASE[AT], x, N, **BF16)),
                ("frame", lambda x: next(delta.changes(x))), (r"frames\[1\]", lambda x: delta.fold([FRAME, x])),
                ("frame", lambda x: delta.repair(x, weights, **BF16)),
                ("weights", lambda x: delta.repair(FRAME, x, **BF16)),
                ("frame", lambda x: delta.check(x, BASE, **BF16)),
                ("weights", lambda x: delta.check(FRAME, x, **BF16)), ("frame", delta.inspect), ("frame", delta.peek),
                ("weights", lambda x: delta.digest(x, **BF16))):
            with self.assertRaisesRegex(TypeError, f"^{name} should be an array .*, not a dict"):
                call({})
            with self.assertRaisesRegex(TypeError, f"^{name} should (be bytes|have values of .*), not complex64"):
                call(numpy.zeros(3, "c8"))
        self.assertEqual(weights.tobytes(), AFTER.tobytes())

    def test_what_is_written(self):
        """It must be writable; what is only read need not be."""
        base, after, frame = fixed(BASE), fixed(AFTER), bytes(FRAME)
        for name, call in (("out", lambda: delta.compress_into(base, after, bytes(delta.bound(N, "bf16")), **BF16)),
                           ("weights", lambda: delta.apply(frame, base, **BF16)),
                           ("out", lambda: delta.apply_range(frame, base, after, n=N, first=0, **BF16)),
                           ("weights", lambda: delta.repair(frame, base, **BF16))):
            with self.assertRaisesRegex(ValueError, f"^{name} is read-only"):
                call()
        self.assertEqual(delta.compress(base, after, block_digests=True, **BF16), FRAME)
        delta.check(frame, base, **BF16)
        self.assertEqual(delta.digest(base, **BF16), delta.peek(frame).base_digest)
        at = fixed(AT)
        delta.from_changes(at, fixed(BASE[AT]), fixed(AFTER[AT]), N, **BF16)
        out = numpy.zeros(N, "u2")
        delta.apply_range(frame, base, out, n=N, first=0, **BF16)
        self.assertEqual(out.tobytes(), AFTER.tobytes())

    def test_numbers(self):
        """Each argument that is a number: not whole, below 0, above what the library's integers have."""
        out = numpy.zeros(4, "u2")
        for name, call in (
                ("n", lambda x: delta.bound(x, "bf16")),
                ("n", lambda x: delta.apply_range(FRAME, BASE[:4], out, n=x, first=0, **BF16)),
                ("first", lambda x: delta.apply_range(FRAME, BASE[:4], out, n=N, first=x, **BF16)),
                ("n", lambda x: delta.from_changes(AT, BASE[AT], AFTER[AT], x, **BF16)),
                ("first", lambda x: next(delta.changes(FRAME, first=x))),
                ("end", lambda x: next(delta.changes(FRAME, end=x))),
                ("digests", lambda x: delta.from_changes(AT, BASE[AT], AFTER[AT], N, digests=(1, x), **BF16))):
            for wrong in -1, 2**64:
                with self.assertRaisesRegex(ValueError, f"^{name} should be from 0 to 2\\^64 - 1, not {wrong}"):
                    call(wrong)
            with self.assertRaisesRegex(TypeError, f"^{name} should be a whole number, not 1.5"):
                call(1.5)
        delta.from_changes(AT, BASE[AT], AFTER[AT], N, digests=(0, 2**64 - 1), **BF16)

    def test_threads(self):
        """Also where the work is little, and nobody asks for them."""
        for call in (lambda x: delta.compress(BASE, AFTER, threads=x, **BF16),
                     lambda x: delta.compress_into(BASE, AFTER, room(), threads=x, **BF16),
                     lambda x: delta.apply(FRAME, BASE.copy(), threads=x, **BF16),
                     lambda x: delta.apply_range(FRAME, BASE, BASE.copy(), n=N, first=0, threads=x, **BF16),
                     lambda x: delta.from_changes(AT, BASE[AT], AFTER[AT], N, threads=x, **BF16),
                     lambda x: delta.fold([FRAME], threads=x),
                     lambda x: delta.repair(FRAME, BASE.copy(), threads=x, **BF16),
                     lambda x: delta.check(FRAME, BASE, threads=x, **BF16),
                     lambda x: delta.digest(BASE[:3], threads=x, **BF16)):
            for wrong in -1, 2**16:
                with self.assertRaisesRegex(ValueError, f"^threads should be from 0 to 2\\^16 - 1, not {wrong}"):
                    call(wrong)
            for right in 0, 1, 2:
                call(right)

    def test_other_lengths(self):
        """One more and one fewer."""
        for k in N - 1, N + 1:
            other = numpy.zeros(k, "u2")
            for call, words in ((lambda o: delta.compress(o, AFTER, **BF16), f"base has {k} weights, next has {N}"),
                                (lambda o: delta.compress_into(o, AFTER, room(), **BF16),
                                 f"base has {k} weights, next"),
                                (lambda o: delta.apply_range(FRAME, o, AFTER.copy(), n=N, first=0, **BF16),
                                 f"base has {k} weights, out has {N}"),
                                (lambda o: delta.apply(FRAME, o, **BF16), f"{N} weights, the caller has {k}"),
                                (lambda o: delta.check(FRAME, o, **BF16), f"{N} weights, the caller has {k}"),
                                (lambda o: delta.repair(FRAME, o, **BF16), f"{N} weights, the caller has {k}")):
                with self.assertRaisesRegex(ValueError, words):
                    call(other)
        for at, before, after in (3, 3, 2), (3, 2, 3), (2, 3, 3), (3, 3, 4), (3, 4, 3), (4, 3, 3):
            with self.assertRaisesRegex(ValueError, f"{at} positions, {before} weights before and {after} after"):
                delta.from_changes(numpy.arange(at), numpy.zeros(before, "u2"), numpy.zeros(after, "u2"), N, **BF16)
        for many in (), (1,), (1, 2, 3):
            with self.assertRaisesRegex(ValueError, f"digests should have 2 numbers, not {len(many)}"):
                delta.from_changes(AT, BASE[AT], AFTER[AT], N, digests=many, **BF16)

    def test_dtypes_of_positions(self):
        for kind in "i4", "u4", "f8":
            with self.assertRaisesRegex(TypeError, "positions should have values of int64"):
                delta.from_changes(AT.astype(kind), BASE[AT], AFTER[AT], N, **BF16)

    def test_rooms(self):
        """As large as bound() says, and one byte less."""
        frame, exact = delta.compress(BASE, AFTER, **BF16), room()
        with self.assertRaisesRegex(threelc.CapacityError, f"cap is {len(exact) - 1} bytes, .* is {len(exact)}"):
            delta.compress_into(BASE, AFTER, memoryview(exact)[:-1], **BF16)
        self.assertEqual(delta.compress_into(BASE, AFTER, exact, **BF16), len(frame))
        self.assertEqual(exact[:len(frame)], frame)


class Defaults(unittest.TestCase):
    def test_compress(self):
        plain = {"digests": True, "block_digests": False, "threads": None}
        out = room()
        frame = delta.compress(BASE, AFTER, **BF16)
        self.assertEqual(frame, delta.compress(BASE, AFTER, **BF16, **plain))
        self.assertEqual(out[:delta.compress_into(BASE, AFTER, out, **BF16)], frame)
        self.assertNotEqual(frame, FRAME)
        for other in {"digests": False}, {"block_digests": True}:
            made = delta.compress(BASE, AFTER, **BF16, **other)
            self.assertNotEqual(made, frame)
            self.assertEqual(out[:delta.compress_into(BASE, AFTER, out, **BF16, **other)], made)

    def test_the_result_is_checked_if_asked_for(self):
        wrong = delta.from_changes(AT, BASE[AT], AFTER[AT], N, digests=(delta.digest(BASE, **BF16), 7), **BF16)
        for asked in {}, {"check_result": False}:
            weights = BASE.copy()
            delta.apply(wrong, weights, **BF16, **asked)
            self.assertEqual(weights.tobytes(), AFTER.tobytes())
        self.assertIsNone(delta.peek(delta.from_changes(AT, BASE[AT], AFTER[AT], N, **BF16)).result_digest)


class Found(unittest.TestCase):
    """What calls return."""

    def test_changes(self):
        """Memory of its own for each piece, of integers of the width of the dtype, at most a block of them."""
        for dtype, kind, form in (("u8", "u1", "B"), ("bf16", "u2", "H"), ("i32", "u4", "I"), ("i64", "u8", "Q")):
            base = numpy.random.default_rng(2).integers(0, 200, 150000, kind)
            after = base + numpy.array(1, kind)
            pieces = list(delta.changes(delta.compress(base, after, dtype=dtype)))
            self.assertEqual([len(piece.positions) for piece in pieces], [65536, 65536, 18928])
            for piece in pieces:
                self.assertEqual((piece.positions.format, piece.values.format), ("Q", form))
                self.assertEqual((piece.positions.itemsize, piece.values.itemsize), (8, base.itemsize))
                self.assertEqual(len(piece.values), len(piece.positions))
                self.assertLessEqual(len(piece.positions.obj), 8 * 65536)
                self.assertLessEqual(len(piece.values.obj), base.itemsize * 65536)
            self.assertEqual([at for piece in pieces for at in piece.positions.tolist()], list(range(150000)))

    def test_ranges_of_changes(self):
        def found(**where):
            return [at for piece in delta.changes(FRAME, **where) for at in piece.positions.tolist()]

        for where, positions in (({}, [5, 70000, 150000]), ({"first": 5}, [5, 70000, 150000]),
                                 ({"first": 6}, [70000, 150000]), ({"end": 5}, []), ({"end": 6}, [5]), ({"end": 0}, []),
                                 ({"first": 70000, "end": 70001}, [70000]), ({"first": N}, []),
                                 ({"first": N, "end": N}, [])):
            self.assertEqual(found(**where), positions, where)
        for where in {"first": N + 1}, {"first": 7, "end": 6}, {"end": N + 1}:
            with self.assertRaisesRegex(ValueError, "next is [0-9]+, end [0-9]+, and n 196608"):
                found(**where)

    def test_4_bits(self):
        """Two weights in a byte; lists have a byte for each."""
        base = numpy.zeros(40000, "u1")
        after = base.copy()
        after[[0, 9]] = 0x50, 0x03
        at, before, values = numpy.array([1, 18]), numpy.zeros(2, "u1"), numpy.array([5, 3], "u1")
        for dtype in "u4", "f4_e2m1":
            whole = delta.compress(base, after, dtype=dtype, digests=False)
            self.assertEqual(delta.from_changes(at, before, values, 80000, dtype=dtype), whole)
            pieces = list(delta.changes(whole))
            self.assertEqual([(piece.positions.tolist(), piece.values.format) for piece in pieces], [([1, 18], "B")])

    def test_descriptions(self):
        """What is there of digests with a base and without one, with digests and without."""
        digests = delta.digest(BASE, **BF16), delta.digest(AFTER, **BF16)
        for base, asked in (BASE, True), (BASE, False), (None, True), (None, False):
            frame = delta.compress(base, AFTER, digests=asked, **BF16)
            for info in delta.peek(frame), delta.inspect(frame):
                self.assertEqual((info.n, info.dtype, info.has_base), (N, threelc.DType.BF16, base is not None))
                self.assertEqual((info.base_digest, info.result_digest),
                                 (digests[0] if asked and base is not None else None, digests[1] if asked else None))
            self.assertEqual(info.unchanged_blocks + info.sparse_blocks + info.dense_blocks + info.raw_blocks, 3)
        with self.assertRaises(FrozenInstanceError):
            info.n = 3
        self.assertEqual(delta.peek(FRAME[:30]).n, N)

    def test_repairs(self):
        """How many blocks were at the result, at the base, and between."""
        for written, found in (
                ((), (0, 3, 0)), ((5,), (1, 2, 0)), ((5, 70000), (2, 1, 0)), ((5, 70000, 150000), (3, 0, 0))):
            weights = BASE.copy()
            weights[list(written)] = AFTER[list(written)]
            repaired = delta.repair(FRAME, weights, **BF16)
            self.assertEqual((repaired.at_result, repaired.at_base, repaired.between), found)
            self.assertEqual(weights.tobytes(), AFTER.tobytes())
        after = BASE ^ 3
        weights = numpy.concatenate([after[:70000], BASE[70000:]])
        repaired = delta.repair(delta.compress(BASE, after, block_digests=True, **BF16), weights, **BF16)
        self.assertEqual(repaired, delta.Repaired(1, 1, 1))
        self.assertEqual(weights.tobytes(), after.tobytes())


if __name__ == "__main__":
    unittest.main()
