# SPDX-License-Identifier: MIT
"""Answers that owners make where gradients are, here by torch operations on the CPU: messages, residuals and states are
those of the C library."""
import itertools
import math
import unittest
from types import SimpleNamespace
from unittest import mock

import torch

import threelc
from threelc import Status, exchange
from threelc.torch._device.answers import answers_for
from threelc.torch._device import crossing
from threelc.torch._device.crossing import codes_on_device, shrunk_on_device, symbols_on_device, way_of_symbols
from threelc.torch._device.norms import with_norms
from threelc.torch._device.residuals import Residuals
from threelc.torch._common.groups import Clock, Group
from threelc.torch._common.starving import Starving
from threelc.torch.kernels import sums
from threelc.torch.kernels.operations import bits_of
from threelc.torch.kernels.quantizer import Quantizer
from threelc.torch.kernels.ways import floats_on_device

CPU = torch.device("cpu")
SIZES = {"large": 3001, "small": 5, "middle": 300, "wide": 1017}
HUGE = 3.3e38
CODECS = (  # pushes, answers, steps from 11 on in which residual + mean is infinite
    ("3lc", "3lc:s=1.5", [12]), ("3lc-golomb", "3lc-golomb:s=1.75", [12]), ("3lc:s=1.75", None, []),
    ("3lc-golomb:s=1.5", "3lc", [12]), ("3lc:block=100", "3lc-golomb:block=70", [12]),
    ("3lc:s=1.5,block=1000", "3lc:block=65536", [12]), ("natural", None, []), ("topk:p=0.2", "onebit:block=100", [12]),
    ("onebit", "topk:p=0.3,bits=1", [12]), ("int8:block=64", "qsgd:bits=4", []),
    ("sbc:p=0.05", "random-sparse:p=0.3", [12]), ("random-sparse", "sbc:p=0.4", [11, 12]), ("qsgd", "3lc", [12]),
    ("3lc:s=1.5", "natural:bits=9,block=100", []))


class Ranks:
    """Of an all-reduce. on_device: answers are made there."""

    def __init__(self, world, push, pull=None, on_device=False, dtype=torch.float32, **config):
        self.dtype = dtype
        self.config = exchange.Config(workers=world, push=push, pull=pull, min_n=10, split_n=1000, dtype=dtype,
                                      **config)
        tensors = [exchange.Tensor(name, n) for name, n in SIZES.items()]
        self.objects = [exchange.AllReduce(self.config, rank, tensors) for rank in range(world)]
        self.answers = [answers_for(one, pull or exchange.pull_codec(push), [0, 2, 3], CPU)
                        if on_device else None for one in self.objects]

    def step(self, gradients, weights, lost=False):
        """The messages of owners, what all get, and statistics. lost: the push of the last rank to the first one."""
        pushes = [one.push(*each) for one, each in zip(self.objects, zip(gradients, weights))]
        came = [[bytes(push[rank]) for push in pushes] for rank in range(len(pushes))]
        if lost:
            came[0][-1] = b""
        reduced = [bytes((there or one).reduce(each)) for one, there, each in zip(self.objects, self.answers, came)]
        causes = [one.outcome().cause for one in self.objects]
        out = [[torch.full((n,), 7.0, dtype=self.dtype) for n in SIZES.values()] for _ in pushes]
        for one, there, each in zip(self.objects, self.answers, out):
            try:
                one.pull(reduced, each)
            except threelc.StepError:
                if there:
                    there.take_back()
        stats = [with_norms(one.stats, None, there) for one, there in zip(self.objects, self.answers)]
        return (reduced, causes, [bits_of(torch.cat(each)).tolist() for each in out],
                [(each.pull_signal_squares, each.pull_residual_squares) for each in stats])

    def states(self):
        found = []
        for one, there in zip(self.objects, self.answers):
            if there:
                with there.on_host():
                    found.append(one.state_dict())
            else:
                found.append(one.state_dict())
        return found

    def load(self, states):
        for one, there, state in zip(self.objects, self.answers, states):
            if there:
                with there.on_host():
                    one.load_state_dict(state)
            else:
                one.load_state_dict(state)


