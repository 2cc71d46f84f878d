# SPDX-License-Identifier: MIT
"""Steps of PushPull and ShardedOptimizer, whose ranks are threads here: what they count, compare, clip, keep and say,
and, with backup workers, who waits for whom and what of each message counts."""
import math
import threading
import time
import unittest
import warnings
from datetime import timedelta
from types import SimpleNamespace
from unittest import mock

import torch

import threelc
import threelc.torch
from fake_dist import Network
from faults import prepared
from threelc.torch._common import transport
from threelc.torch._owners import backup

SIZES = (300, 7)  # of the parameters: one has the codec, the other goes as floats


class Two(torch.nn.Module):
    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.large, self.small = (torch.nn.Parameter(torch.ones(n, dtype=dtype)) for n in SIZES)
        self.register_buffer("seen", torch.zeros(3))

    def lose(self, large, small=0.0):
        """The gradients of a step."""
        for parameter, value in zip(self.parameters(), (large, small)):
            parameter.grad = torch.full_like(parameter, value)


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.5)


def push_pull(model, **settings):
    return threelc.torch.PushPull(model, sgd, **{"codec": "raw", **settings})


def sharded(model, **settings):
    return threelc.torch.ShardedOptimizer(model, sgd, **{"codec": "raw", **settings})


class Threads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        prepared()

    def each(self, world, function):
        """What function(rank) returns on each rank."""
        found = Network(world).run(function)
        for how, ended in found:
            self.assertEqual(how, "returned", ended)
        return [ended for _, ended in found]

    def raises(self, kind, words, function, *arguments, **settings):
        with self.assertRaises(kind) as caught:
            function(*arguments, **settings)
        self.assertEqual(str(caught.exception), words)


