# SPDX-License-Identifier: MIT
"""What states are made of, without objects: each form of an entry, each sentence, each number of ranks, and which runs
histories tell apart."""
import itertools
import json
import unittest
from collections import OrderedDict, namedtuple
from dataclasses import FrozenInstanceError
from types import SimpleNamespace

import torch
from threelc.torch._common import states
from threelc.torch._common.histories import compare_histories
from threelc.torch._common.states import Kind, Names, Optionally
from threelc.torch._owners import places

HEAD = {"version": 4, "kind": "Thing"}
Pair = namedtuple("Pair", "one other")


def again(value):
    """What is equal, but not the same object, as what comes from a file."""
    return json.loads(json.dumps(value))


def deep(levels):
    found = []
    for _ in range(levels):
        found = [found]
    return found


class Forms(unittest.TestCase):
    def refused(self, form, entries, problem):
        with self.assertRaises(ValueError) as caught:
            Kind("Thing", 4, form).checked({**HEAD, **entries})
        self.assertEqual(str(caught.exception), f"this state of Thing is damaged: {problem}")

    def test_each_form(self):
        """What fits, and the sentence about what does not."""
        here = SimpleNamespace(__index__=None)
        for form, right, wrong in (
                (int, (0, -1, 2**70, True), ((1.5, "is 1.5, not a int"), ("1", "is '1', not a int"),
                                             (None, "is None, not a int"), ([], "is a list, not a int"))),
                (float, (0.5, 3, True), (("1.5", "is '1.5', not a float"), (None, "is None, not a float"))),
                (str, ("", "x"), ((3, "is 3, not a str"), (b"x", "is a bytes, not a str"))),
                (bool, (True, False), ((1, "is 1, not a bool"),)),
                (torch.Tensor, (torch.ones(0),), ((3, "is 3, not a Tensor"), ([1.0], "is a list, not a Tensor"))),
                (dict, ({}, {1: 2}), (([], "is a list, not a dict"),)),
                (Optionally(int), (None, 3), (("x", "is 'x', not a int"),)),
                (Names(), ([], ["a"], ("a", "b")), (
                    ("ab", "is no list of names, each of them once"),
                    (["a", "a"], "is no list of names, each of them once"),
                    (["a", 1], "is no list of names, each of them once"),
                    ({"a"}, "is no list of names, each of them once"),
                    (["a", "_orig_mod.a"], "is no list of names, each of them once"),
                    (None, "is no list of names, each of them once"))),
                ([int], ([], [1], (1, 2)), (("12", "is '12', not a list"), (3, "is 3, not a list"),
                                            ({1: 2}, "is a dict, not a list"), (["x"], "[0] is 'x', not a int"),
                                            ([1, 2, None], "[2] is None, not a int"),
                                            ([1, "x", "y"], "[1] is 'x', not a int"))),
                ((str, int), (("a", 1), ["a", 1]), (
                    (("a",), "is a tuple, not a list of 2 entries"),
                    (["a", 1, 2], "is a list, not a list of 2 entries"),
                    ("a1", "is 'a1', not a list of 2 entries"),
                    ({"a": 1, "b": 2}, "is a dict, not a list of 2 entries"),
                    ((1, 1), "[0] is 1, not a str"), (("a", "b"), "[1] is 'b', not a int"),
                    ((1, "b"), "[0] is 1, not a str"))),
                ({str: int}, ({}, {"a": 1}), (([], "is a list, not a dict"), ({"a": "x"}, "['a'] is 'x', not a int"),
                                              ({"a": 1, "b": None}, "['b'] is None, not a int"))),
                ({"p": int, "q": Optionally(str)}, ({"p": 1}, {"p": 1, "q": None}, {"p": 1, "q": "x", "r": here}), (
                    ({"p": "x"}, "['p'] is 'x', not a int"), ({"p": 1, "q": 2}, "['q'] is 2, not a str"),
                    (3, "is 3, not a dict"))),
                ({"p": [{str: (int,)}]}, ({"p": []}, {"p": [{"a": (1,)}]}), (
                    ({"p": [{}, {"a": ("x",)}]}, "['p'][1]['a'][0] is 'x', not a int"),))):
            for value in right:
                self.assertIs(Kind("Thing", 4, {"e": form}).checked({**HEAD, "e": value})["version"], 4)
            for value, problem in wrong:
                self.refused({"e": form}, {"e": value}, f"'e'{problem if problem[0] == '[' else ' ' + problem}")

    def test_names(self):
        """Those of a dict, at its place."""
        for names in ({"a": 1, "_orig_mod.a": 1}, {"a": 1, 3: 1}):
            self.refused({"e": {str: int}}, {"e": names}, "names in 'e' are no words, or one comes twice")
            self.refused({"e": [{str: int}]}, {"e": [names]}, "names in 'e'[0] are no words, or one comes twice")
        with self.assertRaisesRegex(ValueError, "damaged: names in it are no words, or one comes twice"):
            Kind("Thing", 4, {str: object}).checked({**HEAD, 3: 1})

    def test_what_is_missing(self):
        form = {"a": int, "b": Optionally(int), "c": {"d": int, "e": Optionally(int)}}
        Kind("Thing", 4, form).checked({**HEAD, "a": 1, "c": {"d": 1}})
        self.refused(form, {"c": {"d": 1}}, "it has no 'a'")
        self.refused(form, {"a": 1, "b": 2}, "it has no 'c'")
        self.refused(form, {"a": 1, "c": {"e": 1}}, "it has no 'c'['d']")

    def test_what_cannot_be_read(self):
        kind = Kind("Thing", 4, {"e": float})
        for value, words in (({"float": "x"}, "invalid hexadecimal"), ({"float": "0x1p99999"}, "too large"),
                             (deep(5000), "recursion")):
            with self.assertRaisesRegex(ValueError, f"^this state of Thing is damaged: it cannot be read: .*{words}"):
                kind.checked({**HEAD, "e": value})

    def test_round_trip(self):
        """Of all that states have: floats are words, bytes are tensors, all else is itself."""
        value = {"a": 0.1, "b": b"xy", "c": b"", "d": (1.5, [2.5, {"e": -0.0}]), "f": "x", "g": None, "h": 3, "i": True,
                 "j": Pair(1.5, 2), "k": OrderedDict(l=float("inf"))}
        saved = states.loadable(value)
        self.assertEqual(saved["a"], {"float": (0.1).hex()})
        self.assertEqual((saved["b"].tolist(), saved["b"].dtype), ([120, 121], torch.uint8))
        self.assertEqual((saved["c"].tolist(), saved["c"].dtype), ([], torch.uint8))
        self.assertEqual(saved["d"], ({"float": (1.5).hex()}, [{"float": (2.5).hex()}, {"e": {"float": "-0x0.0p+0"}}]))
        self.assertIs(saved["j"], value["j"])
        self.assertEqual(type(saved["k"]), dict)
        found = Kind("Thing", 4, {}).checked({**HEAD, **saved})
        for name in "adfghijk":
            self.assertEqual(found[name], value[name], name)
        for other in {"float": 3}, {"float": "0x1p0", "more": 1}, {"floats": "0x1p0"}, {}:
            self.assertEqual(Kind("Thing", 4, {}).checked({**HEAD, "x": other})["x"], other)

    def test_saved(self):
        kind = Kind("Thing", 4, {})
        self.assertEqual(kind.saved(None, {"a": 1}), {**HEAD, "a": 1})
        self.assertEqual(kind.saved(SimpleNamespace(rank=2, world=5), {"a": 0.5}),
                         {**HEAD, "rank": 2, "world": 5, "a": {"float": (0.5).hex()}})
        self.assertFalse(kind.changes)
        with self.assertRaises(FrozenInstanceError):
            kind.version = 5


