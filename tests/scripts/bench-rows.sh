#!/bin/bash
# SPDX-License-Identifier: MIT
# tlc-bench from outside: codecs, rows, formats, the same frames on every ISA.
# bench-rows.sh TLC_BENCH DATA
set -uo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
bench=$1 data=$2
# shellcheck source-path=SCRIPTDIR source=bench-run.sh
. "$(dirname "$0")/bench-run.sh"

# ---- all codecs

count=$((count + 1))
run --list >list || bad "--list: exit status $?"
sed -n '/^The codecs of -c all$/,/^$/p' list | sed -n 's/^  //p' >all
for codec in 3lc 3lc:s=1.75 3lc-golomb sbc sbc:p=0.001 ternary+quartic stochastic-ternary+quartic \
  stochastic-ternary+quartic+zerorun stochastic-ternary+golomb natural natural:rounding=nearest \
  natural:bits=9 int8 qsgd \
  qsgd:bits=4 onebit topk topk:p=0.01,bits=1+golomb topk:p=0.03,bits=2+golomb random-sparse raw; do
  grep -qx -- "$codec" all || bad "--list: $codec is not among the codecs of -c all"
done
[[ $(sort all | uniq -d) == '' ]] || bad "--list: a codec of -c all comes twice"
! grep -qxE 'ternary\+quartic\+zerorun|ternary\+golomb|sparse-binary\+golomb' all ||
  bad "--list: what has a short name comes again"
grep -qE '^  quartic +3-value symbols to ' list || bad "--list: no stage quartic"
grep -qE '^ +s +1 <= s < 2, default 1' list || bad "--list: no range of s"
accepts --format csv -c all --steps 2 "$data"
sed -nE 's/^[^,]*,codec,("([^"]*)"|([^,]*)).*/\2\3/p' out | cmp -s - all || bad "-c all: not the codecs of --list"
accepts -c all good.npy
accepts -c all --synthetic laplace --values 5000 --steps 3 --threads 2 --assume-finite --dtype bf16
[[ $(awk 'length > 100' out) == '' ]] || bad "table: -c all: wider than 100 columns"
! grep -q clipped out || bad "table: a column of clipped values, and there are none"
accepts -c all --feedback on --synthetic gauss --values 3001 --steps 4 --delay 2 --checksum
# its residual grows in each step, and the steps are repeated for all this time
accepts -c random-sparse --feedback on --synthetic gauss --values 3001 --steps 4 -t 0.2
accepts -c natural large.npy
awk '/^natural/ {found = / 4 +100.0$/} END {exit !found}' out || bad "table: not 4 clipped values"
for n in 0 1 4; do accepts -c all --synthetic gauss --values $n --steps 2; done
accepts --aggregate --sizes 1000,1 --checksum --peers -c natural -c natural:bits=9,shift=4 -c natural:rounding=nearest
(($(grep -cE '^natural(:[^ ]*)? +[48] +(1|1000) ' out) == 12)) || bad "--aggregate: not a row for each size and codec"
(($(grep -c '^decompress-add, compress ' out) == 12)) || bad "--aggregate: not a peer for each"
accepts --aggregate=3,64 --sizes 77 --synthetic gauss --format csv
awk -F, '$2 == "aggregate" {print $12}' out | xargs | grep -qx '3 64' || bad "--aggregate=3,64: other inputs"
accepts --frames --sizes 1000,1
for codec in 3lc 3lc:s=1.75 sbc natural; do
  [[ $(awk -v codec=$codec '$1 == codec {printf "%s of %s, ", $2, $3}' out) == \
    '2 of 1000, 8 of 1000, 32 of 1000, 2 of 1, 8 of 1, 32 of 1, ' ]] || bad "--frames: other rows of $codec"
done
for options in '-c all --frames 3 --sizes 0,1,700 --checksum --synthetic gauss' '-c raw --frames 1,256 --sizes 320' \
  '-c natural:block=64 -c 3lc-golomb --frames=5,33 --sizes 3001 --feedback on --isa scalar --steps 3 --warmup 7' \
  '--frames 40 --sizes 300000 --warmup 0 --threads 3,1 --wide -c 3lc -c natural:block=70000 -c int8'; do
  # shellcheck disable=SC2086 # words
  accepts $options
