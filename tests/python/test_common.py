# SPDX-License-Identifier: MIT
"""What all ways to train have in common, each part by itself: arguments, scalers of losses, lines in the log, traffic,
comparisons of replicas, second moments."""
import logging
import math
import unittest
import warnings
from collections import defaultdict
from types import SimpleNamespace
from unittest import mock

import numpy
import torch

import threelc
from cluster import attempt
from fake_dist import Network
from faults import prepared
from thread_ranks import RanksTest
from threelc.torch._common import groups
from threelc.torch._common.arguments import check_numbers, codec_list, one_of, scaler_of, shown, weight_of, whole
from threelc.torch._common.groups import Clock, Group, Traffic, check_choices, ring_bytes, weights_of_all
from threelc.torch._common.log import Log
from threelc.torch._common.replicas import Replicas
from threelc.torch._common.scaler import (forget, inverse_of, is_scaled, scaler_that_steps, take_scale, tell)
from threelc.torch._common.second_moment import SecondMoments
from threelc.torch._common.transport import Transport


class Refusing(unittest.TestCase):
    def refused(self, kind, words, call, *arguments):
        self.assertEqual(attempt(call, *arguments)[:2], (kind, words))


class Arguments(Refusing):
    def test_shown(self):
        for value, words in (("a", "'a'"), (3, "3"), (1.5, "1.5"), (None, "None"), ([1], "a list")):
            self.assertEqual(shown(value), words)

    def test_whole_numbers(self):
        """Bounds belong to the range. A large one is told to those alone who are above it."""
        for value in 2, 9, numpy.int64(5), torch.tensor(3):
            self.assertEqual(whole(value, "x", 2, 9), int(value))
        self.assertEqual((whole(2, "x", 2), whole(10**30, "x", 2)), (2, 10**30))
        for value in 1, 10:
            self.refused("ValueError", f"x should be from 2 to 9, not {value}", whole, value, "x", 2, 9)
        self.refused("ValueError", "x should be from 0 to 65534, not 65535", whole, 65535, "x", 0, 65534)
        self.refused("ValueError", "x should be at most 65535, not 65536", whole, 65536, "x", 0, 65535)
        self.refused("ValueError", "x should be at least 3, not 2", whole, 2, "x", 3, 65535)
        self.refused("ValueError", "x should be at least 3, not 2", whole, 2, "x", 3)
        for value, words in (True, "True"), (1.0, "1.0"), (None, "None"), ("two", "'two'"), ([], "a list"):
            self.refused("TypeError", f"x should be a whole number from 2 to 9, not {words}", whole, value, "x", 2, 9)
            self.refused("TypeError", f"x should be a whole number at least 2, not {words}", whole, value, "x", 2)

    def test_numbers_of_all_ways(self):
        check_numbers(0, 0, 0)
        check_numbers(2**62, 2**64 - 1, 65535)
        check_numbers(256, 1, None)
        for given, words in (((-1, 0, 0), "min_numel should be at least 0, not -1"),
                             ((2**62 + 1, 0, 0), f"min_numel should be at most {2**62}, not {2**62 + 1}"),
                             ((0, -1, 0), "seed should be at least 0, not -1"),
                             ((0, 2**64, 0), f"seed should be at most {2**64 - 1}, not {2**64}"),
                             ((0, 0, -1), "threads should be at least 0, not -1"),
                             ((0, 0, 65536), "threads should be at most 65535, not 65536")):
            self.refused("ValueError", words, check_numbers, *given)

    def test_codecs(self):
        self.assertEqual(codec_list(iter(["3lc", "raw"]), "x"), ("3lc", "raw"))
        self.assertEqual(codec_list([], "x"), ())
        for value, words in ("3lc", "'3lc'"), (None, "None"), (3, "3"):
            self.refused("TypeError", f"x should be a list of codecs, such as ['3lc'], not {words}", codec_list, value,
                         "x")
        self.refused("TypeError", "x should have codecs, such as '3lc', not None", codec_list, ["raw", None], "x")

    def test_scalers(self):
        self.assertIsNone(scaler_of(None))
        for enabled, found in (None, True), (True, True), (False, False):
            one = SimpleNamespace(get_scale=lambda: 1.0, is_enabled=enabled is not None and (lambda: enabled) or None)
            self.assertIs(scaler_of(one), one if found else None)
        self.refused("TypeError", "scaler should be a GradScaler, not the class: give Network()", scaler_of, Network)
        for value, words in (8.0, "8.0"), (SimpleNamespace(get_scale=3), "a SimpleNamespace"):
            self.refused("TypeError", "scaler should be a GradScaler, or another object with get_scale(), not "
                         + words, scaler_of, value)

    def test_weights(self):
        for value in 1, 2.5, 2**50, 2.0**-50, numpy.float32(3), torch.tensor(2.0):
            self.assertEqual((weight_of(value), type(weight_of(value))), (float(value), float))
        for value in 0, -1, 2.0**50 * 1.001, 2.0**-51, math.nan, math.inf:
            self.refused("ValueError", f"weight should be from 2^-50 to 2^50, not {float(value)}", weight_of, value)
        for value, words in (True, "True"), ("one", "'one'"), (None, "None"):
            self.refused("TypeError", f"weight should be a number above 0, not {words}", weight_of, value)

    def test_one_of(self):
        self.assertEqual(one_of("host", ("auto", "host"), "x"), "host")
        for value, words in ("HOST", "'HOST': did you mean host?"), (7, "7"), ("gpu", "'gpu'"):
            self.refused("ValueError", f"x should be one of auto, host, not {words}", one_of, value, ("auto", "host"),
                         "x")

    def test_choices(self):
        check_choices("sharded", "skip", "3lc", None, "raw", "topk:p=0.1")
        check_choices("gather", "raise", "3lc", "raw")
        for given, words in (("ring", "skip"), "mode should be one of sharded, gather, not 'ring'"), \
                (("gather", "warn"), "on_nonfinite should be one of skip, raise, not 'warn'"):
            self.refused("ValueError", words, check_choices, *given, "3lc", None)
        for given in ("4lc", None), ("3lc", "4lc"), ("3lc", "raw", "raw", "4lc"), ("3lc", None, "4lc"):
            self.assertRegex(attempt(check_choices, "sharded", "skip", *given)[1], "^codec '4lc'")

    def test_a_pull_that_starves(self):
        """A warning where the user's call is."""
        def register(*given):
            check_choices(*given)

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            register("sharded", "skip", "3lc", "topk:p=0.001")
            register("gather", "skip", "3lc", "topk:p=0.001")
            register("sharded", "skip", "topk:p=0.001", None)
            register("sharded", "skip", "topk:p=0.001", "3lc")
        pull = threelc.exchange.pull_codec("topk:p=0.001")
        self.assertGreater(caught[0].lineno, register.__code__.co_firstlineno + 1)  # not within register()
        self.assertEqual([(each.category, str(each.message), each.filename) for each in caught], [
            (RuntimeWarning, "threelc: pull='topk:p=0.001' sends too little of the means, so the training starves; "
             f"{pull!r} keeps up, and so does pull=None", __file__)])


