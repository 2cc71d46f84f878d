# SPDX-License-Identifier: MIT
"""What objects of the exchange say of wrong arguments, in whole sentences; settings that are left out; records."""
import sys
import unittest
from ctypes import byref, sizeof
from unittest import mock

import numpy
import threelc
from sentences import check_sentences
from test_exchange import SIZES, TENSORS, all_reduce, answers_of, empty, gradients, ranks_of, servers_of
from threelc import _c, _library, exchange
from threelc.exchange import AllReduce, Config, Gossip, Graph, Server, Tensor, Worker
from threelc.exchange import _base

ONE = [Tensor("w", 3)]
RAW = Config(workers=4, push="raw")


def zeros(n=3):
    return numpy.zeros(n, "f4")


def bound(what, bits, given):
    return f"{what} should be from 0 to 2^{bits} - 1, not {given}"


def rank_of(tensors=ONE, rank=0, **settings):
    return AllReduce(Config(**{"workers": 1, **settings}), rank, tensors)


class Sentences(unittest.TestCase):
    def test_numbers(self):
        """Each is refused where ctypes would cut it off, and not before."""
        servers = Config(workers=1, servers=1)
        rank, (worker,), (server,) = rank_of(), *servers_of(1, 1)
        calls = [(32, name, lambda n, name=name: rank_of(**{name: n}))
                 for name in ("workers", "servers", "owners", "keep", "backup")]
        calls += [(64, name, lambda n, name=name: rank_of(**{name: n})) for name in ("min_n", "split_n", "seed")]
        calls += [
            (64, "n of w", lambda n: rank_of([Tensor("w", n)])),
            (31, "only of w", lambda n: rank_of([Tensor("w", 3, only=n)])),
            (32, "rank", lambda n: rank_of(rank=n)), (32, "server", lambda n: Server(servers, n, ONE)),
            (32, "worker", lambda n: Worker(servers, n, ONE)), (64, "step", rank.again), (64, "step", worker.join),
            (64, "step", lambda n: worker.join(3, [n])), (32, "server", worker.outcome), (32, "worker", server.taken),
            (64, "step", server.again), (32, "node", lambda n: Gossip(RAW, "dcd", n, [1], [1, 0], ONE, [zeros()])),
            (32, "a neighbour", lambda n: Gossip(RAW, "dcd", 0, [n], [1, 0], ONE, [zeros()])),
            (32, "nodes", lambda n: Graph("ring", n).neighbours(0)),
            (32, "rows", lambda n: Graph("torus", 4, rows=n).neighbours(0)),
            (64, "seed", lambda n: Graph("ring", 4, seed=n).neighbours(0)),
            (32, "node", lambda n: Graph("ring", 4).neighbours(n))]
        for bits, what, call in calls:
            check_sentences(self, (lambda: call(2**bits), ValueError, bound(what, bits, 2**bits)),
                            (lambda: call(-1), ValueError, bound(what, bits, -1)),
                            (lambda: call("1"), TypeError, f"{what} should be a whole number, not '1'"))
            if what != "workers":  # which would take much memory
                try:
                    call(2**bits - 1)
                except threelc.Error:
                    pass  # of the library

    def test_arguments(self):
        tensor = "threelc.exchange.Tensor"
        check_sentences(
            self,
            (lambda: rank_of("w"), TypeError, f"tensors should be a list of {tensor}, not 'w'"),
            (lambda: rank_of([ONE[0], ("v", 3)]), TypeError, f"tensors[1] should be a {tensor}(name, n), not a tuple"),
            (lambda: AllReduce({}, 0, ONE), TypeError, "config should be a threelc.exchange.Config, not a dict"),
            (lambda: rank_of([Tensor(5, 3)]), TypeError, "the name of a tensor should be a str, not 5"),
            (lambda: rank_of([Tensor("w\0", 3)]), ValueError,
             "the name of a tensor should have no zero byte: 'w\\x00'"),
            (lambda: rank_of(push=5), TypeError, "push should be a str, not 5"),
            (lambda: rank_of(pull=5), TypeError, "pull should be a str, not 5"),
            (lambda: rank_of(isa="sse"), ValueError,
             "isa should be one of auto, scalar, avx2, avx512, neon, not 'sse'"),
            (lambda: rank_of(dtype="f64"), TypeError, "values are float32, float16 or bfloat16, not f64"),
            (lambda: rank_of([Tensor("w", 3, residual=zeros(2))]), ValueError,
             "residual of w should have 3 values, not 2"),
            (lambda: rank_of([Tensor("w", 3, residual=numpy.frombuffer(bytes(12), "f4"))]), ValueError,
             "residual of w is read-only, and would be written"),
            (lambda: exchange.pull_codec(5), TypeError, "push should be a str, not 5"),
            (lambda: rank_of().push([zeros()], "x"), TypeError, "weight should be a number, not 'x'"),
            (lambda: rank_of().residual_scale("x"), TypeError, "factor should be a number, not 'x'"),
            (lambda: rank_of().push_frames([zeros()], [None]), ValueError, "frames should have 0 messages, not 1"),
            (lambda: rank_of().mask([zeros(2)]), ValueError, "momentum[0] should have 3 values, not 2"))

    def test_names_of_tensors(self):
        rank = rank_of()
        check_sentences(self, *((lambda i=i: rank.set_codec(i, "raw"), error, f"there is no tensor {i}")
                                for i, error in ((1, IndexError), (2, IndexError), (-1, IndexError))))
        check_sentences(self, (lambda: rank.set_codec("x", "raw"), KeyError, '"there is no tensor \'x\'"'))

    def test_gossip(self):
        def node(neighbours=(1, 3), weights=(0.25, 0.25, 0.5), kind="dcd", tensors=ONE, model=None):
            return Gossip(RAW, kind, 0, neighbours, weights, tensors, [zeros()] if model is None else model)

        check_sentences(
            self,
            (lambda: node(weights=[1, 1]), ValueError, "2 neighbours need 3 weights, the node's own last"),
            (lambda: node(weights=[1] * 4), ValueError, "2 neighbours need 3 weights, the node's own last"),
            (lambda: node(weights=[1, "x", 1]), TypeError, "a weight should be a number, not 'x'"),
            (lambda: node(weights=5), TypeError, "weights should be a list of numbers, not 5"),
            (lambda: node(neighbours=5), TypeError, "neighbours should be a list of numbers, not 5"),
            (lambda: node(kind="dce"), ValueError, "kind should be one of dcd, ecd, not 'dce'"),
            (lambda: node(model=[]), ValueError, "model should have 1 arrays, not 0"),
            (lambda: node(model=[zeros(2)]), ValueError, "model[0] should have 3 values, not 2"),
            (lambda: node().push([zeros(2)]), ValueError, "moved[0] should have 3 values, not 2"),
            (lambda: node().push_frames([zeros()], [None]), ValueError, "frames should have 0 messages, not 1"),
            (lambda: node().pull([b""]), ValueError, "2 messages are needed, not 1"),
            (lambda: node().greet([b""]), ValueError, "2 messages are needed, not 1"),
            (lambda: node().mean(1), IndexError, "there is no tensor 1"),
            (lambda: node().lose(-1), ValueError, bound("neighbour", 64, -1)),
            (lambda: node().lost(2**64), ValueError, bound("neighbour", 64, 2**64)),
            (lambda: node().join(2**64), ValueError, bound("step", 64, 2**64)),
            (lambda: Graph("star", 3).neighbours(0), ValueError,
             "kind should be one of ring, torus, complete, random, not 'star'"),
            (lambda: Graph("random", 3, p="x").neighbours(0), TypeError, "p should be a number, not 'x'"))
        pushed = node()
        pushed.push([zeros()])
        check_sentences(self, (lambda: pushed.mean("w"), threelc.OrderError, "there is no mean between push and pull"))

    def test_many_neighbours(self):
        """Of all other nodes of 300."""
        near, weights = Graph("complete", 300).neighbours(0)
        node = Gossip(Config(workers=300, push="raw"), "dcd", 0, near, weights, ONE, [zeros()])
        self.assertEqual((node.neighbours, len(weights)), (tuple(range(1, 300)), 300))
        self.assertAlmostEqual(sum(weights), 1)
        check_sentences(self, (lambda: Gossip(Config(workers=300), "dcd", 0, near, near, ONE, [zeros()]), ValueError,
                               "299 neighbours need 300 weights, the node's own last"))

    def test_servers(self):
        (worker, *_), (server, _) = servers_of()
        check_sentences(
            self,
            (lambda: worker.join(3, 5), TypeError, "taken should be a list of steps, not 5"),
            (lambda: worker.join(3, [0]), ValueError, "taken should have 2 steps, not 1"),
            (lambda: server.push("x"), TypeError,
             "message should be an array (of numpy, a torch tensor on the CPU, or with the buffer protocol or DLPack), "
             "not 'x'"),
            (lambda: server.answer([zeros()]), ValueError,
             f"delta should have {len(server.parts())} arrays, not 1"),
            (lambda: worker.pull([None], empty()), ValueError, "2 messages are needed, not 1"),
            (lambda: worker.push(gradients(0), 0), threelc.ParameterError,
             "worker 0: weight is 0; it is 2^-50 to 2^50"),
            (lambda: server.taken(3), threelc.ParameterError, "server 0: there is no worker 3; there are 3"),
            (lambda: worker.outcome(2), threelc.ParameterError, "an argument is out of its range"))

    def test_states(self):
        needed = "states of version 1 of allreduce objects are needed, not of version "
        good = rank_of().state_dict()
        self.assertEqual((good["version"], good["kind"]), (1, "allreduce"))
        check_sentences(self, *((lambda state=state: rank_of().load_state_dict(state), error, sentence)
                                for state, error, sentence in (
            (5, TypeError, "states should be a list of states, not 5"),
            ([5], TypeError, "a state is what state_dict() returns, not 5"),
            ({}, ValueError, needed + "None of None"), ({**good, "version": 2}, ValueError, needed + "2 of allreduce"),
            ({**good, "kind": "worker"}, ValueError, needed + "1 of worker"),
            ({"version": 1, "kind": "allreduce"}, ValueError, "this is not a state: it has no entry 'state'"))))
        context = threelc.Context(3)
        self.assertEqual(context.state_dict()["version"], 1)
        check_sentences(
            self, (lambda: context.load_state_dict(5), TypeError, "a state is what state_dict() returns, not 5"),
            (lambda: context.load_state_dict({}), ValueError, "a state of version 1 is needed, not None"),
            (lambda: context.load_state_dict({"version": 1}), ValueError,
             "this is not a state: it has no entry 'state'"))


