# SPDX-License-Identifier: MIT
"""The pages of results: tables of the rows that there are, beside the papers' figures."""
import re
import sys
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional

from intervals import Mean, difference, mean, verdict
from plan import Design, Item, Plan, Run, read_toml
from records import Record, Row

HEADS = {"3lc": "3LC", "sbc": "Sparse Binary Compression", "gossip": "DCD-PSGD and ECD-PSGD",
         "intml": "Natural compression", "beyond": "Beyond the papers"}
AGAIN = "What the paper reports, run again on the CPU, smaller"
OWN = {"beyond": "What no paper has, on the CPU, beside papers' figures"}
INTRO = """<!-- SPDX-License-Identifier: MIT -->
# {head}

{what}: `bench/experiments/papers/run {paper} --data FOLDER`. The tables
are made of `runs.csv` and `times.csv` beside this page. `bench/experiments/papers/run {paper} --tables` writes what is
between its marks anew, and leaves the rest alone.

Accuracies are in percent. All figures are means over seeds, or over measurements of a link, with their 95% interval
(Student's t); differences are of runs with the same seed.

- *reproduced*: the paper's figure lies in our interval.
- *not decided*: so it does, but the interval is wider than ± 1 point, or than ± 10% of bits and rates.
- *better*, *not*: ours is above or below the paper's; of bits, below or above.
- No word: there are too few seeds.
"""
DIGITS = {"accuracy": 2, "loss": 3, "train_loss": 3, "bits": 3, "round": 3}
NAMES = {"accuracy": "accuracy", "loss": "loss", "train_loss": "training loss", "bits": "bits a value",
         "round": "bits a value and round", "ratio": "ratio", "rate": "rate"}
LOWER_IS_BETTER = ("bits", "round")


def value_of(run: Run, row: Row, measure: str) -> float:
    """bits, round, ratio and rate are without what travels as floats, once in an exchange."""
    if measure not in ("bits", "round", "ratio", "rate"):
        return float(row[measure])
    if "--way floats" in run.options:
        return 32.0 if measure in ("bits", "round") else 1.0
    program = run.program
    if row.get("push_bits"):
        pushed, pulled = float(row["push_bits"]), float(row["pull_bits"])
    else:
        # pushes of local steps go to all others, those to owners and their answers in parts; statistics of batch norm
        # go to their owner and back, as floats
        times = 2 * (1 - 1 / run.workers) if "--way sharded" in run.options else run.workers - 1
        pushed = pulled = 8 * float(row["sent"]) / times / run.steps / program.values - \
            2 / run.workers * 32 / run.every * program.buffers / program.values
    bits = pushed if measure in ("rate", "round") else (pushed + pulled) / 2
    bits = (bits * program.values - 32 / run.every * program.floats) / (program.values - program.floats)
    return bits if measure == "bits" else bits * run.every if measure == "round" else 32 / bits


class Results:
    """Values by seed of an item, for data and a size of images."""

    def __init__(self, item: Item, record: Record, data: str, size: int) -> None:
        self.item, self.record, self.data, self.size = item, record, data, size

    def _rows(self, design: Design, workers: int, steps: int) -> Iterable[Any]:
        for seed in range(1, self.item.seeds + 1):
            run = self.item.run(design, self.size, workers, steps, seed)
            row = self.record.find(run, self.data)
            if row:
                yield run, row

    def values(self, design: Design, workers: int, steps: int, measure: str) -> Dict[int, float]:
        return {run.seed: value_of(run, row, measure) for run, row in self._rows(design, workers, steps)}

    def to_baseline(self, design: Design, workers: int, steps: int, measure: str) -> Optional[Mean]:
        base = self.design(self.item.baseline)
        return difference(self.values(design, workers, steps, measure), self.values(base, workers, steps, measure))

    def design(self, name: str) -> Design:
        return next(one for one in self.item.designs if one.name == name)

    def rows(self) -> List[Row]:
        return [row for design in self.item.designs for workers in self.item.workers for steps in self.item.steps
                for _, row in self._rows(design, workers, steps)]


def number(value: float, measure: str, signed: bool = False) -> str:
    if measure in ("ratio", "rate"):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{value:{'+' if signed else ''}.{DIGITS[measure]}f}"


def cell(found: Optional[Mean], measure: str, signed: bool = False) -> str:
    if found is None:
        return ""
    text = number(found.value, measure, signed)
    return text if found.half is None else f"{text} ± {number(found.half, measure)}"


