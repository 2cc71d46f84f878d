# SPDX-License-Identifier: MIT
"""Reads tests/codecs.def, the list of stages and of the codecs that all tests run over."""
import os
import re
from collections import namedtuple

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'codecs.def')

# vectors: a line that only the golden vectors use; golden: None or (order, short name, whether all sizes)
Case = namedtuple('Case', 'text form golden vectors properties')

# kind: SHORT_NAME, QUANTIZER, PACKER or SHRINKER; parameters and facts: sets of words
Stage = namedtuple('Stage', 'name kind takes gives parameters facts')


def load():
    with open(PATH) as f:
        return re.sub(r'/\*.*?\*/', '', f.read(), flags=re.S).replace('\\\n', ' ')


def whole(found, source, macros):
    """found, which must be all lines of these macros"""
    assert len(found) == len(re.findall(r'^(?:%s)\(' % macros, source, re.M)), PATH + ': a line that cannot be read'
    return found


def stages():
    source = load()
    line = re.compile(r'^STAGE\("(.*?)", (\w+), "(\w+)", "(\w)", "(.*?)", (.*)\)$', re.M)
    return [Stage(name, kind, takes, gives, set(keys.split()), set(facts.split(' | ')) - {'0'})
            for name, kind, takes, gives, keys, facts in whole(line.findall(source), source, 'STAGE')]


def read():
    source = load()
    groups = dict(re.findall(r'^#define (\w+) (.*)$', source, re.M))

    def expand(words):
        found = {}
        for word in (w.strip() for w in words.split(',')):
            key, is_field, value = word.partition(' = ')
            found.update({key[1:]: value} if is_field else expand(groups[word]))
        return found
    cases = []
    line = re.compile(r'^(CODEC|VECTORS)\("(.*?)", "(.*?)", "(.*?)", (.*)\)$', re.M)
    for kind, text, form, golden, words in line.findall(source):
        how, order, short = golden.split() if golden else ('', 0, '')
        cases.append(Case(text, form, (int(order), short, how == 'all') if golden else None, kind == 'VECTORS',
                          expand(words)))
    whole(re.findall(r'^\w+\(', source, re.M), source, 'STAGE|CODEC|VECTORS')
    return whole(cases, source, 'CODEC|VECTORS')


def golden():
    """the codecs with golden vectors in their order: (short name, string, whether all sizes)"""
    found = sorted((c.golden, c.text) for c in read() if c.golden)
    assert [order for (order, _, _), _ in found] == list(range(1, len(found) + 1)), PATH + ': numbers of golden vectors'
    return [(short, text, full) for (_, short, full), text in found]


def words():
    """all names, keys, values and parameters in the codec strings"""
    return sorted({word for c in read() for word in re.split('[:+,]', c.text) + re.split('[:+,=]', c.text)})
