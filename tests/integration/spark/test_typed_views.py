"""Views of topics with schemas have typed columns in Spark, as they have in DuckDB."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import StringValue
from pyspark.sql import SparkSession

import lakequeue.duck
import lakequeue.spark
from lakequeue.avro import Avro
from lakequeue.processes.jars import jar_paths
from lakequeue.protobuf import schema_of
from lakequeue.records import Format
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.log_builder import LogBuilder
from tests.support.documents.blocks import REPOSITORY, blocks_of
from tests.support.spark.spark_session import SPARK_AVRO

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]
ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "total": {"type": ["number", "null"]},
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"sku": {"type": "string"}}},
        },
        "tags": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "any thing": {},
    },
}
ORDERS = [
    '{"id": 17, "total": 9.5, "lines": [{"sku": "a"}, {}], "tags": {"x": true}, "any thing": [1]}',
    '{"id": 18, "more": {}}',
]


def avro(schema: object) -> dict[str, Any]:
    """Settings of a topic."""
    return {"value_schema": json.dumps(schema), "value_schema_type": "avro"}


def doubling(levels: int) -> Any:
    """Each level has the next one twice."""
    schema: Any = "int"
    for n in range(levels):
        named = schema if isinstance(schema, str) else schema["name"]
        parts = [("a", schema), ("b", named)]
        fields = [{"name": of, "type": {"type": "array", "items": items}} for of, items in parts]
        schema = {"type": "record", "name": f"R{n}", "fields": fields}
    return schema


def of_spark(spark: SparkSession, view: str) -> list[Any]:
    rows = spark.sql(f"SELECT value FROM {view} ORDER BY `offset`").collect()
    return [row.asDict(recursive=True)["value"] for row in rows]


def test_values_have_the_columns_of_their_schema_in_both_engines(
    spark: SparkSession, root: QueueRoot
) -> None:
    log = LogBuilder(root)
    log.append(log.topic("my.orders", value_schema=json.dumps(ORDER)), ORDERS, fmt=Format.JSON)
    log.append(log.topic("n", value_schema='{"type": "integer"}'), ["5", "x"])
    log.append(log.topic("s", value_schema='{"type": "string"}'), ['"a"'], fmt=Format.JSON)
    log.topic("proto", value_schema=schema_of(StringValue), value_schema_type="protobuf")
    with pytest.warns(UserWarning, match="no view values_proto: Spark reads protobuf with"):
        made = lakequeue.spark.create_views(spark, root.uri, "typed")
    assert [name for name in made if name.startswith("values_")] == [
        "values_my_orders",
        "values_n",
        "values_s",
    ]
    duck = lakequeue.duck.connect(root.uri)
    for name in ("values_my_orders", "values_n", "values_s"):
        asked = 'SELECT value FROM {} ORDER BY "offset"'
        found = [value for (value,) in duck.sql(asked.format(name)).fetchall()]
        assert of_spark(spark, f"typed.{name}") == found, name
    blocks = [block.text for block in blocks_of(REPOSITORY / "docs" / "spark.md")]
    [block] = [text for text in blocks if "values_my_orders" in text]
    [(order, sku)] = spark.sql(block.replace("queue.", "typed.")).collect()
    assert (order, sku) == (17, "a")


def test_values_in_avro_have_the_columns_of_the_present_schema(
    spark: SparkSession, root: QueueRoot
) -> None:
    spark.sql(f"ADD JAR '{jar_paths(jars=(SPARK_AVRO,))[0]}'")
    log = LogBuilder(root)
    item = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}
    fields: list[Any] = [
        {"name": "id", "type": "long"},
        {"name": "of", "type": ["null", "string"]},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "lines", "type": {"type": "array", "items": item}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT"]}},
        {"name": "data", "type": "bytes"},
    ]
    first: dict[str, Any] = {"type": "record", "name": "R", "fields": fields}
    note = {"name": "note", "type": "string", "default": "it's \\ so"}
    second = first | {"fields": [*fields, note]}
    value = {"id": 1, "of": "x", "counts": {"a": 1}, "lines": [{"sku": "a"}], "state": "SENT"}
    value |= {"data": b"\xff"}
    topic = log.topic("avro", **avro(first))
    TopicStore(root).alter("avro", value_schema=json.dumps(second))
    one, two = Avro(first).encode(value), Avro(second).encode(value | {"note": "z"})
    log.append(topic, [one, two, two[10:], two[:-1]], fmt=Format.BYTES)
    log.append(log.topic("number", **avro("int")), [b"\x04", b"\x80", b""], fmt=Format.BYTES)
    tree = {
        "type": "record",
        "name": "T",
        "fields": [fields[0], {"name": "next", "type": ["null", "T"]}],
    }
    inner = {"id": 1, "next": {"id": 2, "next": None}}
    log.append(log.topic("tree", **avro(tree)), [Avro(tree).encode(inner)], fmt=Format.BYTES)
    log.topic("huge", **avro(doubling(25)))
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 50}
    log.topic("wide", **avro(wide))
    with pytest.warns(UserWarning, match="no view values_") as told:
        lakequeue.spark.create_views(spark, root.uri, "of_avro")
    reasons = [str(each.message) for each in told]
    assert len(reasons) == 2
    assert "no view values_huge: the schema has more parts" in reasons[0]
    assert "no view values_wide: Spark does not take the schema" in reasons[1]
    duck = lakequeue.duck.connect(root.uri)
    asked = 'SELECT value FROM {} ORDER BY "offset"'
    whole = [found for (found,) in duck.sql(asked.format("values_avro")).fetchall()]
    nothing = dict.fromkeys([*value, "note"])
    assert whole == [value | {"note": note["default"]}, *[value | {"note": "z"}] * 2, None]
    assert of_spark(spark, "of_avro.values_avro") == [*whole[:3], nothing]
    assert of_spark(spark, "of_avro.values_number") == [2, None, None]
    assert of_spark(spark, "of_avro.values_tree") == [{"id": 1}]
