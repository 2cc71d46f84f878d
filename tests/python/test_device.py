# SPDX-License-Identifier: MIT
"""Quantization by torch operations, as on a GPU, here on the CPU: the bytes and results are those of the C library."""
import math
import unittest
from unittest import mock

import torch

import threelc
import threelc.torch
from cluster import CLUSTER
from device_frames import counted
from outer_models import Scaler, in_pieces
from test_ddp import bits, start, train
from threelc import Status
from threelc.torch._common.device import check_quantize, place_of
from threelc.torch._device import crossing
from threelc.torch._device.norms import Norms, values_at, with_norms
from threelc.torch._device.on_device import OnDevice
from threelc.torch.kernels.choice import OPERATIONS, quantized
from threelc.torch.kernels.quantizer import Quantizer, _nearest
from threelc.torch.kernels.ways import quantizer_for

CPU = torch.device("cpu")
CODECS = ("3lc", "3lc:s=1.75", "3lc-golomb", "3lc-golomb:s=1.9", "ternary+quartic", "ternary:s=1.1,block=64+quartic",
          "ternary:block=100+quartic+zerorun", "ternary:s=1.5,block=7+golomb")
SHAPES = {"normal": lambda x: x, "sparse": lambda x: x * (torch.rand(x.shape) < 0.01), "dense": torch.sign,
          "subnormal": lambda x: x * 1e-40, "zero": lambda x: x * 0, "large": lambda x: x * 1e37}


class Frames(unittest.TestCase):
    def test_bytes_and_residuals(self):
        """Three steps with error feedback."""
        torch.manual_seed(3)
        for codec in CODECS:
            quantizer = Quantizer.of(codec)
            for dtype in (torch.float32, torch.float16, torch.bfloat16):
                for n in (1, 63, 3001):
                    for name, shape in SHAPES.items():
                        context = threelc.Context(n, codec, dtype=dtype)
                        residual = torch.zeros(n)
                        for _ in range(3):
                            gradient = shape(torch.randn(n)).clamp(-6e4, 6e4).to(dtype)
                            scales, quartic, residual = quantized(OPERATIONS, quantizer, residual, gradient)
                            frame = threelc.compress_quartic(quartic, scales, n, codec, dtype=dtype)
                            where = f"{codec}, {dtype}, {n} values, {name}"
                            self.assertEqual(frame, context.compress(gradient), where)
                            self.assertEqual(residual.numpy().tobytes(), bytes(context.residual), where)

    def test_checksum(self):
        gradient = torch.randn(100)
        for codec in ("3lc", "3lc-golomb"):
            scales, quartic, _ = quantized(OPERATIONS, Quantizer.of(codec), torch.zeros(100), gradient)
            frame = threelc.compress_quartic(quartic, scales, 100, codec, checksum=True)
            self.assertEqual(frame, threelc.Context(100, codec, checksum=True).compress(gradient))

    def test_frames_are_taken_apart(self):
        for codec in CODECS:
            for n in (1, 2, 7, 64, 99, 3001):
                scales, quartic, _ = quantized(OPERATIONS, Quantizer.of(codec), torch.zeros(n), torch.randn(n))
                quartic = bytes(quartic.tolist())
                frame = threelc.compress_quartic(quartic, scales, n, codec)
                self.assertEqual(threelc.decompress_quartic(frame, n), (quartic, scales), codec)
                room = torch.full((len(quartic) + 1,), 7, dtype=torch.uint8)
                self.assertEqual(threelc.decompress_quartic(frame, n, room), (room, scales))
                self.assertEqual(bytes(room.tolist()), quartic + b"\7")
                self.assertRaises(threelc.CapacityError, threelc.decompress_quartic, frame, n, room[2:])
                self.assertRaises(threelc.SizeError, threelc.decompress_quartic, frame, n + 1)
        self.assertRaises(threelc.UnsupportedError, threelc.decompress_quartic,
                          threelc.Context(9, "sbc").compress(torch.randn(9)), 9)
        empty = threelc.Context(0, "3lc").compress(torch.empty(0))
        self.assertEqual(threelc.decompress_quartic(empty, 0), (b"", []))

    def test_other_codecs_are_the_hosts(self):
        for codec in ("stochastic-ternary+quartic", "raw"):
            self.assertIsNone(quantizer_for(codec, torch.device("cpu")))
        for codec, device, found in (("onebit", "cpu", True), ("onebit", "mps", False), ("natural", "mps", True)):
            self.assertEqual(quantizer_for(codec, torch.device(device)) is not None, found)

    def test_refusals(self):
        for quartic, scale, codec, error, words in (
                (bytes(4), 1.0, "ternary:block=10+golomb", ValueError, "2 scales are needed, not 1"),
                (bytes(3), 1.0, "3lc", threelc.SizeError, ""), (b"\xff" * 4, 1.0, "3lc", threelc.CorruptError, ""),
                (b"\x79" * 4, math.inf, "3lc", threelc.NonFiniteError, ""),
                (b"\x79" * 4, 1.0, "sbc", threelc.ParameterError, "")):
            self.assertRaisesRegex(error, words, threelc.compress_quartic, quartic, [scale], 20, codec)

    def test_multipliers_are_rounded_once(self):
        """1 + 2^-24 lies between two floats: it goes to the even one, and a little more up, though not as a double."""
        middle = "1.000000059604644775390625"
        self.assertEqual(_nearest(middle), 1.0)
        self.assertEqual(_nearest(middle + "0000001"), 1 + 2**-23)
        self.assertEqual([_nearest(s) for s in ("1", "1.75", "1.9")],
                         [float(torch.tensor(s)) for s in (1.0, 1.75, 1.9)])


