# SPDX-License-Identifier: MIT
"""Models that follow another: mappings, parts of a model, files and pieces, what is left of a message that was not
finished, and how much memory each side needs."""
import io
import mmap
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import threelc
import threelc.torch
import torch
from test_weight_sync import alone, bits, flattened, tied
from threelc import delta, weights

WeightSync = threelc.torch.WeightSync
ROOT = Path(__file__).resolve().parents[2]


class Full(Exception):
    """A disk is."""


class Disk(io.BytesIO):
    """A file that takes so many writes."""

    def __init__(self, left):
        super().__init__()
        self.left = left

    def write(self, piece):
        self.left -= 1
        if self.left < 0:
            raise Full
        return super().write(piece)


class Slow(io.RawIOBase):
    """A file that takes and gives few bytes at a time."""

    def __init__(self):
        self.file = io.BytesIO()

    def write(self, piece):
        return self.file.write(bytes(piece)[:100])

    def seek(self, *place):
        return self.file.seek(*place)

    def readinto(self, room):
        return self.file.readinto(memoryview(room)[:100])

    def read(self, count=-1):
        return self.file.read(count)


class Ways(unittest.TestCase):
    """Messages in bytes, files, memory maps and pieces are the same."""

    def test_ways(self):
        source = flattened(1)
        publisher = WeightSync(source)
        served = [flattened(i) for i in range(2, 7)]
        receivers = [WeightSync(model) for model in served]
        slow = Slow()
        with tempfile.TemporaryFile() as file, tempfile.TemporaryFile(buffering=0) as raw:
            for _ in range(3):
                state = publisher.state_dict()
                message = publisher.publish()
                for sink in file, raw, slow:
                    sink.seek(0)
                    publisher.load_state_dict(state)
                    publisher.publish_to(sink)
                for sink in file, raw:
                    sink.truncate()
                    sink.flush()
                slow.file.truncate()
                publisher.load_state_dict(state)
                pieces = list(publisher.pieces())
                self.assertEqual(b"".join(pieces), message)
                self.assertGreater(len(pieces), 6)
                for receiver, way in zip(receivers, (message, bytearray(message), file, raw, slow)):
                    receiver.receive(way)
                    self.assertEqual(bits(receiver._model), bits(source))
                source.step()
            with mmap.mmap(file.fileno(), 0) as mapped:
                with self.assertRaisesRegex(threelc.OrderError, "it is old"):
                    receivers[0].receive(mapped)
                receiver = WeightSync(flattened(9))
                with self.assertRaisesRegex(threelc.BaseError, "is not what the message begins with"):
                    receiver.receive(mapped)
            raw.truncate(100)
            with self.assertRaises(threelc.CorruptError):
                receiver.receive(raw)

    def test_a_file_that_becomes_shorter(self):
        class Shorter(io.BytesIO):
            left = 40

            def readinto(self, room):
                self.left -= 1
                return super().readinto(room) if self.left > 0 else 0

        served = flattened(2)
        before = bits(served)
        file = Shorter(WeightSync(flattened(1)).publish())
        with self.assertRaisesRegex(EOFError, "the file has become shorter"):
            WeightSync(served).receive(file)
        self.assertEqual(bits(served), before)


    def test_inference(self):
        """A trainer publishes in inference mode and out of it."""
        source, served = alone(1), alone(2)
        publisher, receiver = WeightSync(source), WeightSync(served)
        for on in True, False, True, False:
            with torch.inference_mode(on):
                message = publisher.publish()
            receiver.receive(message)
            self.assertEqual(bits(served), bits(source))
            source.step()

    def test_copies_of_inference(self):
        """What is kept of a tensor that is not in one piece is no inference tensor: the next call may be out of it."""
        source, served = {"a": torch.randn(4, 6).t()}, {"a": torch.zeros(6, 4)}
        publisher, receiver = WeightSync(source), WeightSync(served)
        for _ in range(2):
            with torch.inference_mode():
                receiver.receive(publisher.publish())
            source["a"] = torch.randn(6, 4)
        receiver.receive(publisher.publish())
        self.assertTrue(torch.equal(served["a"], source["a"]))
        self.assertFalse(publisher.state_dict()["published"]["a"].is_inference())