class Settings(unittest.TestCase):
    def test_left_out(self):
        """They are those of the library."""
        ours = _base.Arguments(Config(workers=1), []).config
        theirs = _c.ExchangeConfig()
        _library.check(_library.lib.tlc_exchange_config_init(byref(theirs), sizeof(theirs)))
        for name, _ in _c.ExchangeConfig._fields_:
            if name not in ("workers", "alloc", "parallel", "outcome", "struct_size"):
                self.assertEqual(getattr(ours, name), getattr(theirs, name), name)

    def test_weights_left_out(self):
        """They are 1."""
        made = [rank_of(TENSORS).push_frames(gradients(0), [None], *weight) for weight in ((), (1,), (2,))]
        made += [rank_of(TENSORS).push(gradients(0), *weight) for weight in ((), (1,), (2,))]
        workers = [servers_of(1, 1)[0][0] for _ in range(6)]
        made += [worker.push_frames(gradients(0), [None], *weight) for worker, weight in zip(workers, ((), (1,), (2,)))]
        made += [worker.push(gradients(0), *weight) for worker, weight in zip(workers[3:], ((), (1,), (2,)))]
        for one, same, other in zip(made[::3], made[1::3], made[2::3]):
            self.assertEqual(bytes(one[0]), bytes(same[0]))
            self.assertNotEqual(bytes(one[0]), bytes(other[0]))

    def test_graphs(self):
        """rows: of 12 nodes 3. Without p a random graph is a ring."""
        for graph, node, neighbours, weight in (
                (Graph("ring", 5), 1, [0, 2], 1 / 3), (Graph("torus", 12), 0, [1, 3, 4, 8], 1 / 5),
                (Graph("torus", 12, rows=2), 0, [1, 5, 6], 1 / 4), (Graph("random", 6), 1, [0, 2], 1 / 3),
                (Graph("complete", 4), 3, [0, 1, 2], 1 / 4)):
            found, weights = graph.neighbours(node)
            self.assertEqual(found, neighbours)
            numpy.testing.assert_allclose(weights, [weight] * (len(found) + 1), atol=1e-15)
        given = [Graph("random", 40, p=0.2, seed=seed).neighbours(0)[0] for seed in (0, 0, 1)]
        self.assertEqual(given[0], given[1])
        self.assertEqual(given[0], Graph("random", 40, p=0.2).neighbours(0)[0])
        self.assertNotEqual(given[0], given[2])

    def test_codec_of_answers(self):
        self.assertEqual([exchange.pull_codec(push) for push in (None, "3lc", "sbc")], ["3lc", "3lc", "3lc-golomb"])


