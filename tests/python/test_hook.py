# SPDX-License-Identifier: MIT
"""Parts of the communication hook, each by itself: buckets under way, their thread, counts and the verdict on floats,
places of parameters, copies; and what register() looks at first."""
import math
import threading
import unittest
from types import SimpleNamespace
from unittest import mock

import torch
from torch.nn.parallel import DistributedDataParallel

import threelc
import threelc.torch
from cluster import attempt
from fake_dist import Network
from faults import prepared
from outer_models import Linear, Scaler
from threelc.torch import ddp
from threelc.torch._common.groups import Clock
from threelc.torch._hook import arrival
from threelc.torch._hook.arrival import Arrival
from threelc.torch._hook.arrival_jobs import ArrivalJobs
from threelc.torch._hook.copies import CopiedState
from threelc.torch._hook.counts import Counts, Step
from threelc.torch._hook.places import Places
from threelc.torch._hook.settings import Settings

PARTS = [("a", 0, 4), ("b", 4, 6)]


def values(*numbers, dtype=torch.float32):
    return torch.tensor(numbers, dtype=dtype)


def sparse(*numbers, dtype=torch.float32):
    return torch.sparse_coo_tensor([list(range(len(numbers)))], torch.tensor(numbers, dtype=dtype), (9,))


def arrived(buffer, parts=None):
    one = Arrival(buffer)
    if parts is None:
        one.as_floats(["a", "b"])
    else:
        one.parts = parts
    return one


def elsewhere(buffer, waits=lambda: None):
    """As for a buffer on a GPU: results lie on the host until the bucket is done. waits: until gradients are there."""
    with mock.patch.object(arrival, "queued", lambda device: waits):
        one = arrived(buffer, None if buffer.is_sparse else PARTS)
    one._host, one._copied = None, False
    return one


class Sums:
    """A transport of ranks that all have the same."""

    world = 3

    def all_reduce(self, tensor):
        tensor.mul_(self.world)
        return 77


