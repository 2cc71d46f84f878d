# SPDX-License-Identifier: MIT
"""pyproject.toml has the metadata. This adds what a wheel with a library in it needs, for make_wheel.py."""
import os

from setuptools import Distribution, setup
from wheel.bdist_wheel import bdist_wheel

platform = os.environ.get("THREELC_WHEEL_PLATFORM")


class WithLibrary(Distribution):
    """Not for every machine."""

    def has_ext_modules(self):
        return True


class AnyPython(bdist_wheel):
    """For every Python 3, as the library is called by ctypes."""

    def get_tag(self):
        return "py3", "none", platform


if platform:
    setup(distclass=WithLibrary, cmdclass={"bdist_wheel": AnyPython})
else:
    setup()