class Kinds(unittest.TestCase):
    def test_what_is_said_of_others(self):
        """Of all that is no state of this kind: what it is."""
        kind, tensor = Kind("Thing", 4, {}), torch.ones(1)
        older = {"register()": {"groups": 1, "scale": 1}, "register_fsdp()": {"groups": 1},
                 "LocalSteps": {"anchors": 1},
                 "PushPull": {"worker": 1}, "Gossip": {"node": 1}, "WeightSync": {"published": 1}}
        for thing, words in (
                *[({"version": 1, **marks}, f"one of {name}") for name, marks in older.items()],
                (older["LocalSteps"], "a dict with 'anchors' in it"), ({"kind": "Other"}, "one of Other"),
                ({"kind": 3, "version": 4}, "one of 3"),
                ({"state": {}, "param_groups": []}, "one of an optimizer"),
                ({"param_groups": []}, "one of an optimizer"),
                ({"version": 1, "state": b""}, "one of a threelc.Context"),
                ({"version": 1, "state": b"", "groups": 1}, "one of a threelc.Context"),
                ({"state": b""}, "a dict with 'state' in it"), ({"version": 1}, "a dict with 'version' in it"),
                ({"w": tensor}, "one of a module"), ({"w": tensor, "x": 1}, "a dict with 'w', 'x' in it"),
                ({}, "a dict with nothing in it"), ({1: 1, 2: 2, 3: 3}, "a dict with 1, 2, 3 in it"),
                ({1: 1, 2: 2, 3: 3, 4: 4}, "a dict with 1, 2, 3 in it"), (None, "None"), (5, "5"), ("x", "'x'"),
                ([1], "a list"), ({**HEAD, "version": 3}, "one of version 3"),
                ({**HEAD, "version": "4"}, "one of version '4'"),
                ({"kind": "Thing"}, "one of version None")):
            for several, list_too in (True, ", or a list of those of all ranks"), (False, ""):
                with self.assertRaises(ValueError) as caught:
                    kind.checked(thing, several)
                self.assertEqual(str(caught.exception),
                                 f"a state of version 4 is needed, that of Thing{list_too}, not {words}")
        with self.assertRaisesRegex(ValueError, "or a list of those of all ranks, not None"):
            kind.checked(None)
        for name, marks in older.items():
            self.assertEqual(dict(Kind(name, 1, {}).checked({"version": 1, **marks})), {"version": 1, **marks})
        self.assertEqual(Kind("Thing", 1000, {}).checked(again({"version": 1000, "kind": "Thing"}))["version"], 1000)


