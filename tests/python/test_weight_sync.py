# SPDX-License-Identifier: MIT
"""Models that follow another: memory that tensors share, the order of messages, all or nothing, checkpoints."""
import copy
import io
import unittest
from unittest import mock

import threelc
import threelc.torch
import torch
from threelc import delta

WeightSync = threelc.torch.WeightSync


class Tensors(torch.nn.Module):
    """A module of named parameters; a dtype that has no gradient makes a buffer."""

    def __init__(self, **tensors):
        super().__init__()
        for name, tensor in tensors.items():
            if isinstance(tensor, torch.nn.Parameter):
                self.register_parameter(name, tensor)
            elif tensor.is_floating_point():
                self.register_parameter(name, torch.nn.Parameter(tensor, requires_grad=False))
            else:
                self.register_buffer(name, tensor)

    def step(self, scale=1e-3):
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.mul_(1 + scale)


def bits(model):
    return {name: tensor.detach().clone().contiguous().view(torch.uint8).tolist() if tensor.dim() else tensor.item()
            for name, tensor in model.state_dict().items()}


def alone(seed=0):
    """Tensors that share nothing."""
    torch.manual_seed(seed)
    return Tensors(a=torch.randn(30, 20), b=torch.randn(30, 20), c=torch.randn(7))


def tied(seed=0):
    """Two names on one memory, as x.data = y.data makes them."""
    model = alone(seed)
    model.b.data = model.a.data
    return model


def same(seed=0):
    """One parameter with two names."""
    model = alone(seed)
    model.b = model.a
    return model


def flattened(seed=0):
    """Views of a flat parameter, as fused layers have them, and a view of a view."""
    torch.manual_seed(seed)
    flat = torch.randn(700)
    return Tensors(flat=flat, weight=flat[:600].view(30, 20), bias=flat[600:630], row=flat[20:40],
                   turned=flat[:600].view(30, 20).t(), odd=flat[1:101:2])


def separate(seed=0):
    """The tensors of flattened() with memory of their own."""
    return Tensors(**{name: p.detach().clone() for name, p in flattened(seed).named_parameters()})


def turned(seed=0):
    """Two names on one memory that is transposed."""
    torch.manual_seed(seed)
    weight = torch.randn(20, 30).t()
    return Tensors(a=weight, b=weight.view(30, 20), c=torch.randn(7))


def neighbours(seed=0):
    """Tensors of one storage that share no value, two of them interleaved."""
    torch.manual_seed(seed)
    flat = torch.randn(600)
    return Tensors(a=flat[:100], b=flat[100:200], even=flat[200::2], odd=flat[201::2])


def two_storages(seed=0):
    """Memory of another library, of which torch makes two storages: the second one is a part of the first."""
    torch.manual_seed(seed)
    memory = bytearray(1200)
    whole = torch.frombuffer(memory, dtype=torch.float32)
    whole.copy_(torch.randn(300))
    return Tensors(whole=whole, part=torch.frombuffer(memory, dtype=torch.float32, offset=400, count=100))


