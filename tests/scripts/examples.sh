#!/bin/bash
# SPDX-License-Identifier: MIT
# An example prints what tests/examples/NAME.txt says. Those in Python but weights.py run on four ranks, as the shell
# lines of README start them. Of their numbers bytes may differ by 5% and losses by a factor of 2: rounding depends on
# the machine, and 200 steps make much of a little.
# examples.sh SOURCE_ROOT NAME COMMAND...
# examples.sh SOURCE_ROOT NAME.py PYTHON
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 name=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"; jobs -p | xargs -r kill 2>/dev/null || true' EXIT
expected=$root/tests/examples/${name%.py}.txt

if [[ $name != *.py ]]; then
  "$@" >"$work/got"
  diff "$expected" "$work/got" || { echo "$name.c prints something else than $name.txt"; exit 1; }
  exit
fi

python=$1
"$python" -c 'import torch' 2>/dev/null || { echo 'skipped: there is no torch'; exit 77; }
cd "$root"
unset USE_LIBUV # the lines set it
export GLOO_SOCKET_IFNAME=lo # gloo need not ask DNS for the name of this host
export PYTHONWARNINGS=ignore
start=$(sed -n '/^```sh ranks$/,/^```$/{/^```/!p}' README.md)
for word in 'MASTER_PORT=29500' '/usr/bin/python3' 'tests/examples/ddp.py'; do
  [[ $start == *"$word"* ]] || { echo "README.md: no $word in the lines that start ddp.py"; exit 1; }
done
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
start=${start//MASTER_PORT=29500/MASTER_PORT=$port}
start=${start//\/usr\/bin\/python3/$python}
[[ $name != weights.py ]] || start="PYTHONPATH=src/python $python tests/examples/ddp.py"
timeout 240 bash -c "${start//ddp.py/$name}" >"$work/got" 2>"$work/err" ||
  { echo "the lines that start $name failed"; cat "$work/err"; exit 1; }
"$python" - "$work/got" "$expected" <<'PYTHON' || { cat "$work/err"; exit 1; }
import math, re, sys
got, expected = (re.split(r"(\d[\d,.]*\d|\d)", open(name).read()) for name in sys.argv[1:])
number = lambda word: float(word.replace(",", ""))
same = len(got) == len(expected) and got[::2] == expected[::2] and all(
    abs(math.log(number(a) / number(b))) <= math.log(2 if "loss" in before else 1.05)
    for before, a, b in zip(got[::2], got[1::2], expected[1::2]))
sys.exit(0 if same else sys.argv[2] + " says something else than\n" + "".join(got))
PYTHON
