# SPDX-License-Identifier: MIT
"""Messages of WeightSync: those of threelc.weights, with the dtypes that PyTorch has in the note."""
from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch

from ... import weights
from ..._arrays import WEIGHT_NAMES, weight_dtype_of
from ..._c import DType
from ..._errors import CorruptError, Status
from ..._json import parsed
from .sharing import Place
from .states import plain

_FLOATS = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
DTYPES = {getattr(torch, name): name for name in WEIGHT_NAMES if isinstance(getattr(torch, name, None), torch.dtype)}
DTYPES.update(_FLOATS)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Entry(NamedTuple):
    """A tensor of a message."""

    shape: List[int]
    """in weights"""
    dtype: str
    place: Place
    frame: Optional[Callable[[], Any]]
    """None: its values are in another tensor"""
    has_base: bool
    unchanged: bool
    """the frame says so"""
    result_digest: Optional[int]
    """of its weights after the message. None: there is none"""


class Message(NamedTuple):
    """Whose it is, and its tensors by their names."""

    trainer: bytes
    sequence: int
    full: bool
    entries: Dict[str, Entry]
    floats_only: bool = False
    """it has no tensors of other dtypes than f32, f16 and bf16, though the model may"""


def shape_of(shape: Sequence[int], dtype: str) -> List[int]:
    """The shape of a tensor of PyTorch in weights."""
    lengths = list(shape)
    if weight_dtype_of(dtype) == DType.F4_E2M1:  # PyTorch counts bytes, of two weights each
        lengths = [*lengths[:-1], 2 * lengths[-1]] if lengths else [2]
    return lengths


def same_dtype(told: str, mine: str) -> bool:
    """Whether a tensor of my dtype fits. Trainers without PyTorch tell the dtype of threelc.DType."""
    return told in (mine, weight_dtype_of(mine).name.lower())


def is_float(dtype: str) -> bool:
    """Whether messages of all formats have it."""
    return dtype in _FLOATS.values()


# ---- writing ----

def note_of(dtypes: Sequence[str]) -> bytes:
    """The note of a message whose entries have these dtypes."""
    names = sorted(set(dtypes))
    digits = {name: _DIGITS[i] for i, name in enumerate(names)}
    return json.dumps({"dtypes": names, "of": "".join(digits[name] for name in dtypes)}).encode()


def view_of(place: Place, number: Dict[str, int]) -> weights.View:
    """Where a tensor lies. number: of each entry, by its name."""
    if place.root_strides is None:
        return weights.View(number[place.root])
    return weights.View(number[place.root], place.root_strides, place.strides, place.first)


# ---- reading ----

def read(source: Any) -> Message:
    """The parts of a message. CorruptError: it is none, or was altered."""
    reader = weights.Reader(source)
    listed = list(reader)
    names = [plain(entry.name) for entry in listed]
    if len(set(names)) < len(names):
        raise CorruptError(Status.CORRUPT, "two tensors of the message have the same name")
    dtypes = _dtypes(reader.note(), listed)
    entries = {}
    for name, dtype, entry in zip(names, dtypes, listed):
        place = Place(name)
        if entry.view is not None:
            place = Place(names[entry.view.root], entry.view.root_strides, entry.view.strides, entry.view.first)
        entries[name] = Entry(list(entry.shape), dtype, place, None if entry.view else _frame(reader, entry),
                              entry.has_base, entry.has_base and entry.base_digest == entry.result_digest,
                              None if entry.view else entry.result_digest)
    info = reader.info
    return Message(info.trainer, info.sequence, info.full, entries)


def _frame(reader: weights.Reader, entry: weights.Entry) -> Callable[[], Any]:
    return lambda: reader.frame(entry)


def _dtypes(note: bytes, listed: Sequence[weights.Entry]) -> List[str]:
    """The dtype of each entry, as PyTorch calls it if the note tells that."""
    told = [entry.dtype.name.lower() for entry in listed]
    try:
        found = parsed(note)
        names = [found["dtypes"][_DIGITS.index(digit)] for digit in found["of"]]
        fits = [WEIGHT_NAMES.get(name) for name in names] == [entry.dtype for entry in listed]
    except (ValueError, LookupError, TypeError):
        fits = False  # the trainer is another program, which has another note
    return names if fits else told
