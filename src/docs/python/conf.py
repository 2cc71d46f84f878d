# SPDX-License-Identifier: MIT
"""Sphinx makes the reference of the Python package from its docstrings, which are plain text: what help() shows."""
import importlib.util
import os
import re
import sys

from sphinx.util import logging

sys.path.insert(0, os.path.abspath("../../python"))
project = "threelc"
extensions = ["sphinx.ext.autodoc"]
html_theme = "alabaster"
html_theme_options = {"description": "Makes the tensors of distributed training smaller", "page_width": "1100px",
                      "sidebar_width": "240px"}
html_show_copyright = False
html_copy_source = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_mock_imports = [name for name in ("torch", "torchft", "flwr") if importlib.util.find_spec(name) is None]

FIELD = re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*): +(?=\S)")  # a parameter and what it is


def escaped(text):
    """Plain text, of which reStructuredText takes nothing for a command."""
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def paragraph(lines):
    """The lines of one paragraph as reStructuredText."""
    if lines[0].startswith((" ", ">>>")) or sum("  " in line.strip().replace(":  ", ": ") for line in lines) > 1:
        return ["::", "", *("    " + line for line in lines)]
    first = FIELD.match(lines[0])
    if not first or len(lines) > 1 and not (FIELD.match(lines[1]) or lines[1].startswith(" ")):
        return [escaped(line) for line in lines]
    made = []
    for line in lines:
        name = FIELD.match(line)
        if name and not line.startswith(" "):
            made += [f"**{name.group(1).strip()}**", "    " + escaped(line[name.end():])]
        else:
            made.append("    " + escaped(line.strip()))
    return made


def plain(app, what, name, obj, options, lines):
    """Replaces a docstring by reStructuredText. Every public name has one."""
    if not any(lines):
        logging.getLogger(__name__).warning("%s %s has no docstring", what, name)
    made, block = [], []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            made += [*paragraph(block), ""]
            block = []
    lines[:] = made


def setup(app):
    app.connect("autodoc-process-docstring", plain)
