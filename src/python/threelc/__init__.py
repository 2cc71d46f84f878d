# SPDX-License-Identifier: MIT
"""Compression of the tensors that machines exchange while they train a model together.

A trainer makes one Context for each tensor. It calls compress() on what it is about to send, and decompress() or
decompress_add() on what it received. What was not sent stays in the context's residual and is sent later.

    import numpy, threelc

    context = threelc.Context(gradient.size, codec="3lc:s=1.75")
    frame = context.compress(gradient)                # bytes
    threelc.decompress_add(frame, total, 0.25)        # total += 0.25 * what was sent

Arrays are used where they lie: numpy arrays, torch tensors on the CPU, and whatever has the buffer protocol or DLPack.
Other threads of Python run during calls. Errors are exceptions, threelc.Error, with a status and a sentence.

threelc.delta makes lossless deltas of weights. threelc.exchange has the distributed algorithms: all-reduce, parameter
server, gossip. threelc.torch puts them to work in PyTorch.
"""
from . import delta
from ._c import DType, EntryKind, Isa
from ._errors import (BaseError, CapacityError, CorruptError, Error, NoMemoryError, NonFiniteError, OrderError,
                      ParameterError, SizeError, Status, StepError, UnsupportedError)
from ._version import __version__
from .codec_strings import CodecEntry, CodecParameter, codec_bound, codecs
from .context import Context
from .frames import FrameInfo, decompress, decompress_add, decompress_add_many, inspect, mask, peek
from .quartic import compress_quartic

__all__ = [
    "BaseError", "CapacityError", "CodecEntry", "CodecParameter", "Context", "CorruptError", "DType", "EntryKind",
    "Error", "FrameInfo", "Isa", "NoMemoryError", "NonFiniteError", "OrderError", "ParameterError", "SizeError",
    "Status", "StepError", "UnsupportedError", "__version__", "codec_bound", "codecs", "compress_quartic",
    "decompress", "decompress_add", "decompress_add_many", "delta", "inspect", "mask", "peek"]