def of_ranks(world, ranks):
    return [{**HEAD, "rank": rank, "world": world} for rank in ranks]


class Ranks(unittest.TestCase):
    KIND = Kind("Thing", 4, states.RANKS)

    def needed(self, found, rank, world, lost):
        return [state["rank"] for state in
                states.states_for(found, self.KIND, SimpleNamespace(rank=rank, world=world), lost)]

    def test_lists(self):
        """One state, or several in anything that can be walked through."""
        one, two = of_ranks(2, (0, 1))
        for given, count in ((one, 1), ([one], 1), ((one, two), 2), (iter([one, two]), 2), ({1: one}.values(), 1)):
            self.assertEqual(len(states.listed_states(given, self.KIND)), count)
        for given, words in (([], "^there is no state$"), ((), "^there is no state$"), ("", "not ''"),
                             (b"x", "not a bytes"),
                             (3, "not 3"), (None, "not None"), ([one, 3], "not 3"), ([[one]], "not a list")):
            with self.assertRaisesRegex(ValueError, words):
                states.listed_states(given, self.KIND)

    def test_which_are_needed(self):
        """The own one on as many ranks, all of them on others, in their order."""
        for saved, world, rank in itertools.product((1, 2, 3), (1, 2, 3), range(3)):
            if rank < world:
                given = of_ranks(saved, reversed(range(saved)))
                self.assertEqual(self.needed(given, rank, world, None),
                                 [rank] if saved == world else list(range(saved)))
                if saved == world:
                    self.assertEqual(self.needed(given[saved - 1 - rank], rank, world, None), [rank])

    def test_many_ranks(self):
        """Whatever their numbers, and wherever these come from."""
        saved = again(of_ranks(1000, range(1000)))
        for given, size, found in ((saved, 1000, [700]), (saved[700], 1000, [700]), (saved, 999, list(range(1000)))):
            self.assertEqual(self.needed(given, 700, size, None), found)
        with self.assertRaisesRegex(ValueError, "^the state of rank 700 is given twice$"):
            self.needed(saved + again(saved[700:701]), 3, 1000, None)
        with self.assertRaisesRegex(ValueError, "and those of ranks 700 are missing$"):
            self.needed(saved[:700] + saved[701:], 3, 999, None)
        with self.assertRaisesRegex(ValueError, "^the state of rank 700 is needed$"):
            self.needed(saved[:700], 700, 1000, None)
        counts = [{"rank": rank, "traffic": {"sent": 1}} for rank in range(1000)]
        self.assertEqual(states.traffic_saved(again(counts), "traffic", SimpleNamespace(rank=700, world=1000)),
                         {"sent": 1})

    def test_those_that_are_missing(self):
        """They are lost if that is allowed; else a sentence names the first three."""
        hint = "; with lost=True the run goes on without the residuals that are missing"
        for world, there, rank, size, words in (
                (3, (0, 2), 1, 3, "the state of rank 1 is needed"), (3, (0, 2), 1, 2, ("1", "")),
                (4, (1,), 0, 2, ("0, 2, 3", "")), (5, (1,), 0, 2, ("0, 2, 3", ", ...")),
                (2**40, (1,), 0, 2, ("0, 2, 3", ", ...")),
                (5, (3, 4), 0, 2, ("0, 1, 2", "")), (6, (0, 5), 1, 2, ("1, 2, 3", ", ..."))):
            if isinstance(words, tuple):
                words = (f"a run on {world} ranks was saved, this is one on {size}: the states of all its ranks are "
                         f"needed, and those of ranks {words[0]}{words[1]} are missing")
            for lost, more in (None, ""), (False, hint):
                with self.assertRaises(ValueError) as caught:
                    self.needed(of_ranks(world, there), rank, size, lost)
                self.assertEqual(str(caught.exception), words + more)
            self.assertEqual(self.needed(of_ranks(world, there), rank, size, True), list(there))
        self.assertEqual(self.needed(of_ranks(3, (0, 2)), 2, 3, None), [2])

    def test_damages(self):
        for given, words in ((of_ranks(2, (0, 2)), "^a state is damaged: it is of rank 2 of 2$"),
                             (of_ranks(2, (-1, 1)), "^a state is damaged: it is of rank -1 of 2$"),
                             (of_ranks(0, (0,)), "^a state is damaged: it is of rank 0 of 0$"),
                             (of_ranks(3, (1, 0, 1)), "^the state of rank 1 is given twice$"),
                             (of_ranks(3, (2, 0, 2)), "^the state of rank 2 is given twice$"),
                             ([*of_ranks(2, (0,)), *of_ranks(3, (1,))],
                              "^the states are of runs on different numbers")):
            for lost in None, False, True:
                with self.assertRaisesRegex(ValueError, words):
                    self.needed(given, 0, 2, lost)

    def test_traffic(self):
        """Each count goes to one rank."""
        saved = [{"rank": rank, "traffic": {"sent": 10**rank, "more": rank}} for rank in range(4)]
        for world, found in ((4, [1, 10, 100, 1000]), (2, [101, 1010]), (3, [1001, 10, 100]), (1, [1111]),
                             (5, [1, 10, 100, 1000, 0])):
            counts = [states.traffic_saved(saved, "traffic", SimpleNamespace(rank=rank, world=world))
                      for rank in range(world)]
            self.assertEqual([each["sent"] for each in counts], found)
            self.assertTrue(all(set(each) == {"sent", "more"} for each in counts))


