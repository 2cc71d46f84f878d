# SPDX-License-Identifier: MIT
"""Uses the package of a wheel: wheel_use.py [LIBRARY]...

LIBRARY: what must be loaded from a folder fresh/. There are no compiler, numpy and torch."""
import array
import importlib.util
import shutil
import sys

import threelc
import threelc.exchange

assert not any(map(shutil.which, ("cc", "gcc", "clang"))), "a compiler"
assert not any(map(importlib.util.find_spec, ("numpy", "torch"))), "numpy or torch"
values = array.array("f", [0.5, -2, 0, 1] * 1000)
frame = threelc.Context(len(values), "3lc:s=1.5", threads=2).compress(values)
out = array.array("f", bytes(4 * len(values)))
threelc.decompress(frame, out)
assert list(out[:4]) == [0, -3, 0, 0], out[:4]
mapped = [line.split()[-1] for line in open("/proc/self/maps") if ".so" in line]
for name in sys.argv[1:]:
    assert all("/fresh/" in path for path in mapped if name in path) and any(name in path for path in mapped), mapped
print(threelc.__version__, len(frame))
