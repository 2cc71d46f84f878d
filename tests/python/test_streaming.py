# SPDX-License-Identifier: MIT
"""Streaming DiLoCo in LocalSteps: fragments of a model in turn, exchanges that local steps go on beside, and mixing. In
real processes over gloo."""
import itertools
import os
import unittest

import torch
import torch.distributed as dist

import threelc.torch
from cluster import CLUSTER, Refusals, attempt, names as names_the_lost
from outer_models import bits, in_pieces, nesterov
from threelc.torch._common.module import Model
from threelc.torch._local.division import fragments_of


class Layers(torch.nn.Module):
    """Layers of equal size, and a head that is beside them."""

    def __init__(self, count=4, width=16, dtype=torch.float32):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(count))
        self.head = torch.nn.Linear(width, 1, bias=False)
        self.to(dtype)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.head(x)


def built(rank, **settings):
    torch.manual_seed(rank)
    return Layers(**settings)


def sgd(model):
    return torch.optim.SGD(model.parameters(), 0.005, momentum=0.9)


def gradients(model, rank, step):
    """Of a batch that rank and step draw."""
    draw = torch.Generator().manual_seed(1000 * step + rank)
    dtype = model.head.weight.dtype
    x = torch.randn(8, model.head.in_features, generator=draw).to(dtype)
    model.zero_grad()
    (model(x).float() - x.float().sum(1, keepdim=True).sin()).pow(2).mean().backward()


# ---- the rule of the paper ----

EVERY, STEPS, WORLD = 6, 14, 2
CASES = ((1, 0, 0.0), (1, 5, 0.5), (4, 0, 0.0), (4, 1, 0.5), (2, 5, 0.25))  # fragments, delay, mix


def layers(*numbers):
    return [f"layers.{i}.{kind}" for i in numbers for kind in ("weight", "bias")]


def divided(count):
    """Layers i, i + count, ...; the head goes with the smallest fragment."""
    found = [layers(*range(fragment, 4, count)) for fragment in range(count)]
    min(found, key=len).append("head.weight")
    return found


