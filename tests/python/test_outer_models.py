# SPDX-License-Identifier: MIT
"""Local steps, the parameter server and gossip: models that change after the start, and what no model may have."""
import torch

from cluster import CLUSTER, Refusals, attempt
from outer_models import ones
from test_outer_arguments import WAYS, make, small

TIMEOUT = 60  # of the process groups where one rank fails


def inside(way, optimizer):
    return optimizer.inner_optimizer if way == "LocalSteps" else optimizer.optimizer


# ---- memory ----

class Tied(torch.nn.Module):
    """Two parameters that are one, are one memory, or overlap."""

    def __init__(self, kind):
        super().__init__()
        self.a = torch.nn.Parameter(torch.zeros(300))
        self.b = torch.nn.Parameter(torch.zeros(300))
        if kind == "one":
            self.b = self.a
        elif kind == "data":
            self.b.data = self.a.data
        elif kind == "view":
            self.b.data = self.a.data[100:]
        elif kind == "overlap":
            memory = torch.zeros(400)
            self.a.data, self.b.data = memory[:300], memory[100:]


def tied(rank, world, way, kind, ranks):
    """Weights of a after a step with gradients of 1."""
    model = Tied(kind if rank in ranks else "apart")
    optimizer = make(way, model, codec="raw", **({"every": 1} if way == "LocalSteps" else {}))
    ones(model, optimizer)
    return float(model.a.detach()[0])


def held(rank, world, way, kind, where):
    """A parameter or buffer that cannot be written as it lies in memory, or has none on rank 1."""
    model = small()
    tensor = {"expanded": lambda: torch.ones(1).expand(5), "windows": lambda: torch.ones(10).as_strided((4, 4), (2, 1)),
              "conjugate": lambda: torch.ones(3, dtype=torch.complex64).conj(),
              "negative": lambda: torch.ones(3, dtype=torch.complex64).conj().imag,
              "meta": lambda: torch.ones(3, device="meta" if rank == 1 else "cpu")}[kind]()
    if where == "buffer":
        model.register_buffer("odd", tensor)
    else:
        model.odd = torch.nn.Parameter(tensor)
    make(way, model)


class Memory(Refusals):
    def test_tied_by_memory(self):
        """The server would train each alone, and what it sent last would be the weights."""
        for kind in ("data", "view", "overlap"):
            self.refused(CLUSTER.outcomes(2, tied, "PushPull", kind, (0, 1)), "TypeError",
                         "parameters a and b have memory in common, but are two objects, and PushPull would train each")
        self.refused(CLUSTER.outcomes(2, tied, "PushPull", "data", (1,), timeout=TIMEOUT), None,
                     "rank 1: parameters a and b have memory in common")
        self.assertEqual(CLUSTER.run(2, tied, "PushPull", "one", (0, 1)), [torch.tensor(-0.1).item()] * 2)

    def test_tied_by_memory_elsewhere(self):
        for way in ("LocalSteps", "Gossip"):
            for found in CLUSTER.run(2, tied, way, "data", (0, 1)):
                self.assertAlmostEqual(found, -0.2, places=6)

    def test_no_memory_of_its_own(self):
        for way, where in zip(WAYS, ("parameter", "buffer", "parameter")):
            for kind, words in (("expanded", "odd is expanded, several of its values are one in memory"),
                                ("windows", "odd is expanded"),
                                ("conjugate", "odd is a conjugate or negative view of other memory"),
                                ("negative", "odd is a conjugate or negative view of other memory")):
                self.refused(CLUSTER.outcomes(2, held, way, kind, where), "TypeError", f"{where} {words}")

    def test_one_rank_on_meta(self):
        """All know it, at once."""
        for way in WAYS:
            self.refused(CLUSTER.outcomes(2, held, way, "meta", "parameter", timeout=TIMEOUT), "TypeError",
                         "rank 1: parameter odd has no values, as it is on the device meta")


# ---- models that change ----

def changed(rank, world, way, kind, ranks):
    """What two steps raise after a change, and after how long."""
    model = small()
    optimizer = make(way, model)
    ones(model, optimizer, 2)
    inner = inside(way, optimizer)
    if rank in ranks:
        if kind == "added":
            model.add_module("new", torch.nn.Linear(3, 3))
        elif kind == "added, with group":
            model.add_module("new", torch.nn.Linear(3, 3))
            inner.add_param_group({"params": list(model.new.parameters())})
        elif kind == "group":
            inner.add_param_group({"params": [torch.nn.Parameter(torch.ones(3))]})
        elif kind == "removed":
            del model[1]
        elif kind == "replaced":
            model[0].bias = torch.nn.Parameter(torch.zeros(20))
        elif kind == "left":
            inner.param_groups[0]["params"].pop(0)
        elif kind == "double":
            model.double()
        elif kind == "frozen":  # which is no harm
            model[0].weight.requires_grad_(False)
            if way != "PushPull":
                inner.param_groups[0]["params"].pop(0)
    return attempt(ones, model, optimizer, 2)


def loaded(rank, world, way, kind):
    """Weights come after the start."""
    model = torch.nn.Linear(20, 20)
    optimizer = make(way, model)
    saved = optimizer.state_dict()
    weights = {name: p + 1 for name, p in model.state_dict().items()}
    if kind == "same":
        model.load_state_dict(model.state_dict())
        optimizer.load_state_dict(saved)
    elif kind == "nan":
        with torch.no_grad():
            model.weight[0, 0] = torch.nan
        optimizer = make(way, model, on_nonfinite="skip")
    elif kind == "later":
        ones(model, optimizer)
    if kind in ("first", "later"):
        model.load_state_dict(weights)
    ones(model, optimizer)


