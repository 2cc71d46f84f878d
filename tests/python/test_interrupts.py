# SPDX-License-Identifier: MIT
"""An exception of a signal may come before any line of Python. So for k = 1, 2, ... it is raised before the k-th line
of each call of the package, and at the k-th return, until a call is through. Afterwards the object has made the call or
has not, holds what C has pointers to, and goes on; what a call writes is as before it or as after it.

The calls are made in a process where memory that is freed loses its values. test_interrupts.py [GROUP [EVERY]]: by
hand, one of so many points.
"""
import gc
import io
import os
import subprocess
import sys
import unittest
from pathlib import Path

import numpy
import threelc
from threelc import _bundles, exchange
from threelc.exchange import AllReduce, Config, Gossip, GossipKind, Server, Tensor, Worker

PACKAGE = str(Path(threelc.__file__).resolve().parent)
EVERY = 5  # points of which one is tried here
N = 1 << 15  # values: so much that threads divide it
RANDOM = numpy.random.default_rng(1)
GRADIENT = RANDOM.standard_normal(N).astype("f4")
NEXT = (GRADIENT * (1 + 1e-6 * (RANDOM.random(N) < 0.1))).astype("f4")


class Cut(BaseException):
    """As KeyboardInterrupt."""


def cut(k, function, *arguments):
    """What it returned; whether it was cut before its k-th line."""
    left, was_cut = k, False

    def trace(frame, event, _):
        nonlocal left, was_cut
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event in ("line", "return"):
            left -= 1
            if left == 0:
                was_cut = True
                raise Cut
        return trace

    found = None
    sys.settrace(trace)
    try:
        found = function(*arguments)
    except Cut:
        pass
    finally:
        sys.settrace(None)
    gc.collect(0)
    return found, was_cut


def points(make, call, check, every=1):
    """How many points a call has, of which it is cut at each `every`-th. make() returns what call() and check() are
    given; check() also what the call returned and whether it was cut."""
    for k in range(1, 100000, every):
        given = make()
        found, was_cut = cut(k, call, *given)
        check(*given, found, was_cut)
        if not was_cut:
            return (k - 1) // every
    raise AssertionError("the call does not end")


def either(found, before, after, was_cut, what):
    """Bits of before or after; after, if the call was not cut."""
    found, before, after = (numpy.asarray(each).tobytes() for each in (found, before, after))
    assert found == after or (was_cut and found == before), what


# ---- tensors ----

def context(threads=None):
    made = threelc.Context(N, "3lc:block=1024", threads=threads, reserve=["raw"])
    made.compress(GRADIENT)
    return made


def contexts():
    def residual(made):
        return numpy.array(made.residual)

    expected = context()
    before = residual(expected)
    frame = expected.compress(NEXT)
    after = residual(expected)
    state = expected.state_dict()
    last = expected.compress(GRADIENT)

    def check_compress(made, found, was_cut):
        either(residual(made), before, after, was_cut, "another residual")
        assert was_cut or bytes(found) == frame, "another frame"
        if residual(made).tobytes() == before.tobytes():
            assert made.compress(NEXT) == frame
        assert made.compress(GRADIENT) == last, "it does not go on"

    def check_whole(made, found, was_cut):
        assert found is not None or was_cut
        assert made.compress(NEXT) == frame, "another state"

    def check_loaded(made, _, was_cut):
        either(residual(made), before, after, was_cut, "a state in part")
        made.load_state_dict(state)
        assert made.compress(GRADIENT) == last

    def check_made(found, was_cut):
        assert was_cut or found.compress(GRADIENT)

    def one(threads=None):
        return lambda: (context(threads),)

    room = bytearray(context().bound)
    return [
        (tuple, context, check_made),
        (one(), lambda made: made.compress(NEXT), check_compress),
        (one(2), lambda made: made.compress(NEXT), check_compress),
        (one(2), lambda made: memoryview(room)[:made.compress_into(NEXT, room)], check_compress),
        (one(), lambda made: made.state_dict(), check_whole),
        (one(2), lambda made: made.load_state_dict(state), check_loaded),
        (one(), lambda made: made.set_codec("3lc:block=1024") or 1, check_whole),
        (one(), lambda made: made.residual_scale(1.0) or 1, check_whole),
    ]


