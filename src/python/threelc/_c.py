# SPDX-License-Identifier: MIT
"""The C interface as ctypes declarations: threelc.h, delta.h, bundle.h, exchange.h, gossip.h, local.h and
weights.h.

A test compares each struct, enum and function with the headers. Arrays of values and opaque objects are c_void_p; other
pointers say what they point to.
"""
from __future__ import annotations

import ctypes
import enum
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_float, c_int, c_size_t, c_ubyte,
                    c_uint32, c_uint64, c_void_p)
from typing import Any, Dict, List, Tuple

UNKNOWN = 2**64 - 1  # TLC_UNKNOWN
NOBODY = 2**32 - 1  # TLC_NOBODY
ALL = c_size_t(-1).value  # TLC_ALL
MESSAGE_SIZE = 512  # TLC_MESSAGE_SIZE
TRAINER_SIZE = 16  # TLC_WEIGHTS_TRAINER_SIZE


class Numbers(enum.EnumMeta):
    """Of enums whose members are numbers: dir() and help() have what they add to int, and not what int has."""

    def __dir__(cls) -> List[str]:
        return [name for name in cls.__dict__ if not name.startswith("_")] + ["__doc__", "__module__"]


class DType(enum.IntEnum, metaclass=Numbers):
    """What the values are (tlc_dtype): binary32, binary16 or bfloat16; of weights (threelc.delta) the others, too."""

    F32 = 0
    F16 = 1
    BF16 = 2
    F8_E4M3 = 3
    F8_E5M2 = 4
    F4_E2M1 = 5
    U8 = 6
    U4 = 7
    I32 = 8
    I64 = 9
    F64 = 10

    @property
    def bits(self) -> int:
        """Bits of a value."""
        return (32, 16, 16, 8, 8, 4, 8, 4, 32, 64, 64)[self]

    @property
    def itemsize(self) -> int:
        """Bytes of a value; 0 where a byte has two."""
        return self.bits // 8


class Isa(enum.IntEnum, metaclass=Numbers):
    """The instructions that kernels use (tlc_isa). AUTO: the best that this machine has."""

    AUTO = 0
    SCALAR = 1
    AVX2 = 2
    AVX512 = 3
    NEON = 4


class EntryKind(enum.IntEnum, metaclass=Numbers):
    """What an entry of the list of codecs is (tlc_entry_kind)."""

    SHORT_NAME = 0
    QUANTIZER = 1
    PACKER = 2
    SHRINKER = 3


class Format(enum.IntEnum, metaclass=Numbers):
    """What bytes should be (tlc_format)."""

    FRAME = 0
    DELTA = 1
    BUNDLE = 2
    STATE = 3


class GossipKind(enum.IntEnum, metaclass=Numbers):
    """The algorithm of decentralised training (tlc_gossip_kind)."""

    DCD = 0
    ECD = 1


class GraphKind(enum.IntEnum, metaclass=Numbers):
    """The family of a graph (tlc_graph_kind)."""

    RING = 0
    TORUS = 1
    COMPLETE = 2
    RANDOM = 3


TASK = CFUNCTYPE(None, c_void_p, c_size_t)
RUN = CFUNCTYPE(None, c_void_p, c_size_t, TASK, c_void_p)
ALLOC = CFUNCTYPE(c_void_p, c_void_p, c_size_t)
FREE = CFUNCTYPE(None, c_void_p, c_void_p)
WEIGHTS_WRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)
WEIGHTS_READ = CFUNCTYPE(c_int, c_void_p, c_uint64, c_void_p, c_size_t)


class Allocator(Structure):
    _fields_ = [("alloc", ALLOC), ("free", FREE), ("opaque", c_void_p)]


class Parallel(Structure):
    _fields_ = [("run", RUN), ("opaque", c_void_p)]


class Config(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("codec", c_char_p), ("reserve", c_char_p), ("dtype", c_int), ("feedback", c_int),
        ("seed", c_uint64), ("isa", c_int), ("checksum", c_int), ("assume_finite", c_int), ("residual", c_void_p),
        ("alloc", Allocator), ("parallel", Parallel), ("message", c_char_p), ("message_cap", c_size_t)]


class DecodeOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("isa", c_int), ("parallel", Parallel), ("from_zero", c_int),
                ("message", c_char_p), ("message_cap", c_size_t)]


class FrameInfo(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("version", c_uint32), ("dtype", c_int), ("checksum", c_int),
        ("codec", c_char * 128), ("n", c_uint64), ("block", c_uint64), ("nonzero", c_uint64),
        ("header_size", c_uint64), ("payload_size", c_uint64), ("clipped", c_uint64)]


class DeltaOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("isa", c_int), ("without_digests", c_int), ("parallel", Parallel),
                ("message", c_char_p), ("message_cap", c_size_t), ("block_digests", c_int),
                ("check_result", c_int)]


class DeltaInfo(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("version", c_uint32), ("dtype", c_int), ("n", c_uint64), ("has_base", c_int),
        ("has_digests", c_int), ("base_digest", c_uint64), ("result_digest", c_uint64), ("blocks", c_uint64 * 4),
        ("changed", c_uint64)]


class DeltaPiece(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("next", c_uint64), ("end", c_uint64), ("state", c_uint64),
        ("positions", POINTER(c_uint64)), ("values", c_void_p), ("cap", c_size_t), ("k", c_size_t),
        ("are_values", c_int)]


class WeightsEntry(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("name", c_char_p), ("dtype", c_int), ("dims", c_size_t),
        ("shape", POINTER(c_uint64)), ("n", c_uint64), ("frame_len", c_uint64), ("has_base", c_int),
        ("base_digest", c_uint64), ("result_digest", c_uint64), ("is_view", c_int), ("root", c_uint64),
        ("root_dims", c_size_t), ("root_strides", POINTER(c_uint64)), ("strides", POINTER(c_uint64)),
        ("first", c_uint64)]


class WeightsWriterConfig(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("write", WEIGHTS_WRITE), ("opaque", c_void_p),
        ("trainer", c_ubyte * TRAINER_SIZE), ("sequence", c_uint64), ("count", c_uint64), ("note", c_void_p),
        ("note_len", c_size_t), ("alloc", Allocator), ("message", c_char_p), ("message_cap", c_size_t)]


class WeightsReaderConfig(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("src", c_void_p), ("read", WEIGHTS_READ), ("opaque", c_void_p),
        ("size", c_uint64), ("isa", c_int), ("parallel", Parallel), ("alloc", Allocator), ("message", c_char_p),
        ("message_cap", c_size_t)]


class WeightsInfo(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("version", c_uint32), ("trainer", c_ubyte * TRAINER_SIZE),
        ("sequence", c_uint64), ("count", c_uint64), ("note_len", c_uint64), ("size", c_uint64), ("full", c_int),
        ("base_digest", c_uint64), ("result_digest", c_uint64), ("frame_max", c_uint64)]


class WeightsPlace(Structure):
    _fields_ = [("base", c_void_p), ("out", c_void_p), ("first", c_size_t), ("count", c_size_t)]


WEIGHTS_FIND = CFUNCTYPE(c_int, c_void_p, POINTER(WeightsEntry), POINTER(WeightsPlace))


class WeightsHeard(Structure):
    _fields_ = [("trainer", c_ubyte * TRAINER_SIZE), ("sequence", c_uint64)]


class Message(Structure):
    _fields_ = [("data", c_void_p), ("len", c_size_t)]


class CodecParam(Structure):
    _fields_ = [("key", c_char_p), ("range", c_char_p), ("meaning", c_char_p)]


class CodecEntry(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("name", c_char_p), ("list", c_char_p), ("takes", c_char_p), ("gives", c_char_p),
        ("meaning", c_char_p), ("source", c_char_p), ("feedback", c_int), ("param_count", c_size_t),
        ("param", CodecParam * 4), ("kind", c_int), ("codec", c_int), ("symbols", c_int), ("sparse", c_int)]


class BundleWriter(Structure):
    _fields_ = [("dst", POINTER(c_ubyte)), ("cap", c_size_t), ("used", c_size_t), ("count", c_uint32),
                ("index", c_uint32)]


