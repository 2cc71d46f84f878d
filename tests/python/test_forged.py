# SPDX-License-Identifier: MIT
"""Heads, notes and states that somebody has forged, with checksums that are right: each reader raises what it says, and
nothing else, and changes nothing."""
import ast
import copy
import importlib.util
import io
import json
import pickle
import random
import tempfile
import traceback
import unittest
import zlib
from pathlib import Path

import numpy
import threelc
import threelc.torch
import torch
from cluster import CLUSTER, attempt
from older_messages import parts, sealed
from test_states import WAYS, Way, frozen
from test_weight_sync import alone, bits, flattened
from threelc import _bundles, weights
from threelc.plugs import _patches, nemo_rl
from threelc.torch._common.transport import Transport

WRONG = (None, True, -1, 0, 1, 7, 1.5, 2.0, float("inf"), float("nan"), 2**31, 2**64, 2**70, -2**70, "", "x", "f32",
         "float32", [], [[]], {}, {"": []}, [None], [-1], [2**70], ["a", "a"])
DEEP = b"[" * 100_000
MADE = {"LocalSteps": {"outer": lambda p: torch.optim.SGD(p, lr=0.7, momentum=0.9, nesterov=True)}}


def places(tree, found=None):
    """All containers and keys of a tree of dicts and lists."""
    found = [] if found is None else found
    for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
        found.append((tree, key))
        if isinstance(value, (dict, list)):
            places(value, found)
    return found


def forged(rnd, tree):
    """A copy with a wrong thing in one place, or in two."""
    tree = copy.deepcopy(tree)
    for _ in range(rnd.choice((1, 1, 2))):
        where, key = rnd.choice(places(tree) or [({}, "")])
        change = rnd.randrange(8)
        if change == 0:
            del where[key]
        elif change == 1 and isinstance(where, list):
            where.append(where[key])
        elif change == 2 and isinstance(where, dict):
            where[rnd.choice(("x", ""))] = where.pop(key)
        elif change == 3:
            where[key] = copy.deepcopy(rnd.choice(places(tree))[0])
        else:
            where[key] = copy.deepcopy(rnd.choice(WRONG))
    return tree


def texts(rnd, tree, count):
    """Texts in place of a head: trees, bytes, what lies too deep, names that come twice."""
    text = json.dumps(tree).encode()
    yield from (b"", DEEP, b'{"a":' * 100_000, b"null", b"[1]", b'"x"', b"1e999", b"9" * 5000, b"\xff")
    first = text[1:text.index(b":")]
    yield b"{" + first + b": null, " + text[1:]
    for _ in range(count):
        yield json.dumps(forged(rnd, tree)).encode()
        altered = bytearray(text)
        altered[rnd.randrange(len(altered))] = rnd.choice(b"0123456789[]{}\",:-eN\\ \xff")
        yield bytes(altered)


