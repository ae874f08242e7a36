"""Views of topics with schemas have typed columns in Spark, as they have in DuckDB."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakequeue.duck
import lakequeue.spark
from lakequeue.records import Format
from queue_tables.root import QueueRoot
from tests.support.data.log_builder import LogBuilder
from tests.support.documents.blocks import REPOSITORY, blocks_of

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
AVRO: dict[str, Any] = {"value_schema": '"int"', "value_schema_type": "avro"}


def test_values_have_the_columns_of_their_schema_in_both_engines(
    spark: SparkSession, root: QueueRoot
) -> None:
    log = LogBuilder(root)
    log.append(log.topic("my.orders", value_schema=json.dumps(ORDER)), ORDERS, fmt=Format.JSON)
    log.append(log.topic("n", value_schema='{"type": "integer"}'), ["5", "x"])
    log.append(log.topic("s", value_schema='{"type": "string"}'), ['"a"'], fmt=Format.JSON)
    log.topic("avro", **AVRO)
    with pytest.warns(UserWarning, match="no view values_avro: Spark reads avro with the package"):
        made = lakequeue.spark.create_views(spark, root.uri, "typed")
    assert [name for name in made if name.startswith("values_")] == [
        "values_my_orders",
        "values_n",
        "values_s",
    ]
    duck = lakequeue.duck.connect(root.uri)
    for name in ("values_my_orders", "values_n", "values_s"):
        asked = 'SELECT value FROM {}{} ORDER BY "offset"'
        found = [value for (value,) in duck.sql(asked.format("", name)).fetchall()]
        rows = spark.sql(asked.format("typed.", name).replace('"', "`")).collect()
        plain = [row.asDict(recursive=True)["value"] for row in rows]
        assert plain == found, name
    blocks = [block.text for block in blocks_of(REPOSITORY / "docs" / "spark.md")]
    [block] = [text for text in blocks if "values_my_orders" in text]
    [(order, sku)] = spark.sql(block.replace("queue.", "typed.")).collect()
    assert (order, sku) == (17, "a")
