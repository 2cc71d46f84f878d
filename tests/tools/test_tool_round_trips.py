# SPDX-License-Identifier: MIT
"""tlc-delta: what apply makes has the very bytes of the next model, whatever files it has."""
import json
import os
import random
import struct

from models import BITS, Case, checkpoint, main, moved, npy, read_folder, run, safetensors, tensor, write, write_folder


class Safetensors(Case):
    def test_every_dtype(self):
        for dtype in BITS:
            base = {"a": tensor(dtype, (40, 12), dtype), "scalar": tensor(dtype, (8,), 1), "none": (dtype, (0, 3), b"")}
            following = {name: moved(entry, 2) for name, entry in base.items()}
            with self.subTest(dtype):
                self.round_trip(safetensors(base), safetensors(following))

    def test_dtypes_that_are_not_known(self):
        base = {"a": ("F5_E1M3", (3, 9), bytes(range(17))), "b": ("X", (1,), b"")}
        self.round_trip(safetensors(base), safetensors({name: moved(entry, 1) for name, entry in base.items()}))

    def test_a_delta_is_small(self):
        base = {"a": tensor("BF16", (300, 200), 1)}
        size = self.round_trip(safetensors(base), safetensors({"a": moved(base["a"], 1, 0.005)}))
        self.assertLess(size, 300 * 200 * 2 * 0.02)
        self.assertLess(self.round_trip(safetensors(base), safetensors(base)), 600)

    def test_more_tensors_than_before_and_fewer(self):
        a, b, c = (tensor("F16", (64, 3), name) for name in "abc")
        self.round_trip(safetensors({"a": a, "b": b}), safetensors({"b": moved(b, 1), "c": c}))
        self.round_trip(safetensors({}), safetensors({"b": b}))
        self.round_trip(safetensors({"b": b}), safetensors({}))

    def test_other_shapes_dtypes_order_and_metadata(self):
        a, b = tensor("F16", (64, 3), 1), tensor("F32", (10,), 2)
        base = safetensors({"a": a, "b": b})
        self.round_trip(base, safetensors({"a": tensor("F16", (3, 64), 1), "b": tensor("F32", (11,), 2)}))
        self.round_trip(base, safetensors({"a": ("BF16", (64, 3), a[2]), "b": b}))
        self.round_trip(base, safetensors({"b": b, "a": a}))
        self.round_trip(base, safetensors({"a": a, "b": b}, {"step": "1000", "note": "ä \U0001f600"}))
        self.round_trip(base, safetensors({"a": a, "b": b}, pad=1024))

    def test_bytes_between_and_after_tensors(self):
        base = {"a": tensor("BF16", (9, 5), 1), "b": tensor("U8", (3,), 1)}
        following = {name: moved(entry, 2) for name, entry in base.items()}
        self.round_trip(safetensors(base, gap=b"\1\2\3"), safetensors(following, gap=b"\3\2\1"))
        self.round_trip(safetensors(base), safetensors(following) + bytes(1000))

    def test_names(self):
        names = ["a b", "ä", "\U0001f600", "x" * 4096, 'quote "', "new\nline", "__rest__", "%s%n", "data",
                 "__rest__/data", "__rest__/"]
        base = {name: tensor("F32", (5,), name) for name in names}
        self.round_trip(safetensors(base), safetensors({name: moved(entry, 1) for name, entry in base.items()}))

    def test_many_dimensions(self):
        for dims in 63, 64, 65, 200:
            for dtype in "F32", "C64":
                base = {"a": tensor(dtype, (1,) * (dims - 1) + (6,), dims)}
                self.round_trip(safetensors(base), safetensors({"a": moved(base["a"], 1)}))

    def test_without_a_base(self):
        draw = random.Random(1)
        data = b"".join(struct.pack("<f", draw.gauss(0, 0.02))[2:] for _ in range(60000))
        following = safetensors({"a": ("BF16", (300, 200), data)})
        self.assertLess(self.round_trip(None, following), 0.75 * len(following))

    def test_threads_make_the_same_weights(self):
        base = {"a": tensor("BF16", (600, 600), 1)}
        old = write(self.folder / "old.safetensors", safetensors(base))
        new = write(self.folder / "new.safetensors", safetensors({"a": moved(base["a"], 1)}))
        self.succeeds("make", "-j1", old, new, self.folder / "1")
        self.succeeds("make", "-j4", "--after", self.folder / "1", old, new, self.folder / "4")
        self.assertEqual((self.folder / "1").stat().st_size, (self.folder / "4").stat().st_size)
        for delta in "1", "4":
            for threads in "1", "3":
                self.succeeds("apply", "--force", "-j", threads, self.folder / delta, old, self.folder / "out")
                self.assertEqual((self.folder / "out").read_bytes(), new.read_bytes())


