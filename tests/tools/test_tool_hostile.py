# SPDX-License-Identifier: MIT
"""tlc-delta: files and deltas that may be any bytes are refused with a line that says what is wrong with them, and
nothing is written."""
import json
import os
import random
import struct

from models import Case, checkpoint, main, npy, run, with_header, write, write_folder

A = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def entry(**changes):
    return {key: value for key, value in dict(A, **changes).items() if value is not None}


class Headers(Case):
    def check(self, said, data):
        path = write(self.folder / "a.safetensors", data)
        self.refuses(said, "make", path, self.folder / "d")
        self.assertEqual(sorted(file.name for file in self.folder.iterdir()), ["a.safetensors"])

    def test_lengths(self):
        self.check("is too short", b"")
        self.check("is too short", b"1234567")
        self.check("its header would have 18446744073709551615 bytes", b"\xff" * 8 + b"{}")
        self.check("its header would have 100000001 bytes", struct.pack("<Q", 100000001) + b"{}")
        self.check("is cut: its header has 3 bytes", struct.pack("<Q", 3) + b"{}")
        self.check("JSON is malformed", with_header(b""))

    def test_json(self):
        for text in b"{", b"[", b"{]", b"nul", b"{}{}", b'{"a":}', b'{"a"}', b'{"a":1,}', b"\xff", b'{"a\0":1}', \
                b'{"a\\u0000":{}}', b'{"\xc3":{}}', b"\0" * 100, b'{"a": 99999999999999999999}', b"[" * 100000:
            self.check("its JSON is malformed", with_header(text))
        for text in b"[]", b"[[]]":
            self.check("its header is no JSON object", with_header(text))
        self.check("duplicate object key", with_header(b'{"a": {}, "a": {}}'))
        self.check("takes too much memory", with_header(b'{"a":[' + b"[]," * 1000000 + b"[]]}"))

    def test_entries(self):
        for value in None, 1, "text", [], {}, entry(dtype=None), entry(dtype=1), entry(data_offsets=None), \
                entry(data_offsets=[]), entry(data_offsets=[0]), entry(data_offsets=[0, 8, 8]), \
                entry(data_offsets=[8, 0]), entry(data_offsets=[-8, 0]), entry(data_offsets=[0, 8.0]), \
                entry(data_offsets=["0", "8"]), entry(data_offsets={"0": 8}):
            self.check("a: its dtype or data_offsets are missing or malformed", with_header({"a": value}, bytes(8)))
        for shape in None, 2, "2", [2.0], [-2], [None], [[2]], {"2": 2}, [1 << 62, 1 << 62], [0, 1 << 62, 1 << 62], \
                [(1 << 63) - 1]:
            self.check("a: its shape is malformed or too large", with_header({"a": entry(shape=shape)}, bytes(8)))
        for shape in [], [1], [3], [2, 2], [0], [1 << 50]:
            self.check("values of F32 are not 8 bytes", with_header({"a": entry(shape=shape)}, bytes(8)))
        self.check("3 values of F4 are not 2 bytes",
                   with_header({"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}}, bytes(2)))
        self.check("a tensor has a name of 0 bytes", with_header({"": A}, bytes(8)))
        self.check("a tensor has a name of 4097 bytes", with_header({"x" * 4097: A}, bytes(8)))

    def test_places(self):
        self.check("a is at bytes", with_header({"a": A}, bytes(7)))
        self.check("a is at bytes", with_header({"a": entry(data_offsets=[1 << 40, (1 << 40) + 8])}, bytes(8)))
        big = (1 << 63) - 1
        self.check("a is at bytes", with_header({"a": entry(data_offsets=[big - 8, big])}, bytes(8)))
        self.check("a and b overlap", with_header({"a": A, "b": entry(data_offsets=[4, 12])}, bytes(12)))
        self.check("overlap", with_header({"a": A, "b": A}, bytes(8)))
        empty = {"dtype": "F32", "shape": [0], "data_offsets": [4, 4]}
        self.check("a and b overlap", with_header({"a": A, "b": empty}, bytes(8)))
        self.check("bytes of it are in no tensor", with_header({}, bytes((128 << 20) + 1)))

    def test_texts_are_made_printable(self):
        path = write(self.folder / "a.safetensors", with_header({"\x1b[31m\x07": 1}))
        done = run("make", path, self.folder / "d")
        self.assertTrue(done.stderr.isprintable() or done.stderr[:-1].isprintable(), done.stderr)

    def test_npy(self):
        path = write(self.folder / "a.npy", npy("<f4", (1 << 40,), bytes(8)))
        self.refuses("its shape needs", "make", path, self.folder / "d")
        write(path, npy("<f4", (1 << 62, 1 << 62), bytes(8)))
        self.refuses("its shape", "make", path, self.folder / "d")


class Files(Case):
    def test_what_is_no_file(self):
        self.refuses("missing: No such file", "make", self.folder / "missing", self.folder / "d")
        (self.folder / "empty").mkdir()
        self.refuses("empty: there is no file in it", "make", self.folder / "empty", self.folder / "d")
        os.mkfifo(self.folder / "pipe")
        self.refuses("pipe: is not a regular file", "make", self.folder / "pipe", self.folder / "d")
        deep = self.folder / "deep"
        write(deep.joinpath(*["f"] * 17) / "x", b"x")
        self.refuses("more than 16 folders in folders", "make", deep, self.folder / "d")
        bad = os.path.join(os.fsencode(self.folder), b"bad")
        os.mkdir(bad)
        with open(os.path.join(bad, b"\xff"), "wb"):
            pass
        self.refuses("its name is no UTF-8", "make", os.fsdecode(bad), self.folder / "d")

    def test_outputs_that_are_there(self):
        path = write(self.folder / "a.bin", b"abc")
        delta = write(self.folder / "d", b"keep")
        self.refuses("d: it is there already (--force replaces it)", "make", path, delta)
        self.assertEqual(delta.read_bytes(), b"keep")
        self.succeeds("make", "--force", path, delta)
        os.mkfifo(self.folder / "pipe")
        os.symlink("/dev/null", self.folder / "link")
        for special in "pipe", "link":
            for force in [], ["--force"]:
                self.refuses(special + ": it is not a file", "make", *force, path, self.folder / special)
        self.assertTrue((self.folder / "pipe").is_fifo() and (self.folder / "link").is_symlink())
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith(".part")], [])
        out = write(self.folder / "out", b"keep")
        self.refuses("out: it is there already", "apply", delta, out)
        self.assertEqual(out.read_bytes(), b"keep")
        self.refuses("No such file", "make", path, self.folder / "no" / "d")
        self.refuses("it is a folder", "apply", delta, self.folder)
        files = write_folder(self.folder / "files", checkpoint(1, 0))
        self.succeeds("make", files, self.folder / "folder.d")
        self.refuses("it is there already; choose another name", "apply", "-f", self.folder / "folder.d", files)
        (self.folder / "nothing").mkdir()
        self.succeeds("apply", self.folder / "folder.d", self.folder / "nothing")


class Deltas(Case):
    def setUp(self):
        super().setUp()
        self.base = write_folder(self.folder / "base", checkpoint(1, 0))
        new = write_folder(self.folder / "new", checkpoint(1, 1))
        self.delta = self.folder / "d"
        self.succeeds("make", self.base, new, self.delta)

    def test_altered_and_cut(self):
        good = self.delta.read_bytes()
        draw = random.Random(1)
        for i in range(150):
            bad = bytearray(good)
            if i % 3:
                bad[draw.randrange(len(bad))] ^= 1 << draw.randrange(8)
            else:
                del bad[draw.randrange(len(bad)):]
            self.delta.write_bytes(bad)
            done = run("apply", self.delta, self.base, self.folder / "out")
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), (i, done.stderr))
            self.assertFalse((self.folder / "out").exists())
            self.assertFalse((self.folder / "out.part").exists())
            self.assertEqual(run("info", self.delta).returncode, 1)
        self.delta.write_bytes(b"")
        self.refuses("d: ", "info", self.delta)

    def test_other_bases(self):
        self.refuses("it needs the base", "apply", self.delta, self.folder / "out")
        self.refuses("it needs the base", "verify", self.delta)
        other = write_folder(self.folder / "other", checkpoint(2, 0))
        self.refuses("the weights are not the base", "apply", self.delta, other, self.folder / "out")
        (other / "config.json").unlink()
        self.refuses("config.json: the base does not have it", "apply", self.delta, other, self.folder / "out")
        wide = write_folder(self.folder / "wide", checkpoint(1, 0, width=100))
        self.refuses("in the base it has another dtype or shape", "verify", self.delta, wide)
        self.refuses("the delta is for a folder", "apply", "--in-place", self.delta, self.base / "config.json")


