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
for codec in 3lc 3lc:s=1.75 3lc:block=4096 ternary+quartic raw; do
  for file in "${files[@]}"; do
    ours=$("$bench" -q -t 0 --format csv -c "$codec" "$file" | python3 -c '
import csv, sys
row = [r for r in csv.DictReader(sys.stdin) if r["codec"] != "memcpy"][-1]
print(row["frame_bytes"], format(float(row["bits_per_value"]), ".6f"), row["crc32"])')
    theirs=$(python3 tests/vectors/model.py bits -c "$codec" "$file" |
      awk '$1 == "total" {printf "%d %.6f %s\n", $6, $8, $10}')
    [[ -n $ours && $ours == "$theirs" ]] || { echo "$codec, $file: tlc-bench says $ours, the model $theirs"; exit 1; }
  done
done
