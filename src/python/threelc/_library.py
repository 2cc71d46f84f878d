# SPDX-License-Identifier: MIT
"""Finds the shared library, loads it, and turns what it returns into exceptions.

The first of these is taken: the file that the environment variable THREELC_LIBRARY names; the one in this package,
which wheels have; the newest one in the build directories of the source tree that this package lies in; the installed
one.
"""
from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Tuple

from . import _c
from ._errors import Status, error_of
from ._version import __version__

_HERE = Path(__file__).resolve().parent


def _numbers(version: str) -> Tuple[int, int, int]:
    major, minor, patch = (int(number) for number in version.split("."))
    return major, minor, patch


def soname(version: str = __version__) -> str:
    """The file name that programs are linked with: libthreelc.so.0.3, and from 1.0 on libthreelc.so.1."""
    major, minor, _ = _numbers(version)
    return f"libthreelc.so.{major}" if major else f"libthreelc.so.{major}.{minor}"


def find() -> str:
    """The library to load: a path, or a name for the dynamic linker."""
    named = os.environ.get("THREELC_LIBRARY")
    if named:
        return named
    bundled = _HERE / "lib" / soname()
    if bundled.exists():
        return str(bundled)
    root = _HERE.parents[2]
    if (root / "meson.build").exists():
        built = [path for path in root.glob(f"*/src/{soname()}") if (path.parents[1] / "build.ninja").exists()]
        if built:
            return str(max(built, key=lambda path: path.stat().st_mtime))
    return soname()


def fits(found: str, package: str = __version__) -> bool:
    """Whether a library of version `found` has what this package needs: the same soname, and not older."""
    return soname(found) == soname(package) and _numbers(found) >= _numbers(package)


def load() -> ctypes.CDLL:
    """The library, its functions declared. ImportError: there is none, or it is of another version."""
    path = find()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"libthreelc was not found: {error}. Install it, or set THREELC_LIBRARY to its "
                          "file") from error
    try:
        library.tlc_version_string.restype = ctypes.c_char_p
        version = library.tlc_version_string().decode()
    except AttributeError as error:
        raise ImportError(f"{path} is not libthreelc") from error
    if not fits(version):
        raise ImportError(f"{path} is libthreelc {version}, but the Python package threelc {__version__} needs "
                          f"{__version__} or a later release with the soname {soname()}")
    _c.declare(library)
    return library


lib = load()


def check(status: int) -> None:
    """Raises the exception of a status that is not TLC_OK, with the library's sentence."""
    if status != Status.OK:
        raise error_of(status, text(lib.tlc_status_string(status)))


def text(words: bytes) -> str:
    """Text of the library, which is ASCII."""
    return words.decode("ascii", "replace")


def count(number: int, what: str, bits: int = 8 * ctypes.sizeof(ctypes.c_size_t)) -> int:
    """The number, if it fits into unsigned bits: ctypes would cut off what does not."""
    if not 0 <= number < 2**bits:
        raise ValueError(f"{what} should be from 0 to 2^{bits} - 1, not {number}")
    return number