class Sharing(unittest.TestCase):
    def follows(self, source, served):
        publisher, receiver = WeightSync(source), WeightSync(served)
        for _ in range(4):
            message = publisher.publish()
            receiver.receive(message)
            mine, theirs = bits(source), bits(served)
            self.assertEqual(mine, theirs)
            source.step()
        return message

    def test_following(self):
        for build in tied, same, flattened, turned, neighbours, two_storages, separate, alone:
            with self.subTest(build.__name__):
                self.follows(build(1), build(2))

    def test_sharing_on_one_side_or_otherwise(self):
        """What shares memory in the trainer may have memory of its own in the receiver."""
        for source, served in ((tied, alone), (same, alone), (tied, same), (same, tied), (flattened, separate),
                               (turned, alone), (turned, tied), (tied, turned)):
            with self.subTest(f"{source.__name__} {served.__name__}"):
                self.follows(source(1), served(2))
        twice = torch.nn.ModuleList([alone(1)] * 2)  # one module with two names
        apart = torch.nn.ModuleList([alone(2), alone(3)])
        WeightSync(apart).receive(WeightSync(twice).publish())
        self.assertEqual(bits(apart), bits(twice))

    def test_compiled(self):
        """Names are without what torch.compile() puts into them, on both sides, and in messages of older releases."""
        compiled = torch.nn.Module()
        compiled._orig_mod = tied(1)
        for one, other in ((tied(), compiled), (compiled, tied(2))):
            WeightSync(other).receive(WeightSync(one).publish())
            self.assertEqual(*({name.replace("_orig_mod.", ""): bits for name, bits in bits(each).items()}
                               for each in (one, other)))
        with mock.patch("threelc.torch._common.states.plain", lambda name: name):
            message = WeightSync(compiled).publish()
        self.assertIn(b"_orig_mod.a", message)
        follower = tied(3)
        WeightSync(follower).receive(message)
        self.assertEqual(bits(follower), bits(compiled._orig_mod))

    def test_sent_once(self):
        once, twice = len(WeightSync(tied()).publish()), len(WeightSync(alone()).publish())
        self.assertLess(once, 0.7 * twice)
        self.assertLess(len(WeightSync(flattened()).publish()), 0.7 * len(WeightSync(separate()).publish()))

    def test_other_sharing_is_refused(self):
        """A receiver cannot have two values in one place."""
        views = Tensors(flat=torch.randn(700), weight=torch.randn(30, 20), bias=torch.randn(30), row=torch.randn(20),
                        turned=torch.randn(20, 30), odd=torch.randn(50))
        views.row.data = views.flat.data[21:41]
        shifted = flattened(3)
        shifted.row.data = shifted.flat.data[40:60]
        memory, weight = torch.randn(10), torch.zeros(2, 3)
        thirds = Tensors(flat=memory, weight=memory[:6].view(3, 2).t(), row=memory[:3])
        rows = Tensors(flat=torch.zeros(10), weight=weight, row=weight[0])
        for source, served, words in ((alone(1), tied(2), "b and a share memory in this model, but not"),
                                      (alone(1), same(2), "b and a share memory"),
                                      (separate(1), flattened(2), "share memory in this model"),
                                      (flattened(1), shifted, "row and flat share memory .* in another way"),
                                      (flattened(1), views, "row and flat share memory"),
                                      (thirds, rows, "row and weight share memory .* in another way")):
            before = bits(served)
            with self.assertRaisesRegex(ValueError, words):
                WeightSync(served).receive(WeightSync(source).publish())
            self.assertEqual(bits(served), before)

    def test_parts_of_a_third_one(self):
        """Two parts of one tensor share memory here, and there they lie in it as far from each other, or not."""
        def two(one, second, flat=True, seed=0, step=1):
            torch.manual_seed(seed)
            memory = torch.randn(1000)
            parts = {"one": memory[one], "two": memory[second:second + 20 * step:step]}
            return Tensors(**({"all": memory, "many": memory.clone()} if flat else {}), **parts)

        apart = two(slice(10, 50), 20)
        apart.two.data = apart.many.data[20:40]
        first, near = slice(10, 50), two(slice(10, 50), 20)
        for source, one, second, fits in (
                (near, slice(30, 70), 40, True), (near, slice(30, 70), 41, False), (near, first, 20, True),
                (near, slice(20, 60), 20, False), (apart, first, 20, False), (two(first, 20, step=2), first, 20, False),
                (two(slice(10, 90, 2), 20), first, 20, False), (two(slice(10, 600), 400), slice(20, 610), 410, True)):
            served, message = two(one, second, False, 1), WeightSync(source).publish()
            for name in "all", "many":
                served.register_parameter(name, torch.nn.Parameter(torch.zeros(1000), requires_grad=False))
            before = bits(served)
            if fits:
                WeightSync(served).receive(message)
                self.assertEqual(bits(served), bits(source))
                continue
            with self.assertRaisesRegex(ValueError, "two and one share memory in this model, but not"):
                WeightSync(served).receive(message)
            self.assertEqual(bits(served), before)

    def test_parts_that_overlap(self):
        flat = torch.randn(100)
        for one, other in ((flat[:60], flat[40:]), (flat[::2], flat[::3]), (flat, flat.view(torch.int16)[:100])):
            if other.dtype != torch.float32:
                other = other.view(torch.bfloat16)
            with self.assertRaisesRegex(ValueError, "one and other have memory in common|other and one have memory"):
                WeightSync(Tensors(one=one, other=other)).publish()

    def test_a_tensor_that_overlaps_itself(self):
        """Several of its values are the same memory, and a message has more values than it can hold."""
        for shape, strides in ((4, 4), (2, 1)), ((2, 3), (1, 1)):
            served = Tensors(w=torch.zeros(10).as_strided(shape, strides))
            before = bits(served)
            with self.assertRaisesRegex(ValueError, "several values of w are the same memory"):
                WeightSync(served).receive(WeightSync(Tensors(w=torch.randn(shape))).publish())
            self.assertEqual(bits(served), before)
        empty = Tensors(w=torch.zeros(0).as_strided((0, 5), (50, 2)))
        WeightSync(empty).receive(WeightSync(empty).publish())
        self.follows(Tensors(w=torch.randn(4, 4)), Tensors(w=torch.zeros(40).as_strided((4, 4), (9, 2))))

    def test_places(self):
        from threelc.torch._common import sharing  # pylint: disable=import-outside-toplevel
        model = flattened()
        found = sharing.places({name: p.detach() for name, p in model.named_parameters()})
        self.assertEqual({place.root for place in found.values()}, {"flat"})
        for name, place in found.items():
            tensor = getattr(model, name).detach()
            self.assertTrue(torch.equal(sharing.values_in(model.flat.detach(), place, tensor.shape), tensor), name)

    def test_roots(self):
        """What lies in what, whatever comes first, and what two have some memory in common."""
        from threelc.torch._common import sharing  # pylint: disable=import-outside-toplevel
        memory = bytearray(400)
        flat = torch.frombuffer(memory, dtype=torch.float32)
        flat.copy_(torch.arange(100))
        between = torch.frombuffer(memory, dtype=torch.float32, offset=2, count=10)
        for part, root in ((flat[:1].expand(200), flat), (flat[0:5:4], flat[:5]), (flat[4:24].view(2, 10), flat),
                           (flat[:20].view(10, 2)[:, 1:], flat), (flat[:1].view(1, 1), flat), (between[2:5], between)):
            found = sharing.places({"a": part, "b": root})
            self.assertEqual([place.root for place in found.values()], ["b", "b"])
            self.assertTrue(torch.equal(sharing.values_in(root, found["a"], part.shape), part))
            self.assertEqual(sharing.shared({"a": part, "b": root}), ("b", "a"))
        for one, other in (flat[:60], flat[40:]), (flat, between), (flat[:50], flat[40:60].view(torch.int32)):
            self.assertEqual(sharing.shared({"a": one, "b": other}), ("a", "b"))
            with self.assertRaisesRegex(sharing.Overlap, "a and b have memory in common, but neither is a view"):
                sharing.places({"a": one, "b": other})
        for one, other in (flat[:60], flat[60:].view(torch.int32)), (flat[::2], flat[1::2]), (flat, flat.clone()):
            self.assertIsNone(sharing.shared({"a": one, "b": other}))

    def test_many_views_take_no_time(self):
        from threelc.torch._common import sharing  # pylint: disable=import-outside-toplevel
        flat = torch.zeros(20000)
        tensors = {f"t{i}": flat[2 * i:2 * i + 2] for i in range(10000)}
        self.assertEqual([name for name, place in sharing.places(tensors).items() if place.root != name], [])


