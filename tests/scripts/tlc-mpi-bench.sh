#!/bin/bash
# SPDX-License-Identifier: MIT
# tlc-mpi-bench from outside: options, bytes as tlc-sim counts them, results that are verified, predictions, formats.
# tlc-mpi-bench.sh TLC_MPI_BENCH TLC_SIM MPIEXEC DATA
set -uo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
bench=$1 sim=$2 mpiexec=$3 data=$4

unset TLC_NETWORK_RATE TLC_NETWORK_LATENCY

program=tlc-mpi-bench quick=(--rounds 1)
run() { "$bench" "$@"; }
# shellcheck source-path=SCRIPTDIR source=bench-checks.sh
. "$(dirname "$0")/bench-checks.sh"

# ranks N ARGUMENTS...: status 0, nothing on stderr; the report is in out
ranks() { says_nothing "$mpiexec" -n "$1" "$bench" --warmup 1 --rounds 2 --traces "$data" "${@:2}"; }

# ---- options

lenet=(--shapes "$source_root/bench/shapes/lenet5.txt")
refuses 'name a list of tensors with --shapes*'
refuses '--handles 0: @(it|item|nothing|after) *' "${lenet[@]}" --handles 0
refuses '--kind ring: @(it|item|nothing|after) *' "${lenet[@]}" --kind ring
refuses '--kind groups:2: it is all-reduce, owners, gather, server or gossip' "${lenet[@]}" --kind groups:2
refuses '--kind servr: it is all-reduce, owners, gather, server or gossip; did you mean server[?]' "${lenet[@]}" \
  --kind servr
refuses '--shapes other.txt: there may be one list of tensors, and --shapes */lenet5.txt was given before' \
  "${lenet[@]}" --shapes other.txt
refuses '--latency goes with --link: *' "${lenet[@]}" --latency 5
refuses '--link goes without --no-predict' "${lenet[@]}" --no-predict --link 1Gbit
refuses '--codec 3lc: --kind gossip needs a codec without bias*' "${lenet[@]}" --kind gossip -c natural -c 3lc
refuses '--kind gossip: it needs a codec without bias*' "${lenet[@]}" --kind gossip -c 3lc
refuses '--kind server:2: there are only 1 ranks' "${lenet[@]}" --kind server:2
refuses '--kind server:1 --apart: of 1 ranks none is left*' "${lenet[@]}" --kind server --apart
TLC_NETWORK_RATE=10 TLC_NETWORK_LATENCY=0ms refuses 'TLC_NETWORK_RATE 10: it is *' "${lenet[@]}"
refuses '--kind serve: it is *; did you mean server[?]' "${lenet[@]}" --kind serve
refuses '--pull goes with --no-predict: *' "${lenet[@]}" --pull same
refuses '--pull sam: *; did you mean same[?]' "${lenet[@]}" --no-predict --pull sam
refuses '--handles layer: it is *, or layers; did you mean layers[?]' "${lenet[@]}" --handles layer

# ---- bytes, times and predictions

codecs=(-c 3lc:s=1.75 -c qsgd:bits=8 -c raw)
# expects RANKS KINDS: the rows of tlc-sim, in the file expected
expects() {
  "$sim" "${lenet[@]}" "${codecs[@]}" --traces "$data" --warmup 1 --rounds 2 --link 100Mbit --format json \
    --ranks "$1" --kind "$2" >expected || bad "tlc-sim: exit status $?"
}

count=$((count + 2))
cat >check.py <<'PYTHON'
import csv, json, math, sys

apart = 'apart' in sys.argv
rows = list(csv.DictReader(open('out', newline='')))
suffix = lambda row: row['graph'] or row['owners'] or row['servers']
expected = {(row['kind'] + (f':{suffix(row)}' if suffix(row) else ''), row['codec']): row
            for row in json.load(open('expected'))['rows'] if not row['beside']}
