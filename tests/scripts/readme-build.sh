#!/bin/bash
# SPDX-License-Identifier: MIT
# README's line that builds an example without an installation, as README has it, builds the first of its C examples,
# which prints what README says. (install.sh has the others.) If it can, it does so in a root folder in which there are
# only a C compiler, libxxhash and libcpuid with the packages that they depend on: no MPI, no CMake, no meson.
# readme-build.sh SOURCE_ROOT
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mapfile -t lines < <(awk '/^```sh$/ {on = 1; next} /^```$/ {on = 0} on && /^cc /' "$root/README.md")
((${#lines[@]} == 1)) || { echo "README.md: ${#lines[@]} lines begin with cc"; exit 1; }
line=${lines[0]}
[[ $(uname -m) == x86_64 ]] || line=${line/ -lcpuid/} # README says so
mkdir "$work/examples"
mapfile -t examples < <("$here/readme-examples.sh" "$root/README.md" "$work/examples")

# Makes $work/root of the files of Debian's packages.
bare_root() {
  command -v dpkg-query >/dev/null && command -v apt-cache >/dev/null || return 1
  local packages=(gcc libc6-dev libxxhash-dev dash coreutils findutils)
  [[ $(uname -m) != x86_64 ]] || packages+=(libcpuid-dev)
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

if bare_root 2>"$work/why"; then
  place=$work/root/tmp
  build() { inside /tmp "$1"; }
else
  echo "# no root folder with a compiler alone can be made: $(tail -n 1 "$work/why"). The line runs in this system"
  place=$work/place
  mkdir -p "$place" "$work/bin"
  CC=${CC:-cc}
  read -ra words <<<"${CC#ccache }" # ccache would look for cc again
  printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v "${words[0]}") ${words[*]:1}" >"$work/bin/cc"
  chmod +x "$work/bin/cc"
  build() { (cd "$place" && PATH=$work/bin:$PATH sh -ec "$1"); }
fi
cp -r "$root/src" "$root/include" "$place/"
example=${examples[0]}
cp "$work/examples/$example.c" "$place/example.c"
build "$line"
build ./example >"$work/got"
diff "$work/examples/$example.expected" "$work/got" || { echo "README.md: $example prints something else"; exit 1; }
