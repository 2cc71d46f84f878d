# SPDX-License-Identifier: MIT
"""threelc.weights without PyTorch's models: what writers and readers refuse and say, what they take, what comes back,
what they give to files, and what they are after an exception."""
import gc
import io
import threading
import unittest
import weakref
from dataclasses import FrozenInstanceError

import numpy
import threelc
from threelc import delta
from threelc.weights import Reader, View, Writer, check_order

TRAINER = bytes(range(16))
RANDOM = numpy.random.default_rng(1)
BEFORE = {name: RANDOM.integers(0, 1 << 16, (3, 40), "u2").view("f2") for name in ("a", "c", "\u00fc")}
AFTER = {name: (array.view("u2") + numpy.uint16(name == "c")).view("f2") for name, array in BEFORE.items()}
VIEWS = {"b": ((3, 40), View(0)), "b1": ((40, 3), View(0, (40, 1), (1, 40), 0)),
         "b2": ((5,), View(0, (40, 1), (2,), 7)), "d": ((), View(6, (40, 1), (), 119))}  # by name, which are in order


def made(sink=None, note=b"", base=None, sequence=8):
    """A message of three tensors and four views of them, in a file if none is given."""
    sink = io.BytesIO() if sink is None else sink
    names = sorted([*AFTER, *VIEWS])
    writer = Writer(sink, trainer=TRAINER, sequence=sequence, count=len(names), note=note)
    for name in names:
        if name in VIEWS:
            writer.add_view(name, threelc.DType.F16, *VIEWS[name])
        else:
            writer.add(name, delta.compress(base and base[name], AFTER[name]), AFTER[name].shape)
    writer.finish()
    return sink


MESSAGE, FOLLOWING = made().getvalue(), made(base=BEFORE, note=b"of mine").getvalue()


class Written(unittest.TestCase):
    def test_arguments(self):
        right = {"sink": io.BytesIO(), "trainer": TRAINER, "sequence": 1, "count": 1}
        for name, wrong, error, words in (
                ("sink", 3, TypeError, "sink should be a file, or a function that takes bytes, not 3"),
                ("sink", None, TypeError, "sink should be a file, .*, not None"),
                ("trainer", TRAINER[:15], ValueError, "trainer should have 16 bytes, not 15"),
                ("trainer", TRAINER + b"x", ValueError, "trainer should have 16 bytes, not 17"),
                ("trainer", "x" * 16, TypeError, "trainer should be an array"),
                ("sequence", 1.5, TypeError, "sequence should be a whole number, not 1.5"),
                ("sequence", 0, ValueError, "sequence is 0"),
                ("count", "1", TypeError, "count should be a whole number"),
                ("note", "words", TypeError, "note should be an array"),
                ("note", numpy.zeros(3), TypeError, "note should be bytes")):
            with self.assertRaisesRegex(error, f"^{words}"):
                arguments = {**right, name: wrong}
                Writer(arguments.pop("sink"), **arguments)

    def test_tensors(self):
        frame = delta.compress(None, AFTER["a"])
        writer = Writer(io.BytesIO(), trainer=TRAINER, sequence=1, count=3)
        for arguments, error, words in (
                ((3, frame, (120,)), TypeError, "name should be a str, not 3"),
                (("a\0", frame, (120,)), ValueError, "name should have no zero byte"),
                (("a", None, (120,)), TypeError, "frame should be an array"),
                (("a", b"no delta at all, but long enough", (120,)), threelc.CorruptError, "delta"),
                (("a", frame, (1.5,)), TypeError, "shape should be a whole number, not 1.5"),
                (("a", frame, (119,)), ValueError, "119"),
                (("a", frame, (-1,)), ValueError, "shape should be from 0 to")):
            with self.assertRaisesRegex(error, words):
                writer.add(*arguments)
        writer.add("a", frame, (2, 60))
        for shape, view, words in (((6,), View(0, (60, 1), (1, 1), 0), "b has 1 dimensions, and 2 strides"),
                                   ((2, 3), View(0, (60, 1), (1,), 0), "b has 2 dimensions, and 1 strides"),
                                   ((2, 3), View(-1), "root should be from 0 to")):
            with self.assertRaisesRegex(ValueError, words):
                writer.add_view("b", threelc.DType.F16, shape, view)
        with self.assertRaisesRegex(ValueError, "99 is not a valid DType"):
            writer.add_view("b", 99, (2, 60), View(0))
        with self.assertRaises(threelc.Error):
            writer.finish()  # two are missing

    def test_bytes(self):
        """A frame of more than a MiB is given in pieces of one; no piece is empty, and all come from the thread that
        calls nothing of the main thread's."""
        whole = numpy.random.default_rng(2).integers(0, 256, 5 << 19, "u1")
        pieces, threads, file = [], set(), io.BytesIO()

        def sink(piece):
            threads.add(threading.current_thread())
            pieces.append(piece)

        for target in sink, file:
            writer = Writer(target, trainer=TRAINER, sequence=1, count=1)
            writer.add("a", delta.compress(None, whole), (5 << 19,))
            writer.finish()
        self.assertEqual(b"".join(pieces), file.getvalue())
        self.assertTrue(all(type(piece) is bytes and piece for piece in pieces))
        self.assertEqual(sorted(map(len, pieces))[-2:], [1 << 20, 1 << 20])
        self.assertNotIn(threading.main_thread(), threads)

    def test_exceptions_of_a_sink(self):
        """Any, also KeyboardInterrupt, reaches the caller once, and leaves no message."""
        for error in OSError("full"), KeyboardInterrupt(), MemoryError():
            found = []

            def sink(piece, error=error, found=found):
                if len(found) == 2:
                    raise error
                found.append(piece)

            writer = Writer(sink, trainer=TRAINER, sequence=1, count=1)
            with self.assertRaises(type(error)) as caught:
                writer.add("a", delta.compress(None, AFTER["a"]), (120,))
                writer.finish()
            self.assertIs(caught.exception, error)
            with self.assertRaises(threelc.Error):
                writer.finish()
            with self.assertRaises(threelc.Error):
                Reader(b"".join(found))


