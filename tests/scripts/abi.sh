#!/bin/bash
# SPDX-License-Identifier: MIT
# The ABI is the recorded one: exported functions with their types, enumerators and layouts of structs (as abidw writes
# them, the same on all 64-bit machines: tests/abi/threelc.abi), macros (tests/abi/macros), and layouts for 32 bits too
# (tests/abi/layout.c). A change needs a new version and a new record.
# abi.sh SOURCE_ROOT VERSION SHARED_LIBRARY: compares; VERSION is the build's. What needs abigail-tools may be skipped.
# abi.sh --record: writes the record of a new version.
#
# Additions need any higher version: functions, enumerators, macros, and fields at the end of structs that carry their
# size. Any other change breaks programs that were built before, so it needs another soname, which is
# libthreelc.so.0.MINOR before 1.0 and libthreelc.so.MAJOR from then on.
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
shopt -s inherit_errexit
root=$(cd "$(dirname "$0")/../.." && pwd)
mode=${1:?}
[[ $mode == --record ]] || root=$1 built_version=$2 shared=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"
record=tests/abi
CC=${CC:-cc}
# of libthreelc alone: modules depend on other libraries
mapfile -t headers < <(printf '%s\n' include/threelc/*.h | grep -v '/mpi\.h$')
fail() { printf '%s\n' "$@"; exit 1; }

# version FILE: of a list of macros
version() { awk '$2 == "TLC_VERSION" {print int($3 / 10000) "." int($3 / 100) % 100 "." $3 % 100}' "$1"; }

soname() {
  local major minor
  IFS=. read -r major minor _ <<<"$1"
  echo "libthreelc.so.$([[ $major == 0 ]] && echo "0.$minor" || echo "$major")"
}

# constants FILE: the macros but for the version
constants() { grep -v ' TLC_VERSION ' "$1"; }

# 32-bit layouts need no 32-bit C library: the headers include only what a freestanding compiler has.
check_layouts() {
  local flags=(-std=c11 -Wall -Wextra -Werror -Iinclude -ffreestanding -fsyntax-only) target
  $CC "${flags[@]}" $record/layout.c
  if $CC -m32 "${flags[@]}" -x c /dev/null 2>/dev/null; then
    $CC -m32 "${flags[@]}" $record/layout.c
  else
    echo "# $CC has no -m32: skipped"
  fi
  command -v clang >/dev/null || { echo "# clang is not installed: layouts for other machines skipped"; return; }
  for target in i386-linux-gnu armv7-linux-gnueabihf x86_64-linux-gnux32 aarch64-linux-gnu s390x-linux-gnu; do
    if clang --target=$target "${flags[@]}" -x c /dev/null 2>/dev/null; then
      clang --target=$target "${flags[@]}" $record/layout.c
    else
      echo "# clang does not know $target: skipped"
    fi
  done
}

list_macros() {
  printf '#include "%s"\n' "${headers[@]}" | $CC -E -dM -Iinclude -I. -x c - | grep '^#define TLC_' |
    grep -v '^#define TLC_API' | LC_ALL=C sort >"$work/macros"
}

# The version is in meson.build and in threelc.h; the library's name is made from the former.
check_version() {
  local exported
  [[ $new == "$built_version" ]] || fail "threelc.h has version $new, meson.build $built_version"
  exported=$(readelf -d "$shared" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
  [[ $exported == "$(soname "$new")" ]] || fail "the library's soname is $exported, not $(soname "$new")"
}

# What is described is compiled here, so that the build at hand may be any: LTO, sanitizers, no debug information.
# Public functions are not in kernels, which would take most of the time.
describe() {
  local sources
  mapfile -t sources < <(find src -name '*.c' -not -path 'src/kernels/*' -not -path 'src/mpi/*' | LC_ALL=C sort)
  $CC -std=gnu11 -w -g -O0 -fPIC -fvisibility=hidden -Iinclude -shared -Wl,-soname,"$(soname "$new")" \
    -o "$work/libthreelc.so" "${sources[@]}"
  abidw --headers-dir include --drop-private-types --exported-interfaces-only --no-architecture --no-corpus-path \
    --no-comp-dir-path --no-show-locs --no-elf-needed --no-parameter-names --out-file "$work/threelc.abi" \
    "$work/libthreelc.so"
}

# differences [ABIDIFF-OPTIONS...]: between the record and the sources
differences() {
  local status=0
  abidiff --leaf-changes-only --ignore-soname --no-architecture --no-show-locs "$@" \
    $record/threelc.abi "$work/threelc.abi" >"$work/report" || status=$?
  ((status & 3)) && fail "abidiff failed" "$(<"$work/report")" >&2 # bits 4 and 8: there are differences
  ((status == 0)) || cat "$work/report"
}

# The differences that are not additions. abidiff counts any growth of a struct as a change, and takes structs of
# src/exchange/gossip/gossip.h for those of include/threelc/gossip.h.
incompatible() {
  local sized defined
  sized=$(awk '/^typedef struct tlc_/ {name = $3} /^ +size_t struct_size;/ {printf "%s ", name}' "${headers[@]}")
  defined=$(sed -n 's/^typedef struct \(tlc_[a-z_]*\) {$/\1/p' "${headers[@]}" | tr '\n' ' ')
  differences --no-added-syms | awk -v sized=" $sized" -v defined=" $defined" '
    /^$/ {opaque = 0; next}
    / summary: / {next}
    /^.struct [a-z_]+. changed:$/ && !index(defined, " " substr($2, 1, length($2) - 1) " ") {opaque = 1}
    opaque {next}
    /^.struct [a-z_]+. changed:$/ {
      growing = index(sized, " " substr($2, 1, length($2) - 1) " ")
      end = -1
      if (growing) next
    }
    growing && /^  type size changed from [0-9]+ to [0-9]+ / {end = $5; next}
    growing && /^  [0-9]+ data member insertions?:$/ {next}
    growing && end >= 0 && match($0, /, at offset [0-9]+ /) && substr($0, RSTART + 12) + 0 >= end {next}
    {print}'
  LC_ALL=C comm -23 <(constants $record/macros) <(constants "$work/macros")
}

check() {
  functions() { nm -D --defined-only "$1" | awk '{sub(/@.*/, "", $3)} $3 ~ /^tlc_/ {print $3}' | LC_ALL=C sort; }
  diff <(functions "$shared") <(functions "$work/libthreelc.so") ||
    fail "the library exports (<) what is not seen here: is a public function in src/kernels?"
  if [[ -z $all ]]; then
    [[ $new == "$old" ]] || fail "version $new is not recorded ($old is): run tests/scripts/abi.sh --record"
  elif [[ $new != "$old" ]]; then
    fail "$all" "the ABI of version $new is not recorded ($old is): run tests/scripts/abi.sh --record"
  elif [[ -z $broken ]]; then
    fail "$all" "the ABI of version $new has additions: set a new version in meson.build and threelc.h, then run \
tests/scripts/abi.sh --record"
  else
    fail "$all" "the ABI of version $new has changed, and programs built before would fail: undo that, or set a \
version with another soname than $(soname "$old") in meson.build and threelc.h, then run tests/scripts/abi.sh --record"
  fi
}

