# SPDX-License-Identifier: MIT
"""Which tensors have memory in common: each rule by itself, and each length by one more and one fewer."""
import itertools
import unittest

import torch
from threelc.torch._common import sharing
from threelc.torch._common.sharing import Place


def strided(shape, strides, first=0, size=640):
    """Of numbers from 0 on, which say where they lie."""
    return torch.arange(float(size)).as_strided(shape, strides, first)


LAYOUTS = [((), ()), ((1,), (5,)), ((4,), (1,)), ((4,), (2,)), ((2, 3), (3, 1)), ((2, 3), (1, 2)), ((2, 3), (4, 1)),
           ((2, 3), (2, 1)), ((2, 3), (1, 1)), ((2, 3), (0, 1)), ((3, 2), (2, 1)), ((1, 3), (7, 1)), ((3, 1), (1, 9)),
           ((2, 1, 3), (3, 0, 1)), ((2, 2, 2), (1, 4, 2)), ((2, 2, 2), (1, 3, 2)), ((2, 3, 2), (1, 2, 6)),
           ((2, 3, 2), (1, 2, 7)), ((2, 300), (300, 1)), ((2, 300), (301, 1)), ((5, 2), (2, 3)), ((4, 3), (2, 3)),
           ((1, 1), (0, 0)), ((2,), (0,))]


class Layouts(unittest.TestCase):
    def test_against_addresses(self):
        """Of each layout: the strides that count, how far it reaches, whether it is dense, or overlaps itself."""
        for shape, strides in LAYOUTS:
            tensor = strided(shape, strides)
            addresses = sorted(int(at) for at in tensor.reshape(-1).tolist())
            self.assertEqual(sharing.reach(shape, strides), addresses[-1] + 1, (shape, strides))
            self.assertEqual(sharing.dense(shape, strides), addresses == list(range(len(addresses))), (shape, strides))
            self.assertEqual(sharing.overlaps_itself(tensor), len(set(addresses)) < len(addresses), (shape, strides))
            self.assertEqual(sharing.strides_of(tensor),
                             tuple(stride if length > 1 else 0 for length, stride in zip(shape, strides)))
        for shape, strides in (((0,), (1,)), ((0, 3), (0, 0)), ((3, 0), (0, 1))):
            self.assertFalse(sharing.overlaps_itself(strided(shape, strides)))

    def test_values(self):
        """Each layout as a part of a dense root, in rows, columns, or with lengths of 1."""
        for (shape, strides), first in itertools.product(LAYOUTS, (0, 1, 9)):
            for root in (strided((640,), (1,)), strided((2, 320), (320, 1)), strided((2, 320), (1, 2)),
                         strided((1, 640), (3, 1))):
                part = root.as_strided(shape, strides, first)
                found = sharing.places({"part": part, "root": root})
                self.assertEqual(found["root"], Place("root"))
                self.assertEqual(found["part"], Place("root", sharing.strides_of(root), sharing.strides_of(part),
                                                      first))
                values = sharing.values_in(root.clone(memory_format=torch.contiguous_format), found["part"], shape)
                self.assertTrue(torch.equal(values, part))

    def test_the_same_values(self):
        """They are all of each other if strides agree, where these count; the first one is the root."""
        one = strided((1, 5), (9, 1))
        for other, whole in ((one.as_strided((1, 5), (3, 1)), True), (one.as_strided((5, 1), (1, 1)), False),
                             (one.as_strided((5,), (1,)), False)):
            found = sharing.places({"one": one, "other": other})
            part = Place("one", (0, 1), sharing.strides_of(other), 0)
            self.assertEqual(found["other"], Place("one") if whole else part)
        thin, other = strided((2, 3), (10, 2)), strided((2, 3), (10, 2))
        same = thin.as_strided((2, 3), (10, 2))
        self.assertEqual(sharing.places({"a": thin, "b": same, "c": other}),
                         {"a": Place("a"), "b": Place("a"), "c": Place("c")})
        self.assertEqual(Place("x"), ("x", None, (), 0))

    def test_neighbours(self):
        """They share nothing, up to the last value, and then they do."""
        memory = torch.zeros(40)
        for end, start, shares in (10, 10, False), (10, 9, True), (10, 11, False), (0, 0, False):
            for one, other in ((memory[:end], memory[start:20]), (memory[:end].view(torch.int32), memory[start:20]),
                               (memory[:2 * end:2], memory[2 * start:30])):
                if other.numel() and shares:
                    with self.assertRaises(sharing.Overlap) as caught:
                        sharing.places({"a": one, "b": other})
                    self.assertEqual(caught.exception.names, ("a", "b"))
                else:
                    self.assertEqual(sharing.places({"a": one, "b": other}), {"a": Place("a"), "b": Place("b")})
        self.assertIsNone(sharing.shared({"a": memory[:0], "b": memory, "c": memory[3:3]}))

    def test_parts_of_what_has_gaps(self):
        """A part of a tensor that is not dense cannot be sent; what lies in its gaps can, also beyond its end."""
        memory = torch.zeros(40)
        gaps = memory[::4]
        for other, shares in ((memory[4:5], True), (memory[1:3], False), (memory[5:6], False), (memory[36:], True),
                              (memory[37:], False), (memory[33:40:4], False), (memory[2::4], False),
                              (memory[7:9], True)):
            if shares:
                with self.assertRaisesRegex(sharing.Overlap, "have memory in common, but neither is a view"):
                    sharing.places({"gaps": gaps, "other": other})
                self.assertEqual(sharing.shared({"gaps": gaps, "other": other}), ("gaps", "other"))
            else:
                self.assertEqual(sharing.places({"gaps": gaps, "other": other})["other"], Place("other"))

    def test_one_root_for_all(self):
        """The tensor that reaches furthest, whatever its place in the list; roots that have ended are looked at no
        more."""
        memory = torch.zeros(40)
        tensors = {"all": memory[:30], "row": memory[:10], "late": memory[20:30], "far": memory[30:],
                   "in": memory[35:36]}
        for names in itertools.permutations(tensors):
            found = sharing.places({name: tensors[name] for name in names})
            self.assertEqual({name: place.root for name, place in found.items()},
                             {"all": "all", "row": "all", "late": "all", "far": "far", "in": "far"})
            self.assertEqual((found["late"].first, found["in"].first), (20, 5))