done
[[ $(awk 'length > 180' out) == '' ]] || bad "table: --frames --wide: wider than 180 columns"
if command -v python3 >/dev/null; then
  accepts -c all --synthetic laplace --values 20000 --steps 1 --format json && cp out all.json
  accepts -c 3lc -c sbc -c onebit --synthetic laplace --values 2000 --delay 3 --format json && cp out delay.json
  accepts --aggregate --sizes 500 --format json && cp out aggregate.json
  accepts -c natural -c 3lc -c raw --frames 1,2,4,9 --sizes 70000 --threads 1,2 --format json && cp out frames.json
  accepts -c natural -c 3lc -c raw --frames 1,2,4,9 --sizes 70000 --threads 1,2 --format csv && cp out frames.csv
  count=$((count + 1))
  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$source_root/tests/vectors python3 - <<'PYTHON' || bad "a row does not add up"
import csv, json, math, re
import manifest
facts, cases = {stage.name: stage.facts for stage in manifest.stages()}, manifest.read()
def first(codec):
    return re.match('[a-z0-9-]+', codec)[0]
def is_random(codec):
    """whether frames of 512 values depend on the seed"""
    same = [c for c in cases if c.text == codec] or [c for c in cases if first(c.text) == first(codec)]
    return any(1 <= int(c.properties.get('random', 0)) <= 512 for c in same)
def rows(name, kind='codec'):
    return {row['codec'] if kind == 'codec' else row['inputs']: row
            for row in json.load(open(name))['rows'] if row['kind'] == kind}
for codec, row in rows('all.json').items():
    p, symbols = row['nonzero_percent'] / 100, 'SYMBOLS' in facts[first(codec)]
    assert (row['entropy_bits_per_value'] is not None) == symbols, row
    if symbols:
        entropy = -p * math.log2(p) - (1 - p) * math.log2(1 - p) + (0 if 'SPARSE' in facts[first(codec)] else p)
        assert abs(row['entropy_bits_per_value'] / entropy - 1) < 1e-6, (row, entropy)
        assert abs(row['bits_x_entropy'] * entropy / row['bits_per_value'] - 1) < 1e-6, row
    assert (row['random_share'] is not None) == is_random(codec), row
    assert row['delay'] == 1 and row['clipped'] == 0 and row['compress_roofline'] > 0, row
for row in rows('delay.json').values():
    assert row['delay'] == 3 and row['steps'] == 18, row
    assert [bits > 0 for bits in row['bits_by_step']] == [False, False, True] * 6, row
    assert abs(row['ratio'] * row['frame_bytes'] / (18 * 2000 * 4) - 1) < 1e-6, row
    assert abs(sum(row['bits_by_step']) / 18 - row['bits_per_value']) < 1e-4 and row['sum_relative_error'] < 1e-5, row
for inputs, row in rows('aggregate.json', 'aggregate').items():
    elements = inputs * 500 / row['aggregate_g_ate_s'] # ns of a call
    assert abs(elements * row['aggregate_gb_s'] / (inputs * 500) - 1) < .1 and row['aggregate_x_memcpy'] > 0, row
added = json.load(open('frames.json'))['rows']
assert [(row['threads'], row['codec'], row['frames']) for row in added] == \
    [(threads, codec, frames) for threads in (1, 2) for codec in ('natural', '3lc', 'raw') for frames in (1, 2, 4, 9)]
