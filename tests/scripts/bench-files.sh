#!/bin/bash
# SPDX-License-Identifier: MIT
# tlc-bench from outside: the files that it reads, residuals and runs, deltas of weights.
# bench-files.sh TLC_BENCH
set -uo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
bench=$1
# shellcheck source-path=SCRIPTDIR source=bench-run.sh
. "$(dirname "$0")/bench-run.sh"

# ---- bad files

npy short.npy "$(dict '<f4' '(2, 3)')" 20
npy long.npy "$(dict '<f4' '(2, 3)')" 28
npy zeros.npy "$(dict '<f4' '(04, 257)')" 4112
npy huge.npy "$(dict '<f4' '(4611686018427387904, 4611686018427387904)')" 16
npy big.npy "$(dict '<f4' '(1000000, 1000000)')" 16
npy rows.npy "$(dict '<f4' '(1000000000000, 0)')" 0
npy none.npy "$(dict '<f4' '(0, 3)')" 0
npy double.npy "$(dict '<f8' '(2, 3)')" 48
npy scalar.npy "$(dict '<f4' '()')" 4
npy cube.npy "$(dict '<f4' '(2, 3, 1)')" 24
npy fortran.npy "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }" 24
npy struct.npy "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}" 24
npy dict.npy "{'descr': '<f4', 'shape': (2, 3), }" 24
npy three.npy "$(dict '<f4' '(3, 3)')" 36
head -c 9 good.npy >head.npy
: >empty.npy
: >empty.f32
head -c 10 /dev/zero >odd.f32
head -c 40 /dev/zero >ten.f32
echo text >text.npy
echo text >note.txt
mkdir folder.d
cp note.txt folder.d
mkfifo pipe.npy

refuses 'short.npy: its shape needs 24 bytes of values, the file has 20' short.npy
refuses 'huge.npy: its shape (*) is too large' huge.npy
refuses 'big.npy: its shape needs 4000000000000 bytes*' big.npy
refuses 'rows.npy: has 1000000000000 steps*' rows.npy
refuses 'none.npy: has no rows' none.npy
refuses "double.npy: dtype '<f8' is not supported*" double.npy
refuses 'cube.npy: has 3 dimensions*' cube.npy
refuses "dict.npy: its header is malformed: it has no 'fortran_order'" dict.npy
refuses "struct.npy: dtype [[]('a', '<f4')] is not supported*" struct.npy
refuses 'head.npy: is truncated in its header' head.npy
refuses 'empty.npy: is empty' empty.npy
refuses 'empty.f32: is empty' empty.f32
refuses 'odd.f32: its 10 bytes are not a multiple of 4' odd.f32
refuses 'ten.f32: its 10 values are not rows of 3' --values 3 ten.f32
refuses 'text.npy: is not a .npy file' text.npy
refuses 'note.txt: is no .npy, .f32, .f16 or .bf16 file' note.txt
refuses 'folder.d: there is no .npy, .f32, .f16 or .bf16 file with values in it' folder.d
refuses 'missing.npy: No such file or directory' missing.npy
refuses 'pipe.npy: is not a regular file' pipe.npy
refuses 'three.npy: has 3 steps where good.npy has 2*' good.npy three.npy
refuses 'good.npy: has 2 steps, --steps asks for 3' --steps 3 good.npy three.npy
refuses 'short.npy: *' good.npy short.npy
if ((EUID != 0)); then
  cp good.npy secret.npy
  chmod 0 secret.npy
  refuses 'secret.npy: Permission denied' secret.npy
fi
accepts --steps 2 good.npy three.npy
accepts scalar.npy
accepts fortran.npy
accepts --values 5 ten.f32

# ---- what NumPy writes

if python3 -c 'import numpy' 2>/dev/null; then
  python3 - <<'PYTHON'
import numpy as np
x = np.arange(24, dtype='<f4').reshape(4, 6) - 11.5
np.save('np-c.npy', x)
np.save('np-f.npy', np.asfortranarray(x))
np.save('np-big.npy', x.astype('>f4'))
np.save('np-half.npy', np.asfortranarray(x.astype('>f2')))
np.save('np-row.npy', np.asfortranarray(x.reshape(1, 24)))
np.save('np-flat.npy', x.ravel())
with open('np-2.npy', 'wb') as f:
    np.lib.format.write_array(f, np.asfortranarray(x), (2, 0))