class Mappings(unittest.TestCase):
    def test_following(self):
        """On both sides, on one of them, and of tensors that are others at each call."""
        source, served = alone(1), alone(2)
        mapping = {name: torch.zeros_like(p) for name, p in source.named_parameters()}
        publisher = WeightSync(source.state_dict())
        receivers = WeightSync(served), WeightSync(mapping), WeightSync(served.state_dict())
        receivers[0].receive(publisher.publish())
        receivers[2].receive(full := publisher.publish(full=True))
        receivers[1].receive(full)
        source.step()
        mapping["a"] = mapping["a"].clone()
        receivers[1].receive(publisher.publish())
        for name, tensor in mapping.items():
            self.assertTrue(torch.equal(tensor, source.state_dict()[name]))
        self.assertEqual(publisher.left_out(), [])

    def test_shared(self):
        """Tied tensors of a mapping, which are apart in the receiver's."""
        source = dict(flattened(1).named_parameters())
        served = {name: torch.zeros(p.shape) for name, p in source.items()}
        WeightSync(served).receive(WeightSync(source).publish())
        self.assertTrue(all(torch.equal(served[name], source[name]) for name in source))

    def test_what_is_no_mapping_of_tensors(self):
        for mapping, words in (({"a": 3}, "not 'a': 3"), ({3: torch.ones(2)}, "not 3: a Tensor"),
                               ({"a": torch.ones(2, dtype=torch.complex64)}, "tensor a is of torch.complex64"),
                               ({"a": [1.0]}, "not 'a': a list")):
            with self.assertRaisesRegex(TypeError, words):
                WeightSync(mapping).publish()
        with self.assertRaisesRegex(ValueError, "the name of entry 0 is not UTF-8 of 1 to 4096 bytes"):
            WeightSync({"": torch.ones(2)}).publish()
        self.assertEqual(weights.Reader(WeightSync({}).publish()).info.count, 0)

    def test_parts_of_a_model(self):
        source = flattened(1)
        served = {"bias": torch.zeros(30), "flat": torch.zeros(700), "other": torch.ones(3)}
        message = WeightSync(source).publish()
        with self.assertRaisesRegex(ValueError, "the message has no other"):
            WeightSync(served).receive(message)
        WeightSync(served).receive(message, strict=False)
        self.assertTrue(torch.equal(served["bias"], source.bias) and torch.equal(served["flat"], source.flat))
        self.assertTrue(torch.equal(served["other"], torch.ones(3)))
        with self.assertRaisesRegex(ValueError, "bias has its values in flat, which the model does not have"):
            WeightSync({"bias": torch.zeros(30)}).receive(message, strict=False)

    def test_without_pytorch(self):
        """A message of another program, which tells dtypes of its own, and one that it reads."""
        model = torch.nn.Module()
        model.register_buffer("a", torch.arange(6, dtype=torch.int8))
        model.register_buffer("b", torch.arange(6.0))
        made = io.BytesIO()
        for note in b"", b"\xff", b"[" * 5000, b'{"dtypes": ["f32"], "of": "01"}', b'{"dtypes": ["f32"], "of": "00"}':
            made.seek(0)
            writer = weights.Writer(made, trainer=bytes(range(16)), sequence=1, count=2, note=note)
            writer.add("a", delta.compress(None, torch.full((6,), 7, dtype=torch.uint8)), (6,))
            writer.add("b", delta.compress(None, torch.ones(6)), (6,))
            writer.finish()
            made.truncate()
            model.a.zero_()
            WeightSync(model).receive(made.getvalue())
            self.assertEqual((model.a.tolist(), model.b.tolist()), ([7] * 6, [1] * 6))
        served = {"a": torch.zeros(6, dtype=torch.int8).numpy(), "b": torch.zeros(6).numpy()}
        reader = weights.Reader(WeightSync(model).publish())
        reader.apply(served)
        self.assertEqual((served["a"].tolist(), served["b"].tolist()), ([7] * 6, [1] * 6))
        self.assertEqual([entry.dtype for entry in reader], [threelc.DType.U8, threelc.DType.F32])


