# SPDX-License-Identifier: MIT
"""Steps with the communication hook, over the fake of torch.distributed: sums, counts, scales, sentences, and
what a reducer may give in other buckets than before."""
import logging
import math
import re
import unittest
import warnings
from types import SimpleNamespace
from unittest import mock

import torch
from torch.nn.parallel import DistributedDataParallel

import threelc
import threelc.torch
from cluster import attempt
from fake_dist import Network
from faults import prepared
from outer_models import Linear, Scaler
from threelc._errors import Status
from threelc.torch.ddp import hook

NAMES = ("weight", "bias")
SIZE = 2007  # values of Linear
STEPS = 6


class Bucket:
    """What a reducer gives a hook: gradients of parameters, one after the other in a buffer."""

    def __init__(self, parameters, gradients, number=0, last=True, before=0):
        """before: values of other buckets in the same memory."""
        self._parameters, self._number, self._last = parameters, number, last
        flat = [gradient.reshape(-1) for gradient in gradients]
        self._buffer = torch.cat([torch.full((before,), 9.0, dtype=flat[0].dtype), *flat])[before:]
        self._gradients = [part.view(gradient.shape)
                           for part, gradient in zip(self._buffer.split([each.numel() for each in flat]), gradients)]

    def index(self):
        return self._number

    def is_last(self):
        return self._last

    def parameters(self):
        return self._parameters

    def buffer(self):
        return self._buffer

    def gradients(self):
        return self._gradients


def in_backward(function):
    """Calls it while a backward pass runs, as a reducer is called."""
    with torch.enable_grad():
        one = 2 * torch.ones(1, requires_grad=True)
    one.register_hook(lambda gradient: function() and None)
    one.backward()


def given(state, *buckets):
    """The buffers of a step's buckets, as they are when its backward pass has ended."""
    futures = []

    def reduce():
        futures.extend(hook(state, bucket) for bucket in buckets)
        torch.autograd.Variable._execution_engine.queue_callback(lambda: [future.wait() for future in futures])

    in_backward(reduce)
    return [future.value() for future in futures]


def one_bucket(state, model, rank, step, names=NAMES, factor=1.0):
    parameters = dict(model.module.named_parameters())
    gradients = dict(zip(NAMES, model.module.gradient(rank, step)))
    return given(state, Bucket([parameters[name] for name in names], [factor * gradients[name] for name in names]))[0]


def mean_of(step, world, size=SIZE):
    found = [torch.cat([g.view(-1) for g in Linear().gradient(rank, step)]) for rank in range(world)]
    return (sum(found) / world)[-size:]


def flat(model):
    return torch.cat([torch.zeros(p.numel()) if p.grad is None else p.grad.reshape(-1)
                      for p in model.module.parameters()]).clone()


