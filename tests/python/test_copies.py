# SPDX-License-Identifier: MIT
"""Copies of a module that has the hook, and of its state."""
import copy
import gc
import io
import pickle
import sys
import unittest

import torch
from torch.optim.swa_utils import AveragedModel

import threelc.torch
from cluster import CLUSTER
from test_ddp import bits, build, train


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))


def saved(thing):
    memory = io.BytesIO()
    torch.save(thing, memory)
    memory.seek(0)
    return torch.load(memory, **({"weights_only": False} if torch.__version__ >= "2" else {}))


def copies(rank, world):
    """The bits of each copy and of the module, what copies of the state say, the bits after more steps with and without
    copies, and what the interpreter could only print."""
    printed = []
    sys.unraisablehook = lambda each: printed.append(str(each.exc_value))
    try:
        found = []
        for copied in (True, False):
            model = build()
            state = threelc.torch.register(model, "3lc")
            optimizer = torch.optim.SGD(model.parameters(), 0.05)
            train(rank, model, optimizer, range(3))
            if copied:
                made = [copy.deepcopy(model), pickled(model), saved(model), AveragedModel(model).module]
                said = []
                for other in (copy.deepcopy(state), pickled(state), saved(state)):
                    try:
                        other.state_dict()
                    except RuntimeError as error:
                        said.append(str(error))
                same = [bits(each) == bits(model) for each in made]
            train(rank, model, optimizer, range(3, 6))
            found.append(bits(model))
        try:
            copy.deepcopy(state._jobs)
        except TypeError as error:
            said.append(str(error))
        again = threelc.torch.register(made[0], "3lc")
        train(rank, made[0], torch.optim.SGD(made[0].parameters(), 0.05), range(2))
        sent = again.stats.sent
        gc.collect()
        return same, said, found[0] == found[1], sent > 0, bits(made[0]), printed
    finally:
        sys.unraisablehook = sys.__unraisablehook__


class Copies(unittest.TestCase):
    def test_of_modules_and_states(self):
        """A copy of the module has its weights, and the hook if register() is called for it. A copy of the state says
        what to do."""
        found = CLUSTER.run(2, copies)
        for same, said, unchanged, sends, _, printed in found:
            self.assertEqual((same, unchanged, sends, printed), ([True] * 4, True, True, []))
            for words in said[:3]:
                self.assertIn("this is a copy of what register() returned, and exchanges nothing: call ", words)
            self.assertIn("cannot be copied or pickled: use its state_dict()", said[3])
            self.assertEqual(len(said), 4)
        self.assertEqual(found[0][4], found[1][4])