class OfOptimizers(unittest.TestCase):
    def test_any_division(self):
        """Each value has its own state, and each part the number of the first part of before that overlaps."""
        values = torch.arange(12.0)
        for cuts in [0, 12], [0, 4, 8, 12], [0, 5, 6, 7, 12], [0, 1, 11, 12]:
            saved = [(("weight", first, end - first), {"m": values[first:end], "step": torch.tensor(i), "n": i})
                     for i, (first, end) in enumerate(zip(cuts, cuts[1:]))]
            for first, end in itertools.combinations(range(13), 2):
                found = places._state_at(("weight", first, end - first), saved)
                number = sum(cut <= first for cut in cuts[1:])
                self.assertEqual((found["m"].tolist(), int(found["step"]), found["n"]),
                                 (list(range(first, end)), number, number), (cuts, first, end))


class Settings(unittest.TestCase):
    def test_made_with(self):
        for arguments, found in (((), {"pull": "a"}), (("b",), {"pull": "b"}), ((None, "gather"), {"mode": "gather"}),
                                 (("b", "gather"), {"mode": "gather"}),
                                 (("b", "sharded"), {"pull": "b", "mode": "sharded"}),
                                 ((None, "sharded"), {"pull": "a", "mode": "sharded"})):
            self.assertEqual(states.made_with("a", 7, *arguments), {"codec": "a", "min_numel": 7, **found})

    def test_what_was_made_otherwise(self):
        """Each setting; whether set_codec() would help; what older states do not have."""
        here = {"codec": "a", "pull": "b", "min_numel": 10, "mode": "m"}
        for changes in False, True:
            kind = Kind("Thing", 4, {}, changes)
            for made in {}, None, here, {"codec": "a"}, {"more": 1}:
                states.check_made(kind, [{"made": here}, {"made": made}], here, [9, 11])
            states.check_made(kind, [{}], here, [9, 11])
            there = {"codec": "3lc:s=1.75", "min_numel": 1000}
            states.check_made(kind, [{"made": again(there)}], again(there), [999, 1000])
            for name, there in ("codec", "x"), ("pull", "x"), ("mode", "x"), ("min_numel", 12):
                with self.assertRaises(ValueError) as caught:
                    states.check_made(kind, [{"made": here}, {"made": {**here, name: there}}], here, iter([9, 11]))
                then = (f"name {here[name]!r} in reserve, and call set_codec() afterwards"
                        if changes and name in ("codec", "pull") else "begin anew from the weights of the model")
                self.assertEqual(str(caught.exception), (
                    f"the state is of Thing with {name}={there!r}, and this one was made with {name}={here[name]!r}, "
                    f"which its residuals do not fit. Make it with {name}={there!r}; to change it, {then}"))
            for there, sizes, fits in (12, [9, 12], True), (12, [11], False), (12, [10], False), (12, [9], True), (
                    12, [12], True), (8, [8], False), (8, [9], False), (8, [7, 10], True), (12, [], True):
                saved = [{"made": {**here, "min_numel": there}}]
                if fits:
                    states.check_made(kind, saved, here, sizes)
                else:
                    with self.assertRaisesRegex(ValueError, f"with min_numel={there}, "):
                        states.check_made(kind, saved, here, sizes)

    def test_names_without_a_place(self):
        for names, shown in (["a"], "a (1 in all)"), ("abc", "a, b, c (3 in all)"), ("abcd", "a, b, c, ... (4 in all)"):
            with self.assertRaises(ValueError) as caught:
                states.check_places(iter(names), "have no place here", False)
            self.assertEqual(str(caught.exception), f"names of the state have no place here: {shown}. With lost=True "
                                                    "the run goes on without what the state has of them")
            states.check_places(iter(names), "have no place here", True)
        states.check_places([], "have no place here", False)

    def test_plain_names(self):
        for name, found in (("a", "a"), ("_orig_mod", ""), ("_orig_mod.a", "a"), ("a._orig_mod.b", "a.b"),
                            ("a._orig_mod_.b", "a._orig_mod_.b"), ("", ""), ("a..b", "a..b")):
            self.assertEqual(states.plain(name), found)
        thing = object()
        self.assertEqual(states.by_plain_name([("a", thing), ("_orig_mod.a", thing), ("b", 1)], "things"),
                         {"a": thing, "b": 1})
        with self.assertRaisesRegex(ValueError, "^two things have the name a$"):
            states.by_plain_name([("a", thing), ("_orig_mod.a", object())], "things")


