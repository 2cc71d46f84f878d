# SPDX-License-Identifier: MIT
"""Servers and workers of the exchange, in one process."""
import unittest

import numpy
import threelc

from test_exchange import SIZES, TENSORS, answers_of, empty, gradients, servers_of
from threelc.exchange import Worker


class Servers(unittest.TestCase):
    def test_steps(self):
        workers, servers = servers_of(push="raw")
        model = [numpy.zeros(n, "f4") for n in SIZES.values()]
        for step in range(3):
            given = [gradients(3 * step + i) for i in range(3)]
            pushed = [worker.push(g) for worker, g in zip(workers, given)]
            answers = []
            for i, server in enumerate(servers):
                for j, messages in enumerate(pushed):
                    self.assertFalse(server.ready())
                    info = server.push(messages[i])
                    self.assertEqual((info.worker, info.step, info.late, info.repeated), (j, step + 1, False, False))
                self.assertTrue(server.push(pushed[0][i]).repeated)
                self.assertTrue(server.ready())
                server.reduce()
                delta = [numpy.asarray(part.mean) * numpy.float32(-0.5) for part in server.parts()]
                answers.append(server.answer(delta))
            for worker in workers:
                out = empty()
                worker.pull(answers, out)
                self.assertEqual(worker.outcome(1).taken, {0, 1, 2})
            for m, o, *g in zip(model, out, *given):
                numpy.testing.assert_allclose(o, -0.5 * numpy.mean(g, 0), atol=1e-6)
                m += o
        self.assertEqual([server.taken(2) for server in servers], [3, 3])
        self.assertEqual(workers[0].stats.steps, 3)
        self.assertEqual(bytes(servers[0].again(3)), bytes(answers[0]))
        with self.assertRaises(ValueError):
            servers[0].again(2**64)

    def test_late_and_joining(self):
        workers, servers = servers_of(workers=2, servers=1, backup=1)
        late = bytes(workers[1].push(gradients(1))[0])
        for step in range(2):
            servers[0].push(workers[0].push(gradients(step))[0])
            self.assertTrue(servers[0].ready())
            servers[0].reduce()
            answer = servers[0].answer()
            workers[0].pull([answer], empty())
        self.assertTrue(servers[0].push(late).late)
        workers[1].pull([servers[0].again(1)], empty())
        workers[1].pull([servers[0].again(2)], empty())
        self.assertEqual(workers[1].step, servers[0].step)
        workers[1].join(9, [servers[0].taken(1)])
        self.assertEqual(workers[1].step, 9)
        with self.assertRaisesRegex(ValueError, "taken should have 1 steps, not 2"):
            workers[1].join(10, [0, 0])

    def test_failures_name_the_server(self):
        workers, servers = servers_of(workers=1)
        pushed = workers[0].push(gradients(0))
        answers = answers_of(servers, pushed)
        with self.assertRaises(threelc.CorruptError) as caught:
            workers[0].pull([answers[0], answers[1][:-1]], empty())
        self.assertNotEqual(caught.exception.outcome.sentence, workers[0].outcome(0).sentence)
        workers[0].pull(answers, empty())
        momentum = numpy.ones(SIZES["weight"], "f4")
        workers[0].mask([momentum, None, None])
        self.assertTrue((momentum == 0).any())

    def test_frames_made_elsewhere(self):
        """Messages and results are the same; of a server on which the step failed there are no frames."""
        (host,), servers = servers_of(workers=1, push="3lc:s=1.5")
        device = Worker(host.config, 0, TENSORS)
        parts = device.pushed_parts()
        self.assertEqual([(p.tensor, len(p.mean), len(p.residual) == p.n) for p in parts], [(0, 0, True)] * len(parts))
        contexts = [threelc.Context(part.n, "3lc:s=1.5") for part in parts]
        for fails in (False, True):
            given = gradients(5)
            frames = [context.compress(given[0][part.first:part.first + part.n])
                      for context, part in zip(contexts, parts)]
            pushed = [bytes(message) for message in host.push(given)]
            self.assertEqual([bytes(message) for message in device.push_frames([None, *given[1:]], frames)], pushed)
            answers, out, wanted = [], empty(), empty()
            for i, server in enumerate(servers):
                server.push(pushed[i])
                server.reduce()
                bad = [numpy.full(part.n, numpy.nan, "f4") for part in server.parts()]
                answers.append(bytes(server.answer(bad if fails and i else None)))
            if fails:
                self.assertRaises(threelc.StepError, host.pull, answers, wanted)
                with self.assertRaises(threelc.StepError) as caught:
                    device.pull_frames(answers, [None, *out[1:]])
                found = caught.exception.frames
            else:
                host.pull(answers, wanted)
                found = device.pull_frames(answers, [None, *out[1:]])
            for part, frame in zip(device.pulled_parts(), found):
                if frame is not None:
                    threelc.decompress(frame, out[0][part.first:part.first + part.n])
            for a, b in zip(out, wanted):
                numpy.testing.assert_array_equal(a, b)
            self.assertEqual(None in found, fails)
            self.assertGreater(sum(frame is not None for frame in found), 0)

    def test_states(self):
        workers, servers = servers_of()
        states = [[object.state_dict() for object in objects] for objects in (workers, servers)]
        for objects, saved in zip(servers_of(), states):
            for object, state in zip(objects, saved):
                object.load_state_dict(state)
                object.residual_scale(2.0)
                object.set_codec("weight", "3lc:s=1.9")
                self.assertNotEqual(object.state_dict(), state)  # the codec
        more, _ = servers_of(workers=5)
        for worker in more:
            worker.load_state_dict(states[0])

    def test_a_push_is_kept(self):
        """The server decodes the bytes in reduce: they live until then, although nobody else holds them."""
        workers, servers = servers_of(workers=1, servers=1, push="raw")
        given = gradients(0)
        message = bytearray(workers[0].push(given)[0])
        servers[0].push(message)
        with self.assertRaises(BufferError):
            message.append(1)
        del message
        servers[0].reduce()
        workers[0].pull([servers[0].answer()], out := empty())
        numpy.testing.assert_array_equal(out[0], given[0])
