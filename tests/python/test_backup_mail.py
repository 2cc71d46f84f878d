# SPDX-License-Identifier: MIT
"""PushPull with backup workers, whose ranks are threads here: who waits for whom, whose pushes count, the bytes of each
message, what is said of ranks that are in other steps, and how servers look after their workers."""
import math
import threading
import time
import unittest
from datetime import timedelta
from types import SimpleNamespace
from unittest import mock

import threelc
import threelc.torch
from fake_dist import Network
from test_owner_steps import Two, push_pull, sgd
from thread_ranks import RanksTest
from threelc.torch._common import transport
from threelc.torch._owners import backup


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
        self.kept = 0  # messages that may be on their way, at most
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
            self.kept = max(self.kept, len(optimizer._mail._pushed), len(optimizer._mail._answered))
        optimizer.state_dict()
        self.kept = max(self.kept, 100 * len([*optimizer._mail._pushed, *optimizer._mail._answered]))
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


class Backup(RanksTest):
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
            for rank, (found, stats) in enumerate(self.on(world, race.run)):
                for here, there in zip(found, weights):
                    self.assertAlmostEqual(here, there, places=5)
                count = sum(other == rank for other, _ in race.late) * settings.get("servers", 1)
                self.assertEqual((stats.late, stats.steps, stats.failed), (count, 6, 0), (rank, settings))

    def test_bytes(self):
        """Of a push: a head of 16 bytes, the push, and 8 for its end. Of an answer: 8, and the answer. Coming together
        takes a head."""
        for world, servers in ((2, 1), (3, 2)):
            race = Race(world, {}, servers=servers)
            found = [stats for _, stats in self.on(world, race.run)]
            for rank, stats in enumerate(found):
                others = servers - (rank < servers)
                self.assertEqual(stats.sent, sum(n for _, who, n in race.sent if who == rank) + 6 * 24 * others
                                 + 16 * others + 6 * 8 * (world - 1) * (rank < servers))
            self.assertEqual(sum(stats.received for stats in found), sum(stats.sent for stats in found))
            self.assertEqual(found[0].received, found[1].sent if world == 2 else found[0].received)

    def test_memory(self):
        """Messages are kept while some may be on their way, and none after ranks came together."""
        race = Race(3, {}, 3 * backup.KEPT, servers=2)
        self.on(3, race.run)
        self.assertIn(race.kept, range(1, 2 * (backup.KEPT + 2)))

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
        found = self.on(2, race.run)
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
