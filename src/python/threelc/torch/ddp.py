# SPDX-License-Identifier: MIT
"""A communication hook for DistributedDataParallel."""
from __future__ import annotations

import copyreg
from typing import Any, Dict, Optional, Sequence

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ._common.arguments import check_numbers, codec_list, scaler_of, shown, whole
from ._common.device import check_quantize, place_of
from ._common.groups import check_choices
from ._common.moments import check_moments
from ._common.transport import Transport
from ._common.versions import has_optimizer_in_backward, outside_graphs
from ._hook.copies import copied
from ._hook.settings import Settings
from ._hook.state import DDPState


def hook(state: DDPState, bucket: Any) -> Any:
    """The communication hook: ddp_model.register_comm_hook(state, hook). register() does that.

    The compiled reducer of PyTorch 2 gives it a pair (gradient, parameter) instead of a bucket.
    """
    if isinstance(bucket, tuple):
        return _gradient_arrived(state, *bucket)
    return state._bucket_arrived(bucket)


@outside_graphs
def _gradient_arrived(state: DDPState, gradient: torch.Tensor, parameter: Any) -> None:
    state._gradient_arrived(gradient, parameter)


# DistributedDataParallel looks at these, and wants types, not their names.
hook.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}
copyreg.pickle(DDPState, copied)


def register(model: Any, codec: str = "3lc", mode: str = "sharded", *, pull: Optional[str] = None,
             reserve: Sequence[str] = (), min_numel: int = 256, warmup_steps: int = 1, on_nonfinite: str = "skip",
             momentum_correction: Optional[float] = None, second_moment: Optional[float] = None, scaler: Any = None,
             compare_every: int = 1000, seed: int = 0, threads: Optional[int] = None, quantize: str = "auto",
             residual_dtype: torch.dtype = torch.float32, process_group: Any = None) -> DDPState:
    """Compresses the gradients of a DistributedDataParallel module from now on. All ranks call it alike.

    codec:         of gradients, e.g. "3lc-golomb". "raw": floats, exactly as without the hook.
    mode:          "sharded": each rank averages a part of the gradients, and sends the compressed mean to all; bytes do
                   not grow with the ranks. "gather": each rank sends its gradients to all; one lossy step less.
    pull:          codec of means in mode sharded; None: one that keeps up, exchange.pull_codec(codec).
    reserve:       codecs that set_codec() must be able to switch to.
    min_numel:     smaller parameters are sent as floats.
    warmup_steps:  the first steps go as floats. At least 1 is good: buckets get their final order in the first step,
                   with static_graph=True in the second.
    on_nonfinite:  what happens if the gradients of a rank have a NaN or an infinity. "skip": in that bucket all ranks
                   get NaN, so that all GradScalers skip the step. "raise": backward() raises StepError on all ranks.
    momentum_correction: for sparse codecs (Lin et al., 2018, Deep Gradient Compression, sections 3.1 to 3.3), e.g. 0.9:
                   momentum of the ranks in place of the optimizer's, which should have none. Each rank keeps a velocity
                   u = momentum * u + gradient and sends u; where a value was sent, u becomes 0. None: gradients are
                   sent. Codecs that keep residuals, and dense gradients of real numbers, can have it. Weight decay of
                   the optimizer has no momentum then: 1 / (1 - momentum) times as much is the same.
    second_moment: Adam for compressed gradients, e.g. 0.95. Adam on compressed means loses much: small values come
                   rarely, and are large then. So each rank divides its gradients by the root of their mean square
                   (Adam's second moment, of this rank alone, with this beta: 4 bytes a value), and sends that. The
                   optimizer has the rest: torch.optim.SGD(parameters, lr=2e-3, momentum=0.9, dampening=0.9,
                   weight_decay=0.01) is AdamW with betas=(0.9, second_moment). Its rate is 1 to sqrt(N) times AdamW's:
                   gradients of one rank have more noise than the mean of N ranks. Ranks should have data of the same
                   kind, as the mean of such steps is 0 elsewhere than that of gradients. Dense gradients of real
                   numbers, without a GradScaler.
    scaler:        the GradScaler, or another object with get_scale(): residuals follow when its scale changes.
    compare_every: steps from one comparison of weights to the next: replicas that differ, in any bit, are an exception
                   on all ranks, which names them and the parameters. It costs a pass over the weights. 0: never.
    seed:          of stochastic codecs.
    threads:       that compress and decode.
    quantize:      where codecs of 3-value symbols, natural, int8, qsgd, onebit, topk, sbc and random-sparse quantize.
                   "auto": where the gradients are; from a GPU payloads, of 3lc with blocks 1.6 bits a value, or what
                   is sent of topk, come to the host. "host": always by the library, "device": always
                   there, on the CPU too, by torch operations or Triton. Bytes and results are the same. Other codecs
                   are always the library's.
    residual_dtype: of residuals where gradients are, those of means, too. torch.bfloat16 takes half the memory: what a
                   step leaves is computed in float32, and rounded when it is kept. So results are others than on the
                   host. States have float32, and load with either dtype: a residual of float32 is rounded once, one of
                   bfloat16 stays what it is. It is refused where nothing is quantized on a device; if set_codec() then
                   takes a codec of the library, its residuals are float32.
    process_group: a group of backend gloo for the messages, which nobody else uses. None: a new one is made, with the
                   timeout of the module's group. After this time an exchange with a rank that stands still fails.
                   Of backend NCCL, where ranks reach each other by nothing else: messages cross from the host to the
                   current GPU, or the one of the group, and back. With TORCH_NCCL_BLOCKING_WAIT=1 an exchange fails
                   after the timeout; without, PyTorch ends the process then. Not yet run on a GPU.

    Gradients that no codec takes go as floats: float64, complex, sparse (nn.Embedding(sparse=True)), these by gloo
    alone.
    If an exchange fails on a rank, backward() raises on all ranks, and a new group and module are needed to go on.
    If there is no scaler, a warning reports the first NaN or infinity.

    Returns the state: its stats, state_dict() and load_state_dict().
    """
    _check_module(model)
    reserve = codec_list(reserve, "reserve")
    check_choices(mode, on_nonfinite, codec, pull, *reserve)
    check_numbers(min_numel, seed, threads)
    whole(warmup_steps, "warmup_steps", 0)
    check_moments(momentum_correction, second_moment, codec)
    check_quantize(quantize, momentum_correction, codec, residual_dtype)
    for device in {p.device for p in model.parameters()}:
        place_of(quantize, [device], False, codec, residual_dtype)
    scaler = scaler_of(scaler)
    if second_moment is not None and scaler is not None:
        raise ValueError("second_moment goes without a GradScaler: what ranks then send has no loss scale")
    _check_group(process_group, model.process_group)
    transport = Transport(process_group, model.process_group)
    settings = Settings(codec, pull, reserve, mode, min_numel, warmup_steps, on_nonfinite, momentum_correction,
                        second_moment, compare_every)
    transport.agree({**settings.__dict__, **_parameters_of(model)})
    state = DDPState(model, settings, transport, scaler, seed, threads, quantize, residual_dtype)
    model.register_comm_hook(state, hook)
    model.logger._set_comm_hook_name("threelc.torch.hook")  # for PyTorch's log
    return state