for name in 'before', 'after': # the base in C order, what follows in Fortran order
    cube = np.arange(24, dtype='<f4').reshape(2, 3, 4) + (name == 'after') * 1e-3
    np.save(name + '-np.npy', np.asfortranarray(cube) if name == 'after' else cube)
np.save('same-np.npy', np.asfortranarray(np.load('before-np.npy')))
PYTHON
  want=$(crcs -c raw np-c.npy)
  for file in np-f np-big np-half np-2; do
    [[ $(crcs -c raw $file.npy) == "$want" ]] || bad "$file.npy: other values than those of np-c.npy"
  done
  want=$(crcs -c raw np-flat.npy)
  [[ $(crcs -c raw np-row.npy) == "$want" ]] || bad "np-row.npy: other values than those of np-flat.npy"
  for next in same:0 after:100; do
    accepts --format csv --delta before-np.npy "${next%:*}-np.npy"
    awk -F, -v want="${next#*:}" 'NR == 1 {for (i = 1; i <= NF; i++) at[$i] = i}
      NR > 1 && $at["changed_percent"] != want {exit 1}' out || bad "$next: other weights: $(<out)"
  done
else
  echo "# numpy is not installed: none of its files are read"
fi

# ---- files with more than one array

# leaves_out NAMES ARGUMENTS...: status 0, and a line on stderr that names what was left out
leaves_out() {
  local want=$1
  shift
  count=$((count + 1))
  run -t 0 "$@" >"$work/out" 2>"$work/err" || bad "$*: exit status $?"
  [[ $(<"$work/err") == "$want" ]] || bad "$*: said '$(<"$work/err")', not '$want'"
}
leaves_out 'tlc-bench: 1 file read without what follows the first array: long.npy (4 bytes)' long.npy
mkdir behind
for name in a b a.residual; do ones behind/$name.npy "$(dict '<f4' '(1, 4)')" 4; done
cat behind/a.npy behind/b.npy >behind/both && mv behind/both behind/a.npy
echo >>behind/a.residual.npy
leaves_out "tlc-bench: 2 files read without what follows the first array: behind/a.npy ($(stat -c %s behind/b.npy) \
bytes), behind/a.residual.npy (1 byte)" behind
leaves_out "tlc-bench: 1 file read without what follows the first array: behind/a.npy ($(stat -c %s behind/b.npy) \
bytes)" --delta behind/b.npy behind/a.npy
refuses 'zeros.npy: its header is malformed at character 51: 04, 257), }*' zeros.npy

# ---- folders with files of other dtypes

mkdir mixed
ones mixed/a.npy "$(dict '<f4' '(2, 3)')" 6
npy mixed/mask.npy "$(dict '|b1' '(2, 3)')" 6
npy mixed/step.npy "$(dict '<i8' '()')" 8
leaves_out "tlc-bench: 2 files left out, of another dtype: mixed/mask.npy ('|b1'), mixed/step.npy ('<i8')" \
  --format csv -c raw mixed
grep -q '^,codec,raw,.*,34,' out || bad "a folder with a mask: $(<out)"
refuses "mixed/step.npy: dtype '<i8' is not supported*" mixed/a.npy mixed/step.npy
for ((i = 0; i < 20; i++)); do cp mixed/step.npy "mixed/a-counter-of-steps-$i.npy"; done
count=$((count + 1))
run -t 0 -c raw mixed 2>err >out || bad "a folder with many counters: exit status $?"
[[ $(<err) == "tlc-bench: 22 files left out, of another dtype: mixed/a-counter-of-steps-0.npy ('<i8'), "* &&
  $(wc -l <err) == 1 ]] || bad "a folder with many counters: $(<err)"
