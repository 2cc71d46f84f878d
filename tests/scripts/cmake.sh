#!/bin/bash
# SPDX-License-Identifier: MIT
# src/CMakeLists.txt builds the sources that meson builds. A project takes the library by FetchContent or
# add_subdirectory, shared or static, whole or reduced, or installed, and its program prints what the example says.
# find_package refuses the component mpi where it was not built.
# cmake.sh SOURCE_ROOT BUILD_ROOT WHOLE: tests/api/reduced.c with the whole library
# With TLC_TEST_QUICK=1 nothing is optimised.
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 build=$2 whole=$3
command -v cmake >/dev/null || { echo 'skipped: there is no cmake'; exit 77; }
work=$(mktemp -d)
export TMPDIR=$work # for Open MPI, as in checks.sh
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir fetch subdirectory installed
type=Release
[[ ! ${TLC_TEST_QUICK-} ]] || type=Debug
sed 's/3lc-golomb/3lc/' "$root/tests/examples/context.c" >reduced.c

# project FOLDER LINE...: a program that takes the library by these lines
project() {
  local folder=$1
  shift
  printf '%s\n' 'cmake_minimum_required(VERSION 3.18)' 'project(app LANGUAGES C)' "$@" \
    'add_executable(app ${SOURCE})' 'target_link_libraries(app threelc::threelc)' >"$folder/CMakeLists.txt"
}
# builds FOLDER SOURCE CMAKE-OPTIONS...
builds() {
  local folder=$1 source=$2
  shift 2
  rm -rf "$folder/build"
  cmake -S "$folder" -B "$folder/build" -DCMAKE_BUILD_TYPE=$type -DSOURCE="$source" "$@" >log 2>&1 &&
    cmake --build "$folder/build" -j "$(nproc)" >>log 2>&1 || { cat log; exit 1; }
  ! grep -i 'warning' log || exit 1
}
prints() { # FOLDER
  "$1/build/app" | diff "$root/tests/examples/context.txt" - || { echo "$1: prints something else"; exit 1; }
}
prints_mpi() { # FOLDER
  ((${#mpi[@]} == 0)) || mpiexec -n 4 "$1/build/mpi" | diff "$root/tests/examples/mpi.txt" -
}

project fetch 'include(FetchContent)' "FetchContent_Declare(threelc SOURCE_DIR $root SOURCE_SUBDIR src)" \
  'FetchContent_MakeAvailable(threelc)'
mpi=()
if command -v mpicc >/dev/null && command -v mpiexec >/dev/null; then
  mpi=(-DTHREELC_MPI=ON)
  program="add_executable(mpi $root/tests/examples/mpi.c)"$'\n''target_link_libraries(mpi threelc::mpi)'
  echo "$program" >>fetch/CMakeLists.txt
fi
builds fetch "$root/tests/examples/context.c" -DBUILD_SHARED_LIBS=ON "${mpi[@]}"
prints fetch
prints_mpi fetch
objects() { sed -n 's,.*threelc\.dir/\(.*\)\.c\.o$,\1,p' | LC_ALL=C sort; }
diff <(find fetch/build -name '*.c.o' | objects) <(meson introspect --targets "$build" | python3 -c '
import json, os, sys
for target in json.load(sys.stdin):
    if target["name"] == "threelc" and target["type"] == "static library":
        for source in target["target_sources"][0]["sources"]:
            print("threelc.dir/" + os.path.relpath(source, sys.argv[1]) + ".o")' "$root/src" | objects) ||
  { echo 'CMake (<) and meson (>) build different sources'; exit 1; }

project subdirectory "add_subdirectory($root/src threelc)"
builds subdirectory "$work/reduced.c" '-DTHREELC_CODECS=3lc;raw' '-DTHREELC_ISAS=avx2' -DTHREELC_DELTA=OFF \
  -DTHREELC_EXCHANGE=OFF
subdirectory/build/app >reduced.log
# shellcheck disable=SC2086 # CC may hold options
$CC -I"$root/include" "$root/tests/api/reduced.c" subdirectory/build/threelc/libthreelc.a -lm -o reduced
./reduced
diff <(./reduced 3lc raw) <("$whole" 3lc raw)

install_to() { # FOLDER PREFIX
  cmake --install "$1/build" --prefix "$work/$2" >log 2>&1 || { cat log; exit 1; }
}
install_to fetch prefix
project installed "find_package(threelc 0.5 REQUIRED ${program:+COMPONENTS mpi})"
echo "${program-}" >>installed/CMakeLists.txt
builds installed "$root/tests/examples/context.c" -DCMAKE_PREFIX_PATH="$work/prefix"
prints installed
prints_mpi installed

install_to subdirectory without
mkdir component
for component in mpi mpl; do
  project component "find_package(threelc REQUIRED COMPONENTS $component)"
  ! cmake -S component -B component/build -DSOURCE="$work/reduced.c" -DCMAKE_PREFIX_PATH="$work/without" >log 2>&1 &&
    tr -s ' \n' ' ' <log | grep -q "without the component $component. There is only mpi" ||
    { cat log; echo "find_package with the component $component"; exit 1; }
done