class Records(unittest.TestCase):
    def test_workers_that_took_part(self):
        """Of more than a byte has bits."""
        tensors = [Tensor("w", 4)]
        ranks = [AllReduce(Config(workers=11, push="raw"), i, tensors) for i in range(11)]
        away = (0, 8, 9)
        to = [rank.push(None if i in away else [zeros(4)]) for i, rank in enumerate(ranks)]
        last = [bytes(rank.reduce([messages[i] for messages in to])) for i, rank in enumerate(ranks)]
        ranks[10].pull(last, [zeros(4)])
        found = ranks[10].outcome()
        self.assertEqual(found.taken, set(range(11)) - set(away))
        self.assertEqual((found.status, found.cause, found.step, found.rank, found.tensor, found.unknown,
                          found.missing), (0, 0, 1, None, None, 0, 0))
        ranks[10].push([zeros(4)])
        self.assertIsNone(ranks[10].outcome().taken)

    def test_what_failed(self):
        rank = rank_of([Tensor("v", 3), Tensor("w", 3)])
        with self.assertRaises(threelc.ParameterError) as caught:
            rank.set_codec("w", "4lc")
        outcome = caught.exception.outcome
        self.assertEqual((outcome.rank, outcome.tensor, outcome.cause), (0, 1, threelc.Status.PARAM))
        self.assertEqual(outcome, rank.outcome())

    def test_parts(self):
        """Views of as many values as they say; a seed for each part that is pushed, and one for its answers."""
        ranks = ranks_of(2, split_n=1000)
        all_reduce(ranks, [gradients(0), gradients(1)])
        owned = [part for rank in ranks for part in rank.parts() if part.tensor == 0]
        self.assertEqual(sorted(part.first for part in owned)[0], 0)
        self.assertEqual(sum(part.n for part in owned), SIZES["weight"])
        for part in owned:
            self.assertEqual((len(part.mean), len(part.residual)), (part.n, part.n))
        pushed = ranks[0].pushed_parts()
        self.assertEqual([(len(part.mean), len(part.residual)) for part in pushed], [(0, part.n) for part in pushed])
        self.assertEqual(len({part.seed for part in (*pushed, *owned)} - {0}), len(pushed) + len(owned))
        self.assertIn(0, [part.seed for rank in ranks for part in rank.parts()])  # those that share a frame
        (pulled,), = [{(len(part.mean), part.residual) for part in ranks[0].pulled_parts()}]
        self.assertEqual(pulled, (0, None))

    def test_repr(self):
        self.assertEqual(repr(rank_of(TENSORS)), "<threelc.exchange.AllReduce of 3 tensors, step 1>")

    def test_ratios(self):
        for residual, signal, ratio in ((0, 0, 0), (0, 4, 0), (1, 4, 0.5), (9, 1, 3), (1, 0.25, 2), (9, 0, 0)):
            self.assertEqual(exchange.residual_ratio(residual, signal), ratio)
        ranks = ranks_of(2)
        all_reduce(ranks, [gradients(0), gradients(1)])
        stats = ranks[0].stats
        self.assertEqual(stats.push_residual_ratio,
                         (stats.push_residual_squares / stats.push_signal_squares) ** 0.5)
        self.assertEqual(stats.pull_residual_ratio,
                         (stats.pull_residual_squares / stats.pull_signal_squares) ** 0.5)
        self.assertTrue(stats.push_residual_ratio > 0 < stats.pull_residual_ratio)