class Arrivals(unittest.TestCase):
    def test_it_is_done_with_its_last_part(self):
        for steps in (1, 1), (2,):
            buffer = torch.arange(10.0)
            one = arrived(buffer, PARTS)
            for parts in steps:
                self.assertFalse(one.future.done())
                one.finish(parts)
            self.assertIs(one.future.value(), buffer)
            one.finish(1)
            one.give_up()
            self.assertEqual(buffer.tolist(), list(range(10)))

    def test_whole(self):
        one = arrived(torch.ones(7))
        self.assertEqual((one.parts, one.whole), ([("a, b", 0, 7)], True))
        one.finish(1)
        self.assertTrue(one.future.done())
        self.assertFalse(arrived(torch.ones(10), PARTS).whole)

    def test_results(self):
        """Where they go in the buffer."""
        for place, found in (((2, 3), [0, 0, 1, 1, 1, 0]), ((0, 2), [1, 1, 0, 0, 0, 0]), ((4,), [0, 0, 0, 0, 1, 1]),
                             ((), [1] * 6)):
            buffer = torch.zeros(6)
            arrived(buffer, []).results(*place).fill_(1)
            self.assertEqual(buffer.tolist(), found)

    def test_spoiled(self):
        """NaN where a part failed, and nowhere else; an exception if not even that works."""
        buffer = torch.zeros(6)
        one = arrived(buffer, PARTS)
        one.spoil(2, 3)
        self.assertEqual(buffer.isnan().tolist(), [False, False, True, True, True, False])
        one.spoil()
        self.assertTrue(buffer.isnan().all())
        one = arrived(torch.zeros(6, dtype=torch.int64), PARTS)
        one.spoil()
        one.finish(2)
        with self.assertRaisesRegex(RuntimeError, "cannot be converted"):
            one.future.wait()

    def test_given_up(self):
        buffer = torch.zeros(10)
        one = arrived(buffer, PARTS)
        one.finish(1)
        one.give_up()
        self.assertTrue(one.future.value() is buffer and buffer.isnan().all())

    def test_average(self):
        """As DistributedDataParallel computes it, to the bit: it multiplies dense ones by 1 / ranks."""
        for tensor, mean in ((values(0.7, 5.0), values(0.7, 5.0).mul(1 / 3)), (sparse(0.7, 5.0), sparse(0.7, 5.0) / 3)):
            for one in arrived(tensor.clone()), elsewhere(tensor.clone()):
                self.assertEqual(one.average(Sums()), 77)
                one.finish(len(one.parts))
                found = one.future.value().to_dense() if tensor.is_sparse else one.future.value()
                self.assertEqual(found.tolist(), (3 * (mean.to_dense() if tensor.is_sparse else mean)).tolist())

    def test_nonfinite(self):
        """The first parameter that has a NaN or an infinity. A sum may be infinite by itself."""
        for at, name in ((0, "a"), (3, "a"), (4, "b"), (9, "b")):
            for bad in math.nan, math.inf, -math.inf:
                buffer = torch.ones(10)
                buffer[at] = bad
                self.assertEqual(arrived(buffer, PARTS).nonfinite(), name)
        buffer = torch.ones(10)
        buffer[2] = buffer[6] = math.nan
        self.assertEqual(arrived(buffer, PARTS).nonfinite(), "a")
        for fine in (torch.ones(10), torch.full((10,), 3e38), torch.ones(0)):
            self.assertIsNone(arrived(fine, PARTS).nonfinite())
        for dtype in torch.float32, torch.complex64:
            self.assertEqual(arrived(sparse(1.0, math.nan, dtype=dtype)).nonfinite(), "a, b")
            self.assertIsNone(arrived(sparse(3e38, 3e38, dtype=dtype)).nonfinite())

    def test_from_another_device(self):
        """Gradients are waited for before they are copied, once, and before results are; only these come back."""
        waited = []
        buffer = torch.arange(10.0)
        one = elsewhere(buffer, lambda: waited.append(1))
        one.results(4, 6)
        self.assertEqual(waited, [])
        self.assertEqual(one.host().tolist(), list(range(10)))
        buffer[0] = 50
        self.assertEqual(one.host().tolist(), list(range(10)))
        self.assertEqual(waited, [1])
        one.results(0, 2).fill_(3)
        self.assertEqual(buffer.tolist(), [50, *range(1, 10)])
        buffer[4:] = 0
        one.finish(2)
        self.assertEqual(one.future.value().tolist(), [3, 3, 2, 3, 4, 5, 6, 7, 8, 9])
        self.assertIs(one.gradients(), buffer)
        self.assertEqual(waited, [1, 1, 1])

    def test_from_another_device_sparse(self):
        buffer = sparse(1.0, 2.0)
        one = elsewhere(buffer)
        self.assertEqual(one.host().to_dense()[:3].tolist(), [1, 2, 0])
        one.results().fill_(5)
        one.finish(1)
        self.assertEqual(one.future.value().to_dense()[:3].tolist(), [5, 5, 0])

    def test_results_that_do_not_come_to_the_device(self):
        """The first exception is the one that counts."""
        for spoiled in False, True:
            one = elsewhere(torch.zeros(10))
            if spoiled:
                with mock.patch.object(one, "results", side_effect=MemoryError("no room")):
                    one.spoil()
            one.host()
            one.results()
            one._host = torch.zeros(3)
            one.finish(2)
            with self.assertRaisesRegex(*(MemoryError, "no room") if spoiled else (RuntimeError, "size")):
                one.future.value()


class Closes:
    """A transport that counts how often it is closed."""

    closed = 0

    def abort(self):
        self.closed += 1


class Thread(unittest.TestCase):
    def setUp(self):
        self.transport = Closes()
        self.jobs = ArrivalJobs(self.transport)

    def bucket(self):
        one = self.jobs.arrived(torch.zeros(10))
        one.parts = PARTS
        return one

    def test_a_job_that_fails(self):
        """It tells, all buckets that were begun end with NaN, and the thread goes on."""
        for error in ZeroDivisionError(), KeyboardInterrupt():
            first, second, found = self.bucket(), self.bucket(), []
            self.jobs.guard(mock.Mock(side_effect=error), found.append)
            for one in first, second:
                self.assertTrue(one.future.wait().isnan().all())
            self.assertEqual((found, self.transport.closed), ([error], 0))
        done = threading.Event()
        self.jobs.guard(done.set, found.append)
        self.assertTrue(done.wait(20))
        self.assertEqual(len(found), 1)

    def test_what_tells_fails(self):
        one = self.bucket()
        self.jobs.guard(mock.Mock(side_effect=ZeroDivisionError), mock.Mock(side_effect=OSError("it cannot")))
        self.assertTrue(one.future.wait().isnan().all())
        for count in 1, 2:
            with self.assertRaisesRegex(OSError, "it cannot"):
                while True:  # until the thread has noted it
                    self.jobs.guard(lambda: None, print)
            self.assertEqual(self.transport.closed, count)

    def test_the_end_of_the_thread(self):
        """No bucket waits for it, and connections are closed."""
        one = self.bucket()
        self.jobs._queue.put(None)
        self.assertTrue(one.future.wait().isnan().all())
        self.jobs._thread.join()
        with self.assertRaisesRegex(RuntimeError, "^the thread threelc-ddp has ended: after os.fork"):
            self.jobs.guard(lambda: None, print)
        self.assertEqual(self.transport.closed, 1)

    def test_what_is_done_is_forgotten(self):
        first, second, third = self.bucket(), self.bucket(), self.bucket()
        for one in first, third:
            one.finish(2)
        self.jobs.forget()
        self.assertEqual(self.jobs._arrivals, [second])
        second.finish(2)
        self.assertEqual(self.jobs._arrivals, [self.bucket()])


