# SPDX-License-Identifier: MIT
"""tlc-delta: disks that are full, kills and signals at any moment. What was there before stays until what is new is
whole, and another run completes it."""
import fcntl
import os
import random
import resource
import signal
import subprocess
import time

from models import PROGRAM, Case, checkpoint, main, moved, read_folder, safetensors, tensor, write, write_folder


def limited(size):
    """Files can have at most `size` bytes, as on a disk that is full."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def large(seed, entries=24, size=1 << 20):
    """A model whose delta takes some time, and one that follows it."""
    draw = random.Random(seed)
    base = {f"t{i}": ("BF16", (size // 2,), draw.randbytes(size)) for i in range(entries)}
    following = {}
    for i, (name, (dtype, shape, data)) in enumerate(base.items()):
        changed = bytearray(data)
        for at in range(i, size, 97):
            changed[at] ^= 1
        following[name] = (dtype, shape, bytes(changed))
    return base, following


class Full(Case):
    def test_make_and_apply_to_a_file(self):
        base = {"a": tensor("BF16", (9000,), 1)}
        old = write(self.folder / "old.safetensors", safetensors(base))
        new = write(self.folder / "new.safetensors", safetensors({"a": moved(base["a"], 1)}))
        delta, out = write(self.folder / "d", b"before"), write(self.folder / "out", b"before")
        self.succeeds("make", old, new, self.folder / "good")
        for size in 0, 100, 200:
            self.refuses("File too large", "make", "-f", old, new, delta, preexec_fn=limited(size))
            self.assertEqual(delta.read_bytes(), b"before")
        for size in 0, 4096, 17000:
            self.refuses("File too large", "apply", "-f", self.folder / "good", old, out, preexec_fn=limited(size))
            self.assertEqual(out.read_bytes(), b"before")
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name.endswith(".part")], [])

    def test_apply_to_a_folder(self):
        write_folder(self.folder / "base", checkpoint(1, 0))
        write_folder(self.folder / "new", checkpoint(1, 1))
        self.succeeds("make", self.folder / "base", self.folder / "new", self.folder / "d")
        for size in 0, 100, 3000:
            self.refuses("File too large", "apply", self.folder / "d", self.folder / "base", self.folder / "out",
                         preexec_fn=limited(size))
            self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["base", "d", "new"])
        (self.folder / "out").mkdir()
        self.refuses("File too large", "apply", self.folder / "d", self.folder / "base", self.folder / "out",
                     preexec_fn=limited(100))
        self.assertEqual(list((self.folder / "out").iterdir()), [])
        self.succeeds("apply", self.folder / "d", self.folder / "base", self.folder / "out")
        self.assertEqual(read_folder(self.folder / "out"), checkpoint(1, 1))

    def test_output_that_cannot_be_written(self):
        write_folder(self.folder / "new", checkpoint(1, 1))
        self.succeeds("make", self.folder / "new", self.folder / "d")
        with open("/dev/full", "w") as full:
            done = subprocess.run([*PROGRAM, "info", str(self.folder / "d")], stdout=full, stderr=subprocess.PIPE,
                                  text=True, check=False)
        self.assertEqual((done.returncode, done.stderr),
                         (1, "tlc-delta: standard output: No space left on device\n"))


class Killed(Case):
    def setUp(self):
        super().setUp()
        base, following = large(1)
        self.old = write(self.folder / "old.safetensors", safetensors(base))
        self.new = write(self.folder / "new.safetensors", safetensors(following))
        self.following = self.new.read_bytes()
        self.delta = self.folder / "d"

    def took(self, *words):
        start = time.monotonic()
        self.succeeds(*words)
        return time.monotonic() - start

    def kill(self, number, after, *words):
        """Starts a command and sends it a signal. Returns the process after its end."""
        process = subprocess.Popen([*PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        time.sleep(after)
        process.send_signal(number)
        process.said = process.communicate()[1]
        return process

    def test_make(self):
        whole = self.took("make", self.old, self.new, self.delta)
        good = self.delta.stat().st_size
        draw = random.Random(1)
        self.delta.write_bytes(b"before")
        for _ in range(15):
            self.kill(signal.SIGKILL, draw.uniform(0, 1.1 * whole), "make", "-f", self.old, self.new, self.delta)
            self.assertIn(self.delta.stat().st_size, (6, good))
            if self.delta.stat().st_size == good:
                self.succeeds("verify", self.delta, self.old)
                self.delta.write_bytes(b"before")
        self.succeeds("make", "-f", self.old, self.new, self.delta)
        self.assertFalse((self.folder / "d.part").exists())
        self.succeeds("verify", self.delta, self.old)

    def test_apply(self):
        self.succeeds("make", self.old, self.new, self.delta)
        out = self.folder / "out"
        whole = self.took("apply", self.delta, self.old, out)
        draw = random.Random(2)
        for _ in range(15):
            out.write_bytes(b"before")
            self.kill(signal.SIGKILL, draw.uniform(0, 1.1 * whole), "apply", "-f", self.delta, self.old, out)
            self.assertIn(out.read_bytes(), (b"before", self.following))
        self.succeeds("apply", "-f", self.delta, self.old, out)
        self.assertEqual(out.read_bytes(), self.following)
        self.assertFalse((self.folder / "out.part").exists())

    def test_apply_to_a_folder(self):
        (self.folder / "base").mkdir()
        (self.folder / "following").mkdir()
        self.old.rename(self.folder / "base" / "m.safetensors")
        self.new.rename(self.folder / "following" / "m.safetensors")
        self.succeeds("make", self.folder / "base", self.folder / "following", self.delta)
        out, words = self.folder / "out", ("apply", self.delta, self.folder / "base", self.folder / "out")
        whole = self.took(*words)
        draw = random.Random(3)
        for _ in range(12):
            if out.exists():
                self.assertEqual(read_folder(out), {"m.safetensors": self.following})
                out.rename(self.folder / f"done{draw.random()}")
            self.kill(signal.SIGKILL, draw.uniform(0, 1.1 * whole), *words)
        write(self.folder / "out.part" / "left" / "over", b"x")
        if not out.exists():
            self.succeeds(*words)
            self.assertFalse((self.folder / "out.part").exists())
        self.assertEqual(read_folder(out), {"m.safetensors": self.following})

    def test_signals_that_ask_leave_nothing(self):
        self.delta.write_bytes(b"before")
        stopped = 0
        for i in range(12):
            number = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[i % 3]
            process = self.kill(number, 0.004 * i, "make", "-f", self.old, self.new, self.delta)
            if process.returncode == 1:
                stopped += 1
                self.assertIn("stopped by a signal", process.said)
                self.assertFalse((self.folder / "d.part").exists())
                self.assertEqual(self.delta.read_bytes(), b"before")
            elif process.returncode == 0:
                self.delta.write_bytes(b"before")
            else: # before the program was ready for it
                self.assertEqual((process.returncode, process.said), (-number, ""))
        self.assertGreater(stopped, 0)

    def test_two_runs_at_once(self):
        with open(self.folder / "d.part", "wb") as part:
            fcntl.flock(part, fcntl.LOCK_EX)
            self.refuses("d.part: another run writes it", "make", self.old, self.new, self.delta)
        self.succeeds("make", self.old, self.new, self.delta) # what is left of a run that is gone is in nobody's way

    def test_a_file_that_becomes_shorter(self):
        process = subprocess.Popen([*PROGRAM, "make", "-j1", self.old, self.new, self.delta], stderr=subprocess.PIPE,
                                   text=True)
        while not (self.folder / "d.part").exists() and process.poll() is None:
            pass
        os.truncate(self.new, 1000)
        said = process.communicate()[1]
        self.assertIn((process.returncode, said), ((0, ""), (
            1, "tlc-delta: a file became shorter while it was read, or its disk is full or broken\n")))


class Torn(Case):
    def setUp(self):
        super().setUp()
        base, following = large(2, entries=12)
        self.old, self.new = safetensors(base), safetensors(following)
        self.path = write(self.folder / "base.safetensors", self.old)
        write(self.folder / "new.safetensors", self.new)

    def in_place(self):
        return subprocess.Popen([*PROGRAM, "apply", "--in-place", str(self.folder / "d"), str(self.path)],
                                stderr=subprocess.PIPE, text=True)

    def tear(self, times, *options):
        """Kills runs that change a file in place, and lets another one complete it. Returns how many were between base
        and result, and how many of these were refused. Their files did not change then."""
        self.succeeds("make", *options, self.path, self.folder / "new.safetensors", self.folder / "d")
        start = time.monotonic()
        self.succeeds("apply", "--in-place", self.folder / "d", self.path)
        whole = time.monotonic() - start
        draw = random.Random(4)
        between = refused = 0
        for _ in range(times):
            self.path.write_bytes(self.old)
            with self.in_place() as process:
                time.sleep(draw.uniform(0.3 * whole, 1.1 * whole))
                process.kill()
            left = self.path.read_bytes()
            between += left not in (self.old, self.new)
            with self.in_place() as process:
                said = process.communicate()[1]
            if process.returncode:
                self.assertIn("the weights are not the base", said)
                refused += 1
            self.assertEqual(self.path.read_bytes(), left if process.returncode else self.new)
        print(f"# of {times} kills {between} left the file between base and result, {refused} of them were refused")
        return between, refused

    def test_digests_of_blocks_complete_what_is_torn(self):
        between, refused = self.tear(30, "--block-digests")
        self.assertGreater(between, 0)
        self.assertEqual(refused, 0)

    def test_without_digests_of_blocks_what_is_torn_is_refused(self):
        self.tear(20)
        self.path.write_bytes(self.old[:-1000] + self.new[-1000:]) # the last tensor is at neither
        with self.in_place() as process:
            self.assertIn("the weights are not the base", process.communicate()[1])

    def test_a_header_that_is_torn(self):
        """Its digest tells: nothing of a file is believed that is neither the base nor the result."""
        self.succeeds("make", "--block-digests", self.path, self.folder / "new.safetensors", self.folder / "d")
        for at in 0, 8, 50:
            torn = bytearray(self.old)
            torn[at] ^= 1
            self.path.write_bytes(torn)
            self.refuses("__rest__/data", "apply", "--in-place", self.folder / "d", self.path)
            self.assertEqual(self.path.read_bytes(), torn)


if __name__ == "__main__":
    main()
