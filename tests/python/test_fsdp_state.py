# SPDX-License-Identifier: MIT
"""register_fsdp() without processes: replicas are threads here, each with a real FSDP2 of one shard, and the hooks are
called by hand. What comes out, is kept, counted, said, saved and loaded."""
import logging
import math
import unittest
from unittest import mock

import torch

import threelc
import threelc.torch
from outer_models import HAS_FSDP2
from thread_ranks import RanksTest
from threelc.torch._common.versions import fsdp_param_groups

try:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
except ImportError:
    fully_shard = None

FIRST, ROOT = "first", "(root)"
SIZES = {FIRST: {"first.weight": 24, "first.bias": 4}, ROOT: {"last.weight": 4}}
EARLY = "states are loaded before the first backward pass"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(6, 4), torch.nn.Linear(4, 1)
        self.last.bias.requires_grad_(False)


def made(codec="3lc:s=1.5", frozen=None, **settings):
    model = Net()
    if frozen is not None:
        model.get_parameter(frozen).requires_grad_(False)
    mesh = init_device_mesh("cpu", (1,))
    for module in (model.first, model):
        fully_shard(module, mesh=mesh)
    return model, threelc.torch.register_fsdp(model, codec, **{"min_numel": 1, "compare_every": 0, **settings})


def drawn(rank, step, n):
    return torch.randn(n, generator=torch.Generator().manual_seed(100 * step + 10 * rank + n))


def pass_backward(state, rank, step):
    """The gradients of a backward pass. Returns what comes out, by module."""
    found = {}
    for name in (ROOT, FIRST):
        found[name] = drawn(rank, step, sum(SIZES[name].values()))
        state.reduce(name, found[name])
    return found


