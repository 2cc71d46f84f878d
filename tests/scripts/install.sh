#!/bin/bash
# SPDX-License-Identifier: MIT
# Installs into a temporary prefix and builds tests/examples against it in the ways that users do: pkg-config, shared
# and static; CMake's find_package, whose component mpi is there if the module for MPI is. They must print what NAME.txt
# says. C++ programs link with all public functions. The C++ headers are installed.
# install.sh SOURCE_ROOT BUILD_ROOT
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

examples=(allreduce context delta gossip local resume server two_level)
cp "$root"/tests/examples/*.{c,h,txt} .
# runs all examples of a folder
print_what_they_say() { # FOLDER [ENVIRONMENT]
  local example
  for example in "${examples[@]}"; do
    env "${@:2}" "$1/$example" >got && diff "$example.txt" got ||
      { echo "$1/$example: prints something else"; exit 1; }
  done
}

DESTDIR=$work/tree meson install -C "$build" --no-rebuild --quiet
prefix=$(dirname "$(find tree -type d -path '*/include/threelc' -printf '%h\n')")
prefix=$work/$prefix
pc=$(find "$prefix" -name threelc.pc)
libdir=$(dirname "$(dirname "$pc")")
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
pkg() { pkg-config --define-variable=prefix="$prefix" "$@" threelc; } # the tree was moved
read -ra shared_flags < <(pkg --cflags --libs)
read -ra static_flags < <(pkg --cflags --libs --static)
# the example needs the sanitizers of the build
sanitize=$(meson introspect "$build" --buildoptions |
  python3 -c 'import json, sys; print({o["name"]: o["value"] for o in json.load(sys.stdin)}["b_sanitize"])')
cflags=()
[[ $sanitize == none ]] || cflags=(-fsanitize="$sanitize")
[[ ! ${CC_LD-} ]] || cflags+=(-fuse-ld="$CC_LD") # not every linker reads objects of link-time optimisation

mkdir shared static
for example in "${examples[@]}"; do
  $CC -Wall -Wextra -Werror "${cflags[@]}" "$example.c" "${shared_flags[@]}" -o "shared/$example"
  $CC "${cflags[@]}" "$example.c" "${static_flags[@]/-lthreelc/-l:libthreelc.a}" -o "static/$example"
done
print_what_they_say shared LD_LIBRARY_PATH="$libdir"
print_what_they_say static

# README's own command lines, with the compiler of this build as cc. The library is not where the loader looks.
mkdir verbatim
read -ra words <<<"${CC#ccache }" # ccache would look for cc again
printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v "${words[0]}") ${words[*]:1} ${cflags[*]}" >verbatim/cc
chmod +x verbatim/cc
line=$(grep -o '`cc example\.c [^`]*`' "$root/README.md" | tr -d '`') # one
sed "s,^prefix=.*,prefix=$prefix," "$pc" >verbatim/threelc.pc
cp context.c verbatim/example.c
(cd verbatim && PATH=$PWD:$PATH PKG_CONFIG_PATH=$PWD sh -ec "$line" && LD_LIBRARY_PATH=$libdir ./a.out) >got &&
  diff context.txt got || { echo "README.md: $line"; exit 1; }

# The example with MPI, if the module for it was built.
components='' mpi_program=''
if pkg-config --exists threelc-mpi; then
  components='COMPONENTS mpi'
  mpi_program="add_executable(mpi $root/tests/examples/mpi.c)"$'\n''target_link_libraries(mpi PRIVATE threelc::mpi)'
  read -ra mpi_flags < <(pkg-config --cflags --libs threelc-mpi) # MPI was not moved, so its prefix stays
  $CC -Wall -Wextra -Werror "${cflags[@]}" mpi.c "${shared_flags[@]}" "${mpi_flags[@]}" -o mpi
  line=$(grep -o '`mpicc example\.c [^`]*`' "$root/README.md" | tr -d '`')
  cp mpi.c verbatim/example.c
  sed "s,^prefix=.*,prefix=$prefix," "$(dirname "$pc")/threelc-mpi.pc" >verbatim/threelc-mpi.pc
  (cd verbatim && OMPI_CC="$CC ${cflags[*]}" PKG_CONFIG_PATH=$PWD:$PKG_CONFIG_PATH sh -ec "$line") ||
    { echo "README.md: $line"; exit 1; }
  LD_LIBRARY_PATH=$libdir mpiexec -n 4 ./mpi >got &&
    diff mpi.txt got || { echo "the example with MPI prints something else"; exit 1; }
