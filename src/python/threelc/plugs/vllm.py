# SPDX-License-Identifier: MIT
"""An engine of vLLM's weight transfer (vLLM 0.33) for trainers that know what changed. Its messages go with the calls
of vLLM's control plane, over HTTP or Ray: no NCCL group between trainer and servers, which may be at another site.

Servers: call register() before the engine is made, as in a plugin of vLLM (entry point vllm.general_plugins), and start
them with WeightTransferConfig(backend="threelc"). Trainer:

    threelc.plugs.vllm.register()
    engine = WeightTransferTrainerFactory.trainer_init(TrainerInfo(rank=0), client=HTTPVLLMWeightSyncClient(url))
    engine.send_weights([SparseWeightPatch(name, indices, values, full_shape), ...])

It takes the patches of vLLM's sparse_nccl, and like that the servers begin with the checkpoint that the trainer begins
with. Values are the new weights, so a server needs no copy of the old ones.
"""
from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from vllm.distributed.weight_transfer.base import TrainerInitInfo, TrainerWeightTransferEngine, WeightTransferEngine, \
    WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory, WeightTransferTrainerFactory
from vllm.model_executor.model_loader.checkpoint_weight_patch import CheckpointWeightPatch, \
    load_checkpoint_weight_patches

from . import _patches

__all__ = ["BACKEND", "InitInfo", "TrainerEngine", "TrainerInfo", "UpdateInfo", "WorkerEngine", "register"]

BACKEND = "threelc"


@dataclass
class InitInfo(WeightTransferInitInfo):  # type: ignore[misc]
    """Nothing has to be set up."""


@dataclass
class UpdateInfo(WeightTransferUpdateInfo):  # type: ignore[misc]
    message: str
    """base64, as the control plane may be JSON"""


@dataclass
class TrainerInfo(TrainerInitInfo):  # type: ignore[misc]
    backend: ClassVar[str] = BACKEND


class WorkerEngine(WeightTransferEngine[InitInfo, UpdateInfo]):  # type: ignore[misc]
    init_info_cls = InitInfo
    update_info_cls = UpdateInfo
    supports_draft_weight_update = False

    def init_transfer_engine(self, init_info: InitInfo) -> None:
        pass

    def start_weight_update(self) -> None:
        pass  # patches change initialized weights in place

    def finish_weight_update(self) -> None:
        pass

    def receive_weights(self, update_info: UpdateInfo) -> None:
        """All patches are decoded before the first weight is written."""
        came, _ = _patches.unpack(base64.b64decode(update_info.message, validate=True))
        patches = [CheckpointWeightPatch(name=patch.name, shape=patch.shape, dtype=patch.values.dtype,
                                         values=patch.values.to(self.device), indices=patch.positions.to(self.device))
                   for patch in came]
        load_checkpoint_weight_patches(self.model, patches, validate_unique_indices=False)  # they rise

    def shutdown(self) -> None:
        pass


class TrainerEngine(TrainerWeightTransferEngine[TrainerInfo]):  # type: ignore[misc]
    init_info_cls = TrainerInfo

    @classmethod
    def trainer_init(cls, init_info: TrainerInfo, *, client: Any, source: Any = None) -> TrainerEngine:
        if source is not None:
            raise ValueError("give what changed to send_weights(), as for sparse_nccl; a source would never be sent")
        engine = cls(client=client, is_sender=init_info.is_sender, rank=init_info.rank)
        if engine.is_sender:
            client.init_weight_transfer_engine({})
        return engine

    def send_weights(self, patches: Iterable[Any] = ()) -> None:
        """patches: SparseWeightPatch of vLLM. None, or a rank that is not the sender: nothing is sent."""
        given = [_patches.Patch(patch.name, tuple(patch.full_shape), patch.indices, patch.values)
                 for patch in patches] if self.is_sender else []
        if given:
            message = base64.b64encode(_patches.pack(given)).decode()
            self.client.start_weight_update()
            self.client.update_weights({"message": message})
            self.client.finish_weight_update()


def register() -> None:
    """Tells vLLM of both engines; of each process once."""
    WeightTransferEngineFactory.register_engine(BACKEND, WorkerEngine)
    WeightTransferTrainerFactory.register_engine(BACKEND, TrainerEngine)
