"""Whole topics as a frame, read by Spark itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queue_tables.root import QueueRoot
from queue_tables.schemas import LOG
from queue_tables.topics import TopicStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = (
    "key",
    "value",
    "topic",
    "`partition`",
    "`offset`",
    "timestamp",
    "0 AS timestampType",
    "nullif(headers, array()) AS headers",
)
"""Those of `format("lakequeue")` with `includeHeaders`."""


def records(spark: SparkSession, root: str, *topics: str) -> DataFrame:
    """The records of `topics` as they are when the frame is used, with the columns of the source.

    For scans: Spark reads the Parquet files itself, only the columns that the query needs, and
    skips files by its filters (`partition`, `offset`, `timestamp`). A source written in Python can
    do neither, but follows a topic as a stream, and ends at an offset. The session needs Delta
    Lake. Raises `RootUnusable` if there is no queue, `UnknownTopic`.
    """
    queue = QueueRoot.existing(root, replica_too=True)
    store = TopicStore(queue)
    ids = [str(store.get(topic).topic_id) for topic in topics]
    base = str(queue.store.local_path or root).rstrip("/")
    log = spark.read.format("delta").load(f"{base}/{LOG.name}")
    return log.where(log["topic_id"].isin(ids)).selectExpr(*_COLUMNS)
