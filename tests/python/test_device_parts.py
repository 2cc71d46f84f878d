# SPDX-License-Identifier: MIT
"""Owners with optimizers whose parts, means and answers are where gradients are, here by torch operations on the CPU:
messages, weights and states are those of owners on the host."""
import hashlib
import math
import unittest
from unittest import mock

import torch

import threelc
import threelc.torch
from outer_models import memory
from test_device_owners import answers, digest_of, messages_of, residuals
from thread_ranks import RanksTest
from threelc import exchange
from threelc.torch._device.answers import parts_of
from threelc.torch._device.crossing import crossed
from threelc.torch._device.means import are_finite
from threelc.torch._device.norms import with_norms
from threelc.torch._owners.buckets import Bucket
from threelc.torch._owners.places import optimizer_state
from threelc.torch._owners.server import ServerOfParts
from threelc.torch.kernels.ways import quantizer_for

CPU = torch.device("cpu")
HUGE = 3.3e38
SIZES = {"large": 1501, "small": 5, "middle": 300}


class Three(torch.nn.Module):
    def __init__(self):
        super().__init__()
        draw = torch.Generator().manual_seed(3)
        for name, n in SIZES.items():
            setattr(self, name, torch.nn.Parameter(torch.randn(n, generator=draw)))

    def lose(self, rank, step):
        """Rank 1 has a NaN in step 2, all have one in step 3."""
        draw = torch.Generator().manual_seed(10 * step + rank)
        for parameter in self.parameters():
            parameter.grad = torch.randn(len(parameter), generator=draw)
        if step == 3 or (step == 2 and rank == 1):
            self.middle.grad[step] = math.nan


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.05, momentum=0.9)


def adam(parameters):
    return torch.optim.Adam(parameters, 0.01)


class Trainings(RanksTest):
    def train(self, kind, make, quantize, settings, steps=(4, 3)):
        """On three ranks, and on two from their states. quantize: in each of the two. All that ranks send and have."""
        def run(rank, where, states, model_state, numbers):
            model = Three()
            optimizer = kind(model, make, quantize=where, **settings)
            if states is not None:
                model.load_state_dict(model_state)
                optimizer.load_state_dict(states)
            digest, found = messages_of(optimizer), []
            for number in numbers:
                model.lose(rank, number)
                try:
                    optimizer.step()
                except threelc.StepError as error:
                    found.append(str(error))
                found.append(digest_of(memory(model.parameters())))
            state, weights = optimizer.state_dict(), {k: v.clone() for k, v in model.state_dict().items()}
            ratios = f"{optimizer.stats.push_residual_ratio:.9e} {optimizer.stats.pull_residual_ratio:.9e}"
            optimizer.flush()
            return (found, digest.hexdigest(), residuals(state), memory(state["parts"]), str(state["optimizer"]),
                    optimizer.grad_norm, ratios, digest_of(memory(model.parameters()))), state, weights

        first = self.on(3, lambda rank: run(rank, quantize[0], None, None, range(steps[0])))
        states, weights = [state for _, state, _ in first], first[0][2]
        then = self.on(2, lambda rank: run(rank, quantize[1], states, weights, range(4, 4 + steps[1])))
        return [found for found, _, _ in first + then]

    def test_as_on_the_host(self):
        sharded, push_pull = threelc.torch.ShardedOptimizer, threelc.torch.PushPull
        for kind, make, settings in (
                (sharded, sgd, {"codec": "3lc:s=1.5", "warmup_steps": 1, "max_norm": 0.7}),
                (sharded, adam, {"codec": "3lc-golomb", "pull": "3lc:block=100", "second_moment": 0.9}),
                (push_pull, adam, {"codec": "3lc", "pull": "3lc-golomb:s=1.5", "servers": 2}),
                (sharded, sgd, {"codec": "natural", "warmup_steps": 1}),
                (sharded, sgd, {"codec": "topk:p=0.2", "pull": "onebit:block=100"}),
                (push_pull, sgd, {"codec": "onebit", "pull": "random-sparse:p=0.5"})):
            with self.subTest(settings), answers() as made:
                wanted = self.train(kind, make, ("host", "host"), settings)
                self.assertEqual(made.call_count, 0)
                for quantize in ("device", "host"), ("host", "device"):
                    self.assertTrue(self.train(kind, make, quantize, settings) == wanted, quantize)
                self.assertGreater(made.call_count, 0)


