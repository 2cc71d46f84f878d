#!/bin/bash
# SPDX-License-Identifier: MIT
# tlc-bench from outside: options and what it says of them, help, version; what bench/run makes of its own.
# bench.sh TLC_BENCH
set -uo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
bench=$1
# shellcheck source-path=SCRIPTDIR source=bench-run.sh
. "$(dirname "$0")/bench-run.sh"

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
refuses '--owners goes with --algorithm all-reduce' --exchange --shapes x.txt --algorithm gather --owners 2
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

# ---- help, the manual, the version

count=$((count + 1))
run --help >help || bad "--help: exit status $?"
run -h | cmp -s - help || bad "-h is not --help"
! grep -n '.\{111\}' help || bad "--help: a line is longer than 110 characters"
run --version | grep -qE '^ISAs: .*scalar' || bad "--version does not list the ISAs"

finish_checks
