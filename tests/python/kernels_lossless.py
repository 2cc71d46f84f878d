# SPDX-License-Identifier: MIT
"""Kernels of zero-run and Golomb coding, and torch operations, against the C library, for kernels.py: golden vectors,
and random quartic bytes."""
import random

import kernels  # before triton is imported
import numpy
import torch

import threelc
from test_vectors import octets
from threelc.codec_strings import stages_of
from threelc.torch.kernels import _golomb_expand_triton, _golomb_triton, _zerorun_triton, golomb, zerorun
from threelc.torch.kernels.quantizer import Quantizer

CODECS = ("3lc", "3lc-golomb")
RUNS = zerorun.ZeroRuns(_zerorun_triton.shrink, _zerorun_triton.expand)
GOLOMB = golomb.GolombCodes(_golomb_triton.codes, _golomb_expand_triton.expand)
PLACES = torch.tensor([[81], [27], [9], [3], [1]], dtype=torch.uint8)


def once(touched, kind, tensor, most=1):
    """Each byte of a tensor is touched, at most so often; no other bytes. (Words are what is known of tiles.)"""
    at = numpy.concatenate([numpy.zeros(0), *(where for where, size in getattr(touched, kind) if size == 1)])
    counts = numpy.bincount((at - tensor.data_ptr()).astype(numpy.int64), minlength=len(tensor))
    assert len(counts) == len(tensor) and ((counts > 0) & (counts <= most)).all(), kind


def shrink(quartic, sizes):
    """Each sweep reads a byte, and the one after it."""
    with kernels.Accesses() as touched:
        coded, ends = RUNS.shrink(quartic, sizes)
    once(touched, "reads", quartic, 4)
    once(touched, "writes", coded[:ends[-1] if len(ends) else 0])
    return coded, ends


