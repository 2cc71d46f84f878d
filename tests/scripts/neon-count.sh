#!/bin/bash
# SPDX-License-Identifier: MIT
# Instructions per value of the NEON kernels and of whole calls, beside scalar, counted under QEMU; a Markdown table.
# neon-count.sh [WORK]: builds in WORK (build-ci if not given), on any machine.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=${1:-$root/build-ci}
build=$work/neon-count
{
  "$root/.ci/packages" gcc libc6-dev
  "$root/.ci/cross" aarch64 "$work"
  [[ -f $build/build.ninja ]] ||
    meson setup "$build" "$root" --cross-file "$work/aarch64.ini" --buildtype=release -Dtests=enabled
  meson compile -C "$build" count_kernels
  cc -std=gnu11 -Wall -Wextra -O2 -fPIC -shared "$root/tests/count_plugin.c" -o "$build/count_plugin.so"
} >&2

# Functions of libraries are bound at the start: looking them up is not counted.
qemu-aarch64 -plugin "$build/count_plugin.so" -L /usr/aarch64-linux-gnu \
  -E "LD_LIBRARY_PATH=$work/sysroot-aarch64/usr/lib/aarch64-linux-gnu" -E LD_BIND_NOW=1 \
  "$build/tests/count_kernels" >"$build/names" 2>"$build/counts" || { cat "$build/counts" >&2; exit 1; }

# Every second count is from the start to the end of what is named; the first of them is of nothing, but for the marks.
awk 'NR % 2 == 0' "$build/counts" | paste -d ' ' "$build/names" - | awk '
  NF != 5 { print "neon-count: names and counts do not agree" >"/dev/stderr"; exit 1 }
  NR == 1 {
    marks = $5
    print "| instructions each | of | scalar | NEON | scalar / NEON |\n|---|---:|---:|---:|---:|"
    next
  }
  { each = ($5 - marks) / $2 }
  $4 == "scalar" { scalar[$1, $2] = each; next }
  { printf "| `%s` | %d %s | %.3f | %.3f | %.1f |\n", $1, $2, $3, scalar[$1, $2], each, scalar[$1, $2] / each }
'
