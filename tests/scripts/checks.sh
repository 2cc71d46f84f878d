#!/bin/bash
# SPDX-License-Identifier: MIT
# What script tests share that count their checks.
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
