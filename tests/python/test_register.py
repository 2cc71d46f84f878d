# SPDX-License-Identifier: MIT
"""What register() and register_fsdp() refuse, before anything is sent; the warning about NaN; stats of resumed runs."""
import math
import unittest
import warnings
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed import optim
from torch.nn.parallel import DistributedDataParallel
try:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
except (ImportError, ValueError):  # PyTorch 1.13
    FullyShardedDataParallel = None

import threelc
import threelc.torch
from cluster import CLUSTER, Refusals, attempt
from outer_models import Scaler
from test_ddp import batch, build, start, train


class FSDPModule(torch.nn.Module):
    """Has the name of FSDP2's class."""


def fully_sharded(module, **settings):
    """A module of FSDP1, on CPUs."""
    return FullyShardedDataParallel(module, device_id=torch.device("cpu"), **settings)


def plain_hook(state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A hook of a user's."""
    raise AssertionError("it is not called")


def with_hook(model):
    model.register_comm_hook(None, plain_hook)


def in_backward(model):
    optim._apply_optimizer_in_backward(torch.optim.SGD, model.module.parameters(), {"lr": 0.1})


NO_DDP = "TypeError: register() takes a DistributedDataParallel module, not "
HAS_HOOK = "ValueError: this module has a communication hook already"
MODULES = {  # what becomes of a DistributedDataParallel module; None: it is changed
    "plain": (lambda model: model.module, NO_DDP + "a Linear: wrap the module first"),
    "optimizer": (lambda model: torch.optim.SGD(model.parameters(), 0.1), NO_DDP + "a SGD: wrap the module first"),
    "DataParallel": (lambda model: torch.nn.DataParallel(model.module), NO_DDP + "a DataParallel: wrap"),
    "FSDPModule": (lambda model: FSDPModule(), "TypeError: FSDP shards this module: register_fsdp() compresses"),
    "FullyShardedDataParallel": (lambda model: fully_sharded(model.module),
                                 NO_DDP + "FullyShardedDataParallel: for its HYBRID_SHARD"),
    "twice": (lambda model: threelc.torch.register(model) and None, HAS_HOOK),
    "other hook": (with_hook, HAS_HOOK + ", plain_hook"),
    "compiled": (lambda model: torch.compile(model),
                 "TypeError: register() takes the DistributedDataParallel module, before torch.compile()"),
    "in backward": (in_backward, "ValueError: the optimizer of weight runs in the backward pass"),
}
GROUPS = {
    "ranks": lambda model: dist.new_group([0], backend="gloo"), "own": lambda model: dist.new_group(backend="gloo"),
    "module": lambda model: model.process_group, "text": lambda model: "gloo",
}


def registered(rank, world, what, settings):
    """What register() says, and whether a process group was made for it."""
    model = DistributedDataParallel(torch.nn.Linear(20, 20))
    if "process_group" in settings:
        settings["process_group"] = GROUPS[settings["process_group"]](model)
    if what:
        made = MODULES[what][0](model)
        model = model if made is None else made  # a compiled module has no truth value
    with mock.patch.object(dist, "new_group", side_effect=dist.new_group) as new_group:
        kind, words, _ = attempt(lambda: threelc.torch.register(model, **settings))
    return f"{kind}: {words}" if kind else "registered", new_group.call_count


def registered_before(rank, world, what):
    model = DistributedDataParallel(torch.nn.Linear(20, 20))
    threelc.torch.register(model)
    what(model)
    model(torch.zeros(1, 20))


ARGUMENTS = [
    ({"scaler": 8.0}, "TypeError: scaler should be a GradScaler, or another object with get_scale(), not 8.0"),
    ({"scaler": torch.nn.ReLU()}, "TypeError: scaler should be a GradScaler, or another object with get_scale(), not "
                                  "a ReLU"),
    ({"scaler": torch.cuda.amp.GradScaler},
     "TypeError: scaler should be a GradScaler, not the class: give GradScaler()"),
    ({"reserve": "sbc"}, "TypeError: reserve should be a list of codecs, such as ['3lc'], not 'sbc'"),
    ({"reserve": None}, "TypeError: reserve should be a list of codecs, such as ['3lc'], not None"),
    ({"reserve": ["3lc", None]}, "TypeError: reserve should have codecs, such as '3lc', not None"),
    ({"reserve": ["nothing"]}, "ParameterError: codec 'nothing'"),
    ({"codec": "nothing"}, "ParameterError: codec 'nothing'"),
    ({"codec": "3lc:s=7"}, "ParameterError: codec '3lc:s=7': at 6"),
    ({"on_nonfinite": "ignore"}, "ValueError: on_nonfinite should be one of skip, raise"),
    ({"pull": "nothing"}, "ParameterError: codec 'nothing'"),
    ({"mode": "ring"}, "ValueError: mode should be one of sharded, gather, not 'ring'"),
    ({"quantize": "gpu"}, "ValueError: quantize should be one of auto, host, device, not 'gpu'"),
    ({"min_numel": -1}, "ValueError: min_numel should be at least 0, not -1"),
    ({"min_numel": 2**70}, f"ValueError: min_numel should be at most {2**62}, not {2**70}"),
    ({"min_numel": 1.5}, "TypeError: min_numel should be a whole number at least 0, not 1.5"),
    ({"warmup_steps": None}, "TypeError: warmup_steps should be a whole number at least 0, not None"),
    ({"seed": -1}, "ValueError: seed should be at least 0, not -1"),
    ({"threads": 100000}, "ValueError: threads should be at most 65535, not 100000"),
    ({"threads": "two"}, "TypeError: threads should be a whole number at least 0, not 'two'"),
    ({"process_group": "module"}, "ValueError: process_group is the one that the module uses itself: make another one"),
    ({"process_group": "text"}, "ValueError: process_group should be a process group that this rank is in"),
]


class Before(Refusals):
    def check(self, what, settings, words):
        for said, made in CLUSTER.run(2, registered, what, settings, timeout=20):
            self.assertIn(words, said)
            self.assertEqual(made, 0)  # before anything is sent

    def test_modules(self):
        for what, (_, words) in MODULES.items():
            if what == "compiled" and not hasattr(torch, "compile"):
                continue
            if what == "FullyShardedDataParallel" and not FullyShardedDataParallel:
                continue
            if what == "in backward" and not hasattr(optim, "_apply_optimizer_in_backward"):
                continue
            with self.subTest(what):
                self.check(what, {}, words)

    def test_arguments(self):
        for settings, words in ARGUMENTS:
            with self.subTest(str(settings)):
                self.check("", settings, words)

    def test_group_of_other_ranks(self):
        said = CLUSTER.run(2, registered, "", {"process_group": "ranks"}, timeout=20)
        self.assertIn("process_group has the ranks [0], and the module's has [0, 1]", said[0][0])
        self.assertIn("process_group should be a process group that this rank is in", said[1][0])

    def test_good_group(self):
        for said, made in CLUSTER.run(2, registered, "", {"process_group": "own"}, timeout=20):
            self.assertEqual((said, made), ("registered", 0))

    def test_mixed_precision(self):
        """A hook of PyTorch's own, which cannot be replaced: plain PyTorch says the same to any other hook."""
        for said in CLUSTER.run(2, mixed, timeout=20):
            self.assertIn(said, ("PyTorch makes no such module here",
                                 "ValueError: mixed_precision of DistributedDataParallel takes the place of the hook, "
                                 "and there is one only: use torch.autocast(), or convert the module with "
                                 "model.bfloat16() before it is wrapped"))

    def test_what_comes_later(self):
        """PyTorch refuses another hook, and an optimizer in the backward pass in the first forward pass."""
        later = [with_hook, in_backward] if hasattr(torch, "compile") else [with_hook]
        for what in later:
            self.refused(CLUSTER.outcomes(2, registered_before, what, timeout=20), "RuntimeError",
                         "can only be called once")

    def test_models_that_differ(self):
        """DistributedDataParallel compares shapes itself, not who is trained."""
        self.refused(CLUSTER.outcomes(2, other_names, timeout=20), "ValueError",
                     "all ranks need the same settings: parameter first.weight is None on rank 1 and 'of shape "
                     "[5, 5], torch.float32' on rank 0")

    def test_fsdp(self):
        for said in CLUSTER.run(2, fsdp_refusals):
            self.assertEqual(said, [
                "register_fsdp() takes a module, not 3",
                "fully_shard() was called for no module of this model",
                "register_fsdp() takes a module that fully_shard() was called for: this is one of "
                "DistributedDataParallel, for register()",
                "register_fsdp() takes a module that fully_shard() was called for, not FullyShardedDataParallel: for "
                "its HYBRID_SHARD make the group of replicas with new_group()"
            ][:4 if FullyShardedDataParallel else 3])

    @unittest.skipUnless(FullyShardedDataParallel, "this PyTorch cannot import FullyShardedDataParallel")
    def test_first_fsdp(self):
        """PyTorch takes no hook for HYBRID_SHARD. The two refusals name what to use (test_process_group.py)."""
        for (kind, said), *ours in CLUSTER.run(4, first_fsdp):
            self.assertEqual((kind, said.partition(":")[0]),
                             ("AssertionError", "Communication hook is not supported for hybrid strategies"))
            self.assertEqual([kind for kind, _ in ours], ["TypeError"] * 2)
            for _, words in ours:
                self.assertIn("for its HYBRID_SHARD make the group of replicas with new_group()", words)

    def test_without_ranks(self):
        with self.assertRaisesRegex(ValueError, "init_process_group|inner_optimizer"):
            threelc.torch.LocalSteps(torch.nn.Linear(2, 2), torch.optim.SGD([torch.ones(1)], 0.1), every=1)


def mixed(rank, world):
    try:
        from torch.nn.parallel.distributed import _MixedPrecision
        model = DistributedDataParallel(torch.nn.Linear(20, 20), mixed_precision=_MixedPrecision(torch.bfloat16))
    except (ImportError, RuntimeError):
        return "PyTorch makes no such module here"
    plain = DistributedDataParallel(torch.nn.Linear(20, 20), mixed_precision=_MixedPrecision(torch.bfloat16))
    try:
        plain.register_comm_hook(None, plain_hook)
        return "PyTorch takes another hook"
    except RuntimeError:
        pass
    return "{}: {}".format(*attempt(threelc.torch.register, model))


def other_names(rank, world):
    module = torch.nn.Module()
    setattr(module, "second" if rank else "first", torch.nn.Linear(5, 5, bias=False))
    module.forward = lambda x: x
    threelc.torch.register(DistributedDataParallel(module))


def first_fsdp(rank, world):
    """What PyTorch says to a hook for FullyShardedDataParallel, and what register() and register_fsdp() say."""
    model = fully_sharded(torch.nn.Linear(4, 4), device_mesh=init_device_mesh("cpu", (2, 2)),
                          sharding_strategy=ShardingStrategy.HYBRID_SHARD)
    return [attempt(*call)[:2] for call in ((model.register_comm_hook, None, lambda *arguments: None),
                                            (threelc.torch.register, model), (threelc.torch.register_fsdp, model))]


def fsdp_refusals(rank, world):
    models = [3, torch.nn.Linear(2, 2), DistributedDataParallel(torch.nn.Linear(2, 2))]
    if FullyShardedDataParallel:
        models.append(fully_sharded(torch.nn.Linear(2, 2)))
    return [attempt(threelc.torch.register_fsdp, model)[1] for model in models]


def with_nan(rank, world, codec, at, scaler, policy="skip"):
    """NaN on rank 1 from a step on: the warnings. scaler: whether there is one; "off": it is switched off."""
    model = build()
    if scaler == "off":
        scaler = torch.cuda.amp.GradScaler(enabled=False)
    elif scaler:
        scaler = Scaler(1.0)
    threelc.torch.register(model, codec=codec, scaler=scaler or None, on_nonfinite=policy)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for step in range(6):
            model.zero_grad()
            loss = model(batch(rank, step)).pow(2).mean()
            if step >= at and rank == 1:
                loss = loss + (model.module.head.weight * math.nan).sum()
            try:
                loss.backward()
            except threelc.StepError:
                pass
    return [str(warning.message) for warning in found if "NaN" in str(warning.message)]


class Warnings(unittest.TestCase):
    def test_nan_without_scaler(self):
        """One warning, with rank and parameter. Floats carry no word of it, so there the rank itself warns."""
        for codec, at in (("3lc", 2), ("3lc", 0), ("raw", 2)):
            found = CLUSTER.run(3, with_nan, codec, at, False, timeout=20)
            for rank in (1,) if codec == "raw" else (0, 1, 2):
                self.assertEqual(len(found[rank]), 1)
                step = at + 1 if at or rank == 1 else 2
                self.assertRegex(found[rank][0], 'threelc: rank 1: NaN or infinity in the gradient of tensor '
                                 f'"head.weight"(, says rank 0)?, in step {step}. All ranks')
                self.assertIn('give register() on_nonfinite="raise"', found[rank][0])

    def test_scaler(self):
        """It expects NaN now and then."""
        self.assertEqual(CLUSTER.run(2, with_nan, "3lc", 2, True, timeout=20), [[], []])
        self.assertEqual([len(found) for found in CLUSTER.run(2, with_nan, "3lc", 2, "off", timeout=20)], [1, 1])

    def test_raise(self):
        self.assertEqual(CLUSTER.run(2, with_nan, "3lc", 2, False, "raise", timeout=20), [[], []])

    def test_floats_are_faster(self):
        """Once, on rank 0, in milliseconds. Floats that take longer are no reason."""
        (said,), others = CLUSTER.run(2, judged, 0.25, timeout=20)
        self.assertRegex(said, r"^threelc: the exchange of a step takes 500\.0 ms, 100\.0 ms of them in the codec "
                               r"3lc, and took 250\.0 ms as floats: ")
        self.assertEqual(others, [])
        self.assertEqual(CLUSTER.run(2, judged, 0.75, timeout=20), [[], []])

    def test_warnings_that_are_errors(self):
        """That floats are faster is a warning: as an error it must reach backward(), and end the other ranks."""
        found = CLUSTER.outcomes(2, strict, timeout=20)
        self.assertEqual(found[0], "RuntimeWarning in backward()")
        self.assertRegex(found[1].words, "^rank 1 lost rank 0 ")


def judged(rank, world, float_seconds):
    """As if steps took half a second, a tenth of one in the codec, and those with floats so long: the warnings."""
    model, state, optimizer = start()
    train(rank, model, optimizer, range(2))
    assert state.stats.float_steps == 1  # the thread has ended the steps
    state._counts.step_seconds, state._counts.step_codec = [0.5] * 8, [0.1] * 8
    state._counts.float_seconds = float_seconds
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        train(rank, model, optimizer, range(2, 30))
    return [str(warning.message) for warning in found if "floats" in str(warning.message)]


def strict(rank, world):
    model, state, optimizer = start()
    warnings.simplefilter("error")
    try:
        train(rank, model, optimizer, range(2))
        state._counts.float_seconds = 0.0  # nothing is faster
        train(rank, model, optimizer, range(2, 16))
    except RuntimeWarning:
        return "RuntimeWarning in backward()"
    finally:
        warnings.resetwarnings()
    return "trained"


def stats_of_pieces(rank, world, pieces):
    """The stats at the end of each piece; each goes on from the state of the one before."""
    saved, found = None, []
    for first, last in pieces:
        model, state, optimizer = start()
        if saved is not None:
            state.load_state_dict(saved)
            found.append(state.stats)
        optimizer.param_groups[0]["lr"] = 0.0
        train(rank, model, optimizer, range(first, last))
        saved = state.state_dict()
        found.append(state.stats)
    return found, saved


def stats_elsewhere(rank, world, states):
    _, state, _ = start()
    state.load_state_dict(states)
    return state.stats


COUNTS = ("steps", "float_steps", "skipped", "dropped", "float_bytes", "sent", "received", "codec_seconds",
          "wire_seconds")


class Resumed(unittest.TestCase):
    def test_stats_go_on(self):
        whole = CLUSTER.run(3, stats_of_pieces, [(0, 8)], timeout=20)
        pieces = CLUSTER.run(3, stats_of_pieces, [(0, 3), (3, 8)], timeout=20)
        for (one, _), (many, _) in zip(whole, pieces):
            before, loaded, after = many
            for name in COUNTS:
                self.assertEqual(getattr(loaded, name), getattr(before, name), name)
            for name in COUNTS[:7]:
                self.assertEqual(getattr(after, name), getattr(one[0], name), name)
            self.assertGreater(after.wire_seconds, before.wire_seconds)
            self.assertGreater(after.push_residual_ratio, 0)
            self.assertEqual((after.push_residual_ratio, after.pull_residual_ratio),
                             (one[0].push_residual_ratio, one[0].pull_residual_ratio))
            self.assertGreaterEqual(after.thread_seconds, before.thread_seconds)

    def test_on_other_ranks(self):
        """Steps are those of the run, and what all ranks sent stays what it was."""
        saved = CLUSTER.run(3, stats_of_pieces, [(0, 4)], timeout=20)
        for world in (1, 2):
            found = CLUSTER.run(world, stats_elsewhere, [states for _, states in saved], timeout=20)
            self.assertEqual({stats.steps for stats in found}, {4})
            self.assertEqual(sum(stats.sent for stats in found), sum(stats[-1].sent for stats, _ in saved))

    def test_older_states(self):
        """Those of 0.3.4 have no counts."""
        saved = CLUSTER.run(2, stats_of_pieces, [(0, 4)], timeout=20)
        states = [{key: value for key, value in state.items() if key != "counts"} for _, state in saved]
        for rank, stats in enumerate(CLUSTER.run(2, stats_elsewhere, states, timeout=20)):
            self.assertEqual((rank, stats.steps), (rank, 0))