class States(unittest.TestCase):
    def test_checked(self):
        """What does not fit is refused, unless it is said to be lost, or to be part of several objects' states."""
        full, part = rank_of([Tensor("v", 300), Tensor("w", 300)]), rank_of([Tensor("v", 300)])
        full.push([numpy.arange(300, dtype="f4"), numpy.arange(300, dtype="f4")])
        full.cancel()
        state = full.state_dict()
        for check in (part.check_states, part.load_state_dict, lambda state: part.check_states(state, partly=False),
                      lambda state: part.check_states(state, lost=True, partly=False)):
            with self.assertRaisesRegex(threelc.ParameterError, "would be lost; lost=True takes it for lost"):
                check(state)
        part.check_states(state, partly=True)
        part.check_states(state, lost=True)
        part.load_checked(state)
        part.load_state_dict(state, lost=True)

    def test_ranks_that_are_missing(self):
        """Not taken for lost."""
        states = [rank.state_dict() for rank in ranks_of(3)]
        rank = ranks_of(2)[0]
        for load in rank.load_state_dict, rank.load_checked, rank.check_states:
            with self.assertRaisesRegex(threelc.ParameterError, "state of rank 2 is missing"):
                load(states[:2])
            load(states[:2], lost=True)

    def test_a_step_that_is_under_way(self):
        """Is named before states that are wrong in other ways."""
        rank = rank_of(TENSORS)
        state = rank.state_dict()
        rank.push(gradients(0))
        for wrong in state, {**state, "state": b"x"}:
            with self.assertRaisesRegex(threelc.OrderError, "step 1 is under way"):
                rank.check_states(wrong)
        rank.cancel()
        with self.assertRaises(threelc.CorruptError):
            rank.check_states({**state, "state": b"x"})


