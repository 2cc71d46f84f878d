# SPDX-License-Identifier: MIT
"""ShardedOptimizer and PushPull that quantize by torch operations, as on a GPU, here on the CPU: messages, parameters
and residuals are those of the host, bit for bit."""
import hashlib
import math
import unittest
from unittest import mock

import torch

import threelc
import threelc.torch
from cluster import CLUSTER
from device_frames import counted
from outer_models import in_pieces, memory
from test_sharded import Wide, adamw
from threelc.exchange import Server
from threelc.torch._common.groups import Clock
from threelc.torch._owners.buckets import Bucket

RANKS, STEPS = 3, 12
SETTINGS = (
    ("ShardedOptimizer", {"codec": "3lc:s=1.75", "pull": "ternary:block=100+golomb", "max_norm": 1.0}, torch.float32),
    ("ShardedOptimizer", {"codec": "3lc-golomb", "overlap": True, "bucket_mb": 0.01, "warmup_steps": 2},
     torch.float32),
    ("ShardedOptimizer", {"codec": "ternary:block=100+quartic+zerorun", "pull": "int8", "buffers": "first",
                          "second_moment": 0.9}, torch.bfloat16),
    ("ShardedOptimizer", {"codec": "topk:p=0.1,bits=2+golomb"}, torch.float32),
    ("PushPull", {"codec": "natural", "pull": "3lc"}, torch.float32),
    ("PushPull", {"codec": "3lc", "pull": "topk:p=0.3+golomb", "servers": 2}, torch.bfloat16))


def made(model, kind, settings):
    return getattr(threelc.torch, kind)(model, adamw, **settings)


def messages_of(optimizer):
    """A digest of all that is sent from now on."""
    digest, mail = hashlib.sha256(), optimizer._mail
    push, answer = mail.push, mail.answer

    def pushed(messages):
        for message in messages:
            digest.update(message)
        return push(messages)

    def answered(message):
        digest.update(message)
        return answer(message)

    mail.push, mail.answer = pushed, answered
    return digest


def answers():
    """Counts answers of frames that a device made."""
    return mock.patch.object(Server, "answer_frames", autospec=True, side_effect=Server.answer_frames)


def digest_of(pieces):
    return hashlib.sha256(b"".join(pieces)).hexdigest()


def residuals(state):
    """Digests of the states of workers and servers, which have them."""
    return [[side and digest_of([bytes(side["state"].tolist())]) for side in (bucket["worker"], bucket["server"])]
            for bucket in state["buckets"] or [state]]


def step(rank, number, model, optimizer):
    """Rank 1 has a NaN in step 5, all have one in step 7. In step 8 the owner on rank 0 makes infinities, so the step
    fails for its parts alone. Returns what the step raises."""
    model.set_gradients(rank, number)
    if (number == 5 and rank == 1) or number == 7:
        model.some.grad[0, number] = math.nan
    if number == 8 and rank == 0:
        optimizer.param_groups[0]["lr"] = math.inf
    try:
        optimizer.step()
        return None
    except threelc.StepError as error:
        return str(error)
    finally:
        optimizer.param_groups[0]["lr"] = 1e-2


def trained(rank, world, kind, settings, dtype):
    """Errors, the bits after each step, a digest of messages, residuals, stats, what is left after flush(), and frames
    of the device: pushed, decoded, and how many times it answered."""
    model = Wide(dtype)
    with counted() as frames, answers() as answered:
        optimizer = made(model, kind, settings)
        digest, errors, bits = messages_of(optimizer), [], []
        for number in range(STEPS):
            errors.append(step(rank, number, model, optimizer))
            bits.append(digest_of(memory(model.parameters())))
        state, stats = optimizer.state_dict(), optimizer.stats
        optimizer.flush()
        return ((errors, bits, digest.hexdigest(), residuals(state), digest_of(memory(state["parts"])),
                 digest_of(memory(state["masters"].values())), (stats.sent, stats.received, stats.failed),
                 # the host adds squares of the small tensors among the others
                 f"{stats.push_residual_ratio:.12e} {stats.pull_residual_ratio:.12e}",
                 digest_of(memory(model.parameters())), residuals(optimizer.state_dict())),
                (*frames(), answered.call_count))


