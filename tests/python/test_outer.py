# SPDX-License-Identifier: MIT
"""Local steps, the parameter server and gossip in PyTorch, in real processes over gloo."""
import torch

import threelc
import threelc.torch
from cluster import CLUSTER, Refusals
from outer_models import backward, bits, build, nesterov, server_parts, resumed, sgd, train
from threelc.exchange import GossipKind


# ---- local steps ----

def local_steps(model, settings):
    inner = sgd(model)
    return threelc.torch.LocalSteps(model, inner, nesterov, **settings), inner


def adam(model):
    return torch.optim.Adam(model.parameters(), 0.01)


class Elsewhere(torch.optim.Adam):
    """Keeps its momentum under another name."""

    def step(self, closure=None):
        super().step(closure)
        for state in self.state.values():
            state["m"] = state.pop("exp_avg")


def elsewhere(model):
    return Elsewhere(model.parameters(), 0.01)


def local(rank, world, rounds, outer, settings, weight=1.0, make=sgd, momentum="momentum_buffer"):
    """Some rounds: the bits of the model, stats, whether this rank took part in each, and zeros in its momentum."""
    model = build(rank)
    inner = make(model)
    optimizer = threelc.torch.LocalSteps(model, inner, outer, **settings)
    optimizer.weight = weight if rank == 0 else 1.0
    taken = []
    for step in range(rounds * optimizer.every):
        if step % optimizer.every == 0:
            taken.append(optimizer.participates)
        train(rank, model, optimizer, [step])
    zeros = [int((inner.state[p][momentum] == 0).sum()) for p in model.parameters()]
    with optimizer.common_model():
        return bits(model), optimizer.stats, taken, zeros


def reference(world, rounds, every, outer, weights=None):
    """The same with floats, all ranks in one process."""
    models = [build(0) for _ in range(world)]
    inner = [sgd(model) for model in models]
    anchors = [torch.nn.Parameter(p.detach().clone()) for p in models[0].parameters()]
    optimizer = outer(anchors) if outer else None
    weights = weights or [1.0] * world
    for step in range(rounds * every):
        for rank, model in enumerate(models):
            inner[rank].zero_grad()
            backward(model, rank, step)
            inner[rank].step()
        if (step + 1) % every:
            continue
        with torch.no_grad():
            for i, anchor in enumerate(anchors):
                change = sum(w * (list(m.parameters())[i] - anchor) for w, m in zip(weights, models)) / sum(weights)
                if optimizer:
                    anchor.grad = -change
                else:
                    anchor += change
            if optimizer:
                optimizer.step()
            for model in models:
                for p, anchor in zip(model.parameters(), anchors):
                    p.copy_(anchor)
            for buffers in zip(*(model.buffers() for model in models)):
                if buffers[0].is_floating_point():
                    mean = sum(w * b for w, b in zip(weights, buffers)) / sum(weights)
                    for buffer in buffers:
                        buffer.copy_(mean)
    return {name: tensor for name, tensor in models[0].state_dict().items() if tensor.is_floating_point()}


def conserved(rank, world, settings):
    """What changed, what was applied, and the residuals, in rounds of one local step."""
    model = build(rank)
    optimizer = threelc.torch.LocalSteps(model, sgd(model, 0), **settings)
    names = dict(model.named_parameters())
    start = {name: p.detach().clone() for name, p in names.items()}
    changes = {name: torch.zeros(p.numel(), dtype=torch.float64) for name, p in names.items()}
    for step in range(8):
        optimizer.zero_grad()
        backward(model, rank, step)
        before = {name: p.detach().clone() for name, p in names.items()}
        optimizer.inner_optimizer.step()
        for name, p in names.items():
            changes[name] += (p.detach() - before[name]).double().view(-1)
        optimizer.synchronize()
    owned = {name: torch.zeros_like(total) for name, total in changes.items()}
    group = optimizer._fragments[0].group
    for part in group.allreduce.parts():
        name = group.names[part.tensor]
        if name in owned and part.residual is not None:
            owned[name][part.first:part.first + part.n] += torch.tensor(part.residual).double()
    moved = {name: (p.detach() - start[name]).double().view(-1) for name, p in names.items()}
    return changes, moved, owned, {name: r.double() for name, r in optimizer.residuals.items()}