class BundleReader(Structure):
    _fields_ = [("src", POINTER(c_ubyte)), ("len", c_size_t), ("next_length", c_size_t), ("next_frame", c_size_t),
                ("count", c_uint32), ("index", c_uint32)]


class Tensor(Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("n", c_size_t), ("push", c_char_p), ("pull", c_char_p),
                ("residual", c_void_p), ("only", c_uint32)]


class Outcome(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("status", c_int), ("cause", c_int), ("step", c_uint64), ("rank", c_uint32),
        ("tensor", c_size_t), ("taken", POINTER(c_ubyte)), ("workers", c_uint32), ("unknown", c_size_t),
        ("missing", c_size_t), ("sentence", c_char * 200)]


class ExchangeConfig(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("workers", c_uint32), ("servers", c_uint32), ("owners", c_uint32),
        ("keep", c_uint32), ("backup", c_uint32), ("gather", c_int), ("sum", c_int), ("push", c_char_p),
        ("pull", c_char_p), ("reserve", c_char_p), ("min_n", c_size_t), ("split_n", c_size_t),
        ("assume_finite", c_int), ("dtype", c_int), ("seed", c_uint64), ("isa", c_int), ("alloc", Allocator),
        ("parallel", Parallel), ("outcome", POINTER(Outcome))]


class ExchangeStats(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("steps", c_uint64), ("failed", c_uint64), ("late", c_uint64),
        ("float_bytes", c_uint64), ("sent", c_uint64), ("received", c_uint64), ("dropped", c_uint64),
        ("push_signal_squares", c_double), ("push_residual_squares", c_double), ("pull_signal_squares", c_double),
        ("pull_residual_squares", c_double)]


class Part(Structure):
    _fields_ = [("struct_size", c_size_t), ("tensor", c_size_t), ("first", c_size_t), ("n", c_size_t),
                ("mean", c_void_p), ("residual", c_void_p), ("seed", c_uint64)]


class QuarticParams(Structure):
    _fields_ = [("struct_size", c_size_t), ("codec", c_char_p), ("dtype", c_int), ("checksum", c_int),
                ("scratch", c_void_p), ("message", c_char_p), ("message_cap", c_size_t)]


class MembersParams(Structure):
    _fields_ = [("struct_size", c_size_t), ("codec", c_char_p), ("dtype", c_int), ("checksum", c_int),
                ("scratch", c_void_p), ("sent", c_void_p), ("message", c_char_p), ("message_cap", c_size_t)]


class PushInfo(Structure):
    _fields_ = [("struct_size", c_size_t), ("worker", c_uint32), ("step", c_uint64), ("late", c_int),
                ("repeated", c_int)]


class Graph(Structure):
    _fields_ = [("struct_size", c_size_t), ("kind", c_int), ("nodes", c_uint32), ("rows", c_uint32), ("p", c_double),
                ("seed", c_uint64)]


class LocalConfig(Structure):
    _fields_ = [("struct_size", c_size_t), ("rate", c_float), ("momentum", c_float), ("nesterov", c_int),
                ("error_reset", c_float), ("mix", c_float)]


class LocalTensor(Structure):
    _fields_ = [("struct_size", c_size_t), ("n", c_size_t), ("common", c_void_p), ("momentum", c_void_p),
                ("residual", c_void_p), ("weights", c_void_p), ("dtype", c_int)]


_status = c_int
_values = c_void_p  # floats, or values of the dtype
_lists = POINTER(c_void_p)  # an array of arrays of values
_object = c_void_p
_size_out = POINTER(c_size_t)
_message = POINTER(Message)
_tensors = (POINTER(Tensor), c_size_t)
_options = POINTER(DecodeOptions)
_delta = POINTER(DeltaOptions)
_save = (_status, _object, c_void_p, c_size_t, _size_out)
_load = (_status, _object, _message, c_size_t)
_create = (POINTER(c_void_p), POINTER(ExchangeConfig))


