#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the recipes that name a release, threelc.wrap for meson and threelc.rb for Homebrew:

    make_recipes.py TARBALL URL FOLDER

TARBALL is what "meson dist" has made, threelc-VERSION.tar.xz, and URL where it can be fetched.
"""
import hashlib
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(tarball, url, folder):
    tarball, folder = Path(tarball), Path(folder)
    version = re.fullmatch(r"threelc-([\d.]+)\.tar\.\w+", tarball.name)
    if not version:
        sys.exit(f"{tarball.name}: its name should be threelc-VERSION.tar.xz")
    facts = {"VERSION": version[1], "URL": url, "FILE": tarball.name,
             "SHA256": hashlib.sha256(tarball.read_bytes()).hexdigest()}
    folder.mkdir(parents=True, exist_ok=True)
    for template in sorted(HERE.glob("*.in")):
        text = re.sub(r"@(\w+)@", lambda found: facts[found[1]], template.read_text())
        (folder / template.stem).write_text(text)
        print(folder / template.stem)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