def expand(coded, quartic):
    with kernels.Accesses() as touched:
        RUNS.expand(coded, quartic)
    once(touched, "reads", coded, 2)
    assert touched.bytes("writes") - 4 * -(-len(coded) // _zerorun_triton.TILE) == (quartic != 121).sum(), "writes"


def codes(quartic, ns):
    """The first sweep reads the digits of each stream, the two others also those before them."""
    with kernels.Accesses() as touched:
        coded, found = GOLOMB.codes(quartic, ns)
    once(touched, "reads", quartic, 25)
    words = numpy.concatenate([numpy.zeros(0), *(where for where, size in touched.maxima)]) - coded.data_ptr()
    assert ((words >= 0) & (words < len(coded) + 8)).all(), "words"
    return coded, found


def read_codes(payloads, pieces):
    """Each sweep reads a byte of codes, and a symbol changes a word."""
    with kernels.Accesses() as touched:
        quartic = GOLOMB.expand(payloads, pieces)
    at = numpy.concatenate([numpy.zeros(0, int), *(where.astype(numpy.int64) for where, _ in touched.reads)])
    at = at[(at >= payloads.data_ptr()) & (at < payloads.data_ptr() + len(payloads))] - payloads.data_ptr()
    wanted = [[0] * piece.head + [3] * (piece.size - piece.head) for piece in pieces]
    assert numpy.bincount(at, minlength=len(payloads)).tolist() == sum(wanted, []), "reads"
    words = numpy.concatenate([numpy.zeros(0, int), *(where.astype(numpy.int64) for where, _ in touched.maxima)])
    words -= quartic.data_ptr()
    assert len(words) == sum(piece.k for piece in pieces), "symbols"
    assert ((words >= 0) & (words < len(quartic))).all(), "words"
    return quartic


WAYS = {"3lc": [(zerorun.payloads, runs) for runs in (zerorun.ZeroRuns(shrink, expand), zerorun.OPERATIONS)],
        "3lc-golomb": [(golomb.payloads, way) for way in (golomb.GolombCodes(codes, read_codes), golomb.OPERATIONS)]}


def compare(codec, pieces):
    """Payloads of the C library and of each way. pieces: quartic bytes, and how many symbols they have."""
    ns, quartic = tuple(n for _, n in pieces), torch.cat([torch.zeros(3, dtype=torch.uint8),
                                                          *(piece for piece, _ in pieces)])[3:]
    frames = [threelc.compress_quartic(piece, [1.5] if n else [], n, codec) for piece, n in pieces]
    for payloads, way in WAYS[codec]:
        before = quartic.clone()
        made = payloads(way, quartic, ns, torch.Tensor.clone)
        assert torch.equal(quartic, before), "quartic bytes were written"
        for payload, frame, n in zip(made, frames, ns):
            assert threelc.compress_payload(payload, n, codec, [1.5] if n else []) == frame, f"{n} symbols: frames"
        if codec == "3lc":
            expanded = torch.full((len(quartic) + 2,), 7, dtype=torch.uint8)
            way.expand(torch.cat([quartic[:0], *made]), expanded[1:-1])
            assert torch.equal(expanded[1:-1], quartic) and expanded[[0, -1]].tolist() == [7, 7], "expanded"
        else:
            expand(way, [each for each in zip(made, *zip(*pieces)) if len(each[0]) < len(each[1])])


def expand(way, coded):
    """coded: payloads of Golomb codes, quartic bytes, and how many symbols."""
    pieces = [golomb.coded_of(bytes(payload.tolist()), n) for payload, _, n in coded]
    nothing = torch.empty(0, dtype=torch.uint8)
    expanded = way.expand(torch.cat([nothing, *(payload for payload, _, _ in coded)]), pieces)
    assert torch.equal(expanded, torch.cat([nothing, *(quartic for _, quartic, _ in coded)])), "expanded"


def written(n, b, positions):
    """A payload of symbols, which take turns to be -1 and 1, with a parameter of the caller's choice; their quartic
    bytes; n. The library reads it, too."""
    code, before, symbols = "", -1, torch.ones(n, dtype=torch.uint8)
    for i, at in enumerate(positions):
        quotient, remainder = divmod(at - before - 1, 1 << b)
        code += "1" * quotient + "0" + format(remainder, f"0{b}b")[:b] + str(1 - i % 2)
        before, symbols[at] = at, 2 * (i % 2)
    code += -len(code) % 8 * "0"
    payload = bytes([len(positions), b]) + int(code or "0", 2).to_bytes(len(code) // 8, "big")
    quartic, _ = quartic_of(symbols)
    frame = threelc.compress_payload(payload, n, "3lc-golomb", [1.0])
    assert torch.equal(threelc.decompress_quartic(frame, n, torch.empty_like(quartic))[0], quartic), "written"
    return torch.tensor(list(payload), dtype=torch.uint8), quartic, n


def quartic_of(symbols):
    """Quartic bytes of symbols + 1."""
    digits = torch.zeros(5 * -(-len(symbols) // 5), dtype=torch.uint8)
    digits[:len(symbols)] = symbols
    return (digits.view(5, -1) * PLACES).sum(0, dtype=torch.uint8), len(symbols)


def drawn(seed):
    """Some pieces, each with symbols that are as often 0 as in another one, and a stretch where all are."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    pieces = []
    for _ in range(draw.randint(1, 3)):
        n = draw.choice((0, 1, draw.randint(2, 40), draw.randint(41, 4000), draw.randint(4001, 11000),
                         5120 * draw.randint(1, 2) + draw.randint(-6, 6)))
        symbols = torch.randint(0, 2, (n,), dtype=torch.uint8) * 2
        symbols[torch.rand(n) < draw.choice((0, 0.3, 0.6, 0.9, 0.97, 0.999, 1))] = 1
        first = draw.randint(0, n)
        symbols[first:first + draw.choice((0, 2000))] = 1
        pieces.append(quartic_of(symbols))
    return pieces


def trial(codec, seed):
    try:
        compare(codec, drawn(seed))
    except Exception as error:
        raise AssertionError(f"{codec}, seed {seed}: {error}") from error


def golden():
    """Those of codecs that have these stages, without blocks."""
    def of(codec):
        quantizer = Quantizer.of(codec)
        return quantizer if quantizer and not quantizer.block and stages_of(codec) != ("quartic",) else None
    return kernels.records_of(of)


def replay(record):
    """What follows from the quartic bytes of the frames."""
    r = dict(record)
    codec, n = "3lc" if "zerorun" in stages_of(r["codec"]) else "3lc-golomb", int(r["n"])
    for i, _ in kernels.steps_of(record)[1]:
        frame = octets(record[i][1])
        quartic, scales = threelc.decompress_quartic(frame, n)
        quartic = torch.tensor(list(quartic), dtype=torch.uint8)
        for payloads, way in WAYS[codec]:
            payload, = payloads(way, quartic, (n,), torch.Tensor.clone)
            assert threelc.compress_payload(payload, n, r["codec"], scales, dtype=kernels.DTYPES[r["dtype"]],
                                            checksum=r["checksum"] == "1") == frame, r["name"]
            if codec == "3lc-golomb" and len(payload) < len(quartic):
                expand(way, [(payload, quartic, n)])