class CommandLine(Case):
    def test_wrong_ones(self):
        for said, words in (("which command?", ()), ("mak: there is no such command", ("mak",)),
                            ("did you mean make?", ("mak",)), ("make: it takes [BASE] NEXT DELTA", ("make", "a")),
                            ("make: it takes [BASE] NEXT DELTA", ("make", "a", "b", "c", "d")),
                            ("apply: it takes DELTA [BASE] OUT", ("apply", "a")),
                            ("info: it takes a DELTA", ("info",)), ("keep: it needs --out", ("keep", "a")),
                            ("--json: it is no option of make", ("make", "a", "b", "--json")),
                            ("--force: it is no option of info", ("info", "a", "-f")),
                            ("--after: it is no option of apply", ("apply", "-a", "x", "a", "b")),
                            ("--once: it is no option of make", ("make", "a", "b", "--once")),
                            ("--dtype: it is no option of info", ("info", "a", "-d", "u8")),
                            ("--in-place: it takes DELTA and BASE", ("apply", "--in-place", "a", "b", "c")),
                            ("--jsn: there is no such option", ("info", "a", "--jsn")),
                            ("--threads 0: it is a whole number from 1 to 256", ("info", "a", "-j", "0")),
                            ("--dtype f33: it is f32, f16", ("make", "a", "b", "-d", "f33"))):
            self.refuses(said, *words, status=2)
        self.assertIn("usage: tlc-delta make", self.succeeds("--help"))
        self.assertIn("tlc-delta (libthreelc)", self.succeeds("--version"))


if __name__ == "__main__":
    main()
