#!/bin/bash
# SPDX-License-Identifier: MIT
# tlc-bench from outside: exit statuses and messages, formats, the same frames on every ISA.
# bench.sh TLC_BENCH DATA [WRAPPER...]: a wrapper, as an emulator, runs TLC_BENCH.
set -uo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
bench=$1 data=$2
wrapper=("${@:3}")
source_root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'chmod -R u+rwx "$work"; rm -rf "$work"' EXIT

program=tlc-bench quick=(-t 0)
run() { "${wrapper[@]}" "$bench" "$@"; }
# shellcheck source-path=SCRIPTDIR
. "$source_root/tests/scripts/bench-checks.sh"

# accepts ARGUMENTS...: status 0, nothing on stderr; the report is in $work/out
accepts() {
  count=$((count + 1))
  run -t 0 "$@" >"$work/out" 2>"$work/err" || bad "$*: exit status $?: $(<"$work/err")"
  [[ ! -s $work/err ]] || bad "$*: said '$(<"$work/err")'"
}

# npy FILE DICT BYTES: a .npy file of version 1.0 with so many bytes of zeros
npy() {
  local dict=$2$'\n'
  {
    # shellcheck disable=SC2059 # the format is made of the length
    printf "\x93NUMPY\x01\x00\\x$(printf %02x $((${#dict} & 255)))\\x$(printf %02x $((${#dict} >> 8)))"
    printf '%s' "$dict"
    head -c "$3" /dev/zero
  } >"$work/$1"
}

dict() { echo "{'descr': '$1', 'fortran_order': False, 'shape': $2, }"; }

# ones FILE DICT VALUES: the same, with values 1.0 (or, from $4, of these four bytes)
ones() {
  npy "$1" "$2" 0
  for ((i = 0; i < $3; i++)); do printf '%b' "${4:-\\x00\\x00\\x80\\x3f}"; done >>"$work/$1"
}

# codec, bytes of frames and CRC-32 of the codecs' rows (a codec may have a comma: count from the end)
crcs() { accepts --format csv "$@" && awk -F, '$2 == "codec" {print $3 "," $(NF - 2) "," $(NF - 1)}' "$work/out"; }

# ---- bad files

cd "$work" || exit 1
npy good.npy "$(dict '<f4' '(2, 3)')" 24
npy short.npy "$(dict '<f4' '(2, 3)')" 20
npy long.npy "$(dict '<f4' '(2, 3)')" 28
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
refuses 'long.npy: its shape needs 24 bytes of values, the file has 28' long.npy
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

# ---- folders with files of other dtypes

# leaves_out NAMES ARGUMENTS...: status 0, and a line on stderr that names what was left out
leaves_out() {
  local want=$1
  shift
  count=$((count + 1))
  run -t 0 "$@" >"$work/out" 2>"$work/err" || bad "$*: exit status $?"
  [[ $(<"$work/err") == "$want" ]] || bad "$*: said '$(<"$work/err")', not '$want'"
}
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
ones large.npy "$(dict '<f4' '(4,)')" 4 '\x00\x24\x74\x49' # 1e6
refuses 'inf.npy: row 1, index 1 (from 0) is infinite; only raw takes that' inf.npy
refuses 'nan.npy: row 1, index 1 (from 0) is NaN; only raw takes that' good.npy nan.npy
refuses 'nan.npy: row 1, index 1 *' -c raw -c 3lc nan.npy
refuses 'nan.npy: row 1, index 1 *' -c raw --feedback on nan.npy
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

# ---- bench/run: which program it runs, and with what

mkdir -p tree/{bench,.ci,build-release/bench/sim} stubs
cp "$source_root/bench/run" tree/bench/
for stub in tree/.ci/packages stubs/meson; do printf '#!/bin/bash\n' >"$stub"; done
for stub in tree/build-release/bench/{tlc-bench,sim/tlc-sim}; do
  cat >"$stub" <<'END'
#!/bin/bash
echo "${0##*/} $*"
END
done
chmod +x tree/.ci/packages stubs/meson tree/build-release/bench/{tlc-bench,sim/tlc-sim}
: >tree/build-release/build.ninja
tree=$work/tree
while read -r arguments && read -r want; do
  count=$((count + 1))
  read -ra words <<<"$arguments"
  got=$(PATH=$work/stubs:$PATH tree/bench/run "${words[@]}" 2>err)
  [[ $got == "$want" ]] || bad "bench/run $arguments: '$got', not '$want': $(<err)"
