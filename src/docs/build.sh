# SPDX-License-Identifier: MIT
# The reference: that of C by Doxygen in OUT/c/html, that of Python by Sphinx in OUT/python. No warning is allowed.
# "meson compile docs" runs it. Exit status 77: there is no Doxygen. Without Sphinx that of Python is left out.
# bash build.sh SOURCE_ROOT OUT VERSION LIBRARY PYTHON
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 out=$2 version=$3 library=$4 python=$5
command -v doxygen >/dev/null || { echo 'doxygen is not installed (Debian: doxygen)'; exit 77; }
mkdir -p "$out/c"
cd "$root"

# Doxygen says where in the filtered text of a header something is wrong: src/docs/headers.py makes it of the header.
{
  cat src/docs/Doxyfile
  echo "OUTPUT_DIRECTORY = \"$out/c\""
  echo "PROJECT_NUMBER = $version"
} | doxygen -
echo "$out/c/html/index.html"

if ! "$python" -c 'import sphinx' 2>/dev/null; then
  echo '# Sphinx is not installed (Debian: python3-sphinx): the reference of Python is left out'
  exit
fi
# no __pycache__ in the source tree
THREELC_LIBRARY=$library PYTHONDONTWRITEBYTECODE=1 "$python" -m sphinx -q -W --keep-going -b html \
  -D version="$version" -D release="$version" -d "$out/python-trees" src/docs/python "$out/python"
echo "$out/python/index.html"
