# SPDX-License-Identifier: MIT
"""The figure of a paper: ours beside theirs, drawn as bench/plot draws."""
import importlib.machinery
import importlib.util
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from intervals import mean
from pages import HEADS, NAMES, Claims, Results
from plan import Item, Plan
from records import BITS, ROOT, Record, read

Line = Tuple[str, str, str, Dict[int, float]]  # name, colour, style, points

# of panels, in inches; axes with names of designs, and with lines that have names at their ends
DOTS, LINES = (2.7, 3.5), (0.8, 5.2)  # left margin, width
ABOVE, BELOW = 0.45, 0.55  # title, and numbers of the x axis


@dataclass
class Panel:
    title: str
    place: Tuple[float, float]
    height: float
    draw: Callable[[Any], None]


def plot_module() -> Any:
    """bench/plot."""
    loader = importlib.machinery.SourceFileLoader("bench_plot", str(ROOT / "bench" / "plot"))
    spec = importlib.util.spec_from_loader("bench_plot", loader)
    assert spec is not None
    made = importlib.util.module_from_spec(spec)
    was, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(made)
    sys.dont_write_bytecode = was
    return made


def dots(plot: Any, results: Results, figures: Dict[str, float], measure: str) -> Optional[Panel]:
    """A row for each design: the paper's figure, and ours with its interval for each number of workers."""
    item = results.item
    steps = item.steps[-1]
    own = {}
    for workers in item.workers:
        for design in item.designs:
            name = item.measures[0] if measure == "difference" else measure
            found = results.to_baseline(design, workers, steps, name) if measure == "difference" else \
                mean(list(results.values(design, workers, steps, name).values()))
            if found is not None and design.name != item.baseline:
                own[workers, design.name] = found
    names = [design.name for design in item.designs
             if design.name in figures or any((workers, design.name) in own for workers in item.workers)]
    names = [name for name in names if name != item.baseline]
    if not own:
        return None

    def draw(axes: Any) -> None:
        for y, name in enumerate(names):
            if name in figures:
                axes.plot(figures[name], y, "D", color=plot.GREY, markersize=7, label="the paper" if y == min(
                    names.index(one) for one in names if one in figures) else None)
        for i, workers in enumerate(item.workers):
            mine = [(names.index(name), found) for (count, name), found in own.items() if count == workers]
            if mine:
                shift = 0.16 * (2 * i - len(item.workers) + 1)
                axes.errorbar([found.value for _, found in mine], [y + shift for y, _ in mine],
                              xerr=[found.half or 0.0 for _, found in mine], fmt="o", capsize=3,
                              color=plot.LINE_COLOURS[i], label=f"here, {workers} workers")
        axes.set_yticks(range(len(names)))
        axes.set_yticklabels(names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        if measure == "difference":
            axes.axvline(0, color=plot.GREY, linewidth=0.8, zorder=0)
            unit = "points" if item.measures[0] == "accuracy" else "nats"
            axes.set_xlabel(f"{NAMES[item.measures[0]]} to {item.baseline}, {unit}")
        else:
            axes.set_xscale("log")
            axes.set_xlabel({"bits": "bits a value and step", "round": NAMES["round"],
                             "rate": "times fewer bits of pushes"}[measure])
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))

    what = {"difference": NAMES[item.measures[0]], "bits": "bits", "round": "bits", "rate": "rates"}[measure]
    return Panel(f"{item.title}: {what}", DOTS, 0.3 + 0.3 * len(names), draw)


def lines_on(plot: Any, axes: Any, lines: List[Line], y_label: str) -> None:
    """Lines against the number of steps, with their names at their ends."""
    points = [point for line in lines for point in line[3].items()]
    low, high = min(y for _, y in points), max(y for _, y in points)
    edge = 0.05 * (high - low) or 0.05
    axes.set_xlim(0, 1.02 * max(x for x, _ in points))
    axes.set_ylim(low - edge, high + edge)  # before names are placed
    axes.set_xlabel("steps")
    axes.set_ylabel(y_label)
    plot.draw_lines(axes, lines, 0.07)


