#!/bin/bash
# SPDX-License-Identifier: MIT
# The library in one file compiles without flags and warnings, with every compiler that is here: of this machine, of
# others, of zig. The golden vectors pass with it, and examples print what NAME.txt says, on whatever runs here.
# amalgamation.sh SOURCE_ROOT FILE; ZIG in the environment is a command.
# With TLC_TEST_QUICK=1 without the compilers of other rows of tests/matrix that CI has, and zig links for macOS alone:
# for other systems it would first compile a C library, which takes minutes.
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 file=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WINEDEBUG=-all
cp -r "$file" "$(dirname "$file")/threelc" "$work"
cd "$work"

# compiles FOLDER RUNNER COMPILER: the file, in a new folder, and examples. RUNNER is the command that runs these, or
# "linked" where nothing does, or "compiled" where they are not even linked.
compiles() {
  local what=${3/#*ziglang /zig } runner=$2 example
  mkdir "$1"
  cd "$1"
  # shellcheck disable=SC2086 # a command
  $3 -c ../threelc.c -o threelc.o >log 2>&1 && [[ ! -s log ]] || { echo "$what:"; cat log; return 1; }
  [[ $runner != compiled ]] || { echo "# $what: compiled"; return; }
  for example in context delta server; do
    # shellcheck disable=SC2086
    $3 -I.. "$root/tests/examples/$example.c" threelc.o -o "$example.exe" -lm >log 2>&1 ||
      { echo "$what: $example.c:"; cat log; return 1; }
    [[ $runner != linked ]] || continue
    WINEPREFIX=$PWD/wine $runner "./$example.exe" | tr -d '\r' | diff "$root/tests/examples/$example.txt" - ||
      { echo "$what: $example.c prints something else"; return 1; }
  done
  echo "# $what: $([[ $runner != linked ]] && echo ran || echo linked)"
}

(compiles native '' "$CC")
tests=("$root"/tests/{codec/test_vectors,support/{guard,main,places,records,support}}.c)
# shellcheck disable=SC2086 # CC may hold options
$CC -D_GNU_SOURCE -I"$root/include" -o vectors "${tests[@]}" native/threelc.o -lcmocka -lm
./vectors "$root/tests/vectors" >log 2>&1 || { cat log; exit 1; }

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

attempts=() # RUNNER|COMPILER
try() { # COMPILER RUNNER: with a runner that is not here programs are only linked
  [[ ! $2 || $2 == compiled || -x $(command -v "${2%% *}") ]] || set -- "$1" linked
  attempts+=("$2|$1")
}
while read -r compiler runner; do
  [[ ! ${TLC_TEST_QUICK-} || ! $runner ]] || continue
  if [[ -x $(command -v "$compiler") ]]; then try "$compiler" "$runner"; else echo "# no $compiler"; fi
done <<'END'
clang
musl-gcc
x86_64-w64-mingw32-gcc /usr/lib/wine/wine64
aarch64-linux-gnu-gcc qemu-aarch64 -L /usr/aarch64-linux-gnu
s390x-linux-gnu-gcc qemu-s390x -L /usr/s390x-linux-gnu
END
zig=${ZIG:-$(command -v zig)} || echo '# no zig'
[[ ! $zig ]] || while read -r target runner; do
  [[ ! ${TLC_TEST_QUICK-} || $target == *-macos ]] || runner=compiled
  try "$zig cc -target $target" "$runner"
done <<'END'
x86_64-macos linked
aarch64-macos linked
x86_64-linux-musl
aarch64-linux-musl qemu-aarch64
x86_64-windows-gnu /usr/lib/wine/wine64
aarch64-windows-gnu linked
END

export -f compiles
export root
printf '%s\0' "${attempts[@]}" | xargs -0 -P "$(nproc)" -I {} bash -euo pipefail -c \
  'attempt=$1; compiles "$BASHPID" "${attempt%%|*}" "${attempt#*|}"' bash {}