class ReadBack(unittest.TestCase):
    def test_entries(self):
        """All that was said of each, from bytes and from a file."""
        for base, message in (None, MESSAGE), (BEFORE, FOLLOWING):
            for source in message, io.BytesIO(message):
                reader = Reader(source)
                listed, names = list(reader), sorted([*AFTER, *VIEWS])
                self.assertEqual([entry.name for entry in listed], names)
                self.assertEqual(len(reader), 7)
                for i, (entry, name) in enumerate(zip(listed, names)):
                    self.assertEqual(reader[i], entry)
                    self.assertEqual((entry.number, entry.dtype), (i, threelc.DType.F16))
                    if name in VIEWS:
                        self.assertEqual((entry.shape, entry.view), VIEWS[name])
                        self.assertEqual((entry.frame_len, entry.has_base), (0, False))
                        continue
                    frame = delta.compress(base and base[name], AFTER[name])
                    self.assertEqual((entry.shape, entry.n, entry.view), ((3, 40), 120, None))
                    self.assertEqual((entry.frame_len, entry.has_base), (len(frame), base is not None))
                    self.assertEqual(entry.result_digest, delta.digest(AFTER[name]))
                    if base:
                        self.assertEqual(entry.base_digest, delta.digest(base[name]))
                    self.assertEqual(bytes(reader.frame(entry)), frame)
        self.assertEqual([entry.n for entry in listed if entry.view], [120, 120, 5, 1])

    def test_what_a_message_says(self):
        first, second = Reader(MESSAGE), Reader(io.BytesIO(FOLLOWING))
        self.assertEqual((first.note(), second.note()), (b"", b"of mine"))
        for reader, message, full in (first, MESSAGE, True), (second, FOLLOWING, False):
            info = reader.info
            self.assertEqual((info.trainer, info.sequence, info.full, info.count, info.size),
                             (TRAINER, 8, full, 7, len(message)))
            self.assertEqual(info.frame_max, max(entry.frame_len for entry in reader))
            self.assertEqual(info.base_digest == 0, full)
        self.assertEqual(first.info.result_digest, second.info.result_digest)

    def test_what_is_fixed(self):
        """Descriptions cannot be changed; a view is all of its root if nothing else is said."""
        entry = Reader(MESSAGE)[0]
        for thing in entry, View(3), Reader(MESSAGE).info:
            with self.assertRaises(FrozenInstanceError):
                thing.number = 7
        self.assertEqual((View(3).root_strides, View(3).strides, View(3).first), (None, (), 0))

    def test_numbers_of_entries(self):
        reader = Reader(MESSAGE)
        for number in -1, 7, 8:
            with self.assertRaisesRegex(IndexError, f"there is no entry {number}: the message has 7"):
                reader[number]
        self.assertEqual((reader[0].name, reader[6].name), ("a", "\u00fc"))

    def test_what_is_no_message(self):
        for source in MESSAGE[:-1], b"", b"x", MESSAGE + b"x", FOLLOWING[:20], bytes(200):
            for form in source, io.BytesIO(source):
                with self.assertRaises(threelc.CorruptError):
                    Reader(form)
        for source, words in (None, "message should be an array .*, not None"), ([1], "not a list"):
            with self.assertRaisesRegex(TypeError, words):
                Reader(source)
        with self.assertRaisesRegex(ValueError, "threads should be from 0 to 2\\^16 - 1, not -1"):
            Reader(MESSAGE, threads=-1)

    def test_a_file_from_anywhere(self):
        """All of it is read, wherever it stands; each read may give a part."""
        class Slow(io.BytesIO):
            def readinto(self, room):
                return super().readinto(memoryview(room)[:7])

        for place in 0, 1, len(MESSAGE):
            file = Slow(MESSAGE)
            file.seek(place)
            reader = Reader(file)
            self.assertEqual(reader.info.size, len(MESSAGE))
            self.assertEqual(bytes(reader.frame(reader[0])), bytes(Reader(MESSAGE).frame(reader[0])))

    def test_what_keeps_memory(self):
        """A frame keeps the message in which it lies, and nothing else does."""
        message = numpy.frombuffer(MESSAGE, "u1").copy()
        there, reader = weakref.ref(message), Reader(message)
        frame = reader.frame(reader[0])
        expected = bytes(frame)
        self.assertTrue(frame.readonly)
        del message, reader
        gc.collect()
        self.assertIsNotNone(there())
        self.assertEqual(bytes(frame), expected)
        del frame
        gc.collect()
        self.assertIsNone(there())

    def test_a_file_that_fails(self):
        """The exception reaches the caller once; then the reader goes on."""
        class File(io.BytesIO):
            error = None

            def readinto(self, room):
                if self.error is not None:
                    raise self.error
                return super().readinto(room)

        file = File(MESSAGE)
        reader = Reader(file)
        mine = {name: numpy.zeros((3, 40), "f2") for name in AFTER}
        for error in OSError("gone"), KeyboardInterrupt(), MemoryError():
            file.error = error
            for call in (lambda: reader.frame(reader[0])), (lambda: reader.apply(mine)):
                with self.assertRaises(type(error)) as caught:
                    call()
                self.assertIs(caught.exception, error)
            file.error = None
            self.assertEqual(bytes(reader.frame(reader[0])), delta.compress(None, AFTER["a"]))
        self.assertFalse(any(array.view("u2").any() for array in mine.values()))
        reader.apply(mine)
        self.assertEqual(mine["c"].tobytes(), AFTER["c"].tobytes())


