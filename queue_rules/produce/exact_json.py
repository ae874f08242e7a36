"""JSON bodies in which nothing is changed silently: kept as it was sent, or refused. Pure.

orjson reads a number of too many digits as a float, and of a name that is there twice the last
counts. Both are rare, so its result is taken where it can be shown that nothing was lost: the
result says the body again, or the body has no number that could lose digits and as many colons as
the result. Else the body is read once more, slowly: numbers that do not fit stay the text that
they are, and a name that is there twice is refused.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import orjson

from lakequeue.errors import InvalidRequest, MalformedBody
from queue_rules.produce.byte_search import count, has_pair, without_texts

_NUMBER: Final = b"0123456789.eE+-"
_CLASSES: Final = bytes(ord("0") if byte in _NUMBER else ord(" ") for byte in range(256))
_LONG: Final = b"0" * 17
"""A number of fewer characters keeps all its digits as a float, or is an integer of 64 bits."""
_ODD: Final = re.compile(rb"-0(?![.\d])|\d[eE]-\d{3}")
"""Minus nothing, and numbers that may be so small that they are read as 0."""
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1


def loads(body: bytes) -> Any:
    """The parsed JSON; what Python cannot hold exactly is an `orjson.Fragment` in it.

    Raises `orjson.JSONDecodeError`, and `InvalidRequest` for a name that is there twice.
    """
    whole = orjson.loads(body)
    if _is_kept(body, whole):
        return whole
    del whole  # not two at a time
    return _slowly(body)


def _is_kept(body: bytes, whole: Any) -> bool:
    try:
        again = orjson.dumps(whole)
    except orjson.JSONEncodeError:
        return False  # it goes deeper than orjson writes; a value in it may not
    if again == body:
        return True
    if has_pair(body, b"\\u") and (b"\\u003a" in body or b"\\u003A" in body):
        return False  # a colon, escaped
    if count(body, b":") != count(again, b":"):
        return False
    if not _may_lose(body):
        return True
    # What looks like such a number is mostly a part of a text: of a UUID, say.
    return b"\\" not in body and not _may_lose(without_texts(body))


def _may_lose(body: bytes) -> bool:
    """Whether there is something that looks like a number of which orjson keeps a part."""
    # Written out: generators would take as long as the searches, for a body of one record.
    odd = has_pair(body, b"-0") or has_pair(body, b"e-") or has_pair(body, b"E-")
    if odd and _ODD.search(body) is not None:
        return True
    return _LONG in body.translate(_CLASSES)


def _slowly(body: bytes) -> Any:
    repeated: list[tuple[dict[str, Any], str]] = []

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs) and not repeated:
            counted = Counter(name for name, _ in pairs)
            repeated.append((found, next(n for n, times in counted.items() if times > 1)))
        return found

    try:
        whole = json.loads(
            body.decode(), parse_int=_integer, parse_float=_float, object_pairs_hook=object_of
        )
    except (ValueError, RecursionError) as e:
        raise MalformedBody(
            f"the body is not JSON: {e}", hint="nest it less deeply", stored="no"
        ) from None
    for found, name in repeated:
        raise _refusal(whole, found, name)
    return whole


def _integer(text: str) -> int | orjson.Fragment:
    number = int(text) if len(text) <= 20 else _MOST + 1
    return number if _LEAST <= number <= _MOST and text != "-0" else orjson.Fragment(text)


def _float(text: str) -> float | orjson.Fragment:
    number = float(text)
    try:
        kept = Decimal(repr(number)) == Decimal(text)
    except InvalidOperation:  # an exponent of twenty digits
        kept = False
    return number if kept else orjson.Fragment(text)


def _refusal(whole: Any, found: dict[str, Any], name: str) -> InvalidRequest:
    path = _path_to(whole, found) or []
    extra: dict[str, Any] = {}
    if path[:1] == ["records"]:
        path = path[1:]
    if path and isinstance(path[0], int):
        extra, path = {"record": path[0]}, path[1:]
    field = next((str(part) for part in path), name)[:100]
    where = f"record {extra['record']}: " if extra else ""
    return InvalidRequest(
        f"{where}the name {name[:100]!r} is there twice in one object, and only one could be kept",
        hint="send each name once, or the object as text",
        stored="no",
        field=field,
        **extra,
    )


def _path_to(whole: Any, found: dict[str, Any]) -> list[Any] | None:
    """Names and positions that lead to an object. One path is kept, that of where the search is."""
    path: list[Any] = []
    open_ = [_inner(whole)]
    while open_:
        for name, value in open_[-1]:
            if value is found:
                return [*path, name]
            if isinstance(value, dict | list):
                path.append(name)
                open_.append(_inner(value))
                break
        else:
            open_.pop()
            del path[-1:]
    return None


def _inner(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        return iter(value.items())
    return enumerate(value) if isinstance(value, list) else iter(())
