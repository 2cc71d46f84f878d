# SPDX-License-Identifier: MIT
"""Runs the tests of a file as TAP, for meson: run.py FILE [TEST...]. Each test is a line, so that CI counts them."""
import importlib
import os
import sys
import unittest
from pathlib import Path

if __name__ == "__main__":  # processes of a test import this file, too
    from tap import TAPTestRunner

    path = Path(sys.argv[1]).resolve()
    folders = [str(path.parent), str(path.parents[2] / "src" / "python")]
    sys.path[:0] = folders
    # for the process that ranks are forked from, which imports this test, too: see cluster.py
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])])
    runner = TAPTestRunner()
    runner.set_stream(True)
    runner.set_format("{method_name}")  # versions.py finds cases by it, not by what they say of themselves
    unittest.main(module=importlib.import_module(path.stem), argv=sys.argv[1:], testRunner=runner)