class Places(unittest.TestCase):
    def test_where(self):
        cpu, gpu, other = torch.device("cpu"), torch.device("cuda", 0), torch.device("cuda", 1)
        for quantize, devices, needs_host, place in (
                ("auto", [gpu, gpu], False, gpu), ("auto", [gpu], True, None), ("auto", [cpu], False, None),
                ("auto", [gpu, other], False, None), ("host", [gpu], False, None), ("device", [gpu], False, gpu),
                ("device", [cpu], False, cpu), ("device", [cpu, gpu], False, None), ("device", [gpu], True, None)):
            self.assertEqual(place_of(quantize, devices, needs_host), place, (quantize, devices, needs_host))
        for codec, place in (None, cpu), ("3lc", cpu), ("natural", cpu), ("raw", None), ("sbc:block=64", cpu):
            self.assertEqual(place_of("device", [cpu], False, codec), place, codec)
            self.assertIsNone(place_of("auto", [cpu], False, codec))
        self.assertIsNone(place_of("device", [], False))

    def test_momentum_correction(self):
        """Velocities are on the host."""
        for quantize, momentum in ("auto", 0.9), ("host", 0.9), ("device", None):
            check_quantize(quantize, momentum)
        with self.assertRaisesRegex(ValueError, '^momentum_correction goes with quantize="auto" or "host": velocities '
                                                'are on the host$'):
            check_quantize("device", 0.9)