def decayed(rank, world, decay):
    """By round: what changed, what was applied, and the residuals."""
    model = build(rank)
    optimizer = threelc.torch.LocalSteps(model, sgd(model, 0), every=1, codec="3lc", min_numel=1, residual_decay=decay)
    rounds = []
    for step in range(4):
        optimizer.zero_grad()
        backward(model, rank, step)
        start = {name: p.detach().clone() for name, p in model.named_parameters()}
        optimizer.inner_optimizer.step()
        after = {name: p.detach().clone() for name, p in model.named_parameters()}
        optimizer.synchronize()
        rounds.append({name: ((after[name] - start[name]).view(-1), (p.detach() - start[name]).view(-1),
                              optimizer.residuals[name].clone()) for name, p in model.named_parameters()})
    return rounds


def from_other_ranks(rank, world, states, lost=False):
    model = build(rank)
    optimizer = threelc.torch.LocalSteps(model, sgd(model), nesterov, every=2, codec="3lc", min_numel=1)
    optimizer.load_state_dict(states, lost)
    left = {name: residual.clone() for name, residual in optimizer.residuals.items()}
    backward(model, rank, 0)
    optimizer.step()
    optimizer.step()
    with optimizer.common_model():
        return left, bits(model)


def local_nan(rank, world, policy):
    model = build(rank)
    optimizer = threelc.torch.LocalSteps(model, sgd(model, 0), every=2, on_nonfinite=policy)
    raised = []
    for step in range(8):
        optimizer.zero_grad()
        backward(model, rank, step)
        if step == 3 and rank == 1:
            model.second.weight.grad[0, 0] = float("nan")
        try:
            optimizer.step()
        except threelc.StepError as error:
            raised.append((step, str(error)))
    with optimizer.common_model():
        return raised, bits(model), optimizer.stats


