# SPDX-License-Identifier: MIT
"""What stands of times on links in the pages and figures: tables beside the papers' figures, and panels."""
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

from intervals import Mean, mean, verdict
from pages import Results, line, wrapped
from picture import DOTS, LINES, Draw, Line, Panel, axis_of_names, has_width, log_axis, most, styles
from plan import Plan, read_toml
from records import Record, Row
from times_plan import Design, Item, Link, Times, TimesPlan, Unit, megabits, milliseconds

WITHIN = 1.0  # points of the accuracy of the baseline, at which a training counts as one as good


def digits(value: float) -> str:
    """Three of them."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def cell(found: Optional[Mean]) -> str:
    if found is None:
        return "not run"
    if found.half is None:
        return digits(found.value)
    half = f"{found.half:,.0f}" if found.half >= 10 else f"{found.half:.2g}"
    return f"{digits(found.value)} ± {half}"


class Measured:
    """The measurements of an item."""

    def __init__(self, item: Item, times: Times) -> None:
        self.item, self.times = item, times

    def rows(self, link: Link, design: Design) -> Dict[int, Row]:
        """By repeat."""
        found = {repeat: self.times.find(Unit(self.item, link, repeat), design)
                 for repeat in range(1, self.item.repeats + 1)}
        return {repeat: row for repeat, row in found.items() if row}

    def all_rows(self) -> List[Row]:
        return [row for link in self.item.links() for design in self.item.designs
                for row in self.rows(link, design).values()]

    def step(self, link: Link, design: Design) -> Optional[Mean]:
        """Milliseconds."""
        return mean([1e3 * float(row["step_s"]) for row in self.rows(link, design).values()])

    def speedup(self, link: Link, design: Design) -> Optional[Mean]:
        """Over the baseline, in the same processes."""
        return mean([float(row["base_s"]) / float(row["step_s"]) for row in self.rows(link, design).values()])

    def ratio(self, link: Link, slow: Design, fast: Design) -> Optional[Mean]:
        slower, faster = self.rows(link, slow), self.rows(link, fast)
        return mean([float(slower[repeat]["step_s"]) / float(faster[repeat]["step_s"])
                     for repeat in sorted(slower) if repeat in faster])


class Speeds:
    """What claims.toml has of times."""

    def __init__(self, path: Path, plan: TimesPlan) -> None:
        found = read_toml(path)
        self.speeds, self.faster = found.get("speeds", []), found.get("faster", [])
        items = {item.key: item for item in plan.items}
        for one in [*self.speeds, *self.faster]:
            item = items.get(one["item"])
            names = {*one.get("values", {}), *one.get("ahead", []), *one.get("behind", [])}
            if item is None or names - {design.name for design in item.designs} or self.link(one) not in item.links():
                sys.exit(f"papers: {path.name} speaks of {one['item']}, {one['rate']}, {one['latency']}, "
                         f"{', '.join(sorted(names))}: {plan.path.name} does not")

    def link(self, one: Dict[str, Any]) -> Link:
        return Link(one["rate"], one["latency"])

    def of(self, item: Item, link: Link) -> Dict[str, float]:
        """The paper's speedups by design."""
        return next((dict(one["values"]) for one in self.speeds
                     if one["item"] == item.key and self.link(one) == link), {})


def order(measured: Measured, one: Dict[str, Any], link: Link) -> List[str]:
    """What the measurements say of a claim that some designs are faster."""
    item = measured.item
    found = [measured.ratio(link, item.design(slow), item.design(fast)) for slow in one["behind"]
             for fast in one["ahead"]]
    known = [ratio for ratio in found if ratio]
    said = "not run"
    if known and len(known) == len(found):
        least = min(known, key=lambda ratio: ratio.value)
        said = f"{cell(least)} times" + (" or more" if len(known) > 1 else "")
        if all(ratio.half is not None for ratio in known):
            said += ": " + ("reproduced" if all(ratio.low > 1 for ratio in known) else
                            "not" if any(ratio.high < 1 for ratio in known) else "not decided")
    first, *more = wrapped(f"{one['text']} ({one['source']}): {said}.", 118)
    return [f"- {first}", *(f"  {text}" for text in more)]


