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
         "intml": "Natural compression"}
INTRO = """<!-- SPDX-License-Identifier: MIT -->
# {head}

What the paper reports, run again on the CPU, smaller: `bench/experiments/papers/run {paper} --data FOLDER`. The tables
are made of `runs.csv` beside this page. `bench/experiments/papers/run {paper} --tables` writes what is between its
marks anew, and leaves the rest alone.

Accuracies are in percent. All figures are means over seeds with their 95% interval (Student's t); differences are of
runs with the same seed.

- *reproduced*: the paper's figure lies in our interval.
- *not decided*: so it does, but the interval is wider than ± 1 point, or than ± 10% of bits and rates.
- *better*, *not*: ours is above or below the paper's; of bits, below or above.
- No word: there are too few seeds.
"""
DIGITS = {"accuracy": 2, "loss": 3, "train_loss": 3, "bits": 3}
NAMES = {"accuracy": "accuracy", "loss": "loss", "train_loss": "training loss", "bits": "bits a value",
         "ratio": "ratio", "rate": "rate"}


def value_of(run: Run, row: Row, measure: str) -> float:
    """bits, ratio and rate are without what travels as floats, once in an exchange."""
    if measure not in ("bits", "ratio", "rate"):
        return float(row[measure])
    if "--way floats" in run.options:
        return 32.0 if measure == "bits" else 1.0
    program = run.program
    if row.get("push_bits"):
        pushed, pulled = float(row["push_bits"]), float(row["pull_bits"])
    else:
        # pushes go to all others; statistics of batch norm go to their owner and back, as floats
        pushed = pulled = 8 * float(row["sent"]) / (run.workers - 1) / run.steps / program.values - \
            2 / run.workers * 32 / run.every * program.buffers / program.values
    bits = pushed if measure == "rate" else (pushed + pulled) / 2
    bits = (bits * program.values - 32 / run.every * program.floats) / (program.values - program.floats)
    return bits if measure == "bits" else 32 / bits


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
        self.figures, self.orders, self.notes = (found.get(name, []) for name in ("figures", "orders", "notes"))
        designs = {item.key: {design.name for design in item.designs} for item in plan.items}
        for one in [*self.figures, *self.orders, *self.notes]:
            names = {*one.get("values", {}), *(one[name] for name in ("ahead", "behind") if name in one)}
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
                          verdict(own, paper, 1.0 if measure == first else 0.1 * (paper or 0), measure != "bits")]
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


def origin(results: Results) -> str:
    """Where the rows are from."""
    rows = results.rows()

    def each(name: str) -> str:
        return ", ".join(sorted({row[name] for row in rows if row[name]}))

    hours = sum(float(row["seconds"]) for row in rows) / 3600
    size = f", images of {results.size} x {results.size}" if any(row["size"] for row in rows) else ""
    return (f"{each('data')}{size}. {len(rows)} runs, {hours:.1f} hours of training, {each('date')}. "
            f"{each('machine')}. PyTorch {each('torch')}. Revision {each('revision')}, commits {each('commit')}.")


def section(item: Item, record: Record, claims: Claims, size: int) -> List[str]:
    """Tables for all data and sizes of images that have rows; size: of those that have none."""
    made = [f"## {item.title}", "", *wrapped(item.text)]
    programs = {design.program.name for design in item.designs}
    there = {(row["data"], int(row["size"] or size)) for row in record.rows.values() if row["program"] in programs}
    found = [Results(item, record, *one) for one in sorted(there)]
    for results in [one for one in found if one.rows()] or [Results(item, record, "", size)]:
        made += ["", *(wrapped(origin(results)) if results.rows() else ["Not run yet."])]
        for workers in item.workers:
            made += ["", f"{workers} workers, {item.steps[0]:,} steps:" if len(item.steps) == 1 else
                     f"{workers} workers; in brackets the difference to {item.baseline}:", ""]
            made += table(results, claims, workers) if len(item.steps) == 1 else table_of_steps(results, workers)
            ahead = orders(results, claims, workers)
            made += ["", *ahead] if ahead else []
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


def write(paper: str, plan: Plan, record: Record, claims: Claims, size: int, out: Path,
          more: Mapping[str, List[str]]) -> Path:
    """The page of a paper: what is between its marks anew, the rest as it was. more: sections by their marks."""
    path = out / f"{paper}.md"
    text = path.read_text() if path.exists() else INTRO.format(head=HEADS.get(paper, paper), paper=paper)
    picture = f"{paper}.png"
    sections = {item.key: section(item, record, claims, size) for item in plan.of([paper])}
    for key, made in {**sections, **more}.items():
        begin, end = f"<!-- begin {key} -->", f"<!-- end {key} -->"
        block = "\n".join([begin, *made, end])
        if begin in text:
            text = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda found: block, text, flags=re.DOTALL)
        else:
            text += f"\n{block}\n"
    if (out / picture).exists() and f"({picture})" not in text:
        text += f"\n![Ours beside the paper's]({picture})\n"
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
