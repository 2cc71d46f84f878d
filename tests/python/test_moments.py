# SPDX-License-Identifier: MIT
"""Moments of one rank by hand, what takes the place of an optimizer, and what is said of optimizers that users give."""
import copy
import logging
import math
import pickle
import unittest
import warnings
from types import SimpleNamespace
from unittest import mock

import torch

import threelc
from sentences import SentencesTest
from threelc.torch._common import optimizer as optimizers
from threelc.torch._common.groups import DTYPES, Clock, Group
from threelc.torch._common.module import Model
from threelc.torch._common.moments import Moments, check_moments
from threelc.torch._common.optimizer import InPlaceOfOptimizer, Patience

# a transport without other ranks
ALONE = SimpleNamespace(rank=0, world=1, sent=0, received=0, all_gather=lambda message: [bytes(message)])


def tensor(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype)


class OfRanks(SentencesTest):
    def test_settings(self):
        for bad, shown in ((0, "0"), (1, "1"), (-0.5, "-0.5"), (1.5, "1.5"), (True, "True"), ("0.9", "'0.9'"),
                           (math.nan, "nan"), ([0.9], "a list")):
            for both, name in (((bad, None), "momentum_correction"), ((None, bad), "second_moment"),
                               ((0.9, bad), "second_moment"), ((bad, bad), "momentum_correction")):
                self.raises(ValueError, f"{name} should be above 0 and below 1, not {shown}",
                            check_moments, *both, "3lc")
        for good in (None, None), (1e-30, 1e-30), (0.999, None), (None, 0.999):
            check_moments(*good, "3lc")
            for codec in "raw", "qsgd:bits=8":
                if good[0] is None:
                    check_moments(*good, codec)
                    continue
                self.raises(ValueError, "momentum_correction is for codecs that keep what they do not send, and "
                            f"{codec} keeps nothing: give the momentum to the optimizer", check_moments, *good, codec)

    def test_which(self):
        """What there is, of each pair."""
        for momentum, beta in ((None, None), (0.9, None), (None, 0.9), (0.9, 0.9)):
            one = Moments(momentum, beta)
            self.assertEqual((one.active, one.normalizes, one.on_host), (momentum is not None or beta is not None,
                                                                         beta is not None, momentum is not None))
            kinds = ["velocity"] * (momentum is not None) + ["second_moment"] * (beta is not None)
            self.assertEqual(list(one.tensors()), kinds)
            self.assertEqual([len(one.masked([1, 2])), one.steps("a")], [0 if momentum is None else 2, 0])
            state = one.state_dict()
            self.assertEqual([state["velocities"], state["second_moments"]],
                             [None if momentum is None else {}, None if beta is None else {"squares": {}, "steps": {}}])

    def test_velocities(self):
        """momentum * u + gradient, of those that were kept, in float32 at least; gradients stay as they are."""
        for dtype, kept in ((torch.float32,) * 2, (torch.float64,) * 2, (torch.bfloat16, torch.float32),
                            (torch.float16, torch.float32)):
            one, names = Moments(0.5, None), ["a", "b"]
            gradients = [tensor(2, 4, dtype=dtype).view(2, 1), tensor(8, dtype=dtype)]
            found = one.moved(names, gradients)
            self.assertEqual([each.tolist() for each in found], [[2, 4], [8]])
            self.assertEqual({each.dtype for each in found}, {kept})
            self.assertEqual([each.tolist() for each in one.moved(names, gradients)], [[2, 4], [8]])  # it was not kept
            one.keep(names, found)
            found = one.moved(names[::-1], gradients[::-1])
            self.assertEqual([each.tolist() for each in found], [[12], [3, 6]])
            one.keep(names[::-1], found)
            one.scale(2.0)
            self.assertEqual([each.tolist() for each in one.moved(["b", "c"], [gradients[1], gradients[1]])],
                             [[20], [8]])
            self.assertEqual([each.flatten().tolist() for each in gradients], [[2, 4], [8]])

    def test_second_moments(self):
        """Of gradients before they are divided, with the correction for the start, before the momentum."""
        one = Moments(0.5, 0.75)
        squares, velocity = 0.0, 0.0
        for step, gradient in enumerate((2.0, -1.0, 4.0), 1):
            found = one.moved(["a"], [tensor(gradient)])
            squares = 0.75 * squares + 0.25 * gradient**2
            velocity = 0.5 * velocity + gradient / (math.sqrt(squares / (1 - 0.75**step)) + 1e-8)
            self.assertAlmostEqual(found[0].item(), velocity, places=5)
            one.keep(["a"], found)
            self.assertEqual((one.steps("a"), one.steps("b")), (step, 0))
        self.assertAlmostEqual(one.tensors()["second_moment"]["a"].item(), squares, places=5)

    def test_in_a_buffer(self):
        """What is sent takes the place of the gradients; what lies between stays."""
        one, buffer = Moments(0.5, None), torch.arange(8.0)
        parts = [("a", 1, 2), ("b", 4, 3)]
        for wanted in ([0, 1, 2, 3, 4, 5, 6, 7], [0, 1.5, 3, 3, 6, 7.5, 9, 7]):
            found = one.move_all(buffer, parts)
            self.assertEqual(buffer.tolist(), wanted)
            self.assertEqual([u.tolist() for u in found], [wanted[1:3], wanted[4:7]])
            one.keep(["a", "b"], [u.clone() for u in found])

    def test_where_values_were_sent(self):
        """Velocities become 0 there."""
        for dtype in torch.float32, torch.bfloat16:
            one, out = Moments(0.5, None), [torch.zeros(4, dtype=dtype)]
            config = threelc.exchange.Config(workers=1, push="topk:p=0.25,select=exact", gather=True, min_n=1,
                                             dtype=DTYPES[dtype])
            group = Group(config, 0, ["a"], [4], {})
            for sent, left in ((2, [1, 2, 0, 4]), (3, [1.5, 3, 8, 0])):  # then 4 + 6 was not sent, of 8 nothing
                with mock.patch("threelc.torch._common.groups.compare_histories"):
                    one.run(group, ALONE, [tensor(1, 2, 8, 4, dtype=dtype)], out, Clock())
                self.assertEqual([i for i, value in enumerate(out[0].tolist()) if value], [sent])
                self.assertEqual(one.tensors()["velocity"]["a"].tolist(), left)

    def test_states(self):
        """Copies, by plain names; of several ranks the mean, and the fewest steps. What a state lacks stays."""
        def made(scale):
            one = Moments(0.5, 0.75)
            for _ in range(scale):
                one.keep(["_orig_mod.a", "b"], one.moved(["_orig_mod.a", "b"], [tensor(1.0, 2.0) * scale, tensor(3.0)]))
            return one

        one, two = made(1), made(3)
        states = [each.state_dict() for each in (one, two)]
        before = copy.deepcopy(states[0])
        one.scale(0.0)
        self.assertEqual(str(states[0]), str(before))
        for many in states[:1], states:
            other = Moments(0.5, 0.75)
            other.load(many)
            velocities, squares = other.tensors()["velocity"], other.tensors()["second_moment"]
            self.assertEqual([*velocities, *squares], ["a", "b", "a", "b"])
            for name, old in (("a", "_orig_mod.a"), ("b", "b")):
                torch.testing.assert_close(velocities[name], sum(s["velocities"][old] for s in many) / len(many))
                torch.testing.assert_close(squares[name], sum(s["second_moments"]["squares"][old] for s in many)
                                           / len(many))
                self.assertEqual(other.steps(name), 1)
        other.load([{"velocities": None}])
        self.assertEqual(other.steps("a"), 1)
        self.assertEqual(list(other.tensors()["velocity"]), ["a", "b"])
        for momentum, beta in ((0.5, None), (None, 0.75), (None, None)):
            some = Moments(momentum, beta)
            some.load(states)
            some.load_tensors({kind: dict(values) for kind, values in two.tensors().items()}, {"b": 7})
            self.assertEqual(some.steps("b"), 7 if beta else 0)
            for kind, values in some.tensors().items():
                self.assertEqual(values["b"].tolist(), two.tensors()[kind]["b"].tolist())