class Stage:
    def __init__(self, name):
        self.name = name


def optimizer_of(*gradients):
    """Two groups; the last parameter has no gradient."""
    parameters = [torch.nn.Parameter(torch.zeros(2, dtype=each.dtype)) for each in gradients]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient.clone()
    return torch.optim.SGD([{"params": parameters}, {"params": [torch.nn.Parameter(torch.zeros(3))]}], 0.1)


class Scalers(Refusing):
    def test_whether_one_calls(self):
        one = optimizer_of(torch.ones(2))
        self.assertEqual((is_scaled(one, {}), is_scaled(one, {"grad_scaler": None})), (False, True))
        self.assertTrue(take_scale(one, {}))
        one.found_inf = torch.tensor(0.0)
        self.assertTrue(is_scaled(one, {}))
        for call in is_scaled, take_scale:
            self.refused("TypeError", "step() has no argument scale", call, one, {"scale": 3})

    def test_of_pytorch_2(self):
        """Attributes of the optimizer, which are taken once. None: unscale_() was called."""
        for scale, factor in (torch.tensor(4.0), 0.25), (torch.tensor(1.0), 1.0), (None, 1.0):
            for found in 0.0, 1.0:
                one = optimizer_of(torch.ones(2), torch.full((2,), 3.0))
                one.found_inf, one.grad_scale = torch.tensor(found), scale
                self.assertEqual(take_scale(one, {}), not found)
                first, second = one.param_groups[0]["params"]
                self.assertEqual(first.grad.tolist() + second.grad.tolist(), [factor] * 2 + [3 * factor] * 2)
                self.assertEqual((one.found_inf, one.grad_scale), (None, 1.0))
        one = optimizer_of(torch.ones(2).half())
        one.found_inf, one.grad_scale = torch.tensor(0.0), torch.tensor(2.0)
        self.refused("ValueError", "a GradScaler cannot unscale float16 gradients: keep the parameters in float32, and "
                     "let torch.autocast choose float16", take_scale, one, {})

    def test_forgotten(self):
        one = optimizer_of(torch.ones(2))
        forget(one)
        self.assertFalse(hasattr(one, "grad_scale"))
        one.found_inf, one.grad_scale = torch.tensor(1.0), 8.0
        forget(one)
        self.assertEqual((one.found_inf, one.grad_scale), (None, 1.0))

    def test_inverse(self):
        """As float32, computed in float64."""
        for scale in 3.0, 7.0, 65536.0, 1e10 / 3:
            self.assertEqual(inverse_of(scale), float(numpy.float32(1 / numpy.float64(scale))))

    def test_of_pytorch_1(self):
        """unscale_() is called where it was not; a NaN on any device counts."""
        for stage, found, finite in (("READY", {}, True), ("UNSCALED", {"a": 0.0, "b": 0.0}, True),
                                     ("READY", {"a": 0.0, "b": 1.0}, False), ("UNSCALED", {"a": 1.0}, False)):
            one = optimizer_of(torch.ones(2))
            scaler = mock.Mock(_per_optimizer_states={
                id(one): {"stage": Stage(stage), "found_inf_per_device": found}})
            self.assertEqual(take_scale(one, {"grad_scaler": scaler}), finite)
            self.assertEqual(scaler.unscale_.mock_calls, [mock.call(one)] if stage == "READY" else [])

    def test_known_to_the_optimizer(self):
        """Of optimizers whose gradients a scaler does not see."""
        one = optimizer_of(torch.ones(2))
        self.assertIsNone(scaler_that_steps(one, None, {}))
        self.assertIsNone(scaler_that_steps(one, "a scaler", {}))
        for stage in "READY", "UNSCALED":
            scaler = SimpleNamespace(_per_optimizer_states=defaultdict(dict, {id(one): {"stage": Stage(stage)}}))
            one.found_inf, one.grad_scale = torch.tensor(1.0), 8.0
            if stage == "READY":
                self.assertIs(scaler_that_steps(one, scaler, {}), scaler)
            else:
                self.refused("TypeError", "unscale_() of a GradScaler does nothing for SGD, whose step() takes the "
                             "scale from the gradients: leave it out, and clip with max_norm", scaler_that_steps, one,
                             scaler, {})
            self.assertEqual((one.found_inf, one.grad_scale), (None, 1.0))
        self.refused("TypeError", "a GradScaler has called step() of SGD, which does not know it: give it when SGD is "
                     "made, scaler=scaler", scaler_that_steps, one, None, {"grad_scaler": 3})
        for found in False, True:
            tell(scaler, one, found)
            self.assertEqual(scaler._per_optimizer_states[id(one)]["found_inf_per_device"],
                             {torch.device("cpu"): torch.tensor(float(found))})


