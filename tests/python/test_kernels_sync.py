# SPDX-License-Identifier: MIT
"""WeightSync with deltas="device", here on the CPU: its messages are those of the host, byte by byte, and all that is
asked of it elsewhere. Digests that are made where weights are, by each way."""
import io
import os
import subprocess
import sys
import tempfile
import types
import unittest
import warnings
from pathlib import Path
from unittest import mock

os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import test_kernels_delta
import test_weight_bytes
import test_weight_pieces
import test_weight_sync
import torch
from test_kernels_delta import DTYPES, Weights
from test_weight_sync import alone, bits
from threelc import delta
from threelc.torch import kernels as package, weight_sync
from threelc.torch._common import device_weights
from threelc.torch.kernels import _xxh3, delta as kernels, digest as digests, tried

WeightSync = weight_sync.WeightSync
WAYS = {"torch": _xxh3}
if "triton" in test_kernels_delta.WAYS:
    from threelc.torch.kernels import _xxh3_triton
    WAYS["triton"] = _xxh3_triton


class Digests(unittest.TestCase):
    def test_digests(self):
        """Of any number of pieces, any rest, and memory that begins anywhere."""
        for way, module in WAYS.items():
            with mock.patch.object(digests, "_sums", lambda device: module.sums):
                cases = [(name, n) for name in DTYPES for n in (0, 2, 4094, 4096, 4 * 4096 + 102, 35 * 4096)]
                for name, n in cases if way == "torch" else (("u4", 4096), ("u8", 8194), ("bf16", 17 * 4096)):
                    w = Weights(name, n, 0, n)
                    expected = delta.digest(w.before, dtype=name)
                    moved = torch.cat([w.before[:1], w.before])[1:]
                    for weights in (w.before, moved) if way == "torch" else (moved,):
                        self.assertEqual(digests.digest(weights, dtype=name), expected, (way, name, n))

    def test_choice(self):
        """Kernels are tried on three pieces."""
        self.addCleanup(forget)
        forget()
        if len(WAYS) == 2:
            self.assertIs(digests._sums(torch.device("cpu")), _xxh3_triton.sums)
        module = types.ModuleType("threelc.torch.kernels._xxh3_triton")
        for sums, is_used in ((_xxh3.sums, True), (lambda words, pieces: _xxh3.sums(words, pieces)[:2], False)):
            module.sums = sums
            with mock.patch.object(tried, "runs_triton", lambda device: True), \
                    mock.patch.dict(sys.modules, {module.__name__: module}), \
                    mock.patch.object(package, "_xxh3_triton", module, create=True):
                forget()
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    self.assertEqual(digests._sums(torch.device("cpu")) is sums, is_used)
            self.assertEqual(["they do not make what" in str(each.message) for each in said], [True] * (not is_used))

    def test_big_endian(self):
        """There the host makes them."""
        w = Weights("f32", 9000, 0, 1)
        with mock.patch.object(sys, "byteorder", "big"), mock.patch.object(digests, "_sums", None):
            self.assertEqual(digests.digest(w.before), delta.digest(w.before))


class Compiled(unittest.TestCase):
    def test_all_kernels(self):
        """For GPUs of NVIDIA and AMD, which no machine here has."""
        if len(WAYS) == 1:
            self.skipTest("triton is not installed")
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": cache}
            path = Path(__file__).with_name("compiled_kernels.py")
            found = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, timeout=300)
        self.assertEqual((found.returncode, found.stdout), (0, "20 kernels\n"), found.stderr)


def model(step):
    """Each dtype that torch has here, of each share of changes."""
    tensors = {}
    for i, name in enumerate(DTYPES):
        dtype = getattr(torch, {"f8_e4m3": "float8_e4m3fn", "f8_e5m2": "float8_e5m2",
                                "f4_e2m1": "float4_e2m1fn_x2"}.get(name, ""), DTYPES[name])
        for share in (0, 0.01, 0.4, 1):
            w = Weights(name, (0, 9, 5001)[i % 3] if share else 300, share, i)
            tensors[f"{name}.{share}"] = (w.after if step else w.before).view(dtype)
    tensors["turned"] = torch.arange(600).view(20, 30).t() + step
    tensors["view"] = tensors["f32.0.01"][3:9]
    return tensors


