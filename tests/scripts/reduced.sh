#!/bin/bash
# SPDX-License-Identifier: MIT
# A library that was built with some codecs alone has these, refuses the others by name (tests/api/reduced.c), and makes
# small programs: of gcc on x86-64 none is larger than the table here says, which may only shrink. With each codec alone
# the one file makes the frames of the whole library.
# reduced.sh SOURCE_ROOT WHOLE FILE: WHOLE is tests/api/reduced.c with the whole library
# With TLC_TEST_QUICK=1 without the size of all codecs, and every third codec alone.
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 whole=$2 file=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

sed 's/3lc-golomb/3lc/' "$root/tests/examples/context.c" >small.c

# what | most bytes of code, constants and tables | options
while IFS='|' read -r what most options; do
  [[ ! ${TLC_TEST_QUICK-} || $what != 'all codecs' ]] || continue
  read -ra options <<<"$options"
  rm -rf build
  meson setup build "$root" --default-library=static --buildtype=minsize -Dcpuid=builtin -Dxxhash=bundled \
    -Dexchange=false "${options[@]}" -Dc_args=-fno-asynchronous-unwind-tables >log 2>&1 &&
    meson compile -C build >>log 2>&1 || { cat log; exit 1; }
  if [[ $what == 3lc* ]]; then
    # shellcheck disable=SC2086 # CC may hold options
    $CC -I"$root/include" "$root/tests/api/reduced.c" build/src/libthreelc.a -no-pie -lm -o reduced
    ./reduced
    diff <(./reduced 3lc 3lc:s=1.5,block=1000 raw) <("$whole" 3lc 3lc:s=1.5,block=1000 raw)
  fi
  # shellcheck disable=SC2086
  $CC -Os -fno-pie -no-pie -fno-asynchronous-unwind-tables -I"$root/include" small.c build/src/libthreelc.a \
    -Wl,--gc-sections -lm -o small
  ./small >small.log
  size=$(size -A small | awk '$1 ~ /^\.(text|rodata|data|data\.rel\.ro)$/ {sum += $2} END {print sum}')
  echo "# $what: $size bytes"
  [[ $(uname -m) == x86_64 && $($CC --version) == *Debian\ 12* ]] || continue
  ((size <= most)) || { echo "$what: a program has $size bytes, and at most $most are allowed"; exit 1; }
done <<'END'
all codecs|175400|
3lc and raw|81650|-Dcodecs=3lc,raw -Ddelta=false
3lc and raw, scalar kernels|40590|-Dcodecs=3lc,raw -Ddelta=false -Disas=
END

# alone STAGES CODEC...
alone() {
  local stages=$1 program=alone-${2%%[:+]*}-$BASHPID
  shift
  # shellcheck disable=SC2086
  $CC -O0 -w "-DTLC_CODECS=$stages" -DTLC_NO_DELTA -I"$(dirname "$file")" "$root/tests/api/reduced.c" "$file" -lm \
    -o "$program" && diff <(./"$program" "$@") <("$whole" "$@") || { echo "$stages alone: $*"; return 1; }
}
export -f alone
export root whole file
awk -v quick="${TLC_TEST_QUICK-}" '!quick || NR % 3 == 1' <<'END' | tr '\n' '\0' |
'TLC_WITH_STOCHASTIC_TERNARY | TLC_WITH_QUARTIC' stochastic-ternary+quartic
'TLC_WITH_STOCHASTIC_TERNARY | TLC_WITH_GOLOMB' stochastic-ternary+golomb
TLC_WITH_3LC_GOLOMB 3lc-golomb 3lc-golomb:s=1.9
TLC_WITH_SBC sbc sbc:block=5000
TLC_WITH_NATURAL natural natural:bits=9
TLC_WITH_INT8 int8
TLC_WITH_QSGD qsgd qsgd:bits=4
TLC_WITH_ONEBIT onebit
TLC_WITH_TOPK topk topk:p=0.01,bits=1
TLC_WITH_RANDOM_SPARSE random-sparse random-sparse:p=0.01
'TLC_WITH_TOPK | TLC_WITH_GOLOMB' topk:p=0.01+golomb
TLC_WITH_RAW raw
END
  xargs -0 -P "$(nproc)" -I {} bash -c 'alone {}'
