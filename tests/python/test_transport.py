# SPDX-License-Identifier: MIT
"""What carries messages between ranks, over the fake of torch.distributed: groups that it takes, what comes out, what
is said of each failure, and what is left afterwards."""
import gc
import unittest
from contextlib import suppress
from datetime import timedelta
from types import SimpleNamespace
from unittest import mock

import numpy
import threelc
import torch
from fake_dist import Group, Network
from thread_ranks import RanksTest
from threelc.torch._common import transport
from threelc.torch._common.transport import Transport, copied_bytes, timeout_of


class Talks(RanksTest):
    def fails(self, world, function):
        """What it raises on each rank."""
        found = Network(world).run(lambda rank: function(Transport(), rank))
        self.assertEqual({how for how, _ in found}, {"raised"}, found)
        return [ended for _, ended in found]


class Groups(Talks):
    def test_timeouts(self):
        """The first that a backend tells, also one in a wrapper."""
        one, other = timedelta(seconds=7), timedelta(seconds=9)

        def backend(timeout):
            return SimpleNamespace(options=SimpleNamespace(_timeout=timeout))

        for backends, found in (([], None), ([object()], None), ([SimpleNamespace(options=None)], None),
                                ([backend(7)], None), ([backend(one)], one), ([object(), backend(one)], one),
                                ([backend(None), backend(one), backend(other)], one),
                                ([SimpleNamespace(wrapped_pg=backend(one))], one),
                                ([SimpleNamespace(wrapped_pg=backend(one), options=backend(other).options)], one)):
            with mock.patch.object(transport, "backends_of", lambda group, backends=backends: backends):
                self.assertEqual(timeout_of(None), found)

    def test_new_groups(self):
        """Of gloo, with the timeout of the default group, or that of another one."""
        default, like = timedelta(seconds=7), timedelta(seconds=9)
        for known, other, timeout in (
                (None, None, None), (default, None, default), (default, like, like), (None, like, like)):
            asked, other = [], other and SimpleNamespace(options=SimpleNamespace(_timeout=other))

            def make(rank, asked=asked, other=other, known=known):
                everyone = transport.dist.distributed_c10d._get_default_group()
                everyone.options = SimpleNamespace(_timeout=known)
                real = transport.dist.new_group
                with mock.patch.object(transport.dist, "new_group",
                                       lambda **others: asked.append(others) or real(**others)):
                    return Transport(like=other).world

            self.assertEqual(Network(1).run(make), [("returned", 1)])
            self.assertEqual(asked, [{"backend": "gloo", **({"timeout": timeout} if timeout else {})}])

    def test_no_new_group(self):
        """The sentence about it: who is lost, after how long, what PyTorch says."""
        for timeout, silent, lost in (None, [], "another rank"), (timedelta(seconds=7), [1, 2], "ranks 1 and 2"):
            def make(rank, timeout=timeout, silent=silent):
                transport.dist.distributed_c10d._get_default_group().options = SimpleNamespace(_timeout=timeout)
                with mock.patch.object(transport.dist, "new_group", side_effect=RuntimeError("no store")), \
                        mock.patch.object(transport, "silent_ranks", lambda group: silent):
                    Transport()

            (how, error), = Network(1).run(make)
            self.assertEqual((how, type(error)), ("raised", RuntimeError))
            self.assertRegex(str(error), f"^rank 0 lost {lost} 0\\.[0-9] s after it began to make a process group with "
                                         f"the others \\(timeout: {timeout or 'unknown'}\\): all .* says: no store$")
            self.assertEqual(str(error.__cause__), "no store")
        for is_available, is_initialized in (False, True), (True, False), (False, False):
            with mock.patch.multiple(transport.dist, is_available=lambda a=is_available: a,
                                     is_initialized=lambda i=is_initialized: i):
                with self.assertRaisesRegex(RuntimeError, "^there are no other ranks yet: call torch.distributed.in"):
                    Transport()

    def test_groups_of_users(self):
        """A group that this rank is in, of gloo; of NCCL they are in test_staging.py."""
        network = Network(2)
        for rank in 0, 1:
            group = Group(network, 5, rank)
            one = Transport(group)
            self.assertEqual((one.group, one.rank, one.world, one.sent, one.received), (group, rank, 2, 0, 0))
            self.assertEqual(one.ranks(), [0, 1])
        for group in "gloo", 3, Group(network, 5, -1):
            with self.assertRaisesRegex(ValueError, "^process_group should be a process group that this rank is in$"):
                Transport(group)
        for name, fits in ("mpi", False), ("cpu:gloo,cuda:nccl", True):
            with mock.patch.object(transport.dist, "get_backend", lambda group, name=name: name):
                if fits:
                    Transport(Group(network, 5, 0))
                    continue
                with self.assertRaisesRegex(ValueError, "^process_group has the backend mpi, and messages need "):
                    Transport(Group(network, 5, 0))


