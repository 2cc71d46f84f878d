#!/bin/bash
# SPDX-License-Identifier: MIT
# States saved by the programs of one build are loaded by those of another, and their runs go on to the same bytes, both
# ways: builds for machines of different byte order, say, or twice the same one for two processes. A cross build's programs
# run as its cross file says.
# state-exchange.sh BUILD BUILD
set -euo pipefail
(($# == 2)) || { echo "usage: $0 BUILD BUILD" >&2; exit 2; }

# What runs a build's programs, a word a line; nothing for one of this machine.
wrapper() {
  python3 - "$1/meson-private/cmd_line.txt" <<'PYTHON'
import ast, configparser, sys
def read(*names):
    ini = configparser.ConfigParser(interpolation=None)
    ini.read(names)
    return ini
cross = read(sys.argv[1]).get('properties', 'cross_file', fallback='[]')
words = read(*ast.literal_eval(cross)).get('binaries', 'exe_wrapper', fallback='[]')
value = ast.literal_eval(words)
print('\n'.join([value] if isinstance(value, str) else value))
PYTHON
}

# exchange BUILD save|load DIR
exchange() {
  local words
  mapfile -t words < <(wrapper "$1" | sed '/^$/d')
  "${words[@]}" "$1/tests/state_exchange" "$2" "$3"
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/one" "$dir/other"
exchange "$1" save "$dir/one"
exchange "$2" save "$dir/other"
exchange "$2" load "$dir/one"
exchange "$1" load "$dir/other"
diff -rq "$dir/one" "$dir/other"
