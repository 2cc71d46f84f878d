# SPDX-License-Identifier: MIT
"""tlc-delta, tlc-bench and tlc-sim: names of files in any script, and long paths, also on Windows, where the code page
has few of them; names that Windows takes for others. All of it runs in a build for Windows, too, under wine."""
import os
import signal
import struct
import subprocess
import time
import unittest

from models import PROGRAM, Case, checkpoint, main, moved, npy, read_folder, safetensors, tensor, write, write_folder

WINDOWS = PROGRAM[-1].endswith(".exe")
NAMES = "модель", "模型", "\U0001f600", "ä b"
FEW = NAMES[2:] if os.environ.get("TLC_TEST_QUICK") else NAMES


class Names(Case):
    def test_files(self):
        data = {"a": tensor("BF16", (40, 30), 1)}
        following = safetensors({"a": moved(data["a"], 1)}) + b"\r\n\n\x1a"  # text files would change these bytes
        for name in FEW:
            with self.subTest(name):
                old = write(self.folder / f"{name}.safetensors", safetensors(data))
                new = write(self.folder / f"{name}2.safetensors", following)
                delta, out = self.folder / f"{name}.delta", self.folder / f"{name}.out"
                out.write_bytes(b"before")
                self.succeeds("make", old, new, delta)
                self.succeeds("apply", "--force", delta, old, out)
                self.assertEqual(out.read_bytes(), following)

    def test_a_folder_and_in_place(self):
        base, following = ({f"{NAMES[i % 4]}/{path}": data for i, (path, data) in enumerate(files.items())
                            if "index" not in path} for files in (checkpoint(1, 0), checkpoint(1, 1)))
        old = write_folder(self.folder / "старое", base)
        new = write_folder(self.folder / "新", following)
        delta, out = self.folder / "\U0001f600.delta", self.folder / "új"
        self.succeeds("make", old, new, delta)
        self.succeeds("apply", delta, old, out)
        self.assertEqual(read_folder(out), following)
        self.succeeds("apply", "--in-place", delta, old)
        self.assertEqual(read_folder(old), following)

    def test_long_paths(self):
        deep = self.folder
        for name in "длинный" * 8, "長い名前" * 20, "x" * 200:
            deep = deep / name
        self.assertGreater(len(str(deep)), 300)
        data = {"a": tensor("F32", (40,), 1)}
        old = write(deep / "old.safetensors", safetensors(data))
        new = write(deep / "new.safetensors", safetensors({"a": moved(data["a"], 1)}))
        self.succeeds("make", old, new, deep / "d")
        self.succeeds("apply", deep / "d", old, deep / "out")
        self.assertEqual((deep / "out").read_bytes(), new.read_bytes())
        self.succeeds("apply", "--in-place", deep / "d", old)
        self.assertEqual(old.read_bytes(), new.read_bytes())

    def test_checkpoints_in_their_order(self):
        steps = "шаг-9", "шаг-10", "шаг-100"
        for i, name in enumerate(steps):
            write_folder(self.folder / "run" / name, {"w.safetensors": safetensors({"a": tensor("F16", (9,), i)})})
        said = self.succeeds("keep", self.folder / "run", "--out", self.folder / "дельты", "--once", "--settle", "0s")
        self.assertEqual(sorted(os.listdir(self.folder / "дельты")), sorted(f"{name}.delta" for name in steps))
        self.assertEqual([said.count(f"{name}.delta") > 0 for name in steps], [True] * 3)
        self.assertIn("шаг-100.delta шаг-10 шаг-100", said)


class Replaced(Case):
    """What is there stays until what takes its place is whole."""

    def test_a_file(self):
        old = write(self.folder / "old", bytes(2000))
        delta = self.folder / "дельта"
        write(self.folder / "дельта.part", b"left by a run that was killed")
        delta.write_bytes(b"before")
        self.refuses("", "make", "--force", old, self.folder / "missing", delta)
        self.assertEqual(delta.read_bytes(), b"before")
        self.succeeds("make", "--force", old, delta)
        self.assertFalse((self.folder / "дельта.part").exists())
        self.succeeds("verify", delta)

    def test_kills(self):
        old = write(self.folder / "old", bytes(range(256)) * 8000)
        delta = self.folder / "дельта"
        self.succeeds("make", old, delta)
        good = delta.read_bytes()
        for part in range(2):
            delta.write_bytes(b"before")
            with subprocess.Popen([*PROGRAM, "make", "--force", str(old), str(delta)],
                                  stdout=subprocess.DEVNULL) as process:
                time.sleep(0.02 + 0.08 * part)
                process.kill()
            self.assertTrue(delta.read_bytes() == b"before" or delta.stat().st_size == len(good))
        self.succeeds("make", "--force", old, delta)
        self.succeeds("verify", delta)

    def test_a_signal_ends_a_wait(self):
        (self.folder / "run").mkdir()
        with subprocess.Popen([*PROGRAM, "keep", str(self.folder / "run"), "--out", str(self.folder / "out"),
                               "--settle", "200s"]) as process:
            while not (self.folder / "out").exists():
                time.sleep(0.02)
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=100), 0)

    def test_an_empty_folder_is_replaced_and_no_other_one(self):
        files = {"a": b"1", "b/c": b"22"}
        base = write_folder(self.folder / "base", files)
        self.succeeds("make", base, self.folder / "d")
        out = self.folder / "выход"
        out.mkdir()
        self.succeeds("apply", self.folder / "d", out)
        self.assertEqual(read_folder(out), files)
        self.refuses("it is there already", "apply", self.folder / "d", out)


@unittest.skipUnless(os.environ.get("TLC_BENCH"), "tlc-bench and tlc-sim are not built")
class Bench(Case):
    """The other programs."""

    def report(self, program, *words):
        done = subprocess.run([*PROGRAM[:-1], os.environ[program], *map(str, words), "-q", "--format", "csv"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertNotIn(b"\r\r", done.stdout)  # CSV has \r\n everywhere
        return done.stdout.decode()

    def test_tlc_bench(self):
        folder = self.folder / "градиенты"
        for name in NAMES:
            write(folder / f"{name}.npy", npy("<f4", (2, 300), struct.pack("<600f", *(i % 7 - 3 for i in range(600)))))
        said = self.report("TLC_BENCH", folder, "-c", "3lc", "-t", "0")
        self.assertIn("3lc", said)

    def test_tlc_bench_of_models(self):
        old = write(self.folder / "старая.safetensors", safetensors({"a": tensor("BF16", (40, 30), 1)}))
        new = write(self.folder / "新.safetensors", safetensors({"a": moved(tensor("BF16", (40, 30), 1), 1)}))
        self.assertIn("delta", self.report("TLC_BENCH", "--delta", old, new, "-t", "0"))

    def test_tlc_sim(self):
        shapes = write(self.folder / "模型.txt", b"a 30x20\nb 100\n")
        self.assertIn("3lc", self.report("TLC_SIM", "--shapes", shapes, "--ranks", "2", "-c", "3lc"))


@unittest.skipUnless(WINDOWS, "of Windows")
class Windows(Case):
    def test_names_that_differ_in_case_alone(self):
        for one, other in ("Имя", "имя"), ("Folder/a", "folder/b"):
            with self.subTest(one):
                base = write_folder(self.folder / one.replace("/", "-"), {one: b"1", other: b"22"})
                delta = base.with_suffix(".d")
                self.succeeds("make", base, delta)
                self.refuses("takes another name for the same one", "apply", delta, self.folder / "out")
                self.assertEqual(list(self.folder.glob("out*")), [])


if __name__ == "__main__":
    main()