class Messages(Talks):
    def test_messages(self):
        """Of any length, also none; each has memory of its own."""
        def ask(one, rank):
            given = [memoryview(bytes([rank, to]) * (rank * to)) for to in range(3)]
            found = one.all_to_all(given)
            every = one.all_gather(memoryview(bytes([rank]) * rank))
            for each in (*found, *every):
                each += 1
            return [bytes(each.tolist()) for each in found], [bytes(each.tolist()) for each in every]

        for rank, (found, every) in enumerate(self.talk(3, ask)):
            self.assertEqual(found, [bytes([other + 1, rank + 1]) * (other * rank) for other in range(3)])
            self.assertEqual(every, [bytes([other + 1]) * other for other in range(3)])

    def test_values(self):
        """As JSON has them, of numbers of numpy, too; they are not counted."""
        for value, found in ((3, 3), ([1, "x", None], [1, "x", None]), ((1, (2,)), [1, [2]]), ({"a": 1.5}, {"a": 1.5}),
                             ("x", "x"), (None, None), (True, True), ([numpy.int64(2**53 + 1)], [2**53 + 1]),
                             ([numpy.float32(0.5)], [0.5]), ([torch.tensor(7)], [7])):
            def ask(one, rank, value=value):
                return one.gather(value), one.sent, one.received

            self.assertEqual(self.talk(2, ask), 2 * [([found, found], 0, 0)])
        for error in self.fails(2, lambda one, rank: one.gather([object()])):
            self.assertIsInstance(error, TypeError)

    def test_values_of_other_types(self):
        """A rank that sends something else is named, also if it is no JSON."""
        for mine, other, name in (([], "{}", "list"), ((), "3", "list"), ({}, "[]", "dict"), (3, '"x"', "int"),
                                  ([], "[", "list"), ([], "", "list"), (None, "0", "NoneType"),
                                  ("x", "[" * 9999, "str")):
            def ask(one, rank, mine=mine, other=other):
                if rank == 0:
                    return one.gather(mine)
                return one.all_gather(memoryview(other.encode())) and None

            (how, error), (other_how, _) = Network(2).run(lambda rank, ask=ask: ask(Transport(), rank))
            self.assertEqual((how, other_how, type(error)), ("raised", "returned", threelc.CorruptError))
            self.assertEqual(str(error), f"what rank 1 sent is no {name} in JSON")

    def test_settings(self):
        """The first that differs, on all ranks alike; also one that only some have."""
        for settings, words in (
                (({"a": 1}, {"a": 1}, {"a": 1}), None), (({"a": (1, 2)},) * 3, None), (({}, {}, {}), None),
                (({"a": 1}, {"a": 1}, {"a": 2}), "a is 2 on rank 2 and 1 on rank 0"),
                (({"a": 1}, {"a": "1"}, {"a": 2}), "a is '1' on rank 1 and 1 on rank 0"),
                (({"a": 1}, {}, {"a": 1}), "a is None on rank 1 and 1 on rank 0"),
                (({"a": 1}, {"a": 1}, {"a": 1, "b": 2}), "b is 2 on rank 2 and None on rank 0")):
            def ask(one, rank, settings=settings):
                return one.agree(settings[rank])

            if words is None:
                self.assertEqual(self.talk(3, ask), [None] * 3)
                continue
            for error in self.fails(3, ask):
                self.assertEqual(str(error), f"all ranks need the same settings: {words}")

    def test_ranks_that_do_other_things(self):
        """What each sends, and how much."""
        sparse = torch.sparse_coo_tensor([[1, 5]], [1.0, 2.0], (9,))
        calls = {"a message of 1 bytes": lambda one: one.all_gather(memoryview(b"x")),
                 "floats of 12 bytes": lambda one: one.all_reduce(torch.ones(3)),
                 "floats of 16 bytes": lambda one: one.all_reduce(torch.ones(4)),
                 "a sparse gradient of 24 bytes": lambda one: one.all_reduce(sparse.clone())}
        for one, mine in calls.items():
            for other, theirs in calls.items():
                if one == other:
                    continue
                errors = self.fails(2, lambda each, rank, calls=(mine, theirs): calls[rank](each))
                for rank, (error, words) in enumerate(zip(errors, ((one, other), (other, one)))):
                    self.assertEqual((type(error), error.status), (threelc.OrderError, threelc.Status.ORDER))
                    self.assertTrue(str(error).startswith(f"rank {rank} sends {words[0]} where rank {1 - rank} sends "
                                                          f"{words[1].replace(' bytes', '')}: all ranks"))

    def test_what_comes_first(self):
        """For each rank a number of 64 bits: the length of what follows, and in the lower two bits what it is. Ranks of
        other releases read it."""
        calls = (lambda one: one.all_to_all([memoryview(bytes(5)), memoryview(bytes(300))]), [5 << 2, 300 << 2]), (
            lambda one: one.all_reduce(torch.ones(3)), [12 << 2 | 1] * 2), (
            lambda one: one.all_reduce(torch.sparse_coo_tensor([[1]], [1.0], (9,))), [12 << 2 | 2] * 2)
        for call, words in calls:
            one, seen = Transport(Group(Network(2), 5, 0)), []
            with mock.patch.object(one, "_all_to_all_single",
                                   lambda target, source, *sizes, seen=seen: seen.append((source, sizes)) or 1 / 0):
                with self.assertRaises(ZeroDivisionError):
                    call(one)
            (source, sizes), = seen
            self.assertEqual((source.tolist(), source.dtype, sizes), (words, torch.int64, (None, None)))

    def test_copies(self):
        self.assertEqual(copied_bytes(memoryview(b"")).tolist(), [])
        memory = bytearray(b"abc")
        copy = copied_bytes(memoryview(memory))
        memory[0] = 0
        self.assertEqual((bytes(copy.tolist()), copy.dtype), (b"abc", torch.uint8))


