#!/bin/bash
# SPDX-License-Identifier: MIT
# What the library exports, calls and keeps:
# - the exported symbols are the functions of the public headers, and all global symbols begin with tlc_
# - it calls nothing that prints, aborts or starts threads, and its only writable data is what it knows of the CPU and
#   of itself (P2)
# - only the file that makes contexts allocates (P5)
# symbols.sh SOURCE_ROOT SHARED_LIBRARY STATIC_LIBRARY [HEADER]
# With the header of a module: the library is that module. It may make strings, and takes memory where the caller gives
# none.
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 shared=$2 static=$3 module=${4-}
fail=0
complain() { echo "$1"; echo "$2"; fail=1; }

headers=("$root/include/threelc/$module")
[[ $module ]] || mapfile -t headers < <(printf '%s\n' "$root"/include/threelc/*.h | grep -v '/mpi\.h$')
declared=$(sed -n 's/^TLC_API .*[ *]\(tlc_[a-z0-9_]*\)(.*/\1/p' "${headers[@]}" | sort)
exported=$(nm -D --defined-only "$shared" | awk '{print $NF}' | sed 's/@.*//' | sort)
[[ -n $declared && $declared == "$exported" ]] ||
  complain "exported symbols are not those of the headers:" "$(diff <(echo "$declared") <(echo "$exported") || true)"

other=$(nm -g --defined-only "$static" | awk 'NF == 3 {print $3}' | grep -v '^tlc_' || true)
[[ -z $other ]] || complain "global symbols without the prefix tlc_:" "$other"

calls=$(nm -D --undefined-only "$shared" | awk '{print $NF}' |
  sed 's/@.*//' | grep -vxE "malloc${module:+|calloc|v?snprintf}" |
  grep -xE 'abort|_?exit|raise|kill|signal|.*printf.*|f?puts|perror|f?write|pthread_.*|__assert.*|.*alloc' || true)
[[ -z $calls ]] || complain "calls that the library must not make:" "$calls"

allocates=${module:+mail}
allocating=$(nm -A "$static" | awk '$NF ~ /^[mc]alloc$/ {print $1}' | grep -v "${allocates:-context}\.c\.o:" || true)
[[ -z $allocating ]] || complain "files that allocate:" "$allocating"

# clang names a static variable FUNCTION.VARIABLE
writable=$(objdump -t "$static" |
  awk '$3 == "O" && $4 ~ /^\.(data|bss|tdata|tbss)(\.[a-z_]*)?$/ && $4 !~ /rel\.ro/ {print $NF}' |
  grep -vE '^(tlc_[a-z_]+\.)?known(\.[0-9]+)?$' || true)
[[ -z $writable ]] || complain "writable data:" "$writable"
exit $fail
