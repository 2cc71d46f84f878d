#!/bin/bash
# SPDX-License-Identifier: MIT
# Wheels for other machines, which make_wheels.py makes of the source distribution with zig: what is in them, what their
# libraries need, whether auditwheel finds the tags right. They are used on what can run them here: Python, Python for
# AArch64 on QEMU, for Windows a C program and wine.
# wheels.sh SOURCE_ROOT PYTHON THREELC_C; ZIG, AUDITWHEEL and PYTHON_ARM64 in the environment are commands.
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 python=$2 amalgamation=$3
zig=${ZIG-}
[[ $zig ]] || zig=$(command -v zig) || { echo 'skipped: there is no zig'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WINEPREFIX=$work/wine WINEDEBUG=-all
cd "$work"

fail() { echo "$*"; exit 1; }
has() { [[ -x $(command -v "${1%% *}") ]]; }

sdist=$("$python" "$root/src/python/make_sdist.py" "$amalgamation" "$work")
ZIG=$zig "$python" "$root/src/python/make_wheels.py" "$sdist" dist >made
[[ $(wc -l <made) == 5 ]] || fail "not five wheels: $(<made)"

use() { # COMMAND: of Python, which finds the package in the folder fresh
  # shellcheck disable=SC2086 # words
  env -i PATH="$work/fresh/bin" $1 "$root/tests/scripts/wheel_use.py" libthreelc
}

used_on_linux() { # MACHINE
  if [[ $1 == "$(uname -m)" ]]; then
    "$python" -m venv fresh
    fresh/bin/pip install --quiet --no-index --disable-pip-version-check "$wheel"
    use "$work/fresh/bin/python"
  elif [[ $1 == aarch64 && ${PYTHON_ARM64-} ]]; then
    mv unpacked fresh
    use "PYTHONPATH=$work/fresh $PYTHON_ARM64"
  else
    return 1
  fi
}

used_on_windows() {
  has x86_64-w64-mingw32-gcc && has /usr/lib/wine/wine64 || return 1
  cp unpacked/threelc/lib/*.dll .
  x86_64-w64-mingw32-gcc -I"$root/include" "$root/tests/examples/context.c" ./*.dll -o context.exe
  /usr/lib/wine/wine64 ./context.exe | tr -d '\r' | diff "$root/tests/examples/context.txt" -
}

while read -r wheel; do
  name=${wheel##*/} what=built
  rm -rf unpacked fresh
  "$python" -m zipfile -e "$wheel" unpacked
  case $name in
    *manylinux*) library='libthreelc.so.*' ;;
    *macosx*) library='libthreelc.*.dylib' ;;
    *win*) library='libthreelc-*.dll' ;;
  esac
  # shellcheck disable=SC2053 # a pattern
  [[ $(ls unpacked/threelc/lib) == $library ]] || fail "$name has $(ls unpacked/threelc/lib), not only $library"
  [[ -f unpacked/threelc/py.typed ]] || fail "$name lacks py.typed"
  grep -rq 'Yann Collet' unpacked/*.dist-info || fail "$name lacks the licence of xxHash"
  file=$(ls unpacked/threelc/lib/*)
  case $name in
    *manylinux*)
      if has "${AUDITWHEEL-auditwheel}"; then
        oldest=$(${AUDITWHEEL-auditwheel} show "$wheel" | tr '\n' ' ' | grep -oP 'platform tag: +"manylinux_2_\K[0-9]+')
        ((oldest <= 28)) || fail "$name: auditwheel finds manylinux_2_$oldest"
        what=checked
      fi
      machine=${name#*manylinux_2_28_}
      ! used_on_linux "${machine%.whl}" || what+=', used' ;;
    *macosx*)
      if has llvm-objdump; then
        llvm-objdump --macho --private-headers "$file" >headers
        grep -q 'minos 11.0$' headers || fail "$name is not for macOS 11.0"
        [[ $name == *x86_64* ]] || grep -q LC_CODE_SIGNATURE headers || fail "$name is not signed"
        others=$(llvm-objdump --macho --dylibs-used "$file" | grep -oP '^\s+\K\S+(?= \()' | grep -v libthreelc)
        [[ $others == /usr/lib/libSystem.B.dylib ]] || fail "$name needs $others"
        what=checked
      fi ;;
    *win*)
      if has llvm-readobj; then
        others=$(llvm-readobj --needed-libs "$file" | grep -oP '^  \K.*dll' |
          grep -viE '^(kernel32|api-ms-win-crt-.*)\.dll' || :)
        [[ ! $others ]] || fail "$name needs $others"
        what=checked
      fi
      ! used_on_windows || what+=', used' ;;
  esac
  echo "# $name: $what"
done <made