done <<END

tlc-bench --defaults $tree/bench
nothere
tlc-bench --defaults $tree/bench nothere
-q --codec 3lc x.npy
tlc-bench --defaults $tree/bench -q --codec 3lc x.npy
sim --kind gather
tlc-sim --traces $tree/bench/data --kind gather
-q --link 1Gbit sim
tlc-sim --traces $tree/bench/data -q --link 1Gbit
END

# ---- bad options

refuses 'no input: *' -q
refuses '--bogus: there is no such option (--help lists them)' --bogus good.npy
refuses '-x: there is no such option (--help lists them)' -x good.npy
refuses '--seeed=2: there is no such option; did you mean --seed[?]' --seeed=2 good.npy
refuses '--s: it may be --small or --shapes or --sizes or --synthetic or --steps or --seed' --s good.npy
refuses '--codec 3cl: *: no codec or stage has this name (did you mean 3lc[?]); there are *' -c 3cl good.npy
refuses '--codec paper: *; did you mean papers[?]' -c paper good.npy
refuses '--isa avx3: it is auto, scalar, avx2, avx512 or neon; did you mean avx2[?]' --isa avx3 good.npy
refuses '--threads 1,,2: item 2 is empty: it is a whole number from 1 to 256*' --threads 1,,2 good.npy
refuses '--time 5m: it is a time from 0 on, as 2s, 30ms or 50us; a bare number is seconds' --time 5m good.npy
refuses '--synthetic laplac: it is gauss, *; did you mean laplace[?]' --synthetic laplac
refuses 'nothere: No such file or directory' --defaults "$source_root/bench" nothere
accepts --time 1us good.npy
refuses '-c: it needs a value' good.npy -c
refuses '--codec: it needs a value' good.npy --codec
refuses '--quiet=1: it takes no value' --quiet=1 good.npy
refuses '--codec 4lc: at 0: "4lc": no codec or stage has this name (did you mean 3lc?); there are 3lc, *, raw*' \
  -c 4lc good.npy
refuses '--codec 3lc:s=2: at 6: "2": s is 1 <= s < 2*' -c 3lc:s=2 good.npy
refuses '--codec quartic+ternary: at 0: "quartic" takes *' -c all -c quartic+ternary good.npy
refuses '--codec ternary: at 7: "ternary" gives *' -c ternary good.npy
refuses '--codec : at 0: *' -c '' good.npy
refuses '--codec all:s=1: at 0: *' -c all:s=1 good.npy
refuses '--isa sse9: @(it|item|nothing|after) *' --isa sse9 good.npy
refuses '--dtype f64: @(it|item|nothing|after) *' --dtype f64 good.npy
refuses '--format xml: @(it|item|nothing|after) *' --format xml good.npy
refuses '--feedback maybe: @(it|item|nothing|after) *' --feedback maybe good.npy
refuses '--synthetic cauchy: @(it|item|nothing|after) *' --synthetic cauchy
for number in '' -1 x 1.5 0x10 5Ti 99999999999999999999; do
  refuses "--values $number: @(it|item|nothing|after) *" --synthetic gauss --values "$number"
  refuses "--steps $number: @(it|item|nothing|after) *" --steps "$number" good.npy
done
refuses '--steps 0: @(it|item|nothing|after) *' --steps 0 good.npy
refuses '--time -1: @(it|item|nothing|after) *' --time -1 good.npy
refuses '--time nan: @(it|item|nothing|after) *' --time nan good.npy
refuses '--seed x: @(it|item|nothing|after) *' --seed x good.npy
refuses '--values*' --synthetic gauss --values 9999999999999Mi
refuses '--values goes with --synthetic or raw files *' --values 3 good.npy
refuses 'good.npy: no files go with --synthetic' --synthetic gauss good.npy
for view in roofline small density aggregate frames; do
  refuses "good.npy: no files go with --$view" --$view good.npy
  refuses "--values does not go with --$view" --$view --values 5
