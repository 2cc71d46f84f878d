# SPDX-License-Identifier: MIT
"""How the work of calls grows with the number of tensors: from n to 4 n none takes more than 8 times as long, which is
an exponent of 1.5. What is quadratic takes 16 times as long. n is so large that this shows."""
import copy
import gc
import math
import time
import unittest

import torch
import torch.distributed as dist
import threelc.torch
from threelc.torch.weight_sync import WeightSync

MOST = 8
LEAST = 0.005  # seconds: less says nothing on a busy machine


class Calls:
    """The least time of each call in several runs."""

    def __init__(self):
        self.seconds = {}

    def __call__(self, name, function, *arguments):
        gc.collect()
        gc.disable()
        begin = time.process_time()
        result = function(*arguments)
        took = time.process_time() - begin
        gc.enable()
        self.seconds[name] = min(took, self.seconds.get(name, math.inf))
        return result


class Wide(torch.nn.Module):
    """n parameters of few values."""

    def __init__(self, n):
        super().__init__()
        self.parts = torch.nn.ParameterList(torch.nn.Parameter(torch.ones(8)) for _ in range(n))

    def lose(self):
        for i, part in enumerate(self.parts):
            part.grad = torch.full_like(part, 1.0 + i % 3)


def of_weights(calls, n):
    model = Wide(n)
    trainer, receiver = WeightSync(model), WeightSync(copy.deepcopy(model))
    calls("receive, whole", receiver.receive, calls("publish, whole", trainer.publish))
    with torch.no_grad():
        for part in model.parts:
            part += 1
    calls("receive", receiver.receive, calls("publish", trainer.publish))
    state = calls("state_dict", receiver.state_dict)
    calls("load_state_dict", receiver.load_state_dict, state)


def of_rounds(calls, n):
    model = Wide(n)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = calls("create", lambda: threelc.torch.LocalSteps(model, sgd, every=1))
    model.lose()
    calls("step", steps.step)
    state = calls("state_dict", steps.state_dict)
    calls("load_state_dict", steps.load_state_dict, state)


def of_owners(calls, n):
    model = Wide(n)
    optimizer = calls("create", threelc.torch.ShardedOptimizer, model, lambda p: torch.optim.SGD(p, lr=0.1))
    for _ in range(2):
        model.lose()
        calls("step", optimizer.step)
    state = calls("state_dict", optimizer.state_dict)
    calls("load_state_dict", optimizer.load_state_dict, state)


def of_means(calls, n):
    mean = threelc.torch.AllReduce(codec="3lc")
    model = Wide(n)
    model.lose()

    def step():
        for i, part in enumerate(model.parts):
            mean(str(i), part.grad)

    calls("first", step)
    calls("again", step)


class Growth(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

    @classmethod
    def tearDownClass(cls):
        dist.destroy_process_group()

    def grows(self, scene, n):
        few, many = Calls(), Calls()
        for _ in range(2):
            scene(few, n)
            scene(many, 4 * n)
        for name, seconds in many.seconds.items():
            times = seconds / few.seconds[name]
            with self.subTest(name, seconds=seconds):
                print(f"# {scene.__name__}: {name}: {1e3 * seconds:.2f} ms, exponent {math.log(times, 4):.2f}")
                self.assertTrue(times < MOST or seconds < LEAST, times)

    def test_weights(self):
        self.grows(of_weights, 200)

    def test_rounds(self):
        self.grows(of_rounds, 300)

    def test_owners(self):
        self.grows(of_owners, 400)

    def test_means(self):
        self.grows(of_means, 50)


if __name__ == "__main__":
    unittest.main()
