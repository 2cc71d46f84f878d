# SPDX-License-Identifier: MIT
"""Types that stand for those of projects that threelc.plugs are for, where these are not installed."""
import importlib.util
import json
import sys
import types
import zlib
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy


MISSING = [name for name in ("safetensors", "vllm", "zstandard") if importlib.util.find_spec(name) is None]


def stand_in(test, modules):
    """For those of projects that are missing, until the test ends."""
    for module in modules:
        parts = module.__name__.split(".")
        if parts[0] in MISSING:
            for i in range(1, len(parts)):
                put(test, made(".".join(parts[:i])))
            put(test, module)


def put(test, module):
    if module.__name__ not in sys.modules:
        sys.modules[module.__name__] = module
        test.addCleanup(sys.modules.pop, module.__name__)


def made(name, **members):
    module = types.ModuleType(name)
    vars(module).update(members)
    return module


# ---- slime: safetensors and zstandard ----

class Compressor:
    def __init__(self, level):
        self.level = level

    def compress(self, data):
        return zlib.compress(data, self.level)


class Decompressor:
    def decompress(self, data):
        return zlib.decompress(data)


def save(arrays, metadata=None):
    """The format of safetensors, of arrays of bytes."""
    head, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, array in arrays.items():
        head[name] = {"dtype": "U8", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(array.tobytes() for array in arrays.values())


def save_file(arrays, path, metadata=None):
    Path(path).write_bytes(save(arrays, metadata))


class safe_open:  # as safetensors has it
    def __init__(self, path, framework):
        data = Path(path).read_bytes()
        length = int.from_bytes(data[:8], "little")
        self.head, self.data = json.loads(data[8:8 + length]), data[8 + length:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def keys(self):
        return [name for name in self.head if name != "__metadata__"]

    def metadata(self):
        return self.head.get("__metadata__")

    def get_tensor(self, name):
        first, last = self.head[name]["data_offsets"]
        return numpy.frombuffer(self.data[first:last], "u1")


NUMPY = made("safetensors.numpy", save=save, save_file=save_file)
SLIME = (made("safetensors", safe_open=safe_open, numpy=NUMPY), NUMPY,
         made("zstandard", ZstdCompressor=Compressor, ZstdDecompressor=Decompressor))


# ---- vLLM ----

Init, Update = TypeVar("Init"), TypeVar("Update")


class WeightTransferEngine(Generic[Init, Update]):
    def __init__(self, config, configuration, device, model):
        self.device, self.model = device, model

    def parse_init_info(self, told):
        return self.init_info_cls(**told)

    def parse_update_info(self, told):
        return self.update_info_cls(**told)


class TrainerEngine(Generic[Init]):
    def __init__(self, *, client, is_sender, rank):
        self.client, self.is_sender, self.rank = client, is_sender, rank


@dataclass
class InitInfo:
    pass


@dataclass
class TrainerInitInfo:
    rank: int

    @property
    def is_sender(self):
        return self.rank == 0


class Factory:
    def __init__(self):
        self.engines = {}

    def register_engine(self, backend, engine):
        if backend in self.engines:
            raise ValueError(f"{backend} is already registered")
        self.engines[backend] = engine

    def create_engine(self, config, configuration, device, model):
        return self.engines[config.backend](config, configuration, device, model)

    def trainer_init(self, info, **arguments):
        return self.engines[info.backend].trainer_init(info, **arguments)


def load_patches(model, patches, validate_unique_indices=True):
    if validate_unique_indices:
        raise AssertionError("these rise, and need not be sorted once more")
    for patch in patches:
        whole = patch.values.new_zeros(patch.shape)
        whole.view(-1)[patch.indices] = patch.values.to(patch.dtype)
        model.load_weights([(patch.name, whole)])


def vllm():
    """New ones: nothing is registered."""
    transfer = "vllm.distributed.weight_transfer"
    return (
        made(f"{transfer}.base", TrainerInitInfo=TrainerInitInfo, TrainerWeightTransferEngine=TrainerEngine,
             WeightTransferEngine=WeightTransferEngine, WeightTransferInitInfo=InitInfo,
             WeightTransferUpdateInfo=InitInfo),
        made(f"{transfer}.factory", WeightTransferEngineFactory=Factory(), WeightTransferTrainerFactory=Factory()),
        made(f"{transfer}.sparse_nccl_engine",
             SparseWeightPatch=namedtuple("SparseWeightPatch", "name indices values full_shape")),
        made("vllm.config.weight_transfer", WeightTransferConfig=namedtuple("WeightTransferConfig", "backend")),
        made("vllm.model_executor.model_loader.checkpoint_weight_patch",
             CheckpointWeightPatch=namedtuple("CheckpointWeightPatch", "name shape dtype values indices"),
             load_checkpoint_weight_patches=load_patches))
