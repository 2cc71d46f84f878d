# SPDX-License-Identifier: MIT
"""Frames whose symbols, payloads or members were made elsewhere, in numpy here; what frames and lists of codecs say."""
import ctypes
import unittest
from unittest import mock

import numpy
import threelc
from sentences import check_sentences
from threelc import _library, codec_strings, quartic

DRAW = numpy.random.default_rng(1)
VALUES = numpy.array([1, -1, 0, 0, 2, 0.1], "f4")


def quartic_of(symbols, block):
    """As compress_quartic() has it: five partitions of each block, in base 3."""
    found = b""
    for first in range(0, len(symbols), block or len(symbols) or 1):
        part = symbols[first:first + block] if block else symbols
        length = -(-len(part) // 5)
        padded = numpy.zeros(5 * length, "u1")
        padded[:len(part)] = part + 1
        found += (numpy.array([[81], [27], [9], [3], [1]]) * padded.reshape(5, length)).sum(0).astype("u1").tobytes()
    return found


class Strings(unittest.TestCase):
    def test_quantizers_and_stages(self):
        for codec, quantizer, parameters, stages in (
                ("3lc", "ternary", {}, ("quartic", "zerorun")), ("3lc-golomb", "ternary", {}, ("golomb",)),
                ("3lc:s=1.75,block=64", "ternary", {"s": "1.75", "block": "64"}, ("quartic", "zerorun")),
                ("ternary:s=1.5+quartic", "ternary", {"s": "1.5"}, ("quartic",)), ("raw", "raw", {}, ()),
                ("sbc:p=0.2", "sparse-binary", {"p": "0.2"}, ("golomb",)), ("qsgd:bits=4", "qsgd", {"bits": "4"}, ()),
                ("topk:p=0.1,bits=2+golomb", "topk", {"p": "0.1", "bits": "2"}, ("golomb",)), ("topk", "topk", {}, ())):
            self.assertEqual(codec_strings.quantizer_of(codec), (quantizer, parameters))
            self.assertEqual(codec_strings.stages_of(codec), stages)

    def test_codecs_are_looked_up_once(self):
        """Not in each step of each tensor."""
        found = [(call, call("3lc:s=1.5")) for call in (codec_strings.quantizer_of, codec_strings.stages_of)]
        with mock.patch.object(codec_strings, "codecs", side_effect=AssertionError):
            for call, result in found:
                self.assertEqual(call("3lc:s=1.5"), result)

    def test_entries(self):
        """A short name, and a stage: what the documents say of them."""
        found = {entry.name: entry for entry in threelc.codecs()}
        short, stage, packer = (found[name] for name in ("3lc-golomb", "topk", "golomb"))
        self.assertEqual((short.stages, short.kind.name, short.feedback, short.complete),
                         ("ternary+golomb", "SHORT_NAME", True, True))
        self.assertEqual((stage.stages, stage.kind.name, stage.takes, stage.gives), (None, "QUANTIZER", "floats",
                                                                                     "members"))
        self.assertEqual([(each.key, each.range.partition(",")[0]) for each in stage.parameters],
                         [("p", "0 < p <= 1"), ("bits", "32"), ("select", "sampled or exact")])
        self.assertEqual((packer.kind.name, packer.parameters, packer.feedback, packer.complete),
                         ("PACKER", (), False, False))

    def test_sentences(self):
        known = "there are " + ", ".join(entry.name for entry in threelc.codecs())
        check_sentences(
            self,
            (lambda: threelc.Context(6, 5), TypeError, 'a codec is a string such as "3lc:s=1.75", not 5'),
            (lambda: threelc.Context(6, "4lc"), threelc.ParameterError,
             f"""codec '4lc': at 0: "4lc": no codec or stage has this name (did you mean 3lc?); {known}"""),
            (lambda: threelc.Context(6, reserve=5), TypeError, "reserve should be a list of codecs, not 5"),
            (lambda: threelc.codec_bound("3lc", -1), ValueError, "n should be from 0 to 2^64 - 1, not -1"),
            (lambda: threelc.codec_bound("3lc", 1.5), TypeError, "n should be a whole number, not 1.5"))

    def test_bounds(self):
        """A frame with a checksum of raw is exactly as long."""
        for dtype, kind in (("f32", "f4"), ("f16", "f2")):
            frame = threelc.Context(6, "raw", dtype, checksum=True).compress(numpy.zeros(6, kind))
            self.assertEqual(len(frame), threelc.codec_bound("raw", 6, dtype))


class Symbols(unittest.TestCase):
    def test_counts(self):
        for n, block, blocks, size in ((0, 0, 0, 0), (0, 3, 0, 0), (1, 0, 1, 1), (5, 0, 1, 1), (6, 0, 1, 2),
                                       (7, 3, 3, 3), (12, 6, 2, 4), (13, 6, 3, 5), (11, 5, 3, 3), (5, 7, 1, 1),
                                       (10, 10, 1, 2)):
            self.assertEqual((quartic.block_count(n, block), quartic.quartic_bytes(n, block)), (blocks, size))

    def test_frames(self):
        """Of symbols that are known: the bytes of a context, and the way back."""
        for codec, block in (("3lc", 0), ("3lc-golomb", 0), ("ternary:block=12+golomb", 12), ("3lc:block=7", 7)):
            for n in (1, 61, 300):
                symbols, blocks = DRAW.integers(-1, 2, n), quartic.block_count(n, block)
                symbols[::block or n] = 1  # so that each block has its scale
                scales = [2.0 ** (i % 3) for i in range(blocks)]
                given, made = symbols * numpy.repeat(scales, block or n)[:n], quartic_of(symbols, block)
                for kind, dtype, checksum in (("f4", "f32", False), ("f2", "f16", True)):
                    frame = threelc.Context(n, codec, dtype, checksum=checksum).compress(given.astype(kind))
                    self.assertEqual(threelc.compress_quartic(made, scales, n, codec, dtype=dtype, checksum=checksum),
                                     frame, (codec, n))
                    self.assertEqual(threelc.decompress_quartic(frame, n), (made, scales))
                    info = threelc.inspect(frame)
                    payload = frame[info.header_size:info.header_size + info.payload_size]
                    again = threelc.compress_payload(payload, n, codec, [] if block else scales, dtype=dtype,
                                                     checksum=checksum)
                    self.assertEqual(again, frame)
        self.assertEqual(threelc.compress_quartic(made, scales, n, "3lc:block=7"),
                         threelc.Context(n, "3lc:block=7").compress(given.astype("f4")))  # f32, without a checksum

    def test_sentences(self):
        check_sentences(
            self,
            (lambda: threelc.compress_quartic(b"yy", [1, 2], 6), ValueError, "1 scales are needed, not 2"),
            (lambda: threelc.compress_quartic(b"yy", [1], 6, "3lc:block=3"), ValueError,
             "2 scales are needed, not 1"),
            (lambda: threelc.compress_quartic(b"yy", 1.0, 6), TypeError,
             "scales should be a list of numbers, not 1.0"),
            (lambda: threelc.compress_quartic(b"yy", ["x"], 6), TypeError,
             "one of scales should be a number, not 'x'"),
            (lambda: threelc.compress_quartic(b"y", [1], 6), threelc.SizeError,
             "len is 1, but 6 values have 2 quartic bytes"),
            (lambda: threelc.compress_payload(bytes(6), 6, "int8", 1.0), TypeError,
             "scalars should be a list of numbers, not 1.0"),
            (lambda: threelc.compress_payload(bytes(6), 6, "int8", [None]), TypeError,
             "one of scalars should be a number, not None"),
            (lambda: threelc.compress_payload(bytes(6), 6, "int8"), threelc.CorruptError,
             "the scalars in the header are cut, not finite or negative"),
            (lambda: threelc.compress_payload(b"y", 6, "raw"), threelc.CorruptError,
             'the payload of 1 bytes from byte 5 on is not what "raw" makes of 6 values; the frame was altered or '
             "cut"))

    def test_scalars(self):
        """More than a frame has are not read."""
        for scalars in [1.5], [1.5, 2], [1.5, 2, 3]:
            frame = threelc.compress_payload(bytes([127, 0, 129]), 3, "int8", scalars)
            self.assertEqual(threelc.decompress(frame).tolist(), [1.5, 0, -1.5])

    def test_scratch(self):
        """The calls may write so many bytes."""
        for size, words in ((0, 0), (1, 1), (8, 1), (9, 2), (24, 3)):
            struct = threelc._c.QuarticParams()
            _library.give_scratch(struct, size)
            self.assertEqual((ctypes.sizeof(struct.room), struct.scratch), (8 * words, ctypes.addressof(struct.room)))


class Members(unittest.TestCase):
    def test_there_and_back(self):
        at, values, sent = numpy.array([1, 2, 8]), numpy.array([3, -0.5, 2], "f4"), numpy.zeros(3, "f4")
        for codec in "topk:p=0.3", "topk:p=0.3+golomb":
            for dtype, checksum in (("f32", False), ("f16", True)):
                frame = threelc.compress_members(at, values, 10, codec, dtype=dtype, checksum=checksum, sent=sent)
                self.assertEqual(sent.tolist(), values.tolist())
                info = threelc.inspect(frame)
                self.assertEqual((info.dtype, info.checksum), (threelc.DType[dtype.upper()], checksum))
                positions, found = threelc.decompress_members(frame, 10)
                self.assertEqual((positions.tolist(), found.tolist()), ([1, 2, 8], [3, -0.5, 2]))
        frame = threelc.compress_members(at, values, 10, "topk:p=0.3")
        self.assertEqual((threelc.inspect(frame).dtype, threelc.inspect(frame).checksum), (threelc.DType.F32, False))

    def test_sentences(self):
        at, values = numpy.array([1, 2, 8]), numpy.ones(3, "f4")
        check_sentences(
            self,
            (lambda: threelc.compress_members(at[:2], values, 10, "topk"), ValueError,
             "there are 2 positions and 3 values"),
            (lambda: threelc.compress_members(at, values[:2], 10, "topk"), ValueError,
             "there are 3 positions and 2 values"),
            (lambda: threelc.compress_members(at, values, 10, "topk", sent=values[:2]), ValueError,
             "sent should have 3 values, not 2"),
            (lambda: threelc.compress_members(at, values, -1, "topk"), ValueError,
             "n should be from 0 to 2^64 - 1, not -1"),
            (lambda: threelc.decompress_members(threelc.Context(6, "natural").compress(VALUES), 6),
             threelc.UnsupportedError, "a frame of natural does not send some of the values"))
        fixed = numpy.frombuffer(bytes(12), "f4")
        check_sentences(self, (lambda: threelc.compress_members(at, values, 10, "topk", sent=fixed), ValueError,
                               "sent is read-only, and would be written"))


class Frames(unittest.TestCase):
    def test_what_frames_say(self):
        """A peek reads the header alone."""
        for codec, dtype, checksum, block, clipped, nonzero, header, payload in (
                ("3lc", "f32", False, 0, 0, 1, 9, 2), ("natural:block=4", "f16", True, 4, 0, 4, 6, 22),
                ("raw", "f32", True, 0, 0, None, 5, 24)):
            given = VALUES.astype({"f32": "f4", "f16": "f2"}[dtype])
            frame = threelc.Context(6, codec, dtype, checksum=checksum).compress(given)
            whole = threelc.FrameInfo(n=6, dtype=threelc.DType[dtype.upper()], block=block, header_size=header,
                                      codec={"3lc": "ternary+quartic+zerorun"}.get(codec, codec), nonzero=nonzero,
                                      payload_size=payload, checksum=checksum, clipped=clipped, version=1)
            self.assertEqual(threelc.inspect(frame), whole)
            peeked = threelc.peek(frame)
            self.assertEqual((peeked.nonzero, peeked.clipped, peeked.n, peeked.codec),
                             (None, None, 6, whole.codec))

    def test_dtypes_of_results(self):
        """numpy has no bfloat16: its bits."""
        frame = threelc.Context(6, "raw").compress(VALUES)
        for dtype, kind in ((None, "float32"), ("f32", "float32"), ("f16", "float16"), ("bf16", "uint16")):
            found = threelc.decompress(frame, dtype=dtype)
            self.assertEqual((found.dtype, found.shape), (kind, (6,)))
        self.assertEqual(found.tolist(), [0x3f80, 0xbf80, 0, 0, 0x4000, 0x3dcd])

    def test_sums(self):
        frame, one = threelc.Context(6, "raw").compress(VALUES), numpy.ones(6, "f4")
        for result, wanted in (
                (threelc.decompress_add(frame, one.copy()), one + VALUES),
                (threelc.decompress_add_many([frame, frame], one.copy()), one + VALUES + VALUES),
                (threelc.decompress_add_many([frame, frame], one.copy(), from_zero=True), VALUES + VALUES),
                (threelc.decompress_add_many([frame, frame], one.copy(), [2, 0.5]), one + 2 * VALUES + VALUES / 2),
                (threelc.decompress_add_many([], one.copy()), one)):
            numpy.testing.assert_array_equal(result, wanted)
        check_sentences(
            self,
            (lambda: threelc.decompress_add(frame, one, "x"), TypeError, "weight should be a number, not 'x'"),
            (lambda: threelc.decompress_add_many([frame] * 2, one, [1, None]), TypeError,
             "weights[1] should be a number, not None"),
            (lambda: threelc.decompress_add_many([frame] * 2, one, [1]), ValueError,
             "weights should have 2 numbers, not 1"),
            (lambda: threelc.decompress_add_many([frame, 5], one), TypeError,
             "frames[1] should be an array (of numpy, a torch tensor on the CPU, or with the buffer protocol or "
             "DLPack), not 5"))


if __name__ == "__main__":
    unittest.main()