class Pushes(unittest.TestCase):
    def test_what_failed_leaves_the_residual(self):
        """A value of another tensor, which is not quantized here, is not finite."""
        host = torch.zeros(100)
        allreduce = threelc.exchange.AllReduce(
            threelc.exchange.Config(workers=1, push="3lc", min_n=10), 0,
            [threelc.exchange.Tensor("large", 100, residual=host), threelc.exchange.Tensor("small", 5)])
        quantizer = Quantizer.of("3lc")
        on_device = OnDevice(allreduce, quantizer, {0: host}, torch.device("cpu"))
        residual, out = on_device.residuals[0], [torch.zeros(100), torch.zeros(5)]
        for small, cause in ((1.0, Status.OK), (math.nan, Status.NONFINITE), (2.0, Status.OK)):
            gradients, before = [torch.randn(100), torch.full((5,), small)], residual.clone()
            pushed = on_device.push(gradients, 1.0)
            self.assertIs(on_device.residuals[0], residual)
            self.assertEqual(allreduce.outcome().cause, cause)
            if cause == Status.OK:
                allreduce.pull([allreduce.reduce(pushed)], out)
                self.assertTrue(torch.equal(residual, quantized(OPERATIONS, quantizer, before, gradients[0])[2]))
            else:
                self.assertTrue(torch.equal(residual, before))
                self.assertRaises(threelc.StepError, on_device.pull, [allreduce.reduce(pushed)], out)
                self.assertTrue(torch.equal(residual, before))

    def test_same_as_the_host(self):
        """Messages, outcomes, means, residuals and statistics of tensors beside one that the host has; also where one
        of either kind is not finite, and among steps of the host."""
        sizes, ours = (2503, 7, 1200), (0, 2)
        for codec in "3lc:s=1.5", "natural", "topk:p=0.1+golomb", "sbc", "random-sparse", "int8":
            for gather in False, True:
                found, torch_seed = [], torch.manual_seed(6).initial_seed()
                for on_device in False, True:
                    torch.manual_seed(torch_seed)
                    kept = {i: None if codec in ("natural", "int8", "random-sparse") else torch.zeros(sizes[i])
                            for i in ours}
                    config = threelc.exchange.Config(workers=1, push=codec, min_n=10, split_n=1000, gather=gather)
                    ranks = threelc.exchange.AllReduce(config, 0, [
                        threelc.exchange.Tensor(str(i), n, residual=kept.get(i)) for i, n in enumerate(sizes)])
                    one = OnDevice(ranks, quantizer_for(codec, CPU), kept, CPU) if on_device else ranks
                    for step in range(6):
                        gradients = [torch.randn(n) for n in sizes]
                        if step in (2, 3):
                            gradients[step - 1][3] = math.nan
                        if on_device and step == 4:
                            with one.on_host():
                                with one.on_host():
                                    pass
                                push = ranks.push(gradients, 2.0)
                        else:
                            push = one.push(gradients, 2.0)
                        message = [bytes(each) for each in push]
                        means = [torch.ones(n) for n in sizes]
                        words = ""
                        try:
                            one.pull(message if gather else [ranks.reduce(message)], means)
                        except threelc.StepError as error:
                            words = str(error)
                        if on_device:
                            for i, residual in one.residuals.items():
                                self.assertEqual(float(kept[i].abs().max()), 0.0)
                                self.assertGreater(float(residual.abs().max()), 0.0)
                            one.to_host()
                        held = [kept[i].tolist() for i in ours if kept[i] is not None]
                        if on_device:
                            one.from_host()
                        stats = with_norms(ranks.stats, one if on_device and step != 4 else None)
                        found.append((message, ranks.outcome().cause, words, [mean.tolist() for mean in means], held,
                                      stats))
                for step, (host, device) in enumerate(zip(found[:6], found[6:])):
                    self.assertEqual(device, host, (codec, gather, step))
                self.assertEqual([bool(words) for _, _, words, _, _, _ in found[:6]],
                                 [step in (2, 3) for step in range(6)])
                self.assertEqual([stats.push_residual_ratio > 0 for *_, stats in found], [bool(held)] * 12)

    def test_parts(self):
        """Of tensors that three ranks own."""
        sizes = (2503, 7, 1200)
        for codec in "3lc:s=1.5", "ternary:block=100+golomb", "onebit", "topk:p=0.1,block=99", "sbc", "random-sparse":
            found = []
            for on_device in False, True:
                torch.manual_seed(8)
                kept = {i: None if codec == "random-sparse" else torch.randn(sizes[i]) for i in (0, 2)}
                ranks = threelc.exchange.AllReduce(
                    threelc.exchange.Config(workers=3, push=codec, min_n=10, split_n=1000), 1,
                    [threelc.exchange.Tensor(str(i), n, residual=kept.get(i)) for i, n in enumerate(sizes)])
                self.assertEqual([part.tensor for part in ranks.pushed_parts()], [0, 0, 0, 2])
                one = OnDevice(ranks, quantizer_for(codec, CPU), kept, CPU) if on_device else ranks
                push = list(map(bytes, one.push([torch.randn(n) for n in sizes], 2.0)))
                left = one.residuals if on_device else kept
                found.append((push, [each.tolist() for each in left.values() if each is not None]))
            self.assertTrue(found[1] == found[0], codec)

    def test_where_residuals_are(self):
        """They move once, whichever is asked for twice."""
        host = torch.arange(100.0)
        ranks = threelc.exchange.AllReduce(threelc.exchange.Config(workers=1, push="3lc", min_n=10), 0,
                                           [threelc.exchange.Tensor("a", 100, residual=host)])
        one = OnDevice(ranks, Quantizer.of("3lc"), {0: host}, CPU)
        there, zeros, values = one.residuals[0], [0.0] * 100, torch.arange(100.0).tolist()
        self.assertEqual((there.tolist(), host.tolist()), (values, zeros))
        for call, wanted in ((one.from_host, zeros), (one.to_host, values), (one.to_host, values),
                             (one.from_host, zeros), (one.from_host, zeros)):
            call()
            self.assertEqual((there.tolist(), host.tolist()), (values, wanted))
        with self.assertRaises(KeyError), one.on_host():
            self.assertEqual(host.tolist(), values)
            raise KeyError
        self.assertEqual(host.tolist(), zeros)
        one.to_host()
        with one.on_host():
            pass
        self.assertEqual(host.tolist(), values)

    def test_small_and_empty_tensors(self):
        """The messages and the means of the host."""
        for codec in ("3lc", "natural", "int8", "onebit", "topk:p=0.1", "topk:select=exact,p=0.1", "sbc", "sbc:block=9",
                      "random-sparse"):
            for sizes in (0,), (0, 100), (1, 3):
                found, gradients = [], [torch.randn(n) for n in sizes]
                for on_device in False, True:
                    kept = {i: None if codec in ("natural", "int8", "random-sparse") else torch.zeros(n)
                            for i, n in enumerate(sizes)}
                    ranks = threelc.exchange.AllReduce(
                        threelc.exchange.Config(workers=1, push=codec, min_n=0), 0,
                        [threelc.exchange.Tensor(str(i), n, residual=kept[i]) for i, n in enumerate(sizes)])
                    one = OnDevice(ranks, quantizer_for(codec, CPU), kept, CPU) if on_device else ranks
                    push, out = bytes(one.push(gradients, 1.0)[0]), [torch.ones(n) for n in sizes]
                    one.pull([ranks.reduce([push])], out)
                    found.append((push, [mean.tolist() for mean in out]))
                self.assertEqual(found[1], found[0], (codec, sizes))


