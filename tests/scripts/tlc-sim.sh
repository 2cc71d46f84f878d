#!/bin/bash
# SPDX-License-Identifier: MIT
# tlc-sim from outside: options, bytes, predictions, replays, formats.
# tlc-sim.sh TLC_SIM TLC_BENCH DATA
set -uo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
sim=$1 bench=$2 data=$3

program=tlc-sim quick=(--rounds 1)
run() { "$sim" "$@"; }
# shellcheck source-path=SCRIPTDIR source=bench-checks.sh
. "$(dirname "$0")/bench-checks.sh"

# accepts ARGUMENTS...: status 0, nothing on stderr; the report is in out
accepts() { says_nothing run "$@"; }

printf 'conv 16x3x3x3\nconv2 70x64\nnorm 16\nfc 10x64\nbias 10\nbig 300x300\n' >small.txt
for i in 1 2 3 4; do echo "conv$i 64x64x3x3" && echo "norm$i 64"; done >medium.txt

# ---- options

small=(--shapes small.txt)
refuses 'name a list of tensors with --shapes*'
refuses 'missing.txt: No such file or directory' --shapes missing.txt
refuses 'small.txt: it is no option*' small.txt
for option in '--ranks 1' '--ranks 4,' '--ranks 1025' '--ranks x' '--link 10' '--link 10Mb' '--link 0Mbit' \
  '--link -1Mbit' '--link 1Mbit/' '--link 1Mbit/2Mbit/3Mbit' '--link 1Mbit,' '--link nanMbit' '--link infMbit' \
  '--server-link 1' '--kind ring' '--kind gather:2' '--kind server:0' '--kind server:' '--kind server:65' \
  '--kind server:1,' '--kind all-reduce:0' '--kind owners:0' '--kind gossip:' '--kind gossip:2' \
  '--kind gossip:rings' '--kind groups' '--kind groups:' '--kind groups:1' '--kind groups:2x' \
  '--site-link 1' '--site-latency -1' '--latency -1' \
  '--latency 1m' '--latency 1msms' '--link 1Mbit/s/s' '--link 1mb/s' '--compute x' '--rounds 0' '--warmup -1' \
  '--device h10' '--device 3TB/s' '--device h100:' '--device h100:25' '--device 0GB/s:1GB/s' '--device 1GB/s:1GB' \
  '--memory 0' '--memory 1G' '--local-steps 0' '--local-steps 2x' '--seed x' '--steps 0' '--isa sse' '--format xml'; do
  read -ra words <<<"$option"
  refuses "$option: @(it|item|nothing|after) *" "${small[@]}" "${words[@]}"
done
refuses '--lnik: there is no such option; did you mean --link[?]' "${small[@]}" --lnik 1Mbit
refuses '--kind serve: it is all-reduce, *; did you mean server[?]' "${small[@]}" --kind serve
refuses '--kind gossip:rings: after the colon, it is ring, torus or complete; did you mean ring[?]' "${small[@]}" \
  --kind gossip:rings
refuses '--ranks 2,x: item 2, x: it is a whole number from 2 to 1024*' "${small[@]}" --ranks 2,x
refuses '--link 100Mb: it is a number above 0, or two as UP/DOWN, with a unit: kbit, Mbit, *' "${small[@]}" --link 100Mb
refuses '--codec terna+quartic: *[(]did you mean ternary[?])*' "${small[@]}" -c terna+quartic
refuses '--server-link goes with --kind server' "${small[@]}" --kind gather --server-link 1Gbit
refuses '--device h10: it is h100 or rtx4090, or the rates *; did you mean h100[?]' "${small[@]}" --device h10
refuses '--device goes without --kind gossip' "${small[@]}" --kind gather,gossip -c qsgd --device h100
refuses '--device goes without --kind groups' "${small[@]}" --kind groups:2 --device h100
refuses '--site-link goes with --kind groups' "${small[@]}" --kind gossip --site-link 1Gbit
refuses '--site-latency goes with --kind groups' "${small[@]}" --site-latency 0
refuses '--kind groups:4: 6 ranks are not a multiple of it' "${small[@]}" --kind groups:4 --ranks 4,6
refuses '--kind gossip: it needs a codec without bias and error feedback*' "${small[@]}" --kind gossip -c 3lc -c sbc
refuses '--codec 3lc: --kind gossip needs a codec without bias and error feedback*' "${small[@]}" --kind gossip \
  -c natural -c 3lc
