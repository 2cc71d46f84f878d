# SPDX-License-Identifier: MIT
"""Residuals of bfloat16 where gradients are, by torch operations, as on a GPU, here on the CPU: messages, results and
residuals are those of the C library whose residuals are rounded after each call. (test_kernels*.py have Triton's.)"""
import math
import sys
import unittest
from pathlib import Path
from unittest import mock

import test_fsdp_state
import torch
from test_device_answers import OtherRank
from torch.nn.parallel import DistributedDataParallel

import threelc
import threelc.torch
from device_residuals import kept
from outer_models import HAS_FSDP2, Linear
from test_device_owners import Loses
from test_owner_steps import Two, push_pull, sharded
from thread_ranks import RanksTest, local_steps
from threelc import exchange
from threelc.torch._common.device import check_quantize, place_of
from threelc.torch._common.groups import Clock, Group
from threelc.torch._device.answers import _writable
from threelc.torch._owners.buckets import Bucket
from threelc.torch.kernels.operations import bits_of, rounded

EXPERIMENTS = Path(__file__).resolve().parents[2] / "bench" / "experiments" / "torch"
CPU, BF16 = torch.device("cpu"), torch.bfloat16
SIZES = {"large": 3001, "small": 5, "middle": 300, "wide": 1017}
CODECS = (("3lc:s=1.75", "sharded"), ("3lc-golomb", "sharded"), ("ternary:block=100+quartic+zerorun", "gather"),
          ("onebit", "gather"), ("topk:p=0.1,bits=2+golomb", "gather"), ("topk:p=0.1,block=99", "sharded"),
          ("sbc:p=0.05", "gather"))


class Rounding:
    """An object on the host. After each call residuals are rounded."""

    def __init__(self, one, residuals):
        self._one, self._residuals = one, residuals

    def __getattr__(self, name):
        found = getattr(self._one, name)
        if name not in ("push", "reduce", "pull", "load_checked"):
            return found

        def called(*arguments):
            try:
                return found(*arguments)
            finally:
                for residual in self._residuals:
                    residual.copy_(kept(residual, BF16))
        return called


def made(rank, codec, mode, on_device, residual_dtype=BF16, world=2):
    """A group of a rank. Not on_device: on the host, rounded."""
    config = exchange.Config(workers=world, push=codec, gather=mode == "gather", min_n=10, split_n=1000)
    group = Group(config, rank, list(SIZES), list(SIZES.values()), {}, device=CPU if on_device else None,
                  residual_dtype=residual_dtype)
    group._compared = True
    if not on_device and residual_dtype == BF16:
        there = [group._host[i] for i in group._quantizable]
        if mode == "sharded":  # the device makes answers, of 3lc or 3lc-golomb
            there += [_writable(part, group.allreduce) for part in group.allreduce.parts()
                      if part.tensor in group._quantizable and part.n]
        group.allreduce = Rounding(group.allreduce, there)
    return group


def gradients(rank, step):
    generator = torch.Generator().manual_seed(10 * step + rank)
    found = [torch.randn(n, generator=generator) * 10.0**(step % 3 - 1) for n in SIZES.values()]
    if step == 2 and rank == 1:
        found[2][7] = math.nan
    if step == 3 and not rank:
        found[1][2] = math.inf  # of the tensor that is on the host
    return found


def stepped(group, transport, steps):
    """The means of each step."""
    found = []
    for step in steps:
        out = [torch.full((n,), 7.0) for n in SIZES.values()]
        try:
            group.run(transport, gradients(transport.rank, step), out, Clock())
        except threelc.StepError as error:
            out = [str(error)]
        found.append(out if isinstance(out[0], str) else torch.cat(out).tolist())
    return found


def state_of(group):
    return group.state_dict()["state"]["state"]


