# SPDX-License-Identifier: MIT
"""SkyRL's checkpoint deltas, smaller: in place of the functions of weight_sync.delta.payload of skyrl 0.4.0, at the
trainer and at all inference workers, before the first of them publishes:

    from skyrl.backends.skyrl_train.weight_sync.delta import checkpoint
    threelc.plugs.skyrl.install(checkpoint)

SkyRL has no setting for this, so its module gets other functions. Manifests, checksums and files are SkyRL's own.
"""
from __future__ import annotations

from types import ModuleType
from typing import Any, Optional

from . import _xor

__all__ = ["compress_bytes", "decompress_bytes", "install"]


def compress_bytes(data: Any, level: Optional[int] = None) -> bytes:
    """A frame of old bytes XOR new ones, which is all that SkyRL compresses. level: that of zstd, not used here."""
    return _xor.compress(data)


def decompress_bytes(data: Any, expected_size: int) -> bytes:
    """The same bytes. CorruptError, a ValueError: they are not as many, or the frame was altered."""
    return bytes(_xor.decompress(data, expected_size))


def install(*modules: ModuleType) -> None:
    """Gives modules of SkyRL these functions."""
    for module in modules:
        for function in compress_bytes, decompress_bytes:
            if not hasattr(module, function.__name__):
                raise AttributeError(f"{module.__name__} has no {function.__name__}: is it SkyRL's checkpoint_io?")
            setattr(module, function.__name__, function)
