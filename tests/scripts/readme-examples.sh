#!/bin/bash
# SPDX-License-Identifier: MIT
# The C examples of a document: readme-examples.sh DOCUMENT FOLDER writes each block of C that has a main to
# FOLDER/NAME.c, and the block of text behind it, which is what it prints, to FOLDER/NAME.expected. NAME is that of the
# last header of threelc/ that it includes. It prints the names. It fails if an example has no name of its own, or does
# not say what it prints.
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
awk -v folder="$2" '
  function bad(why) { print FILENAME ": line " FNR ": " why >"/dev/stderr"; failed = 1; exit 1 }
  /^```c$/ { code = ""; name = ""; on = "c"; next }
  /^```text$/ { if (example) { text = ""; on = "text" } next }
  /^```/ {
    if (on == "c" && code ~ /\nint main/) {
      if (example) bad("the example " example " does not say what it prints")
      if (!name || name in seen) bad("an example has the name \"" name "\"")
      example = name; seen[name] = 1
      printf "%s", code >(folder "/" name ".c"); close(folder "/" name ".c")
    }
    if (on == "text") {
      printf "%s", text >(folder "/" example ".expected"); close(folder "/" example ".expected")
      print example; example = ""
    }
    on = ""; next
  }
  on == "c" { code = code $0 "\n"; if (match($0, /<threelc\/[a-z]*\.h>/)) name = substr($0, RSTART + 9, RLENGTH - 12) }
  on == "text" { text = text $0 "\n" }
  END { if (!failed && example) bad("the example " example " does not say what it prints") }
' "$1"
