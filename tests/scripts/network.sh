#!/bin/bash
# SPDX-License-Identifier: MIT
# bench/network/run from outside: options, hosts, what commands get, CSV, latency, and that nothing of it is left, also
# after signals. Skipped where network namespaces cannot be made.
# network.sh SOURCE NETWORK_RELAY
set -uo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
relay=$2

program='bench/network/run: error'
quick=(--hosts 2)
run() { "$network" --relay "$relay" "$@"; }
# shellcheck source-path=SCRIPTDIR source=bench-checks.sh
. "$(dirname "$0")/bench-checks.sh"
network=$source_root/bench/network/run

# start ARGUMENTS...: in the background, pid
start() {
  count=$((count + 1))
  "$network" --relay "$relay" "$@" >out 2>err &
  pid=$!
}

# finish STATUS WHAT: waits for it; nothing is left
finish() {
  local status
  wait "$pid"
  status=$?
  ((status == $1)) || bad "$2: exit status $status, not $1: $(<out) $(<err)"
  nothing_left "$2"
}

nothing_left() {
  [[ ! $(ip netns list) =~ tlc-$pid- ]] || bad "$1: namespaces are left"
  [[ ! $(ip -o link) =~ \ (switch|port[0-9]+)[:@] ]] || bad "$1: links are left"
  ! pgrep -f "network-relay .*tlc-$pid-" >/dev/null || bad "$1: relays are left"
  ! compgen -G "${TMPDIR:-/tmp}/tlc-network-$pid-*" >/dev/null || bad "$1: a folder is left"
}

# ---- options

rate=(--rate 1gbit)
refuses 'name rates with --rate' -- true
refuses 'name a command' "${rate[@]}"
refuses 'true: it is no option; a command goes after --' "${rate[@]}" true
refuses 'ls: it is no option; a command goes after --' "${rate[@]}" ls -l
for option in '--rate 10' '--rate 0mbit' '--rate -1mbit' '--rate 1mbit,' '--rate 1mb' '--hosts 1' '--hosts 251' \
  '--hosts x' '--latency 5m' '--latency -1ms' '--burst 1513b' '--burst 4' '--repeat 0' '--commands missing.txt'; do
  read -ra words <<<"$option"
  refuses "argument ${words[0]}: *" "${rate[@]}" "${words[@]}" -- true
done
refuses '--rows goes with {csv} in a command' "${rate[@]}" --rows rows.csv -- true
refuses '--rows goes with {csv} in a command' "${rate[@]}" -- touch '{csv}'

refuses 'argument --latency: 1e306s: that is too long' "${rate[@]}" --latency 1e306s -- true
refuses '--lateny: there is no such option; did you mean --latency[?]' "${rate[@]}" --lateny 1ms -- true

# ---- units: those of bench/lib/parse.h

count=$((count + 1))
python3 - "$source_root" <<'PYTHON' || bad 'units'
import argparse, importlib.machinery, importlib.util, math, sys

root = sys.argv[1]
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader('network', root + '/bench/network/run')
network = importlib.util.module_from_spec(importlib.util.spec_from_loader('network', loader))
loader.exec_module(network)
lines = [line.rstrip('\n') for line in open(root + '/tests/bench/units.txt') if line[0] != '#']
lines = [(*line[:at].split(' ', 1), line[at + 1:]) for line in lines for at in [line.rindex(' ')]]
assert len(lines) > 80
for kind, text, value in lines:
    try:
        got = network.bits_a_second(text) / 8 if kind == 'rate' else network.seconds_of(text)
    except argparse.ArgumentTypeError as error:
        assert value == '-' and text in str(error), (text, value, error)
    else:
        assert value != '-' and math.isclose(got, float(value)), (text, value, got)
rates = ['10mbit', '100mbit', '100mbit', '500mbit', '64kbit']
assert network.rate_list('10Mbit,100mbps,12.5MB/s,0.5Gbit,64kbit') == rates
latencies = [network.latency_of(text) for text in ('20', '0.02s', '20 ms', '50us', '2sec', '1min', '0')]
assert latencies == ['20ms', '20ms', '20ms', '0.05ms', '2000ms', '60000ms', '0ms'], latencies
PYTHON