class Steps(Threads):
    def test_counts(self):
        """Floats of all steps; a step in which no gradient was finite changes nothing, counts as failed, and is
        raised once."""
        def train(rank, make, **settings):
            model = Two()
            optimizer = make(model, **settings)
            raised = []
            for step in range(4):
                if step == 2:
                    model.lose(math.nan, math.inf)
                else:
                    model.lose(1.0 + rank, 2.0)
                try:
                    optimizer.step()
                except threelc.StepError:
                    raised.append(step)
            try:
                optimizer.state_dict()
            except threelc.StepError:
                raised.append("state")
            stats = optimizer.stats
            weights = [float(p.detach()[3]) for p in model.parameters()]
            return raised, stats.steps, stats.failed, stats.float_bytes, weights

        for make, settings in ((push_pull, {}), (push_pull, {"servers": 2}), (sharded, {})):
            floats = 4 * sum(2 * 4 * n * 2 // 3 for n in SIZES)
            self.assertEqual(self.each(3, lambda rank: train(rank, make, **settings)),
                             3 * [([2], 4, 1, floats, [1 - 3 * 0.5 * 2, 1 - 3 * 0.5 * 2])])

    def test_patience(self):
        """The third time in a row that a rank is left out it is warned, there alone, and once."""
        def train(rank):
            model = Two()
            optimizer = push_pull(model, codec="3lc")
            for step in range(9):
                model.lose(1.0)
                if rank == 1 and step not in (2, 8):
                    model.large.grad[5] = math.nan
                optimizer.step()
                model.zero_grad()

        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            self.each(2, train)
        self.assertEqual([(each.category, str(each.message)) for each in found], [
            (RuntimeWarning, "the gradients of this rank were left out 3 times in a row. The last time: worker 1: NaN "
                             'or infinity in the gradient of tensor "large"')])

    def test_comparing(self):
        """Weights are compared after every so many steps, at the beginning of the next one, and not with backup
        workers."""
        for settings, wanted in (({}, []), ({"compare_every": 3}, ["after step 3", "after step 6"]),
                                 ({"compare_every": 1}, [f"after step {i}" for i in range(1, 7)]),
                                 ({"compare_every": 0}, []), ({"compare_every": 3, "backup": 1}, [])):
            def train(rank, settings=settings):
                model, told = Two(), []
                optimizer = push_pull(model, **settings)
                optimizer._replicas.compare = lambda transport, when: told.append(when)
                for _ in range(7):
                    model.lose(1.0)
                    optimizer.step()
                optimizer.state_dict()
                return told
            self.assertEqual(self.each(2, train), 2 * [wanted], settings)

    def test_norms(self):
        """Of the mean of all gradients, before it is clipped, whoever owns them."""
        def train(rank, make, max_norm):
            model = Two()
            optimizer = make(model, max_norm=max_norm)
            found = [optimizer.grad_norm]
            for large, small in ((3.0, 4.0), (0.0, 0.0)):
                model.lose(large - rank, small)
                optimizer.step()
                found.append(optimizer.grad_norm)
            return found, optimizer.max_norm, [p.detach()[0].item() for p in model.parameters()]

        norms = [math.sqrt(300 * 2**2 + 7 * 4**2), math.sqrt(300)]
        for make in (push_pull, sharded):
            for max_norm, factors in ((None, (1, 1)), (math.inf, (1, 1)), (20, (20 / norms[0], 1)),
                                      (2.0, (2 / norms[0], 2 / norms[1]))):
                for found, limit, weights in self.each(3, lambda rank: train(rank, make, max_norm)):
                    self.assertEqual(found[0], None)
                    if max_norm is None:
                        self.assertEqual(found, [None] * 3)
                    else:
                        for here, norm in zip(found[1:], norms):
                            self.assertAlmostEqual(here, norm, places=9)
                    self.assertEqual((limit, type(limit)), (max_norm, type(max_norm and float(max_norm))))
                    for weight, one, other in zip(weights, (2, 4), (-1, 0)):
                        self.assertAlmostEqual(weight, 1 - 0.5 * (one * factors[0] + other * factors[1]), places=5)

    def test_what_others_write(self):
        """Where a bfloat16 parameter was written between steps, training goes on from what was written, and elsewhere
        from the float32 weights."""
        def train(rank, make, codec):
            model = Two(torch.bfloat16)
            optimizer = make(model, codec=codec, min_numel=1)
            for step in range(4):
                if step == 2:
                    with torch.no_grad():
                        model.large[:100] += 4
                        model.large[100:200] -= 4
                model.lose(2.0**-9)
                optimizer.step()
            state = optimizer.state_dict()["masters"]["large"]
            return [state[at].item() for at in (0, 150, 250)], [model.large[at].item() for at in (0, 150, 250)]

        for make in (push_pull, sharded):
            for codec in ("raw", "topk:p=1"):
                for masters, values in self.each(2, lambda rank: train(rank, make, codec)):
                    self.assertEqual(masters, [5 - 2 * 2.0**-10, -3 - 2 * 2.0**-10, 1 - 4 * 2.0**-10], codec)
                    self.assertEqual(values, [5, -3, 1 - 2.0**-8])

    def test_zero_grad(self):
        def train(rank):
            model = Two()
            optimizer = sharded(model)
            model.lose(1.0, 2.0)
            model.small.grad = None
            optimizer.zero_grad(set_to_none=False)
            found = [model.large.grad.abs().sum().item(), model.small.grad]
            optimizer.zero_grad()
            return found, model.large.grad

        self.assertEqual(self.each(1, train), [([0, None], None)])

    def test_states(self):
        """Where a run goes on, its counts do, and nothing has changed if it cannot."""
        def save(rank):
            model = Two(torch.bfloat16)
            optimizer = sharded(model, codec="3lc", min_numel=1)
            for step in range(3):
                model.lose(math.nan if step == 1 else 2.0**-10 * (rank + step))
                try:
                    optimizer.step()
                except threelc.StepError:
                    pass
            return optimizer.state_dict(), optimizer.stats

        found = self.each(2, save)
        states = [state for state, _ in found]

        def load(rank, own=True):
            """own: the state of this rank, not those of all."""
            optimizer = sharded(Two(torch.bfloat16), codec="3lc", min_numel=1)
            before = optimizer.state_dict()
            masters = {**states[rank]["masters"], "large": torch.zeros(299)}
            for wrong in (masters, {"small": masters["small"]}) if own else ():
                self.raises(ValueError, "the float32 weights of large are not in the state", optimizer.load_state_dict,
                            {**states[rank], "masters": wrong})
            after = optimizer.state_dict()
            self.assertEqual([after[key] for key in ("steps", "failed", "late")],
                             [before[key] for key in ("steps", "failed", "late")])
            optimizer.load_state_dict(states[rank] if own else states)
            return optimizer.state_dict(), optimizer.stats

        for (state, stats), (again, other) in zip(found, self.each(2, load)):
            self.assertEqual((other.steps, other.failed, other.float_bytes), (3, 1, stats.float_bytes))
            self.assertEqual((again["steps"], again["failed"]), (3, 1))
            for key in ("large", "small"):
                self.assertTrue(torch.equal(again["masters"][key], state["masters"][key]))
            self.assertEqual([part.tolist() for part in again["parts"]], [part.tolist() for part in state["parts"]])
        (more, stats), = self.each(1, lambda rank: load(rank, False))
        self.assertEqual((stats.steps, stats.failed), (3, 1))
        self.assertEqual(more["traffic"]["float_bytes"], sum(stats.float_bytes for _, stats in found))


class Settings(Threads):
    def test_what_is_refused(self):
        """Whole sentences."""
        needs = ("needs all ranks in each step, and with backup=1 servers go on without the slowest: leave out {} or "
                 "backup")
        norm = "max_norm should be a number above 0, or None, not {}"
        for make, settings, kind, words in (
                (push_pull, {"max_norm": 0}, ValueError, norm.format(0)),
                (push_pull, {"max_norm": True}, ValueError, norm.format(True)),
                (push_pull, {"max_norm": math.nan}, ValueError, norm.format("nan")),
                (push_pull, {"max_norm": "2"}, ValueError, norm.format("'2'")),
                (push_pull, {"max_norm": [2]}, ValueError, norm.format("a list")),
                (push_pull, {"max_norm": 1, "backup": 1}, ValueError, "max_norm " + needs.format("max_norm")),
                (push_pull, {"scaler": SimpleNamespace(get_scale=float), "backup": 1}, ValueError,
                 "scaler " + needs.format("scaler")),
                (push_pull, {"max_norm": 1, "second_moment": 0.9}, ValueError,
                 "max_norm is for means of gradients, and with second_moment ranks send what has another norm: clip "
                 "the gradients of each rank before step()"),
                (push_pull, {"servers": 0}, ValueError, "servers should be from 1 to 2, not 0"),
                (push_pull, {"servers": 3}, ValueError, "servers should be from 1 to 2, not 3"),
                (push_pull, {"backup": 2}, ValueError, "backup should be from 0 to 1, not 2"),
                (push_pull, {"warmup_steps": -1}, ValueError, "warmup_steps should be at least 0, not -1"),
                (push_pull, {"buffers": "one"}, ValueError,
                 "buffers should be one of own, first, not 'one': did you mean own?"),
                (sharded, {"bucket_mb": 0}, ValueError, "bucket_mb should be a number above 0, not 0"),
                (sharded, {"bucket_mb": True}, ValueError, "bucket_mb should be a number above 0, not True"),
                (sharded, {"bucket_mb": math.nan}, ValueError, "bucket_mb should be a number above 0, not nan"),
                (sharded, {"bucket_mb": "25"}, ValueError, "bucket_mb should be a number above 0, not '25'")):
            def refuse(rank, make=make, settings=settings, kind=kind, words=words):
                self.raises(kind, words, make, Two(), **settings)
            self.each(2, refuse)

    def test_what_may_be(self):
        """Limits, and settings that are changed between steps."""
        def make(rank):
            optimizer = push_pull(Two(), servers=2, backup=1)
            self.raises(ValueError, "max_norm needs all ranks in each step, and with backup=1 servers go on without "
                                    "the slowest: leave out max_norm or backup", setattr, optimizer, "max_norm", 2)
            optimizer.max_norm = None
            optimizer = sharded(Two(), max_norm=1e-30, overlap=True, bucket_mb=1e-6)
            optimizer.max_norm = 3
            self.raises(ValueError, "with overlap=True gradients are on their way before step() is called, so their "
                                    "weight is 1, not 1.5", optimizer.step, weight=1.5)
            self.raises(ValueError, "weight should be from 2^-50 to 2^50, not 0.0", optimizer.step, weight=0)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                threelc.torch.PushPull(Two(), lambda p: torch.optim.Adam(p, 0.1), codec="raw")
                threelc.torch.PushPull(Two(), lambda p: torch.optim.Adam(p, 0.1), second_moment=0.9)
            return optimizer.max_norm, optimizer.grad_norm, repr(optimizer)

        self.assertEqual(self.each(2, make), 2 * [(3.0, None, "<threelc.torch.ShardedOptimizer around SGD>")])

    def test_adam(self):
        """Rank 0 warns."""
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            self.each(3, lambda rank: threelc.torch.PushPull(Two(), lambda p: torch.optim.Adam(p, 0.1)) and None)
        self.assertEqual([(each.category, str(each.message)) for each in found], [
            (RuntimeWarning, "threelc: Adam divides by the root of a mean square, and of gradients in 3lc small values "
                             "come rarely, and are large then, so the training may lose much. With second_moment= "
                             "ranks divide before they compress, and little is lost")])


# ---- backup workers ----

class Paces:
    """Ranks tell what they have done, and wait for others."""

    def __init__(self):
        self._told = set()
        self._changed = threading.Condition()

    def tell(self, *what):
        with self._changed:
            self._told.add(what)
            self._changed.notify_all()

    def has(self, *what):
        return what in self._told

    def wait(self, *what):
        with self._changed:
            if not self._changed.wait_for(lambda: what in self._told, 10):
                raise TimeoutError(f"nobody told {what}")


class Race:
    """Steps of ranks. late: {(rank, step): the step that rank 0 ends before}. Servers take all other pushes."""

    def __init__(self, world, late, steps=6, **settings):
        self.world, self.steps, self.settings, self.paces = world, steps, {"backup": 1, **settings}, Paces()
        self.late = {(rank, step): until for (rank, first), until in late.items() for step in range(first, until + 1)}
        self.sent = []  # bytes of pushes to other ranks, and of answers

    def run(self, rank):
        """Weights after each step, and stats."""
        model = Two()
        optimizer = push_pull(model, **self.settings)
        self._watch(rank, optimizer._mail)
        found = []
        for step in range(1, self.steps + 1):
            if (rank, step) in self.late:
                self.paces.wait("ended", 0, self.late[rank, step])
            model.lose(1.0 + rank)
            optimizer.step()
            self.paces.tell("ended", rank, step)
            found.append(model.large[0].item())
        optimizer.state_dict()
        return found, optimizer.stats

    def _watch(self, rank, mail):
        push, deliver, answer = mail.push, mail.deliver, mail.answer
        step = [0]

        def pushed(messages):
            step[0] += 1
            came = push(messages)
            self.sent.append(("push", rank, sum(len(message) for i, message in enumerate(messages) if i != rank)))
            self.paces.tell("pushed", rank, step[0])
            return came

        def delivered(pushes, server):
            for other in range(self.world):
                if (other, step[0]) not in self.late:
                    self.paces.wait("pushed", other, step[0])
            deliver(pushes, server)

        def answered(message):
            self.sent.append(("answer", rank, (self.world - 1) * len(message)))
            return answer(message)

        mail.push, mail.deliver, mail.answer = pushed, delivered, answered


class Backup(Threads):
    def test_what_is_late(self):
        """Servers take what has come, and means are of that. All ranks have one model after each step, and each counts
        its own pushes, for each server."""
        for world, settings, late in ((2, {}, {(1, 3): 4}), (3, {}, {(2, 2): 3, (2, 6): 6}),
                                      (3, {"servers": 2}, {(2, 3): 5}), (4, {"backup": 2}, {(2, 2): 3, (3, 3): 4})):
            race = Race(world, late, **settings)
            weights, value = [], 1.0
            for step in range(1, 7):
                taken = [1.0 + rank for rank in range(world) if (rank, step) not in race.late]
                value -= 0.5 * sum(taken) / len(taken)
                weights.append(value)
            for rank, (found, stats) in enumerate(self.each(world, race.run)):
                for here, there in zip(found, weights):
                    self.assertAlmostEqual(here, there, places=5)
                count = sum(other == rank for other, _ in race.late) * settings.get("servers", 1)
                self.assertEqual((stats.late, stats.steps, stats.failed), (count, 6, 0), (rank, settings))

    def test_bytes(self):
        """Of a push: a head of 16 bytes, the push, and 8 for its end. Of an answer: 8, and the answer. Coming together
        takes a head."""
        for world, servers in ((2, 1), (3, 2)):
            race = Race(world, {}, servers=servers)
            found = [stats for _, stats in self.each(world, race.run)]
            for rank, stats in enumerate(found):
                others = servers - (rank < servers)
                self.assertEqual(stats.sent, sum(n for _, who, n in race.sent if who == rank) + 6 * 24 * others
                                 + 16 * others + 6 * 8 * (world - 1) * (rank < servers))
            self.assertEqual(sum(stats.received for stats in found), sum(stats.sent for stats in found))
            self.assertEqual(found[0].received, found[1].sent if world == 2 else found[0].received)

    def test_far_behind(self):
        """Servers end three steps without a push, and wait for it in the fourth."""
        last = 3 + backup.KEPT - 2
        race = Race(2, {(1, 3): last}, 8)
        wait, held = race.paces.wait, []

        def waited(*what):
            wait(*what)
            if what == ("ended", 0, last) and not held:
                held.append(not threading.Event().wait(0.05) and not race.paces.has("ended", 0, last + 1))

        race.paces.wait = waited
        found = self.each(2, race.run)
        self.assertEqual((held, last), ([True], 5))
        self.assertEqual([stats.late for _, stats in found], [0, 3])

    def test_other_steps(self):
        """Where ranks do not come together after as many steps, a server says which is where."""
        def train(rank, counts, paces):
            model = Two()
            optimizer = push_pull(model, backup=1)
            to_servers = optimizer._mail._to_servers

            def told(what, messages):
                to_servers(what, messages)
                paces.tell("sent", what)

            optimizer._mail._to_servers = told
            for step in range(1, counts[rank] + 1):
                if rank == 0 and step == counts[1] + 1:
                    paces.wait("sent", 2 * counts[1] + 1)
                model.lose(1.0)
                optimizer.step()
            optimizer.state_dict()

        for counts, step in (((5, 3), 4), ((2, 4), 2)):
            paces = Paces()
            (how, error), (other, _) = Network(2).run(lambda rank: train(rank, counts, paces))
            self.assertEqual((how, other, type(error)), ("raised", "raised", threelc.OrderError))
            self.assertEqual(str(error), f"rank 1 is in step 3 where rank 0 is in step {step}: all ranks call "
                                         "state_dict(), load_state_dict() and flush() after as many steps")

    def test_timeouts(self):
        """A server waits as long as its process group says for what it needs, and no longer."""
        def train(rank, network, timeout):
            group = transport.dist.new_group()
            group.options = SimpleNamespace(_timeout=timeout)
            optimizer = threelc.torch.PushPull(Two(), sgd, backup=1, process_group=group)
            optimizer.step()
            if rank == 0:
                start = time.monotonic()
                try:
                    for _ in range(backup.KEPT):
                        optimizer.step()
                finally:
                    network.seconds = time.monotonic() - start

        for seconds in 0.05, 0.2:
            network = Network(2)
            network.timeout = 10.0  # of the fake
            (how, error), _ = network.run(lambda rank: train(rank, network, timedelta(seconds=seconds)))
            self.assertEqual(how, "raised")
            self.assertRegex(str(error), "^rank 0 lost .* s after an exchange began")
            self.assertGreater(network.seconds, seconds)
            self.assertLess(network.seconds, 5)

    def test_looks(self):
        """At first often, and then once in a millisecond; whether workers live is asked after 1 s, 2 s, 4 s, ..., and
        at least every 30 s."""
        now, slept, probes = [100.0], [], []
        with mock.patch.object(backup.time, "monotonic", lambda: now[0]), \
                mock.patch.object(backup.time, "sleep", slept.append):
            wait = backup._Wait()
            for _ in range(8):
                wait.pause()
            for eighth in range(8 * 130):
                now[0] = 100 + eighth / 8
                if wait.should_probe():
                    probes.append(eighth / 8)
            now[0] = 107.0
            self.assertEqual([wait.is_over(timeout) for timeout in (6.9, 7.0, 7.1, math.inf)], [True] + [False] * 3)
        self.assertEqual([round(1e6 * seconds) for seconds in slept], [50, 100, 200, 400, 800, 1000, 1000, 1000])
        self.assertEqual(probes, [1, 2, 4, 8, 16, 32, 62, 92, 122])


if __name__ == "__main__":
    unittest.main()