npy mixed/a.npy "{'descr': '<f4', 'shape': (2, 3), }" 24
refuses 'mixed/a.npy: its header is malformed*' mixed
rm mixed/a.npy
refuses 'mixed: no file in it has a dtype that is read: mixed/a-counter-of-steps-0.npy*' mixed

# ---- values that are not finite

ones inf.npy "$(dict '<f4' '(2, 3)')" 4
printf '\x00\x00\x80\xff\x00\x00\x80\x3f' >>inf.npy
ones nan.npy "$(dict '<f4' '(2, 2)')" 3
printf '\x01\x00\x80\x7f' >>nan.npy
refuses 'inf.npy: row 1, index 1 (from 0) is infinite; only raw takes that' inf.npy
refuses 'nan.npy: row 1, index 1 (from 0) is NaN; only raw takes that' good.npy nan.npy
refuses 'nan.npy: row 1, index 1 *' -c raw -c 3lc nan.npy
refuses 'nan.npy: row 1, index 1 *' -c raw --feedback on nan.npy
refuses 'nan.npy: row 1, index 1 *' -c raw --peers nan.npy
refuses "large.npy: row 0, index 0 (from 0): 1e+06 is beyond the dtype's largest value" --dtype f16 large.npy
accepts -c raw -c raw:block=2 nan.npy inf.npy good.npy
accepts -c raw --dtype f16 --format json nan.npy
accepts large.npy
accepts --steps 1 nan.npy

# ---- residuals and runs

# run_of FOLDER: a run of one tensor with two steps of ones
run_of() {
  mkdir -p "$1"
  ones "$1/a.npy" "$(dict '<f4' '(2, 3)')" 6
  ones "$1/a.residual.npy" "$(dict '<f4' '(3,)')" 3 '\x00\x00\x40\x40' # 3.0
}

# start ARGUMENTS...: codec, run and residual at the start, for each codec and peer
start() {
  accepts --format csv "$@"
  awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) at[$i] = i}
    NR > 1 && ($2 == "codec" || $2 == "peer") {print $3, $at["run"], $at["run_s"], $at["start"]}' out
}

run_of runs/x-s1.00
run_of runs/y-s1.75
mkdir runs/other runs/z-s2x
[[ $(start -c 3lc -c raw -c 3lc:s=1.75,block=2 -c 3lc:s=1.5 -c 3lc-golomb:s=1.75 -c sbc runs) == \
  $'3lc x-s1.00 1 recorded\nraw x-s1.00 1 '$'\n'*'x-s1.00 1 recorded'* ]] || bad "runs: $(start runs)"
[[ $(start -c raw -c 3lc-golomb:s=1.75 -c 3lc:s=1.5 runs/) == \
  $'raw x-s1.00 1 \n3lc-golomb:s=1.75 y-s1.75 1.75 recorded\n3lc:s=1.5 x-s1.00 1 recorded' ]] ||
    bad "runs: other choice"
[[ $(start --cold -c 3lc -c 3lc:s=1.75 runs) == $'3lc x-s1.00 1 zero\n3lc:s=1.75 y-s1.75 1.75 zero' ]] ||
  bad "runs: --cold"