class Groups(RanksTest):
    def test_as_the_rounded_host(self):
        """All means, and all residuals, also after steps that failed on one rank."""
        for codec, mode in CODECS:
            def train(transport, rank, on_device):
                group = made(rank, codec, mode, on_device)
                for residual in group._residuals.values():
                    self.assertEqual(residual.dtype, BF16 if on_device and len(residual) > 5 else torch.float32)
                means = stepped(group, transport, range(6))
                return means, state_of(group), [residual.tolist() for residual in group._residuals.values()]

            host, there = (self.talk(2, lambda transport, rank: train(transport, rank, on_device))
                           for on_device in (False, True))
            for rank in range(2):
                self.assertEqual([isinstance(mean[0], str) for mean in there[rank][0]], [i in (2, 3) for i in range(6)])
                self.assertTrue(there[rank] == host[rank], codec)  # a diff would take minutes
                self.assertGreater(max(map(abs, there[rank][2][0])), 0)

    def test_what_another_owner_fails(self):
        """What pushes and answers sent comes back, is added in float32, and rounded."""
        found = []
        for on_device in False, True:
            group = made(0, "3lc", "sharded", on_device)
            other = OtherRank(exchange.AllReduce(group.allreduce.config, 1, [exchange.Tensor(*one)
                                                                             for one in SIZES.items()]))
            other.rank = 0
            found.append((stepped(group, other, (0, 1, 4, 5)), state_of(group)))
        self.assertIsInstance(found[1][0][1][0], str)  # its second step
        self.assertTrue(found[1] == found[0])

    def test_states(self):
        """They go on with the same bits; to float32 residuals are what they were, and from float32 rounded."""
        for mode in "sharded", "gather":
            def train(transport, rank, *dtypes):
                group, states = made(rank, "3lc:s=1.75", mode, True, dtypes[0]), []
                means = stepped(group, transport, range(2))
                for dtype in dtypes[1:]:
                    before, state = dict(group._residuals), group.state_dict()
                    group = made(rank, "3lc:s=1.75", mode, True, dtype)
                    group.load_states([state], False)
                    for name, residual in group._residuals.items():
                        held = kept(before[name].float(), residual.dtype)
                        self.assertTrue(torch.equal(bits_of(residual), bits_of(held)))
                    states.append((state["state"]["state"], state_of(group)))
                return means + stepped(group, transport, range(4, 6)), states

            whole, = {str(means) for means, _ in self.talk(2, lambda *at: train(*at, BF16))}
            there = self.talk(2, lambda *at: train(*at, BF16, torch.float32, BF16))
            for means, states in there:
                self.assertEqual(str(means), whole)
                for before, after in states:
                    self.assertEqual(after, before)
            for _, ((before, after),) in self.talk(2, lambda *at: train(*at, torch.float32, BF16)):
                self.assertNotEqual(after, before)
                self.assertEqual(len(after), len(before))


class Late(unittest.TestCase):
    def test_a_server_goes_on(self):
        """Without a push of rank 1, which comes back to its residual."""
        sizes, found = {"large": 5003, "small": 5}, []
        config = exchange.Config(workers=2, servers=1, push="3lc:s=1.5", min_n=10, backup=1)
        for place in None, CPU:
            weights = {name: torch.zeros(n) for name, n in sizes.items()}
            buckets = [Bucket(config, rank, sizes, {"small"}, True, weights, 0, place, BF16) for rank in range(2)]
            if place is None:
                for bucket in buckets:
                    bucket._coded.worker = Rounding(bucket.worker, [bucket.residuals["large"]])
            torch.manual_seed(5)
            for step in range(4):
                mails = [Loses(step in (1, 2)) for _ in buckets]
                for bucket, mail in zip(buckets, mails):
                    bucket.take([torch.randn(n) for n in sizes.values()], set())
                    bucket.push(1.0, mail, Clock())
                buckets[0]._came = [mail.push_to_server for mail in mails]
                self.assertEqual([bucket.reduce(weights.__getitem__, mails[0]) for bucket in buckets], [True, False])
                answer = buckets[0].answer([parameter.grad for parameter in buckets[0].parts])
                for bucket in buckets:
                    bucket.pull([answer])
                    held = torch.cat([*bucket.values, *bucket.unsent().values()])
                    found.append((bits_of(held).tolist(), bucket.late))
            if place is not None:
                self.assertEqual(buckets[1]._coded.on_device.residuals[0].dtype, BF16)
        self.assertTrue(found[8:] == found[:8])
        self.assertEqual([late for _, late in found[8:]], [0, 0, 0, 1, 0, 1, 0, 0])


class Bits(unittest.TestCase):
    def test_rounding(self):
        """Half to even; what would become infinite does not."""
        patterns = torch.tensor([0x3f800000, 0x3f808000, 0x3f808001, 0x3f818000, 0x3f817fff, 0x7f7f7fff, 0x7f7f8000,
                                 0x7f7fffff, 0, 0x8000, 0x8001, 0x18000, 0x7fffff, 0x1234567], dtype=torch.int32)
        wanted = [0x3f80, 0x3f80, 0x3f81, 0x3f82, 0x3f81, 0x7f7f, 0x7f7f, 0x7f7f, 0, 0, 1, 2, 0x80, 0x123]
        values = torch.cat([patterns, patterns ^ torch.iinfo(torch.int32).min]).view(torch.float32)
        for found in rounded(values, BF16), kept(values, BF16):
            self.assertEqual((bits_of(found).int() & 0xffff).tolist(), wanted + [each | 0x8000 for each in wanted])
        self.assertIs(rounded(values, torch.float32), values)


def hooked(**settings):
    """register() and a step; what residuals are."""
    state = threelc.torch.register(DistributedDataParallel(Linear()), min_numel=1, warmup_steps=0, **settings)
    return state._make_group(["weight"], [2000], threelc.DType.F32, CPU)._residuals