def frames():
    frame = threelc.Context(N, "3lc").compress(GRADIENT)
    values, zeros = threelc.decompress(frame), numpy.zeros(N, "f4")
    bundle = _bundles.pack([frame, b"", frame])

    def out():
        return (zeros.copy(),)

    def check(out, _, was_cut):
        either(out, zeros, values, was_cut, "decoded in part")

    def same(*given):
        *_, found, was_cut = given
        assert was_cut or found

    return [
        (out, lambda out: threelc.decompress(frame, out), check),
        (out, lambda out: threelc.decompress_add(frame, out), check),
        (out, lambda out: threelc.decompress_add_many([frame], out), check),
        (tuple, lambda: threelc.inspect(frame), same),
        (tuple, lambda: _bundles.pack([frame, frame]), same),
        (tuple, lambda: [bytes(each) for each in _bundles.unpack(bundle)] == [frame, b"", frame], same),
    ]


def deltas():
    frame = threelc.delta.compress(GRADIENT, NEXT, block_digests=True)
    back = threelc.delta.compress(NEXT, GRADIENT)
    at = numpy.flatnonzero(GRADIENT != NEXT)

    def weights():
        return (GRADIENT.copy(),)

    def check(weights, _, was_cut):
        either(weights, GRADIENT, NEXT, was_cut, "applied in part")

    def same(found, was_cut):
        assert was_cut or found

    def calls(threads):
        return [
            (weights, lambda weights: threelc.delta.apply(frame, weights, threads=threads), check),
            (weights, lambda weights: threelc.delta.repair(frame, weights, threads=threads), check),
            (weights, lambda weights: threelc.delta.apply_range(frame, weights, weights, n=N, first=0,
                                                                threads=threads), check),
            (tuple, lambda: threelc.delta.compress(GRADIENT, NEXT, threads=threads, block_digests=True) == frame, same),
            (tuple, lambda: threelc.delta.fold([frame, back], threads=threads), same),
        ]

    return [
        *calls(None), *calls(2),
        (tuple, lambda: threelc.delta.from_changes(at, GRADIENT[at], NEXT[at], N), same),
        (tuple, lambda: list(threelc.delta.changes(frame)), same),
        (tuple, lambda: threelc.delta.inspect(frame), same),
        (tuple, lambda: threelc.delta.digest(NEXT, threads=2), same),
    ]


# ---- the exchange ----

TENSORS = [Tensor("w", N, push="raw", pull="raw"), Tensor("v", 300, push="raw", pull="raw")]
GIVEN = [GRADIENT, NEXT[:300].copy()]


def tried(call):
    """Again, after a call that was cut. None: it was made then."""
    try:
        return call()
    except threelc.OrderError:
        return None


def fresh(message):
    """The message in memory that nobody else has, and that goes with the last who holds it."""
    return numpy.frombuffer(bytes(message), "u1").copy()


