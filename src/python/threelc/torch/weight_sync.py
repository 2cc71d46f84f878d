# SPDX-License-Identifier: MIT
"""A model that others serve or sample from while it is trained: what changed travels, losslessly."""
from __future__ import annotations

import json
import zlib
from typing import Any, Dict, List, Optional

import torch

from .. import _bundles, delta
from .._arrays import dtype_of
from .._errors import BaseError, CorruptError, Status

FORMAT = 1  # of messages
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def _tensors(model: Any) -> Dict[str, torch.Tensor]:
    """What is sent: parameters, and buffers of the same dtypes. What is shared has one name."""
    found = dict(model.named_parameters())
    for name, parameter in found.items():
        if parameter.dtype not in _DTYPES:
            raise TypeError(f"parameter {name} is of {parameter.dtype}; float32, float16 and bfloat16 can be sent")
    found.update((name, buffer) for name, buffer in model.named_buffers() if buffer.dtype in _DTYPES)
    return {name: tensor.detach() for name, tensor in found.items()}


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself if it lies on the CPU in one piece, else a copy."""
    return tensor.to("cpu").contiguous()


def _kind(tensor: torch.Tensor) -> str:
    return dtype_of(tensor.dtype).name.lower()


class WeightSync:
    """One side trains and publishes, others receive. A message has what changed since the last one; the first has all
    weights, packed without loss.

    model: a module. Its float32, float16 and bfloat16 parameters and buffers are sent; those of a receiver have the
    same names, shapes and dtypes, in any order. Buffers of other dtypes are not sent.

    >>> message = threelc.torch.WeightSync(trained).publish()    # bytes, for all receivers
    >>> threelc.torch.WeightSync(served).receive(message)
    """

    def __init__(self, model: Any, *, threads: Optional[int] = None) -> None:
        """threads: of the library, in each call."""
        self._model = model
        self._threads = threads
        self._published: Dict[str, torch.Tensor] = {}

    def publish(self, *, full: bool = False) -> bytes:
        """The message that takes receivers from the weights of the last one to those of now. full: it has all weights,
        for receivers that are new or missed a message. It costs a copy of the model in memory."""
        described: List[Dict[str, Any]] = []
        frames: List[bytes] = []
        published: Dict[str, torch.Tensor] = {}
        for name, tensor in _tensors(self._model).items():
            now = _on_host(tensor)
            base = None if full else self._published.get(name)
            frames.append(delta.compress(base, now, threads=self._threads))
            described.append({"name": name, "shape": list(tensor.shape), "dtype": _kind(tensor)})
            published[name] = now.clone() if now.data_ptr() == tensor.data_ptr() else now
        head = json.dumps({"format": FORMAT, "tensors": described}).encode()
        self._published = published
        return _bundles.pack([zlib.crc32(head).to_bytes(4, "little") + head, *frames])

    def receive(self, message: Any) -> None:
        """Takes the model to the weights of a message. All of it is checked first: after an exception the model is
        what it was. ValueError names the tensor that does not fit; BaseError: a message before was missed, so one
        with all weights is needed; CorruptError: the message was altered."""
        frames = _frames_of(message)
        mine = _tensors(self._model)
        if missing := sorted(mine.keys() - frames.keys()):
            raise ValueError(f"the message has no {missing[0]}")
        on_host: Dict[str, torch.Tensor] = {}
        for name, (shape, dtype, frame) in frames.items():
            if name not in mine:
                raise ValueError(f"the model has no {name}")
            if shape != list(mine[name].shape) or dtype != _kind(mine[name]):
                raise ValueError(f"{name} is {dtype} of shape {shape} in the message, {_kind(mine[name])} of "
                                 f"{list(mine[name].shape)} in the model")
            on_host[name] = _on_host(mine[name])
            self._check(name, on_host[name], frame)
        for name, (_, _, frame) in frames.items():
            now = delta.apply(frame, on_host[name], threads=self._threads)
            if now.data_ptr() != mine[name].data_ptr():
                mine[name].copy_(now)

    def _check(self, name: str, tensor: torch.Tensor, frame: memoryview) -> None:
        info = delta.inspect(frame)
        if info.n != tensor.numel() or info.dtype != dtype_of(tensor.dtype):
            raise CorruptError(Status.CORRUPT, f"{name} is of {info.n} weights of {info.dtype.name.lower()}")
        if info.has_base and delta.digest(tensor, threads=self._threads) != info.base_digest:
            raise BaseError(Status.BASE, f"{name} is not what the message begins with: publish(full=True) is needed")


def _frames_of(message: Any) -> Dict[str, Any]:
    """Shape, dtype and frame by name. CorruptError: this is no message."""
    head, *frames = _bundles.unpack(message) or [memoryview(b"")]
    if int.from_bytes(head[:4], "little") != zlib.crc32(head[4:]) or len(head) < 5:
        raise CorruptError(Status.CORRUPT, "this is no message of WeightSync, or it was altered")
    described = json.loads(bytes(head[4:]))
    if described["format"] != FORMAT:
        raise CorruptError(Status.VERSION, f"the message has format {described['format']}, not {FORMAT}")
    if len(described["tensors"]) != len(frames):
        raise CorruptError(Status.CORRUPT, f"{len(described['tensors'])} tensors, but {len(frames)} frames")
    return {tensor["name"]: (tensor["shape"], tensor["dtype"], frame)
            for tensor, frame in zip(described["tensors"], frames)}
