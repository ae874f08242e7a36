"""Whether a JSON body has more records than it may, found before it is parsed. Pure.

Ten million empty objects are 30 MB of text, and gigabytes when they are parsed only to be refused.
The text is passed over once, with no memory, and no further than to the first record too many.
"""

from __future__ import annotations

import re
from typing import Final

from queue_rules.produce.byte_search import count

_TEXT: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_WHOLE: Final = (  # nothing in it opens: passed over as one
    _TEXT + rb'|\[[^][{}"]*+\]|\{(?:[^][{}"]++|' + _TEXT + rb")*+\}"
)
_PARTS: Final = re.compile(_WHOLE + rb'|[][{},"]', re.DOTALL)
_DEEP_PARTS: Final = re.compile(_WHOLE + rb'|[][{}"]', re.DOTALL)
_COMMA, _LIST, _OPENS, _QUOTE = ord(","), ord("["), b"[{", ord('"')
_MOST_PARTS: Final = 250_000
"""Looked at, in 0.1 s. Values that nest more than that are parsed: what a body becomes has a bound
of its own (`max_parsed_bytes`)."""
_USUAL_FIELDS: Final = 16
"""A request with fewer commas a record, and no more objects than it may have records, is not passed
over: its parts that are no records are few, and parsing finds them."""


def has_more(body: bytes, most: int, *, at: int) -> bool:
    """Whether a list at this depth has more than `most` elements.

    `at`: 1 for a body that is a list, 2 for lists in a body that is an object. Of a body that is no
    JSON it may say either.
    """
    usual = count(body, b",") < most * _USUAL_FIELDS and count(body, b"{") <= most + 1
    return not usual and _passes(body, most, at)


def _passes(body: bytes, most: int, at: int) -> bool:
    depth = commas = begin = 0
    counts = False
    for _ in range(_MOST_PARTS):
        part = (_PARTS if depth <= at else _DEEP_PARTS).search(body, begin)
        if part is None:
            break
        start, begin = part.span()
        first = body[start]
        if begin - start > 1:
            if first == _LIST and depth == at - 1 and body.count(b",", start, begin) >= most:
                return True
        elif first == _COMMA:
            commas += counts and depth == at
            if commas >= most:
                return True
        elif first == _QUOTE:
            break  # a text without an end: no JSON
        elif first in _OPENS:
            depth += 1
            if depth == at:
                counts, commas = first == _LIST, 0
        else:
            depth -= 1
    return False