class AllOrNothing(unittest.TestCase):
    def test_a_failure_halfway(self):
        """The weights change under the call, at each place: what was written is put back."""
        source = alone(1)
        publisher, served = WeightSync(source), alone(2)
        receiver = WeightSync(served)
        receiver.receive(publisher.publish())
        source.step()
        message = publisher.publish()
        before = bits(served)
        real = delta.apply
        for fails_at in range(3):
            calls = []

            def apply(*arguments, **others):
                calls.append(0)
                if len(calls) > fails_at:
                    raise threelc.BaseError(threelc.Status.BASE, "changed meanwhile")
                return real(*arguments, **others)

            with mock.patch.object(delta, "apply", apply), self.assertRaises(threelc.BaseError):
                receiver.receive(message)
            self.assertEqual(bits(served), before)
        receiver.receive(message)
        self.assertEqual(bits(served), bits(source))

    def test_cut_off(self):
        """The process of a receiver ends between any two writes, and other processes have its memory, in which the
        same message is then taken by another receiver, as by a new one that has the state before."""
        source, served = flattened(1), separate(2)
        publisher, receiver = WeightSync(source), WeightSync(served)
        receiver.receive(publisher.publish())
        state, before = receiver.state_dict(), copy.deepcopy(served)
        source.step()
        message = publisher.publish()
        reader = threelc.weights.Reader(message)
        names = [entry.name for entry in reader]
        for done in range(len(names) + 1):
            mixed = copy.deepcopy(before)
            with torch.no_grad():
                for name in names[:done]:
                    getattr(mixed, name).copy_(getattr(source, name))
            one = copy.deepcopy(mixed)
            receiver = WeightSync(one)
            receiver.load_state_dict(state)
            receiver.receive(message)
            self.assertEqual(bits(one), bits(source), done)
            with self.assertRaises(threelc.OrderError):
                receiver.receive(message)
            for one in reader, threelc.weights.Reader(io.BytesIO(message)):
                arrays = {name: getattr(mixed, name).detach().clone(memory_format=torch.contiguous_format)
                          for name in names}
                one.apply(arrays)
                for name, array in arrays.items():
                    self.assertTrue(torch.equal(array, getattr(source, name)), (name, done))
        arrays["flat"][3] += 1
        with self.assertRaisesRegex(threelc.BaseError, "flat"):
            reader.apply(arrays)

    def test_a_base_that_is_another(self):
        """The last tensor is not the base: no other is written."""
        source, served = alone(1), alone(2)
        publisher, receiver = WeightSync(source), WeightSync(served)
        receiver.receive(publisher.publish())
        source.step()
        message = publisher.publish()
        with torch.no_grad():
            served.c[3] += 1
        before = bits(served)
        with self.assertRaisesRegex(threelc.BaseError, r"c is not what .* publish\(full=True\) is needed"):
            receiver.receive(message)
        self.assertEqual(bits(served), before)
        receiver.receive(publisher.publish(full=True))
        self.assertEqual(bits(served), bits(source))

    def test_autograd_notices(self):
        source = Tensors(weight=torch.nn.Parameter(torch.randn(300)))
        served = copy.deepcopy(source)
        source.step()
        loss = (served.weight * served.weight).sum()
        WeightSync(served).receive(WeightSync(source).publish())
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            loss.backward()

    def test_inference(self):
        with torch.inference_mode():
            served = alone(2)
        source = alone(1)
        message = WeightSync(source).publish()
        with self.assertRaisesRegex(RuntimeError, "a is an inference tensor"):
            WeightSync(served).receive(message)
        with torch.inference_mode():
            WeightSync(served).receive(message)
        self.assertEqual(bits(served), bits(source))

    def test_expanded(self):
        served = alone(2)
        served.b.data = torch.zeros(1, 20).expand(30, 20)
        before = bits(served)
        with self.assertRaisesRegex(RuntimeError, "b is expanded"):
            WeightSync(served).receive(WeightSync(alone(1)).publish())
        self.assertEqual(bits(served), before)


