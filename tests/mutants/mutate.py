# SPDX-License-Identifier: MIT
"""Makes mutants of C files: copies with one small mistake each. tests/mutants/run runs the tests on them.

A file is cut into tokens, and the bodies of its functions into statements and expressions. Only these are changed, and
the initialisers outside of functions: never types, declarators, comments, strings or preprocessor lines. The reader
knows the C of this library, in the form that tests/format gives it, and no more.

kind         the mistake
compare      < for <=, == for !=, and so on
arithmetic   + for -, * for /, << for >>, & for |; so in assignments, and ++ for --
logic        && for ||
not          no ! or ~ or minus
operand      an operand of && or || decides nothing
condition    of if, ?: or a loop: the contrary, always true, always false
constant     a number or a character, one more or one less
enumerator   the next one of its enum
drop         no statement; no entry of an initialiser
swap         two arguments of a call
return       another value: 0, one more, the contrary"""
import bisect
import hashlib
import re
from collections import Counter
from typing import NamedTuple

TOKEN = re.compile(r'''
    (?P<space>\s+|/\*.*?\*/|//[^\n]*|^[ \t]*\#(?:[^\n\\]|\\.)*)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<char>'(?:[^'\\\n]|\\.)*')
  | (?P<number>\.?[0-9](?:[eEpP][+-]|[0-9A-Za-z_.])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<mark>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|[-+*/%&|^<>=!]=|&&|\|\||[^\s\w])
''', re.VERBOSE | re.DOTALL | re.MULTILINE)

BRACKETS = {'(': ')', '[': ']', '{': '}'}
TYPE_WORDS = set('''void char short int long float double signed unsigned const volatile static struct union enum size_t
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t'''.split())
KEYWORDS = {'return', 'sizeof', 'case', 'else', '_Alignof'}

