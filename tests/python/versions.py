# SPDX-License-Identifier: MIT
"""The table of src/docs/python-versions.md: which feature ran with which PyTorch.

  versions.py 1.13=LOG 2.6=LOG 2.13=LOG   writes it. A LOG is TAP: what run.py prints, or meson's testlog.txt
  versions.py --check                     each test is in its file, and the table has the features below

A cell is "ran" if all its tests passed in the LOG, "not in this version" if all were skipped. It is "does not start" or
"not run" if they were skipped in all runs because torchrun does not start or something is not installed. Else it is an
error, and nothing is written. Without tests it is "not run", which is for GPUs alone.
"""
import ast
import re
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent
DOCUMENT = TESTS.parents[1] / "src" / "docs" / "python-versions.md"
RAN, LACKS, NO_START, NOT_RUN = "ran", "not in this version", "does not start", "not run"
CELLS = {"ok": RAN, "skip": LACKS, "does not start": NO_START, "is not installed": NOT_RUN}  # of results
FEATURES = {  # FILE.CLASS.CASE
    "`register`: `raw` is training without the hook": "ddp.Training.test_raw_is_training_without_the_hook",
    "`no_sync()`": "ddp.Modules.test_no_sync",
    "`join()`": "ddp.Modules.test_join",
    "`find_unused_parameters`": "ddp.Modules.test_unused_parameters",
    "`gradient_as_bucket_view`": "ddp.Modules.test_gradients_as_views_of_buckets",
    "`static_graph=True`": "compile.Eager.test_static_graph",
    "activation checkpointing, `use_reentrant=False`":
        "compile.Eager.test_checkpoints compile.Eager.test_static_graph_with_checkpoints",
    "float16 and bfloat16 gradients": "ddp.Modules.test_halves",
    "`register(scaler=)`, an object in place of a `GradScaler`": "ddp.Failures.test_loss_scale",
    "`GradScaler` on CPUs, `LocalSteps`, `Gossip` and `ShardedOptimizer`":
        "outer_optimizers.Scalers.test_scaler sharded.Scalers.test_scaler",
    "sparse gradients": "ddp_kinds.Sparse.test_gradients_are_those_without_the_hook",
    "sparse gradients of float16 on the CPU": "ddp_kinds.Sparse.test_half",
    "`torch.compile(ddp)`, DDPOptimizer": "compile.Compiled.test_ddp_optimizer",
    "`optimize_ddp=False`, with `static_graph=True`": "compile.Compiled.test_no_optimization",
    "`optimize_ddp=\"no_optimization\"`, activation checkpointing": "compile.Compiled.test_checkpoints",
    "`optimize_ddp=\"python_reducer\"`": "compile.PythonReducer.test_each_parameter_travels_alone",
    "`optimize_ddp=\"python_reducer_without_compiled_forward\"`": "compile.PythonReducer.test_without_compiled_forward",
    "`torch.compile(ddp)`: accumulation, unused parameters, autocast":
        "compile.Compiled.test_accumulation compile.Compiled.test_unused_parameters compile.Compiled.test_autocast",
    "`torch.compile(ddp)` with Inductor": "compile.Compiled.test_inductor",
    "compiled autograd": "compile.PythonReducer.test_compiled_autograd",
    "autocast": "ddp_features.Features.test_autocast",
    "`register` with a real `GradScaler` on CPUs": "ddp_features.Features.test_scaler_with_an_infinity",
    "`init_device_mesh()`": "ddp_features.Features.test_device_mesh",
    "`LocalSteps`, `ShardedOptimizer`, `PushPull`, `Gossip` of a compiled module":
        "outer_arguments.Models.test_compiled",
    "`LocalSteps`": "outer.LocalSteps.test_floats",
    "`LocalSteps(fragments=, delay=, mix=)`": "streaming.Rule.test_as_it_is_written_down",
    "`LocalSteps(error_reset=)`, `common_model()`":
        "error_reset.ErrorReset.test_weights error_reset.ErrorReset.test_common_model",
    "`LocalSteps` and `WeightSync` of a model that FSDP2 shards":
        "local_fsdp.Sites.test_floats local_fsdp.Sites.test_compressed local_fsdp.Sites.test_weights_that_are_followed",
    "`AllReduce`": "all_reduce.AllReduce.test_mean all_reduce.AllReduce.test_started",
    "`new_group()` with `DistributedDataParallel`": "process_group.ProcessGroups.test_ddp",
    "`new_group()` as the replicas of a `DeviceMesh`, with FSDP2": "process_group.ProcessGroups.test_fsdp",
    "`new_group()` as the replicas of FSDP1, `HYBRID_SHARD`": "process_group.ProcessGroups.test_first_fsdp",
    "`ShardedOptimizer`": "sharded.Exactness.test_raw_is_the_optimizer",
    "`ShardedOptimizer(overlap=True)`": "sharded_overlap.Exactness.test_bits",
    "`PushPull`": "outer.PushPull.test_floats",
    "`Gossip`": "outer.Gossip.test_floats",
    "`WeightSync`": "weight_sync.Sharing.test_following",
    "`WeightSync` of float8, float4, integers, float64, where PyTorch has them": "delta.WeightSync.test_quantized",
    "`LocalSteps` resumed on other numbers of ranks": "outer.LocalSteps.test_resuming_on_other_ranks",
    "`PushPull` resumed on other numbers of ranks and servers":
        "outer.PushPull.test_resuming outer.PushPull.test_resuming_on_other_servers "
        "outer.PushPull.test_residuals_on_other_servers",
    "replicas that differ are found": "replicas.ReplicasThatDiffer.test_found replicas.ReplicasThatDiffer.test_equal",
    "`register_fsdp` on CPUs": "fsdp.FSDP2.test_hybrid fsdp.FSDP2.test_raw_is_the_mean_over_replicas",
    "FSDP2: `MixedPrecisionPolicy`": "fsdp.FSDP2.test_hybrid fsdp.FSDP2.test_replicas_are_identical",
    "FSDP2: accumulation, `set_requires_gradient_sync()`": "fsdp.FSDP2.test_hybrid_accumulates",
    "FSDP2: `CPUOffloadPolicy`; `replicate()`": "fsdp.FSDP2.test_replicas_of_one_shard",
    "FSDP2: `momentum_correction=`, `second_moment=`, `flush()`":
        "fsdp_parameters.Parameters.test_second_moment fsdp_parameters.Parameters.test_momentum_correction "
        "fsdp_parameters.Parameters.test_flush",
    "FSDP2: a training goes on from `torch.distributed.checkpoint` on other meshes":
        "fsdp_resume.Resume.test_other_meshes",
    "FSDP2: replicas that differ are found": "fsdp.FSDP2.test_hybrid_replicas_that_differ",
    "`torchrun --max-restarts`": "restarts.Restarts.test_a_rank_is_killed",
    "residuals in `torch.distributed.checkpoint`, loaded on other meshes": "fsdp.Checkpoints.test_other_meshes",
    "states of the other ways in `torch.distributed.checkpoint`, loaded on other numbers of ranks":
        "checkpoint.Checkpoints.test_register checkpoint.Checkpoints.test_local_steps "
        "checkpoint.Checkpoints.test_sharded_optimizer checkpoint.Checkpoints.test_push_pull",
    "states that rank 0 gathers and deals out": "all_reduce.RankZero.test_gathered",
    "ranges in traces of `torch.profiler`": "log.Log.test_ranges",
    "the same of the hook and of `overlap=True`, which have a thread": "log.Log.test_ranges_in_a_thread",
    "torchft: a replica is killed and comes back":
        "torchft.Replicas.test_a_replica_that_is_killed_and_comes_back torchft.Replicas.test_states",
    "torchft: `DistributedDataParallel`, `DiLoCo`": "torchft.Replicas.test_torchft_itself",
    "Flower: clients and strategies":
        "flower.Flower.test_rounds flower.Flower.test_strategies_and_clients_of_all_kinds "
        "flower.Flower.test_nothing_is_lost",
    "gradients on a GPU, `register_fsdp` on GPUs": "",
}