class Statistics(unittest.TestCase):
    def test_which_values_count(self):
        """The sums of the C library for parts of any length, in each step."""
        for dtype in torch.float32, torch.bfloat16:
            for n in (1, 7, 8, 63, 65, 511, 1023, 1024, 1030, 5003, 40001):
                residual, norms = torch.zeros(n), Norms([n], CPU)
                self.assertEqual(norms.squares(), (0.0, 0.0))
                ranks = threelc.exchange.AllReduce(
                    threelc.exchange.Config(workers=1, push="3lc", pull="raw", dtype=dtype, min_n=0), 0,
                    [threelc.exchange.Tensor("a", n, residual=residual)])
                for _ in range(6 if n > 1023 else 1):
                    gradient, places = torch.randn(n).to(dtype), norms.places(ranks.step)
                    step, push = ranks.step, bytes(ranks.push([gradient])[0])
                    norms.keep(step, values_at([gradient], places), values_at([residual], places))
                    wanted = ranks.stats
                    self.assertEqual(norms.squares(), (wanted.push_signal_squares, wanted.push_residual_squares), n)
                    ranks.pull([ranks.reduce([push])], [torch.empty(n, dtype=dtype)])
        norms.forget()
        self.assertEqual(norms.squares(), (0.0, 0.0))