class Unfinished(unittest.TestCase):
    """Receivers go on from the next message, whatever became of the one before."""

    def setUp(self):
        self.source, self.served = tied(1), alone(2)
        self.publisher, self.receiver = WeightSync(self.source), WeightSync(self.served)
        self.receiver.receive(self.publisher.publish())
        self.source.step()

    def goes_on(self, has_base):
        message = self.publisher.publish()
        self.assertEqual([entry.has_base for entry in weights.Reader(message) if entry.view is None], has_base)
        self.receiver.receive(message)
        self.assertEqual(bits(self.served), bits(self.source))
        self.source.step()
        self.receiver.receive(self.publisher.publish())
        self.assertEqual(bits(self.served), bits(self.source))

    def test_disks_that_are_full(self):
        """head, note, a with its frame, b (a view), c with its frame, index, tail"""
        for left in range(9):
            with self.subTest(left):
                self.setUp()
                disk = Disk(left)
                with self.assertRaises(Full):
                    self.publisher.publish_to(disk)
                with self.assertRaises(threelc.Error):
                    self.receiver.receive(disk.getvalue())
                self.goes_on([left < 2, left < 5])

    def test_pieces_that_are_not_taken(self):
        for taken in range(4):
            self.setUp()
            pieces = self.publisher.pieces()
            for _ in range(taken):
                next(pieces)
            state = self.publisher.state_dict()["published"]
            self.assertEqual(sorted(state), ["a", "c"][taken > 1:])
            self.goes_on([taken < 2, True])
            if taken:
                with self.assertRaisesRegex(RuntimeError, "another message has been begun"):
                    next(pieces)

    def test_the_last_piece(self):
        """With it the message is published, whether or not anyone asks for more."""
        pieces = self.publisher.pieces()
        message = b"".join(next(pieces) for _ in range(4))
        self.receiver.receive(message)
        self.goes_on([True, True])

    def test_a_state_is_of_its_moment(self):
        """It does not change when more is published."""
        state = self.publisher.state_dict()
        before = {name: tensor.clone() for name, tensor in state["published"].items()}
        self.publisher.publish()
        self.assertTrue(all(torch.equal(before[name], tensor) for name, tensor in state["published"].items()))


MEASURED = """
import resource, sys, tempfile
import torch
import threelc.torch

COUNT, SIZE = 24, 1 << 20  # tensors, and values of each

def model(seed):
    torch.manual_seed(seed)
    return {f"w{i}": torch.randn(SIZE) for i in range(COUNT)}

def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

side, whole = sys.argv[1], 4 * COUNT * SIZE
with tempfile.TemporaryFile() as file:
    source = model(1)
    if side == "receiver":
        threelc.torch.WeightSync(source).publish_to(file)
    file.seek(0)
    mine = source if side == "trainer" else {name: tensor + 1 for name, tensor in source.items()}
    sync = threelc.torch.WeightSync(mine)
    if side == "receiver":  # what the trainer needed was given back, but counts
        resource_before = most() - whole
        del source
    else:
        resource_before = most()
    if side == "trainer":
        for _ in range(3):
            file.seek(0)
            sync.publish_to(file)
            for tensor in mine.values():
                tensor[::50] += 1e-3
    else:
        sync.receive(file)
    print((most() - resource_before) / whole)
"""


class Memory(unittest.TestCase):
    def test_one_copy_of_the_weights(self):
        """Both sides need one copy of the weights besides the model, and little more than a tensor and its frame."""
        for side in "trainer", "receiver":
            done = subprocess.run([sys.executable, "-c", MEASURED, side], check=True, capture_output=True, text=True)
            self.assertGreater(float(done.stdout), 0.9, side)
            self.assertLess(float(done.stdout), 1.25, side)
