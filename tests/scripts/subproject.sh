#!/bin/bash
# SPDX-License-Identifier: MIT
# The library as a subproject of meson: examples are built in a project with it, and print what NAME.txt says.
# subproject.sh SOURCE_ROOT
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p app/subprojects
ln -s "$root" app/subprojects/threelc
examples=(context delta server)
for example in "${examples[@]}"; do cp "$root/tests/examples/$example."{c,txt} app/; done
cat >app/meson.build <<MESON
project('app', 'c')
threelc_dep = subproject('threelc').get_variable('threelc_dep')
foreach example : [$(printf "'%s', " "${examples[@]}")]
  executable(example, example + '.c', dependencies: threelc_dep)
endforeach
MESON
meson setup build app >log 2>&1 && meson compile -C build "${examples[@]}" >>log 2>&1 || { cat log; exit 1; }
for example in "${examples[@]}"; do
  "build/$example" >got && diff "app/$example.txt" got || { echo "$example: prints something else"; exit 1; }
done
