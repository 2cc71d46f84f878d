# SPDX-License-Identifier: MIT
"""Federated training with Flower: clients send frames of the changes of the model in place of the whole model.

    app = flwr.clientapp.ClientApp(mods=[threelc.flower.CompressMod("3lc-golomb")])   # in the client
    strategy = threelc.flower.DecompressStrategy(FedAvg())                            # in the server

Both are needed. What the server sends stays as it is. This is for Flower's message API (flwr.clientapp,
flwr.serverapp).
"""
from __future__ import annotations

import copy
import math
import zlib
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

import numpy
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp.strategy import Strategy

from ._errors import Error, error_of
from ._library import count
from .codec_strings import check_codec
from .context import STATE_VERSION
from .context import Context as Compressor
from .frames import decompress

STYPE = "threelc"
"""the serialization type of an Array whose data is a frame: the change of an array of this dtype and shape"""

_RECORD = "threelc"  # of states, in Context.state
_DTYPES = ("float16", "float32", "float64")  # of arrays that are compressed


class CompressMod:
    """A mod of a ClientApp: replies to train messages have frames in place of arrays.

    codec:          of the changes, e.g. "3lc-golomb"; threelc.codecs() lists them.
    min_numel:      smaller arrays go as they are.
    error_reset:    how much of what it has not sent yet a client trains on from, beside the server's model, from 0 to
                    1. 1: all (error reset, CSER, section 3; Xie et al., 2020). 0: nothing (error feedback). Then it
                    mostly does again what it did not send, so that counts twice, and the more a client learns in a
                    round, the sooner a training diverges.
    residual_decay: what was not sent is multiplied by it after each round. 1: it stays.

    A frame has what the client changed and what earlier frames left out: the residual. Residuals belong to the client:
    Context.state has them, which Flower keeps for a client during a run. Changes in a reply that does not arrive are
    lost.

    Arrays of float16, float32 and float64 have any shape, and changes are rounded to float32. Other arrays go as they
    are, and so do arrays that the server did not send, or that have another dtype or shape than what it sent.

    Put it first in the list of mods: others then see whole arrays. Messages to train and their replies have one
    ArrayRecord, else ValueError. A change that is not finite is a NonFiniteError, and keeps all residuals as they were.
    """

    def __init__(self, codec: str = "3lc-golomb", *, min_numel: int = 256, error_reset: float = 1.0,
                 residual_decay: float = 1.0) -> None:
        check_codec(codec)
        for name, share in ("error_reset", error_reset), ("residual_decay", residual_decay):
            if not 0 <= share <= 1:
                raise ValueError(f"{name} should be from 0 to 1, not {share}")
        self.codec = codec
        self.min_numel = count(min_numel, "min_numel")
        self.error_reset = error_reset
        self.residual_decay = residual_decay

    def __call__(self, message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
        if message.metadata.message_type.split(".")[0] != MessageType.TRAIN:
            return call_next(message, context)
        given = _arrays_of(message, "a message to train")
        states = dict(context.state.config_records.get(_RECORD, {}))
        starts = {name: self._start(name, array, context, states.get(name)) for name, array in given.items()}
        if self.error_reset:
            message = copy.copy(message)
            message.content = RecordDict({key: ArrayRecord(starts) if record is given else record
                                          for key, record in message.content.items()})
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        arrays = _arrays_of(reply, "a reply")
        for name, array in list(arrays.items()):
            if self._goes_as_frame(array, starts.get(name)):
                arrays[name], states[name] = self._compressed(name, array, starts[name], context, states.get(name))
            elif name in states and self.error_reset:  # the array has this share of what was not sent
                compressor = self._compressor(name, math.prod(starts[name].shape), context, states[name])
                compressor.residual_scale(1 - self.error_reset)
                states[name] = compressor.state_dict()["state"]
        context.state[_RECORD] = ConfigRecord(states)
        return reply

    def _goes_as_frame(self, array: Array, received: Optional[Array]) -> bool:
        return array.dtype in _DTYPES and received is not None and _kind(array) == _kind(received) and \
            math.prod(array.shape) >= max(self.min_numel, 1)

    def _compressor(self, name: str, values: int, context: Context, state: Optional[bytes]) -> Compressor:
        seed = (context.node_id ^ zlib.crc32(name.encode())) % 2 ** 64  # each client and each array has its own
        compressor = Compressor(values, self.codec, seed=seed, checksum=True)
        try:
            if state is not None:
                compressor.load_state_dict({"version": STATE_VERSION, "state": state})
        except Error as error:
            raise error_of(error.status, f"{name}: {error}") from error
        return compressor

    def _start(self, name: str, received: Array, context: Context, state: Optional[bytes]) -> Array:
        """What the client trains on from."""
        if not self.error_reset or state is None or not self._goes_as_frame(received, received):
            return received
        base = received.numpy()
        residual = self._compressor(name, base.size, context, state).residual
        if residual is None:
            return received
        kept = numpy.float32(self.error_reset) * numpy.asarray(residual).reshape(base.shape)
        return Array(numpy.asarray(base + kept, base.dtype))

    def _compressed(self, name: str, array: Array, start: Array, context: Context,
                    state: Optional[bytes]) -> Tuple[Array, bytes]:
        """The frame, and the state of the array's context."""
        wide = numpy.promote_types(array.dtype, "f4")
        change = numpy.subtract(array.numpy(), start.numpy(), dtype=wide).astype("f4").ravel()
        compressor = self._compressor(name, change.size, context, state)
        try:
            frame = compressor.compress(change)
            if compressor.residual is not None:
                compressor.residual_scale(self.residual_decay)
        except Error as error:
            raise error_of(error.status, f"{name}: {error}") from error
        return Array(array.dtype, tuple(array.shape), STYPE, frame), compressor.state_dict()["state"]


class DecompressStrategy(Strategy):  # type: ignore[misc]
    """A strategy that has another one, which sees whole arrays: what the server sent + what a frame says.

    strategy: FedAvg or another one of flwr.serverapp.strategy; of its methods start() is not called.

    Clients without the mod may take part. aggregate_train() raises CorruptError or SizeError for a frame that is
    damaged, and ValueError for one of an array that the client was not sent, or of another dtype or shape. The sentence
    names client and array.
    """

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self._sent: Dict[int, Dict[str, Array]] = {}  # by node, in this round
        self.received_bytes = 0
        """of arrays and frames in replies to train messages"""
        self.array_bytes = 0
        """what they would be without compression"""

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Any) -> List[Message]:
        """The other strategy's messages. What they send is kept for aggregate_train()."""
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        self._sent = {message.metadata.dst_node_id: dict(_arrays_of(message, "a message to train"))
                      for message in messages}
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Message]
                        ) -> Tuple[Optional[ArrayRecord], Optional[MetricRecord]]:
        """Frames become arrays, of which the other strategy makes the new model."""
        replies = list(replies)
        for reply in replies:
            if not reply.has_error():
                self._decompress(reply)
        aggregated: Tuple[Optional[ArrayRecord], Optional[MetricRecord]] = \
            self.strategy.aggregate_train(server_round, replies)
        return aggregated

    def _decompress(self, reply: Message) -> None:
        """Frames of the reply become arrays."""
        node = reply.metadata.src_node_id
        for arrays in reply.content.array_records.values():
            for name, array in list(arrays.items()):
                self.received_bytes += len(array.data)
                if array.stype == STYPE:
                    arrays[name] = _decompressed(array, self._sent.get(node, {}).get(name), f"node {node}: {name}")
                self.array_bytes += len(arrays[name].data)

    def configure_evaluate(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Any
                           ) -> Iterable[Message]:
        """The other strategy's messages."""
        messages: Iterable[Message] = self.strategy.configure_evaluate(server_round, arrays, config, grid)
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> Optional[MetricRecord]:
        """The other strategy's metrics."""
        metrics: Optional[MetricRecord] = self.strategy.aggregate_evaluate(server_round, replies)
        return metrics

    def summary(self) -> None:
        """Logs the other strategy's settings."""
        self.strategy.summary()


def _arrays_of(message: Message, what: str) -> ArrayRecord:
    records = list(message.content.array_records.values())
    if len(records) != 1:
        raise ValueError(f"{what} has {len(records)} ArrayRecords: threelc.flower takes one")
    return records[0]


def _kind(array: Array) -> Tuple[str, Tuple[int, ...]]:
    return array.dtype, tuple(array.shape)


def _decompressed(frame: Array, sent: Optional[Array], where: str) -> Array:
    """sent + the change in the frame."""
    if sent is None:
        raise ValueError(f"{where}: a frame of an array that this client was not sent in this round")
    if _kind(frame) != _kind(sent):
        raise ValueError(f"{where}: a frame of {frame.dtype} {list(frame.shape)} for an array of {sent.dtype} "
                         f"{list(sent.shape)}")
    base = sent.numpy()
    change = numpy.empty(base.size, "f4")
    try:
        decompress(frame.data, change)
    except Error as error:
        raise error_of(error.status, f"{where}: {error}") from error
    return Array(numpy.asarray(base + change.reshape(base.shape), base.dtype))
