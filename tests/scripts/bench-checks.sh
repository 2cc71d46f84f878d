#!/bin/bash
# SPDX-License-Identifier: MIT
# What tests of tlc-bench, tlc-sim and others share. They set source_root; work, a folder; program, a name, and run,
# which runs it; and quick, options that make it quick.
: "${source_root:?}" "${work:?}" "${program:?}" "${quick[0]:?}"
# shellcheck source-path=SCRIPTDIR source=checks.sh
. "$source_root/tests/scripts/checks.sh"

# refuses MESSAGE ARGUMENTS...: status 2, and on stderr the name of the program, a colon and MESSAGE, a pattern
refuses() {
  local want=$1 status
  shift
  count=$((count + 1))
  run "${quick[@]}" "$@" >"$work/out" 2>"$work/err"
  status=$?
  ((status == 2)) || bad "$*: exit status $status, not 2"
  [[ ! -s $work/out ]] || bad "$*: wrote to standard output"
  # shellcheck disable=SC2053 # it is a pattern
  [[ $(<"$work/err") == "$program: "$want && $(wc -l <"$work/err") == 1 ]] ||
    bad "$*: said '$(<"$work/err")', not '$program: $want'"
}
