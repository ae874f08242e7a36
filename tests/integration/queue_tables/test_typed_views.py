"""Views of topics with schemas have typed columns, in DuckDB."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct

import lakequeue.duck
from lakequeue.avro import Avro
from lakequeue.protobuf import schema_of
from lakequeue.records import Format
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.log_builder import LogBuilder
from tests.unit.queue_tables.schema.values.protobufs import class_of, field, file, text_of

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "total": {"type": ["number", "null"]},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {},
        "it's": {"type": "string"},
    },
    "$defs": {"line": {"type": "object", "properties": {"sku": {"type": "string"}}}},
}


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    return QueueRoot.open(str(tmp_path / "queue"))


def rows(root: QueueRoot, sql: str) -> list[tuple[Any, ...]]:
    return lakequeue.duck.connect(root.uri).sql(sql).fetchall()


def values(root: QueueRoot, view: str) -> list[Any]:
    return [value for (value,) in rows(root, f'SELECT value FROM {view} ORDER BY "offset"')]


def test_values_in_json_have_the_columns_of_their_schema(root: QueueRoot) -> None:
    log = LogBuilder(root)
    topic = log.topic("orders", value_schema=json.dumps(ORDER))
    first = {"id": 17, "total": 9.5, "lines": [{"sku": "a"}, {}], "tags": {"x": "y"}, "any": [1]}
    log.append(topic, [json.dumps(first)], fmt=Format.JSON)
    log.append(topic, ['{"id": 18, "more": 1, "any": "x"}', "no JSON"])
    log.append(topic, [b'{"id": 19}'], fmt=Format.BYTES)
    empty = dict.fromkeys(["id", "total", "lines", "tags", "any"])
    assert values(root, "values_orders") == [
        first | {"lines": [{"sku": "a"}, {"sku": None}], "any": "[1]"},
        empty | {"id": 18, "any": '"x"'},
        None,
        None,
    ]
    sql = "SELECT sum(value.total), any_value(key_text) FROM values_orders WHERE value.id < 20"
    assert rows(root, sql) == [(9.5, "k")]


@pytest.mark.parametrize(
    ("schema", "sent", "found"),
    [
        ('{"type": "integer"}', ["5", "x"], [5, None]),
        ('{"type": "string"}', ["plain", '"quoted"'], ["plain", '"quoted"']),
        ('{"type": "array", "items": {"type": "boolean"}}', ["[true]", "5"], [[True], None]),
        ("true", ["5", "x"], ["5", "x"]),
    ],
)
def test_values_that_are_no_objects_have_their_type(
    root: QueueRoot, schema: str, sent: list[str], found: list[Any]
) -> None:
    log = LogBuilder(root)
    log.append(log.topic("t", value_schema=schema), sent)
    assert values(root, "values_t") == found


def test_a_text_that_was_sent_as_json_comes_without_its_quotes(root: QueueRoot) -> None:
    log = LogBuilder(root)
    log.append(log.topic("t", value_schema='{"type": "string"}'), ['"x"'], fmt=Format.JSON)
    assert values(root, "values_t") == ["x"]


def test_values_in_avro_come_as_the_present_schema_has_them(root: QueueRoot) -> None:
    log = LogBuilder(root)
    fields: list[Any] = [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "of", "type": ["null", "string"]},
        {"name": "either", "type": ["int", "bytes"]},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "next", "type": ["null", "R"]},
    ]
    first = {"type": "record", "name": "R", "fields": fields}
    note = {"name": "note", "type": "string", "default": "it's"}
    second = first | {"fields": [*fields, note]}
    avro: dict[str, Any] = {"value_schema_type": "avro"}
    topic = log.topic("avro.orders", value_schema=json.dumps(first), **avro)
    value = {"id": 1, "at": 7, "of": "x", "either": b"\xff", "counts": {"a": 1}, "next": None}
    one = Avro(first).encode(value)
    TopicStore(root).alter("avro.orders", value_schema=json.dumps(second))
    two = Avro(second).encode(value | {"next": value | {"note": "y"}, "either": 5, "note": "z"})
    log.append(topic, [one, two, two[:-1], b"\xc3\x01"], fmt=Format.BYTES)
    inner = {"id": 1, "at": 7, "of": "x", "either": "\xff", "counts": {"a": 1}, "next": None}
    found = values(root, "values_avro_orders")
    assert found[0] == value | {"either": '"\xff"', "note": "it's"}
    assert (found[1]["either"], found[1]["note"]) == ("5", "z")
    assert json.loads(found[1]["next"]) == inner | {"note": "y"}
    assert found[2:] == [None, None]


def test_values_in_protobuf_have_the_fields_of_their_message(root: QueueRoot) -> None:
    message = file(
        {
            "Order": [
                field(1, "id", "uint64"),
                field(2, "state", "enum State"),
                field(3, "items", "Item", "many"),
                field(4, "names", "Order.NamesEntry", "many"),
                field(5, "data", "bytes"),
                field(6, "parent", "Order"),
                field(7, "note", "string", oneof_index=0, proto3_optional=True),
            ],
            "Item": [field(1, "sku", "string")],
            "Order.NamesEntry": [field(1, "key", "string"), field(2, "value", "double")],
        },
        {"State": {"NEW": 0, "SENT": 1}},
        one_ofs={"Order": ["_note"]},
        entries=frozenset({"Order.NamesEntry"}),
    )
    log = LogBuilder(root)
    topic = log.topic("t", value_schema=text_of(message), value_schema_type="protobuf")
    order = class_of(message, "Order")(
        id=(1 << 64) - 1,
        state=1,
        items=[{"sku": "a"}],
        names={"x": 0.5},
        data=b"\xff",
        parent={"id": 2, "state": 9},
    )
    sent = [order.SerializeToString(), b"", b"\xff"]
    log.append(topic, sent, fmt=Format.BYTES)
    whole, empty, wrong = values(root, "values_t")
    parent = json.loads(whole.pop("parent"))
    assert (parent["id"], parent["state"], parent["parent"]) == (2, "9", None)
    assert whole == {
        "id": (1 << 64) - 1,
        "state": "SENT",
        "items": [{"sku": "a"}],
        "names": {"x": 0.5},
        "data": b"\xff",
        "note": None,
    }
    assert (empty["id"], empty["state"], empty["items"], empty["parent"]) == (0, "NEW", [], None)
    assert wrong is None


def test_a_value_that_was_only_warned_of_is_null_and_its_bytes_are_there(root: QueueRoot) -> None:
    log = LogBuilder(root)
    topic = log.topic("t", value_schema='{"type": "integer"}', value_policy="warn")
    fault = [[{"key": "lakequeue-value-fault", "value": b"why"}], []]
    log.append(topic, ["5", "6"], headers=fault)
    assert rows(root, 'SELECT value, value_bytes FROM values_t ORDER BY "offset"') == [
        (None, b"5"),
        (6, b"6"),
    ]


def test_topics_whose_names_are_alike_in_sql_have_a_view_each(root: QueueRoot) -> None:
    log = LogBuilder(root)
    for n, name in enumerate(["a.b", "A-B", "plain", "none"]):
        schema: dict[str, Any] = {} if name == "none" else {"value_schema": '{"type": "integer"}'}
        log.append(log.topic(name, **schema), [str(n)])
    con = lakequeue.duck.connect(root.uri)
    sql = "SELECT view_name FROM duckdb_views() WHERE view_name LIKE 'values~_%' ESCAPE '~'"
    names = sorted(name for (name,) in con.sql(sql).fetchall())
    assert [len(name) for name in names] == [19, 19, 12]
    assert sorted(values(root, one)[0] for one in names) == [0, 1, 2]


def test_a_refresh_follows_the_schema(root: QueueRoot) -> None:
    log = LogBuilder(root)
    schema = schema_of(Struct)
    topic = log.topic("t", value_schema=schema, value_schema_type="protobuf")
    log.append(topic, [b""], fmt=Format.BYTES)
    con = lakequeue.duck.connect(root.uri)
    assert con.sql("SELECT value FROM values_t").fetchall() == [({"fields": "{}"},)]
    TopicStore(root).alter("t", value_schema='"int"', value_schema_type="avro")
    log.append(topic, [b"\x04"], fmt=Format.BYTES)
    lakequeue.duck.refresh(con, root.uri)
    assert con.sql('SELECT value FROM values_t ORDER BY "offset"').fetchall() == [(None,), (2,)]
