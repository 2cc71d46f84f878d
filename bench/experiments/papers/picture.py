# SPDX-License-Identifier: MIT
"""The figure of a paper: ours beside theirs, drawn as bench/plot draws."""
import importlib.machinery
import importlib.util
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from intervals import Mean, mean
from pages import HEADS, NAMES, Claims, Results
from plan import Item, Plan
from records import BITS, ROOT, Record, read

TICKS = [digit * 10.0 ** power for power in range(-3, 7) for digit in (1, 2, 5)]  # of axes with logarithms
Line = Tuple[str, str, str, Dict[int, float]]  # name, colour, style, points

# of panels, in inches; axes with names of designs, and with lines that have names at their ends
DOTS, LINES = (2.4, 5.4), (0.8, 5.2)  # left margin, width
ABOVE, BELOW = 0.45, 0.55  # title, and numbers of the x axis
NAMED, BETWEEN = 0.25, 0.25  # names of axes that are side by side, and the room between them

Draw = Callable[[Any], None]


@dataclass
class Panel:
    """Axes side by side that share what their y axis has. Each has a name above it, or none."""

    title: str
    place: Tuple[float, float]
    height: float
    axes: List[Tuple[str, Draw]]

    @property
    def above(self) -> float:
        return ABOVE + NAMED * any(name for name, _ in self.axes)

    def draw(self, plot: Any, figure: Any, bottom: float) -> None:
        """bottom: of the axes, in inches."""
        (left, whole), (_, height) = self.place, figure.get_size_inches()
        width = (whole - BETWEEN * (len(self.axes) - 1)) / len(self.axes)
        legend: Dict[str, Any] = {}
        for i, (name, draw) in enumerate(self.axes):
            axes = figure.add_axes(((left + i * (width + BETWEEN)) / plot.WIDTH, bottom / height, width / plot.WIDTH,
                                    self.height / height))
            draw(axes)
            axes.set_title(name, fontsize=9)
            if i:
                axes.tick_params(labelleft=False)
                axes.set_ylabel("")
            legend.update(dict(zip(*axes.get_legend_handles_labels()[::-1])))
        title = bottom + self.height + self.above - ABOVE + 0.12
        figure.text(0.1 / plot.WIDTH, title / height, self.title, fontsize=10)
        if legend:
            figure.legend(legend.values(), legend.keys(), frameon=False, loc="lower right", ncol=len(legend),
                          bbox_to_anchor=((left + whole) / plot.WIDTH, (title - 0.1) / height), borderaxespad=0.0)


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


def axis_of_names(axes: Any, names: List[str]) -> None:
    axes.set_yticks(range(len(names)))
    axes.set_yticklabels(names)
    axes.set_ylim(len(names) - 0.4, -0.6)


def log_axis(axis: Any) -> None:
    """Between its limits, with few plain numbers."""
    from matplotlib.ticker import NullLocator
    low, high = axis.get_view_interval()
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axis.set_ticks(ticks, [f"{tick:,g}" for tick in ticks])
    axis.set_minor_locator(NullLocator())


