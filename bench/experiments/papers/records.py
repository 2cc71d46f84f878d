# SPDX-License-Identifier: MIT
"""The rows of runs that ended: what is in them is done. And what they say of data, machine and sources."""
import csv
import fcntl
import gzip
import lzma
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterable, List, Tuple

from plan import Plan, Run

KEY = ("program", "options", "data", "size", "workers", "steps", "seed")
COLUMNS = [*KEY, "revision", "accuracy", "loss", "train_loss", "seconds", "push_bits", "pull_bits", "sent", "machine",
           "torch", "commit", "date"]
BITS = [*KEY, "step", "push_bits", "pull_bits"]
PIECES = 60  # means over so many pieces of a run are kept of its bits at each step
ROOT = Path(__file__).resolve().parents[3]

Row = Dict[str, str]


def read(path: Path) -> List[Row]:
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def add(path: Path, columns: List[str], rows: Iterable[Dict[str, Any]]) -> None:
    """All rows at once, so that a kill leaves none or all of them but for the last line of a file system."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", newline="") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if file.seek(0, os.SEEK_END) == 0:
            writer.writeheader()
        writer.writerows(rows)
        file.flush()
        os.fsync(file.fileno())


def key_of(row: Row) -> Tuple[str, ...]:
    return tuple(row[name] for name in KEY)


class Record:
    """The files runs.csv and bits.csv of a folder."""

    def __init__(self, folder: Path) -> None:
        self.path, self.bits_path = folder / "runs.csv", folder / "bits.csv"
        self.rows: Dict[Tuple[str, ...], Row] = {}
        for row in read(self.path):
            if key_of(row) in self.rows:
                sys.exit(f"papers: {self.path} has two rows of one run: {', '.join(key_of(row))}")
            self.rows[key_of(row)] = row

    def refuse_mix(self, plan: Plan) -> None:
        """Rows of another revision of their program stand in no table beside new ones."""
        wrong = [row for row in self.rows.values() if row["program"] in plan.programs and
                 row["revision"] != str(plan.programs[row["program"]].revision)]
        if wrong:
            first = wrong[0]
            sys.exit(f"papers: {self.path} has {len(wrong)} rows of other revisions than the plan, the first of "
                     f"revision {first['revision']} of {first['program']}, commit {first['commit']}. Figures of two "
                     "revisions do not mix: remove these rows, which stay in the history of the repository, or go back "
                     "to their revision")

    def find(self, run: Run, data: str) -> Row:
        """The row of a run, or nothing."""
        return self.rows.get(run.key(data), {})

    def add(self, run: Run, data: str, results: Row, bits: List[Row]) -> None:
        """results: columns of a program's row, torch and commit. bits: a row for each step, or none."""
        row = {**dict(zip(KEY, run.key(data))), "revision": str(run.program.revision), "machine": machine(),
               "date": time.strftime("%Y-%m-%d"),
               **{name: results[name] for name in COLUMNS if name in results and name not in KEY}}
        if bits:
            add(self.bits_path, BITS, ({**dict(zip(KEY, run.key(data))), **piece} for piece in pieces(bits)))
        add(self.path, COLUMNS, [row])
        self.rows[key_of(row)] = row


def pieces(bits: List[Row]) -> List[Row]:
    """Means over pieces of a run. A step that a stopped run made twice counts once."""
    steps = {int(row["step"]): row for row in bits}
    last = max(steps)
    count = min(PIECES, last)
    made: List[Row] = []
    for i in range(count):
        first, end = last * i // count, last * (i + 1) // count  # steps first + 1 to end
        within = [steps[step] for step in range(first + 1, end + 1) if step in steps]
        if within:
            sums = {name: sum(float(row[name]) for row in within) for name in ("push_bits", "pull_bits")}
            made.append({"step": str(end), **{name: f"{total / (end - first):.6g}" for name, total in sums.items()}})
    return made


def _content(path: Path) -> int:
    """The length of a file, perhaps packed."""
    if path.suffix not in (".gz", ".xz"):
        return path.stat().st_size
    length = 0
    opened: Any = gzip if path.suffix == ".gz" else lzma
    with opened.open(path, "rb") as file:
        while piece := file.read(1 << 20):
            length += len(piece)
    return length


def data_name(folder: Path) -> str:
    """What a folder with data has, as cifar10-20000: so many images for training, or bytes of text. Nothing if there is
    no such folder."""
    def plain(path: Path) -> str:
        return path.name[:-3] if path.suffix in (".gz", ".xz") else path.name

    if not folder.is_dir():
        return ""
    sizes = {plain(path): path for path in sorted(folder.iterdir())}
    batches = [path for name, path in sizes.items() if name.startswith("data_batch_") and name.endswith(".bin")]
    if batches and "test_batch.bin" in sizes:
        return f"cifar10-{sum(map(_content, batches)) // 3073}"
    if "train-labels-idx1-ubyte" in sizes:
        return f"mnist-{_content(sizes['train-labels-idx1-ubyte']) - 8}"
    texts = sorted(folder.glob("*.txt"))
    return f"{texts[0].stem}-{texts[0].stat().st_size}" if texts and not batches else ""


def machine() -> str:
    """The name of the CPU, and how many there are."""
    names = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")] if Path("/proc/cpuinfo").exists() else []
    return f"{names[0]}, {os.cpu_count()} CPUs" if names else f"{os.cpu_count()} CPUs"


def commit() -> str:
    """Of the repository; with a + if its files differ."""
    git = ["git", "-C", str(ROOT)]
    found = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    if found.returncode:
        return ""
    changed = subprocess.run([*git, "status", "--porcelain", "--untracked-files=no", "--", "src", "include",
                              "bench/experiments", "bench/mpi", "bench/network", "bench/lib"],
                             capture_output=True, text=True).stdout
    return found.stdout.strip() + ("+" if changed else "")
