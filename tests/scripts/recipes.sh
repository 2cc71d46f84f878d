#!/bin/bash
# SPDX-License-Identifier: MIT
# The recipes in src/packaging that no other test builds: they have this version, and those are well formed whose
# program is here.
# recipes.sh SOURCE_ROOT VERSION
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 version=$2
packaging=$root/src/packaging
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

python3 - "$packaging/vcpkg/vcpkg.json" "$version" <<'PYTHON'
import json, sys
port = json.load(open(sys.argv[1]))
assert port["version"] == sys.argv[2], f"vcpkg.json has version {port['version']}"
PYTHON

tarball=threelc-$version.tar.xz url=https://example.invalid/threelc-$version.tar.xz
echo 'a release' >"$tarball"
"$packaging/release/make_recipes.py" "$tarball" "$url" out >log
sum=$(sha256sum <"$tarball")
for recipe in out/threelc.wrap out/threelc.rb; do
  grep -q "${sum%% *}" "$recipe" && grep -q "$url" "$recipe" &&
    ! grep '@[A-Z0-9]*@' "$recipe" || { echo "$recipe: not filled in"; exit 1; }
done
"$packaging/release/make_recipes.py" log https://example.invalid/log out 2>said && exit 1
grep -q 'its name should be threelc-VERSION' said

if command -v ruby >/dev/null; then
  ruby -c out/threelc.rb >log 2>&1 || { cat log; exit 1; }
else
  echo '# no ruby'
fi
if command -v nix-instantiate >/dev/null; then
  nix-instantiate --parse "$packaging/package.nix" >log 2>&1 || { cat log; exit 1; }
else
  echo '# no nix-instantiate'
fi
