#!/bin/bash
# SPDX-License-Identifier: MIT
# Flags of gcc and clang that change float results, alone and together. With each of them one of these holds:
# - the compiler refuses the sources with a sentence of the library,
# - the library refuses to work, and tlc_status_string says why,
# - the machine code is the same, or all golden vectors pass, and the kernels of all ISAs make the same bits.
# float-flags.sh SOURCE_ROOT [COMPILER...]: those that are given, else $CC, gcc and clang
# With TLC_TEST_QUICK=1 the first compiler alone, only flags that users give, and at -O1.
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1
shift
(($#)) || set -- "${CC:-cc}" gcc clang
[[ ! ${TLC_TEST_QUICK-} ]] || set -- "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# What a compiler does not know is left out, with a line.
users=(
  -ffast-math '-ffast-math -fno-finite-math-only' -Ofast -funsafe-math-optimizations -freciprocal-math
  '-fassociative-math -fno-signed-zeros -fno-trapping-math'
)
both=(
  -fassociative-math
  '-funsafe-math-optimizations -fno-associative-math -fno-reciprocal-math -fsigned-zeros'
  '-ffast-math -fno-finite-math-only -fno-associative-math -fno-reciprocal-math -fsigned-zeros'
  '-freciprocal-math -mrecip -march=native' -mrecip
  -ffinite-math-only -fno-signed-zeros '-fno-math-errno -fno-trapping-math'
  '-ffp-contract=fast -march=native' -ffp-contract=fast
  '-std=c11 -march=native -ffp-contract=fast'
  '-frounding-math -ftrapping-math' -mfpmath=387 '-fexcess-precision=fast -fcx-limited-range'
)
gcc=(
  -fsingle-precision-constant -mno-ieee-fp -fsignaling-nans -fexcess-precision=16 -mfpmath=both
  '-ffloat-store -fno-fp-int-builtin-inexact -fcx-fortran-rules -fno-math-errno -fno-trapping-math' -mdaz-ftz
)
clang=(
  '-fapprox-func -fno-honor-nans -fno-honor-infinities' -fno-honor-nans
  -fdenormal-fp-math=preserve-sign '-fdenormal-fp-math=positive-zero -march=native'
  -ffp-model=fast -ffp-model=aggressive -ffp-model=precise -ffp-model=strict
  -ffp-eval-method=double -ffp-exception-behavior=strict '-Xclang -menable-unsafe-fp-math'
  '-Xclang -menable-no-nans -Xclang -menable-no-infs' '-Xclang -freciprocal-math -march=native'
  '-Xclang -mreassociate -march=native' '-ffp-contract=fast-honor-pragmas -march=native'
  '-funsafe-math-optimizations -ffp-contract=off -march=native'
  '-fassociative-math -fno-signed-zeros -fno-trapping-math -freciprocal-math -fapprox-func -march=native'
)

# kernels of other machines are empty there
find "$root/src" -name '*.c' -not -path '*/mpi/*' >sources
# those that round: the others have no arithmetic of floats, or only that of parameters and weights
grep -E '/(kernels/(convert|feedback|levels|masks|natural|onebit|self_test|stochastic|ternary)|values/)' sources >floats
level=-O2
[[ ! ${TLC_TEST_QUICK-} ]] || level=-O1
libs=(-lm)
cat >refused.c <<'C'
#include <stdio.h>
#include <threelc/threelc.h>
int main(void)
{
    tlc_ctx *ctx;
    tlc_status status = tlc_create(&ctx, NULL, 100);

    if (status)
        puts(tlc_status_string(status));
    else
        tlc_destroy(ctx);
    return status != TLC_OK;
}
C

# objects COMPILER FOLDER LIST FLAGS...
objects() {
  mkdir -p "$2"
  (cd "$2" && xargs -n 4 -P "$(nproc)" $1 -w $level "${@:4}" -I"$root/include" -c <"../$3")
}

# runs COMPILER FOLDER: links the objects with those of base that are missing, and runs the tests
runs() {
  local all=() file
  for file in base/*.o; do
    [[ -f $2/${file#base/} ]] && all+=("$2/${file#base/}") || all+=("$file")
  done
  $1 -O1 -I"$root/include" refused.c "${all[@]}" "${libs[@]}" -o refused
  if ! ./refused >said; then
    grep -q 'libthreelc was built with flags that change float arithmetic' said || { cat said; return 1; }
    verdict='refused when it runs'
    return 0
  fi
  $1 vectors.o "${all[@]}" -lcmocka "${libs[@]}" -o vectors
  $1 kernels.o "${all[@]}" "${libs[@]}" -o kernels
  ./vectors "$root/tests/vectors" >said 2>&1 && ./kernels --quick >said 2>&1 ||
    { grep -v '^ok' said | head -20; return 1; }
  verdict='the same bits'
}

failed=0
for compiler; do
  command -v "${compiler##* }" >/dev/null || { echo "# $compiler is not installed: skipped"; continue; }
  version=$($compiler --version | sed 's/^[^ ]* //; q')
  [[ ${seen-} != *"[$version]"* ]] || continue
  seen+="[$version]"
  echo "== $version"
  rm -rf base
  objects "$compiler" base sources
  for program in vectors kernels; do
    case $program in
      vectors) printf '%s\n' "$root"/tests/{codec/test_vectors,support/{guard,main,places,records,support}}.c >files ;;
      kernels) printf '%s\n' "$root"/tests/{kernels/check_*,support/guard}.c >files ;;
    esac
    rm -rf parts
    objects "$compiler" parts files -D_GNU_SOURCE
    ld -r parts/*.o -o $program.o
  done
  runs "$compiler" base
  [[ $verdict == 'the same bits' ]] || { echo "without flags: $verdict"; exit 1; }
  # crtfastmath.o makes the process flush subnormals to zero
  $compiler -ffast-math vectors.o base/*.o -lcmocka "${libs[@]}" -o vectors
  ./vectors "$root/tests/vectors" >said 2>&1 || { echo 'linked with -ffast-math: OTHER BITS'; cat said; exit 1; }
  flags=("${users[@]}")
  if [[ ! ${TLC_TEST_QUICK-} ]]; then
    flags+=("${both[@]}")
    if $compiler -dM -E -x c /dev/null | grep -q __clang__; then flags+=("${clang[@]}"); else flags+=("${gcc[@]}"); fi
  fi
  for flag in "${flags[@]}"; do
    read -ra words <<<"$flag"
    if ! $compiler -Werror "${words[@]}" -S -o /dev/null -x c /dev/null 2>/dev/null &&
      ! $compiler "${words[@]}" -S -o /dev/null -x c /dev/null 2>/dev/null; then
      echo "# $flag is not known here: skipped"
      continue
    fi
    rm -rf with
    if ! $compiler -w $level "${words[@]}" -I"$root/include" -S -o /dev/null "$root/src/kernels/self_test.c" \
      2>said; then
      if grep -q 'error:.*libthreelc \(must not\|needs\)' said; then
        echo "$flag: refused when it is built"
      else
        echo "$flag: does not compile, without a sentence"
        cat said
        failed=1
      fi
      continue
    fi
    objects "$compiler" with floats "${words[@]}"
    verdict='the same code'
    for file in with/*.o; do
      cmp -s "$file" "base/${file#with/}" || { verdict=; break; }
    done
    if [[ ! $verdict ]] && ! runs "$compiler" with; then
      echo "$flag: OTHER BITS"
      failed=1
      continue
    fi
    echo "$flag: $verdict"
  done
done
exit $failed
