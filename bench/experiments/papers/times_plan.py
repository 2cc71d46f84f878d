# SPDX-License-Identifier: MIT
"""The plan of times on links: what times.toml has, as items and measurements, and the rows of those that ended."""
import re
import sys
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Dict, Iterator, List, Set, Tuple

import records
from plan import read_toml
from records import ROOT, Row

KEY = ("item", "kind", "codec", "pull", "local", "shapes", "ranks", "compute", "rate", "latency", "repeat")
COLUMNS = [*KEY, "revision", "rounds", "step_s", "best_s", "base_s", "codec_s", "sent", "mb_ms", "trip_ms", "busy",
           "seconds", "machine", "commit", "date"]
SAME = "same"  # --pull of tlc-mpi-bench: the codec of the pushes
MEGABITS = {"kbit": 1e-3, "mbit": 1.0, "gbit": 1e3}


def megabits(rate: str) -> float:
    """Of 10mbit: 10."""
    return float(rate[:-4]) * MEGABITS[rate[-4:]]


def milliseconds(time: str) -> float:
    """Of 82ms: 82."""
    return float(time[:-2])


@dataclass(frozen=True)
class Design:
    """kind and codec as tlc-mpi-bench has them; no codec: a way without this library."""

    name: str
    kind: str
    codec: str = ""
    pull: str = ""
    local: int = 1
    """steps from one exchange to the next"""


@dataclass(frozen=True)
class Link:
    rate: str
    latency: str

    @property
    def name(self) -> str:
        mbit = megabits(self.rate)
        text = f"{mbit / 1e3:g} Gbit/s" if mbit >= 1e3 else f"{mbit:g} Mbit/s"
        return text if not milliseconds(self.latency) else f"{text}, {milliseconds(self.latency):g} ms"


@dataclass(frozen=True)
class Item:
    """A table."""

    paper: str
    name: str
    title: str
    text: str
    shapes: str
    ranks: int
    compute: str
    rates: List[str]
    latencies: List[str]
    rounds: int
    repeats: int
    worth: float
    baseline: str
    designs: List[Design] = field(hash=False)
    trained: str = ""

    @property
    def key(self) -> str:
        return f"{self.paper}/{self.name}"

    def links(self) -> List[Link]:
        """All rates with the first latency, and all latencies with the first and the last rate."""
        return [Link(rate, latency) for latency in self.latencies for rate in self.rates
                if latency == self.latencies[0] or rate in (self.rates[0], self.rates[-1])]

    def design(self, name: str) -> Design:
        return next(one for one in self.designs if one.name == name)

    def values(self) -> int:
        """Of the model."""
        path = ROOT / "bench" / "shapes" / f"{self.shapes}.txt"
        lines = [line.split() for line in path.read_text().splitlines() if line and not line.startswith("#")]
        return sum(prod(int(one) for one in line[-1].split("x")) for line in lines)


@dataclass(frozen=True)
class Unit:
    """A measurement of all designs of an item on a link."""

    item: Item = field(hash=False)
    link: Link
    repeat: int

    @property
    def name(self) -> str:
        return f"{self.item.key}, {self.link.name}, repeat {self.repeat}"

    @property
    def worth(self) -> float:
        return self.item.worth / self.repeat

    def key(self, design: Design) -> Tuple[str, ...]:
        """As in the rows of a record."""
        item = self.item
        return (item.key, design.kind, design.codec, design.pull, str(design.local), item.shapes, str(item.ranks),
                item.compute, self.link.rate, self.link.latency, str(self.repeat))

    def groups(self, designs: List[Design]) -> Dict[str, List[Design]]:
        """Those that a run of tlc-mpi-bench measures in turn, by --pull. Ways without codec are in each run: they are
        taken from the first one."""
        pulls = list(dict.fromkeys(design.pull for design in self.item.designs if design.codec))
        made: Dict[str, List[Design]] = {}
        for design in designs:
            made.setdefault(design.pull if design.codec else pulls[0], []).append(design)
        return made

    def guess(self) -> float:
        """Seconds, about: what floats take on the link, as they take most of it."""
        item = self.item
        whole = 4 * item.values() * 8 / (megabits(self.link.rate) * 1e6)
        ring, delay = 2 * (item.ranks - 1) / item.ranks * whole, milliseconds(self.link.latency) / 1e3
        round_of_all = 0.0
        for designs in self.groups(item.designs).values():
            round_of_all += 2.5 * ring + 6 * item.ranks * delay  # floats, halves, push-pull
            for design in designs:
                if design.codec:
                    round_of_all += (2 * whole if design.codec == "raw" else 0.2 * ring) + 6 * delay
        return 5 + (1 + item.rounds) * (round_of_all + (3 + len(item.designs)) * milliseconds(item.compute) / 1e3)