class Pulls(unittest.TestCase):
    SIZES = {"large": 5003, "small": 5, "middle": 200}

    def answered(self, codec, pull, dtype):
        """Answers of two ranks, and two like the first: one for a device, one for the host."""
        config = threelc.exchange.Config(workers=2, push=codec, pull=pull, dtype=dtype, min_n=10, split_n=1000)
        ranks = []
        for i in (0, 0, 1):
            host = {0: torch.zeros(5003), 2: torch.zeros(200)}
            tensors = [threelc.exchange.Tensor(name, n, residual=host.get(k))
                       for k, (name, n) in enumerate(self.SIZES.items())]
            ranks.append((threelc.exchange.AllReduce(config, i, tensors), host))
        torch.manual_seed(4)
        first, second = [[torch.randn(n).to(dtype) for n in self.SIZES.values()] for _ in range(2)]
        to = [rank.push(g) for (rank, _), g in zip(ranks, (first, first, second))]
        answers = [bytes(rank.reduce([to[0][i], to[2][i]])) for i, rank in ((0, ranks[0][0]), (1, ranks[2][0]))]
        ranks[1][0].reduce([to[1][0], to[2][0]])
        return ranks[0], ranks[1][0], answers

    def test_same_as_the_host(self):
        """Also where answers have codecs that are not decoded here."""
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for codec, pull, ours in (("3lc:s=1.5", None, 3), ("3lc", "ternary:block=100+quartic+zerorun", 3),
                                      ("3lc", "stochastic-ternary+quartic", 3), ("3lc", "topk:p=0.3+golomb", 0),
                                      ("3lc", "raw", 0), ("3lc-golomb", None, 3)):
                (device, residuals), host, answers = self.answered(codec, pull, dtype)
                on_device = OnDevice(device, Quantizer.of(codec), residuals, torch.device("cpu"))
                out, wanted = ([torch.full((n,), 7, dtype=dtype) for n in self.SIZES.values()] for _ in range(2))
                with counted() as count, mock.patch.object(crossing, "members_on_device",
                                                           wraps=crossing.members_on_device) as cross:
                    on_device.pull(answers, out)
                host.pull(answers, wanted)
                for i in range(3):
                    self.assertTrue(torch.equal(out[i], wanted[i]), f"{codec}, {pull}, {dtype}, tensor {i}")
                self.assertEqual(count(), (0, ours), f"{codec}, {pull}, {dtype}")
                (frames, *_), = [call.args for call in cross.call_args_list]  # all at once
                self.assertEqual(len(frames), 3 if pull == "topk:p=0.3+golomb" else 0)

    def test_what_crosses(self):
        """Payloads; also where Golomb codes would have more bytes than quartic ones, which are sent then."""
        torch.manual_seed(5)
        gradients = [torch.randn(500), torch.randn(300).sign()]
        for pull in "3lc", "3lc-golomb":
            kept = {i: torch.zeros(len(gradient)) for i, gradient in enumerate(gradients)}
            ranks = threelc.exchange.AllReduce(
                threelc.exchange.Config(workers=1, push="3lc", pull=pull, min_n=0), 0,
                [threelc.exchange.Tensor(str(i), len(residual), residual=residual) for i, residual in kept.items()])
            on_device, out = OnDevice(ranks, Quantizer.of("3lc"), kept, CPU), [torch.ones(500), torch.ones(300)]
            answers = [bytes(ranks.reduce([bytes(on_device.push(gradients, 1.0)[0])]))]
            with mock.patch.object(crossing, "_room", wraps=crossing._room) as room:
                on_device.pull(answers, out)
            frames = [threelc.Context(len(gradient), pull).compress(gradient) for gradient in gradients]
            sizes = [threelc.peek(frame).payload_size for frame in frames]
            self.assertLess(sizes[0], 100)
            self.assertEqual(sizes[1], 60)
            self.assertEqual([call.args[0] for call in room.call_args_list if call.args[0]],
                             sizes if pull == "3lc-golomb" else [sum(sizes)])
            self.assertEqual([mean.tolist() for mean in out],
                             [threelc.decompress(frame).tolist() for frame in frames])