def drawn(world, step, multiplier):
    """Gradients of all ranks and their weights. Some have none, not all are finite. multiplier: s of the codecs, of
    both together."""
    generator = torch.Generator().manual_seed(step)
    gradients = [[torch.randn(n, generator=generator) * 10.0**(rank - 1) for n in SIZES.values()]
                 for rank in range(world)]
    weights = [1.0] * world
    if step == 2:
        weights = [0.3, 7.0, 1e-3, 2.0][:world]
    if step == 3:
        gradients[1] = None
    if step == 4:
        gradients[0][2][7] = math.nan
    if step == 5:
        gradients[-1][1][2] = -math.inf
    if step == 6:
        for each in gradients:
            each[0] *= 1e-41  # subnormals
    if step == 8:
        gradients = [None] * world
    if step in (11, 12):  # the mean is finite, and more than the largest float with what is left of that before
        for rank, each in enumerate(gradients):
            each[3][:] = 0
            each[3][4 + step % 2] = HUGE / multiplier
            each[3][4] = HUGE / multiplier if step == 12 or not rank else 0.0
    return gradients, weights


class Answers(unittest.TestCase):
    def test_steps(self):
        """As on the host: answers, means, residuals, and what is found in steps that fail; and after a resume."""
        for world, (push, pull, infinite) in zip(itertools.cycle((2, 3, 4, 3, 2, 3)), CODECS):
            host, there, failed = Ranks(world, push, pull), Ranks(world, push, pull, on_device=True), []
            multiplier = math.prod(found.multiplier for found in map(Quantizer.of, (push, pull or "3lc")) if found)
            for step in range(1, 13):
                where = f"{push}, {pull}, step {step}"
                given = drawn(world, step, multiplier)
                with by_host() as reduced:
                    found = there.step(*given, lost=step == 7)
                if set(found[1]) != {Status.OK}:
                    failed.append(step)
                self.assertEqual(reduced.called, step in failed, where)
                self.assertTrue(found == host.step(*given, lost=step == 7), where)  # a diff would take minutes
                if step in (1, 5, 7, 10, 12):
                    self.assertTrue(there.states() == host.states(), where)
                if step == 9:
                    there = Ranks(world, push, pull, on_device=True)
                    there.load(host.states())
            self.assertEqual(failed, [4, 5, 7, *infinite], push)

    def test_dtypes(self):
        """Of gradients. Means and answers are float32."""
        for push, pull, dtype in (("natural:rounding=nearest", "topk:p=0.1,bits=1", torch.float16),
                                  ("random-sparse:p=0.5", "int8", torch.bfloat16), ("topk", "onebit", torch.bfloat16)):
            host, there = (Ranks(2, push, pull, on_device, dtype) for on_device in (False, True))
            for step in (1, 2, 3):
                gradients, weights = drawn(2, step, 1.0)
                given = [each and [x.to(dtype) for x in each] for each in gradients], weights
                with by_host() as reduced:
                    self.assertTrue(there.step(*given) == host.step(*given), push)
                self.assertEqual(reduced.call_count, 2, push)  # of the other ranks
            self.assertTrue(there.states() == host.states(), push)

    def test_other_codecs(self):
        """A rank that pushes another one. The device takes symbols, whatever their stages, if all have the same blocks,
        or all others that have kernels."""
        for push, codec, is_there in (
                ("3lc", "3lc-golomb:s=1.2", True), ("3lc", "stochastic-ternary+quartic", True),
                ("3lc", "ternary:block=100+quartic", False), ("3lc", "topk:p=0.1", False),
                ("topk", "onebit:block=64", True), ("onebit", "raw", False)):
            host, there = (Ranks(2, push, "3lc-golomb", on_device, reserve=codec) for on_device in (False, True))
            for step in (1, 2, 3):
                if step == 2:
                    for ranks in host, there:
                        ranks.objects[1].set_codec(None, codec)
                given = drawn(2, step, 1.0)
                with by_host() as reduced:
                    found = there.step(*given)
                self.assertEqual(reduced.called, not is_there and step == 2, codec)  # in step 3 it does not push
                self.assertTrue(found == host.step(*given), codec)
            self.assertTrue(there.states() == host.states(), codec)

    def test_sums(self):
        """Sums of natural frames may become a frame without their values: such answers are the host's."""
        for push, pull, is_there in (("natural", "natural", False), ("natural", "natural:block=100", True),
                                     ("3lc", "3lc", True)):
            host, there = (Ranks(3, push, pull, on_device, sum=True) for on_device in (False, True))
            self.assertEqual([answers is not None for answers in there.answers], [is_there] * 3, pull)
            for step in (1, 2, 3):
                self.assertTrue(there.step(*drawn(3, step, 1.0)) == host.step(*drawn(3, step, 1.0)), pull)

    def test_which(self):
        """Those that gradients are quantized with."""
        for pull, device, is_there in (
                ("3lc:s=1.5", "cpu", True), ("ternary:block=100+quartic", "cpu", True), ("natural", "cpu", True),
                ("onebit", "cpu", True), ("sbc", "cpu", True), ("raw", "cpu", False), ("onebit", "mps", False),
                ("stochastic-ternary+quartic", "cpu", False)):
            one = exchange.AllReduce(exchange.Config(workers=1, push="3lc", pull=pull), 0, [exchange.Tensor("a", 1000)])
            self.assertEqual(answers_for(one, pull, [0], torch.device(device)) is not None, is_there, (pull, device))
            self.assertIsNone(answers_for(one, pull, [], CPU))

    def test_frames_with_checksums(self):
        """They are no part of the payload, though the exchange makes none."""
        for n in (1, 2000):
            plain, checked = (threelc.Context(n, "3lc", checksum=checksum).compress(torch.full((n,), 2.0))
                              for checksum in (False, True))
            self.assertEqual(len(checked), len(plain) + 4)
            found = [shrunk_on_device([frame], [n], [0], CPU) for frame in (plain, checked)]
            self.assertEqual(found[1][0], found[0][0])
            self.assertEqual(found[1][1].tolist(), found[0][1].tolist())


