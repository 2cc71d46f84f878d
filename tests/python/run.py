# SPDX-License-Identifier: MIT
"""Runs the tests of a file as TAP, for meson: run.py FILE [TEST...]. Each test is a line, so that CI counts them."""
import importlib.util
import sys
import unittest
from pathlib import Path

from tap import TAPTestRunner

path = Path(sys.argv.pop(1)).resolve()
sys.path[:0] = [str(path.parent), str(path.parents[2] / "src" / "python")]
spec = importlib.util.spec_from_file_location(path.stem, path)
module = importlib.util.module_from_spec(spec)
sys.modules[path.stem] = module
spec.loader.exec_module(module)
runner = TAPTestRunner()
runner.set_stream(True)
unittest.main(module=module, argv=[str(path), *sys.argv[1:]], testRunner=runner)
