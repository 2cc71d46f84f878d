# SPDX-License-Identifier: MIT
"""Which library is loaded, and which are refused."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import threelc
from sentences import check_sentences
from threelc import Status, _library

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

    def test_found(self):
        """In the order that the module tells; of build directories the one whose library is newest."""
        package, name = self.folder / "src" / "python" / "threelc", _library.soname()
        package.mkdir(parents=True)
        built = [self.folder / f"build-{i}" / "src" / name for i in range(4)]
        for i, path in enumerate(built):
            path.parent.mkdir(parents=True)
            path.touch()
            os.utime(path, (100 - i % 3, 100 + i % 3))
            if i < 3:  # the last one is none
                (path.parents[1] / "build.ninja").touch()
        os.utime(built[3], (200, 200))
        with mock.patch.object(_library, "_HERE", package), mock.patch.dict(os.environ, THREELC_LIBRARY=""):
            self.assertEqual(_library.find(), name)
            (self.folder / "meson.build").touch()
            self.assertEqual(_library.find(), str(built[2]))
            for path in built[:3]:
                path.unlink()
            self.assertEqual(_library.find(), name)
            bundled = package / "lib" / name
            bundled.parent.mkdir()
            bundled.touch()
            self.assertEqual(_library.find(), str(bundled))
            os.environ["THREELC_LIBRARY"] = "other.so"
            self.assertEqual(_library.find(), "other.so")

    def test_words(self):
        """What sentences say of what was given."""
        for thing, words in ((None, "None"), (True, "True"), (1.5, "1.5"), ("12", "'12'"), ([], "a list"),
                             ("x" * 57, repr("x" * 57)), ("x" * 58, "a str"), (object(), "an object")):
            self.assertEqual(_library.described(thing), words)

    def test_arguments(self):
        isa = "isa should be one of auto, scalar, avx2, avx512, neon, not "
        check_sentences(
            self,
            (lambda: _library.choice(threelc.Isa, "sse", "isa"), ValueError, isa + "'sse'"),
            (lambda: _library.choice(threelc.Isa, 5, "isa"), ValueError, isa + "5"),
            (lambda: _library.choice(threelc.Isa, None, "isa"), ValueError, isa + "None"),
            (lambda: _library.listed(b"ab", None, "frames", "messages"), TypeError,
             "frames should be a list of messages, not a bytes"),
            (lambda: _library.listed({}, None, "frames", "messages"), TypeError,
             "frames should be a list of messages, not a dict"),
            (lambda: _library.listed([1], 0, "frames", "messages"), ValueError,
             "frames should have 0 messages, not 1"),
            (lambda: _library.listed([1], 2, "messages", "messages"), ValueError, "2 messages are needed, not 1"),
            (lambda: _library.count(2**64, "n"), ValueError, f"n should be from 0 to 2^64 - 1, not {2**64}"),
            (lambda: _library.check(Status.TRANSPORT, b"gone"), threelc.Error, "gone"),
            (lambda: _library.check(Status.CORRUPT, b"caf\xe9"), threelc.CorruptError, "caf\ufffd"))
        self.assertEqual(_library.choice(threelc.Isa, "NEON", "isa"), _library.choice(threelc.Isa, 4, "isa"))
        self.assertEqual(_library.listed((1, 2), 2, "", ""), [1, 2])
        for number in 0, 2**64 - 1:
            self.assertEqual(_library.count(number, "n"), number)
        for status in Status:
            if status != Status.OK:
                with self.assertRaises(threelc.Error) as caught:
                    _library.check(status)
                self.assertEqual(caught.exception.status, status)
                self.assertEqual(str(caught.exception), _library.lib.tlc_status_string(status).decode())
        self.assertIs(type(caught.exception), threelc.BaseError)
        _library.check(Status.OK)

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
