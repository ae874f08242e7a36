"""Schemas that would take for ever are refused; those that people write are not."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lakequeue.errors import InvalidRequest
from queue_tables.schema.values.json_cost import check_cost


def doubled(levels: int, how: str = "allOf") -> dict[str, Any]:
    """Each definition refers twice to the next."""
    definitions: dict[str, Any] = {f"a{levels}": {"type": "string"}}
    for n in range(levels):
        definitions[f"a{n}"] = {how: [{"$ref": f"#/$defs/a{n + 1}"}] * 2}
    return {"$ref": "#/$defs/a0", "$defs": definitions}


TREE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "left": {"$ref": "#"},
        "right": {"$ref": "#"},
        "children": {"type": "array", "items": {"$ref": "#"}},
    },
}
ORDER = {
    "$id": "https://example.org/order",
    "type": "object",
    "required": ["id", "lines"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "to": {"$ref": "#/$defs/address"},
        "from": {"$ref": "#/$defs/address"},
        "paid": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/line"}]},
    },
    "additionalProperties": False,
    "$defs": {
        "line": {"type": "object", "properties": {"sku": {"type": "string"}}},
        "address": {"type": "object", "properties": {"city": {"$ref": "#/$defs/city"}}},
        "city": {"type": "string", "minLength": 1},
    },
}


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        TREE,
        ORDER,
        doubled(5),
        {"items": {"$ref": "#"}},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"properties": {f"p{n}": {"type": "string"} for n in range(2_000)}},
        {"anyOf": [{"const": n} for n in range(1_000)]},
        {"enum": [f"name {n}" for n in range(5_000)]},
    ],
)
def test_schemas_that_people_write_are_taken(schema: Any) -> None:
    check_cost(schema)


@pytest.mark.parametrize(
    "schema",
    [
        doubled(11),
        {"enum": [{"a": n} for n in range(5_000)]},
        doubled(25),
        doubled(34),
        doubled(400),
        doubled(25, "oneOf"),
        {"items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}},
        {
            "properties": {"a": {"$ref": "#"}},
            "patternProperties": {"^a": {"$ref": "#"}, "a$": {"$ref": "#"}},
        },
        {"$ref": "#"},
        {"allOf": [{"$ref": "#/$defs/b"}], "$defs": {"b": {"$ref": "#"}}},
        {"$anchor": "x", "items": {"anyOf": [{"$ref": "#x"}, {"$dynamicRef": "#x"}]}},
    ],
)
def test_references_that_double_are_refused_at_once(schema: Any) -> None:
    began = time.process_time()
    with pytest.raises(InvalidRequest, match="value_schema may be evaluated"):
        check_cost(schema)
    assert time.process_time() - began < 1