class BothSides(unittest.TestCase):
    def test_places_that_agree(self):
        """What shares memory in a receiver must share it in the same way in the trainer, whose names are words of their
        own: each difference."""
        part = Place("root", (3, 1), (1,), 4)
        for mine, theirs, fits in (
                ({}, {"part": part}, True), ({"part": Place("root")}, {"part": Place("root"), "root": Place("root")},
                                             True),
                ({"part": Place("root")}, {"part": Place("root", (3, 1), (3, 1), 0), "root": Place("root")}, False),
                ({"part": Place("root")}, {"part": Place("third"), "root": Place("third")}, True),
                ({"part": Place("root")}, {"part": Place("part"), "root": Place("root")}, False),
                ({"part": part}, {"part": part, "root": Place("root")}, True),
                ({"part": part}, {"part": part._replace(root="third"), "root": Place("third")}, True),
                ({"part": part}, {"part": part._replace(root="third"), "root": Place("root")}, False),
                ({"part": part}, {"part": part._replace(first=5), "root": Place("root")}, False),
                ({"part": part}, {"part": part._replace(strides=(2,)), "root": Place("root")}, False),
                ({"part": part}, {"part": part._replace(root_strides=(1, 3)), "root": Place("root")}, False),
                ({"part": part}, {"part": Place("third", (9,), (1,), 14), "root": Place("third", (9,), (3, 1), 10)},
                 True),
                ({"part": part._replace(first=4000)},
                 {"part": Place("third", (9,), (1,), 5000), "root": Place("third", (9,), (3, 1), 1000)}, True),
                ({"part": part}, {"part": Place("third", (9,), (1,), 15), "root": Place("third", (9,), (3, 1), 10)},
                 False),
                ({"part": part}, {"part": Place("third", (9,), (1,), 6), "root": Place("third", (9,), (3, 1), 10)},
                 False),
                ({"part": part}, {"part": Place("fourth", (9,), (1,), 14), "root": Place("third", (9,), (3, 1), 10)},
                 False),
                ({"part": part}, {"part": Place("third", (9,), (2,), 14), "root": Place("third", (9,), (3, 1), 10)},
                 False),
                ({"part": part}, {"part": Place("third", (9,), (1,), 14), "root": Place("third", (9,), (1, 3), 10)},
                 False)):
            mine = {"root": Place("root"), **mine}
            theirs = {name: place._replace(root=f"{place.root} "[:-1]) for name, place in theirs.items()}
            if fits:
                sharing.check_same(mine, {"root": Place("root"), "part": Place("part"), **theirs})
                continue
            with self.assertRaisesRegex(ValueError, "^part and root share memory in this model, but not in the one"):
                sharing.check_same(mine, {"root": Place("root"), "part": Place("part"), **theirs})


if __name__ == "__main__":
    unittest.main()
