# SPDX-License-Identifier: MIT
"""States that do not fit: other codecs, names, dtypes and kinds. A sentence says so, and nothing has changed."""
import copy
import unittest
from types import SimpleNamespace

import numpy
import torch
from torch.nn.parallel import DistributedDataParallel

import threelc
import threelc.torch
from cluster import CLUSTER, Refusals, attempt
from outer_models import HAS_FSDP2, shard
from threelc.torch._common import states
from threelc.torch._common.histories import compare_histories

WAYS = ("register", *["register_fsdp"] * HAS_FSDP2, "LocalSteps", "PushPull", "Gossip")


class Net(torch.nn.Module):
    def __init__(self, more=False):
        super().__init__()
        self.first = torch.nn.Linear(30, 40)
        self.second = torch.nn.Linear(40, 20)
        self.more = torch.nn.Linear(20, 20) if more else torch.nn.Identity()

    def forward(self, x):
        return self.more(self.second(torch.tanh(self.first(x))))


class Wrapped(torch.nn.Module):
    """One module more. `_orig_mod`: as torch.compile() of PyTorch 2 wraps it."""

    def __init__(self, module, name):
        super().__init__()
        self.name = name
        self.add_module(name, module)

    def forward(self, x):
        return getattr(self, self.name)(x)


class Way:
    """A way to train, and its model."""

    def __init__(self, way, codec=None, net=None, groups=1, **settings):
        torch.manual_seed(1)
        codec = codec or ("qsgd:bits=8" if way == "Gossip" else "3lc")
        self.net = Net() if net is None else net
        if way == "register":
            self.net = DistributedDataParallel(self.net)
            self.state = threelc.torch.register(self.net, codec, **settings)
        elif way == "register_fsdp":
            if net is None:
                self.net = torch.nn.Sequential(torch.nn.Linear(30, 60), torch.nn.Linear(60, 20))
                shard(torch.distributed.get_world_size(), *self.net)
            self.state = threelc.torch.register_fsdp(self.net, codec, **settings)
        elif way in ("PushPull", "ShardedOptimizer"):
            self.state = getattr(threelc.torch, way)(self.net, lambda p: torch.optim.SGD(
                [{"params": p[i::groups]} for i in range(groups)], 0.1, momentum=0.9), codec=codec, **settings)
        else:
            self.inner = torch.optim.SGD(self.net.parameters(), 0.1)
            made = {"every": 1, "min_numel": 1} if way == "LocalSteps" else {}
            self.state = getattr(threelc.torch, way)(self.net, self.inner, codec=codec, **{**made, **settings})
        self.optimizer = self.state if hasattr(self.state, "step") else torch.optim.SGD(self.net.parameters(), 0.1)

    def train(self, rank, steps):
        """Returns the weights."""
        for step in steps:
            draw = torch.Generator().manual_seed(10 * step + rank)
            self.optimizer.zero_grad()
            dtype = next(self.net.parameters()).dtype
            self.net(torch.randn(8, 30, generator=draw).to(dtype)).float().pow(2).mean().backward()
            self.optimizer.step()
        weights = [getattr(p, "to_local", lambda p=p: p)() for p in self.net.parameters()]
        return [tensor.detach().float().numpy().tobytes() for tensor in weights]


def said(function, *arguments):
    kind, words, _ = attempt(function, *arguments)
    return f"{kind}: {words}" if kind else "no exception"


def frozen(thing):
    """A state that can be compared."""
    if torch.is_tensor(thing):
        return thing.detach().cpu().numpy().tobytes()
    if isinstance(thing, dict):
        return {key: frozen(value) for key, value in thing.items() if key != "thread_seconds"}
    return [frozen(part) for part in thing] if isinstance(thing, (list, tuple)) else thing