class Heads(unittest.TestCase):
    """JSON in messages."""

    def check(self, read, tree, message, allowed=threelc.CorruptError, count=400):
        """read: takes message(text)."""
        refused = 0
        for text in texts(random.Random(1), tree, count):
            try:
                read(message(text))
            except allowed:
                refused += 1
        self.assertGreater(refused, count / 2)

    def test_changed_weights(self):
        given = [_patches.Patch(name, (4, 5), torch.tensor([1, 7]), torch.ones(2)) for name in "ab"]
        first, *frames = _bundles.unpack(_patches.pack(given, {"a": 1}))
        self.check(_patches.unpack, json.loads(bytes(first[4:])),
                   lambda text: _bundles.pack([zlib.crc32(text).to_bytes(4, "little") + text, *frames]))

    def test_nemo_rl(self):
        items = [{"name": "w", "shape": [4, 5], "dtype": "float32", "operation": "overwrite", "value_group": 0,
                  "value_start": 0, "value_end": 2, "index_encoding": "gaps", "index_start": 0, "index_end": 4}]
        first, *frames = _bundles.unpack(nemo_rl.encode((
            torch.tensor([1, 0, 2, 0], dtype=torch.uint8), (torch.ones(2),), items)))
        self.check(nemo_rl.decode, json.loads(bytes(first[4:])),
                   lambda text: _bundles.pack([zlib.crc32(text).to_bytes(4, "little") + text, *frames]))

    @unittest.skipUnless(all(map(importlib.util.find_spec, ("safetensors", "zstandard"))), "safetensors or zstandard")
    def test_slime(self):
        from threelc.plugs import _xor, slime  # pylint: disable=import-outside-toplevel
        frames = [_xor.compress(bytes(range(8))), _xor.compress(bytes(8))]
        tree = {"files": {"a.safetensors": {"metadata": {"a": "b"}, "tensors": {"x": 8, "y": 8}}}, "index": {}}
        with tempfile.TemporaryDirectory() as folder:
            self.check(lambda message: slime._expand(message, Path(folder, "weight_v000001")), tree,
                       lambda text: _bundles.pack([text, *frames]))

    def test_older_messages(self):
        """Views of nothing, far away, among others."""
        source, served = flattened(1), flattened(2)
        source.register_buffer("none", torch.zeros(0))
        served.register_buffer("none", torch.zeros(0))
        import older_messages  # pylint: disable=import-outside-toplevel
        publisher = older_messages.Trainer(lambda: [*source.named_parameters(), *source.named_buffers()])
        head, frames = parts(publisher.publish())
        before = bits(served)
        far = {"name": "none", "shape": [0], "dtype": "f32", "in": "flat", "root_strides": [1], "strides": [2**70],
               "first": 2**70}
        own = [entry for entry in head["tensors"] if entry["name"] != "none"]
        with self.assertRaisesRegex(threelc.CorruptError, "none is no part of flat"):
            threelc.torch.WeightSync(served).receive(sealed({**head, "tensors": [*own, far]}, frames[:-1]))
        self.assertEqual(bits(served), before)
        self.check(lambda message: threelc.torch.WeightSync(copy.deepcopy(served)).receive(message), head,
                   lambda text: sealed(text, frames), (threelc.CorruptError, ValueError), 150)

    def test_notes(self):
        """What a note says wrongly is not used, or does not fit."""
        model = alone()
        tree = {"dtypes": ["f32", "int8"], "of": "000"}
        for text in [*texts(random.Random(2), tree, 200), b'{"dtypes": [[], {}], "of": "010"}']:
            message = bytearray()
            writer = weights.Writer(message.extend, trainer=bytes(16), sequence=1, count=3, note=text)
            for name in "abc":
                tensor = getattr(model, name).detach()
                writer.add(name, threelc.delta.compress(None, tensor), tensor.shape)
            writer.finish()
            served = alone(2)
            before = bits(served)
            try:
                threelc.torch.WeightSync(served).receive(message)
                self.assertEqual(bits(served), bits(model))
            except ValueError as error:  # it has names of dtypes that the model does not have
                self.assertRegex(str(error), "in the message, .* in the model")
                self.assertEqual(bits(served), before)


class Ranks(unittest.TestCase):
    """What ranks say of themselves is data."""

    def test_gathered(self):
        """Whatever another rank sends in place of settings."""
        transport = object.__new__(Transport)
        transport.rank, transport.world = 0, 2
        settings = {"codec": "3lc", "every": numpy.int64(4), "mix": 0.1, "names": ("a", "b"), "pull": None}
        agreed = 0
        for text in [*texts(random.Random(5), {**settings, "every": 4}, 200), pickle.dumps(_Runs())]:
            transport.uncounted = lambda messages, text=text: [
                torch.tensor(list(each), dtype=torch.uint8) for each in (bytes(messages[0]), text)]
            try:
                transport.agree(settings)
                agreed += 1
            except ValueError:  # CorruptError is one
                pass
        self.assertLess(agreed, 20)  # that mean the same
        for text in b"", b"{", b"[]", b'"a"', b"\xff", b'{"a": 1, "a": 1}':
            transport.uncounted = lambda _, text=text: [torch.tensor(list(text), dtype=torch.uint8)]
            with self.assertRaisesRegex(threelc.CorruptError, "what rank 0 sent is no dict in JSON"):
                transport.agree(settings)
        transport.uncounted = lambda messages: [torch.tensor(list(bytes(each)), dtype=torch.uint8) for each in messages]
        transport.agree(settings)
        self.assertEqual(transport.gather(("a", 1.5, None, {"b": [2]})), 2 * [["a", 1.5, None, {"b": [2]}]])

    def test_no_bytes_become_objects(self):
        """The package never unpickles."""
        package = Path(threelc.__file__).parent
        for path in package.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                words = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
                self.assertFalse({"pickle", "marshal", "shelve", "dill"} & set(words), path)
                if isinstance(node, ast.Attribute):
                    self.assertNotRegex(node.attr, "^(all_gather|broadcast|gather|scatter|send|recv)_object(_list)?$",
                                        f"{path}:{node.lineno}")
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
                    self.assertEqual([ast.unparse(word.value) for word in node.keywords if word.arg == "weights_only"],
                                     ["True"], f"{path}:{node.lineno}")


