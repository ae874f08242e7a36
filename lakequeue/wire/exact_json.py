"""JSON in which nothing is changed silently: what cannot be kept is refused. Pure.

orjson writes NaN and infinities as null, refuses integers beyond 64 bits, and reads them as floats;
pydantic's parser reads them exactly.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import secrets
from collections.abc import Iterator
from enum import Enum
from typing import Any

import orjson
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, from_json

from lakequeue.errors import InvalidRequest

_HINTS = {
    "Decimal": "str(x) keeps every digit, float(x) does not",
    "ndarray": "array.tolist(), or array.tobytes() as bytes",
    "set": "a list",
    "frozenset": "a list",
    "bytes": "bytes are a value by themselves; within JSON send base64 text",
}
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9][0-9.eE+-]*')
"""A text, or a number."""
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
_LEAST_DIGITS, _MOST_DIGITS = 19, 4_300
"""Characters of an integer that is too large for 64 bits; Python reads no more digits."""
_WHAT = "send bytes, text, or what JSON can hold"


def dumps_exactly(given: Any) -> bytes:
    """`given` as JSON. Raises `InvalidRequest` for what JSON cannot hold as it is.

    A pydantic model is what it says itself that it is in JSON.
    """
    # Pydantic's own look takes as long as to write a small object.
    if type(given) is not dict and isinstance(given, BaseModel):
        given = _dumped(given)
    try:
        data = orjson.dumps(given)
    except (orjson.JSONEncodeError, TypeError) as e:
        if "64-bit" not in str(e):
            raise _refusal(given, str(e)) from e
        _check(given)
        return _with_large_integers(given)
    # Only a null in the text can have been a NaN: nothing else is looked through again.
    if b"null" in data:
        _check(given)
    return data


def loads_exactly(data: bytes | str) -> Any:
    """The parsed JSON: integers of any size stay integers. Raises `ValueError`.

    Numbers with a fraction or an exponent are floats of 64 bits, as everywhere in Python; of names
    that repeat in an object, the last counts.
    """
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError:
        # It goes less deep than what the services take, and says less of what is wrong.
        found = orjson.loads(data)
        text = data.decode() if isinstance(data, bytes) else data
        return _with_integers_of(text) if any(map(_is_large, _TOKEN.findall(text))) else found


def _is_large(token: str) -> bool:
    """Whether it is an integer that orjson reads as a float, and that Python can read."""
    if not _LEAST_DIGITS <= len(token) <= _MOST_DIGITS or not token.lstrip("-").isdecimal():
        return False
    return not _LEAST <= int(token) <= _MOST


def _with_integers_of(text: str) -> Any:
    """JSON of any depth with large integers: each is read as a text that stands for it."""
    mark = secrets.token_hex()

    def marked(found: re.Match[str]) -> str:
        return f'"{mark}{found[0]}"' if _is_large(found[0]) else found[0]

    holder = [orjson.loads(_TOKEN.sub(marked, text))]
    todo: list[Any] = [holder]
    while todo:
        one = todo.pop()
        for at, value in list(one.items() if isinstance(one, dict) else enumerate(one)):
            if isinstance(value, dict | list):
                todo.append(value)
            elif isinstance(value, str) and value.startswith(mark):
                one[at] = int(value.removeprefix(mark))
    return holder[0]


def _dumped(model: BaseModel) -> Any:
    try:
        return model.model_dump(mode="json")
    except PydanticSerializationError as e:
        raise InvalidRequest(
            f"a {type(model).__name__} cannot be sent: {e}", hint="a field_serializer for it"
        ) from e


def _with_large_integers(given: Any) -> bytes:
    try:
        text = json.dumps(
            given, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
        )
        return text.encode()
    except (TypeError, ValueError, RecursionError) as e:
        raise _refusal(given, str(e)) from e


def _plain(value: Any) -> Any:
    """What orjson makes of a type that `json` does not know, with the values in it left alone."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dict(_fields(value))
    return orjson.loads(orjson.dumps(value))


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(value):
        if not field.name.startswith("_"):
            yield field.name, getattr(value, field.name)


def _check(given: Any) -> None:
    """Raise `InvalidRequest` for a float that is no number, or a name that is no text."""
    todo = [given]
    while todo:
        value = todo.pop()
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidRequest(
                f"{value} cannot be sent{_at(_place_of(given, value))}: JSON has no such number",
                hint='None, or the text "NaN"',
            )
        if isinstance(value, dict):
            odd = next((name for name in value if not isinstance(name, str)), None)
            if odd is not None:
                why = "a name in an object must be text"
                raise _refusal(odd, why, _place_of(given, value))
            todo.extend(value.values())
        elif isinstance(value, list | tuple):
            todo.extend(value)
        elif isinstance(value, Enum):
            todo.append(value.value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            todo.extend(part for _, part in _fields(value))


def _place_of(given: Any, culprit: Any) -> str:
    return next((place for place, value in _parts(given) if value is culprit), "")


def _parts(given: Any) -> Iterator[tuple[str, Any]]:
    """Every value within `given` and itself, in the order of its text, with the way to it."""
    todo: list[tuple[str, Any]] = [("", given)]
    seen: set[int] = set()
    while todo:
        place, value = todo.pop()
        yield place, value
        inner: list[tuple[str, Any]] = []
        if isinstance(value, dict):
            inner = [(f"{place}.{name}" if place else str(name), v) for name, v in value.items()]
        elif isinstance(value, list | tuple):
            inner = [(f"{place}[{n}]", part) for n, part in enumerate(value)]
        elif isinstance(value, Enum):
            inner = [(place, value.value)]
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            inner = [(f"{place}.{n}" if place else n, part) for n, part in _fields(value)]
        if inner and id(value) not in seen:
            # What holds itself has no end.
            seen.add(id(value))
            todo.extend(reversed(inner))


def _place_of_refused(given: Any) -> str:
    """The way to the first value within `given` that JSON cannot hold by itself; "" if none is."""
    for place, value in _parts(given):
        if isinstance(value, dict) and not all(isinstance(name, str) for name in value):
            return place
        holds = isinstance(value, dict | list | tuple | Enum) or dataclasses.is_dataclass(value)
        try:
            if place and not holds:
                orjson.dumps(value)
        except (orjson.JSONEncodeError, TypeError) as e:
            if "64-bit" not in str(e):
                return place
    return ""


def _at(place: str) -> str:
    return f" (at {place})" if place else ""


def _refusal(given: Any, why: str, place: str | None = None) -> InvalidRequest:
    place = _place_of_refused(given) if place is None else place
    kind = type(given).__name__
    # orjson names the type that it met within the value.
    inner = why.rpartition(": ")[2].rpartition(".")[2] if "not JSON serializable" in why else kind
    hint = _HINTS.get(inner, _WHAT)
    if hasattr(given, "model_dump"):
        hint = 'model.model_dump(mode="json") for a model within another value'
    elif "numpy" in why and inner != "ndarray":
        hint = "x.item(), which is Python's own number"
    return InvalidRequest(f"a {kind} cannot be sent{_at(place)}: {why}", hint=hint)