[[ $(start -c 3lc runs/y-s1.75) == '3lc   recorded' ]] || bad "a run as a folder"
[[ $(start -c 3lc -c natural runs/y-s1.75/*) == $'3lc   recorded\nnatural   ' ]] || bad "a run as files"
[[ $(start -c 3lc runs/y-s1.75/a.npy good.npy) == '3lc   mixed' ]] || bad "one residual of two"
[[ $(start --feedback on -c natural runs/y-s1.75/a.npy) == 'natural   recorded' ]] || bad "residual of --feedback on"
[[ $(start -c 3lc good.npy) == '3lc   zero' ]] || bad "no residual, but not from zero"
[[ $(start --dtype bf16 --delay 2 -c 3lc runs/x-s1.00) == '3lc   recorded' ]] || bad "residual of bf16"
start --peers -c 3lc runs | grep -qx 'naive 3LC x-s1.00 1 recorded' || bad "peers: not from the residual"
accepts -c 3lc -c raw -c 3lc:s=1.75 runs
grep -qF 'residual at the start: as recorded' out || bad "table: residual not named"
grep -qF '*: no run has its s; measured on x-s1.00' out || bad "table: no note"
[[ $(grep -c '^raw \* ' out) == 1 && $(grep -c '^3lc:s=1.75  *[0-9-]' out) == 1 ]] || bad "table: marks"
accepts -c 3lc:s=1.75 --cold runs
grep -qF 'a cold start (--cold)' out || bad "table: cold start not named"
! grep -qF '*:' out || bad "table: a note without a mark"
accepts -c 3lc good.npy
grep -qF 'a cold start (no .residual.npy file)' out || bad "table: cold start not named"
accepts -c raw runs
! grep -qF 'residual at' out || bad "table: residual of raw"
refuses '*/a.residual.npy: is a residual; name the file with the gradients' runs/x-s1.00/a.residual.npy
refuses '--cold goes with files*' --cold --synthetic gauss
refuses '--cold goes with files*' --cold --small
run_of twice/x-s1.00
run_of twice/y-s1
refuses 'twice: two runs have s = 1, *; name one of them' twice
cp good.npy twice
[[ $(start -c 3lc twice) == '3lc   zero' ]] || bad "a folder of files with runs in it"
run_of unlike/x-s1
run_of unlike/y-s1.5
cp good.npy unlike/y-s1.5/b.npy
refuses 'x-s1 and y-s1.5 do not have the same tensors and steps; name one of them' unlike
run_of broken
ones broken/a.residual.npy "$(dict '<f4' '(4,)')" 4
refuses 'broken/a.residual.npy: has 4 values; a step of a has 3' broken
accepts --cold broken
ones broken/a.residual.npy "$(dict '<f4' '(3, 1)')" 3 # of any shape
[[ $(start -c 3lc broken/a.npy) == '3lc   recorded' ]] || bad "a residual of shape (3, 1)"
npy broken/a.residual.npy "$(dict '<f2' '(3,)')" 6
refuses 'broken/a.residual.npy: is float16; a residual is float32' broken
npy broken/a.residual.npy "$(dict '<f8' '(3,)')" 24
refuses "broken/a.residual.npy: dtype '<f8' is not supported*" broken
ones broken/a.residual.npy "$(dict '<f4' '(3,)')" 3 '\x00\x00\xc0\x7f'
refuses 'broken/a.residual.npy: index 0 (from 0) is not finite' broken
ones broken/a.residual.npy "$(dict '<f4' '(3,)')" 2
refuses 'broken/a.residual.npy: its shape needs 12 bytes*' broken

# ---- deltas of weights

# weights FOLDER BYTES...: two bf16 tensors; the first has these four bytes after two weights
weights() {
  mkdir -p "$1/w"
  npy "$1/w/a.npy" "$(dict '<u2' '(2, 1, 2)')" 4
  printf '%b' "$2" >>"$1/w/a.npy"
  printf '\x80\x3f\x80\x3f\x80\x3f' >"$1/w/b.bf16"
}
weights before '\x80\x3f\xc0\x7f' # a NaN, too
weights after '\x81\x3f\xc1\x7f'
weights other '\x81\x3f\xc1\x7f'
mv other/w/b.bf16 other/w/c.bf16
weights shorter '\x81\x3f\xc1\x7f'
head -c 4 before/w/b.bf16 >shorter/w/b.bf16
weights more '\x81\x3f\xc1\x7f'
cp before/w/b.bf16 more/w/c.bf16
accepts --format csv --peers --threads 1,2 --delta before/w after/w before/w
awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) at[$i] = i}
  NR > 1 {print $at["kind"], $at["threads"], $at["next"], $at["values"], $at["changed_percent"], $at["dtype"]}' out |
  sort | uniq -c >rows
# 28.57 of 7 weights differ; no name has a comma but those of peers, which come in quotes
grep -qE '^ +2 delta 1 w 7 28.57' rows || bad "--delta: $(<rows)"
grep -qE '^ +2 delta 2 w 7 0 bf16' rows || bad "--delta: $(<rows)"
accepts --peers --delta before/w/a.npy after/w/a.npy
grep -qF 'varint, value' out || bad "--delta: no peers"
accepts --dtype f32 --sizes 0,1,70000 --peers --delta --synthetic adam
accepts --dtype f16 --sizes 70000 --delta --synthetic adam:lr=1e-5 --format json
python3 -c 'import json, sys; json.load(sys.stdin)' <out || bad "--delta: bad JSON"
# as a model has them: a scalar, a mask, a counter, and a norm of another dtype
for w in before after; do
  cp -r $w/w $w/model
  npy $w/model/scale.npy "$(dict '<u2' '()')" 2
  npy $w/model/mask.npy "$(dict '|b1' '(3,)')" 3
  npy $w/model/norm.npy "$(dict '<f4' '(2,)')" 8
done
leaves_out "tlc-bench: 2 files left out, of another dtype: before/model/mask.npy ('|b1'), before/model/norm.npy (f32)
tlc-bench: 2 files left out, of another dtype: after/model/mask.npy ('|b1'), after/model/norm.npy (f32)" \
  --format csv --delta before/model after/model
awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) at[$i] = i}
  NR > 1 && $at["values"] != 8 {exit 1}' out || bad "--delta: other weights: $(<out)"