def cases():
    """All there are: FILE.CLASS.CASE."""
    found = set()
    for path in TESTS.glob("test_*.py"):
        classes = {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)}
        for node in classes.values():
            found |= {f"{path.stem[5:]}.{node.name}.{item.name}" for item in node.body
                      if isinstance(item, ast.FunctionDef) and item.name.startswith("test_")}
    return found


def results(log):
    """By FILE.CLASS.CASE: "ok", "not ok", or why it was skipped. A case that ran several times has its worst result;
    where something is not installed, it did not run."""
    found, order = {}, ("is not installed", "ok", "skip", "does not start", "not ok")
    for state, case, place, skip in re.findall(
            r"^\s*(ok|not ok) \d+ (?:- )?(test_\w+) \(test_([\w.]+)\)(?:.*?# SKIP(.*))?.*$",
            Path(log).read_text(errors="replace"), re.MULTILINE | re.IGNORECASE):
        name = place if place.endswith("." + case) else f"{place}.{case}"  # Python 3.11 writes the case twice
        if skip and state == "ok":
            state = next((reason for reason in CELLS if skip.endswith(reason)), "skip")
        found[name] = max(found.get(name, order[0]), state, key=order.index)
    return found


def cell(tests, found, version):
    states = {found.get(test, "no result") for test in tests.split()}
    if not states:
        return NOT_RUN
    if len(states) > 1 or not states <= set(CELLS):
        sys.exit(f"PyTorch {version}: {tests}: {', '.join(sorted(states))}")
    return CELLS[states.pop()]


def link(tests):
    files = dict.fromkeys(test.split(".")[0] for test in tests.split())
    return ", ".join(f"[test_{name}.py](../../tests/python/test_{name}.py)" for name in files)


def write(logs):
    found = {version: results(log) for version, log in logs.items()}
    lines = [f"| | {' | '.join(logs)} | tests |", "|---|" + "---|" * (len(logs) + 1)]
    lines += [f"| {feature} | {' | '.join(cell(tests, found[version], version) for version in logs)} | {link(tests)} |"
              for feature, tests in FEATURES.items()]
    text = re.sub(r"^\|.*\n(\|.*\n)*", "\n".join(lines) + "\n", DOCUMENT.read_text(), count=1, flags=re.MULTILINE)
    DOCUMENT.write_text(text)


def check():
    """What is wrong, as lines."""
    there = cases()
    for feature, tests in FEATURES.items():
        yield from (f"versions.py: there is no test {test}" for test in tests.split() if test not in there)
    rows = [line.strip("|").split("|") for line in DOCUMENT.read_text().splitlines() if line.startswith("|")][2:]
    if [row[0].strip() for row in rows] != list(FEATURES):
        yield f"{DOCUMENT.name}: the table has other features than versions.py"
    for row in rows:
        feature, *cells, links = (part.strip() for part in row)
        tests = FEATURES.get(feature, "")
        if links != link(tests) or not set(cells) <= (set(CELLS.values()) if tests else {NOT_RUN}):
            yield f"{DOCUMENT.name}: {feature}: the row is not one that versions.py writes"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        errors = list(check())
        print("\n".join(errors) or f"{len(FEATURES)} features")
        sys.exit(bool(errors))
    if not sys.argv[1:] or not all("=" in word for word in sys.argv[1:]):
        sys.exit(__doc__)
    write(dict(word.split("=", 1) for word in sys.argv[1:]))
