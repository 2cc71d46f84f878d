#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs what the tables of the papers need, and writes the tables.

A run that has a row in runs.csv is done. One that was stopped goes on from its checkpoint below --work, with the same
bits. Runs go in the order of what they say per hour: the worth of their tables, a k-th of it for the k-th seed, over
the hours that they take, by rows that there are or by a measured first stretch of steps.

A row has the revision of its program, a number in plan.toml that is raised by hand when figures change: most commits
change none, and what the library writes is pinned by tests/vectors. Where the sources of a program differ from those
that the plan names, nothing is run until someone has judged them. Rows of two revisions are refused.
"""
import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Any, Dict, List

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.append(str(ROOT / "bench" / "lib"))
from arguments import Parser  # noqa: E402


def options() -> Parser:
    parser = Parser(prog="run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paper", metavar="PAPER|all", help="3lc, sbc, gossip (DCD and ECD), intml, or beyond: what no "
                        "paper has")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="with the folders cifar10, mnist and text")
    parser.add_argument("--hours", type=float, default=float("inf"), help="stops then, each run at its next checkpoint")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time (default: one for each CPU)")
    parser.add_argument("--size", type=int, default=8, help="of images: 8 (default) or 32, the whole ones")
    parser.add_argument("--plan", action="store_true", help="prints what would be run, and how long it takes; no more")
    parser.add_argument("--tables", action="store_true", help="writes the pages and figures of the rows; no more")
    parser.add_argument("--sources", action="store_true", help="prints those of the programs for the plan; no more")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results" / "papers", metavar="FOLDER",
                        help="with the rows, pages and figures (default: bench/results/papers)")
    parser.add_argument("--work", type=Path, default=ROOT / "build-release" / "papers", metavar="FOLDER",
                        help="with checkpoints (default: build-release/papers)")
    parser.add_argument("--plan-file", type=Path, default=HERE / "plan.toml", metavar="FILE")
    parser.add_argument("--times-file", type=Path, default=HERE / "times.toml", metavar="FILE")
    parser.add_argument("--claims-file", type=Path, default=HERE / "claims.toml", metavar="FILE")
    return parser


if __name__ == "__main__":
    OPTIONS = options()
    CHOSEN = OPTIONS.parse_args()

import pages  # noqa: E402
import picture  # noqa: E402
from clock import Clock  # noqa: E402
from plan import Plan, Run, with_bits, worth  # noqa: E402
from records import Record, data_name  # noqa: E402
from sitting import Sitting  # noqa: E402
from times_pages import TimesTables  # noqa: E402
from times_plan import Times, TimesPlan  # noqa: E402


def ordered(runs: List[Run], says: Dict[Run, float], clock: Clock) -> List[Run]:
    """What says most per hour comes first; equal ones stay in the order of the plan."""
    def per_second(run: Run) -> float:
        return says[run] / max(clock.seconds(run), 1e-9)

    return sorted(runs, key=per_second, reverse=True)


def show(runs: List[Run], plan: Plan, size: int, clock: Clock, jobs: int) -> None:
    hours = 0.0
    for count, run in enumerate(runs, 1):
        hours += clock.seconds(run) * min(jobs, run.processes) / jobs / 3600
        print(f"{count:4} {plan.name_of(run, size)}: {run.workers} workers, {run.steps:,} steps, seed {run.seed}, "
              f"{clock.seconds(run) / 60:.1f} min, {hours:.1f} h")
    print(f"{len(runs)} runs remain, about {hours:.1f} h with {jobs} at a time")


def write_pages(papers: List[str], plan: Plan, record: Record, times: Times, o: Any) -> None:
    claims, tables = pages.Claims(o.claims_file, plan), TimesTables(plan, record, times, o.claims_file)
    for paper in papers:
        picture.draw(paper, plan, record, claims, o.out, tables.panels(paper))
        print(pages.write(paper, plan, record, claims, o.out, tables.sections(paper)))


def main(o: Any, parser: Parser) -> int:
    plan = Plan(o.plan_file)
    if o.sources:
        for program in plan.programs.values():
            new = "" if program.digest() == program.sources else ", new"
            print(f"{program.name}: sources = \"{program.digest()}\"{new}")
        return 0
    if o.paper != "all" and o.paper not in plan.papers:
        parser.error(f"{o.paper}: it is all, {', '.join(plan.papers[:-1])} or {plan.papers[-1]}")
    papers = plan.papers if o.paper == "all" else [o.paper]
    record = Record(o.out)
    record.refuse_mix(plan)
    if o.tables:
        write_pages(papers, plan, record, Times(o.out, TimesPlan(o.times_file)), o)
        return 0
    if o.data is None or not o.data.is_dir():
        parser.error("--data: a folder with cifar10, mnist and text is needed" if o.data is None else
                     f"argument --data: {o.data}: there is no such folder")
    changed = plan.changed()
    if changed:
        sys.exit("papers: " + "\npapers: ".join(changed))
    items = plan.of(papers)
    folders = {program.data: o.data / program.data for program in plan.programs.values()}
    names = {name: data_name(folder) for name, folder in folders.items()}
    says = worth(items, o.size)
    for name in sorted({run.program.data for run in says if not names[run.program.data]}):
        print(f"{folders[name]} is not there: its runs are left out")
    waiting = [run for run in says if names[run.program.data] and not record.find(run, names[run.program.data])]
    kinds = {(row["data"], int(row["size"] or 0)) for row in record.rows.values()}
    alone = len(set(record.rows) - {run.key(data) for data, size in kinds for run in worth(plan.items, size)})
    if alone:
        print(f"{alone} rows of {record.path} are of no run of the plan: no table has them")
    clock = Clock(record, o.work)
    clock.learn(waiting, folders)
    runs = ordered(waiting, says, clock)
    if o.plan:
        show(runs, plan, o.size, clock, o.jobs)
        return 0
    sitting = Sitting(record, clock, folders, o.work, o.jobs, with_bits(items, o.size),
                      {run: plan.name_of(run, o.size) for run in runs})
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit("papers: stopped; the same command goes on"))
    well = sitting.go(runs, o.hours)
    write_pages(papers, plan, record, Times(o.out, TimesPlan(o.times_file)), o)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(CHOSEN, OPTIONS))