class Crossing(unittest.TestCase):
    def test_ways(self):
        """Payloads cross of tensors without blocks, if they are less than quartic bytes."""
        for codec, n, block, size, wanted in (
                ("ternary+quartic+zerorun", 500, 0, 100, shrunk_on_device),
                ("ternary+quartic+zerorun", 0, 0, 0, symbols_on_device),
                ("ternary+quartic+zerorun", 500, 7, 99, symbols_on_device),
                ("ternary+golomb", 500, 0, 99, codes_on_device), ("ternary+golomb", 500, 0, 100, symbols_on_device),
                ("ternary+golomb", 500, 7, 99, symbols_on_device), ("ternary+golomb", 0, 0, 0, symbols_on_device),
                ("ternary+quartic", 500, 0, 99, symbols_on_device)):
            info = SimpleNamespace(codec=codec, n=n, block=block, payload_size=size)
            self.assertIs(way_of_symbols(info), wanted, (codec, n, block, size))

    def test_frames(self):
        """Several at once, of other lengths; and none."""
        torch.manual_seed(6)
        ns = (3001, 11, 200)
        for codec, block, way in (("3lc", 0, shrunk_on_device), ("3lc-golomb:s=1.2", 0, codes_on_device),
                                  ("ternary:block=64+golomb", 64, symbols_on_device)):
            gradients = [torch.randn(n) * (torch.rand(n) < 0.03) for n in ns]
            gradients[1][:] = 0
            frames = [threelc.Context(len(x), codec, checksum=True).compress(x) for x in gradients]
            scales, quartic = way(frames, ns, [block] * 3, CPU)
            wanted = [threelc.decompress_quartic(frame, n) for frame, n in zip(frames, ns)]
            self.assertEqual(list(map(list, scales)), [one for _, one in wanted], codec)
            self.assertEqual(bytes(quartic.tolist()), b"".join(each for each, _ in wanted), codec)
            self.assertEqual([len(one) for one in way([], [], [], CPU)], [0, 0])
            infos = [threelc.peek(frame) for frame in frames]
            headers, payloads, sizes = crossing.payloads_on_device(frames, CPU)
            self.assertEqual(headers, [frame[:info.header_size] for frame, info in zip(frames, infos)])
            self.assertEqual(sizes, [info.payload_size for info in infos])
            self.assertEqual(bytes(payloads.tolist()), b"".join(
                frame[info.header_size:][:info.payload_size] for frame, info in zip(frames, infos)))

    def test_members(self):
        """Positions and values of several frames, of which one has none; and no frames."""
        torch.manual_seed(6)
        gradients = [torch.randn(n) for n in (300, 7, 3001)]
        gradients[1][:] = 0
        frames = [threelc.Context(len(x), "topk:p=0.1").compress(x) for x in gradients]
        found = crossing.members_on_device(frames, list(map(len, gradients)), CPU)
        self.assertEqual([len(at) for at, _ in found][1], 0)
        for frame, x, (at, values) in zip(frames, gradients, found):
            self.assertTrue(torch.equal(torch.zeros(len(x)).index_put((at,), values),
                                        threelc.decompress(frame, torch.empty(len(x)))))
        self.assertEqual(crossing.members_on_device([], [], CPU), [])

    def test_memory(self):
        """Of the host, from which a GPU copies by itself."""
        for device in "cuda", "cpu", "mps":
            with mock.patch.object(torch, "empty") as empty:
                self.assertIs(crossing._room(5, torch.device(device)), empty.return_value)
            empty.assert_called_once_with(5, dtype=torch.uint8, pin_memory=device == "cuda")
        self.assertEqual([one.tolist() for one in floats_on_device([[1.5, 2], [], [3]], CPU)], [[1.5, 2], [], [3]])

    def test_what_comes_back(self):
        """It is added where it is not 0, so that -0 stays what it is."""
        host = torch.tensor([-0.0, 1.5, 0.0, 2.0])
        one = Residuals({3: host}, CPU, torch.float32)
        host[:] = torch.tensor([0.0, 0.25, -4.0, -0.0])
        one.take_back()
        self.assertEqual(bits_of(one.residuals[3]).tolist(), bits_of(torch.tensor([-0.0, 1.75, -4.0, 2.0])).tolist())
        self.assertEqual(host.tolist(), [0.0] * 4)


