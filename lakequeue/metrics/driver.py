"""What a driver exports: the order job and the offsets job."""

from __future__ import annotations

from lakequeue.metrics.declaring import FAST_S, ROWS, counter, gauge, histogram
from lakequeue.metrics.every import LEADING

JOB_TERMS = counter("terms_total", "terms begun by this process: order or offsets", "election")
ORDER_RECORDS = counter(
    "order_records_total",
    "records taken from the inbox, by result: ordered, duplicate, refused",
    "result",
    known=(("ordered",), ("duplicate",), ("refused",)),
)
ORDER_PUT_ASIDE = counter(
    "order_put_aside_total",
    "records that could not be ordered and stand in `rejects` as they are, by topic (empty: not "
    "known) and reason: malformed, unorderable, unreadable",
    "topic",
    "reason",
)
ORDER_WAITING = gauge(
    "order_waiting_shards",
    "inbox shards that wait for a person, because a file is gone or cannot be read; "
    "`/readyz` of the driver names them",
)
ORDER_BATCH_S = histogram(
    "order_batch_seconds",
    "time of a batch by phase: numbering, writing (values, from inbox files into log files), "
    "committing, all",
    FAST_S,
    "phase",
)
ORDER_BATCH_ROWS = histogram("order_batch_rows", "records in a batch", ROWS)
ORDER_INDEX = gauge("order_index_ids", "message ids in the index of deduplication")
ORDER_PENDING = gauge(
    "order_pending_records",
    "records in all inbox shards that no batch has taken yet, as of the last scan",
)
FOLD_S = histogram("offsets_fold_seconds", "time of a fold into `group_offsets`", FAST_S)
FOLDED_FACTS = counter("offsets_facts_total", "facts folded")
FACTS_SET_ASIDE = counter(
    "offsets_facts_set_aside_total",
    "rows of journal shards that are no facts, so they were not folded; the log names them "
    "(`fact.set_aside`)",
)
GROUP_LAG = gauge(
    "group_lag_records",
    "backlog: records of the topic that the group has not settled, open ones included; as of the "
    "last fold, known to the leader of the offsets job, until the group or the topic is deleted",
    "group",
    "topic",
)
GROUP_OPEN = gauge(
    "group_open_records",
    "queue groups: records by stage: in_flight, parked, dying; as of the last fold",
    "group",
    "stage",
)
GROUPS = gauge("groups", "groups that have a position; known to the leader of the offsets job")
TOPICS = gauge("topics", "topics; known to the leader of the order job")
PARTITIONS = gauge("topic_partitions", "partitions of all topics; as above")
NODES = gauge("nodes", "nodes registered in ZooKeeper: ingest, consumer, driver", "kind")
TABLE_FILES = gauge(
    "table_data_files",
    "data files of a table (inbox and journal: of all shards) in storage, with those that wait "
    "for vacuum; counted by the leader of the order job, every `driver.tables_s`",
    "table",
)
TABLE_BYTES = gauge("table_data_bytes", "bytes of these files", "table")
TABLE_LOG_OBJECTS = gauge(
    "table_log_objects", "objects in `_delta_log` of a table, or of all its shards", "table"
)
SHARDS = gauge("shards", "shards that exist: inbox or journal", "table")
MAINTENANCE = counter(
    "maintenance_runs_total",
    "runs that the order leader started: metrics, compaction, retention; by outcome: done, failed",
    "run",
    "outcome",
    known=tuple(
        (run, outcome)
        for run in ("metrics", "compaction", "retention")
        for outcome in ("done", "failed")
    ),
)

DRIVER = (
    LEADING,
    JOB_TERMS,
    ORDER_RECORDS,
    ORDER_PUT_ASIDE,
    ORDER_WAITING,
    ORDER_BATCH_S,
    ORDER_BATCH_ROWS,
    ORDER_INDEX,
    ORDER_PENDING,
    FOLD_S,
    FOLDED_FACTS,
    FACTS_SET_ASIDE,
    GROUP_LAG,
    GROUP_OPEN,
    GROUPS,
    TOPICS,
    PARTITIONS,
    NODES,
    TABLE_FILES,
    TABLE_BYTES,
    TABLE_LOG_OBJECTS,
    SHARDS,
    MAINTENANCE,
)
