#!/bin/bash
# SPDX-License-Identifier: MIT
# What bench.sh, bench-exchange.sh and tlc-sim.sh share. They set work, a folder; run, which runs the program of that
# name; and quick, options that make it quick.
: "${work:?}" "${program:?}" "${quick[0]:?}"
failed=0 count=0

bad() {
  echo "FAILED: $*"
  failed=$((failed + 1))
}

# same_options PROGRAM MAN: the man page has the options that --help lists, and no others
same_options() {
  local helped paged
  count=$((count + 1))
  helped=$("$1" --help | sed -nE 's/^  (-., |    )--([a-z-]+).*/\2/p' | sort)
  paged=$(sed -nE 's/^\.It Fl ([a-z] , )?-([a-z-]+).*/\2/p' "$2" | sort)
  [[ -n $helped && $helped == "$paged" ]] ||
    bad "$2: other options than $1 --help: $(diff <(echo "$helped") <(echo "$paged"))"
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
