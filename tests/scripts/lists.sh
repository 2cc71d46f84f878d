#!/bin/bash
# SPDX-License-Identifier: MIT
# The experiment about deltas of lists, folds and digests of blocks: its rows, sizes that fit, and what it says of
# options. It compares weights itself.
# lists.sh PROGRAM
set -uo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
experiment=$1
# shellcheck disable=SC2034 # of bench-checks.sh
program=lists quick=(--weights 200000 --seconds 0.01)
run() { "$experiment" "${quick[@]}" "$@"; }
# shellcheck source-path=SCRIPTDIR source=bench-checks.sh
. "$(dirname "$0")/bench-checks.sh"

for changed in 0.3 30; do
  says_nothing run --changed "$changed" --frames 5
  count=$((count + 1))
  awk -v changed="$changed" '
    NR == 1 {near = $1 > 0.95 * 2000 * changed && $1 < 1.05 * 2000 * changed; larger = $12 + 0 > $6 + 0}
    $1 ~ /^(memcpy|compress|from_changes|changes|apply|apply,|all|an)$/ {rows++}
    /^5 frames/ {smaller = $8 + 0 < $3 + 0}
    END {exit !(near && larger && rows == 13 && smaller)}' out || bad "--changed $changed: $(<out)"
done

refuses '--frames 0: *' --frames 0
refuses '--weights 1: *' --weights 1
refuses 'data: there are options only' data

finish_checks