class Changes(Refusals):
    def test_parameters(self):
        for way in WAYS:
            more, fewer = ["optimizer made an optimizer of other parameters than"] * 2 if way == "PushPull" else (
                "the optimizer has parameters that are not", "the optimizer does not have the parameter")
            for kind, words in (
                    ("added", "parameter new.weight was added or replaced after the start, so it is not exchanged"),
                    ("added, with group", "parameter new.weight was added or replaced"),
                    ("group", more),
                    ("removed", "parameter 1.weight is no longer in the model"),
                    ("replaced", "parameter 0.bias was added or replaced after the start"),
                    ("left", fewer),
                    ("double", "parameter 0.weight was of shape [20, 20], torch.float32 at the start, and is of shape "
                               "[20, 20], torch.float64 now: convert the model first")):
                for error, said, _ in CLUSTER.run(2, changed, way, kind, (0, 1)):
                    self.assertEqual(error, "ValueError", (way, kind))
                    self.assertIn(words, said)
            for error, said, _ in CLUSTER.run(2, changed, way, "frozen", (0, 1)):
                self.assertEqual((error, said), ("", ""))

    def test_on_one_rank(self):
        """The other one does not wait for its timeout."""
        for way in WAYS:
            other, here = CLUSTER.run(2, changed, way, "added", (1,), timeout=TIMEOUT)
            self.assertEqual((other[0], here[0]), ("RuntimeError", "ValueError"))
            self.assertRegex(other[1], "^rank 0 lost rank 1 ")
            self.assertLess(other[2], TIMEOUT / 2)

    def test_weights_that_come_late(self):
        for way in ("LocalSteps", "Gossip"):
            self.refused(CLUSTER.outcomes(2, loaded, way, "first"), "ValueError",
                         "parameter weight has other values than those from which all ranks began: load weights "
                         f"before {way} is made")
            for kind in ("same", "later"):
                CLUSTER.run(2, loaded, way, kind)
        CLUSTER.run(2, loaded, "LocalSteps", "nan")  # which is equal to no value


# ---- buffers that come late ----

class Caches(torch.nn.Module):
    """Buffers that the first step adds or fills."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(300))
        self.register_buffer("filled", torch.empty(0))

    def fill(self, rank, kind):
        if kind == "alone" and rank == 0:
            return
        self.register_buffer("cos", torch.arange(4.0), persistent=False)
        self.filled = torch.full((3,), 1.0 if kind == "same" else 1.0 + rank)
        if kind == "shapes":
            self.filled = torch.ones(3 + rank)
        elif kind == "conjugate":
            self.filled = torch.ones(3, dtype=torch.complex64).conj()


def late_buffers(rank, world, kind):
    """What they become in two rounds; in the second one rank 1 adds 2."""
    model = Caches()
    optimizer = make("LocalSteps", model, every=1)
    model.fill(rank, kind)
    ones(model, optimizer)
    found = [model.cos.tolist(), model.filled.tolist()]
    model.filled += 2 * rank
    ones(model, optimizer)
    return [*found, model.filled.tolist()]


def taken_back(rank, world, late):
    """Goes back to a state from before the buffers came, or from after it."""
    model = Caches()
    optimizer = make("LocalSteps", model, every=1)
    saved = model.weight.detach().clone(), optimizer.state_dict()
    model.fill(rank, "values")
    ones(model, optimizer)
    if late:
        saved = model.weight.detach().clone(), optimizer.state_dict()
        model = Caches()
        optimizer = make("LocalSteps", model, every=1)
        model.fill(rank, "values")
    model.load_state_dict({**model.state_dict(), "weight": saved[0]})
    optimizer.load_state_dict(saved[1])
    model.filled += rank
    ones(model, optimizer)
    return model.filled.tolist()


def another_on_one_rank(rank, world):
    model = Caches()
    model.fill(0, "same")
    optimizer = make("LocalSteps", model, every=1)
    if rank == 1:
        model.cos = torch.arange(5.0)
    ones(model, optimizer)


class LateBuffers(Refusals):
    def test_on_all_ranks(self):
        self.assertEqual(CLUSTER.run(2, late_buffers, "same"), [[[0, 1, 2, 3], [1] * 3, [2] * 3]] * 2)
        self.assertEqual(CLUSTER.run(2, late_buffers, "values"), [[[0, 1, 2, 3], [1.5] * 3, [2.5] * 3]] * 2)

    def test_states(self):
        self.assertEqual(CLUSTER.run(2, taken_back, False), [[2.0] * 3] * 2)
        self.assertEqual(CLUSTER.run(2, taken_back, True), [[2.0] * 3] * 2)

    def test_that_differ(self):
        """All ranks say which, and where."""
        for kind, words in (("alone", "cos is of shape [4], torch.float32 on rank 1 and missing on rank 0"),
                            ("shapes", "filled is of shape [4], torch.float32 on rank 1 and of shape [3]"),
                            ("conjugate", "rank 0: buffer filled is a conjugate or negative view")):
            self.refused(CLUSTER.outcomes(2, late_buffers, kind, timeout=TIMEOUT), "ValueError", words)
        self.refused(CLUSTER.outcomes(2, another_on_one_rank, timeout=TIMEOUT), "ValueError",
                     "rank 1: buffer cos of shape [4], torch.float32, is another one now, or gone")
