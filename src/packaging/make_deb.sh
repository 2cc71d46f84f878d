#!/bin/bash
# SPDX-License-Identifier: MIT
# Makes Debian packages of this source tree: make_deb.sh FOLDER
# Maintainer of the packages is DEBFULLNAME <DEBEMAIL>, or else the user who calls this. "meson compile -C BUILD deb"
# calls it. It needs dpkg-dev and what Build-Depends in debian/control names. DEB_BUILD_OPTIONS=nocheck leaves the
# tests out.
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
[[ ${1-} ]] || { "$0" --help >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$1
maintainer="${DEBFULLNAME:-$(id -un)} <${DEBEMAIL:-$(id -un)@$(hostname -f)}>"
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" "$root/meson.build")
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

source=$stage/threelc-$version
mkdir -p "$source" "$folder"
tar -C "$root" --exclude='./build*' --exclude=./.git --exclude=__pycache__ --exclude=./src/rust/target -cf - . |
  tar -C "$source" -xf -
cp -r "$root/src/packaging/debian" "$source/debian"
sed -i "1a Maintainer: $maintainer" "$source/debian/control"
cat >"$source/debian/changelog" <<END
threelc ($version) unstable; urgency=medium

  * What is new is in CHANGES.md.

 -- $maintainer  $(date -R -r "$root/src/CHANGES.md")
END

# of the system's compiler and Python, whatever comes first in PATH
(cd "$source" && env -u CC PATH=/usr/sbin:/usr/bin:/sbin:/bin dpkg-buildpackage -us -uc -b) >"$stage/log" 2>&1 ||
  { cat "$stage/log"; exit 1; }
mv "$stage"/*.deb "$stage"/*.buildinfo "$stage"/*.changes "$folder"
printf '%s\n' "$folder"/*.deb
