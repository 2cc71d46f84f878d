# SPDX-License-Identifier: MIT
"""Makes wheels for other machines of a source distribution: make_wheels.py SDIST FOLDER [PLATFORM]...

SDIST is what make_sdist.py has made. PLATFORM is a tag of TARGETS; without one, wheels for all of them are made. The
compiler is zig's, for every machine: the command in the environment variable ZIG, or "zig". It needs pip, setuptools
and wheel.
"""
import os
import subprocess
import sys
from pathlib import Path

TARGETS = {  # the oldest system that the tag allows is part of zig's target
    "manylinux_2_28_x86_64": "x86_64-linux-gnu.2.28",
    "manylinux_2_28_aarch64": "aarch64-linux-gnu.2.28",
    "macosx_11_0_x86_64": "x86_64-macos.11.0",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "win_amd64": "x86_64-windows-gnu",
}


def main(sdist, folder, *platforms):
    unknown = set(platforms) - set(TARGETS)
    if unknown:
        sys.exit(f"make_wheels.py makes wheels for {', '.join(TARGETS)}, not for {', '.join(sorted(unknown))}")
    for platform in platforms or TARGETS:
        compiler = f"{os.environ.get('ZIG', 'zig')} cc -target {TARGETS[platform]}"
        done = subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation",
                               "--wheel-dir", folder, str(Path(sdist).resolve())], text=True,
                              env={**os.environ, "CC": compiler, "THREELC_WHEEL_PLATFORM": platform},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            sys.exit(done.stdout)
        print(*Path(folder).glob(f"threelc-*-{platform}.whl"))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