class Tensors(Talks):
    def test_a_model(self):
        """Of any dtype and layout; that of rank 0."""
        def ask(one, rank):
            draw = torch.Generator().manual_seed(rank)
            tensors = [torch.randn(3, 4, generator=draw), torch.randn(4, 3, generator=draw).t(),
                       torch.randn((), generator=draw).bfloat16(), torch.tensor([rank == 0, True]), torch.empty(0, 3),
                       torch.nn.Parameter(torch.randn(5, generator=draw)), torch.full((2,), 2**40 + rank)]
            one.copy_model(tensors)
            return [tensor.tolist() for tensor in tensors], tensors[5].requires_grad, one.sent

        first, *others = self.talk(3, ask)
        self.assertEqual(others, [first, first])
        self.assertEqual((first[0][3], first[0][6], first[1:]), ([True, True], [2**40] * 2, (True, 0)))

    def test_sums(self):
        self.assertEqual(self.talk(2, lambda one, rank: one.all_reduce(torch.ones(1000))), [4000, 4000])

        def ask(one, rank):
            found = []
            for tensor in (torch.arange(5.0) + rank, torch.full((2, 3), rank + 0.5, dtype=torch.float64),
                           torch.full((3,), rank + 1.0).half(), torch.zeros(0)):
                before = one.sent
                found.append((one.all_reduce(tensor), one.sent - before, tensor.tolist()))
            return found

        self.assertEqual(self.talk(2, ask), 2 * [[
            (20, 28, [1.0, 3.0, 5.0, 7.0, 9.0]), (48, 56, [[2.0] * 3] * 2), (6, 14, [3.0] * 3), (0, 8, [])]])

    def test_dtypes_that_gloo_does_not_know(self):
        """bfloat16 is summed as float32; any other failure is raised, and that of other dtypes."""
        def ask(one, dtype, words):
            real = transport.dist.all_reduce

            def all_reduce(tensor, group):
                if tensor.dtype == dtype:
                    raise RuntimeError(words)
                real(tensor, group=group)

            tensor = torch.full((3,), 1.5).to(dtype)
            with mock.patch.object(transport.dist, "all_reduce", all_reduce):
                one.all_reduce(tensor)
            return tensor.tolist(), [held.dtype for held in one._held][-2:]

        for dtype, words, fits in ((torch.bfloat16, "Invalid scalar type", True), (torch.bfloat16, "closed", False),
                                   (torch.float32, "Invalid scalar type", False), (torch.float16, "closed", False)):
            if fits:
                self.assertEqual(self.talk(1, lambda one, rank, d=dtype, w=words: ask(one, d, w)),
                                 [([1.5] * 3, [torch.bfloat16, torch.float32])])
                continue
            error, = self.fails(1, lambda one, rank, d=dtype, w=words: ask(one, d, w))
            self.assertRegex(str(error), f"Gloo says: {words}$")

    def test_sparse_sums(self):
        def ask(one, rank, dtype):
            tensor = torch.sparse_coo_tensor([[rank, 3]], [1.0, 2.0], (5,)).to(dtype).coalesce()
            size = one.all_reduce(tensor)
            return size, tensor.dtype, tensor.to_dense().tolist()

        for dtype, each in (torch.float32, 4), (torch.float64, 8), (torch.float16, 4):
            self.assertEqual(self.talk(2, lambda one, rank, d=dtype: ask(one, rank, d)),
                             2 * [(2 * (8 + each), dtype, [1.0, 1.0, 0.0, 4.0, 0.0])])


