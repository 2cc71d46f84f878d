#!/bin/bash
# SPDX-License-Identifier: MIT
# The Rust crate in src/rust builds without a network, and its tests pass: golden vectors, the layouts of the C headers,
# objects, threads that panic, the example of its README. Formatted, and clippy finds nothing, where these are there.
# It finds the library by a variable or by pkg-config. It has the version of the build and stays small: at most 3,200
# lines without its tests.
# rust.sh SOURCE_ROOT SHARED_LIBRARY VERSION BUILD_ROOT: what cargo makes stays in the build
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 library=$2 version=$3 uninstalled=$4/meson-uninstalled
export THREELC_LIBRARY=$library LD_LIBRARY_PATH=${library%/*} CARGO_TARGET_DIR=$4/tests/rust CARGO_NET_OFFLINE=true
cd "$root/src/rust"
cargo --version 2>/dev/null || { echo 'skipped: there is no cargo'; exit 77; }

for file in Cargo.toml Cargo.lock; do
  grep -qx "version = \"$version\"" $file || { echo "src/rust/$file: the version is not $version"; exit 1; }
done
lines=$(find src build.rs -name '*.rs' -not -name same_as_c.rs -exec cat {} + | wc -l)
((lines <= 3200)) || { echo "src/rust has $lines lines"; exit 1; }
while read -r file; do
  (($(wc -l <"$file") <= 500)) || { echo "src/rust/$file has more than 500 lines"; exit 1; }
done < <(find . -name '*.rs')
if cargo fmt --version >/dev/null 2>&1; then
  cargo fmt --check
else
  echo '# there is no rustfmt: skipped'
fi
cargo test --quiet --locked

# without THREELC_LIBRARY
check_without() { env -u THREELC_LIBRARY "$@" cargo check --quiet --locked >"$CARGO_TARGET_DIR/log" 2>&1; }
check_without PKG_CONFIG_PATH="$uninstalled" || { cat "$CARGO_TARGET_DIR/log"; exit 1; }
if check_without PKG_CONFIG_LIBDIR=/nowhere PKG_CONFIG_PATH=; then
  echo 'the crate builds without a library'
  exit 1
fi
grep -qF "does not find threelc >= $version threelc < " "$CARGO_TARGET_DIR/log" ||
  { cat "$CARGO_TARGET_DIR/log"; exit 1; }

if cargo clippy --version >/dev/null 2>&1; then
  cargo clippy --quiet --locked --all-targets -- -D warnings
else
  echo '# there is no clippy: skipped'
fi
