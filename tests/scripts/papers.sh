#!/bin/bash
# SPDX-License-Identifier: MIT
# The runner of the papers' tables, with a program that stands for trainings: the order of the plan, a run that is
# killed or whose hours are over goes on from its checkpoint, tables with intervals that were worked out by hand, and
# rows that do not mix. And that the plan of the repository is whole.
# papers.sh SOURCE_ROOT PYTHON
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 python=$2
"$python" -c 'import tomllib' 2>/dev/null || { echo 'skipped: Python has no tomllib'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export PYTHONDONTWRITEBYTECODE=1
papers() { "$python" "$root/bench/experiments/papers/papers.py" "$@"; }
fail() { echo "$*"; exit 1; }
has() { grep -qF -- "$1" "$2" || { cat "$2"; fail "$2 has no '$1'"; }; }

# a program with the options and files of those in bench/experiments/torch
mkdir -p data/cifar10 torch-9.9.dist-info
head -c $((3073 * 7)) /dev/zero | tee data/cifar10/data_batch_1.bin >data/cifar10/data_batch_2.bin
cp data/cifar10/data_batch_1.bin data/cifar10/test_batch.bin
printf 'Metadata-Version: 2.1\nName: torch\nVersion: 9.9\n' >torch-9.9.dist-info/METADATA
export PYTHONPATH=$work
cat >sums.py <<'END'
import argparse, csv, os, time
parser = argparse.ArgumentParser()
for name in ("data", "csv", "checkpoint", "bits", "codec"):
    parser.add_argument(f"--{name}")
for name in ("workers", "steps", "seed", "evaluate-every", "size"):
    parser.add_argument(f"--{name}", type=int)
o = parser.parse_args()
first, total = (float(word) for word in open(o.checkpoint).read().split()) \
    if o.checkpoint and os.path.exists(o.checkpoint) else (0, 0)
for step in range(int(first) + 1, o.steps + 1):
    total += o.seed / step
    with open("steps", "a") as file:
        print(o.codec, o.seed, step, file=file)
    time.sleep(float(os.environ.get("STEP_SECONDS", 0)))
    if step % o.evaluate_every == 0 or step == o.steps:
        with open(o.csv, "a") as file:
            if file.tell() == 0:
                print("step,steps,seconds,accuracy,loss,train_loss,push_bits,pull_bits", file=file)
            print(step, o.steps, 3600 * (2 if o.codec == "slow" else 1) * step / o.steps, total, 1, 1, 4, 2, sep=",",
                  file=file)
        if o.checkpoint:
            with open(o.checkpoint + ".new", "w") as file:
                print(step, total, file=file)
            os.replace(o.checkpoint + ".new", o.checkpoint)
END
cat >plan.toml <<'END'
folder = "."
[programs.sums]
data = "cifar10"
sized = true
processes = false
revision = 1
sources = "SOURCES"
values = 1000
floats = 0
[[items]]
paper = "one"
name = "table"
title = "Table 1"
text = "Sums."
program = "sums"
workers = [4]
steps = [20]
seeds = 2
worth = 4
measures = ["accuracy", "bits"]
baseline = "floats"
[items.designs]
"floats" = "--codec raw"
"slow" = "--codec slow"
"fast" = "--codec fast"
END
cat >claims.toml <<'END'
[[figures]]
item = "one/table"
source = "One, table 1"
measure = "difference"
[figures.values]
"slow" = -0.5
"fast" = 0.1
[[figures]]
item = "one/table"
source = "One, table 2"
measure = "bits"
[figures.values]
"slow" = 3.0
"fast" = 2.5
END
files=(--plan-file plan.toml --claims-file claims.toml --data data --jobs 1)

# sources that nobody has judged
status=0
papers all "${files[@]}" --out new --work new 2>err || status=$?
[[ $status == 1 && ! -e new ]] || fail "sources: status $status"
has 'sums.py or what it imports has changed since its revision 1 was given' err
sources=$(papers all --plan-file plan.toml --sources | sed -n 's/.*sources = "\(.*\)", new/\1/p')
sed -i "s/SOURCES/$sources/" plan.toml

# the plan: what says most per hour first. In a stretch all runs take an hour; then the slow one is known to take two
papers all "${files[@]}" --out whole --work whole/work --plan >out
has 'measuring 20 steps of sums, 4 workers' out
[[ $(sed -n 's/^ *[0-9]* one.table, //p' out) == 'floats: 4 workers, 20 steps, seed 1, 60.0 min, 1.0 h
slow: 4 workers, 20 steps, seed 1, 60.0 min, 2.0 h
fast: 4 workers, 20 steps, seed 1, 60.0 min, 3.0 h
floats: 4 workers, 20 steps, seed 2, 60.0 min, 4.0 h
slow: 4 workers, 20 steps, seed 2, 60.0 min, 5.0 h
fast: 4 workers, 20 steps, seed 2, 60.0 min, 6.0 h' ]] || { cat out; fail 'the plan has another order'; }
papers all "${files[@]}" --out whole --work whole/work >out
has '6 runs ended, 0 failed, 0 remain, about 0.0 h' out
grep -E '^program|codec (raw|slow),.*,20,1,1,' whole/runs.csv >some.csv # seed 1 of two designs
mv some.csv whole/runs.csv
papers all "${files[@]}" --out whole --work whole/work --plan >out
[[ $(sed -n 's/^ *[0-9]* one.table, //p' out) == 'fast: 4 workers, 20 steps, seed 1, 90.0 min, 1.5 h
floats: 4 workers, 20 steps, seed 2, 60.0 min, 2.5 h
fast: 4 workers, 20 steps, seed 2, 90.0 min, 4.0 h
slow: 4 workers, 20 steps, seed 2, 120.0 min, 6.0 h' ]] || { cat out; fail 'the plan has another order'; }
papers all "${files[@]}" --out whole --work whole/work >/dev/null
values() { cut -d, -f 1-10 "$1/runs.csv" | LC_ALL=C sort; }
[[ $(wc -l <whole/runs.csv) == 7 ]]

# killed, then out of hours, then to the end: steps before a checkpoint are made once, and the rows are the same
: >steps
cp -r whole/work parts
STEP_SECONDS=0.3 "$python" "$root/bench/experiments/papers/papers.py" all "${files[@]}" --out parts --work parts \
  >out 2>err &
runner=$!
until compgen -G 'parts/*/checkpoint' >/dev/null; do
  kill -0 "$runner" 2>/dev/null || fail 'a run has no checkpoint'
  sleep 0.02
done
kill "$runner"
wait "$runner" && fail 'a runner that was killed ended well'
has 'papers: stopped; the same command goes on' err
before=$(cut -d ' ' -f 1 parts/*/checkpoint)
STEP_SECONDS=0.3 papers all "${files[@]}" --out parts --work parts --hours 1e-4 >out
has '0 runs ended, 0 failed, 6 remain' out
(($(cut -d ' ' -f 1 parts/*/checkpoint) > before)) || fail 'a sitting does not go on from a checkpoint'
papers all "${files[@]}" --out parts --work parts >out
has '6 runs ended, 0 failed, 0 remain' out
[[ $(values parts) == "$(values whole)" ]] || fail "$(diff <(values parts) <(values whole))"
[[ $(grep -c '^raw 1 [12]$' steps) == 2 ]] || fail "$(cat steps)"
compgen -G 'parts/*/log' >/dev/null && fail 'folders of runs that ended are left'
# who holds the lock is alone
flock --no-fork parts/lock sleep 60 &
holder=$!
until ! flock --nonblock parts/lock true; do sleep 0.02; done
papers all "${files[@]}" --out parts2 --work parts 2>err && fail 'two runners in one folder'
has 'parts is in use: another one runs there, or runs that it left' err
kill "$holder"

# a table: means, 95% intervals and verdicts. Three seeds: 4.303 s / sqrt(3); two: 12.706 s / sqrt(2)
#   floats 90, 91, 92: s = 1, 91 +- 2.484. fast 90, 91.1, 92.2: s = 1.1, 91.1 +- 2.733; the differences are 0, 0.1 and
#   0.2: s = 0.1, 0.1 +- 0.248.
#   slow 89, 91 of two seeds: s = sqrt(2), 90 +- 12.706; differences -1, 0: s = 0.707, -0.5 +- 6.353, which is too wide.
#   Bits: fast 2.0, 2.1, 2.2 (mean of both ways): s = 0.1, 2.1 +- 0.248, and the paper has 2.5. slow 3 and 3.
sed -i 's/seeds = 2/seeds = 4/' plan.toml
mkdir table
head -n 1 whole/runs.csv >table/runs.csv
row() { # CODEC SEED ACCURACY PUSH_BITS PULL_BITS
  echo "sums,--codec $1,cifar10-14,8,4,20,$2,1,$3,1,1,3600,$4,$5,,a CPU,9.9,abc,2026-11-30" >>table/runs.csv
}
for seed in 1 2 3; do
  row raw $seed $((89 + seed)) 32 32
  row fast $seed $((89 + seed)).$((seed - 1)) 4 0.$((2 * seed - 2))
done
row slow 1 89 3 3
row slow 2 91 3 3
papers one --tables --plan-file plan.toml --claims-file claims.toml --out table >out
for line in '| design | seeds | accuracy | to floats | paper |  | bits a value | paper |  |' \
  '| floats | 3 | 91.00 ± 2.48 |  |  |  | 32.000 ± 0.000 |  |  |' \
  '| slow | 2 | 90.00 ± 12.71 | -0.50 ± 6.35 | -0.50 | not decided | 3.000 ± 0.000 | 3.000 | reproduced |' \
  '| fast | 3 | 91.10 ± 2.73 | +0.10 ± 0.25 | +0.10 | reproduced | 2.100 ± 0.248 | 2.500 | better |' \
  'cifar10-14, images of 8 x 8. 8 runs, 8.0 hours of training, 2026-11-30. a CPU. PyTorch 9.9. Revision 1, commits' \
  'Paper: One, table 1; One, table 2.'; do
  has "$line" table/one.md
done
# what stands outside the marks stays, and what has no row is not run
printf '\nBy hand.\n' >>table/one.md
sed -i '/fast/d' table/runs.csv
papers one --tables --plan-file plan.toml --claims-file claims.toml --out table >out
has 'By hand.' table/one.md
has '| fast | 0 | not run |  | +0.10 |  | not run | 2.500 |  |' table/one.md
sed 's/^workers = .*/workers = [4, 9]/' plan.toml >more.toml
papers one --tables --plan-file more.toml --claims-file claims.toml --out table >out
has '9 workers: not run yet.' table/one.md
# a table that is new stands behind the one before it in the plan, not below what was written by hand
sed -n '/^\[\[items\]\]/,$p' plan.toml | sed 's/^name = .*/name = "new"/; s/^options = .*//' >>more.toml
papers one --tables --plan-file more.toml --claims-file claims.toml --out table >out
[[ $(grep -xE '<!-- begin .*|By hand.' table/one.md) == *'begin one/new -->'*'By hand.' ]] ||
  fail 'a new table is below'

# designs that are to be equal, and a goal. Losses: base 1.0, 1.1, 1.2; near is 0.05 above each and far 0.5. 10% above
# base is 1.1, 1.21, 1.32: near is 0.05, 0.06 and 0.07 below, far 0.40, 0.39 and 0.38 above. 2 bits of pushes a step are
# 4 a round of two; wide has 8
mkdir goal
head -n 1 table/runs.csv >goal/runs.csv
for seed in 1 2 3; do
  for design in base:1.$((seed - 1)):2 near:1.$((seed - 1))5:2 far:1.$((seed + 4)):2 wide:1.$((seed - 1)):4; do
    IFS=: read -r codec loss pushed <<<"$design"
    echo "sums,--codec $codec --every 2,cifar10-14,8,4,20,$seed,1,50,$loss,1,3600,$pushed,9,,a CPU,9.9,abc,2026-11-30"
  done
done >>goal/runs.csv
sed '/^\[items.designs/,$d; s/^measures.*/measures = ["loss", "round"]/; s/= "floats"/= "base"/' plan.toml >goal.toml
cat >>goal.toml <<'END'
values = 1000
options = "--every 2"
[items.designs]
"base" = "--codec base"
"near" = "--codec near"
"far" = "--codec far"
"wide" = "--codec wide"
END
cat >goals.toml <<'END'
[[equals]]
item = "one/table"
source = "One, figure 1"
text = "These are equal"
within = 0.3
groups = [["base", "near", "far"]]
[[goals]]
item = "one/table"
to = "base"
percent = 10
bits = 6
[[figures]]
item = "one/table"
source = "One"
measure = "round"
[figures.values]
"near" = 4.5
END
papers one --tables --plan-file goal.toml --claims-file goals.toml --out goal >out
for line in '| near | 3 | 1.150 ± 0.248 | +0.050 ± 0.000 | 4.000 ± 0.000 | 4.500 | better |' \
  '- These are equal (One, figure 1). Accuracy to the first of each, within 0.3 points:' \
  '  - near to base: +0.050 ± 0.000: reproduced.' '  - far to base: +0.500 ± 0.000: not.' \
  '- Of designs with at most 6 bits a value and round, loss at most 10% above that of base: met: near; not: far.'; do
  has "$line" goal/one.md
done

# a row that no table has
papers one --plan "${files[@]}" --out table --work parts >out
grep -q 'of no run' out && fail 'all rows are of the plan'
sed 's/codec slow/codec slower/' table/runs.csv >one.csv
mkdir -p apart && mv one.csv apart/runs.csv
papers one --plan "${files[@]}" --out apart --work parts >out
has '2 rows of apart/runs.csv are of no run of the plan: no table has them' out

# rows of two revisions, or two of one run
sed -i '$s/,20,2,1,/,20,2,2,/' table/runs.csv
papers one --tables --plan-file plan.toml --claims-file claims.toml --out table 2>err && fail 'a mix of revisions'
has '1 rows of other revisions than the plan, the first of revision 2 of sums, commit abc' err
tail -n 2 table/runs.csv | head -n 1 >last.csv
cat last.csv >>table/runs.csv
papers one --plan "${files[@]}" --out table 2>err && fail 'two rows of one run'
has 'table/runs.csv has two rows of one run: sums, --codec slow' err

# the plan and the claims of the repository fit each other, and the programs have the options of their runs
papers all --tables --out pages >out
[[ $(cd pages && echo *) == '3lc.md beyond.md gossip.md intml.md sbc.md' ]]
has 'Not run yet.' pages/3lc.md
cd "$root/bench/experiments/papers"
"$python" - <<'END'
import pathlib, subprocess, sys
sys.path.insert(0, ".")
from plan import Plan
plan = Plan(pathlib.Path("plan.toml"))
said = {name: subprocess.run([sys.executable, program.path, "--help"], stdout=subprocess.PIPE, text=True).stdout
        for name, program in plan.programs.items()}
for item in plan.items:
    for run in item.runs(8):
        assert run.steps % run.every == run.saved_every % run.every == 0, run
        missing = [word for word in run.words() if word.startswith("--") and word not in said[run.program.name]]
        assert not missing, (run, missing)

# floats have 32 bits by each way of processes: parts to owners and back, and the whole to all others once in a round
from pages import value_of
for item in plan.items:
    for design in item.designs if item.key == "beyond/gpt" else []:
        run = item.run(design, 8, 4, 1000, 1)
        exchanges, shares = (1000, 2 * 3 / 4) if "sharded" in run.options else (1000 / run.every, 3)
        row = {"sent": str(4 * 834432 * exchanges * shares)}
        assert abs(value_of(run, row, "round") - 32) < 1e-9, design
END
