# SPDX-License-Identifier: MIT
"""Compiles the kernels of Triton for GPUs that need not be here, and prints how many. test_kernels_sync.py runs it."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "python"))

import triton
from threelc.torch.kernels import _delta_triton, _xxh3, _xxh3_triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


def kernels():
    """Each with the types of its arguments, and its constants."""
    tile = {"TILE": _delta_triton.TILE}
    for pointer, packed in (("*u8", True), ("*i16", False)):
        yield _delta_triton._count, {"old": pointer, "new": pointer, "counts": "*i32", "n": "i64"}, \
            {**tile, "PACKED": packed}
        yield _delta_triton._list, {
            "old": pointer, "new": pointer, "starts": "*i64", "is_whole": "*i32", "positions": "*i64",
            "before": pointer, "after": pointer, "n": "i64"}, {**tile, "BLOCK": 65536, "PACKED": packed}
    for pointer, width, kind in (("*u8", 4, 0), ("*u8", 8, 0), ("*i16", 16, 0), ("*i32", 32, 1), ("*i64", 64, 2)):
        yield _delta_triton._apply, {"weights": pointer, "positions": "*i64", "values": pointer, "k": "i64"}, \
            {**tile, "WIDTH": width, "IS_FLOAT": width != 64, "ARE_VALUES": kind}
    yield _xxh3_triton._sums, {"words": "*i64", "found": "*i64", "table": "*i64", "pieces": "i64"}, {
        "PIECES": _xxh3_triton.PIECES, "WORDS": 1024, "LANES": 8, "STRIPES": 16, "START": 24, "SCRAMBLE_KEY": 128,
        "LAST_KEY": 121, "MERGE_KEY": 11, "LENGTH": _xxh3.PER_WORD * 1024 % 2**64}


count = 0
for target in GPUTarget("cuda", 90, 32), GPUTarget("hip", "gfx942", 64):
    for kernel, types, constants in kernels():
        triton.compile(ASTSource(kernel, {**types, **dict.fromkeys(constants, "constexpr")},
                                 {(kernel.arg_names.index(name),): value for name, value in constants.items()}),
                       target=target)
        count += 1
print(count, "kernels")
