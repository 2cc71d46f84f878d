# SPDX-License-Identifier: MIT
"""Each ctypes declaration against the headers, as gcc reads them."""
import ctypes
import dataclasses
import enum
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import threelc
from threelc import Status, _c, codec_strings, delta, exchange

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ("threelc.h", "bundle.h", "delta.h", "exchange.h", "gossip.h", "local.h", "weights.h")
PARTLY = ("frames.h", "stages.h")  # the package uses a few of their functions
STRUCTS = {"tlc_" + re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower(): kind for name, kind in vars(_c).items()
           if isinstance(kind, type) and issubclass(kind, ctypes.Structure) and kind is not ctypes.Structure}
PARTLY_STRUCTS = {"tlc_members_params", "tlc_quartic_params"}
ENUMS = {
    "tlc_status": (Status, "TLC_ERR_"), "tlc_dtype": (_c.DType, "TLC_"), "tlc_isa": (_c.Isa, "TLC_ISA_"),
    "tlc_entry_kind": (_c.EntryKind, "TLC_ENTRY_"), "tlc_format": (_c.Format, "TLC_FORMAT_"),
    "tlc_gossip_kind": (_c.GossipKind, "TLC_GOSSIP_"), "tlc_graph_kind": (_c.GraphKind, "TLC_GRAPH_")}
OPAQUE = ("tlc_ctx", "tlc_worker", "tlc_server", "tlc_allreduce", "tlc_gossip", "tlc_weights_writer",
          "tlc_weights_reader")
FUNCTIONS = {("tlc_allocator", "alloc"): _c.ALLOC, ("tlc_allocator", "free"): _c.FREE, ("tlc_parallel", "run"): _c.RUN}
SCALARS = {
    "int": ctypes.c_int, "size_t": ctypes.c_size_t, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64,
    "float": ctypes.c_float, "double": ctypes.c_double, "uint8_t": ctypes.c_ubyte, "unsigned char": ctypes.c_ubyte,
    "char": ctypes.c_char, "tlc_weights_write": _c.WEIGHTS_WRITE, "tlc_weights_read": _c.WEIGHTS_READ,
    "tlc_weights_find": _c.WEIGHTS_FIND}


def includes(headers):
    return "".join(f"#include <threelc/{name}>\n" for name in headers)


def preprocessed(headers, but=()):
    """The declarations of the headers alone, in one line, without comments and macros. but: not those of these."""
    text = includes(headers)
    done = subprocess.run(["gcc", "-E", "-I", str(ROOT / "include"), "-x", "c", "-"], input=text, text=True, check=True,
                          capture_output=True).stdout
    lines, ours = [], False
    for line in done.splitlines():
        mark = re.match(r'# \d+ "([^"]*)"', line)
        if mark:
            ours = "/threelc/" in mark.group(1) and Path(mark.group(1)).name not in but
        elif ours:
            lines.append(line)
    return " ".join(lines).replace('__attribute__((visibility("default")))', "")


def ctype_of(declaration):
    """What the declarations should have for a C type: floats, void and opaque objects are plain pointers."""
    words = re.sub(r"\bconst\b", " ", declaration)
    depth = words.count("*")
    base = " ".join(words.replace("*", " ").split())
    if base == "void" and depth == 0:
        return None
    if base in ENUMS:
        base = "int"
    if depth and (base in OPAQUE or base in ("float", "void")):
        kind, depth = ctypes.c_void_p, depth - 1
    elif depth and base == "char":
        kind, depth = ctypes.c_char_p, depth - 1
    else:
        kind = STRUCTS.get(base) or SCALARS[base]
    for _ in range(depth):
        kind = ctypes.POINTER(kind)
    return kind


def fields_of(body):
    """Name and type of each field of a struct; function pointers have no type here."""
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        function = re.match(r"[\w *]+\(\*(\w+)\)", declaration)
        if function:
            yield function.group(1), None
            continue
        base, declarators = re.match(r"((?:const )?(?:unsigned )?\w+)(.*)", declaration).groups()
        for declarator in declarators.split(","):
            stars, name, length = re.match(r"([* ]*)(\w+)(?:\[(\d+)\])?$", declarator).groups()
            kind = ctype_of(base + stars)
            yield name, kind * int(length) if length else kind


