"""SQL views over records that say they are text, or JSON, and are not: no query ends by them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakequeue.duck
import lakequeue.spark
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import INBOX
from queue_tables.topics import TopicStore
from tests.support.data.foreign_shard import ForeignShard, records
from tests.support.runs.order_process import Orderer

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]
BASE = 1_700_000_000_000_000


@pytest.fixture
def queue(root: QueueRoot) -> QueueRoot:
    """Values of all kinds under each format, and a row that is put aside."""
    topic_id = str(TopicStore(root).create("orders", partitions=1)[0].topic_id)
    shard = ForeignShard(root)
    for n, fmt in enumerate((0, 1, 2)):
        values = [b"text", b'{"n": 1}', b"\xff\xfe"]
        rows = records(topic_id, BASE + n, values, value_format=fmt, key_format=fmt, key=b"\xff")
        shard.commit(BASE + n, rows)
    bad = records(topic_id, BASE + 9, [b"\xff"], value_format=1)
    ids = pa.array([b"\xfe"], pa.binary()).view(pa.string())
    at = bad.schema.get_field_index("message_id")
    shard.commit(BASE + 9, bad.set_column(at, INBOX.arrow.field(at), ids))
    Orderer(root, 1).drain()
    return root


def test_both_engines_show_null_where_there_is_no_text(
    spark: SparkSession, queue: QueueRoot
) -> None:
    lakequeue.spark.create_views(spark, queue.uri, "hostile_views")
    records_sql = "SELECT key_text, value_text, value_json IS NULL FROM {} ORDER BY {}offset{}"
    aside_sql = "SELECT reason, detail, message_id, value_text FROM {}"
    connection = lakequeue.duck.connect(queue.uri)
    in_spark = [
        tuple(r) for r in spark.sql(records_sql.format("hostile_views.records", "`", "`")).collect()
    ]
    in_duck = connection.sql(records_sql.format("records", '"', '"')).fetchall()
    assert in_spark == in_duck
    assert in_spark == [
        *[(None, None, True)] * 3,
        (None, "text", True),
        (None, '{"n": 1}', True),
        (None, None, True),
        (None, "text", True),
        (None, '{"n": 1}', False),
        (None, None, True),
    ]
    aside = [("malformed", "message_id is not UTF-8 (byte 0)", "\\xfe", None)]
    assert [
        tuple(r) for r in spark.sql(aside_sql.format("hostile_views.put_aside")).collect()
    ] == aside
    assert connection.sql(aside_sql.format("put_aside")).fetchall() == aside