def averaged(**settings):
    mean = threelc.torch.AllReduce(**settings)
    mean("one", torch.ones(300))
    return mean.residuals


def local(**settings):
    return local_steps(torch.nn.Linear(30, 20), outer=lambda p: torch.optim.SGD(p, 0.5), **settings).residuals


def at_owners(make, **settings):
    model = Two()
    model.lose(0.25, 0.5)
    optimizer = make(model, **settings)
    optimizer.step()
    there = optimizer._buckets[0]._coded.on_device
    return {} if there is None else there.residuals


def hybrid(**settings):
    _, state = test_fsdp_state.made(**settings)
    test_fsdp_state.pass_backward(state, state._transport.rank, 0)
    return state.residuals


WAYS = {"register": hooked, "AllReduce": averaged, "LocalSteps": local,
        "ShardedOptimizer": lambda **settings: at_owners(sharded, **settings),
        "PushPull": lambda **settings: at_owners(push_pull, **settings),
        **({"register_fsdp": hybrid} if HAS_FSDP2 else {})}
NEEDS = "residual_dtype=torch.bfloat16 is for what is quantized on a device, and "


class Ways(RanksTest):
    def test_all_have_it(self):
        for name, way in WAYS.items():
            for settings, dtype in (({}, torch.float32), ({"residual_dtype": BF16}, BF16)):
                found = self.on(2, lambda rank: {residual.dtype for residual in way(
                    codec="3lc", quantize="device", **settings).values()})
                self.assertEqual(found, 2 * [{dtype}], name)

    def test_none_has_it_on_the_host(self):
        """Also where only devices of tensors tell."""
        for name, way in WAYS.items():
            for settings, why in (({"quantize": "host"}, 'with quantize="host" nothing is'),
                                  ({"quantize": "auto"}, 'with quantize="auto" nothing on cpu is')):
                with self.subTest(f"{name}, {settings}"):
                    self.refused(1, lambda rank: way(codec="3lc", residual_dtype=BF16, **settings), "ValueError",
                                 NEEDS + why)


    @unittest.skipUnless(HAS_FSDP2, "FSDP2 of this PyTorch needs a GPU, or there is none")
    def test_fsdp_refuses_at_once(self):
        """Before a backward pass."""
        self.refused(1, lambda rank: test_fsdp_state.made("3lc", residual_dtype=BF16), "ValueError",
                     NEEDS + 'with quantize="auto" nothing on cpu is')


class Training(unittest.TestCase):
    def test_loss(self):
        """The experiment, shorter: what is rounded is lost in the noise."""
        with mock.patch.object(sys, "path", [str(EXPERIMENTS), *sys.path]):
            import residuals
        o = residuals.options().parse_args(["--values", "2000", "--steps", "40", "--ranks", "2"])
        one, other = (residuals.loss_of(o, "3lc", "sharded", 1, dtype) for dtype in (torch.float32, BF16))
        self.assertNotEqual(one, other)
        self.assertLess(abs(one - other), 0.02 * one)


class Arguments(unittest.TestCase):
    def test_refusals(self):
        for arguments, sentence in (
                (("device", None, "3lc", torch.float16),
                 "residual_dtype should be torch.float32 or torch.bfloat16, not torch.float16"),
                (("device", None, "3lc", "bf16"),
                 "residual_dtype should be torch.float32 or torch.bfloat16, not 'bf16'"),
                (("device", None, "natural", BF16),
                 "residual_dtype=torch.bfloat16 is for codecs with residuals, and natural keeps none"),
                (("host", None, "3lc", BF16), NEEDS + 'with quantize="host" nothing is'),
                (("auto", 0.9, "3lc", BF16), NEEDS + "with momentum_correction nothing is")):
            with self.assertRaises(ValueError) as caught:
                check_quantize(*arguments)
            self.assertEqual(str(caught.exception), sentence)
        for codec in ("3lc", "topk", "sbc", "onebit"):
            check_quantize("auto", None, codec, BF16)
        check_quantize("host", 0.9, "natural", torch.float32)

    def test_places(self):
        gpu, other = torch.device("cuda", 0), torch.device("cuda", 1)
        self.assertEqual(place_of("auto", [gpu], False, "3lc", BF16), gpu)
        for quantize, devices, codec, why in (
                ("auto", [CPU], "3lc", "cpu"), ("device", [gpu, other], None, "cuda:0 and cuda:1"),
                ("device", [torch.device("mps")], "onebit", "mps")):
            with self.assertRaises(ValueError) as caught:
                place_of(quantize, devices, False, codec, BF16)
            self.assertEqual(str(caught.exception), f'{NEEDS}with quantize="{quantize}" nothing on {why} is')


if __name__ == "__main__":
    unittest.main()