def compared(pushing, servers):
    """Step and history of the workers of each rank, and of its servers: what ranks say of them. None: nothing."""
    said = again([[*[[each] for each in mine], *theirs]
                  for mine, theirs in zip(pushing, servers or [[]] * len(pushing))])
    sent = []

    class Ranks:
        """In place of the other ranks."""
        @staticmethod
        def gather(own):
            sent.append(own)
            return said

    def objects(pairs):
        return [SimpleNamespace(step=step, history=history) for step, history in pairs]

    try:
        compare_histories(Ranks, objects(pushing[0]), [objects(each) for each in servers[0]] if servers else ())
    except ValueError as error:
        return str(error)
    finally:
        assert sent == [said[0]], sent
    return None


class Histories(unittest.TestCase):
    END = "; load the states of one checkpoint on all ranks"

    @staticmethod
    def apart(one, other, step):
        return f"ranks {one} and {other} are not of one run: before step {step} they got different messages"

    def test_workers(self):
        """By worker: those before the same step have the same history, if they have any."""
        for pushing, words in (
                ([[(3, 5)], [(3, 5)]], None), ([[(10**6, 2**64 - 1)], [(10**6, 2**64 - 1)]], None),
                ([[(10**6, 2**64 - 1)], [(10**6, 2**64 - 2)]], self.apart(0, 1, 10**6)),
                ([[(3, 5)], [(3, 0)]], None), ([[(3, 0)], [(3, 5)]], None),
                ([[(3, 5)], [(4, 6)]], None), ([[(0, 0)], [(0, 0)]], None), ([[(3, 5)]], None), ([[], []], None),
                ([[(3, 5), (3, 6)], [(3, 5), (3, 6)]], None),
                ([[(3, 5)], [(3, 6)]], self.apart(0, 1, 3)),
                ([[(3, 0)], [(3, 5)], [(3, 6)]], self.apart(1, 2, 3)),
                ([[(3, 5)], [(4, 5)], [(4, 6)]], self.apart(1, 2, 4)),
                ([[(3, 5), (3, 6)], [(3, 5), (3, 7)]], self.apart(0, 1, 3))):
            self.assertEqual(compared(pushing, None), words and f"the states of {words}{self.END}")

    def test_servers(self):
        """Their histories add up to those of the workers before the same step, if all are known."""
        worker, half = [(3, 5)], 2**63
        for pushing, servers, words in (
                ([worker, worker], [[[(3, 2)]], [[(3, 3)]]], None),
                ([worker, worker], [[[(3, 2), (3, 3)]], [[]]], None),
                ([worker, worker], [[[(3, 5)]], [[]]], None),
                ([[(10**6, 10**9)]], [[[(10**6, 10**9 - 700), (10**6, 700)]]], None),
                ([[(10**6, 10**9)]], [[[(10**6, 10**9 - 700), (10**6, 701)]]], "0"),
                ([[(3, 0)], [(3, 0)]], [[[(3, 2)]], [[(3, 3)]]], None), ([worker], [[[(3, 0), (3, 4)]]], None),
                ([worker], [[[(4, 2), (4, 2)]]], None), ([worker], [[[(3, 2), (4, 2)]]], None),
                ([[(3, 6)]], [[[(3, half), (3, half + 6)]]], None), ([[(3, 6)]], [[[(3, half), (3, half + 7)]]], "0"),
                ([worker, [(3, 0)]], [[[(3, 2)]], [[(3, 4)]]], "0"),
                ([[(3, 0)], worker], [[[(3, 2)]], [[(3, 4)]]], "1"),
                ([[(3, 5), (3, 8)]] * 2, [[[(3, 2)], [(3, 4)]], [[(3, 3)], [(3, 4)]]], None),
                ([[(3, 5), (3, 8)]] * 2, [[[(3, 2)], [(3, 4)]], [[(3, 3)], [(3, 5)]]], "0")):
            self.assertEqual(compared(pushing, servers), words and (
                f"the states of rank {words} and of the servers are not of one run: before step "
                f"{pushing[0][0][0]} it got other answers than they gave{self.END}"))


if __name__ == "__main__":
    unittest.main()
