#!/bin/bash
# SPDX-License-Identifier: MIT
# Public headers compile without a warning: each alone, and all of them twice, each before and after each other one, in
# every C and C++ from C99 and C++11 on, with every compiler here, for 32 bits too. mpi.h, which needs MPI's own header,
# is compiled with $CC. tests/examples compile as C11 and C++17 without a warning. Every struct that begins with
# its size has an _init. bindgen, SWIG and cgo, which generate bindings, read all constants.
# headers.sh SOURCE_ROOT
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1
CC=${CC:-cc}
warnings=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wundef -Werror)
flags=("${warnings[@]}" -fsyntax-only -I"$root/include")
cd "$root/include"
mapfile -t headers < <(printf '%s\n' threelc/*.h | grep -vx threelc/mpi.h)

# includes NAME...
includes() { printf '#include <%s>\n' "$@"; }

# check LANGUAGE COMPILER AND FLAGS...
check() {
  local language=$1 header order reversed=()
  shift
  for header in "${headers[@]}"; do
    includes "$header" | "$@" "${flags[@]}" -x "$language" - || { echo "$*: $header"; exit 1; }
  done
  for header in "${headers[@]}"; do reversed=("$header" "${reversed[@]}"); done
  for order in "${headers[*]} ${headers[*]}" "${reversed[*]} ${reversed[*]}"; do
    # shellcheck disable=SC2086 # names without spaces
    includes $order | "$@" "${flags[@]}" -x "$language" - || { echo "$*: $order"; exit 1; }
  done
}

# knows LANGUAGE COMPILER AND FLAGS...: of those that a compiler may lack, a line says so
knows() {
  local language=$1
  shift
  "$@" -fsyntax-only -x "$language" /dev/null 2>/dev/null || { echo "# $* is not known here: skipped"; return 1; }
}

# standards LANGUAGE COMPILER: the newest standard may be unknown to it. For 32 bits no 32-bit C library is needed.
standards() {
  local language=$1 std all=(c99 c11 c17) newest=c2x compiler
  read -ra compiler <<<"$2"
  [[ $language == c ]] || all=(c++11 c++14 c++17 c++20) newest=c++2b
  command -v "${compiler[0]}" >/dev/null || { echo "# $2 is not installed: skipped"; return; }
  for std in "${all[@]}"; do
    check "$language" "${compiler[@]}" -std=$std
  done
  ! knows "$language" "${compiler[@]}" -std=$newest || check "$language" "${compiler[@]}" -std=$newest
  ! knows "$language" "${compiler[@]}" -m32 || check "$language" "${compiler[@]}" -m32 -ffreestanding -std="${all[0]}"
}

mapfile -t compilers < <(printf '%s\n' "$CC" gcc clang | awk '!seen[$0]++')
for compiler in "${compilers[@]}"; do standards c "$compiler"; done
for compiler in g++ clang++; do standards c++ "$compiler"; done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
examples() { # LANGUAGE COMPILER AND FLAGS...
  local language=$1 example
  shift
  for example in "$root"/tests/examples/*.c; do
    [[ $example == */mpi.c ]] || "$@" -x "$language" -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wpedantic -Werror \
      -I"$root/include" -fsyntax-only "$example" || { echo "$*: $example"; exit 1; }
  done
}
for compiler in gcc clang; do
  ! command -v $compiler >/dev/null || examples c $compiler -std=c11
done
for compiler in g++ clang++; do
  ! command -v $compiler >/dev/null || examples c++ $compiler -std=c++17
done

# Every struct with a size has an _init.
while read -r type; do
  grep -hqE "^TLC_API tlc_status ${type}_init\($type \*[a-z]+, size_t struct_size" threelc/*.h ||
    { echo "$type begins with struct_size, but has no ${type}_init"; exit 1; }
done < <(awk '/^typedef struct tlc_[a-z_]* \{$/ {name = $3} /^    size_t struct_size;/ {print name}' threelc/*.h)

# Macros with a value, those with a text, and members of enums.
mapfile -t macros < <(
  sed -n 's/^ *#define \(TLC_[A-Z0-9_]*\)  *[^ "].*/\1/p' "${headers[@]}" |
    grep -vx TLC_API | sort -u)
