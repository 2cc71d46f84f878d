# SPDX-License-Identifier: MIT
"""Compression of the tensors that machines exchange while they train a model together.

A trainer makes one Context for each tensor. It calls compress() on what it is about to send, and decompress() or
decompress_add() on what it received. What was not sent stays in the context's residual and is sent later.

    import numpy, threelc

    context = threelc.Context(gradient.size, codec="3lc-golomb")
    frame = context.compress(gradient)                # bytes
    threelc.decompress_add(frame, total, 0.25)        # total += 0.25 * what was sent

Arrays are used where they lie: numpy arrays, torch tensors on the CPU, and whatever has the buffer protocol or DLPack.
They must be contiguous. A tensor that is written counts as written by an in-place operation of torch: call under
torch.no_grad() if it requires grad. Other threads of Python run during calls.

Context                     compresses a tensor again and again: compress, compress_into, accumulate, residual,
                            set_codec, state_dict
decompress, decompress_add  decode a frame into an array, or add it up; decompress_add_many: many frames in one sweep
inspect, peek, mask         what a frame says of itself (FrameInfo); SBC's momentum masking
codecs, codec_bound         the list of codecs (CodecEntry, CodecParameter, EntryKind); the largest frame of a codec
compress_quartic            frames of symbols that were found elsewhere, as on a GPU; decompress_quartic: the reverse
compress_payload            frames of payloads that were made elsewhere
compress_members            frames of values that were chosen elsewhere; decompress_members: the reverse
DType, Isa                  what values are; the instructions that kernels use

threelc.delta               lossless deltas of weights: compress, apply, inspect, digest
threelc.weights             messages of whole models: Writer, Reader
threelc.exchange            the distributed algorithms: AllReduce, Worker and Server, Gossip
threelc.torch               these in PyTorch: register, LocalSteps, ShardedOptimizer, PushPull, Gossip,
                            register_fsdp, WeightSync
threelc.flower              federated training with Flower: CompressMod, DecompressStrategy
threelc.plugs               deltas for vLLM, verl, NeMo-RL, slime and SkyRL, in place of what they send

An array or argument of the wrong kind raises TypeError or ValueError. All else that fails raises a threelc.Error, with
a status (threelc.Status) and a sentence, and changes nothing:

ParameterError    an argument is out of its range, or a codec string is wrong; it is a ValueError, too
CapacityError     a buffer is too small, or the object was created for smaller frames; a ValueError
SizeError         a frame or state has another number of values; a ValueError
CorruptError      the bytes are no frame, message or state; a ValueError
BaseError         the weights are not those that a delta begins with; a ValueError
NonFiniteError    a NaN or an infinity; an ArithmeticError
UnsupportedError  a codec, ISA or operation that is not available here; a NotImplementedError
NoMemoryError     there is not enough memory; a MemoryError
StepError         of the exchange: the step failed for all, and nothing is lost
OrderError        a call out of turn, or a message of another step
"""
from . import delta, weights
from ._c import DType
from ._c import EntryKind as EntryKind
from ._c import Isa as Isa
from ._errors import (BaseError as BaseError, CapacityError as CapacityError, CorruptError as CorruptError,
                      Error as Error, NoMemoryError as NoMemoryError, NonFiniteError as NonFiniteError,
                      OrderError as OrderError, ParameterError as ParameterError, SizeError as SizeError,
                      Status as Status, StepError as StepError, UnsupportedError as UnsupportedError)
from ._version import __version__
from .codec_strings import CodecEntry as CodecEntry
from .codec_strings import CodecParameter as CodecParameter
from .codec_strings import codec_bound, codecs
from .context import Context
from .frames import FrameInfo as FrameInfo
from .frames import decompress, decompress_add, decompress_add_many, inspect, mask, peek
from .members import compress_members, decompress_members
from .quartic import compress_payload, compress_quartic, decompress_quartic

# What help(threelc) describes at length. The classes below are public, too; each has a help of its own.
__all__ = ["Context", "DType", "__version__", "codec_bound", "codecs", "compress_members", "compress_payload",
           "compress_quartic", "decompress", "decompress_add", "decompress_add_many", "decompress_members",
           "decompress_quartic", "delta", "inspect", "mask", "peek", "weights"]

_OTHERS = (BaseError, CapacityError, CodecEntry, CodecParameter, CorruptError, EntryKind, Error, FrameInfo, Isa,
           NoMemoryError, NonFiniteError, OrderError, ParameterError, SizeError, Status, StepError, UnsupportedError)