class Npy(Case):
    suffix = ".npy"

    def test_every_dtype(self):
        data = tensor("U8", (96,), 1)
        after = moved(data, 1)
        for descr in "<f4", ">f4", "<f2", "<f8", "<u2", "<i2", "|V2", "<i4", "<u8", "|u1", "|i1", "|b1", "<c8", ">i8", \
                "<U4", "f4":
            with self.subTest(descr):
                width = int(descr.strip("<>|fuiVbUc") or 1) * (4 if "U" in descr else 1)
                shape = (2, 96 // width // 2)
                self.round_trip(npy(descr, shape, data[2]), npy(descr, shape, after[2]))

    def test_orders_and_what_follows(self):
        data = tensor("F32", (24,), 1)[2]
        after = moved(("F32", (24,), data), 1)[2]
        self.round_trip(npy("<f4", (4, 6), data, True), npy("<f4", (4, 6), after, True))
        self.round_trip(npy("<f4", (4, 6), data), npy("<f4", (6, 4), after))
        self.round_trip(npy("<f4", (), data[:4]), npy("<f4", (), after[:4]))
        self.round_trip(npy("<f4", (24,), data, tail=b"more"), npy("<f4", (24,), after, tail=b"else"))


class Raw(Case):
    def test_bytes(self):
        for suffix in ".bin", ".bf16", ".f32", ".f16":
            self.suffix = suffix
            for size in 0, 1, 7, 4096, 70000:
                with self.subTest(suffix=suffix, size=size):
                    data = tensor("U8", (size,), 1)
                    self.round_trip(data[2], moved(data, 1)[2])
        self.suffix = ".bin"
        self.round_trip(b"longer than before", b"shorter")

    def test_dtypes(self):
        data = tensor("BF16", (5000,), 1)
        old, new = write(self.folder / "old", data[2]), write(self.folder / "new", moved(data, 1)[2])
        for dtype in "f32", "f16", "bf16", "f8_e4m3", "f8_e5m2", "f4_e2m1", "u8", "u4", "i32", "i64", "f64":
            self.succeeds("make", "-f", "--dtype", dtype, old, new, self.folder / "d")
            self.assertEqual(json.loads(run("info", "--json", self.folder / "d").stdout)["entries"][0]["dtype"], dtype)
            self.succeeds("apply", "-f", "--dtype", dtype, self.folder / "d", old, self.folder / "out")
            self.assertEqual((self.folder / "out").read_bytes(), new.read_bytes())
        write(old, b"123")
        self.refuses("old: its 3 bytes are not a multiple of 4", "make", "-d", "f32", old, new, self.folder / "x")


class Folders(Case):
    def test_shards_with_an_index(self):
        self.round_trip(checkpoint(1, 0), checkpoint(1, 1))

    def test_other_shards_than_before(self):
        size = self.round_trip(checkpoint(1, 0, 2), checkpoint(1, 1, 2))
        other = self.round_trip(checkpoint(1, 0, 2), checkpoint(1, 1, 3))
        self.assertLess(other, size + 3000) # tensors find their base in other files; headers do not

    def test_files_of_all_kinds_and_folders(self):
        base = {"a/b/x.safetensors": safetensors({"w": tensor("BF16", (50,), 1)}), "x.npy": npy("<f4", (2,), bytes(8)),
                "vocab.txt": b"one two", "empty": b"", "odd.f32": b"12345", "w.bf16": tensor("BF16", (90,), 2)[2]}
        following = dict(base, **{"a/b/x.safetensors": safetensors({"w": moved(tensor("BF16", (50,), 1), 1)}),
                                  "vocab.txt": b"one two three", "a/also empty": b""})
        del following["x.npy"]
        self.round_trip(base, following)
        self.round_trip(None, following)

    def test_the_same_name_in_several_files(self):
        parts = {f"{part}/model.safetensors": {"w": tensor("F16", (70,), part), part: tensor("F16", (7,), 1)}
                 for part in ("text", "unet", "vae")}
        base = {path: safetensors(tensors) for path, tensors in parts.items()}
        following = {path: safetensors({name: moved(entry, 1) for name, entry in tensors.items()})
                     for path, tensors in parts.items()}
        self.round_trip(base, following)

    def test_links_to_files_are_followed_and_hidden_files_left_out(self):
        files = checkpoint(1, 0)
        store = write_folder(self.folder / "blobs", {str(i): data for i, data in enumerate(files.values())})
        (self.folder / "new").mkdir()
        for i, name in enumerate(files):
            os.symlink(store / str(i), self.folder / "new" / name)
        write(self.folder / "new" / ".cache" / "lock", b"x")
        write(self.folder / "new" / ".hidden", b"x")
        self.succeeds("make", self.folder / "new", self.folder / "d")
        self.succeeds("apply", self.folder / "d", self.folder / "out")
        self.assertEqual(read_folder(self.folder / "out"), files)
        os.symlink(self.folder, self.folder / "new" / "round")
        self.refuses("round: is not a regular file", "make", self.folder / "new", self.folder / "x")

    def test_a_chain(self):
        write_folder(self.folder / "0", checkpoint(1, 0))
        after = []
        for step in range(1, 4):
            write_folder(self.folder / str(step), checkpoint(1, step))
            models = self.folder / str(step - 1), self.folder / str(step)
            self.succeeds("make", *after, *models, self.folder / f"d{step}")
            after = ["--after", self.folder / f"d{step}"]
        infos = [json.loads(run("info", "--json", self.folder / f"d{step}").stdout) for step in range(1, 4)]
        self.assertEqual([info["sequence"] for info in infos], [1, 2, 3])
        self.assertEqual(len({info["trainer"] for info in infos}), 1)
        at = self.folder / "0"
        for step in range(1, 4):
            self.refuses("the weights are not the base", "verify", self.folder / f"d{step % 3 + 1}", at)
            self.succeeds("apply", self.folder / f"d{step}", at, self.folder / f"out{step}")
            at = self.folder / f"out{step}"
        self.assertEqual(read_folder(at), checkpoint(1, 3))

    def test_an_index_that_names_a_file_that_is_not_there(self):
        files = checkpoint(1, 0)
        del files["model-00002-of-00002.safetensors"]
        write_folder(self.folder / "new", files)
        self.refuses("index.json: it names model-00002-of-00002.safetensors, which is not there", "make",
                     self.folder / "new", self.folder / "d")


class InPlace(Case):
    def test_a_folder(self):
        base, following = checkpoint(1, 0), checkpoint(1, 1)
        write_folder(self.folder / "base", base)
        write_folder(self.folder / "new", following)
        write(self.folder / "base" / "more.txt", b"stays")
        self.succeeds("make", self.folder / "base", self.folder / "new", self.folder / "d")
        before = (self.folder / "base" / "config.json").stat().st_ino
        self.succeeds("apply", "--in-place", self.folder / "d", self.folder / "base")
        self.assertEqual(read_folder(self.folder / "base"), dict(following, **{"more.txt": b"stays"}))
        self.assertEqual((self.folder / "base" / "config.json").stat().st_ino, before)
        self.succeeds("apply", "--in-place", self.folder / "d", self.folder / "base") # nothing is left to do
        self.assertEqual(read_folder(self.folder / "base"), dict(following, **{"more.txt": b"stays"}))

    def test_what_cannot_be_done_in_place_changes_nothing(self):
        a, b = tensor("F16", (64, 3), 1), tensor("F32", (10,), 2)
        base = safetensors({"a": a, "b": b})
        path = write(self.folder / "base", base)
        path = path.rename(self.folder / "base.safetensors")
        for following, said in ((safetensors({"a": a}), "after the delta"),
                                (safetensors({"b": b, "a": a}), "the weights are not the base"),
                                (safetensors({"a": moved(a, 1), "b": b}, gap=b"xx"), "after the delta")):
            new = write(self.folder / "new.safetensors", following)
            self.succeeds("make", "-f", path, new, self.folder / "d")
            self.refuses(said, "apply", "--in-place", self.folder / "d", path)
            self.assertEqual(path.read_bytes(), base)
        spoilt = bytearray(base)
        spoilt[-1] ^= 1
        write(self.folder / "new.safetensors", safetensors({"a": moved(a, 1), "b": moved(b, 1)}))
        self.succeeds("make", "-f", path, self.folder / "new.safetensors", self.folder / "d")
        path.write_bytes(spoilt)
        self.refuses("b: the weights are not the base", "apply", "--in-place", self.folder / "d", path)
        self.assertEqual(path.read_bytes(), spoilt)


if __name__ == "__main__":
    main()
