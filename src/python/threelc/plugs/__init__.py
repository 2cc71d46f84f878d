# SPDX-License-Identifier: MIT
"""What changed in a model, for code bases that send it already: each module here makes its messages smaller, without
loss, with deltas of this library. It is imported only when it is asked for.

    threelc.plugs.vllm      an engine of vLLM's weight transfer that needs no network of GPUs
    threelc.plugs.verl      the flushes of verl's delta_sync
    threelc.plugs.nemo_rl   the payloads of NeMo-RL's encode_sparse_infos
    threelc.plugs.slime     the folders that slime publishes, and SGLang pulls
    threelc.plugs.skyrl     the bytes of SkyRL's checkpoint deltas

src/docs/plugs.md has what was run, with which version.
"""
