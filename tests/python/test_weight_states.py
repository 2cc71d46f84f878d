# SPDX-License-Identifier: MIT
"""Models that follow another: tensors that come, go and become others, what is written and put back, notes and first
bytes of messages, trainers one after the other, and their states."""
import copy
import io
import itertools
import unittest
from unittest import mock

import threelc
import threelc.torch
import torch
from test_weight_sync import alone, bits, flattened, separate
from threelc import delta, weights
from threelc.torch import weight_sync
from threelc.torch._common import weight_messages

WeightSync = threelc.torch.WeightSync


def bases(message):
    """By name, whether the frame of a tensor has a base."""
    return {entry.name: entry.has_base for entry in weights.Reader(message)}


class Tensors(unittest.TestCase):
    """Of a trainer's mapping, which may be others at each call."""

    def test_tensors_that_change(self):
        """One of another shape or dtype, or that was gone for a message, travels whole; the others do not."""
        model = {"a": torch.randn(2, 3), "b": torch.randn(6), "c": torch.randn(4).half()}
        publisher, served = WeightSync(model), {}
        receiver = WeightSync(served)
        for change, whole in (({}, "abc"), ({}, ""), ({"a": torch.randn(3, 2)}, "a"), ({"b": torch.randn(1, 6)}, "b"),
                              ({"c": torch.randn(4).bfloat16()}, "c"), ({"a": torch.randn(3, 2)}, ""),
                              ({"b": None}, ""), ({"b": torch.randn(1, 6)}, "b"), ({"b": torch.randn(1, 6)}, ""),
                              ({"d": torch.randn(0)}, "d"), ({"a": torch.randn(2, 3).t()}, "")):
            for name, tensor in change.items():
                model.pop(name, None)
                if tensor is not None:
                    model[name] = tensor
            message = publisher.publish()
            self.assertEqual(bases(message), {name: name not in whole for name in model})
            self.assertEqual(set(publisher.state_dict()["published"]), set(model))
            for name in [*served]:
                mine, theirs = served[name], model.get(name)
                if theirs is None or mine.shape != theirs.shape or mine.dtype != theirs.dtype:
                    del served[name]
            served.update({name: torch.zeros_like(tensor) for name, tensor in model.items() if name not in served})
            receiver.receive(message)
            self.assertTrue(all(torch.equal(served[name], model[name]) for name in model))

    def test_a_call_that_fails_at_once(self):
        """Before the first tensor: the next message is as if it had not been made."""
        source = alone(1)
        publisher, other = WeightSync(source), WeightSync(source)
        message = publisher.publish()
        other.load_state_dict(publisher.state_dict())
        source.wave = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
        for call in publisher.publish, lambda: next(publisher.pieces()), lambda: publisher.publish_to(io.BytesIO()):
            with self.assertRaisesRegex(TypeError, "parameter wave is of torch.complex64"):
                call()
        with self.assertRaisesRegex(TypeError, "parameter wave"):
            publisher.receive(message)
        del source.wave
        source.step()
        self.assertEqual(publisher.publish(), other.publish())

    def test_a_failure_at_each_tensor(self):
        """What was written before it travels whole then; what was not keeps its base."""
        for fails_at in range(3):
            source, served = alone(1), alone(2)
            publisher, receiver = WeightSync(source), WeightSync(served)
            receiver.receive(publisher.publish())
            source.step()
            real, calls = delta.compress_into, []

            def compress_into(*arguments, real=real, calls=calls, fails_at=fails_at, **others):
                calls.append(None)
                if len(calls) > fails_at:
                    raise MemoryError
                return real(*arguments, **others)

            with mock.patch.object(delta, "compress_into", compress_into), self.assertRaises(MemoryError):
                publisher.publish()
            message = publisher.publish()
            self.assertEqual(bases(message), {name: i > fails_at for i, name in enumerate("abc")})
            receiver.receive(message)
            self.assertEqual(bits(served), bits(source))

    def test_wrong_arguments(self):
        source = alone(1)
        for threads, error in (-1, ValueError), (2**16, ValueError), ("2", TypeError):
            with self.assertRaisesRegex(error, "^threads should be"):
                WeightSync(source, threads=threads).publish()
        with self.assertRaisesRegex(TypeError, "sink should be a file, or a function that takes bytes, not 3"):
            WeightSync(source).publish_to(3)