def with_floats_and_bytes(thing):
    """What a state of older releases has in place of words and tensors."""
    if isinstance(thing, dict):
        if set(thing) == {"float"}:
            return float.fromhex(thing["float"])
        return {key: value.numpy().tobytes() if key == "state" and torch.is_tensor(value) else
                with_floats_and_bytes(value) for key, value in thing.items()}
    return type(thing)(map(with_floats_and_bytes, thing)) if isinstance(thing, (list, tuple)) else thing


def older(state):
    """As older releases saved it."""
    state = {key: with_floats_and_bytes(value) for key, value in state.items()
             if key not in ("kind", "made", "orders", "changed", "velocities", "second_moments", "late", "shard")}
    if isinstance(state.get("groups"), list):
        state["groups"] = [{key: value for key, value in group.items() if key not in ("push", "pull")}
                           for group in state["groups"]]
    if "fragments" in state:  # of LocalSteps
        state["group"] = state.pop("fragments")[0]["group"]
        del state["largest_round"]
    return state


def refused(rank, world, way, made, other, change):
    """What load_state_dict() of a changed state says, whether that changed something, and whether the good state goes
    on as the run that was not stopped."""
    one = Way(way, **made)
    one.train(rank, range(3))
    state = copy.deepcopy(one.state.state_dict())
    weights = copy.deepcopy(one.net.state_dict())
    if other is not None:
        two = Way(way, **other)
        return said(two.state.load_state_dict, change(state)), True, True
    two = Way(way, **made)
    two.net.load_state_dict(weights)
    before = frozen(two.state.state_dict())
    words = said(two.state.load_state_dict, change(state))
    same = frozen(two.state.state_dict()) == before
    two.state.load_state_dict(older(state))
    return words, same, one.train(rank, range(3, 5)) == two.train(rank, range(3, 5))


def of_two_runs(rank, world, way):
    """What the first step says where each rank loads its state of another run, and whether one run goes on."""
    states = []
    for run in range(2):
        one = Way(way)
        one.train(rank, range(10 * run, 10 * run + 3))
        states.append(copy.deepcopy((one.state.state_dict(), one.net.state_dict())))
    found = []
    for chosen in (1, rank % 2):
        two = Way(way)
        state, weights = states[chosen]
        two.net.load_state_dict(weights)
        two.state.load_state_dict(state)
        found.append(said(two.train, rank, [5]))
    return found


def whole(state):
    return state


def truncated(state):
    """The last thing that the library looks at."""
    for entry in ("worker", "node"):
        if entry in state:
            return {**state, entry: {**state[entry], "state": state[entry]["state"][:-1]}}
    if "fragments" in state:
        return {**state, "fragments": [{**each, "group": truncated({"groups": [each["group"]]})["groups"][0]}
                                       for each in state["fragments"]]}
    groups = copy.copy(state["groups"])
    last = len(groups) - 1 if isinstance(groups, list) else list(groups)[-1]
    groups[last] = {**groups[last], "state": truncated({"node": groups[last]["state"]})["node"]}
    return {**state, "groups": groups}


def changed_codec(rank, world, stop, at):
    """set_codec() before step `at`; a new run from step `stop` on."""
    settings = {"reserve": ["sbc:p=0.01"]}
    run = Way("register", **settings)
    for step in range(6):
        if step == at:
            run.state.set_codec("sbc:p=0.01")
        if step == stop:
            saved = run.net.state_dict(), run.state.state_dict()
            run = Way("register", **settings)
            run.net.load_state_dict(saved[0])
            run.state.load_state_dict(saved[1])
        found = run.train(rank, [step])
    return found, run.state.stats.sent


def other_codec_after_change(rank, world):
    run = Way("register", reserve=["raw"])
    run.train(rank, range(3))
    run.state.set_codec("raw")
    return said(Way("register", "raw").state.load_state_dict, run.state.state_dict())