def dots(plot: Any, results: Results, claims: Claims) -> Optional[Panel]:
    """A row for each design: for each measure the paper's figure, and ours with its interval for each number of
    workers."""
    item = results.item
    measures = ["difference", *(name for name in item.measures if name in ("bits", "round", "rate"))]
    figures = {measure: claims.of(item, measure) for measure in measures}
    own: Dict[str, Dict[Tuple[int, str], Mean]] = {measure: {} for measure in measures}
    for measure in measures:
        for workers in item.workers:
            for design in item.designs:
                found = results.to_baseline(design, workers, item.steps[-1], item.measures[0]) \
                    if measure == "difference" else \
                    mean(list(results.values(design, workers, item.steps[-1], measure).values()))
                if found is not None and design.name != item.baseline:
                    own[measure][workers, design.name] = found
    measures = [measure for measure in measures if own[measure]]
    there = {name for measure in measures for name in [*figures[measure], *(name for _, name in own[measure])]}
    names = [design.name for design in item.designs if design.name in there and design.name != item.baseline]
    if not measures:
        return None

    def drawn(measure: str) -> Draw:
        def draw(axes: Any) -> None:
            papers = [name for name in names if name in figures[measure]]
            axes.plot([figures[measure][name] for name in papers], [names.index(name) for name in papers], "D",
                      color=plot.GREY, markersize=7, label="the paper" if papers else None)
            for i, workers in enumerate(item.workers):
                mine = [(names.index(name), found) for (count, name), found in own[measure].items() if count == workers]
                if mine:
                    shift = 0.16 * (2 * i - len(item.workers) + 1)
                    axes.errorbar([found.value for _, found in mine], [y + shift for y, _ in mine],
                                  xerr=[found.half or 0.0 for _, found in mine], fmt="o", capsize=3,
                                  color=plot.LINE_COLOURS[i], label=f"here, {workers} workers")
            axis_of_names(axes, names)
            if measure == "difference":
                axes.axvline(0, color=plot.GREY, linewidth=0.8, zorder=0)
                unit = "points" if item.measures[0] == "accuracy" else "nats"
                axes.set_xlabel(f"{NAMES[item.measures[0]]} to {item.baseline}, {unit}")
            else:
                axes.set_xscale("log")
                log_axis(axes.xaxis)
                axes.set_xlabel({"bits": "bits a value and step", "round": NAMES["round"],
                                 "rate": "times fewer bits of pushes"}[measure])
        return draw

    return Panel(item.title, DOTS, 0.3 + 0.25 * len(names), [("", drawn(measure)) for measure in measures])


def styles(plot: Any, count: int) -> List[Tuple[str, str]]:
    """Colours and styles of so many lines, all different."""
    colours = plot.LINE_COLOURS
    return [(colours[i % len(colours)], ("o-", "s--", "^:")[i // len(colours) % 3]) for i in range(count)]


def has_width(lines: List[Line]) -> bool:
    """Whether there is more than one x."""
    return len({x for one in lines for x in one[3]}) > 1


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
            lines.append((design.name, *styles(plot, len(lines) + 1)[-1], points))
    if not has_width(lines):
        return None

    def draw(axes: Any) -> None:
        lines_on(plot, axes, lines, "accuracy, %" if item.measures[0] == "accuracy" else NAMES[item.measures[0]])

    return Panel(item.title, LINES, 3.0, [("", draw)])


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

    return Panel(f"Bits at each step, {item.workers[0]} workers, seed 1, with batch norm as floats", LINES, 3.0,
                 [("", draw)])


def most(item: Item, record: Record) -> Optional[Results]:
    """Of the data and the size of images with most rows."""
    there = {(row["data"], int(row["size"] or 0)) for row in record.rows.values()}
    found = [one for one in (Results(item, record, *kind) for kind in sorted(there)) if one.rows()]
    return max(found, key=lambda one: len(one.rows())) if found else None


def panels(plot: Any, results: Results, claims: Claims) -> List[Panel]:
    item = results.item
    if len(item.steps) > 1:
        return [one for one in [curves(plot, results)] if one]
    return [one for one in [dots(plot, results, claims), bits(plot, results) if item.bits else None] if one]


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
    height = 0.5 + sum(panel.above + panel.height + BELOW for panel in found)
    figure = pyplot.figure(figsize=(plot.WIDTH, height), constrained_layout=False)
    names = list(dict.fromkeys(f"{one.data}, {one.size} x {one.size}" if one.size else one.data for one in items))
    what = f"means and 95% intervals over seeds here ({'; '.join(names)})" if names else "steps on shaped links"
    figure.text(0.1 / plot.WIDTH, 1 - 0.3 / height, f"{HEADS.get(paper, paper)}: {what}, and the paper's figures",
                fontsize=11)
    top = height - 0.5
    for panel in found:
        top -= panel.above + panel.height
        panel.draw(plot, figure, top)
        top -= BELOW
    plot.save(figure, out / f"{paper}.png")
    return True