class Writes(unittest.TestCase):
    """What a receiver writes, and puts back."""

    def setUp(self):
        self.source, self.served = alone(1), alone(2)
        self.publisher, self.receiver = WeightSync(self.source), WeightSync(self.served)
        self.receiver.receive(self.publisher.publish())

    def versions(self):
        return {name: p._version for name, p in self.served.named_parameters()}

    def test_only_what_changes(self):
        """A tensor that stays, or has its result already, is not written: autograd would count that."""
        before = self.versions()
        with torch.no_grad():
            self.source.b[3, 4] += 1
            self.source.c[2] += 1
            self.served.c.copy_(self.source.c)
        before["c"] = self.versions()["c"]
        self.receiver.receive(self.publisher.publish())
        after = self.versions()
        self.assertEqual((after["a"], after["c"]), (before["a"], before["c"]))
        self.assertEqual(after["b"], before["b"] + 1)
        self.assertEqual(bits(self.served), bits(self.source))

    def test_a_failure_at_each_write(self):
        """Also where a tensor has its values in another one: all is put back, and the message can come again."""
        source, served = flattened(1), separate(2)
        message, before, real = WeightSync(source).publish(), bits(served), weight_sync.values_in
        receiver = WeightSync(served)
        for fails_at, error in itertools.product(range(5), (MemoryError(), KeyboardInterrupt())):
            calls = []

            def values_in(*arguments, calls=calls, fails_at=fails_at, error=error):
                calls.append(None)
                if len(calls) > fails_at:
                    raise error
                return real(*arguments)

            with mock.patch.object(weight_sync, "values_in", values_in), self.assertRaises(type(error)) as caught:
                receiver.receive(message)
            self.assertIs(caught.exception, error)
            self.assertEqual(bits(served), before)
            self.assertIsNone(receiver.state_dict()["heard"])
        receiver.receive(message)
        self.assertEqual(bits(served), bits(source))

    def test_each_tensor_must_be_writable(self):
        """Before any is written, also if it has no frame, or does not change."""
        source = flattened(1)
        for name in "weight", "odd", "flat":
            served = separate(2)
            tensor = getattr(served, name)
            tensor.data = torch.zeros(()).expand(tensor.shape)
            before = bits(served)
            with self.assertRaisesRegex(RuntimeError, f"{name} is expanded"):
                WeightSync(served).receive(WeightSync(source).publish())
            self.assertEqual(bits(served), before)

    def test_a_frame_that_is_damaged(self):
        """It is found before anything is written, and named."""
        message = WeightSync(alone(3)).publish()
        reader, before = weights.Reader(message), bits(self.served)
        for entry in reader:
            altered = bytearray(message)
            at = message.index(bytes(reader.frame(entry)))
            altered[at + entry.frame_len // 2] ^= 1
            with self.assertRaisesRegex(threelc.CorruptError, f"^{entry.name}: .*delta"):
                self.receiver.receive(altered)
            self.assertEqual(bits(self.served), before)

    def test_the_defaults(self):
        """Nothing may be left out, and messages are not whole."""
        self.source.step()
        state = self.publisher.state_dict()
        message = self.publisher.publish()
        self.assertEqual(set(bases(message).values()), {True})
        for call in (lambda one: b"".join(one.pieces()), lambda one: one.publish_to(sink) or sink.getvalue(),
                     lambda one: one.publish(full=False)):
            sink, one = io.BytesIO(), WeightSync(self.source)
            one.load_state_dict(state)
            self.assertEqual(call(one), message)
        for call in (lambda one: b"".join(one.pieces(full=True)), lambda one: one.publish(full=True),
                     lambda one: one.publish_to(sink, full=True) or sink.getvalue()):
            sink, one = io.BytesIO(), WeightSync(self.source)
            one.load_state_dict(state)
            self.assertEqual(set(bases(call(one)).values()), {False})


class Bytes(unittest.TestCase):
    """Notes and first bytes of messages."""

    def test_first_bytes(self):
        """Of messages of each age, and of none, in memory and in files that stand anywhere."""
        for message in b"", b"B", b"BB", b"x", b"\0", b"B" * 100, b"x" * 100:
            for source in message, bytearray(message), io.BytesIO(message):
                with self.assertRaises(threelc.CorruptError):
                    WeightSync(alone()).receive(source)
        source, served = alone(1), alone(2)
        file = io.BytesIO(WeightSync(source).publish())
        file.seek(0, 2)
        WeightSync(served).receive(file)
        self.assertEqual(bits(served), bits(source))

    def test_notes(self):
        """The dtypes of PyTorch, each once, and one digit for each entry."""
        model = {"a": torch.zeros(2, dtype=torch.int8), "b": torch.zeros(2), "c": torch.zeros(2, dtype=torch.uint8),
                 "d": torch.zeros(2)}
        self.assertEqual(weights.Reader(WeightSync(model).publish()).note(),
                         b'{"dtypes": ["f32", "int8", "uint8"], "of": "1020"}')
        self.assertEqual(weight_messages.note_of([]), b'{"dtypes": [], "of": ""}')

    def test_notes_of_others(self):
        """A note that tells no dtypes of these entries is none of ours: then frames tell them."""
        for note in (b"7", b"[]", b"null", b'{"dtypes": ["int8"]}', b'{"of": "0"}', b'{"dtypes": 7, "of": "0"}',
                     b'{"dtypes": ["int8"], "of": 7}', b'{"dtypes": ["int8"], "of": "1"}',
                     b'{"dtypes": ["int8"], "of": ""}',
                     b'{"dtypes": ["int8"], "of": "00"}', b'{"dtypes": ["int8"], "of": "?"}',
                     b'{"dtypes": [["int8"]], "of": "0"}', b'{"dtypes": ["f32"], "of": "0"}',
                     b'{"dtypes": [7], "of": "0"}'):
            writer = weights.Writer(file := io.BytesIO(), trainer=bytes(16), sequence=1, count=1, note=note)
            writer.add("a", delta.compress(None, torch.ones(2, dtype=torch.int8)), (2,))
            writer.finish()
            self.assertEqual(weight_messages.read(file.getvalue()).entries["a"].dtype, "u8", note)
        known = weight_messages.read(WeightSync({"a": torch.ones(2, dtype=torch.int8)}).publish())
        self.assertEqual(known.entries["a"].dtype, "int8")
        self.assertFalse(known.floats_only)

    def test_names_twice(self):
        """Two names that are the same without what torch.compile() puts into them."""
        frame = delta.compress(None, torch.ones(2))
        writer = weights.Writer(file := io.BytesIO(), trainer=bytes(16), sequence=1, count=2)
        for name in "_orig_mod.a", "a":
            writer.add(name, frame, (2,))
        writer.finish()
        with self.assertRaisesRegex(threelc.CorruptError, "two tensors of the message have the same name"):
            WeightSync({"a": torch.zeros(2)}).receive(file)

    def test_shapes_and_dtypes(self):
        """Two weights in a byte double the last dimension, which PyTorch counts in bytes."""
        for shape, dtype, found in (((2, 3), "f32", [2, 3]), ((), "f32", []), ((2, 3), "float4_e2m1fn_x2", [2, 6]),
                                    ((5,), "float4_e2m1fn_x2", [10]), ((), "float4_e2m1fn_x2", [2]),
                                    ((2, 3), "uint8", [2, 3])):
            self.assertEqual(weight_messages.shape_of(shape, dtype), found)
        for told, mine, same in (("int8", "int8", True), ("u8", "int8", True), ("uint8", "int8", False),
                                 ("u8", "uint8", True), ("f32", "f32", True), ("f16", "f32", False)):
            self.assertEqual(weight_messages.same_dtype(told, mine), same)
        self.assertEqual([name for name in ("f32", "f16", "bf16", "f64", "int8",
                                            "u8") if weight_messages.is_float(name)],
                         ["f32", "f16", "bf16"])


class States(unittest.TestCase):
    def test_a_state_between_two_pieces(self):
        """A message that was begun before a state was loaded cannot go on: its numbers and bases are others."""
        source, served = alone(1), alone(2)
        publisher, receiver = WeightSync(source), WeightSync(served)
        receiver.receive(publisher.publish())
        state = copy.deepcopy(publisher.state_dict())
        for taken in range(1, 4):
            source.step()
            pieces = publisher.pieces()
            for _ in range(taken):
                next(pieces)
            publisher.load_state_dict(copy.deepcopy(state))
            with self.assertRaisesRegex(RuntimeError, "this one cannot go on"):
                list(pieces)
            self.assertEqual(publisher.state_dict()["sequence"], state["sequence"])
        message = publisher.publish()
        self.assertEqual(set(bases(message).values()), {True})
        receiver.receive(message)
        self.assertEqual(bits(served), bits(source))

    def test_numbers_and_trainers(self):
        """Each that a trainer or a receiver may have, and one more and one fewer."""
        sync, right = WeightSync(alone()), WeightSync(alone()).state_dict()
        trainer = right["trainer"]
        for sequence, name, fits in itertools.product((0, 1, 2**64 - 1, -1, 2**64),
                                                      (trainer, trainer[1:], trainer + "0", "g" + trainer[1:],
                                                       "A" * 32, ""),
                                                      (None,)):
            fits = 0 <= sequence < 2**64 and name == trainer
            for change in {"trainer": name, "sequence": sequence}, {"heard": (name, sequence)}:
                if fits:
                    sync.load_state_dict({**right, **change})
                    continue
                with self.assertRaisesRegex(ValueError, f"damaged: '{name}', {sequence} is no trainer with the number"):
                    sync.load_state_dict({**right, **change})
        with self.assertRaises(ValueError) as caught:
            sync.load_state_dict(3)
        self.assertEqual(str(caught.exception), "a state of version 1 is needed, that of WeightSync, not 3")

    def test_trainers_one_after_the_other(self):
        """None of those before is heard any more, also after a restart."""
        model, served = alone(1), alone(2)
        trainers = [WeightSync(model) for _ in range(3)]
        receiver = WeightSync(served)
        names = [one.state_dict()["trainer"] for one in trainers]
        for i, one in enumerate(trainers):
            receiver.receive(one.publish(full=True))
            state = receiver.state_dict()
            self.assertEqual((tuple(state["heard"]), state["replaced"]), ((names[i], 1), sorted(names[:i])))
            receiver.receive(one.publish(full=True))
            self.assertEqual(tuple(receiver.state_dict()["heard"]), (names[i], 2))
            self.assertEqual(receiver.state_dict()["replaced"], sorted(names[:i]))
        other = WeightSync(served)
        other.load_state_dict(receiver.state_dict())
        for one in trainers[:2]:
            for each in receiver, other:
                with self.assertRaisesRegex(threelc.OrderError, "a trainer that another one has replaced"):
                    each.receive(one.publish(full=True))
        other.receive(message := trainers[2].publish())
        receiver.receive(message)
        self.assertEqual(other.state_dict()["heard"], receiver.state_dict()["heard"])

    def test_the_loaded_state_stays(self):
        """What is published from it does not change it, also if it is loaded twice."""
        source = alone(1)
        publisher = WeightSync(source)
        publisher.publish()
        state = copy.deepcopy(publisher.state_dict())
        before = {name: tensor.clone() for name, tensor in state["published"].items()}
        found = set()
        for _ in range(2):
            one = WeightSync(source)
            one.load_state_dict(state)
            with torch.no_grad():
                source.a[0, 0] += 1
            one.publish()
            one.publish()
            self.assertTrue(all(torch.equal(before[name], tensor) for name, tensor in state["published"].items()))
            with torch.no_grad():
                source.a[0, 0] -= 1
            one.load_state_dict(state)
            found.add(one.publish())
        self.assertEqual(len(found), 1)


if __name__ == "__main__":
    unittest.main()
