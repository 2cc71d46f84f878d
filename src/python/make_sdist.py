# SPDX-License-Identifier: MIT
"""Makes a source distribution that pip installs with a C compiler alone: make_sdist.py THREELC_C FOLDER

The library in one file goes into it, with its headers; setup.py compiles it. "meson compile -C BUILD sdist" calls this.
It needs setuptools.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def notice_of_xxhash(source):
    """The comment at the head of xxhash.h, which is compiled in: its licence asks for it beside the library."""
    return re.search(r"/\*\n( \* xxHash\b.*?) \*/", source, re.DOTALL).group(1)


def main(library, folder):
    library, folder = Path(library).resolve(), Path(folder).resolve()
    with tempfile.TemporaryDirectory() as stage:
        stage = Path(stage, "python")
        left_out = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "lib", "make_*")
        shutil.copytree(HERE, stage, ignore=left_out)
        native = stage / "native"
        native.mkdir()
        shutil.copy(library, native)
        shutil.copytree(library.parent / "threelc", native / "threelc")
        shutil.copy(HERE.parents[1] / "LICENSE", stage)
        (stage / "LICENSE.xxhash").write_text(notice_of_xxhash(library.read_text()))
        (stage / "MANIFEST.in").write_text("graft native\n")
        done = subprocess.run([sys.executable, "setup.py", "-q", "sdist", "--dist-dir", str(folder)], cwd=stage,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(done.stdout)
    print(*sorted(folder.glob("threelc-*.tar.gz")), sep="\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
