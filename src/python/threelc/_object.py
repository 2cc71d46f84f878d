# SPDX-License-Identifier: MIT
"""What contexts and exchange objects have in common: a C object that one thread uses at a time."""
from __future__ import annotations

import threading
import weakref
from ctypes import byref, c_size_t, c_void_p
from functools import partial
from typing import Any, Callable, Dict, Mapping, NoReturn, Optional, Sequence

from ._arrays import View, octets
from ._library import check, described
from ._parallel import Threads, after_forks, call


def saved_state(state: Any, version: int, kind: Optional[str] = None) -> Any:
    """What a state_dict() holds for the library. ValueError: it is of another version or kind."""
    if not isinstance(state, Mapping):
        raise TypeError(f"a state is what state_dict() returns, not {described(state)}")
    found = state.get("version")
    if kind is None and found != version:
        raise ValueError(f"a state of version {version} is needed, not {described(found)}")
    if kind is not None and (found != version or state.get("kind") != kind):
        raise ValueError(f"states of version {version} of {kind} objects are needed, not of version "
                         f"{described(found)} of {state.get('kind')}")
    if "state" not in state:
        raise ValueError("this is not a state: it has no entry 'state'")
    return state["state"]


class _End(weakref.ref):  # type: ignore[type-arg]
    """Destroys the C object when the Python object is gone, without a step of Python code: in __del__ a signal's
    exception, such as KeyboardInterrupt, would be printed and lost."""

    __slots__ = ()
    _as_parameter_ = None  # Python appends the reference to the arguments, ctypes passes NULL on, and it is not read


_ENDS: Dict[int, _End] = {}  # by id(), an address that is used again
_SHARED: "weakref.WeakSet[Any]" = weakref.WeakSet()


class _Left:
    """In place of the lock of an object that another thread was using when the process was forked."""

    def __enter__(self) -> NoReturn:
        raise RuntimeError("another thread was using this object when the process was forked, and left it here halfway "
                           "through: make a new one")

    def __exit__(self, *_: Any) -> None:
        """It is never entered."""


def share(owner: Any) -> None:
    """Of an object that is no CObject, and whose `_lock`, an RLock, threads share."""
    _SHARED.add(owner)


def _leave() -> None:
    """In a process that was forked: the threads that use objects are in the other one."""
    for found in [*(end() for end in list(_ENDS.values())), *_SHARED]:
        if found is not None and found._lock.acquire(blocking=False):
            found._lock.release()
        elif found is not None:
            found._lock = _Left()


after_forks(_leave)


class CObject:
    """Owns an object of the C library. Calls from several threads wait for each other. `threads` and `residuals` are
    what the caller gave for its calls.

    Wherever C keeps a pointer, or makes something that must be destroyed, this is recorded before the call: after it a
    signal's exception may come before any line."""

    def __init__(self, make: Callable[[Any], None], destroy: Callable[[Any], None], threads: Optional[Threads],
                 residuals: Sequence[Optional[View]]) -> None:
        """make: is called with the address of a pointer for the object, and raises what went wrong."""
        self._lock: Any = threading.RLock()  # a handler of signals may save a state while a call is made
        self._threads = threads
        self._residuals = [residual for residual in residuals if residual is not None]
        made = c_void_p()
        _ENDS[id(self)] = _End(self, partial(destroy, made))
        make(byref(made))
        self._handle: Any = made.value

    def _do(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A call of the library that may read and write residuals, and use the threads. The lock is held."""
        for residual in self._residuals:
            residual.use_again(writable=True)
        return call(self._threads, function, self._handle, *arguments)

    def _check(self, status: int) -> None:
        """Raises what belongs to the status of a call."""
        check(status)

    def _saved(self, size: Callable[[Any], int], save: Callable[..., int]) -> bytes:
        """What the functions _state_size and _state_save give."""
        with self._lock:
            state = bytearray(size(self._handle))
            view = octets(state, "state", writable=True)
            written = c_size_t()
            for residual in self._residuals:
                residual.use_again(writable=False)
            self._check(save(self._handle, view.address, view.size, byref(written)))
            return bytes(state)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be copied or pickled; save its state_dict()")