class Servers(unittest.TestCase):
    """Steps of one server and its workers, each on the host and on a device."""

    def train(self, on_device, summed, steps, push="3lc:s=1.5", pull="3lc-golomb", other="ternary:block=100+quartic"):
        """What is sent, and what is left. In step 2 a worker pushes with another codec, in step 3 sums are infinite
        (summed: in place of means), in step 4 a change of the small tensor is not finite and in step 8 one of the large
        tensor, in step 6 a change and what step 5 has left together, and in step 7 a push has a bad frame."""
        config = exchange.Config(workers=2, servers=1, push=push, min_n=10, pull=pull, reserve=other, sum=summed)
        tensors = [exchange.Tensor(name, n) for name, n in SIZES.items()]
        workers = [exchange.Worker(config, rank, tensors) for rank in range(2)]
        server = exchange.Server(config, 0, tensors)
        one = ServerOfParts(server, quantizer_for(pull, CPU), parts_of(server, [0, 2]) if on_device else [], CPU)
        found = []
        for step in range(1, steps + 1):
            torch.manual_seed(step)
            if step in (2, 3):
                workers[1].set_codec(None, other if step == 2 else push)
            pushes = []
            for worker in workers:
                gradients = [torch.randn(n) for n in SIZES.values()]
                gradients[2][step] = HUGE / 1.5 if step == 3 else 1.0
                weight = 1.0 if summed else 1.0 + step % 3 * len(pushes)  # so that factors of means are rounded
                pushes.append(bytearray(worker.push(gradients, weight)[0]))
                server.push(pushes[-1])
            if step == 7:
                spoil(pushes[1], server)
            try:
                means = one.reduce()
                found.append([mean.tolist() for mean in means])
                changes = [-0.5 * mean for mean in means]
                large, small = [[part.tensor for part in one.parts].index(i) for i in (0, 1)]
                if step in (4, 8):
                    changes[small if step == 4 else large][3] = math.nan
                if step in (5, 6):
                    changes[large][:9] = torch.tensor([HUGE] + [HUGE * (0.4 if step == 5 else 0.8)] * 8)
                answer = bytes(one.answer(changes))
            except threelc.StepError as error:
                found.append(str(error))
                answer = bytes(one.answer(None))
            stats = str(with_norms(server.stats, None, one))
            found.append((hashlib.sha256(answer).hexdigest(), server.outcome(), stats))
            for worker in workers:
                try:
                    worker.pull([answer], [torch.zeros(n) for n in SIZES.values()])
                except threelc.StepError as error:
                    found.append(str(error))
            found.append([waits if waits is None else waits.tolist() for waits in map(one.waits, range(3))])
            with one.on_host():
                found.append(server.state_dict())
        return found

    def test_as_on_the_host(self):
        for summed, steps, counts, *codecs in (
                (False, 9, (8, 7)), (True, 3, (2, 2)),
                (False, 9, (8, 8), "natural", "natural:bits=9,block=100", "int8"),
                (False, 9, (8, 7), "topk:p=0.2", "onebit", "topk:p=0.1,bits=2,block=70"),
                (False, 9, (8, 7), "onebit:block=100", "topk:p=0.3,bits=1", "3lc"),
                (True, 3, (2, 2), "int8:block=64", "qsgd:bits=4", "natural:rounding=nearest"),
                (False, 4, (4, 3), "random-sparse:p=0.3", "random-sparse", "raw"),
                (False, 4, (4, 4), "sbc:p=0.05", "sbc:p=0.4", "onebit"),
                (False, 4, (4, 0), "qsgd", "raw", "3lc")):
            with self.subTest((summed, codecs)), answers() as made, rests() as reduced:
                there = self.train(True, summed, steps, *codecs)
                self.assertEqual((reduced.call_count, made.call_count), counts)
                host = self.train(False, summed, steps, *codecs)
                self.assertEqual([i for i, (found, wanted) in enumerate(zip(there, host)) if found != wanted], [])
                self.assertEqual(len(there), len(host))

    def test_a_step_of_the_host(self):
        """Statistics are of its frames, not of those that a device made before."""
        make = ServerOfParts._make
        with mock.patch.object(ServerOfParts, "_make",
                               lambda one, values: None if one.object.step == 2 else make(one, values)):
            self.assertTrue(self.train(True, False, 3) == self.train(False, False, 3))