class Applied(unittest.TestCase):
    def test_parts(self):
        """Tensors and views that are there, by any name, from bytes and files, with threads and without."""
        for source in MESSAGE, io.BytesIO(MESSAGE):
            for names in ("a", "\u00fc", "b2"), ("c",), ("a", "b", "b1"), ():
                for threads in None, 2:
                    mine = {name: numpy.zeros(VIEWS[name][0] if name in VIEWS else (3, 40), "f2") for name in names}
                    Reader(source, threads=threads).apply({**mine, "other": None})
                    for name, array in mine.items():
                        right = AFTER["a"] if name in VIEWS else AFTER[name]
                        right = {"b1": right.T, "b2": right.reshape(-1)[7:17:2]}.get(name, right)
                        self.assertEqual(array.tobytes(), right.tobytes(), name)

    def test_all_or_nothing(self):
        """Another base in any of them, other lengths and dtypes, and memory that cannot be written."""
        for source in FOLLOWING, io.BytesIO(FOLLOWING):
            reader = Reader(source)
            for wrong in BEFORE:
                other = BEFORE[wrong].copy()
                other[2, 3] += 1
                fixed = BEFORE[wrong].copy()
                fixed.flags.writeable = False
                for array, error, words in (
                        (other, threelc.BaseError, ": the weights are not the base of the delta"),
                        (fixed, ValueError, f"{wrong} is read-only"),
                        (other.reshape(-1)[:119], ValueError, f"{wrong} has 120 weights, {wrong} has 119"),
                        (numpy.zeros(121, "f2"), ValueError, f"{wrong} has 120 weights, {wrong} has 121"),
                        (other.view("u2"), TypeError, f"{wrong} should have values of float16")):
                    mine = {**{name: values.copy() for name, values in BEFORE.items()}, wrong: array}
                    before = {name: values.tobytes() for name, values in mine.items()}
                    with self.assertRaisesRegex(error, words):
                        reader.apply(mine)
                    self.assertEqual({name: values.tobytes() for name, values in mine.items()}, before)
            mine = {name: values.copy() for name, values in BEFORE.items()}
            reader.apply(mine)
            self.assertTrue(all(mine[name].tobytes() == AFTER[name].tobytes() for name in mine))

    def test_views(self):
        reader = Reader(MESSAGE)
        for entry in reader:
            if entry.view is None:
                with self.assertRaisesRegex(ValueError, f"^{entry.name} is no view"):
                    reader.copy_view(entry, AFTER["a"], numpy.zeros(120, "f2"))
                continue
            root = reader[entry.view.root].name
            out = numpy.zeros(entry.shape, "f2")
            self.assertIs(reader.copy_view(entry, AFTER[root], out), out)
            right = AFTER[root]
            if entry.view.root_strides is not None:
                right = numpy.lib.stride_tricks.as_strided(
                    right.reshape(-1)[entry.view.first:], entry.shape, [2 * stride for stride in entry.view.strides])
            self.assertEqual(out.tobytes(), right.tobytes())
            for k in entry.n - 1, entry.n + 1:
                with self.assertRaisesRegex(ValueError, f"{entry.name} has {entry.n} weights, out has {k}"):
                    reader.copy_view(entry, AFTER[root], numpy.zeros(k, "f2"))
            for k in 119, 121:
                with self.assertRaisesRegex(ValueError, f"{root} has 120 weights, values has {k}"):
                    reader.copy_view(entry, numpy.zeros(k, "f2"), out)


