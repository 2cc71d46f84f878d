# SPDX-License-Identifier: MIT
"""Decentralised training: DCD-PSGD and ECD-PSGD (Tang et al., 2018, Algorithms 1 and 2)."""
from __future__ import annotations

from ctypes import byref, c_double, c_float, c_size_t, c_uint32, sizeof
from dataclasses import dataclass
from typing import Any, List, Optional, Sequence, Tuple, Union

from .. import _c
from .._arrays import Lists, Messages, borrowed
from .._c import DType, GossipKind, GraphKind, Message
from .._errors import Status, error_of
from .._library import check, choice, count, lib, listed, real
from ._base import Config, ExchangeObject, Part, Tensor, tensors_of


@dataclass(frozen=True)
class Graph:
    """A family of graphs that connect nodes."""

    kind: GraphKind
    nodes: int
    rows: int = 0
    """of the torus, a divisor of nodes. 0: the largest one that is at most sqrt(nodes)"""
    p: float = 0.0
    """of a random graph: the probability of an edge, beside those of a ring"""
    seed: int = 0

    def neighbours(self, node: int) -> Tuple[List[int], List[float]]:
        """The neighbours of a node, and Metropolis weights: one for each neighbour, and the node's own last."""
        graph = _c.Graph(sizeof(_c.Graph), choice(GraphKind, self.kind, "kind"), count(self.nodes, "nodes", 32),
                         count(self.rows, "rows", 32), real(self.p, "p"), count(self.seed, "seed", 64))
        degree = c_size_t()
        own = c_double()
        status = lib.tlc_graph_neighbours(byref(graph), count(node, "node", 32), None, byref(own), 0, byref(degree))
        if status != Status.CAPACITY:
            check(status)
        found = (c_uint32 * degree.value)()
        weights = (c_double * (degree.value + 1))()
        check(lib.tlc_graph_neighbours(byref(graph), node, found, weights, degree.value, byref(degree)))
        return list(found), list(weights)


class Gossip(ExchangeObject):
    """A node that has a model of its own, and exchanges compressed changes of it with its neighbours.

    config.workers is the number of nodes. The codec, config.push, must have no bias and no error feedback: qsgd,
    random-sparse, natural, stochastic-ternary, raw. All nodes start from the same `model`, float32 arrays.

    >>> start = [node.mean(t) for t in range(len(tensors))]
    >>> to_all = node.push(moved)                 # moved: start - learning rate * gradient
    >>> node.pull(messages)                       # messages[i] came from neighbours[i]
    """

    _name = "gossip"

    def __init__(self, config: Config, kind: GossipKind, node: int, neighbours: Sequence[int], weights: Sequence[float],
                 tensors: Sequence[Tensor], model: Sequence[Any]) -> None:
        near = [count(i, "a neighbour", 32) for i in listed(neighbours, None, "neighbours", "numbers")]
        own = [real(weight, "a weight") for weight in listed(weights, None, "weights", "numbers")]
        if len(own) != len(near) + 1:
            raise ValueError(f"{len(near)} neighbours need {len(near) + 1} weights, the node's own last")
        start = Lists(model, [count(t.n, f"n of {t.name}") for t in tensors_of(tensors)], DType.F32, "model")
        super().__init__(config, tensors, choice(GossipKind, kind, "kind"), count(node, "node", 32),
                         (c_uint32 * len(near))(*near), (c_double * len(own))(*own), len(near), after=(start.array,))
        self.neighbours = tuple(near)
        self._weights = tuple(own)

    def _made_again(self, config: Config, tensors: Sequence[Tensor]) -> Gossip:
        kind, node, *_ = self._which
        model = [(c_float * n)() for n in self._sizes]
        return Gossip(config, kind, node, self.neighbours, self._weights, tensors, model)

    def hello(self, full: bool = False) -> memoryview:
        """A message for the neighbours, between two steps: what greet compares. full: with the whole model, for those
        that lost their replica. It is valid until the next hello or push."""
        message = Message()
        with self._lock:
            self._call("hello", int(full), byref(message))
            return self._message(message)

    def greet(self, hellos: Sequence[Any]) -> None:
        """Takes hellos, hellos[i] of neighbours[i]; None: none. Raises an exception that says which neighbour has other
        tensors, codecs, weights, steps or another model. A full hello becomes the replica."""
        messages = self._messages(hellos, len(self.neighbours))
        with self._lock:
            self._call("greet", messages.array)

    def mean(self, tensor: Union[int, str]) -> memoryview:
        """The sum of W_ij x_j of a tensor, n floats: the values to start the local step from. Valid until the next
        pull, greet, lose, join or load_state_dict."""
        return self._floats("mean", tensor)

    def model(self, tensor: Union[int, str]) -> memoryview:
        """A tensor of this node's model, n floats, until the next push, join or load_state_dict."""
        return self._floats("model", tensor)

    def _floats(self, verb: str, tensor: Union[int, str]) -> memoryview:
        i = self._tensor(tensor)
        with self._lock:
            address = self._function(verb)(self._handle, i)
            if address is None and self._sizes[i]:
                raise error_of(Status.ORDER, f"there is no {verb} between push and pull")
            return borrowed(address, 4 * self._sizes[i], self, "f")

    def push(self, moved: Sequence[Any]) -> memoryview:
        """Takes the result of the local step, a float32 array for each tensor. Returns the message for all neighbours.
        If a value is not finite, the node stays where it is in this step, and its neighbours go on."""
        return self._pushed("push", moved)

    def push_frames(self, moved: Sequence[Any], frames: Sequence[Optional[Any]]) -> memoryview:
        """The same for changes that were quantized elsewhere, as on a GPU. frames: for each of pushed_parts() that of
        moved - model (of ECD of its z), as compress_payload makes it; None: it is compressed as always. moved: with DCD
        None for a tensor that has a frame."""
        return self._pushed("push_frames", moved, Messages(frames, "frames", len(self.pushed_parts())))

    def _pushed(self, verb: str, moved: Sequence[Any], *frames: Messages) -> memoryview:
        source = Lists(moved, self._sizes, DType.F32, "moved")
        message = Message()
        with self._lock:
            self._call(verb, source.array, *(given.array for given in frames), byref(message))
            return self._message(message)

    def pushed_parts(self) -> List[Part]:
        """The tensors that have a frame of their own in pushes: those that are not small."""
        return self._parts("pushed_parts", "pushed_part")

    def pull(self, messages: Sequence[Any]) -> None:
        """Ends the step. messages[i]: the push of neighbours[i]; that of a lost one is not read."""
        found = self._messages(messages, len(self.neighbours))
        with self._lock:
            self._call("pull", found.array)

    def again(self, step: int) -> memoryview:
        """The push of a step before, or of the one under way. At least 2 are kept."""
        return self._again(step)

    def lose(self, i: int) -> None:
        """neighbours[i] is gone: until a full hello of it is taken, the own model stands in its place."""
        with self._lock:
            self._call("lose", count(i, "neighbour"))

    def lost(self, i: int) -> bool:
        """Whether neighbours[i] is lost."""
        with self._lock:
            return bool(self._function("lost")(self._handle, count(i, "neighbour")))

    def join(self, step: int, model: Optional[Sequence[Any]] = None) -> None:
        """The node came late, or comes back, and goes on with `step`, from `model` or its own. All replicas are lost:
        neighbours send full hellos of this step, and need one of this node."""
        source = None if model is None else Lists(model, self._sizes, DType.F32, "model")
        with self._lock:
            self._call("join", count(step, "step", 64), source and source.array)
