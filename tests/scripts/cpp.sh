#!/bin/bash
# SPDX-License-Identifier: MIT
# The C++ headers: each compiles alone without a warning (g++, C++17); tests/bindings has every class, and runs with g++
# (C++20) and with clang++ (C++17, sanitizers of addresses and undefined behaviour); the example prints what that in C
# prints. They stay small: at most 1,500 lines.
# cpp.sh SOURCE_ROOT SHARED_LIBRARY
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 library=$2
warnings=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wundef -Werror -I"$root/include")
export LD_LIBRARY_PATH=${library%/*}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# the program runs, and prints this
prints() { # FILE STANDARD EXPECTED FLAGS...
  "$compiler" -std="$2" "${warnings[@]}" "${@:4}" "$root/$1" -o program -L"${library%/*}" -lthreelc -pthread ||
    { echo "$compiler: $1 does not build"; exit 1; }
  ./program >got && diff "$3" got || { echo "$compiler: $1 fails"; exit 1; }
}

lines=$(cat "$root"/include/threelc/*.hpp | wc -l)
((lines <= 1500)) || { echo "the C++ headers have $lines lines"; exit 1; }
echo '8 groups of calls' >objects.txt
found=
for compiler in g++ clang++; do
  command -v $compiler >/dev/null || { echo "# $compiler is not installed: skipped"; continue; }
  found=1
  standard=c++17 sanitize=()
  if [[ $compiler == g++ ]]; then
    $compiler -std=c++20 -fsyntax-only -x c++ /dev/null 2>/dev/null && standard=c++20
    for header in "$root"/include/threelc/*.hpp; do
      echo "#include <threelc/${header##*/}>" >alone.cpp
      g++ -std=c++17 "${warnings[@]}" -fsyntax-only alone.cpp || { echo "${header##*/} alone"; exit 1; }
    done
    prints tests/examples/context.cpp c++17 "$root/tests/examples/context.txt"
  elif echo 'int main() {}' | $compiler -fsanitize=address,undefined -x c++ - -o program 2>/dev/null; then
    sanitize=("-fsanitize=address,undefined" -fno-sanitize-recover=undefined)
  else
    echo "# $compiler has no sanitizers here: skipped"
  fi
  prints tests/bindings/objects.cpp "$standard" objects.txt "${sanitize[@]}"
done
[[ $found ]] || { echo 'skipped: there is no C++ compiler'; exit 77; }
