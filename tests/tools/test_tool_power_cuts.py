# SPDX-License-Identifier: MIT
"""A power cut between any two calls that write files: what was there, or what is new, is whole after it, the next run
goes on, and nothing is left of the one that was cut off. Of tlc-delta and tlc-mpi-train.

    test_tool_power_cuts.py [STATES]    at most so many states of the disk for each case; else all of them
"""
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from disk import TORN, Disk, lay_out, logged
from models import PROGRAM, Case, checkpoint, main, moved, read_folder, safetensors, tensor, write, write_folder

LIBRARY, TRAIN, MPIEXEC = (os.environ.get(f"TLC_{name}") for name in ("LOG_FILES", "MPI_TRAIN", "MPIEXEC"))
MOST = sys.maxsize
while sys.argv[1:] and sys.argv[1].isdigit():  # the last one counts
    MOST = int(sys.argv.pop(1))


class Cut(Case):
    def cut(self, folder, command, check):
        """Runs a command that works in `folder`, and calls check() with a folder for each state in which a power cut
        may leave it, and whether the command had ended then."""
        before = read_folder(folder)
        done, calls = logged(LIBRARY, folder, self.folder / "log", command)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(calls), 3)
        disk, states = Disk(before), {}
        for i, (what, path, other) in enumerate(calls):
            disk.call(what, path, other, self.folder / "log")
            for tree in disk.states():
                states.setdefault(tree, False)
                states[tree] |= i + 1 == len(calls)
        chosen = list(states.items())[::-(-len(states) // MOST)]
        for i, (tree, has_ended) in enumerate(chosen):
            place = self.folder / f"cut{i}"
            lay_out(tree, place)
            there = ", ".join(sorted(f"{path} ({len(data)} bytes)" for path, data in read_folder(place).items()))
            try:
                check(place, has_ended)
            except AssertionError as e:
                raise AssertionError(f"from {there}: {e}") from e
        print(f"# {self.id().split('.')[-1]}: {len(calls)} calls, {len(states)} states, {len(chosen)} of them tried")
        return done


class Delta(Cut):
    def setUp(self):
        super().setUp()
        base = {"a": tensor("BF16", (900,), 1)}
        self.old = write(self.folder / "old.safetensors", safetensors(base))
        self.new = write(self.folder / "new.safetensors", safetensors({"a": moved(base["a"], 1)}))
        self.work = self.folder / "work"
        self.work.mkdir()

    def test_make(self):
        write(self.work / "d", b"before")
        self.succeeds("make", self.old, self.new, self.folder / "good")
        good = (self.folder / "good").stat().st_size

        def check(place, has_ended):
            left = (place / "d").read_bytes()
            if left != b"before" or has_ended:
                self.assertEqual(len(left), good)
                self.succeeds("verify", place / "d", self.old)
            self.succeeds("make", "-f", self.old, self.new, place / "d")
            self.succeeds("verify", place / "d", self.old)
            self.assertEqual([path.name for path in place.iterdir()], ["d"])

        self.cut(self.work, [*PROGRAM, "make", "-f", self.old, self.new, self.work / "d"], check)

    def test_apply_to_a_file(self):
        self.succeeds("make", self.old, self.new, self.folder / "d")
        write(self.work / "out", b"before")
        new = self.new.read_bytes()

        def check(place, has_ended):
            self.assertIn((place / "out").read_bytes(), (new,) if has_ended else (b"before", new))
            self.succeeds("apply", "-f", self.folder / "d", self.old, place / "out")
            self.assertEqual(read_folder(place), {"out": new})

        self.cut(self.work, [*PROGRAM, "apply", "-f", self.folder / "d", self.old, self.work / "out"], check)

    def test_apply_to_a_folder(self):
        base, new = checkpoint(1, 0), checkpoint(1, 1)
        write_folder(self.folder / "base", base)
        write_folder(self.folder / "following", new)
        self.succeeds("make", self.folder / "base", self.folder / "following", self.folder / "d")

        def check(place, has_ended):
            if (place / "out").exists() or has_ended:
                self.assertEqual(read_folder(place / "out"), new)
            else:
                self.succeeds("apply", self.folder / "d", self.folder / "base", place / "out")
                self.assertEqual(read_folder(place), {f"out/{name}": data for name, data in new.items()})

        self.cut(self.work, [*PROGRAM, "apply", self.folder / "d", self.folder / "base", self.work / "out"], check)


@unittest.skipIf(not TRAIN, "tlc-mpi-train is not built")
class Train(Cut):
    def setUp(self):
        super().setUp()
        self.work, self.other = self.folder / "work", self.folder / "other"
        self.work.mkdir()
        self.other.mkdir()
        own = mock.patch.dict(os.environ, TMPDIR=str(self.folder))  # for Open MPI, as in scripts/checks.sh
        own.start()
        self.addCleanup(own.stop)

    def command(self, place, *options, ranks=1):
        launch = [MPIEXEC, "-n", str(ranks)] if ranks > 1 else []
        return [*launch, TRAIN, "--model", "mlp", "--batch", "8", "--decay", "constant", "--every", "2", "--checkpoint",
                str(place / "run"), *options]

    def train(self, place, *options, ranks=1):
        return subprocess.run(self.command(place, *options, ranks=ranks), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)

    def weights(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.search(r"^weights (\w+)$", done.stdout, re.M)[1]

    def steps_of(self, place):
        """What is in the folder of checkpoints."""
        return sorted(path.name for path in (place / "run").iterdir())

    def goes_on(self, ranks):
        """A run that saves steps 2 and 4: it goes on from the last one that is named, if there is one."""

        def check(place, has_ended):
            has_one = has_ended or (place / "run" / "latest").exists()
            done = self.train(place, "--steps", "4", "--resume", ranks=ranks)
            if not has_one:
                self.assertIn("there is no checkpoint", done.stderr)
                done = self.train(place, "--steps", "4", ranks=ranks)
            self.assertEqual(self.weights(done), whole)
            self.assertEqual(self.steps_of(place), ["latest", "step-00000004"])
            self.assertEqual(len(list((place / "run" / "step-00000004").iterdir())), ranks)

        whole = self.weights(self.train(self.other, "--steps", "4", ranks=ranks))
        self.cut(self.work, self.command(self.work, "--steps", "4", ranks=ranks), check)

    def test_steps(self):
        self.goes_on(1)

    @unittest.skipIf(MOST < 100, "mpiexec takes long")
    def test_steps_of_two_ranks(self):
        self.goes_on(2)

    def test_a_step_of_a_run_before(self):
        """A run begins anew in the folder of another one, with the same step: one of both can go on at any time."""
        first = self.weights(self.train(self.work, "--steps", "2", "--seed", "1"))
        second = self.weights(self.train(self.other, "--steps", "2", "--seed", "2"))

        def check(place, has_ended):
            found = [self.train(place, "--steps", "2", "--resume", "--seed", seed) for seed in "12"]
            codes = [done.returncode for done in found]
            self.assertIn(codes, ([1, 0],) if has_ended else ([0, 1], [1, 0]), [done.stderr for done in found])
            self.assertEqual(self.weights(found[codes.index(0)]), (first, second)[codes.index(0)])
            self.assertEqual(len(self.steps_of(place)), 2)

        self.cut(self.work, self.command(self.work, "--steps", "2", "--seed", "2"), check)


class Model(unittest.TestCase):
    """The disk itself: what is not synchronised may be lost, in any folder by itself."""

    def test_states(self):
        kept = Path(__file__).parent
        disk = Disk({"a": b"old"})
        disk.call("write", "a.part", "", kept)
        self.assertEqual(disk.states(), {(("a", b"old"),), (("a", b"old"), ("a.part", TORN))})
        disk.call("rename", "a.part", "a", kept)
        self.assertEqual(disk.states(), {(("a", b"old"),), (("a", TORN),)})
        disk.call("sync-folder", "", "", kept)
        self.assertEqual(disk.states(), {(("a", TORN),)})
        disk.call("mkdir", "f", "", kept)
        disk.call("write", "f/b", "", kept)
        disk.call("remove", "a", "", kept)
        self.assertEqual(disk.states(), {(("a", TORN),), (), (("f", ()),), (("f", (("b", TORN),)),)})


if __name__ == "__main__":
    main()
