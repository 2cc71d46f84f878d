# SPDX-License-Identifier: MIT
"""Signals wait while a step is under way. A handler that saves a state_dict() when a job is preempted would find half a
step, and wait for what only its own thread can end; after a step it finds all of it.

Python calls handlers in the main thread, between two steps of Python code. So while a step is made there, functions
that only note the signal stand in place of the handlers of Python; they stand aside when the step has ended. A second
Ctrl-C does not wait.
"""
from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import weakref
from typing import Any, Callable, Dict, List, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Signals:
    """Of the process."""

    def __init__(self) -> None:
        self.holder: Any = _nobody  # returns who makes signals wait, or None
        self.handlers: Dict[int, Any] = {}  # that _note stands in place of
        self.came: List[int] = []  # meanwhile

    def replace(self) -> None:
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler) and handler is not _note:
                self.handlers[number] = handler
                signal.signal(number, _note)

    def restore(self) -> None:
        for number, handler in list(self.handlers.items()):
            if signal.getsignal(number) is _note:  # else somebody else has set another one
                signal.signal(number, handler)

    def call(self, frame: Any) -> None:
        """Calls the handlers of what came, all of them, whatever they raise."""
        if self.came:
            try:
                _handle(self.came.pop(0), frame)
            finally:
                self.call(frame)


def _nobody() -> None:
    return None


def _note(number: int, frame: Any) -> None:
    if number == signal.SIGINT and number in _SIGNALS.came:  # a step that waits for a dead rank may take half an hour
        _SIGNALS.came.remove(number)
        _handle(number, frame)
        return
    if number not in _SIGNALS.came:
        _SIGNALS.came.append(number)
    if _SIGNALS.holder() is None:
        _SIGNALS.call(frame)


def _handle(number: int, frame: Any) -> None:
    handler = signal.getsignal(number)
    handler = _SIGNALS.handlers[number] if handler is _note else handler
    if callable(handler):
        handler(number, frame)
    else:
        os.kill(os.getpid(), number)  # what it is now: the default, or nothing


_SIGNALS = _Signals()


class SignalsWait:
    """A context in which signals wait, in the main thread; elsewhere Python handles none. It also ends with the object,
    so that a step which nobody ends does not keep signals waiting: what came meanwhile is handled with the next."""

    def __init__(self) -> None:
        self._holds = False

    def __enter__(self) -> SignalsWait:
        if threading.current_thread() is threading.main_thread() and _SIGNALS.holder() is None:
            self._holds = True
            _SIGNALS.holder = weakref.ref(self)  # first: a handler that comes now must not put back what is replaced
            try:
                _SIGNALS.replace()
            except BaseException:
                _SIGNALS.holder = _nobody
                raise
        return self

    def __exit__(self, *_: Any) -> None:
        if self._holds and _SIGNALS.holder() is self:
            try:
                _SIGNALS.holder = _nobody
                _SIGNALS.restore()
            finally:
                _SIGNALS.call(sys._getframe())


def signals_wait(function: _Function) -> _Function:
    """Of a function during which signals wait."""
    @functools.wraps(function)
    def waiting(*arguments: Any, **settings: Any) -> Any:
        with SignalsWait():
            return function(*arguments, **settings)

    return cast(_Function, waiting)
