#!/bin/bash
# SPDX-License-Identifier: MIT
# The experiments in PyTorch: a run that is stopped goes on with the same bits and the same counts; another way trains.
# experiments.sh SOURCE_ROOT LIBRARY PYTHON
set -euo pipefail
root=$1 python=$3
"$python" -c 'import torch' 2>/dev/null || { echo 'skipped: there is no torch'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export THREELC_LIBRARY=$2 PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore OMP_NUM_THREADS=1
mkdir data
cp "$root/README.md" data/text.txt
text() {
  "$python" "$root/bench/experiments/torch/text.py" --data data --model lstm --length 12 --batch 2 --workers 2 \
    --evaluate-every 3 --quiet "$@" >out 2>&1 || { echo "$*:"; cat out; exit 1; }
}

text --steps 6 --csv whole.csv
text --steps 6 --csv parts.csv --checkpoint saved --stop-after 3
text --steps 6 --csv parts.csv --checkpoint saved
# all columns but the seconds
same() { "$python" -c 'import csv, sys
for row in csv.DictReader(open(sys.argv[1])):
    print([value for name, value in row.items() if "seconds" not in name])' "$1"; }
diff <(same whole.csv) <(same parts.csv)
[[ $(wc -l <whole.csv) == 3 ]]
text --way dcd --codec qsgd:bits=8 --steps 3
grep -q 'text-lstm dcd qsgd:bits=8 step 3: loss' out
