# SPDX-License-Identifier: MIT
"""Decentralised training: DCD-PSGD and ECD-PSGD (Tang et al., 2018). Ranks exchange changes with neighbours only."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Union

import torch

from .. import exchange
from ..codec_strings import check_codec
from ..exchange import GossipKind, Graph, GraphKind
from ._groups import Clock, Traffic, states_for
from ._module import assign, copied, flat, trained
from ._transport import Transport

STATE_VERSION = 1  # of state_dict()


@dataclass(frozen=True)
class GossipStats(Traffic):
    """What this rank did since the start."""

    steps: int
    stayed: int
    """steps in which this rank stayed where it was, as its weights would not have been finite"""


class Gossip:
    """Takes the place of the optimizer: step() mixes the model with those of the neighbours, makes a step of the
    optimizer from there, and sends neighbours the compressed change.

    model:     the module, not wrapped. All ranks start from the weights of rank 0. Then each has a model of its own;
               the result of a training is their mean, average().
    optimizer: over the model's parameters.
    graph:     "ring", "torus", "complete", or a threelc.exchange.Graph with as many nodes as ranks.
    kind:      "dcd" or "ecd".
    codec:     without bias and error feedback: qsgd, random-sparse, natural, stochastic-ternary, raw.
    min_numel, seed, threads, process_group: as in register().

    >>> optimizer = threelc.torch.Gossip(model, torch.optim.SGD(model.parameters(), lr=0.1), graph="ring")
    >>> loss.backward()
    >>> optimizer.step()
    """

    def __init__(self, model: Any, optimizer: Any, *, graph: Union[str, Graph] = "ring", kind: str = "dcd",
                 codec: str = "qsgd:bits=8", min_numel: int = 256, seed: int = 0, threads: Optional[int] = None,
                 process_group: Any = None) -> None:
        check_codec(codec)
        self._transport = transport = Transport(process_group)
        if isinstance(graph, str):
            graph = Graph(GraphKind[graph.upper()], transport.world)
        if graph.nodes != transport.world:
            raise ValueError(f"the graph has {graph.nodes} nodes, but there are {transport.world} ranks")
        transport.agree({"codec": codec, "graph": graph, "kind": kind, "min_numel": min_numel})
        self.optimizer = optimizer
        self._parameters = trained(model)
        transport.copy_model(list(self._parameters.values()))
        config = exchange.Config(workers=transport.world, push=codec, min_n=min_numel, seed=seed, threads=threads)
        tensors = [exchange.Tensor(name, p.numel()) for name, p in self._parameters.items()]
        self._node = exchange.Gossip(config, GossipKind[kind.upper()], transport.rank,
                                     *graph.neighbours(transport.rank), tensors,
                                     [flat(p) for p in self._parameters.values()])
        self._clock = Clock()
        self._steps = self._float_bytes = 0

    def step(self) -> None:
        """A step: gradients are those at this rank's model."""
        transport, clock = self._transport, self._clock
        self._steps += 1
        clock.start()
        for i, parameter in enumerate(self._parameters.values()):
            assign(parameter, copied(self._node.mean(i)))
        clock.was_codec()
        self.optimizer.step()
        moved = [flat(parameter) for parameter in self._parameters.values()]
        self._float_bytes += len(self._node.neighbours) * sum(4 * m.numel() for m in moved)
        clock.start()
        message = self._node.push(moved)
        clock.was_codec()
        came = transport.all_to_all([message if rank in self._node.neighbours else memoryview(b"")
                                     for rank in range(transport.world)])
        clock.was_wire()
        self._node.pull([came[rank] for rank in self._node.neighbours])
        self._set_model()
        clock.was_codec()

    def _set_model(self) -> None:
        for i, parameter in enumerate(self._parameters.values()):
            assign(parameter, copied(self._node.model(i)))

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def average(self) -> Dict[str, torch.Tensor]:
        """The mean of the models of all ranks, by name of parameter: the result. All ranks call it together."""
        found = {}
        for name, parameter in self._parameters.items():
            mean = flat(parameter) / self._transport.world
            self._transport.all_reduce(mean)
            found[name] = mean.view(parameter.shape)
        return found

    @property
    def stats(self) -> GossipStats:
        """Bytes and seconds. float_bytes: float32 models to each neighbour."""
        return GossipStats(
            float_bytes=self._float_bytes, sent=self._transport.sent, received=self._transport.received,
            codec_seconds=self._clock.codec, wire_seconds=self._clock.wire, steps=self._steps,
            stayed=self._node.stats.failed)

    def state_dict(self) -> Dict[str, Any]:
        """Model and replicas. The optimizer is the caller's to save. Each rank saves its own."""
        return {"version": STATE_VERSION, "rank": self._transport.rank, "world": self._transport.world,
                "steps": self._steps, "node": self._node.state_dict()}

    def load_state_dict(self, states: Union[Dict[str, Any], Sequence[Dict[str, Any]]]) -> None:
        """Goes on from the state_dict() of this rank, with the same bits. On another number of ranks give each the
        states of all: all go on from the mean of their models."""
        found: List[Dict[str, Any]] = states_for(states, STATE_VERSION, self._transport)
        self._node.load_state_dict([state["node"] for state in found])
        self._steps = found[0]["steps"]
        self._set_model()
