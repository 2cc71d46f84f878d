# SPDX-License-Identifier: MIT
"""Models that follow another: messages of older releases, and any bytes in place of messages."""
import copy
import io
import json
import random
import unittest

import older_messages
import threelc
import threelc.torch
import torch
from test_weight_sync import bits, flattened
from threelc import _bundles, delta
from threelc.torch._common import older_weights
from threelc.torch._common.sharing import Place

WeightSync = threelc.torch.WeightSync


class AnyBytes:
    """What a test of messages begins with; publisher() makes their trainer."""

    def setUp(self):
        self.source, self.served = flattened(1), flattened(2)
        publisher = self.publisher()
        self.first = publisher.publish()
        self.source.step()
        self.message = publisher.publish()
        WeightSync(self.served).receive(self.first)
        self.before = bits(self.served)

    def refused(self, message, error=threelc.Error):
        with self.assertRaises(error):
            WeightSync(self.served).receive(message)
        self.assertEqual(bits(self.served), self.before)

    def test_flips_and_truncations(self):
        rnd = random.Random(1)
        for i in range(len(self.message)):
            altered = bytearray(self.message)
            altered[i] ^= 1 << rnd.randrange(8)
            for message in altered, self.message[:i]:
                with self.assertRaises(threelc.Error):
                    WeightSync(self.served).receive(message)
        self.assertEqual(bits(self.served), self.before)
        WeightSync(self.served).receive(self.message)
        self.assertEqual(bits(self.served), bits(self.source))


