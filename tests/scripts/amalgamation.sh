#!/bin/bash
# SPDX-License-Identifier: MIT
# The library in one file compiles without flags and warnings, with every compiler that is here: of this machine, of
# others, of zig. The golden vectors pass with it, and examples print what NAME.txt says, on whatever runs here.
# amalgamation.sh SOURCE_ROOT FILE
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 file=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WINEPREFIX=$work/wine WINEDEBUG=-all
cp -r "$file" "$(dirname "$file")/threelc" "$work"
cd "$work"

# compiles WHAT RUNNER COMPILER...: the file, and examples, which run if there is a runner
compiles() {
  local what=$1 runner=$2 example
  shift 2
  "$@" -c threelc.c -o threelc.o >log 2>&1 && [[ ! -s log ]] || { echo "$what:"; cat log; exit 1; }
  for example in context delta server; do
    "$@" -I. "$root/tests/examples/$example.c" threelc.o -o "$example.exe" -lm >log 2>&1 ||
      { echo "$what: $example.c:"; cat log; exit 1; }
    [[ $runner != no ]] || continue
    $runner ./"$example.exe" | tr -d '\r' | diff "$root/tests/examples/$example.txt" - ||
      { echo "$what: $example.c prints something else"; exit 1; }
  done
  echo "# $what: $([[ $runner != no ]] && echo ran || echo linked)"
}
runner() { # PROGRAM ARGUMENTS...: what runs programs of another machine, or "no"
  if [[ -x $(command -v "$1") ]]; then echo "$*"; else echo no; fi
}

# shellcheck disable=SC2086 # CC may hold options
compiles "$CC" '' $CC
tests=("$root"/tests/{codec/test_vectors,support/{guard,main,places,records,support}}.c)
# shellcheck disable=SC2086
$CC -D_GNU_SOURCE -I"$root/include" -o vectors "${tests[@]}" threelc.o -lcmocka -lm
./vectors "$root/tests/vectors" >log 2>&1 || { cat log; exit 1; }

while read -r compiler runner; do
  [[ -x $(command -v "$compiler") ]] || { echo "# no $compiler"; continue; }
  # shellcheck disable=SC2086 # a command
  compiles "$compiler" "$([[ $runner ]] && runner $runner)" "$compiler"
done <<'END'
clang
x86_64-w64-mingw32-gcc /usr/lib/wine/wine64
aarch64-linux-gnu-gcc qemu-aarch64 -L /usr/aarch64-linux-gnu
s390x-linux-gnu-gcc qemu-s390x -L /usr/s390x-linux-gnu
musl-gcc
END

# For MSVC's ABI, with stand-ins for the headers of its C library: clang compiles, and nothing links.
if command -v clang >/dev/null; then
  mkdir msvc
  printf '%s\n' '#include <stddef.h>' 'int memcmp(const void *, const void *, size_t);' \
    'int strcmp(const char *, const char *);' 'int strncmp(const char *, const char *, size_t);' \
    'size_t strlen(const char *);' 'size_t strcspn(const char *, const char *);' \
    'char *strchr(const char *, int);' 'char *strstr(const char *, const char *);' \
    'void *memchr(const void *, int, size_t);' 'void *memset(void *, int, size_t);' \
    'void *memcpy(void *, const void *, size_t);' 'void *memmove(void *, const void *, size_t);' >msvc/string.h
  printf '%s\n' '#include <stddef.h>' 'void *malloc(size_t);' 'void *calloc(size_t, size_t);' 'void free(void *);' \
    'unsigned long _byteswap_ulong(unsigned long);' 'unsigned long long _byteswap_uint64(unsigned long long);' \
    >msvc/stdlib.h
  printf '%s\n' '#define static_assert _Static_assert' >msvc/assert.h
  clang --target=x86_64-pc-windows-msvc -ffreestanding -Imsvc -I. -c threelc.c -o msvc.o >log 2>&1 && [[ ! -s log ]] ||
    { echo "clang for MSVC's ABI:"; cat log; exit 1; }
  echo "# clang --target=x86_64-pc-windows-msvc: compiled"
fi

zig=${ZIG-}
[[ $zig ]] || zig=$(command -v zig) || { echo "# no zig"; exit 0; }
while read -r target runner; do
  # shellcheck disable=SC2086 # commands
  compiles "zig cc -target $target" "$([[ $runner ]] && runner $runner)" $zig cc -target "$target"
done <<'END'
x86_64-linux-musl
aarch64-linux-musl qemu-aarch64
x86_64-windows-gnu /usr/lib/wine/wine64
aarch64-windows-gnu no
x86_64-macos no
aarch64-macos no
END
