# SPDX-License-Identifier: MIT
"""Models as ranks exchange them: which tensors, from which values on, what is refused, with which sentence; fragments
of models; what releases of PyTorch do differently. Without processes."""
import threading
import unittest
import warnings
from types import SimpleNamespace
from unittest import mock

import torch
from thread_ranks import Layers, RanksTest, mesh, sharded
from threelc.torch._common import module as modules, versions
from threelc.torch._common.module import Model, problem_of
from threelc.torch._common.transport import Transport
from threelc.torch._local.division import fragments_of


class Tensors(unittest.TestCase):
    def test_flat(self):
        """Copies in float32, a complex value as a pair; what a parameter of less precision holds."""
        third, turned = 1 / 3, torch.arange(6.0).view(2, 3).t()
        for tensor, wanted in (
                (turned, [0, 3, 1, 4, 2, 5]),
                (torch.tensor([third], dtype=torch.float64), [torch.tensor(third).item()]),
                (torch.tensor(3), [3]), (torch.tensor([third]).bfloat16(), [0.333984375]),
                (torch.tensor([1 + 2j, 3 - 4j]), [1, 2, 3, -4]), (torch.tensor([1 + 2j]).conj(), [1, -2]),
                (torch.empty(0), [])):
            for make in modules.flat, modules.flat_view:
                found = make(tensor)
                self.assertEqual((found.tolist(), found.dtype, found.dim()), (wanted, torch.float32, 1))
            self.assertEqual(modules.size_of(tensor), len(wanted))
            self.assertEqual(modules.is_rounded(tensor), tensor.dtype not in (torch.float32, torch.complex64))
        plain = torch.ones(3)
        copy, same = modules.flat(plain), modules.flat_view(plain)
        plain += 1
        self.assertEqual((copy.tolist(), same.tolist()), ([1.0] * 3, [2.0] * 3))

    def test_assign_and_add(self):
        for dtype, wanted in (torch.float32, 1 / 3), (torch.bfloat16, 0.333984375), (torch.float16, 0.333251953125):
            parameter, values = torch.nn.Parameter(torch.zeros(2, 2, dtype=dtype)), torch.full((4,), 1 / 3)
            modules.assign(parameter, values)
            self.assertEqual(parameter.tolist(), [[torch.tensor(wanted).item()] * 2] * 2)
            rounded = modules.rounded(values, parameter)
            self.assertEqual((rounded.tolist(), rounded.dtype), (modules.flat(parameter).tolist(), torch.float32))
        parameter = torch.nn.Parameter(torch.tensor([1 + 2j]))
        modules.assign(parameter, torch.tensor([3.0, 4.0]))
        modules.add(parameter, torch.tensor([0.5, -1.0]))
        self.assertEqual(parameter.tolist(), [3.5 + 3j])

    def test_memory_of_the_library(self):
        for values in [], [1.5], [1.5, -2.0, 3.0]:
            memory = memoryview(bytearray(torch.tensor(values).numpy().tobytes())).cast("f")
            found = modules.copied(memory)
            self.assertEqual((found.tolist(), found.dtype), (values, torch.float32))
            found.zero_()
            self.assertEqual(memory.tolist(), values)

    def test_problems(self):
        """Why a tensor cannot be carried: the end of a sentence."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are new in one release of PyTorch, and old in another one
            lazy = torch.nn.LazyLinear(3).weight
            quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
        wrong = "is of {}, whose bits would be lost on the way: float32, float16, bfloat16 and complex values of " \
                "them are exchanged. Convert the model, as with model.float(), or freeze the parameter with " \
                "requires_grad_(False)"
        view = "is a conjugate or negative view of other memory: give it memory of its own, as with " \
               ".resolve_conj().resolve_neg().clone()"
        expanded = "is expanded, several of its values are one in memory: give it memory of its own, as with " \
                   ".contiguous()"
        dense = "is sparse or quantized: a dense tensor is needed"
        for tensor, problem, always in (
                (torch.ones(3), "", True), (torch.ones(3).half(), "", True), (torch.ones(3).bfloat16(), "", True),
                (torch.ones(3, dtype=torch.complex64), "", True), (torch.ones(2, 3).t(), "", True),
                (torch.ones(0), "", True),
                (torch.ones(3).double(), wrong.format("torch.float64"), False),
                (torch.ones(3, dtype=torch.complex128), wrong.format("torch.complex128"), False),
                (torch.ones(3, dtype=torch.int64), wrong.format("torch.int64"), False),
                (lazy, "has no shape yet: call the model once before", True),
                (sharded(mesh(2, [1])).layers[0].weight,
                 "is a DTensor, of which this rank has a part: a module that is whole on each rank is needed", True),
                (torch.ones(3, device="meta"), "has no values, as it is on the device meta", True),
                (torch.ones(3).to_sparse(), dense, True),
                (quantized, dense, True),
                (torch.ones(3, dtype=torch.complex64).conj(), view, True),
                (torch.ones(3, dtype=torch.complex64).conj().imag, view, True),
                (torch.ones(1).expand(3), expanded, True)):
            self.assertEqual(problem_of(tensor, True), problem)
            self.assertEqual(problem_of(tensor, False), problem if always else "")


class Models(RanksTest):
    def test_what_is_no_model(self):
        class FSDPModule(torch.nn.Linear):
            reshards = 0

            def reshard(self):
                self.reshards += 1

        named = {name: type(name, (torch.nn.Linear,), {})(3, 3)
                 for name in ("DistributedDataParallel", "FullyShardedDataParallel")}
        whole = "Thing takes a module that is whole on each rank; FSDP has sharded this one"
        for given, error, sentence in (
                ([1], TypeError, "Thing takes a torch.nn.Module, not list"),
                (torch.nn.Sequential(named["DistributedDataParallel"]), TypeError,
                 "Thing takes the module inside DistributedDataParallel, model.module: the wrapper would send floats "
                 "in every step. Compute the loss with that module, too"),
                (torch.nn.Sequential(named["FullyShardedDataParallel"]), TypeError, whole),
                (torch.nn.Sequential(torch.nn.Linear(3, 3), FSDPModule(3, 3)), TypeError, whole),
                (torch.nn.Linear(3, 3).requires_grad_(False), ValueError,
                 "Thing takes a model with parameters that are trained; here none has requires_grad")):
            with self.assertRaises(error) as caught:
                Model(given, "Thing")
            self.assertEqual(str(caught.exception), sentence)
        with self.assertRaisesRegex(TypeError, f"^{whole}$"):
            Model(named["FullyShardedDataParallel"], "Thing", may_be_sharded=True)
        inside = FSDPModule(3, 3)
        model = Model(torch.nn.Sequential(torch.nn.Linear(3, 3), inside), "Thing", may_be_sharded=True)
        self.assertEqual(inside.reshards, 1)
        self.on(1, lambda rank: model.start(Transport()))
        model.check()
        self.assertEqual((inside.reshards, model.shards, model.shard), (2, 1, ""))

    def test_names(self):
        """Of all parameters, those that are trained, and buffers; torch.compile() adds nothing."""
        inside = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
        inside[0].bias.requires_grad_(False)
        for module in inside, SimpleNamespace, None:
            if module is not inside:
                module = torch.nn.Module()
                module._orig_mod = inside
            model = Model(module, "Thing")
            self.assertIs(model.module, inside)
            self.assertEqual([*model.parameters], ["0.weight", "1.weight", "1.bias"])
            self.assertEqual([name for name, _ in model.named_parameters()],
                             ["0.weight", "0.bias", "1.weight", "1.bias"])
            self.assertEqual([*model.buffers()], ["1.running_mean", "1.running_var", "1.num_batches_tracked"])

    def test_shards(self):
        """Into how many parts, and which one this rank has, as a word."""
        for meshes, shards, shard in (([None], 1, ""), ([mesh(2, [1])], 2, "shard1"),
                                      ([mesh(2, [0]), mesh(8, [1, 3]), None, mesh(2, [0])], 8, "shard0+1-3")):
            model = Model(sharded(*meshes), "Thing", may_be_sharded=True)
            self.assertEqual((model.shards, model.shard), (shards, shard))
            self.assertEqual(modules.local(next(iter(model.parameters.values()))).shape, (2 if shard else 4,))

    def started(self, *made, order=3 * ((),), **settings):
        """How ranks end that start from these modules."""
        def start(rank):
            Model(made[rank], "Thing", **settings).start(Transport(), order[rank])
        return self.ends(len(made), start)

    def test_start(self):
        """All ranks have the values of rank 0: parameters, also frozen ones, and buffers of all kinds."""
        made = []
        for rank in range(3):
            module = Layers(2, (2, 2), dtype=torch.bfloat16)
            module.register_buffer("count", torch.tensor([rank, 2**40 + rank]))
            module.register_buffer("none", torch.empty(0))
            module.layers[0].weight.requires_grad_(False)
            for parameter in module.parameters():
                parameter.data.fill_(1.5 + rank)
            made.append(module)
        self.assertEqual(self.started(*made), [("returned", None)] * 3)
        for module in made:
            self.assertEqual((module.values(), module.count.tolist()), ([[1.5] * 2, [1.5] * 4], [0, 2**40]))

    def test_starts_that_differ(self):
        """All ranks say the same: the first difference to rank 0."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lazy = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LazyLinear(2))
        frozen = Layers(2, 2)
        frozen.layers[1].weight.requires_grad_(False)
        for others, sentence in (
                ([Layers(2, 2), Layers(2, 3)], "parameter layers.1.weight of shape [3], torch.float32 on rank 2 is "
                                               "parameter layers.1.weight of shape [2], torch.float32 on rank 0"),
                ([Layers(2, 2, 2), Layers(2, 3)], "rank 0 has no parameter layers.2.weight of shape [2], "
                                                  "torch.float32, which rank 1 has"),
                ([Layers(2, 2), Layers(2)], "rank 2 has no parameter layers.1.weight of shape [2], torch.float32, "
                                            "which rank 0 has"),
                ([Layers(2, 2), Layers(2, 2, dtype=torch.float16)],
                 "parameter layers.0.weight of shape [2], torch.float16 on rank 2 is parameter layers.0.weight of "
                 "shape [2], torch.float32 on rank 0"),
                ([frozen, Layers(2, 2)], "frozen parameter layers.1.weight of shape [2], torch.float32 on rank 1 is "
                                         "parameter layers.1.weight of shape [2], torch.float32 on rank 0")):
            for how, error in self.started(Layers(2, 2), *others):
                self.assertEqual((how, type(error).__name__, str(error)),
                                 ("raised", "ValueError", f"all ranks need the same model: {sentence}"))
        for how, error in self.started(lazy, torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))):
            self.assertRegex(str(error), "parameter 1.weight of shape .* on rank 1 is parameter 1.weight of unknown "
                                         "shape, torch.float32 on rank 0$")
        for order, sentence in ((("a", "b"), ("a", "c")), "c on rank 1 is b on rank 0"), (
                (("a", "b"), ("a",)), "rank 1 has no b, which rank 0 has"):
            for how, error in self.started(Layers(2), Layers(2), order=order):
                self.assertEqual((how, str(error)), ("raised", f"all ranks need the same model: {sentence}"))
        self.assertEqual(self.started(Layers(2), Layers(2), order=(("a", "b"),) * 2), [("returned", None)] * 2)

    def test_starts_that_cannot_be_carried(self):
        """What all ranks have is said once, else the rank is named; the first problem counts."""
        def on(device, buffers=False):
            module = torch.nn.Module()
            module.register_parameter("a", torch.nn.Parameter(torch.ones(3)))
            where = torch.ones(3, device=device)
            if buffers:
                module.register_buffer("b", where)
            else:
                module.register_parameter("b", torch.nn.Parameter(where, requires_grad=buffers is not None))
            return module

        problem = "b has no values, as it is on the device meta"
        for kind, buffers in ("parameter", False), ("buffer", True), ("frozen parameter", None):
            for places, start in (("meta", "meta"), ""), (("cpu", "meta"), "rank 1: "), (("meta", "cpu"), "rank 0: "):
                for how, error in self.started(*(on(place, buffers) for place in places)):
                    self.assertEqual((how, type(error).__name__, str(error)),
                                     ("raised", "TypeError", f"{start}{kind} {problem}"))
        for how, error in self.started(*(Layers(2, dtype=torch.float64) for _ in range(2))):
            self.assertRegex(str(error), "^parameter layers.0.weight is of torch.float64, whose bits would be lost")
        double = [Layers(2, 3) for _ in range(2)]
        for module in double:
            module.register_buffer("b", torch.ones(2).double())
            module.layers[1].weight = torch.nn.Parameter(torch.ones(3).double(), requires_grad=False)
        self.assertEqual(self.started(*double), [("returned", None)] * 2)

    def test_memory_in_common(self):
        for may_share in True, False:
            made = [Layers(4, 4) for _ in range(2)]
            for module in made:
                module.layers[1].weight.data = module.layers[0].weight.data
            for how, error in self.started(*made, may_share=may_share):
                if may_share:
                    self.assertEqual((how, error), ("returned", None))
                else:
                    self.assertEqual((how, str(error)), (
                        "raised", "parameters layers.0.weight and layers.1.weight have memory in common, but are two "
                        "objects, and Thing would train each as if it were alone: make them one, as in b.weight = "
                        "a.weight, or give each its own memory"))
        self.assertEqual(self.started(Layers(4, 4), Layers(4, 4), may_share=False), [("returned", None)] * 2)

    def test_meshes(self):
        """Ranks that have other shards of a parameter do not exchange it."""
        def made(ranks):
            return [sharded(None, mesh(2, [0], each)) for each in ranks]

        self.assertEqual(self.started(*made([[0, 7], [8, 1]]), may_be_sharded=True), [("returned", None)] * 2)
        start = ", of which this rank has [2] on rank 1 is parameter layers.1.weight of shape [4], torch.float32 on "
        for how, error in self.started(made([[0, 7]])[0], Layers(4, 4), may_be_sharded=True):
            self.assertEqual((how, type(error)), ("raised", ValueError))
            self.assertNotIn(start, str(error))
            self.assertIn("on rank 0", str(error))
        words = ("parameter layers.1.weight is divided over a mesh in which this rank and rank {} are both, and Thing "
                 "exchanges between ranks that have the same shard: call fully_shard() with the mesh of one site "
                 "alone, as mesh[\"shard\"], and pass process_group=, a group of one rank of each site, as "
                 "mesh.get_group(\"replicate\")")
        for ranks, sentences in (([[0, 1], [0, 1], [7, 2]], (words.format(1), words.format(0), "rank 0: " +
                                                             words.format(1))),
                                 ([[0, 7], [2, 1], [2, 1]], ("rank 1: " + words.format(2), words.format(2),
                                                             words.format(1)))):
            for (how, error), sentence in zip(self.started(*made(ranks), may_be_sharded=True), sentences):
                self.assertEqual((how, type(error).__name__, str(error)), ("raised", "ValueError", sentence))

    def test_changes(self):
        """What a model must not become after the start: each sentence, whole."""
        def model(change):
            module = Layers(3, 2)
            module.layers[1].weight.requires_grad_(False)
            made = Model(module, "Thing")
            self.assertEqual(self.on(1, lambda rank: made.start(Transport())), [None])
            made.check()
            change(module)
            return made

        def replaced(module):
            module.layers[0].weight = torch.nn.Parameter(torch.zeros(3))

        def converted(module):
            module.layers[0].weight.data = torch.zeros(3).half()

        def longer(module):
            module.layers[0].weight.data = torch.zeros(4)

        end = "change the model first, then make Thing"
        was = "parameter layers.0.weight was of shape [3], torch.float32 at the start, and is of shape "
        for change, sentence in (
                (lambda m: m.register_parameter("more", torch.nn.Parameter(torch.ones(1))),
                 f"parameter more was added or replaced after the start, so it is not exchanged: {end}"),
                (replaced, f"parameter layers.0.weight was added or replaced after the start, so it is not exchanged: "
                           f"{end}"),
                (lambda m: m.layers[0].__delattr__("weight"),
                 f"parameter layers.0.weight is no longer in the model, but it is exchanged: {end}"),
                (converted, f"{was}[3], torch.float16 now: convert the model first, then make Thing"),
                (longer, f"{was}[4], torch.float32 now: convert the model first, then make Thing"),
                (lambda m: m.layers[1].weight.requires_grad_(True),
                 "parameter layers.1.weight was frozen at the start, so it is not exchanged: let it be trained first, "
                 "then begin anew with the state of this one")):
            with self.assertRaises(ValueError) as caught:
                model(change).check()
            self.assertEqual(str(caught.exception), sentence)
        model(lambda m: m.layers[0].weight.requires_grad_(False)).check()
        model(lambda m: m.layers[1].__delattr__("weight")).check()

    def test_first_weights(self):
        """Each value counts, NaN is itself, and starts are rounded as parameters are."""
        module = Layers(3, 2, dtype=torch.bfloat16)
        made = Model(module, "Thing")
        starts = [torch.tensor([0.1, float("nan"), 0.3]), torch.tensor([0.5, 0.7])]
        for parameter, start in zip(module.parameters(), starts):
            modules.assign(parameter, start)
        made.check_start(starts)
        for layer, at, value in (0, 0, 0.2), (0, 1, 0.0), (0, 2, float("nan")), (1, 1, 0.75):
            changed = [start.clone() for start in starts]
            changed[layer][at] = value
            with self.assertRaises(ValueError) as caught:
                made.check_start(changed)
            self.assertEqual(str(caught.exception),
                             f"parameter layers.{layer}.weight has other values than those from which all ranks began: "
                             "load weights before Thing is made; with a checkpoint of Thing, load its state_dict(), "
                             "too")


