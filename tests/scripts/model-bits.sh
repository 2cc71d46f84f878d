#!/bin/bash
# SPDX-License-Identifier: MIT
# Compares tlc-bench with the independent model on the recorded gradients: frame bytes, bits a value and the CRC-32 of
# all frames must be the same for each file. Both start from the recorded residual.
# model-bits.sh SOURCE_ROOT TLC_BENCH
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
cd "$1"
bench=$2
shopt -s nullglob
run=bench/data/resnet20-cifar10
files=("$run"-s1.00/{conv1,b.3.conv2,fc}.weight.npy)
small=("$run"-s1.00/{conv1,fc}.weight.npy)
own=("$run"-s1.75/{conv1,b.3.conv2,b.8.conv1,fc}.weight.npy)

# row TLC_BENCH_OPTION...: the last row of the report
row() {
  "$bench" -q -t 0 --seed 0 --format csv "$@" | python3 -c '
import csv, sys
row = list(csv.DictReader(sys.stdin))[-1]
print(row["frame_bytes"], format(float(row["bits_per_value"]), ".6f"), row["crc32"])'
}

# model MODEL_OPTION...: the same of the model
model() { python3 tests/vectors/model.py bits "$@" | awk '$1 == "total" {printf "%d %.6f %s\n", $6, $8, $10}'; }

# compare [--cold] CODEC FILE...
compare() {
  local cold=() codec file ours theirs
  [[ $1 != --cold ]] || { cold=(--cold); shift; }
  codec=$1
  shift
  for file; do
    ours=$(row "${cold[@]}" -c "$codec" "$file")
    theirs=$(model "${cold[@]}" -c "$codec" "$file")
    [[ -n $ours && $ours == "$theirs" ]] ||
      { echo "${cold[*]} $codec, $file: tlc-bench says $ours, the model $theirs"; exit 1; }
  done
}

for codec in 3lc 3lc:block=4096 ternary+quartic raw 3lc-golomb sbc:p=0.01 onebit topk:p=0.05 int8; do
  compare "$codec" "${files[@]}"
done
compare 3lc "$run-s1.00/b.8.conv1.weight.npy" # the largest
compare 3lc:s=1.75 "${own[@]}"
compare --cold 3lc "${small[@]}"
# the folder of runs: tlc-bench takes the run with the s of the codec
ours=$(row -c 3lc:s=1.75 bench/data)
theirs=$(model -c 3lc:s=1.75 "${own[@]}")
[[ ${ours% *} == "${theirs% *}" ]] ||
  { echo "3lc:s=1.75, bench/data: tlc-bench says $ours, the model $theirs"; exit 1; }
# here the model is slow: it draws a random word for each value
for codec in natural natural:bits=9,rounding=nearest,shift=2 qsgd:bits=4 qsgd:block=1000 random-sparse \
  stochastic-ternary+quartic+zerorun stochastic-ternary+golomb; do
  compare "$codec" "${small[@]}"
done
