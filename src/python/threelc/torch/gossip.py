# SPDX-License-Identifier: MIT
"""Decentralised training: DCD-PSGD and ECD-PSGD (Tang et al., 2018). Ranks exchange changes with neighbours only."""
from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import torch

from .. import exchange
from .._errors import Error, ParameterError, Status
from ..codec_strings import check_codec, quantizer_of
from ..exchange import GossipKind, Graph, GraphKind
from ._common.arguments import check_numbers, one_of
from ._common.device import check_quantize, place_of
from ._common.groups import Traffic
from ._common.module import Model, assign, copied, flat, is_rounded, real, rounded, size_of
from ._common.optimizer import InPlaceOfOptimizer, Patience, check_closure, check_optimizer
from ._common.scaler import take_scale
from ._common.signals import signals_wait
from ._common.states import MADE, RANKS, TRAFFIC, Kind, check_made, made_with, states_for
from ._common.transport import Transport
from ._device.on_device import PushedFrames
from .kernels.ways import quantizer_for

STATE_VERSION = 2  # of state_dict()
_STATE = Kind("Gossip", STATE_VERSION, {**RANKS, "steps": int, "stayed": int, "traffic": TRAFFIC, "node": Mapping,
                                        "made": MADE})
_UNBIASED = ("natural", "qsgd", "random-sparse", "raw", "stochastic-ternary")
_GRAPHS = ("ring", "torus", "complete")
_KINDS = tuple(kind.name.lower() for kind in GossipKind)


@dataclass(frozen=True)
class GossipStats(Traffic):
    """What this rank did since the start, also before it was stopped and went on from a state_dict()."""

    steps: int
    stayed: int
    """steps in which this rank stayed where it was, as its weights would not have been finite"""