class InPlace(SentencesTest):
    def made(self, inside, **changes):
        model = torch.nn.Linear(2, 1)
        made = inside(list(model.parameters()))
        return model, made, InPlaceOfOptimizer(made, SimpleNamespace(**{**vars(ALONE), **changes}),
                                               Model(model, "the test"))

    def test_it_is_an_optimizer(self):
        """Groups, state and defaults are those of the optimizer inside, for schedules and scalers; hooks of steps work,
        those of states and copies are refused."""
        model, inside, outside = self.made(lambda p: torch.optim.SGD(p, 0.5, momentum=0.5))
        self.assertIsInstance(outside, torch.optim.Optimizer)
        self.assertTrue(outside._step_supports_amp_scaling)
        for name in "param_groups", "state", "defaults":
            self.assertIs(getattr(outside, name), getattr(inside, name))
        torch.optim.lr_scheduler.StepLR(outside, 1, 0.1)
        self.assertEqual(repr(outside), "<threelc.torch.InPlaceOfOptimizer around SGD>")
        self.raises(TypeError, "the parameters of InPlaceOfOptimizer are those that the model had at the start",
                    outside.add_param_group, {})
        for copied in copy.copy, copy.deepcopy, pickle.dumps:
            self.raises(TypeError, "InPlaceOfOptimizer has connections to other ranks, so it cannot be copied or "
                        "pickled: save its state_dict()", copied, outside)
        for name in "state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post":
            self.raises(TypeError, "state_dict() and load_state_dict() of InPlaceOfOptimizer call no hooks",
                        getattr(outside, f"register_{name}_hook"), print, prepend=True)
        for set_to_none, found in ((False, 0.0), (True, None)):
            model.bias.grad = torch.ones(1)
            outside.zero_grad(*[set_to_none] * (not set_to_none))
            self.assertEqual(model.bias.grad if model.bias.grad is None else model.bias.grad.item(), found)

    def test_log(self):
        """After every so many exchanges, on rank 0."""
        for rank, lines in ((0, [("step", 5), ("step", 7)]), (1, [])):
            _, _, outside = self.made(lambda p: torch.optim.SGD(p, 0.5), rank=rank)
            with mock.patch.object(logging.getLogger("threelc"), "info") as info:
                outside.log_every(2)
                for number in range(4, 9):
                    outside._tell(number)
            self.assertEqual([call.args[1:3] for call in info.call_args_list], lines)

    def test_checks(self):
        """What is wrong closes the connections, so that others hear of it."""
        closed = []
        model, inside, outside = self.made(lambda p: torch.optim.SGD(p, 0.5), abort=lambda: closed.append(1))
        outside._model._kinds = {name: (p.shape, p.dtype) for name, p in model.named_parameters()}
        outside._check()
        outside._check(lambda: [p.detach().flatten() for p in model.parameters()])
        self.assertEqual(closed, [])
        with self.assertRaisesRegex(ValueError, "^parameter weight has other values than those from which all ranks"):
            outside._check(lambda: [p.detach().flatten() + 1 for p in model.parameters()])
        self.assertEqual(closed, [1])
        inside.param_groups[0]["params"].pop()
        with self.assertRaisesRegex(ValueError, "^the optimizer does not have the parameter bias, which would never"):
            outside._check()
        self.assertEqual(closed, [1, 1])


