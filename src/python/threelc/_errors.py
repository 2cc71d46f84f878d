# SPDX-License-Identifier: MIT
"""Status codes of the library as exceptions."""
from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Dict, Optional, Sequence, Type

from ._c import Numbers

if TYPE_CHECKING:
    from .exchange import Outcome


class Status(enum.IntEnum, metaclass=Numbers):
    """What a call of the library returned (tlc_status). The numbers never change."""

    OK = 0
    PARAM = 1
    NOMEM = 2
    CAPACITY = 3
    NONFINITE = 4
    CORRUPT = 5
    CHECKSUM = 6
    VERSION = 7
    SIZE = 8
    UNSUPPORTED = 9
    STEP = 10
    ORDER = 11
    TRANSPORT = 12
    BASE = 13


class Error(Exception):
    """A call failed. `status` is its Status, `sentence` says what went wrong.

    `outcome` tells more if the call was one of an exchange object, and is None otherwise.
    """

    def __init__(self, status: Status, sentence: str, outcome: Optional[Outcome] = None) -> None:
        super().__init__(status, sentence, outcome)
        self.status = status
        self.sentence = sentence
        self.outcome = outcome

    def __str__(self) -> str:
        return self.sentence


class ParameterError(Error, ValueError):
    """An argument is out of its range, or a codec string is wrong."""


class NoMemoryError(Error, MemoryError):
    """There is not enough memory."""


class CapacityError(Error, ValueError):
    """A buffer is too small, or the object was created for smaller frames."""


class NonFiniteError(Error, ArithmeticError):
    """A NaN or an infinity."""


class CorruptError(Error, ValueError):
    """The bytes are no frame, message or state: truncated, altered, or of another version."""


class SizeError(Error, ValueError):
    """The frame or state has another number of values, or a size overflows."""


class UnsupportedError(Error, NotImplementedError):
    """A codec, ISA or operation that is not available here."""


class StepError(Error):
    """Exchange: the step failed for all, and nothing is lost. The next step can begin."""

    frames: Sequence[Optional[memoryview]] = ()
    """of Worker.pull_frames(): those of servers on which the step did not fail"""


class OrderError(Error):
    """Exchange: a call out of turn, or a message of another step."""


class BaseError(Error, ValueError):
    """The weights are not those that the delta begins with."""


_CLASSES: Dict[Status, Type[Error]] = {
    Status.PARAM: ParameterError,
    Status.NOMEM: NoMemoryError,
    Status.CAPACITY: CapacityError,
    Status.NONFINITE: NonFiniteError,
    Status.CORRUPT: CorruptError,
    Status.CHECKSUM: CorruptError,
    Status.VERSION: CorruptError,
    Status.SIZE: SizeError,
    Status.UNSUPPORTED: UnsupportedError,
    Status.STEP: StepError,
    Status.ORDER: OrderError,
    Status.BASE: BaseError,
}


def error_of(status: int, sentence: str, outcome: Optional[Outcome] = None) -> Error:
    """The exception for a status."""
    known = Status(status)
    return _CLASSES.get(known, Error)(known, sentence, outcome)
