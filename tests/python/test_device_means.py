# SPDX-License-Identifier: MIT
"""AllReduce, register_fsdp(), LocalSteps and Gossip that quantize by torch operations, as on a GPU, here on the CPU:
messages, results and residuals are those of the host, bit for bit."""
import hashlib
import math
import unittest
import warnings
from contextlib import contextmanager
from unittest import mock

import torch

import threelc.torch
from cluster import CLUSTER
from device_frames import counted
from outer_models import HAS_FSDP2, backward, bits, build, in_pieces, memory, nesterov, sgd
from test_all_reduce import drawn
from test_fsdp import sharded
from test_sharded import Wide
from threelc.torch._common.transport import Transport

STEPS = 12


@contextmanager
def watched():
    """A digest of all messages, and how many frames were made of what a device quantized, and decoded there. cpu()
    makes copies, as of what is on a GPU."""
    digest, send, gather = hashlib.sha256(), Transport.all_to_all, Transport.all_gather

    def all_to_all(transport, messages):
        for message in messages:
            digest.update(message)
        return send(transport, messages)

    def all_gather(transport, message, *more):
        digest.update(message)
        return gather(transport, message, *more)

    with mock.patch.object(Transport, "all_to_all", all_to_all), \
            mock.patch.object(Transport, "all_gather", all_gather), \
            counted() as frames, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield lambda: (digest.hexdigest(), *frames())