def clock(codec, wire):
    found = Clock()
    found.codec, found.wire = codec, wire
    return found


class Counting(unittest.TestCase):
    def steps(self, seconds, floats=(0.02, 0.03), before=0.0):
        """The verdicts of steps that take so long, a quarter of it in the codec, after those of floats. before: seconds
        in the codec, of a state."""
        counts, codec, wire, found = Counts(spent=before, in_codec=before), before, 0.0, []
        for number, each in enumerate([*floats, *seconds]):
            share = 0.25 if number >= len(floats) else 0.0
            codec, wire = codec + share * each, wire + (1 - share) * each
            found.append(counts.end_step(Step(floats=number < len(floats)), clock(codec, wire), True, "3lc"))
        self.assertEqual((counts.steps, counts.float_steps), (len(floats) + len(seconds), len(floats)))
        return found

    def test_verdict(self):
        """After ten steps, once: the medians of these, and the fastest of floats."""
        slow = [0.03125] * 4 + [9.0] * 4 + [0.0625] * 3
        found = self.steps(slow)
        self.assertEqual([i for i, verdict in enumerate(found) if verdict], [11])
        self.assertEqual(found[11], "threelc: the exchange of a step takes 62.5 ms, 15.6 ms of them in the codec "
                                    "3lc, and took 20.0 ms as floats: this link is fast enough for floats")
        self.assertEqual(self.steps(slow, before=1000.0), found)
        self.assertEqual(self.steps([0.01] * 20), [None] * 22)
        self.assertEqual(self.steps([0.5] * 20, [0.5]), [None] * 21)
        self.assertEqual(self.steps([0.5] * 20, []), [None] * 20)

    def test_steps_that_failed(self):
        """They are skipped, and what other buckets sent in them is dropped. Their time is no measure."""
        counts = Counts()
        for taken, failure in ((5, threelc.StepError(10, "x")), (7, None), (100, threelc.StepError(10, "x"))):
            counts.end_step(Step(taken=taken, failure=failure), clock(0, 0), True, "3lc")
        self.assertEqual((counts.steps, counts.skipped, counts.dropped, len(counts.step_seconds)), (3, 2, 105, 3))
        counts.end_step(Step(failure=threelc.StepError(10, "x")), clock(0, 0), False, "3lc")
        self.assertEqual((counts.steps, counts.dropped, len(counts.step_seconds)), (4, 105, 3))

    def test_states(self):
        """Steps are those of the first rank's state, what was sent is each rank's; the rest of other ranks' goes to
        rank 0. Time that was spent before is not that of the next step."""
        told = SimpleNamespace(sent=0, received=0)
        self.assertEqual(set(Counts().saved(told, Clock(), 0).values()), {0})
        first = Counts(steps=9, float_steps=2, skipped=3, dropped=40, float_bytes=1000)
        told = SimpleNamespace(sent=70, received=80)
        saved = first.saved(told, clock(0.5, 0.25), 1.5)
        self.assertEqual(saved, {"steps": 9, "float_steps": 2, "skipped": 3, "dropped": 40, "float_bytes": 1000,
                                 "sent": 70, "received": 80, "codec_seconds": 0.5, "wire_seconds": 0.25,
                                 "thread_seconds": 1.5})
        one, now, then = Counts(), clock(0, 0), SimpleNamespace(rank=0, world=1, sent=0, received=0)
        state = {"rank": 0, "world": 1, "counts": saved}
        self.assertEqual(one.load([state], then, now), 1.5)
        self.assertEqual((one.steps, one.float_steps, one.skipped, one.dropped, one.float_bytes, one.spent,
                          one.in_codec), (9, 2, 3, 40, 1000, 0.75, 0.5))
        self.assertEqual((then.sent, then.received, now.codec, now.wire), (70, 80, 0.5, 0.25))
        one.end_step(Step(floats=True), clock(0.75, 0.75), True, "3lc")
        self.assertEqual(one.float_seconds, 0.75)
        other = Counts()
        for states in [{}], [{**state, "counts": None}], [state, {}]:
            self.assertIsNone(other.load(states, then, now))
        self.assertEqual(other, Counts())


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(20, 30))
        self.small = torch.nn.Parameter(torch.zeros(4).half())
        self.frozen = torch.nn.Parameter(torch.zeros(5), requires_grad=False)