class Talks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        prepared()

    def model(self):
        return DistributedDataParallel(Linear())

    def ends(self, world, function, codec="3lc", **settings):
        """How function(rank, model, state) ended on each rank."""
        def serve(rank):
            model = self.model()
            return function(rank, model, threelc.torch.register(model, codec, **settings))

        return Network(world).run(serve)

    def talk(self, world, function, codec="3lc", **settings):
        """What it returned."""
        found = self.ends(world, function, codec, **settings)
        for how, ended in found:
            if how != "returned":
                raise ended or AssertionError("a rank hangs")
        return [ended for _, ended in found]

    def said(self, world, function, codec="3lc", **settings):
        """The same, and all warnings of this library."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = self.talk(world, function, codec, **settings)
        return found, [(each.category, str(each.message)) for each in caught if "threelc" in str(each.message)]


def trained(rank, model, state, steps=STEPS, first=0, scales=None, scaler=None):
    """The gradients of each step, without the scale of the loss."""
    found = []
    for step in range(first, steps):
        model.zero_grad()
        factor = 1.0 if scales is None else scales[step]
        if scaler is not None:
            scaler.scale = factor
        (factor * model(rank, step)).backward()
        found.append(flat(model) / factor)
    return found


class Sums(Talks):
    def test_nothing_is_lost(self):
        """What comes out of all steps and of flush() is what went in. Bytes of floats are those of a ring."""
        def run(rank, model, state):
            found = trained(rank, model, state)
            norms = {name: float(residual.norm()) for name, residual in state.residuals.items()}
            stats, saved = state.stats, state.state_dict()
            state.flush()
            left = [float(residual.abs().sum()) for residual in state.residuals.values()]
            grads = [p.grad is None for p in model.module.parameters()]
            return sum(found) + flat(model), norms, stats, left, grads, saved, found

        for world, codec, settings, floats in (
                (2, "3lc", {"warmup_steps": 0}, 0), (3, "3lc", {"mode": "gather", "warmup_steps": 2}, 2),
                (2, "topk:p=0.1", {"pull": "3lc", "min_numel": 1}, 1), (2, "raw", {}, STEPS),
                (3, "3lc", {"min_numel": 2000}, 1), (2, "3lc", {"min_numel": 2001}, 1)):
            with self.subTest(codec=codec, **settings):
                for total, norms, stats, left, grads, saved, found in self.talk(world, run, codec, **settings):
                    torch.testing.assert_close(total, sum(mean_of(step, world) for step in range(STEPS)),
                                               atol=2e-5, rtol=1e-5)
                    for step in range(floats):
                        torch.testing.assert_close(found[step], mean_of(step, world), atol=1e-6, rtol=1e-5)
                    if settings.get("min_numel") != 2001:
                        self.assertEqual(bool((found[floats:][0] - mean_of(floats, world)).norm() > 1)
                                         if codec != "raw" else True, True)
                    ring = sum(2 * 4 * n * (world - 1) // world for n in (2000, 7))
                    in_one = 2 * 4 * SIZE * (world - 1) // world
                    self.assertEqual((stats.steps, stats.float_steps, stats.skipped, stats.float_bytes),
                                     (STEPS, floats, 0, floats * in_one + (STEPS - floats) * ring))
                    self.assertEqual(norms, stats.residual_norms)
                    self.assertEqual(sorted(norms), [] if codec == "raw" else sorted(NAMES))
                    self.assertFalse(any(left))
                    self.assertEqual(grads, [codec == "raw"] * 2)
                    self.assertEqual((saved["steps"], saved["scale"]), (STEPS, None))
                    self.assertGreater(stats.thread_seconds, 0)

    def test_loss_scale(self):
        """Residuals and velocities follow it: with powers of two gradients have the same bits, but for the scale."""
        scales = [4.0, 4.0, 2.0, 8.0, 8.0, 1.0]
        for settings in ({"warmup_steps": 0}, {"momentum_correction": 0.5}):
            scaler = Scaler(4.0)
            scaler.get_scale = mock.Mock(side_effect=lambda: scaler.scale)
            plain = self.talk(1, trained, **settings)
            scaled = self.talk(1, lambda *about: (trained(*about, scales=scales, scaler=scaler),
                                                  about[2].state_dict()["scale"]), scaler=scaler, **settings)
            self.assertTrue(all(map(torch.equal, plain[0], scaled[0][0])))
            self.assertEqual((scaled[0][1], scaler.get_scale.call_count), ({"float": "0x1.0000000000000p+0"}, STEPS))

    def test_moments_as_floats(self):
        """They begin in the steps of floats, and not in one that has a NaN."""
        def run(rank, model, state):
            found = []
            for step in range(4):
                bucket = one_bucket(state, model, 0, step, factor=math.nan if step == 1 and rank == 1 else 1.0)
                found.append(bucket.clone())
            return found

        velocity = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one, other = self.talk(2, run, "3lc", momentum_correction=0.5, warmup_steps=4)
        for step in (0, 2, 3):
            velocity = 0.5 * velocity + mean_of(step, 1)
            torch.testing.assert_close(one[step], velocity, atol=1e-5, rtol=1e-5)
        self.assertTrue(one[1].isnan().all() and all(map(torch.equal, one[2:], other[2:])))

    def test_log(self):
        """In every third step from then on, what they sent on average."""
        def run(rank, model, state):
            trained(rank, model, state, 2)
            found = [state.stats.sent]
            state.log_every(3)
            for step in 5, 8:
                trained(rank, model, state, step, step - 3)
                found.append(state.stats.sent)
            trained(rank, model, state, 9, 8)
            return found

        with self.assertLogs("threelc", logging.INFO) as caught:
            sent, _ = self.talk(2, run)
        found = [re.fullmatch(r"INFO:threelc:step (\d+): (\d+) bytes sent in a step, (\d+\.\d) times fewer than "
                              r"floats; \d+\.\d ms in codecs, \d+\.\d ms on the wire", line) for line in caught.output]
        self.assertEqual([int(match[1]) for match in found], [5, 8])
        for match, first, last in zip(found, sent, sent[1:]):
            self.assertEqual(int(match[2]), (last - first) // 3)
            self.assertEqual(match[3], f"{3 * 8028 / (last - first):.1f}")

    def test_join(self):
        """A rank that has run out of data is not in the round, keeps its residuals, and gets what the others do. Its
        weights are old, and not compared."""
        def run(rank, model, state):
            found = [one_bucket(state, model, rank, step) for step in range(3)]
            held = state.residuals["weight"].clone()
            for step in 3, 4:
                if rank == 1:  # not in a backward pass
                    with torch.no_grad():
                        model.module.bias += 1
                    parameters = list(model.module.parameters())
                    found.append(hook(state, Bucket(parameters, [torch.zeros(p.shape) for p in parameters])).wait())
                else:
                    found.append(one_bucket(state, model, rank, step))
            return torch.stack(found), torch.equal(held, state.residuals["weight"]), state.stats.steps

        for quantize in "host", "device":
            (one, same, steps), (other, kept, _) = self.talk(2, run, compare_every=2, quantize=quantize)
            self.assertEqual((steps, same, kept), (5, False, True))
            self.assertTrue(torch.equal(one, other))
            for step in range(5):
                torch.testing.assert_close(one[step, 2000:], mean_of(step, 2 if step < 3 else 1, 7))

    def test_unused(self):
        """What came out of residuals for a parameter that nobody used goes back."""
        def run(rank, model, state):
            state._finds_unused = True
            model.module.bias.grad = torch.ones(7)
            found = []
            for step in range(4):
                used = one_bucket(state, model, rank, step, factor=math.nan if step == 3 else 1.0)
                before = {name: values.clone() for name, values in state.residuals.items()}
                with torch.no_grad():
                    model.module.weight.grad = None if step in (1, 3) else used[:2000].view(40, 50).clone()
                    model.module.bias.grad = used[2000:].clone()
                state._keep_unused()  # as it is called once DistributedDataParallel has written gradients
                found.append((used, before, {name: values.clone() for name, values in state.residuals.items()}))
            return found

        with mock.patch.object(threelc.torch._hook.state.DDPState, "_step_ended", lambda state, waits: None):
            found, other = self.said(2, run, min_numel=1, warmup_steps=0)[0]
        for step, (used, before, after) in enumerate(found):
            back = used[:2000] if step == 1 else torch.zeros(2000)
            torch.testing.assert_close(after["weight"], before["weight"] + back)
            self.assertTrue(torch.equal(after["bias"], before["bias"]))
            self.assertTrue(torch.equal(used, other[step][0]) or step == 3)


class Buckets(Talks):
    def test_others_than_before(self):
        """What comes out of several buckets, with any memory before them. The scaler is asked once in a step."""
        scaler = Scaler(2.0)
        scaler.get_scale = mock.Mock(return_value=2.0)

        def run(rank, model, state):
            one_bucket(state, model, rank, 0)
            total = mean_of(0, 2)
            weight, bias = model.module.parameters()
            for step in range(1, 4):
                one, two = model.module.gradient(rank, step)
                total = total + torch.cat(given(state, Bucket([weight], [one], 0, False, before=3),
                                                Bucket([bias], [two], 1, True, before=5)))
            total = total + one_bucket(state, model, rank, 4)
            state.flush()
            return total + flat(model), state.stats.steps, [group.names for group in state._order]

        for total, steps, groups in self.talk(2, run, scaler=scaler):
            torch.testing.assert_close(total, sum(mean_of(step, 2) for step in range(5)), atol=2e-5, rtol=1e-5)
            self.assertEqual((steps, groups), (5, [("weight",), ("bias",)]))
        self.assertEqual(scaler.get_scale.call_count, 2 * 5)

    def test_a_parameter_that_does_not_come(self):
        """Those that travel with it are NaN, and the sentence names it; the next step is as ever."""
        def run(rank, model, state):
            one_bucket(state, model, rank, 0)
            found = one_bucket(state, model, rank, 1)
            said = attempt(one_bucket, state, model, rank, 2, ["weight"])
            return said[:2], [found, one_bucket(state, model, rank, 3)]

        for said, found in self.talk(2, run, warmup_steps=0):
            self.assertEqual(said, ("Error", "no gradients of bias came, which travel with others"))
            self.assertTrue(all(bucket.isfinite().all() for bucket in found))

    def test_a_parameter_that_nobody_knows(self):
        """Connections are closed, so that other ranks do not wait."""
        def run(rank, model, state):
            other = torch.nn.Parameter(torch.zeros(3))
            found = [attempt(given, state, Bucket([other], [torch.ones(3)]))[:2] if rank == 1 else
                     attempt(one_bucket, state, model, rank, 0)[:2]]
            joined = Bucket(list(model.module.parameters()), model.module.gradient(rank, 1))  # not in a backward pass
            return found + [attempt(one_bucket, state, model, rank, 1)[:2], attempt(hook, state, joined)[:2],
                            attempt(state.flush)[:2]]

        one, other = self.talk(2, run)
        self.assertEqual({kind for kind, _ in one}, {"RuntimeError"})
        self.assertRegex(one[0][1], "^rank 0 lost .* Gloo says: connection closed by peer$")  # at once
        self.assertEqual(len({words for _, words in one}), 1)  # what came first
        self.assertEqual({kind for kind, _ in other}, {"ValueError"})
        self.assertRegex(other[2][1], r"^a gradient of shape \[3\] is of a parameter that the module did not have")

    def test_compiled(self):
        """The compiled reducer gives gradients one by one: a step has ended when all have come, or one comes again."""
        def run(rank, model, state):
            weight, bias = model.module.parameters()
            total, counts = 0, []
            for step in range(5):
                one, two = model.module.gradient(rank, step)
                one = one.t().contiguous().t()  # in other memory than hook() can use
                self.assertIsNone(hook(state, (one, weight)))
                if step != 2:
                    hook(state, (two, bias))
                total = total + torch.cat([one.reshape(-1), two if step != 2 else torch.zeros(7)])
                counts.append(state.stats.steps)
            state.flush()
            return total + flat(model), counts, state.stats.float_steps

        wanted = sum(mean_of(step, 2) for step in range(5))
        wanted[2000:] -= mean_of(2, 2)[2000:]
        for total, counts, floats in self.talk(2, run):
            torch.testing.assert_close(total, wanted, atol=2e-5, rtol=1e-5)
            self.assertEqual((counts, floats), ([1, 2, 2, 4, 5], 1))

    def test_compiled_of_other_kinds(self):
        """Sparse ones get means, too; what travelled with others cannot be given one by one."""
        def run(rank, model, state):
            weight, bias = model.module.parameters()
            there = torch.sparse_coo_tensor([[rank, 5]], [1.0, 2.0], (7,))
            hook(state, (there, bias))
            self.assertEqual(there.to_dense().tolist(), [0.5, 0.5, 0, 0, 0, 2.0, 0])
            one_bucket(state, model, rank, 1)
            one_bucket(state, model, rank, 2)
            return attempt(hook, state, (torch.ones(40, 50), weight))[:2]

        said = self.talk(2, run)
        self.assertEqual({kind for kind, _ in said} - {"RuntimeError"}, {"ValueError"})
        self.assertIn(("ValueError", "weight travelled with other parameters when this state was saved"), said)

    def test_kinds_that_no_codec_takes(self):
        """Sparse, complex and float64 gradients: means in floats, and these are not steps of floats."""
        def run(rank, model, state):
            weight, bias = model.module.parameters()
            there = torch.sparse_coo_tensor([[rank, 5]], [1.0, 2.0], (7,))
            bucket = SimpleNamespace(index=lambda: 0, is_last=lambda: True, parameters=lambda: [bias],
                                     buffer=lambda: there, gradients=lambda: [])
            found = [given(state, bucket)[0].to_dense().tolist()]
            wide = Bucket([bias], [torch.full((7,), 0.1 + rank, dtype=torch.float64)])
            found.append(given(state, wide)[0].tolist())
            bias.is_complex = lambda: True
            found.append(given(state, Bucket([bias, weight], [torch.full((7,), 1.0 + rank), torch.zeros(3)]))[0])
            return found, state.stats.float_steps, state.stats.float_bytes

        for (one, wide, pairs), floats, size in self.talk(2, run, warmup_steps=0):
            self.assertEqual(one, [0.5, 0.5, 0, 0, 0, 2.0, 0])
            torch.testing.assert_close(wide, [0.6] * 7, atol=1e-12, rtol=0)
            self.assertEqual(pairs.tolist(), [1.5] * 7 + [0] * 3)
            self.assertEqual((floats, size), (1, (2 * 8 + 2 * 4) + 7 * 8 + 40))
        (how, error), _ = self.ends(2, run, momentum_correction=0.5)
        self.assertEqual((how, type(error)), ("raised", ValueError))
        self.assertEqual(str(error), "momentum_correction and second_moment take dense gradients of real numbers, and "
                                     "bias has others")


class Sentences(Talks):
    def with_nan(self, at, codec="3lc", raises=False, **settings):
        """What steps raise, where rank 1 has a NaN in the bias in these of four; bits, stats, and warnings."""
        def run(rank, model, state):
            said, found = [], []
            for step in range(4):
                model.zero_grad()
                loss = model(rank, step)
                loss = loss + model.module.bias.sum() * math.nan if rank == 1 and step in at else loss
                said.append(attempt(loss.backward)[:2])
                found.append(flat(model))
            return said, found, state.stats

        return self.said(2, run, codec, on_nonfinite="raise" if raises else "skip", **settings)

    def test_nan(self):
        """One warning on each rank, or of floats on that of the NaN, with its step. All go on."""
        words = (". All ranks get NaN in its bucket, and an optimizer without a loss scaler makes the model NaN: find "
                 'the cause, or give register() on_nonfinite="raise" or the scaler')
        for at, floats in ((2, 3), 1), ((0,), 1), ((1, 3), 0):
            found, caught = self.with_nan(at, warmup_steps=floats)
            coded = at[0] >= floats
            for said, buckets, stats in found:
                self.assertEqual(said, [("", "")] * 4)
                self.assertEqual([bool(bucket.isnan().any()) for bucket in buckets], [i in at for i in range(4)])
                self.assertEqual((stats.skipped, stats.dropped), (coded * len(at), 0))
            says = ", says rank 0" if coded else ""
            self.assertEqual(caught, [(RuntimeWarning, 'threelc: rank 1: NaN or infinity in the gradient of tensor '
                                       f'"bias"{says}, in step {at[0] + 1}{words}')] * (2 if coded else 1))

    def test_nan_raises(self):
        """StepError on all ranks in this step alone."""
        found, caught = self.with_nan([2], raises=True)
        self.assertEqual(caught, [])
        for said, buckets, stats in found:
            self.assertEqual([kind for kind, _ in said], ["", "", "StepError", ""])
            self.assertIn('NaN or infinity in the gradient of tensor "bias"', said[2][1])
            self.assertTrue(buckets[3].isfinite().all())
            self.assertEqual((stats.steps, stats.skipped), (4, 1))

    def test_nan_with_scaler(self):
        found, caught = self.with_nan([2], scaler=Scaler(1.0))
        self.assertEqual(caught, [])
        self.assertEqual([stats.skipped for _, _, stats in found], [1, 1])

    def test_other_failures(self):
        """No step succeeds after one that failed for another reason. Connections are closed if others know nothing."""
        def run(rank, model, state, error):
            one_bucket(state, model, rank, 0)
            with mock.patch.object(state._order[0], "run", side_effect=error):
                found = [attempt(one_bucket, state, model, rank, 1)[0]]
            found.append(attempt(one_bucket, state, model, rank, 2)[0])
            return found, state._transport.group is not None, state.stats.skipped

        def failed(cause):
            return threelc.StepError(Status.STEP, "x", cause and SimpleNamespace(cause=cause))

        others = [failed(cause) for cause in (None, Status.NOMEM, Status.CORRUPT)]
        for error, kind, is_open, skipped in ((MemoryError(), "MemoryError", False, 0),
                                              (failed(Status.NONFINITE), "", True, 1),
                                              *((error, "StepError", True, 0) for error in others)):
            found, _ = self.said(1, lambda *about, error=error: run(*about, error), warmup_steps=0)
            self.assertEqual(found, [([kind] * 2, is_open, skipped)])

    def test_dropped(self):
        """What another bucket sent in a step that is skipped."""
        def run(rank, model, state):
            weight, bias = model.module.parameters()
            for step in range(3):
                one, two = model.module.gradient(rank, step)
                two = two * math.nan if (rank, step) == (1, 2) else two
                given(state, Bucket([weight], [one], 0, False), Bucket([bias], [two], 1))
            return state.stats.skipped, state.stats.dropped

        found, _ = self.said(2, run)
        self.assertEqual(found, [(1, 2000)] * 2)

    def test_replicas(self):
        """After every second step, not before the first one."""
        def run(rank, model, state):
            with torch.no_grad():
                model.module.bias[3] = rank
            found = [attempt(one_bucket, state, model, rank, step)[:2] for step in range(4)]
            return found, attempt(state.flush)[:2]

        for found, flushed in self.talk(2, run, compare_every=2):
            self.assertEqual([kind for kind, _ in found], ["", "", "RuntimeError", "RuntimeError"])
            self.assertRegex(found[2][1], "^rank 1 has other weights than rank 0 after step 2, in bias. Something ")
            self.assertEqual((found[3], flushed), (found[2], found[2]))

    def test_verdict_and_starving(self):
        """Rank 0 speaks for all, in the same step or the next one; as errors they reach backward()."""
        def run(rank, model, state):
            trained(rank, model, state, 1)
            state._counts.float_seconds = 0.0  # nothing is faster
            state._starving.look = lambda found: (
                f"threelc: starves, {len(found())}" if state._counts.steps == 4 else None)
            trained(rank, model, state, 13)
            return state.stats.steps

        found, caught = self.said(2, run)
        self.assertEqual(found, [14, 14])
        self.assertEqual({kind for kind, _ in caught}, {RuntimeWarning})
        self.assertRegex("\n".join(said for _, said in caught), r"^threelc: starves, 1\nthreelc: the exchange of a "
                         r"step takes \d+\.\d ms, \d+\.\d ms of them in the codec 3lc, and took 0\.0 ms as floats")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            one, other = self.ends(2, run)
        self.assertEqual((one[0], type(one[1])), ("raised", RuntimeWarning))
        self.assertRegex(str(other[1]), "^rank 1 lost ")


if __name__ == "__main__":
    unittest.main()