refuses '--codec alll: *; did you mean all[?]' "${small[@]}" -c alll
refuses '--cold goes with --traces' "${small[@]}" --cold
refuses '--codec 3lc:s=3: *' "${small[@]}" -c 3lc:s=3
refuses 'nowhere: *' "${small[@]}" --traces nowhere
refuses '--quiet=1: it takes no value' "${small[@]}" --quiet=1
refuses '--link: it needs a value' "${small[@]}" --link
accepts --help
accepts --version
accepts --list

# ---- formats

two=("${small[@]}" --shapes medium.txt --warmup 0 --rounds 1 --traces "$data")
accepts "${two[@]}" --ranks 2,3 --kind all-reduce,gather,server:2 -c 3lc -c sbc --link 1Mbit/10Mbit,2.5Gbit
[[ $(awk 'length > 100' out) == '' ]] || bad "table: wider than 100 columns"
(($(grep -c '^codec ' out) == 2)) || bad "table: not one for each model"
(($(grep -c '^[a-z]*, [23] ranks, .*: .* ms' out) == 8)) || bad "table: not 8 answers"
grep -qF '*: no run has its s' out || bad "table: no note of the run"
grep -qF ' 1Mbit/10Mbit ' out || bad "table: another link"
accepts "${two[@]}" --format markdown
[[ $(grep '^|' out | tr -dc '|\n' | sort -u | wc -l) == 1 ]] || bad "markdown: rows of different length"
accepts "${two[@]}" --format csv
[[ $(awk -F, '{print NF}' out | sort -u | wc -l) == 1 ]] || bad "csv: rows of different length"
(($(wc -l <out) == 1 + 2 * (4 * 3 + 1) * 3)) || bad "csv: other rows by default"
# rates and times as others write them
for way in '100Mbit 30' '100Mbps 30ms' '100mbit/s 0.03s' '12.5MB/s 30000us' \
  '100Mbits/sec 30msec' '12.5MBps 0.0005min' '0.1Gbit/100000kbps 3e1'; do
  accepts "${small[@]}" --rounds 1 --kind gather -c raw --format json --link "${way% *}" --latency "${way#* }"
  [[ $(<out) == *'"up_mbit": 100, "down_mbit": 100,'* && $(<out) == *'"latency_ms": 30,'* ]] ||
    bad "$way: $(grep -oE '"(up_mbit|down_mbit|latency_ms)": [0-9.]*' out)"
done
accepts "${small[@]}" --link 1000Gbit --kind all-reduce --rounds 1 -c raw
(($(grep -c 'send floats' out) == 1)) || bad "raw is said to be faster than floats"

if ! command -v python3 >/dev/null; then
  echo "# python3 is not installed: no figures checked"
  echo "$((count - failed < 0 ? 0 : count - failed)) passed, $failed failed"
  exit $((failed > 0))
fi

# ---- predictions, computed again

accepts "${two[@]}" --ranks 2,6 --kind all-reduce,owners,gather,server,server:3,gossip:torus,groups:2 -c 3lc \
  -c natural --latency 0.5 --compute 2 --link 3Mbit/20Mbit,1Gbit,80Gbit --server-link 40Mbit/30Mbit \
  --site-link 50Mbit/90Mbit --site-latency 0.125 --format json
count=$((count + 1))
python3 - <<'PYTHON' || bad "json: other predictions"
import json, math
out = json.load(open('out'))
rows = out['rows']
assert len(rows) == 2 * 2 * (6 * 2 + 1 + 1) * 3 # gossip takes one of the two codecs; the last is of drawn values

def seconds(load, up, down):
    return max(load['out'] / up, load['in'] / down)

