#!/bin/bash
# SPDX-License-Identifier: MIT
# README's PyTorch script on four ranks, which README's own shell lines start, with the Python of this build and a port
# that is free: it prints what README says, bytes to 5% and losses to a factor of 2: rounding
# depends on the machine, and 200 steps make much of a little.
# python-readme.sh SOURCE_ROOT LIBRARY PYTHON
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 python=$3
work=$(mktemp -d)
trap 'rm -rf "$work"; jobs -p | xargs -r kill 2>/dev/null || true' EXIT
cd "$work"
awk '/^```python train.py$/ {on = 1; next} /^```$/ {on = 0} on' "$root/README.md" >train.py
awk '/^```python train.py$/ {begun = 1} begun && /^```sh$/ {on = 1; next} /^```$/ {if (on) exit} on' \
  "$root/README.md" >start
awk '/^```python train.py$/ {begun = 1} begun && /^```text$/ {on = 1; next} /^```$/ {if (on) exit} on' \
  "$root/README.md" >expected
[[ -s train.py && -s expected ]] || { echo 'README.md: there is no train.py, or not what it prints'; exit 1; }
"$python" -c 'import torch' 2>/dev/null || { echo 'skipped: there is no torch'; exit 77; }

port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export THREELC_LIBRARY=$2 PYTHONDONTWRITEBYTECODE=1
unset USE_LIBUV # the lines set it
export GLOO_SOCKET_IFNAME=lo # gloo need not ask DNS for the name of this host
export PYTHONWARNINGS=ignore
for word in 'MASTER_PORT=29500' '/usr/bin/python3'; do
  grep -q "$word" start || { echo "README.md: no $word in the lines that start train.py"; exit 1; }
done
sed -i "s,MASTER_PORT=29500,MASTER_PORT=$port,; s,/usr/bin/python3,$python," start
mkdir src
ln -s "$root/src/python" src/python
timeout 120 bash start >out0 2>err || { echo 'the lines that start train.py failed'; cat err; exit 1; }
"$python" - <<'PYTHON'
import math, re, sys
got, expected = (re.split(r"(\d[\d,.]*\d|\d)", open(name).read()) for name in ("out0", "expected"))
number = lambda word: float(word.replace(",", ""))
same = len(got) == len(expected) and got[::2] == expected[::2] and all(
    abs(math.log(number(a) / number(b))) <= math.log(2 if "loss" in before else 1.05)
    for before, a, b in zip(got[::2], got[1::2], expected[1::2]))
sys.exit(0 if same else "README.md says something else than\n" + "".join(got) + open("err").read())
PYTHON
