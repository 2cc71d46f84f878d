#!/bin/bash
# SPDX-License-Identifier: MIT
# What .ci/count counts of programs that fail in each way: each of them is a failed test, and none is counted twice.
# count.sh SOURCE_ROOT
set -uo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1
# shellcheck source-path=SCRIPTDIR source=checks.sh
. "$(dirname "$0")/checks.sh"

declare -A wanted=(
  [good]='2 passed, 0 failed' [one_fails]='1 passed, 1 failed' [skips]='1 passed, 0 failed, 1 skipped'
  [early]='1 passed, 1 failed' [ends_badly]='1 passed, 1 failed' [too_few]='1 passed, 1 failed'
  [hangs]='1 passed, 1 failed' [silent]='0 passed, 1 failed' [exits]='0 passed, 1 failed' [waits]='0 passed, 1 failed')
echo "project('counted')" >meson.build

# program NAME PROTOCOL <SCRIPT
program() {
  cat >"$1.sh"
  echo "test('$1', find_program('bash'), args: files('$1.sh'), protocol: '$2', timeout: 2)" >>meson.build
}
program good tap <<<'printf "1..2\nok 1 one\nok 2 two\n"'
program one_fails tap <<<'printf "1..2\nok 1 one\nnot ok 2 two\n"; exit 1'
program skips tap <<<'printf "1..2\nok 1 one\nok 2 two # SKIP\n"'
program early tap <<<'printf "words\nTAP version 13\n1..1\nok 1 one\n"; exit 1'
program ends_badly tap <<<'printf "1..1\nok 1 one\n"; exit 3'
program too_few tap <<<'printf "1..2\nok 1 one\n"'
program hangs tap <<<'printf "1..2\nok 1 one\n"; sleep 9'
program silent tap <<<'sleep 9'
program exits exitcode <<<'exit 1'
program waits exitcode <<<'sleep 9'

meson setup build >log || bad 'meson setup'
for name in "${!wanted[@]}"; do
  count=$((count + 1))
  "$root/.ci/count" build "$name" >log 2>&1
  found=$(tail -n 1 log)
  [[ $found == "${wanted[$name]}" ]] || bad "$name: '$found' in place of '${wanted[$name]}'"
done
finish_checks
