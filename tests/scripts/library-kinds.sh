#!/bin/bash
# SPDX-License-Identifier: MIT
# default_library decides which libraries are built and installed: static, shared or both, and the module for MPI with
# them. With each, examples build by pkg-config (with and without --static) and CMake, and print what NAME.txt says.
# With a static library both link the same others. A DLL exports the functions of the headers and nothing else.
# library-kinds.sh SOURCE_ROOT
# With TLC_TEST_QUICK=1 the kind `both` alone, and of Windows the DLL.
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1
CC=${CC:-cc}
work=$(mktemp -d)
export TMPDIR=$work # for Open MPI, as in checks.sh
trap 'rm -rf "$work"' EXIT
cd "$work"
examples=(context delta mpi server)
fail() { echo "$*"; exit 1; }

# the example, built with these arguments, prints what NAME.txt says
prints() { # EXAMPLE ARGUMENTS...
  local run=()
  [[ $1 != mpi ]] || run=(mpiexec -n 4)
  $CC "$root/tests/examples/$1.c" -o program "${@:2}" || fail "$kind: $1 with ${*:2}: does not build"
  "${run[@]}" ./program >got && diff "$root/tests/examples/$1.txt" got ||
    fail "$kind: $1 with ${*:2}: prints something else"
}

kinds=(both)
[[ ${TLC_TEST_QUICK-} ]] || kinds+=(static shared)
for kind in "${kinds[@]}"; do
  prefix=$work/$kind unity=off
  [[ $kind != both ]] || unity=on # as some distributions build everything
  meson setup "build-$kind" "$root" -Ddefault_library=$kind -Dtests=disabled -Dbench=disabled -Dtools=disabled \
    -Dunity=$unity -Doptimization=0 --prefix="$prefix" --libdir=lib >log 2>&1 &&
    meson compile -C "build-$kind" >>log 2>&1 || { cat log; exit 1; }
  meson install -C "build-$kind" --quiet >log 2>&1 || { cat log; exit 1; }
  libraries=(threelc)
  [[ ! -f $prefix/lib/pkgconfig/threelc-mpi.pc ]] || libraries+=(threelc-mpi)
  for library in "${libraries[@]}"; do
    case $kind in static) want=1,0 ;; shared) want=0,1 ;; both) want=1,1 ;; esac
    for where in "$prefix/lib/lib$library" "build-$kind/src${library#threelc}/lib$library"; do
      where=${where/src-mpi/src\/mpi}
      got=$([[ -f $where.a ]] && echo 1 || echo 0),$([[ -e $where.so ]] && echo 1 || echo 0)
      [[ $got == "$want" ]] || fail "$kind: of $where the static and the shared library are there: $got"
    done
  done

  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
  for example in "${examples[@]}"; do
    package=threelc
    [[ $example != mpi ]] || package=threelc-mpi
    pkg-config --exists $package || { echo "# $package was not built: skipped"; continue; }
    read -ra flags < <(pkg-config --cflags --libs $package)
    prints "$example" "${flags[@]}"
    read -ra flags < <(pkg-config --cflags --libs --static $package)
    prints "$example" "${flags[@]}"
    if [[ $kind != shared ]]; then
      flags=("${flags[@]/#-lthreelc-mpi/-l:libthreelc-mpi.a}")
      flags=("${flags[@]/%-lthreelc/-l:libthreelc.a}")
      prints "$example" "${flags[@]}"
      ! ldd program | grep -q libthreelc || fail "$kind: $example: a static program needs libthreelc.so"
    fi
  done
  unset LD_LIBRARY_PATH
  if command -v cmake >/dev/null; then
    mkdir -p "app-$kind"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(app C)' 'find_package(threelc REQUIRED)' \
      "add_executable(app $root/tests/examples/context.c)" 'target_link_libraries(app PRIVATE threelc::threelc)' \
      >"app-$kind/CMakeLists.txt"
    [[ ${#libraries[@]} == 1 ]] || printf '%s\n' "add_executable(mpi $root/tests/examples/mpi.c)" \
      'target_link_libraries(mpi PRIVATE threelc::mpi)' >>"app-$kind/CMakeLists.txt"
    compiler=${CC#ccache }
    cmake -S "app-$kind" -B "app-$kind/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="${compiler%% *}" \
      >log 2>&1 && cmake --build "app-$kind/build" >>log 2>&1 || { cat log; exit 1; }
    "app-$kind/build/app" | diff "$root/tests/examples/context.txt" - ||
      fail "$kind: the program of CMake prints something else"
    [[ ${#libraries[@]} == 1 ]] || mpiexec -n 4 "app-$kind/build/mpi" | diff "$root/tests/examples/mpi.txt" - ||
      fail "$kind: the program of CMake with threelc::mpi prints something else"
    [[ $kind != static ]] || diff <(pkg-config --libs-only-l threelc | grep -o -- '-l[^ ]*' | grep -v threelc | sort) \
      <(grep -o -- ' -l[^ ]*' "app-$kind/build/CMakeFiles/app.dir/link.txt" | tr -d ' ' | sort) ||
      fail "$kind: pkg-config (<) and CMake (>) link other libraries"
  else
    echo "# cmake is not installed: skipped"
  fi
done

# The DLL, with stand-ins for what it needs: xxhash.h has all functions inline, and libcpuid a single one.
mingw=x86_64-w64-mingw32
if command -v $mingw-gcc >/dev/null && [[ -f /usr/include/xxhash.h && -d /usr/include/libcpuid ]]; then
  mkdir windows windows/objects
  cp -r /usr/include/xxhash.h /usr/include/libcpuid windows/
  [[ ! -f /usr/include/xxh3.h ]] || cp /usr/include/xxh3.h windows/
  cat >windows/stand_in.c <<'C'
#include <libcpuid/libcpuid.h>
__attribute__((visibility("hidden"))) int cpuid_get_raw_data(struct cpu_raw_data_t *data) { (void)data; return -1; }
C
  find "$root/src" -name '*.c' -not -path '*/mpi/*' >sources
  echo "$work/windows/stand_in.c" >>sources
  compile() { # FLAGS...
    rm -f windows/objects/*
    (cd windows/objects && xargs -n 8 -P "$(nproc)" $mingw-gcc -std=gnu11 -DXXH_INLINE_ALL -I"$work/windows" \
      -I"$root/include" "$@" -c <../../sources)
  }
  compile -DTLC_BUILD_DLL
  # wine does not find libgcc's DLL
  $mingw-gcc -shared -static-libgcc windows/objects/*.o -o windows/threelc.dll -Wl,--out-implib,windows/threelc.dll.a
  mapfile -t headers < <(printf '%s\n' "$root"/include/threelc/*.h | grep -v '/mpi\.h$')
  sed -n 's/^TLC_API .*[ *]\(tlc_[a-z0-9_]*\)(.*/\1/p' "${headers[@]}" | sort >declared
  exports() { # DLL
    $mingw-objdump -p "$1" | awk '/^\[Ordinal\/Name Pointer\] Table/ {on = 1; next} on && NF == 0 {on = 0}
      on && /\[ *[0-9]+\]/ {print $NF}' | sort
  }
  exports windows/threelc.dll >exported
  diff declared exported || fail "the DLL exports $(wc -l <exported) symbols, the headers declare $(wc -l <declared)"
  # a program needs no macro, with the DLL and with the static library
  $mingw-gcc -I"$root/include" "$root/tests/examples/context.c" windows/threelc.dll.a -o windows/with-dll.exe
  if [[ ! ${TLC_TEST_QUICK-} ]]; then
    compile
    $mingw-ar rcs windows/libthreelc.a windows/objects/*.o
    $mingw-gcc -I"$root/include" "$root/tests/examples/context.c" windows/libthreelc.a -o windows/static.exe
    [[ $($mingw-objdump -p windows/static.exe | grep -c 'threelc\.dll') == 0 ]] ||
      fail 'the static program needs the DLL'
    # a DLL that includes the header and links the static library exports what it says, and nothing of the library
    printf '%s\n' '#include <threelc/threelc.h>' '__declspec(dllexport) unsigned mine(void) { return tlc_version(); }' |
      $mingw-gcc -I"$root/include" -shared -x c - -x none windows/libthreelc.a -o windows/mine.dll
    [[ $(exports windows/mine.dll) == mine ]] || fail 'a DLL with the static library exports more than its own'
    wine=/usr/lib/wine/wine64
    for program in with-dll static; do
      [[ -x $wine ]] || { echo "# no wine: $program is not run"; continue; }
      WINEPREFIX=$work/wine WINEDEBUG=-all $wine windows/$program.exe | tr -d '\r' |
        diff "$root/tests/examples/context.txt" - || fail "$program.exe prints something else"
    done
  fi
else
  echo "# $mingw-gcc is not installed: the DLL is skipped"
fi