class OfUsers(SentencesTest):
    def test_optimizers(self):
        """An optimizer of the model, with all that is trained, and nothing else."""
        net = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.Linear(2, 1))
        net[0].bias.requires_grad_(False)
        model, other = Model(net, "the test"), torch.nn.Parameter(torch.zeros(1))

        def check(parameters):
            optimizers.check_optimizer(torch.optim.SGD(parameters, 0.1), model, "inner")

        check(net.parameters())
        check([p for p in net.parameters() if p.requires_grad])
        self.raises(ValueError, "inner is of another model: it has none of the parameters that are trained here",
                    check, [other])
        self.raises(ValueError, "inner is of another model: it has none of the parameters that are trained here",
                    check, [net[0].bias])
        self.raises(ValueError, "inner has parameters that are not the model's: each rank would train its own. Put all "
                    "into one module", check, [*net.parameters(), other])
        self.raises(ValueError, "inner does not have the parameter 1.bias, which would never be trained: give it to "
                    "the optimizer, or freeze it with requires_grad_(False)", check, [net[0].weight, net[1].weight])
        net[1].bias.requires_grad_(False)
        check([net[0].weight, net[1].weight])
        for wrong, shown in ((3, "3"), (SimpleNamespace(step=print), "a SimpleNamespace"),
                             (SimpleNamespace(param_groups=[]), "a SimpleNamespace")):
            self.raises(TypeError, "inner should be an optimizer, such as torch.optim.SGD(model.parameters(), lr=0.1), "
                        f"not {shown}", optimizers.check_optimizer, wrong, model, "inner")

    def test_makers(self):
        """A function that makes an optimizer of just what it is given, which steps without a closure."""
        parts = [torch.nn.Parameter(torch.zeros(2)) for _ in range(3)]
        made = optimizers.made_optimizer(lambda p: torch.optim.SGD(p, 0.1), parts, parts, "outer")
        self.assertIsInstance(made, torch.optim.SGD)
        for make in (lambda p: torch.optim.SGD(p[1:], 0.1),
                     lambda p: torch.optim.SGD([*p, torch.nn.Parameter(torch.zeros(2))], 0.1)):
            self.raises(ValueError, "outer made an optimizer of other parameters than it was given",
                        optimizers.made_optimizer, make, parts, parts, "outer")
        for wrong, shown in ((None, "None"), (SimpleNamespace(step=print), "a SimpleNamespace"),
                             (SimpleNamespace(param_groups=[]), "a SimpleNamespace")):
            self.raises(TypeError, f"outer should make an optimizer, not {shown}", optimizers.made_optimizer,
                        lambda p, wrong=wrong: wrong, parts, parts, "outer")
        self.raises(TypeError, "outer is a LBFGS, which computes the loss several times in a step; here there is one "
                    "gradient in a step", optimizers.made_optimizer, torch.optim.LBFGS, parts, parts, "outer")
        optimizers.check_maker(print, "outer", "x")
        self.raises(TypeError, "outer should be a function of a list of parameters that makes an optimizer, such as "
                    "lambda p: x, not a SGD", optimizers.check_maker, made, "outer", "lambda p: x")

    def test_states(self):
        """A state that does not fit is a ValueError, and the optimizer stays what it was."""
        one = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], 0.1)
        before = one.state_dict()
        with self.assertRaisesRegex(ValueError, "^the state does not fit SGD: .") as caught:
            optimizers.load_optimizer(one, {"state": {}, "param_groups": []})
        self.assertIsNotNone(caught.exception.__cause__)
        self.assertEqual(one.state_dict(), before)
        optimizers.load_optimizer(one, {"state": {}, "param_groups": [{**before["param_groups"][0], "lr": 7.0}]})
        self.assertEqual(one.param_groups[0]["lr"], 7)

    def test_warnings(self):
        """Of all optimizers with a second moment. Once at the third time in a row that something is left out."""
        parts = [torch.nn.Parameter(torch.zeros(2))]
        for name in ("Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "SGD"):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                optimizers.warn_second_moment(getattr(torch.optim, name)(parts, lr=0.1), "topk")
            self.assertEqual([(w.category, str(w.message)) for w in found], [] if name == "SGD" else [
                (RuntimeWarning, f"threelc: {name} divides by the root of a mean square, and of gradients in topk "
                                 "small values come rarely, and are large then, so the training may lose much. With "
                                 "second_moment= ranks divide before they compress, and little is lost")])
        patience = Patience("this happened")
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for i, bad in enumerate("110111110111"):
                if bad == "1":
                    patience.left_out(f"why {i}")
                else:
                    patience.went_well()
        self.assertEqual([(w.category, str(w.message)) for w in found], [
            (RuntimeWarning, f"this happened 3 times in a row. The last time: why {i}") for i in (5, 11)])


if __name__ == "__main__":
    unittest.main()