class Lines(unittest.TestCase):
    def lines(self, every, count=7, rank=0, first=Traffic(0, 0, 0, 0.0, 0.0), **unit):
        """Of steps that each send 10 of 40 bytes more than the one before, in two and three seconds."""
        log = Log(rank, **unit)
        log.set_every(every, first)
        with self.assertLogs("threelc", logging.INFO) as caught:
            logging.getLogger("threelc").info("begin")
            for i in range(1, count + 1):
                log.look(i, lambda i=i: Traffic(first.float_bytes + 40 * i, first.sent + 10 * i, 0, 2.0 * i,
                                                3.0 * i))
        return [line.split(":", 2)[2] for line in caught.output[1:]]

    def test_every(self):
        words = "10 bytes sent in a step, 4.0 times fewer than floats; 2000.0 ms in codecs, 3000.0 ms on the wire"
        for every, numbers in (1, range(1, 8)), (3, [3, 6]), (7, [7]), (8, []), (0, []):
            self.assertEqual(self.lines(every), [f"step {i}: {words}" for i in numbers])
        self.assertEqual(self.lines(3, 4, first=Traffic(1000, 50, 60, 0.0, 0.0)), [f"step 3: {words}"])
        self.assertEqual(self.lines(1, 2, unit="round"),
                         [f"round {i}: {words.replace('step', 'round')}" for i in (1, 2)])
        self.assertEqual(self.lines(1, rank=1), [])

    def test_nothing_sent(self):
        """And a new count of steps from the call on."""
        log = Log(0)
        self.assertEqual(attempt(log.set_every, -1, None)[:2], ("ValueError", "log_every should be at least 0, not -1"))
        now = Traffic(5, 0, 0, 0.0, 0.0)
        with self.assertLogs("threelc", logging.INFO) as caught:
            for i in range(1, 5):
                log.look(i, lambda: now)
                if i == 2:
                    log.set_every(2, now)
        self.assertEqual(caught.output, ["INFO:threelc:step 4: 0 bytes sent in a step, 1.0 times fewer than floats; "
                                         "0.0 ms in codecs, 0.0 ms on the wire"])


