"""Searches of a request's body, many times as fast as those of `bytes`. Pure.

`bytes` looks for one byte with `memchr`, and for two with a general search that takes more than a
nanosecond a byte: the searches of a body of half a megabyte took seven times as long as parsing it.
A body is looked at in pieces, so that a search needs no memory to speak of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

_SMALL: Final = 4_096
"""Below this, `bytes` is quicker: a view takes a microsecond to make."""
_PIECE: Final = 1 << 16
_QUOTE: Final = ord('"')


def count(body: bytes, byte: bytes) -> int:
    """How often `byte`, a single one, is in the body."""
    if len(body) < _SMALL:
        return body.count(byte)
    return sum(int(np.count_nonzero(piece == byte[0])) for piece in _pieces(body, 0))


def has_pair(body: bytes, pair: bytes) -> bool:
    """Whether the two bytes of `pair` follow each other somewhere in the body."""
    if pair[:1] not in body:
        return False
    if len(body) < _SMALL:
        return pair in body
    return any(
        np.any((piece[:-1] == pair[0]) & (piece[1:] == pair[1])) for piece in _pieces(body, 1)
    )


def without_texts(body: bytes) -> bytes:
    """What of a JSON body without backslashes is in no text; each text leaves a quotation mark."""
    kept, inside = [], np.False_
    for piece in _pieces(body, 0):
        quotes = piece == _QUOTE
        quotes[0] ^= inside
        texts = np.logical_xor.accumulate(quotes)
        kept.append(piece[~texts].tobytes())
        inside = texts[-1]
    return b"".join(kept)


def _pieces(body: bytes, more: int) -> Iterator[NDArray[np.uint8]]:
    """Neighbours, each with `more` bytes of the next."""
    view = np.frombuffer(body, np.uint8)
    for begin in range(0, len(view), _PIECE):
        yield view[begin : begin + _PIECE + more]