def steps(row, times):
    """The step of the codec, and those of floats: ring, halves, push and pull. Links are this many times as fast."""
    rank = [row[k] * 125e3 * times for k in ('up_mbit', 'down_mbit')]
    server = [row[k] * 125e3 * times if row['servers'] else 1 for k in ('server_up_mbit', 'server_down_mbit')]
    site = [row[k] * 125e3 * times if row['site'] else 1 for k in ('site_up_mbit', 'site_down_mbit')]
    latency, step, n, servers = row['latency_ms'] / 1e3, row['compute_ms'] / 1e3, row['ranks'], row['servers'] or 0
    compute, floats = step, 4 * row['values']
    for phase in row['phases']:
        step += max(phase['rank']['codec_ms'], phase['server']['codec_ms']) / 1e3
        inside = phase['inside']
        moved = max(seconds(phase['rank'], *(site if inside else rank)), seconds(phase['server'], *server))
        step += moved + ((row['site_latency_ms'] / 1e3 if inside else latency) if moved else 0)
    ring = compute + 2 * (n - 1) * (latency + floats / n / min(rank))
    halves = compute + 2 * (n - 1) * (latency + floats / 2 / n / min(rank))
    if servers:
        pushed = (compute + 2 * latency + max(floats / rank[0], n * floats / servers / server[1]) +
                  max(floats / rank[1], n * floats / servers / server[0]))
    else:
        pushed = compute + 2 * (latency + floats * (n - 1) / n / min(rank))
    return step, ring, halves, pushed

def same(a, b):
    return math.isclose(a, b, rel_tol=1e-9)

wins = set()
for row in rows:
    step, ring, halves, pushed = steps(row, 1)
    for key, value in {'step': step, 'ring': ring, 'halves': halves, 'push_pull': pushed,
                       'floats': min(ring, pushed)}.items():
        assert same(row[key + '_ms'], 1e3 * value), (key, row)
    assert same(row['speedup'], min(ring, pushed) / step), row
    assert same(row['step_ms'], row['compute_ms'] + row['codec_ms'] + row['wire_ms']), row
    assert row['overlap_ms'] <= row['step_ms'] and row['overlap_ms'] >= row['compute_ms'], row
    assert row['server_up_mbit'] == (40 if row['servers'] else None), row
    assert row['site_up_mbit'] == (50 if row['site'] else None), row
    assert [p['inside'] for p in row['phases']].count(True) == (2 if row['site'] else 0), row
    assert row['sent_mean'] <= row['sent_busiest'] and row['received_mean'] <= row['received_busiest'], row
    total = [row['ranks'] * row[k + '_mean'] for k in ('sent', 'received')]
    assert row['servers'] or same(*total), row
    assert row['replayed'] == 0 and row['codec_ms'] > 0, row
    wins.add(row['wins'])
    for key in 'break_even_mbit', 'wins_above_mbit':
        if row[key] is not None:
            step, ring, halves, pushed = steps(row, row[key] / row['up_mbit'])
            assert same(step, min(ring, pushed)), (key, row)
    assert (row['break_even_mbit'] is not None) == (row['wins'] in ('below', 'between')), row
    assert (row['wins_above_mbit'] is not None) == (row['wins'] in ('above', 'between')), row
    faster = {'never': False, 'always': True}.get(row['wins'])
    assert faster is None or (row['speedup'] > 1) == faster, row
assert 'below' in wins and 'never' in wins, wins
best = out['best']
assert len(best) == 2 * 2 * 3
for b in best:
    *of, drawn = [r for r in rows if all(r[k] == b[k] for k in ('model', 'ranks', 'link'))]
    fastest = min(of, key=lambda r: r['step_ms'])
    assert not any(r['beside'] for r in of) and (drawn['beside'], drawn['run']) == (1, 'laplace'), b
    assert all(drawn[k] == fastest[k] for k in ('codec', 'kind', 'servers', 'graph', 'site', 'floats_ms')), b
    assert len(of) == 13 and b['step_ms'] == min(r['step_ms'] for r in of), b
    assert b['floats_ms'] == min(r['floats_ms'] for r in of), b
    assert (b['codec'] is None) == (b['step_ms'] >= b['floats_ms']), b
PYTHON

# ---- gradients on a device: the same bytes on the network; what crosses, and what goes through the memory

many=(-c 3lc -c 3lc:block=1000 -c 3lc-golomb -c ternary+quartic -c stochastic-ternary+quartic -c natural
  -c qsgd:bits=4 -c qsgd:block=300 -c onebit -c topk -c 'topk:select=exact,bits=1' -c topk:block=4096
  -c sbc -c sbc:block=1000 -c random-sparse -c int8 -c raw)
on=(--shapes medium.txt --kind 'all-reduce,owners,gather,server:2' --ranks 3 --link 10Gbit --warmup 1
  --rounds 1 --compute 2 --format json --traces "$data")