def renamed(rank, world, names, lost, old=False):
    """From a module that is wrapped as one name says, to one that is wrapped as another does: the norms of residuals
    before and after."""
    wrapped = [Net() if name is None else Wrapped(Net(), name) for name in names]
    places = threelc.torch._hook.places
    plain = places.plain
    if old:  # as older releases had names
        places.plain = str
    one = Way("register", net=wrapped[0])
    one.train(rank, range(3))
    places.plain = plain
    two = Way("register", net=wrapped[1])
    two.state.load_state_dict(one.state.state_dict(), lost)
    after = two.state.stats.residual_norms
    two.train(rank, range(2))
    return sum(one.state.stats.residual_norms.values()), sum(after.values())


def other_modules(rank, world, lost):
    one = Way("register_fsdp", net=shard(world, torch.nn.Linear(30, 60))[0])
    one.train(rank, range(2))
    two = Way("register_fsdp", net=torch.nn.Sequential(*shard(world, torch.nn.Linear(30, 60))))
    two.state.load_state_dict(one.state.state_dict(), lost)


def waits(rank, world):
    """A module gets no gradient between two saves."""
    one = Way("register_fsdp")
    one.train(rank, range(2))
    two, three = Way("register_fsdp"), Way("register_fsdp")
    two.state.load_state_dict(one.state.state_dict())
    three.state.load_state_dict(two.state.state_dict())
    three.net.load_state_dict(one.net.state_dict())
    return one.train(rank, [2]) == three.train(rank, [2])


def larger(rank, world, way, *lost):
    one = Way(way, net=Net(True))
    one.train(rank, range(2))
    two = Way(way)
    two.state.load_state_dict(one.state.state_dict(), *lost)
    two.train(rank, range(2))


def parts(rank, world, way):
    """A state of a model in one whose first layer torch.compile() has wrapped, and back: the weights after both, beside
    those without that."""
    found = []
    for kinds in ("plain", "wrapped", "plain"), ("plain",) * 3:
        state = weights = None
        for i, kind in enumerate(kinds):
            torch.manual_seed(1)
            net = Net()
            net.first = Wrapped(net.first, "_orig_mod") if kind == "wrapped" else net.first
            one = Way(way, net=net)
            if state:
                for p, values in zip(net.parameters(), weights):
                    p.data.copy_(values)
                one.state.load_state_dict(state)
            trained = one.train(rank, range(3 * i, 3 * i + 3))
            state, weights = copy.deepcopy(one.state.state_dict()), [p.detach().clone() for p in net.parameters()]
        found.append(trained)
    return found[0] == found[1]


def other_parameters(rank, world, what, lost=False):
    one = Way("register")
    one.train(rank, range(3))
    net = Net()
    if what == "frozen":
        net.first.weight.requires_grad_(False)
    two = Way("register", net=net.half() if what == "float16" else net)
    two.state.load_state_dict(one.state.state_dict(), lost)
    two.train(rank, range(2))


def two_groups(rank, world):
    """A state of an optimizer of two groups in one of one group, and the other way round."""
    found = []
    for groups in (2, 1), (1, 2):
        one, two = (Way("PushPull", groups=count, servers=2) for count in groups)
        one.train(rank, range(2))
        two.train(rank, range(1))
        before = frozen(two.state.state_dict())
        words = said(two.state.load_state_dict, one.state.state_dict())
        found.append((words, frozen(two.state.state_dict()) == before))
    return found