class OlderMessages(AnyBytes, unittest.TestCase):
    """Those of releases before threelc.weights, and any bytes in their place."""

    def publisher(self):
        return older_messages.Trainer(self.source.named_parameters)

    def with_head(self, head, frames=None):
        """The message with another head, whose checksum is right."""
        return older_messages.sealed(head, older_messages.parts(self.message)[1] if frames is None else frames)

    def head(self):
        return older_messages.parts(self.message)[0]

    def test_json_that_is_no_message(self):
        for head in (b"", b"{", b"[]", b"{}", b"null", b"1", b'"a"', b"\xff\xfe", b"[" * 100000, b"1" * 10000,
                     b'{"format": 3}', b'{"format": true}', b'{"format": "3"}', b'{"format": 2, "tensors": 7}'):
            self.refused(self.with_head(head), threelc.CorruptError)
        with self.assertRaisesRegex(threelc.CorruptError, "has format 1, not 3 or 2"):
            WeightSync(self.served).receive(self.with_head({"format": 1, "tensors": []}))

    def test_keys_and_types(self):
        """Each entry of the head left out, and of each wrong kind."""
        wrong = (None, True, -1, 0, 1.5, 2**70, "x", [], {}, [None], [-1], ["a"], [2**70], [[1]], [True])
        head = self.head()
        places = [(head, key) for key in head] + [(entry, key) for entry in head["tensors"] for key in entry]
        for where, key in places:
            kept = where.pop(key)
            self.refused(self.with_head(head), (threelc.CorruptError, ValueError))
            for value in wrong:
                if value == kept and type(value) is type(kept):
                    continue
                where[key] = value
                if key == "sequence" and value == 1:
                    continue  # another number, which a new receiver takes
                self.refused(self.with_head(head), (threelc.CorruptError, ValueError))
            where[key] = kept
        self.assertEqual(head, self.head())

    def test_what_is_wrong(self):
        """The whole sentence about each entry of the head, and each frame; which messages are right."""
        frame = delta.compress(None, torch.ones(6))
        based = delta.compress(torch.zeros(6), torch.ones(6))
        same = delta.compress(torch.ones(6), torch.ones(6))
        root = {"name": "a", "shape": [2, 3], "dtype": "f32"}
        view = {"name": "b", "shape": [3], "dtype": "f32", "in": "a", "root_strides": [3, 1], "strides": [1],
                "first": 3}
        whole = {"name": "b", "shape": [2, 3], "dtype": "f32", "in": "a"}

        def read(*tensors, frames=(frame,), **head):
            return older_weights.read(older_messages.sealed({
                "format": 3, "trainer": 32 * "a", "sequence": 1, "tensors": list(tensors), **head}, list(frames)))

        for tensors, names in (([root], "a"), ([root, view], "ab"), ([view, root], "ba"), ([root, whole], "ab"),
                               ([{**root, "name": "_orig_mod.a"}, {**view, "in": "_orig_mod.a"}], "ab")):
            found = read(*tensors, sequence=2**64 - 1)
            self.assertEqual([*found.entries], [*names])
            self.assertEqual((found.trainer, found.sequence, found.full, found.floats_only),
                             (16 * b"\xaa", 2**64 - 1, True, False))
            one = found.entries["a"]
            self.assertEqual((one.shape, one.dtype, one.place, one.has_base, one.unchanged, bytes(one.frame())),
                             ([2, 3], "f32", Place("a"), False, False, frame))
            self.assertEqual(one.result_digest, delta.digest(torch.ones(6)))
            if len(names) > 1:
                other = found.entries["b"]
                self.assertEqual((other.shape, other.frame, other.has_base, other.unchanged, other.result_digest),
                                 ([3] if "first" in tensors[names.index("b")] else [2, 3], None, False, False, None))
                self.assertEqual(other.place, Place("a", (3, 1), (1,), 3) if len(other.shape) == 1 else Place("a"))
        self.assertEqual(read(frames=()).entries, {})
        self.assertTrue(read(root, format=2).floats_only)
        for given, unchanged in (based, False), (same, True):
            found = read(root, {**root, "name": "b"}, frames=(frame, given))
            self.assertEqual((found.full, found.entries["b"].has_base, found.entries["b"].unchanged),
                             (False, True, unchanged))
        nibbles = torch.zeros(4, dtype=torch.uint8)
        four = delta.compress(None, nibbles, dtype="f4_e2m1")
        for shape, weights in ([2, 2], [2, 4]), ([4], [8]):
            entry = {"name": "n", "shape": shape, "dtype": "float4_e2m1fn_x2"}
            self.assertEqual(read(entry, frames=(four,)).entries["n"].shape, weights)

        format_, place = "the message has format {}, not 3 or 2", "b has no place"
        for tensors, head, sentence in (
                ([root], {"format": 1}, format_.format(1)), ([root], {"format": 4}, format_.format(4)),
                ([root], {"format": True}, "it has no format"), ([root], {"format": None}, "it has no format"),
                ([root], {"sequence": 0}, "it has no number"), ([root], {"sequence": 2**64}, "it has no number"),
                ([root], {"sequence": True}, "it has no number"), ([root], {"sequence": 1.0}, "it has no number"),
                ([root], {"tensors": {}}, "it has no tensors"), ([root, 3], {}, "it has no tensors"),
                ([root], {"trainer": 30 * "a"}, "it has no trainer"),
                ([root], {"trainer": 34 * "a"}, "it has no trainer"), ([root], {"trainer": None}, "it has no trainer"),
                ([root], {"trainer": 32 * "x"}, "it has no trainer"),
                ([{**root, "name": 3}], {}, "a tensor has no name"),
                ([root, root], {}, "two tensors have the name a"),
                ([root, {**root, "name": "_orig_mod.a"}], {}, "two tensors have the name a"),
                ([{**root, "shape": [2, -3]}], {}, "a has no shape and dtype"),
                ([{**root, "shape": [2, True]}], {}, "a has no shape and dtype"),
                ([{**root, "shape": "23"}], {}, "a has no shape and dtype"),
                ([{**root, "dtype": "f33"}], {}, "a has no shape and dtype"),
                ([{**root, "dtype": None}], {}, "a has no shape and dtype"),
                ([], {}, "it has more frames than tensors"),
                ([root, {**root, "name": "b"}], {}, "there is no frame of b"),
                ([{**root, "shape": [2, 2]}], {}, "a is of 6 weights of f32"),
                ([{**root, "shape": [7]}], {}, "a is of 6 weights of f32"),
                ([{**root, "dtype": "f16"}], {}, "a is of 6 weights of f32"),
                ([root, {**whole, "in": 3}], {}, "b is in no tensor"),
                ([root, {**whole, "in": "c"}], {}, "b is in no tensor"),
                ([root, {**whole, "dtype": "f16"}], {}, "b is no part of a"),
                ([root, {**whole, "dtype": "int8"}], {}, "b is no part of a"),
                ([root, whole, {**whole, "name": "c", "in": "b"}], {}, "c is no part of b"),
                ([root, {**whole, "shape": [3, 2]}], {}, "b is no part of a"),
                ([root, {**view, "first": -1}], {}, place), ([root, {**view, "first": None}], {}, place),
                ([root, {**view, "strides": [-1]}], {}, place), ([root, {**view, "strides": None}], {}, place),
                ([root, {**view, "root_strides": 3}], {}, place),
                ([root, {**view, "first": 4}], {}, "b is no part of a"),
                ([root, {**view, "strides": [2]}], {}, "b is no part of a"),
                ([root, {**view, "strides": [1, 1]}], {}, "b is no part of a"),
                ([root, {**view, "root_strides": [1]}], {}, "b is no part of a"),
                ([root, {**view, "root_strides": [1, 1]}], {}, "b is no part of a"),
                ([root, {**view, "shape": [0], "strides": [2**70]}], {}, "b is no part of a")):
            with self.assertRaises(threelc.CorruptError) as caught:
                read(*tensors, **head)
            error = caught.exception
            if sentence.startswith(("the message", "a is of")):
                self.assertEqual(str(error), sentence)
            else:
                self.assertEqual(str(error), f"this is not a message of WeightSync: {sentence}")
            status = threelc.Status.VERSION if "has format" in sentence else threelc.Status.CORRUPT
            self.assertEqual(error.status, status)
        altered = "this is not a message of WeightSync, or it was altered"
        for parts in [], [b""], [bytes(4)], [b"\0\0\0\1{}"]:
            with self.assertRaises(threelc.CorruptError) as caught:
                older_weights.read(_bundles.pack(parts))
            self.assertEqual((str(caught.exception), caught.exception.status), (altered, threelc.Status.CORRUPT))

    def test_more_and_fewer(self):
        head = self.head()
        own = older_messages.parts(self.message)[1]
        self.refused(self.with_head(head, [*own, own[0]]), threelc.CorruptError)
        self.refused(self.with_head(head, []), threelc.CorruptError)
        self.refused(self.with_head(head, [b""]), threelc.CorruptError)
        head["tensors"].append(dict(head["tensors"][0]))
        self.refused(self.with_head(head, [*own, own[0]]), threelc.CorruptError)
        for entry in ({"name": "more", "shape": [1], "dtype": "f32", "in": "more"},
                      {"name": "more", "shape": [2**40], "dtype": "f32", "in": "flat", "root_strides": [1],
                       "strides": [2**40], "first": 0}):
            head = self.head()
            head["tensors"].append(entry)
            self.refused(self.with_head(head), threelc.CorruptError)

    def test_heads_of_any_bytes(self):
        rnd = random.Random(1)
        head = json.dumps(self.head()).encode()
        for _ in range(1500):
            altered = bytearray(head)
            for _ in range(rnd.choice((1, 1, 2, 5))):
                altered[rnd.randrange(len(altered))] = rnd.choice((rnd.randrange(256), 0x30 + rnd.randrange(10)))
            cut = len(altered) if rnd.random() < 0.7 else rnd.randrange(len(altered))
            message = self.with_head(bytes(altered[:cut]))
            served = copy.deepcopy(self.served)
            try:
                WeightSync(served).receive(message)
            except (threelc.Error, ValueError):
                self.assertEqual(bits(served), self.before)

    def test_floats_alone(self):
        """The format before had no tensors of other dtypes, which stay what they are."""
        self.source.register_buffer("steps", torch.tensor([3]))
        self.served.register_buffer("steps", torch.tensor([7]))
        for form, words in (2, None), (3, "the message has no steps"):
            message = older_messages.Trainer(self.source.named_parameters, form).publish()
            if words is None:
                WeightSync(self.served).receive(message)
                self.assertTrue(torch.equal(self.served.flat, self.source.flat))
                self.assertEqual(self.served.steps.tolist(), [7])
                continue
            with self.assertRaisesRegex(ValueError, words):
                WeightSync(self.served).receive(message)

    def test_following(self):
        """Messages of an older trainer one after the other, then those of a new one."""
        served = flattened(3)
        receiver, publisher = WeightSync(served), self.publisher()
        for _ in range(3):
            receiver.receive(message := publisher.publish())
            self.assertEqual(bits(served), bits(self.source))
            with self.assertRaisesRegex(threelc.OrderError, "it is old, or came twice"):
                receiver.receive(message)
            self.source.step()
        newer = WeightSync(self.source)
        receiver.receive(io.BytesIO(newer.publish()))
        self.source.step()
        with self.assertRaisesRegex(threelc.OrderError, "a trainer that another one has replaced"):
            receiver.receive(io.BytesIO(message))
        receiver.receive(newer.publish())
        self.assertEqual(bits(served), bits(self.source))


