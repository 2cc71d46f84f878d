# SPDX-License-Identifier: MIT
"""tlc-delta fold: a chain of deltas is one, which does what they do one after the other."""
import json
import shutil

from models import Case, checkpoint, main, moved, read_folder, run, safetensors, tensor, write, write_folder


class Fold(Case):
    def chain(self, models, full=False, options=()):
        """Writes the files of models, and a delta between each two. The first may be one without a base. Returns the
        deltas."""
        deltas = []
        for i, model in enumerate(models):
            path = self.folder / f"model{i}"
            if isinstance(model, dict):
                write_folder(path, model)
            else:
                path = write(path.with_suffix(".safetensors"), model)
            if i or full:
                base = [before] if i else []
                after = ["--after", deltas[-1]] if deltas else []
                deltas.append(self.folder / f"d{i}")
                self.succeeds("make", *options, *after, *base, path, deltas[-1])
            before = path
        return deltas

    def check(self, models, deltas, full=False):
        out, made = self.folder / "folded", self.folder / "made"
        self.assertEqual(self.succeeds("fold", "--force", *deltas, out), "")
        name = "model0" if isinstance(models[0], dict) else "model0.safetensors"
        base = [] if full else [self.folder / name]
        self.succeeds("verify", out, *base)
        self.succeeds("apply", out, *base, made)
        if isinstance(models[-1], dict):
            self.assertEqual(read_folder(made), models[-1])
            shutil.rmtree(made)
        else:
            self.assertEqual(made.read_bytes(), models[-1])
            made.unlink()
        info, last = (json.loads(run("info", "--json", path).stdout) for path in (out, deltas[-1]))
        for key in "trainer", "sequence", "files", "result_digest":
            self.assertEqual(info[key], last[key])
        return out.stat().st_size

    def test_a_chain(self):
        models = [checkpoint(1, step) for step in range(5)]
        deltas = self.chain(models)
        size = self.check(models, deltas)
        self.assertLess(size, 0.9 * sum(delta.stat().st_size for delta in deltas))
        self.succeeds("make", self.folder / "model0", self.folder / "model4", self.folder / "direct")
        self.assertEqual(size, (self.folder / "direct").stat().st_size)

    def test_a_chain_that_begins_without_a_base(self):
        models = [checkpoint(1, step) for step in range(3)]
        deltas = self.chain(models, full=True)
        self.check(models, deltas, full=True)
        self.check(models, deltas[1:])

    def test_tensors_that_come_go_and_change_their_shape(self):
        a, b, c = (tensor("BF16", (700,), name) for name in "abc")
        models = [safetensors(tensors) for tensors in (
            {"a": a, "b": b}, {"a": moved(a, 1), "c": c}, {"a": tensor("BF16", (70, 10), 2), "c": moved(c, 1), "b": b},
            {"a": moved(tensor("BF16", (70, 10), 2), 1), "c": moved(c, 2)})]
        deltas = self.chain(models)
        for end in 2, 3:
            self.check(models[:end + 1], deltas[:end])

    def test_digests_of_blocks(self):
        models = [checkpoint(1, step) for step in range(3)]
        size = self.check(models, self.chain(models))
        for path in list(self.folder.iterdir()):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.assertGreater(self.check(models, self.chain(models, options=("--block-digests",))), size)

    def test_what_is_no_chain(self):
        deltas = self.chain([checkpoint(1, step) for step in range(4)])
        out = self.folder / "folded"
        self.refuses("d3: lm_head.weight: its base is not what the message before it makes", "fold", deltas[0],
                     deltas[2], out)
        self.refuses("d1: ", "fold", deltas[1], deltas[0], out)
        self.assertFalse(out.exists())
        self.refuses("fold: it takes DELTA DELTA... OUT", "fold", deltas[0], out, status=2)
        other = write(self.folder / "raw", b"abc")
        self.succeeds("make", other, self.folder / "other")
        self.refuses("other: ", "fold", self.folder / "other", deltas[0], out)
        write(out, b"keep")
        self.refuses("it is there already", "fold", *deltas, out)
        self.assertEqual(out.read_bytes(), b"keep")
        bad = bytearray(deltas[1].read_bytes())
        bad[len(bad) // 2] ^= 1
        deltas[1].write_bytes(bad)
        self.refuses("", "fold", "-f", *deltas, out)
        self.assertEqual(out.read_bytes(), b"keep")


if __name__ == "__main__":
    main()
