# SPDX-License-Identifier: MIT
"""tlc-delta keep: a delta for each new checkpoint, from which each checkpoint can be made."""
import json
import os
import shutil
import signal
import subprocess
import time

from models import PROGRAM, Case, checkpoint, main, read_folder, run, safetensors, tensor, write, write_folder


class Keep(Case):
    def setUp(self):
        super().setUp()
        self.run_folder, self.out = self.folder / "run", self.folder / "deltas"
        self.run_folder.mkdir()

    def save(self, step, name=None):
        return write_folder(self.run_folder / (name or f"checkpoint-{step}"), checkpoint(1, step))

    def keep(self, *words, settle="0s"):
        return self.succeeds("keep", self.run_folder, "--out", self.out, "--settle", settle, "--once", *words)

    def written(self):
        return sorted(path.name for path in self.out.iterdir())

    def info(self, name):
        return json.loads(run("info", "--json", self.out / name).stdout)

    def check(self, steps):
        """Makes each checkpoint of the one before it."""
        at = None
        for step in steps:
            delta, out = self.out / f"checkpoint-{step}.delta", self.folder / f"out-{step}"
            full = self.info(delta.name)["base_digest"] is None
            shutil.rmtree(out, ignore_errors=True)
            self.succeeds("apply", delta, *([] if full else [at]), out)
            self.assertEqual(read_folder(out), checkpoint(1, step))
            at = out

    def test_each_checkpoint_has_a_delta(self):
        self.save(2)
        said = self.keep()
        self.assertIn(f"to catch up: tlc-delta apply {self.out}/checkpoint-2.delta checkpoint-2\n", said)
        self.assertEqual(self.keep(), "")
        for step in 9, 10, 11:
            self.save(step)
        said = self.keep()
        self.assertIn(f"apply {self.out}/checkpoint-10.delta checkpoint-9 checkpoint-10\n", said)
        self.assertEqual(self.written(), [f"checkpoint-{step}.delta" for step in (10, 11, 2, 9)])
        self.check((2, 9, 10, 11))
        infos = [self.info(f"checkpoint-{step}.delta") for step in (2, 9, 10, 11)]
        self.assertEqual([info["sequence"] for info in infos], [1, 2, 3, 4])
        self.assertEqual(len({info["trainer"] for info in infos}), 1)
        self.assertEqual([info["base_digest"] for info in infos[1:]], [info["result_digest"] for info in infos[:-1]])

    def test_a_clock_that_was_set_back(self):
        os.utime(next(self.save(1).iterdir()), (time.time() + 3600,) * 2)
        self.assertEqual(self.keep(settle="1s"), "")
        self.assertIn("checkpoint-1.delta", self.keep())

    def test_a_checkpoint_that_was_removed(self):
        first = self.save(1)
        self.keep()
        shutil.rmtree(first)
        self.save(2)
        self.keep()
        self.assertIsNone(self.info("checkpoint-2.delta")["base_digest"])
        self.assertEqual(self.info("checkpoint-2.delta")["sequence"], 2)
        self.save(3)
        self.keep()
        self.check((1, 2, 3))

    def test_what_is_not_complete_waits(self):
        self.save(1)
        self.assertEqual(self.keep(settle="60s"), "")
        self.assertEqual(self.written(), [])
        self.keep()
        (self.save(2) / "model-00001-of-00002.safetensors").unlink()
        done = run("keep", self.run_folder, "--out", self.out, "--settle", "0s", "--once")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no delta of checkpoint-2: ", done.stderr)
        self.assertIn("it names model-00001-of-00002.safetensors, which is not there", done.stderr)
        self.save(2)
        with open(self.run_folder / "checkpoint-2" / "model-00001-of-00002.safetensors", "r+b") as file:
            file.truncate(2000)
        self.assertEqual(run("keep", self.run_folder, "--out", self.out, "--settle", "0s", "--once").returncode, 1)
        self.assertEqual(self.written(), ["checkpoint-1.delta"])
        self.save(3)
        run("keep", self.run_folder, "--out", self.out, "--settle", "0s", "--once")
        self.save(2) # it comes too late: checkpoint-3 has a delta without it
        self.keep()
        self.assertEqual(self.written(), ["checkpoint-1.delta", "checkpoint-3.delta"])
        self.check((1, 3))

    def test_what_is_no_checkpoint(self):
        write(self.run_folder / "logs" / "events", b"x")
        write(self.run_folder / "trainer_state.json", b"{}")
        write(self.run_folder / ".tmp" / "model.safetensors", safetensors({}))
        write(self.run_folder / "checkpoint-1.part" / "model.safetensors", safetensors({}))
        write(self.run_folder / "step-1.safetensors", safetensors({"a": tensor("BF16", (9,), 1)}))
        self.keep()
        self.assertEqual(self.written(), ["step-1.safetensors.delta"])

    def test_it_watches(self):
        with subprocess.Popen([*PROGRAM, "keep", str(self.run_folder), "--out", str(self.out), "--settle", "50ms"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            for step in 1, 2, 3:
                self.save(step)
                end = time.monotonic() + 60
                while not (self.out / f"checkpoint-{step}.delta").exists() and time.monotonic() < end:
                    time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            said, errors = process.communicate()
        self.assertEqual((process.returncode, said.count("to catch up"), errors), (0, 3, ""))
        self.check((1, 2, 3))

    def test_folders_that_are_not_there(self):
        self.refuses("missing: No such file", "keep", self.folder / "missing", "--out", self.out, "--once")
        self.refuses("No such file", "keep", self.run_folder, "--out", self.folder / "a" / "b", "--once")


if __name__ == "__main__":
    main()