accepts "${on[@]}" "${many[@]}"
cp out host.json
accepts "${on[@]}" "${many[@]}" --device 200GB/s:10GB/s
cp out device.json
accepts "${on[@]}" -c ternary+quartic -c sbc -c natural --device 200GB/s:10GB/s --memory 2Mi
cp out replayed.json
for way in 'h100 3350e9 25e9' 'rtx4090:50GB/s 1008e9 50e9'; do
  accepts --shapes medium.txt -c ternary+quartic --kind all-reduce --link 1Gbit --rounds 1 --format json \
    --device "${way%% *}"
  read -r memory bus <<<"${way#* }"
  # 4 tensors of 36,864 values as quartic bytes, and 4 of 64 as floats. Of the 4 ranks each owns one tensor: 4 pushes of
  # it come, and an answer goes
  awk -v got="$(grep -oE '"device_ms": [0-9.]*' out | head -1)" "BEGIN {split(got, g, \": \"); m = 147456; q = 4 * 7373
    want = 1e3 * ((24 * m + 2 * q + 24 * m / 4 + 5 * q / 4) / $memory + (2 * (q + 1024) + 5 * q / 4) / $bus)
    exit !(g[2] > want * 0.999999 && g[2] < want * 1.000001)}" ||
    bad "$way: $(grep -oE '"device_ms": [0-9.]*' out)"
done
accepts --shapes medium.txt --device h100 --rounds 1 --link 10Gbit
[[ $(awk 'length > 100 && !/^medium, /' out) == '' && $(<out) == *'; device: h100'* && $(<out) == *'; direct: '* ]] ||
  bad "table with a device"
count=$((count + 1))
python3 - <<'PYTHON' || bad "json: other predictions with a device"
import json, math

def rows(name):
    return {(r['codec'], r['kind']): r for r in json.load(open(name + '.json'))['rows'] if not r['beside']}

LARGE, SMALL = 4 * 36864, 4 * 64 # small tensors have no frame of their own
QUARTIC, VALUES = 4 * 7373, 4 * LARGE
# by codec: what goes to the host, and bytes through the memory besides; None: it depends on the gradients
PUSH = {'3lc': (None, 20), '3lc:block=1000': (4 * (36 * 200 + 173), 20), '3lc-golomb': (None, 20),
        'ternary+quartic': (QUARTIC, 20), 'random-sparse': (None, 8), 'int8': (LARGE, 8),
        'natural': (LARGE + 4 * 4, 8), 'qsgd:bits=4': (LARGE / 2, 8),
        'qsgd:block=300': (LARGE + 4 * 123 * 8, 8), 'onebit': (LARGE / 8, 20),
        'topk': (None, 20), 'topk:select=exact,bits=1': (8 * 4 * 1843, 44), 'topk:block=4096': (None, 44),
        'sbc': (2 * 8 * 4 * 369, 64), 'sbc:block=1000': (2 * 8 * 4 * (36 * 10 + 9), 64)}
GOLOMB = {'3lc-golomb', 'onebit', 'topk', 'topk:select=exact,bits=1', 'topk:block=4096', 'sbc',
          'sbc:block=1000'} # of answers
ANSWERED = dict(PUSH, **dict.fromkeys(GOLOMB, (None, 4)), **{
    'stochastic-ternary+quartic': PUSH['ternary+quartic'], 'random-sparse': (None, 4)})

def stages(codec, sent, memory):
    """Whether the lossless stages of a push moved the rest: of Golomb codes 16 bytes for each symbol that is not 0,
    of which there are at least 2 bits in the payload."""
    if codec == '3lc':
        return memory == 3 * QUARTIC
    rest = memory - 17 * QUARTIC - sent
    return rest % 16 == 0 and 0 < rest / 16 <= 4 * sent
# what comes for each tensor that rank 0 owns, if all three have as much: bytes of each push, and what is read of it
ADDED = {'3lc': (None, 2 * QUARTIC / 4), '3lc-golomb': (None, 2 * QUARTIC / 4), 'ternary+quartic': (QUARTIC / 4, 0),
         '3lc:block=1000': (QUARTIC / 4, 0)}