class Failures(Talks):
    def fail(self, error, silent=(), timeout=None):
        """What comes of it in an exchange."""
        def ask(one, rank):
            one.group.options = SimpleNamespace(_timeout=timeout)
            with mock.patch.object(transport, "silent_ranks", lambda group: list(silent)), one.exchanging():
                raise error

        return self.fails(1, ask)[0]

    def test_what_is_said(self):
        """Of what gloo raises; all else stays what it is."""
        for silent, lost in ((), "another rank"), ((1,), "rank 1"), ((0, 2, 3), "ranks 0, 2 and 3"):
            for timeout in None, timedelta(seconds=7):
                cause = RuntimeError("closed")
                error = self.fail(cause, silent, timeout)
                self.assertEqual(type(error), RuntimeError)
                self.assertRegex(str(error), f"^rank 0 lost {lost} 0\\.[0-9] s after an exchange began \\(timeout: "
                                             f"{timeout or 'unknown'}\\)\\. Lost ranks .* Gloo says: closed$")
                self.assertIs(error.__cause__, cause)
        for other in ValueError("x"), KeyboardInterrupt(), NotImplementedError("x"), MemoryError():
            self.assertIs(self.fail(other), other)
        self.assertNotEqual(str(self.fail(RecursionError("x"))), "x")

    def test_the_wait_after_a_failure(self):
        """Of gloo's threads, whatever failed; none after an exchange that went well, one before a group is closed."""
        for error in RuntimeError("x"), KeyboardInterrupt(), None:
            with mock.patch.object(transport.time, "sleep") as sleep, mock.patch.multiple(
                    transport, _UNTIL_FREE=0.123, _UNTIL_CLOSED=0.456, silent_ranks=lambda group: []):
                def ask(one, rank, error=error):
                    with suppress(RuntimeError, KeyboardInterrupt), one.exchanging():
                        if error is not None:
                            raise error
                    waited = [call.args for call in sleep.call_args_list]
                    one.abort()
                    return waited, [call.args for call in sleep.call_args_list]

                (waited, in_all), = self.talk(1, ask)
            self.assertEqual(waited, [] if error is None else [(0.123,)])
            self.assertEqual(in_all, [*waited, (0.456,)])

    def test_frames_let_go(self):
        """Those of an exception do not keep what they had, as that would keep the group."""
        def ask(one, rank):
            held = torch.ones(3)

            def inner(mine):
                raise RuntimeError("closed")

            try:
                with one.exchanging():
                    inner(held)
            except RuntimeError as error:
                trace = error.__cause__.__traceback__
                while trace.tb_next is not None:
                    trace = trace.tb_next
                return list(trace.tb_frame.f_locals)

        with mock.patch.object(transport, "silent_ranks", lambda group: []):
            self.assertEqual(self.talk(1, ask), [[]])

    def test_closed(self):
        """All calls say so, and closing again does nothing, also if the group is gone."""
        def ask(one, rank):
            with mock.patch.object(transport.dist, "destroy_process_group", side_effect=ValueError("gone")) as destroy:
                one.abort()
                one.abort()
            said = []
            for call in (lambda: one.all_gather(memoryview(b"")), lambda: one.gather(3), lambda: one.agree({}),
                         lambda: one.all_reduce(torch.ones(1)),
                         lambda: one.all_reduce(torch.sparse_coo_tensor([[0]], [1.0], (1,)))):
                try:
                    call()
                except RuntimeError as error:
                    said.append(str(error))
            return destroy.call_count, set(said), len(said), (one.sent, one.received)

        self.assertEqual(self.talk(1, ask), [(
            1, {"the connections to the other ranks are closed, as an exchange with them has failed"}, 5, (0, 0))])

    def test_what_is_held(self):
        """The tensors of the last collectives, and when a transport is gone, in a list that does not grow for ever."""
        def ask(one, rank):
            for i in range(9):
                with one.exchanging(torch.full((), i), torch.full((), 10 + i)):
                    pass
            return one._held

        held, = self.talk(1, ask)
        self.assertEqual([int(tensor) for tensor in held], [7, 17, 8, 18])
        gc.collect()
        self.assertEqual([tensor is mine for tensor, mine in zip(list(transport._LEFT)[-4:], held)], [True] * 4)
        self.assertEqual(transport._LEFT.maxlen, 16)
        with self.assertRaises(ValueError):
            Transport("gloo")  # one that has held nothing
        gc.collect()
        self.assertEqual([tensor is mine for tensor, mine in zip(list(transport._LEFT)[-4:], held)], [True] * 4)


if __name__ == "__main__":
    unittest.main()
