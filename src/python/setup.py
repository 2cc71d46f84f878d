# SPDX-License-Identifier: MIT
"""pyproject.toml has the metadata. This adds what a wheel with a library in it needs: that of make_wheel.py, or one
that is compiled here, of a source distribution that make_sdist.py has made.

THREELC_WHEEL_PLATFORM: for which machines the wheel is; CC: the compiler. make_wheels.py sets both.
"""
import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent
made_for = os.environ.get("THREELC_WHEEL_PLATFORM")
native = HERE / "native" / "threelc.c"


class WithLibrary(Distribution):
    """Not for every machine."""

    def has_ext_modules(self):
        return True


class AnyPython(bdist_wheel):
    """For every Python 3, as the library is called by ctypes."""

    def get_tag(self):
        return "py3", "none", made_for or super().get_tag()[2]


class CompileLibrary(build_py):
    def run(self):
        super().run()
        platform = (made_for or sysconfig.get_platform()).replace("-", "_").split("_")[0]
        platform = {"win": "win32", "macosx": "darwin"}.get(platform, platform)
        version = {}
        exec((HERE / "threelc" / "_version.py").read_text(), version)
        name = version["soname"](platform=platform)
        folder = Path(self.build_lib, "threelc", "lib")
        folder.mkdir(parents=True, exist_ok=True)
        compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
        flags = {"win32": ["-DTLC_BUILD_DLL", "-s"], "darwin": [f"-Wl,-install_name,@rpath/{name}"]}
        with tempfile.TemporaryDirectory() as made:  # linkers for Windows write more than the library
            library = Path(made, name)
            subprocess.run([*compiler, "-O2", "-fvisibility=hidden", "-shared", str(native), "-o", str(library),
                            *flags.get(platform, ["-fPIC", "-s", f"-Wl,-soname,{name}", "-lm"])], check=True)
            shutil.copy(library, folder)


if native.exists():
    setup(distclass=WithLibrary, cmdclass={"bdist_wheel": AnyPython, "build_py": CompileLibrary})
elif made_for:
    setup(distclass=WithLibrary, cmdclass={"bdist_wheel": AnyPython})
else:
    setup()