# ---- rights

count=$((count + 1))
other=(setpriv --reuid=65534 --clear-groups)
if ((EUID == 0)) && "${other[@]}" "$network" --help >/dev/null 2>&1; then
  "${other[@]}" "$network" "${rate[@]}" -- true >out 2>err
  (($? == 1)) && [[ ! -s out && $(wc -l <err) == 1 ]] || bad "without rights: $(<out) $(<err)"
fi
if ! command -v ip >/dev/null || ! command -v tc >/dev/null; then
  echo "# ip and tc are not installed: no hosts"
  exit $((failed > 0 ? 1 : 77))
fi
start --hosts 2 "${rate[@]}" -- true
wait "$pid"
if (($? == 1)) && grep -q 'it has no right to make network namespaces' err; then
  echo "# no right to make network namespaces: no hosts"
  exit $((failed > 0 ? 1 : 77))
fi
nothing_left 'true'

# ---- commands, CSV

cat >commands.txt <<'END'
# what hosts are told, and that links are not seen outside

echo "$(hostname) $(ip -4 -o addr show eth0)" "$TLC_NETWORK_HOSTS $TLC_NETWORK_RATE $TLC_NETWORK_BURST" >>told.txt
"$TLC_NETWORK_AGENT" host2 'echo "$(hostname) $(ip -4 -o addr show eth0)" "$TLC_NETWORK_LATENCY"' >>told.txt
exit 3
kill -9 $$
END
start --hosts 3 --rate 200mbit,1Gbit --repeat 2 --commands commands.txt --csv runs.csv --rows rows.csv \
  --command 'printf "kind,codec\na,\"b,c\"\n" >{csv}; printf "d,$TLC_NETWORK_RATE\n" >>{csv}'