class Divisions(unittest.TestCase):
    def of(self, module, fragments, pattern="strided"):
        return fragments_of(Model(module, "Thing"), fragments, pattern)

    def named(self, **sizes):
        """A module with parameters of these names, "__" in place of dots."""
        root = torch.nn.Module()
        for name, size in sizes.items():
            *path, last = name.split("__")
            at = root
            for part in path:
                if part not in at._modules:
                    at.add_module(part, torch.nn.Module())
                at = at._modules[part]
            dtype = torch.float32 if isinstance(size, int) else torch.complex64
            at.register_parameter(last, torch.nn.Parameter(torch.zeros(int(size), dtype=dtype)))
        return root

    def test_layers(self):
        """A layer is what has the same first number in its names; what is beside the layers fills up the smallest
        fragments, the largest modules first. A complex value counts twice."""
        wide = self.named(h__0__a__1__w=1, h__0__b=1, h__1__w=1, h__2__w=1, h__3__w=1, h__4__w=1, block1__w=9, w=2,
                          tail__w=1, tail__b=1)
        for count, pattern, wanted in (
                (2, "strided", [["h.0.a.1.w", "h.0.b", "h.2.w", "h.4.w", "w", "tail.w", "tail.b"],
                                ["h.1.w", "h.3.w", "block1.w"]]),
                (2, "sequential", [["h.0.a.1.w", "h.0.b", "h.1.w", "h.2.w", "w", "tail.w", "tail.b"],
                                   ["h.3.w", "h.4.w", "block1.w"]]),
                (3, "sequential", [["h.0.a.1.w", "h.0.b", "h.1.w", "tail.w", "tail.b"], ["h.2.w", "h.3.w", "w"],
                                   ["h.4.w", "block1.w"]]),
                (5, "strided", [["h.0.a.1.w", "h.0.b"], ["h.1.w", "block1.w"], ["h.2.w", "w"],
                                ["h.3.w", "tail.w", "tail.b"], ["h.4.w"]])):
            found = self.of(wide, count, pattern)
            self.assertEqual([sorted(names) for names in found], [sorted(names) for names in wanted], (count, pattern))
            order = [name for name, _ in wide.named_parameters()]
            self.assertTrue(all(names == sorted(names, key=order.index) for names in found))
        pairs = self.named(h__0__w=3, h__1__w=2.0, tail__w=1)
        self.assertEqual(self.of(pairs, 2), [["h.0.w", "tail.w"], ["h.1.w"]])

    def test_few_layers(self):
        """Then each module with parameters of its own is one."""
        few = self.named(h__0__w=1, h__1__w=1, tail__w=1, tail__b=1, w=1)
        self.assertEqual(self.of(few, 2), [["h.0.w", "tail.w", "tail.b"], ["w", "h.1.w"]])
        found = self.of(few, 4)
        self.assertEqual(sorted(map(sorted, found)), [["h.0.w"], ["h.1.w"], ["tail.b", "tail.w"], ["w"]])
        self.assertEqual(self.of(few, 1), [[name for name, _ in few.named_parameters()]])
        with self.assertRaises(ValueError) as caught:
            self.of(few, 5)
        self.assertEqual(str(caught.exception), "the model has 4 layers, which are not enough for fragments=5: use "
                                                "fewer, or list the modules of each fragment")

    def test_lists(self):
        module = Layers(*[1] * 11)
        module.layers[3].weight.requires_grad_(False)
        one, ten, more = "layers.1.weight", "layers.10.weight", [f"layers.{i}.weight" for i in (0, 2, *range(4, 10))]
        rest = [f"layers.{i}" for i in (0, 2, *range(3, 10))]
        for fragments, wanted in (
                ([["layers.1"], ["layers.10", *rest]], [[one], [*more, ten]]),
                ([[one, "layers.1", module.layers[1]], [ten, *rest]], [[one], [*more, ten]]),
                ((iter([module.layers[10], "layers.3"]), ["layers.1", *rest]), [[ten], [more[0], one, *more[1:]]]),
                ([["_orig_mod.layers.1"], {"layers.10", *rest}], [[one], [*more, ten]])):
            self.assertEqual(self.of(module, fragments), [sorted(names, key=[f"layers.{i}.weight" for i in range(11)]
                                                                 .index) for names in wanted])
        lists = "fragments should be a number, or a list of lists of modules or names, not a list with "
        entry = "a fragment has modules or names of them or of parameters, not "
        for fragments, error, sentence in (
                ("layers", TypeError, "fragments should be a whole number at least 1, not 'layers'"),
                (None, TypeError, "fragments should be a whole number at least 1, not None"),
                (0, ValueError, "fragments should be at least 1, not 0"),
                (["layers"], TypeError, f"{lists}'layers'"), ([module.layers], TypeError, f"{lists}a ModuleList"),
                ([3], TypeError, f"{lists}3"), ([[3]], TypeError, f"{entry}3"), ([[None]], TypeError, f"{entry}None"),
                ([["layers"], ["layers.1"]], ValueError,
                 "parameter layers.1.weight is in fragments 0 and 1: it belongs into one"),
                ([["layers.1"], ["layers.3"]], ValueError, "fragment 1 has no parameter that is trained"),
                ([["layers.1"], rest], ValueError,
                 "parameter layers.10.weight is in no fragment, so it would never be exchanged"),
                ([["layers.11"]], ValueError, "the model has no module, and no parameter that is trained, of the name "
                                              "'layers.11'"),
                ([["layers.3.weight"]], ValueError, "the model has no module, and no parameter that is trained, of the "
                                                    "name 'layers.3.weight'")):
            with self.assertRaises(error) as caught:
                self.of(module, fragments)
            self.assertEqual(str(caught.exception), sentence)
        with self.assertRaisesRegex(ValueError, "^pattern should be one of strided, sequential, not 'sequence': did"):
            self.of(module, 1, "sequence")