def handed_over(rank, world, settings, quantize):
    """Steps on the first of three paths, then, from its state, on the second, and so on. Rank 1 is left out in some."""
    paths = iter(quantize)

    def start():
        model = Wide()
        return model, made(model, "ShardedOptimizer", {**settings, "quantize": next(paths)})

    def one(number, model, optimizer):
        model.set_gradients(rank, number)
        if number % 3 == rank == 1:
            model.some.grad[0, 0] = math.nan
        optimizer.step()

    (model, _), states = in_pieces([(0, 2), (2, 5), (5, 8)], start, one)
    return digest_of(memory(model.parameters())), residuals(states[1]), digest_of(memory(states[1]["parts"]))


class Loses:
    """Mail to the server on rank 0, which may lose the push of rank 1."""

    def __init__(self, loses):
        self._loses = loses
        self.push_to_server = None

    def push(self, messages):
        self.push_to_server = bytes(messages[0])
        return []

    def deliver(self, pushes, server):
        for push in pushes[:1] if self._loses else pushes:
            server.push(push)


class Training(unittest.TestCase):
    def test_as_on_the_host(self):
        for kind, settings, dtype in SETTINGS:
            with self.subTest(f"{kind}, {settings}, {dtype}"):
                host, there = (CLUSTER.run(RANKS, trained, kind, {**settings, "quantize": where}, dtype)
                               for where in ("host", "device"))
                self.assertEqual([found for found, _ in there], [found for found, _ in host])
                self.assertEqual([frames for _, frames in host], [(0, 0, 0)] * RANKS)
                owners = settings.get("servers", RANKS if kind == "ShardedOptimizer" else 1)
                for rank, (_, (compressed, decompressed, answered)) in enumerate(there):
                    self.assertGreater(compressed, STEPS)
                    self.assertEqual(decompressed > 0, settings.get("pull") not in ("int8", "topk:p=0.3+golomb"))
                    self.assertEqual(answered > STEPS / 2, rank < owners)
                self.assertEqual(len([error for error in host[0][0][0] if error]), 2)

    def test_states_are_the_same(self):
        """Saved among steps of floats, and after them."""
        settings = {"codec": "3lc:s=1.5", "overlap": True, "bucket_mb": 0.01, "warmup_steps": 3}
        host = CLUSTER.run(2, handed_over, settings, ["host"] * 3)
        for paths in (("device", "host", "device"), ("host", "device", "host")):
            with self.subTest(paths):
                self.assertEqual(CLUSTER.run(2, handed_over, settings, paths), host)


class Late(unittest.TestCase):
    def train(self, place, push, pull, keeps):
        """What is pulled, and what is left, on two ranks. The first is the server, and has its changes there, too."""
        sizes, names = {"large": 5003, "small": 5}, ("large", "small")
        config = threelc.exchange.Config(workers=2, servers=1, push=push, pull=pull, min_n=10, backup=1)
        weights = {name: torch.zeros(n) for name, n in sizes.items()}
        buckets = [Bucket(config, rank, sizes, {"small"}, keeps, weights, 0, place) for rank in range(2)]
        torch.manual_seed(5)
        bits = []
        for number in range(6):
            mails = [Loses(number in (1, 3, 4)) for _ in buckets]
            for rank, (bucket, mail) in enumerate(zip(buckets, mails)):
                bucket.go_as_floats(number < 3)
                bucket.take([torch.randn(sizes[name]) for name in names], set())
                bucket.push(1.0, mail, Clock())
            for bucket in buckets:
                bucket._came = [mail.push_to_server for mail in mails if mail.push_to_server is not None]
                if not bucket.reduce(weights.__getitem__, mails[0]):
                    self.assertIsNone(bucket.server)
            answer = buckets[0].answer([parameter.grad for parameter in buckets[0].parts])
            for bucket in buckets:
                bucket.pull([answer])
            buckets[0].follow(weights.__getitem__)
            bits += [memory([*bucket.values, *bucket.unsent().values(), *bucket.parts]) for bucket in buckets]
            self.assertEqual([bucket.late for bucket in buckets], [0, int(number in (1, 3, 4))])
        return bits

    def test_go_back_into_residuals(self):
        """Pushes without which a server went on, also in steps of floats."""
        for codecs in ("3lc", "onebit", True), ("natural", None, False):
            with self.subTest(codecs), answers() as answered:
                host = self.train(None, *codecs)
                self.assertEqual(answered.call_count, 0)
                self.assertEqual(self.train(torch.device("cpu"), *codecs), host)
                self.assertEqual(answered.call_count, 3)


if __name__ == "__main__":
    unittest.main()
