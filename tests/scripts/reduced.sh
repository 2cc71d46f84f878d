#!/bin/bash
# SPDX-License-Identifier: MIT
# A library that was built with some codecs alone has these, refuses the others by name (tests/api/reduced.c), and makes
# small programs: of gcc on x86-64 none is larger than the table here says, which may only shrink.
# reduced.sh SOURCE_ROOT WHOLE: tests/api/reduced.c with the whole library
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 whole=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

digest=$("$whole")
sed 's/3lc-golomb/3lc/' "$root/tests/examples/context.c" >small.c

# what | most bytes of code and constants | options
while IFS='|' read -r what most options; do
  read -ra options <<<"$options"
  rm -rf build
  flags="-fno-pie -fno-asynchronous-unwind-tables"
  meson setup build "$root" --default-library=static --buildtype=minsize -Dcpuid=builtin -Dxxhash=bundled \
    -Dexchange=false "${options[@]}" -Db_staticpic=false -Dc_args="$flags" >log 2>&1 &&
    meson compile -C build >>log 2>&1 || { cat log; exit 1; }
  if [[ $what == 3lc* ]]; then
    # shellcheck disable=SC2086 # CC may hold options
    $CC -I"$root/include" "$root/tests/api/reduced.c" build/src/libthreelc.a -no-pie -lm -o reduced
    ./reduced "$digest"
  fi
  # shellcheck disable=SC2086
  $CC -Os -fno-pie -no-pie -fno-asynchronous-unwind-tables -I"$root/include" small.c build/src/libthreelc.a \
    -Wl,--gc-sections -lm -o small
  ./small >small.log
  size=$(size -A small | awk '$1 == ".text" || $1 == ".rodata" || $1 == ".data" {sum += $2} END {print sum}')
  echo "# $what: $size bytes"
  [[ $(uname -m) == x86_64 && $($CC --version) == *Debian\ 12* ]] || continue
  ((size <= most)) || { echo "$what: a program has $size bytes, and at most $most are allowed"; exit 1; }
done <<'END'
all codecs|175500|
3lc and raw|86000|-Dcodecs=3lc,raw -Ddelta=false
3lc and raw, scalar kernels|45700|-Dcodecs=3lc,raw -Ddelta=false -Disas=
END
