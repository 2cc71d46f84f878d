# SPDX-License-Identifier: MIT
"""What help() prints: it can be read, and has what a user needs."""
import builtins
import dataclasses
import importlib
import inspect
import pydoc
import re
import unittest
from pathlib import Path

import threelc


# Calls with options, which are keywords, and things whose fields users may name; by module.
SIGNATURES = {
    "threelc.delta": (
        "apply(frame, weights, *, dtype=None, check_result=False, threads=None)",
        "apply_range(frame, base, out, *, n, first, dtype=None, threads=None)", "bound(n, dtype)",
        "changes(frame, *, first=0, end=None)", "check(frame, weights, *, dtype=None, threads=None)",
        "compress(base, next, *, dtype=None, digests=True, block_digests=False, threads=None)",
        "compress_into(base, next, out, *, dtype=None, digests=True, block_digests=False, threads=None)",
        "digest(weights, *, first=0, dtype=None, threads=None)", "fold(frames, *, threads=None)",
        "from_changes(positions, before, after, n, *, dtype=None, digests=None, threads=None)", "inspect(frame)",
        "peek(frame)", "repair(frame, weights, *, dtype=None, threads=None)", "Changes(positions, values, are_values)",
        "Repaired(at_result, at_base, between)"),
    "threelc.weights": (
        "Entry(number, name, dtype, shape, n, view, frame_len, has_base, base_digest, result_digest)",
        "Info(trainer, sequence, full, count, size, base_digest, result_digest, frame_max)",
        "Reader(source, *, threads=None)", "View(root, root_strides=None, strides=(), first=0)",
        "Writer(sink, *, trainer, sequence, count, note=b'')", "check_order(trainer, sequence, full, heard)",
        "Reader.apply(self, arrays)", "Reader.copy_view(self, entry, values, out)", "Reader.frame(self, entry)",
        "Writer.add(self, name, frame, shape)", "Writer.add_view(self, name, dtype, shape, view)"),
    "threelc.torch": (
        "WeightSync(model, *, threads=None, deltas='host')", "WeightSync.publish(self, *, full=False)",
        "WeightSync.publish_to(self, file, *, full=False)", "WeightSync.pieces(self, *, full=False)",
        "WeightSync.receive(self, message, *, strict=True)", "WeightSync.load_state_dict(self, state)",
        "register_fsdp(model, codec='3lc', mode='sharded', *, process_group=None, pull=None, min_numel=256, "
        "on_nonfinite='skip', momentum_correction=None, second_moment=None, compare_every=1000, seed=0, threads=None, "
        "quantize='auto', residual_dtype=torch.float32)",
        "ShardedOptimizer(model, optimizer, *, codec='3lc', pull=None, groups=None, max_norm=None, "
        "momentum_correction=None, second_moment=None, warmup_steps=0, scaler=None, buffers='own', overlap=False, "
        "bucket_mb=25.0, min_numel=256, compare_every=1000, seed=0, threads=None, quantize='auto', "
        "residual_dtype=torch.float32, process_group=None)",
        "PushPull(model, optimizer, *, servers=1, codec='3lc', pull=None, groups=None, max_norm=None, "
        "momentum_correction=None, second_moment=None, warmup_steps=0, scaler=None, buffers='own', backup=0, "
        "min_numel=256, compare_every=1000, seed=0, threads=None, quantize='auto', residual_dtype=torch.float32, "
        "process_group=None)",
        "ShardedOptimizer.step(self, weight=1.0, **scaling)", "ShardedOptimizer.zero_grad(self, set_to_none=True)",
        "ShardedOptimizer.load_state_dict(self, states, lost=False)")}


def lines(thing):
    return pydoc.plain(pydoc.render_doc(thing)).splitlines()


class Help(unittest.TestCase):
    def test_lengths(self):
        """Modules, and each public class: without what enums and exceptions inherit from Python's own."""
        for name, most in (("threelc", 300), ("threelc.delta", 400), ("threelc.exchange", 1200),
                           ("threelc.torch", 2200)):
            try:
                found = lines(importlib.import_module(name))
            except ImportError as error:
                self.assertIn("torch", str(error))
                continue
            self.assertLess(len(found), most, name)
            self.assertNotIn("as_integer_ratio", "\n".join(found), name)
        for enum in threelc.DType, threelc.Isa, threelc.EntryKind, threelc.Status, threelc.exchange.GraphKind:
            self.assertLess(len(lines(enum)), 100, enum)
            for member in enum:
                self.assertTrue(any(member.name in line for line in lines(enum)), member)

    def test_what_it_says(self):
        """The first page has each public name, and so does the list of what it describes."""
        page = threelc.__doc__
        for name in {**{name: 0 for name in threelc.__all__}, **vars(threelc)}:
            if not name.startswith("_") and name not in ("codec_strings", "context", "frames", "members", "quartic"):
                self.assertRegex(page, rf"\b{name}\b")
        whole = re.sub(r"\(\s+", "(", "\n".join(lines(threelc)))  # Python 3.13 breaks long signatures
        for words in ("compress(self, gradient", "decompress(frame", "codec_bound(codec", "itemsize"):
            self.assertIn(words, whole)

    def test_signatures(self):
        """How calls of deltas and weights are made, which programs rely on."""
        for module, calls in SIGNATURES.items():
            try:
                here = importlib.import_module(module)
            except ImportError as error:
                self.assertIn("torch", str(error))
                continue
            for call in calls:
                thing = here
                for part in call[:call.index("(")].split("."):
                    thing = getattr(thing, part)
                found = inspect.signature(thing)
                bare = [each.replace(annotation=each.empty) for each in found.parameters.values()]
                self.assertEqual(str(found.replace(parameters=bare, return_annotation=found.empty)),
                                 call[call.index("("):], call)

    def test_exceptions(self):
        """Those that the package names are there."""
        named = {}
        for path in Path(threelc.__file__).parent.rglob("*.py"):
            for name in re.findall(r"\b[A-Z]\w*Error\b", path.read_text("utf-8")):
                named.setdefault(name, path.name)
        self.assertIn("BaseError", named)
        for name, path in named.items():
            self.assertTrue(hasattr(threelc, name) or hasattr(builtins, name), f"{name} in {path}")

    def test_enums_are_numbers(self):
        """dir() and help() are short, all else is as in an IntEnum."""
        self.assertEqual([name for name in dir(threelc.DType) if name[0] != "_"],
                         sorted([*threelc.DType.__members__, "bits", "itemsize"]))
        self.assertEqual((threelc.DType.BF16 + 1, threelc.DType(1), threelc.DType["F32"], list(threelc.DType)),
                         (3, threelc.DType.F16, 0, list(range(11))))
        self.assertTrue(issubclass(threelc.Status, int))

    def test_fields_are_frozen(self):
        """Of all public classes that only have fields none can be set."""
        found = {}
        for name in "codec_strings", "delta", "exchange", "frames", "weights", "torch":
            try:
                things = vars(importlib.import_module(f"threelc.{name}")).values()
            except ImportError as error:
                self.assertIn("torch", str(error))
                continue
            found.update({thing.__name__: thing for thing in things
                          if isinstance(thing, type) and dataclasses.is_dataclass(thing)})
        self.assertGreaterEqual(len(found), 14)
        for name, kind in found.items():
            with self.assertRaises(dataclasses.FrozenInstanceError, msg=name):
                setattr(object.__new__(kind), dataclasses.fields(kind)[0].name, 0)
