# SPDX-License-Identifier: MIT
"""Quartic bytes of Golomb codes as Triton kernels, in three sweeps over the codes.

Where a code begins is known when the one before it was read. So a reader is an automaton. Its state says how many bits
of a code are left after the zero that ends the quotient, or 0: with the parameter b these are b + 2 states. A table has
what a byte makes of each state. The first sweep reads each tile from all states at once (Mytkowicz et al.,
Data-Parallel Finite-State Machines, 2014), so only the states before whole tiles follow from each other. The second one
keeps the state before each byte, and sums how far positions go. In the third one each byte is read by itself, and the
symbols are written. Each bit adds to the position by itself, so codes may cross any border. All is arithmetic on
integers.
"""
from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import Dict, Iterable, Iterator, Sequence, Tuple

import torch
import triton
import triton.language as tl

from ._golomb_torch import Coded
from ._zerorun_torch import ZERO

SIZE = 64  # bytes of a tile
TILES = 16  # of a program


@lru_cache(maxsize=64)
def _tables(parameters: Tuple[int, ...], device: torch.device) -> torch.Tensor:
    """By 256 state + byte: 512 * what the byte adds to the position + 64 * how many codes end in it + the next state.
    One table after the other."""
    found, byte = [], torch.arange(256)
    for b in parameters:
        state = torch.arange(b + 2).unsqueeze(1).repeat(1, 256)
        added, codes = torch.zeros_like(state), torch.zeros_like(state)
        for i in range(7, -1, -1):
            bit = byte >> i & 1
            added += torch.where(state == 0, torch.where(bit == 1, 1 << b, 1), (bit << state) >> 2)
            codes += state == 1
            state = torch.where(state == 0, (1 - bit) * (b + 1), state - 1)
        found.append(((added << 9) + (codes << 6) + state).view(-1))
    return torch.cat(found).to(device)


@triton.jit
def _tiles(pieces, facts, count, TILES: tl.constexpr, SIZE: tl.constexpr):
    """Of the tiles of a program: which they are, and whether there are so many; the facts of the piece of each; the
    first byte, and where the codes end."""
    tile = tl.program_id(0).to(tl.int64) * TILES + tl.arange(0, TILES)
    mask = tile < count
    facts += tl.load(pieces + tile, mask=mask, other=0) * 8
    first = tl.load(facts) + (tile - tl.load(facts + 2)) * SIZE
    return tile, mask, facts, first, tl.where(mask, tl.load(facts + 1), 0)


@triton.jit(do_not_specialize=["count"])
def _from_all(payloads, pieces, facts, tables, states, count, TILES: tl.constexpr, SIZE: tl.constexpr,
              STATES: tl.constexpr):
    """The state after a tile, for each before it. After the last tile of a piece it is that before the next piece."""
    tile, mask, facts, first, end = _tiles(pieces, facts, count, TILES, SIZE)
    state = tl.zeros([TILES, STATES], tl.int64) + tl.arange(0, STATES)[None, :]
    table, there = tl.load(facts + 3)[:, None], mask[:, None] & (state < tl.load(facts + 4)[:, None] + 2)
    for i in range(SIZE):
        byte = tl.load(payloads + first + i, mask=first + i < end, other=0).to(tl.int64)
        state = tl.load(tables + table + state * 256 + byte[:, None], mask=there, other=0) & 63
    state = tl.where((first + SIZE < end)[:, None], state, 0)
    tl.store(states + tile[:, None] * STATES + tl.arange(0, STATES)[None, :], state, mask=mask[:, None])


@triton.jit(do_not_specialize=["count"])
def _follow(payloads, pieces, facts, tables, entries, states, sums, count, TILES: tl.constexpr, SIZE: tl.constexpr):
    """The state before each byte. sums: what a tile adds to the position, and how many codes end in it."""
    tile, mask, facts, first, end = _tiles(pieces, facts, count, TILES, SIZE)
    table, state = tl.load(facts + 3), tl.load(entries + tile, mask=mask, other=0)
    added, codes = tl.zeros([TILES], tl.int64), tl.zeros([TILES], tl.int64)
    for i in range(SIZE):
        byte = tl.load(payloads + first + i, mask=first + i < end, other=0).to(tl.int64)
        tl.store(states + tile * SIZE + i, state.to(tl.uint8), mask=mask)
        step = tl.load(tables + table + state * 256 + byte)
        added, codes, state = added + (step >> 9), codes + (step >> 6 & 7), step & 63
    tl.store(sums + 2 * tile, added, mask=mask)
    tl.store(sums + 2 * tile + 1, codes, mask=mask)