def mixed_up(rank, world, age):
    """By way: what it says of everything that is no state of its own."""
    ways = {way: Way(way) for way in WAYS}
    for run in ways.values():
        run.train(rank, range(2))
    states = {way: age(run.state.state_dict()) for way, run in ways.items()}
    sync = threelc.torch.WeightSync(Net())
    context = threelc.Context(10)
    others = [Net().state_dict(), torch.optim.SGD(Net().parameters(), 0.1).state_dict(), context.state_dict(), {}, None,
              5, "x", [None], ["x"], [[]], {"version": 1}, {"version": 2}, {"version": 3}]
    found = {}
    for way in WAYS:
        target = Way(way).state
        found[way] = [said(target.load_state_dict, thing) for other, state in states.items() if other != way
                      for thing in (state, [state])] + [said(target.load_state_dict, thing) for thing in others]
        for entry in states[way]:
            if entry in ("kind", "scale", "counts", "outer", "server", "buckets", "made", "orders", "changed",
                         "velocities", "second_moments", "late", "shard", "largest_round"):
                continue
            for bad in ({key: value for key, value in states[way].items() if key != entry},
                        {**states[way], entry: "x"}):
                if not (way == "register_fsdp" and entry == "traffic" and entry not in bad):
                    found[way].append(said(target.load_state_dict, bad))
    state = age(sync.state_dict())
    found["WeightSync"] = [said(sync.load_state_dict, thing) for thing in [*states.values(), *others]] + [
        said(sync.load_state_dict, {**state, entry: 3.5}) for entry in state if entry != "kind"] + [
        said(sync.load_state_dict, {**state, "heard": [1, 2]})]
    return found


class Runs(unittest.TestCase):
    def test_states_of_two_runs(self):
        """They fit each other in all but what came in the last step."""
        for way in (*WAYS, "ShardedOptimizer"):
            for one, two in CLUSTER.run(2, of_two_runs, way):
                self.assertEqual(one, "no exception", way)
                self.assertRegex(two, "^ValueError: " + (
                    "the model of node 1 is not its replica here" if way == "Gossip" else
                    r"the states of ranks 0 and 1 are not of one run: before step \d they got different messages"), way)

    def test_servers_of_another_run(self):
        """Step and history of the worker of each rank, and of its server; ranks 0 and 1 have one."""
        def found(*ranks):
            return said(compare_histories, SimpleNamespace(gather=lambda _: [list(rank) for rank in ranks]),
                        [SimpleNamespace(step=3, history=5)], [[]])

        worker, half = [[3, 5]], 2**63 + 1
        for ranks in (((worker, [[3, 2]]), (worker, [[3, 3]]), (worker, [])),
                      (([[3, 2]], [[3, half]]), ([[3, 2]], [[3, half]])),  # modulo 2**64
                      ((worker, [[3, 2]]), (worker, [[3, 0]])), ((worker, [[4, 2]]), (worker, [[4, 2]])),
                      (([[3, 0]], [[3, 2]]), (worker, [[3, 3]])), (([[4, 6]], [[3, 2]]), (worker, [[3, 3]]))):
            self.assertEqual(found(*ranks), "no exception")
        self.assertRegex(found((worker, [[3, 2]]), (worker, [[3, 4]]), (worker, [])),
                         "^ValueError: the states of rank 0 and of the servers are not of one run: before step 3 it ")
        self.assertRegex(found((worker, [[3, 2]]), ([[3, 0]], [[3, 3]]), ([[3, 6]], [])),
                         "^ValueError: the states of ranks 0 and 2 are not of one run: before step 3 ")