class LocalSteps(Refusals):
    def close(self, found, expected):
        for name, tensor in expected.items():
            got = torch.frombuffer(bytearray(found[name]), dtype=torch.float32).view(tensor.shape)
            torch.testing.assert_close(got, tensor, atol=3e-6, rtol=1e-4)

    def test_floats(self):
        """raw is federated averaging and DiLoCo as they are written down."""
        for outer, mode in ((None, "sharded"), (nesterov, "gather")):
            found = CLUSTER.run(3, local, 3, outer, {"every": 4, "codec": "raw", "mode": mode})
            self.assertEqual(found[0][0], found[2][0])
            self.close(found[1][0], reference(3, 3, 4, outer))

    def test_weights(self):
        found = CLUSTER.run(2, local, 2, None, {"every": 3, "codec": "raw"}, 5.0)
        self.close(found[0][0], reference(2, 2, 3, None, [5.0, 1.0]))

    def test_replicas_are_identical(self):
        for settings in ({"codec": "3lc:s=1.75"}, {"codec": "topk:p=0.03,bits=2,block=4096+golomb", "mode": "gather"},
                         {"codec": "sbc", "participants": 2}):
            found = CLUSTER.run(3, local, 6, nesterov, {"every": 3, **settings})
            for model, stats, _, _ in found:
                self.assertEqual(model, found[0][0])
                self.assertEqual((stats.steps, stats.rounds, stats.skipped), (18, 6, 0))
                self.assertGreater(stats.ratio, 1.5)
            self.assertGreater(min(stats.push_residual_ratio for _, stats, _, _ in found), 0)

    def test_participants(self):
        found = CLUSTER.run(3, local, 8, None, {"every": 1, "codec": "sbc", "participants": 2})
        for of_round in zip(*(taken for _, _, taken, _ in found)):
            self.assertEqual(sum(of_round), 2)
        self.assertTrue(all(any(taken) and not all(taken) for _, _, taken, _ in found))

    def test_momentum_masking(self):
        plain = CLUSTER.run(2, local, 1, None, {"every": 2, "codec": "sbc:p=0.05"})
        self.assertEqual(plain[0][3][0], 0)
        settings = {"every": 2, "codec": "sbc:p=0.05", "mask_momentum": True}
        for optimizer in (sgd, "momentum_buffer"), (adam, "exp_avg"):
            masked = CLUSTER.run(2, local, 1, None, settings, 1.0, *optimizer)
            zeros = masked[0][3]  # of the bias before the batch normalization gradients are 0, but for rounding
            self.assertEqual([zeros[0], zeros[2]], [60, 0])  # 5% of 1,200; small tensors go as floats
        settings["every"] = 1
        self.refused(CLUSTER.outcomes(2, local, 1, None, settings, 1.0, elsewhere, "m"), "ValueError",
                     "looks for momentum_buffer or exp_avg in the state")

    def test_nothing_is_lost(self):
        for mode in ("sharded", "gather"):
            found = CLUSTER.run(3, conserved, {"every": 1, "codec": "3lc:s=1.5", "mode": mode, "min_numel": 1})
            for name, moved in found[0][1].items():
                mean = sum(changes[name] for changes, _, _, _ in found) / 3
                left = sum(owned[name] for _, _, owned, _ in found) + sum(r[name] for _, _, _, r in found) / 3
                torch.testing.assert_close(moved + left, mean, atol=2e-6, rtol=1e-4)

    def test_residual_decay(self):
        """moved + residuals / decay = changes + residuals of the round before, in the mean."""
        for decay in (1.0, 0.75):
            found = CLUSTER.run(2, decayed, decay)
            before = {name: torch.zeros_like(left) for name, (_, _, left) in found[0][0].items()}
            for rounds in zip(*found):
                for name, total in before.items():
                    changes, moved, left = (sum(ranks) / 2 for ranks in zip(*(result[name] for result in rounds)))
                    torch.testing.assert_close(moved + left / decay, changes + total, atol=2e-6, rtol=1e-4)
                    before[name] = left
            self.assertGreater(max(left.abs().max() for left in before.values()), 1e-4)

    def test_resuming(self):
        """Also in the middle of a round."""
        for settings in ({"codec": "3lc"}, {"codec": "qsgd:bits=8", "mode": "gather", "participants": 2}):
            self.goes_on(3, resumed, [(0, 4), (4, 6), (6, 12)], local_steps, {"every": 4, **settings})

    def test_resuming_on_other_ranks(self):
        """load_state_dict() of PyTorch 2 keeps the tensors that it is given, and here ranks get the same ones, in
        memory that they share. Before LocalSteps copied them all ranks wrote into one outer momentum, and models
        differed."""
        states = [state for _, _, state in CLUSTER.run(3, resumed, [(0, 4)], local_steps,
                                                       {"every": 2, "codec": "3lc", "min_numel": 1})]
        same = CLUSTER.run(3, from_other_ranks, states)
        for count in (3, 2):
            found = CLUSTER.run(2, from_other_ranks, states[:count], count < 3)
            for name in found[0][0]:
                torch.testing.assert_close(sum(left[name] for left, _ in found) / 2,
                                           sum(left[name] for left, _ in same[:count]) / 3, atol=1e-6, rtol=1e-5)
            self.assertEqual(found[0][1], found[1][1])
        self.refused(CLUSTER.outcomes(2, from_other_ranks, states[:2]), None,
                     "those of ranks 2 are missing; with lost=True")

    def test_nan(self):
        for policy in ("skip", "raise"):
            found = CLUSTER.run(2, local_nan, policy)
            for raised, model, stats in found:
                self.assertEqual([step for step, _ in raised], [3] if policy == "raise" else [])
                self.assertEqual(model, found[0][1])
                self.assertEqual((stats.rounds, stats.skipped), (4, 1))


# ---- parameter server ----

def pushed(rank, world, steps, settings, momentum=0.9):
    model = build(rank)
    optimizer = threelc.torch.PushPull(model, lambda p: torch.optim.SGD(p, 0.05, momentum=momentum), **settings)
    train(rank, model, optimizer, range(steps))
    return {name: p.detach().numpy().tobytes() for name, p in model.named_parameters()}, optimizer.stats


def push_pull(model, settings):
    return threelc.torch.PushPull(model, lambda p: torch.optim.Adam(p, 0.01), **settings), None


def push_on_other_ranks(rank, world, saved, servers=2, codec="3lc", lost=False):
    model = build(rank)
    optimizer = threelc.torch.PushPull(model, lambda p: torch.optim.Adam(p, 0.01), servers=servers, codec=codec)
    model.load_state_dict(saved[0][0])
    optimizer.load_state_dict([state for _, state in saved], lost)
    train(rank, model, optimizer, [9])
    return {name: p.detach().numpy().tobytes() for name, p in model.named_parameters()}, optimizer.stats.steps


