# SPDX-License-Identifier: MIT
"""Which library is loaded, and which are refused."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import threelc
from threelc import _library

PACKAGE = Path(threelc.__file__).parent
PRINT = "import threelc, threelc._library as l; print(threelc.__version__, l.lib._name)"


class Library(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_python(self, path, code=PRINT, **environment):
        clean = {key: value for key, value in os.environ.items() if key not in ("THREELC_LIBRARY", "PYTHONPATH")}
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=self.folder,
                              env={**clean, "PYTHONPATH": str(path), **environment})

    def loaded(self, path, **environment):
        done = self.run_python(path, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()[1]

    def refused(self, path, words, **environment):
        done = self.run_python(path, **environment)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr.splitlines()[-1], words)

    def elsewhere(self):
        """The package alone, not in a source tree."""
        shutil.copytree(PACKAGE, self.folder / "site" / "threelc", ignore=shutil.ignore_patterns("__pycache__", "lib"))
        return self.folder / "site"

    def pretending(self, version):
        """A library that says it is another version."""
        path = self.folder / f"libpretending-{version}.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path)], text=True, check=True,
                       input=f'const char *tlc_version_string(void) {{ return "{version}"; }}')
        return str(path)

    def test_the_versions_agree(self):
        root = PACKAGE.parents[2]
        self.assertIn(f"version: '{threelc.__version__}'", (root / "meson.build").read_text())
        self.assertEqual(threelc._library.lib.tlc_version_string().decode(), threelc.__version__)

    def test_build_tree(self):
        if not any(PACKAGE.parents[2].glob(f"*/src/{_library.soname()}")):
            self.skipTest("the source tree has no build directory")
        self.assertIn(str(PACKAGE.parents[2]), self.loaded(PACKAGE.parent))

    def test_bundled_before_installed(self):
        site = self.elsewhere()
        (site / "threelc" / "lib").mkdir()
        bundled = site / "threelc" / "lib" / _library.soname()
        shutil.copy(_library.lib._name, bundled)
        self.assertEqual(self.loaded(site, LD_LIBRARY_PATH=str(Path(_library.lib._name).parent)), str(bundled))

    def test_installed(self):
        self.assertEqual(self.loaded(self.elsewhere(), LD_LIBRARY_PATH=str(Path(_library.lib._name).parent)),
                         _library.soname())

    def test_named(self):
        self.assertEqual(self.loaded(self.elsewhere(), THREELC_LIBRARY=_library.lib._name), _library.lib._name)

    def test_refused(self):
        site = self.elsewhere()
        self.refused(site, "ImportError: .*libthreelc was not found", THREELC_LIBRARY=str(self.folder / "nothing.so"))
        self.refused(site, "ImportError: libc.so.6 is not libthreelc", THREELC_LIBRARY="libc.so.6")
        for version in ("0.3.1", "0.99.0", "1.0.0"):
            self.refused(site, f"ImportError: .* is libthreelc {version}, but the Python package threelc "
                               f"{threelc.__version__} needs", THREELC_LIBRARY=self.pretending(version))

    def test_names(self):
        """As meson names the libraries: wheels for all platforms have them under these names."""
        for version, platform, name in (
                ("0.3.2", "linux", "libthreelc.so.0.3"), ("1.2.0", "linux", "libthreelc.so.1"),
                ("0.13.2", "darwin", "libthreelc.0.13.dylib"), ("2.0.0", "darwin", "libthreelc.2.dylib"),
                ("0.3.2", "win32", "libthreelc-0.3.dll"), ("1.2.0", "win32", "libthreelc-1.dll")):
            self.assertEqual(_library.soname(version, platform), name)

    def test_versions_that_fit(self):
        for found, package, fits in (
                ("0.3.2", "0.3.2", True), ("0.3.10", "0.3.2", True), ("0.3.1", "0.3.2", False),
                ("0.4.0", "0.3.2", False), ("0.13.2", "0.3.2", False), ("1.2.0", "1.1.9", True),
                ("1.0.9", "1.1.0", False), ("2.0.0", "1.9.0", False)):
            self.assertEqual(_library.fits(found, package), fits, (found, package))

    def test_without_torch_and_numpy(self):
        """Both are optional."""
        done = self.run_python(self.elsewhere(), THREELC_LIBRARY=_library.lib._name, code="""
import sys
sys.modules["torch"] = sys.modules["numpy"] = None
import array, threelc, threelc.exchange
values = array.array("f", [1, -1, 0] * 100)
out = array.array("f", bytes(1200))
threelc.decompress(threelc.Context(300).compress(values), out)
assert out == values
""")
        self.assertEqual(done.returncode, 0, done.stderr)