class TimesTables:
    def __init__(self, plan: Plan, record: Record, times: Times, claims_file: Path) -> None:
        self.plan, self.record, self.times = plan, record, times
        self.speeds = Speeds(claims_file, times.plan)

    # ---- tables ----

    def steps_table(self, measured: Measured) -> List[str]:
        item, links = measured.item, measured.item.links()
        made = [line(["design", "kB sent", *(link.name for link in links)]), "|---|" + "---:|" * (1 + len(links))]
        for design in item.designs:
            sent = mean([float(row["sent"]) / 1e3 for link in links for row in measured.rows(link, design).values()])
            made.append(line([design.name, digits(sent.value) if sent else "",
                              *(cell(measured.step(link, design)) for link in links)]))
        return made

    def speeds_table(self, measured: Measured) -> List[str]:
        item, links = measured.item, measured.item.links()
        figures = {link: self.speeds.of(item, link) for link in links}
        made = [line(["design", *(word for link in links for word in
                                  ([link.name, "paper", ""] if figures[link] else [link.name]))]),
                "|---|" + "".join("---:|---:|---|" if figures[link] else "---:|" for link in links)]
        for design in item.designs:
            cells = [design.name]
            for link in links:
                own = measured.speedup(link, design)
                cells.append(cell(own))
                if figures[link]:
                    paper = figures[link].get(design.name)
                    cells += ["" if paper is None else digits(paper), verdict(own, paper, 0.1 * (paper or 0))]
            made.append(line(cells))
        return made

    def trained(self, item: Item) -> Optional[Results]:
        """Of the trainings whose steps are multiplied, with the data that has most rows."""
        return most(next(one for one in self.plan.items if one.key == item.trained), self.record)

    def points(self, measured: Measured, results: Results, link: Link, design: Design) -> Dict[float, float]:
        """Accuracy by minutes, a point for each number of steps."""
        step = measured.step(link, design)
        made = {}
        for steps in results.item.steps:
            one = next((one for one in results.item.designs if one.name == design.name), None)
            found = one and mean(list(results.values(one, measured.item.ranks, steps, "accuracy").values()))
            if found and step:
                made[steps * step.value / 60e3] = found.value
        return made

    def trained_table(self, measured: Measured, results: Results) -> List[str]:
        item, links = measured.item, measured.item.links()
        last = results.item.steps[-1]
        base = mean(list(results.values(results.design(results.item.baseline), item.ranks, last, "accuracy").values()))
        if base is None:
            return []
        made = ["", *wrapped(f"Minutes of {last:,} steps, and of the shortest training whose accuracy is within "
                             f"{WITHIN:g} point of that of {last:,} steps of {item.baseline} (mean over seeds):"), "",
                line(["design", "accuracy", *(word for link in links for word in (link.name, "as good"))]),
                "|---|" + "---:|" * (1 + 2 * len(links))]
        for design in item.designs:
            cells, accuracy = [], ""
            for link in links:
                points = self.points(measured, results, link, design)
                good = [minutes for minutes, value in points.items() if value >= base.value - WITHIN]
                whole = max(points, default=0.0)
                accuracy = f"{points[whole]:.2f}" if points else accuracy
                cells += [digits(whole) if points else "not run", digits(min(good)) if good else ""]
            made.append(line([design.name, accuracy, *cells]))
        return made

    def origin(self, rows: Sequence[Row]) -> str:
        def each(name: str) -> str:
            return ", ".join(sorted({row[name] for row in rows if row[name]}))

        most_busy = max(float(row["busy"]) for row in rows)
        return (f"Model {each('shapes')}, {each('ranks')} hosts, computing {each('compute')}, medians of "
                f"{each('rounds')} steps. {each('date')}. {each('machine')}, of which other programs took "
                f"{most_busy:.0f}% at most. Revision {each('revision')}, commits {each('commit')}.")

    def section(self, item: Item) -> List[str]:
        measured = Measured(item, self.times)
        rows = measured.all_rows()
        made = [f"## {item.title}", "", *wrapped(item.text), ""]
        if not rows:
            return [*made, "Not measured yet."]
        made += [*wrapped(self.origin(rows)), "", "Milliseconds of a step, and what a rank sends in it:", "",
                 *self.steps_table(measured), "", f"Times as fast as {item.baseline}:", "",
                 *self.speeds_table(measured)]
        results = self.trained(item) if item.trained else None
        if results:
            made += self.trained_table(measured, results)
        orders = [text for one in self.speeds.faster if one["item"] == item.key
                  for text in order(measured, one, self.speeds.link(one))]
        sources = [one["source"] for one in self.speeds.speeds if one["item"] == item.key]
        return [*made, *(["", *orders] if orders else []),
                *(["", *wrapped(f"Paper: {'; '.join(sources)}.")] if sources else [])]

    def sections(self, paper: str) -> Dict[str, List[str]]:
        """By the marks of the page."""
        return {f"times {item.key}": self.section(item) for item in self.times.plan.of([paper])}

    # ---- panels ----

    def panels(self, paper: str) -> Callable[[Any], List[Panel]]:
        def made(plot: Any) -> List[Panel]:
            found: List[Optional[Panel]] = []
            for item in self.times.plan.of([paper]):
                measured = Measured(item, self.times)
                found.append(self.dots(plot, measured))
                results = self.trained(item) if item.trained else None
                if results:
                    found.append(self.curves(plot, measured, results))
                elif not any(self.speeds.of(item, link) for link in item.links()):
                    found += self.sweeps(plot, measured)
            return [panel for panel in found if panel]
        return made

    def dots(self, plot: Any, measured: Measured) -> Optional[Panel]:
        """Speedups on the links for which the paper has some."""
        item = measured.item
        links = [link for link in item.links() if self.speeds.of(item, link)]
        own = {link: {design.name: found for design in item.designs if design.name != item.baseline
                      for found in [measured.speedup(link, design)] if found} for link in links}
        links = [link for link in links if own[link]]
        names = [design.name for design in item.designs if any(design.name in own[link] for link in links)]
        if not links:
            return None

        def drawn(link: Link) -> Draw:
            def draw(axes: Any) -> None:
                figures, mine = self.speeds.of(item, link), own[link]
                papers = [name for name in names if name in figures]
                axes.plot([figures[name] for name in papers], [names.index(name) for name in papers], "D",
                          color=plot.GREY, markersize=7, label="the paper")
                axes.errorbar([found.value for found in mine.values()], [names.index(name) for name in mine], fmt="o",
                              capsize=3, xerr=[found.half or 0.0 for found in mine.values()],
                              color=plot.LINE_COLOURS[0], label="here")
                axis_of_names(axes, names)
                axes.set_xlim(left=0)
            return draw

        return Panel(f"{item.title}: times as fast as {item.baseline}", DOTS, 0.3 + 0.25 * len(names),
                     [(link.name, drawn(link)) for link in links])

    def curves(self, plot: Any, measured: Measured, results: Results) -> Optional[Panel]:
        """Accuracy against time, for each link."""
        item = measured.item
        found = {link: {design.name: points for design in item.designs
                        for points in [self.points(measured, results, link, design)] if points}
                 for link in item.links()}
        links = [link for link in found if found[link]]
        names = [design.name for design in item.designs if any(design.name in found[link] for link in links)]
        style = dict(zip(names, styles(plot, len(names))))
        heights = [y for link in links for points in found[link].values() for y in points.values()]
        if not links:
            return None

        def drawn(link: Link) -> Draw:
            lines: List[Line] = [(name if link == links[-1] else "", *style[name], points)
                                 for name, points in found[link].items()]
            return log_axes(plot, lines, "minutes", "accuracy, %", log_y=False, heights=heights)

        return Panel(item.title, LINES, 3.0, [(link.name, drawn(link)) for link in links])

    def sweeps(self, plot: Any, measured: Measured) -> List[Optional[Panel]]:
        """Steps against the speed of links with the first latency, and against latency with the first and the last
        speed."""
        item = measured.item

        def lines(links: Dict[float, Link]) -> List[Line]:
            made: List[Line] = []
            for design, style in zip(item.designs, styles(plot, len(item.designs))):
                found = {x: measured.step(link, design) for x, link in links.items()}
                made.append((design.name, *style, {x: step.value for x, step in found.items() if step}))
            return [one for one in made if one[3]]

        rates = {megabits(rate): Link(rate, item.latencies[0]) for rate in item.rates}
        found = [log_panel(plot, f"{item.title}, latency {item.latencies[0][:-2]} ms", lines(rates), "Mbit/s",
                           "step, ms", True)]
        for rate in (item.rates[0], item.rates[-1]) if len(item.latencies) > 1 else ():
            links = {milliseconds(latency): Link(rate, latency) for latency in item.latencies}
            found.append(log_panel(plot, f"{item.title}, {Link(rate, '0ms').name}", lines(links), "latency, ms",
                                   "step, ms", True, log_x=False))
        return found