class Made(unittest.TestCase):
    def test_another_codec(self):
        """On every rank, and before anything is sent."""
        for way in WAYS:
            one, other = ("qsgd:bits=8", "natural") if way == "Gossip" else ("3lc", "raw")
            for words, _, _ in CLUSTER.run(2, refused, way, {"codec": one}, {"codec": other}, whole):
                self.assertRegex(words, f"^ValueError: the state is of .* with codec='{one}', and this one was made "
                                        f"with codec='{other}', .* Make it with codec='{one}'")
                self.assertEqual("set_codec() afterwards" in words, way == "register")

    def test_other_settings(self):
        for way, name, one, other in (("register", "pull", "3lc", "qsgd"), ("register", "mode", "gather", "sharded"),
                                      ("LocalSteps", "mode", "gather", "sharded"),
                                      *[("register_fsdp", "min_numel", 1, 1500)] * HAS_FSDP2):
            for words, _, _ in CLUSTER.run(2, refused, way, {name: one}, {name: other}, whole):
                self.assertIn(f"with {name}={one!r}, and this one was made with {name}={other!r}", words)
        for words, _, _ in CLUSTER.run(2, refused, "PushPull", {"min_numel": 10}, {"min_numel": 12}, whole):
            self.assertEqual(words, "no exception")  # no tensor is of such a size

    def test_set_codec(self):
        """A run that goes on after set_codec() has its bits and bytes."""
        for at in (4, 0):
            self.assertEqual(CLUSTER.run(2, changed_codec, 5, at), CLUSTER.run(2, changed_codec, 9, at))
        for words in CLUSTER.run(2, other_codec_after_change):
            self.assertIn("with codec='3lc', and this one was made with codec='raw'", words)

    def test_a_load_that_fails(self):
        """It leaves everything as it was; then a state as older releases saved it goes on with the same bits."""
        for way in WAYS:
            made = {"error_reset": 0} if way == "LocalSteps" else {}  # older releases had none
            for words, same, goes_on in CLUSTER.run(2, refused, way, made, None, truncated):
                self.assertRegex(words, "^CorruptError", way)
                self.assertTrue(same, way)
                self.assertTrue(goes_on, way)

    def test_groups_of_an_optimizer(self):
        for found in CLUSTER.run(3, two_groups):
            for (words, same), saved in zip(found, (2, 1)):
                self.assertIn(f"an optimizer of {saved} groups was saved, this one has {3 - saved}", words)
                self.assertTrue(same)


class Names(Refusals):
    def test_compiled(self):
        for names, old in (((None, "_orig_mod"), False), (("_orig_mod", None), False),
                           (("_orig_mod", "_orig_mod"), True)):
            for before, after in CLUSTER.run(2, renamed, names, False, old):
                self.assertGreater(before, 0)
                self.assertEqual(before, after)

    def test_compiled_parts(self):
        for way in ("LocalSteps", "PushPull", "ShardedOptimizer", "Gossip"):
            self.assertEqual(CLUSTER.run(2, parts, way), [True, True], way)

    def test_wrapped(self):
        for result in CLUSTER.outcomes(2, renamed, (None, "inside"), False):
            self.assertEqual(result.kind, "ValueError")
            self.assertRegex(result.words, r"no parameter has here: [a-z., ]*second.weight[a-z., ]* \(4 in all\)")
        for _, after in CLUSTER.run(2, renamed, (None, "inside"), True):
            self.assertEqual(after, 0)

    @unittest.skipUnless(HAS_FSDP2, "PyTorch has no FSDP2 that runs on CPUs")
    def test_sharded_modules(self):
        self.refused(CLUSTER.outcomes(2, other_modules, False), None,
                     "that no sharded module has here: (root) (1 in all). With lost=True")
        CLUSTER.run(2, other_modules, True)
        self.assertEqual(CLUSTER.run(2, waits), [True, True])

    def test_larger_models(self):
        for result in CLUSTER.outcomes(2, larger, "Gossip"):
            self.assertRegex(result.words, "parameters that are not trained here: .*more.weight")
        for way in ("LocalSteps", "PushPull"):
            for result in CLUSTER.outcomes(2, larger, way, False):
                self.assertRegex(result.words, "more.weight.*lost=True")
            CLUSTER.run(2, larger, way, True)

    def test_dtype(self):
        self.refused(CLUSTER.outcomes(2, other_parameters, "float16"), None,
                     "is of torch.float16 here, and the state is of gradients of torch.float32")

    def test_frozen(self):
        self.refused(CLUSTER.outcomes(2, other_parameters, "frozen"), None,
                     "whose parameters are frozen here, so that no gradients will come: first.weight (1 in all)")
        CLUSTER.run(2, other_parameters, "frozen", True)


