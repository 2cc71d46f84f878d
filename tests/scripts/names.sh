#!/bin/bash
# SPDX-License-Identifier: MIT
# Names in comments, docstrings and Markdown exist: those of C, C++ and Rust files, scripts and documents
# (codec/text.c, or text.c alone), and those of functions that begin with tlc_. Words in capitals, `*`, `...` and what
# follows a last _ stand for any letters (stages/NAME.c, tlc_..._init, tlc_state_). In Markdown, what is between ``` is
# not read, nor is a name in <> anywhere.
# names.sh SOURCE_ROOT
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
cd "$1"
exec python3 - <<'PYTHON'
import functools
import os
import re
import sys

# Files that are not in this repository: those of a reader or of another project.
OTHERS = {'example.c', 'fenv.h', 'float.h', 'xxhash.h'}
FILE = r'(?<![\w/.*{}$-])(?:\.\./)*([\w.*-][\w./*-]*\.(?:[ch](?:pp)?|rs|def|inc|md|py|sh))(?![\w*/(-]|\.\w)'
TOPS = ('include', 'src', 'bench', 'tests', '.ci', '.github')
C = ('.c', '.h', '.cpp', '.hpp', '.def', '.inc')
TEXTS = C + ('.md', '.py', '.sh')

paths, texts = [], {}
for top in ('.',) + TOPS:
    for folder, folders, names in os.walk(top):
        folders[:] = [] if top == '.' else [name for name in folders if name != '__pycache__']
        paths += [os.path.normpath(os.path.join(folder, name)) for name in names]
for path in paths:
    script = '.' not in os.path.basename(path) and os.path.getsize(path) < 1 << 20
    if path.endswith(TEXTS) or path.endswith('meson.build') or script:
        texts[path] = open(path, errors='replace').read()
ends = set()  # every end of every path
for path in paths:
    while path:
        ends.add(path)
        path = path.partition('/')[2]


def blank(text):
    return re.sub(r'[^\n]', '', text)


def comments(path, text):
    """The comments of a text. Other lines are empty."""
    if path.endswith('.md'):
        return re.sub(r'^```.*?^```', lambda found: blank(found[0]), text, flags=re.MULTILINE | re.DOTALL)
    if not path.endswith(C):
        # docstrings become comments
        text = re.sub(r'^ *""".*?"""', lambda found: re.sub('^', ' # ', found[0], flags=re.MULTILINE), text,
                      flags=re.MULTILINE | re.DOTALL)
        return '\n'.join((re.search(r'(?:^|\s)#[^!].*', line) or [''])[0] for line in text.split('\n'))
    kept, at = '', 0
    for found in re.finditer(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', text, re.DOTALL):
        kept += blank(text[at:found.start()])
        kept += found[0] if found[0].startswith('/*') else ''
        at = found.end()
    return kept


def pattern_of(name):
    """A pattern, if words of the name stand for others, or None."""
    capitals = '' if name.endswith('.md') else '[A-Z]+|'
    parts = re.split(r'(' + capitals + r'\*|\.\.\.|(?<=_)$)', name)
    if len(parts) == 1:
        return None
    return re.compile(''.join('[^ /]*' if i % 2 else re.escape(part) for i, part in enumerate(parts)))


words = set()
for path, text in texts.items():
    if path.endswith(C):
        text = re.sub(r'/\*.*?\*/', ' ', text, flags=re.DOTALL)
    if path.endswith(C + ('.py',)):
        words |= set(re.findall(r'\btlc_\w+', text))

@functools.lru_cache(None)
def exists(name, is_file):
    known, pattern = ends if is_file else words, pattern_of(name)
    return name in known if not pattern else any(pattern.fullmatch(one) for one in known)


errors = []
count = 0
for path, text in sorted(texts.items()):
    for number, line in enumerate(comments(path, text).split('\n'), 1):
        line = re.sub(r'<[^<>\s]*>|https?://\S+', ' ', line)
        for name in re.findall(FILE, line):
            count += 1
            if name not in OTHERS and not exists(name, True):
                errors.append('%s:%d: there is no file %s' % (path, number, name))
        for name in re.findall(r'\btlc_(?:\w|\*|\.\.\.)+', line):
            count += 1
            if not exists(name, False):
                errors.append('%s:%d: nothing is called %s' % (path, number, name))
print('\n'.join(errors) or '%d names exist' % count)
sys.exit(bool(errors))
PYTHON
