"""What an ingest node exports."""

from __future__ import annotations

from lakequeue.metrics.declaring import FAST_S, ROWS, counter, gauge, histogram
from lakequeue.metrics.front import FRONT

INGEST_REQUESTS = counter(
    "ingest_requests_total",
    "produce requests by outcome: ok, or the code of the error",
    "outcome",
    known=(("ok",), ("overloaded",)),
)
INGEST_RECORDS = counter("ingest_records_total", "records acknowledged")
INGEST_BYTES = counter(
    "ingest_record_bytes_total", "bytes of keys, values and headers acknowledged"
)
INGEST_REQUEST_S = histogram(
    "ingest_request_seconds",
    "time of a produce request that was answered with 200, from its headers on",
    FAST_S,
)
INGEST_COMMIT_S = histogram(
    "ingest_commit_seconds",
    "time of a group commit by phase: gathering (from its first request to its stamp), writing "
    "(the data file), committing, all (from its stamp to durable)",
    FAST_S,
    "phase",
)
INGEST_GROUP_ROWS = histogram("ingest_group_rows", "records in a group commit", ROWS)
INGEST_PENDING = gauge("ingest_pending_bytes", "bytes being read, parsed or committed")
INGEST_INCARNATIONS = gauge(
    "ingest_incarnations",
    "inbox shards that this process opened; above 1: others believed that it was dead, and sealed "
    "its shard",
)
INGEST_PRODUCERS = gauge(
    "ingest_producers", "producers with an id that sent something in the last 5 minutes"
)
INGEST_FAULTY = counter(
    "ingest_faulty_values_total",
    "records that were taken though their value does not satisfy the schema of the topic (policy "
    "warn)",
)
INBOX_RECORDS = gauge(
    "ingest_unordered_records",
    "records acknowledged by this process that are not in `log` yet",
)
INBOX_BYTES = gauge("ingest_unordered_bytes", "bytes of these records")
INBOX_AGE = gauge(
    "ingest_unordered_seconds", "how long the oldest of these records has been waiting"
)

INGEST = (
    INGEST_REQUESTS,
    INGEST_RECORDS,
    INGEST_BYTES,
    INGEST_REQUEST_S,
    INGEST_COMMIT_S,
    INGEST_GROUP_ROWS,
    INGEST_PENDING,
    INGEST_INCARNATIONS,
    INGEST_PRODUCERS,
    INGEST_FAULTY,
    INBOX_RECORDS,
    INBOX_BYTES,
    INBOX_AGE,
    *FRONT,
)
