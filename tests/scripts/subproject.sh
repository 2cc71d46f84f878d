#!/bin/bash
# SPDX-License-Identifier: MIT
# The library as a subproject of meson, by the wrap file of a release: dependency() falls back to it, and subproject()
# has threelc_dep. Examples are built in a project with it, and print what NAME.txt says.
# subproject.sh SOURCE_ROOT VERSION
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 release=threelc-$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
tar -C "$root" --exclude='./build*' --exclude=./.git --exclude=./bench/data --exclude=./src/rust/target \
  --transform "s,^\.,$release," -czf "$release.tar.gz" .
"$root/src/packaging/release/make_recipes.py" "$release.tar.gz" "file://$work/$release.tar.gz" app/subprojects >log
examples=(context delta server)
for example in "${examples[@]}"; do cp "$root/tests/examples/$example."{c,txt} app/; done
cat >app/meson.build <<'MESON'
project('app', 'c')
executable('context', 'context.c', dependencies: dependency('threelc'))
threelc_dep = subproject('threelc').get_variable('threelc_dep')
foreach example : ['delta', 'server']
  executable(example, example + '.c', dependencies: threelc_dep)
endforeach
MESON
# with the source, whatever is installed
meson setup build app --force-fallback-for=threelc >log 2>&1 && meson compile -C build "${examples[@]}" >>log 2>&1 ||
  { cat log; exit 1; }
for example in "${examples[@]}"; do
  "build/$example" >got && diff "app/$example.txt" got || { echo "$example: prints something else"; exit 1; }
done
