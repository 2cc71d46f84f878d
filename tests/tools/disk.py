# SPDX-License-Identifier: MIT
"""What a disk may have after a power cut between any two calls of a program, by what log_files.c saw of it.

A file has its bytes when it was synchronised, a folder its names when it was. Before that each folder, by itself, may
have the names of then or of now, or those of then without what was removed since. A file that was not synchronised has
other bytes than were written.
"""
import itertools
import os
import subprocess

TORN = b"torn"


class _Folder:
    def __init__(self):
        self.now, self.then, self.removed = {}, {}, set()

    def sync(self):
        self.then, self.removed = dict(self.now), set()

    def versions(self):
        """Names that it may have, without repetition."""
        found = []
        for names in self.then, {n: e for n, e in self.then.items() if n not in self.removed}, self.now:
            if names not in found:
                found.append(names)
        return found


class _File:
    def __init__(self, data=TORN):
        self.data = data


class Disk:
    """The folder that a program works in. files: paths and bytes that are there, on the disk, before it."""

    def __init__(self, files):
        self.root = _Folder()
        for path, data in files.items():
            *folders, name = path.split("/")
            at = self.root
            for folder in folders:
                at = at.now.setdefault(folder, _Folder())
            at.now[name] = _File(data)
        for folder in self._folders(self.root):
            folder.sync()

    def _folders(self, top):
        yield top
        for names in top.now, top.then:
            for entry in names.values():
                if isinstance(entry, _Folder):
                    yield from self._folders(entry)

    def _at(self, path):
        *folders, name = path.strip("/").split("/")
        at = self.root
        for folder in folders:
            at = at.now[folder]
        return at, name

    def call(self, what, path, other, kept):
        """Does what a line of the log says."""
        folder, name = self._at(path)
        if what == "write":
            folder.now.setdefault(name, _File()).data = TORN
            folder.removed.discard(name)
        elif what.startswith("sync "):
            folder.now[name].data = (kept / what[5:]).read_bytes()
        elif what == "sync-folder":
            (folder.now[name] if name else self.root).sync()
        elif what == "mkdir":
            folder.now[name] = _Folder()
        elif what == "rename":
            to, last = self._at(other)
            to.now[last] = folder.now.pop(name)
        elif what == "remove":
            del folder.now[name]
            folder.removed.add(name)
        else:
            raise AssertionError(what)

    def _trees(self, folder):
        """All that a folder may have: tuples of (name, bytes) and (name, tuple)."""
        for names in folder.versions():
            choices = []
            for name, entry in sorted(names.items()):
                below = self._trees(entry) if isinstance(entry, _Folder) else [entry.data]
                choices.append([(name, tree) for tree in below])
            yield from itertools.product(*choices)

    def states(self):
        """What the disk may have now if the power is cut."""
        return set(self._trees(self.root))


def logged(library, folder, log, command):
    """Runs a command that works in `folder`. Returns its process, and its calls: what, path, other path."""
    log.mkdir()
    environment = dict(os.environ, LD_PRELOAD=library, LOGGED=str(folder), LOG_FILES=str(log))
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, env=environment)
    calls = log / "calls"
    return done, [line.split("\t") for line in calls.read_text().splitlines()] if calls.exists() else []


def lay_out(tree, folder):
    """Writes a state to a folder that is not there yet."""
    folder.mkdir()
    for name, entry in tree:
        if isinstance(entry, bytes):
            (folder / name).write_bytes(entry)
        else:
            lay_out(entry, folder / name)