def _each(names: str, functions: Dict[str, Tuple[Any, ...]]) -> Dict[str, Tuple[Any, ...]]:
    """Functions that several objects of the exchange have alike."""
    return {f"tlc_{name}_{verb}": types for name in names.split() for verb, types in functions.items()}


FUNCTIONS: Dict[str, Tuple[Any, ...]] = {  # name: result, arguments
    "tlc_version": (c_uint32,),
    "tlc_version_string": (c_char_p,),
    "tlc_status_string": (c_char_p, c_int),
    "tlc_isa_supported": (c_int, c_int),
    "tlc_isa_name": (c_char_p, c_int),
    "tlc_config_init": (_status, POINTER(Config), c_size_t),
    "tlc_create": (_status, POINTER(c_void_p), POINTER(Config), c_size_t),
    "tlc_destroy": (None, _object),
    "tlc_last_error": (c_char_p, _object),
    "tlc_bound": (c_size_t, _object),
    "tlc_codec_bound": (_status, c_char_p, c_int, c_size_t, _size_out),
    "tlc_codec_check": (_status, c_char_p, c_char_p, c_size_t),
    "tlc_codec_list": (_status, c_size_t, POINTER(CodecEntry)),
    "tlc_accumulate": (_status, _object, _values),
    "tlc_compress": (_status, _object, _values, c_void_p, c_size_t, _size_out),
    "tlc_set_codec": (_status, _object, c_char_p),
    "tlc_residual": (_values, _object),
    "tlc_residual_scale": (_status, _object, c_float),
    "tlc_reset": (None, _object),
    "tlc_isa_used": (c_int, _object),
    "tlc_state_size": (c_size_t, _object),
    "tlc_state_save": _save,
    "tlc_state_load": (_status, _object, c_void_p, c_size_t),
    "tlc_decompress": (_status, c_void_p, c_size_t, c_int, _values, c_size_t, _options),
    "tlc_decompress_add": (_status, c_void_p, c_size_t, c_float, _values, c_size_t, _options),
    "tlc_decompress_add_many": (_status, _message, _values, c_size_t, _values, c_size_t, _size_out, _options),
    "tlc_mask": (_status, c_void_p, c_size_t, _values, c_size_t, _options),
    "tlc_inspect": (_status, c_void_p, c_size_t, POINTER(FrameInfo)),
    "tlc_peek": (_status, c_void_p, c_size_t, POINTER(FrameInfo)),
    "tlc_explain": (_status, c_void_p, c_size_t, c_int, c_char_p, c_size_t),
    "tlc_delta_bound": (_status, c_int, c_size_t, _size_out),
    "tlc_delta_compress": (_status, c_int, _values, _values, c_size_t, c_void_p, c_size_t, _size_out, _delta),
    "tlc_delta_apply": (_status, c_void_p, c_size_t, c_int, _values, c_size_t, _delta),
    "tlc_delta_apply_range": (_status, c_void_p, c_size_t, c_int, _values, _values, c_size_t, c_size_t, c_size_t,
                              _delta),
    "tlc_delta_check": (_status, c_void_p, c_size_t, c_int, _values, c_size_t, _delta),
    "tlc_delta_repair": (_status, c_void_p, c_size_t, c_int, _values, c_size_t, POINTER(c_uint64), _delta),
    "tlc_delta_changes_bound": (_status, c_int, c_size_t, c_size_t, _size_out),
    "tlc_delta_from_changes": (_status, c_int, POINTER(c_uint64), _values, _values, c_size_t, c_size_t,
                               POINTER(c_uint64), c_void_p, c_size_t, _size_out, _delta),
    "tlc_delta_changes": (_status, c_void_p, c_size_t, c_int, c_size_t, POINTER(DeltaPiece), _delta),
    "tlc_delta_fold_bound": (_status, c_int, c_size_t, c_size_t, _size_out),
    "tlc_delta_fold": (_status, POINTER(c_void_p), POINTER(c_size_t), c_size_t, c_void_p, c_size_t, _size_out, _delta),
    "tlc_delta_peek": (_status, c_void_p, c_size_t, POINTER(DeltaInfo)),
    "tlc_delta_inspect": (_status, c_void_p, c_size_t, POINTER(DeltaInfo)),
    "tlc_delta_digest": (_status, c_int, _values, c_size_t, POINTER(c_uint64), _delta),
    "tlc_delta_digest_part": (_status, c_int, _values, c_size_t, c_uint64, POINTER(c_uint64), _delta),
    "tlc_weights_writer_create": (_status, POINTER(c_void_p), POINTER(WeightsWriterConfig)),
    "tlc_weights_add": (_status, _object, POINTER(WeightsEntry), c_void_p, c_size_t),
    "tlc_weights_finish": (_status, _object),
    "tlc_weights_writer_destroy": (None, _object),
    "tlc_weights_open": (_status, POINTER(c_void_p), POINTER(WeightsReaderConfig)),
    "tlc_weights_describe": (_status, _object, POINTER(WeightsInfo)),
    "tlc_weights_close": (None, _object),
    "tlc_weights_note": (_status, _object, c_void_p, c_size_t),
    "tlc_weights_at": (_status, _object, c_uint64, POINTER(WeightsEntry)),
    "tlc_weights_frame": (_status, _object, c_uint64, c_void_p, c_size_t, POINTER(c_void_p)),
    "tlc_weights_copy_view": (_status, _object, c_uint64, c_void_p, c_void_p),
    "tlc_weights_apply": (_status, _object, WEIGHTS_FIND, c_void_p, c_void_p, c_size_t),
    "tlc_weights_follows": (_status, POINTER(WeightsInfo), POINTER(WeightsHeard), c_char_p, c_size_t),
    "tlc_quartic_scratch": (c_size_t, c_char_p, c_size_t),
    "tlc_compress_quartic": (_status, c_void_p, c_size_t, _values, c_size_t, POINTER(QuarticParams), c_void_p, c_size_t,
                             _size_out),
    "tlc_compress_payload": (_status, c_void_p, c_size_t, _values, c_size_t, POINTER(QuarticParams), c_void_p, c_size_t,
                             _size_out),
    "tlc_decompress_quartic": (_status, c_void_p, c_size_t, c_size_t, c_void_p, c_size_t, _values, c_size_t,
                               POINTER(DecodeOptions)),
    "tlc_members_scratch": (c_size_t, c_char_p, c_size_t),
    "tlc_compress_members": (_status, POINTER(c_uint64), _values, c_size_t, c_size_t, POINTER(MembersParams), c_void_p,
                             c_size_t, _size_out),
    "tlc_decompress_members": (_status, c_void_p, c_size_t, c_size_t, POINTER(c_uint64), _values, c_size_t, _size_out,
                               POINTER(DecodeOptions)),
    "tlc_bundle_bound": (_status, c_uint32, c_size_t, _size_out),
    "tlc_bundle_init": (_status, POINTER(BundleWriter), c_void_p, c_size_t, c_uint32),
    "tlc_bundle_space": (_status, POINTER(BundleWriter), POINTER(c_void_p), _size_out),
    "tlc_bundle_commit": (_status, POINTER(BundleWriter), c_size_t),
    "tlc_bundle_add": (_status, POINTER(BundleWriter), c_void_p, c_size_t),
    "tlc_bundle_finish": (_status, POINTER(BundleWriter), _message),
    "tlc_bundle_open": (_status, POINTER(BundleReader), c_void_p, c_size_t),
    "tlc_bundle_count": (c_uint32, POINTER(BundleReader)),
    "tlc_bundle_next": (_status, POINTER(BundleReader), POINTER(c_void_p), _size_out),
    "tlc_exchange_config_init": (_status, POINTER(ExchangeConfig), c_size_t),
    "tlc_tensor_pointers": (_status, _values, c_int, POINTER(Tensor), c_size_t, _lists),
    **_each("worker server allreduce gossip", {
        "destroy": (None, _object), "step": (c_uint64, _object), "stats": (_status, _object, POINTER(ExchangeStats)),
        "message_bound": (c_size_t, _object), "state_size": (c_size_t, _object), "state_save": _save,
        "state_load": _load, "state_salvage": _load}),
    **_each("worker server allreduce", {
        "create": (_status, *_create, c_uint32, *_tensors), "history": (c_uint64, _object),
        "residual_scale": (_status, _object, c_float)}),
    **_each("server allreduce gossip", {
        "outcome": (_status, _object, POINTER(Outcome)), "again": (_status, _object, c_uint64, _message)}),
    **_each("worker allreduce gossip", {
        "pushed_parts": (c_size_t, _object), "pushed_part": (_status, _object, c_size_t, POINTER(Part))}),
    **_each("server allreduce", {"parts": (c_size_t, _object), "part": (_status, _object, c_size_t, POINTER(Part))}),
    **_each("worker allreduce", {
        "push": (_status, _object, _lists, c_double, _message),
        "push_frames": (_status, _object, _lists, _message, c_double, _message),
        "pull": (_status, _object, _message, _lists),
        "pull_frames": (_status, _object, _message, _lists, _message),
        "pulled_parts": (c_size_t, _object), "pulled_part": (_status, _object, c_size_t, POINTER(Part)),
        "mask": (_status, _object, _lists)}),
    "tlc_worker_join": (_status, _object, c_uint64, POINTER(c_uint64)),
    "tlc_worker_set_codec": (_status, _object, c_size_t, c_char_p),
    "tlc_worker_outcome": (_status, _object, c_uint32, POINTER(Outcome)),
    "tlc_server_push": (_status, _object, Message, POINTER(PushInfo)),
    "tlc_server_ready": (c_int, _object),
    "tlc_server_reduce": (_status, _object),
    "tlc_server_owned_frames": (_status, _object, _message, c_void_p),
    "tlc_server_reduce_rest": (_status, _object, POINTER(c_ubyte)),
    "tlc_server_answer": (_status, _object, _lists, _message),
    "tlc_server_answer_frames": (_status, _object, _lists, _message, _message),
    "tlc_server_taken": (_status, _object, c_uint32, POINTER(c_uint64)),
    "tlc_server_set_codec": (_status, _object, c_size_t, c_char_p),
    "tlc_allreduce_reduce": (_status, _object, _message, _message),
    "tlc_allreduce_owned_frames": (_status, _object, _message, _message, c_void_p),
    "tlc_allreduce_reduce_frames": (_status, _object, _message, _message, _message),
    "tlc_allreduce_average": (_status, _object, _message),
    "tlc_allreduce_answer": (_status, _object, _lists, _message),
    "tlc_pull_codec": (c_char_p, c_char_p),
    "tlc_allreduce_cancel": (_status, _object),
    "tlc_allreduce_set_codec": (_status, _object, c_size_t, c_char_p, c_char_p),
    "tlc_gossip_create": (_status, *_create, c_int, c_uint32, POINTER(c_uint32), POINTER(c_double), c_size_t,
                          *_tensors, _lists),
    "tlc_gossip_hello": (_status, _object, c_int, _message),
    "tlc_gossip_greet": (_status, _object, _message),
    "tlc_gossip_mean": (_values, _object, c_size_t),
    "tlc_gossip_model": (_values, _object, c_size_t),
    "tlc_gossip_push": (_status, _object, _lists, _message),
    "tlc_gossip_push_frames": (_status, _object, _lists, _message, _message),
    "tlc_gossip_pull": (_status, _object, _message),
    "tlc_gossip_lose": (_status, _object, c_size_t),
    "tlc_gossip_lost": (c_int, _object, c_size_t),
    "tlc_gossip_join": (_status, _object, c_uint64, _lists),
    "tlc_gossip_set_codec": (_status, _object, c_size_t, c_char_p),
    **{f"tlc_local_{verb}": (_status, POINTER(LocalConfig), POINTER(LocalTensor), *more)
       for verb, more in {"change": (_values,), "outer": (_values,), "start": ()}.items()},
    "tlc_graph_neighbours": (_status, POINTER(Graph), c_uint32, POINTER(c_uint32), POINTER(c_double), c_size_t,
                             _size_out),
}


def declare(library: ctypes.CDLL) -> None:
    """Tells ctypes the types of all functions. AttributeError: the library lacks one."""
    for name, (result, *arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
