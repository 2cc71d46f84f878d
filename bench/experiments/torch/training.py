# SPDX-License-Identifier: MIT
"""What the experiments share, but for their options: ranks, ways to exchange, progress, CSV, checkpoints.

An experiment gives a Task; run(task) does the rest. Data are drawn by seed, step and rank alone, so a run that was
stopped goes on with the same bits.
"""
import argparse
import copy
import csv
import fcntl
import math
import os
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

sys.path.append(str(Path(__file__).resolve().parents[3] / "src" / "python"))
import threelc.torch  # noqa: E402

COLUMNS = ["experiment", "way", "codec", "seed", "workers", "every", "outer", "error_reset", "decay", "step", "steps",
           "seconds", "step_seconds", "train_loss", "loss", "accuracy", "sent", "float_bytes", "bits_per_value",
           "codec_seconds", "wire_seconds", "lr", "momentum_correction", "second_moment", "fragments", "delay", "mix",
           "largest_round"]


@dataclass
class Task:
    """An experiment. Functions get the options, `o`."""

    name: str
    model: Callable[[Any], torch.nn.Module]
    optimizer: Callable[[Any, Any], torch.optim.Optimizer]
    """of parameters"""
    loss: Callable[[torch.nn.Module, Any], torch.Tensor]
    """of a model and a batch"""
    load: Callable[[Any], Any]
    """the data, of --data"""
    batch: Callable[[Any, Any, int, int], Any]
    """data, o, step, rank: the batch"""
    evaluate: Callable[[torch.nn.Module, Any], Dict[str, float]]
    """model, data: loss and, if there is one, accuracy"""
    options: argparse.ArgumentParser
    variant: Callable[[Any], str] = lambda o: ""
    """what the name of a row says besides the experiment"""


def chance(o: Any, step: int, rank: int) -> torch.Generator:
    """The same draws for the same seed, step and rank."""
    return torch.Generator().manual_seed((o.seed * 1000003 + step) * 1009 + rank)


