# SPDX-License-Identifier: MIT
"""Local steps on ranks of one process: which step ends which round, and what weights, residuals, counts and sentences
are then."""
import math
import unittest
import warnings
from unittest import mock

import threelc
import threelc.torch
import torch
from thread_ranks import Layers, RanksTest, local_steps
from threelc.torch._common.starving import Starving


class Rule:
    """What local steps are, with floats, of one number for each fragment."""

    def __init__(self, weights, fragments, every, delay, mix):
        self.weights, self.every, self.delay, self.mix = weights, every, delay, mix
        self.common = [0.0] * fragments
        self.local = [[0.0] * fragments for _ in weights]
        self.under_way = [None] * fragments
        self.steps = self.rounds = 0

    def take(self, mix, ended=True):
        """The results of rounds that have ended, or of all."""
        for i, of in enumerate(self.under_way):
            if of is not None and (of[0] <= self.steps or not ended):
                self.under_way[i] = None
                self.common[i] += of[1]
                for local in self.local:
                    local[i] = mix * local[i] + (1 - mix) * self.common[i]

    def begin(self, i, delay):
        mean = sum(w * (local[i] - self.common[i]) for w, local in zip(self.weights, self.local)) / sum(self.weights)
        self.under_way[i] = self.steps + delay, mean
        self.rounds += 1

    def step(self, moves):
        self.steps += 1
        count = len(self.common)
        for local, by in zip(self.local, moves):
            local[:] = [value + change for value, change in zip(local, by)]
        self.take(self.mix)
        for i in range(count):
            if (self.steps - (i + 1) * self.every // count) % self.every == 0:
                self.begin(i, self.delay)
        self.take(self.mix)

    def synchronize(self):
        self.take(self.mix, False)
        for i in range(len(self.common)):
            self.begin(i, 0)
        self.take(0.0)

    def flush(self):
        if self.steps % self.every or len(self.common) > 1 or self.delay or self.mix:
            self.synchronize()
        self.local = [list(self.common) for _ in self.local]


def seen(model, optimizer):
    """The first value of each layer on this rank, and of the common model."""
    with optimizer.common_model():
        common = [layer[0] for layer in model.values()]
    return [layer[0] for layer in model.values()], common


class Rounds(RanksTest):
    def test_floats(self):
        """Of fragments, delays and mixing: after each call this rank's weights, those of all, and what is counted."""
        calls = ["step"] * 5 + ["synchronize", "step", "flush", "step", "step", "flush"] + ["step"] * 4
        weights = 1.0, 3.0
        for layers, every, fragments, delay, mix in (
                (2, 3, 1, 0, 0.0), (3, 4, 3, 0, 0.0), (2, 4, 2, 3, 0.5), (2, 5, 2, 1, 0.25), (1, 1, 1, 0, 0.5),
                (2, 3, 2, 2, 0.0), (1, 2, 1, 0, 0.0), (3, 3, 3, 1, 0.0)):
            case = f"{layers} layers, every={every}, fragments={fragments}, delay={delay}, mix={mix}"
            moves = [[[1.0 + rank + step + 0.5 * i for i in range(fragments)] for rank in range(2)]
                     for step in range(len(calls))]
            models = [Layers(*(7 + i for i in range(layers))) for _ in weights]

            def train(rank):
                model, found = models[rank], []
                optimizer = local_steps(model, every=every, fragments=fragments, delay=delay, mix=mix)
                optimizer.weight = weights[rank]
                for number, call in enumerate(calls):
                    by = moves[number][rank]
                    model.move(*(by if fragments > 1 else by * layers))
                    getattr(optimizer, call)()
                    stats = optimizer.stats
                    found.append((*seen(model, optimizer), stats.steps, stats.rounds, stats.float_bytes))
                return found

            found, rule = self.on(2, train), Rule(weights, fragments, every, delay, mix)
            rounds_of, before = [0] * fragments, rule.begin
            rule.begin = lambda i, delay: (rounds_of.__setitem__(i, rounds_of[i] + 1), before(i, delay))
            sizes = [4 * (7 + i) for i in range(layers)]
            for number, call in enumerate(calls):
                rule.step(moves[number]) if call == "step" else getattr(rule, call)()
                floats = sum(n * size for n, size in zip(rounds_of * (layers // fragments), sizes))
                for rank in range(2):
                    local, common, steps, rounds, float_bytes = found[rank][number]
                    copies = layers // fragments
                    for got, wanted in (local, rule.local[rank] * copies), (common, rule.common * copies):
                        for one, other in zip(got, wanted):
                            self.assertAlmostEqual(one, other, places=4, msg=f"{case}, {call} {number}")
                    self.assertEqual((steps, rounds, float_bytes), (rule.steps, rule.rounds, floats), case)

    def test_outer_momentum(self):
        """Of a fragment changes only in its own rounds; the outer optimizer gets the opposite of the mean change."""
        models = [Layers(3, 4) for _ in range(2)]

        def train(rank):
            optimizer = local_steps(models[rank], None, lambda p: torch.optim.SGD(p, 0.5, momentum=0.5), every=2,
                                    fragments=2)
            self.assertEqual(type(optimizer.outer_optimizer), torch.optim.SGD)
            found = []
            for _ in range(6):
                models[rank].move(2.0 * rank, 4.0 * rank)
                optimizer.step()
                found.append(seen(models[rank], optimizer)[1])
            self.assertEqual([p.grad for group in optimizer.outer_optimizer.param_groups for p in group["params"]],
                             [None] * 2)
            return found

        for found in self.on(2, train):
            # rounds of the first layer after steps 1, 3, 5, with changes of 1, 2, 2 in the mean; of the other 2, 4, 6
            first, second, speed = 0.0, 0.0, [0.0, 0.0]
            for step, (one, other) in enumerate(found, 1):
                if step % 2:
                    speed[0] = 0.5 * speed[0] + (1 if step == 1 else 2)
                    first += 0.5 * speed[0]
                else:
                    speed[1] = 0.5 * speed[1] + 4
                    second += 0.5 * speed[1]
                self.assertEqual((one, other), (first, second))

    def test_who_takes_part(self):
        """Of each round some ranks alone, in turn; `participates` says so before its first local step."""
        draws = []
        for settings, world in (({"participants": 2}, 3), ({"participants": 1, "fragments": 2, "every": 2}, 2),
                                ({"participants": 1, "fragments": 2, "every": 2, "seed": 1}, 2)):
            models = [Layers(3, 3) for _ in range(world)]

            def train(rank):
                optimizer, found = local_steps(models[rank], **settings), []
                for _ in range(16):
                    part = optimizer.participates
                    models[rank].move(4.0**rank, 4.0**rank)
                    optimizer.step()
                    found.append((part, seen(models[rank], optimizer)[1]))
                return found

            ranks = self.on(world, train)
            drawn, before, local = [], [0.0, 0.0], [[0.0, 0.0] for _ in range(world)]
            for step, found in enumerate(zip(*ranks)):
                parts, (common, *others) = zip(*found)
                drawn.append(parts)
                self.assertEqual(sum(parts), settings["participants"])
                self.assertTrue(all(other == common for other in others))
                for rank, of_rank in enumerate(local):
                    of_rank[:] = [value + 4.0**rank for value in of_rank]
                ends = [step % 2] if "fragments" in settings else [0, 1]
                for i in ends:
                    mean = sum(of_rank[i] for of_rank, part in zip(local, parts) if part) / sum(parts)
                    self.assertAlmostEqual(common[i] - before[i], mean, places=3)
                    before[i] = common[i]
                    for of_rank in local:
                        of_rank[i] = 0.0
            self.assertGreater(len(set(drawn)), 1)
            for rank in range(world):
                self.assertEqual({parts[rank] for parts in drawn}, {True, False})
            draws.append(drawn)
        self.assertNotEqual(draws[1], draws[2])

    def test_all_take_part(self):
        self.assertEqual(self.on(2, lambda rank: local_steps(Layers(3)).participates), [True, True])

    def test_a_new_one(self):
        def make(rank):
            optimizer = local_steps(Layers(3), every=4)
            stats = optimizer.stats
            return (stats.steps, stats.rounds, stats.skipped, stats.largest_round, stats.float_bytes, stats.sent,
                    stats.residual_norms, optimizer.weight, optimizer.every, optimizer.outer_optimizer,
                    optimizer.state_dict()["version"])
        self.assertEqual(self.on(1, make), [(0, 0, 0, 0, 0, 0, {}, 1.0, 4, None, 2)])

    def test_bytes_of_the_largest_round(self):
        models = [Layers(3, 500) for _ in range(2)]

        def train(rank):
            optimizer, sent = local_steps(models[rank], every=2, fragments=2), [0]
            for _ in range(4):
                models[rank].move(1.0, 1.0)
                optimizer.step()
                sent.append(optimizer.stats.sent)
            rounds = [now - before for before, now in zip(sent, sent[1:])]
            self.assertLess(rounds[0], rounds[1])
            state, other = optimizer.state_dict(), local_steps(Layers(3, 500), every=2, fragments=2)
            other.load_state_dict([{**state, "rank": 0}, {**state, "rank": 1}])
            self.assertEqual(other.stats.largest_round, rounds[1])
            other.load_state_dict({**state, "largest_round": None})
            for _ in range(2):
                other.step()
            self.assertEqual(other.stats.largest_round, rounds[1])
            return optimizer.stats.largest_round == rounds[1] == max(rounds)

        self.assertEqual(self.on(2, train), [True, True])

    def test_what_a_step_returns(self):
        """What the inner optimizer does, which may call a closure. Where a scaler finds infinities it makes no step."""
        def train(rank):
            model = Layers(3)
            optimizer = local_steps(model, every=3)
            model.move(1.0)
            self.assertIsNone(optimizer.step())

            def closure():
                model.move(2.0)
                return 7.0
            self.assertEqual(optimizer.step(closure), 7.0)
            self.assertEqual(model.values(), [[3.0] * 3])
            optimizer.found_inf, optimizer.grad_scale = torch.tensor(1.0), None
            self.assertIsNone(optimizer.step())
            with self.assertRaisesRegex(TypeError, "^step\\(\\) has no argument scale$"):
                optimizer.step(scale=1)
            return model.values(), optimizer.stats.steps, optimizer.stats.rounds
        self.assertEqual(self.on(1, train), [([[3.0] * 3], 3, 1)])

    def test_what_is_logged(self):
        """Numbers of rounds, on rank 0."""
        models = [Layers(3, 3) for _ in range(2)]

        def train(rank):
            optimizer = local_steps(models[rank], every=2, fragments=2)
            optimizer.log_every(3)
            for _ in range(6):
                optimizer.step()

        with self.assertLogs("threelc", "INFO") as log:
            self.on(2, train)
        self.assertEqual([line.split(":")[2] for line in log.output], ["round 3", "round 6"])

    def test_replicas_that_differ(self):
        """They are compared after every so many rounds of a fragment."""
        for every, after in (2, 4), (3, 6), (0, None):
            models = [Layers(3, 3) for _ in range(2)]

            def train(rank):
                optimizer = local_steps(models[rank], every=2, fragments=2, compare_every=every)
                optimizer.step()
                if rank:
                    optimizer._anchors["layers.1.weight"].data[0] += 1
                for _ in range(8):
                    optimizer.step()

            if after is None:
                self.on(2, train)
                continue
            for how, error in self.ends(2, train):
                self.assertEqual((how, type(error)), ("raised", RuntimeError))
                self.assertRegex(str(error), f"^rank 1 has other weights than rank 0 after round {after}, in layers.1.")


class Residuals(RanksTest):
    def test_nothing_is_lost(self):
        """The common model and residuals have what ranks changed; a share of residuals is in the weights."""
        draw = torch.Generator().manual_seed(3)
        moves = torch.randn(6, 2, 200, generator=draw)
        for share, decay, fragments in ((1.0, 1.0, 1), (0.0, 0.5, 2), (0.5, 0.75, 1), (0.5, 1.0, 2)):
            models = [Layers(100, 100) for _ in range(2)]

            def train(rank):
                model, names = models[rank], ["layers.0.weight", "layers.1.weight"]
                optimizer = local_steps(model, codec="3lc", every=2, fragments=fragments, error_reset=share,
                                        residual_decay=decay)
                self.assertEqual([*optimizer.residuals], names)
                parameters = dict(model.named_parameters())
                found, since = [], {name: torch.zeros(100) for name in names}
                for step in range(6):
                    model.move(*moves[step, rank].split(100))
                    before = {name: (optimizer._anchors[name].detach().clone(), optimizer.residuals[name].clone())
                              for name in names}
                    for name in names:
                        since[name] -= parameters[name].grad
                    optimizer.step()
                    ended = names if fragments == 1 and step % 2 else [names[step % 2]] if fragments == 2 else []
                    for name in ended:
                        now = optimizer._anchors[name].detach(), optimizer.residuals[name]
                        self.assertTrue(torch.equal(parameters[name].detach(), torch.add(*now, alpha=share)))
                        found.append((since[name], now[0] - before[name][0], now[1] / decay - before[name][1]))
                        since[name] = torch.zeros(100)
                    for name in set(names) - set(ended):
                        self.assertTrue(torch.equal(optimizer._anchors[name].detach(), before[name][0]))
                norms = optimizer.stats.residual_norms
                self.assertEqual(norms, {name: float(optimizer.residuals[name].norm()) for name in names})
                self.assertGreater(min(norms.values()), 0.1)
                return found

            for each in zip(*self.on(2, train)):
                change, moved, kept = (sum(of_ranks) / 2 for of_ranks in zip(*each))
                torch.testing.assert_close(moved + kept, change, atol=2e-5, rtol=1e-4)

    def test_after_synchronize(self):
        """All have the common model; the share of residuals is back in the weights after the next step."""
        draw = torch.Generator().manual_seed(3)
        moves = torch.randn(2, 2, 100, generator=draw)
        for share in 1.0, 0.25, 0.0:
            models = [Layers(100) for _ in range(2)]

            def train(rank):
                model = models[rank]
                optimizer = local_steps(model, codec="3lc", every=9, error_reset=share)
                model.move(moves[0, rank])
                optimizer.step()
                optimizer.synchronize()
                common = model.layers[0].weight.detach().clone()
                self.assertTrue(torch.equal(common, optimizer._anchors["layers.0.weight"].detach()))
                model.move(moves[1, rank])
                optimizer.step()
                left = optimizer.residuals["layers.0.weight"]
                self.assertGreater(left.abs().max(), 0.1)
                weights = model.layers[0].weight.detach()
                torch.testing.assert_close(weights, common + share * left + moves[1, rank])
                for step in range(2):  # then a local step is the inner optimizer's alone, bit for bit
                    before = weights.clone()
                    model.move(moves[step, rank] / 7)
                    optimizer.step()
                    self.assertTrue(torch.equal(weights, before - model.layers[0].weight.grad))
                optimizer.synchronize()
                with torch.no_grad():
                    weights += 0.5  # is a change of this rank's, as if by a local step
                before = weights.clone()
                model.move(0.0)
                optimizer.step()
                torch.testing.assert_close(weights, before + share * optimizer.residuals["layers.0.weight"])
                return common
            one, other = self.on(2, train)
            self.assertTrue(torch.equal(one, other))

    def test_flush(self):
        """What residuals hold joins the common model, as a weighted mean, and they are 0 then; a round that has ended
        is not made twice."""
        models = [Layers(100) for _ in range(2)]

        def train(rank):
            model = models[rank]
            optimizer = local_steps(model, codec="3lc")
            optimizer.weight = 1.0 + 2 * rank
            model.move(torch.linspace(-1, 1 + rank, 100))
            optimizer.step()
            common = optimizer._anchors["layers.0.weight"].detach().clone()
            left = optimizer.residuals["layers.0.weight"].clone()
            optimizer.flush()
            weights, now = model.layers[0].weight.detach(), optimizer._anchors["layers.0.weight"].detach()
            self.assertEqual((optimizer.stats.rounds, [*optimizer.stats.residual_norms.values()]), (1, [0.0]))
            self.assertTrue(torch.equal(weights, now))
            return common, left, weights.clone()
        (common, one, found), (_, other, same) = self.on(2, train)
        self.assertTrue(torch.equal(found, same))
        torch.testing.assert_close(found, common + 0.25 * one + 0.75 * other)

    def test_answers(self):
        """With "sharded" they are compressed, too; one that leaves too much for later is told once, by rank 0."""
        for mode, is_lossy in ("sharded", True), ("gather", False):
            models = [Layers(100, 100) for _ in range(2)]

            def train(rank):
                optimizer = local_steps(models[rank], codec="3lc", mode=mode, every=2, fragments=2)
                for _ in range(4):
                    models[rank].move(torch.linspace(-1, 1 + rank, 100), torch.linspace(-1, 2, 100))
                    optimizer.step()
                return optimizer.stats.pull_residual_ratio > 0

            for said in (None, "it starves") if is_lossy else (None,):
                with mock.patch.object(Starving, "look", lambda starving, found: found() and said), \
                        warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    self.assertEqual(any(self.on(2, train)), is_lossy)  # of the ranks that answer
                self.assertEqual([str(each.message) for each in caught if "starves" in str(each.message)],
                                 [said] if said else [])

    def test_codecs_without(self):
        def kept(codec):
            return self.on(1, lambda rank: [*local_steps(Layers(300), codec=codec).residuals])[0]
        self.assertEqual([kept(codec) for codec in ("raw", "qsgd:bits=8", "3lc", "sbc")],
                         [[], [], ["layers.0.weight"], ["layers.0.weight"]])

    def test_draws(self):
        """Fragments draw other numbers, and so do other seeds, of which there are 2^64."""
        def moved(seed, fragments):
            models = [Layers(64, 64) for _ in range(2)]

            def train(rank):
                optimizer = local_steps(models[rank], codec="qsgd:bits=4", every=2, fragments=fragments, seed=seed)
                for _ in range(2):
                    models[rank].move(torch.linspace(-1, 1, 64), torch.linspace(-1, 1, 64))
                    optimizer.step()
                return str(models[rank].values()), models[rank].values()
            (one, found), (other, _) = self.on(2, train)
            self.assertEqual(one, other)
            return found
        found = [moved(seed, 2) for seed in (0, 128, 2**63, 2**64 - 1, 2**64 - 3)]
        self.assertEqual(len({str(first) for first, _ in found}), 5)
        for first, second in found:
            self.assertNotEqual([round(2 * value, 3) for value in first], [round(value, 3) for value in second])
        self.assertNotEqual(moved(0, 1), moved(128, 1))


class Failures(RanksTest):
    def test_skipped(self):
        """All fragments go back to the common model, and buffers to what they were; the third time in a row a warning
        says why. What went well begins a new count."""
        models = [Layers(100, 100) for _ in range(2)]
        for model in models:
            model.register_buffer("seen", torch.zeros(2))

        def train(rank):
            model, found = models[rank], []
            optimizer = local_steps(model, codec="3lc", every=2, fragments=2, on_nonfinite="skip")
            for step in range(1, 15):
                bad = rank == 1 and step in (3, 5, 9, 11, 13)
                model.move(math.nan if bad else torch.linspace(-1, 1, 100), torch.linspace(0, 2, 100))
                model.seen += 1
                optimizer.step()
                if step in (3, 5, 9, 11, 13):
                    for name, parameter in model.named_parameters():
                        start = optimizer._anchors[name].detach() + optimizer.residuals[name]
                        self.assertTrue(torch.equal(parameter.detach(), start), (step, name))
                found.append(model.seen.tolist())
            return found, optimizer.stats.skipped, optimizer.stats.rounds

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for seen_, skipped, rounds in self.on(2, train):
                self.assertEqual((skipped, rounds), (5, 14))
                self.assertEqual(seen_, [[n, n] for n in (1, 2, 2, 3, 3, 4, 5, 6, 6, 7, 7, 8, 8, 9)])
        self.assertEqual([str(each.message) for each in caught if "skipped" in str(each.message)], [])

    def test_a_warning(self):
        for well, count in (False, 1), (True, 0):
            models = [Layers(100) for _ in range(2)]

            def train(rank):
                model = models[rank]
                optimizer = local_steps(model, codec="3lc", on_nonfinite="skip")
                for step in range(4):
                    model.move(math.nan if rank == 1 and not (well and step == 1) else 1.0)
                    optimizer.step()

            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                self.on(2, train)
            said = {str(each.message) for each in caught if "skipped" in str(each.message)}
            self.assertEqual(len(said), count, said)
            for words in said:
                self.assertRegex(words, "^a round of LocalSteps was skipped 3 times in a row. The last time: rank 1: "
                                        'NaN.*"layers.0.weight"')

    def test_raised(self):
        """step() and synchronize() raise the first one, after all have taken what came."""
        models = [Layers(100, 100) for _ in range(2)]

        def train(rank):
            model, found = models[rank], []
            optimizer = local_steps(model, every=8, fragments=2, delay=7)
            for step in range(9):
                model.move(math.nan if rank == 1 and step == 0 else 1.0, 1.0)
                optimizer.step()
                if step == 0 and rank == 1:
                    model.layers[1].weight.data.fill_(1.0)
            # the round of the first layer, which fails, ends after step 11, that of the other one after step 15
            with self.assertRaises(threelc.StepError) as caught:
                optimizer.synchronize()
            found.append(str(caught.exception))
            found.append((optimizer.stats.skipped, optimizer.stats.rounds))
            found.append([float(layer.weight.detach()[0]) for layer in model.layers])
            return found

        for sentence, counts, (first, second) in self.on(2, train):
            self.assertRegex(sentence, "rank 1.*NaN.*layers.0.weight")
            self.assertEqual(counts, (1, 4))
            self.assertEqual(first, 0.0)
            self.assertGreater(second, 7.0)


if __name__ == "__main__":
    unittest.main()
