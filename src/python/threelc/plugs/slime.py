# SPDX-License-Identifier: MIT
"""The folders that slime publishes with --update-weight-mode delta, as one small file for each version: two hooks for
slime 0.3.1 and its patch of SGLang, where trainer and engines have no fast file system in common.

    trainer:   --custom-update-weight-post-write-path threelc.plugs.slime.publish --update-weight-delta-encoding xor
    engines:   --sglang-custom-pull-weights-pre-read-hook threelc.plugs.slime.receive

--update-weight-disk-dir is then a folder that all trainers share, and on each engine one of its own, new for each run.
The environment variable THREELC_SLIME_FOLDER names the one that leads to the engines: there the trainer leaves
weight_v000001.3lc and so on, beside and then renamed; the engines make the folders of them that SGLang reads. Checksums
are slime's: SGLang compares the weights.

A file is a bundle: JSON, then a frame for each tensor, in the order of "tensors". The JSON has "index", that is
model.safetensors.index.json, and "files": name -> {"metadata": that of the file, "tensors": name -> bytes of it}.
"""
from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import Any, Dict, Iterator, List

import numpy
import safetensors
import safetensors.numpy
import zstandard

from .. import _bundles
from .._errors import CorruptError, Status
from .._json import parsed
from . import _xor

__all__ = ["FOLDER", "publish", "receive"]

FOLDER = "THREELC_SLIME_FOLDER"
"""the environment variable"""

_INDEX = "model.safetensors.index.json"
_ENDING = ".3lc"
_LEVEL = 1  # of zstd, as slime has it
_NAME = re.compile(r"[\w.-]+\.safetensors")
_MOST = 65536  # bytes for each byte of a frame: it has 4 for 65,536 values, as slime sends only tensors that changed


def publish(args: Any, version_dir: str, rollout_engines: Any) -> None:
    """What slime calls, on each trainer, when all files of a version are written, and before the first one, with the
    folder of all versions, which is empty then."""
    if _rank():
        return
    folder, source = _folder(), Path(version_dir)
    if not source.name.startswith("weight_v"):
        for stale in folder.glob(f"weight_v*{_ENDING}*"):  # also what a run that was killed has left beside
            stale.unlink()
        return
    index = json.loads((source / _INDEX).read_bytes())
    encoding = index.get("metadata", {}).get("delta_encoding")
    if encoding != "xor":
        raise ValueError(f"{source} has the encoding {encoding}: set --update-weight-delta-encoding xor")
    files: Dict[str, Any] = {}
    frames: List[bytes] = []
    for path in sorted(source.glob("*.safetensors")):
        tensors = {}
        with safetensors.safe_open(path, "numpy") as file:
            for name in file.keys():
                changed = zstandard.ZstdDecompressor().decompress(file.get_tensor(name).tobytes())
                tensors[name] = len(changed)
                frames.append(_xor.compress(changed))
            files[path.name] = {"metadata": file.metadata(), "tensors": tensors}
    head = json.dumps({"index": index, "files": files}).encode()
    _write(folder / (source.name + _ENDING), _bundles.pack([head, *frames]))


def receive(source_dir: str, target_version: int) -> None:
    """What SGLang calls on each host, in each process, before it reads versions up to target_version."""
    folder = _folder()
    for version in range(1, target_version + 1):
        name = f"weight_v{version:06d}"
        target = Path(source_dir, name)
        if not (target / _INDEX).exists():
            _expand((folder / (name + _ENDING)).read_bytes(), target)


def _expand(message: bytes, target: Path) -> None:
    try:
        first, *frames = _bundles.unpack(message)
        head = parsed(bytes(first))
        index = json.dumps(head["index"]).encode()
        wanted = [(file, listed["metadata"] or {}, list(listed["tensors"].items()))
                  for file, listed in head["files"].items()]
        sizes = [size for _, _, tensors in wanted for _, size in tensors]
        if not all(_NAME.fullmatch(file) for file, _, _ in wanted) or len(sizes) != len(frames) or \
                any(type(size) is not int or size > len(frame) * _MOST for size, frame in zip(sizes, frames)):
            raise ValueError("names or sizes are wrong")
        if not all(isinstance(text, str) for _, metadata, _ in wanted for text in dict(metadata).values()):
            raise ValueError("metadata is not text")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptError(Status.CORRUPT, f"{target.name}{_ENDING} is not a version: {error}") from error
    target.mkdir(parents=True, exist_ok=True)
    rest: Iterator[memoryview] = iter(frames)
    for file, metadata, tensors in wanted:
        arrays = {}
        for name, size in tensors:
            changed = zstandard.ZstdCompressor(level=_LEVEL).compress(_xor.decompress(next(rest), size))
            arrays[name] = numpy.frombuffer(changed, numpy.uint8)
        _write(target / file, safetensors.numpy.save(arrays, metadata))
    _write(target / _INDEX, index)  # the last: with it the version is there


def _folder() -> Path:
    found = os.environ.get(FOLDER)
    if not found:
        raise RuntimeError(f"set {FOLDER} to the folder by which the trainer reaches the engines")
    return Path(found)


def _rank() -> int:
    import torch.distributed

    running = torch.distributed.is_available() and torch.distributed.is_initialized()
    return int(torch.distributed.get_rank()) if running else 0


def _write(path: Path, data: bytes) -> None:
    """When this returns, the file and its name outlast a power cut."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    with open(beside, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not every file system can
            raise
    finally:
        os.close(folder)