def rule(count, delay, mix):
    """Algorithm 2 of Streaming DiLoCo, all ranks in one process. Returns each rank's parameters after each step."""
    models = [built(0, width=32) for _ in range(WORLD)]
    inner = [sgd(model) for model in models]
    fragments = divided(count)
    common = {name: torch.nn.Parameter(p.detach().clone()) for name, p in models[0].named_parameters()}
    optimizers = [nesterov([common[name] for name in names]) for names in fragments]
    sent, found = {}, []
    for step in range(1, STEPS + 1):
        for rank, model in enumerate(models):
            gradients(model, rank, step)
            inner[rank].step()
        of = [dict(model.named_parameters()) for model in models]
        with torch.no_grad():
            for i, names in enumerate(fragments):
                if (step - (i + 1) * EVERY // count) % EVERY == 0:
                    sent[i, step + delay] = {
                        name: sum(common[name] - parameters[name] for parameters in of) / WORLD for name in names}
            for i, names in enumerate(fragments):
                for name, gradient in sent.pop((i, step), {}).items():
                    common[name].grad = gradient
                if common[names[0]].grad is None:
                    continue
                optimizers[i].step()
                for name in names:
                    common[name].grad = None
                    for parameters in of:
                        parameters[name].copy_(mix * parameters[name] + (1 - mix) * common[name])
        found.append([{name: p.detach().clone() for name, p in parameters.items()} for parameters in of])
    return found


def followed(rank, world):
    """By case: parameters after each step, bytes sent until then, and the bits of the model after synchronize()."""
    found = []
    for count, delay, mix in CASES:
        model = built(rank, width=32)
        optimizer = threelc.torch.LocalSteps(
            model, sgd(model), nesterov, every=EVERY, codec="raw", fragments=count, delay=delay, mix=mix)
        steps, sent = [], []
        for step in range(1, STEPS + 1):
            gradients(model, rank, step)
            optimizer.step()
            steps.append({name: p.detach().clone() for name, p in model.named_parameters()})
            sent.append(optimizer.stats.sent)
        stats = optimizer.stats
        optimizer.synchronize()
        found.append((steps, sent, stats, bits(model)))
    return found


class Rule(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.found = dict(zip(CASES, zip(*CLUSTER.run(WORLD, followed))))  # by case, of each rank

    def test_as_it_is_written_down(self):
        for case, ranks in self.found.items():
            with self.subTest(case=case):
                for step, of_ranks in enumerate(rule(*case)):
                    for rank, parameters in enumerate(of_ranks):
                        torch.testing.assert_close(ranks[rank][0][step], parameters, atol=1e-6, rtol=1e-5)

    def test_ranks_agree(self):
        """Without delay and mixing on a fragment after its round, and on all after synchronize()."""
        for (count, delay, mix), (one, other) in self.found.items():
            self.assertEqual(one[3], other[3])
            for step, i in itertools.product(range(1, STEPS + 1), range(count)):
                if (step - (i + 1) * EVERY // count) % EVERY == 0:
                    equal = [torch.equal(one[0][step - 1][name], other[0][step - 1][name])
                             for name in divided(count)[i]]
                    self.assertEqual(all(equal), not delay and not mix)

    def test_bytes(self):
        """The largest exchange becomes as many times smaller as there are fragments, and the sum stays."""
        (_, of_whole, whole, _), _ = self.found[CASES[0]]
        for (count, _, _), ((_, sent, stats, _), _) in self.found.items():
            each = [after - before for before, after in zip([0, *sent], sent)]
            self.assertEqual(max(each), stats.largest_round)
            starts = [(i + 1) * EVERY // count for i in range(count)]
            self.assertEqual(stats.rounds, sum((STEPS - start) // EVERY + 1 for start in starts))
            self.assertLess(stats.largest_round * count, 1.2 * whole.largest_round)
            total, of_one = (sizes[2 * EVERY - 1] - sizes[EVERY - 1] for sizes in (sent, of_whole))
            self.assertLess(abs(total / of_one - 1), 0.1)


# ---- what goes on beside an exchange ----

def overlapped(rank, world):
    """Rank 1 makes step 3, in which an exchange begins, after rank 0 has made step 4. Returns the bits of both."""
    model = built(rank)
    optimizer = threelc.torch.LocalSteps(model, sgd(model), every=3, delay=2, codec="raw")
    store = dist.distributed_c10d._get_default_store()
    for step in range(1, 6):
        if (rank, step) == (1, 3):
            store.wait(["rank 0 has made step 4"])
        gradients(model, rank, step)
        optimizer.step()
        if (rank, step) == (0, 4):
            store.set("rank 0 has made step 4", "1")
    return bits(model)


def lost(rank, world, how):
    """Rank 1 begins no second exchange. Of the others: which step fails, what it says, when, and what is said later."""
    model = built(rank)
    optimizer = threelc.torch.LocalSteps(model, sgd(model), every=4, fragments=2, delay=3)
    for step in range(1, 9):
        if rank == 1 and step == 4:
            if how == "changed":
                model.layers[1] = torch.nn.Linear(16, 16)
                return attempt(optimizer.step)[:2]
            os._exit(0)
        kind, words, seconds = attempt(optimizer.step)
        if kind:
            return step, words, seconds, attempt(optimizer.synchronize)[1]


class Waiting(Refusals):
    def test_steps_go_on(self):
        """An exchange waits for a rank that is late, and local steps do not."""
        self.assertEqual(*CLUSTER.run(2, overlapped))

    def test_whoever_is_lost(self):
        """Whoever waits for a result gets an exception, again and again."""
        for how in ("changed", "ended"):
            found = CLUSTER.outcomes(3, lost, how)
            if how == "changed":
                self.assertIn("layers.1.weight was added or replaced after the start", found[1][1])
            for step, words, seconds, later in (found[0], found[2]):
                self.assertIn(step, (5, 7))  # where results are taken; the exchange after step 4 failed
                self.assertRegex(words, names_the_lost(1))
                self.assertRegex(later, names_the_lost(1))
                self.assertLess(seconds, 40)  # the timeout is 60 s


# ---- states ----

STREAM = {"every": 4, "fragments": 2, "delay": 3, "mix": 0.5, "codec": "3lc", "min_numel": 1}


def streamed(rank, world, pieces, settings):
    """The bits of a model that is trained in pieces, its state, and that of LocalSteps."""
    def made():
        model = built(rank)
        inner = sgd(model)
        return model, threelc.torch.LocalSteps(model, inner, nesterov, **settings), inner

    def step(number, model, optimizer, _):
        gradients(model, rank, number)
        optimizer.step()

    (model, optimizer, _), states = in_pieces(pieces, made, step)
    optimizer.synchronize()
    return bits(model), *states[:2]


def elsewhere(rank, world, states):
    """On other ranks, from the states of others. The model of all ranks before and after the rounds under way end."""
    model = built(rank)
    optimizer = threelc.torch.LocalSteps(model, sgd(model), nesterov, **{**STREAM, "every": 100})
    optimizer.load_state_dict(states)
    found = []
    for _ in range(2):
        found.append({name: anchor.detach().clone() for name, anchor in optimizer._anchors.items()})
        for _ in range(4):
            optimizer.step()
    left = {name: residual.clone() for name, residual in optimizer.residuals.items()}
    counts = optimizer.stats.rounds, optimizer.stats.steps
    optimizer.flush()
    return found, left, counts, bits(model), [float(r.abs().max()) for r in optimizer.residuals.values()]


def refused_states(rank, world, states):
    """What is said of the state of other fragments, and that nothing has changed."""
    said = []
    for fragments in (1, 4, [["layers.0", "layers.1", "head"], ["layers.2", "layers.3"]]):
        model = built(rank)
        optimizer = threelc.torch.LocalSteps(model, sgd(model), nesterov, **{**STREAM, "fragments": fragments})
        said.append(attempt(optimizer.load_state_dict, states[rank])[:2])
        assert optimizer.stats.steps == 0
    state = {name: entry for name, entry in states[rank].items() if name != "fragments"}
    said.append(attempt(optimizer.load_state_dict, state)[:2])
    return said


class States(Refusals):
    def test_resuming(self):
        """Also with exchanges under way."""
        for settings in (STREAM, {**STREAM, "mode": "gather", "codec": "topk:p=0.1+golomb", "residual_decay": 0.9,
                                  "warmup_rounds": 1, "participants": 2}):
            whole = self.goes_on(3, streamed, [(0, 3), (3, 6), (6, 10)], settings)
            self.assertEqual(whole[0][0], whole[2][0])
            self.assertTrue(all(each["round"] for each in whole[0][2]["fragments"]))  # begun after steps 10 and 8

    def test_on_other_ranks(self):
        """No result under way is lost, and no residual."""
        states = [state for _, _, state in CLUSTER.run(3, streamed, [(0, 10)], STREAM)]
        same, fewer = CLUSTER.run(3, elsewhere, states), CLUSTER.run(2, elsewhere, states)
        for model in range(2):
            for name, tensor in same[0][0][model].items():
                for found in (*same, *fewer):
                    self.assertTrue(torch.equal(found[0][model][name], tensor))
        self.assertFalse(torch.equal(*(same[0][0][i]["layers.0.weight"] for i in range(2))))
        for name in same[0][1]:
            torch.testing.assert_close(sum(found[1][name] for found in fewer) / 2,
                                       sum(found[1][name] for found in same) / 3, atol=1e-6, rtol=1e-5)
        self.assertEqual((fewer[0][3], max(fewer[0][4])), (fewer[1][3], 0))  # after flush()
        self.assertEqual(fewer[0][2], (5, 18))

    def test_of_other_fragments(self):
        states = [state for _, _, state in CLUSTER.run(2, streamed, [(0, 3)], STREAM)]
        for one, four, other, none in CLUSTER.run(2, refused_states, states):
            self.assertIn("the state has 2 fragments, and this one 1", one[1])
            self.assertIn("the state has 2 fragments, and this one 4", four[1])
            self.assertIn("fragment 0 of the state has other parameters, without layers.1.bias", other[1])
            self.assertIn("damaged: it has no 'fragments'", none[1])


# ---- what a round does beside ----

class Normed(Layers):
    """With statistics, and a counter that differs on rank 1."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(16)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        return super().forward(self.norm(x))


FAILS = [(policy, settings, at) for policy in ("raise", "skip") for settings, at in (
    ({"delay": 2}, 6), ({"fragments": 2, "delay": 2, "mix": 0.5}, 8), ({"mix": 0.5}, 4))]


def fails(rank, world, policy, settings):
    """Rank 1 has a NaN after step 4. Which steps raise, in which all weights become those of the start of a round, how
    many rounds were skipped, and the bits in the end."""
    model = built(rank)
    optimizer = threelc.torch.LocalSteps(model, sgd(model), every=4, on_nonfinite=policy, **settings)
    raised, back, starts = [], [], {}
    begin = optimizer._weights.begin

    def begins(fragment, mix=0.0):  # while no thread changes its residuals
        begin(fragment, mix)
        starts.update({name: torch.equal(p.view(-1), optimizer._anchors[name] + optimizer.residuals[name])
                       for name, p in model.named_parameters() if name in fragment.names})

    optimizer._weights.begin = begins
    for step in range(1, 17):
        starts.clear()
        gradients(model, rank, step)
        if (rank, step) == (1, 4):
            model.layers[0].weight.grad[0, 0] = float("nan")
        raised += [step] * (attempt(optimizer.step)[0] == "StepError")
        back += [step] * (len(starts) == len(list(model.parameters())) and all(starts.values()))
        for state in optimizer.state.values():  # momentum is the user's
            torch.nan_to_num_(state["momentum_buffer"])
    optimizer.synchronize()
    return raised, back, optimizer.stats.skipped, bits(model)


def buffers(rank, world):
    torch.manual_seed(0)
    model = Normed()
    optimizer = threelc.torch.LocalSteps(model, sgd(model), every=4, fragments=2, delay=1, mix=0.25)
    found = []
    for step in range(1, 6):
        gradients(model, rank, step)
        model.seen += rank
        optimizer.step()
        found.append((model.norm.running_mean.clone(), int(model.seen), int(model.norm.num_batches_tracked)))
    return found


def dense(rank, world, codec, warmup_rounds):
    """The weights after each step."""
    model = built(rank)
    optimizer = threelc.torch.LocalSteps(model, sgd(model), nesterov, every=4, fragments=2, delay=1, codec=codec,
                                         min_numel=1, warmup_rounds=warmup_rounds)
    found = []
    for step in range(1, 10):
        gradients(model, rank, step)
        optimizer.step()
        found.append(bits(model))
    return found


def differ(rank, world, spoiled, settings):
    """Rank 1 has another outer rate after some rounds. The steps that went well, and the exception."""
    model = built(rank)
    optimizer = threelc.torch.LocalSteps(model, sgd(model), nesterov, every=2, compare_every=2, **settings)
    for step in range(1, 13):
        gradients(model, rank, step)
        kind, words, _ = attempt(optimizer.step)
        if kind:
            return step - 1, kind, words
        if step == 4 and rank == 1 and spoiled:
            optimizer.outer_optimizer.param_groups[0]["lr"] = 0.5
    return step, "", ""


def changes_pace(rank, world):
    """A round ends before the next of its fragment begins, also where `every` becomes smaller."""
    model = built(rank)
    optimizer = threelc.torch.LocalSteps(model, sgd(model), every=8, fragments=2, delay=4, participants=1)
    took_part = []
    for step in range(1, 13):
        gradients(model, rank, step)
        took_part.append(optimizer.participates)
        optimizer.step()
        if step == 4:
            optimizer.every = 5
    refusal = attempt(setattr, optimizer, "every", 4)[:2]
    optimizer.synchronize()
    return took_part, optimizer.stats.rounds, refusal, bits(model)


class Rounds(Refusals):
    def test_nan(self):
        """All fragments go back to the outer parameters when the result comes."""
        for policy, settings, at in FAILS:
            ranks = CLUSTER.run(2, fails, policy, settings)
            for raised, back, skipped, model in ranks:
                self.assertEqual(raised, [at] if policy == "raise" else [], settings)
                self.assertEqual((back[0], skipped), (at, 1), settings)
                self.assertEqual(model, ranks[0][3])

    def test_buffers(self):
        """They go with the last fragment, as they were when its exchange began; statistics are mixed."""
        found = CLUSTER.run(2, buffers)
        (before, _, _), (own, seen, tracked) = found[1][3:5]
        other, _, _ = found[0][3]
        draw = torch.randn(8, 16, generator=torch.Generator().manual_seed(5001))
        now = 0.9 * before + 0.1 * draw.mean(0)
        torch.testing.assert_close(own, 0.25 * now + 0.75 * (before + other) / 2, atol=1e-6, rtol=1e-5)
        self.assertEqual((seen, tracked), (0, 5))  # rank 0's; alike on both ranks

    def test_dense_start(self):
        """The first round of each fragment is as with raw; fragments have rounds after steps 2, 4, 6, 8."""
        raw, first, none = (CLUSTER.run(2, dense, *case)[0] for case in (("raw", 0), ("3lc", 1), ("3lc", 0)))
        self.assertEqual(raw[:6], first[:6])
        self.assertNotEqual(raw[6], first[6])
        self.assertNotEqual(raw[2], none[2])

    def test_replicas_that_differ(self):
        """Outer parameters are compared: with mixing, weights differ by design."""
        settings = {"fragments": 2, "delay": 1, "mix": 0.5}
        self.assertEqual(CLUSTER.run(2, differ, False, settings), [(12, "", "")] * 2)
        for well, kind, words in CLUSTER.run(2, differ, True, settings):
            self.assertEqual((well, kind), (4, "RuntimeError"))
            self.assertIn("rank 1 has other weights than rank 0 after round 4, in ", words)

    def test_pace(self):
        (first, rounds, refusal, model), (second, _, _, other) = CLUSTER.run(2, changes_pace)
        self.assertTrue(all(one != two for one, two in zip(first, second)))
        self.assertEqual(rounds, 5 + 2)  # after steps 4, 5, 7, 10, 12, and two by synchronize()
        self.assertEqual(refusal, ("ValueError", "every should be at least 5, not 4"))
        self.assertEqual(model, other)


# ---- arguments ----

GIVEN = (
    ({"fragments": 0}, "ValueError", "fragments should be at least 1, not 0"),
    ({"fragments": 4, "every": 3}, "ValueError", "every should be at least 4, not 3"),
    ({"delay": 4}, "ValueError", "every should be at least 5, not 4"),
    ({"mix": "half"}, "ValueError", "mix should be from 0 to below 1, not 'half'"),
    ({"pattern": "stride"}, "ValueError", "did you mean strided?"),
    ({"mask_momentum": True, "delay": 1}, "ValueError", "so delay should be 0, not 1"))


def arguments(rank, world):
    """What is said of each, before anything is sent."""
    model = built(rank)
    return [attempt(lambda given=given: threelc.torch.LocalSteps(model, sgd(model), **{"every": 4, **given}))[:2]
            for given, _, _ in GIVEN]


def listed(rank, world):
    model = built(rank)
    lists = [["layers"], ["head"]] if rank else [["layers.0", "head"], ["layers.1", "layers.2", "layers.3"]]
    threelc.torch.LocalSteps(model, sgd(model), every=4, fragments=lists)


class Arguments(Refusals):
    def test_given(self):
        for found in CLUSTER.run(2, arguments):
            for (given, kind, words), (raised, said) in zip(GIVEN, found):
                self.assertEqual(raised, kind, given)
                self.assertIn(words, said)
        self.refused(CLUSTER.outcomes(2, listed), "ValueError",
                     "layers.1.weight in fragment 0 on rank 1 is head.weight in fragment 0 on rank 0")

    def test_layers(self):
        """Layers are numbered modules; what is beside them fills up the smallest fragments."""
        def of(model, fragments, pattern="strided"):
            return fragments_of(Model(model, "LocalSteps"), fragments, pattern)

        model = Layers(5)
        self.assertEqual(of(model, 2), [layers(0, 2, 4), [*layers(1, 3), "head.weight"]])
        self.assertEqual(of(model, 2, "sequential"), [layers(0, 1, 2), [*layers(3, 4), "head.weight"]])
        self.assertEqual(of(model, 1), [[*layers(0, 1, 2, 3, 4), "head.weight"]])
        self.assertEqual(of(model, [["layers"], [model.head]]), [layers(0, 1, 2, 3, 4), ["head.weight"]])
        plain = torch.nn.Sequential(torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(4))))
        self.assertEqual(of(plain, 4), [[f"0.{i}.weight", f"0.{i}.bias"] for i in range(4)])
        for fragments, words in (
                (7, "the model has 6 layers, which are not enough for fragments=7"),
                ([["layers"]], "parameter head.weight is in no fragment"),
                ([["layers", "head"], ["layers.1"]], "parameter layers.1.weight is in fragments 0 and 1"),
                ([["layers", "head"], []], "fragment 1 has no parameter that is trained"),
                ([["layer", "head"]], "no module, and no parameter that is trained, of the name 'layer'"),
                (["layers"], "a list of lists of modules or names"),
                ([[3]], "not 3")):
            kind, said, _ = attempt(of, model, fragments)
            self.assertIn(kind, ("ValueError", "TypeError"))
            self.assertIn(words, said)