else
  echo "# threelc-mpi was not built: skipped"
fi
rm mpi.c

# The address of every function that the headers declare. The C++ compiler belongs to the C compiler.
case $CC in
  *clang*) read -ra cxx <<<"${CC/clang/clang++}" ;;
  *gcc*) read -ra cxx <<<"${CC/gcc/g++}" ;;
  *) cxx=(c++) ;;
esac
if "${cxx[@]}" --version >/dev/null 2>&1; then
  mapfile -t headers < <(printf '%s\n' "$prefix"/include/threelc/*.h | grep -v '/mpi\.h$')
  mapfile -t functions < <(sed -n 's/^TLC_API .*[ *]\(tlc_[a-z0-9_]*\)(.*/\1/p' "${headers[@]}")
  ((${#functions[@]} > 20)) || { echo "no functions found in the headers"; exit 1; }
  {
    printf '#include <threelc/%s>\n' "${headers[@]##*/}"
    echo '#include <cstdio>'
    echo 'void (*volatile functions[])() = {'
    printf '    reinterpret_cast<void (*)()>(%s),\n' "${functions[@]}"
    echo '};'
    echo 'int main() { return functions[0] && std::puts(tlc_status_string(TLC_OK)) >= 0 ? 0 : 1; }'
  } >all.cpp
  "${cxx[@]}" -std=c++11 "${cflags[@]}" all.cpp "${shared_flags[@]}" -o shared-c++
  LD_LIBRARY_PATH=$libdir ./shared-c++ >/dev/null
  "${cxx[@]}" -std=c++11 "${cflags[@]}" all.cpp "${static_flags[@]/-lthreelc/-l:libthreelc.a}" -o static-c++
  ./static-c++ >/dev/null
  "${cxx[@]}" -std=c++17 "${cflags[@]}" "$root/tests/examples/context.cpp" "${shared_flags[@]}" -o context-c++
  LD_LIBRARY_PATH=$libdir ./context-c++ | diff context.txt - || { echo "context.cpp: prints something else"; exit 1; }
  diff <(cd "$root/include/threelc" && ls *.hpp) <(cd "$prefix/include/threelc" && ls *.hpp) ||
    { echo 'other C++ headers are installed'; exit 1; }
else
  echo "# ${cxx[*]} is not installed: skipped"
fi

if command -v cmake >/dev/null; then
  cat >CMakeLists.txt <<CMAKE
cmake_minimum_required(VERSION 3.16)
project(examples C)
find_package(threelc 0.5 REQUIRED $components)
foreach(example ${examples[*]})
  add_executable(\${example} \${example}.c)
  target_link_libraries(\${example} PRIVATE threelc::threelc)
endforeach()
$mpi_program
CMAKE
  compiler=${CC#ccache }
  configure() { # FOLDER
    cmake -G Ninja -S . -B "$1" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="${compiler%% *}" \
      -DCMAKE_C_FLAGS="${cflags[*]}" >log 2>&1
  }
  configure cmake-build && cmake --build cmake-build >>log 2>&1 || { cat log; exit 1; }
  print_what_they_say cmake-build LD_LIBRARY_PATH="$libdir"
  if [[ $components ]]; then
    LD_LIBRARY_PATH=$libdir mpiexec -n 4 cmake-build/mpi | diff mpi.txt - ||
      { echo "the program with threelc::mpi prints something else"; exit 1; }
    rm "$libdir"/libthreelc-mpi.* # as with packages that divide the two
    ! configure cmake-without && tr -s ' \n' ' ' <log | grep -q 'without the component mpi' ||
      { cat log; echo 'find_package with the component mpi, which is not there'; exit 1; }
  fi
  echo 'include(${FILE})
message("${PACKAGE_VERSION_COMPATIBLE}")' >version.cmake
  for asked in 0.5=TRUE 0.5.0=TRUE 0.5.1=TRUE 0.4=FALSE 0.4.1=FALSE 0.2.1=FALSE \
    0.5.2=FALSE 0.6=FALSE 0.50=FALSE 1=FALSE; do
    told=$(cmake -DFILE="$libdir/cmake/threelc/threelcConfigVersion.cmake" -DPACKAGE_FIND_VERSION="${asked%=*}" \
      -P version.cmake 2>&1)
    [[ $told == "${asked#*=}" ]] || { echo "find_package(threelc ${asked%=*}): $told"; exit 1; }
  done
else
  echo "# cmake is not installed: skipped"
fi
