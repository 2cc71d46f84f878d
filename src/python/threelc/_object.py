# SPDX-License-Identifier: MIT
"""What contexts and exchange objects have in common: a C object that one thread uses at a time."""
from __future__ import annotations

import threading
from ctypes import byref, c_size_t
from typing import Any, Callable, NoReturn, Optional

from ._arrays import octets
from ._library import check


class CObject:
    """Owns an object of the C library. Calls from several threads wait for each other."""

    def __init__(self, handle: int, destroy: Callable[[int], None]) -> None:
        self._handle: Optional[int] = handle
        self._destroy = destroy
        self._lock = threading.Lock()

    def __del__(self) -> None:
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            self._destroy(handle)

    def _saved(self, size: Callable[[Any], int], save: Callable[..., int]) -> bytes:
        """What the functions _state_size and _state_save give."""
        with self._lock:
            state = bytearray(size(self._handle))
            view = octets(state, "state", writable=True)
            written = c_size_t()
            check(save(self._handle, view.address, view.size, byref(written)))
            return bytes(state)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be copied or pickled; save its state_dict()")
