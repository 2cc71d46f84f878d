# SPDX-License-Identifier: MIT
"""What the tests of tlc-delta share: the program, and models in files, written by the formats' own descriptions."""
import json
import os
import random
import shlex
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

# the program, and what runs it in a build for another machine
PROGRAM = [*shlex.split(os.environ.get("TLC_WRAPPER", "")), os.environ["TLC_DELTA"]]
# bits of a value
BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4, "U8": 8,
        "I8": 8, "BOOL": 8, "I16": 16, "U16": 16, "I32": 32, "U32": 32, "I64": 64, "U64": 64, "C64": 64, "F6_E2M3": 6}


def run(*words, **options):
    """Runs the program; its output is text."""
    return subprocess.run([*PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=240, check=False, **options)


def product(shape):
    n = 1
    for length in shape:
        n *= length
    return n


def tensor(dtype, shape, seed):
    """(dtype, shape, bytes) with bytes like weights: neighbours in a narrow range."""
    draw = random.Random(seed)
    size = product(shape) * BITS[dtype] // 8
    return dtype, shape, bytes(map(int, (abs(draw.gauss(0, 20)) % 256 for _ in range(size))))


def moved(entry, seed, share=0.02):
    """The same tensor with some bytes changed by one."""
    dtype, shape, data = entry
    draw = random.Random(seed)
    changed = bytearray(data)
    for _ in range(int(len(data) * share) or bool(data)):
        at = draw.randrange(len(data))
        changed[at] = (changed[at] + draw.choice((1, 255))) % 256
    return dtype, shape, bytes(changed)


def header(tensors, metadata=None, start=0, gap=0):
    """The header's object; offsets begin at `start`, `gap` bytes are between tensors."""
    table = {} if metadata is None else {"__metadata__": metadata}
    at = start
    for name, (dtype, shape, data) in tensors.items():
        table[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data) + gap
    return table


def safetensors(tensors, metadata=None, pad=8, gap=b""):
    """The bytes of a .safetensors file. gap: bytes after each tensor."""
    text = json.dumps(header(tensors, metadata, gap=len(gap)), separators=(",", ":")).encode()
    text += b" " * (-len(text) % pad)
    return struct.pack("<Q", len(text)) + text + b"".join(data + gap for _, _, data in tensors.values())


def with_header(text, data=b""):
    """A file with any text as header."""
    text = text if isinstance(text, bytes) else json.dumps(text).encode()
    return struct.pack("<Q", len(text)) + text + data


def npy(descr, shape, data, fortran=False, tail=b""):
    text = "{'descr': %r, 'fortran_order': %r, 'shape': %r, }" % (descr, fortran, shape)
    text = text.encode() + b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data + tail


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def write_folder(folder, files):
    """files: path in the folder: bytes"""
    for path, data in files.items():
        write(folder / path, data)
    return folder


def read_folder(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def checkpoint(seed, steps, shards=2, metadata=None, width=96):
    """The files of a model in shards, with index and configuration, after some steps."""
    names = ["model.embed.weight", *(f"model.layers.{i}.{part}" for i in range(4) for part in ("attn.weight", "norm")),
             "lm_head.weight"]
    files, weight_map = {}, {}
    for shard in range(shards):
        tensors = {}
        for i, name in enumerate(names):
            if i % shards == shard:
                entry = tensor("BF16" if "norm" not in name else "F32", (width, 7) if "norm" not in name else (width,),
                               f"{seed} {name}")
                for step in range(steps):
                    entry = moved(entry, f"{seed} {name} {step}")
                tensors[name] = entry
                weight_map[name] = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        files[f"model-{shard + 1:05}-of-{shards:05}.safetensors"] = safetensors(tensors, metadata or {"format": "pt"})
    index = {"metadata": {"step": f"{steps:04}"}, "weight_map": weight_map}
    files["model.safetensors.index.json"] = json.dumps(index).encode()
    files["config.json"] = b'{"hidden_size": 96}'
    return files


class Case(unittest.TestCase):
    """A test in a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def succeeds(self, *words, **options):
        done = run(*words, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return done.stdout

    def refuses(self, said, *words, status=1, **options):
        """said: a part of the only line that is said"""
        done = run(*words, **options)
        self.assertEqual(done.returncode, status, (words, done.stderr))
        self.assertIn(said, done.stderr)
        self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), words)
        self.assertTrue(done.stderr.startswith("tlc-delta: "), done.stderr)

    def round_trip(self, base, following):
        """Makes a delta of two models, bytes of a file or files of a folder, and applies it: the same bytes come out.
        The base may be None. Returns the size of the delta."""
        where = Path(tempfile.mkdtemp(dir=self.folder))
        paths = []
        for name, files in ("base", base), ("next", following):
            if isinstance(files, dict):
                paths.append(write_folder(where / name, files))
            elif files is not None:
                paths.append(write(where / (name + getattr(self, "suffix", ".safetensors")), files))
        delta, out = where / "d", where / "out"
        self.succeeds("make", *paths, delta)
        self.succeeds("verify", delta, *paths[:-1])
        self.succeeds("apply", delta, *paths[:-1], out)
        if isinstance(following, dict):
            self.assertEqual(read_folder(out), following)
        else:
            self.assertEqual(out.read_bytes(), following)
        self.assertEqual(sorted(path.name for path in where.iterdir() if path.name.endswith(".part")), [])
        return delta.stat().st_size


def main():
    """Runs the tests of the file that calls it, as TAP."""
    from tap import TAPTestRunner

    runner = TAPTestRunner()
    runner.set_stream(True)
    runner.set_format("{method_name}")
    unittest.main(testRunner=runner)
