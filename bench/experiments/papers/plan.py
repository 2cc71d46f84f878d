# SPDX-License-Identifier: MIT
"""The plan of the papers' tables: what plan.toml has, as items and runs."""
import hashlib
import re
import shlex
import sys
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Dict, Iterator, List, Set, Tuple

try:
    import tomllib
except ImportError:
    sys.exit("papers: Python 3.11 or later is needed, which reads TOML")

CHECKPOINTS = 10  # of a run, at which it is evaluated and may be stopped


@dataclass(frozen=True)
class Program:
    """That trains."""

    folder: Path
    name: str
    data: str
    sized: bool
    revision: int
    sources: str
    values: int
    floats: int
    processes: bool
    buffers: int = 0

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.py"

    def digest(self) -> str:
        """Of the program and of what it imports from its folder."""
        found, waiting = {}, [self.name]
        while waiting:
            name = waiting.pop()
            path = self.folder / f"{name}.py"
            if name not in found and path.exists():
                found[name] = path.read_bytes()
                waiting += re.findall(r"^(?:from|import) (\w+)", found[name].decode(), re.MULTILINE)
        whole = hashlib.sha256()
        for name in sorted(found):
            whole.update(name.encode() + b"\0" + found[name] + b"\0")
        return whole.hexdigest()[:12]


@dataclass(frozen=True)
class Run:
    """A training. Two items that need the same one share it."""

    program: Program
    options: str
    size: int
    """of images, 0 where the program has no size"""
    workers: int
    steps: int
    seed: int

    @property
    def every(self) -> int:
        """Steps from one exchange to the next."""
        return int(self.options.partition("--every ")[2].partition(" ")[0] or 1)

    @property
    def saved_every(self) -> int:
        """Steps from one checkpoint to the next."""
        return max(1, self.steps // CHECKPOINTS // self.every) * self.every

    @property
    def processes(self) -> int:
        return self.workers if self.program.processes else 1

    def key(self, data: str) -> Tuple[str, ...]:
        """As in the rows of a record. data: what the folder with the data has."""
        return (self.program.name, self.options, data, str(self.size or ""), str(self.workers), str(self.steps),
                str(self.seed))

    def words(self) -> List[str]:
        """Options of the program, but for those that name files."""
        return [*shlex.split(self.options), "--workers", str(self.workers), "--steps", str(self.steps), "--seed",
                str(self.seed), "--evaluate-every", str(self.saved_every),
                *(["--size", str(self.size)] if self.program.sized else [])]


@dataclass(frozen=True)
class Design:
    name: str
    program: Program
    options: str


@dataclass(frozen=True)
class Item:
    """A table."""

    paper: str
    name: str
    title: str
    text: str
    workers: List[int]
    steps: List[int]
    seeds: int
    worth: float
    measures: List[str]
    baseline: str
    designs: List[Design]
    bits: bool = False
    """whether bits of each step are kept, of seed 1"""

    @property
    def key(self) -> str:
        return f"{self.paper}/{self.name}"

    def run(self, design: Design, size: int, workers: int, steps: int, seed: int) -> Run:
        return Run(design.program, design.options, size if design.program.sized else 0, workers, steps, seed)

    def runs(self, size: int) -> Iterator[Run]:
        for seed in range(1, self.seeds + 1):
            for workers in self.workers:
                for steps in self.steps:
                    for design in self.designs:
                        yield self.run(design, size, workers, steps, seed)


def read_toml(path: Path) -> Dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        sys.exit(f"papers: {path}: {error}")


class Plan:
    def __init__(self, path: Path) -> None:
        found = read_toml(path)
        self.path = path
        folder = (path.parent / found["folder"]).resolve()
        self.programs = {name: Program(folder, name, **facts) for name, facts in found["programs"].items()}
        self.items: List[Item] = []
        for facts in found["items"]:
            self.items.append(self._item(dict(facts)))

    def _item(self, facts: Dict[str, Any]) -> Item:
        own_model = {name: facts.pop(name) for name in ("values", "floats") if name in facts}
        program, designs = replace(self.programs[facts.pop("program")], **own_model), facts.pop("designs")
        if "of" in designs:
            other = next(item for item in self.items if item.key == designs["of"])
            return Item(designs=[one for one in other.designs if not fnmatch(one.name, designs.get("without", ""))],
                        **facts)
        made, common = [], facts.pop("options", "")
        for name, options in designs.items():
            own = program
            if isinstance(options, dict):
                own, options = self.programs[options["program"]], options["options"]
            made.append(Design(name, own, f"{options} {common}".strip()))
        return Item(designs=made, **facts)

    @property
    def papers(self) -> List[str]:
        return list(dict.fromkeys(item.paper for item in self.items))

    def name_of(self, run: Run, size: int) -> str:
        """Of the first item that has the run, and of the design in it."""
        return next(f"{item.key}, {design.name}" for item in self.items for design in item.designs
                    if run in {item.run(design, size, workers, run.steps, run.seed) for workers in item.workers}
                    and run.steps in item.steps)

    def of(self, papers: List[str]) -> List[Item]:
        return [item for item in self.items if item.paper in papers]

    def changed(self) -> List[str]:
        """What is wrong with the revisions: a sentence for each program whose sources have changed."""
        return [f"{program.path.name} or what it imports has changed since its revision {program.revision} was given. "
                f"If figures change by it, raise the revision in {self.path.name}; then enter "
                f"sources = \"{program.digest()}\"" for program in self.programs.values()
                if program.digest() != program.sources]


def with_bits(items: List[Item], size: int) -> Set[Run]:
    """The runs whose bits are kept for each step: in one process, and floats have no messages."""
    return {run for item in items if item.bits for run in item.runs(size)
            if run.seed == 1 and not run.program.processes and "--way floats" not in run.options}


def worth(items: List[Item], size: int) -> Dict[Run, float]:
    """What each run says, in the order of the plan: the k-th seed narrows an interval by about a k-th."""
    found: Dict[Run, float] = {}
    for item in items:
        for run in item.runs(size):
            found[run] = found.get(run, 0.0) + item.worth / run.seed
    return found