class Sums(RanksTest):
    def test_traffic(self):
        one = Traffic(float_bytes=600, sent=200, received=3, codec_seconds=0.5, wire_seconds=0.25)
        self.assertEqual((one.ratio, Traffic(600, 0, 3, 0.5, 0.25).ratio), (3.0, 1.0))
        self.assertEqual(one.scalars(), {"float_bytes": 600.0, "sent": 200.0, "received": 3.0, "codec_seconds": 0.5,
                                         "wire_seconds": 0.25, "ratio": 3.0})

    def test_ring(self):
        tensors = [torch.zeros(5), torch.zeros(3, 2).half(), torch.zeros(1)]
        self.assertEqual([ring_bytes(tensors, world) for world in (1, 2, 3)], [0, 20 + 12 + 4, 26 + 16 + 5])

    def test_phases(self):
        """A phase in another one counts once, for the inner one; also where it ends with an exception."""
        one = Clock()
        with mock.patch.object(groups.time, "perf_counter", iter([10, 11, 13, 17, 25, 41, 100, 108]).__next__):
            with one.sending("out"):  # 10
                with one.coding("in"):  # 11
                    pass  # 13
                with self.assertRaises(ValueError), one.sending("in"):  # 17
                    raise ValueError  # 25
            with one.coding("alone"):  # 41, 100
                pass
        self.assertEqual((one.wire, one.codec), (1 + 4 + 8 + 16, 2 + 8))

    def test_weights(self):
        self.assertEqual(self.talk(3, lambda one, rank: weights_of_all(one, 0.1 + rank)), [0.1 + 1.1 + 2.1] * 3)

    def test_what_residuals_hold(self):
        """Weighted like the gradients of ranks, with what owners had not answered. After flush() it is nothing."""
        def run(one, rank):
            residuals = {}
            config = threelc.exchange.Config(workers=2, push="3lc", min_n=1, dtype=threelc._c.DType.F32)
            group = Group(config, rank, ["a", "b", "c"], [300, 200, 4], residuals, raw=["c"], called=["x", "y", "z"])
            gradients = [torch.randn(n, generator=torch.Generator().manual_seed(3 * n + rank)) for n in group.sizes]
            out = [torch.zeros(n) for n in group.sizes]
            group.run(one, gradients, out, Clock(), 1.0 + 2 * rank)
            held = group.unsent(one, 1.0 + 2 * rank)
            flushed = group.flush(one, 1.0 + 2 * rank)
            return gradients, out, held, flushed, group.unsent(one), residuals, group.state_dict(), group.on_device

        (first, out, held, flushed, left, residuals, state, there), (second, *_) = self.talk(2, run)
        for i in range(3):
            mean = (first[i] + 3 * second[i]) / 4
            torch.testing.assert_close(out[i] + held[i], mean, atol=1e-5, rtol=1e-5)
            self.assertEqual(bool(held[i].any()), i < 2)
            torch.testing.assert_close(flushed[i], held[i])
            self.assertFalse(left[i].any())
        self.assertEqual((list(residuals), state["names"], state["sizes"], there),
                         (["a", "b"], ["x", "y", "z"], [300, 200, 4], False))


def compare(weights, takes_part=None):
    """What ranks say of weights; a function gives those of a rank. None: all take part."""
    return Network(3).run(lambda rank: Replicas(1, lambda: weights(rank), 1).compare(
        Transport(), "here", *(() if takes_part is None else takes_part[rank:rank + 1])))


