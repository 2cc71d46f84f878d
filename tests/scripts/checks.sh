#!/bin/bash
# SPDX-License-Identifier: MIT
# What script tests share that count their checks.
failed=0 count=0

bad() {
  echo "FAILED: $*"
  failed=$((failed + 1))
}