floats = 4 * int(rows[0]['values'])
compared = set()
assert [row['kind'] for row in rows[:3]] == ['floats', 'halves', 'push-pull:1' if apart else 'push-pull']
for row in rows:
    number = {key: float(row[key] or 'nan') for key in row if key not in ('kind', 'codec', 'model', 'run', 'link',
                                                                         'pull', 'handles', 'version')}
    workers = number['workers']
    assert number['step_s'] >= number['step_best_s'] > 0 and number['speedup'] > 0, row
    assert math.isclose(number['cap'], 431080 / 80), row
    if not row['codec']:
        part = 1 if row['kind'].startswith('push') and apart else 2 * (1 - 1 / number['ranks'])
        assert abs(number['sent_mean'] - part * floats / (2 if row['kind'] == 'halves' else 1)) < 16, row
        continue
    assert row['handles'] in ('1', '3', 'layers') and number['codec_s'] > 0, row
    assert math.isclose(number['wire_s'], number['step_s'] - number['compute_s'] - number['codec_s']), row
    assert row['handles'] != '1' or number['waiting_s'] <= number['step_s'], row
    assert row['run'] == ('resnet20-cifar10-s1.75' if '1.75' in row['codec'] else 'resnet20-cifar10-s1.00'), row
    if row['handles'] == '1':
        other = expected[row['kind'], row['codec']]
        compared.add((row['kind'], row['codec']))
        for key in ('sent_mean', 'sent_busiest', 'messages') + ('server_sent',) * apart:
            assert number[key] == other[key], (key, row, other[key])
    if row['link'] and row['handles'] == '1':
        assert row['link'] == '100Mbit' and number['latency_s'] == 0.0005, row
        assert math.isclose(number['prediction'], number['predicted_s'] / number['step_s']), row
        assert number['predicted_s'] > number['sent_busiest'] * 8e-8, row
assert compared == set(expected)
PYTHON

kinds=all-reduce,all-reduce:2,owners,gather,gossip:ring
expects 4 $kinds
TLC_NETWORK_RATE=100mbit TLC_NETWORK_LATENCY=500us ranks 4 "${lenet[@]}" "${codecs[@]}" --kind $kinds --format csv \
  --handles 1,3
python3 check.py || bad "4 ranks: other bytes or columns"
(($(wc -l <out) == 1 + 3 + 2 * (4 * 3 + 2))) || bad "4 ranks: $(wc -l <out) lines"

expects 2 server
ranks 3 "${lenet[@]}" "${codecs[@]}" --kind server --apart --format csv --compute 4 --handles 1,layers
python3 check.py apart || bad "2 workers and a server: other bytes or columns"

# ---- answers: of two ranks each sends half of the values to the owner of the other part, and its own part back

# answers PULL -c CODEC -c CODEC SHARE SHARE: what is sent with each codec, of what floats send
answers() {
  ranks 2 "${lenet[@]}" --kind all-reduce --no-predict --format csv --pull "$1" "${@:2:2}" "${@:4:2}"
  count=$((count + 1))
  python3 - "${@:6}" <<'PYTHON' || bad "--pull $1: other bytes"
import csv, sys
floats, _, _, *rows = csv.DictReader(open('out', newline=''))
for row, share in zip(rows, sys.argv[1:], strict=True):
    assert abs(float(row['sent_mean']) / float(floats['sent_mean']) / float(share) - 1) < 0.05, (row, share)
PYTHON
}
answers natural -c raw -c natural 0.625 0.25
answers same -c raw -c onebit 1 0.03125

# ---- formats, and few ranks

ranks 3 "${lenet[@]}" --kind server:2,server:3 -c 3lc --link 1Gbit --isa scalar --compute 1 --even --offload
[[ $(awk 'length > 105' out) == '' ]] || bad "table: too wide"
grep -qF 'cap: small tensors are sent raw, so the gain in bytes is at most 5388' out || bad "table: no cap"
(($(grep -cE '^ +(floats|halves|push-pull|push-pull:2) |^3lc +server:[23] ' out) == 6)) || bad "table: other rows"
count=$((count + 1))
run "${lenet[@]}" --kind all-reduce,server -c raw --rounds 2 --warmup 0 --format json --traces "$data" >out 2>err ||
  bad "one rank: $(<err)"
python3 -c 'import json; assert [r["ranks"] for r in json.load(open("out"))["rows"]] == [1] * 5' ||
  bad "one rank: other rows"

finish_checks