def group(*names, sizes=None, dtype=0):
    return {"names": list(names), "sizes": sizes or [{"weight": 600, "small": 4}.get(name, 5) for name in names],
            "dtype": dtype}


class Parameters(unittest.TestCase):
    def setUp(self):
        self.module = Module()
        self.places = Places(self.module)

    def refused(self, words, *groups, lost=False, others=None):
        states = [{"groups": list(groups)}, {"groups": list(groups) if others is None else others}]
        with self.assertRaises(ValueError) as caught:
            self.places.check(states, lost)
        self.assertEqual(str(caught.exception), words)

    def test_names(self):
        self.assertEqual(self.places.name_of(self.module.small), "small")
        with self.assertRaises(ValueError) as caught:
            self.places.name_of(torch.nn.Parameter(torch.zeros(7, 2)))
        self.assertEqual(str(caught.exception), "a gradient of shape [7, 2] is of a parameter that the module did not "
                         "have when register() was called: register a new DistributedDataParallel module")
        self.assertEqual(self.places.device_of("weight"), torch.device("cpu"))

    def test_gradients(self):
        """Of the shape and dtype of the parameter, in memory of their own. None where there is no value."""
        flat = torch.arange(600.0)
        self.module.small.grad = torch.ones(4).half()
        self.places.set_gradients({"weight": flat})
        self.assertEqual(self.module.weight.grad.tolist(), flat.view(20, 30).tolist())
        self.assertIsNone(self.module.small.grad)
        flat[0] = 9
        self.assertEqual(float(self.module.weight.grad[0, 0]), 0)
        self.places.set_gradients({"small": torch.arange(4.0)})
        self.assertEqual((self.module.small.grad.dtype, self.module.weight.grad), (torch.float16, None))

    def test_members(self):
        """Those that are trained here, also under the names of torch.compile()."""
        saved = group("_orig_mod.weight", "frozen", "gone", "small", sizes=[600, 5, 3, 4])
        self.assertEqual(self.places.members(saved), [("weight", "_orig_mod.weight", 600), ("small", "small", 4)])

    def test_states(self):
        self.places.check([{"groups": [group("weight"), group("small", dtype=1)]}] * 2, False)
        self.places.check([{"groups": [group("weight", "gone", "frozen")]}], True)
        self.refused("the states do not belong together: parameters travel in other groups in some of them",
                     group("weight"), others=[group("small")])
        self.refused("the state has a parameter twice", group("weight"), group("_orig_mod.weight"))
        self.refused("weight has 600 values, in the state it has 700", group("small", dtype=1),
                     group("weight", sizes=[700]))
        for dtype, there in ((1, "torch.float16"), (2, "torch.bfloat16"), (77, "others")):
            self.refused(f"weight is of torch.float32 here, and the state is of gradients of {there}: give the module "
                         "the dtype that it had, before it is wrapped", group("weight", dtype=dtype))
        self.refused("small is of torch.float16 here, and the state is of gradients of torch.float32: give the module "
                     "the dtype that it had, before it is wrapped", group("weight", "small"))
        for name, why in (("gone", "that no parameter has here"),
                          ("frozen", "whose parameters are frozen here, so that no gradients will come")):
            with self.assertRaisesRegex(ValueError, f"{name}.*{why}|{why}.*{name}"):
                self.places.check([{"groups": [group("weight", name)]}], False)