# .safetensors: the tensors of the dtype that most weights have
python3 - <<'END'
import json, os, struct
def file(path, **tensors):
    head, data = {}, b''
    for name, (dtype, shape, part) in tensors.items():
        head[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(head).encode()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, 'wb').write(struct.pack('<Q', len(text)) + text + data)
for folder, step in ('before', 0), ('after', 1):
    file(f'{folder}/st/a.safetensors', w=('F8_E4M3', [2, 3], bytes(range(step, 6 + step))), n=('I64', [1], bytes(8)))
    file(f'{folder}/st/b.safetensors', v=('F8_E4M3', [4], bytes(4)))
open('before/bad.safetensors', 'wb').write(b'\xff' * 20)
END
if ! run --delta before/st after/st 2>&1 | grep -qF 'jansson was not found'; then
  leaves_out "tlc-bench: 1 file left out, of another dtype: n (i64)
tlc-bench: 1 file left out, of another dtype: n (i64)" --format csv --delta before/st after/st
  awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) at[$i] = i}
    NR > 1 && ($at["values"] != 10 || $at["dtype"] != "f8_e4m3") {exit 1}' out || bad "--delta of .safetensors: $(<out)"
  refuses '*bad.safetensors: *' --delta before/bad.safetensors after/st/a.safetensors
fi
refuses '--delta: name the weights before and after*' --delta before/w
refuses '--delta: name the weights before and after*' --delta
refuses '*/c.bf16: the base has b in its place' --delta before/w other/w
refuses '*/b.bf16: has 2 weights, before/w/b.bf16 has 3' --delta before/w shorter/w
refuses '*/c.bf16: there is no such tensor in the base' --delta before/w more/w
refuses '*/c.bf16: there is no such tensor in the next weights' --delta more/w before/w
refuses 'good.npy: is f32, *a.npy is bf16' --delta before/w/a.npy good.npy
refuses '--synthetic adam goes with --delta' --synthetic adam
refuses '--synthetic gauss does not go with --delta; adam does' --delta --synthetic gauss
for rate in '' 0 -1 x 1e-6x nan inf; do
  refuses "--synthetic adam:lr=$rate: @(it|item|nothing|after) *" --delta --synthetic "adam:lr=$rate"
done
refuses '--synthetic adam:rate=1: @(it|item|nothing|after) *' --delta --synthetic adam:rate=1
refuses '--dtype goes with drawn weights; files have their own' --dtype bf16 --delta before/w after/w
refuses '--sizes goes with drawn weights' --sizes 5 --delta before/w after/w
for option in --assume-finite '--delay 2' '--steps 3' '--feedback on' --checksum --per-tensor '--codec 3lc' --cold \
  '--warmup 3'; do
  # shellcheck disable=SC2086 # words
  refuses "${option% *} does not go with --delta" $option --delta before/w after/w
done

finish_checks
