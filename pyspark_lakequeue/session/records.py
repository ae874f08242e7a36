"""Records as a frame that Spark reads from the files of `log` itself."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark_lakequeue.columns import SCHEMA
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG
from queue_tables.topics import TopicStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COMPUTED = {
    # Nullable, as every column of the source is.
    "timestampType": "CASE WHEN topic_id IS NOT NULL THEN 0 END AS timestampType",
    "headers": "nullif(headers, array()) AS headers",
}


def records(spark: SparkSession, root: str, *topics: str) -> DataFrame:
    """The records of topics as a DataFrame, with the columns of the source.

    Spark reads the Parquet files itself: only the columns that the query needs, and not the files
    that its filters (`partition`, `offset`, `timestamp`) rule out. The session needs Delta Lake.

    Args:
        spark: The session.
        root: Root of the queue.
        *topics: Names of topics.

    Returns:
        A frame of the records that are there when it is used.

    Raises:
        RootUnusable: There is no queue at `root`.
        UnknownTopic: One of the topics does not exist.

    Example:
        records(spark, root, "orders").where("partition = 0").count()
    """
    queue = QueueRoot.existing(root, replica_too=True)
    store = TopicStore(queue)
    ids = ", ".join(f"'{store.get(topic).topic_id}'" for topic in topics)
    return scan(spark, queue, f"topic_id IN ({ids})" if topics else "false", tuple(SCHEMA))


def scan(
    spark: SparkSession, queue: QueueRoot, condition: str, columns: Sequence[str]
) -> DataFrame:
    """The rows of `log` for which `condition` is true, as the source's `columns`.

    Raises what Spark raises if the session has no Delta Lake, or cannot read the root.
    """
    base = str(queue.store.local_path or queue.uri).rstrip("/")
    log = spark.read.format("delta").load(f"{base}/{LOG.name}")
    # No other frame's equal: of a cached one Spark would give what was there when that was made.
    own = f"'{uuid.uuid4().hex}' <> ''"
    columns = [_COMPUTED.get(name, f"`{name}`") for name in columns]
    frame = log.where(f"({condition}) AND {own}").selectExpr(*columns)
    for name in frame.columns:
        # The source has no comments of columns, and whoever compares schemas would see them.
        frame = frame.withMetadata(name, {})
    return frame
