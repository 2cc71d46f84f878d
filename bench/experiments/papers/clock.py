# SPDX-License-Identifier: MIT
"""How long runs take: as those that have a row, or as a measured first stretch of steps."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import Dict, List, Tuple

import records
from plan import Run

STRETCH = 20  # steps
COLUMNS = ["program", "model", "size", "workers", "step_seconds"]
MODEL = ("--model", "--layers", "--width")  # options of programs
Kind = Tuple[str, ...]


def model_of(options: str) -> str:
    words = options.split()
    return " ".join(f"{name} {value}" for name, value in zip(words, words[1:]) if name in MODEL)


def kind_of(run: Run) -> Kind:
    """Runs of a kind take about as long: codecs are a small part of a step."""
    return (run.program.name, model_of(run.options), str(run.size or ""), str(run.workers))


def environment() -> Dict[str, str]:
    """Of the programs: one thread for each process, and what Debian's PyTorch needs on one host."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "USE_LIBUV": "0",
            "GLOO_SOCKET_IFNAME": "lo"}


def measure(run: Run, data: Path) -> float:
    """Seconds of a step, of the first ones."""
    words = run.words()
    steps = STRETCH // run.every * run.every or run.every
    for name in ("--steps", "--evaluate-every"):
        words[len(words) - words[::-1].index(name)] = str(steps)
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.csv"
        done = subprocess.run([sys.executable, str(run.program.path), "--data", str(data), "--csv", str(rows), *words],
                              env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(f"papers: {run.program.path.name} {' '.join(words)} failed:\n{done.stdout}")
        return float(records.read(rows)[-1]["seconds"]) / steps


class Clock:
    def __init__(self, record: records.Record, work: Path) -> None:
        self.path = work / "stretches.csv"
        self.of_runs: Dict[Tuple[str, ...], List[float]] = {}
        self.of_kinds: Dict[Kind, List[float]] = {}
        self.stretches: Dict[Kind, float] = {
            tuple(row[name] for name in COLUMNS[:-1]): float(row["step_seconds"]) for row in records.read(self.path)}
        for row in record.rows.values():
            self.saw(row)

    def saw(self, row: records.Row) -> None:
        """A row of a run that ended."""
        seconds = float(row["seconds"]) / int(row["steps"])
        kind = (row["program"], model_of(row["options"]), row["size"], row["workers"])
        self.of_runs.setdefault((*kind, row["options"]), []).append(seconds)
        self.of_kinds.setdefault(kind, []).append(seconds)

    def known(self, run: Run) -> float:
        """Seconds of a step of such runs that ended, or of a stretch; 0 if there are none."""
        kind = kind_of(run)
        found = self.of_runs.get((*kind, run.options)) or self.of_kinds.get(kind)
        return mean(found) if found else self.stretches.get(kind, 0.0)

    def learn(self, runs: List[Run], folders: Dict[str, Path]) -> None:
        """Measures a stretch of each kind that is not known, of a run with a codec if there is one."""
        for run in sorted(runs, key=lambda run: "--codec" not in run.options):
            if not self.known(run):
                print(f"measuring {STRETCH} steps of {run.program.name}, {run.workers} workers", flush=True)
                self.stretches[kind_of(run)] = seconds = measure(run, folders[run.program.data])
                row = {**dict(zip(COLUMNS, kind_of(run))), "step_seconds": f"{seconds:.6g}"}
                records.add(self.path, COLUMNS, [row])

    def seconds(self, run: Run) -> float:
        return self.known(run) * run.steps
