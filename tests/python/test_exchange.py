# SPDX-License-Identifier: MIT
"""The objects of the exchange, each call of them, in one process."""
import random
import unittest

import numpy
import threelc
from threelc import Status
from threelc.exchange import AllReduce, Config, Gossip, GossipKind, Graph, GraphKind, Server, Tensor, Worker

SIZES = {"weight": 70000, "bias": 10, "empty": 0}
TENSORS = [Tensor(name, n) for name, n in SIZES.items()]


def gradients(seed):
    draw = numpy.random.default_rng(seed)
    return [draw.normal(size=n).astype("f4") for n in SIZES.values()]


def empty():
    return [numpy.full(n, 7, "f4") for n in SIZES.values()]


def all_reduce(ranks, given, weights=None):
    """A step; the messages travel as bytes, as over a network."""
    to = [[bytes(message) for message in rank.push(g, w)]
          for rank, g, w in zip(ranks, given, weights or [1.0] * len(ranks))]
    if ranks[0].config.gather:
        last = [messages[0] for messages in to]
    else:
        last = [bytes(rank.reduce([to[j][i] for j in range(len(ranks))])) for i, rank in enumerate(ranks)]
    out = [empty() for _ in ranks]
    for rank, o in zip(ranks, out):
        rank.pull(last, o)
    for o in out[1:]:
        for a, b in zip(out[0], o):
            numpy.testing.assert_array_equal(a, b)
    return out[0]


def ranks_of(workers, **settings):
    return [AllReduce(Config(workers=workers, **settings), i, TENSORS) for i in range(workers)]


def servers_of(workers=3, servers=2, **settings):
    config = Config(workers=workers, servers=servers, **settings)
    return [Worker(config, i, TENSORS) for i in range(workers)], [Server(config, i, TENSORS) for i in range(servers)]


def answers_of(servers, pushed):
    """Of servers whose only worker pushed these messages."""
    answers = []
    for server, message in zip(servers, pushed):
        server.push(message)
        server.reduce()
        answers.append(bytes(server.answer()))
    return answers