class Kept(unittest.TestCase):
    """Memory that C has pointers to."""

    def test_until_the_end_of_the_step(self):
        kept, step = _base.Kept(), 1000
        self.assertEqual(list(kept.views(0)), [])
        with kept.keeping(step, ["a"]):
            self.assertEqual(list(kept.views(int("1000"))), ["a"])
        with kept.keeping(int("1000"), ["b"]):
            self.assertEqual(list(kept.views(step)), ["a", "b"])
        self.assertEqual((list(kept.views(step)), list(kept.views(999)), list(kept.views(1001))), (["b"], [], []))
        kept.end(int("1000"))
        self.assertEqual(list(kept.views(step)), ["b"])
        kept.end(1001)
        self.assertEqual(list(kept.views(step)), [])

    def test_after_failures(self):
        """C has what it had; when the step failed, what came last; when a signal came, perhaps both."""
        for error, left in ((threelc.ParameterError(1, ""), ["a"]), (threelc.StepError(10, ""), ["b"]),
                            (KeyboardInterrupt(), ["a", "b"])):
            kept = _base.Kept()
            with kept.keeping(1, ["a"]):
                pass
            with self.assertRaises(type(error)), kept.keeping(1, ["b"]):
                raise error
            self.assertEqual(list(kept.views(1)), left)


class Pushes(unittest.TestCase):
    def held(self, message):
        """Whether somebody has a view of it."""
        try:
            message.append(1)
        except BufferError:
            return True
        message.pop()
        return False

    def test_a_server_holds_what_it_took(self):
        """Until its answer; no push that is late, or that came before."""
        workers, (server,) = servers_of(workers=2, servers=1, backup=1)
        pushes = [bytearray(worker.push(gradients(i))[0]) for i, worker in enumerate(workers)]
        server.push(pushes[0])
        again = bytearray(pushes[0])
        self.assertTrue(server.push(again).repeated)
        self.assertEqual((self.held(pushes[0]), self.held(again)), (True, False))
        server.reduce()
        self.assertTrue(self.held(pushes[0]))
        answer = server.answer()
        self.assertTrue(server.push(pushes[1]).late)
        self.assertEqual([self.held(push) for push in pushes], [False, False])
        cut = pushes[0][:-1]
        self.assertRaises(threelc.CorruptError, server.push, cut)
        self.assertFalse(self.held(cut))
        workers[0].pull([answer], empty())

    def test_in_any_step(self):
        """After 300 of them, too."""
        config = Config(workers=1, servers=1, push="raw")
        worker, server, rank = Worker(config, 0, ONE), Server(config, 0, ONE), rank_of(push="raw")
        for step in range(1, 301):
            pushed, = worker.push([zeros()])
            self.assertEqual(bytes(worker.again(step)[0]), bytes(pushed))
            message = bytearray(pushed)
            server.push(message)
            server.reduce()
            self.assertTrue(self.held(message))
            worker.pull([server.answer()], [zeros()])
            self.assertFalse(self.held(message))
            averaged = bytearray(rank.push([zeros()])[0])
            rank.average([averaged])
            self.assertTrue(self.held(averaged))
            delta = zeros()
            answer = rank.answer([delta])
            before = sys.getrefcount(delta)
            rank.pull([answer], [zeros()])
            self.assertLess(sys.getrefcount(delta), before)
            self.assertFalse(self.held(averaged))
        self.assertEqual((server.step, rank.step, server.taken(0)), (301, 301, 300))

    def test_messages_of_a_worker_again(self):
        worker, = servers_of(1, 1)[0]
        for given in (1, 0):
            with self.assertRaisesRegex(threelc.OrderError, f"^nothing was pushed in step {given}$"):
                worker.again(given)
        message, = worker.push(gradients(0))
        self.assertRaises(threelc.OrderError, worker.push, gradients(0))
        self.assertEqual([bytes(each) for each in worker.again(1)], [bytes(message)])
        for given in 0, 2:
            with self.assertRaisesRegex(threelc.OrderError, f"^nothing was pushed in step {given}$"):
                worker.again(given)
        worker.join(5)
        for given in 1, 5:
            with self.assertRaisesRegex(threelc.OrderError, f"^nothing was pushed in step {given}$"):
                worker.again(given)
        with mock.patch.object(worker, "_do", side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, worker.push, gradients(0))
        with self.assertRaisesRegex(threelc.OrderError, "^nothing was pushed in step 5$"):
            worker.again(5)
        self.assertRaises(threelc.ParameterError, worker.push, gradients(0), 0.0)
        with self.assertRaisesRegex(threelc.OrderError, "^nothing was pushed in step 5$"):
            worker.again(5)

    def test_outcomes_of_servers(self):
        """That of the server that a call failed for; without an argument that of the first."""
        (worker,), servers = servers_of(1, 2)
        pushed = worker.push(gradients(0))
        answers = answers_of(servers, pushed)
        with self.assertRaises(threelc.CorruptError) as caught:
            worker.pull([answers[0], answers[1][:-1]], empty())
        self.assertEqual(caught.exception.outcome, worker.outcome(1))
        self.assertEqual(worker.outcome(), worker.outcome(0))
        self.assertNotEqual(worker.outcome(0), worker.outcome(1))


