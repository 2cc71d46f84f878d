#!/bin/bash
# SPDX-License-Identifier: MIT
# Exported symbols are exactly the functions of the public headers; nothing else has another prefix; the library calls
# nothing that prints, aborts or starts threads, and has no writable data besides the cached CPU answer (promise P2); only
# the file that makes contexts allocates (P5: decoding does not).
# symbols.sh SOURCE_ROOT SHARED_LIBRARY STATIC_LIBRARY
set -euo pipefail
root=$1 shared=$2 static=$3
fail=0
complain() { echo "$1"; echo "$2"; fail=1; }

declared=$(sed -n 's/^TLC_API .*[ *]\(tlc_[a-z0-9_]*\)(.*/\1/p' "$root"/include/threelc/*.h | sort)
exported=$(nm -D --defined-only "$shared" | awk '{print $NF}' | sed 's/@.*//' | sort)
[[ -n $declared && $declared == "$exported" ]] ||
  complain "exported symbols are not those of the headers:" "$(diff <(echo "$declared") <(echo "$exported") || true)"

other=$(nm -g --defined-only "$static" | awk 'NF == 3 {print $3}' | grep -v '^tlc_' || true)
[[ -z $other ]] || complain "global symbols without the prefix tlc_:" "$other"

calls=$(nm -D --undefined-only "$shared" | awk '{print $NF}' |
  grep -E '^(abort|exit|_exit|raise|kill|signal|.*printf.*|puts|fputs|perror|fwrite|write|pthread_.*|__assert.*|.*alloc)(@|$)' |
  grep -vE '^malloc(@|$)' || true)
[[ -z $calls ]] || complain "calls that the library must not make:" "$calls"

allocating=$(nm -A "$static" | awk '$NF == "malloc" {print $1}' | grep -v 'context\.c\.o:' || true)
[[ -z $allocating ]] || complain "files that allocate:" "$allocating"

# clang puts the function's name before a static variable's
writable=$(objdump -t "$static" | awk '$4 ~ /^\.(data|bss|tdata|tbss)(\.[a-z_]*)?$/ && $4 !~ /rel\.ro/ && $3 == "O" {print $NF}' |
  grep -vE '^(tlc_cpu_[a-z_]+\.)?known(\.[0-9]+)?$' || true)
[[ -z $writable ]] || complain "writable data:" "$writable"
exit $fail
