# SPDX-License-Identifier: MIT
"""What seeds of the fuzz targets are made from: the golden vectors, the manifest, and arrays of the targets."""
import functools
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


@functools.lru_cache
def array(file, name):
    """the elements of an array of a target's source"""
    with open(os.path.join(HERE, file)) as f:
        return [e.strip() for e in re.search(r'\b%s\[\][^=]* = \{(.*?)\};' % name, f.read(), re.S)[1].split(',')]


def records(vectors, name):
    record = {}
    with open(os.path.join(vectors, name)) as f:
        for line in f:
            key, _, value = line.rstrip('\n').partition(' ')
            if key.startswith('#'):
                continue
            if not key and record:
                yield record
                record = {}
            elif key:
                record.setdefault(key, []).append('' if value == '-' else value)
    if record:
        yield record


def leb128(number):
    more = b''
    while number > 127:
        more += bytes([number & 127 | 128])
        number >>= 7
    return more + bytes([number])


def manifest():
    sys.path.insert(0, os.path.join(HERE, '..', 'vectors'))
    import manifest as module
    return module


@functools.lru_cache
def codec_list():
    """the codecs in the order in which inputs number them"""
    return [c.text for c in manifest().read() if not c.vectors]
