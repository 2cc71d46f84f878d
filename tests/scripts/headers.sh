#!/bin/bash
# SPDX-License-Identifier: MIT
# Each public header compiles alone, in C and C++, without a warning.
# headers.sh SOURCE_ROOT
set -euo pipefail
root=$1
warnings=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fsyntax-only -I"$root/include")
for header in "$root"/include/threelc/*.h; do
  name=threelc/$(basename "$header")
  for std in c99 c11 c17; do
    echo "#include <$name>" | ${CC:-cc} -std=$std "${warnings[@]}" -x c -
  done
  for cxx in g++ clang++; do
    command -v $cxx >/dev/null || { echo "# $cxx is not installed: skipped"; continue; }
    for std in c++11 c++20; do
      echo "#include <$name>" | $cxx -std=$std "${warnings[@]}" -x c++ -
    done
  done
done