def is_reduced(codec, p):
    """Whether pushes are added, and the means quantized: of one tensor, or up to all four."""
    came, read = ADDED[codec]
    coded = {'3lc': 3, '3lc-golomb': 17}.get(codec, 0) * QUARTIC / 4
    each, twice = 24 * LARGE / 4 + 3 * read + coded, {'3lc': 3, '3lc-golomb': 5}.get(codec, 1)
    rest = p['memory'] - twice * p['to_device'] - p['to_host']
    if codec == '3lc-golomb': # codes are copied, too; for each symbol that is not 0 a push moves 8 bytes, a mean 16
        rest -= p['to_host']
    owned = int(rest // each) if came is None else p['to_device'] / 3 / came
    left = rest - owned * each
    codes = 4 * (p['to_device'] + 2 * p['to_host']) if codec == '3lc-golomb' else 0
    return 1 <= owned <= 4 and 0 < p['to_host'] <= owned * QUARTIC / 4 and \
        0 < p['to_device'] <= 3 * owned * QUARTIC / 4 and left % 8 == 0 and (left > 0) == (codes > 0) and \
        left <= 8 * codes
host, device, replayed = map(rows, ('host', 'device', 'replayed'))
for key, row in replayed.items(): # real objects, which come and go
    moved = [[p['device']['to_host'] for p in rows[key]['phases']] for rows in (device, replayed)]
    assert (row['replayed'] or key == ('natural', 'server')) and moved[0] == moved[1], (key, moved)
assert host.keys() == device.keys() and len(device) == 17 * 4
for (codec, kind), row in device.items():
    before = host[codec, kind]
    for key in 'sent_mean', 'sent_busiest', 'received_busiest', 'server_sent', 'messages':
        assert row[key] == before[key], (key, row)
    phases = [p['device'] for p in row['phases']]
    push, pull = phases[0], phases[-1]
    reduce = phases[1] if kind == 'all-reduce' and codec in ADDED else None
    assert not reduce or is_reduced(codec, reduce), (codec, reduce)
    assert reduce or all(p == {'memory': 0, 'to_host': 0, 'to_device': 0} for p in phases[1:-1]), phases
    sent, sweeps = PUSH.get(codec, (VALUES, 0))
    shrunk = codec in ('3lc', '3lc-golomb')
    if sent is None: # a payload, or 8 bytes of each value that is sent
        sent = push['to_host'] - 4 * SMALL
        most = QUARTIC if shrunk else 8 * (0.26 if codec == 'random-sparse' else 0.1) * LARGE
        assert 0 < sent < most and (shrunk or sent % 8 == 0), push
    assert push['to_host'] == sent + 4 * SMALL, (codec, kind, push)
    memory = push['memory'] - sweeps * LARGE - (sent if sweeps else 0)
    assert stages(codec, sent, memory) if shrunk else memory == 0, (codec, kind, push)
    returned = codec in ('sbc', 'sbc:block=1000', 'topk:select=exact,bits=1')
    assert push['to_device'] == (sent / 2 if returned else 0), (codec, push)
    sent, sweeps = (VALUES, 0) if kind == 'gather' else ANSWERED.get(codec, (VALUES, 0))
    if sent is None:
        sent = pull['to_device'] - 4 * SMALL
        assert 0 < sent <= (12 * LARGE if codec == 'random-sparse' else QUARTIC), pull
    assert pull['to_host'] == 0 and pull['to_device'] == sent + 4 * SMALL, (codec, kind, pull)
    rest = pull['memory'] - (4 * LARGE + sent if sweeps else 0)
    if sweeps and codec in GOLOMB: # 8 bytes for each symbol that is not 0
        codes = (rest - 2 * QUARTIC - 4 * sent) / 8
        assert codes % 1 == 0 and 0 < codes <= 4 * sent, (codec, kind, pull)
    else:
        rest -= 2 * QUARTIC + 2 * sent if sweeps and codec == '3lc' else 0
        assert math.isclose(rest, 0, abs_tol=1e-6), (codec, kind, pull)
    taken = sum(p['memory'] / 200e9 + (p['to_host'] + p['to_device']) / 10e9 for p in phases)
    assert math.isclose(row['device_ms'], 1e3 * taken), row
    assert math.isclose(row['step_ms'], 2 + row['device_ms'] + row['codec_ms'] + row['wire_ms']), row
    crossed = 1e3 * 2 * 4 * row['values'] / 10e9
    for key in 'ring_ms', 'push_pull_ms':
        assert math.isclose(row[key], before[key] + crossed), (key, row)
    assert math.isclose(row['halves_ms'], before['halves_ms'] + crossed / 2), row
    assert math.isclose(row['floats_direct_ms'], before['floats_ms']), row
    assert row['device'] == '200GB/s:10GB/s' and before['device'] is None and before['device_ms'] is None, row
PYTHON

# ---- what gradients are made of

# Values of which 1 in 512, 1 in 64 and all are sent at once.
python3 - <<'PYTHON'
import array, os

def write(path, n, every):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as file:
        array.array('f', (((i % 3) - 1 or 1) * (i % every == 0) for i in range(n))).tofile(file)

write('t/some-s1.00/w.f32', 4096, 512)
write('t/transformer/text-s1.00/w.f32', 4096, 1)
write('t/changes/rounds-s1.00/w.f32', 4096, 64)
write('kinds/layer.f32', 4096, 512)
write('kinds/embedding.f32', 64, 1)

# two steps of a transformer, one 1,000 times as large as the other
os.mkdir('uneven')
with open('uneven/attention.npy', 'wb') as file:
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4096), }"
    file.write(b'\x93NUMPY\x01\x00v\x00' + head.ljust(117).encode() + b'\n')
    array.array('f', [((i % 3) - 1 or 1) * size for size in (1, 1e-3) for i in range(4096)]).tofile(file)
