#!/bin/bash
# SPDX-License-Identifier: MIT
# tlc-bench --exchange from outside: lists of tensors, options, rows and formats, the same bytes on every ISA.
# bench-exchange.sh TLC_BENCH DATA
set -uo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
bench=$1 data=$2
# shellcheck source-path=SCRIPTDIR source=bench-run.sh
. "$(dirname "$0")/bench-run.sh"
shapes=$source_root/bench/shapes

# exchanges ARGUMENTS...: status 0, nothing on stderr; the report is in out
exchanges() { says_nothing run -t 0 --warmup 3 --exchange "$@"; }

# cells KEYS ARGUMENTS...: these columns of each row
cells() {
  exchanges "${@:2}" --format csv
  awk -F, -v keys="$1" '{sub(/\r$/, "")}
    NR == 1 {for (i = 1; i <= NF; i++) at[$i] = i; n = split(keys, key, " ")}
    NR > 1 {for (i = 1; i <= n; i++) printf "%s%s", $at[key[i]], i < n ? " " : "\n"}' out
}

# ---- wrong lists

cat >small.txt <<'LIST'
# a comment

conv 16x3x3x3
conv2 70x64
norm 16
  fc	10x64
bias 10
one 1
LIST
for i in 1 2 3 4; do echo "conv$i 64x64x3x3" && echo "norm$i 64"; done >resnet-medium.txt
echo '# nothing' >none.txt
: >empty.txt
for line in 'a' 'a x3' 'a 3x' 'a 3xx3' 'a 0x3' 'a 3,3' 'a 3x-1' 'a 3 3' 'a 99999999999999999999'; do
  printf 'first 4\n%s\n' "$line" >bad.txt
  refuses "bad.txt: line 2: '$line' is not a name and dimensions, as in 'conv1.weight 16x3x3x3'" --exchange \
    --shapes bad.txt
done
printf 'a 4294967296x4294967296\n' >bad.txt
refuses "bad.txt: line 1: *" --exchange --shapes bad.txt
printf 'a 1152921504606846975\n' >bad.txt
refuses 'bad.txt: line 1: there are too many tensors or values' --exchange --shapes bad.txt
printf 'a 3\nb 4\na 5\n' >bad.txt
refuses 'bad.txt: line 3: a comes twice' --exchange --shapes bad.txt
printf 'a%2000s3\n' '' >bad.txt
refuses 'bad.txt: line 1: is too long' --exchange --shapes bad.txt
refuses 'none.txt: has no tensors' --exchange --shapes small.txt --shapes none.txt
refuses 'empty.txt: has no tensors' --exchange --shapes empty.txt
refuses 'missing.txt: No such file or directory' --exchange --shapes missing.txt
refuses '.: Is a directory' --exchange --shapes .

# ---- options

refuses '--exchange: name a list of tensors with --shapes*' --exchange
refuses '--exchange 0: @(it|item|nothing|after) *' --exchange 0 --shapes small.txt
refuses '--exchange 2,: @(it|item|nothing|after) *' --exchange=2, --shapes small.txt
refuses '--exchange 2000: @(it|item|nothing|after) *' --exchange 2000 --shapes small.txt
refuses '--algorithm ring: @(it|item|nothing|after) *' --exchange --shapes small.txt --algorithm ring
refuses '--owners 0: @(it|item|nothing|after) *' --exchange --shapes small.txt --owners 0
refuses '--exchange: it does not go with --small' --small --exchange
refuses '--shapes goes with --exchange' --shapes small.txt --small
refuses '--algorithm goes with --exchange' --algorithm gather --synthetic gauss
refuses '--owners goes with --exchange' --owners 2 --synthetic gauss
refuses "$data: no files go with --synthetic" --exchange --shapes small.txt --synthetic gauss "$data"
refuses '--cold goes with files*' --exchange --shapes small.txt --cold
refuses '--codec 3lc:s=3: *' --exchange --shapes small.txt -c 3lc:s=3
for option in '--threads 2' '--delay 2' '--dtype f16' '--feedback on' --checksum --per-tensor --peers '--sizes 5' \
  '--codec papers'; do
  read -ra words <<<"$option"
  [[ ${words[0]} != --codec ]] || words=(--codec papers)
  refuses "${words[0]}* does not go with --exchange" --exchange --shapes small.txt "${words[@]}"
done
refuses '--values does not go with --exchange' --exchange --shapes small.txt --values 5

# ---- rows

keys='kind model codec algorithm ranks owners values rounds assume_finite run_s'
rows=$(cells "$keys" 1,3,9 --owners 2,9 --shapes small.txt -c 3lc:s=1.75 -c raw --algorithm server \
  --algorithm all-reduce --assume-finite "$data")
want=
for codec in 3lc:s=1.75 raw; do
  run=1
  [[ $codec == raw ]] || run=1.75
  for finite in 0 1; do
    for row in 'all-reduce 1 1' 'all-reduce 3 3' 'all-reduce 3 2' 'all-reduce 9 9' 'all-reduce 9 2' 'server 1 1' \
      'server 3 1' 'server 9 1'; do
      want+="exchange small $codec $row 5579 16 $finite $run"$'\n'
    done
  done