finish 1 'commands'
(($(grep -c 'burst 8kb.*status' out) == 10 && $(grep -c 'burst 32kb.*status' out) == 10)) || bad "other lines: $(<out)"
[[ ! -s err ]] || bad "commands: said '$(<err)'"
count=$((count + 3))
[[ $(sed -E 's/ [0-9]+: eth0 +inet ([0-9.]+).*\\ .* ([^ ]+)$/ \1 \2/' told.txt | sort | uniq -c | tr -s ' ') == \
' 2 host0 10.77.0.1 32kb
 2 host0 10.77.0.1 8kb
 4 host2 10.77.0.3 0ms' ]] || bad "hosts are told: $(<told.txt)"
[[ $(grep -c ' 3 200mbit 8kb' told.txt) == 2 && $(grep -c ' 3 1gbit 32kb' told.txt) == 2 ]] ||
  bad "host0 is told: $(<told.txt)"
python3 - <<'PYTHON' || bad 'other CSV'
import csv
runs = list(csv.DictReader(open('runs.csv')))
assert [(r['rate'], r['repeat'], r['command']) for r in runs] == [
    (rate, str(repeat), str(number)) for rate in ('200mbit', '1gbit') for repeat in (1, 2) for number in range(1, 6)]
for run in runs:
    fast = run['rate'] == '1gbit'
    assert run['hosts'] == '3' and run['latency'] == '0ms' and run['burst'] == ('32kb' if fast else '8kb'), run
    assert run['status'] == {'4': '3', '5': '137'}.get(run['command'], '0') and 0 < float(run['seconds']) < 60, run
    assert float(run['trip_ideal_ms']) == 0 and float(run['mb_ideal_ms']) == (8 if fast else 40), run
    assert float(run['mb_ms']) > 0.95 * float(run['mb_ideal_ms']), run
assert runs[3]['text'] == 'exit 3', runs[3]

rows = list(csv.reader(open('rows.csv')))
assert rows[0] == ['rate', 'latency', 'burst', 'repeat', 'kind', 'codec'], rows
assert rows[1:] == [[rate, '0ms', burst, repeat, *row] for rate, burst in (('200mbit', '8kb'), ('1gbit', '32kb'))
                    for repeat in '12' for row in (['a', 'b,c'], ['d', rate])], rows
PYTHON
start --hosts 2 "${rate[@]}" --rows rows.csv --command 'echo a >{csv}' --command 'echo b >{csv}' --command ': {csv}'
finish 1 'other headers'
[[ $(<err) == *'its header is b, not a'*'it wrote nothing to {csv}' ]] || bad "other headers: said '$(<err)'"
[[ $(<rows.csv) == 'rate,latency,burst,repeat,a' ]] || bad "other headers: collected '$(<rows.csv)'"

# ---- latency

# prints how long the second host needs to refuse a connection, in ms: the least of three times
cat >connect.py <<'END'
import socket, time
def refused():
    start = time.monotonic()
    try:
        socket.create_connection(('10.77.0.2', 9))
    except ConnectionRefusedError:
        return int(1e3 * (time.monotonic() - start))
print(min(refused() for _ in range(3)))
END
start --hosts 2 "${rate[@]}" -- python3 connect.py
finish 0 'without latency'
trip=$(sed -n 2p out)
[[ $trip =~ ^[0-9]+$ ]] && ((trip < 60)) || bad "without latency: a round trip of $trip ms"
if [[ ! -e /dev/net/tun ]]; then
  echo "# there is no /dev/net/tun: no latency"
  latency=()
else
  latency=(--latency 1ms)
  # the two transfers of 1 MB are more than the relay keeps, so they wrap around
  start --hosts 2 --rate 100mbit --latency 30ms --csv runs.csv --command 'python3 connect.py' \
    --command '"$TLC_NETWORK_AGENT" host1 "sleep 60 >/dev/null 2>&1 &"'
  finish 0 'with latency'
  trip=$(sed -n 2p out)
  [[ $trip =~ ^[0-9]+$ ]] && ((60 <= trip && trip < 120)) || bad "latency 30ms: a round trip of $trip ms"
  [[ $(<err) == *'it left processes, which were ended' ]] || bad "a process that is left: $(<err)"
  awk -F, 'NR == 2 { exit !($3 == "30ms" && $5 == 60 && 60 <= $6 && $6 < 120 && $7 == 110 && 110 <= $8) }' runs.csv ||
    bad "latency 30ms: other figures: $(<runs.csv)"
  printf '#!/bin/sh\nexec "%s" "$1" 20000 "$3" "$4" "$5" "$6"\n' "$relay" >short-relay
  chmod +x short-relay
  start --hosts 2 --rate 100mbit --latency 2ms --relay ./short-relay -- true
  finish 0 'a short queue'
  [[ $(<err) =~ 'network-relay: '[0-9]+' frames of eth0 were dropped' ]] || bad "a short queue: said '$(<err)'"
fi

# ---- signals

# running [NAME...]: starts a command that does not end by itself, and waits until it runs
running() {
  rm -f runs
  start --hosts 2 "${rate[@]}" "${latency[@]}" --command 'touch runs; sleep 60; echo ended'
  for ((i = 0; i < 300; i++)); do
    [[ ! -e runs ]] || return
    sleep 0.05
  done
  bad "a command does not begin: $(<err)"
}
running
kill -TERM "$pid"
finish 143 'SIGTERM'
running
kill -KILL "$pid"
wait "$pid" 2>/dev/null
[[ $(ip netns list) =~ tlc-$pid- ]] || bad 'SIGKILL: no namespaces are left, so nothing can be cleaned'
count=$((count + 1))
run --clean >out 2>err || bad "--clean: $(<err)"
nothing_left '--clean'

# ---- MPI

if [[ $(mpirun --version 2>/dev/null) == *'(Open MPI) 4.'* ]]; then
  start --hosts 3 "${rate[@]}" -- mpirun -np 4 hostname
  finish 0 'mpirun'
  [[ $(grep -x 'host[0-9]' out | sort | tr '\n' ' ') == 'host0 host0 host1 host2 ' ]] || bad "mpirun: ranks on $(<out)"
else
  echo '# Open MPI 4 is not installed: no ranks'
fi

finish_checks
