# SPDX-License-Identifier: MIT
"""Contexts: what README promises, as Python sees it."""
import copy
import os
import pickle
import signal
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import numpy
import threelc
from threelc import _bundles, _library

TRACE = Path(__file__).resolve().parents[2] / "bench" / "data"


def trace():
    """Recorded gradients of a layer: steps x values."""
    found = sorted(TRACE.glob("*/*.npy")) + sorted(TRACE.glob("*.npy"))
    for path in found:
        steps = numpy.load(path)
        if steps.ndim == 2 and steps.shape[1] > 10000:
            return steps
    raise AssertionError(f"no trace in {TRACE}")


class Contexts(unittest.TestCase):
    def test_nothing_is_lost(self):
        """P6 on recorded gradients: what was sent, and what stayed, is what was given."""
        steps = trace()
        context = threelc.Context(steps.shape[1], "3lc:s=1.75")
        sent = numpy.zeros(steps.shape[1], "f4")
        size = 0
        for gradient in steps:
            frame = context.compress(gradient)
            size += len(frame)
            threelc.decompress_add(frame, sent)
        numpy.testing.assert_allclose(sent + numpy.asarray(context.residual), steps.sum(0, "f8"), atol=1e-5)
        self.assertLess(size * 20, steps.nbytes)

    def test_compress_into(self):
        gradient = trace()[0]
        context, other = threelc.Context(gradient.size), threelc.Context(gradient.size)
        out = bytearray(context.bound + 3)
        written = context.compress_into(gradient, out)
        self.assertEqual(out[:written], other.compress(gradient))
        with self.assertRaises(threelc.CapacityError):
            context.compress_into(gradient, bytearray(context.bound - 1))

    def test_left_out(self):
        """A seed of 0, no checksum, float32, the best instructions."""
        gradient = trace()[0]
        plain, same, other = (threelc.Context(gradient.size, "natural", **seed) for seed in ({}, {"seed": 0},
                                                                                             {"seed": 1}))
        frame = plain.compress(gradient)
        self.assertEqual(frame, same.compress(gradient))
        self.assertNotEqual(frame, other.compress(gradient))
        info = threelc.inspect(frame)
        self.assertEqual((info.checksum, info.dtype), (False, threelc.DType.F32))
        self.assertEqual(plain.isa, threelc.Context(1, isa="auto").isa)
        self.assertEqual(threelc.Context(1, isa="scalar").isa, threelc.Isa.SCALAR)
        self.assertEqual(threelc.inspect(threelc.Context(6).compress(numpy.ones(6, "f4"))).codec,
                         "ternary+quartic+zerorun")

    def test_feedback(self):
        """By default as the codec has it."""
        for codec, feedback, has in (("3lc", None, True), ("int8", None, False), ("int8", True, True),
                                     ("3lc", False, False)):
            residual = threelc.Context(6, codec, feedback=feedback).residual
            self.assertEqual(residual is not None, has)
        residual = threelc.Context(6).residual
        self.assertEqual((len(residual), residual.format, residual.readonly), (6, "f", False))

    def test_repr(self):
        context = threelc.Context(6, "raw", "f16")
        self.assertEqual(repr(context), f"<threelc.Context of 6 f16 values, bound {context.bound} bytes>")
        self.assertEqual(len(context.compress(numpy.zeros(6, "f2"))), context.bound)

    def test_frames_are_their_own(self):
        """The next one does not change them."""
        context = threelc.Context(6, "raw")
        frames = [context.compress(numpy.full(6, i, "f4")) for i in range(3)]
        self.assertEqual([threelc.decompress(frame)[5] for frame in frames], [0, 1, 2])

    def test_any_threads_make_the_same_bytes(self):
        gradient = numpy.tile(trace()[0], 40)
        frames = {threelc.Context(gradient.size, "3lc:block=65536", threads=threads).compress(gradient)
                  for threads in (None, 1, 2, 3)}
        self.assertEqual(len(frames), 1)

    def test_failures_change_nothing(self):
        gradient = trace()[0].copy()
        context = threelc.Context(gradient.size)
        context.compress(gradient)
        before = context.state_dict()
        gradient[7] = numpy.nan
        with self.assertRaises(threelc.NonFiniteError) as caught:
            context.compress(gradient)
        self.assertEqual(caught.exception.status, threelc.Status.NONFINITE)
        self.assertRaises(ArithmeticError, context.accumulate, gradient)
        self.assertEqual(context.state_dict(), before)

    def test_codecs_by_name(self):
        names = [entry.name for entry in threelc.codecs() if entry.complete]
        self.assertIn("3lc", names)
        gradient = trace()[0]
        for name in names:
            frame = threelc.Context(gradient.size, name).compress(gradient)
            self.assertEqual(threelc.inspect(frame).n, gradient.size)
            self.assertLessEqual(len(frame), threelc.codec_bound(name, gradient.size))
        with self.assertRaisesRegex(threelc.ParameterError, "codec '3lc:s=7': at 6"):
            threelc.Context(6, "3lc:s=7")
        with self.assertRaisesRegex(ValueError, "codec"):
            threelc.codec_bound("nothing", 6)

    def test_schedules(self):
        gradient = trace()[0]
        context = threelc.Context(gradient.size, "raw", feedback=True, reserve=["3lc", "sbc"])
        self.assertFalse(numpy.asarray(context.residual).any())
        context.compress(gradient)
        context.set_codec("sbc")
        self.assertEqual(threelc.inspect(context.compress(gradient)).codec, "sparse-binary+golomb")
        with self.assertRaises(threelc.CapacityError):
            threelc.Context(gradient.size, "3lc").set_codec("raw")
        before = numpy.asarray(context.residual).copy()
        context.residual_scale(0.5)
        numpy.testing.assert_array_equal(context.residual, before * numpy.float32(0.5))
        context.reset()
        self.assertFalse(numpy.asarray(context.residual).any())

    def test_local_steps(self):
        """Two steps accumulated, then sent from the residual alone."""
        steps = trace()[:2]
        context = threelc.Context(steps.shape[1], "3lc")
        for gradient in steps:
            context.accumulate(gradient)
        other = threelc.Context(steps.shape[1], "3lc")
        self.assertEqual(context.compress(), other.compress(steps[0] + steps[1]))
        self.assertRaises(threelc.UnsupportedError, threelc.Context(6, "int8").compress)
        self.assertEqual(threelc.Context(0, "3lc").compress(numpy.zeros(0, "f4")), threelc.Context(0, "3lc").compress())

    def test_states(self):
        steps = trace()
        context = threelc.Context(steps.shape[1], "qsgd:bits=4", seed=2**64 - 1)
        context.compress(steps[0])
        state = pickle.loads(pickle.dumps(context.state_dict()))
        other = threelc.Context(steps.shape[1], "qsgd:bits=4")
        other.load_state_dict(state)
        self.assertEqual(other.compress(steps[1]), context.compress(steps[1]))
        with self.assertRaises(threelc.SizeError):
            threelc.Context(6, "qsgd:bits=4").load_state_dict(state)
        with self.assertRaisesRegex(ValueError, "version 1 is needed, not 2"):
            other.load_state_dict({"version": 2, "state": state["state"]})

    def test_sentences(self):
        """Exceptions say what was given, and what is allowed."""
        gradient = numpy.zeros(100, "f4")
        gradient[41] = numpy.inf
        context, raw = threelc.Context(100), threelc.Context(100, "raw", feedback=True)
        frame, state = threelc.Context(100).compress(numpy.zeros(100, "f4")), threelc.Context(99).state_dict()
        delta, bundle = threelc.delta.compress(None, gradient), _bundles.pack([frame])
        out = numpy.zeros(100, "f4")
        for call, error, words in (
                (lambda: threelc.Context(100, reserve="raw;3cl"), threelc.ParameterError, 'reserve: codec "3cl" at 0'),
                (lambda: threelc.Context(100, feedback=False, residual=out), threelc.ParameterError,
                 "no error feedback: feedback is 0"),
                (lambda: context.compress(gradient), threelc.NonFiniteError, "value 41 of the gradient is infinity"),
                (lambda: context.accumulate(gradient), threelc.NonFiniteError, "value 41 of the gradient is infinity"),
                (lambda: context.compress_into(out, bytearray(7)), threelc.CapacityError,
                 f"cap is 7 bytes, tlc_bound is {context.bound}"),
                (lambda: context.residual_scale(float("nan")), threelc.ParameterError, "factor is NaN"),
                (lambda: context.set_codec("raw"), threelc.CapacityError, 'codec "raw" needs .* name it in reserve'),
                (lambda: context.load_state_dict(state), threelc.SizeError,
                 "the state is of 99 values, the context of 100"),
                (lambda: context.load_state_dict(raw.state_dict()), threelc.CapacityError,
                 "the state's codec \"raw\" needs .* the context with codec \"3lc\""),
                (lambda: threelc.decompress(delta, out), threelc.CorruptError,
                 "the bytes of a delta of weights .*, not of a frame"),
                (lambda: threelc.inspect(bundle), threelc.CorruptError, "the bytes of a bundle .*, not of a frame"),
                (lambda: threelc.peek(b"\x07" + frame[1:]), threelc.CorruptError, "byte 0, .* is 7: .* reads 1"),
                (lambda: _bundles.unpack(frame), threelc.CorruptError, "the bytes of a frame, not of a bundle"),
                (lambda: threelc.decompress_add(frame, out, float("inf")), threelc.ParameterError,
                 "weight is infinity"),
                (lambda: threelc.decompress_add_many([frame, delta], out), threelc.CorruptError,
                 "frame 1: these are the bytes of a delta")):
            with self.assertRaisesRegex(error, words):
                call()
        self.assertFalse(out.any())

    def test_no_copies_of_contexts(self):
        for how in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "state_dict"):
                how(threelc.Context(6))

    def test_numbers_out_of_range(self):
        """ctypes would cut them off."""
        for arguments in ({"n": -1}, {"n": 2**64 + 6}, {"n": 6, "seed": 2**64}, {"n": 6, "seed": -1},
                          {"n": 6, "threads": -1}, {"n": 6, "isa": "sse"}):
            with self.assertRaises(ValueError):
                threelc.Context(**arguments)
        self.assertRaises(threelc.SizeError, threelc.Context, 2**63)

    def test_other_threads_run(self):
        """The GIL is released in calls: a counting thread gets on while a long call runs."""
        gradient = numpy.zeros(1 << 25, "f4")
        context = threelc.Context(gradient.size, isa="scalar")
        counted, stop = [0], threading.Event()

        def count():
            while not stop.is_set():
                counted[0] += 1
                time.sleep(0)

        thread = threading.Thread(target=count)
        thread.start()
        try:
            before = counted[0]
            context.compress(gradient)
            during = counted[0] - before
        finally:
            stop.set()
            thread.join()
        self.assertGreater(during, 10)

    @unittest.skipUnless(hasattr(os, "fork"), "there is no fork")
    def test_forks(self):
        """What another thread was using in the process that was forked is refused in the new one, nothing else."""
        busy, idle = threelc.Context(6), threelc.Context(6)
        begun, stop = threading.Event(), threading.Event()

        def wait(*_):
            begun.set()
            stop.wait()

        with mock.patch.object(_library.lib, "tlc_reset", wait):
            thread = threading.Thread(target=busy.reset)
            thread.start()
            begun.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # ends it if it hangs
            code = 1
            try:
                idle.compress(numpy.zeros(6, "f4"))
                for _ in range(2):
                    try:
                        busy.reset()
                    except RuntimeError as error:
                        code = 0 if str(error) == "another thread was using this object when the process was forked, " \
                            "and left it here halfway through: make a new one" else 2
            finally:
                os._exit(code)
        stop.set()
        thread.join()
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        busy.compress(numpy.zeros(6, "f4"))
        idle.compress(numpy.zeros(6, "f4"))

    def test_one_context_in_many_threads(self):
        """Calls wait for each other, so that the residual is that of some order."""
        gradient = numpy.ones(100000, "f4")
        context = threelc.Context(gradient.size, "sbc:p=0.001")
        frames = []
        threads = [threading.Thread(target=lambda: frames.append(context.compress(gradient))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sent = threelc.decompress_add_many(frames, numpy.empty(gradient.size, "f4"), from_zero=True)
        numpy.testing.assert_allclose(sent + numpy.asarray(context.residual), 8, atol=1e-4)

    def test_many(self):
        steps = trace()[:5]
        frames = [threelc.Context(steps.shape[1], codec).compress(g)
                  for codec, g in zip(("3lc", "3lc", "sbc", "raw", "int8"), steps)]
        weights = [0.5, -1, 2, 0.25, 1]
        one = numpy.ones(steps.shape[1], "f4")
        for frame, weight in zip(frames, weights):
            threelc.decompress_add(frame, one, weight)
        many = threelc.decompress_add_many(frames, numpy.ones(steps.shape[1], "f4"), weights)
        numpy.testing.assert_array_equal(one, many)
        with self.assertRaisesRegex(threelc.CorruptError, "frame 3: "):
            threelc.decompress_add_many(frames[:3] + [b""], many)
        with self.assertRaisesRegex(ValueError, "weights should have 5 numbers"):
            threelc.decompress_add_many(frames, many, [1])