class OtherRank:
    """A transport to a rank on the host, which does not get our push in step 2."""

    def __init__(self, one):
        self._one, self._came = one, []

    def all_to_all(self, messages):
        theirs = self._one.push([torch.full((n,), 2.0) for n in self._one._sizes])
        self._came = [b"" if self._one.step == 2 else bytes(messages[1]), bytes(theirs[1])]
        return [bytes(messages[0]), bytes(theirs[0])]

    def all_gather(self, message):
        reduced = [bytes(message), bytes(self._one.reduce(self._came))]
        try:
            self._one.pull(reduced, [torch.empty(n) for n in self._one._sizes])
        except threelc.StepError:
            pass
        return reduced


class Groups(unittest.TestCase):
    def test_a_step_that_another_owner_fails(self):
        """What this one answered comes back to its residuals on the device."""
        for push, pull in ("3lc", None), ("topk", "onebit:block=100"):
            found = self.found(exchange.Config(workers=2, push=push, pull=pull, split_n=1000))
            self.assertTrue(found[4:] == found[:4], push)

    def found(self, config):
        """Means and states of four steps on the host, then on a device."""
        sizes, found = (2000, 300), []
        for device in None, CPU:
            names = [str(n) for n in sizes]
            group = Group(config, 0, names, sizes, {}, device=device)
            group._compared = True  # its history with that of the other rank
            self.assertEqual(group._answers is not None, device is not None)
            transport = OtherRank(exchange.AllReduce(config, 1, [exchange.Tensor(*one) for one in zip(names, sizes)]))
            for step in range(1, 5):
                torch.manual_seed(step)
                out = [torch.zeros(n) for n in sizes]
                try:
                    group.run(transport, [torch.randn(n) for n in sizes], out, Clock())
                except threelc.StepError:
                    self.assertEqual(step, 2)
                found.append((torch.cat(out).tolist(), group.state_dict()))
        return found

    def test_starving(self):
        """The warning comes when it comes on the host."""
        transport, found = SimpleNamespace(all_to_all=lambda messages: [bytes(messages[0])],
                                           all_gather=lambda message: [bytes(message)]), []
        for device in None, CPU:
            config = exchange.Config(workers=1, push="3lc", pull="3lc:s=1.99")
            group, starving, out = Group(config, 0, ["a"], [1000], {}, device=device), Starving(), [torch.empty(1000)]
            group._compared = True
            torch.manual_seed(1)
            for step in range(64):
                gradient = (torch.rand(1000) + 1) * 0.02 * (1 - step % 2)
                gradient[7] = 0.7 * (step % 2)  # answers send hardly more than this one
                group.run(transport, [gradient], out, Clock())
                found.append((starving.look(lambda: [group.stats]), group.stats))
        self.assertEqual(found[64:], found[:64])
        self.assertEqual([step for step, (warning, _) in enumerate(found[:64], 1) if warning], [64])


class Sums(unittest.TestCase):
    def test_operations(self):
        self.assertTrue(sums.same_sums(sums.OPERATIONS, CPU))
        for wrong in (lambda quartic, scales, *rest: sums.OPERATIONS(quartic, scales.flip(0), *rest),
                      lambda quartic, scales, *rest: sums.OPERATIONS(quartic, scales * (scales > 1.2e-38), *rest)):
            self.assertFalse(sums.same_sums(wrong, CPU))

    def test_no_pieces(self):
        out = torch.full((7,), 3.0)
        sums.OPERATIONS(torch.empty(0, dtype=torch.uint8), torch.empty(0), 0, out)
        self.assertEqual(out.tolist(), [0.0] * 7)


def by_host():
    """Counts what the C library reduces."""
    return mock.patch.object(exchange.AllReduce, "reduce", autospec=True, side_effect=exchange.AllReduce.reduce)


if __name__ == "__main__":
    unittest.main()
