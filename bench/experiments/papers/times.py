#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Measures steps on shaped links for the tables of the papers, and writes the tables. It needs root.

A measurement runs all designs of a table on a link in turn: tlc-mpi-bench on hosts of bench/network/run. One that has
its rows in times.csv is done. They go in the order of what they say per hour: the worth of their tables, a k-th of it
for the k-th repeat, over the time that they take. Rows of two revisions are refused, and so is a machine on which
something else runs.
"""
import argparse
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, List

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.append(str(ROOT / "bench" / "lib"))
from arguments import Parser  # noqa: E402

import papers  # noqa: E402
import records  # noqa: E402
from plan import Plan  # noqa: E402
from records import Record, Row  # noqa: E402
from times_plan import KEY, Design, Times, TimesPlan, Unit, megabits, milliseconds, units_of  # noqa: E402

RING = "--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm 4"
# before a longer message MPI asks, and the answer waits behind data: frames go at once, as floats do in pieces
AT_ONCE = f"--mca btl_tcp_eager_limit {1 << 22} --mca btl_tcp_max_send_size {1 << 22}"
SMALL_BUFFERS = 200  # Mbit/s, up to which links want those of shaped-links.conf; with latency none does
LOOK = 0.2  # seconds


def options() -> Parser:
    parser = Parser(prog="run times", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paper", metavar="PAPER|all", help="3lc, gossip (DCD and ECD) or intml")
    parser.add_argument("--hours", type=float, default=float("inf"), help="begins nothing that would end later")
    parser.add_argument("--plan", action="store_true", help="prints what would be measured, and how long it takes")
    parser.add_argument("--busy", type=float, default=10, metavar="PERCENT",
                        help="of the CPUs that other programs may take before and after a measurement (default: 10)")
    parser.add_argument("--only", default="", metavar="TEXT", help="measurements with this in the name that --plan has")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results" / "papers", metavar="FOLDER",
                        help="with times.csv, pages and figures (default: bench/results/papers)")
    parser.add_argument("--program", type=Path, metavar="FILE",
                        default=ROOT / "build-release" / "bench" / "mpi" / "tlc-mpi-bench",
                        help="tlc-mpi-bench (default: that of build-release)")
    parser.add_argument("--network", type=Path, default=ROOT / "bench" / "network" / "run", metavar="FILE",
                        help="default: bench/network/run")
    parser.set_defaults(size=8)  # as papers.py has it
    parser.add_argument("--plan-file", type=Path, default=HERE / "plan.toml", metavar="FILE")
    parser.add_argument("--times-file", type=Path, default=HERE / "times.toml", metavar="FILE")
    parser.add_argument("--claims-file", type=Path, default=HERE / "claims.toml", metavar="FILE")
    return parser


def ticks() -> List[int]:
    """Of all CPUs since the start: all, and idle ones."""
    fields = [int(one) for one in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    return [sum(fields), fields[3] + fields[4]]


def busy() -> float:
    """Percent of all CPUs that are taken now."""
    before = ticks()
    time.sleep(LOOK)
    every, idle = (now - then for now, then in zip(ticks(), before))
    return 100 * (1 - idle / every) if every else 0.0


def command(unit: Unit, pull: str, designs: List[Design], program: Path) -> str:
    """A line for bench/network/run."""
    item, link = unit.item, unit.link
    small = megabits(link.rate) <= SMALL_BUFFERS and not milliseconds(link.latency)
    words = ["mpirun", *(["--tune", "bench/mpi/shaped-links.conf"] if small else RING.split()), *AT_ONCE.split(),
             "-np", str(item.ranks), str(program), "--traces", "bench/data",
             "--shapes", f"bench/shapes/{item.shapes}.txt", "--pull", pull,
             "--kind", ",".join(dict.fromkeys(one.kind for one in designs if one.codec))]
    for codec in dict.fromkeys(one.codec for one in designs if one.codec):
        words += ["--codec", codec]
    words += ["--warmup", "1", "--rounds", str(item.rounds), "--no-predict", "--quiet", "--format", "csv"]
    if milliseconds(item.compute):
        words += ["--compute", item.compute, "--offload"]
    return f"{shlex.join(words)} >{{csv}}"


def row_of(unit: Unit, design: Design, measured: List[Row]) -> Row:
    """measured: what tlc-mpi-bench wrote."""
    def find(kind: str, codec: str) -> Row:
        return next(row for row in measured if (row["kind"], row["codec"]) == (kind, codec))

    def seconds(row: Row, name: str, local: int) -> float:
        return (float(row[name]) + (local - 1) * milliseconds(unit.item.compute) / 1e3) / local

    own, base = find(design.kind, design.codec), unit.item.design(unit.item.baseline)
    local = design.local
    return {"rounds": str(unit.item.rounds), "step_s": f"{seconds(own, 'step_s', local):.6g}",
            "best_s": f"{seconds(own, 'step_best_s', local):.6g}",
            "base_s": f"{seconds(find(base.kind, base.codec), 'step_s', base.local):.6g}",
            "codec_s": f"{float(own['codec_s'] or 0) / local:.6g}",
            "sent": f"{float(own['sent_busiest']) / local:.0f}"}


def run(unit: Unit, line: str, network: Path) -> List[Row]:
    """The rows of a command, each with what bench/network/run says of the link."""
    with tempfile.TemporaryDirectory() as folder:
        rows, links, log = (Path(folder) / name for name in ("rows.csv", "links.csv", "log"))
        words = [str(network), "--hosts", str(unit.item.ranks), "--rate", unit.link.rate, "--latency",
                 unit.link.latency, "--command", line, "--rows", str(rows), "--csv", str(links)]
        with open(log, "w") as file:
            process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file,
                                       stderr=subprocess.STDOUT)
            try:
                status = process.wait()
            finally:
                process.terminate()  # it removes its hosts
                process.wait()
        if status:
            sys.exit(f"papers: {unit.name}: {network.name} ended with {status}: {log.read_text().strip()[-800:]}")
        link = records.read(links)[0]
        return [{**row, **{name: link[name] for name in ("mb_ms", "trip_ms", "seconds")}} for row in
                records.read(rows)]


def look(unit: Unit, most: float) -> float:
    """What other programs take now."""
    taken = busy()
    if taken > most:
        sys.exit(f"papers: {unit.name}: other programs take {taken:.0f}% of the CPUs: times would be wrong. End them, "
                 "or allow it with --busy. The same command goes on")
    return taken


def measure(unit: Unit, times: Times, o: Any) -> None:
    commit, date = records.commit(), time.strftime("%Y-%m-%d")
    for pull, designs in unit.groups(times.missing(unit)).items():
        codecs = [one for one in designs if one.codec] or \
            [one for one in unit.item.designs if one.codec and one.pull == pull]
        before = look(unit, o.busy)
        measured = run(unit, command(unit, pull, codecs, o.program), o.network)
        common = {"revision": str(times.plan.revision), "busy": f"{max(before, look(unit, o.busy)):.1f}",
                  **{name: measured[0][name] for name in ("mb_ms", "trip_ms", "seconds")},
                  "machine": records.machine(), "commit": commit, "date": date}
        times.add([{**dict(zip(KEY, unit.key(design))), **row_of(unit, design, measured), **common}
                   for design in designs])


def ordered(units: List[Unit]) -> List[Unit]:
    """What says most per hour comes first; equal ones stay in the order of the plan."""
    return sorted(units, key=lambda unit: unit.worth / unit.guess(), reverse=True)


def sit(units: List[Unit], times: Times, o: Any) -> None:
    """Until all are measured or the hours are over."""
    deadline = time.time() + 3600 * o.hours
    for count, unit in enumerate(units):
        expected = times.pace() * unit.guess()
        if time.time() + expected > deadline:
            break
        start = time.time()
        measure(unit, times, o)
        left = times.pace() * sum(one.guess() for one in units[count + 1:]) / 3600
        print(f"{time.strftime('%H:%M')} {unit.name}: {time.time() - start:.0f} s; {count + 1} of {len(units)} "
              f"measurements ended, about {left:.1f} h remain", flush=True)


def main(o: Any, parser: Parser) -> int:
    plan = TimesPlan(o.times_file)
    if o.paper != "all" and o.paper not in plan.papers:
        parser.error(f"{o.paper}: it is all, {', '.join(plan.papers[:-1])} or {plan.papers[-1]}")
    chosen = plan.papers if o.paper == "all" else [o.paper]
    times = Times(o.out, plan)
    if times.of_no_unit():
        print(f"{times.of_no_unit()} rows of {times.path} are of no measurement of the plan: no table has them")
    units = ordered([unit for unit in units_of(plan.of(chosen)) if times.missing(unit) and o.only in unit.name])
    if o.plan:
        hours = 0.0
        for count, unit in enumerate(units, 1):
            hours += times.pace() * unit.guess() / 3600
            print(f"{count:4} {unit.name}: {times.pace() * unit.guess():.0f} s, {hours:.1f} h")
        print(f"{len(units)} measurements remain, about {hours:.1f} h")
        return 0
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit("papers: stopped; the same command goes on"))
    sit(units, times, o)
    papers.write_pages(chosen, Plan(o.plan_file), Record(o.out), times, o)
    return 0


if __name__ == "__main__":
    PARSER = options()
    sys.exit(main(PARSER.parse_args(), PARSER))
