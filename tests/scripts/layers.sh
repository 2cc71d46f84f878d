#!/bin/bash
# SPDX-License-Identifier: MIT
# The includes of src/, and the imports of the Python package, keep to the floors that src/README.md lists, ground
# first. It is an error
#   - when a file includes a file of a higher floor, or calls a function of one,
#   - when files use each other in a circle: by includes, imports or calls. NAME.c and NAME.h of a folder are one file,
#   - when a folder with sources is not in the list, or a folder of the list has no sources,
#   - when a folder but src/kernels/ has more than 20 C files,
#   - when two files of src/ have the same name: an embedder may compile all of them in one folder.
# layers.sh [--report] SOURCE_ROOT [FOLDER...]
#   --report  prints the folders, how many includes go to other folders, and how many circles there are
#   FOLDER    of programs (bench), whose files may not use each other in a circle, either
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
report=
[[ ${1-} != --report ]] || { report=1; shift; }
cd "$1"
shift
exec python3 - "$report" "$@" <<'PYTHON'
import os
import re
import sys

MOST = 20  # C files in a folder
ROOMY = ('src/kernels',)
# By folder: what functions that other files see begin with.
PREFIX = {'include': 'tlc_', 'src': 'tlc_', **{folder: '' for folder in sys.argv[2:]}}

errors = []
report = sys.argv[1]
floors = []  # of the list in src/README.md: lines | `src/common/` | ... below the heading "Floors"
listed = False
for line in open('src/README.md'):
    if line.startswith('#'):
        listed = line.strip('# \n') == 'Floors'
    found = re.match(r'\| `([^`]+?)/?` \|', line)
    if listed and found:
        floors.append(found[1])

sources = []
for top in PREFIX:
    for folder, _, names in os.walk(top):
        sources += [os.path.join(folder, name) for name in names if name.endswith(('.c', '.h', '.def', '.inc'))
                or name.endswith('.py') and folder.startswith('src/python/threelc')]
sources.sort()
known = set(sources)
folders = {}
for path in sources:
    folders.setdefault(os.path.dirname(path), []).append(path)
in_list = {folder for folder in folders if folder.startswith(('include', 'src'))}

for floor in floors:
    if floor not in folders:
        errors.append('src/README.md: no sources are in ' + floor)
for folder in sorted(in_list - set(floors)):
    errors.append('src/README.md: %s is not in the list of floors' % folder)
for folder in sorted(in_list - set(ROOMY)):
    count = sum(not path.endswith('.py') for path in folders[folder])
    if count > MOST:
        errors.append('%s has %d files: more than %d do not fit on a screen' % (folder, count, MOST))

by_name = {}
for path in sources:
    if path.startswith('src/') and not path.endswith('.py'):
        by_name.setdefault(os.path.basename(path), []).append(path)
errors += ['the same name: ' + ' '.join(paths) for paths in by_name.values() if len(paths) > 1]


def height(path):
    folder = os.path.dirname(path)
    return floors.index(folder) if folder in floors else -1


def included_by(path, lines):
    """Number of the line and path of each file of ours that a file includes or imports."""
    for number, line in enumerate(lines, 1):
        found = re.match(r'\s*#\s*include\s+(?:"([^"]+)"|<(threelc/[^>]+)>)', line)
        if found:
            yield number, os.path.join(os.path.dirname(path), found[1]) if found[1] else 'include/' + found[2]
        found = re.match(r'from (\.+)([\w.]*) import (.*)', line)
        if found and path.endswith('.py'):
            folder = os.path.normpath(os.path.join(os.path.dirname(path), '../' * (len(found[1]) - 1)))
            for name in [found[2]] if found[2] else re.findall(r'\w+', found[3]):
                file = os.path.join(folder, name.replace(".", "/"))
                yield number, file + '/__init__.py' if os.path.isdir(file) else file + '.py'


def unit(path):
    """NAME.c and NAME.h of a folder are one file to those who use it."""
    return path if path.endswith('.py') else os.path.splitext(path)[0]


uses = {unit(path): {} for path in sources}  # by file: what it uses, and how
words, defined_in = {}, {}
across = {folder: 0 for folder in folders}  # includes of other folders
for path in sources:
    text = open(path).read()
    for number, included in included_by(path, text.splitlines()):
        included = os.path.normpath(included)
        if included not in known:
            errors.append('%s:%d: there is no %s' % (path, number, included))
            continue
        across[os.path.dirname(path)] += os.path.dirname(included) != os.path.dirname(path)
        if height(included) > height(path) >= 0:
            errors.append('%s:%d: includes %s of a higher floor' % (path, number, included))
        if unit(included) != unit(path):  # a template may include itself
            uses[unit(path)].setdefault(unit(included), 'includes ' + os.path.basename(included))
    if path.endswith('.c'):
        text = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', ' ', text, flags=re.DOTALL)
        words[path] = set(re.findall(r'(?<![.>\w])[a-z]\w+', text))
        for found in re.finditer(r'^([A-Za-z_][^;{}()=#]*?\b)(\w+)\([^;{}]*\)\s*\{', text, re.MULTILINE):
            if not re.search(r'\b(?:static|typedef)\b', found[1]) and found[2].startswith(PREFIX[path.split('/')[0]]):
                defined_in.setdefault(found[2], set()).add(path)

# Names that several files define belong to several programs or builds.
functions = {name: min(paths) for name, paths in defined_in.items() if len(paths) == 1}
for path, mentioned in words.items():
    for name in sorted(mentioned & set(functions)):
        callee = functions[name]
        if height(callee) > height(path) >= 0:
            errors.append('%s: calls %s of %s, of a higher floor' % (path, name, callee))
        if callee != path:
            uses[unit(path)].setdefault(unit(callee), 'calls ' + name)


def way_back(start):
    """The shortest way along which a file uses itself, or []."""
    came_from, ends = {}, [start]
    for at in ends:  # grows
        for used in sorted(uses[at]):
            if used == start:
                way = [at]
                while way[0] != start:
                    way.insert(0, came_from[way[0]])
                return way
            if used not in came_from:
                came_from[used] = at
                ends.append(used)
    return []


circles = set()
for start in sorted(uses):
    way = way_back(start)
    if way:
        first = way.index(min(way))
        circles.add(tuple(way[first:] + way[:first]))
for way in sorted(circles):
    ring = list(way) + [way[0]]
    errors.append('a circle: ' + ', '.join('%s %s' % (user, uses[user][used]) for user, used in zip(ring, ring[1:])))

if report:
    for folder in floors + sorted(set(folders) - set(floors)):
        if folder in folders:
            print('%-28s %3d files, %3d includes of other folders' % (folder, len(folders[folder]), across[folder]))
    print('%d folders, %d files, %d includes between folders, %d circles between files' %
          (len(folders), len(sources), sum(across.values()), len(circles)))
if not floors:
    errors = ['src/README.md: there is no list below the heading "Floors"']
print('\n'.join(errors) or '%d files keep to %d floors' % (len(sources), len(floors)))
sys.exit(bool(errors))
PYTHON
