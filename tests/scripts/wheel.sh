#!/bin/bash
# SPDX-License-Identifier: MIT
# The wheel: its tag, what is in it, and that it works in a fresh virtual environment without compiler, numpy and torch,
# where mypy accepts a program of a user's.
# The same of a wheel that pip compiles from the source distribution.
# wheel.sh SOURCE_ROOT LIBRARY PYTHON THREELC_C
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 library=$2 python=$3 amalgamation=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for program in patchelf readelf strip; do
  command -v "$program" >/dev/null || { echo "skipped: there is no $program"; exit 77; }
done
"$python" -c 'from importlib.util import find_spec as find
raise SystemExit(not all(map(find, ("pip", "setuptools", "wheel", "venv", "ensurepip"))))' ||
  { echo 'skipped: Python lacks pip, setuptools, wheel or venv'; exit 77; }

"$python" "$root/src/python/make_wheel.py" "$library" "$work/dist" >made
wheel=$(<made)
[[ -f $wheel ]] || { echo "no wheel: $wheel"; exit 1; }
mkdir unpacked
"$python" -m zipfile -e "$wheel" unpacked

# The tag must be that of the newest symbol that a library in the wheel wants of glibc, or of manylinux2014.
wanted=$(objdump -T unpacked/threelc/lib/*.so.*[0-9] | grep -oP '(?<=GLIBC_)[0-9]+\.[0-9]+')
newest=$(printf '%s\n' 2.17 "$wanted" | sort -V | tail -n 1)
[[ $wheel == *-py3-none-manylinux_${newest/./_}_$(uname -m)*.whl ]] ||
  { echo "${wheel##*/}: its libraries need glibc $newest"; exit 1; }
grep -q '^Root-Is-Purelib: false$' unpacked/*.dist-info/WHEEL ||
  { echo 'the wheel says it is for all machines'; exit 1; }
glibc='^(libc|libm|libdl|libpthread|librt|ld-linux.*)\.so\.[0-9]+$'
for file in unpacked/threelc/lib/*.so.*[0-9]; do
  while read -r name; do
    [[ -f unpacked/threelc/lib/$name || $name =~ $glibc ]] ||
      { echo "${file##*/} needs $name, which is not in the wheel"; exit 1; }
  done < <(readelf -d "$file" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p')
done
diff <(cd "$root/src/python" && find threelc -name '*.py' -o -name py.typed | sort) \
  <(cd unpacked && find threelc -name '*.py' -o -name py.typed | sort)

"$python" -m venv fresh
fresh/bin/pip install --quiet --no-index --disable-pip-version-check "$wheel"
env -i PATH="$work/fresh/bin" "$work/fresh/bin/python" "$root/tests/scripts/wheel_use.py" libthreelc libxxhash

if [[ -x $(command -v mypy) ]]; then
  printf '[mypy]\nstrict = true\n[mypy-torch.*]\nignore_missing_imports = true\n' >mypy.ini
  mypy --config-file mypy.ini --python-executable fresh/bin/python --cache-dir cache \
    "$root/tests/python/typed_program.py" >log || { cat log; exit 1; }
else
  echo '# no mypy'
fi

rm -rf fresh
sdist=$("$python" "$root/src/python/make_sdist.py" "$amalgamation" "$work/dist")
"$python" -m pip wheel --quiet --no-index --no-deps --no-build-isolation --wheel-dir "$work/compiled" "$sdist"
compiled=("$work"/compiled/threelc-*-py3-none-linux_"$(uname -m)".whl)
[[ -f ${compiled[0]} ]] || { echo 'of the source distribution came another wheel:'; ls "$work/compiled"; exit 1; }
"$python" -m venv fresh
fresh/bin/pip install --quiet --no-index --disable-pip-version-check "${compiled[0]}"
env -i PATH="$work/fresh/bin" "$work/fresh/bin/python" "$root/tests/scripts/wheel_use.py" libthreelc