@triton.jit(do_not_specialize=["count"])
def _write(payloads, pieces, facts, tables, states, starts, words, count, TILES: tl.constexpr, SIZE: tl.constexpr):
    """starts: the sums of all tiles before. words: quartic bytes of symbols 0. A symbol changes its digit, and nothing
    else, so the order does not matter."""
    tile, mask, facts, first, end = _tiles(pieces, facts, count, TILES, SIZE)
    i = tl.arange(0, SIZE)[None, :]
    at = first[:, None] + i
    byte = tl.load(payloads + at, mask=at < end[:, None], other=0).to(tl.int64)
    state = tl.load(states + tile[:, None] * SIZE + i, mask=mask[:, None], other=0).to(tl.int64)
    step = tl.load(tables + tl.load(facts + 3)[:, None] + state * 256 + byte)
    origin = starts + 2 * tl.load(facts + 2)
    added = tl.load(starts + 2 * tile, mask=mask, other=0) - tl.load(origin)
    codes = tl.load(starts + 2 * tile + 1, mask=mask, other=0) - tl.load(origin + 1)
    following = added[:, None] + tl.cumsum(step >> 9, 1) - (step >> 9)  # 1 above the position that was read so far
    rank = codes[:, None] + tl.cumsum(step >> 6 & 7, 1) - (step >> 6 & 7)
    b, k = tl.load(facts + 4)[:, None], tl.where(mask, tl.load(facts + 5), 0)[:, None]
    length, quartic = tl.load(facts + 6)[:, None], tl.load(facts + 7)[:, None]
    one = tl.zeros([TILES, SIZE], tl.int64) + 1
    for j in tl.static_range(8):
        bit = byte >> (7 - j) & 1
        is_sent = (state == 1) & (rank < k)
        place = following - 1
        digit = 81 * one
        for _ in tl.static_range(4):  # of five streams
            is_later = place >= length
            digit = tl.where(is_later, digit // 3, digit)
            place = tl.where(is_later, place - length, place)
        is_sent = is_sent & (place < length)  # no write beyond the piece, whatever the codes say
        place += quartic
        change = tl.where(bit == 1, -digit, digit).to(tl.int32) << ((place & 3) * 8).to(tl.int32)
        tl.atomic_add(words + (place >> 2), change, mask=is_sent, sem="relaxed")
        rank += (state == 1).to(tl.int64)
        following += tl.where(state == 0, tl.where(bit == 1, one << b, 1), (bit << state) >> 2)
        state = tl.where(state == 0, (1 - bit) * (b + 1), state - 1)


def expand(payloads: torch.Tensor, pieces: Sequence[Coded]) -> torch.Tensor:
    """The same as in _golomb_torch.py."""
    device, lengths = payloads.device, [-(-piece.n // 5) for piece in pieces]
    words = torch.full((sum(lengths) // 4 + 1,), ZERO * 0x01010101, dtype=torch.int32, device=device)
    quartic = words.view(torch.uint8)[:sum(lengths)]
    at, octets = _last_bytes(tuple(piece.n for piece in pieces), device)
    quartic[at] = octets
    tiles = [-(-(piece.size - piece.head) // SIZE) for piece in pieces]
    count, parameters = sum(tiles), tuple(sorted({piece.b for piece in pieces}))
    if not count:
        return quartic
    tables_of = dict(zip(parameters, _starts([256 * (b + 2) for b in parameters])))
    facts = torch.tensor([
        (first + piece.head, first + piece.size, tile, tables_of[piece.b], piece.b, piece.k, length, begin)
        for first, tile, length, begin, piece in zip(_starts([piece.size for piece in pieces]), _starts(tiles), lengths,
                                                     _starts(lengths), pieces)], dtype=torch.int64).to(device)
    piece_of = torch.arange(len(pieces), device=device).repeat_interleave(torch.tensor(tiles).to(device),
                                                                          output_size=count)
    sources = payloads, piece_of, facts, _tables(parameters, device)
    states = 1 << (parameters[-1] + 1).bit_length()
    exits = torch.empty(count, states, dtype=torch.int64, device=device)
    before = torch.empty(count * SIZE, dtype=torch.uint8, device=device)
    sums = torch.empty(count, 2, dtype=torch.int64, device=device)
    grid = -(-count // TILES),
    with torch.cuda.device_of(payloads):
        _from_all[grid](*sources, exits, count, TILES=TILES, SIZE=SIZE, STATES=states)
        _follow[grid](*sources, _passed(exits), before, sums, count, TILES=TILES, SIZE=SIZE, num_warps=1)
        _write[grid](*sources, before, sums.cumsum(0) - sums, words, count, TILES=TILES, SIZE=SIZE, num_warps=8)
    return quartic


def _passed(exits: torch.Tensor) -> torch.Tensor:
    """The states before the first tile, before the second one and so on, and after the last one."""
    if not len(exits):
        return exits.new_zeros(1)
    first, second = exits[::2], exits[1::2]
    found = exits.new_empty(len(exits) + 1)
    found[::2] = _passed(second.gather(1, first[:len(second)]))
    found[1::2] = first.gather(1, found[:-1:2].unsqueeze(1)).squeeze(1)
    return found


def _starts(sizes: Iterable[int]) -> Iterator[int]:
    """Where each begins, if one follows the other."""
    return accumulate(sizes, initial=0)


@lru_cache(maxsize=256)
def _last_bytes(ns: Tuple[int, ...], device: torch.device) -> Tuple[torch.Tensor, torch.Tensor]:
    """The bytes that have digits of no symbol, which are 0, and where they are."""
    found: Dict[int, int] = {}
    for n, begin in zip(ns, _starts(-(-n // 5) for n in ns)):
        for place in range(n, n + -n % 5):
            stream, at = divmod(place, -(-n // 5))
            found[begin + at] = found.get(begin + at, ZERO) - 3 ** (4 - stream)
    return (torch.tensor(list(found), dtype=torch.int64, device=device),
            torch.tensor(list(found.values()), dtype=torch.uint8, device=device))