class Order(unittest.TestCase):
    def messages(self, count=4):
        source = alone(1)
        publisher, found = WeightSync(source), []
        for i in range(count):
            found.append((publisher.publish(), bits(source)))
            source.step()
        return found

    def test_old_and_repeated(self):
        found = self.messages()
        served = alone(2)
        receiver = WeightSync(served)
        for i, (message, weights) in enumerate(found):
            receiver.receive(message)
            for old, _ in found[:i + 1]:
                with self.assertRaisesRegex(threelc.OrderError, f"and number {i + 1} has been received: it is old"):
                    receiver.receive(old)
            self.assertEqual(bits(served), weights)

    def test_missed(self):
        found = self.messages()
        served = alone(2)
        receiver = WeightSync(served)
        receiver.receive(found[0][0])
        for i in 2, 3:
            with self.assertRaisesRegex(threelc.BaseError, r"number 2 was missed: publish\(full=True\) is needed"):
                receiver.receive(found[i][0])
        self.assertEqual(bits(served), found[0][1])
        receiver.receive(found[1][0])
        receiver.receive(found[2][0])
        self.assertEqual(bits(served), found[2][1])

    def test_a_fresh_publish(self):
        """Receivers that are new, missed a message or have all go on from it; its repetition is refused."""
        source = alone(1)
        publisher = WeightSync(source)
        up_to_date, behind, new = WeightSync(alone(2)), WeightSync(alone(3)), WeightSync(alone(4))
        first = publisher.publish()
        up_to_date.receive(first)
        behind.receive(first)
        source.step()
        up_to_date.receive(publisher.publish())
        source.step()
        full = publisher.publish(full=True)
        for receiver in up_to_date, behind, new:
            receiver.receive(full)
        source.step()
        last = publisher.publish()
        for receiver in up_to_date, behind, new:
            receiver.receive(last)
            self.assertEqual(bits(receiver._model), bits(source))
            with self.assertRaises(threelc.OrderError):
                receiver.receive(full)
            self.assertEqual(bits(receiver._model), bits(source))

    def test_another_trainer(self):
        first, second = self.messages(), self.messages()
        served = alone(2)
        receiver = WeightSync(served)
        receiver.receive(first[0][0])
        with self.assertRaisesRegex(threelc.BaseError, "of another trainer"):
            receiver.receive(second[1][0])
        receiver.receive(second[0][0])
        for message, _ in first:
            with self.assertRaisesRegex(threelc.OrderError, "a trainer that another one has replaced"):
                receiver.receive(message)
        receiver.receive(second[1][0])
        self.assertEqual(bits(served), second[1][1])

    def test_states(self):
        """Trainer and receiver go on where they were, also from a file."""
        source, served = alone(1), alone(2)
        publisher, receiver = WeightSync(source), WeightSync(served)
        first = publisher.publish()
        receiver.receive(first)
        source.step()
        states = copy.deepcopy((publisher.state_dict(), receiver.state_dict()))
        expected = publisher.publish()
        publisher, receiver = WeightSync(source), WeightSync(served)
        publisher.load_state_dict(states[0])
        receiver.load_state_dict(states[1])
        message = publisher.publish()
        self.assertEqual(message, expected)
        with self.assertRaises(threelc.OrderError):
            receiver.receive(first)
        receiver.receive(message)
        self.assertEqual(bits(served), bits(source))
        for bad in {"version": 9}, None, []:
            with self.assertRaisesRegex(ValueError, "a state of version 1 is needed"):
                receiver.load_state_dict(bad)


