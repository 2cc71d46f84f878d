# SPDX-License-Identifier: MIT
"""Buffers of ranks that are threads: what they become together, what is sent and said, and what they go back to."""
import math
import unittest

import torch

import threelc
from fake_dist import Network
from faults import prepared
from threelc._errors import Status
from threelc.torch._common.buffers import Buffers, BuffersOfOne
from threelc.torch._common.module import Model
from threelc.torch._common.transport import Transport


def model_of(**buffers):
    module = torch.nn.Linear(1, 1)
    for name, value in buffers.items():
        module.register_buffer(name, value if torch.is_tensor(value) else torch.tensor(value))
    return Model(module, "the test")


def bits(tensor):
    return tensor.dtype, tuple(tensor.shape), tensor.contiguous().view(-1).view(torch.uint8).tolist()


class Threads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        prepared()

    def ends(self, world, function):
        """How function(transport, rank) ended on each rank: all alike."""
        found = Network(world).run(lambda rank: function(Transport(), rank))
        self.assertEqual(len({how for how, _ in found}), 1, found)
        return [ended for _, ended in found]

    def merged(self, buffers, weights, step=3):
        """What merge() finds. buffers: of each rank."""
        def merge(transport, rank):
            one = Buffers(model_of(**buffers[rank]), True)
            return one.merge(transport, one.now(), weights[rank], step)
        return self.ends(len(buffers), merge)


