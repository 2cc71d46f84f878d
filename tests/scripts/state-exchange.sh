#!/bin/bash
# SPDX-License-Identifier: MIT
# Two builds load each other's saved states and then make the same bytes. The builds may be for machines of different
# byte order, or the same one twice. The programs of a cross build run in the way that its cross file says.
# state-exchange.sh BUILD BUILD
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
(($# == 2)) || { echo "usage: $0 BUILD BUILD" >&2; exit 2; }

# The command that runs the programs of a build, a word a line. It is empty for this machine.
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
  "${words[@]}" "$1/tests/api/state_exchange" "$2" "$3"
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/one" "$dir/other"
exchange "$1" save "$dir/one"
exchange "$2" save "$dir/other"
exchange "$2" load "$dir/one"
exchange "$1" load "$dir/other"
diff -rq "$dir/one" "$dir/other"
