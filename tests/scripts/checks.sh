#!/bin/bash
# SPDX-License-Identifier: MIT
# What script tests share that count their checks: the root of the sources, a folder of their own, where they run, and
# finish_checks, which comes last.
# shellcheck disable=SC2034 # for the scripts that include this one
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'chmod -R u+rwx "$work"; rm -rf "$work"' EXIT
cd "$work" || exit 1
export TMPDIR=$work # a run of Open MPI that ends removes the folder in which another one is about to make its own
failed=0 count=0

bad() {
  echo "FAILED: $*"
  failed=$((failed + 1))
}

finish_checks() {
  echo "$((count - failed < 0 ? 0 : count - failed)) passed, $failed failed"
  ((failed == 0))
}