for row, other in zip(added, csv.DictReader(open('frames.csv', newline=''))):
    def agree(product, quotient):
        return abs(product / quotient - 1) < 1e-6
    assert row['kind'] == 'frames' and row['values'] == 70000 and row['feedback'] == (row['codec'] == '3lc'), row
    for key in 'add_many', 'from_zero':
        speed = row[key + '_gb_s']
        assert agree(speed, row['memcpy_gb_s'] * row[key + '_x_memcpy']) and row[key + '_roofline'] > 0, row
        assert agree(speed, row['decompress_add_gb_s'] * row[key + '_x_add']), row
    assert agree(row['decompress_add_ns'] * row['decompress_add_gb_s'], 4 * 70000), row
    assert agree(row['bits_per_value'] * row['frames'] * 70000, 8 * row['frame_bytes']), row
    assert agree(row['ratio'] * row['bits_per_value'], 32) and row['step_relative_error'] is None, row
    for key in 'frames', 'threads', 'codec', 'values', 'frame_bytes', 'nonzero_percent':
        assert other[key] == str(row[key]), (key, row, other) # frames do not depend on time
of = {(row['codec'], row['frames']): row for row in added}
assert of['natural', 9]['nonzero_percent'] == 100 and 0 < of['3lc', 9]['nonzero_percent'] < 10
one, two, four, nine = (of['3lc', frames]['frame_bytes'] for frames in (1, 2, 4, 9))
assert nine == 2 * four + one and four != 2 * two != 4 * one # 4 senders, then copies
PYTHON
fi

# ---- the designs of the papers