def mean(step, name, world=2):
    return sum(drawn(rank, step, sum(SIZES[name].values())) for rank in range(world)) / world


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@unittest.skipUnless(HAS_FSDP2, "PyTorch has no FSDP2 that runs on CPUs")
class Passes(RanksTest):
    def test_means(self):
        """Gradients become means, floats are counted, and weights are compared before every so many passes."""
        def train(rank):
            _, state = made("raw", compare_every=2)
            told = []
            for replicas in state._replicas.values():
                replicas.compare = lambda transport, when: told.append((step, when))
            for step in range(5):
                for name, found in pass_backward(state, rank, step).items():
                    close(found, mean(step, name))
            return told, state.stats.float_bytes, state.residuals

        for told, floats, residuals in self.on(2, train):
            self.assertEqual(told, 2 * [(2, "after 2 backward passes")] + 2 * [(4, "after 4 backward passes")])
            self.assertEqual((floats, residuals), (5 * 4 * (28 + 4), {}))

    def test_log(self):
        """A line when a backward pass begins after two others."""
        def train(rank):
            _, state = made("raw")
            state.log_every(2)
            for step in range(6):
                pass_backward(state, rank, step)
            state.log_every(0)
            for step in range(4):
                pass_backward(state, rank, step)

        with mock.patch.object(logging.getLogger("threelc"), "info") as info:
            self.on(2, train)
        self.assertEqual([call.args[1:3] for call in info.call_args_list], [("backward pass", 2), ("backward pass", 4)])

    def test_put_off(self):
        """Without an all-reduce gradients are 0, and what was summed up comes with the next one."""
        def train(rank):
            model, state = made("raw")
            model.first.set_requires_all_reduce(False)
            for step in range(3):
                if step == 2:
                    model.first.set_requires_all_reduce(True)
                sent = state.stats.sent
                found = pass_backward(state, rank, step)
                close(found[ROOT], mean(step, ROOT))
                if step < 2:
                    self.assertFalse(found[FIRST].any())
            close(found[FIRST], sum(mean(step, FIRST) for step in range(3)))
            self.assertGreater(state.stats.sent, sent)
            close(pass_backward(state, rank, 3)[FIRST], mean(3, FIRST))

        self.on(2, train)

    def test_what_fails(self):
        """A step that failed on all ranks is no reason to close connections; another exception is."""
        def train(rank):
            _, state = made(on_nonfinite="raise")
            for step in range(3):
                output = drawn(rank, step, 28)
                if step == 1:
                    output[5 + rank] = math.nan
                    with self.assertRaises(threelc.StepError):
                        state.reduce(FIRST, output)
                else:
                    state.reduce(FIRST, output)
            if rank == 1:
                self.raises(ValueError, "the gradient of first has 27 values, and had 28 before: the same parameters "
                                        "have to get gradients each time", state.reduce, FIRST, torch.ones(27))
            with self.assertRaises(RuntimeError) as caught:
                state.reduce(FIRST, torch.ones(28))
            return str(caught.exception)

        first, second = self.on(2, train)
        self.assertRegex(first, "^rank 0 lost .* connection closed by peer$")
        self.assertEqual(second, "the connections to the other ranks are closed, as an exchange with them has failed")

    def test_second_moments(self):
        """Those of gradients that PyTorch divides before the hook, and of others none."""
        def train(rank):
            words = ("second_moment takes gradients that PyTorch divides before the exchange: of float32 or bfloat16, "
                     "without set_force_sum_reduction_for_comms(True)")
            model, state = made("3lc", second_moment=0.9)
            state.reduce(FIRST, torch.ones(28).bfloat16())
            _, other = made("3lc", second_moment=0.9)
            self.raises(ValueError, words, other.reduce, FIRST, torch.ones(28).half())
            model, state = made("3lc", second_moment=0.9)
            model.first.set_force_sum_reduction_for_comms(True)
            self.raises(ValueError, words, state.reduce, FIRST, torch.ones(28))
            model, state = made("3lc")
            model.first.set_force_sum_reduction_for_comms(True)
            state.reduce(FIRST, torch.ones(28).half())

        self.on(1, train)

    def test_names(self):
        """Parameters are apart, unless some got no gradient."""
        def train(rank):
            _, state = made()
            state.reduce(FIRST, drawn(rank, 0, 28))
            state.reduce(ROOT, drawn(rank, 0, 3))
            names = sorted(state.residuals)
            words = ("the gradients of module {} have {} values, and its parameters that are trained {}: some got no "
                     "gradient, or were frozen since")
            self.raises(ValueError, words.format(ROOT, 3, 4), state.flush)
            model, state = made()
            state.reduce(FIRST, drawn(rank, 0, 28))
            fsdp_param_groups(model.first)[0].fsdp_params[1].sharded_param.requires_grad_(False)
            self.raises(ValueError, words.format(FIRST, 28, 24), state.sharded_state_dict)
            return names

        self.assertEqual(self.on(2, train), 2 * [[ROOT, "first.bias", "first.weight"]])


