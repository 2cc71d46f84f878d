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