class _Runs:
    """Runs code where it is unpickled."""

    def __reduce__(self):
        return _ran, ()


def _ran():
    raise AssertionError("unpickled")


def reloaded(rank, world, way):
    """Whether a run goes on from torch.load(weights_only=True) with the same bits."""
    del world
    one, two = Way(way, **MADE.get(way, {})), Way(way, **MADE.get(way, {}))
    one.train(rank, range(3))
    file = io.BytesIO()
    torch.save((one.state.state_dict(), one.net.state_dict()), file)
    file.seek(0)
    state, net = torch.load(file, weights_only=True)
    two.net.load_state_dict(net)
    two.state.load_state_dict(state)
    return one.train(rank, range(3, 6)) == two.train(rank, range(3, 6))


def forgeries(rank, world, way, count):
    """What loading forged states raised that it should not, or changed. They are forged in all places in turn."""
    del world
    rnd, found = random.Random(3), []
    one, two = Way(way, **MADE.get(way, {})), Way(way, **MADE.get(way, {}))
    one.train(rank, range(3))
    state = one.state.state_dict()
    before = frozen(two.state.state_dict())
    taken = 0
    for _ in range(count):
        wrong = forged(rnd, state)
        try:
            two.state.load_state_dict(wrong)
            taken += 1
            two = Way(way, **MADE.get(way, {}))
            before = frozen(two.state.state_dict())
        except (ValueError, TypeError, threelc.Error) as error:
            if frozen(two.state.state_dict()) != before:
                found.append(f"changed: {type(error).__name__}: {error}")
        except Exception:  # pylint: disable=broad-except
            found.append(traceback.format_exc())
    return found, taken


def worlds(rank, world):
    one = Way("Gossip")
    state = one.state.state_dict()
    return ["{}: {}".format(*attempt(one.state.load_state_dict, {**state, **change})[:2])
            for change in ({"world": 2**70}, {"rank": 2**70}, {"rank": -1}, {"world": 0}, {"world": -2**70})]


class States(unittest.TestCase):
    """State dicts, which come from files."""

    def test_weight_sync(self):
        source = alone(1)
        publisher = threelc.torch.WeightSync(source)
        threelc.torch.WeightSync(alone(2)).receive(publisher.publish())
        file = io.BytesIO()
        torch.save(publisher.state_dict(), file)
        file.seek(0)
        state = torch.load(file, weights_only=True)
        source.step()
        other = threelc.torch.WeightSync(source)
        other.load_state_dict(state)
        self.assertEqual(other.publish(), publisher.publish())
        rnd, taken = random.Random(4), 0
        for _ in range(300):
            try:
                threelc.torch.WeightSync(source).load_state_dict(forged(rnd, state))
                taken += 1
            except ValueError:
                pass
        self.assertLess(taken, 150)

    def test_a_world_without_end(self):
        """A rank or a number of ranks that is not possible takes neither time nor memory."""
        found, = CLUSTER.run(1, worlds)
        for words in found:
            self.assertRegex(words, "^ValueError: (a state is damaged: it is of rank|a run on .* was saved)")

    def test_weights_only(self):
        """torch.load() takes them without pickled objects, in all releases."""
        for way in (*WAYS, "ShardedOptimizer"):
            self.assertEqual(CLUSTER.run(2, reloaded, way), [True, True], way)

    def test_forged(self):
        for way in (*WAYS, "ShardedOptimizer"):
            (found, taken), = CLUSTER.run(1, forgeries, way, 60)
            self.assertEqual(found, [], way)
            self.assertLess(taken, 40, way)


if __name__ == "__main__":
    unittest.main()