def log_panel(plot: Any, title: str, lines: List[Line], x_label: str, y_label: str, log_y: bool,
              log_x: bool = True) -> Optional[Panel]:
    return Panel(title, LINES, 3.0, [("", log_axes(plot, lines, x_label, y_label, log_y, log_x))]) \
        if has_width(lines) else None


def log_axes(plot: Any, lines: List[Line], x_label: str, y_label: str, log_y: bool, log_x: bool = True,
             heights: Sequence[float] = ()) -> Draw:
    """heights: that the y axis is to have, else those of the lines."""
    def edges(values: List[float], log: bool) -> List[float]:
        low, high = min(values), max(values)
        room = 0.05 * (high - low) or 0.05
        return [low / 1.15, high * 1.15] if log else [low - room, high + room]

    def draw(axes: Any) -> None:
        if log_x:
            axes.set_xscale("log")
        if log_y:
            axes.set_yscale("log")
        axes.set_xlim(*edges([x for one in lines for x in one[3]], log_x))
        axes.set_ylim(*edges(list(heights) or [y for one in lines for y in one[3].values()], log_y))
        for log, axis in ((log_x, axes.xaxis), (log_y, axes.yaxis)):
            if log:
                log_axis(axis)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        plot.draw_lines(axes, lines, 0.07)

    return draw