class Claims:
    """What claims.toml has."""

    def __init__(self, path: Path, plan: Plan) -> None:
        found = read_toml(path)
        self.figures, self.orders, self.equals, self.goals, self.notes = (
            found.get(name, []) for name in ("figures", "orders", "equals", "goals", "notes"))
        designs = {item.key: {design.name for design in item.designs} for item in plan.items}
        for one in [*self.figures, *self.orders, *self.equals, *self.goals, *self.notes]:
            names = {*one.get("values", {}), *(name for group in one.get("groups", []) for name in group),
                     *(one[name] for name in ("ahead", "behind", "to") if name in one)}
            if one["item"] not in designs or names - designs[one["item"]]:
                sys.exit(f"papers: {path.name} speaks of {one['item']}, {', '.join(sorted(names))}: the plan does not")

    def of(self, item: Item, measure: str) -> Dict[str, float]:
        """The paper's figures by design."""
        return next((dict(one["values"]) for one in self.figures
                     if one["item"] == item.key and one["measure"] == measure), {})


def line(cells: List[str]) -> str:
    return f"| {' | '.join(cells)} |"


def table(results: Results, claims: Claims, workers: int) -> List[str]:
    """Of an item with one number of steps."""
    item, (steps,) = results.item, results.item.steps
    first = item.measures[0]
    head, columns = ["design", "seeds"], []
    for measure in item.measures:
        head.append(NAMES[measure])
        figures = claims.of(item, measure)
        if measure == first:
            head.append(f"to {item.baseline}")
            figures = claims.of(item, "difference")
        if figures:
            head += ["paper", ""]
        columns.append((measure, figures))
    made = [line(head), "|---|---:|" + "".join("---:|" if name else "---|" for name in head[2:])]
    for design in item.designs:
        got = {measure: results.values(design, workers, steps, measure) for measure in item.measures}
        seeds = len(got[first])
        cells = [design.name, str(seeds)]
        for measure, figures in columns:
            own = mean(list(got[measure].values()))
            cells.append(cell(own, measure) if seeds else "not run")
            if measure == first:
                own = results.to_baseline(design, workers, steps, measure)
                cells.append("" if design.name == item.baseline else cell(own, measure, signed=True))
            if figures:
                paper = figures.get(design.name)
                cells += ["" if paper is None else number(paper, measure, signed=measure == first),
                          verdict(own, paper, 1.0 if measure == first else 0.1 * (paper or 0),
                                  measure not in LOWER_IS_BETTER)]
        made.append(line(cells))
    return made


def table_of_steps(results: Results, workers: int) -> List[str]:
    """Of an item with several: its first measure, and in brackets the difference to the baseline."""
    item = results.item
    measure = item.measures[0]
    made = [line(["design", *(f"{steps:,} steps" for steps in item.steps)]), "|---|" + "---:|" * len(item.steps)]
    for design in item.designs:
        cells = [design.name]
        for steps in item.steps:
            own = mean(list(results.values(design, workers, steps, measure).values()))
            text = cell(own, measure) if own else "not run"
            against = results.to_baseline(design, workers, steps, measure)
            cells.append(f"{text} ({cell(against, measure, signed=True)})"
                         if own and against and design.name != item.baseline else text)
        made.append(line(cells))
    return made


def orders(results: Results, claims: Claims, workers: int) -> List[str]:
    made = []
    for one in claims.orders:
        if one["item"] != results.item.key:
            continue
        values = [results.values(results.design(one[name]), workers, one["steps"], results.item.measures[0])
                  for name in ("ahead", "behind")]
        found = difference(*values)
        said = "not run"
        if found is not None:
            said = f"by {cell(found, results.item.measures[0], signed=True)} points"
            if found.half is not None:
                said += ": " + ("reproduced" if found.low > 0 else "not" if found.high < 0 else "not decided")
        made.append(f"- {one['text']} ({one['source']}): {said}.")
    return made


def equals(results: Results, claims: Claims, workers: int) -> List[str]:
    """Groups of designs that are to be about equal: each against the first of its group."""
    item, made = results.item, []
    for one in claims.equals:
        if one["item"] != item.key:
            continue
        made += wrapped(f"- {one['text']} ({one['source']}). Accuracy to the first of each, within {one['within']} "
                        "points:")
        for first, *others in one["groups"]:
            for name in others:
                values = [results.values(results.design(each), workers, item.steps[-1], item.measures[0])
                          for each in (name, first)]
                found, said = difference(*values), "not run"
                if found is not None:
                    said = cell(found, item.measures[0], signed=True)
                    if found.half is not None:
                        said += ": " + ("reproduced" if max(-found.low, found.high) <= one["within"] else
                                        "not" if max(found.low, -found.high) > one["within"] else "not decided")
                made.append(f"  - {name} to {first}: {said}.")
    return made


