#!/bin/bash
# SPDX-License-Identifier: MIT
# The includes of src/, and the imports of the Python package, keep to the floors that src/README.md lists, ground
# first. It is an error
#   - when a file includes a file of a higher floor,
#   - when files include each other in a circle,
#   - when a folder with sources is not in the list, or a folder of the list has no sources,
#   - when two files of src/ have the same name: an embedder may compile all of them in one folder.
# layers.sh SOURCE_ROOT
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
cd "$1"
exec python3 - <<'PYTHON'
import os
import re
import sys

errors = []
floors = []  # of the list in src/README.md: lines | `src/common/` | ... below the heading "Floors"
listed = False
for line in open('src/README.md'):
    if line.startswith('#'):
        listed = line.strip('# \n') == 'Floors'
    found = re.match(r'\| `([^`]+?)/?` \|', line)
    if listed and found:
        floors.append(found[1])

sources = []
for top in ('include', 'src'):
    for folder, _, names in os.walk(top):
        sources += [os.path.join(folder, name) for name in names if name.endswith(('.c', '.h', '.def', '.inc'))
                or name.endswith('.py') and folder.startswith('src/python/threelc')]
sources.sort()

for floor in floors:
    if not any(os.path.dirname(path) == floor for path in sources):
        errors.append('src/README.md: no sources are in ' + floor)
for folder in sorted({os.path.dirname(path) for path in sources} - set(floors)):
    errors.append('src/README.md: %s is not in the list of floors' % folder)

by_name = {}
for path in sources:
    if path.startswith('src/') and not path.endswith('.py'):
        by_name.setdefault(os.path.basename(path), []).append(path)
errors += ['the same name: ' + ' '.join(paths) for paths in by_name.values() if len(paths) > 1]


def height(path):
    folder = os.path.dirname(path)
    return floors.index(folder) if folder in floors else -1


def included_by(path):
    """Number of the line and path of each file of ours that a file includes or imports."""
    for number, line in enumerate(open(path), 1):
        found = re.match(r'\s*#\s*include\s+(?:"([^"]+)"|<(threelc/[^>]+)>)', line)
        if found:
            yield number, os.path.join(os.path.dirname(path), found[1]) if found[1] else 'include/' + found[2]
        found = re.match(r'from (\.+)([\w.]*) import (.*)', line)
        if found and path.endswith('.py'):
            folder = os.path.normpath(os.path.join(os.path.dirname(path), '../' * (len(found[1]) - 1)))
            for name in [found[2]] if found[2] else re.findall(r'\w+', found[3]):
                file = os.path.join(folder, name.replace(".", "/"))
                yield number, file + '/__init__.py' if os.path.isdir(file) else file + '.py'


includes = {}
for path in sources:
    includes[path] = []
    for number, included in included_by(path):
        included = os.path.normpath(included)
        if included not in sources:
            errors.append('%s:%d: there is no %s' % (path, number, included))
        elif height(included) > height(path) >= 0:
            errors.append('%s:%d: includes %s of a higher floor' % (path, number, included))
        elif included != path:  # a template may include itself
            includes[path].append(included)

# A depth-first walk; a file that is met again on the way to it closes a circle.
done = set()


def walk(path, way):
    if path in way:
        errors.append('a circle: ' + ' -> '.join(way[way.index(path):] + [path]))
    elif path not in done:
        for included in includes[path]:
            walk(included, way + [path])
        done.add(path)


for path in sources:
    walk(path, [])
if not floors:
    errors = ['src/README.md: there is no list below the heading "Floors"']
print('\n'.join(errors) or '%d files keep to %d floors' % (len(sources), len(floors)))
sys.exit(bool(errors))
PYTHON