def octets(tensor):
    return tensor.contiguous().view(-1).view(torch.uint8)


def forget():
    """How kernels did when they were tried."""
    kernels._path.cache_clear()
    digests._sums.cache_clear()


class WithoutTriton:
    """Its interpreter would take long; what it does is tested elsewhere."""

    def run(self, result=None):
        with mock.patch.object(tried, "runs_triton", lambda device: False):
            try:
                forget()
                return super().run(result)
            finally:
                forget()


class Messages(WithoutTriton, unittest.TestCase):
    def test_the_same_bytes(self):
        mine = {name: tensor for name, tensor in model(0).items()}
        publishers = [WeightSync(mine, deltas=where) for where in ("host", "device")]
        publishers[1]._trainer = publishers[0]._trainer
        receivers = [WeightSync({name: tensor.clone() for name, tensor in model(0).items() if name != "view"},
                                deltas=where) for where in ("host", "device")]
        lists = mock.Mock(side_effect=delta.from_changes)
        for step in (0, 1, 1, 0):
            for name, tensor in model(step).items():
                mine[name].copy_(tensor)
            with mock.patch.object(delta, "from_changes", lists):
                one, other = [publisher.publish() for publisher in publishers]
            self.assertEqual(one, other, step)
            for receiver in receivers:
                receiver.receive(io.BytesIO(other), strict=False)
                for name, tensor in receiver._model.items():
                    self.assertTrue(torch.equal(octets(tensor), octets(mine[name])), (step, name))
        self.assertGreater(lists.call_count, 50)

    def test_what_is_less(self):
        """Changes of bf16 have 12 bytes each, two weights 4."""
        base = torch.zeros(3000, dtype=torch.bfloat16)
        for changed in 1000, 1001:
            now = base.clone()
            now[:changed] = 1
            frame = device_weights.frame_of(base, now, None)
            self.assertEqual(frame, delta.compress(base, now) if changed == 1000 else None)

    def test_states(self):
        """Bases in a state are on the CPU, and stay as they are."""
        source, served = alone(1), alone(2)
        publisher = WeightSync(source, deltas="device")
        receiver = WeightSync(served, deltas="device")
        receiver.receive(publisher.publish())
        state = publisher.state_dict()
        kept = {name: tensor.clone() for name, tensor in state["published"].items()}
        source.step()
        receiver.receive(publisher.publish())
        self.assertEqual(bits(served), bits(source))
        self.assertTrue(all(torch.equal(state["published"][name], tensor) for name, tensor in kept.items()))

    def test_a_base_elsewhere(self):
        """After load_state_dict() it lies on another device than the weights: it goes there, and is the caller's no
        more. (meta is the one device beside the CPU that is here.)"""
        publisher = WeightSync(alone(1), deltas="device")
        publisher.publish()
        publisher.state_dict()
        base = publisher._published["a"]
        found = publisher._base("a", base.to("meta"))
        self.assertEqual((found.device.type, "a" in publisher._lent), ("meta", False))
        self.assertIs(publisher._published["a"], found)

    def test_a_failure_halfway(self):
        """At each write: what was written is put back, of weights of 4 bits, too."""
        def weights():
            return {"a": torch.arange(256, dtype=torch.uint8).repeat(20), "b": torch.zeros(3000),
                    "c": torch.zeros(300, 7, dtype=torch.bfloat16)}
        source, served = weights(), weights()
        publisher, receiver = WeightSync(source, deltas="device"), WeightSync(served, deltas="device")
        receiver.receive(publisher.publish())
        for tensor in source.values():
            tensor.view(-1)[::50] += 1
        message = publisher.publish()
        real = kernels.apply
        for fails_at in range(3):
            calls = []

            def apply(*arguments):
                calls.append(0)
                real(*arguments)
                if len(calls) > fails_at:
                    raise MemoryError

            with mock.patch.object(kernels, "apply", apply), self.assertRaises(MemoryError):
                receiver.receive(message)
            self.assertTrue(all(torch.equal(served[name], tensor) for name, tensor in weights().items()))
        receiver.receive(message)
        self.assertTrue(all(torch.equal(served[name], tensor) for name, tensor in source.items()))

    def test_taking_nibbles_back(self):
        weights = torch.arange(100, dtype=torch.uint8)
        positions = torch.tensor([0, 1, 4, 199])
        kept = kernels.elements(weights, positions, dtype="u4")
        kernels.apply(weights, positions, torch.tensor([1, 2, 3, 4], dtype=torch.uint8), dtype="u4")
        self.assertEqual(weights.tolist()[:3], [0x21, 1, 5])
        kernels.put(weights, *kept, dtype="u4")
        self.assertEqual(weights.tolist(), list(range(100)))

    def test_many_changes(self):
        """They go to the device in batches."""
        for together in (1, 21000, 22000):
            source, served = {"a": torch.zeros(300001)}, {"a": torch.ones(300001)}
            publisher, receiver = WeightSync(source, deltas="device"), WeightSync(served, deltas="device")
            receiver.receive(publisher.publish())
            source["a"][::3] += 1
            source["a"][65536:131072] = torch.randint(-2**31, 2**31, (65536,), dtype=torch.int32).view(torch.float32)
            with mock.patch.object(device_weights, "_TOGETHER", together), \
                    mock.patch.object(kernels, "apply", mock.Mock(side_effect=kernels.apply)) as apply:
                receiver.receive(publisher.publish())
            self.assertEqual(apply.call_count, {1: 4, 21000: 4, 22000: 3}[together])
            self.assertEqual(served["a"].view(torch.int32).tolist(), source["a"].view(torch.int32).tolist())

    def test_batches(self):
        """Each has as many changes as go together, or the rest of a piece more, all of one kind."""
        def piece(n, are_values):
            return types.SimpleNamespace(are_values=are_values, positions=memoryview(bytearray(8 * n)).cast("q"),
                                         values=memoryview(bytearray(n)))

        for kinds, wanted in ((3, 3, 3, 3), [(3, 1)] * 4), ((2, 2, 2, 2, 2), [(4, 1), (4, 1), (2, 1)]), ((), []), (
                (1, -1, -1, 5), [(1, 1), (2, 0), (5, 1)]):
            pieces = [piece(abs(n), int(n > 0)) for n in kinds]
            with mock.patch.object(device_weights, "_TOGETHER", 3), \
                    mock.patch.object(delta, "changes", lambda frame: iter(pieces)):
                found = [(len(at), are) for at, by, are in device_weights._batches(b"") if len(by) == len(at)]
            self.assertEqual(found, wanted)

    def test_wrong_words(self):
        with self.assertRaisesRegex(ValueError, "deltas should be one of host, device, not 'devise': did you mean dev"):
            WeightSync(alone(), deltas="devise")


class OnDevice(WithoutTriton):
    """The tests of WeightSync, of calls that do not say where."""

    def run(self, result=None):
        defaults = {**WeightSync.__init__.__kwdefaults__, "deltas": "device"}
        with mock.patch.object(WeightSync.__init__, "__kwdefaults__", defaults):
            return super().run(result)


for _module in test_weight_sync, test_weight_pieces, test_weight_bytes:
    for _name, _case in list(vars(_module).items()):
        if isinstance(_case, type) and issubclass(_case, unittest.TestCase) and \
                _name not in ("Memory", "OlderMessages"):
            _others = {"test_a_failure_halfway": None} if _name == "AllOrNothing" else {}  # it is above
            globals()[f"{_name}OnDevice"] = type(f"{_name}OnDevice", (OnDevice, _case), _others)
del _case