class Exchange:
    """A way to train: step() takes the place of the optimizer's, model is what the loss is computed of."""

    def __init__(self, task: Task, o: Any, model: torch.nn.Module) -> None:
        self.module = model
        self.model: torch.nn.Module = model
        self.optimizer = self.inner = task.optimizer(model.parameters(), o)
        self.state: Any = None  # of threelc
        self.steps = 0
        self._bytes_each = 0.0  # of ways that do not count
        self._before: Dict[str, float] = {}  # traffic before the run was stopped
        world = dist.get_world_size()
        values = sum(p.numel() for p in model.parameters())
        self.values = values
        ring = 2 * 4 * values * (world - 1) / world
        if o.way in ("floats", "fp16", "powersgd", "sharded", "gather"):
            if o.way == "powersgd":
                dist._DEFAULT_FIRST_BUCKET_BYTES = 1 << 40  # type: ignore[attr-defined]
            self.model = DistributedDataParallel(model, broadcast_buffers=False,
                                                 bucket_cap_mb=1 << 20 if o.way == "powersgd" else 25)
        chosen = {} if o.dense_start is None else {"warmup_steps": o.dense_start}
        chosen.update(momentum_correction=o.momentum_correction or None, second_moment=o.second_moment)
        if o.way == "floats":
            self._bytes_each = ring
        elif o.way == "fp16":
            from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
            self.model.register_comm_hook(None, default_hooks.fp16_compress_hook)
            self._bytes_each = ring / 2
        elif o.way == "powersgd":
            from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
            self._power = power.PowerSGDState(None, matrix_approximation_rank=o.rank, start_powerSGD_iter=10)
            self.model.register_comm_hook(self._power, power.powerSGD_hook)
            self._bytes_each = ring
        elif o.way in ("sharded", "gather"):
            self.state = threelc.torch.register(self.model, codec=o.codec, pull=o.pull, mode=o.way, **chosen)
        elif o.way == "alone":
            pass
        elif o.way.startswith("local"):
            outer = None if o.outer == "none" else (
                lambda p: torch.optim.SGD(p, 0.7, momentum=0.9, nesterov=True))
            self.optimizer = self.state = threelc.torch.LocalSteps(
                model, self.inner, outer, every=o.every, codec=o.codec, pull=o.pull,
                mode="gather" if o.way == "local" else "sharded", error_reset=o.error_reset,
                residual_decay=o.decay, mask_momentum=o.mask_momentum, warmup_rounds=o.dense_start or 0,
                fragments=o.fragments, delay=o.delay, mix=o.mix)
        elif o.way == "push-pull":
            self.optimizer = self.state = threelc.torch.PushPull(model, lambda p: task.optimizer(p, o), codec=o.codec,
                                                                 servers=o.servers, pull=o.pull, **chosen)
            self.inner = self.state.optimizer
        elif o.way == "sharded-optimizer":
            self.optimizer = self.state = threelc.torch.ShardedOptimizer(model, lambda p: task.optimizer(p, o),
                                                                         codec=o.codec, pull=o.pull, **chosen)
            self.inner = self.state.optimizer
        else:
            self.optimizer = self.state = threelc.torch.Gossip(model, self.inner, kind=o.way, codec=o.codec)

    def step(self) -> None:
        self.optimizer.step()
        self.steps += 1

    def traffic(self) -> Dict[str, float]:
        """Bytes of this rank since the first step, and bits for each value that a ring all-reduce would send."""
        if self.state is not None:
            stats = self.state.stats
            sent, floats, codec, wire = stats.sent, stats.float_bytes, stats.codec_seconds, stats.wire_seconds
        else:
            sent = floats = self._bytes_each * self.steps
            codec = wire = 0.0
            if hasattr(self, "_power"):
                compressed = max(0, self.steps - self._power.start_powerSGD_iter)
                before, after = (self._power.total_numel_before_compression,
                                 self._power.total_numel_after_compression)
                sent = self._bytes_each * (self.steps - compressed + compressed * (after / before if before else 1))
            elif self._bytes_each:
                floats = 2 * 4 * self.values * (dist.get_world_size() - 1) / dist.get_world_size() * self.steps
        now = {"sent": sent, "float_bytes": floats, "codec_seconds": codec, "wire_seconds": wire}
        total = {key: value + self._before.get(key, 0) for key, value in now.items()}
        return {**total, "bits_per_value": 32 * total["sent"] / total["float_bytes"] if total["float_bytes"] else 0.0}

    def state_dict(self) -> Dict[str, Any]:
        return {"module": self.module.state_dict(), "inner": self.inner.state_dict(), "traffic": self.traffic(),
                "state": self.state and self.state.state_dict()}

    def load_state_dict(self, saved: Dict[str, Any]) -> None:
        self.module.load_state_dict(saved["module"])
        if saved["state"] is not None:
            self.state.load_state_dict(saved["state"])
        self.inner.load_state_dict(saved["inner"])
        now = self.traffic()  # the stats of threelc go on
        self._before = {key: saved["traffic"][key] - value for key, value in now.items()}

    def result(self) -> torch.nn.Module:
        """The model to be evaluated: of local steps the common one, of gossip the mean of all."""
        if isinstance(self.state, threelc.torch.LocalSteps):
            with self.state.common_model():
                return copy.deepcopy(self.module)
        if not isinstance(self.state, threelc.torch.Gossip):
            return self.module
        mean = self.state.average()
        model = copy.deepcopy(self.module)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(mean[name])
        return model