sed -n '/^The rows of -c papers$/,/^$/p' list | sed -n 's/^  //p' >papers
accepts -c papers "$data"
[[ $(awk 'length > 100' out) == '' ]] || bad "table: -c papers: wider than 100 columns"
grep -qE '^raw \(delay 2\) \* +2 local steps +[0-9]' out || bad "table: no row of two local steps"
(($(grep -c '^delay: where the steps do not fill the last frame' out) == 1)) || bad "table: repeated steps not named"
accepts -c 3lc -c raw "$data"
! grep -qE 'in the paper|^delay: ' out || bad "table: says something of papers, and there are none"
accepts -c papers --threads 2 --assume-finite --per-tensor "$data"/*-s1.00/{conv1,fc}.weight.npy
accepts -c papers --synthetic gauss --sizes 0,1,700 --dtype bf16
# steps that are repeated give the frames of a file that has them twice: 20 steps of 640 values, made of 16
mkdir once twenty
tail -c $((16 * 640 * 4)) "$data/resnet20-cifar10-s1.00/fc.weight.npy" >once/fc.f32
{ cat once/fc.f32 && head -c $((4 * 640 * 4)) once/fc.f32; } >twenty/fc.f32
[[ $(crcs -c papers --values 640 once | grep '^sbc:p=0.01,' | head -n 1) == \
  "$(crcs -c sbc:p=0.01 --delay 10 --values 640 twenty)" ]] || bad "-c papers: other frames of repeated steps"
if command -v python3 >/dev/null; then
  accepts -c papers -c raw -c papers --format json "$data"
  count=$((count + 1))
  python3 - <<'PYTHON' || bad "-c papers: other rows"
import json, re
rows = [row for row in json.load(open('out'))['rows'] if row['kind'] == 'codec']
line_of = re.compile(r'(.+?)  +(\S+?)(, --feedback on)?(?:, --delay (\d+))?')
listed = [line_of.fullmatch(line.rstrip()) for line in open('papers')]
assert len(listed) > 10 and rows[-1]['codec'] == 'raw' and rows.pop()['paper'] is None
assert [row['paper'] for row in rows] == [line[1] for line in listed]
for row, (_, codec, feedback, delay) in zip(rows, map(re.Match.groups, listed)):
    assert row['codec'] == codec and row['delay'] == int(delay or 1) and (not feedback or row['feedback']), row
    assert row['steps'] == max(16, -(-16 // row['delay']) * row['delay']) == len(row['bits_by_step']), row
    assert not row['feedback'] or row['sum_relative_error'] < 1e-5, row
of = {row['paper']: row for row in rows}
assert of['32-bit float']['frame_bytes'] == 2 * of['2 local steps']['frame_bytes']
assert of['SBC (3)']['steps'] == 100 and of['SBC (3)']['ratio'] > 9 * of['SBC (2)']['ratio']
PYTHON
fi

# ---- output

accepts --per-tensor "$data"
(($(grep -c '^memcpy ' out) == 5)) || bad "table: no row of memcpy for each tensor"
[[ $(awk 'length > 100' out) == '' ]] || bad "table: wider than 100 columns"
grep -q '^Look at ratio ' out || bad "table: nothing says what to look at"
! grep -q ' error of ' out || bad "table: a wide column without --wide"
accepts --wide --per-tensor "$data"
[[ $(awk 'length > 180' out) == '' ]] || bad "table: --wide: wider than 180 columns"
grep -q ' error of ' out || bad "table: --wide: a column is missing"
accepts -c ternary:s=1.999999,block=268435456+quartic+zerorun --synthetic gauss --values 10
[[ $(awk 'length > 100' out) == '' ]] || bad "table: wider than 100 columns"
accepts -c all --assume-finite --threads 2 "$data"
[[ $(awk 'length > 100' out) == '' ]] || bad "table: wider than 100 columns"
grep -qxF 'stochastic-ternary+quartic+zerorun (assume_finite) *' out || bad "table: a long name is cut"
accepts --format markdown "$data"
[[ $(grep '^|' out | tr -dc '|\n' | sort -u | wc -l) == 1 ]] || bad "markdown: rows of different length"
accepts -c 3lc:s=1.5,block=64 -c raw --format csv --per-tensor "$data"
cp out csv
cp good.npy $'quo"te, \xff\xc3\xa9.npy'
accepts --format json --per-tensor good.npy $'quo"te, \xff\xc3\xa9.npy'
cp out json
accepts --format csv --per-tensor good.npy $'quo"te, \xff\xc3\xa9.npy'
cp out quoted
if command -v python3 >/dev/null; then
  python3 - <<'PYTHON' || bad "a format does not parse"
import csv, json
rows = list(csv.DictReader(open('csv', newline='')))
assert None not in rows[0] and len({len(r) for r in rows}) == 1 and None not in rows[0].values()
assert rows[0]['codec'] == 'memcpy' and rows[0]['compress_x_memcpy'] == '1'
codecs = [r for r in rows if r['kind'] == 'codec']
assert [r['codec'] for r in codecs[:2]] == ['3lc:s=1.5,block=64', 'raw']
assert float(codecs[0]['sum_relative_error']) < 1e-5 and codecs[1]['sum_relative_error'] == '0'
assert int(codecs[1]['frame_bytes']) > int(codecs[1]['values']) * int(codecs[1]['steps']) * 4
assert open('csv', 'rb').read().count(b'\r\n') == len(rows) + 1
rows = list(csv.DictReader(open('quoted', newline='', encoding='latin-1')))
assert rows[-1]['tensor'].startswith('quo"te, '), rows[-1]['tensor']
report = json.load(open('json', encoding='utf-8'))
assert report['tensors'][1]['name'] == 'quo"te, \ufffd\u00e9', report['tensors']
assert report['rows'][0]['codec'] == 'memcpy' and report['rows'][1]['values'] == 6
for row in report['rows']:
    if row['kind'] == 'codec':
        bits = row['bits_by_step']
        assert len(bits) == row['steps'] and abs(sum(bits) / len(bits) - row['bits_per_value']) < 1e-4, row
    else:
        assert row['bits_by_step'] is None and row['crc32'] is None, row
PYTHON
else
  echo "# python3 is not installed: CSV and JSON are not parsed"
fi
# every view in every format: parse FORMAT prints "kind codec assume_finite threads values", and what must not be null
parse() {
  python3 -c '
import csv, json, sys
report = json.load(open("out")) if sys.argv[1] == "json" else {"rows": list(csv.DictReader(open("out", newline="")))}
for row in report["rows"]:
    print(*(row[key] for key in ("kind", "codec", "assume_finite", "threads", "values")), sep="|")
    if row["kind"] == "codec":
        keys = ["compress_ns", "decompress_ns", "decompress_add_ns", "compress_gb_s", "decompress_gb_s",
                "decompress_add_gb_s", "compress_x_memcpy"]
        keys += sys.argv[2:]
        assert all(float(row[key]) > 0 for key in keys), row' "$@"
}
views=(
  "--roofline --sizes 320,999" "codec|3lc|0|1|320 codec|3lc|1|1|320
    codec|3lc:block=65536|0|1|320 codec|3lc:block=65536|1|1|320 codec|3lc|0|1|999 codec|3lc|1|1|999
    codec|3lc:block=65536|0|1|999 codec|3lc:block=65536|1|1|999"
  "--roofline --sizes 400 -c raw --dtype bf16" "codec|raw|0|1|400"
  "--small" "codec|3lc|0|1|1 codec|raw|0|1|1 codec|3lc|0|1|16 codec|raw|0|1|16 codec|3lc|0|1|64 codec|raw|0|1|64
    codec|3lc|0|1|256 codec|raw|0|1|256 codec|3lc|0|1|1024 codec|raw|0|1|1024"
  "--density --sizes 9999" "codec|3lc|0|1|9999 codec|3lc|0|1|9999 codec|3lc|0|1|9999 codec|3lc|0|1|9999
    codec|3lc|0|1|9999 codec|3lc|0|1|9999 codec|3lc|0|1|9999"
  "--synthetic gauss --sizes 1Ki,7 -c 3lc -c raw --assume-finite" "codec|3lc|0|1|1024 codec|3lc|1|1|1024
     codec|raw|0|1|1024
    codec|3lc|0|1|7 codec|3lc|1|1|7 codec|raw|0|1|7"
  "--frames 7 --sizes 9,5000 -c raw --threads 1,2" ""
  "--synthetic gauss --values 5000 -c 3lc --threads 3,1" "codec|3lc|0|3|5000 codec|3lc|0|1|5000"
)
for ((i = 0; i < ${#views[@]}; i += 2)); do
  read -ra options <<<"${views[i]}"
  accepts "${options[@]}"
  [[ $(awk 'length > 100' out) == '' ]] || bad "table: ${options[*]}: wider than 100 columns"
  if [[ $(head -n 1 out) != *' values a step, '* ]]; then
    (($(grep -c '^codec ' out) == 1)) || bad "${options[*]}: more than one table"
  fi
  accepts "${options[@]}" --format markdown
  [[ $(grep '^|' out | tr -dc '|\n' | sort -u | wc -l) == 1 ]] || bad "markdown: rows of different length"
  command -v python3 >/dev/null || continue
  shares=(compress_roofline decompress_roofline add_roofline)
  [[ ${options[0]} != --small ]] || shares=()
  for format in csv json; do
    accepts "${options[@]}" --format $format
    rows=$(parse $format "${shares[@]}") || bad "${options[*]}: $format: a value is missing"
    [[ $(grep '^codec' <<<"$rows" | xargs) == "$(xargs <<<"${views[i + 1]}")" ]] || bad "${options[*]}: rows are $rows"
  done
done
accepts --density --sizes 20000,5
(($(grep -c 'slowest / fastest density' out) == 2)) || bad "density: not one summary for each size"
# at 30% of 20000 values 5 standard deviations are 1.6%
awk '$1 == "3lc" && $2 == 20000 && $NF > 28.4 && $NF < 31.6 {seen++} END {exit seen != 1}' out || bad "density: not 30%"
accepts --roofline --sizes 640
grep -qE '^last-level cache ([0-9.]+ MiB|unknown), memcpy streams from ([0-9.]+ MiB|unknown)$' out ||
  bad "no cache size"
for name in memcpy roofline 'roofline (assume_finite)' 'roofline (one sweep)' 'roofline (no residual)'; do
  grep -qF "$name " out || bad "no row of $name"
done
accepts --peers "$data" --format csv -c 3lc
awk -F, '$3 == "3lc" {bytes = $(NF - 2); nonzero = $(NF - 7)}
  $3 == "naive 3LC" {found = $1 == "" && $2 == "peer" && $(NF - 2) < bytes && $(NF - 7) == nonzero}
  END {exit !found}' out || bad "the naive 3LC does not send the same symbols"
for options in '--dtype f16' '--threads 2' '--delay 2 -c 3lc'; do
  # shellcheck disable=SC2086 # words
  accepts --peers $options --format csv good.npy
  ! grep -q '^,peer,' out || bad "peers with $options"
done
for n in 0 1 4 5; do
  accepts --synthetic gauss --values $n --format json
  ! grep -qE '(nan|inf)[,}]' out || bad "json: not a number"
  accepts --synthetic laplace --values $n
done
count=$((count + 3))
if [[ -w /dev/full ]]; then
  run -t 0 good.npy >/dev/full 2>err
  [[ $? == 1 && $(<err) == 'tlc-bench: standard output: No space left on device' ]] || bad "full disk: $(<err)"
fi
exec 3> >(:)
wait $! # now nobody reads it
run -t 0 good.npy >&3 2>err
[[ $? == 1 && $(<err) == 'tlc-bench: standard output: Broken pipe' ]] || bad "closed pipe: $(<err)"
exec 3>&-
run -t 0 good.npy >&- 2>err
[[ $? == 1 && $(<err) == 'tlc-bench: standard output: '* ]] || bad "closed output: $(<err)"

# ---- the same frames, always

for dtype in f32 f16 bf16; do
  options=(--dtype "$dtype" --checksum -c all -c "3lc:s=1.75,block=100" -c "natural:shift=9,block=70")
  for input in files drawn; do
    count=$((count + 1))
    case $input in
      files) options+=("$data/resnet20-cifar10-s1.75/b.3.conv2.weight.npy") ;;
      *) options[-1]=--synthetic options+=(laplace --values 5000 --steps 3 --seed 7) ;;
    esac
    first=$(crcs "${options[@]}")
    (($(wc -l <<<"$first") == $(wc -l <all) + 2)) || bad "csv: ${options[*]}: $first"
    [[ $(crcs "${options[@]}") == "$first" ]] || bad "$dtype: a second run gives other frames"
    [[ $(crcs "${options[@]}" --threads 2 --steps 3) == $(crcs "${options[@]}" --steps 3) ]] ||
      bad "$dtype: other frames with threads"
    for isa in $(run --version | sed -n 's/^ISAs: //p' | tr -d ,); do
      [[ $(crcs "${options[@]}" --isa "$isa") == "$first" ]] || bad "$dtype: other frames with --isa $isa"
    done
  done
done
# each codec's second row is its frames with assume_finite, and the second half of the rows is with threads
drawn=(--synthetic laplace --values 400000 --steps 2 -c 3lc -c '3lc:s=1.5,block=20000')
first=$(crcs "${drawn[@]}")
[[ $(crcs "${drawn[@]}" --assume-finite | uniq) == "$first" ]] || bad "other frames with assume_finite"
[[ $(crcs "${drawn[@]}" --threads 1,4) == "$first"$'\n'"$first" ]] || bad "other frames with 4 threads"
[[ $(crcs "${drawn[@]}" --threads 3 --assume-finite | uniq) == "$first" ]] || bad "other frames with both"
first=$(crcs "${drawn[@]}" -c sbc --delay 2)
[[ $(crcs "${drawn[@]}" -c sbc --delay 2 --threads 3 --assume-finite | uniq) == "$first" ]] ||
  bad "other frames with a delay"
for isa in scalar avx2 avx512 neon; do
  run --version | grep -qw "$isa" || refuses "--isa $isa: this machine or build does not support it" --isa $isa good.npy
done
# drawn values are the same on every machine; this is what a model of the generator and of 3LC in another language gives
[[ $(crcs --synthetic gauss --values 100 --steps 4 -c 3lc | tail -n 1) == 3lc,105,95db481c ]] || bad "other gauss"
[[ $(crcs --synthetic laplace --values 100 --steps 4 -c 3lc | tail -n 1) == 3lc,81,b9e90935 ]] || bad "other laplace"

finish_checks