def owned_on_other_ranks(rank, world, saved, servers):
    """The residuals of answers of this rank's server."""
    model = build(rank)
    optimizer = threelc.torch.PushPull(model, lambda p: torch.optim.Adam(p, 0.01), servers=servers)
    optimizer.load_state_dict([state for _, state in saved])
    sums = [0.0] * len(list(model.parameters()))
    for part in server_parts(optimizer):
        if part.residual is not None:
            sums[part.tensor] += sum(part.residual)
    return sums


def push_nan(rank, world, bad):
    model = build(rank)
    optimizer = threelc.torch.PushPull(model, lambda p: torch.optim.SGD(p, 0.05), servers=2)
    raised = 0
    for step in range(4):
        optimizer.zero_grad()
        backward(model, rank, step)
        if step == 2 and rank in bad:
            model.first.weight.grad[0, 0] = float("inf")
        try:
            optimizer.step()
        except threelc.StepError:
            raised += 1
    return {name: p.detach().numpy().tobytes() for name, p in model.named_parameters()}, raised, optimizer.stats


class PushPull(Refusals):
    def test_floats(self):
        models = [build(0) for _ in range(3)]
        optimizers = [sgd(model) for model in models]
        for step in range(5):
            for rank, model in enumerate(models):
                model.zero_grad()
                backward(model, rank, step)
            for parameters in zip(*(model.parameters() for model in models)):
                mean = sum(p.grad for p in parameters) / 3
                for p in parameters:
                    p.grad = mean.clone()
            for optimizer in optimizers:
                optimizer.step()
        for servers in (1, 2, 3):
            found = CLUSTER.run(3, pushed, 5, {"codec": "raw", "servers": servers})
            for model, _ in found:
                self.assertEqual(model, found[0][0])
                for name, p in models[0].named_parameters():
                    got = torch.frombuffer(bytearray(model[name]), dtype=torch.float32).view(p.shape)
                    torch.testing.assert_close(got, p.detach(), atol=2e-6, rtol=1e-4)

    def test_replicas_are_identical(self):
        found = CLUSTER.run(3, pushed, 20, {"codec": "3lc:s=1.75", "pull": "3lc", "servers": 2})
        for rank, (model, stats) in enumerate(found):
            self.assertEqual(model, found[0][0])
            self.assertEqual((stats.steps, stats.failed), (20, 0))
            self.assertGreater(stats.push_residual_ratio, 0)
            self.assertEqual(stats.pull_residual_ratio > 0, rank < 2)

    def test_resuming(self):
        whole = self.goes_on(3, resumed, [(0, 3), (3, 4), (4, 8)], push_pull, {"codec": "3lc", "servers": 2})
        for world in (2, 4):
            found = CLUSTER.run(world, push_on_other_ranks, [saved for _, *saved in whole])
            self.assertEqual(found[0][0], found[1][0])
            self.assertEqual(found[0][1], 9)

    def test_states_that_are_missing(self):
        """That of a worker may be lost, that of a server has a part of the model."""
        saved = [state for _, *state in CLUSTER.run(3, resumed, [(0, 9)], push_pull, {"codec": "3lc", "servers": 2})]
        found = CLUSTER.run(3, push_on_other_ranks, saved[:2], 2, "3lc", True)
        self.assertEqual(found[0][0], found[2][0])
        self.assertEqual([steps for _, steps in found], [10] * 3)
        self.refused(CLUSTER.outcomes(2, push_on_other_ranks, saved[:2]), None,
                     "those of ranks 2 are missing; with lost=True")
        found = CLUSTER.outcomes(3, push_on_other_ranks, saved[1:], 2, "3lc", True, timeout=5)
        self.assertIn("the state of server 0 is needed", found[0].words)

    def test_resuming_on_other_servers(self):
        """Where nothing is lost on the way, parts that are divided anew make no difference. Parts of one tensor find
        one number of steps in the state of Adam, and load_state_dict() keeps what they share. Before each part got a
        copy all of them counted in one."""
        before = CLUSTER.run(3, resumed, [(0, 6)], push_pull, {"codec": "raw", "servers": 2})
        saved = [state for _, *state in before]
        same = CLUSTER.run(3, push_on_other_ranks, saved, 2, "raw")[0]
        for world, servers in ((3, 1), (3, 3), (2, 1), (4, 4)):
            found = CLUSTER.run(world, push_on_other_ranks, saved, servers, "raw")
            self.assertTrue(all(result == found[0] for result in found))
            if world == 3:
                self.assertEqual(found[0], same)
        self.refused(CLUSTER.outcomes(3, push_on_other_ranks, [saved[0], saved[2]], 3, "raw")[::2], None,
                     "2 servers were saved, here are 3")

    def test_residuals_on_other_servers(self):
        before = CLUSTER.run(3, resumed, [(0, 6)], push_pull, {"codec": "3lc", "servers": 3})
        saved = [state for _, *state in before]
        sums = []
        for world, servers in ((3, 3), (3, 1), (4, 2)):
            found = CLUSTER.run(world, owned_on_other_ranks, saved, servers)
            sums.append(torch.tensor(found).sum(0))
        self.assertGreater(sums[0].abs().max(), 0)
        for other in sums[1:]:
            torch.testing.assert_close(other, sums[0], atol=1e-5, rtol=1e-4)

    def test_nan(self):
        """One bad gradient is left out; if all are bad, the step changes nothing."""
        for bad, failed in (((1,), 0), ((0, 1, 2), 1)):
            for model, raised, stats in (found := CLUSTER.run(3, push_nan, bad)):
                self.assertEqual(model, found[0][0])
                self.assertEqual((raised, stats.failed), (failed, failed))