class Declarations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = preprocessed(HEADERS)
        cls.partly = preprocessed(PARTLY, but=HEADERS)

    def compiled(self, lines):
        """What a C program prints."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "p.c")
            source.write_text("#include <stdio.h>\n" + includes(HEADERS + PARTLY) + "int main(void) {\n" +
                              "\n".join(lines) + "\nreturn 0; }\n")
            subprocess.run(["gcc", "-I", str(ROOT / "include"), "-o", f"{folder}/p", str(source)], check=True)
            return subprocess.run([f"{folder}/p"], check=True, capture_output=True, text=True).stdout.split()

    def test_functions(self):
        def functions(text):
            return {name: (result, arguments) for result, name, arguments in
                    re.findall(r"([\w *]+?)\b(tlc_\w+)\(([^()]*)\);", text)}

        found = functions(self.text)
        self.assertGreater(len(found), 100)
        some = {name: what for name, what in functions(self.partly).items() if name in _c.FUNCTIONS}
        self.assertTrue(some)
        found.update(some)
        for name in {name for name in found if name.endswith("_init")} - _c.FUNCTIONS.keys():
            del found[name]  # it sets struct_size and zeros, which ctypes does
        self.assertEqual(sorted(found), sorted(_c.FUNCTIONS))
        for name, (result, arguments) in found.items():
            types = [] if arguments.strip() == "void" else [
                ctype_of(re.sub(r"\w+$", "", a.strip())) for a in arguments.split(",")]
            self.assertEqual((ctype_of(result), *types), tuple(_c.FUNCTIONS[name]), name)

    def test_fields_of_structs(self):
        def structs(text):
            return {name: body for body, name in re.findall(r"typedef struct \w+ {([^{}]*)} (tlc_\w+);", text)}

        found = structs(self.text)
        self.assertEqual(found.keys(), STRUCTS.keys() - PARTLY_STRUCTS)
        found.update({name: body for name, body in structs(self.partly).items() if name in PARTLY_STRUCTS})
        self.assertEqual(found.keys(), STRUCTS.keys())
        for name, body in found.items():
            declared = [(field, FUNCTIONS.get((name, field), kind)) for field, kind in fields_of(body)]
            self.assertEqual(declared, list(STRUCTS[name]._fields_), name)

    def test_layout_of_structs(self):
        lines, expected = [], []
        for name, struct in STRUCTS.items():
            lines.append(f'printf("%zu\\n", sizeof({name}));')
            expected.append(ctypes.sizeof(struct))
            for field, kind in struct._fields_:
                lines.append(f'printf("%zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));')
                expected += [getattr(struct, field).offset, ctypes.sizeof(kind)]
        self.assertEqual([int(word) for word in self.compiled(lines)], expected)

    def test_enums(self):
        enums = dict((name, body) for body, name in re.findall(r"typedef enum \w+ {([^{}]*)} (tlc_\w+);", self.text))
        self.assertEqual(sorted(enums), sorted(ENUMS))
        for name, body in enums.items():
            kind, prefix = ENUMS[name]
            self.assertTrue(issubclass(kind, enum.IntEnum))
            found = {}
            for key, value in re.findall(r"(\w+) = (\d+)", body):
                found[key[len(prefix):] if key.startswith(prefix) else key[len("TLC_"):]] = int(value)
            self.assertEqual(found, {member.name: member.value for member in kind}, name)

    def test_numbers(self):
        found = self.compiled(['printf("%llu %u %zu\\n", (unsigned long long)TLC_UNKNOWN, TLC_NOBODY, TLC_ALL);',
                               'printf("%d %d ", TLC_MESSAGE_SIZE, TLC_WEIGHTS_TRAINER_SIZE);',
                               'printf("%d\\n", TLC_STARVES_FROM);'])
        self.assertEqual([int(word) for word in found], [_c.UNKNOWN, _c.NOBODY, _c.ALL, _c.MESSAGE_SIZE,
                                                         _c.TRAINER_SIZE, exchange.STARVES_FROM])

    def test_widths(self):
        for dtype, bits in ((_c.DType.F32, 32), (_c.DType.F16, 16), (_c.DType.BF16, 16), (_c.DType.F8_E4M3, 8),
                            (_c.DType.F8_E5M2, 8), (_c.DType.F4_E2M1, 4), (_c.DType.U8, 8), (_c.DType.U4, 4),
                            (_c.DType.I32, 32), (_c.DType.I64, 64), (_c.DType.F64, 64)):
            self.assertEqual((dtype.bits, dtype.itemsize), (bits, bits // 8))


class Records(unittest.TestCase):
    def test_nobody_changes_them(self):
        """Statistics, entries of lists, settings: what calls return."""
        found = {kind for module in (threelc, codec_strings, delta, exchange) for kind in vars(module).values()
                 if dataclasses.is_dataclass(kind)}
        self.assertGreater(len(found), 5)
        for kind in found:
            self.assertTrue(kind.__dataclass_params__.frozen, kind)
