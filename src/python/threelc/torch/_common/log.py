# SPDX-License-Identifier: MIT
"""What an exchange did, told by the logging module."""
from __future__ import annotations

import logging
from typing import Callable

from .arguments import whole
from .groups import Traffic

_LOGGER = logging.getLogger("threelc")


class Log:
    """Writes a line in every so many steps, on rank 0."""

    def __init__(self, rank: int, unit: str = "step") -> None:
        """unit: what is counted."""
        self._tells = rank == 0
        self._unit = unit
        self._every = 0
        self._count = 0
        self._before = Traffic(0, 0, 0, 0.0, 0.0)

    def set_every(self, count: int, now: Traffic) -> None:
        """0: never. now: what was counted until now."""
        self._every = whole(count, "log_every", 0)
        self._count = 0
        self._before = now

    def look(self, number: int, now: Callable[[], Traffic]) -> None:
        """After each step. number: of the step. now(): what was counted until now."""
        self._count += 1
        if not self._tells or not self._every or self._count % self._every:
            return
        found, before = now(), self._before
        self._before = found
        sent, floats = found.sent - before.sent, found.float_bytes - before.float_bytes
        codec, wire = found.codec_seconds - before.codec_seconds, found.wire_seconds - before.wire_seconds
        _LOGGER.info("%s %d: %d bytes sent in a %s, %.1f times fewer than floats; %.1f ms in codecs, %.1f ms on the "
                     "wire", self._unit, number, sent // self._every, self._unit, floats / sent if sent else 1.0,
                     1e3 * codec / self._every, 1e3 * wire / self._every)
