# SPDX-License-Identifier: MIT
"""Finds the shared library, loads it, and turns what it returns into exceptions.

The first of these is taken: the file that the environment variable THREELC_LIBRARY names; the one in this package,
which wheels have; the newest one in the build directories of the source tree that this package lies in; the installed
one.
"""
from __future__ import annotations

import ctypes
import enum
import operator
import os
from pathlib import Path
from typing import Any, List, Mapping, Optional, Tuple, Type, TypeVar

from . import _c
from ._errors import Status, error_of
from ._version import __version__, soname

_Kind = TypeVar("_Kind", bound=enum.Enum)
_HERE = Path(__file__).resolve().parent


def _numbers(version: str) -> Tuple[int, int, int]:
    major, minor, patch = (int(number) for number in version.split("."))
    return major, minor, patch


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


def check(status: int, message: bytes = b"") -> None:
    """Raises the exception of a status that is not TLC_OK, with the library's sentence: the message of the call, or
    that of the status."""
    if status != Status.OK:
        raise error_of(status, text(message or lib.tlc_status_string(status)))


def message_of(struct: Any) -> Any:
    """Room for the message of a call with this struct, which has fields for it. It must live as long as the call."""
    room = ctypes.create_string_buffer(_c.MESSAGE_SIZE)
    struct.message, struct.message_cap = ctypes.addressof(room), len(room)
    return room


def give_scratch(struct: Any, size: int) -> None:
    """Room of `size` bytes, or a few more, for a struct that has a field for it. The struct keeps it alive."""
    struct.room = (ctypes.c_uint64 * -(-size // 8))()
    struct.scratch = ctypes.addressof(struct.room)


def check_bytes(status: int, view: Any, form: _c.Format) -> None:
    """The same for bytes that a function without a place for a message has read."""
    if status != Status.OK:
        room = ctypes.create_string_buffer(_c.MESSAGE_SIZE)
        lib.tlc_explain(view.address, view.size, form, room, len(room))
        check(status, room.value)


def text(words: bytes) -> str:
    """Text of the library, which is ASCII."""
    return words.decode("ascii", "replace")


def described(thing: Any) -> str:
    """What was given in place of something else: "None", "'12'", "a list"."""
    if thing is None or isinstance(thing, (bool, int, float, str)) and len(repr(thing)) < 60:
        return repr(thing)
    name = type(thing).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def count(number: int, what: str, bits: int = 8 * ctypes.sizeof(ctypes.c_size_t)) -> int:
    """The number, if it fits into unsigned bits: ctypes would cut off what does not."""
    try:
        found = operator.index(number)
    except TypeError:
        raise TypeError(f"{what} should be a whole number, not {described(number)}") from None
    if not 0 <= found < 2**bits:
        raise ValueError(f"{what} should be from 0 to 2^{bits} - 1, not {found}")
    return found


def real(number: float, what: str) -> float:
    """A number for a float or double of the library."""
    try:
        return ctypes.c_double(number).value
    except TypeError:
        raise TypeError(f"{what} should be a number, not {described(number)}") from None


def choice(kinds: Type[_Kind], given: Any, what: str) -> _Kind:
    """A member of an enum, or one given by its name, such as "ring"."""
    try:
        return kinds[given.upper()] if isinstance(given, str) else kinds(given)
    except (KeyError, ValueError):
        names = ", ".join(kind.name.lower() for kind in kinds)
        raise ValueError(f"{what} should be one of {names}, not {described(given)}") from None


def coded(words: str, what: str) -> bytes:
    """Text for the library, which ends at a zero byte."""
    if not isinstance(words, str):
        raise TypeError(f"{what} should be a str, not {described(words)}")
    if "\0" in words:
        raise ValueError(f"{what} should have no zero byte: {words!r}")
    return words.encode()


def listed(things: Any, needed: Optional[int], what: str, kind: str) -> List[Any]:
    """A sequence as a list. needed: how many; None: any number."""
    if isinstance(things, (bytes, bytearray, memoryview, str, Mapping)) or not hasattr(things, "__iter__"):
        raise TypeError(f"{what} should be a list of {kind}, not {described(things)}")
    found = list(things)
    if needed is not None and len(found) != needed:
        which = f"{needed} {kind} are needed" if what == kind else f"{what} should have {needed} {kind}"
        raise ValueError(f"{which}, not {len(found)}")
    return found