COMPARE = {'<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '=='}
ARITHMETIC = {'+': '-', '-': '+', '*': '/', '/': '*', '%': '/', '<<': '>>', '>>': '<<', '&': '|', '|': '&', '^': '&'}
ASSIGN = {'+=': '-=', '-=': '+=', '*=': '/=', '/=': '*=', '|=': '&=', '&=': '|='}
LOGIC = {'&&': '||', '||': '&&'}
COMMUTATIVE = {'tlc_memory_take', 'tlc_product', 'tlc_sum', 'tlc_smaller'}  # in the last two arguments
# what ends an operand of && and ||; and the condition of ?:
ENDS = {'?', ':', ',', ';', '=', 'return', *ASSIGN}


class Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


class Mutant(NamedTuple):
    id: str  # file:function:kind:hash of the line:number among those of which all this is the same
    file: str
    function: str
    kind: str
    start: int  # text[start:end] becomes `new`
    end: int
    new: str
    line: int  # counted from 1

    def apply(self, text):
        return text[:self.start] + self.new + text[self.end:]

    def diff(self, text):
        """The lines that change, as they are and as they become."""
        first = text.rfind('\n', 0, self.start) + 1
        last = text.find('\n', self.end)
        new = text[first:self.start] + self.new + text[self.end:last]
        return [sign + line for sign, lines in (('-', text[first:last]), ('+', new)) for line in lines.split('\n')]


def tokens_of(text):
    found = (Token(m.lastgroup, m.group(), m.start(), m.end()) for m in TOKEN.finditer(text))
    return [token for token in found if token.kind != 'space']


def pairs_of(tokens):
    """The index of the other bracket, for each bracket."""
    pairs, opened = {}, []
    for i, token in enumerate(tokens):
        if token.text in BRACKETS:
            opened.append(i)
        elif token.text in BRACKETS.values():
            pairs[i] = opened.pop()
            pairs[pairs[i]] = i
    return pairs


class Names:
    """What names in the files stand for: types, the enumerator that comes next, and macros that are constants."""

    def __init__(self, texts):
        self.types, self.next, self.constants = set(TYPE_WORDS), {}, set()
        for text in texts:
            for name in re.findall(r'^#define ([A-Z]\w*) (?:[0-9\']|\([A-Z0-9])', text, re.MULTILINE):
                self.constants.add(name)
            tokens = tokens_of(text)
            pairs = pairs_of(tokens)
            for i, token in enumerate(tokens):
                if token.text == 'typedef':
                    self.types.add(self.declared(tokens, pairs, i))
                if token.text == 'enum':
                    self.add_enum(tokens, pairs, i)

    @staticmethod
    def declared(tokens, pairs, i):
        """The name that a typedef declares: the last one before the semicolon, or before parameters."""
        name = ''
        while tokens[i].text != ';':
            if tokens[i].kind == 'name':
                name = tokens[i].text
            if tokens[i].text == '(':
                return name
            i = pairs[i] + 1 if tokens[i].text == '{' else i + 1
        return name

    def add_enum(self, tokens, pairs, i):
        while tokens[i].text not in ('{', ';', ')', ','):
            i += 1
        if tokens[i].text != '{':
            return
        members = [tokens[k].text for k in range(i + 1, pairs[i])
                   if tokens[k].kind == 'name' and tokens[k - 1].text in ('{', ',')]
        self.next.update(zip(members, members[1:] + members[:1]))


class Reader:
    """Reads a file and lists its mutants."""

    def __init__(self, file, text, names):
        self.file, self.text, self.names = file, text, names
        self.tokens = tokens_of(text)
        self.pairs = pairs_of(self.tokens)
        self.lines = [0] + [m.end() for m in re.finditer('\n', text)]
        self.hashes = self.line_hashes()
        self.function, self.returns = '', []
        self.mutants, self.seen, self.ids = [], set(), Counter()
        self.size = 0  # tokens that could be changed

    # ---- the list

    def line_of(self, position):
        return bisect.bisect(self.lines, position)

    def line_hashes(self):
        """By line: a hash of its tokens."""
        lines = {}
        for token in self.tokens:
            lines.setdefault(self.line_of(token.start), []).append(token.text)
        return {line: hashlib.sha256(' '.join(texts).encode()).hexdigest()[:6] for line, texts in lines.items()}

    def add(self, kind, first, last, new):
        """Tokens first .. last become `new`."""
        start, end = self.tokens[first].start, self.tokens[last].end
        if new == self.text[start:end] or (start, end, new) in self.seen:
            return
        self.seen.add((start, end, new))
        line = self.line_of(start)
        name = f'{self.file}:{self.function or "-"}:{kind}:{self.hashes[line]}'
        self.ids[name] += 1
        self.mutants.append(Mutant(f'{name}:{self.ids[name]}', self.file, self.function, kind, start, end, new, line))

    def span(self, first, last):
        return self.text[self.tokens[first].start:self.tokens[last].end]

    def is_text(self, i, *texts):
        return i < len(self.tokens) and self.tokens[i].text in texts

    # ---- outside of functions

    def read(self):
        i = begin = 0
        while i < len(self.tokens):
            if self.is_text(i, '{') and self.is_text(i - 1, ')'):
                name = self.pairs[i - 1] - 1
                self.function, self.returns = self.tokens[name].text, [t.text for t in self.tokens[begin:name]]
                self.block(i, True)
                i = begin = self.pairs[i] + 1
                self.function = ''
            elif self.is_text(i, '='):
                end = i
                while not self.is_text(end, ';'):
                    end = self.pairs[end] + 1 if self.tokens[end].text in BRACKETS else end + 1
                self.expression(i + 1, end)
                i = begin = end + 1
            else:
                begin = i + 1 if self.is_text(i, ';') else begin
                i += 1
        return self.mutants

    # ---- statements: each function begins at a token and returns the index after what it read

    def block(self, i, is_body=False):
        end = self.pairs[i]
        i += 1
        while i < end:
            i = self.statement(i, is_body and end)
        return end + 1

    def end_of(self, i):
        """The semicolon that ends a statement."""
        while not self.is_text(i, ';'):
            i = self.pairs[i] + 1 if self.tokens[i].text in BRACKETS else i + 1
        return i

    def statement(self, i, body_end=0):
        """body_end: where the function ends, if the statement may be its last."""
        word = self.tokens[i].text
        if word == '{':
            return self.block(i)
        if word == ';':
            return i + 1
        if word in ('if', 'while', 'switch'):
            return self.branch(i, word)
        if word == 'for':
            return self.loop(i)
        if word == 'else':
            return self.statement(i + 1)
        if word in ('case', 'default'):
            while not self.is_text(i, ':'):
                i += 1
            return i + 1
        end = self.end_of(i)
        if word == 'return':
            self.give_back(i + 1, end)
            self.expression(i + 1, end)
        elif self.is_declaration(i):
            self.declaration(i, end)
            return end + 1
        elif word not in ('break', 'continue', 'goto'):
            self.expression(i, end)
        if end + 1 != body_end:
            self.add('drop', i, end, ';')
        return end + 1

    def branch(self, i, word):
        close = self.pairs[i + 1]
        if word == 'if':
            self.decide(i + 2, close, True)
            self.contradict(i + 2, close)
        elif word == 'while':
            self.decide(i + 2, close, False)
        self.expression(i + 2, close)
        return self.statement(close + 1)

    def loop(self, i):
        close = self.pairs[i + 1]
        first = self.end_of(i + 2)
        second = self.end_of(first + 1)
        if self.is_declaration(i + 2):
            self.declaration(i + 2, first)
        else:
            self.expression(i + 2, first)
        if first + 1 < second:
            self.decide(first + 1, second, False)
        self.expression(first + 1, second)
        self.expression(second + 1, close)
        return self.statement(close + 1)

    def is_type(self, i):
        return self.tokens[i].text in self.names.types and not self.is_text(i - 1, '.', '->')

    def is_declaration(self, i):
        return self.is_type(i) and (self.tokens[i + 1].kind == 'name' or self.is_text(i + 1, '*'))

    def declaration(self, i, end):
        """Reads the initialisers, not the declarators."""
        inside = False
        while i < end:
            last = i
            while last < end and not self.is_text(last, ',', '='):
                last = self.pairs[last] + 1 if self.tokens[last].text in BRACKETS else last + 1
            if inside:
                self.expression(i, last)
            inside = self.is_text(last, '=')
            i = last + 1

    def give_back(self, i, end):
        """Other values for the tokens i .. end - 1, which are returned."""
        if i == end or (i + 1 == end and (self.tokens[i].kind == 'number' or self.tokens[i].text in self.names.next)):
            return  # the constant is changed elsewhere
        value, scalar = self.span(i, end - 1), self.returns[-1]
        if scalar == '*':
            self.add('return', i, end - 1, 'NULL')
        elif scalar == 'tlc_status':
            self.add('return', i, end - 1, f'(({value}), TLC_OK)')
        elif scalar == 'int':
            self.add('return', i, end - 1, f'!({value})')
        elif scalar in TYPE_WORDS:
            self.add('return', i, end - 1, f'({value}) + 1')
            self.add('return', i, end - 1, f'(({value}), 0)')

    # ---- expressions. first .. end - 1 are tokens

    def decide(self, first, end, both):
        """The condition is always false, or always true. It is evaluated all the same."""
        self.add('condition', first, end - 1, f'(({self.span(first, end - 1)}) && 0)')
        if both:
            self.add('condition', first, end - 1, f'(({self.span(first, end - 1)}) || 1)')

    def contradict(self, first, end):
        self.add('condition', first, end - 1, f'!({self.span(first, end - 1)})')

    def edge(self, i, step, low, high, ends):
        """The last token from i on, going by `step`, that is neither in `ends` nor the bracket around i."""
        brackets = BRACKETS.values() if step < 0 else BRACKETS
        while low <= i < high:
            text = self.tokens[i].text
            if text in ends or (text not in brackets and i in self.pairs):
                break
            i = self.pairs[i] + step if text in brackets else i + step
        return i - step

    def is_value(self, i, first):
        """Does a value end at token i?"""
        if i < first or self.tokens[i].text in KEYWORDS:
            return False
        if self.is_text(i, ')'):
            return not self.is_cast(self.pairs[i])
        return self.tokens[i].kind != 'mark' or self.is_text(i, ']')

    def is_cast(self, i):
        """Is this bracket a type in parentheses?"""
        return all(self.is_type(k) or self.is_text(k, '*') for k in range(i + 1, self.pairs[i])) and \
            not self.is_text(i - 1, 'sizeof', '_Alignof') and self.pairs[i] > i + 1

    def expression(self, first, end):
        self.size += end - first
        operands = {}
        i = first
        while i < end:
            token = self.tokens[i]
            if token.text == '(' and (self.is_cast(i) or self.is_text(i - 1, 'sizeof', '_Alignof')):
                i = self.pairs[i] + 1
                continue
            if token.kind in ('number', 'char'):
                self.constant(i)
            elif token.kind == 'name':
                self.name(i)
            elif token.kind == 'mark':
                self.mark(i, first, end, operands)
            i += 1
        for (low, high), neutral in operands.items():
            self.add('operand', low, high, f'(({self.span(low, high)}) {neutral})')

    def constant(self, i):
        text = self.tokens[i].text
        whole = re.fullmatch(r'(0[xX][0-9a-fA-F]+|[0-9]+)([uUlL]*)', text)
        real = re.fullmatch(r'([0-9]+)\.0(f?)', text)
        if whole:
            value, end = int(whole[1], 0), whole[2]
        elif real:
            value, end = int(real[1]), '.0' + real[2]
        elif text[0] == "'":
            self.add('constant', i, i, f'({text} + 1)')
            return
        else:
            return
        self.add('constant', i, i, f'{value + 1}{end}')
        if value:
            self.add('constant', i, i, f'{value - 1}{end}')

    def name(self, i):
        text = self.tokens[i].text
        if self.is_text(i - 1, '.', '->'):
            return
        if self.is_text(i - 1, '[') and self.is_text(i - 2, '{', ','):
            return  # a designator
        if text in self.names.next and not self.is_text(i + 1, '='):
            self.add('enumerator', i, i, self.names.next[text])
        if text in self.names.constants:
            self.add('constant', i, i, f'({text} + 1)')
            self.add('constant', i, i, f'({text} - 1)')

    def mark(self, i, first, end, operands):
        text = self.tokens[i].text
        binary = self.is_value(i - 1, first)
        for kind, table in (('compare', COMPARE), ('arithmetic', ASSIGN), ('logic', LOGIC)):
            if text in table:
                self.add(kind, i, i, table[text])
        if text in ARITHMETIC and binary:
            self.add('arithmetic', i, i, ARITHMETIC[text])
        if text in ('++', '--'):
            self.add('arithmetic', i, i, '--' if text == '++' else '++')
        if text in ('!', '~', '-') and not binary:
            self.add('not', i, i, '')
        if text in LOGIC:
            self.operands(i, first, end, operands)
        if text == '?':
            low = self.edge(i - 1, -1, first, end, ENDS)
            self.decide(low, i, True)
        if text == '(' and self.tokens[i - 1].kind == 'name' and self.tokens[i - 1].text not in KEYWORDS:
            self.arguments(i)
        if text == '{':
            self.entries(i)

    def operands(self, i, first, end, operands):
        """The operands of the && or || at i. If one is between both, it belongs to the &&."""
        neutral = '|| 1' if self.is_text(i, '&&') else '&& 0'
        for low, high in ((self.edge(i - 1, -1, first, end, ENDS | LOGIC.keys()), i - 1),
                          (i + 1, self.edge(i + 1, 1, first, end, ENDS | LOGIC.keys()))):
            if neutral == '|| 1' or (low, high) not in operands:
                operands[low, high] = neutral

    def items(self, i):
        """What is between the commas in a bracket: (first, last) tokens."""
        items, first, k = [], i + 1, i + 1
        while k <= self.pairs[i]:
            if self.is_text(k, ',') or k == self.pairs[i]:
                if first < k:
                    items.append((first, k - 1))
                first = k + 1
            k = self.pairs[k] + 1 if self.tokens[k].text in BRACKETS else k + 1
        return items

    def arguments(self, i):
        items = self.items(i)
        if self.tokens[i - 1].text in COMMUTATIVE:
            del items[-1]
        for (a, b), (c, d) in zip(items, items[1:]):
            self.add('swap', a, d, f'{self.span(c, d)}, {self.span(a, b)}')

    def entries(self, i):
        """Drops entries like `.a = b` of an initialiser with several of them."""
        items = self.items(i)
        for at, (first, last) in enumerate(items):
            if not self.is_text(first, '.') or len(items) == 1:
                continue
            if at:
                self.add('drop', first - 1, last, '')
            else:
                self.add('drop', first, last + 1, '')
