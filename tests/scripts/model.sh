#!/bin/bash
# SPDX-License-Identifier: MIT
# The golden vectors are what the independent model makes.
# model.sh SOURCE_ROOT
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
cd "$1"
exec python3 tests/vectors/model.py check tests/vectors
