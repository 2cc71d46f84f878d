# SPDX-License-Identifier: MIT
"""Runs in the background of this program, until all have ended or its hours are over."""
import fcntl
import hashlib
import importlib.metadata
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Set

import records
from clock import Clock, environment
from plan import Run

LINE_EVERY = 60  # seconds from one progress line to the next
PATIENCE = 10  # seconds that a run has to end in


class Under:
    """A run that is under way."""

    def __init__(self, run: Run, data: Path, name: str, work: Path, lock: int, bits: bool) -> None:
        self.run, self.name, self.commit = run, name, records.commit()
        self.folder = work / hashlib.sha256("\n".join(run.key(name)).encode()).hexdigest()[:16]
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, str(run.program.path), "--data", str(data), "--csv", str(self.folder / "rows.csv"),
                   "--checkpoint", str(self.folder / "checkpoint"), *run.words()]
        if bits:
            command += ["--bits", str(self.folder / "bits.csv")]
        if run.program.processes:
            command.append("--quiet")
        with open(self.folder / "log", "w") as log:
            # ranks are of its session, so they end with it; the lock is theirs, too, as long as one is there
            self.process = subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT, start_new_session=True, pass_fds=[lock])

    def step(self) -> int:
        """The last one that has a checkpoint."""
        rows = records.read(self.folder / "rows.csv")
        return int(rows[-1]["step"] or 0) if rows and rows[-1].get("step") else 0

    def saved_after(self, moment: float) -> bool:
        """Whether all of a checkpoint is newer."""
        path = self.folder / "checkpoint"
        files = list(path.glob("rank*.pt")) if path.is_dir() else [path] if path.exists() else []
        return len(files) == self.run.processes and all(file.stat().st_mtime > moment for file in files)

    def stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                break
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                continue
        self.process.wait()

    def results(self) -> records.Row:
        """The row of the last step, or nothing."""
        rows = records.read(self.folder / "rows.csv")
        return rows[-1] if rows and rows[-1]["step"] == str(self.run.steps) else {}


class Sitting:
    def __init__(self, record: records.Record, clock: Clock, folders: Dict[str, Path], work: Path, jobs: int,
                 bits: Set[Run], names: Dict[Run, str]) -> None:
        self.record, self.clock, self.folders, self.work, self.jobs = record, clock, folders, work, jobs
        self.bits, self.names = bits, names
        self.data = {name: records.data_name(folder) for name, folder in folders.items()}
        self.under: List[Under] = []
        self.waiting: List[Run] = []
        self.ended = self.failed = 0
        self.lock = self._locked()
        self.torch = importlib.metadata.version("torch")

    def _locked(self) -> int:
        self.work.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.work / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"papers: {self.work} is in use: another one runs there, or runs that it left")
        return lock

    def places(self, run: Run) -> int:
        """How many of the jobs a run stands for."""
        return min(self.jobs, run.processes)

    def left(self) -> float:
        """Hours that remain, about."""
        seconds = sum(self.clock.seconds(run) * self.places(run) for run in self.waiting)
        for one in self.under:
            seconds += self.clock.seconds(one.run) * self.places(one.run) * (1 - one.step() / one.run.steps)
        return seconds / self.jobs / 3600

    def line(self) -> None:
        now = "; ".join(f"{self.names[one.run]}, seed {one.run.seed}: {one.step()} of {one.run.steps} steps"
                        for one in self.under)
        total = self.ended + self.failed + len(self.under) + len(self.waiting)
        print(f"{time.strftime('%H:%M')} {self.ended} of {total} runs ended, about {self.left():.1f} h remain"
              f"{'; ' + now if now else ''}", flush=True)

    def start(self) -> None:
        """As many runs as there is place for, in their order."""
        while self.waiting and sum(self.places(one.run) for one in self.under) + self.places(self.waiting[0]) <= \
                self.jobs:
            run = self.waiting.pop(0)
            self.under.append(Under(run, self.folders[run.program.data], self.data[run.program.data], self.work,
                                    self.lock, run in self.bits))

    def collect(self) -> bool:
        """Takes the results of runs that ended."""
        over = [one for one in self.under if one.process.poll() is not None]
        for one in over:
            self.under.remove(one)
            results: Any = one.results() if one.process.returncode == 0 else {}
            if not results:
                self.failed += 1
                log = (one.folder / "log").read_text().strip()
                print(f"{self.names[one.run]}, seed {one.run.seed}: exit status {one.process.returncode}; "
                      f"{one.folder / 'log'} ends with: {log[-400:]}", flush=True)
                continue
            self.ended += 1
            self.record.add(one.run, one.name, {**results, "torch": self.torch, "commit": one.commit},
                            records.read(one.folder / "bits.csv"))
            self.clock.saw(self.record.find(one.run, one.name))
            shutil.rmtree(one.folder)
        return bool(over)

    def go(self, runs: List[Run], hours: float) -> bool:
        """Whether all runs ended well. After so many hours each goes on to its next checkpoint."""
        self.waiting = list(runs)
        deadline = time.time() + 3600 * hours
        spoken = 0.0
        try:
            while self.waiting or self.under:
                if time.time() < deadline:
                    self.start()
                elif not self.under:
                    break
                ended = self.collect()
                if ended or time.time() - spoken >= LINE_EVERY:
                    self.line()
                    spoken = time.time()
                if time.time() >= deadline:
                    for one in [one for one in self.under if one.saved_after(deadline)]:
                        one.stop()
                        self.under.remove(one)
                        self.waiting.insert(0, one.run)
                time.sleep(0.1)
        finally:
            for one in self.under:
                one.stop()
        print(f"{self.ended} runs ended, {self.failed} failed, {len(self.waiting)} remain, about {self.left():.1f} h",
              flush=True)
        return not self.failed