done
[[ $rows == "${want%$'\n'}" ]] || bad "other rows: $rows"
[[ $(cells 'algorithm ranks' --shapes small.txt) == \
  $'all-reduce 2\nall-reduce 8\ngather 2\ngather 8\nserver 2\nserver 8' ]] || bad "other rows by default"
[[ $(cells 'model values' 2 --algorithm gather --shapes small.txt --shapes "$shapes/resnet110.txt") == \
  $'small 5579\nresnet110 1727962' ]] || bad "not one row for each model"

# Own messages do not travel. Gathered bytes grow linearly, those of an all-reduce hardly. A server sends its answer to
# each worker.
cells 'algorithm ranks sent_mean_x sent_busiest_x framing_percent' 1,2,5,11 --owners 11 --shapes resnet-medium.txt \
  "$data" >sent
awk '{mean[$1, $2] = $3; bad = bad || $3 > $4 * 1.000001 || $5 <= 0 || $5 > 3}
  $1 != "server" && $2 == 1 {bad = bad || $3 + $4 != 0}
  $1 == "gather" && $2 > 1 {each = $3 / ($2 - 1); bad = bad || each < 0.94 || each > 1.02}
  $1 == "server" {bad = bad || $4 < $2 * 0.5}
  END {exit bad || NR != 12 || mean["all-reduce", 11] > mean["gather", 11] / 2}' sent || bad "bytes: $(<sent)"

# Bytes are the same in each run and on each ISA, and with assume_finite.
bytes='algorithm ranks owners sent_mean_x sent_busiest_x framing_percent frame_bytes ratio bits_per_value'
for options in "2,5 --shapes small.txt -c 3lc -c sbc -c natural -c topk+golomb -c qsgd:bits=4 $data" \
  '3 --owners 2 --shapes small.txt --synthetic gauss --seed 5 -c 3lc:block=100 -c onebit' \
  '3 --algorithm all-reduce --shapes resnet-medium.txt'; do
  read -ra words <<<"$options"
  first=$(cells "$bytes" "${words[@]}")
  (($(wc -l <<<"$first") > 0)) || bad "$options: no rows"
  for isa in $("$bench" --version | sed -n 's/^ISAs: //p' | tr -d ,); do
    [[ $(cells "$bytes" "${words[@]}" --isa "$isa") == "$first" ]] || bad "$options: other bytes with --isa $isa"
  done
done
words=(3 --algorithm gather --shapes small.txt "$data")
[[ $(cells "$bytes" "${words[@]}" --assume-finite | uniq | wc -l) == 1 ]] || bad "other bytes with assume_finite"
first=$(cells frame_bytes "${words[@]}")
[[ $(cells frame_bytes "${words[@]}" --seed 2) != "$first" ]] || bad "--seed does not change the gradients"
[[ $(cells frame_bytes "${words[@]}" --cold) != "$first" ]] || bad "--cold does not change the residuals"
[[ $(cells frame_bytes "${words[@]}" --steps 1) != "$first" ]] || bad "--steps does not change the gradients"

# ---- all codecs, and formats

exchanges 3 --shapes small.txt -c all --assume-finite
[[ $(awk 'length > 100' out) == '' ]] || bad "table: wider than 100 columns"
exchanges 2,11 --shapes small.txt --shapes resnet-medium.txt -c 3lc:s=1.75 "$data"
[[ $(awk 'length > 100' out) == '' ]] || bad "table: wider than 100 columns"
(($(grep -c '^codec ' out) == 1)) || bad "more than one table"
grep -q '^every message and output verified$' out || bad "table: no word of what was verified"
! grep -q 'add many' out || bad "table: a wide column without --wide"
exchanges 2 --shapes small.txt --wide "$data"
grep -q 'add many' out || bad "table: --wide: a column is missing"
exchanges 2 --shapes small.txt -c sbc "$data"
grep -qF '*: no run has its s' out || bad "table: no note of the run"
exchanges 2 --shapes small.txt --format markdown
[[ $(grep '^|' out | tr -dc '|\n' | sort -u | wc -l) == 1 ]] || bad "markdown: rows of different length"
if command -v python3 >/dev/null; then
  exchanges 2,3 --shapes small.txt --format json "$data"
  count=$((count + 1))
  python3 - <<'PYTHON' || bad "json: other values"
import json
rows = json.load(open('out'))['rows']
assert len(rows) == 6
for row in rows:
    assert abs(row['bits_per_value'] - 8 * row['frame_bytes'] / (row['values'] * row['rounds'])) < 1e-6, row
    assert abs(row['bits_per_value'] * row['ratio'] - 32) < 1e-6 and row['feedback'] == 1, row
    assert (row['owners'] is None) == (row['algorithm'] == 'gather') and row['run'] == 'resnet20-cifar10-s1.00', row
    for key in 'step', 'codecs':
        assert 0 < row[key + '_best_ms'] <= row[key + '_ms'] < 1000, row
    assert 0 < row['add_many_ms'] and row['other_percent'] > -100 and row['other_best_percent'] > -100, row
    assert row['memcpy_gb_s'] is None and row['crc32'] is None and row['compress_ns'] is None, row
PYTHON
fi

finish_checks
