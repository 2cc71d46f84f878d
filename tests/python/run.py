# SPDX-License-Identifier: MIT
"""Runs the tests of files as TAP, for meson: run.py FILE... or run.py FILE TEST..., as run.py test_ddp.py Modules. Each
test is a line, so that CI counts them."""
import importlib
import os
import sys
import unittest
from pathlib import Path

if __name__ == "__main__":  # processes of a test import this file, too
    from tap import TAPTestRunner

    files = [Path(word).resolve() for word in sys.argv[1:] if word.endswith(".py")]
    path = files[0]
    folders = [str(path.parent), str(path.parents[2] / "src" / "python")]
    sys.path[:0] = folders
    # for the process that ranks are forked from, which imports these tests, too: see cluster.py
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])])
    runner = TAPTestRunner()
    runner.set_stream(True)
    runner.set_format("{method_name}")  # versions.py finds cases by it, not by what they say of themselves
    if len(files) == 1:
        unittest.main(module=importlib.import_module(path.stem), argv=sys.argv[1:], testRunner=runner)
    else:
        unittest.main(module=None, argv=[sys.argv[0], *(file.stem for file in files)], testRunner=runner)
