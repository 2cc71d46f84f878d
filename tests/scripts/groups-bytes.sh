#!/bin/bash
# SPDX-License-Identifier: MIT
# tlc-groups from outside: options and messages, and bytes that can be told beforehand.
# groups-bytes.sh TLC_GROUPS DATA
set -uo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
groups=$1 data=$2/resnet20-cifar10-s1.00
source_root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# shellcheck source-path=SCRIPTDIR source=checks.sh
. "$source_root/tests/scripts/checks.sh"

# refuses MESSAGE ARGUMENTS...: status 2, and one line on stderr that has the message
refuses() {
  local status
  count=$((count + 1))
  "$groups" "${@:2}" >out 2>err
  status=$?
  [[ $status == 2 && ! -s out && $(wc -l <err) == 1 && $(<err) == "tlc-groups: "*"$1"* ]] ||
    bad "${*:2}: exit status $status, said '$(<err)', not '$1'"
}

# bytes ARGUMENTS...: mean and busiest in sites, and to other sites, of both layouts
bytes() {
  "$groups" --warmup 1 --steps 2 "$@" >out 2>err || bad "$*: exit status $?: $(<err)"
  awk '$1 == "all-reduce" || $1 == "groups" {print $1, $4, $5, $6, $7}' out
}

# near 'LAYOUT BYTES BYTES BYTES BYTES', at most 5% less than what is read
near() {
  local read
  count=$((count + 1))
  read -r read
  awk -v want="$1" -v got="$read" 'BEGIN {
    n = split(want, w, " "); split(got, g, " ")
    for (i = 2; i <= n; i++) if (g[i] < w[i] || g[i] > 1.05 * w[i]) exit 1
    exit g[1] != w[1]}' || bad "bytes: '$read', not '$1'"
}

echo 'weights 64x64' >one.txt
# One tensor is owned by one rank. Of four ranks in one all-reduce three push it, and the owner answers three; in sites
# of two a rank of each site does, and between the sites one.
bytes --ranks 4 --group 2 --codec raw one.txt "$data" >table
near 'all-reduce 8192 16384 16384 32768' < <(sed -n 1p table)
near 'groups 16384 16384 8192 16384' < <(sed -n 2p table)

# Of three sites one owns the tensor between them, or each a third of it.
bytes --ranks 6 --group 2 --codec raw one.txt "$data" >table
near 'groups 16384 16384 10922 32768' < <(sed -n 2p table)
bytes --ranks 6 --group 2 --codec raw --split 16 one.txt "$data" >table
near 'groups 16384 16384 10922 21845' < <(sed -n 2p table)

# One site sends nothing to others. If each rank is a site, it sends nothing in it.
[[ $(bytes --ranks 4 --group 4 one.txt "$data" | awk '{print $4, $5}' | sort -u) == '0 0' ]] || bad 'one site'
[[ $(bytes --ranks 4 --group 1 one.txt "$data" | awk '{print $2, $3}' | sort -u) == '0 0' ]] || bad 'sites of one rank'

# The codec of the sites counts in the sites only.
read -r _ inside _ between _ < <(bytes --ranks 8 --group 4 one.txt "$data" | tail -1)
read -r _ raw _ other _ < <(bytes --ranks 8 --group 4 --inside raw one.txt "$data" | tail -1)
((raw > 20 * inside && other < 2 * between)) || bad "raw in sites: $raw, $inside; $other, $between"

refuses 'ranks' --ranks 10 --group 4 one.txt "$data"
refuses '--ranks 2000' --ranks 2000 one.txt "$data"
refuses '--group 0' --group 0 one.txt "$data"
refuses '--codec 4lc' --codec 4lc one.txt "$data"
refuses '--inside 4lc' --inside 4lc one.txt "$data"
refuses '--steps 0' --steps 0 one.txt "$data"
refuses '--split x' --split x one.txt "$data"
refuses 'name a list of tensors' one.txt
refuses 'none.txt' none.txt "$data"
refuses '--other' --other one.txt "$data"
[[ $("$groups" --help | wc -l) -gt 5 ]] || bad '--help'
echo "$((count - failed < 0 ? 0 : count - failed)) passed, $failed failed"
((failed == 0))
