#!/bin/bash
# SPDX-License-Identifier: MIT
# src/ and include/ can be dropped into another build. The files that README's build line names are compiled in one
# folder, with no flags but -O3 -march=native, and the golden vectors pass.
# dropin.sh SOURCE_ROOT
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/objects"
cp -r "$root/src" "$root/include" "$work/"
list=$(sed -n 's/^cc .*\$(\(find src [^)]*\)).*/\1/p' "$root/README.md")
[[ $list ]] || { echo "README.md: no build line with a list of the sources"; exit 1; }
cd "$work"
mapfile -t sources < <(eval "$list")
cd objects

# Objects are named after their sources, so two sources of the same name would overwrite each other.
twice=$(find ../src -name '*.c' -printf '%f\n' | sort | uniq -d)
[[ -z $twice ]] || { echo "several files of src/ have these names:" "$twice"; exit 1; }
# shellcheck disable=SC2086 # CC may hold options
printf '../%s\0' "${sources[@]}" | xargs -0 -n 8 -P "$(nproc)" $CC -O3 -march=native -I../include -c

libs=(-lcmocka -lm)
tests=("$root"/tests/{codec/test_vectors,support/{guard,main,places,records,support}}.c)
$CC -O3 -march=native -I../include -o vectors "${tests[@]}" ./*.o "${libs[@]}"
./vectors "$root/tests/vectors"

# -march=native may stand for AVX512-FP16, with which FLT_EVAL_METHOD is 16.
if $CC -mavx512fp16 -E - </dev/null >/dev/null 2>&1; then
  $CC -mavx512fp16 -I../include -c -o fp16.o ../src/api/threelc.c
fi
