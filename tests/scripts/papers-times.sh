#!/bin/bash
# SPDX-License-Identifier: MIT
# Times on links of the papers' tables, with a program that stands for bench/network/run: what is run, a sitting that is
# stopped goes on, a busy machine, tables that were worked out by hand, and rows that do not mix.
# papers-times.sh SOURCE_ROOT PYTHON
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 python=$2
"$python" -c 'import tomllib' 2>/dev/null || { echo 'skipped: Python has no tomllib'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir plain
echo 'raise ImportError' >plain/matplotlib.py # figures take long: only the last ones are drawn
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$work/plain FAKE=$work
fail() { echo "$*"; exit 1; }
has() { grep -qF -- "$1" "$2" || { cat "$2"; fail "$2 has no '$1'"; }; }

# takes steps whose times depend on the codec alone; waits while the file hold is there
cat >network <<'END_OF_PROGRAM'
#!/usr/bin/python3
import argparse, os, re, signal, sys, time
parser = argparse.ArgumentParser()
for name in ("hosts", "rate", "latency", "command", "rows", "csv"):
    parser.add_argument(f"--{name}")
o = parser.parse_args()
os.chdir(os.environ["FAKE"])
with open("runs", "a") as file:
    print(o.hosts, o.rate, o.latency, o.command, file=file)
signal.signal(signal.SIGTERM, lambda *_: (open("ended", "w").close(), sys.exit(1)))
while os.path.exists("hold"):
    time.sleep(0.01)
if os.path.exists("broken"):
    sys.exit("it is broken")
kinds = re.search(r"--kind (\S+)", o.command)[1].split(",")
ways = [("floats", "", 4), ("halves", "", 2), ("push-pull", "", 2)] + [
    (kind, codec, 0.5 if codec == "3lc" else 1) for kind in kinds for codec in re.findall(r"--codec (\S+)", o.command)]
with open(o.rows, "w") as file:
    print("codec,kind,step_s,step_best_s,codec_s,sent_busiest", file=file)
    for kind, codec, step in ways:
        print(codec, kind, step, step / 2, "" if kind == "floats" else 0.1, 1000 * step, sep=",", file=file)
with open(o.csv, "w") as file:
    print("seconds,mb_ms,trip_ms\n7,80,0.1", file=file)
END_OF_PROGRAM
chmod +x network
printf 'folder = "."\nitems = []\n[programs]\n' >plan.toml
cat >times.toml <<'END'
revision = 1
[[items]]
paper = "one"
name = "speed"
title = "Speed"
text = "Steps."
shapes = "lenet5"
ranks = 3
compute = "100ms"
rates = ["10mbit", "1gbit"]
latencies = ["0ms", "20ms"]
rounds = 2
repeats = 3
worth = 4
baseline = "floats"
[items.designs]
"floats" = { kind = "push-pull" }
"local" = { kind = "push-pull", local = 2 }
"3lc" = { kind = "owners", codec = "3lc" }
"one way" = { kind = "all-reduce", codec = "natural", pull = "raw" }
END
cat >claims.toml <<'END'
[[speeds]]
item = "one/speed"
source = "One, table 1"
rate = "10mbit"
latency = "0ms"
[speeds.values]
"3lc" = 4.1
"one way" = 2.5
[[faster]]
item = "one/speed"
source = "One, figure 1"
rate = "10mbit"
latency = "0ms"
ahead = ["3lc"]
behind = ["floats", "one way"]
text = "3lc takes less time"
END
files=(--plan-file plan.toml --times-file times.toml --claims-file claims.toml)
whole=("$python" "$root/bench/experiments/papers/times.py" one "${files[@]}" --network "$work/network" --program bench)
times() { "${whole[@]}" "$@"; }

# a machine on which something else runs
while :; do :; done &
loop=$!
times --out busy --busy 0 2>err && fail 'a busy machine'
kill "$loop"
has 'one/speed, 1 Gbit/s, repeat 1: other programs take ' err
[[ ! -e busy/times.csv && ! -e runs ]] || fail 'something was measured on a busy machine'

# the plan, what is run, and the rows
times --out new --plan >out
has '12 measurements remain' out
[[ $(sed -n 's/^ *[0-9]* one.speed, //p' out | cut -d: -f 1 | head -n 3) == '1 Gbit/s, repeat 1
1 Gbit/s, 20 ms, repeat 1
1 Gbit/s, repeat 2' ]] || { cat out; fail 'the plan has another order'; }
times --out new --busy 100 --only 'repeat 1' >out
has '4 of 4 measurements ended, about 0.0 h remain' out
[[ $(wc -l <runs) == 8 && $(wc -l <new/times.csv) == 17 ]] || fail "$(cat runs new/times.csv)"
lenet='-np 3 bench --traces bench/data --shapes bench/shapes/lenet5.txt --pull'
measured='--warmup 1 --rounds 2 --no-predict --quiet --format csv --compute 100ms --offload >{csv}'
at_once='--mca btl_tcp_eager_limit 4194304 --mca btl_tcp_max_send_size 4194304'
slow="3 10mbit 0ms mpirun --tune bench/mpi/shaped-links.conf $at_once"
has "$slow $lenet same --kind owners --codec 3lc $measured" runs
has "$slow $lenet raw --kind all-reduce --codec natural $measured" runs
ring='--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm 4'
has "3 1gbit 20ms mpirun $ring $at_once $lenet raw" runs
# of two local steps one exchanges: (2 + 0.1) / 2 s, and half of the bytes
cut -d, -f 1-17,19-20 new/times.csv >rows
has 'one/speed,push-pull,,,2,lenet5,3,100ms,10mbit,0ms,1,1,2,1.05,0.55,2,0.05,80,0.1' rows
has 'one/speed,owners,3lc,same,1,lenet5,3,100ms,10mbit,20ms,1,1,2,0.5,0.25,2,0.1,80,0.1' rows

# what is there is not measured again; a failure and a stop keep what ended before
sed -i '/natural,raw,1,lenet5,3,100ms,1gbit,0ms/d' new/times.csv
: >runs
: >broken
times --out new --busy 100 --only 'repeat 1' 2>err && fail 'a run that failed'
has 'papers: one/speed, 1 Gbit/s, repeat 1: network ended with 1: it is broken' err
rm broken
: >runs
: >hold
"${whole[@]}" --out new --busy 100 >out 2>err &
runner=$!
for _ in {1..500}; do
  [[ ! -s runs ]] || break
  sleep 0.02
done
kill "$runner"
wait "$runner" && fail 'a sitting that was stopped ended well'
has 'papers: stopped; the same command goes on' err
[[ -e ended ]] || fail 'bench/network/run was not ended'
rm hold
: >runs
times --out new --busy 100 --only '1 Gbit/s, repeat 1' >out
has '1 of 1 measurements ended' out
[[ $(wc -l <runs) == 1 && $(wc -l <new/times.csv) == 17 ]] || fail "$(cat runs new/times.csv)"
times --out new --busy 100 --hours 0 >out
grep -q 'measurements ended' out && fail 'a sitting without hours'

# a table. Repeats of 3lc: 0.5, 0.5 and 0.4 s with floats of 2, 2.1 and 1.6 s: 4, 4.2 and 4 times as fast, s = 0.1155,
# 4.303 s / sqrt(3) = 0.287; steps 466.7 +- 143 ms. one way: 1 s, so 2, 2.1 and 1.6 times: 1.9 +- 0.657.
# Order: the slower of the two is one way: 2, 2 and 2.5 times as long as 3lc: 2.167 +- 0.717.
mkdir table
head -n 1 new/times.csv >table/times.csv
row() { # KIND,CODEC,PULL REPEAT STEP BASE
  echo "one/speed,$1,1,lenet5,3,100ms,10mbit,0ms,$2,1,2,$3,$3,$4,0.1,1500,80,0.1,3,7,a CPU,abc,2026-11-30" \
    >>table/times.csv
}
i=0
for base in 2 2.1 1.6; do
  i=$((i + 1)) step=(- 0.5 0.5 0.4)
  row push-pull,, $i $base $base
  row owners,3lc,same $i "${step[$i]}" $base
  row all-reduce,natural,raw $i 1 $base
done
times --out table --hours 0 >out
for line in '| design | kB sent | 10 Mbit/s | 1 Gbit/s | 10 Mbit/s, 20 ms | 1 Gbit/s, 20 ms |' \
  '| 3lc | 1.5 | 467 ± 143 | not run | not run | not run |' '| design | 10 Mbit/s | paper |  | 1 Gbit/s |' \
  '| floats | 1 ± 0 |  |  | not run |' '| local | not run |  |  | not run |' \
  '| 3lc | 4.07 ± 0.29 | 4.1 | reproduced | not run |' '| one way | 1.9 ± 0.66 | 2.5 | not decided | not run |' \
  '- 3lc takes less time (One, figure 1): 2.17 ± 0.72 times or more: reproduced.' 'Paper: One, table 1.' \
  'Model lenet5, 3 hosts, computing 100ms, medians of 2 steps. 2026-11-30. a CPU, of which other programs'; do
  has "$line" table/one.md
done

# rows of another revision, two of one measurement, rows that no table has, and claims of what is not there
mkdir mixed
sed 's/,10mbit,0ms,1,1,/,10mbit,0ms,1,2,/' table/times.csv >mixed/times.csv
times --out mixed --plan 2>err && fail 'a mix of revisions'
has 'times.csv has 3 rows of other revisions than times.toml, the first of revision 2, commit abc' err
(cat table/times.csv && tail -n 1 table/times.csv) >mixed/times.csv
times --out mixed --plan 2>err && fail 'two rows of one measurement'
has 'times.csv has two rows of one measurement: one/speed, all-reduce, natural, raw' err
sed 's/100ms/90ms/' table/times.csv >mixed/times.csv
times --out mixed --plan >out
has '9 rows of mixed/times.csv are of no measurement of the plan: no table has them' out
sed -i 's/"3lc" = 4.1/"4lc" = 4.1/' claims.toml
times --out table --hours 0 2>err && fail 'a claim of another design'
has 'papers: claims.toml speaks of one/speed, 10mbit, 0ms, 4lc, one way: times.toml does not' err

# the plan and the claims of the repository fit each other; minutes of trainings are steps times steps' time
mkdir own
{
  head -n 1 new/times.csv
  for step in push-pull,,,1,1.3 owners,3lc,same,1,0.06; do
    echo "3lc/figures-4-to-6,${step%,*},resnet20,4,10.6ms,10mbit,0ms,1,1,5,${step##*,},1,1.3,0,1,80,0.1,0,7,CPU,a,b"
  done
  for rate in 5mbit 1gbit; do
    echo "gossip/figures-2-to-4,floats,,,1,resnet20,8,0ms,$rate,20ms,1,1,5,3,3,3,0,1,80,0.1,0,7,CPU,abc,now"
  done
} >own/times.csv
"$python" - "$root" <<'END'
import pathlib, sys
sys.path.insert(0, sys.argv[1] + "/bench/experiments/papers")
from plan import Plan
from records import Record
plan, record = Plan(pathlib.Path(sys.argv[1]) / "bench/experiments/papers/plan.toml"), Record(pathlib.Path("own"))
item = next(one for one in plan.items if one.key == "3lc/figures-4-to-8")
for design in item.designs:
    for steps, right in (1500, 60), (3000, 80), (4500, 80.5), (6000, 81):
        if design.name in ("32-bit float", "3LC (s=1.00)"):
            record.add(item.run(design, 8, 4, steps, 1), "cifar10-1", {
                "accuracy": str(right), "push_bits": "1", "pull_bits": "1", "seconds": "1", "torch": "2",
                "commit": "a"}, [])
END
PYTHONPATH='' "$python" "$root/bench/experiments/papers/papers.py" all --tables --out own >out
has '| 32-bit float | 81.00 | 130 | 65 | not run |  | not run |  |' own/3lc.md
has '| 3LC (s=1.00) | 81.00 | 6 | 3 | not run |  | not run |  |' own/3lc.md
has 'not run | not run | 3,000 | 3,000 |' own/gossip.md