class AllReduces(unittest.TestCase):
    def test_mean(self):
        for settings in ({"push": "raw"}, {"push": "raw", "gather": True}, {"push": "raw", "owners": 1}):
            ranks = ranks_of(3, **settings)
            given = [gradients(i) for i in range(3)]
            for got, *g in zip(all_reduce(ranks, given), *given):
                numpy.testing.assert_allclose(got, numpy.mean(g, 0), atol=1e-6)
            got = all_reduce(ranks, [given[0], None, given[2]], [1, 1, 3])
            numpy.testing.assert_allclose(got[0], (given[0][0] + 3 * given[2][0]) / 4, atol=1e-6)
            self.assertEqual(ranks[1].outcome().taken, {0, 2})
        summed = all_reduce(ranks_of(3, push="raw", sum=True), given)
        numpy.testing.assert_allclose(summed[0], numpy.sum([g[0] for g in given], 0), atol=1e-5)

    def test_nothing_is_lost(self):
        """The sum of the results and of all residuals is the sum of the gradients."""
        ranks = ranks_of(2, push="3lc:s=1.5")
        total, sent = 0, 0
        for step in range(10):
            given = [gradients(10 * step + i) for i in range(2)]
            total = total + (given[0][0].astype("f8") + given[1][0]) / 2
            sent = sent + all_reduce(ranks, given)[0].astype("f8")
        left = numpy.zeros(SIZES["weight"])
        for rank in ranks:
            for part in rank.parts():
                if part.tensor == 0:
                    left[part.first:part.first + part.n] += numpy.asarray(part.residual)
                    self.assertEqual(len(part.mean), part.n)
        residuals = [numpy.zeros(SIZES["weight"], "f4") for _ in ranks]
        again = [AllReduce(rank.config, i, [Tensor("weight", SIZES["weight"], residual=residuals[i]), *TENSORS[1:]])
                 for i, rank in enumerate(ranks)]
        for rank, other in zip(ranks, again):
            other.load_state_dict(rank.state_dict())
        numpy.testing.assert_allclose(sent + left + (residuals[0] + residuals[1]) / 2, total, atol=1e-4)

    def test_step_that_fails(self):
        ranks = ranks_of(2)
        given = [gradients(0), gradients(1)]
        given[1][1][3] = numpy.nan
        with self.assertRaises(threelc.StepError) as caught:
            all_reduce(ranks, given)
        self.assertEqual(caught.exception.outcome.cause, Status.NONFINITE)
        self.assertEqual(caught.exception.outcome.rank, 1)
        self.assertIn("rank 1", str(caught.exception))
        with self.assertRaisesRegex(threelc.StepError, 'NaN or infinity in the gradient of tensor "bias"'):
            ranks[1].pull([ranks[i].again(1) for i in range(2)], empty())
        all_reduce(ranks, [gradients(0), gradients(1)])
        self.assertEqual([(rank.stats.steps, rank.stats.failed) for rank in ranks], [(2, 1), (2, 1)])

    def test_other_tensors(self):
        ranks = [AllReduce(Config(workers=2), 0, TENSORS), AllReduce(Config(workers=2, push="sbc"), 1, TENSORS)]
        with self.assertRaisesRegex(threelc.StepError, "codec|configuration"):
            all_reduce(ranks, [gradients(0), gradients(1)])

    def test_hostile_messages(self):
        ranks = ranks_of(2)
        to = [rank.push(gradients(i)) for i, rank in enumerate(ranks)]
        reduced = [bytes(rank.reduce([to[0][i], to[1][i]])) for i, rank in enumerate(ranks)]
        draw = random.Random(1)
        for _ in range(300):
            bad = bytearray(reduced[1])
            for _ in range(draw.randrange(1, 4)):
                bad[draw.randrange(len(bad))] ^= 1 << draw.randrange(8)
            bad = bad[:draw.choice((len(bad), draw.randrange(len(bad))))]
            if bad == reduced[1]:
                continue
            out = empty()
            with self.assertRaises(threelc.Error):
                ranks[0].pull([reduced[0], bad], out)
            self.assertTrue((out[0] == 7).all())
        ranks[0].pull(reduced, empty())
        self.assertEqual(ranks[0].step, 2)
        ranks[1].pull(reduced, empty())
        to = [rank.push(gradients(i)) for i, rank in enumerate(ranks)]
        for i, rank in enumerate(ranks):
            rank.reduce([to[0][i], to[1][i]])
        with self.assertRaisesRegex(threelc.OrderError, "step 1, this is step 2"):
            ranks[0].pull(reduced, empty())

    def test_cancel_and_states(self):
        ranks = ranks_of(3)
        for step in range(3):
            all_reduce(ranks, [gradients(3 * step + i) for i in range(3)])
        states = [rank.state_dict() for rank in ranks]
        for rank in ranks:
            rank.push(gradients(9))
            self.assertRaises(threelc.OrderError, rank.state_dict)
            rank.cancel()
        fewer = ranks_of(2)
        for rank in fewer:
            rank.load_state_dict(states)
            self.assertEqual(rank.outcome().missing, 0)
            self.assertEqual(rank.step, 4)
        means = []
        for same in ranks_of(3), ranks_of(3):
            for rank, state in zip(same, states):
                rank.load_state_dict(state)
            means.append(all_reduce(same, [gradients(20 + i) for i in range(3)])[0])
        numpy.testing.assert_array_equal(*means)
        with self.assertRaisesRegex(ValueError, "of allreduce objects are needed, not of version 1 of worker"):
            fewer[0].load_state_dict({**states[0], "kind": "worker"})
        with self.assertRaises(threelc.CorruptError):
            fewer[0].load_state_dict({**states[0], "state": states[0]["state"][:-1]})

    def average(self, ranks, given):
        to = [[bytes(message) for message in rank.push(g)] for rank, g in zip(ranks, given)]
        for i, rank in enumerate(ranks):
            rank.average([to[j][i] for j in range(len(ranks))])

    def test_optimizers_at_the_owners(self):
        """With raw all ranks get what the owners answer."""
        ranks = ranks_of(2, push="raw", split_n=1000)
        given = [gradients(i) for i in range(2)]
        self.average(ranks, given)
        whole, answers = empty(), []
        for rank in ranks:
            deltas = [-0.5 * numpy.array(part.mean, "f4") for part in rank.parts()]
            for part, delta in zip(rank.parts(), deltas):
                whole[part.tensor][part.first:part.first + part.n] = delta
            self.assertRaisesRegex(ValueError, "delta", rank.answer, deltas[:-1])
            answers.append(bytes(rank.answer(deltas)))
            self.assertRaisesRegex(threelc.OrderError, "answer was called again", rank.answer, deltas)
        for rank in ranks:
            rank.pull(answers, out := empty())
            for a, b, mine, other in zip(out, whole, *given):
                numpy.testing.assert_array_equal(a, b)
                numpy.testing.assert_allclose(a, -0.25 * (mine + other), atol=1e-6)

    def test_owners_when_a_step_fails(self):
        ranks = ranks_of(2)
        self.average(ranks, [gradients(i) for i in range(2)])
        before = [numpy.array(part.residual, "f4") for part in ranks[0].parts()]
        deltas = [numpy.ones(part.n, "f4") for part in ranks[0].parts()]
        ranks[0].answer(deltas)
        del deltas  # cancel reads them
        for rank in ranks:
            rank.cancel()
        for part, residual in zip(ranks[0].parts(), before):
            numpy.testing.assert_allclose(part.residual, residual, atol=1e-6)
        bad = gradients(2)
        bad[1][3] = numpy.nan
        self.assertRaisesRegex(threelc.StepError, 'rank 0: NaN or infinity in the gradient of tensor "bias"',
                               self.average, ranks, [bad, gradients(3)])
        with self.assertRaisesRegex(threelc.OrderError, "pull was called before answer"):
            ranks[0].pull([None, None], empty())

    def test_pushes_are_kept_until_the_answer(self):
        rank, = ranks_of(1, push="raw")
        given = gradients(0)
        message = bytearray(rank.push(given)[0])
        rank.average([message])
        with self.assertRaises(BufferError):
            message.append(1)
        answer = rank.answer()
        message.append(1)
        rank.pull([answer], out := empty())
        numpy.testing.assert_array_equal(out[0], given[0])

    def test_states_that_are_missing(self):
        states = [rank.state_dict() for rank in ranks_of(4)]
        for workers in (2, 3, 5):
            rank = ranks_of(workers)[0]
            for given, words in ((states[:3], "state of rank 3 is"), (states[1::2], "states of ranks 0 and 2 are"),
                                 (states[2:3], "states of ranks 0, 1 and 3 are")):
                with self.assertRaisesRegex(threelc.ParameterError, f"{words} missing.*; lost=True takes"):
                    rank.load_state_dict(given)
                rank.load_state_dict(given, lost=True)
                self.assertRegex(rank.outcome().sentence, words + " lost")
            with self.assertRaisesRegex(threelc.ParameterError, "rank 1 has two states"):
                rank.load_state_dict([*states, states[1]], lost=True)
        rank = ranks_of(4)[1]
        rank.load_state_dict(states[1])
        with self.assertRaisesRegex(threelc.ParameterError, "the state of rank 1 is missing"):
            rank.load_state_dict(states[2])

    def test_residuals_without_a_place(self):
        """They would vanish without a word. The object stays what it was, with the messages that it keeps."""
        ranks = ranks_of(1)
        all_reduce(ranks, [gradients(0)])
        state = ranks[0].state_dict()
        for other in (AllReduce(Config(workers=1, push="raw"), 0, TENSORS),
                      AllReduce(Config(workers=1), 0, [*TENSORS[1:], Tensor("other", 300)])):
            mine = [numpy.zeros(tensor.n, "f4") for tensor in other.tensors]
            kept = bytes(other.reduce([other.push(mine)[0]]))
            other.pull([kept], mine)
            before = other.state_dict()
            for check in other.load_state_dict, other.check_states:
                with self.assertRaisesRegex(threelc.ParameterError, 'without a place here: [1-9].*lost=True takes it'):
                    check(state)
            self.assertEqual(other.state_dict(), before)
            self.assertEqual(bytes(other.again(1)), kept)
            other.load_state_dict(state, lost=True)
        ranks[0].check_states(state)
        ranks[0].push(gradients(1))
        with self.assertRaisesRegex(threelc.OrderError, "step 2 is under way"):
            ranks[0].check_states(state)

    def test_sentences(self):
        def fails(words, *tensors, **settings):
            with self.assertRaisesRegex(threelc.ParameterError, words) as caught:
                AllReduce(Config(**{"workers": 2, **settings}), 1, tensors or TENSORS)
            self.assertEqual(caught.exception.outcome.rank, 1)

        fails('rank 1: push: at 0: "4lc"', push="4lc")
        fails("rank 1: servers is 3; in an all-reduce it is 0", servers=3)
        fails("rank 1: split_n is 0", split_n=0)
        fails(r'rank 1: tensor 1 \("a"\): tensor 0 has this name', Tensor("a", 3), Tensor("a", 4))
        fails(r'rank 1: tensor 0 \("a"\): pull: at 0: "5lc"', Tensor("a", 3, pull="5lc"))
        rank = ranks_of(2)[0]
        for call, words in ((lambda: rank.push(gradients(0), 0.0), "weight is 0; it is"),
                            (lambda: rank.set_codec("weight", "4lc"), r'tensor 0 \("weight"\): push: at 0: "4lc"'),
                            (lambda: rank.residual_scale(numpy.inf), "factor is inf")):
            with self.assertRaisesRegex(threelc.ParameterError, "rank 0: " + words):
                call()
        with self.assertRaisesRegex(threelc.OrderError, "no message of step 9 yet; this is step 1"):
            rank.again(9)
        rank.push(gradients(0))
        with self.assertRaisesRegex(threelc.OrderError, "state_save was called, but step 1 is under way"):
            rank.state_dict()

    def test_float_bytes(self):
        for settings in ({}, {"gather": True}):
            for workers in range(1, 6):
                ranks = ranks_of(workers, push="raw", **settings)
                all_reduce(ranks, [gradients(i) for i in range(workers)])
                sent, floats = (sum(getattr(rank.stats, name) for rank in ranks) for name in ("sent", "float_bytes"))
                self.assertEqual(floats > 0, workers > 1)
                self.assertTrue(floats <= sent <= 1.02 * floats)

    def test_message_bound(self):
        """A push of floats is hardly shorter, in all kinds."""
        workers, servers = servers_of(push="raw", pull="raw")
        nodes = Gossips.make(self, GossipKind.DCD, push="raw")
        gathering = ranks_of(2, push="raw", gather=True)
        for bound, message in [*((server.message_bound, push) for server, push in
                                 zip(servers, workers[0].push(gradients(0)))),
                               (nodes[0].message_bound, nodes[1].hello(full=True)),
                               (gathering[0].message_bound, gathering[1].push(gradients(0))[0])]:
            self.assertTrue(len(message) <= bound <= len(message) + 300, (bound, len(message)))
        self.assertGreater(workers[0].message_bound, servers[0].message_bound // 2)

    def test_frames_of_answers(self):
        """What pull_frames() gives, decoded, is what pull() writes; it says what it takes and when."""
        pulled = []
        for frames in (False, True):
            ranks = ranks_of(2, push="3lc:s=1.5")
            to = [rank.push(gradients(i)) for i, rank in enumerate(ranks)]
            reduced = [bytes(rank.reduce([to[0][i], to[1][i]])) for i, rank in enumerate(ranks)]
            out = empty()
            if frames:
                parts, rank = ranks[1].pulled_parts(), ranks[1]
                self.assertEqual([(p.tensor, len(p.mean), p.residual) for p in parts], [(0, 0, None)] * len(parts))
                self.assertEqual(sum(part.n for part in parts), SIZES["weight"])
                self.assertRaisesRegex(threelc.ParameterError, "its entry of out is NULL", rank.pull_frames, reduced,
                                       [None, None, None])
                found = rank.pull_frames(reduced, [None, *out[1:]])
                for part, frame in zip(parts, found):
                    threelc.decompress(frame, out[0][part.first:part.first + part.n])
                self.assertEqual([len(frame) > 0 for frame in found], [True] * len(parts))
                self.assertRaises(threelc.OrderError, rank.pull_frames, reduced, out)
                self.assertEqual(ranks[0].pull_frames(reduced, empty()), [None] * len(parts))
            else:
                ranks[1].pull(reduced, out)
            pulled.append(out)
        for a, b in zip(*pulled):
            numpy.testing.assert_array_equal(a, b)
        self.assertEqual(ranks_of(2, gather=True)[0].pulled_parts(), [])

    def test_codecs_and_residuals(self):
        ranks = ranks_of(2, push="raw", reserve=["3lc", "sbc"])
        before = sum(len(m) for m in ranks[0].push(gradients(0)))
        for rank in ranks[1:]:
            rank.push(gradients(1))
        for rank in ranks:
            rank.cancel()
            rank.set_codec(None, "3lc")
            rank.set_codec("weight", pull="sbc")
            rank.residual_scale(0.5)
        self.assertLess(sum(len(m) for m in ranks[0].push(gradients(0))) * 10, before)
        for tensor, error in ("nobody", KeyError), (3, IndexError):
            self.assertRaisesRegex(error, f"no tensor {tensor!r}", ranks[0].set_codec, tensor, "3lc")

    def test_arrays_that_are_one(self):
        """Each tensor has a residual, and gets a mean, of its own."""
        one = numpy.zeros(400, "f4")
        tensors = [Tensor("a", 300, residual=one[:300]), Tensor("b", 300, residual=one[100:])]
        with self.assertRaisesRegex(ValueError, "residual of a and residual of b have memory in common"):
            AllReduce(Config(workers=1, push="3lc"), 0, tensors)
        rank = AllReduce(Config(workers=1), 0, [Tensor("a", 300), Tensor("b", 300)])
        with self.assertRaisesRegex(ValueError, r"out\[0\] and out\[1\] have memory in common"):
            rank.pull([None], out=[one[:300], one[:300]])

    def test_mask(self):
        ranks = ranks_of(2, push="sbc:p=0.01", gather=True)
        given = [gradients(i) for i in range(2)]
        all_reduce(ranks, given)
        momentum = numpy.ones(SIZES["weight"], "f4")
        ranks[0].mask([momentum, None, None])
        self.assertEqual(int((momentum == 0).sum()), 700)

    def test_messages_outlive_the_object(self):
        """A view of a message keeps the object's memory."""
        messages = AllReduce(Config(workers=2), 0, TENSORS).push(gradients(0))
        self.assertGreater(sum(bytes(messages[1])), 0)
        with self.assertRaises(TypeError):
            messages[0][0] = 1

    def test_wrong_arguments(self):
        rank = ranks_of(2)[0]
        for call, words in (
                (lambda: rank.push(gradients(0)[:2]), "gradients should have 3 arrays, not 2"),
                (lambda: rank.push([g[:5] for g in gradients(0)]), r"gradients\[0\] should have 70000 values, not 5"),
                (lambda: rank.reduce([b""]), "2 messages are needed, not 1"),
                (lambda: AllReduce(Config(workers=2**32 + 2), 0, TENSORS), "workers"),
                (lambda: AllReduce(Config(workers=2), -1, TENSORS), "rank"),
                (lambda: rank.again(-1), "step")):
            with self.assertRaisesRegex(ValueError, words):
                call()

    def test_halves_and_threads(self):
        out = []
        for threads in (None, 2):
            ranks = [AllReduce(Config(workers=2, dtype="f16", threads=threads), i, TENSORS) for i in range(2)]
            given = [[g.astype("f2") for g in gradients(i)] for i in range(2)]
            to = [rank.push(g) for rank, g in zip(ranks, given)]
            reduced = [rank.reduce([to[0][i], to[1][i]]) for i, rank in enumerate(ranks)]
            out.append([numpy.zeros(n, "f2") for n in SIZES.values()])
            ranks[1].pull(reduced, out[-1])
        numpy.testing.assert_array_equal(out[0][0], out[1][0])
        self.assertTrue(out[0][0].any())


class Gossips(unittest.TestCase):
    def make(self, kind, nodes=4, push="qsgd:bits=8"):
        graph = Graph(GraphKind.RING, nodes)
        model = [numpy.zeros(n, "f4") for n in SIZES.values()]
        return [Gossip(Config(workers=nodes, push=push), kind, i, *graph.neighbours(i), TENSORS, model)
                for i in range(nodes)]

    def step(self, nodes, given):
        moved = [[numpy.asarray(node.mean(t)) - numpy.float32(0.1) * g for t, g in enumerate(gs)]
                 for node, gs in zip(nodes, given)]
        messages = [bytes(node.push(m)) for node, m in zip(nodes, moved)]
        for node in nodes:
            node.pull([messages[j] for j in node.neighbours])

    def greet(self, nodes):
        hellos = [bytes(node.hello()) for node in nodes]
        for node in nodes:
            node.greet([hellos[j] for j in node.neighbours])

    def test_codec_by_default(self):
        nodes = self.make(GossipKind.DCD, push=None)
        self.step(nodes, [gradients(i) for i in range(4)])
        self.assertTrue(2 * 70000 < nodes[0].stats.sent < 2 * 70200)  # a byte for each value, to two neighbours
        with self.assertRaisesRegex(threelc.ParameterError, 'node 0: push: "3lc" has a bias or keeps a residual'):
            self.make(GossipKind.DCD, push="3lc")

    def test_replicas(self):
        for kind in GossipKind:
            nodes = self.make(kind)
            self.greet(nodes)
            for step in range(3):
                self.step(nodes, [gradients(4 * step + i) for i in range(4)])
            self.greet(nodes)
            for node in nodes:
                self.assertEqual(node.step, 4)
                self.assertEqual(node.outcome().cause, Status.OK)
            self.assertTrue(numpy.asarray(nodes[0].model("weight")).any())

    def test_raw_is_plain_gossip(self):
        nodes = self.make(GossipKind.DCD, push="raw")
        given = [gradients(i) for i in range(4)]
        self.step(nodes, given)
        numpy.testing.assert_allclose(nodes[1].model(0), -0.1 * given[1][0], atol=1e-6)
        numpy.testing.assert_allclose(nodes[1].mean(0), -0.1 * numpy.mean([g[0] for g in given[:3]], 0), atol=1e-6)

    def test_lost_and_joined(self):
        nodes = self.make(GossipKind.DCD)
        given = [gradients(i) for i in range(4)]
        moved = [[numpy.asarray(node.mean(t)) + g for t, g in enumerate(gs)] for node, gs in zip(nodes, given)]
        messages = [bytes(node.push(m)) for node, m in zip(nodes, moved)]
        with self.assertRaisesRegex(threelc.OrderError, "no mean between push and pull"):
            nodes[0].mean(0)
        self.assertEqual(bytes(nodes[0].again(1)), messages[0])
        nodes[0].lose(0)
        self.assertEqual([nodes[0].lost(0), nodes[0].lost(1)], [True, False])
        nodes[0].pull([None, messages[nodes[0].neighbours[1]]])
        nodes[0].join(5, [numpy.ones(n, "f4") for n in SIZES.values()])
        self.assertTrue(nodes[0].lost(1))
        self.assertEqual(nodes[0].step, 5)
        self.assertEqual(list(nodes[0].model("bias")), [1] * 10)

    def test_states(self):
        nodes = self.make(GossipKind.ECD)
        self.step(nodes, [gradients(i) for i in range(4)])
        states = [node.state_dict() for node in nodes]
        mean = numpy.mean([numpy.asarray(node.model(0)) for node in nodes], 0)
        fewer = self.make(GossipKind.ECD, nodes=3)
        for node in fewer:
            node.load_state_dict(states)
        numpy.testing.assert_allclose(fewer[0].model(0), mean, atol=1e-6)
        nodes[0].set_codec(None, "qsgd:bits=4")

    def test_graphs(self):
        self.assertEqual(Graph(GraphKind.RING, 4).neighbours(0)[0], [1, 3])
        self.assertEqual(Graph(GraphKind.TORUS, 9, rows=3).neighbours(4)[0], [1, 3, 5, 7])
        neighbours, weights = Graph(GraphKind.RANDOM, 8, p=0.5, seed=3).neighbours(2)
        self.assertEqual(len(weights), len(neighbours) + 1)
        self.assertAlmostEqual(sum(weights), 1)
        self.assertEqual(Graph(GraphKind.COMPLETE, 1).neighbours(0), ([], [1.0]))
        self.assertRaises(ValueError, Graph(GraphKind.RING, 4).neighbours, 4)
        self.assertRaises(ValueError, Graph(GraphKind.TORUS, 4, rows=3).neighbours, 0)

    def test_wrong_arguments(self):
        with self.assertRaisesRegex(ValueError, "2 neighbours need 3 weights"):
            Gossip(Config(workers=4, push="raw"), GossipKind.DCD, 0, [1, 3], [0.5, 0.5], TENSORS, empty())