class TimesPlan:
    def __init__(self, path: Path) -> None:
        found = read_toml(path)
        self.path, self.revision = path, int(found["revision"])
        self.items: List[Item] = []
        for facts in found["items"]:
            self.items.append(self._item(dict(facts)))
        for item in self.items:
            wrong = [text for text in (*item.rates, *item.latencies, item.compute)
                     if not re.fullmatch(r"[0-9.]+([kmg]bit|ms)", text)]
            if wrong:
                sys.exit(f"papers: {path.name}: {item.key}: {wrong[0]} is neither as 10mbit nor as 20ms")

    def _item(self, facts: Dict[str, Any]) -> Item:
        designs = facts.pop("designs")
        if "of" in designs:
            return Item(designs=next(item for item in self.items if item.key == designs["of"]).designs, **facts)
        made = []
        for name, one in designs.items():
            made.append(Design(name, one["kind"], one.get("codec", ""),
                               one.get("pull", SAME) if "codec" in one else "", one.get("local", 1)))
        return Item(designs=made, **facts)

    @property
    def papers(self) -> List[str]:
        return list(dict.fromkeys(item.paper for item in self.items))

    def of(self, papers: List[str]) -> List[Item]:
        return [item for item in self.items if item.paper in papers]


def units_of(items: List[Item]) -> Iterator[Unit]:
    for item in items:
        for repeat in range(1, item.repeats + 1):
            for link in item.links():
                yield Unit(item, link, repeat)


class Times:
    """The file times.csv of a folder."""

    def __init__(self, folder: Path, plan: TimesPlan) -> None:
        self.path, self.plan = folder / "times.csv", plan
        self.rows: Dict[Tuple[str, ...], Row] = {}
        for row in records.read(self.path):
            self._take(row)
        wrong = [row for row in self.rows.values() if row["revision"] != str(plan.revision)]
        if wrong:
            first = wrong[0]
            sys.exit(f"papers: {self.path} has {len(wrong)} rows of other revisions than {plan.path.name}, the first "
                     f"of revision {first['revision']}, commit {first['commit']}. Times of two revisions do not mix: "
                     "remove these rows, which stay in the history of the repository, or go back to their revision")

    def _take(self, row: Row) -> None:
        key = tuple(row[name] for name in KEY)
        if key in self.rows:
            sys.exit(f"papers: {self.path} has two rows of one measurement: {', '.join(key)}")
        self.rows[key] = row

    def find(self, unit: Unit, design: Design) -> Row:
        """The row of a design in a measurement, or nothing."""
        return self.rows.get(unit.key(design), {})

    def missing(self, unit: Unit) -> List[Design]:
        return [design for design in unit.item.designs if not self.find(unit, design)]

    def add(self, rows: List[Row]) -> None:
        records.add(self.path, COLUMNS, rows)
        for row in rows:
            self._take(row)

    def of_no_unit(self) -> int:
        """How many rows are of no measurement of the plan."""
        wanted: Set[Tuple[str, ...]] = {unit.key(design) for unit in units_of(self.plan.items)
                                        for design in unit.item.designs}
        return len(set(self.rows) - wanted)

    def pace(self) -> float:
        """How much longer measurements took than they were guessed to take."""
        took, guessed = 0.0, 0.0
        for unit in units_of(self.plan.items):
            rows = [row for row in (self.find(unit, design) for design in unit.item.designs) if row]
            if len(rows) == len(unit.item.designs):
                took += sum({float(row["seconds"]) for row in rows})  # one for each run
                guessed += unit.guess()
        return took / guessed if guessed else 1.0