class Gossips(unittest.TestCase):
    def nodes(self, kind="dcd", push="raw"):
        return [Gossip(Config(workers=3, push=push), kind, i, *Graph("ring", 3).neighbours(i), ONE, [zeros()])
                for i in range(3)]

    def test_hellos(self):
        """A full one has the model, others have not."""
        node = Gossip(RAW, "dcd", 0, *Graph("ring", 4).neighbours(0), [Tensor("w", 4000)], [zeros(4000)])
        short, full = len(node.hello()), len(node.hello(full=True))
        self.assertEqual(short, len(node.hello(False)))
        self.assertLess(short, 1000)
        self.assertGreater(full, 16000)

    def test_joins_with_its_own_model(self):
        node = self.nodes()[0]
        node.join(7)
        self.assertEqual((node.step, list(node.model("w")), [node.lost(i) for i in range(2)]), (7, [0] * 3, [True] * 2))
        node.join(9, [numpy.full(3, 2, "f4")])
        self.assertEqual((node.step, list(node.model("w"))), (9, [2] * 3))

    def test_models_and_means(self):
        """Of all values of a tensor; they are read-only. An empty one has neither between push and pull."""
        node = self.nodes()[0]
        for found in node.model(0), node.mean(0):
            self.assertEqual((found.format, len(found), found.readonly), ("f", 3, True))
        node = Gossip(RAW, "dcd", 0, *Graph("ring", 4).neighbours(0), [Tensor("w", 3), Tensor("no", 0)],
                      [zeros(), zeros(0)])
        node.push([zeros(), zeros(0)])
        self.assertEqual(len(node.mean("no")), 0)
        self.assertRaises(threelc.OrderError, node.mean, "w")

    def test_frames_made_elsewhere(self):
        """The bytes of what is compressed here."""
        tensors, model = [Tensor("w", 400), Tensor("small", 3)], [zeros(400), zeros()]
        config, near = Config(workers=4, push="natural", seed=5), Graph("ring", 4).neighbours(0)
        host, device = (Gossip(config, "dcd", 0, *near, tensors, model) for _ in range(2))
        moved = [numpy.linspace(-1, 1, 400, dtype="f4"), zeros()]
        part, = device.pushed_parts()
        self.assertEqual((part.tensor, part.first, part.n), (0, 0, 400))
        context = threelc.Context(400, "natural", seed=part.seed)
        context.compress(zeros(400))  # the words of its step 0, where that of the node is 1
        frame = context.compress(moved[0])
        message = bytes(host.push(moved))
        self.assertEqual(bytes(device.push_frames([None, moved[1]], [frame])), message)


if __name__ == "__main__":
    unittest.main()
