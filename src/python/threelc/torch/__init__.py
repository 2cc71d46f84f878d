# SPDX-License-Identifier: MIT
"""Training in PyTorch over slow networks.

    ddp_model = torch.nn.parallel.DistributedDataParallel(model)
    state = threelc.torch.register(ddp_model, codec="3lc-golomb")

From then on ranks send each other 3LC's frames instead of floats. All replicas stay bit-identical.

LocalSteps: ranks train alone for a while, then exchange the changes of their weights (DiLoCo, federated averaging,
SBC). ShardedOptimizer: each rank owns a part of the model and of the optimizer's state (3LC's servers, ZeRO-1).
PushPull: a parameter server. Gossip: neighbours in a graph, without a common model (DCD-PSGD, ECD-PSGD). register_fsdp:
between replicas of a model that FSDP2 shards. AllReduce: means of tensors, whoever asks for them. new_group: a process
group that compresses gradients. WeightSync: models that are served or sampled from follow one that is trained.
threelc.torch.checkpoint: states in torch.distributed.checkpoint, or on rank 0. threelc.torch.torchft, where torchft is
installed: replicas that die and come back.
"""
from ._hook.counts import Stats
from ._hook.state import DDPState
from .all_reduce import AllReduce
from .ddp import hook, register
from .fsdp import FSDPState, register_fsdp
from .gossip import Gossip, GossipStats
from .local_steps import LocalStats, LocalSteps
from .process_group import ProcessGroup, new_group
from .push_pull import PushPull, PushPullStats
from .sharded_optimizer import ShardedOptimizer, ShardedStats
from .weight_sync import WeightSync

__all__ = ["AllReduce", "DDPState", "FSDPState", "Gossip", "GossipStats", "LocalStats", "LocalSteps", "ProcessGroup",
           "PushPull", "PushPullStats", "ShardedOptimizer", "ShardedStats", "Stats", "WeightSync", "hook", "new_group",
           "register", "register_fsdp"]
