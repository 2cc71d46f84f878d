#!/bin/bash
# SPDX-License-Identifier: MIT
# What script tests share that count their checks.
failed=0 count=0

bad() {
  echo "FAILED: $*"
  failed=$((failed + 1))
}

# same_options PROGRAM MAN: the man page has the options that --help lists, in its words
same_options() {
  local other
  count=$((count + 1))
  other=$("${source_root:?}/bench/man/options" --check "$2" "$1" 2>&1) ||
    bad "$2: other options than --help lists; bench/man/options $2 $1 puts them there: $other"
}
