#!/bin/bash
# SPDX-License-Identifier: MIT
# The reference of C and Python is made without a warning, and every public function has a page. The man page is one,
# names every header and program, and no function that does not exist. reference.md names every header, and the pages
# of Python have the modules that help(threelc) lists. Skipped without Doxygen.
# docs.sh SOURCE_ROOT VERSION LIBRARY PYTHON
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf '%s\n' "$@"; exit 1; }

mapfile -t functions < <(sed -n 's/^TLC_API .*[ *]\(tlc_[a-z0-9_]*\)(.*/\1/p' "$root"/include/threelc/*.h | sort -u)
((${#functions[@]} > 100)) || fail 'no functions found in the headers'
for name in $(grep -o 'tlc_[a-z0-9_]*[a-z0-9]' "$root/src/docs/threelc.3" | sort -u); do
  grep -qE "\b$name\b" "$root"/include/threelc/*.h || fail "src/docs/threelc.3: there is no $name"
done
for header in "$root"/include/threelc/*.h; do
  header=threelc/${header##*/}
  grep -qx ".In $header" "$root/src/docs/threelc.3" || fail "src/docs/threelc.3: there is no $header"
  grep -qF "| \`$header\` |" "$root/src/docs/reference.md" || fail "src/docs/reference.md: there is no $header"
done
for page in "$root"/bench/man/*.1; do
  page=${page##*/}
  grep -q "^.Xr ${page%.1} 1" "$root/src/docs/threelc.3" || fail "src/docs/threelc.3: there is no ${page%.1}(1)"
done
mapfile -t modules < <(grep -oE '^threelc\.[a-z]+ ' "$root/src/python/threelc/__init__.py")
((${#modules[@]} > 5)) || fail 'no modules found in help(threelc)'
for module in "${modules[@]}"; do
  grep -qx "   ${module% }" "$root/src/docs/python/index.rst" || fail "src/docs/python/index.rst: there is no $module"
done
if command -v mandoc >/dev/null; then
  mandoc -Tlint -W warning "$root/src/docs/threelc.3"
else
  echo '# mandoc is not installed: the man page is not checked'
fi

status=0
bash "$root/src/docs/build.sh" "$root" "$work" "${@:2}" >"$work/log" 2>&1 || status=$?
cat "$work/log"
((status == 0)) || exit $status
cat "$work"/c/html/*_8h.html >"$work/pages"
for name in "${functions[@]}"; do
  grep -q "$name()</h2>" "$work/pages" || fail "the reference has no $name"
done
