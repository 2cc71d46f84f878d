# SPDX-License-Identifier: MIT
"""The distributed algorithms without I/O: who sends what to whom, what is averaged, and what happens when a machine
fails. Objects make messages and take messages; the caller carries the bytes.

    config = Config(workers=4, push="3lc-golomb")
    rank = AllReduce(config, rank=0, tensors=[Tensor("weight", 1000), Tensor("bias", 10)])

AllReduce: every rank is worker and owner. Worker, Server: a parameter server. Gossip: neighbours in a graph.
A call that fails with anything but StepError changes nothing. Messages may be any bytes.
"""
from .._c import GossipKind, GraphKind
from ._base import STARVES_FROM, Config, Outcome, Part, Stats, Tensor, pull_codec, residual_ratio
from .allreduce import AllReduce
from .gossip import Gossip, Graph
from .server import PushInfo, Server
from .worker import Worker

__all__ = ["AllReduce", "Config", "Gossip", "GossipKind", "Graph", "GraphKind", "Outcome", "Part", "PushInfo",
           "STARVES_FROM", "Server", "Stats", "Tensor", "Worker", "pull_codec", "residual_ratio"]
