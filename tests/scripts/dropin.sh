#!/bin/bash
# SPDX-License-Identifier: MIT
# src/ and include/ dropped into another build, which knows only -O3 -march=native and no generated header, give the same
# bytes: the golden vectors pass. A build with -ffast-math is refused by the compiler.
# dropin.sh SOURCE_ROOT
set -euo pipefail
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$root/src" "$root/include" "$work/"
cd "$work"
libs=(-lxxhash -lcmocka -lm)
[[ $(uname -m) != x86_64 ]] || libs+=(-lcpuid)
mapfile -t sources < <(find src -name '*.c')
$CC -O3 -march=native -Iinclude -o vectors "$root/tests/test_vectors.c" "${sources[@]}" "${libs[@]}"
./vectors "$root/tests/vectors"
# On CPUs with AVX512-FP16, which -march=native may be, FLT_EVAL_METHOD is 16.
if $CC -mavx512fp16 -E - </dev/null >/dev/null 2>&1; then
  $CC -mavx512fp16 -Iinclude -c -o /dev/null src/threelc.c
fi
if $CC -ffast-math -Iinclude -c -o /dev/null src/threelc.c 2>/dev/null; then
  echo "-ffast-math is not refused"
  exit 1
fi
