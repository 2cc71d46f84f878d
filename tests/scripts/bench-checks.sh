#!/bin/bash
# SPDX-License-Identifier: MIT
# What bench.sh and bench-exchange.sh share. They set work, a folder, and run, which runs tlc-bench.
: "${work:?}"
failed=0 count=0

bad() {
  echo "FAILED: $*"
  failed=$((failed + 1))
}

# refuses MESSAGE ARGUMENTS...: status 2, and on stderr the one line "tlc-bench: " and MESSAGE, a pattern
refuses() {
  local want=$1 status
  shift
  count=$((count + 1))
  run -t 0 "$@" >"$work/out" 2>"$work/err"
  status=$?
  ((status == 2)) || bad "$*: exit status $status, not 2"
  [[ ! -s $work/out ]] || bad "$*: wrote to standard output"
  # shellcheck disable=SC2053 # it is a pattern
  [[ $(<"$work/err") == "tlc-bench: "$want && $(wc -l <"$work/err") == 1 ]] ||
    bad "$*: said '$(<"$work/err")', not 'tlc-bench: $want'"
}