@unittest.skipUnless(HAS_FSDP2, "PyTorch has no FSDP2 that runs on CPUs")
class States(RanksTest):
    def test_flush(self):
        """What was not sent becomes gradients, and nothing is left; without residuals there are none."""
        def train(rank, codec):
            model, state = made(codec)
            total = pass_backward(state, rank, 0)
            left = [{n: t.full_tensor().flatten() for n, t in state.sharded_state_dict().items()}]
            state.flush()
            gradients = {name: p.grad for name, p in model.named_parameters()}
            left.append({n: t.full_tensor() for n, t in state.sharded_state_dict().items()})
            return total, gradients, left

        for total, gradients, (before, after) in self.on(2, lambda rank: train(rank, "3lc:s=1.5")):
            self.assertIsNone(gradients.pop("last.bias"))
            for name, out in total.items():
                pieces = [gradients[each].full_tensor().flatten() for each in SIZES[name]]
                close(out + torch.cat(pieces), mean(0, name))
                for each, piece in zip(SIZES[name], pieces):
                    close(before[each], piece)
            self.assertFalse(any(tensor.any() for tensor in after.values()))
        for _, gradients, (before, _) in self.on(2, lambda rank: train(rank, "raw")):
            self.assertEqual({*gradients.values()}, {None})
            self.assertFalse(any(tensor.any() for tensor in before.values()))

    def test_going_on(self):
        """From the state of a rank with the same bits and counts, and from the states of both on one rank, whose
        counts are those of both."""
        settings = {"momentum_correction": 0.9, "second_moment": 0.95}

        def train(rank, stop):
            _, state = made(**settings)
            saved = None
            for step in range(4):
                if step == stop:
                    saved, stats = state.state_dict(), state.stats
                    _, state = made(**settings)
                    state.load_state_dict(saved)
                    self.assertEqual(state.stats, stats)
                found = pass_backward(state, rank, step)
            return [found[name].tolist() for name in SIZES], saved, state.stats

        whole, pieces = (self.on(2, lambda rank, stop=stop: train(rank, stop)) for stop in (None, 2))
        for (one, _, stats), (other, _, again) in zip(whole, pieces):
            self.assertEqual((other, again.sent, again.float_bytes), (one, stats.sent, stats.float_bytes))
        states = [state for _, state, _ in pieces]

        def alone(rank):
            _, state = made(**settings)
            state.load_state_dict(states)
            saved = state.state_dict()
            self.assertEqual(saved["traffic"]["float_bytes"], sum(each["traffic"]["float_bytes"] for each in states))
            for name, velocity in saved["velocities"].items():
                close(velocity, (states[0]["velocities"][name] + states[1]["velocities"][name]) / 2)
            _, state = made(**settings)
            for each in states:
                each["traffic"] = None
            state.load_state_dict(states)
            return state.stats.sent, state.stats.float_bytes, sorted(saved["groups"])

        self.assertEqual(self.on(1, alone), [(0, 0, [ROOT, FIRST])])

    def test_made(self):
        """What decides about parts and residuals is in the state."""
        def make(rank):
            return [made("3lc", **settings)[1].state_dict()["made"] for settings in (
                {}, {"mode": "gather", "min_numel": 7}, {"pull": "natural", "second_moment": 0.5})]

        one = {"codec": "3lc", "min_numel": 1, "momentum_correction": None, "second_moment": None}
        self.assertEqual(self.on(1, make), [[
            {**one, "pull": "3lc", "mode": "sharded"}, {**one, "min_numel": 7, "mode": "gather"},
            {**one, "pull": "natural", "mode": "sharded", "second_moment": {"float": (0.5).hex()}}]])

    def test_what_does_not_fit(self):
        """Whole sentences, after which nothing has changed."""
        def load(rank):
            _, state = made()
            pass_backward(state, rank, 0)
            saved = state.state_dict()
            self.raises(ValueError, EARLY, state.load_state_dict, saved)
            _, other = made()
            before = other.state_dict()
            moved = {**saved, "groups": {f"net.{name}": group for name, group in saved["groups"].items()}}
            ending = "With lost=True the run goes on without what the state has of them"
            renamed = {**saved, "groups": {**saved["groups"], FIRST: {
                **saved["groups"][FIRST], "names": ["first.weight", "first.offset"]}}}
            for wrong, words in (
                    ({**saved, "shard": 3}, "the state is of shard 3, and this rank has shard 0. For "
                     "torch.distributed.checkpoint, and other numbers of shards, use sharded_state_dict()"),
                    (moved, "names of the state that no sharded module has here: net.(root), net.first (2 in all). "
                     + ending),
                    (renamed, "names of the state that no sharded module trains here: first.offset (1 in all). "
                     + ending),
                    ([{**saved, "rank": 0, "world": 3}, {**saved, "rank": 1, "world": 3},
                      {**moved, "rank": 2, "world": 3}],
                     "the states do not belong together: some have other modules than others")):
                self.raises(ValueError, words, other.load_state_dict, wrong)
                self.assertEqual(str(other.state_dict()), str(before))
            del saved["velocities"]
            for settings in {"momentum_correction": 0.9}, {"second_moment": 0.95}:
                self.raises(ValueError, "the state is of a release whose register_fsdp() had neither "
                            "momentum_correction nor second_moment: leave them out",
                            made(**settings)[1].load_state_dict, saved)
            other.load_state_dict({**saved, "shard": None})
            self.assertEqual(sorted(other.state_dict()["groups"]), [ROOT, FIRST])
            _, other = made()
            other.load_state_dict(moved, lost=True)
            self.assertEqual(other.state_dict()["groups"], {})

        self.on(2, load)

    def test_sharded_states(self):
        """The mean over replicas of what each parameter has, in tensors that are placed as it is; whoever loads it has
        the mean."""
        settings = {"codec": "topk:p=0.3", "mode": "gather", "momentum_correction": 0.9, "second_moment": 0.95}

        def train(rank):
            _, state = made(**settings)
            empty = state.sharded_state_dict()
            for step in range(2):
                pass_backward(state, rank, step)
            return empty, state.sharded_state_dict(), state.state_dict(), dict(state.residuals)

        found = self.on(2, train)
        names = [name for sizes in SIZES.values() for name in sizes]
        kinds = "", ".velocity", ".second_moment"
        for empty, sharded, _, _ in found:
            for one in empty, sharded:
                self.assertEqual(sorted(one), sorted(name + kind for name in names
                                                     for kind in (*kinds, ".second_moment_steps")))
            for name in names:
                self.assertEqual([int(one[f"{name}.second_moment_steps"]) for one in (empty, sharded)], [0, 2])
                own = [dict(zip(kinds, (residuals[name], state["velocities"][name],
                                        state["second_moments"]["squares"][name]))) for _, _, state, residuals in found]
                for kind in kinds:
                    self.assertFalse(empty[name + kind].full_tensor().any())
                    self.assertEqual(sharded[name + kind].shape, (4, 6) if name == "first.weight" else
                                     (1, 4) if name == "last.weight" else (4,))
                    close(sharded[name + kind].full_tensor().flatten(), (own[0][kind] + own[1][kind]) / 2)

        def load(rank):
            _, state = made(**settings)
            state.load_sharded_state_dict(found[0][1])
            again = state.sharded_state_dict()
            for name, tensor in found[0][1].items():
                close(again[name], tensor)
            pass_backward(state, rank, 2)
            self.assertEqual(int(state.sharded_state_dict()["first.bias.second_moment_steps"]), 3)

        self.on(3, load)

    def test_sharded_states_that_do_not_fit(self):
        def load(rank):
            _, state = made(second_moment=0.95)
            good = state.sharded_state_dict()
            pass_backward(state, rank, 0)
            self.raises(ValueError, EARLY, state.load_sharded_state_dict, good)
            _, state = made(second_moment=0.95)
            fill = ": let torch.distributed.checkpoint.load() fill what sharded_state_dict() returns"
            here = ", and this rank has a shard of shape [4] of it" + fill
            for change, words in (
                    ({"first.bias": None}, "first.bias is missing" + here),
                    ({"first.bias": torch.ones(3)}, "first.bias is of shape [3]" + here),
                    ({"first.bias.second_moment": torch.ones(1, 4)},
                     "first.bias.second_moment is of shape [1, 4]" + here),
                    ({"first.bias.second_moment": None}, "first.bias.second_moment is missing" + here),
                    ({"last.weight.second_moment_steps": None}, "the state lacks steps of second moments" + fill),
                    ({"third": torch.ones(1), "first.bias.velocity": torch.ones(4)},
                     "names of the state that no sharded module trains here: third, first.bias.velocity (2 in all). "
                     "With lost=True the run goes on without what the state has of them")):
                wrong = {name: value for name, value in {**good, **change}.items() if value is not None}
                self.raises(ValueError, words, state.load_sharded_state_dict, wrong)
            state.load_sharded_state_dict({**good, "third": torch.ones(1)}, lost=True)
            _, state = made("raw")
            some = {name: tensor.full_tensor() for name, tensor in state.sharded_state_dict().items()}
            state.load_sharded_state_dict(some)
            some["last.weight"][0, 2] = 1
            self.raises(ValueError, "codec 'raw' keeps no residual, and the state has some: use one that does. With "
                        "lost=True the run goes on without them", state.load_sharded_state_dict, some)
            state.load_sharded_state_dict(some, lost=True)

        self.on(1, load)

    def test_frozen(self):
        """What is not trained is in no state, and a module in which nothing is trained has none."""
        def train(rank):
            model, state = made(frozen="last.weight", momentum_correction=0.9)
            found = sorted(state.sharded_state_dict())
            state.flush()
            return found, {p.grad for p in model.parameters()}, state.stats.sent

        names = [f"first.{name}{kind}" for name in ("bias", "weight") for kind in ("", ".velocity")]
        self.assertEqual([ended[:2] for ended in self.on(2, train)], 2 * [(names, {None})])


if __name__ == "__main__":
    unittest.main()