PYTHON
echo 'h.attn.w 1024x64' >large.txt
echo 'w 64x64' >plain.txt
echo 'h.Attn.w 64x64' >attn.txt
echo 'SelfAttention.q 64x64' >attention.txt
echo 'wte.weight 64x64' >embedding.txt
models=(--shapes plain.txt --shapes attn.txt --shapes attention.txt)
made=(--warmup 0 --rounds 1 --kind gather -c 3lc --link 1Gbit --cold --format json)
accepts "${models[@]}" "${made[@]}" --traces t
cp out chosen.json
accepts "${models[@]}" "${made[@]}" --traces t/transformer
cp out named.json
accepts "${models[@]}" "${made[@]}" --traces t --local-steps 20 --compute 30
cp out rounds.json
accepts --shapes plain.txt --shapes embedding.txt "${made[@]}" --traces kinds
cp out kinds.json
accepts --shapes large.txt "${made[@]}" -c 3lc-golomb --traces uneven
cp out uneven.json
count=$((count + 1))
python3 - <<'PYTHON' || bad "gradients of other traces"
import json, math

def rows(name):
    return [r for r in json.load(open(name + '.json'))['rows'] if not r['beside']]

def runs(name):
    return [r['run'] for r in rows(name)]

assert runs('chosen') == ['some-s1.00', 'text-s1.00', 'text-s1.00'], runs('chosen')
assert runs('named') == 3 * ['text-s1.00'] and runs('rounds') == 3 * ['rounds-s1.00']
plain, attention = rows('chosen')[:2]
assert attention['sent_mean'] == rows('named')[0]['sent_mean'] > 3 * plain['sent_mean']
for row in rows('rounds'):
    assert row['local_steps'] == 20 and row['compute_ms'] == 20 * 30, row
    assert math.isclose(row['step_ms'], 20 * 30 + row['codec_ms'] + row['wire_ms']), row
    assert row['floats_ms'] > 600 and plain['sent_mean'] < row['sent_mean'] < attention['sent_mean'], row
layer, embedding = rows('kinds')
assert embedding['sent_mean'] > 3 * layer['sent_mean'] # its kind counts, not its size
large = rows('uneven')[1] # all pieces are of one step, so all of them are sent
assert (large['codec'], large['ranks']) == ('3lc-golomb', 4), large
assert 8 * large['sent_mean'] > 3 * 1.6 * large['values'], large
PYTHON
refuses '--local-steps goes without --kind owners' "${small[@]}" --kind gather,owners --local-steps 2
refuses '--local-steps goes without --kind gossip' "${small[@]}" --kind gossip --local-steps 2
accepts "${models[@]}" --warmup 0 --rounds 1 --kind gather -c 3lc -c 3lc:s=1.5 --link 1Mbit --compute 10 --traces t \
  --local-steps 20
