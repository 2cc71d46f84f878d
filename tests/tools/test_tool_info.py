# SPDX-License-Identifier: MIT
"""tlc-delta info and make: what they say of a delta, as text and JSON."""
import json

from models import Case, checkpoint, main, product, run, safetensors, write, write_folder


class Info(Case):
    def delta(self):
        """One weight in a hundred of a differs, and all of b; c is new, d as it was."""
        n = 10000
        a, b = bytearray(2 * n), bytearray(2 * n)
        for i in range(0, 2 * n, 200):
            a[i] = 1
        for i in range(0, 2 * n, 2):
            b[i] = 1
        base = {"a": ("BF16", (n,), bytes(2 * n)), "b": ("BF16", (100, n // 100), bytes(2 * n)),
                "d": ("I64", (), bytes(8))}
        following = {"a": ("BF16", (n,), bytes(a)), "b": ("BF16", (100, n // 100), bytes(b)), "c": ("F4", (4,), b"ab"),
                     "d": ("I64", (), bytes(8))}
        old = write(self.folder / "old.safetensors", safetensors(base))
        new = write(self.folder / "new.safetensors", safetensors(following))
        said = self.succeeds("make", old, new, self.folder / "d")
        size, model = (self.folder / "d").stat().st_size, new.stat().st_size
        self.assertEqual(said, f"{self.folder / 'd'}: {size} bytes, {100 * size / model:.3f}% of {model}; "
                               "5 entries, 2 of them without a base\n")
        return size, model

    def test_json(self):
        size, model = self.delta()
        info = json.loads(self.succeeds("info", "--json", self.folder / "d"))
        self.assertEqual([info[key] for key in ("bytes", "model_bytes", "sequence", "folder")], [size, model, 1, False])
        self.assertEqual(info["files"], [{"path": "data", "kind": "safetensors", "size": model}])
        self.assertEqual(len(info["trainer"]), 32)
        entries = {entry["name"]: entry for entry in info["entries"]}
        self.assertEqual(list(entries), ["__rest__/data", "a", "b", "c", "d"])
        self.assertEqual({name: (entry["dtype"], entry["shape"]) for name, entry in entries.items() if name in "abcd"},
                         {"a": ("bf16", [10000]), "b": ("bf16", [100, 100]), "c": ("f4_e2m1", [4]), "d": ("i64", [])})
        self.assertEqual([entries[name]["changed"] for name in "abcd"], [100, 10000, None, 0])
        self.assertEqual([entry["base_digest"] is None for entry in entries.values()],
                         [True, False, False, True, False])
        self.assertEqual(entries["d"]["base_digest"], entries["d"]["result_digest"])
        self.assertLess(sum(entry["bytes"] for entry in entries.values()), size)
        self.assertEqual(product(entries["b"]["shape"]), 10000)

    def test_text(self):
        size, model = self.delta()
        text = self.succeeds("info", self.folder / "d")
        info = json.loads(run("info", "--json", self.folder / "d").stdout)
        entries = {entry["name"]: entry for entry in info["entries"]}
        self.assertIn(f"bytes        {size}, {100 * size / model:.3f}% of the {model} of the file\n", text)
        self.assertIn("entries      5, 2 of them without a base\n", text)
        counted = sum(entries[name]["bytes"] for name in "abd")
        self.assertIn(f"changed      10100 weights, {8 * counted / 10100:.2f} bits for each\n", text)
        rows = text[text.index("entry, shape\n"):].splitlines()[1:]
        self.assertEqual([row.split()[1:] for row in rows[1:]],
                         [["100", f"{8 * entries['a']['bytes'] / 100:.2f}", "bf16", "a", "10000"],
                          ["10000", f"{8 * entries['b']['bytes'] / 10000:.2f}", "bf16", "b", "100x100"],
                          ["all", "f4_e2m1", "c", "4"], ["none", "i64", "d", "scalar"]])

    def test_all_weights(self):
        write_folder(self.folder / "new", checkpoint(1, 1))
        self.succeeds("make", self.folder / "new", self.folder / "d")
        text = self.succeeds("info", self.folder / "d")
        self.assertIn("base         none: it has all weights\n", text)
        self.assertIn("of the folder\nfiles        4\n", text)
        self.assertNotIn("changed ", text.replace("changed    bits", ""))
        self.assertIsNone(json.loads(run("info", "--json", self.folder / "d").stdout)["base_digest"])


if __name__ == "__main__":
    main()
