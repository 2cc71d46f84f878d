# SPDX-License-Identifier: MIT
"""Fragments of LocalSteps, without ranks: their rounds, and what states have of these."""
import itertools
import unittest
from types import SimpleNamespace
from unittest import mock

import threelc.torch
import torch
from threelc.torch._local.fragment import Fragment, Round, check_fragments


class Fragments(unittest.TestCase):
    def test_a_failure_in_a_state(self):
        """What a round under way has found goes on as it was."""
        config = threelc.exchange.Config(workers=2)
        one, two = (Fragment({"w": torch.zeros(3)}, config, 0, None, 0, 0, None) for _ in range(2))
        outcome = threelc.exchange.Outcome(
            status=threelc.Status.STEP, cause=threelc.Status.NONFINITE, step=3, rank=1, tensor=0, taken=None,
            unknown=0, missing=0, sentence="rank 1 has a NaN")
        for failure in None, threelc.StepError(threelc.Status.STEP, outcome.sentence, outcome):
            one.round = Round(5, 8, True, [torch.ones(3)], {"seen": torch.ones(1)}, {}, failure, done=True)
            one.in_weights, one.rounds = 0.25, 5
            two.load_round(one.state_dict(), True)
            self.assertEqual((two.rounds, two.in_weights, two.at_start), (5, 0.25, True))
            self.assertEqual((two.round.number, two.round.ends, two.round.takes_part, two.round.merged),
                             (5, 8, False, {}))
            self.assertTrue(two.round.means[0].equal(torch.ones(3)) and two.round.buffers["seen"].item() == 1)
            self.assertEqual(two.round.failure and two.round.failure.outcome, failure and outcome)
            self.assertEqual((two.take().number, two.round), (5, None))
        for share, same, at_start in itertools.product((0.0, 0.25), (True, False), (True, False)):
            one.in_weights, one.at_start = share, at_start
            two.load_round(one.state_dict(), same)
            self.assertEqual({two.at_start, two.placed}, {share > 0 and (at_start or not same)})
        two.round = Round(5, 8, True, [], {})  # whose exchange has ended without results
        with self.assertRaisesRegex(RuntimeError, "the exchange of round 5 has failed"):
            two.take()

    def test_failures_of_exchanges(self):
        """A change that is not finite fails the round on all ranks alike; whatever else fails is raised."""
        fragment = Fragment({"w": torch.zeros(3)}, threelc.exchange.Config(workers=2), 0, None, 0, 0, None)
        for cause, known in (threelc.Status.NONFINITE, True), (threelc.Status.CORRUPT, False), (None, False):
            outcome = cause and threelc.exchange.Outcome(
                status=threelc.Status.STEP, cause=cause, step=3, rank=1, tensor=0, taken=None, unknown=0, missing=0,
                sentence="it failed")
            error = threelc.StepError(threelc.Status.STEP, "it failed", outcome)
            started = Round(5, 8, True, [], {})
            group = SimpleNamespace(run=mock.Mock(side_effect=error))
            exchange = group, started, [], 1.0, SimpleNamespace(sent=0), None
            if known:
                fragment._run(*exchange)
            else:
                with self.assertRaisesRegex(threelc.StepError, "it failed"):
                    fragment._run(*exchange)
            self.assertEqual((started.failure, started.done), (error if known else None, known))

    def test_largest(self):
        """The bytes of the round that sent most."""
        fragment = Fragment({"w": torch.zeros(3)}, threelc.exchange.Config(workers=2), 0, None, 0, 0, None)
        transport = SimpleNamespace(sent=5)
        for size in 100, 40:
            group = SimpleNamespace(run=lambda *_, n=size: setattr(transport, "sent", transport.sent + n))
            fragment._run(group, Round(5, 8, True, [], {}), [], 1.0, transport, None)
        self.assertEqual(fragment.largest, 100)

    def test_rounds_of_other_tensors(self):
        """Each of the ways in which a round of a state is not one of its fragment."""
        fragment = Fragment({"w": torch.zeros(3)}, threelc.exchange.Config(workers=2), 0, None, 0, 0, None)
        saved = {"group": {"names": ["w"]}, "round": {"means": [torch.zeros(3)], "buffers": {"b": 1}, "merged": ["b"]}}
        check_fragments([fragment], [[saved], [{"group": {"names": ["frozen", "w"]}}]])
        for damage in {"means": []}, {"merged": ["c"]}:
            with self.assertRaisesRegex(ValueError, "a round has other tensors than its fragment"):
                check_fragments([fragment], [[{**saved, "round": {**saved["round"], **damage}}]])
        with self.assertRaisesRegex(ValueError, "fragment 0 of the state has other parameters, without w: make"):
            check_fragments([fragment], [[{"group": {"names": ["a", "x"]}}]])

    def test_two_dense_rounds(self):
        fragment = Fragment({"w": torch.zeros(3)}, threelc.exchange.Config(workers=2), 0, None, 2, 0, None)
        for rounds, dense in (1, True), (2, True), (3, False), (4, False):
            fragment.rounds = rounds
            group = fragment._group_of_round(0)
            self.assertEqual((fragment.dense, group is not fragment.group), (dense, dense))


if __name__ == "__main__":
    unittest.main()
