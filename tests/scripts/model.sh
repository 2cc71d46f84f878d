#!/bin/bash
# SPDX-License-Identifier: MIT
# The golden vectors are what the independent model makes.
# model.sh SOURCE_ROOT
set -euo pipefail
cd "$1"
exec python3 tests/vectors/model.py check tests/vectors