def _check_module(model: Any) -> None:
    """Raises an exception that says what to do if the module cannot have the hook."""
    kinds = {kind.__name__ for kind in type(model).__mro__}
    if isinstance(getattr(model, "_orig_mod", None), DistributedDataParallel):
        raise TypeError("register() takes the DistributedDataParallel module, before torch.compile() is called with it")
    if "FSDPModule" in kinds:
        raise TypeError("FSDP shards this module: register_fsdp() compresses what its replicas send each other")
    if "FullyShardedDataParallel" in kinds:
        raise TypeError("register() takes a DistributedDataParallel module, not FullyShardedDataParallel: for its "
                        "HYBRID_SHARD make the group of replicas with new_group(), and for fully_shard() call "
                        "register_fsdp()")
    if not isinstance(model, DistributedDataParallel):
        raise TypeError(f"register() takes a DistributedDataParallel module, not {shown(model)}: wrap the module "
                        "first, model = torch.nn.parallel.DistributedDataParallel(model)")
    if getattr(model, "mixed_precision", None) is not None:
        raise ValueError("mixed_precision of DistributedDataParallel takes the place of the hook, and there is one "
                         "only: use torch.autocast(), or convert the module with model.bfloat16() before it is wrapped")
    for name, parameter in model.module.named_parameters():
        if has_optimizer_in_backward(parameter):
            raise ValueError(f"the optimizer of {name} runs in the backward pass, and with DistributedDataParallel it "
                             "takes the place of the hook, and there is one only: call the optimizer's step() instead")
    if getattr(model, "_delay_all_reduce_all_params", False):
        raise ValueError("all parameters are in delay_all_reduce_named_params, so none comes to a hook: leave it out")
    other = model._get_ddp_logging_data().get("comm_hook")
    if other:
        raise ValueError(f"this module has a communication hook already, {other}, and there is one only: wrap the "
                         "module in a new DistributedDataParallel")


def _check_group(group: Any, of_module: Any) -> None:
    """group: as in register()."""
    if group is None:
        if dist.get_world_size(of_module) != dist.get_world_size():
            raise ValueError("the module's process group is a part of the world: give a process_group of its ranks")
    elif group is of_module:
        raise ValueError("process_group is the one that the module uses itself: make another one for the messages with "
                         'torch.distributed.new_group(backend="gloo")')
    elif isinstance(group, dist.ProcessGroup) and dist.get_rank(group) >= 0 and _ranks(group) != _ranks(of_module):
        raise ValueError(f"process_group has the ranks {_ranks(group)}, and the module's has {_ranks(of_module)}: both "
                         "need the same ranks")


def _ranks(group: Any) -> Sequence[int]:
    return [dist.get_global_rank(group, rank) for rank in range(dist.get_world_size(group))]


def _parameters_of(model: Any) -> Dict[str, str]:
    """What all ranks must have alike."""
    return {f"parameter {name}": f"of shape {list(parameter.shape)}, {parameter.dtype}"
            for name, parameter in model.module.named_parameters() if parameter.requires_grad}