def servers(threads):
    """A step of a worker and a server, of which one call is cut."""
    config = Config(workers=1, servers=1, threads=threads)

    def at(number):
        def make():
            worker, server = Worker(config, 0, TENSORS), Server(config, 0, TENSORS)
            pushed = answer = None
            if number > 0:
                pushed = bytes(worker.push(GIVEN)[0])
            if number > 1:
                server.push(fresh(pushed))
            if number > 2:
                server.reduce()
            if number > 3:
                answer = bytes(server.answer())
            return worker, server, pushed, answer, [numpy.zeros(tensor.n, "f4") for tensor in TENSORS]
        return make

    def go_on(first):
        def check(worker, server, pushed, answer, out, found, was_cut):
            if first == 0:
                pushed = found and bytes(found[0]) or tried(lambda: bytes(worker.push(GIVEN)[0]))
                if pushed is None:  # what it returned is lost: it comes again
                    pushed = bytes(worker.again(1)[0])
            if first <= 1 and (first == 0 or was_cut):
                server.push(fresh(pushed))
            if first <= 2 and (first < 2 or was_cut):
                tried(server.reduce)
            if first <= 3:
                answer = found if first == 3 and found is not None else tried(server.answer)
                answer = bytes(server.again(1) if answer is None else answer)
            if first < 4 or was_cut:
                tried(lambda: worker.pull([fresh(answer)], out))
            assert [values.tobytes() for values in out] == [values.tobytes() for values in GIVEN], "another mean"
            assert (worker.step, server.step) == (2, 2), "it does not go on"
            worker.state_dict(), server.state_dict()
        return check

    calls = [
        lambda worker, server, pushed, answer, out: worker.push(GIVEN),
        lambda worker, server, pushed, answer, out: server.push(fresh(pushed)),
        lambda worker, server, pushed, answer, out: server.reduce(),
        lambda worker, server, pushed, answer, out: server.answer(),
        lambda worker, server, pushed, answer, out: worker.pull([fresh(answer)], out),
    ]

    def by_frames(worker, server, *_):  # the push of one worker may be the answer, too
        came = server.owned_frames()
        assert any(came)
        server.reduce_rest(i for i, part in enumerate(came) if part)
        return server.answer_frames(None, [fresh(part[0][0]) if part else None for part in came])

    def after_frames(worker, server, pushed, answer, out, found, was_cut):
        if was_cut:
            tried(server.reduce)
            found = tried(lambda: server.answer([GIVEN[part.tensor][part.first:part.first + part.n]
                                                 for part in server.parts()]))
        go_on(4)(worker, server, pushed, bytes(server.again(1) if found is None else found), out, None, True)

    return [(at(2), by_frames, after_frames), *((at(i), call, go_on(i)) for i, call in enumerate(calls))]


def allreduces(threads):
    """A step of a rank alone, of which one call is cut: it is cancelled, and the next one is right."""
    config = Config(workers=1, threads=threads)

    def at(number):
        def make():
            rank = AllReduce(config, 0, TENSORS)
            pushed = answer = None
            if number > 0:
                pushed = bytes(rank.push(GIVEN)[0])
            if number > 1:
                rank.average([fresh(pushed)])
            if number > 2:
                answer = bytes(rank.answer([numpy.array(part.mean) for part in rank.parts()]))
            return rank, pushed, answer
        return make

    def whole_step(rank, _, __, found, was_cut):
        if rank.step == 1:  # it may be under way
            tried(rank.cancel)
        out = [numpy.zeros(tensor.n, "f4") for tensor in TENSORS]
        to = [bytes(message) for message in rank.push(GIVEN)]
        rank.average([fresh(to[0])])
        rank.pull([fresh(rank.answer([numpy.array(part.mean) for part in rank.parts()]))], out)
        assert [values.tobytes() for values in out] == [values.tobytes() for values in GIVEN], "another mean"
        rank.state_dict()

    out = [numpy.zeros(tensor.n, "f4") for tensor in TENSORS]
    calls = [
        lambda rank, pushed, answer: rank.push(GIVEN),
        lambda rank, pushed, answer: rank.average([fresh(pushed)]),
        lambda rank, pushed, answer: rank.answer([numpy.array(part.mean) for part in rank.parts()]),
        lambda rank, pushed, answer: rank.pull([fresh(answer)], out),
    ]
    found = [(at(i), call, whole_step) for i, call in enumerate(calls)]
    found += [(at(i), lambda rank, pushed, answer: rank.cancel(), whole_step) for i in (1, 2, 3)]
    found.append((at(1), lambda rank, pushed, answer: rank.reduce([fresh(pushed)]), whole_step))

    def reduce_frames(rank, pushed, _):  # a push of one rank may be its answer, too
        came = rank.owned_frames([fresh(pushed)])
        assert any(came)
        return rank.reduce_frames([fresh(pushed)], [fresh(part[0][0]) if part else None for part in came])

    found.append((at(1), reduce_frames, whole_step))
    return found


