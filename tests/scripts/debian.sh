#!/bin/bash
# SPDX-License-Identifier: MIT
# The Debian packages are built, lintian finds neither errors nor warnings, and what they hold works from a folder: the
# examples by pkg-config, shared and static, and with MPI, the Python package, tlc-delta.
# debian.sh SOURCE_ROOT VERSION
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 version=$2
for program in dpkg-buildpackage lintian; do
  command -v "$program" >/dev/null || { echo "skipped: there is no $program"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
missing=$(dpkg-checkbuilddeps "$root/src/packaging/debian/control" 2>&1) || { echo "skipped: $missing"; exit 77; }

export DEB_BUILD_OPTIONS=nocheck DEBFULLNAME='The libthreelc authors' DEBEMAIL=authors@threelc.example
"$root/src/packaging/make_deb.sh" "$work/packages" >made || { cat made; exit 1; }
lintian --allow-root --fail-on error,warning packages/*.changes >log 2>&1 || { cat log; exit 1; }

for package in packages/*.deb; do
  [[ $(dpkg-deb -f "$package" Version) == "$version" ]] || { echo "$package: has another version"; exit 1; }
  dpkg-deb -x "$package" tree
done
prefix=$work/tree/usr
pc=$(find "$prefix" -name threelc.pc)
libdir=$(dirname "$(dirname "$pc")")
# MPI was not moved, so its prefix stays
sed -i "s,^prefix=.*,prefix=$prefix," "$libdir"/pkgconfig/threelc*.pc
export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir

prints() { # EXAMPLE RUNNER [ARGUMENTS OF THE COMPILER...]
  # shellcheck disable=SC2086 # a command
  cc -Wall -Werror "$root/tests/examples/$1.c" -o program "${@:3}" &&
    $2 ./program | diff "$root/tests/examples/$1.txt" - ||
    { echo "$1.c with ${*:3}: does not build, or prints something else"; exit 1; }
}
read -ra flags < <(pkg-config --cflags --libs threelc)
prints context '' "${flags[@]}"
ldd program >linked
grep -q "$libdir/libthreelc\.so\." linked || { echo 'the example is not linked with the package'; exit 1; }
read -ra flags < <(pkg-config --cflags --libs --static threelc)
prints context '' "${flags[@]/%-lthreelc/-l:libthreelc.a}"
read -ra flags < <(pkg-config --cflags --libs threelc-mpi)
prints mpi 'mpiexec -n 4' "${flags[@]}"

PYTHONPATH=$prefix/lib/python3/dist-packages /usr/bin/python3 -c '
import array, importlib.metadata, sys
import threelc, threelc.exchange

assert importlib.metadata.version("threelc") == threelc.__version__ == sys.argv[1], threelc.__version__
values = array.array("f", [0.5, -2, 0, 1] * 1000)
out = array.array("f", bytes(4 * len(values)))
threelc.decompress(threelc.Context(len(values), "3lc:s=1.5").compress(values), out)
assert list(out[:4]) == [0, -3, 0, 0], out[:4]' "$version"
head -c 4096 "$root/README.md" >old
tr a b <old >new
"$prefix/bin/tlc-delta" make old new delta
"$prefix/bin/tlc-delta" apply delta old got
cmp new got