class Gossip(InPlaceOfOptimizer):
    """Takes the place of the optimizer: step() mixes the model with those of the neighbours, makes a step of the
    optimizer from there, and sends neighbours the compressed change.

    model:     the module, not wrapped; torch.compile() is fine. All ranks start from the weights and buffers of rank 0.
               Then each has a model of its own; the result of a training is their mean, average(). Buffers are each
               rank's own. Parameters are of float32, float16 or bfloat16, or complex; a complex value is two floats.
               Models are float32, and a parameter of another dtype is its model's, rounded once. Load weights before
               Gossip is made: those that are loaded later would be lost, and the first step refuses them.
    optimizer: over the model's parameters. Schedules of learning rates take it, or this object, whose groups are the
               same. A GradScaler may call step(): where it finds infinities, the optimizer makes no step.
    graph:     "ring", "torus", "complete", or a threelc.exchange.Graph with as many nodes as ranks.
    kind:      "dcd" or "ecd", or a threelc.exchange.GossipKind.
    codec:     without bias and error feedback: qsgd, random-sparse, natural, stochastic-ternary, raw.
    quantize:  as in register(), of changes of the model. With "ecd" the whole model goes to the host, too, as the node
               keeps it.
    min_numel, seed, threads, process_group: as in register().

    >>> optimizer = threelc.torch.Gossip(model, torch.optim.SGD(model.parameters(), lr=0.1), graph="ring")
    >>> loss.backward()
    >>> optimizer.step()
    """

    def __init__(self, model: Any, optimizer: Any, *, graph: Union[str, Graph] = "ring",
                 kind: Union[str, GossipKind] = "dcd", codec: str = "qsgd:bits=8", min_numel: int = 256, seed: int = 0,
                 threads: Optional[int] = None, quantize: str = "auto", process_group: Any = None) -> None:
        check_codec(codec)
        if quantizer_of(codec)[0] not in _UNBIASED:
            raise ValueError(f"codec {codec!r} has a bias or error feedback, and gossip needs a codec without them: "
                             f"{', '.join(_UNBIASED)}")
        kind = kind.name.lower() if isinstance(kind, GossipKind) else kind
        one_of(kind, _KINDS, "kind")
        if not isinstance(graph, Graph):
            one_of(graph, _GRAPHS, "graph")
        check_numbers(min_numel, seed, threads)
        check_quantize(quantize, None)
        self._model = Model(model, "Gossip")
        check_optimizer(optimizer, self._model, "optimizer")
        check_closure(optimizer, "optimizer")
        transport = Transport(process_group)
        if not isinstance(graph, Graph):
            graph = Graph(GraphKind[graph.upper()], transport.world)
        if graph.nodes != transport.world:
            raise ValueError(f"the graph has {graph.nodes} nodes, but there are {transport.world} ranks")
        transport.agree({"codec": codec, "graph": asdict(graph), "kind": kind, "min_numel": min_numel})
        self._model.start(transport)
        super().__init__(optimizer, transport, self._model)
        self.optimizer = optimizer
        self._parameters = self._model.parameters
        self._made = made_with(codec, min_numel)
        config = exchange.Config(workers=transport.world, push=codec, min_n=min_numel, seed=seed, threads=threads)
        tensors = [exchange.Tensor(name, size_of(p)) for name, p in self._parameters.items()]
        self._node = exchange.Gossip(config, GossipKind[kind.upper()], transport.rank,
                                     *graph.neighbours(transport.rank), tensors,
                                     [flat(p) for p in self._parameters.values()])
        self._is_ecd = kind == "ecd"
        place = place_of(quantize, {p.device for p in self._parameters.values()}, False, codec)
        quantizer = None if place is None else quantizer_for(codec, place)
        self._pushes: Optional[PushedFrames] = None
        self._there: Dict[int, torch.Tensor] = {}  # the model, on the device where these tensors are quantized
        if place is not None and quantizer is not None:
            large = [part.tensor for part in self._node.pushed_parts()]
            self._pushes = PushedFrames(self._node, quantizer, large, place, {})
            self._there = {i: copied(self._node.model(i)).to(place) for i in large}
        self._greeted = False  # the neighbours, before the first step
        self._patience = Patience("this rank stayed where it was")
        self._steps = self._stayed = 0

    @signals_wait
    def step(self, **scaling: Any) -> None:
        """A step: gradients are those at this rank's model. If a weight would not be finite, the rank stays where it
        is, and its neighbours go on; if that happens three times in a row, a warning names the rank and the parameter.
        """
        self._check(self._models if self._steps == 0 else None)
        if not self._greeted:
            self._greet()
        finite = take_scale(self, scaling)
        transport, clock = self._transport, self._clock
        self._steps += 1
        with clock.coding("average"):
            starts = [copied(self._node.mean(i)) for i in range(len(self._parameters))]
            for i, model in self._there.items():
                starts[i] = starts[i].to(model.device)
            for parameter, start in zip(self._parameters.values(), starts):
                assign(parameter, start)
        if finite:
            self.optimizer.step()
        moved = [self._moved(*pair) for pair in zip(self._parameters.values(), starts)]
        self._float_bytes += len(self._node.neighbours) * sum(4 * m.numel() for m in moved)
        with clock.coding("compress"):
            message = self._push(moved)
            stayed = self._node.outcome()
        with clock.sending("pushes"):
            came = transport.all_to_all(self._to_neighbours(message))
        with clock.coding("decompress"):
            self._node.pull([came[rank] for rank in self._node.neighbours])
            self._set_model()
        if stayed.cause == Status.NONFINITE:
            self._stayed += 1
            self._patience.left_out(stayed.sentence)
        else:
            self._patience.went_well()
        self._tell(self._steps)

    def _push(self, moved: List[torch.Tensor]) -> memoryview:
        if self._pushes is None:
            return self._node.push(moved)
        beside = [values.cpu() for values in moved] if self._is_ecd else None  # the node keeps the model itself
        half = (self._node.step + 1) / 2  # equation 3 of ECD-PSGD: z = (1 - t / 2) x + t / 2 moved
        for i, model in self._there.items():
            moved[i] = model * (1 - half) + moved[i] * half if self._is_ecd else moved[i] - model
        message: memoryview = self._pushes.push(moved, beside=beside)
        return message

    def _to_neighbours(self, message: memoryview) -> List[memoryview]:
        """What each rank gets."""
        return [message if rank in self._node.neighbours else memoryview(b"")
                for rank in range(self._transport.world)]

    def _greet(self) -> None:
        """ValueError, on all ranks: a neighbour has another model than is known here, as in states of two runs."""
        came = self._transport.uncounted(self._to_neighbours(self._node.hello()))
        problem = ""
        try:
            self._node.greet([came[rank] for rank in self._node.neighbours])
        except Error as error:
            problem = error.sentence
        said: List[str] = self._transport.gather(problem)
        for sentence in filter(None, said):
            raise ValueError(sentence)
        self._greeted = True

    @staticmethod
    def _moved(parameter: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        """Where the optimizer went from `start`, which the parameter had rounded."""
        values = flat(parameter, start.device)
        return start + (values - rounded(start, parameter)) if is_rounded(parameter) else values

    def _models(self) -> List[torch.Tensor]:
        return [copied(self._node.model(i)) for i in range(len(self._parameters))]

    def _set_model(self) -> None:
        for i, (parameter, model) in enumerate(zip(self._parameters.values(), self._models())):
            assign(parameter, self._there[i].copy_(model) if i in self._there else model)

    @signals_wait
    def average(self) -> Dict[str, torch.Tensor]:
        """The mean of the models of all ranks, by name of parameter, as float32 or complex64: the result. All ranks
        call it together."""
        found = {}
        for i, (name, parameter) in enumerate(self._parameters.items()):
            mean = copied(self._node.model(i)) / self._transport.world
            self._transport.all_reduce(mean)
            mean = mean.view(real(parameter).shape)
            found[name] = torch.view_as_complex(mean) if parameter.is_complex() else mean
        return found

    @property
    def stats(self) -> GossipStats:
        """Bytes and seconds. float_bytes: float32 models to each neighbour."""
        return GossipStats(**self._traffic(), steps=self._steps, stayed=self._stayed)

    @signals_wait
    def state_dict(self) -> Dict[str, Any]:
        """Model and replicas. The optimizer is the caller's to save. Each rank saves its own."""
        return _STATE.saved(self._transport, {
            "made": dict(self._made),
            "steps": self._steps, "stayed": self._stayed, "traffic": self._traffic(),
            "node": self._node.state_dict()})

    @signals_wait
    def load_state_dict(self, states: Union[Dict[str, Any], Sequence[Dict[str, Any]]]) -> None:
        """Goes on from the state_dict() of this rank, with the same bits. On another number of ranks give each the
        states of all: all go on from the mean of their models. Parameters that no state has keep their values, and a
        RuntimeWarning names the first. An exception changes nothing."""
        found: List[Dict[str, Any]] = states_for(states, _STATE, self._transport, None)
        check_made(_STATE, found, self._made, map(size_of, self._parameters.values()))
        try:
            self._node.load_state_dict([state["node"] for state in found])
        except ParameterError as error:
            if error.outcome is None or not error.outcome.unknown:
                raise
            raise ValueError("the state is of a model with parameters that are not trained here: "
                             + error.outcome.sentence) from error
        outcome = self._node.outcome()
        if outcome.missing:
            warnings.warn(f"threelc: {outcome.sentence}. These parameters keep their values", RuntimeWarning,
                          stacklevel=3)
        self._greeted = False
        self._steps, self._stayed = found[0]["steps"], found[0]["stayed"] if len(found) == 1 else 0
        self._load_traffic(found)
        self._set_model()