class Merging(Threads):
    def test_means(self):
        """Of floats and complex values, by the weights of ranks in the round, in the dtype of the buffer; values that
        all have alike keep their bits."""
        nan, inf = math.nan, math.inf
        for dtype in torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.complex128:
            buffers = [{"b": torch.tensor([inf, nan, -0.0, 1.0, 4.0 * rank], dtype=dtype), "same": [nan]}
                       for rank in (3, 1, 2)]
            for weights, mean in (((1.0, 1.0, 2.0), 8), ((0.5, None, 0.5), 10), ((None, None, 3.0), 8),
                                  ((None, 1.0, 3.0), 7)):
                found = self.merged(buffers, weights)
                self.assertEqual([list(each) for each in found], 3 * [["b"]])
                for each in found:
                    self.assertEqual(bits(each["b"]), bits(torch.tensor([inf, nan, -0.0, 1.0, mean], dtype=dtype)))
        wide = [{"b": torch.tensor([1.0 + rank * 2.0**-40], dtype=torch.float64)} for rank in range(2)]
        self.assertEqual(self.merged(wide, (1.0, 3.0))[1]["b"].tolist(), [1 + 3 * 2.0**-42])

    def test_others(self):
        """Integers and booleans are those of the first rank in the round; what all have alike is left out, and so are
        buffers without values."""
        buffers = [{"z": [rank, 7], "flag": rank > 0, "a": [[2**60 + rank]], "same": [3], "none": torch.ones(0, rank),
                    "narrow": torch.tensor(rank, dtype=torch.uint8)} for rank in range(4)]
        for weights, first in (((1.0,) * 4, 0), ((None, None, 1.0, 2.0), 2), ((None, 0.5, None, None), 1)):
            for found in self.merged(buffers, weights):
                self.assertEqual({name: value.tolist() for name, value in found.items()},
                                 {"a": [2**60 + first], "flag": [first > 0], "narrow": [first], "z": [first, 7]})
                self.assertEqual({value.dtype for value in found.values()}, {torch.int64, torch.bool, torch.uint8})

    def test_who_sends_what(self):
        """A buffer goes to its owner, from ranks in the round alone, and what it becomes to all."""
        def merge(transport, rank):
            model = model_of(a=torch.full((10,), 1.0 + rank), b=torch.full((3,), rank), same=torch.ones(99))
            one = Buffers(model, True)
            one.merge(transport, one.now(), None if rank == 2 else 1.0, 1)
            return transport.sent

        heads, answers = 2 * (8 + 8 + 16 + 3 * 16), (2 * (4 + 40), 2 * (4 + 24), 0)
        for rank, sent in enumerate(self.ends(3, merge)):
            pieces = (24, 40, 0)[rank]  # rank 0 owns a, rank 1 owns b
            self.assertEqual(sent, heads + 16 + pieces + 16 + answers[rank], rank)

    def test_nothing_to_do(self):
        """Buffers that stay on their ranks, or that are alike."""
        def stay(transport, rank):
            one = Buffers(model_of(a=float(rank)), False)
            return one.start, one.now(), one.merge(transport, {"a": torch.ones(1)}, 1.0, 1), transport.sent
        self.assertEqual(self.ends(2, stay), 2 * [({}, {}, {}, 0)])
        self.assertEqual(self.merged([{"a": 1.0}, {"a": 1.0}], (1.0, 1.0)), [{}, {}])

    def test_not_finite(self):
        """A StepError on all ranks names the first such rank and the buffer."""
        for values, weights, rank in (((0.0, math.inf, math.nan), (1.0,) * 3, 1), ((math.nan, 0, 1), (1.0,) * 3, 0),
                                      ((math.inf, 2.0, -math.inf), (None, 1.0, 1.0), 2)):
            for error in self.merged([{"a": 0.0, "b": [5.0, value]} for value in values], weights, 17):
                self.assertIsInstance(error, threelc.StepError)
                outcome = error.outcome
                self.assertEqual(str(error), f'rank {rank}: NaN or infinity in buffer "b"')
                self.assertEqual((outcome.status, outcome.cause, outcome.step, outcome.rank, outcome.sentence),
                                 (Status.STEP, Status.NONFINITE, 17, rank, str(error)))
                self.assertEqual((outcome.tensor, outcome.taken, outcome.unknown, outcome.missing), (None, None, 0, 0))

    def test_other_buffers(self):
        """All ranks say which buffer is another one, on which rank, and what helps."""
        advice = ". average_buffers=False leaves buffers to each rank"
        alike = "all ranks need the same buffers at the end of a round: "
        for buffers, words in (
                (({"a": 1.0, "c": 0.0}, {"a": 1.0, "c": 0.0}, {"a": 1.0}),
                 alike + "c is missing on rank 2 and of shape [], torch.float32 on rank 0"),
                (({"c": 0.0}, {"b": [1], "c": 0.0}, {"c": 0.0}),
                 alike + "b is of shape [1], torch.int64 on rank 1 and missing on rank 0"),
                (({"c": [0.0]}, {"c": [[0.0]]}, {"c": [0.0]}),
                 alike + "c is of shape [1, 1], torch.float32 on rank 1 and of shape [1], torch.float32 on rank 0"),
                (({"c": [0.0]}, {"c": [0.0]}, {"c": torch.zeros(1).half()}),
                 alike + "c is of shape [1], torch.float16 on rank 2 and of shape [1], torch.float32 on rank 0")):
            for error in self.merged(buffers, (1.0, 1.0, None)):
                self.assertEqual((type(error), str(error)), (ValueError, words + advice))

    def test_problems(self):
        """A rank on which a buffer became another one, or cannot be carried."""
        start = torch.zeros(2, 3)

        def merge(transport, rank, now):
            model = model_of(a=start.clone(), b=1.0)
            one = Buffers(model, True)
            if rank == 1:
                now(model.module)
            return one.merge(transport, one.now(), 1.0, 1)

        gone = "buffer a of shape [2, 3], torch.float32, is another one now, or gone"
        for now, words in ((lambda m: delattr(m, "a"), gone), (lambda m: setattr(m, "a", torch.zeros(3, 2)), gone),
                           (lambda m: setattr(m, "a", torch.zeros(2, 3).double()), gone),
                           (lambda m: setattr(m, "a", torch.zeros(1, 3).expand(2, 3)),
                            "buffer a is expanded, several of its values are one in memory: give it memory of its own, "
                            "as with .contiguous()")):
            for error in self.ends(2, lambda transport, rank, now=now: merge(transport, rank, now)):
                self.assertEqual((type(error), str(error)), (
                    ValueError, f"rank 1: {words}: average_buffers=False leaves buffers to each rank"))


