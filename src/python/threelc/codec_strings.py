# SPDX-License-Identifier: MIT
"""Codec strings: what they are made of, and how large their frames become."""
from __future__ import annotations

from ctypes import byref, c_size_t, create_string_buffer, sizeof
from dataclasses import dataclass
from functools import lru_cache
from typing import Iterable, List, Mapping, Optional, Tuple, Union

from . import _c
from ._arrays import DTypeLike, dtype_of
from ._c import EntryKind
from ._errors import Status, error_of
from ._library import check, coded, count, described, lib, listed, text


def check_codec(codec: str) -> None:
    """Raises ParameterError with a sentence that says what is wrong with a codec string, and where."""
    if not isinstance(codec, str):
        raise TypeError(f'a codec is a string such as "3lc:s=1.75", not {described(codec)}')
    message = create_string_buffer(_c.MESSAGE_SIZE)
    status = lib.tlc_codec_check(coded(codec, "codec"), message, len(message))
    if status:
        raise error_of(status, f"codec {codec!r}: {text(message.value)}")


def codec_list(codecs: Union[None, str, Iterable[str]]) -> Optional[bytes]:
    """Codecs as the library takes them, with ';' between them."""
    if codecs is None:
        return None
    return coded(codecs if isinstance(codecs, str) else ";".join(listed(codecs, None, "reserve", "codecs")), "reserve")


@lru_cache(maxsize=None)
def quantizer_of(codec: str) -> Tuple[str, Mapping[str, str]]:
    """The name of a codec's quantizer, and its parameters as they are written."""
    name, _, parameters = codec.partition("+")[0].partition(":")
    for entry in codecs():
        if entry.name == name and entry.stages is not None:
            name = entry.stages.partition("+")[0]
    return name, dict(text.split("=") for text in parameters.split(",")) if parameters else {}


@lru_cache(maxsize=None)
def stages_of(codec: str) -> Tuple[str, ...]:
    """The names of a codec's stages after its quantizer."""
    first, *rest = codec.split("+")
    for entry in codecs():
        if entry.name == first.partition(":")[0] and entry.stages is not None:
            rest = entry.stages.split("+")[1:] + rest
    return tuple(stage.partition(":")[0] for stage in rest)


def codec_bound(codec: str, n: int, dtype: DTypeLike = "f32") -> int:
    """The largest frame of a codec for n values, in bytes, with a checksum: what a receiver needs."""
    check_codec(codec)
    bound = c_size_t()
    check(lib.tlc_codec_bound(coded(codec, "codec"), dtype_of(dtype), count(n, "n"), byref(bound)))
    return bound.value


@dataclass(frozen=True)
class CodecParameter:
    """A parameter of a stage, as in "3lc:s=1.75"."""

    key: str
    range: str
    meaning: str


@dataclass(frozen=True)
class CodecEntry:
    """A short name or a stage of codec strings."""

    name: str
    stages: Optional[str]
    """of a short name: what it stands for"""
    meaning: str
    source: str
    """paper and section"""
    takes: str
    gives: str
    kind: EntryKind
    parameters: Tuple[CodecParameter, ...]
    feedback: bool
    """error feedback by default"""
    complete: bool
    """the name alone is a codec"""


def codecs() -> List[CodecEntry]:
    """The short names and stages that codec strings are made of."""
    found: List[CodecEntry] = []
    entry = _c.CodecEntry(struct_size=sizeof(_c.CodecEntry))
    while lib.tlc_codec_list(len(found), byref(entry)) == Status.OK:
        found.append(CodecEntry(
            name=text(entry.name), stages=None if entry.list is None else text(entry.list), meaning=text(entry.meaning),
            source=text(entry.source), takes=text(entry.takes), gives=text(entry.gives), kind=EntryKind(entry.kind),
            parameters=tuple(CodecParameter(text(p.key), text(p.range), text(p.meaning))
                             for p in entry.param[:entry.param_count]),
            feedback=bool(entry.feedback), complete=bool(entry.codec)))
    return found
