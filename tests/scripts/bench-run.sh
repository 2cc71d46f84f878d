#!/bin/bash
# SPDX-License-Identifier: MIT
# What bench.sh and bench-*.sh share: ways to run tlc-bench, files for it. They set bench, the program.
: "${bench:?}"
program=tlc-bench quick=(-t 0)
run() { "$bench" "$@"; }
# shellcheck source-path=SCRIPTDIR source=bench-checks.sh
. "$(dirname "${BASH_SOURCE[0]}")/bench-checks.sh"

# accepts ARGUMENTS...: status 0, nothing on stderr; the report is in $work/out
accepts() { says_nothing run -t 0 "$@"; }

# npy FILE DICT BYTES: a .npy file of version 1.0 with this many bytes of zeros
npy() {
  local dict=$2$'\n'
  {
    # shellcheck disable=SC2059 # the format is made of the length
    printf "\x93NUMPY\x01\x00\\x$(printf %02x $((${#dict} & 255)))\\x$(printf %02x $((${#dict} >> 8)))"
    printf '%s' "$dict"
    head -c "$3" /dev/zero
  } >"$work/$1"
}

dict() { echo "{'descr': '$1', 'fortran_order': False, 'shape': $2, }"; }

# ones FILE DICT VALUES: the same, with values 1.0 (or, from $4, of these four bytes)
ones() {
  npy "$1" "$2" 0
  for ((i = 0; i < $3; i++)); do printf '%b' "${4:-\\x00\\x00\\x80\\x3f}"; done >>"$work/$1"
}

# codec, bytes of frames and CRC-32 of the codecs' rows (a codec may have a comma: count from the end)
crcs() { accepts --format csv "$@" && awk -F, '$2 == "codec" {print $3 "," $(NF - 2) "," $(NF - 1)}' "$work/out"; }

npy good.npy "$(dict '<f4' '(2, 3)')" 24
ones large.npy "$(dict '<f4' '(4,)')" 4 '\x00\x24\x74\x49' # 1e6
