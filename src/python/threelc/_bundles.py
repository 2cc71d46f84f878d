# SPDX-License-Identifier: MIT
"""Many frames in one message (threelc/bundle.h)."""
from __future__ import annotations

from ctypes import byref, c_size_t, c_void_p
from typing import Any, List, Sequence

from . import _c
from ._arrays import borrowed, octets
from ._c import Format
from ._library import check, check_bytes, lib


def pack(frames: Sequence[Any]) -> bytes:
    """A bundle of frames."""
    views = [octets(frame, "frame") for frame in frames]
    bound, writer, message = c_size_t(), _c.BundleWriter(), _c.Message()
    check(lib.tlc_bundle_bound(len(views), sum(view.size for view in views), byref(bound)))
    target = bytearray(bound.value)
    room = octets(target, "bundle", writable=True)
    check(lib.tlc_bundle_init(byref(writer), room.address, room.size, len(views)))
    for view in views:
        check(lib.tlc_bundle_add(byref(writer), view.address, view.size))
    check(lib.tlc_bundle_finish(byref(writer), byref(message)))
    first = message.data - room.address
    return bytes(memoryview(target)[first:first + message.len])


def unpack(bundle: Any) -> List[memoryview]:
    """The frames of a bundle, in its memory. CorruptError: these bytes are not a bundle."""
    view = octets(bundle, "message")
    reader, frame, size = _c.BundleReader(), c_void_p(), c_size_t()
    check_bytes(lib.tlc_bundle_open(byref(reader), view.address, view.size), view, Format.BUNDLE)
    frames = []
    for _ in range(lib.tlc_bundle_count(byref(reader))):
        check(lib.tlc_bundle_next(byref(reader), byref(frame), byref(size)))
        frames.append(borrowed(frame.value, size.value, view))
    return frames
