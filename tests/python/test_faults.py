# SPDX-License-Identifier: MIT
"""Faults at calls of torch.distributed, on each rank, at each call: some of those that faults.py tries."""
import threading
import unittest

import threelc
import torch
from fake_dist import KINDS, Fault, Network
from faults import STEPS, WAYS, one_run, prepared, run, saved
from threelc.torch._common.transport import Transport

RANKS = 3
EVERY = 61  # of all faults of a way and a kind


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        prepared()

    def test_ranks_end(self):
        """None hangs, and each says what it should."""
        for number, way in enumerate(WAYS):
            for kind in KINDS:
                with self.subTest(f"{way} {kind}"):
                    tried, wrong = run(way, kind, RANKS, EVERY, number)
                    self.assertGreater(tried, 0)
                    self.assertEqual(wrong, [])

    def test_states_of_rounds_that_failed(self):
        """An exchange of LocalSteps that failed has no results, and no state says that it had."""
        for call in range(14, 19):
            _, ends, objects = one_run("LocalSteps", RANKS, Fault(2, call, "raises"))
            self.assertEqual({how for how, _ in ends}, {"raised"})
            for one in objects:
                how, error = saved(one)
                self.assertEqual(how, "raised")
                self.assertRegex(str(error), "the exchange of round . has failed, so its results are not there")

    def test_no_fault(self):
        """The fake itself: ranks train as over gloo, and their states go on."""
        for way in WAYS:
            _, ends, objects = one_run(way, RANKS)
            self.assertEqual({how for how, _ in ends}, {"returned"}, ends)
            states = [saved(one)[1] for one in objects]
            whole = one_run(way, RANKS, steps=range(STEPS + 2))[1]
            pieces = one_run(way, RANKS, states=states, steps=range(STEPS, STEPS + 2))[1]
            if way != "register":  # whose parameters have no common start with one rank in each module
                self.assertEqual(whole, pieces, way)

    def test_counts(self):
        """The bytes of each call to and from other ranks, with lengths of 8 bytes; what is no training counts none."""
        def talk(rank):
            transport, found = Transport(), []
            self.assertEqual((transport.sent, transport.received), (0, 0))
            sparse = torch.sparse_coo_tensor([[1, 5]], [1.0, 2.0], (9,))
            plain, flat = torch.arange(7.0), torch.full((9,), float(rank))
            mail, came = torch.full((5,), rank), torch.zeros(5, dtype=torch.int64)

            def by_mail():
                work = transport.isend(mail, (rank + 1) % RANKS, 4)
                transport.irecv(came, (rank - 1) % RANKS, 4).wait()
                work.wait()
                return came.tolist()
            for call in (lambda: [len(each) for each in transport.all_to_all(
                             [memoryview(bytes(10 * rank + to)) for to in range(RANKS)])],
                         lambda: transport.all_reduce(plain), lambda: transport.all_reduce(sparse),
                         lambda: transport.all_reduce(sparse.half()), by_mail, lambda: transport.gather(rank),
                         lambda: transport.copy_model([flat, torch.empty(0)])):
                before = transport.sent, transport.received
                found.append((call(), transport.sent - before[0], transport.received - before[1]))
            return found, plain.tolist(), sparse.to_dense().tolist(), flat.tolist()

        for rank, (how, ended) in enumerate(Network(RANKS).run(talk)):
            self.assertEqual(how, "returned", ended)
            found, plain, sparse, flat = ended
            others = {0, 1, 2} - {rank}
            self.assertEqual(found, [
                ([10 * other + rank for other in range(RANKS)], 16 + sum(10 * rank + to for to in others),
                 16 + sum(10 * other + rank for other in others)),
                (37, 53, 53), (48, 64, 64), (48, 64, 64), ([(rank - 1) % RANKS] * 5, 40, 0), ([0, 1, 2], 0, 0),
                (None, 0, 0)])
            self.assertEqual((plain, sparse[5], flat), ([3.0 * i for i in range(7)], 6.0, [0.0] * 9))

    def test_other_lengths(self):
        """Sums of other lengths, and other calls, are refused on both sides, before anything follows."""
        for call in (lambda transport, rank: transport.all_reduce(torch.ones(3 + rank)),
                     lambda transport, rank: transport.all_reduce(torch.ones(3)) if rank else transport.gather(3)):
            for rank, (how, error) in enumerate(Network(2).run(lambda rank, call=call: call(Transport(), rank))):
                self.assertIsInstance(error, threelc.OrderError)
                self.assertRegex(str(error), f"rank {rank} sends .* bytes where rank {1 - rank} sends .*: all ranks")

    def test_abort(self):
        """Who waits for a rank that gives up hears of it at once, and that rank sends nothing any more."""
        def talk(rank):
            transport = Transport()
            if rank == 0:
                transport.abort()
                transport.abort()
            try:
                return transport.all_gather(memoryview(b"x"))
            except RuntimeError as error:
                return str(error)

        (_, gave_up), (_, waited) = Network(2).run(talk)
        self.assertEqual(gave_up, "the connections to the other ranks are closed, as an exchange with them has failed")
        self.assertRegex(waited, "^rank 1 lost .* Gloo says: connection closed by peer$")

    def test_the_fake(self):
        """Its faults: what comes back, and who fails."""
        def talk(rank):
            transport = Transport()
            return [bytes(each.tolist()) for each in transport.all_gather(memoryview(bytes([rank] * 3)))]

        self.assertEqual(Network(2).run(talk), 2 * [("returned", [b"\0\0\0", b"\1\1\1"])])
        for call in range(1, 4):
            for kind in "raises", "ends", "lost":
                ends = Network(2, Fault(1, call, kind)).run(talk)
                self.assertEqual(ends[1][0], "raised", (call, kind))
                self.assertEqual(ends[0][0], "returned" if (call, kind) == (3, "ends") else "raised", (call, kind))
        self.assertEqual(Network(2, Fault(1, 3, "alters")).run(talk), 2 * [("returned", [b"\0\0\0", b"\1\5\1"])])
        self.assertEqual(Network(2, Fault(1, 3, "late")).run(talk), Network(2).run(talk))
        self.assertEqual(Network(2).run(lambda rank: threading.Event().wait(rank), 0.3)[1], ("hangs", None))


if __name__ == "__main__":
    unittest.main()
