#!/bin/bash
# SPDX-License-Identifier: MIT
# The documents: a fenced block that names a file is lines of it, in README the whole file. Links lead to files and
# headings that are there. README has at most 200 lines, an example fewer than 80. What README says an example prints is
# in its output. The table of src/docs/python-versions.md has rows of tests that are there.
# documents.sh SOURCE_ROOT
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
python3 - "$1" <<'PYTHON'
import pathlib, re, sys
root = pathlib.Path(sys.argv[1])
errors = []
documents = [path for path in [*root.glob("*.md"), *root.glob(".github/**/*.md"), *root.glob("include/**/*.md"),
                               *root.glob("src/**/*.md"), *root.glob("tests/**/*.md"), *root.glob("bench/**/*.md")]]


def headings(path):
    """The anchors of a document, as GitHub makes them."""
    seen = {}
    for line in re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL).splitlines():
        if re.match("#+ ", line):
            name = re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")
            seen[name] = seen.get(name, -1) + 1
            yield f"{name}-{seen[name]}" if seen[name] else name


for path in documents:
    text, name = path.read_text(), path.relative_to(root)
    for kind, source, block in re.findall(r"^```(\w+) (\S+[./]\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if not (root / source).is_file():
            errors.append(f"{name}: a block is of {source}, which is not there")
        elif block not in (root / source).read_text() or name == pathlib.Path("README.md") and \
                block != (root / source).read_text():
            errors.append(f"{name}: the block of {source} is not what the file has")
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose)):
        if re.match("[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        to = (path.parent / target).resolve() if target else path
        if not to.exists():
            errors.append(f"{name}: {link}: there is no such file")
        elif anchor and anchor not in headings(to):
            errors.append(f"{name}: {link}: there is no such heading")

readme = (root / "README.md").read_text()
if readme.count("\n") > 200:
    errors.append(f"README.md: {readme.count(chr(10))} lines")
outputs = "".join(path.read_text() for path in root.glob("tests/examples/*.txt"))
for quoted in re.findall(r"`(step \d+: [^`]*)`", readme):
    if quoted not in outputs:
        errors.append(f"README.md: no example prints {quoted}")
for path in root.glob("tests/examples/*.[cp]*"):
    if path.read_text().count("\n") >= 80:
        errors.append(f"{path.relative_to(root)}: {path.read_text().count(chr(10))} lines")
    if not path.with_suffix(".txt").is_file():
        errors.append(f"{path.relative_to(root)}: there is no {path.stem}.txt")
print("\n".join(errors) or f"{len(documents)} documents")
sys.exit(bool(errors))
PYTHON
python3 "$1/tests/python/versions.py" --check