class Progress:
    """A bar on a terminal, else nothing."""

    def __init__(self, o: Any, first: int) -> None:
        self._bar = None
        if dist.get_rank() == 0 and not o.quiet and sys.stderr.isatty():
            from tqdm import tqdm
            self._bar = tqdm(total=o.steps, initial=first, unit="step", desc=f"{o.way} {o.codec}")

    def step(self, loss: float) -> None:
        if self._bar is not None:
            self._bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
            self._bar.update()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def take_place(path: Any) -> None:
    """The file PATH.new takes the place of PATH. After a power cut one of them is there, and whole."""
    with open(f"{path}.new", "rb") as file:
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)
    folder = os.open(Path(path).parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def save(o: Any, exchange: Exchange, row: Dict[str, Any]) -> None:
    """Each rank writes its file; it takes the place of the last one when it is complete."""
    o.checkpoint.mkdir(parents=True, exist_ok=True)
    path = o.checkpoint / f"rank{dist.get_rank()}.pt"
    torch.save({"options": settings(o), "row": row, "exchange": exchange.state_dict()}, f"{path}.new")
    dist.barrier()  # all or none, but for a crash in the next line
    take_place(path)


def restore(o: Any, exchange: Exchange) -> Dict[str, Any]:
    """What was saved, or nothing. All ranks must have saved the same step."""
    path = o.checkpoint and o.checkpoint / f"rank{dist.get_rank()}.pt"
    saved = torch.load(path) if path and path.exists() else {}
    found: List[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, saved.get("row", {}).get("step", 0))
    if not any(found):
        return {}
    if len(set(found)) > 1:
        raise SystemExit(f"{o.checkpoint}: ranks saved steps {found}; remove the folder to begin anew")
    if saved["options"] != settings(o):
        raise SystemExit(f"{o.checkpoint} is of a run with other options: {saved['options']}")
    exchange.load_state_dict(saved["exchange"])
    row: Dict[str, Any] = saved["row"]
    return row


def settings(o: Any) -> Dict[str, Any]:
    """The options that a run must go on with."""
    return {key: value for key, value in vars(o).items()
            if key not in ("data", "csv", "checkpoint", "quiet", "stop_after", "device", "no_evaluation")}


def report(o: Any, row: Dict[str, Any]) -> None:
    loss = f"loss {row['loss']:.4f}, " if row["loss"] != "" else ""
    accuracy = f"accuracy {row['accuracy']:.2f}%, " if row["accuracy"] != "" else ""
    print(f"{row['experiment']} {row['way']} {row['codec']} step {row['step']}: {loss}{accuracy}"
          f"{row['bits_per_value']:.3f} bits a value, {row['sent'] / 1e6:.2f} MB sent, {row['seconds']:.0f} s",
          flush=True)
    if o.csv:
        add_row(o.csv, COLUMNS, row)


def add_row(path: Path, columns: List[str], row: Dict[str, Any]) -> None:
    """To a CSV file, which gets a first line with the columns if it is new. Several runs may write into one."""
    with open(path, "a", newline="") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        writer = csv.DictWriter(file, columns)
        if file.seek(0, os.SEEK_END) == 0:
            writer.writeheader()
        writer.writerow(row)


def train(task: Task, o: Any) -> None:
    """One rank."""
    rank = dist.get_rank()
    torch.manual_seed(o.seed)
    data = task.load(o)
    exchange = Exchange(task, o, task.model(o).to(o.device))
    row = restore(o, exchange)
    first, before, losses = row.get("step", 0), row.get("seconds", 0.0), [row.get("train_loss", 0.0)]
    progress = Progress(o, first)
    start = time.perf_counter()
    ends = [start]  # of steps
    for step in range(first, o.steps):
        exchange.module.train()
        exchange.optimizer.zero_grad()
        loss = task.loss(exchange.model, task.batch(data, o, step, rank))
        loss.backward()
        schedule(o, exchange, step)
        exchange.step()
        ends.append(time.perf_counter())
        losses = [0.98 * losses[0] + 0.02 * float(loss) if step else float(loss)]
        progress.step(losses[0])
        done = step + 1
        if done % o.evaluate_every and done != o.steps and done != o.stop_after:
            continue
        seconds = before + time.perf_counter() - start
        traffic, model = exchange.traffic(), exchange.result()
        rounds = o.way.startswith("local")
        codec = f"rank {o.rank}" if o.way == "powersgd" else o.codec if exchange.state else ""
        row = {"experiment": task.name + task.variant(o), "way": o.way, "codec": codec,
               "seed": o.seed, "workers": dist.get_world_size(), "every": o.every if rounds else 1,
               "outer": o.outer if rounds else "", "error_reset": o.error_reset if rounds else "",
               "decay": o.decay if rounds else "",
               "step": done, "steps": o.steps, "seconds": seconds,
               "step_seconds": statistics.median(b - a for a, b in zip(ends, ends[1:])), "train_loss": losses[0],
               "loss": "", "accuracy": "", **traffic, "lr": o.lr,
               "momentum_correction": o.momentum_correction or "", "second_moment": o.second_moment or "",
               "fragments": o.fragments if rounds else "", "delay": o.delay if rounds else "",
               "mix": o.mix if rounds else "", "largest_round": exchange.state.stats.largest_round if rounds else ""}
        if rank == 0 and not o.no_evaluation:
            model.eval()
            with torch.no_grad():
                row.update(task.evaluate(model, data))
        if rank == 0:
            report(o, row)
        if o.checkpoint:
            save(o, exchange, row)
        dist.barrier()
        before, start = seconds, time.perf_counter()  # evaluations are not counted
        ends = [start]
        if done == o.stop_after:
            break
    progress.close()


def rate(step: int, steps: int) -> float:
    """What the learning rate is multiplied by: it falls along a cosine, after 5% of the steps in which it rises."""
    warm = max(1, steps // 20)
    return (step + 1) / warm if step < warm else \
        0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def schedule(o: Any, exchange: Exchange, step: int) -> None:
    for group in exchange.inner.param_groups:
        group["lr"] = o.lr * rate(step, o.steps)


def start_ranks(workers: int) -> int:
    """This program again, once for each rank, on the hosts of bench/network/run if there are any. One that fails ends
    all."""
    agent = os.environ.get("TLC_NETWORK_AGENT")
    hosts = int(os.environ["TLC_NETWORK_HOSTS"]) if agent else 1
    address = {"MASTER_ADDR": "10.77.0.1", "GLOO_SOCKET_IFNAME": "eth0"} if agent else {"MASTER_ADDR": "127.0.0.1"}
    command = [sys.executable, *sys.argv]
    with socket.socket() as free:
        free.bind((address["MASTER_ADDR"], 0))
        port = free.getsockname()[1]
    ranks = [subprocess.Popen([agent, f"host{rank % hosts}", shlex.join(command)] if agent else command, env={
        **os.environ, **address, "RANK": str(rank), "WORLD_SIZE": str(workers), "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1"}) for rank in range(workers)]
    try:
        while any(rank.poll() is None for rank in ranks):
            if any(rank.poll() for rank in ranks):
                break
            time.sleep(0.1)
    finally:
        for rank in ranks:
            rank.terminate()
    return max(abs(rank.wait()) if rank.returncode != -signal.SIGTERM else 0 for rank in ranks)


def run_ranks(o: Any, rank: Callable[[], None], title: str = "") -> None:
    """Starts the ranks, each of which calls rank(), unless torchrun or a user has. title: printed before."""
    if "RANK" not in os.environ:
        print(title, end="")
        sys.exit(start_ranks(o.workers))
    dist.init_process_group("gloo")
    try:
        rank()
    finally:
        dist.destroy_process_group()


def check_codecs(parser: argparse.ArgumentParser, codecs: Iterable[str]) -> None:
    for codec in codecs:
        try:
            threelc.codec_bound(codec, 1)
        except threelc.Error as error:
            parser.error(str(error))


def run(task: Task) -> None:
    """The main program of an experiment."""
    o = task.options.parse_args()
    check_codecs(task.options, filter(None, (o.codec, o.pull)))
    if o.dense_start is not None and o.way in ("alone", "floats", "fp16", "powersgd", "dcd", "ecd"):
        task.options.error(f"--dense-start goes without --way {o.way}")
    for name in ("momentum_correction", "second_moment"):
        if getattr(o, name) and o.way not in ("sharded", "gather", "push-pull", "sharded-optimizer"):
            task.options.error(f"--{name.replace('_', '-')} goes without --way {o.way}")
    if o.mask_momentum and not o.way.startswith("local"):
        task.options.error(f"--mask-momentum goes without --way {o.way}")
    if o.checkpoint and o.way == "powersgd":
        task.options.error("torch does not save the state of powersgd")
    run_ranks(o, lambda: train(task, o))
