# SPDX-License-Identifier: MIT
"""States of the communication hook, over the fake of torch.distributed: bits of resumed runs, other numbers of ranks,
codecs that change, what is refused."""
import copy
import math
import unittest
from unittest import mock

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from cluster import attempt
from outer_models import Linear, Scaler
from test_hook_steps import Talks, flat, mean_of, trained
from threelc.torch._common import groups
from threelc.torch._hook.places import in_order, shaped
from threelc.torch.ddp import hook


class States(Talks):
    def pieces(self, world, steps, between=lambda rank, state: None, scales=None, saved=None, **settings):
        """The gradients of all steps, in objects that go on from the states of those before."""
        found, states = [[] for _ in range(world)], saved
        for first, last in zip(steps, steps[1:]):
            scaler = None if scales is None else Scaler(scales[first])

            def run(rank, model, state, first=first, last=last, states=states, scaler=scaler):
                if states is not None:
                    state.load_state_dict(states[rank] if len(states) == world else states)
                ours = []
                for step in range(first, last):
                    ours += trained(rank, model, state, step + 1, step, scales, scaler)
                    if step == 3:
                        between(rank, state)
                return ours, copy.deepcopy(state.state_dict()), state.stats

            ends = self.talk(world, run, scaler=scaler, **settings)
            states = [state for _, state, _ in ends]
            for ours, (more, _, _) in zip(found, ends):
                ours += more
        return found, states, [stats for _, _, stats in ends]

    def test_same_bits(self):
        """Of a run in one piece, with its scale, its codec and its moments."""
        scales = [4.0, 4.0, 2.0, 8.0, 8.0, 1.0, 2.0, 2.0]
        for settings in ({"scales": scales, "momentum_correction": 0.9, "compare_every": 3},
                         {"second_moment": 0.9, "codec": "stochastic-ternary+quartic", "seed": 7},
                         {"reserve": ["topk:p=0.1"], "between": lambda rank, state: state.set_codec("topk:p=0.1")},
                         {"reserve": ["topk:p=0.1", "raw"],
                          "between": lambda rank, state: state.set_codec("topk:p=0.1", "raw")}):
            (one, other), states, whole = self.pieces(2, [0, 8], **settings)
            pieces, later, stats = self.pieces(2, [0, 2, 5, 8], **settings)
            self.assertTrue(all(map(torch.equal, one, other)))
            for ours, theirs in zip((one, other), pieces):
                self.assertTrue(all(map(torch.equal, ours, theirs)), settings)
            self.assertEqual([state["changed"] for state in states], [state["changed"] for state in later])
            self.assertEqual([state["version"] for state in states], [1, 1])
            for name in "steps", "float_steps", "float_bytes", "sent", "received":
                self.assertEqual([getattr(each, name) for each in stats], [getattr(each, name) for each in whole])

    def test_set_codec(self):
        """What is reserved, with the pull that belongs to it; raw sends what residuals hold."""
        def run(rank, model, state):
            total = sum(trained(rank, model, state, 3))
            refused = attempt(state.set_codec, "topk:p=0.5")[:2], attempt(state.set_codec, "nothing")[:2]
            state.set_codec("raw")
            before = state.stats
            total = total + sum(trained(rank, model, state, 5, 3))
            sent = state.stats.sent - before.sent
            return total, refused, sent, state.state_dict(), state._settings.codec

        for total, refused, sent, state, codec in self.talk(2, run, reserve=["raw"]):
            torch.testing.assert_close(total, sum(mean_of(step, 2) for step in range(5)), atol=2e-5, rtol=1e-5)
            self.assertEqual([kind for kind, _ in refused], ["CapacityError", "ParameterError"])
            self.assertGreater(sent, 2 * 8028)
            self.assertEqual((state["changed"], codec), ({"codec": "raw", "pull": None}, "raw"))
            self.assertEqual([(group["push"], group["pull"]) for group in state["groups"]], [("3lc", None)])

    def test_set_codec_on_a_device(self):
        """By torch operations, as on a GPU: with the bits of the host."""
        def run(rank, model, state):
            found = trained(rank, model, state, 3)
            state.set_codec("topk:p=0.1")
            found += trained(rank, model, state, 5, 3)
            return [*found, *state.residuals.values()]

        for host, device in zip(*(self.talk(2, run, reserve=["topk:p=0.1"], quantize=quantize)
                                  for quantize in ("host", "device"))):
            self.assertTrue(all(map(torch.equal, host, device)))

    def test_other_ranks(self):
        """Of states of two ranks nothing is lost on three, or on one."""
        found, states, _ = self.pieces(2, [0, 4])
        for world in 1, 3:
            def run(rank, model, state):
                with self.assertRaises(ValueError):
                    state.load_state_dict(states[:1])
                state.load_state_dict(states)
                total = sum(trained(rank, model, state, 6, 4))
                state.flush()
                return total + flat(model), state.stats.steps

            for total, steps in self.talk(world, run):
                torch.testing.assert_close(
                    sum(found[0]) + total, sum(mean_of(step, 2) for step in range(4))
                    + sum(mean_of(step, world) for step in (4, 5)), atol=3e-5, rtol=1e-5)
                self.assertEqual(steps, 6)
        self.talk(3, lambda rank, model, state: state.load_state_dict(states[:1], lost=True))

    def test_refused(self):
        """Nothing has changed then, and residuals of groups that nobody has are gone."""
        _, states, _ = self.pieces(2, [0, 3])
        broken = copy.deepcopy(states)
        for state in states:
            state["counts"]["thread_seconds"] = 1000.0
        for state in broken:
            state["groups"][0]["state"]["state"] = torch.zeros(3, dtype=torch.uint8)

        def run(rank, model, state):
            said = [attempt(state.load_state_dict, broken[rank])[:2], dict(state.residuals), state._order[:]]
            state.load_state_dict(states[rank])
            said += [state.stats.steps, state.stats.thread_seconds]
            trained(rank, model, state, 4, 3)
            return said + [attempt(state.load_state_dict, states[rank])[:2]]

        for (kind, _), residuals, order, steps, seconds, late in self.talk(2, run):
            self.assertEqual((steps, seconds >= 1000), (3, True))
            self.assertNotEqual(kind, "")
            self.assertEqual((residuals, order), ({}, []))
            self.assertEqual(late, ("ValueError", "states are loaded before the first backward pass"))

    def test_of_two_runs(self):
        """States of ranks that are not of one run are refused in the first step, and compared in no later one."""
        def run(rank, model, state, given):
            state.load_state_dict(given[rank])
            return [attempt(trained, rank, model, state, step + 1, step)[:2] for step in (3, 4)]

        (one, other), (_, stranger) = (self.pieces(2, steps)[1] for steps in ([0, 3], [5, 8]))
        for given, said in ([one, other], ("", "")), ([one, stranger], (
                "ValueError", "the states of ranks 0 and 1 are not of one run: before step 3 they got different "
                              "messages; load the states of one checkpoint on all ranks")):
            with mock.patch.object(groups, "compare_histories", side_effect=groups.compare_histories) as compared:
                found = self.talk(2, lambda *about, given=given: run(*about, given))
            self.assertEqual(found, [[said] * 2] * 2)
            self.assertEqual(compared.call_count, 2)

    def test_older(self):
        """States of 0.3.4 have no counts, and others no codecs of groups. They go on with the same bits."""
        _, states, _ = self.pieces(2, [0, 3])

        def run(rank, model, state, *missing):
            for name in missing:
                states[rank].pop(name, None)
                states[rank]["groups"][0].pop(name, None)
            state.load_state_dict(states[rank])
            before = state.stats
            return trained(rank, model, state, 4, 3)[0], state.stats.steps - before.steps, before

        whole = self.talk(2, run)
        older = self.talk(2, lambda *about: run(*about, "counts", "push", "pull"))
        for (found, count, before), (other, steps, stats) in zip(whole, older):
            self.assertTrue(torch.equal(found, other))
            self.assertEqual((count, steps, before.steps, stats.steps), (1, 1, 3, 0))
            self.assertGreaterEqual(stats.thread_seconds, 0)


