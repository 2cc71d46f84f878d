# SPDX-License-Identifier: MIT
"""The golden vectors of tests/vectors through the package: frames, decoded values, sums, residuals, states, errors."""
import struct
import unittest
from pathlib import Path

import numpy
import threelc
from threelc import Status

VECTORS = Path(__file__).resolve().parents[1] / "vectors"
BITS = {"f32": "<u4", "f16": "<u2", "bf16": "<u2"}
NUMPY = {"f32": "<f4", "f16": "<f2", "bf16": "<u2"}


def records(name):
    """Each record as a list of (key, value)."""
    record = []
    for line in (VECTORS / name).read_text().splitlines() + [""]:
        if line.startswith("#"):
            continue
        if line:
            key, _, value = line.partition(" ")
            record.append((key, value))
        elif record:
            yield record
            record = []


def octets(text):
    return b"" if text == "-" else bytes.fromhex(text)


def array(text, dtype="f32"):
    return numpy.frombuffer(octets(text), NUMPY[dtype]).copy()


class Vectors(unittest.TestCase):
    def same(self, got, text, dtype="f32"):
        """Bit for bit, NaNs too."""
        self.assertEqual(got.view(BITS[dtype]).tobytes(), octets(text))

    def context(self, r, seed):
        return threelc.Context(int(r["n"]), r["codec"], r["dtype"], feedback=bool(int(r["feedback"])), seed=seed,
                               checksum=r.get("checksum") == "1")

    def each(self, found, least, check):
        """A failed check tells the name of the record."""
        self.assertGreater(len(found), least)
        for record in found:
            try:
                check(record, dict(record))
            except Exception as error:
                raise AssertionError(dict(record)["name"]) from error

    def test_good(self):
        self.each(list(records("good.txt")), 1000, self.good)

    def framed_again(self, frame, checksum):
        """The payload makes the same frame."""
        info = threelc.inspect(frame)
        header, n_size = info.header_size, max(1, -(-info.n.bit_length() // 7))
        scalars = [] if info.block else [x for x, in struct.iter_unpack("<f", frame[4 + n_size:header])]
        payload = numpy.frombuffer(frame, "u1")[header:header + info.payload_size]
        self.assertEqual(threelc.compress_payload(payload, info.n, info.codec, scalars, dtype=info.dtype,
                                                  checksum=checksum), frame)
        if scalars:
            self.assertRaises(threelc.CorruptError, threelc.compress_payload, payload, info.n, info.codec, scalars[:-1])
        longer = bytes(payload) + b"0" * (info.n + 1)  # than quartic bytes, too, which may take the place of positions
        self.assertRaises(threelc.CorruptError, threelc.compress_payload, longer, info.n, info.codec, scalars,
                          dtype=info.dtype)

    def good(self, record, r):
        n, dtype = int(r["n"]), r["dtype"]
        context = self.context(r, int(r["seed"]))
        residual = context.residual
        if "residual0" in r:
            numpy.asarray(residual)[:] = array(r["residual0"])
        frame = b""
        for i, (key, value) in enumerate(record):
            if key != "grad":
                continue
            frame = context.compress(None if value == "null" else array(value, dtype))
            self.assertEqual(frame, octets(record[i + 1][1]))
            self.assertLessEqual(len(frame), threelc.codec_bound(r["codec"], n, dtype))
            self.same(threelc.decompress(frame), record[i + 2][1])
        self.framed_again(frame, checksum=r.get("checksum") == "1")
        if context.residual is None:
            self.assertEqual(r["feedback"], "0")
        else:
            self.assertEqual(bytes(residual), octets(r["residual"]))
        self.assertEqual(context.state_dict()["state"], octets(r["state"]))
        fresh = self.context(r, 77)
        fresh.load_state_dict({"version": 1, "state": octets(r["state"])})
        self.assertEqual(fresh.state_dict(), context.state_dict())
        for other in ("f16", "bf16"):
            if f"decoded_{other}" in r:
                self.same(threelc.decompress(frame, dtype=other), r[f"decoded_{other}"], other)
        info = threelc.inspect(frame)
        self.assertEqual((info.n, info.codec, info.nonzero, info.clipped, info.checksum),
                         (n, r["info"], None if r["nonzero"] == "unknown" else int(r["nonzero"]), int(r["clipped"]),
                          r["checksum"] == "1"))
        self.assertEqual(threelc.peek(frame).n, n)
        if "add_sum" in r:
            weight = float(array(r["add_weight"])[0])
            self.same(threelc.decompress_add(frame, array(r["add_sum0"]), weight), r["add_sum"])
            self.same(threelc.decompress_add_many([frame], array(r["add_sum0"]), [weight]), r["add_sum"])
            if "mask" in r:
                self.same(threelc.mask(frame, array(r["add_sum0"])), r["mask"])
            else:
                self.assertRaises(threelc.UnsupportedError, threelc.mask, frame, array(r["add_sum0"]))

    def test_bad(self):
        self.each([record for record in records("bad.txt") if int(dict(record)["n"]) <= 4096], 1000, self.bad)

    def bad(self, _, r):
        frame, out = octets(r["frame"]), numpy.full(int(r["n"]), 7, "<f4")
        if r["status"] == "OK":
            self.same(threelc.decompress(frame, out), r["decoded"])
            return
        for decode in (threelc.decompress, threelc.decompress_add,
                       lambda frame, sum: threelc.decompress_add_many([frame], sum)):
            with self.assertRaises(threelc.Error) as caught:
                decode(frame, out)
            self.assertEqual(caught.exception.status, Status[r["status"]])
            self.assertTrue((out == 7).all())

    def test_bad_states(self):
        self.each(list(records("bad_state.txt")), 20, self.bad_state)

    def bad_state(self, _, r):
        context = self.context(r, 5)
        before = context.state_dict()
        state = {"version": 1, "state": octets(r["state"])}
        if r["status"] == "OK":
            context.load_state_dict(state)
            self.assertEqual(context.state_dict(), state)
            return
        with self.assertRaises(threelc.Error) as caught:
            context.load_state_dict(state)
        self.assertEqual(caught.exception.status, Status[r["status"]])
        self.assertEqual(context.state_dict(), before)