def curves(plot: Any, results: Results) -> Optional[Panel]:
    """The first measure against the number of steps, a line for each design."""
    item = results.item
    lines: List[Line] = []
    for design in item.designs:
        points = {}
        for steps in item.steps:
            found = results.values(design, item.workers[0], steps, item.measures[0])
            if found:
                points[steps] = statistics.mean(found.values())
        if points:
            lines.append((design.name, plot.LINE_COLOURS[len(lines) % len(plot.LINE_COLOURS)], "o-", points))
    if not lines:
        return None

    def draw(axes: Any) -> None:
        lines_on(plot, axes, lines, "accuracy, %" if item.measures[0] == "accuracy" else NAMES[item.measures[0]])

    return Panel(item.title, LINES, 3.4, draw)


def bits(plot: Any, results: Results) -> Optional[Panel]:
    """Bits of pushes and of pulls at each step, with what travels as floats."""
    item = results.item
    found: Dict[Tuple[str, str], Dict[int, float]] = {}
    for row in read(results.record.bits_path):
        for design in item.designs:
            run = item.run(design, results.size, item.workers[0], item.steps[-1], 1)
            if tuple(row[name] for name in BITS[:7]) == run.key(results.data) and design.name.startswith("3LC"):
                for way in ("push", "pull"):
                    found.setdefault((design.name, way), {})[int(row["step"])] = float(row[f"{way}_bits"])
    if not found:
        return None
    names = list(dict.fromkeys(name for name, _ in found))

    def draw(axes: Any) -> None:
        lines_on(plot, axes, [(f"{name}, {'pushes' if way == 'push' else 'pulls'}",
                               plot.LINE_COLOURS[names.index(name)], "-" if way == "push" else "--", points)
                              for (name, way), points in found.items()], "bits a value")

    return Panel(f"Bits at each step, {item.workers[0]} workers, seed 1, with batch norm as floats", LINES, 3.4, draw)


def most(item: Item, record: Record) -> Optional[Results]:
    """Of the data and the size of images with most rows."""
    there = {(row["data"], int(row["size"] or 0)) for row in record.rows.values()}
    found = [one for one in (Results(item, record, *kind) for kind in sorted(there)) if one.rows()]
    return max(found, key=lambda one: len(one.rows())) if found else None


def panels(plot: Any, results: Results, claims: Claims) -> List[Panel]:
    item = results.item
    if len(item.steps) > 1:
        return [one for one in [curves(plot, results)] if one]
    made = [dots(plot, results, claims.of(item, "difference"), "difference")]
    made += [dots(plot, results, claims.of(item, name), name) for name in item.measures
             if name in ("bits", "round", "rate")]
    return [one for one in [*made, bits(plot, results) if item.bits else None] if one]


def draw(paper: str, plan: Plan, record: Record, claims: Claims, out: Path,
         more: Callable[[Any], List[Panel]]) -> bool:
    """Whether there is something to draw, and matplotlib. more: panels below the others, drawn with a plot."""
    plot = plot_module()
    items = [results for results in (most(item, record) for item in plan.of([paper])) if results]
    found = [panel for results in items for panel in panels(plot, results, claims)] + more(plot)
    if not found:
        return False
    try:
        import matplotlib
    except ImportError:
        print("papers: matplotlib is missing: no figure is drawn")
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot
    plot.prepare(pyplot)
    height = 0.5 + sum(ABOVE + panel.height + BELOW for panel in found)
    figure = pyplot.figure(figsize=(plot.WIDTH, height), constrained_layout=False)
    names = list(dict.fromkeys(f"{one.data}, {one.size} x {one.size}" if one.size else one.data for one in items))
    what = f"means and 95% intervals over seeds here ({'; '.join(names)})" if names else "steps on shaped links"
    figure.text(0.1 / plot.WIDTH, 1 - 0.3 / height, f"{HEADS.get(paper, paper)}: {what}, and the paper's figures",
                fontsize=11)
    top = height - 0.5
    for panel in found:
        top -= ABOVE + panel.height
        left, width = panel.place
        axes = figure.add_axes((left / plot.WIDTH, top / height, width / plot.WIDTH, panel.height / height))
        axes.set_title(panel.title)
        panel.draw(axes)
        top -= BELOW
    plot.save(figure, out / f"{paper}.png")
    return True