(($(grep -c '^changes made of rounds-s1.00$' out) == 3)) || bad "rounds: no source of changes"
(($(grep -c '^3lc:s=1.5 ~ ' out) + $(grep -c '^3lc ~ ' out) == 3)) || bad "rounds: no rows of drawn values"
grep -qF '*: no run has its s; measured on rounds-s1.00' out || bad "rounds: no note of the run"
grep -q 'a step is a round of 20 local steps$' out || bad "rounds: not said in the heading"
# 20 steps of 10 ms and twice 16 KiB at 1 Mbit/s, or once
read -r gain each < <(sed -nE \
  's/^plain, .*, ([0-9.]+) times .* floats in each of the 20 steps: ([0-9.]+)\)$/\1 \2/p' out)
awk "BEGIN {exit !($each > 5 * $gain && $gain > 1)}" || bad "rounds: floats in each step: $gain, $each"
accepts "${small[@]}" --rounds 1 --kind gather -c raw --link 1Gbit
grep -q '^gradients made of drawn laplace values$' out && ! grep -q '~ ' out || bad "drawn values are not said to be"

# ---- bytes: those of tlc-bench, and those of a replay

"$bench" -t 0 --warmup 2 --exchange 2,5 --shapes small.txt --shapes medium.txt -c 3lc -c sbc --format json "$data" \
  >bench.json || bad "tlc-bench: exit status $?"
accepts --shapes small.txt --shapes medium.txt --warmup 2 --rounds 16 --ranks 2,5 -c 3lc -c sbc --link 1Gbit \
  --format json --traces "$data"
cp out sim.json
accepts --shapes medium.txt --kind all-reduce,owners -c 3lc -c raw --link 1Gbit --format json --traces "$data"
cp out owners.json
many=(--shapes medium.txt --ranks '6,12' --warmup 0 --rounds 1 --link 1Gbit -c 3lc -c sbc -c natural --format json
  --kind 'all-reduce,all-reduce:2,owners,owners:2,gather,server,server:3' --traces "$data")
accepts "${many[@]}"
cp out whole.json
accepts "${many[@]}" --memory 2Mi
count=$((count + 2))
python3 - <<'PYTHON' || bad "other bytes"
import json, math

def load(name, *keys):
    return {tuple(r[k] for k in keys): r for r in json.load(open(name))['rows'] if not r.get('beside')}

sim = load('sim.json', 'model', 'kind', 'ranks', 'codec')
bench = load('bench.json', 'model', 'algorithm', 'ranks', 'codec')
bench = {k: r for k, r in bench.items() if r['kind'] == 'exchange'}
assert len(sim) == 24 and set(sim) == set(bench), set(sim) ^ set(bench)
for key, row in sim.items():
    frames = bench[key]['frame_bytes'] / bench[key]['rounds'] # of whole tensors, in a step
    machines, server = row['ranks'], row['server_sent'] or 0
    if row['servers']:
        machines += 1
    mean = (row['sent_mean'] * row['ranks'] + server) / machines
    assert bench[key]['rounds'] == 16, key
    assert math.isclose(mean, bench[key]['sent_mean_x'] * frames, rel_tol=1e-8), key
    assert math.isclose(max(row['sent_busiest'], server), bench[key]['sent_busiest_x'] * frames, rel_tol=1e-8), key

rows = load('owners.json', 'kind', 'codec')
def answered(kind, codec):
    return next(p['rank']['out'] for p in rows[kind, codec]['phases'] if p['call'] == 'reduce')

assert answered('owners', 'raw') == answered('all-reduce', 'raw')
assert answered('owners', '3lc') > 1.1 * answered('all-reduce', '3lc') # changes of the model have more values

whole = load('whole.json', 'kind', 'servers', 'owners', 'ranks', 'codec')
replay = load('out', 'kind', 'servers', 'owners', 'ranks', 'codec')
assert len(whole) == 42 and set(whole) == set(replay)
for key, row in whole.items():
    other = replay[key]
    assert row['replayed'] == 0 and other['replayed'] == 1, (key, other['replayed'])
    for column in ('sent_mean', 'sent_busiest', 'received_mean', 'received_busiest', 'messages', 'server_sent',
                   'server_received'):
        assert row[column] == other[column], (key, column)
    for a, b in zip(row['phases'], other['phases'], strict=True):
        for machine in 'rank', 'server':
            assert a[machine]['out'] == b[machine]['out'] and a[machine]['in'] == b[machine]['in'], key
PYTHON

# ---- bytes: of gossip, and of groups

