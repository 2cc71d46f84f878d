# SPDX-License-Identifier: MIT
"""The version of the package, equal to that of the library it was made with, and that library's file name.

setup.py runs this file alone."""
import sys

__version__ = "0.5.1"


def soname(version: str = __version__, platform: str = sys.platform) -> str:
    """The file name that programs are linked with: libthreelc.so.0.3, and from 1.0 on libthreelc.so.1. platform: as
    sys.platform."""
    major, minor, _ = version.split(".")
    abi = major if major != "0" else f"{major}.{minor}"
    if platform == "win32":
        return f"libthreelc-{abi}.dll"
    return f"libthreelc.{abi}.dylib" if platform == "darwin" else f"libthreelc.so.{abi}"
