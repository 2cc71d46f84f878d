# SPDX-License-Identifier: MIT
"""Makes a wheel with the shared library in it: make_wheel.py LIBRARY FOLDER

The libraries that LIBRARY needs, besides those of the C library, go into the wheel with it. The tag says for which
machines it is: manylinux of the newest glibc whose symbols one of the libraries uses. "meson compile -C BUILD wheel"
calls this. It needs patchelf, readelf, strip, pip, setuptools and wheel.
"""
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
EVERYWHERE = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux.*)\.so\.\d+")  # parts of glibc
OLDEST = (2, 17)  # manylinux2014: what every pip of today knows


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed(library):
    """The libraries that come with a library: soname -> path."""
    found = {}
    for line in output_of("ldd", str(library)).splitlines():
        match = re.match(r"\s*(\S+) => (\S+)", line)
        if match and not EVERYWHERE.fullmatch(match.group(1)):
            if match.group(2) == "not":
                sys.exit(f"{library} needs {match.group(1)}, which is not here")
            found[match.group(1)] = Path(match.group(2)).resolve()
    return found


def tag(libraries):
    """The platform of libraries: that of the newest symbol version of glibc in any of them."""
    machine = platform.machine()
    versions = [OLDEST]
    for library in libraries:
        versions += [tuple(int(n) for n in v.split(".")[:2])
                     for v in re.findall(r"GLIBC_(\d+\.\d+)", output_of("readelf", "-V", str(library)))]
    newest = max(versions)
    alias = f".manylinux2014_{machine}" if newest == OLDEST else ""
    return f"manylinux_{newest[0]}_{newest[1]}_{machine}{alias}"


def copyright_of(library):
    """The notice of a library that a Debian package brought: its licence asks for it. None: there is none."""
    for path in (library, Path("/usr") / str(library).lstrip("/")):
        done = subprocess.run(["dpkg-query", "-S", str(path)], capture_output=True, text=True)
        if done.returncode == 0:
            notice = Path("/usr/share/doc", done.stdout.split(":")[0], "copyright")
            return notice if notice.exists() else None
    return None


def main(library, folder):
    missing = [program for program in ("patchelf", "readelf", "strip") if not shutil.which(program)]
    if missing:
        sys.exit(f"make_wheel.py needs {' and '.join(missing)}")
    library, folder = Path(library).resolve(), Path(folder).resolve()
    soname = re.search(r"SONAME.*\[(.*)\]", output_of("readelf", "-d", str(library))).group(1)
    with tempfile.TemporaryDirectory() as stage:
        stage = Path(stage, "python")
        shutil.copytree(HERE, stage, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "lib"))
        inside = stage / "threelc" / "lib"
        inside.mkdir()
        for name, path in {soname: library, **needed(library)}.items():
            shutil.copy(path, inside / name)
            (inside / name).chmod(0o755)
            subprocess.run(["strip", "--strip-unneeded", str(inside / name)], check=True)
            subprocess.run(["patchelf", "--set-rpath", "$ORIGIN", str(inside / name)], check=True)
            notice = copyright_of(path)
            if notice is not None:
                shutil.copy(notice, inside / f"{name}.copyright")
        shutil.copy(HERE.parents[1] / "LICENSE", stage)
        environment = {**os.environ, "THREELC_WHEEL_PLATFORM": tag(inside.glob("*.so.*[0-9]"))}
        done = subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation",
                               "--wheel-dir", str(folder), str(stage)], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(done.stdout)
    print(*sorted(folder.glob("threelc-*.whl")), sep="\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