class Messages(AnyBytes, unittest.TestCase):
    """Any bytes in place of messages."""

    def publisher(self):
        return WeightSync(self.source)

    def test_views(self):
        """What a reader copies out of a root, which it does not write."""
        reader = threelc.weights.Reader(self.first)
        source = flattened(1)
        flat = source.flat.detach().numpy()
        flat.flags.writeable = False
        views = [entry for entry in reader if entry.view is not None]
        self.assertEqual(len(views), 5)
        for entry in views:
            out = torch.zeros(entry.shape)
            self.assertIs(reader.copy_view(entry, flat, out), out)
            self.assertTrue(torch.equal(out, getattr(source, entry.name)), entry.name)
            with self.assertRaisesRegex(ValueError, "out is read-only"):
                reader.copy_view(entry, flat, flat[:entry.n])
            with self.assertRaisesRegex(ValueError, f"has {entry.n} weights, out has {entry.n + 1}"):
                reader.copy_view(entry, flat, torch.zeros(entry.n + 1))
            with self.assertRaisesRegex(ValueError, "flat has 700 weights, values has 699"):
                reader.copy_view(entry, flat[1:], out)
        with self.assertRaisesRegex(ValueError, "flat is read-only"):
            reader.apply({"flat": flat})
        for number in -1, len(reader):
            with self.assertRaisesRegex(IndexError, f"there is no entry {number}"):
                reader[number]
        root = next(entry for entry in reader if entry.view is None)
        with self.assertRaisesRegex(ValueError, "flat is no view"):
            reader.copy_view(root, flat, torch.zeros(700))

    def test_numbers_of_64_bits(self):
        """A writer takes them all, and nothing larger, which would be cut off."""
        weights, most, trainer = threelc.weights, 2**64 - 1, bytes(16)
        for name, right in ("sequence", 1), ("count", 0):
            with self.assertRaisesRegex(ValueError, f"{name} should be from 0 to 2\\^64 - 1, not {2**64}"):
                weights.Writer(io.BytesIO(), trainer=trainer, **{"sequence": 1, "count": 0, name: 2**64})
            with self.assertRaisesRegex(ValueError, f"{name} should be from 0 to 2\\^64 - 1, not -1"):
                weights.Writer(io.BytesIO(), trainer=trainer, **{"sequence": 1, "count": 0, name: -1})
        with self.assertRaisesRegex(threelc.Error, f"count is {most}"):
            weights.Writer(io.BytesIO(), trainer=trainer, sequence=1, count=most)
        writer = weights.Writer(file := io.BytesIO(), trainer=trainer, sequence=most, count=0)
        writer.finish()
        self.assertEqual(weights.Reader(file).info.sequence, most)
        weights.check_order(trainer, most, False, (trainer, most - 1))
        for sequence, heard, name in (2**64, 1, "sequence"), (1, 2**64, "heard"):
            with self.assertRaisesRegex(ValueError, f"{name} should be from 0 to 2\\^64 - 1"):
                weights.check_order(trainer, sequence, False, (trainer, heard))
        writer = weights.Writer(io.BytesIO(), trainer=trainer, sequence=1, count=2)
        view = {"root": 1, "root_strides": (most,), "strides": (most,), "first": most}
        for name in view:
            wrong = (2**64,) if isinstance(view[name], tuple) else 2**64
            with self.assertRaisesRegex(ValueError, f"{name} should be from 0 to 2\\^64 - 1"):
                writer.add_view("a", threelc.DType.F32, (1,), weights.View(**{**view, name: wrong}))
        with self.assertRaisesRegex(ValueError, "shape should be from 0 to 2\\^64 - 1"):
            writer.add_view("a", threelc.DType.F32, (2**64,), weights.View(**view))
        with self.assertRaisesRegex(threelc.Error, "the shape has too many weights"):
            writer.add_view("a", threelc.DType.F32, (most,), weights.View(**view))
        with self.assertRaisesRegex(threelc.Error, f"root is {most}"):
            writer.add_view("a", threelc.DType.F32, (1,), weights.View(**{**view, "root": most}))
        writer.add_view("a", threelc.DType.F32, (1,), weights.View(**view))

    def test_no_bytes_at_all(self):
        for message, words in ((None, "message should be an array .*, not None"), ("text", "not 'text'"),
                               ({"a": 1}, "not a dict"), ([1, 2], "not a list")):
            with self.assertRaisesRegex(TypeError, words):
                WeightSync(self.served).receive(message)