class Order(unittest.TestCase):
    def test_order(self):
        """Each message after each other one: the next, the same, an old one, one too far, of another trainer."""
        other = bytes(16)
        for sequence, full, heard, error in (
                (1, True, None, None), (7, True, None, None), (1, False, None, None), (7, False, None, None),
                (8, False, (TRAINER, 7), None), (8, True, (TRAINER, 7), None),
                (9, False, (TRAINER, 7), threelc.BaseError),
                (9, True, (TRAINER, 7), None), (7, False, (TRAINER, 7), threelc.OrderError),
                (7, True, (TRAINER, 7), threelc.OrderError), (6, True, (TRAINER, 7), threelc.OrderError),
                (8, False, (other, 7), threelc.BaseError), (8, True, (other, 7), None), (1, True, (other, 7), None)):
            if error is None:
                check_order(TRAINER, sequence, full, heard)
                continue
            with self.assertRaises(error, msg=(sequence, full, heard)):
                check_order(TRAINER, sequence, full, heard)

    def test_arguments(self):
        for arguments, words in (((TRAINER[1:], 1, True, None), "trainer should have 16 bytes, not 15"),
                                 ((TRAINER, 1, True, (TRAINER[1:], 1)), "trainer should have 16 bytes, not 15"),
                                 ((TRAINER, -1, True, None), "sequence should be from 0 to"),
                                 ((TRAINER, 1, True, (TRAINER, -1)), "heard should be from 0 to")):
            with self.assertRaisesRegex(ValueError, words):
                check_order(*arguments)


if __name__ == "__main__":
    unittest.main()