def gossips():
    """Two nodes; a call of one of them is cut."""
    def nodes():
        config = Config(workers=2, push="raw")
        tensors = [Tensor(tensor.name, tensor.n, push="raw") for tensor in TENSORS]
        return [Gossip(config, GossipKind.DCD, i, [1 - i], [0.5, 0.5], tensors, GIVEN) for i in range(2)]

    moved = [-values for values in GIVEN]

    def check_push(one, other, found, was_cut):
        message = found if found is not None else tried(lambda: one.push(moved))
        message = bytes(one.again(1) if message is None else message)
        theirs = bytes(other.push(moved))
        one.pull([fresh(theirs)])
        other.pull([fresh(message)])
        assert bytes(one.model("w")) == bytes(other.model("w")) == moved[0].tobytes(), "another model"

    def pushed():
        one, other = nodes()
        return one, other, bytes(one.push(moved)), bytes(other.push(moved))

    def check_pull(one, other, mine, theirs, _, was_cut):
        if was_cut:
            tried(lambda: one.pull([fresh(theirs)]))
        other.pull([fresh(mine)])
        assert one.step == other.step == 2
        assert bytes(one.model("w")) == bytes(other.model("w")) == moved[0].tobytes(), "another model"

    return [
        (nodes, lambda one, other: one.push(moved), check_push),
        (pushed, lambda one, other, mine, theirs: one.pull([fresh(theirs)]), check_pull),
    ]


def exchanges():
    def same(*given):
        *_, found, was_cut = given
        assert was_cut or found

    return [*servers(None), *servers(2), *allreduces(None), *allreduces(2), *gossips(),
            (lambda: (exchange.Graph(exchange.GraphKind.RING, 4),), lambda graph: graph.neighbours(1), same)]


# ---- messages of weights ----

def messages():
    def write(file):
        writer = threelc.weights.Writer(file, trainer=bytes(16), sequence=1, count=2, note=b"note")
        for name in "vw":
            writer.add(name, threelc.delta.compress(GRADIENT, NEXT), (N,))
        writer.finish()

    file = io.BytesIO()
    write(file)
    whole = file.getvalue()

    def check_written(file, _, was_cut):
        found = file.getvalue()
        assert found == whole or was_cut
        try:
            threelc.weights.Reader(found)
        except threelc.CorruptError:
            assert was_cut and found != whole, "a message that is whole is refused"
        else:
            assert found == whole, "a message in part is taken"

    def served():
        return ({name: GRADIENT.copy() for name in "vw"},)

    def reader(source, threads):
        return lambda arrays: threelc.weights.Reader(source(), threads=threads).apply(arrays)

    def check_read(arrays, _, was_cut):
        for name in "vw":
            either(arrays[name], GRADIENT, NEXT, was_cut, "another tensor")
        assert arrays["v"].tobytes() == arrays["w"].tobytes(), "a message was taken in part"

    return [
        (lambda: (io.BytesIO(),), write, check_written),
        (served, reader(lambda: whole, None), check_read), (served, reader(lambda: whole, 2), check_read),
        (served, reader(lambda: io.BytesIO(whole), 2), check_read),
    ]


GROUPS = {"contexts": contexts, "frames": frames, "deltas": deltas, "exchanges": exchanges, "messages": messages}


class Points(unittest.TestCase):
    def group(self, name):
        environment = {**os.environ, "PYTHONPATH": str(Path(PACKAGE).parent), "PYTHONMALLOC": "malloc",
                       "MALLOC_PERTURB_": "165", "OMP_NUM_THREADS": "1"}
        found = subprocess.run([sys.executable, "-X", "faulthandler", __file__, name, str(EVERY)], env=environment,
                               capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual((found.returncode, found.stderr), (0, ""))
        self.assertIn("none broken", found.stdout)

    def test_contexts(self):
        self.group("contexts")

    def test_frames(self):
        self.group("frames")

    def test_deltas(self):
        self.group("deltas")

    def test_exchanges(self):
        self.group("exchanges")

    def test_messages(self):
        self.group("messages")


if __name__ == "__main__":
    for each in sys.argv[1:2] or GROUPS:
        counts = [points(*case, *map(int, sys.argv[2:])) for case in GROUPS[each]()]
        print(f"{each}: {len(counts)} calls, {sum(counts)} points, none broken")