mapfile -t texts < <(sed -n 's/^#define \(TLC_[A-Z0-9_]*\)  *".*/\1/p' "${headers[@]}")
mapfile -t members < <(sed 's,/\*.*\*/,,' "${headers[@]}" | grep -oE '\bTLC_[A-Z0-9_]+ = ' | sort -u)
members=("${members[@]% = }")
((${#macros[@]} >= 6 && ${#texts[@]} >= 2 && ${#members[@]} > 40)) ||
  { echo "no constants found in the headers"; exit 1; }
mapfile -t functions < <(sed -n 's/^TLC_API .*[ *]\(tlc_[a-z0-9_]*\)(.*/\1/p' "${headers[@]}")

# Every macro with a value, and every enum, is a constant of the type and the value that C has.
if command -v bindgen >/dev/null; then
  includes "${headers[@]}" >"$work/all.h"
  usize=() # newer ones do so without an option
  ! bindgen --help | grep -q ' --size_t-is-usize' || usize=(--size_t-is-usize)
  bindgen --default-enum-style consts "${usize[@]}" "$work/all.h" -- -I. >"$work/generated.rs" 2>"$work/log" ||
    { cat "$work/log"; exit 1; }
  # a statement a line, also where rustfmt is missing: then all stands in one line, with more blanks
  tr ';}' '\n' <"$work/generated.rs" | sed -E 's/^ +//; s/ *: */: /; s/ +$//' >"$work/bindings.rs"
  {
    includes "${headers[@]}"
    echo '#include <stdio.h>'
    echo 'int main(void) {'
    for name in "${macros[@]}"; do
      echo "printf(\"$name %llu %d\\n\", (unsigned long long)$name, (int)sizeof($name));"
    done
    echo '}'
  } >"$work/values.c"
  cc -I. "$work/values.c" -o "$work/values"
  while read -r name value size; do
    got=$(sed -nE "s/^pub const $name: ([a-z0-9]+) = (.*)$/\1 \2/p" "$work/bindings.rs")
    case $got in
      "usize $value" | "u64 $value") ((size == 8)) ;;
      "u32 $value") ((size == 4)) ;;
      *) false ;;
    esac || { echo "bindgen: $name is \"$got\", of $size bytes and $value in C"; exit 1; }
  done < <("$work/values")
  for name in "${members[@]}"; do
    grep -qE "pub const [a-z_0-9]*$name: " "$work/bindings.rs" || { echo "bindgen: there is no $name"; exit 1; }
  done
else
  echo "# bindgen is not installed: skipped"
fi

# SWIG reads the headers without a warning, but that fields of text can be set, and knows every constant and function.
if command -v swig >/dev/null; then
  {
    printf '%%module threelc\n%%include <stdint.i>\n'
    printf '%%include <%s>\n' threelc/threelc.h "${headers[@]}" # which has TLC_API
  } >"$work/threelc.i"
  swig -python -Wextra -w451 -Werror -DSWIGWORDSIZE64 -I. -o "$work/wrap.c" "$work/threelc.i" >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
  grep -oE '(SetConstant\(d|addvarlink\(globals), "TLC_[A-Z0-9_]+"|\{ "tlc_[a-z0-9_]+"' "$work/wrap.c" |
    sed 's/.* "\(.*\)"/\1/' | sort -u >"$work/known"
  missing=$(printf '%s\n' "${macros[@]}" "${texts[@]}" "${members[@]}" "${functions[@]}" | sort -u |
    comm -23 - "$work/known")
  [[ -z $missing ]] || { echo "SWIG does not know ${missing//$'\n'/ }"; exit 1; }
else
  echo "# SWIG is not installed: skipped"
fi

# So does cgo.
if command -v go >/dev/null; then
  {
    echo 'package main'
    includes "${headers[@]}" | sed 's,^,// ,'
    printf '%s\n' 'import "C"' 'func main() {'
    printf '\t_ = C.%s\n' "${macros[@]}" "${texts[@]}" "${members[@]}" "${functions[@]}"
    echo '}'
  } >"$work/main.go"
  (cd "$work" && go tool cgo -- -I"$root/include" main.go) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
else
  echo "# Go is not installed: skipped"
fi

if pkg-config --exists ompi-c; then
  read -ra mpi < <(pkg-config --cflags-only-I ompi-c | sed 's/-I/-isystem /g')
  read -ra compiler <<<"$CC"
  headers+=(threelc/mpi.h)
  check c "${compiler[@]}" -std=c11 "${mpi[@]}"
  ! command -v g++ >/dev/null || check c++ g++ -std=c++11 -DOMPI_SKIP_MPICXX "${mpi[@]}"
else
  echo "# Open MPI is not installed: threelc/mpi.h skipped"
fi