class Comparisons(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        prepared()

    def test_when(self):
        self.assertEqual([i for i in range(10) if Replicas(3, dict, None).due(i)], [3, 6, 9])
        self.assertEqual([i for i in range(4) if Replicas(1, dict, None).due(i)], [1, 2, 3])
        self.assertFalse(any(Replicas(0, dict, None).due(i) for i in range(4)))
        self.assertEqual(attempt(Replicas, -1, dict, None)[1], "compare_every should be at least 0, not -1")

    def test_each_byte_counts(self):
        """Of weights of all kinds, with any number of bytes, at any place; equal ones differ in nothing."""
        for tensor in (torch.zeros(7, dtype=torch.uint8), torch.zeros(8, dtype=torch.uint8)[1:8],
                       torch.zeros(9, dtype=torch.uint8)[1:9], torch.zeros(3, 2).half().t(),
                       torch.zeros(2, dtype=torch.complex64), torch.zeros(1)):
            octets = tensor.contiguous().view(-1).view(torch.uint8).numel()
            for at in {0, octets - 1, None}:
                def weights(rank, at=at, tensor=tensor):
                    found = tensor.clone() if tensor.storage_offset() == 0 else \
                        torch.cat([tensor.new_full((1,), rank), tensor])[1:]
                    if rank == 2 and at is not None:
                        flat = found.contiguous().view(-1).view(torch.uint8)
                        flat[at] = 1
                        found = flat.view(tensor.dtype).view(found.shape) if not found.is_contiguous() else found
                    return {"w": found}

                ends = compare(weights)
                self.assertEqual([how for how, _ in ends], ["returned" if at is None else "raised"] * 3, (tensor, at))

    def test_sentence(self):
        """Who differs from the first that takes part, in what. Those that train no more are not asked."""
        rest = (". Something has written into weights on one rank alone, or processors of other kinds round a step "
                "differently. Go on from a checkpoint that all ranks load. With compare_every=0 ranks are not compared")

        def weights(rank):
            return {"a": torch.zeros(3), "b": torch.full((3,), float(rank)), "c": torch.full((2,), float(rank // 2))}

        for takes_part, words in (((True, True, True), "ranks 1, 2 have other weights than rank 0 here, in b, c"),
                                  ((True, True, False), "rank 1 has other weights than rank 0 here, in b"),
                                  ((False, True, True), "rank 2 has other weights than rank 1 here, in b, c"),
                                  ((False, True, False), None), ((False, False, False), None)):
            for how, error in compare(weights, takes_part):
                self.assertEqual((how, error and str(error)), ("returned", None) if words is None else
                                 ("raised", words + rest))


class Second(unittest.TestCase):
    def test_rule(self):
        """Kingma and Ba's, as torch.optim.Adam without a first moment. What was not kept does not count."""
        one, draw = SecondMoments(0.9), torch.Generator().manual_seed(1)
        squares = torch.zeros(5)
        for step in range(1, 4):
            gradient = torch.randn(5, generator=draw)
            lost, sent, other = torch.ones(5), gradient.clone(), torch.full((2,), -3.0)
            one.normalize(["w"], [lost])
            one.normalize(["w", "v"], [sent, other])
            squares = 0.9 * squares + 0.1 * gradient**2
            torch.testing.assert_close(sent, gradient / ((squares / (1 - 0.9**step)).sqrt() + 1e-8))
            torch.testing.assert_close(other, torch.full((2,), -1.0))
            one.keep(["w", "v"])
            torch.testing.assert_close(one.squares["w"], squares)
            self.assertEqual(one.steps, {"w": step, "v": step})
        tiny = torch.full((2,), 1e-8)
        SecondMoments(0.9).normalize(["w"], [tiny])
        torch.testing.assert_close(tiny, torch.full((2,), 0.5), atol=1e-3, rtol=0)

    def test_states(self):
        """On another number of ranks the mean of squares, and the fewest steps."""
        one = SecondMoments(0.9)
        one.load([{"squares": {"_orig_mod.w": torch.full((2,), value)}, "steps": {"_orig_mod.w": steps}}
                  for value, steps in ((1.0, 5), (3.0, 4), (8.0, 9))])
        self.assertEqual((one.squares["w"].tolist(), one.steps), ([4.0, 4.0], {"w": 4}))
        saved = one.state_dict()
        one.normalize(["w"], [torch.ones(2)])
        one.keep(["w"])
        one.squares["w"].zero_()
        self.assertEqual((saved["squares"]["w"].tolist(), saved["steps"]), ([4.0, 4.0], {"w": 4}))


if __name__ == "__main__":
    unittest.main()