# ---- gossip ----

def gossiped(rank, world, steps, settings):
    model = build(rank)
    optimizer = threelc.torch.Gossip(model, sgd(model, 0), **settings)
    train(rank, model, optimizer, range(steps))
    mean = {name: t.numpy().tobytes() for name, t in optimizer.average().items()}
    return {name: p.detach().clone() for name, p in model.named_parameters()}, mean, optimizer.stats


def gossip(model, settings):
    inner = sgd(model)
    return threelc.torch.Gossip(model, inner, **settings), inner


def gossip_on_other_ranks(rank, world, states):
    model = build(rank)
    optimizer = threelc.torch.Gossip(model, sgd(model, 0))
    optimizer.load_state_dict(states)
    return {name: p.detach().clone() for name, p in model.named_parameters()}


class Gossip(Refusals):
    def test_floats(self):
        """raw on a ring of four is D-PSGD as it is written down."""
        models = [build(0) for _ in range(4)]
        for step in range(4):
            before = [[p.detach().clone() for p in model.parameters()] for model in models]
            for rank, model in enumerate(models):
                model.zero_grad()
                backward(model, rank, step)
                with torch.no_grad():
                    for i, p in enumerate(model.parameters()):
                        mean = (before[rank - 1][i] + before[rank][i] + before[(rank + 1) % 4][i]) / 3
                        p.copy_(mean - 0.05 * p.grad)
        found = CLUSTER.run(4, gossiped, 4, {"codec": "raw"})
        for (got, _, _), model in zip(found, models):
            for name, p in model.named_parameters():
                torch.testing.assert_close(got[name], p.detach(), atol=2e-6, rtol=1e-4)

    def test_training(self):
        for settings in ({"kind": "ecd"}, {"kind": GossipKind.ECD}, {"graph": "complete", "codec": "natural"}):
            found = CLUSTER.run(4, gossiped, 15, settings)
            for model, mean, stats in found:
                self.assertEqual(mean, found[0][1])
                self.assertEqual((stats.steps, stats.stayed), (15, 0))
                self.assertTrue(all(torch.isfinite(t).all() for t in model.values()))
                self.assertGreater(stats.ratio, 1.2)
            self.assertFalse(torch.equal(found[0][0]["first.weight"], found[1][0]["first.weight"]))

    def test_resuming(self):
        whole = self.goes_on(4, resumed, [(0, 2), (2, 3), (3, 6)], gossip, {})
        found = CLUSTER.run(3, gossip_on_other_ranks, [state for _, _, state in whole])
        for name, tensor in found[0].items():
            mean = sum(torch.frombuffer(bytearray(model[name]), dtype=torch.float32) for model, _, _ in whole) / 4
            torch.testing.assert_close(tensor.view(-1), mean, atol=1e-6, rtol=1e-5)
            self.assertTrue(torch.equal(tensor, found[2][name]))

    def test_other_graphs(self):
        self.refused(CLUSTER.outcomes(2, gossiped, 1, {"graph": threelc.exchange.Graph(0, 3)}), None,
                     "the graph has 3 nodes, but there are 2 ranks")
