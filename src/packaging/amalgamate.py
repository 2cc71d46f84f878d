#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes one file of all sources of the library, for builds that want no more than that.

    amalgamate.py SOURCE_ROOT FILE DEPFILE VERSION INCLUDES SOURCE...

FILE then has the sources, in this order, with the headers of src/ where they are first included, and xxhash.h of the
folder INCLUDES. The public headers are in threelc/ beside it. It compiles without flags, and needs libc alone. DEPFILE
tells ninja what it was made of.

Files have private names in common: static functions, types, constants. One that occurs in another file, too, gets the
name of its file behind it. Macros of a source are undefined where it ends.
"""
import re
import sys
from pathlib import Path

TOKEN = re.compile(r'''(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')'''
                   r'''|(?P<name>[A-Za-z_]\w*)|(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)|(?P<other>->|\s+|.)''', re.DOTALL)
INCLUDE = re.compile(r'^#include "([^"]+)"[^\n]*\n', re.MULTILINE)
PREFIXES = ('tlc_', 'TLC_')


def tokens(text):
    return [(found.lastgroup, found.group()) for found in TOKEN.finditer(text)]


def macros_of(text):
    return set(re.findall(r'^#\s*define (\w+)', text, re.MULTILINE))


def names_of(text):
    """The private names that a file defines outside of functions: functions, variables, types, tags and constants."""
    text = re.sub(r'^#(?:[^\n]*\\\n)*[^\n]*\n', '\n', text, flags=re.MULTILINE)
    words = [(kind, word) for kind, word in tokens(text) if kind != 'comment' and not word.isspace()]
    names, statement, depth, braces, before = set(), [], 0, [], ''
    for kind, word in words:
        if word == '{':
            braces.append(bool(statement) and 'enum' in [w for _, w in statement if w in ('enum', 'struct', 'union')])
            if depth == 0:
                names |= names_of_head(statement)
                statement = statement if set(w for _, w in statement) & {'typedef', 'enum', 'struct', 'union'} else []
            depth += 1
        elif word == '}':
            depth -= 1
            braces.pop()
            if depth == 0 and not any(w == 'typedef' for _, w in statement):
                statement = []
        elif depth == 0 and word == ';':
            names |= names_of_head(statement)
            statement = []
        elif depth == 0:
            statement.append((kind, word))
        elif depth == 1 and braces[-1] and kind == 'name' and before in ('{', ','):
            names.add(word)
        before = word
    return names


def names_of_head(statement):
    """Of what stands before { or ; outside of all braces."""
    words = [word for _, word in statement]
    names = {words[i + 1] for i, word in enumerate(words[:-1]) if word in ('struct', 'union', 'enum')}
    if 'typedef' in words:
        names.add(words[-1])
    for i, word in enumerate(words):
        if word in ('(', '=', '[') and i and statement[i - 1][0] == 'name':
            names.add(words[i - 1])
            if word != '(' or not words[i - 1].isupper():  # a macro with arguments may come before the name
                break
    return {name for name in names if re.match(r'[A-Za-z_]\w*$', name)}


def members_of(words):
    """Where names of members are, in declarations and in use."""
    real = [i for i, (kind, word) in enumerate(words) if kind != 'comment' and not word.isspace()]
    members, braces, head = set(), [], []
    for before, i, after in zip([0] + real, real, real[1:] + [real[-1]]):
        kind, word = words[i]
        if word == '{':
            braces.append('struct' in head or 'union' in head)
        elif word == '}' and braces:
            braces.pop()
        head = [] if word in ('{', '}', ';', ')') else head + [word]
        if kind == 'name' and (words[before][1] in ('.', '->') or
                               braces and braces[-1] and words[after][1] in (';', ',', '[', ':', ')')):
            members.add(i)
    return members


class File:
    def __init__(self, path):
        self.path = path
        self.text = path.read_text()
        self.is_source = path.suffix == '.c'
        self.name = re.sub(r'\W', '_', path.name if not self.is_source else path.stem)
        self.macros = macros_of(self.text)
        self.is_guarded = bool(re.search(r'^#ifndef TLC_\w+_H\n', self.text, re.MULTILINE))
        self.names = {name for name in names_of(self.text) | (set() if self.is_source else self.macros)
                      if not name.startswith(PREFIXES) and name not in KEYWORDS}
        self.words = {word for kind, word in tokens(self.text) if kind == 'name'}
        self.includes = [(path.parent / name).resolve() for name in INCLUDE.findall(self.text)]


KEYWORDS = set('''char const double enum extern float int long return short signed sizeof static struct union unsigned
void inline typedef defined _Static_assert __attribute__ uint8_t uint16_t uint32_t uint64_t int32_t int64_t
size_t'''.split())


def main(root, out, depfile, version, includes, sources):
    files = {}

    def load(path):
        if path not in files:
            files[path] = File(path)
            for other in files[path].includes:
                load(other)

    for source in sources:
        load(source)

    def visible(file, seen):
        for path in file.includes:
            if path not in seen:
                seen.add(path)
                visible(files[path], seen)
        return seen

    def renamed(file):
        """What the private names of a file and of its headers become."""
        definers = [files[path] for path in visible(file, set())] + [file]
        return {name: f'{name}_{d.name}' for d in definers for name in d.names
                if any(name in other.words for other in files.values() if other is not d)}

    included = set()

    def text_of(file, renames):
        words = tokens(file.text)
        members = members_of(words)
        result = [renames[word] if kind == 'name' and word in renames and i not in members else word
                  for i, (kind, word) in enumerate(words)]
        text = ''.join(result).replace('/* SPDX-License-Identifier: MIT */\n', '', 1)
        text = text.replace('/* SPDX-License-Identifier: MIT\n *\n * ', '/* ', 1)
        parts, at = [], 0
        for found in INCLUDE.finditer(text):
            parts += [text[at:found.start()], put((file.path.parent / found[1]).resolve(), renames)]
            at = found.end()
        return ''.join(parts + [text[at:]])

    def put(path, renames):
        file = files[path]
        if file.is_guarded:
            if path in included:
                return ''
            included.add(path)
            renames = renamed(file)
        return text_of(file, renames)

    parts = [HEAD % version]
    for source in sources:
        file = files[source]
        parts += [f'\n/* ==== {file.path.relative_to(root)} ==== */\n', text_of(file, renamed(file))]
        parts += [f'#undef {name}\n' for name in sorted(file.macros)]
    text = ''.join(parts)
    text = re.sub(r'^#include <threelc/([^>]+)>', r'#include "threelc/\1"', text, flags=re.MULTILINE)
    text = text.replace('#include <xxhash.h>\n', (includes / 'xxhash.h').read_text())
    folder = out.parent / 'threelc'
    folder.mkdir(parents=True, exist_ok=True)
    out.write_text(text)
    headers = [path for path in sorted((root / 'include' / 'threelc').glob('*.h')) if path.name != 'mpi.h']
    for header in headers:
        text = re.sub(r'^#include <threelc/([^>]+)>', r'#include "\1"', header.read_text(), flags=re.MULTILINE)
        (folder / header.name).write_text(text)
    depfile.write_text(f'{out}: {" ".join(map(str, [*files, *headers, includes / "xxhash.h"]))}\n')


HEAD = '''\
/* libthreelc %s in one file, made by src/packaging/amalgamate.py. gcc and clang compile it without flags, beside its
 * headers in threelc/. It needs libc alone. xxHash, which has a license of its own, is where <xxhash.h> was included.
 *
 * SPDX-License-Identifier: MIT AND BSD-2-Clause
 */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" /* wrong where calls fail before they set results */
#endif
'''

if __name__ == '__main__':
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], Path(sys.argv[5]),
         [Path(source).resolve() for source in sys.argv[6:]])
