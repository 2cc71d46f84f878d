#!/bin/bash
# SPDX-License-Identifier: MIT
# On the real gradients tlc-bench and the independent model count the same frame bytes and the same bits a value, and all
# their frames have the same CRC-32, file by file.
# model-bits.sh SOURCE_ROOT TLC_BENCH
set -euo pipefail
cd "$1"
bench=$2
shopt -s nullglob
files=(bench/data/*.npy)
small=(bench/data/{conv1,fc}.weight.npy)

# compare CODEC FILE...
compare() {
  local codec=$1 file ours theirs
  shift
  for file; do
    ours=$("$bench" -q -t 0 --seed 0 --format csv -c "$codec" "$file" | python3 -c '
import csv, sys
row = [r for r in csv.DictReader(sys.stdin) if r["codec"] != "memcpy"][-1]
print(row["frame_bytes"], format(float(row["bits_per_value"]), ".6f"), row["crc32"])')
    theirs=$(python3 tests/vectors/model.py bits -c "$codec" "$file" |
      awk '$1 == "total" {printf "%d %.6f %s\n", $6, $8, $10}')
    [[ -n $ours && $ours == "$theirs" ]] || { echo "$codec, $file: tlc-bench says $ours, the model $theirs"; exit 1; }
  done
}

for codec in 3lc 3lc:s=1.75 3lc:block=4096 ternary+quartic raw 3lc-golomb sbc:p=0.01 onebit topk:p=0.05 int8; do
  compare "$codec" "${files[@]}"
done
# one random word a value takes the model its time
for codec in natural natural:bits=9,rounding=nearest,shift=2 qsgd:bits=4 qsgd:block=1000 random-sparse \
  stochastic-ternary+quartic+zerorun stochastic-ternary+golomb; do
  compare "$codec" "${small[@]}"
done