def averaged(rank, world, settings, quantize):
    """Means of all steps, what is left, and what was sent. Rank 1 has a NaN in step 5. quantize: of each half of the
    steps; the second goes on from the state of the first."""
    paths, found = iter(quantize), []

    def step(number, mean):
        tensors = drawn(rank, number)
        if number == 5 and rank == 1:
            tensors["weight"][3, 3] = math.nan
        for name, tensor in tensors.items():
            mean(name, tensor)
        found.append(hashlib.sha256(b"".join(memory(tensors.values()))).hexdigest())

    with watched() as sent:
        (mean,), states = in_pieces([(0, STEPS // 2), (STEPS // 2, STEPS)],
                                    lambda: [threelc.torch.AllReduce(**settings, quantize=next(paths))], step)
        held = memory(mean.residuals.values())
        return (found, held, mean.stats.sent, memory(mean.flush().values()),
                {name: group["state"]["state"].tolist() for name, group in states[0]["groups"].items()}), sent()


def hybrid(rank, world, codec, mode, quantize):
    """Shards and residuals after steps with FSDP2, in the fifth of which rank 0 has a NaN."""
    with watched() as sent:
        model, group = sharded(rank)
        state = threelc.torch.register_fsdp(model, codec, mode, process_group=group, min_numel=1, quantize=quantize)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(STEPS):
            optimizer.zero_grad()
            x = torch.randn(8, 60, generator=torch.Generator().manual_seed(10 * step + rank))
            loss = model(x).pow(2).mean()
            (loss * math.nan if step == 4 and rank == 0 else loss).backward()
            for p in model.parameters():
                p.grad.to_local().nan_to_num_()  # as if a scaler had skipped it, on all ranks of a shard
            optimizer.step()
        groups = state.state_dict()["groups"]
        return (memory(p.to_local() for p in model.parameters()),
                {name: group["state"]["state"].tolist() for name, group in groups.items()}, state.stats.sent), sent()


def local(rank, world, settings, quantize):
    """The model, the common one, residuals, what is left and what was sent after local steps, in the seventh of which
    rank 1 gets a NaN. quantize: as in averaged()."""
    paths = iter(quantize)

    def start():
        model = build(rank)
        inner = sgd(model)
        optimizer = threelc.torch.LocalSteps(model, inner, nesterov, on_nonfinite="skip", every=3,
                                             **settings, quantize=next(paths))
        return model, inner, optimizer

    def step(number, model, inner, optimizer):
        inner.zero_grad()
        backward(model, rank, number)
        if number == 7 and rank == 1:
            model.second.weight.grad[0, 0] = math.nan
        optimizer.step()
        for state in inner.state.values():
            state["momentum_buffer"].nan_to_num_()

    with watched() as sent:
        (model, _, optimizer), states = in_pieces([(0, 17), (17, 34)], start, step)
        optimizer.synchronize()
        common, held = bits(model), memory(optimizer.residuals.values())
        optimizer.flush()
        kept = [group["group"]["state"]["state"].tolist() for group in states[2]["fragments"]]
        return (common, held, kept, memory(states[2]["anchors"].values()), optimizer.stats.sent,
                optimizer.stats.skipped, optimizer.stats.push_residual_ratio, optimizer.stats.pull_residual_ratio,
                bits(model)), sent()


def gossiped(rank, world, settings, dtype, quantize):
    """The model, the mean of all, the node's state and what was sent after steps, in the sixth of which rank 1 gets a
    NaN. quantize: as in averaged()."""
    paths = iter(quantize)

    def start():
        model = Wide(dtype)
        inner = torch.optim.SGD(model.trained(), 0.05)
        return model, inner, threelc.torch.Gossip(model, inner, **settings, quantize=next(paths))

    def step(number, model, inner, optimizer):
        model.set_gradients(rank, number)
        if number == 5 and rank == 1:
            model.some.grad[0, 3] = model.few.grad[0] = math.nan
        optimizer.step()

    with watched() as sent:
        (model, _, optimizer), states = in_pieces([(0, STEPS // 2), (STEPS // 2, STEPS)], start, step)
        stats = optimizer.stats
        return (memory(model.parameters()), memory(optimizer.average().values()),
                states[2]["node"]["state"].tolist(), stats.sent, stats.float_bytes, stats.stayed), sent()


class Means(unittest.TestCase):
    def compare(self, host, there, decodes=True):
        self.assertEqual([(found, sent[0]) for found, sent in there], [(found, sent[0]) for found, sent in host])
        self.assertEqual([sent[1:] for _, sent in host], [(0, 0)] * len(host))
        for _, sent in there:
            self.assertGreater(sent[1], STEPS // 2)
            self.assertEqual(sent[2] > STEPS // 2, decodes)

    def test_all_reduce(self):
        for settings in ({"codec": "3lc:s=1.5"}, {"codec": "3lc-golomb", "mode": "gather", "second_moment": 0.9}):
            host, there = (CLUSTER.run(2, averaged, settings, [where] * 2) for where in ("host", "device"))
            self.compare(host, there, "mode" not in settings)
        crossed = CLUSTER.run(2, averaged, settings, ("device", "host"))
        self.assertEqual([found for found, _ in crossed], [found for found, _ in host])

    @unittest.skipUnless(HAS_FSDP2, "FSDP2 of this PyTorch needs a GPU, or there is none")
    def test_fsdp(self):
        for codec, mode in (("3lc:s=1.75", "sharded"), ("3lc-golomb", "gather")):
            host, there = (CLUSTER.run(4, hybrid, codec, mode, where) for where in ("host", "device"))
            self.compare(host, there, mode == "sharded")

    def test_local_steps(self):
        for settings in ({"codec": "3lc:s=1.5", "mode": "sharded", "fragments": 2, "delay": 1, "mix": 0.5},
                         {"codec": "sbc:p=0.1"},
                         {"codec": "3lc-golomb", "warmup_rounds": 2, "mask_momentum": True, "error_reset": 0.5,
                          "residual_decay": 0.9, "participants": 2}):
            with self.subTest(settings):
                host, there = (CLUSTER.run(3, local, settings, [where] * 2) for where in ("host", "device"))
                self.compare(host, there, "mode" in settings)
                self.assertGreater(host[0][0][5], 0)
        crossed = CLUSTER.run(3, local, settings, ("device", "host"))
        self.assertEqual([found for found, _ in crossed], [found for found, _ in host])

    def test_gossip(self):
        """Changes of the model are quantized, of "ecd" its z; what comes of neighbours is the host's."""
        for settings, dtype in (({"kind": "ecd"}, torch.float32),
                                ({"kind": "ecd", "codec": "random-sparse:p=0.3"}, torch.float32),
                                ({"codec": "qsgd:bits=4,block=700"}, torch.float32),
                                ({"codec": "random-sparse:p=0.3"}, torch.float32),
                                ({"codec": "natural", "graph": "complete"}, torch.bfloat16)):
            with self.subTest(settings):
                host, there = (CLUSTER.run(3, gossiped, settings, dtype, [where] * 2) for where in ("host", "device"))
                self.assertEqual([(found, sent[0]) for found, sent in there],
                                 [(found, sent[0]) for found, sent in host])
                self.assertEqual([found[5] for found, _ in there], [0, 1, 0])
                for rank, (_, sent) in enumerate(there):
                    self.assertEqual(sent[1:], (2 * (STEPS - (rank == 1)), 0))
        crossed = CLUSTER.run(3, gossiped, settings, dtype, ("device", "host"))
        self.assertEqual([found for found, _ in crossed], [found for found, _ in host])


if __name__ == "__main__":
    unittest.main()
