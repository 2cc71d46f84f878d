# SPDX-License-Identifier: MIT
"""What help() prints: it can be read, and has what a user needs."""
import builtins
import dataclasses
import importlib
import pydoc
import re
import unittest
from pathlib import Path

import threelc


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
            if not name.startswith("_") and name not in ("codec_strings", "context", "frames", "quartic"):
                self.assertRegex(page, rf"\b{name}\b")
        whole = re.sub(r"\(\s+", "(", "\n".join(lines(threelc)))  # Python 3.13 breaks long signatures
        for words in ("compress(self, gradient", "decompress(frame", "codec_bound(codec", "itemsize"):
            self.assertIn(words, whole)

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
