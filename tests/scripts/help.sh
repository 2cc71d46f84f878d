#!/bin/bash
# SPDX-License-Identifier: MIT
# --help of every executable script answers at once, with status 0 and a text, and builds, installs, starts and makes
# nothing: programs that could are replaced by one that leaves a mark.
# help.sh SOURCE_ROOT
set -uo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1
# shellcheck source-path=SCRIPTDIR source=checks.sh
. "$(dirname "$0")/checks.sh"

# The sources without builds: what the scripts would make shows.
mkdir "$work/tree" "$work/bin" "$work/modules"
echo 'raise ImportError("--help needs no such module")' | tee "$work"/modules/{torch,numpy}.py >/dev/null
tar -C "$root" --exclude='./build*' --exclude=./.git --exclude=__pycache__ -cf - . | tar -C "$work/tree" -xf - || exit 1
printf '#!/bin/sh\necho "$0 $*" >>%q\nexit 99\n' "$work/started" >"$work/bin/apt-get"
chmod +x "$work/bin/apt-get"
for name in apt dpkg dpkg-query sudo debootstrap chroot unshare mount meson ninja make cmake cc c++ gcc g++ clang \
  mpicc ccache pip pip3 mpiexec mpirun qemu-x86_64 valgrind ip tc clang-format-19 clang-tidy cppcheck shellcheck \
  mandoc gcovr git curl wget; do
  [[ -e $work/bin/$name ]] || ln "$work/bin/apt-get" "$work/bin/$name"
done
state() { (cd "$work/tree" && find . -type d -print -o -printf '%p %s %T@\n' | LC_ALL=C sort); }

mapfile -t scripts < <(cd "$root" && find .ci bench tests -type f -perm -u+x -not -path '*/__pycache__/*' |
  LC_ALL=C sort)
count=${#scripts[@]}
before=$(state)
for script in "${scripts[@]}"; do
  rm -f "$work/started"
  said=$(cd "$work/tree" && PATH=$work/bin:$PATH PYTHONPATH=$work/modules PYTHONDONTWRITEBYTECODE=1 TMPDIR=$work/tree \
    timeout 20 "./$script" --help </dev/null 2>"$work/err")
  status=$?
  if ((status != 0)); then
    bad "$script --help: exit status $status: $(head -c 300 "$work/err")"
  elif [[ -s $work/started ]]; then
    bad "$script --help starts $(head -n 1 "$work/started")"
  elif ((${#said} < 60)); then
    bad "$script --help says only '$said'"
  elif [[ $(state) != "$before" ]]; then
    bad "$script --help makes files: $(diff <(echo "$before") <(state) | head -n 5)"
    before=$(state)
  fi
done
((${#scripts[@]} > 20)) || bad "there are only ${#scripts[@]} scripts"
finish_checks
