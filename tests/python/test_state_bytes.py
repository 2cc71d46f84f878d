# SPDX-License-Identifier: MIT
"""States of workers, servers and ranks against a reader of their format that is independent of the library, and their
histories against an independent hash of the messages."""
import struct
import sys
import unittest
from pathlib import Path

import numpy
from test_exchange import SIZES, TENSORS, empty, gradients
from threelc.exchange import AllReduce, Config, Server, Tensor, Worker

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "vectors"))
from xxh3 import word, xxh3_64  # noqa: E402  pylint: disable=wrong-import-position,import-error


class Reader:
    """A state of a worker, a server or a rank, as src/docs/format.md draws it."""

    def __init__(self, state):
        self._bytes, self._at = bytes(state), 16
        magic, version, of, self.sum, zero, self.step = struct.unpack_from("<4sBBBBQ", self._bytes)
        assert (magic, version, zero) == (b"TLCX", 2, 0)
        self.kind, self.role = of & 15, of >> 4
        self.workers, self.servers, self.rank, entries = (self._number() for _ in range(4))
        self.history = word(self._take(8), 0)
        self.entries = [self._entry() for _ in range(entries)]
        self.taken = [self._number() for _ in range(self.workers if self.role == 2 else 0)]
        assert word(self._take(4), 0, 4) == xxh3_64(self._bytes[:-4]) % 2**32 and self._at == len(self._bytes)

    def _take(self, size):
        self._at += size
        return self._bytes[self._at - size:self._at]

    def _number(self):
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _entry(self):
        flags = self._take(1)[0]
        name = self._take(self._number()).decode()
        n, first, count = (self._number() for _ in range(3))
        codec = self._take(self._number()).decode()
        return flags & 1, name, n, first, count, codec, self._take(4 * count) if flags & 2 else None


def history_of(*messages):
    return sum(xxh3_64(bytes(message)[-4:]) for message in messages) % 2**64


class States(unittest.TestCase):
    """Against the independent reader."""

    def check(self, one, kind, role, rank, history, residuals, step=3):
        found = Reader(one.state_dict()["state"])
        self.assertEqual((found.kind, found.role, found.rank, found.sum, found.step), (kind, role, rank, 0, step))
        self.assertEqual((found.workers, found.servers), (one.config.workers, one.config.servers))
        self.assertEqual((found.history, one.history), (history, history))
        for pull, name, n, first, count, _, residual in found.entries:
            self.assertEqual(n, SIZES[name])
            if not pull:
                self.assertEqual(residual, residuals[name][first:first + count].tobytes())
        self.assertEqual([entry[:2] for entry in found.entries if entry[0]],
                         [(1, TENSORS[part.tensor].name) for part in (one.parts() if role != 1 else [])])
        return found

    def test_of_an_all_reduce(self):
        for gather in (False, True):
            residuals = [{name: numpy.zeros(n, "f4") for name, n in SIZES.items() if n} for _ in range(2)]
            ranks = [AllReduce(Config(workers=2, push="3lc:s=1.5", gather=gather), i, [
                Tensor(name, n, residual=residuals[i].get(name)) for name, n in SIZES.items()]) for i in range(2)]
            for step in range(2):
                to = [[bytes(m) for m in rank.push(gradients(2 * step + i))] for i, rank in enumerate(ranks)]
                last = [messages[0] for messages in to] if gather else [
                    bytes(rank.reduce([messages[i] for messages in to])) for i, rank in enumerate(ranks)]
                for rank in ranks:
                    rank.pull(last, empty())
            for i, rank in enumerate(ranks):
                self.check(rank, 2 if gather else 1, 0, i, history_of(*last), residuals[i])

    def test_of_servers(self):
        config = Config(workers=2, servers=2, push="3lc:s=1.5", split_n=1000)
        residuals = [{name: numpy.zeros(n, "f4") for name, n in SIZES.items() if n} for _ in range(2)]
        workers = [Worker(config, i, [Tensor(name, n, residual=residuals[i].get(name)) for name, n in SIZES.items()])
                   for i in range(2)]
        servers = [Server(config, i, TENSORS) for i in range(2)]
        for step in range(2):
            for i, worker in enumerate(workers):
                for server, message in zip(servers, worker.push(gradients(2 * step + i))):
                    server.push(bytes(message))
            for server in servers:
                server.reduce()
            last = [bytes(server.answer()) for server in servers]
            for worker in workers:
                worker.pull(last, empty())
        for i, worker in enumerate(workers):
            self.check(worker, 3, 1, i, history_of(*last), residuals[i])
        for i, server in enumerate(servers):
            self.assertEqual(self.check(server, 3, 2, i, history_of(last[i]), {}).taken, [2, 2])