class Words(unittest.TestCase):
    def test_no_module(self):
        model = alone()
        for thing, words in ((list(model.parameters()), "not a list"), (None, "not None"),
                             (model.a, "not a Parameter")):
            with self.assertRaisesRegex(TypeError, words):
                WeightSync(thing)

    def test_names_twice(self):
        """Two tensors whose names are the same without what torch.compile() puts into them."""
        model = torch.nn.Module()
        model.a = torch.nn.Linear(3, 3)
        model._orig_mod = torch.nn.Module()
        model._orig_mod.a = torch.nn.Linear(3, 3)
        mapping = {"a": torch.zeros(3), "_orig_mod.a": torch.ones(3)}
        for twice in model, mapping:
            for call in WeightSync(twice).publish, lambda t=twice: WeightSync(t).receive(WeightSync(alone()).publish()):
                with self.assertRaisesRegex(ValueError, "two tensors have the name a"):
                    call()
        state = WeightSync(alone()).state_dict()
        with self.assertRaisesRegex(ValueError, "names in 'published' are no words, or one comes twice"):
            WeightSync(alone()).load_state_dict({**state, "published": mapping})
        for damage in {"trainer": "x" * 32}, {"sequence": -1}, {"heard": ("", 1)}, {"published": {1: torch.ones(1)}}:
            with self.assertRaisesRegex(ValueError, "this state of WeightSync is damaged"):
                WeightSync(alone()).load_state_dict({**state, **damage})

    def test_other_dtypes(self):
        for dtype in torch.complex64, torch.int16:
            weight = torch.nn.Parameter(torch.ones(6).to(dtype), requires_grad=False)
            with self.assertRaisesRegex(TypeError, f"parameter w is of {dtype}, which cannot be sent"):
                WeightSync(Tensors(w=weight)).publish()
        model = torch.nn.BatchNorm1d(3)
        model.register_buffer("wide", torch.ones(3, dtype=torch.float64))
        model.register_buffer("waves", torch.ones(3, dtype=torch.complex64))
        self.assertEqual(WeightSync(model).left_out(), ["waves"])
        served = copy.deepcopy(model)
        model.num_batches_tracked += 7
        model.waves += 7
        with torch.no_grad():
            model.running_mean += 7
            model.wide += 7
        WeightSync(served).receive(WeightSync(model).publish())
        self.assertEqual((served.num_batches_tracked.item(), served.running_mean.tolist(), served.wide.tolist(),
                          served.waves.tolist()), (7, [7, 7, 7], [8, 8, 8], [1, 1, 1]))

    def test_without_memory(self):
        lazy, meta, freed = torch.nn.LazyLinear(3), torch.nn.Linear(3, 3, device="meta"), torch.nn.Linear(3, 3)
        freed.weight.data.storage().resize_(0)
        for model, words in ((lazy, "weight is an UninitializedParameter, without a shape yet"),
                             (meta, "weight is a Parameter of 9 values without memory"),
                             (freed, "weight is a Parameter of 9 values without memory for them: 36 bytes")):
            for call in WeightSync(model).publish, lambda: WeightSync(model).receive(WeightSync(alone()).publish()):
                with self.assertRaisesRegex(ValueError, words):
                    call()