class Places(unittest.TestCase):
    def test_where_parts_are(self):
        """Where gradients are quantized; residuals of answers that are made there, too."""
        there, sizes = torch.device("meta"), {"large": 300, "small": 5}
        weights = {name: torch.ones(n) for name, n in sizes.items()}
        for push, pull, backup, device, wanted, kept in (
                ("3lc", None, 0, there, there, 1), ("topk", "3lc-golomb:block=7", 0, there, there, 1),
                ("3lc", "natural", 0, there, there, 0), ("natural", "onebit", 0, there, there, 1),
                ("3lc", "raw", 0, there, there, 0), ("natural", "stochastic-ternary+quartic", 0, there, there, 0),
                ("3lc", None, 1, there, there, 1), ("3lc", None, 0, None, CPU, 0)):
            config = exchange.Config(workers=2, servers=1, push=push, pull=pull, backup=backup, min_n=10)
            bucket = Bucket(config, 0, sizes, {"small"}, push != "natural", weights, 0, device)
            self.assertEqual([part.device for part in bucket.parts], [wanted] * 2, (push, pull, backup))
            self.assertEqual([residual.device for residual in bucket._coded.server.residuals.values()],
                             [there] * kept)
            self.assertEqual(len(bucket._coded.server.norms.places(1)), kept)

    def test_crossing(self):
        """All at once, and what is there stays."""
        tensors = [torch.ones(3), torch.ones(0), torch.ones(2)]
        self.assertIs(crossed(tensors, CPU), tensors)
        self.assertEqual(list(crossed([], torch.device("meta"))), [])
        found = crossed(tensors, torch.device("meta"))
        self.assertEqual([(len(one), one.device.type) for one in found], [(3, "meta"), (0, "meta"), (2, "meta")])

    def test_saved_state(self):
        """What an optimizer keeps comes to the CPU, and is a copy."""
        part, came = torch.nn.Parameter(torch.ones(3)), []
        optimizer = sgd([part])
        part.grad = torch.ones(3)
        optimizer.step()
        kept = optimizer.state[part]
        kept["more"] = [torch.tensor(1.0), (torch.tensor(2.0), {"deep": torch.tensor(3.0), "word": "word"})]

        def to(tensor, *where, **how):
            came.append((where, how))
            return tensor.clone()

        with mock.patch.object(torch.Tensor, "to", to):
            saved, = optimizer_state(optimizer, [part])["parts"]
        self.assertEqual(came, 4 * [(("cpu",), {"copy": True})])
        self.assertEqual(str(saved), str(kept))
        kept["momentum_buffer"].zero_()
        kept["more"][1][1]["word"] = "other"
        self.assertEqual(saved["momentum_buffer"].tolist(), [1.0] * 3)
        self.assertEqual(saved["more"][1][1]["word"], "word")

    def test_finite(self):
        for bad, wanted in ((1.0, True), (-HUGE, True), (math.inf, False), (-math.inf, False), (math.nan, False)):
            values = torch.ones(1000)
            values[501] = bad
            self.assertEqual(are_finite([torch.ones(1), values]), wanted)
        self.assertTrue(are_finite([]))


def spoil(push, server):
    """A frame in it is no frame any more, as if its worker had made it so."""
    frame = bytes(server.owned_frames()[0][1][0])
    push[push.index(frame)] ^= 1


def rests():
    """Counts reductions of which a part was made elsewhere."""
    return mock.patch.object(exchange.Server, "reduce_rest", autospec=True, side_effect=exchange.Server.reduce_rest)


if __name__ == "__main__":
    unittest.main()
