# SPDX-License-Identifier: MIT
"""Tensors without memory, memory that is taken away, and what autograd knows of tensors that are written:
all ways to give the package a tensor."""
import unittest
import warnings

import numpy
import threelc
import torch
from threelc import _arrays
from threelc.exchange import AllReduce, Config, Gossip, GossipKind, Graph, GraphKind, Server, Tensor, Worker

N = 1000
ODD = torch.arange(N, dtype=torch.float32) - 499.5


class Wrapper(torch.Tensor):
    """A tensor that stands for another one, as DTensor does."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype, device=inner.device)

    def __init__(self, inner):
        self.inner = inner

    __torch_dispatch__ = classmethod(lambda cls, function, types, args=(), kwargs=None: NotImplemented)


def freed(n=N):
    tensor = torch.ones(n)
    storage(tensor).resize_(0)
    return tensor


def storage(tensor):
    if hasattr(tensor, "untyped_storage"):
        return tensor.untyped_storage()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tensor.storage()


def shortened():
    """A tensor whose shape reaches beyond its storage, by one value."""
    tensor = torch.ones(N)
    storage(tensor).resize_((N - 1) * (4 if hasattr(tensor, "untyped_storage") else 1))
    return tensor


def tail_of_shortened():
    tensor = torch.ones(2 * N)
    tail = tensor[N:]
    storage(tensor).resize_(N * (4 if hasattr(tensor, "untyped_storage") else 1))
    return tail


def negated():
    """A view whose values have another sign than its memory."""
    return torch.zeros(N, dtype=torch.complex64).imag.contiguous() if not hasattr(torch, "_neg_view") else \
        torch._neg_view(torch.ones(N))


def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        return torch.ones(N)


def strange():
    """name, tensor, error, words"""
    quantized = torch.quantize_per_tensor(torch.ones(N), 0.1, 0, torch.quint8)
    found = [
        ("freed", freed(), ValueError, "is a Tensor of 1000 values without memory for them: 4000 bytes are needed, its "
                                       "storage has 0"),
        ("shortened", shortened(), ValueError, "4000 bytes are needed, its storage has 3996"),
        ("tail", tail_of_shortened(), ValueError, "8000 bytes are needed, its storage has 4000"),
        ("wrapper", Wrapper(torch.ones(N)), ValueError, "is a Wrapper of 1000 values without memory .* to_local"),
        ("parameter", torch.nn.Parameter(freed(), requires_grad=False), ValueError, "is a Parameter of 1000 values wi"),
        ("fake", fake(), ValueError, "is a FakeTensor of 1000 values without memory"),
        ("meta", torch.ones(N, device="meta"), TypeError, "is on meta"),
        ("sparse", torch.ones(N).to_sparse(), TypeError, "has the layout torch.sparse_coo; a dense tensor is needed"),
        ("quantized", quantized, TypeError, r"is quantized \(torch.quint8\)"),
        ("nested", torch.nested.nested_tensor([torch.ones(400), torch.ones(600)]), TypeError, "is a nested tensor"),
        ("lazy", torch.nn.UninitializedParameter(requires_grad=False), ValueError, "without a shape yet"),
        ("negated", negated(), ValueError, r"another sign than its memory; give .*resolve_neg\(\)"),
        ("expanded", torch.ones(1).expand(N), ValueError, "is not contiguous"),
        ("strided", torch.ones(2 * N)[::2], ValueError, "is not contiguous"),
        ("complex", torch.ones(N, dtype=torch.complex64), TypeError, "complex64"),
        ("double", torch.ones(N, dtype=torch.float64), TypeError, "float64"),
        ("bool", torch.ones(N, dtype=torch.bool), TypeError, "bool")]
    if torch.backends.mkldnn.is_available():
        found.append(("mkldnn", torch.ones(N).to_mkldnn(), TypeError, "has the layout torch._mkldnn"))
    return found


def entries():
    """name, call(tensor) for each way to give float32 values to the package, with what they need; all are of N values
    and may be called again. Those that only read are first, those that write follow: their names begin with "to ".
    """
    raw = Config(workers=1, push="raw")
    frame = threelc.Context(N, "raw").compress(ODD)
    base, following = torch.zeros(N), ODD.clone()
    delta = threelc.delta.compress(base, following)

    def pulled(out, config=raw):
        rank = AllReduce(config, 0, [Tensor("w", N)])
        rank.pull([rank.reduce(rank.push([ODD]))], [out])
        return rank

    def served(out, delta=None):
        config = Config(workers=1, servers=1, push="raw")
        worker, server = Worker(config, 0, [Tensor("w", N)]), Server(config, 0, [Tensor("w", N)])
        server.push(worker.push([ODD])[0])
        server.reduce()
        worker.pull([server.answer(None if delta is None else [delta])], [out])

    def gossiped(moved, model=None):
        config = Config(workers=3, push="raw")
        node = Gossip(config, GossipKind.DCD, 0, *Graph(GraphKind.RING, 3).neighbours(0), [Tensor("w", N)],
                      [torch.zeros(N) if model is None else model])
        node.push([moved])

    def applied(out):
        with torch.no_grad():
            out.zero_()
        threelc.delta.apply(delta, out)

    def context_with(residual):
        threelc.Context(N, residual=residual).compress(ODD)

    return {
        "gradient": lambda t: threelc.Context(N).compress(t),
        "accumulated": lambda t: threelc.Context(N).accumulate(t),
        "base": lambda t: threelc.delta.compress(t, following),
        "next": lambda t: threelc.delta.compress(base, t),
        "digest": threelc.delta.digest,
        "pushed": lambda t: AllReduce(raw, 0, [Tensor("w", N)]).push([t]),
        "pushed to servers": lambda t: Worker(Config(workers=1, servers=1), 0, [Tensor("w", N)]).push([t]),
        "answer": lambda t: served(torch.zeros(N), t),
        "moved": gossiped,
        "model": lambda t: gossiped(ODD, t),
        "to decompress": lambda t: threelc.decompress(frame, t),
        "to add": lambda t: threelc.decompress_add(frame, t),
        "to add many": lambda t: threelc.decompress_add_many([frame, frame], t),
        "to mask": lambda t: threelc.mask(threelc.Context(N, "sbc:p=0.01").compress(ODD), t),
        "to apply": applied,
        "to pull": pulled,
        "to mask momentum": lambda t: pulled(torch.zeros(N), Config(workers=1, push="sbc:p=0.01")).mask([t]),
        "to pull from servers": served,
        "to residual": context_with,
        "to residual of a tensor": lambda t: AllReduce(Config(workers=1), 0, [Tensor("w", N, residual=t)]).push([ODD])}


class WithoutMemory(unittest.TestCase):
    def test_tensors(self):
        """Each strange tensor in each place: an exception that says what it is."""
        for name, call in entries().items():
            call(torch.ones(N))
            for kind, tensor, error, words in strange():
                if kind in ("double", "bool") and name in ("next", "digest", "to apply"):
                    continue  # weights may be so
                if name == "to apply":  # zero_() in it comes before
                    with self.assertRaisesRegex(error, "weights .*" + words):
                        threelc.delta.apply(b"", tensor)
                    continue
                with self.subTest(f"{name} {kind}"), self.assertRaisesRegex(error, words):
                    call(tensor)

    def test_functorch(self):
        """Tensors that stand for others inside of vmap and grad."""
        try:
            from torch.func import grad, vmap
        except ImportError:
            try:
                from functorch import grad, vmap
            except ImportError:
                self.skipTest("functorch is not installed")
        context, seen = threelc.Context(4), []

        def inside(x):
            with self.assertRaisesRegex(ValueError, "gradient is a Tensor whose memory cannot be reached: .*storage"):
                context.compress(x)
            seen.append(x)
            return (x * x).sum()

        vmap(inside)(torch.ones(3, 4))
        grad(inside)(torch.ones(4))
        self.assertEqual(len(seen), 2)

    def test_bytes(self):
        """Frames, messages and quartic bytes as tensors."""
        empty, frame = torch.ones(40, dtype=torch.uint8), threelc.Context(N, "raw").compress(ODD)
        storage(empty).resize_(0)
        rank = AllReduce(Config(workers=1), 0, [Tensor("w", N)])
        rank.push([ODD])
        config = Config(workers=1, servers=1)
        for call in (threelc.inspect, threelc.peek, threelc.decompress, threelc.delta.inspect,
                     lambda t: threelc.decompress_add(t, torch.zeros(N)),
                     lambda t: threelc.decompress_add_many([frame, t], torch.zeros(N)),
                     lambda t: threelc.mask(t, torch.zeros(N)), lambda t: threelc.delta.apply(t, torch.zeros(N)),
                     lambda t: threelc.compress_quartic(t, [1.0], 200),
                     lambda t: threelc.compress_payload(t, 40, "int8", [1.0]), lambda t: rank.reduce([t]),
                     lambda t: threelc.Context(N).compress_into(ODD, t),
                     lambda t: threelc.Context(N).load_state_dict({"version": 1, "state": t}),
                     lambda t: Server(config, 0, [Tensor("w", N)]).push(t)):
            with self.assertRaisesRegex(ValueError, "40 values without memory"):
                call(empty)

    def test_empty(self):
        """Tensors of no values are legal; what has no memory then needs none."""
        nothing = freed(0)
        frame = threelc.Context(0, residual=torch.empty(0)).compress(nothing)
        for out in torch.empty(0), nothing, numpy.empty(0, "f4"), Wrapper(torch.empty(0)):
            self.assertIs(threelc.decompress(frame, out), out)
            threelc.decompress_add(frame, out)
            made = threelc.delta.compress(out, torch.empty(0))
            threelc.delta.apply(made, out)
        self.assertTrue(threelc.delta.inspect(made).has_base)

    def test_numpy(self):
        residual = numpy.zeros(N, "f4")
        context = threelc.Context(N, residual=residual)
        with self.assertRaises(ValueError):
            residual.resize(10 * N)  # numpy knows that it is in use
        context.compress(numpy.ones(N, "f4"))
        for dtype, words in (("c8", "not complex64"), ([("a", "f4")], "gradient should have values of")):
            with self.assertRaisesRegex(TypeError, words):
                context.compress(numpy.ones(N, dtype))

    def test_how_far_shapes_reach(self):
        """Those that are not contiguous, to the byte."""
        for shape, strides, first in (((7,), (3,), 0), ((8,), (3,), 2), ((4, 5), (1, 4), 3), ((5, 4), (1, 9), 0),
                                      ((2, 3, 4), (40, 1, 3), 5), ((1, 6), (9, 2), 1), ((3, 3), (0, 2), 4)):
            reach = 1 + int(torch.arange(N).as_strided(shape, strides, first).max())
            for fewer in 0, 1:
                tensor = torch.ones(N).as_strided(shape, strides, first)
                storage(tensor).resize_((reach - fewer) * (4 if hasattr(tensor, "untyped_storage") else 1))
                if not fewer:
                    _arrays.check_memory(tensor, "it")
                    continue
                words = f"{4 * reach} bytes are needed, its storage has {4 * reach - 4}"
                with self.assertRaisesRegex(ValueError, words):
                    _arrays.check_memory(tensor, "it")

    def test_memory_that_is_taken_away(self):
        """A residual, or a push that a server keeps, loses its memory between two calls."""
        def emptied(tensor):
            storage(tensor).resize_(0)

        def moved(tensor):
            tensor.data = torch.zeros(N)

        def grown(tensor):
            tensor.resize_(100 * N)

        for take, words in ((emptied, "residual is a Tensor of 1000 values without memory"),
                            (moved, "residual has other memory"), (grown, "residual has other memory")):
            residual = torch.zeros(N)
            context = threelc.Context(N, residual=residual)
            context.compress(ODD)
            take(residual)
            for call in (lambda: context.compress(ODD), lambda: context.accumulate(ODD), context.state_dict,
                         context.reset, lambda: context.residual_scale(2),
                         lambda: context.load_state_dict(threelc.Context(N).state_dict())):
                with self.assertRaisesRegex(ValueError, words):
                    call()
            residual = torch.zeros(N)
            rank = AllReduce(Config(workers=1), 0, [Tensor("w", N, residual=residual)])
            take(residual)
            for call in lambda: rank.push([ODD]), lambda: rank.residual_scale(2), rank.state_dict:
                with self.assertRaisesRegex(ValueError, words.replace("residual", "residual of w")):
                    call()
        config = Config(workers=1, servers=1)
        server = Server(config, 0, [Tensor("w", N)])
        push = torch.frombuffer(bytearray(Worker(config, 0, [Tensor("w", N)]).push([ODD])[0]), dtype=torch.uint8)
        kept = push.clone()
        server.push(kept)
        storage(kept).resize_(0)
        for call in server.reduce, server.answer:
            with self.assertRaisesRegex(ValueError, "message is a Tensor of .* without memory"):
                call()


class Versions(unittest.TestCase):
    def writes(self):
        return [(name, call) for name, call in entries().items() if name.startswith("to ")]

    def test_autograd_notices(self):
        """A value that autograd saved is written: backward() fails, as after an in-place operation of torch."""
        for name, call in self.writes():
            for view in False, True:
                weight = torch.ones(N, requires_grad=True)
                saved = torch.ones(N)
                loss = (weight * saved).sum()
                call(saved.view(10, 100)[:] if view else saved)
                with self.subTest(f"{name} {view}"), self.assertRaisesRegex(RuntimeError, "modified by an inplace op"):
                    loss.backward()

    def test_readers_do_not_count(self):
        for name, call in entries().items():
            if not name.startswith("to "):
                tensor = torch.ones(N)
                before = tensor._version
                call(tensor)
                call(torch.nn.Parameter(torch.ones(N)))
                self.assertEqual(tensor._version, before, name)

    def test_leaves(self):
        """What requires grad is written only under no_grad(), and then counted."""
        for name, call in self.writes():
            with self.subTest(name):
                parameter = torch.nn.Parameter(torch.ones(N))
                with self.assertRaisesRegex(RuntimeError, "leaf Variable that requires grad .* in-place operation"):
                    call(parameter)
                result = parameter * 1
                if name != "to apply":  # zero_() in it is an in-place operation on the graph
                    with self.assertRaisesRegex(RuntimeError, "requires grad, and there is no derivative"):
                        call(result)
                before = parameter._version
                with torch.no_grad():
                    call(parameter)
                call(parameter.detach())
                self.assertGreaterEqual(parameter._version, before + 2)

    def test_inference(self):
        for name, call in self.writes():
            with torch.inference_mode():
                tensor, normal = torch.ones(N), torch.ones(N)
            if name != "to apply":
                with self.subTest(name), self.assertRaisesRegex(RuntimeError, "inference.*(tensor|InferenceMode)"):
                    call(tensor)
            with torch.inference_mode():
                call(tensor)
            normal = torch.ones(N)
            before = normal._version
            with torch.inference_mode():
                call(normal)
            self.assertGreater(normal._version, before, name)

    def test_a_residual_is_written_in_each_call(self):
        residual = torch.zeros(N)
        context = threelc.Context(N, "sbc:p=0.01", residual=residual)
        for call in (lambda: context.compress(ODD), lambda: context.accumulate(ODD), context.reset,
                     lambda: context.residual_scale(0.5)):
            before = residual._version
            call()
            self.assertGreater(residual._version, before)
        weight = torch.ones(N, requires_grad=True)
        loss = (weight * residual).sum()
        context.compress(ODD)
        self.assertRaisesRegex(RuntimeError, "modified by an inplace operation", loss.backward)


class WrongArguments(unittest.TestCase):
    def test_words(self):
        """Each entry given a thing of another kind: what was given, and what is needed."""
        frame = threelc.Context(6, "raw").compress(numpy.zeros(6, "f4"))
        config, tensors = Config(workers=2), [Tensor("w", 6)]
        rank = AllReduce(config, 0, tensors)
        six = numpy.zeros(6, "f4")
        for call, error, words in (
                (lambda: threelc.Context(six), TypeError, "n should be a whole number, not a ndarray"),
                (lambda: threelc.Context("6"), TypeError, "n should be a whole number, not '6'"),
                (lambda: threelc.Context(6.5), TypeError, "n should be a whole number, not 6.5"),
                (lambda: threelc.Context(None), TypeError, "n should be a whole number, not None"),
                (lambda: threelc.Context(6, None), TypeError, "a codec is a string such as .*, not None"),
                (lambda: threelc.Context(6, ["3lc"]), TypeError, "a codec is a string such as .*, not a list"),
                (lambda: threelc.Context(6, "3lc\0sbc"), ValueError, "codec should have no zero byte"),
                (lambda: threelc.Context(6, dtype="uint16"), TypeError, 'not uint16; .* dtype="bf16"'),
                (lambda: threelc.Context(6, threads="2"), TypeError, "threads should be a whole number, not '2'"),
                (lambda: threelc.Context(6, reserve=7), TypeError, "reserve should be a list of codecs, not 7"),
                (lambda: threelc.Context(6, reserve=[None]), TypeError, "None|NoneType"),
                (lambda: threelc.Context(6).residual_scale("x"), TypeError, "factor should be a number, not 'x'"),
                (lambda: threelc.Context(6).load_state_dict(None), TypeError, "what state_dict.. returns, not None"),
                (lambda: threelc.Context(6).load_state_dict({"version": 1}), ValueError, "no entry 'state'"),
                (lambda: threelc.inspect(None), TypeError, "frame should be an array .*, not None"),
                (lambda: threelc.inspect("frame"), TypeError, "frame should be an array .*, not 'frame'"),
                (lambda: threelc.decompress_add(frame, six, "1"), TypeError, "weight should be a number, not '1'"),
                (lambda: threelc.decompress_add_many(frame, six), TypeError, "frames should be a list of messages"),
                (lambda: threelc.decompress_add_many([frame, 7], six), TypeError, r"frames\[1\] should be .*, not 7"),
                (lambda: threelc.decompress_add_many([frame], six, ["x"]), TypeError, r"weights\[0\] should be a num"),
                (lambda: threelc.decompress_add_many([frame], six, 1.0), TypeError, "weights should be a list of numb"),
                (lambda: threelc.delta.compress(None, numpy.zeros(6, "u2")), TypeError, 'not uint16; .*dtype="bf16"'),
                (lambda: threelc.delta.digest(numpy.zeros(6, "i2")), TypeError, 'not int16; .*dtype="bf16"'),
                (lambda: threelc.delta.apply(frame, memoryview(bytearray(8)).cast("H")), TypeError, "not uint16; if"),
                (lambda: threelc.delta.apply(frame, [0.0]), TypeError, "weights should be an array .*, not a list"),
                (lambda: threelc.codec_bound(3, 6), TypeError, "a codec is a string such as .*, not 3"),
                (lambda: threelc.compress_quartic(b"ab", 1.0, 6), TypeError, "scales should be a list of numbers"),
                (lambda: threelc.compress_payload(b"ab", 2, "int8", ["1"]), TypeError, "one of scalars should"),
                (lambda: AllReduce({"workers": 1}, 0, tensors), TypeError, "config should be a .*Config, not a dict"),
                (lambda: AllReduce(config, 0, [("w", 6)]), TypeError, r"tensors\[0\] should be a .*Tensor\(name, n\)"),
                (lambda: AllReduce(config, 0, {"w": 6}), TypeError, "tensors should be a list .*, not a dict"),
                (lambda: AllReduce(config, "0", tensors), TypeError, "rank should be a whole number, not '0'"),
                (lambda: AllReduce(config, 0, [Tensor(7, 6)]), TypeError, "name of a tensor should be a str, not 7"),
                (lambda: AllReduce(config, 0, [Tensor("a\0b", 6)]), ValueError, "no zero byte"),
                (lambda: AllReduce(config, 0, [Tensor("w", six)]), TypeError, "n of w should be a whole number"),
                (lambda: AllReduce(Config(workers="2"), 0, tensors), TypeError, "workers should be a whole number"),
                (lambda: rank.push(7), TypeError, "gradients should be a list of arrays, not 7"),
                (lambda: rank.push({"w": six}), TypeError, "gradients should be a list of arrays, not a dict"),
                (lambda: rank.push([[0.0] * 6]), TypeError, r"gradients\[0\] should be an array .*, not a list"),
                (lambda: rank.push([six], "1"), TypeError, "weight should be a number, not '1'"),
                (lambda: rank.reduce(frame), TypeError, "messages should be a list of messages, not a bytes"),
                (lambda: rank.load_state_dict(7), TypeError, "states should be a list of states, not 7"),
                (lambda: rank.load_state_dict([7]), TypeError, "what state_dict.. returns, not 7"),
                (lambda: Graph("star", 3).neighbours(0), ValueError, "kind should be one of ring, .*, not 'star'"),
                (lambda: Gossip(config, "dcp", 0, [1], [1, 0], tensors, [six]), ValueError, "dcd, ecd, not 'dcp"),
                (lambda: Gossip(config, "dcd", 0, 1, [1, 0], tensors, [six]), TypeError, "neighbours should be a list"),
                (lambda: threelc.Context(6, isa=None), ValueError, "isa should be one of auto, .*, not None")):
            with self.subTest(words), self.assertRaisesRegex(error, words):
                call()

    def test_names_of_enums(self):
        self.assertEqual(Graph("ring", 3).neighbours(0), Graph(GraphKind.RING, 3).neighbours(0))
