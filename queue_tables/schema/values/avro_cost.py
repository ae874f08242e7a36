"""An Avro schema as a tree, and what it costs to walk through a value of it. Pure.

A value of no bytes at all can take many steps: a record whose fields are two records, whose fields
are two records, and so on, down to `null`. So steps are counted when a topic is made: those of a
value whose arrays are empty, and how many more each byte can bring.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lakequeue.errors import InvalidRequest
from queue_tables.schema.values.walking import MOST_STEPS

_BYTES = {"null": 0, "float": 4, "double": 8}


class Node(NamedTuple):
    """A schema, or a part of one."""

    kind: str
    """A type of Avro, or `ref`."""
    name: str = ""
    """Of a record, an enum, a fixed, or what a `ref` is to."""
    size: int = 0
    """Bytes of a fixed, symbols of an enum."""
    parts: tuple[tuple[str, Node], ...] = ()
    """Fields of a record, branches of a union, the items of an array or a map."""
    symbols: tuple[str, ...] = ()
    defaults: frozenset[str] = frozenset()
    """Fields of a record that have a default, by name."""
    aliases: Mapping[str, tuple[str, ...]] = {}
    """Other names of fields; under "" those of the type itself."""


class Cost(NamedTuple):
    """Steps through a value."""

    once: int
    """If all arrays and maps are empty."""
    each_byte: int
    """How many more a byte can bring."""


class _Weight(NamedTuple):
    steps: int
    size: int
    """Bytes, at least."""


def cost_of(root: Node, named: Mapping[str, Node]) -> Cost:
    """What walking through a value takes. Raises `InvalidRequest` if it is too much."""
    weighing = _Weighing(named)
    once = weighing.of(root, frozenset())
    for node in named.values():
        weighing.of(node, frozenset())
    if weighing.recursive:
        weighing.items += [weighing.of(node, frozenset()) for node in named.values()]
    heaviest = max([once.steps, *(item.steps for item in weighing.items)])
    if heaviest > MOST_STEPS:
        raise no_schema(f"a value may have more than {MOST_STEPS} parts before its arrays grow")
    each = max((-(-item.steps // max(1, item.size)) for item in weighing.items), default=0)
    return Cost(once.steps, each)


class _Weighing:
    """Of one schema."""

    def __init__(self, named: Mapping[str, Node]) -> None:
        self._named = named
        self._known: dict[str, _Weight] = {}
        self.items: list[_Weight] = []
        self.recursive = False

    def of(self, node: Node, within: frozenset[str]) -> _Weight:
        if node.kind == "ref":
            return self._of_named(node.name, within)
        parts = [self.of(part, within) for _, part in node.parts]
        if node.kind == "record":
            steps = 1 + sum(part.steps for part in parts)
            return _Weight(min(steps, MOST_STEPS + 1), sum(part.size for part in parts))
        if node.kind == "union":
            return _Weight(1 + max((part.steps for part in parts), default=0), 1)
        if node.kind in {"array", "map"}:
            key = node.kind == "map"
            item = _Weight(parts[0].steps + key, parts[0].size + key)
            if item.size == 0:
                raise no_schema("the items of an array may take no bytes at all")
            self.items.append(item)
            return _Weight(1, 1)
        return _Weight(1, node.size if node.kind == "fixed" else _BYTES.get(node.kind, 1))

    def _of_named(self, name: str, within: frozenset[str]) -> _Weight:
        if name in within:
            self.recursive = True
            return _Weight(1, 1)  # whatever holds itself does so behind a union, an array or a map
        if name not in self._known:
            self._known[name] = self.of(self._named[name], within | {name})
        return self._known[name]


def no_schema(why: str) -> InvalidRequest:
    """422 for what is no schema that a topic may have."""
    return InvalidRequest(
        f"value_schema is not an Avro schema: {why}",
        hint="give the schema as JSON, with all types that it refers to",
        field="value_schema",
    )