class Orders(Talks):
    """Parameters that lie in memory in another order than that of their shape."""
    unused, layout = False, torch.channels_last

    def model(self):
        module = Linear()
        module.weight = torch.nn.Parameter(torch.zeros(10, 5, 8, 5).to(memory_format=self.layout))
        return DistributedDataParallel(module, find_unused_parameters=self.unused)

    def test_buckets(self):
        """in_order() is what DistributedDataParallel does, and shaped() takes it back."""
        def kept(buffers, bucket):
            buffers.append(bucket.buffer().clone())
            future = torch.futures.Future()
            future.set_result(bucket.buffer())
            return future

        for values in (torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.zeros(6, 4).t(),
                       torch.zeros(5, 1, 3, 2).permute(2, 1, 3, 0), torch.zeros(8, 8)[:, ::2], torch.zeros(())):
            module, buffers = torch.nn.Module(), []
            module.weight = torch.nn.Parameter(values)
            module.forward = lambda gradient, weight=module.weight: (weight * gradient).sum()
            model = DistributedDataParallel(module)
            model.register_comm_hook(buffers, kept)
            gradient = torch.randn(values.shape)
            model(gradient).backward()
            found = in_order(gradient, module.weight)
            self.assertTrue(torch.equal(found, buffers[0]))
            self.assertTrue(torch.equal(shaped(found, module.weight), gradient))

    def test_nothing_is_lost(self):
        """Also where the reducer looks for parameters that nobody used, and with that of torch.compile()."""
        def compiled(rank, model, state):
            found = []
            for step in range(4):
                for parameter, gradient in zip(model.module.parameters(), model.module.gradient(rank, step)):
                    hook(state, (gradient, parameter))
                    parameter.grad = gradient
                found.append(flat(model))
            return found

        def run(rank, model, state, compiles):
            total = sum(compiled(rank, model, state) if compiles else trained(rank, model, state, 4))
            state.flush()
            return total + flat(model), [float(residual.norm()) for residual in state.residuals.values()]

        for self.unused, compiles in (False, False), (True, False), (False, True):
            for total, norms in self.talk(2, lambda *about, compiles=compiles: run(*about, compiles)):
                torch.testing.assert_close(total, sum(mean_of(step, 2) for step in range(4)), atol=2e-5, rtol=1e-5)
                self.assertEqual(norms, [0.0, 0.0])

    def test_states(self):
        """Are for models with the same order in memory. Entries that may be None may be missing."""
        states = self.talk(2, lambda rank, model, state: trained(rank, model, state, 3) and state.state_dict())
        self.assertEqual([state["orders"] for state in states], [{"weight": [0, 2, 3, 1]}] * 2)
        less = [{key: value for key, value in state.items() if key not in ("orders", "scale")} for state in states]
        sentence = ("weight lies in memory in another order of its dimensions than in the run that was saved, and its "
                    "residual has that order: give the module the memory_format that it had, such as "
                    "torch.channels_last, before it is wrapped")
        for self.layout, said in (torch.channels_last, ("", "")), (torch.contiguous_format, ("ValueError", sentence)):
            found = self.talk(2, lambda rank, model, state: attempt(state.load_state_dict, states[rank])[:2])
            self.assertEqual(found, [said] * 2)
            self.talk(2, lambda rank, model, state: state.load_state_dict(less[rank]))


class Checkpoints(Talks):
    """Of activations: a reentrant one has a backward pass in the backward pass, which ends earlier."""

    def model(self):
        module = torch.nn.Sequential(torch.nn.Linear(20, 20), torch.nn.Linear(20, 20))
        module.forward = lambda x: checkpoint(module[1], module[0](x), use_reentrant=True)
        return DistributedDataParallel(module, bucket_cap_mb=0.001)

    def test_failures(self):
        """backward() raises what went wrong in the last bucket, and not that of the next step."""
        def run(rank, model, state):
            said = []
            for step in range(4):
                model.zero_grad()
                loss = model(torch.ones(2, 20)).sum()
                if step == 2 and rank == 1:
                    loss = loss + math.nan * model.module[0].weight.sum()
                said.append(attempt(loss.backward)[0])
            return said, len(state._order)

        with mock.patch.object(torch.distributed, "_DEFAULT_FIRST_BUCKET_BYTES", 1000):
            for said, groups_made in self.talk(2, run, on_nonfinite="raise"):
                self.assertEqual(said, ["", "", "StepError", ""])
                self.assertGreater(groups_made, 1)


if __name__ == "__main__":
    unittest.main()
