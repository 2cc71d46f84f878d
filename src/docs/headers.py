#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Doxygen reads the public headers through this filter: headers.py HEADER.

The headers are written to be read as they are. This makes documentation comments of their comments:
- one before declarations belongs to all declarations up to the next empty line;
- one at the end of a line belongs to what is declared there;
- lines that are indented are shown as they are: they are drawings and tables;
- names of the library become links."""
import pathlib
import re
import sys

DECLARED = re.compile(r'^TLC_API .*?\b(tlc_\w+)\(|^typedef (?:enum|struct) (tlc_\w+)|^typedef .*\(\*(tlc_\w+)\)'
                      r'|^#define (TLC_\w+) |^ *(TLC_\w+)(?: = -?\d+)?,?(?: +/\*| *$)|[{,] (TLC_\w+) = ', re.M)


def declared(folder):
    """The names that all headers declare."""
    names = set()
    for header in folder.glob('*.h'):
        names.update(name for found in DECLARED.findall(header.read_text()) for name in found if name)
    return names


def declared_in(code):
    return next((name for found in DECLARED.findall(code) for name in found if name), None)


def escaped(text, names):
    """A line of a comment for Doxygen, which takes some characters for commands."""
    text = re.sub(r'([\\@#<>&])', r'\\\1', text)
    pieces = re.split(r'(`[^`]*`)', text)
    for i in range(0, len(pieces), 2):
        pieces[i] = re.sub(r'\b((?:tlc|TLC)_\w+)(?:\(\)|(?!\())',
                           lambda m: ('#' if m[1] in names else '') + m[1], pieces[i])
    return ''.join(pieces)


def body(lines, names):
    """The text of a comment. Indented lines are shown as they are. A line that begins with a word and a colon, after a
    sentence, begins a line there, too."""
    made, drawing = [], False
    for before, line in zip([''] + lines, lines):
        if drawing and line and not line.startswith('  '):
            made.append('@endverbatim')
            drawing = False
        if line.startswith('  ') and not drawing:
            made.append('@verbatim')
            drawing = True
        if drawing:
            made.append(line)
        else:
            starts = before.endswith(('.', ':')) and re.match(r'[\w*\[\], ]{1,50}: ', line)
            made.append(('<br>' if starts else '') + escaped(line, names))
    return made + ['@endverbatim'] * drawing


def text_of(comment):
    """The lines of /* ... */ without its marks."""
    lines = re.sub(r'^\s*/\*|\*/\s*$', '', comment, flags=re.S).split('\n')
    return [lines[0].strip()] + [re.sub(r'^\s*\*(?: |$)', '', line).rstrip() for line in lines[1:]]


class Header:
    """A header on its way through the filter."""

    def __init__(self, path):
        self.names = declared(path.parent)
        self.rest = path.read_text().split('\n')
        self.out = []
        self.section = False
        self.inside = False  # a struct or an enum
        self.shared = None  # the comment that declarations share
        self.owner = None  # which of them has it

    def whole(self, line):
        """A comment with all its lines."""
        while '*/' not in line:
            line += '\n' + self.rest.pop(0)
        return line

    def write(self, command, lines):
        self.out += ['/** ' + command] + body(lines, self.names) + ['*/']

    def end_section(self):
        if self.section:
            self.out.append('/** @} */')
        self.section = False

    def free_text(self):
        """A comment that belongs to no declaration, if it is next."""
        lines = list(self.rest)
        while lines and not lines[0]:
            lines.pop(0)
        if not lines or not lines[0].startswith('/* ') or lines[0].startswith('/* ----'):
            return []
        end = next(i for i, line in enumerate(lines) if '*/' in line)
        if lines[end + 1]:
            return []
        self.rest = lines[end + 1:]
        return text_of('\n'.join(lines[:end + 1]))

    def owner_of_comment(self):
        """The declaration that a comment describes: the first function that sets up no struct, or else the first of
        all."""
        found = []
        for line in self.rest[:self.rest.index('')]:
            name = declared_in(line.split('/*')[0])
            if name and re.match(r'TLC_API |typedef |#define ', line):
                found.append((name, 'TLC_API' in line and not name.endswith('_init') and '/*' not in line))
        return next((name for name, says in found if says), found[0][0] if found else None)

    def comment(self, line):
        if line.startswith('/* ----'):
            self.end_section()
            self.write('@name ' + line.strip('/*- '), [''] + self.free_text())
            self.out.append('/** @{ */')
            self.section = True
            return
        lines = text_of(self.whole(line))
        if lines[0].startswith('SPDX'):
            self.write('@file', lines[2:])
        elif self.rest and not self.rest[0]:
            self.write('@file', [''] + lines)
        else:
            self.shared, self.owner = lines, self.owner_of_comment()

    def declaration(self, line):
        """A line of code, perhaps with a comment after it."""
        code, said = line, None
        if '/*' in line:
            code, said = line.split('/*', 1)
            said = ' '.join(' '.join(text_of('/*' + self.whole(said))).split())
        name = declared_in(code) if re.match(r'TLC_API |typedef |#define ', code) else None
        if self.shared and name == self.owner:
            self.write('', self.shared)
        elif self.shared and name and said is None:
            struct = name[:-5] if name.endswith('_init') else None
            self.write('', ["Sets a %s to its defaults. struct_size: the caller's sizeof." % struct
                            if struct in self.names else 'It shares the comment of %s.' % self.owner])
        member = self.inside and re.match(r'    \w.*[;,\w]$', code)
        if said is None and re.match(r' +size_t struct_size;$', code):
            said = 'the sizeof of the caller'
        elif said is None and (member or re.match('typedef enum .*}', code)):
            said = '@undocumented'  # an unknown command: Doxygen itself does not ask for comments of all members
        self.inside = re.match(r'typedef (struct|enum) .*\{$', code) or self.inside and not code.startswith('}')
        if said is not None and said != '@undocumented':
            said = escaped(said, self.names)
        self.out.append(code + ('' if said is None else '/**< %s */' % said))

    def filtered(self):
        while self.rest:
            line = self.rest.pop(0)
            if line.startswith('/*'):
                self.comment(line)
            elif line.startswith(('static const ', '#define TLC_API')):  # not for the reader
                continue
            else:
                if not line:
                    self.shared = None
                if line == '#ifdef __cplusplus' and self.rest[0] == '}':
                    self.end_section()
                self.declaration(line)
        return '\n'.join(self.out)


if __name__ == '__main__':
    print(Header(pathlib.Path(sys.argv[1])).filtered())
