#!/bin/bash
# SPDX-License-Identifier: MIT
# What scripts say of options, names and files that do not exist: what was given, what is allowed, and the nearest. And
# that a folder of tests stands for its tests.
# Nothing is built, installed or started.
# wrong-options.sh SOURCE_ROOT
set -uo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1
# shellcheck source-path=SCRIPTDIR source=checks.sh
. "$(dirname "$0")/checks.sh"

# The scripts without what they install and build: packages are there, and meson can only tell its options.
mkdir -p "$work"/{tree/.ci,bin}
cp -r "$root/bench" "$root/tests" "$work/tree"
printf '#!/bin/sh\n' >"$work/tree/.ci/packages"
cat >"$work/bin/meson" <<'END'
#!/bin/sh
[ "$*" = 'test --help' ] || exit 99
echo 'usage: meson test [--print-errorlogs] [--no-suite SUITE] [-v] [args ...]'
echo '  --list                                List available tests.'
END
chmod +x "$work/tree/.ci/packages" "$work/bin/meson"
echo 'raise ImportError("files are read first")' >"$work/tree/bench/matplotlib.py"

# refuses STATUS MESSAGE SCRIPT ARGUMENT...: a line on stderr, a pattern
refuses() {
  local want=$1 message=$2 script=$3 status
  shift 3
  count=$((count + 1))
  (cd "$work/tree" && PATH=$work/bin:$PATH PYTHONDONTWRITEBYTECODE=1 "./$script" "$@") >"$work/out" 2>"$work/err" \
    </dev/null
  status=$?
  # shellcheck disable=SC2053 # it is a pattern
  [[ $status == "$want" && ! -s $work/out && $(tail -n 1 "$work/err") == *$message ]] ||
    bad "$script $*: status $status, said '$(<"$work/err")', not '$message'"
}

refuses 2 'matrix: --lst: there is no such option; there are --list, *. Did you mean --list[?]' tests/matrix --lst
refuses 2 'matrix: -x: there is no such option; there are --list, --markdown and --help.' tests/matrix -x
refuses 2 "matrix: no row is named gcc-O4; --list lists them. Did you mean gcc-O[0-3][?]" tests/matrix gcc-O4
refuses 2 'run: --lst: there is no such option of meson test; there are --list *. Did you mean --list[?]' \
  tests/run npy --lst
refuses 2 'run: --print-errrologs: *. Did you mean --print-errorlogs[?]' tests/run --print-errrologs
refuses 99 '' tests/run --print-err --no-suite=slow -v # they are taken, and meson is started

# A folder stands for its tests, wherever meson says that their files are.
mkdir "$work/tree/build-tests"
touch "$work/tree/build-tests/build.ninja"
printf '#!/bin/sh\n' >"$work/bin/ninja"
printf '#!/bin/sh\necho "$@"\n' >"$work/tree/.ci/count"
cp "$work/bin/meson" "$work/meson"
cat >"$work/bin/meson" <<END
#!/bin/sh
[ "\$1" != introspect ] || exec cat <<'JSON'
[{"name": "codec", "suite": [], "cmd": ["$work/tree/build-tests/tests/codec/test_codec"]},
 {"name": "python-ddp", "suite": ["script"], "cmd": ["python3", "$work/tree/build-tests/../tests/python/run.py"]},
 {"name": "names", "suite": ["script"], "cmd": ["bash", "$work/tree/tests/scripts/names.sh"]}]
JSON
END
chmod +x "$work"/bin/ninja "$work"/tree/.ci/count
for pair in codec:codec python:python-ddp scripts:names; do
  count=$((count + 1))
  got=$(cd "$work/tree" && PATH=$work/bin:$PATH tests/run "tests/${pair%:*}" 2>&1)
  [[ $got == *" ${pair#*:}" ]] || bad "tests/run tests/${pair%:*}: $got"
done
rm -r "$work/tree/build-tests" "$work/tree/.ci/count" "$work/bin/ninja"
mv "$work/meson" "$work/bin/meson"

refuses 1 'plot: tests/README.md: it is no JSON (*); a file is JSON of tlc-bench or tlc-sim --format json, or *' \
  bench/plot tests/README.md
printf 'step,loss,train_loss,sent\n1,2\n' >"$work/short.csv"
refuses 1 "plot: $work/short.csv: it is no such CSV*" bench/plot "$work/short.csv"
printf 'rate,latency,burst,kind,codec,ranks,step_s\n1mbit,0ms\n' >"$work/cut.csv"
refuses 1 "plot: $work/cut.csv: it is no such CSV*" bench/plot "$work/cut.csv"
python3 - "$work/few.json" <<'END'
import json, sys
row = {'kind': 'codec', 'tensor': None, 'threads': 1, 'values': 9}
json.dump({'program': 'tlc-bench', 'rows': [{**row, 'codec': f'3lc:s=1.{tenth}'} for tenth in (1, 2)]},
          open(sys.argv[1], 'w'))
END
refuses 1 "plot: $work/few.json: there is nothing to draw in so few rows" bench/plot "$work/few.json"
refuses 2 'plot: error: b.json: it is no option; files stand together, before the options or after them' \
  bench/plot a.json --out d b.json
printf 'step,loss,train_loss\n1,2,3\n' >"$work/narrow.csv"
refuses 1 "plot: $work/narrow.csv: not written by an experiment: there is no column 'sent'" \
  bench/plot "$work/narrow.csv"
refuses 1 'plot: missing.json: No such file or directory' bench/plot missing.json
finish_checks
