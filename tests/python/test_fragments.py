# SPDX-License-Identifier: MIT
"""Fragments of LocalSteps, without ranks: their rounds, and what states have of these."""
import itertools
import unittest
from types import SimpleNamespace
from unittest import mock

import threelc.torch
import torch
from threelc.torch._common.runners import Inline
from threelc.torch._common.states import Kind
from threelc.torch._local.fragment import FRAGMENT, Fragment, Round, check_fragments, fragments_saved


def fragment_of(names=("w",), warmup_rounds=0, buffers=None):
    anchors = {name: torch.zeros(3) for name in names}
    return Fragment(anchors, threelc.exchange.Config(workers=2), 0, None, warmup_rounds, 0, buffers)


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
            self.assertIs(fragment._group_of_round(0), group)  # the same one in all dense rounds
            self.assertEqual(group.sizes, (3,))

    def test_a_new_one(self):
        """What it begins with, and what a round does."""
        one = fragment_of(("v", "w"))
        self.assertEqual((one.names, one.rounds, one.round, one.in_weights, one.at_start, one.placed, one.largest,
                          one.dense),
                         (("v", "w"), 0, None, 0.0, True, False, 0, False))
        self.assertIsNone(one.take())
        one.wait()
        started = Round(5, 8, True, [], {})
        self.assertEqual((started.merged, started.failure, started.done), ({}, None, False))
        self.assertIsNot(started.merged, Round(5, 8, True, [], {}).merged)
        started.wait()

    def test_who_takes_part(self):
        """A rank that does not gives neither changes nor buffers, and hears of both; buffers go with one fragment."""
        changes, own = [torch.ones(3)], {"seen": torch.ones(1)}
        for takes_part, has_buffers in itertools.product((True, False), repeat=2):
            clock = mock.MagicMock()
            buffers = SimpleNamespace(merge=mock.Mock(return_value={"seen": 7})) if has_buffers else None
            one, transport = fragment_of(buffers=buffers), SimpleNamespace(rank=0, sent=3)
            started = Round(5, 8, takes_part, [], own)
            with mock.patch.object(one.group, "run") as run:
                one.begin(started, changes, 0.25, Inline(), transport, clock)
                self.assertEqual((one.rounds, one.round), (1, started))
                self.assertIs(one.take(), started)
            self.assertEqual((one.round, started.done, started.failure), (None, True, None))
            run.assert_called_once_with(transport, changes if takes_part else None, started.means, clock, 0.25)
            self.assertEqual(started.merged, {"seen": 7} if has_buffers else {})
            if has_buffers:
                buffers.merge.assert_called_once_with(transport, own, 0.25 if takes_part else None, 5)
                clock.sending.assert_called_once_with("buffers")

    def test_a_round_in_a_state(self):
        """Buffers that ranks did not have alike are what they became; what is loaded has memory of its own, by name."""
        one, two = fragment_of(("v", "w")), fragment_of(("w",))
        means = [torch.ones(3), torch.full((3,), 2.0)]
        one.round = Round(5, 8, True, means, {"a": torch.ones(1), "b": torch.ones(1)}, {"b": torch.zeros(1)}, done=True)
        one.rounds, one.at_start = 4, False
        state = one.state_dict()
        Kind("Thing", 1, FRAGMENT).checked({"version": 1, "kind": "Thing", **state})
        self.assertEqual((state["rounds"], state["in_weights"], state["at_start"]), (4, 0.0, False))
        means[0].zero_()
        two._floats = 3
        two.load_round(state, True)
        self.assertEqual((two.rounds, two.dense, two.at_start, two.placed), (4, False, False, False))
        self.assertEqual([mean.tolist() for mean in two.round.means], [[2.0] * 3])
        self.assertEqual({name: tensor.tolist() for name, tensor in two.round.buffers.items()},
                         {"a": [1.0], "b": [0.0]})
        self.assertEqual([*two.round.merged], ["b"])
        self.assertTrue(two.round.done and not two.round.takes_part)
        two.round.means[0].zero_()
        two.round.buffers["a"].zero_()
        self.assertEqual((state["round"]["means"][1].tolist(), state["round"]["buffers"]["a"].tolist()),
                         ([2.0] * 3, [1.0]))

    def test_states_of_older_releases(self):
        """They have no rounds under way, and no fragments; then there is one, of the whole model."""
        two = fragment_of()
        two.round, two.in_weights, two.at_start, two.placed = Round(5, 8, True, [], {}), 0.5, True, True
        group = {"names": ["w"], "sizes": [3], "state": {}}
        old, = fragments_saved({"rounds": 6, "group": group})
        self.assertEqual(old, {"rounds": 6, "group": group})
        Kind("Thing", 1, FRAGMENT).checked({"version": 1, "kind": "Thing", **old})
        for more in {}, {"in_weights": None, "at_start": None, "round": None}:
            for same in True, False:
                two.load_round({**old, **more}, same)
                self.assertEqual((two.rounds, two.round, two.in_weights, two.at_start, two.placed),
                                 (6, None, 0.0, False, False))
        self.assertEqual(fragments_saved({"fragments": [old, old], "group": None}), [old, old])
        for state in {}, {"fragments": []}, {"fragments": None, "group": None}:
            with self.assertRaisesRegex(ValueError, "^this state of LocalSteps is damaged: it has no 'fragments'$"):
                fragments_saved(state)

    def test_failures_in_states(self):
        """A rank or a tensor that is not known stays so."""
        one = fragment_of()
        group = {"names": ["w"], "sizes": [3], "state": {}}
        for more in {}, {"rank": 1}, {"tensor": 2}, {"rank": 0, "tensor": 0}:
            failure = {"sentence": "not finite", "step": 3, **more}
            one.load_round({"rounds": 1, "group": group, "round": {
                "number": 5, "ends": 8, "means": [torch.ones(3)], "buffers": {}, "merged": [], "failure": failure}},
                           True)
            error = one.take().failure
            self.assertEqual((str(error), error.status), ("not finite", threelc.Status.STEP))
            outcome = error.outcome
            self.assertEqual((outcome.step, outcome.rank, outcome.tensor, outcome.cause, outcome.status,
                              outcome.sentence),
                             (3, more.get("rank"), more.get("tensor"), threelc.Status.NONFINITE, threelc.Status.STEP,
                              "not finite"))
            self.assertEqual((outcome.unknown, outcome.missing, outcome.taken), (0, 0, None))

    def test_other_fragments(self):
        """One more and one fewer, other names, and names more, which are those of what is frozen here."""
        here = [fragment_of(("a", "b")), fragment_of(("c",))]

        def saved(*names):
            return [{"group": {"names": list(each)}} for each in names]

        check_fragments(here, [saved("ab", "c"), saved("abx", "yc")])
        many = [str(i) for i in range(300)]
        check_fragments([fragment_of(many)], [[{"group": {"names": many}, "round": {
            "means": 300 * [0], "buffers": {}, "merged": []}}]])
        check_fragments(300 * here[1:], [saved(*(300 * ["c"]))])
        for state, words in ((saved("ab"), "the state has 1 fragments, and this one 2: make it with the same; "),
                             (saved("ab", "c", "d"), "the state has 3 fragments, and this one 2: make it"),
                             (saved("a", "c"), "fragment 0 of the state has other parameters, without b: make it"),
                             (saved("", "c"), "fragment 0 of the state has other parameters, without a: make it"),
                             (saved("ab", "d"), "fragment 1 of the state has other parameters, without c: make it")):
            with self.assertRaisesRegex(ValueError, f"^{words}"):
                check_fragments(here, [saved("ab", "c"), state])
        for means, merged in (2, ["x"]), (4, ["x"]), (3, ["y"]), (3, ["x", "y"]):
            under_way = {"means": [0] * means, "buffers": {"x": 1}, "merged": merged}
            with self.assertRaisesRegex(ValueError, "^this state of LocalSteps is damaged: a round has other "):
                check_fragments(here, [[{**saved("abx")[0], "round": under_way}, *saved("c")]])
        under_way = {"means": [0] * 3, "buffers": {"x": 1}, "merged": []}
        check_fragments(here, [[{**saved("abx")[0], "round": under_way}, *saved("c")]])


if __name__ == "__main__":
    unittest.main()