done
refuses '--small: it does not go with --roofline' --roofline --small
refuses '--roofline: it does not go with --density' --density --roofline
refuses '--synthetic does not go with --density' --density --synthetic gauss
refuses '--aggregate: it does not go with --small' --small --aggregate
refuses '--delta: it does not go with --small' --small --delta
refuses '--aggregate 4: it does not go with --small' --small --aggregate=4
for option in '--threads 2' '--delay 2' '--dtype f16' --assume-finite '--steps 3' '--isa scalar' '--feedback on' \
  --per-tensor; do
  # shellcheck disable=SC2086 # words
  refuses "${option% *} does not go with --aggregate" --aggregate $option
done
refuses '--aggregate 4: it does not go with --frames' --frames 2 --aggregate 4
refuses '--frames 2: it does not go with --aggregate' --aggregate --frames=2
for option in '--delay 2' '--dtype f16' --assume-finite --per-tensor --peers; do
  # shellcheck disable=SC2086 # words
  refuses "${option% *} does not go with --frames" --frames $option
done
refuses '--codec papers does not go with --frames' --frames -c papers
refuses '--codec int8: --aggregate takes natural only, and no blocks' --aggregate -c natural -c int8
refuses '--codec raw: --aggregate *' --aggregate -c papers
refuses '--codec natural:block=9: --aggregate *' --aggregate -c natural:block=9
refuses '--delay 2: natural has no error feedback (--feedback on gives it)' --delay 2 -c 3lc -c natural good.npy
refuses '--delay 2: --feedback off leaves no residual' --delay 2 --feedback off good.npy
refuses '--delay does not go with --codec papers: its rows have their own' --delay 1 -c papers good.npy
refuses '--feedback does not go with --codec papers: *' -c 3lc -c papers --feedback off good.npy
refuses '--delay 3: the 2 steps are not a multiple of it*' --delay 3 good.npy
refuses '--delay 0: @(it|item|nothing|after) *' --delay 0 good.npy
refuses '--values does not go with --sizes' --synthetic gauss --sizes 5 --values 5
refuses '--sizes goes with --synthetic, *' --sizes 5 good.npy
for list in '' ',' '1,' ',1' '1,,2' x '1,x' -1 1.5 "$(seq -s, 33)"; do
  refuses "--sizes $list: @(it|item|nothing|after) *" --small --sizes "$list"
  refuses "--threads $list: @(it|item|nothing|after) *" --threads "$list" good.npy
  refuses "--aggregate $list: @(it|item|nothing|after) *" --aggregate="$list"
  refuses "--frames $list: @(it|item|nothing|after) *" --frames="$list"
done
refuses '--aggregate 4,65: @(it|item|nothing|after) *' --aggregate=4,65
refuses '--frames 0: @(it|item|nothing|after) *' --frames 0
refuses '--frames 2,257: @(it|item|nothing|after) *' --frames 2,257
refuses '--threads 0: @(it|item|nothing|after) *' --threads 0 good.npy
refuses '--threads 1,257: @(it|item|nothing|after) *' --threads 1,257 good.npy
refuses '--synthetic sparse: @(it|item|nothing|after) *' --synthetic sparse
refuses 'nan.npy: row 1, index 1 *' -c raw --peers nan.npy

# ---- deltas of weights

# weights FOLDER BYTES...: two bf16 tensors; the first has these four bytes behind two weights
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

# ---- help, the manual, the version

count=$((count + 1))
run --help >help || bad "--help: exit status $?"
run -h | cmp -s - help || bad "-h is not --help"
# every row of the parser's table
names=$(sed -nE 's/^ +\{(KEY_[A-Z_]+|'\''.'\''), "([a-z-]+)", ("|NULL).*/\2/p' "$source_root/bench/options.c")
((${#names} > 100)) || bad "no options found in bench/options.c"
for name in $names; do
  grep -q -- "--$name" help || bad "--help does not mention --$name"
  grep -q -- "Fl .*-$name" "$source_root/bench/tlc-bench.1" || bad "the manual does not mention --$name"
done
# and the other way round
while read -r name; do
  [[ " $names " == *[[:space:]]"$name"[[:space:]]* ]] || bad "--help mentions --$name, which the parser does not know"
done < <(grep -oE -- '^ .*--[a-z-]+' help | grep -oE -- '[a-z-]+$' | sed 's/^--//')
run --version | grep -qE '^ISAs: .*scalar' || bad "--version does not list the ISAs"

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
sleep 0.3 # until nobody reads it
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

echo "$((count - failed < 0 ? 0 : count - failed)) passed, $failed failed"
((failed == 0))
