#!/bin/bash
# SPDX-License-Identifier: MIT
# The library in one file compiles without flags and warnings, with every compiler that is here: of this machine, of
# others, of zig. The golden vectors pass with it, and examples print what NAME.txt says, on whatever runs here.
# amalgamation.sh SOURCE_ROOT FILE; ZIG in the environment is a command.
# With TLC_TEST_QUICK=1 without the compilers of other rows of tests/matrix that CI has, and zig does not link for musl
# and Windows on x86-64, as others do: it would first compile a C library, which takes a minute.
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

zig=${ZIG:-$(command -v zig)} || echo '# no zig'
# For MSVC's ABI and Android, with stand-ins for the headers of their C libraries, and for Android's library, as its NDK
# has them: clang compiles, and zig links a shared library, which needs no other functions.
if command -v clang >/dev/null; then
  mkdir headers
  printf '%s\n' '#include <stddef.h>' 'int memcmp(const void *, const void *, size_t);' \
    'int strcmp(const char *, const char *);' 'int strncmp(const char *, const char *, size_t);' \
    'size_t strlen(const char *);' 'size_t strcspn(const char *, const char *);' \
    'char *strchr(const char *, int);' 'char *strstr(const char *, const char *);' \
    'void *memchr(const void *, int, size_t);' 'void *memset(void *, int, size_t);' \
    'void *memcpy(void *, const void *, size_t);' 'void *memmove(void *, const void *, size_t);' >headers/string.h
  printf '%s\n' '#include <stddef.h>' 'void *malloc(size_t);' 'void *calloc(size_t, size_t);' 'void free(void *);' \
    'unsigned long _byteswap_ulong(unsigned long);' 'unsigned long long _byteswap_uint64(unsigned long long);' \
    >headers/stdlib.h
  printf '%s\n' 'enum { FE_TONEAREST };' 'typedef unsigned fenv_t;' 'int feholdexcept(fenv_t *);' \
    'int fesetenv(const fenv_t *);' 'int fesetround(int);' >headers/fenv.h
  printf '%s\n' '#define static_assert _Static_assert' >headers/assert.h
  printf 'void %s(void) {}\n' calloc free malloc mem{chr,cmp,cpy,move,set} str{chr,cmp,cspn,len,ncmp,str} \
    fe{holdexcept,setenv,setround} __u{div,mod}di3 __aeabi_{d2ulz,idiv,memclr{4,8},memcpy8,uidiv{,mod},ul2d,uldivmod} \
    >libc.c
  alone() { # COMPILER: for a system whose headers are not here
    $1 -ffreestanding -Iheaders -I. -c threelc.c -o threelc.o >log 2>&1 && [[ ! -s log ]] ||
      { echo "$1:"; cat log; exit 1; }
  }
  alone 'clang --target=x86_64-pc-windows-msvc'
  echo "# clang --target=x86_64-pc-windows-msvc: compiled"
  for target in aarch64-linux-android armv7a-linux-androideabi x86_64-linux-android i686-linux-android; do
    alone "clang --target=${target}24 -fPIC"
    [[ $zig ]] || { echo "# clang --target=${target}24: compiled"; continue; }
    clang --target=${target}24 -ffreestanding -fno-builtin -w -c libc.c -o libc.o
    system=${target/#armv7a-/arm-}
    shared="$zig cc -target ${system/#i686-/x86-} -nostdlib -shared"
    { $shared -Wl,-soname,libc.so libc.o -o libc.so && $shared -Wl,-z,defs threelc.o libc.so \
      -o libthreelc.so; } >log 2>&1 ||
      { echo "$shared:"; cat log; exit 1; }
    echo "# clang --target=${target}24: linked"
  done
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
[[ ! $zig ]] || while read -r target runner; do
  [[ ! ${TLC_TEST_QUICK-} || $target != x86_64-*-musl && $target != x86_64-windows-* ]] || runner=compiled
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