class Rounds(unittest.TestCase):
    def test_end(self):
        """Buffers become what was found; with a mix those with a mean keep some of what they are by now. What was
        alike stays as it goes on here, and a round that fails goes back to what it was."""
        model = model_of(mean=[4.0], count=[4], same=[4.0])
        module, one = model.module, Buffers(model, True)
        then = {name: buffer.clone() for name, buffer in one.now().items()}
        for buffer in one.now().values():
            buffer += 6
        module.register_buffer("new", torch.tensor([7.0]))
        one.end_round(then, {"mean": torch.tensor([1.0]), "count": torch.tensor([2])}, 0.25)
        self.assertEqual([module.mean.item(), module.count.item(), module.same.item()],
                         [0.25 * 10 + 0.75 * 1, 2, 10])
        self.assertEqual({name: value.item() for name, value in one.start.items()}, {"mean": 1, "count": 2, "same": 4})
        one.go_back()
        self.assertEqual([buffer.item() for buffer in (module.mean, module.count, module.same, module.new)],
                         [1, 2, 4, 7])
        one.end_round(one.now(), {"mean": torch.tensor([8.5])})
        self.assertEqual((module.mean.item(), one.start["new"].item()), (8.5, 7))
        module.new += 1
        one.go_back()
        self.assertEqual(module.new.item(), 7)

    def test_states(self):
        """A state lacks what came later; another shape or dtype is refused, and nothing has changed."""
        def made():
            model = model_of(a=[1.0, 2.0], b=3)
            return model, Buffers(model, True)

        model, one = made()
        saved = {name: buffer + 4 for name, buffer in one.start.items()}
        for wrong, shape in (({"b": saved["b"]}, "a of shape [2], torch.float32"),
                             ({**saved, "a": torch.ones(3)}, "a of shape [2], torch.float32"),
                             ({**saved, "b": torch.tensor(1.0)}, "b of shape [], torch.int64"),
                             ({}, "a of shape [2], torch.float32")):
            with self.assertRaises(ValueError) as caught:
                one.check(wrong)
            self.assertEqual(str(caught.exception), f"buffer {shape}, is not in the state")
        model.module.register_buffer("late", torch.tensor([9.0]))
        one.end_round(one.now(), {})
        late = {**saved, "late": torch.tensor([5.0])}
        for state in (saved, late):
            one.check(state)
        with self.assertRaisesRegex(ValueError, r"^buffer late of shape \[1\], torch.float32, is not in the state$"):
            one.check({**saved, "late": torch.ones(2)})
        one.load(late)
        self.assertEqual({name: value.tolist() for name, value in one.start.items()},
                         {"a": [5, 6], "b": 7, "late": [5]})
        one.load(saved)
        self.assertEqual(list(one.start), ["a", "b"])
        one.end_round(one.now(), {})
        one.check(saved)  # it came anew
        self.assertEqual(one.start["late"].tolist(), [9])


class OfOneRank(Threads):
    def test_what_follows_a_message(self):
        """What precedes the buffers stays as it is, and they become those of the other rank, whatever they hold."""
        values = {"z": torch.tensor([[math.nan, -0.0], [1.0, math.inf]]).t(), "none": torch.ones(0, 3), "flag": True,
                  "count": 2**62 + 1, "wave": torch.tensor([1 + 2j]), "brief": torch.ones(3).bfloat16()}
        source = BuffersOfOne(model_of(**values))
        model = model_of(**{name: torch.zeros_like(torch.as_tensor(value)) for name, value in values.items()})
        for before in (b"", b"x", bytes(range(40))):
            message = torch.frombuffer(bytearray(before + source.message()), dtype=torch.uint8)
            for buffer in model.buffers().values():
                buffer.zero_()
            self.assertEqual(bytes(BuffersOfOne(model).take(message).tolist()), before)
            for name, buffer in model.buffers().items():
                self.assertEqual(bits(buffer), bits(torch.as_tensor(values[name])), name)
        self.assertEqual(bytes(BuffersOfOne(model_of()).take(torch.frombuffer(bytearray(
            b"ab" + BuffersOfOne(model_of()).message()), dtype=torch.uint8)).tolist()), b"ab")

    def test_others(self):
        """Other names, shapes and dtypes, and messages that are too short, change nothing."""
        source = BuffersOfOne(model_of(a=[1.0, 2.0], b=3))
        message = torch.frombuffer(bytearray(b"before" + source.message()), dtype=torch.uint8)
        damaged = message.clone()
        damaged[7] ^= 1
        for other, given in (({"a": [0.0, 0.0], "c": 0}, message), ({"a": [[0.0, 0.0]], "b": 0}, message),
                             ({"a": [0, 0], "b": 0}, message), ({"a": [0.0, 0.0]}, message), ({}, message),
                             ({"a": [0.0, 0.0], "b": 0}, damaged), ({"a": [0.0, 0.0], "b": 0}, message[:-1]),
                             ({"a": [0.0, 0.0], "b": 0}, message[-31:]), ({"a": [0.0, 0.0], "b": 0}, message[:9])):
            model = model_of(**other)
            with self.assertRaises(ValueError) as caught:
                BuffersOfOne(model).take(given)
            self.assertEqual(str(caught.exception),
                             "all ranks need the same buffers, and those of this rank have other names, shapes or "
                             'dtypes than those of rank 0. buffers="own" leaves buffers to each rank')
            self.assertFalse(any(buffer.any() for buffer in model.buffers().values()))


if __name__ == "__main__":
    unittest.main()