def goals(results: Results, claims: Claims, workers: int) -> List[str]:
    """Which designs are at most so much worse than one, with at most so many bits."""
    item, made = results.item, []
    for one in claims.goals:
        if one["item"] != item.key:
            continue
        base = {seed: value * (1 + one["percent"] / 100)
                for seed, value in results.values(results.design(one["to"]), workers, item.steps[-1], "loss").items()}
        said: Dict[str, List[str]] = {"met": [], "not decided": [], "not": []}
        for design in item.designs:
            bits = mean(list(results.values(design, workers, item.steps[-1], "round").values()))
            over = difference(results.values(design, workers, item.steps[-1], "loss"), base)
            few = bits is not None and bits.high <= one["bits"] and design.name != one["to"]
            if few and over is not None and over.half is not None:
                said["met" if over.high <= 0 else "not" if over.low > 0 else "not decided"].append(design.name)
        found = "; ".join(f"{word}: {', '.join(names)}" for word, names in said.items() if names)
        made += wrapped(f"- Of designs with at most {one['bits']} bits a value and round, loss at most "
                        f"{one['percent']}% above that of {one['to']}: {found or 'not run'}.")
    return made


def origin(results: Results) -> str:
    """Where the rows are from."""
    rows = results.rows()

    def each(name: str) -> str:
        return ", ".join(sorted({row[name] for row in rows if row[name]}))

    hours = sum(float(row["seconds"]) for row in rows) / 3600
    size = f", images of {results.size} x {results.size}" if any(row["size"] for row in rows) else ""
    return (f"{each('data')}{size}. {len(rows)} runs, {hours:.1f} hours of training, {each('date')}. "
            f"{each('machine')}. PyTorch {each('torch')}. Revision {each('revision')}, commits {each('commit')}.")


def section(item: Item, record: Record, claims: Claims) -> List[str]:
    """Tables for all data and sizes of images that have rows."""
    made = [f"## {item.title}", "", *wrapped(item.text)]
    programs = {design.program.name for design in item.designs}
    there = {(row["data"], int(row["size"] or 0)) for row in record.rows.values() if row["program"] in programs}
    found = [Results(item, record, *one) for one in sorted(there)]
    ran = [one for one in found if one.rows()]
    made += [] if ran else ["", "Not run yet."]
    for results in ran:
        made += ["", *wrapped(origin(results))]
        for workers in item.workers:
            if not any(int(row["workers"]) == workers for row in results.rows()):
                made += ["", f"{workers} workers: not run yet."]
                continue
            made += ["", f"{workers} workers, {item.steps[0]:,} steps:" if len(item.steps) == 1 else
                     f"{workers} workers; in brackets the difference to {item.baseline}:", ""]
            made += table(results, claims, workers) if len(item.steps) == 1 else table_of_steps(results, workers)
            said = [one for claim in (orders, equals, goals) for one in claim(results, claims, workers)]
            made += ["", *said] if said else []
    sources = [one["source"] for one in claims.figures if one["item"] == item.key]
    if sources:
        made += ["", *wrapped(f"Paper: {'; '.join(sources)}.")]
    for note in claims.notes:
        if note["item"] == item.key:
            made += ["", *wrapped(note["text"])]
    return made


def wrapped(text: str, width: int = 120) -> List[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def write(paper: str, plan: Plan, record: Record, claims: Claims, out: Path,
          more: Mapping[str, List[str]]) -> Path:
    """The page of a paper: what is between its marks anew, the rest as it was. more: sections by their marks."""
    path = out / f"{paper}.md"
    text = path.read_text() if path.exists() else INTRO.format(
        head=HEADS.get(paper, paper), what=OWN.get(paper, AGAIN), paper=paper)
    picture = f"{paper}.png"
    sections = {item.key: section(item, record, claims) for item in plan.of([paper])}
    before = ""  # the end of the section before
    for key, made in {**sections, **more}.items():
        begin, end = f"<!-- begin {key} -->", f"<!-- end {key} -->"
        block = "\n".join([begin, *made, end])
        if begin in text:
            text = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda found: block, text, flags=re.DOTALL)
        elif before:
            text = text.replace(before, f"{before}\n\n{block}", 1)
        else:
            text += f"\n{block}\n"
        before = end
    if (out / picture).exists() and f"({picture})" not in text:
        text += f"\n![Ours beside the paper's]({picture})\n"
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
