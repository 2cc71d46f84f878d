# SPDX-License-Identifier: MIT
"""A program of a user's with types, which `mypy --strict` accepts: `tests/static mypy`, and tests/scripts/wheel.sh with
the package that is installed. Nobody runs it."""
import io
from typing import Any, Dict, List, Optional

import torch
from torch.nn.parallel import DistributedDataParallel

import threelc
import threelc.delta
import threelc.exchange
import threelc.torch
import threelc.torch.checkpoint
import threelc.weights


def outer(parameters: List[Any]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.7, momentum=0.9, nesterov=True)


def frames(gradient: torch.Tensor, total: torch.Tensor) -> bytes:
    context = threelc.Context(gradient.numel(), "3lc-golomb")
    frame = context.compress(gradient)
    threelc.decompress_add(frame, total, 0.5)
    residual: Optional[Any] = context.residual
    assert residual is not None
    return bytes(frame)


def hook(ddp: DistributedDataParallel, saved: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    state: threelc.torch.DDPState = threelc.torch.register(ddp, codec="3lc-golomb", reserve=["raw"])
    if saved is not None:
        state.load_state_dict(saved)
    state.log_every(100)
    state.set_codec("raw")
    state.flush()
    stats: threelc.torch.Stats = state.stats
    scalars: Dict[str, float] = stats.scalars()
    print(stats.ratio, sum(scalars.values()), {name: float(r.norm()) for name, r in state.residuals.items()})
    return state.state_dict()


def in_place_of_optimizers(model: torch.nn.Module) -> List[Dict[str, Any]]:
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
    local = threelc.torch.LocalSteps(model, inner, outer, every=20, codec="topk:p=0.03,bits=2,block=4096+golomb")
    owners = threelc.torch.ShardedOptimizer(model, outer, codec="3lc-golomb", max_norm=1.0)
    servers = threelc.torch.PushPull(model, outer, servers=2)
    gossip = threelc.torch.Gossip(model, inner, graph="ring")
    for optimizer in (local, owners, servers, gossip):
        optimizer.zero_grad()
        model(torch.zeros(3)).sum().backward()
        optimizer.step()
        optimizer.log_every(10)
    local.synchronize()
    print(local.stats.sent, owners.stats.ratio, servers.stats.float_bytes, gossip.stats.scalars())
    return [local.state_dict(), owners.state_dict(), servers.state_dict(), gossip.state_dict()]


def streaming(model: torch.nn.Module, folder: str, again: bool) -> Dict[str, torch.Tensor]:
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
    local = threelc.torch.LocalSteps(model, inner, outer, every=20, fragments=2, delay=1, mix=0.5)
    divided = threelc.torch.LocalSteps(model, inner, every=20, fragments=[["weight"], ["bias"]], pattern="sequential")
    if again:
        threelc.torch.checkpoint.from_dcp(local, folder, "threelc.local")
        threelc.torch.checkpoint.from_dcp(divided, folder, "threelc.divided", lost=True)
    saved: Dict[str, torch.Tensor] = threelc.torch.checkpoint.to_dcp(local)
    return saved


def fsdp(model: torch.nn.Module, saved: Dict[str, torch.Tensor]) -> float:
    state: threelc.torch.FSDPState = threelc.torch.register_fsdp(model, "3lc-golomb", second_moment=0.95)
    state.load_sharded_state_dict(saved)
    unsent: Dict[str, torch.Tensor] = state.sharded_state_dict()
    state.flush()
    return state.stats.codec_seconds + sum(float(residual.norm()) for residual in unsent.values())


def own_trainer(model: torch.nn.Module, states: Optional[List[Dict[str, Any]]]) -> DistributedDataParallel:
    mean = threelc.torch.AllReduce(codec="3lc-golomb", second_moment=0.95)
    if states is not None:
        mean.load_state_dict(threelc.torch.checkpoint.scatter_states(mean, states))
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        mean(name, parameter.grad)
    future = mean.start("another", torch.zeros(300))
    found: torch.Tensor = future.wait()
    every: Optional[List[Dict[str, Any]]] = threelc.torch.checkpoint.gather_states(mean)
    print(mean.stats.ratio, float(found.sum()), every, {name: float(r.sum()) for name, r in mean.flush().items()})
    group: threelc.torch.ProcessGroup = threelc.torch.new_group("3lc-golomb", mode="gather", min_numel=100)
    return DistributedDataParallel(model, process_group=group)


def weights(trained: torch.nn.Module, served: torch.nn.Module) -> int:
    publisher, receiver = threelc.torch.WeightSync(trained), threelc.torch.WeightSync(served)
    message: bytes = publisher.publish()
    receiver.receive(message)
    return len(message)


def weights_in_a_file(file: io.BytesIO, before: torch.Tensor, after: torch.Tensor, trainer: bytes) -> int:
    writer = threelc.weights.Writer(file, trainer=trainer, sequence=8, count=1)
    writer.add("weight", threelc.delta.compress(before, after), after.shape)
    writer.finish()
    threelc.weights.Reader(file.getvalue()).apply({"weight": before})
    return len(file.getvalue())


def deltas(base: torch.Tensor, new: torch.Tensor) -> int:
    frame = threelc.delta.compress(base, new)
    threelc.delta.apply(frame, base)
    return len(frame)


def exchanged(worker: int, pushes: List[bytes]) -> bool:
    config = threelc.exchange.Config(workers=2, push="3lc")
    try:
        step = threelc.exchange.AllReduce(config, worker, [threelc.exchange.Tensor("weight", 1000)])
        return bool(step.reduce(pushes))
    except threelc.StepError as error:
        return error.outcome is None