class Copies(unittest.TestCase):
    def test_it_says_what_to_do(self):
        one = CopiedState()
        for name in "stats", "_bucket_arrived":
            with self.assertRaises(RuntimeError) as caught:
                getattr(one, name)
            self.assertEqual(str(caught.exception), "this is a copy of what register() returned, and exchanges "
                             "nothing: call register() for the copied module, and load_state_dict() with the "
                             "state_dict() of the first")
        self.assertFalse(hasattr(one, "__array__"))


class Reserved(unittest.TestCase):
    def test_codecs(self):
        """Each once, each with that of its means."""
        def reserved(*codecs):
            return Settings("3lc", None, codecs, "sharded", 256, 1, "skip", None, None, 0).all_reserved()

        pull = threelc.exchange.pull_codec
        self.assertEqual(reserved(), ())
        self.assertEqual(reserved("topk:p=0.01", "raw", "topk:p=0.01"), ("topk:p=0.01", pull("topk:p=0.01"), "raw"))


class Ranks:
    """A process group: the ranks that it has, in its order."""

    def __init__(self, *ranks):
        self.ranks = ranks


class Registered(unittest.TestCase):
    """What register() looks at before it sends anything."""

    @classmethod
    def setUpClass(cls):
        prepared()

    def test_groups(self):
        """Of the same ranks as the module's, and not the same group. Rank 1 asks; the world has three ranks."""
        world = Ranks(0, 1, 2)
        fake = SimpleNamespace(
            ProcessGroup=Ranks, get_world_size=lambda group=world: len(group.ranks),
            get_rank=lambda group: group.ranks.index(1) if 1 in group.ranks else -1,
            get_global_rank=lambda group, rank: group.ranks[rank])
        with mock.patch.object(ddp, "dist", fake):
            for group, of_module in ((None, world), (Ranks(0, 1, 2), world), (Ranks(1, 2), Ranks(1, 2)),
                                     (Ranks(0, 2), world), ("text", world)):  # Transport refuses the last two
                ddp._check_group(group, of_module)
            for group, of_module, words in (
                    (None, Ranks(1, 2), "the module's process group is a part of the world: give a process_group of "
                                        "its ranks"),
                    (world, world, "process_group is the one that the module uses itself: make another one for the "
                                   'messages with torch.distributed.new_group(backend="gloo")'),
                    (Ranks(0, 1), world, "process_group has the ranks [0, 1], and the module's has [0, 1, 2]: both "
                                         "need the same ranks"),
                    (Ranks(1, 0), Ranks(0, 1), "process_group has the ranks [1, 0], and the module's has [0, 1]: both "
                                               "need the same ranks")):
                self.assertEqual(attempt(ddp._check_group, group, of_module)[:2], ("ValueError", words))

    def test_modules(self):
        def check(**attributes):
            model = DistributedDataParallel(Linear())
            model.__dict__.update(attributes)
            return attempt(ddp._check_module, model)[:2]

        self.assertEqual(check(), ("", ""))
        self.assertEqual(check(_delay_all_reduce_all_params=False, mixed_precision=None), ("", ""))
        self.assertEqual(check(_delay_all_reduce_all_params=True), (
            "ValueError", "all parameters are in delay_all_reduce_named_params, so none comes to a hook: leave it out"))
        self.assertRegex(check(mixed_precision=3)[1], "^mixed_precision of DistributedDataParallel takes the place")

    def test_arguments(self):
        def run(rank):
            model = DistributedDataParallel(Linear())
            said = [attempt(lambda settings=settings: threelc.torch.register(model, **settings))[:2] for settings in (
                {"second_moment": 0.9, "scaler": Scaler(1.0)}, {"compare_every": -1}, {"warmup_steps": -1})]
            model.module.bias.requires_grad = rank == 0
            return said, attempt(threelc.torch.register, model)[:2]

        for how, (said, differ) in Network(2).run(run):
            self.assertEqual(said[0], ("ValueError", "second_moment goes without a GradScaler: what ranks then send "
                                                     "has no loss scale"))
            self.assertEqual([words for _, words in said[1:]], ["compare_every should be at least 0, not -1",
                                                                "warmup_steps should be at least 0, not -1"])
            self.assertEqual(differ, ("ValueError", "all ranks need the same settings: parameter bias is None on "
                                                    "rank 1 and 'of shape [7], torch.float32' on rank 0"))


if __name__ == "__main__":
    unittest.main()
