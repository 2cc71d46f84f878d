#!/bin/bash
# SPDX-License-Identifier: MIT
# The table of src/docs/exchange.md with the memory of each object is what the program measures.
# memory-table.sh SOURCE_ROOT PROGRAM
# To renew it put the lines that PROGRAM prints in its place.
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
page=$1/src/docs/exchange.md
diff <(sed -n '/^| object | codec |/,/^$/{/./p}' "$page") <("$2") ||
  { echo "$page has another table of memory than what objects take (>)"; exit 1; }
