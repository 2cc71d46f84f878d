#!/bin/bash
# SPDX-License-Identifier: MIT
# Public headers compile without a warning: each alone, and all of them twice, each before and after each other one, in
# every C and C++ from C99 and C++11 on, with every compiler here, for 32 bits too. mpi.h, which needs MPI's own header,
# is compiled with $CC.
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

if pkg-config --exists ompi-c; then
  read -ra mpi < <(pkg-config --cflags-only-I ompi-c | sed 's/-I/-isystem /g')
  read -ra compiler <<<"$CC"
  headers+=(threelc/mpi.h)
  check c "${compiler[@]}" -std=c11 "${mpi[@]}"
  ! command -v g++ >/dev/null || check c++ g++ -std=c++11 -DOMPI_SKIP_MPICXX "${mpi[@]}"
else
  echo "# Open MPI is not installed: threelc/mpi.h skipped"
fi
