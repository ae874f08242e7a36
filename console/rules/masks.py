"""Hides parts of records by rule, before anything of them is shown, searched or copied. Pure.

A rule is `TOPIC:PATH`. The topic may have `*`. The path is `key`, `value`, `headers.NAME`, or
fields of a JSON value: `card.number`, `people.*.email`. A value with such rules that is no JSON is
hidden whole, since nobody can tell where the field would be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from lakequeue.errors import InvalidSetting

HIDDEN = "•••"
_WHOLE = ("key", "value")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule."""

    topic: str
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Clear:
    """What of a record may be shown."""

    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]
    hidden: bool
    """Something of it is hidden."""


class Masks:
    """All rules. Raises `InvalidSetting` for one that has no form."""

    def __init__(self, rules: Iterable[str] = ()) -> None:
        self._rules = [_parsed(text) for text in rules]

    def apply(
        self, topic: str, key: Any, value: Any, headers: list[tuple[str, bytes | None]]
    ) -> Clear:
        """The record without what is hidden."""
        paths = [rule.path for rule in self._rules if fnmatchcase(topic, rule.topic)]
        if not paths:
            return Clear(key, value, headers, hidden=False)
        names = [path[1] for path in paths if path[0] == "headers" and len(path) == 2]
        shown = [
            (n, HIDDEN.encode() if any(map(n.lower().__eq__, map(str.lower, names))) else v)
            for n, v in headers
        ]
        fields = [path for path in paths if path[0] not in _WHOLE and path[0] != "headers"]
        clear = value
        if ("value",) in paths and value is not None:
            clear = HIDDEN
        elif fields and value is not None:
            clear = _without(value, fields)
        own = HIDDEN if ("key",) in paths and key is not None else key
        changed = own is not key or shown != headers or clear != value
        return Clear(own, clear, shown, changed)

    def header(self, topic: str, name: str, text: str) -> str:
        """The text of one header of a record, as far as it may be shown."""
        ((_, shown),) = self.apply(topic, None, None, [(name, text.encode())]).headers
        return "" if shown is None else shown.decode()


def _parsed(text: str) -> Rule:
    topic, colon, path = text.partition(":")
    parts = tuple(path.split("."))
    if not colon or not topic or not all(parts) or (parts[0] == "headers" and len(parts) < 2):
        raise InvalidSetting(
            f"console.mask: {text[:100]!r} is no rule",
            hint="write TOPIC:PATH, as in orders:card.number, *:headers.authorization, people*:key",
        )
    # A header's name may have dots.
    return Rule(topic, ("headers", ".".join(parts[1:])) if parts[0] == "headers" else parts)


def _without(value: Any, fields: Iterable[tuple[str, ...]]) -> Any:
    document = value
    if isinstance(value, str | bytes):
        try:
            document = json.loads(value)
        except ValueError:
            return HIDDEN
    for path in fields:
        document = _hide(document, path)
    if isinstance(value, str | bytes):
        return json.dumps(document, ensure_ascii=False)
    return document


def _hide(document: Any, path: tuple[str, ...]) -> Any:
    if not path:
        return HIDDEN
    first, rest = path[0], path[1:]
    if isinstance(document, dict):
        return {
            name: _hide(one, rest) if first in {"*", name} else one
            for name, one in document.items()
        }
    if isinstance(document, list):
        # `people.email` means that of all people, as whoever writes the rule will think.
        if first == "*":
            return [_hide(one, rest) for one in document]
        return [_hide(one, path) for one in document]
    return document
