# SPDX-License-Identifier: MIT
"""threelc.plugs, where no other project is needed: bits come back, damaged messages are refused, sizes."""
import importlib
import json
import random
import sys
import types
import unittest
import zlib
from collections import namedtuple
from unittest import mock

import numpy
import torch
from sentences import check_sentences
from threelc import CorruptError, _bundles, delta
from threelc.plugs import _patches, _xor, nemo_rl, skyrl

DTYPES = [getattr(torch, name) for name in _patches._DTYPES if hasattr(torch, name)]
N = 100_000


def bits(tensor):
    return tensor.contiguous().view(torch.uint8).tolist() if len(tensor) else []


def drawn(dtype, count, seed=1):
    chance = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return (0.02 * torch.randn(count, generator=chance)).to(dtype)
    return torch.randint(-100, 100, (count,), generator=chance).to(dtype)


def patch(name, dtype, share, seed=1, shape=(N // 100, 100)):
    chance = torch.Generator().manual_seed(seed)
    positions = torch.randperm(N, generator=chance)[:int(N * share)].sort().values
    return _patches.Patch(name, shape, positions, drawn(dtype, len(positions), seed))


class Patches(unittest.TestCase):
    def check_same(self, given, came):
        self.assertEqual([each.name for each in given], [each.name for each in came])
        for one, other in zip(given, came):
            self.assertEqual(tuple(one.shape), other.shape)
            self.assertEqual(one.values.dtype, other.values.dtype)
            self.assertEqual(one.positions.tolist(), other.positions.tolist())
            self.assertEqual(bits(one.values), bits(other.values))

    def test_all_dtypes_and_densities_come_back(self):
        given = [patch(f"{dtype} {share}", dtype, share, seed) for seed, dtype in enumerate(DTYPES)
                 for share in (0, 1 / N, 0.01, 0.5, 1)]
        self.check_same(given, _patches.unpack(_patches.pack(given))[0])
        self.check_same([], _patches.unpack(_patches.pack([]))[0])

    def test_bits_of_nan_come_back(self):
        values = torch.tensor([0x7fc1, -0x3f, 0x7f80, -0x8000], dtype=torch.int16).view(torch.bfloat16)
        given = [_patches.Patch("nan", (2, 4), torch.tensor([0, 3, 4, 7]), values)]
        self.check_same(given, _patches.unpack(_patches.pack(given))[0])

    def test_positions_may_be_in_any_order(self):
        given = patch("weights", torch.bfloat16, 0.1)
        order = torch.randperm(len(given.positions), generator=torch.Generator().manual_seed(2))
        mixed = given._replace(positions=given.positions[order].to(torch.int32), values=given.values[order])
        self.check_same([given], _patches.unpack(_patches.pack([mixed]))[0])

    def test_wrong_positions_are_refused(self):
        values = torch.zeros(2, dtype=torch.bfloat16)
        for positions, sentence in (
                ([1, 1], "positions of weights are not below 6, or come twice"),
                ([0, 6], "positions of weights are not below 6, or come twice"),
                ([-1, 2], "positions of weights are not below 6, or come twice"),
                ([3], "weights has 1 positions and 2 values"), ([3, 4, 5], "weights has 3 positions and 2 values")):
            given = _patches.Patch("weights", (2, 3), torch.tensor(positions), values)
            check_sentences(self, (lambda: _patches.pack([given]), ValueError, sentence))
        given = given._replace(values=values.to(torch.complex64))
        check_sentences(self, (lambda: _patches.pack([given]), TypeError, "weights is of torch.complex64; these can be "
                               f"sent: {', '.join(_patches._DTYPES)}"))

    def test_a_change_takes_less_than_half_of_an_index_and_a_value(self):
        given = patch("weights", torch.bfloat16, 0.01)
        self.assertLess(8 * len(_patches.pack([given])), 22 * len(given.positions))  # of 48

    def test_shapes(self):
        """Of one value, of none; the last position."""
        ones = torch.ones(3)
        given = [_patches.Patch("scalar", (), torch.tensor([0]), ones[:1]),
                 _patches.Patch("none", (0, 5), torch.tensor([], dtype=torch.int64), ones[:0]),
                 _patches.Patch("last", (2, 3), torch.tensor([0, 1, 5]), ones)]
        message = _patches.pack(given, {"of": "a plug"})
        came, note = _patches.unpack(message)
        self.check_same(given, came)
        self.assertEqual(note, {"of": "a plug"})
        self.assertIsNone(_patches.unpack(_patches.pack(given))[1])

    def test_the_frames(self):
        """Zeros become ones where weights changed. There are no digests: whoever sends these has checksums."""
        given = [patch(name, torch.float32, 0.01, seed) for seed, name in enumerate("ab")]
        _, marks, values = _bundles.unpack(_patches.pack(given))
        found, wanted = numpy.zeros(2 * N, "u1"), numpy.zeros(2 * N, "u1")
        delta.apply(marks, found, dtype="u8")
        for i, each in enumerate(given):
            wanted[i * N + each.positions.numpy()] = 1
        self.assertEqual(found.tobytes(), wanted.tobytes())
        info = delta.peek(values)
        self.assertEqual((info.n, info.has_base, info.result_digest), (2 * N // 100, False, None))

    def test_heads_that_do_not_fit(self):
        """With a right checksum. Each sentence is the whole one."""
        given = [_patches.Patch(name, (2, 3), torch.tensor([0, 4]), torch.ones(2)) for name in "ab"]
        message, begin = _patches.pack(given), "not a message of changed weights: "

        def tensors(*changes):
            def change(head):
                for tensor, (place, value) in zip(head["tensors"], changes):
                    tensor[place] = value
                return head
            return change

        cases = [(tensors((3, -1), (3, 5)), "the head has wrong sizes"), (tensors((3, 7)), "the head has wrong sizes"),
                 (tensors((2, [-2, -3])), "the head has wrong sizes"),
                 (tensors((1, "int16")), "the head has wrong sizes"),
                 (tensors((3, 1), (3, 3)), "b has other positions"), (tensors((3, 3), (3, 1)), "a has other positions"),
                 (tensors((2, [2, 2]), (2, [4, 2])), "a has other positions"),
                 (tensors((2, [2, 4])), "head and frames differ"), (tensors((3, 1)), "head and frames differ"),
                 (tensors((1, "int32")), "head and frames differ"),
                 (lambda head: {"note": None}, "'tensors'"),
                 (lambda head: {**head, "tensors": 5}, "'int' object is not iterable"),
                 (tensors((2, [float("inf")])), "cannot convert float infinity to integer")]
        check_sentences(self, *((lambda change=change: _patches.unpack(altered(message, change)), CorruptError,
                                 begin + words) for change, words in cases))
        first, marks, values = _bundles.unpack(message)
        check_sentences(
            self,
            (lambda: _patches.unpack(altered(message, lambda head: head, values)), CorruptError,
             begin + "head and frames differ"),
            (lambda: _patches.unpack(_bundles.pack([first, marks])), CorruptError, begin + "head and frames differ"),
            (lambda: _patches.unpack(_bundles.pack([bytes([first[0] ^ 1]) + bytes(first[1:]), marks, values])),
             CorruptError, begin + "the head was altered"))

    def test_values_without_bytes(self):
        """A frame has 4 bytes for each block of 65,536 values, so what claims more takes no memory."""
        frame = delta.compress(None, numpy.ones(1, "u1"), digests=False)
        most = 65536 * len(frame)
        for count, sentence in ((most, f"the delta is for 1 weights, the caller has {most}"),
                                (most + 1, f"not a message of changed weights: {len(frame)} bytes cannot have "
                                           f"{most + 1} values")):
            one = numpy.ones(count, "u1")
            marks = delta.from_changes(numpy.arange(count), one - 1, one, count, dtype="u8")
            text = json.dumps({"tensors": [["a", "uint8", [count], count]], "note": None}).encode()
            message = _bundles.pack([zlib.crc32(text).to_bytes(4, "little") + text, marks, frame])
            with self.assertRaises(ValueError) as caught:
                _patches.unpack(message)
            self.assertEqual(str(caught.exception), sentence)

    def test_damaged_messages_are_refused(self):
        message = _patches.pack([patch("one", torch.bfloat16, 0.001), patch("two", torch.float32, 0.002)])
        chance = random.Random(3)
        for _ in range(300):
            damaged = bytearray(message)
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            with self.assertRaises(CorruptError):
                _patches.unpack(damaged)
        for length in range(0, len(message), 7):
            with self.assertRaises(CorruptError):
                _patches.unpack(message[:length])


class Xor(unittest.TestCase):
    def changed(self, dtype, share):
        base = numpy.random.default_rng(4).integers(0, 1 << 15, N).astype(dtype)
        after = base.copy()
        where = numpy.random.default_rng(5).random(N) < share
        after[where] += 1
        return (base ^ after).tobytes()

    def test_bytes_come_back(self):
        for data in b"", b"a", b"ab", b"\0\1\2", b"abcd", b"abcde", b"abcdef", b"abcdefg", bytes(N), \
                self.changed("u1", 0.01), self.changed("u2", 0.01), self.changed("u4", 0.01), \
                self.changed("u2", 0.9)[:-1], random.Random(6).randbytes(N):
            frame = skyrl.compress_bytes(data, level=1)
            self.assertEqual(skyrl.decompress_bytes(frame, len(data)), data)

    def test_weights_are_found_by_their_width(self):
        self.assertLess(8 * len(_xor.compress(self.changed("u2", 0.01))), 14 * 0.01 * N)
        self.assertLess(8 * len(_xor.compress(self.changed("u1", 0.01))), 14 * 0.01 * N)
        self.assertLess(8 * len(_xor.compress(self.changed("u4", 0.01))), 14 * 0.01 * N)
        for kind, width in (("u2", 2), ("u4", 4)):  # of all lengths that have whole weights
            names = {delta.peek(_xor.compress(self.changed(kind, 0.1)[i * width:])).dtype.name for i in range(6)}
            self.assertEqual(names, {{"u2": "BF16", "u4": "F32"}[kind]})

    def test_the_first_bytes_tell_the_width(self):
        """The first MiB, of a model that is larger."""
        first = 6 * self.changed("u2", 0.01)
        rest = 24 * self.changed("u1", 0.01)
        self.assertEqual(delta.peek(_xor.compress(first + rest)).dtype.name, "BF16")
        self.assertEqual(delta.peek(_xor.compress(rest)).dtype.name, "U8")
        half = 1 << 19
        some, words, many = ((6 * self.changed(dtype, share))[:half]
                             for dtype, share in (("u1", 0.01), ("u2", 0.3), ("u1", 0.1)))
        for parts, kind in (((some,), "U8"), ((some, words), "BF16"), ((some, words, many, many), "BF16"),
                            ((words, many, words), "U8")):
            self.assertEqual(delta.peek(_xor.compress(b"".join(parts))).dtype.name, kind)

    def test_other_sizes_and_damaged_frames_are_refused(self):
        frame = skyrl.compress_bytes(self.changed("u2", 0.01))
        for size in 0, 2 * N - 2, 2 * N - 1, 2 * N + 2, 1 << 60:
            check_sentences(self, (lambda: skyrl.decompress_bytes(frame, size), CorruptError,
                                   f"100000 weights of bf16 are not {size} bytes"))
        wide = delta.compress(numpy.zeros(2, "i8"), numpy.ones(2, "i8"), digests=False)
        check_sentences(self, (lambda: skyrl.decompress_bytes(wide, 16), CorruptError,
                               "2 weights of i64 are not 16 bytes"))
        self.assertIsNone(delta.peek(frame).result_digest)
        chance = random.Random(7)
        for _ in range(200):
            damaged = bytearray(frame)
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            with self.assertRaises(ValueError):
                skyrl.decompress_bytes(damaged, 2 * N)

    def test_install(self):
        module = types.SimpleNamespace(compress_bytes=None, decompress_bytes=None)
        skyrl.install(module)
        self.assertIs(module.compress_bytes, skyrl.compress_bytes)
        self.assertIs(module.decompress_bytes, skyrl.decompress_bytes)
        check_sentences(self, (lambda: skyrl.install(types.ModuleType("other")), AttributeError,
                               "other has no compress_bytes: is it SkyRL's checkpoint_io?"))


def altered(message, change, *more):
    """The head of a message is another one, with the right checksum; more: frames at the end."""
    first, *frames = _bundles.unpack(message)
    head = json.loads(bytes(first[4:]))
    text = json.dumps(change(head)).encode()
    return _bundles.pack([zlib.crc32(text).to_bytes(4, "little") + text, *frames, *more])


def payload(items):
    """As encode_sparse_infos makes it of (name, shape, dtype, positions, values, operation)."""
    locations, groups, metadata = [torch.empty(0, dtype=torch.uint8)], {}, []
    places, lengths = 0, {}
    for name, shape, dtype, positions, values, operation in items:
        group = list(groups).index(values.dtype) if values.dtype in groups else len(groups)
        groups.setdefault(values.dtype, []).append(values)
        item = {"name": name, "shape": shape, "dtype": dtype, "operation": operation, "value_group": group,
                "value_start": lengths.get(group, 0), "value_end": lengths.get(group, 0) + len(values),
                "index_start": places, "index_end": places}
        lengths[group] = item["value_end"]
        if positions[-1] - positions[0] + 1 == len(positions):
            item.update(index_encoding="range", range_start=int(positions[0]))
        else:
            gaps = numpy.diff(positions.numpy(), prepend=-1) - 1
            packed = torch.from_numpy(gaps.astype("u2" if gaps.max() < 1 << 16 else "u4").view("u1"))
            locations.append(packed)
            places += len(packed)
            item.update(index_encoding="deltas", index_end=places)
        metadata.append(item)
    return torch.cat(locations), tuple(map(torch.cat, groups.values())), metadata


class Verl(unittest.TestCase):
    """With types that stand for verl's; test_plugs_projects.py has its own."""

    def test_flushes_come_back(self):
        encode = types.ModuleType("verl.checkpoint_engine.delta_sync.encode")
        encode.DeltaFlush = namedtuple("DeltaFlush", "encoding params positions_cpu values_gpu checksum")
        encode.DeltaParam = namedtuple("DeltaParam", "name dtype shape pos_start pos_end pos_width val_start val_end")
        encode.checksum = lambda positions, values: int(positions.sum()) + sum(bits(values))
        parents = ("verl", "verl.checkpoint_engine", "verl.checkpoint_engine.delta_sync")
        with mock.patch.dict(sys.modules, {**{name: types.ModuleType(name) for name in parents},
                                           encode.__name__: encode}):
            sys.modules.pop("threelc.plugs.verl", None)
            plug = importlib.import_module("threelc.plugs.verl")
        given, params, at = [patch(name, torch.bfloat16, 0.01, seed) for seed, name in enumerate("qkv")], [], 0
        for each in given:
            end = at + len(each.values)
            params.append(encode.DeltaParam(each.name, "bfloat16", list(each.shape), 4 * at, 4 * end, 4, at, end))
            at = end
        positions = torch.cat([each.positions for each in given]).to(torch.int32).view(torch.uint8)
        values = torch.cat([each.values for each in given])
        came = plug.unpack(plug.pack(encode.DeltaFlush("indices", params, positions, values, None)))
        self.assertEqual((came.encoding, came.params, came.checksum),
                         ("indices", params, encode.checksum(positions, values)))
        self.assertEqual((came.positions_cpu.tolist(), bits(came.values_gpu)), (positions.tolist(), bits(values)))
        self.assertEqual(plug.unpack(plug.pack(encode.DeltaFlush("indices", [], positions[:0], values[:0], None)))[1],
                         [])
        flush = encode.DeltaFlush("indices", params, positions, values, None)
        one = params[0]
        for sentence, wrong in (
                ("flushes have indices, not dense", {"encoding": "dense"}),
                ("q has positions of 8 bytes and bfloat16 in a flush of torch.bfloat16",
                 {"params": [one._replace(pos_width=8)]}),
                ("q has positions of 4 bytes and float32 in a flush of torch.bfloat16",
                 {"params": [one._replace(dtype="float32")]})):
            check_sentences(self, (lambda: plug.pack(flush._replace(**wrong)), ValueError, sentence))


class NeMoRL(unittest.TestCase):
    def made(self):
        few = torch.tensor([5, 70_000, 70_001, 99_999])
        some = patch("some", torch.bfloat16, 0.02)
        return payload([
            ("xor", (N,), "bfloat16", some.positions, torch.ones(len(some.values), dtype=torch.int16), "xor"),
            ("new", (100, N // 100), "bfloat16", some.positions, some.values.view(torch.int16), "overwrite"),
            ("wide", (N,), "float32", few, torch.tensor([1, -2, 3, 1 << 30], dtype=torch.int32), "xor"),
            ("row", (N,), "float32", torch.arange(7, 30), drawn(torch.float32, 23).view(torch.int32), "overwrite"),
            ("bytes", (N,), "uint8", few, torch.tensor([0, 255, 1, 2], dtype=torch.uint8), "xor")])

    def test_payloads_come_back(self):
        locations, groups, metadata = self.made()
        came = nemo_rl.decode(nemo_rl.encode((locations, groups, metadata)))
        self.assertEqual(came[0].tolist(), locations.tolist())
        self.assertEqual(came[2], metadata)
        self.assertEqual([(group.dtype, group.tolist()) for group in came[1]],
                         [(group.dtype, group.tolist()) for group in groups])
        self.assertEqual(nemo_rl.decode(nemo_rl.encode((locations[:0], (), [])))[1:], ((), []))

    def test_gaps_of_any_width(self):
        """Of 2 bytes above 32767, of 8 bytes; a tensor of which nothing changed."""
        locations, groups, metadata = payload([
            ("two", (N,), "int32", torch.tensor([0, 40_000, 99_999]), torch.ones(3, dtype=torch.int32), "overwrite"),
            ("row", (N,), "int32", torch.arange(3, 7), torch.ones(4, dtype=torch.int32), "overwrite")])
        gaps = torch.tensor([0, 5, 1]).view(torch.uint8)
        metadata += [{**metadata[0], "name": "eight", "index_encoding": "wide", "index_start": len(locations),
                      "index_end": len(locations) + len(gaps), "value_start": 7, "value_end": 10},
                     {**metadata[1], "name": "none", "value_start": 10, "value_end": 10}]
        given = torch.cat([locations, gaps]), (torch.cat([groups[0], torch.ones(3, dtype=torch.int32)]),), metadata
        came = nemo_rl.decode(nemo_rl.encode(given))
        self.assertEqual((came[0].tolist(), came[1][0].tolist(), came[2]),
                         (given[0].tolist(), given[1][0].tolist(), given[2]))

    def test_sizes_of_xors(self):
        """Bytes stay bytes, halves become integers that are mostly small."""
        positions = torch.arange(0, 200_000, 10)
        positions[-1] += 1  # no range
        for dtype, bits_each in ((torch.uint8, 8.3), (torch.int16, 8.9), (torch.int32, 8.9)):
            values = torch.randint(1, 4, (20_000,), generator=torch.Generator().manual_seed(9)).to(dtype)
            given = payload([("w", (200_000,), "uint8", positions, values, "xor")])
            message = nemo_rl.encode(given)
            self.assertLess(8 * len(message), bits_each * 20_000)
            self.assertEqual(nemo_rl.decode(message)[1][0].tolist(), values.tolist())

    def test_notes_that_do_not_fit(self):
        message = nemo_rl.encode(self.made())

        def note(**changes):
            def change(head):
                head["note"][3 if "values" in changes else 1].update(changes)
                return head
            return change

        for change, words in (
                (lambda head: {**head, "note": head["note"][:-1]}, "^not a payload: the parts differ in length$"),
                (lambda head: {**head, "note": head["note"] * 2}, "^not a payload: the parts differ in length$"),
                (lambda head: {**head, "note": 5}, "^not a payload: object of type 'int' has no len"),
                (note(width=3), "^not a payload: 3$"), (note(values="int17"), "^not a payload: .*int17"),
                (note(item=5), "^not a payload: 'int'"), (note(values="float64"), "^not a payload: .*view")):
            with self.assertRaisesRegex(CorruptError, words):
                nemo_rl.decode(altered(message, change))

    def test_a_payload_that_came_goes_on(self):
        """With the same bytes."""
        message = nemo_rl.encode(self.made())
        self.assertEqual(nemo_rl.encode(nemo_rl.decode(message)), message)

    def test_damaged_payloads_are_refused(self):
        message = nemo_rl.encode(self.made())
        chance = random.Random(8)
        for _ in range(200):
            damaged = bytearray(message)
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            with self.assertRaises(CorruptError):
                nemo_rl.decode(damaged)


if __name__ == "__main__":
    unittest.main()