def trained(rank, world, quantize, codec, mode, others=("sbc", "3lc-golomb")):
    """Steps, a NaN on rank 1 in the fifth, other codecs from the seventh to the ninth, and a new scale."""
    scaler = Scaler(1.0)
    model, state, optimizer = start(codec=codec, mode=mode, quantize=quantize, reserve=others, scaler=scaler)
    for step in range(11):
        train_one(rank, model, optimizer, step)
        if step == 2 and not all(group.on_device == (quantize == "device") for group in state._order):
            raise AssertionError(f"{codec} is not where it should be")
        if step in (6, 8):
            state.set_codec(others[step == 8])
        scaler.scale = 0.5 if step > 3 else 1.0
    stats = state.stats
    return bits(model), (stats.sent, stats.received, stats.skipped, stats.dropped, stats.residual_norms)


def train_one(rank, model, optimizer, step):
    if step == 5 and rank == 1:
        model.module.head.weight.data[0, 0] = math.nan
    before = {name: parameter.detach().clone() for name, parameter in model.module.named_parameters()}
    train(rank, model, optimizer, [step])
    if step == 5:  # as a GradScaler would, on all ranks
        for name, parameter in model.module.named_parameters():
            parameter.data.copy_(before[name].nan_to_num())


def handed_over(rank, world, quantize):
    """Steps on the first of two paths, the last ones with another codec, then, from its state, on the second."""
    paths = iter(quantize)

    def take(step, model, state, optimizer):
        train(rank, model, optimizer, [step])
        if step == 1:
            state.set_codec("3lc-golomb")

    (model, *_), states = in_pieces(
        [(0, 4), (4, 8)], lambda: start(codec="3lc:s=1.5", quantize=next(paths), reserve=["3lc-golomb"]), take)
    return bits(model), [{**group, "state": group["state"]["state"].tolist()} for group in states[1]["groups"]]


class Training(unittest.TestCase):
    def test_as_on_the_host(self):
        for codec, mode in (("3lc:s=1.75", "sharded"), ("3lc-golomb", "gather"),
                            ("ternary:block=100+quartic+zerorun", "sharded")):
            host, device = (CLUSTER.run(3, trained, quantize, codec, mode) for quantize in ("host", "device"))
            self.assertEqual(device, host)
            self.assertGreater(host[0][1][2], 0)

    def test_codes(self):
        """Of codecs with and without residuals; a codec that gets one stays on the device."""
        for codec, mode, others in (("natural:bits=9", "sharded", ("natural:rounding=nearest", "qsgd:bits=4")),
                                    ("qsgd:bits=4,block=100", "gather", ("int8", "raw")),
                                    ("onebit", "sharded", ("natural", "3lc"))):
            host, device = (CLUSTER.run(3, trained, quantize, codec, mode, others) for quantize in ("host", "device"))
            self.assertEqual(device, host)
            self.assertGreater(host[0][1][2], 0)

    def test_chosen(self):
        """Of codecs that send some of the values."""
        for codec, mode, others in (("topk:p=0.1,block=99", "sharded", ("topk:select=exact,bits=2,p=0.05+golomb",
                                                                        "sbc:p=0.02,block=64")),
                                    ("sbc:p=0.05", "gather", ("topk:p=0.3,bits=1", "random-sparse:p=0.3"))):
            host, device = (CLUSTER.run(3, trained, quantize, codec, mode, others) for quantize in ("host", "device"))
            self.assertEqual(device, host)
            self.assertGreater(host[0][1][2], 0)

    def test_states_are_the_same(self):
        host = CLUSTER.run(2, handed_over, ("host", "host"))
        for paths in (("device", "device"), ("device", "host"), ("host", "device")):
            self.assertEqual(CLUSTER.run(2, handed_over, paths), host)