# gossip_of OPTIONS...: the report is in out
gossip_of() {
  accepts --shapes medium.txt --ranks '6,12' --warmup 0 --rounds 1 --link 1Gbit -c qsgd:bits=8 -c natural -c raw \
    --kind 'gossip,gossip:torus,gossip:complete' --format json --traces "$data" "$@"
}
gossip_of
cp out whole.json
gossip_of --memory 16Mi
cp out replay.json
accepts "${small[@]}" --kind gossip --rounds 1 --link 1Gbit --format json
cp out default.json
echo 'weights 64x64' >one.txt
one=(--shapes one.txt --warmup 1 --rounds 2 -c raw --link 1Gbit --format json)
accepts "${one[@]}" --ranks 4,6 --kind groups:2
cp out sites.json
accepts "${one[@]}" --ranks 4 --kind groups:4
cp out site.json
count=$((count + 2))
python3 - <<'PYTHON' || bad "other bytes of gossip or groups"
import json, math

def rows_of(name):
    return json.load(open(name))['rows']

assert [r['codec'] for r in rows_of('default.json')] == ['qsgd:bits=8', 'qsgd:bits=4']
whole, replay = ([r for r in rows_of(name) if not r['beside']] for name in ('whole.json', 'replay.json'))
assert len(whole) == len(replay) == 2 * 3 * 3
messages = {}
for row, other in zip(whole, replay):
    assert row['replayed'] == 0 and other['replayed'] == 1, row
    for column in ('codec', 'graph', 'ranks', 'sent_mean', 'sent_busiest', 'received_mean', 'received_busiest',
                   'messages'):
        assert row[column] == other[column], (column, row)
    n = row['ranks']
    degree = {'ring': 2, 'torus': {6: 3, 12: 4}[n], 'complete': n - 1}[row['graph']]
    assert row['messages'] == degree, row
    message = messages.setdefault((row['codec'], n), row['sent_mean'] / degree)
    assert math.isclose(row['sent_mean'], degree * message), row
    assert math.isclose(row['sent_mean'], row['received_mean']), row
    if row['codec'] == 'raw':
        assert 4 * row['values'] < message < 4.04 * row['values'], row

# In each site a rank owns the tensor. The others push it to this rank, and it answers them. One site owns it between
# the sites: the others send it there, and get it back.
def near(got, floats):
    return floats <= got <= 1.05 * floats

floats = 4 * 64 * 64
for row, ranks, site in zip(rows_of('sites.json') + rows_of('site.json'), (4, 6, 4), (2, 2, 4), strict=True):
    assert (row['ranks'], row['site']) == (ranks, site), row
    sites = ranks // site
    assert near(row['sent_mean'] * ranks, 2 * floats * (sites * (site - 1) + sites - 1)), row
    sent = {p['call']: p['rank']['out'] for p in row['phases']} # by the rank that sends most
    assert near(sent['push'], floats) and near(sent['answer'], floats * (site - 1)) and not sent['pull'], row
    assert near(sent['reduce'], floats if sites > 1 else 0), row
    assert near(sent['reduce sites'], floats * (sites - 1)), row
PYTHON

count=$((count + 2))
for kind in groups:4 gossip; do
  run --shapes medium.txt --kind $kind -c raw --memory 1Mi >out 2>err
  (($? == 1)) && [[ ! -s out ]] || bad "$kind that does not fit: a report"
  [[ $(<err) == "tlc-sim: medium, $kind"*' of 4 ranks, raw: the machines need about '*' MiB, and --memory '*' 1Mi' ]] ||
    bad "$kind that does not fit: $(<err)"
done
count=$((count + 1))
run "${small[@]}" --kind gossip -c raw --memory 10 >out 2>err
[[ $? == 1 && $(<err) == *' MiB, and --memory allows 10 bytes' ]] || bad "--memory 10: $(<err)"
accepts "${small[@]}" --kind gossip -c all --rounds 1 --link 1Gbit # those of the set that gossip takes

accepts "${small[@]}" --ranks 70 --kind gather -c 3lc --rounds 1 --format json
grep -q '"replayed": 1' out || bad "70 ranks that gather are not replayed"
count=$((count + 1))
run --shapes medium.txt --ranks 12 --kind gather -c raw --memory 1Ki >out 2>err
(($? == 1)) && [[ ! -s out && $(<err) == 'tlc-sim: medium, gather of 12 ranks, raw: the messages of '* ]] ||
  bad "messages that do not fit: $(<err)"

finish_checks
