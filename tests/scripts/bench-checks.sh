#!/bin/bash
# SPDX-License-Identifier: MIT
# What tests of tlc-bench, tlc-sim and others share. They set program, a name; run, which runs it; and quick, options
# that make it quick.
: "${program:?}" "${quick[0]:?}"
# shellcheck source-path=SCRIPTDIR source=checks.sh
. "$(dirname "${BASH_SOURCE[0]}")/checks.sh"

# says_nothing COMMAND...: status 0, nothing on stderr; the report is in out
says_nothing() {
  count=$((count + 1))
  "$@" >"$work/out" 2>"$work/err" || bad "$*: exit status $?: $(<"$work/err")"
  [[ ! -s $work/err ]] || bad "$*: said '$(<"$work/err")'"
}

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
