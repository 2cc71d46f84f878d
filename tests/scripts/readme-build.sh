#!/bin/bash
# SPDX-License-Identifier: MIT
# README's shell lines in blocks "sh bare", as README has them: they build the first example without an installation,
# and run it. They run in a root folder in which there are only a C compiler, libxxhash and libcpuid with the packages
# that they depend on: no MPI, no CMake, no meson. Where no such root can be made, they run in this system, and the test
# is skipped.
# readme-build.sh SOURCE_ROOT
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

lines=$(sed -n '/^```sh bare$/,/^```$/{/^```/!p}' "$root/README.md")
[[ $lines == *'cc '* ]] || { echo 'README.md: no lines of "sh bare" build anything'; exit 1; }

# Makes $work/root of the files of Debian's packages.
bare_root() {
  command -v dpkg-query >/dev/null && command -v apt-cache >/dev/null || return 1
  local packages=(gcc libc6-dev libxxhash-dev dash coreutils findutils)
  mapfile -t packages < <(apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts \
    --no-breaks --no-replaces --no-enhances "${packages[@]}" | grep -v '[ <]' | sort -u)
  ((${#packages[@]})) || return 1
  mkdir -p "$work/root/usr"/{bin,lib,lib64,sbin} "$work/root/tmp" "$work/root/dev"
  : >"$work/root/dev/null"
  ln -s usr/{bin,lib,lib64,sbin} "$work/root/"
  dpkg-query -L "${packages[@]}" 2>/dev/null | sort -u |
    while read -r file; do
      if [[ -f $file || -L $file ]] && [[ ! -d $file || -L $file ]]; then echo "${file#/}"; fi
    done | grep -v '^usr/share/' | sed 's,^\(bin\|lib\|lib64\|sbin\)/,usr/&,' | sort -u |
    tar -C / --ignore-failed-read -cf - -T - 2>/dev/null | tar -C "$work/root" -xf -
  [[ -e $work/root/usr/bin/sh ]] || ln -s dash "$work/root/usr/bin/sh"
  ln -sf gcc "$work/root/usr/bin/cc" # as update-alternatives does
  inside /tmp 'cc --version >/dev/null && find . >/dev/null'
}
inside() { # FOLDER COMMAND
  unshare -r chroot "$work/root" /usr/bin/env -i PATH=/usr/bin /bin/sh -ec "cd $1; $2"
}

why=
if bare_root 2>"$work/why"; then
  place=$work/root/tmp
  run() { inside /tmp "$1"; }
else
  why="no root folder with a compiler alone can be made: $(tail -n 1 "$work/why")"
  place=$work/place
  mkdir -p "$place" "$work/bin"
  CC=${CC:-cc}
  read -ra words <<<"${CC#ccache }" # ccache would look for cc again
  printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v "${words[0]}") ${words[*]:1}" >"$work/bin/cc"
  chmod +x "$work/bin/cc"
  run() { (cd "$place" && PATH=$work/bin:$PATH sh -ec "$1"); }
fi
mkdir "$place/tests"
cp -r "$root/src" "$root/include" "$place/"
cp -r "$root/tests/examples" "$place/tests/"
run "$lines" >"$work/got"
diff "$root/tests/examples/context.txt" "$work/got" || { echo 'README.md: its lines print something else'; exit 1; }
[[ ! $why ]] || { echo "skipped: $why. The lines pass in this system"; exit 77; }
