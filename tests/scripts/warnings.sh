#!/bin/bash
# SPDX-License-Identifier: MIT
# src/ compiles without warnings in forms in which others may build it. Without optimisation intrinsics are macros, and
# sanitizers change expressions: what compiles at -O2 may have warnings there.
# warnings.sh SOURCE_ROOT
# With TLC_TEST_QUICK=1 without sanitizers.
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
cd "$1"
flags=(-std=gnu11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-psabi -Werror -Iinclude -fsyntax-only)
cpuid=()
[[ $(uname -m) != x86_64 ]] || read -ra cpuid < <(pkg-config --cflags libcpuid)
folders=(src)
if pkg-config --exists ompi-c; then
  read -ra mpi < <(pkg-config --cflags-only-I ompi-c)
else
  mpi=() folders=(src -path src/mpi -prune -o)
  echo "# Open MPI is not installed: src/mpi skipped"
fi
forms=(-O0)
[[ ${TLC_TEST_QUICK-} ]] || forms+=('-O1 -fsanitize=address,undefined')
for form in "${forms[@]}"; do
  # shellcheck disable=SC2086 # CC and form may hold several options
  find "${folders[@]}" -name '*.c' -print0 |
    xargs -0 -n 16 -P "$(nproc)" $CC "${flags[@]}" "${cpuid[@]}" "${mpi[@]}" $form || { echo "with $form"; exit 1; }
done
