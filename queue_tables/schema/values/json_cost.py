"""What judging one place of a value by a JSON Schema may cost, bounded when a topic is made. Pure.

A schema of 1.8 kB in which each definition refers twice to the next took seconds a record at 25
levels, and for ever at 34. So the evaluations are counted before the schema is accepted: how often
schemas are evaluated at one place of a value, and, for what refers to itself, how that grows with
the depth of the value. Two properties of one object are two places; `allOf` is twice at one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lakequeue.errors import InvalidRequest

MOST = 2_000
"""Evaluations at one place of a value."""
MOST_OF_RECORD, MOST_OF_REQUEST = 10_000_000, 100_000_000
"""Evaluations at all places of a value, some 10 ns each, in which no other thread goes on; and of
all values of a request."""
_TEXT = 8
"""To look through so many bytes of text takes as long as one more evaluation."""
_DEPTH = 24
"""Levels of a value that are looked at: what doubles at each level is far beyond by then."""
_MOST_NESTED = 200
"""References from one to the next at one place."""
_FOREIGN = 100
"""What a reference to a document that is built in (a meta schema) counts as."""
_SAME_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_SAME_PLACE = ("not", "if", "then", "else")
_SAME_PLACE_MAPS = ("dependentSchemas", "dependencies")
_ITEMS = ("items", "additionalItems", "unevaluatedItems", "contains")
_MEMBERS = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def cost_of(schema: Any) -> int:
    """Evaluations at one place of a value, at most; what is above `MOST` is not counted."""
    return _Cost(schema).at(schema, _DEPTH, ())


def evaluations(cost: int, value: bytes) -> int:
    """Evaluations of a value by a schema of that cost, at most."""
    places = value.count(b",") + value.count(b":") + 1
    return cost * (places + len(value) // _TEXT)


def check_cost(schema: Any) -> None:
    """Raise `InvalidRequest` for a schema that could cost too much."""
    if cost_of(schema) > MOST:
        raise InvalidRequest(
            f"value_schema may be evaluated more than {MOST} times at one place of a value",
            hint="refer to each definition once where you can: references that double at each "
            "level take for ever",
            field="value_schema",
        )


class _Cost:
    """Of one document."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[tuple[int, int], int] = {}
        self._named = dict(_anchors(root))

    def at(self, schema: Any, depth: int, above: tuple[int, ...]) -> int:
        """Evaluations at a place that has `depth` levels below it, itself included.

        `above`: schemas that are being evaluated at this same place.
        """
        if not isinstance(schema, dict):
            return 1
        mark = (id(schema), depth)
        if mark in self._known:
            return self._known[mark]
        if id(schema) in above or len(above) > _MOST_NESTED:
            return MOST + 1  # it refers to itself without going on in the value
        above = (*above, id(schema))
        here = _own(schema) + sum(self.at(one, depth, above) for one in self._same_place(schema))
        below = 0
        if depth:
            below = max(
                sum(self.at(one, depth - 1, ()) for one in place) for place in _below(schema)
            )
        found = min(here + below, MOST + 1)
        self._known[mark] = found
        return found

    def _same_place(self, schema: dict[str, Any]) -> Iterator[Any]:
        for name in _SAME_PLACE_LISTS:
            if isinstance(schema.get(name), list):
                yield from schema[name]
        for name in _SAME_PLACE_MAPS:
            if isinstance(schema.get(name), dict):
                yield from schema[name].values()
        for name in _SAME_PLACE:
            if name in schema:
                yield schema[name]
        for name in _REFERENCES:
            if isinstance(schema.get(name), str):
                yield self._referred(schema[name])

    def _referred(self, uri: str) -> Any:
        if uri in self._named:
            return self._named[uri]
        document, _, pointer = uri.partition("#")
        if document and document not in self._named:
            return {"allOf": [True] * _FOREIGN}
        found = self._named[document] if document else self._root
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
                found = found[int(name)]
            else:
                return True
        return found


def _own(schema: dict[str, Any]) -> int:
    """What the schema costs without those that it refers to."""
    listed = schema.get("enum")
    if isinstance(listed, list) and any(isinstance(one, dict | list) for one in listed):
        return len(listed) + 1  # compared one by one; texts and numbers are looked up
    return 1


def _below(schema: dict[str, Any]) -> Iterator[list[Any]]:
    """For each place below: the schemas that may all be evaluated there."""
    items = [schema[name] for name in _ITEMS if isinstance(schema.get(name), dict)]
    yield items
    for name in ("prefixItems", "items"):
        if isinstance(schema.get(name), list):
            for one in schema[name]:
                yield [one, *items]
    members = [schema[name] for name in _MEMBERS if isinstance(schema.get(name), dict)]
    patterns = schema.get("patternProperties")
    if isinstance(patterns, dict):
        members += patterns.values()
    yield members
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for one in properties.values():
            yield [one, *members]


def _anchors(root: Any) -> Iterator[tuple[str, Any]]:
    """Names under which parts of the document may be referred to."""
    todo = [root]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            for name in ("$anchor", "$dynamicAnchor"):
                if isinstance(part.get(name), str):
                    yield f"#{part[name]}", part
            for name in ("$id", "id"):
                if isinstance(part.get(name), str):
                    yield part[name], part
            todo += part.values()
        elif isinstance(part, list):
            todo += part