class Parts(unittest.TestCase):
    """What states are made of, without ranks that train."""

    def test_numbers(self):
        """Numbers of other libraries are numbers, too."""
        kind, head = states.Kind("Thing", 1, {"a": int, "b": float}), {"version": 1, "kind": "Thing"}
        for a, b in (3, 2.5), (numpy.int64(3), 2), (True, numpy.float32(2)):
            self.assertEqual(kind.checked({**head, "a": a, "b": b})["b"], b)
        for a, b, words in (3.5, 2.5, "'a' is 3.5, not a int"), (3, "2", "'b' is '2', not a float"):
            with self.assertRaisesRegex(ValueError, f"this state of Thing is damaged: {words}"):
                kind.checked({**head, "a": a, "b": b})

    def test_pairs(self):
        kind = states.Kind("Thing", 1, {"a": (str, int)})
        for a in ("x",), ("x", 1, 2), "x1":
            with self.assertRaisesRegex(ValueError, "'a' is .*, not a list of 2 entries"):
                kind.checked({"version": 1, "kind": "Thing", "a": a})
        for other, words in (({"version": 1, "state": 2}, "not one of a threelc.Context"),
                             ({"state": {}, "param_groups": []}, "not one of an optimizer")):
            with self.assertRaisesRegex(ValueError, words):
                kind.checked(other)

    def test_ranks(self):
        kind, here = states.Kind("Thing", 1, states.RANKS), SimpleNamespace(rank=1, world=2)
        for ranks, words in (((0, 7), "is of rank 7 of 2"), ((-1, 0), "is of rank -1 of 2"),
                             ((0,), "of rank 1 is needed"), ((1, 1), "of rank 1 is given twice"),
                             ((), "there is no state")):
            saved = [{"version": 1, "kind": "Thing", "rank": rank, "world": 2} for rank in ranks]
            with self.assertRaisesRegex(ValueError, words):
                states.states_for(saved, kind, here, None)

    def test_ranks_that_are_missing(self):
        kind, here = states.Kind("Thing", 1, states.RANKS), SimpleNamespace(rank=1, world=2)
        for world, lost, words in ((3, None, r"ranks 1, 2 are missing$"),
                                   (9, None, r"ranks 1, 2, 3, \.\.\. are missing$"),
                                   (3, False, "ranks 1, 2 are missing; with lost=True the run goes on")):
            saved = {"version": 1, "kind": "Thing", "rank": 0, "world": world}
            with self.assertRaisesRegex(ValueError, words):
                states.states_for(saved, kind, here, lost)

    def test_traffic(self):
        """Sums over all ranks stay, whatever their number."""
        saved = [{"rank": rank, "world": 5, "traffic": {"sent": 10 ** rank, "seconds": rank / 4}} for rank in range(5)]
        for world in range(1, 8):
            found = [states.traffic_saved(saved, "traffic", SimpleNamespace(rank=rank, world=world))
                     for rank in range(world)]
            self.assertEqual({name: sum(counts[name] for counts in found) for name in ("sent", "seconds")},
                             {"sent": 11111, "seconds": 2.5}, world)

    def test_sizes(self):
        """Another min_numel is none where the same tensors are smaller."""
        kind, saved = states.Kind("Thing", 1, {}), [{"made": {"min_numel": 10}}]
        for here, size, fits in (12, 12, True), (12, 9, True), (12, 10, False), (12, 11, False), (9, 9, False):
            if fits:
                states.check_made(kind, saved, {"min_numel": here}, [size])
                continue
            with self.assertRaisesRegex(ValueError, f"with min_numel=10, and this one was made with min_numel={here}"):
                states.check_made(kind, saved, {"min_numel": here}, [size])


class Kinds(unittest.TestCase):
    def test_other_things(self):
        for age in (whole, older):
            for way, found in CLUSTER.run(1, mixed_up, age)[0].items():
                for words in found:
                    self.assertRegex(words, "^ValueError: (a state of version|this state of|the states? )", way)
                text = " ".join(found)
                if way == "LocalSteps":
                    self.assertIn("a state of version 2 is needed, that of LocalSteps, or a list of those of all "
                                  "ranks, not one of Gossip", text)
                    self.assertIn("this state of LocalSteps is damaged: it has no 'rounds'", text)
                    self.assertIn("damaged: 'anchors' is 'x', not a dict", text)
