"""Rows as ingest nodes commit them, for benchmarks that do without HTTP."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.clock import wall_micros
from queue_tables.schema.schemas import INBOX


def inbox_rows(
    topic_id: str,
    partitions: int,
    values: pa.Array,
    message_ids: list[str],
    deliver_at: int | None = None,
) -> pa.Table:
    """Records of one topic, partitions in turn; `deliver_at` in microseconds since the epoch."""
    count = len(values)
    given: dict[str, pa.Array] = {
        "topic_id": pa.repeat(topic_id, count),
        "partition": pa.array([i % partitions for i in range(count)], pa.int32()),
        "value": values,
        "timestamp": pa.repeat(
            pa.scalar(wall_micros(), INBOX.arrow.field("timestamp").type), count
        ),
        "message_id": pa.array(message_ids),
        "atomic": pa.repeat(False, count),
        "bytes": pc.binary_length(values).cast(pa.int32()),
    }
    if deliver_at is not None:
        at = pa.scalar(deliver_at, INBOX.arrow.field("deliver_at").type)
        given["deliver_at"] = pa.repeat(at, count)
    return pa.table(
        {
            f.name: given.get(f.name, pa.nulls(count, f.type))
            for f in INBOX.arrow
            if f.name not in {"hour", "stamp", "row"}
        }
    )