class Versions(unittest.TestCase):
    """Both ways, whichever this PyTorch has."""

    def test_backends(self):
        def of(device):
            if device.type == "cuda":
                raise RuntimeError
            return "gloo"

        for group, wanted in ((SimpleNamespace(), None), (SimpleNamespace(_get_backend=of), ["gloo"]),
                              (SimpleNamespace(_get_backend=lambda device: device.type), ["cpu", "cuda"])):
            self.assertEqual(versions.backends_of(group), [group] if wanted is None else wanted)

    def test_stores(self):
        for names in {"_world": SimpleNamespace(pg_names={"group": 7})}, {"_pg_names": {"group": 7}}:
            c10d = SimpleNamespace(_get_default_store=lambda: "store", **names)
            with mock.patch.object(torch.distributed, "distributed_c10d", c10d):
                self.assertEqual(versions.store_of("group"), ("store", "7"))

    def test_hooks_of_steps(self):
        for name in "_patch_step_function", "_hook_for_profile":
            optimizer = SimpleNamespace(**{name: mock.Mock()})
            versions.call_step_hooks(optimizer)
            getattr(optimizer, name).assert_called_once_with()

    def test_graphs(self):
        with mock.patch.object(torch, "_disable_dynamo", lambda function: (function, "disabled"), create=True):
            self.assertEqual(versions.outside_graphs(3), (3, "disabled"))
            del torch._disable_dynamo
            self.assertEqual(versions.outside_graphs(3), 3)
            torch._disable_dynamo = None

    def test_optimizers_in_backward(self):
        self.assertFalse(versions.has_optimizer_in_backward(torch.ones(1)))
        self.assertTrue(versions.has_optimizer_in_backward(SimpleNamespace(_in_backward_optimizers=[])))

    def test_backward_passes(self):
        """Their numbers, and whether one is in another one. It needs two things of PyTorch."""
        self.assertEqual(versions.has_backward_passes(), int(torch.__version__.partition(".")[0]) > 1)
        if not versions.has_backward_passes():
            return
        for place, name in (torch._C, "_current_graph_task_id"), (torch.autograd.graph, "_engine_run_backward"):
            kept = getattr(place, name)
            delattr(place, name)
            try:
                self.assertFalse(versions.has_backward_passes())
            finally:
                setattr(place, name, kept)
        found = []

        def look():
            found.append((versions.backward_pass(), versions.in_two_backward_passes()))

        def a_pass(inside):
            with torch.enable_grad():
                one = 2 * torch.ones(1, requires_grad=True)
            one.register_hook(lambda _: inside() and None)
            one.backward()

        look()
        a_pass(look)
        a_pass(lambda: a_pass(look))
        other = object.__new__(threading._DummyThread)
        with mock.patch.object(threading, "current_thread", lambda: other):
            look()
            a_pass(look)
        passes, nested = zip(*found)
        self.assertEqual(nested, (False, False, True, False, True))
        self.assertEqual((passes[0], passes[3]), (-1, -1))
        self.assertTrue(-1 < passes[1] < passes[2] < passes[4])

    def test_fsdp(self):
        """What modules, and the CPU, have of it."""
        plain = SimpleNamespace()
        self.assertFalse(versions.is_fsdp_module(plain) or versions.has_all_reduce_hook(plain))
        self.assertTrue(versions.has_all_reduce_hook(SimpleNamespace(set_all_reduce_hook=0)))
        self.assertEqual(versions.fsdp_param_groups(plain), [])
        for state, wanted in (({}, []), ({"_fsdp_param_group": None}, []), ({"_fsdp_param_group": 3}, [3]),
                              ({"_fsdp_param_groups": [4, None, 5]}, [4, 5]),
                              ({"_fsdp_param_groups": [], "_fsdp_param_group": 3}, [3])):
            module = SimpleNamespace(_get_fsdp_state=lambda state=state: SimpleNamespace(**state))
            self.assertTrue(versions.is_fsdp_module(module))
            self.assertEqual(versions.fsdp_param_groups(module), wanted)
        for cpu, wanted in (({}, False), ({"Stream": int}, False),
                            ({"Stream": SimpleNamespace(record_event=0)}, True)):
            with mock.patch.object(torch, "cpu", SimpleNamespace(**cpu), create=True):
                self.assertEqual(versions.fsdp_runs_on_cpus(), wanted)


if __name__ == "__main__":
    unittest.main()