write_record() {
  if [[ -n $old ]]; then
    [[ $new != "$old" || -n $all ]] || { echo "version $new is recorded already"; return; }
    [[ $new != "$old" ]] || fail "$all" "the ABI has changed: set a new version in meson.build and threelc.h first"
    [[ $(printf '%s\n' "$new" "$old" | sort -V | tail -n 1) == "$new" ]] ||
      fail "version $new is older than the recorded $old"
    [[ -z $broken || $(soname "$new") != "$(soname "$old")" ]] ||
      fail "$all" "programs built before would fail: version $new needs another soname than $(soname "$old")"
  fi
  cp "$work/threelc.abi" "$work/macros" $record/
  echo "recorded version $new"
}

check_layouts
list_macros
new=$(version "$work/macros")
[[ $mode == --record ]] || check_version
if ! command -v abidw >/dev/null || ! command -v abidiff >/dev/null; then
  echo "# abidw and abidiff (Debian: abigail-tools) are not installed: skipped"
  exit 77
fi
if [[ $($CC -E -dM -x c /dev/null) != *' __LP64__ '* ]]; then
  echo "# the record is of a 64-bit machine: skipped"
  exit 77
fi
describe
old='' all='' broken=''
if [[ -e $record/threelc.abi ]]; then
  old=$(version $record/macros)
  all=$(differences --harmless; diff <(constants $record/macros) <(constants "$work/macros") || true)
  broken=$(incompatible)
fi
if [[ $mode == --record ]]; then write_record; else check; fi
