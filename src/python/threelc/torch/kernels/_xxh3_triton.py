# SPDX-License-Identifier: MIT
"""The same as sums() of _xxh3.py, as a kernel of Triton. Numbers are unsigned, of 64 bits."""
from __future__ import annotations

import torch
import triton
import triton.language as tl

from . import _xxh3
from ._xxh3 import LANES, STRIPES

PIECES = 16  # of a program

_SCRAMBLE, _AVALANCHE = tl.constexpr(_xxh3.SCRAMBLE), tl.constexpr(_xxh3.AVALANCHE)


@triton.jit
def _unsigned(place, mask):
    return tl.load(place, mask, other=0).to(tl.uint64, bitcast=True)


@triton.jit
def _secret(table, number, seeds):
    word = tl.load(table + number).to(tl.uint64, bitcast=True)[None, :]
    return tl.where((number & 1)[None, :] == 0, word + seeds, word - seeds)


@triton.jit
def _key(table, number, seeds, BYTE: tl.constexpr):
    """number: the lanes."""
    BITS: tl.constexpr = BYTE % 8 * 8
    key = _secret(table, number + BYTE // 8, seeds)
    if BITS:
        key = key >> BITS | _secret(table, number + (BYTE // 8 + 1), seeds) << (64 - BITS)
    return key


@triton.jit
def _mixed(lanes, place, swapped, key, mask):
    """After a stripe."""
    keyed = _unsigned(place, mask) ^ key
    return lanes + _unsigned(swapped, mask) + (keyed & 0xffffffff) * (keyed >> 32)


@triton.jit
def _sums(words, found, table, pieces, PIECES: tl.constexpr, WORDS: tl.constexpr, LANES: tl.constexpr,
          STRIPES: tl.constexpr, START: tl.constexpr, SCRAMBLE_KEY: tl.constexpr, LAST_KEY: tl.constexpr,
          MERGE_KEY: tl.constexpr, LENGTH: tl.constexpr):
    """found: the sum of each program. WORDS: of a piece. LENGTH: what its hash begins with."""
    piece = tl.program_id(0).to(tl.int64) * PIECES + tl.arange(0, PIECES)
    lane = tl.arange(0, LANES)
    mask = (piece < pieces)[:, None]
    seeds = piece.to(tl.uint64)[:, None]
    place = words + piece[:, None] * WORDS + lane[None, :]
    swapped = words + piece[:, None] * WORDS + (lane ^ 1)[None, :]
    lanes = tl.load(table + START + lane).to(tl.uint64, bitcast=True)[None, :] + tl.zeros((PIECES, LANES), tl.uint64)
    for i in range(WORDS // LANES - 1):
        lanes = _mixed(lanes, place, swapped, _secret(table, lane + i % STRIPES, seeds), mask)
        place += LANES
        swapped += LANES
        if i % STRIPES == STRIPES - 1:
            lanes = (lanes ^ lanes >> 47 ^ _key(table, lane, seeds, SCRAMBLE_KEY)) * _SCRAMBLE
    lanes = _mixed(lanes, place, swapped, _key(table, lane, seeds, LAST_KEY), mask)
    even, odd = tl.split(tl.reshape(lanes ^ _key(table, lane, seeds, MERGE_KEY), (PIECES, LANES // 2, 2)))
    hashes = tl.sum(even * odd ^ tl.umulhi(even, odd), 1) + LENGTH
    hashes = (hashes ^ hashes >> 37) * _AVALANCHE
    hashes = hashes ^ hashes >> 32
    tl.store(found + tl.program_id(0), tl.sum(tl.where(piece < pieces, hashes, 0), 0).to(tl.int64, bitcast=True))


def sums(words: torch.Tensor, pieces: int) -> torch.Tensor:
    """Numbers whose sum is that of the hashes. words: all bytes, as little-endian integers."""
    found = torch.empty(-(-pieces // PIECES), dtype=torch.int64, device=words.device)
    table = _xxh3.table(_xxh3.SECRET + _xxh3.START, words.device)
    each = len(words) // pieces
    _sums[(len(found),)](words, found, table, pieces, PIECES=PIECES, WORDS=each, LANES=LANES, STRIPES=STRIPES,
                         START=len(_xxh3.SECRET), SCRAMBLE_KEY=_xxh3.SCRAMBLE_KEY, LAST_KEY=_xxh3.LAST_KEY,
                         MERGE_KEY=_xxh3.MERGE_KEY, LENGTH=_xxh3.PER_WORD * each % 2**64)
    return found
