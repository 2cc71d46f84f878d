# SPDX-License-Identifier: MIT
"""Copies of a module that has the hook: by copy.deepcopy(), pickle, torch.save(), or swa_utils.AveragedModel."""
from __future__ import annotations

from typing import Any

from .state import DDPState


class CopiedState:
    """What a copy has in place of the state. It exchanges nothing, as PyTorch gives a copied module no hook."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError("this is a copy of what register() returned, and exchanges nothing: call register() for the "
                           "copied module, and load_state_dict() with the state_dict() of the first")


def copied(state: DDPState) -> Any:
    """For copyreg."""
    return CopiedState, ()
