# SPDX-License-Identifier: MIT
"""Checks of arguments. A message says what was given and what is allowed."""
from __future__ import annotations

import difflib
import math
import operator
from typing import Any, Iterable, Optional, Sequence, Tuple


def shown(value: Any) -> str:
    """For messages."""
    return repr(value) if isinstance(value, (str, int, float, type(None))) else f"a {type(value).__name__}"


def whole(value: Any, name: str, low: int, high: Optional[int] = None) -> int:
    """A whole number of a range."""
    few = high is not None and high < 2**16 - 1
    allowed = f"from {low} to {high}" if few else f"at least {low}"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} should be a whole number {allowed}, not {shown(value)}")
    number = operator.index(value)
    if number < low or (high is not None and number > high):
        raise ValueError(f"{name} should be {allowed if few or number < low else f'at most {high}'}, not {number}")
    return number


def codec_list(codecs: Any, name: str) -> Tuple[str, ...]:
    """A list of codecs."""
    if isinstance(codecs, str) or not isinstance(codecs, Iterable):
        raise TypeError(f"{name} should be a list of codecs, such as ['3lc'], not {shown(codecs)}")
    found = tuple(codecs)
    for codec in found:
        if not isinstance(codec, str):
            raise TypeError(f"{name} should have codecs, such as '3lc', not {shown(codec)}")
    return found


def scaler_of(scaler: Any) -> Any:
    """A loss scaler. None: there is none, or it is switched off."""
    if scaler is None:
        return None
    if isinstance(scaler, type):
        raise TypeError(f"scaler should be a GradScaler, not the class: give {scaler.__name__}()")
    if not callable(getattr(scaler, "get_scale", None)):
        raise TypeError(f"scaler should be a GradScaler, or another object with get_scale(), not {shown(scaler)}")
    is_enabled = getattr(scaler, "is_enabled", None)
    return scaler if is_enabled is None or is_enabled() else None


def check_numbers(min_numel: Any, seed: Any, threads: Any) -> None:
    """Arguments that all ways have."""
    whole(min_numel, "min_numel", 0, 2**62)
    whole(seed, "seed", 0, 2**64 - 1)
    if threads is not None:
        whole(threads, "threads", 0, 2**16 - 1)


def weight_of(value: Any) -> float:
    """A weight in a mean."""
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"weight should be a number above 0, not {shown(value)}")
    number = float(value)
    if not math.ldexp(1, -50) <= number <= math.ldexp(1, 50):
        raise ValueError(f"weight should be from 2^-50 to 2^50, not {number}")
    return number


def one_of(value: Any, allowed: Sequence[str], name: str) -> str:
    """A name of a list."""
    if value in allowed:
        return str(value)
    near = difflib.get_close_matches(str(value).lower(), allowed, 1)
    raise ValueError(f"{name} should be one of {', '.join(allowed)}, not {shown(value)}"
                     + (f": did you mean {near[0]}?" if near else ""))
