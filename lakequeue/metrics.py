"""Every metric, once: its name, what it says, its labels. What a role exports is a tuple of these.

The processes count by these declarations (`serving.meters`), `docs/metrics.md` is generated from
them, and dashboard and alert rules are tested against them. Labels whose values users choose
(`group`, `topic`) have at most `MOST_VALUES` values in one process; what is beyond goes together
under `_other`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

MOST_VALUES = 200
OTHER = "_other"

_FAST_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_ROWS = (1, 10, 100, 1_000, 10_000, 100_000)


class Kind(StrEnum):
    """Prometheus' types."""

    COUNTER = "counter"
    """Rises from 0 at the start of the process; its name ends in `_total`."""
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    """Count and sum, without quantiles: of what is too frequent for buckets."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One declaration."""

    name: str
    kind: Kind
    doc: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    known: tuple[tuple[str, ...], ...] = ()
    """Values of its labels that are shown as 0 before the first event: an increase from nothing to
    100 is none to a Prometheus, so an alert would miss the first one."""


class Sample(NamedTuple):
    """A value at the time it was asked for. `times`: of a summary, whose `value` is the sum."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()
    times: float = 0.0


def _counter(name: str, doc: str, *labels: str, known: tuple[tuple[str, ...], ...] = ()) -> Metric:
    return Metric(f"lakequeue_{name}", Kind.COUNTER, doc, labels, known=known)


def _gauge(name: str, doc: str, *labels: str) -> Metric:
    return Metric(f"lakequeue_{name}", Kind.GAUGE, doc, labels)


def _histogram(name: str, doc: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(f"lakequeue_{name}", Kind.HISTOGRAM, doc, labels, buckets)


# -- every process --------------------------------------------------------------------------------

READY = _gauge("ready", "1: `/readyz` says 200")
STORAGE_SECONDS = Metric(
    "lakequeue_storage_request_seconds",
    Kind.SUMMARY,
    "requests to the storage of the root, and the time they took, by operation: get, put (a data "
    "file), create (a commit), head, list, delete, sync; answers such as not found are requests "
    "like any other",
    ("operation",),
)
STORAGE_ERRORS = _counter(
    "storage_errors_total",
    "requests to storage that failed, by operation and code of the error",
    "operation",
    "code",
)
STORAGE_RETRIES = _counter(
    "storage_retries_total", "commits put again because an attempt failed and had not landed"
)
STORAGE_READ = _counter("storage_read_bytes_total", "bytes read from storage")
STORAGE_WRITTEN = _counter("storage_written_bytes_total", "bytes written to storage")
ZOOKEEPER_CONNECTED = _gauge("zookeeper_connected", "1: the connection to the ensemble stands")
ZOOKEEPER_LOST = _counter("zookeeper_sessions_lost_total", "sessions that ended unasked")
CLOCK_SKEW = _gauge(
    "clock_skew_seconds", "this machine's clock less ZooKeeper's; beyond 5 the node is not ready"
)

STORAGE = (STORAGE_SECONDS, STORAGE_ERRORS, STORAGE_RETRIES, STORAGE_READ, STORAGE_WRITTEN)
ZOOKEEPER = (ZOOKEEPER_CONNECTED, ZOOKEEPER_LOST, CLOCK_SKEW)
EVERY = (READY, *STORAGE, *ZOOKEEPER)

LEADING = _gauge(
    "leading", "1: this process is the controller, or leads the order or offsets job", "election"
)

# -- what carries HTTP, in both services ----------------------------------------------------------

FRONT_CONNECTIONS = _gauge("front_connections", "connections that are open")
FRONT_CALLS = _gauge(
    "front_calls", "requests that are being answered or wait for a thread, by kind of call", "kind"
)
FRONT_WAITING = _gauge(
    "front_waiting_calls", "calls that wait without a thread (polls, sends for order)", "kind"
)
FRONT_REFUSED = _counter(
    "front_refused_total",
    "connections and requests that were refused because a limit was reached: connections, "
    "address (connections of one), bodies (their budget), calls, waits or answers (of a kind)",
    "limit",
    known=tuple(
        (limit,) for limit in ("connections", "address", "bodies", "calls", "waits", "answers")
    ),
)
ACCESS_REFUSED = _counter(
    "access_refused_total", "requests refused because of who asked, by code of the error", "code"
)
FRONT_LATE = _counter(
    "front_deadlines_total",
    "connections that were ended because their client was too slow: headers, body, answer (it did "
    "not read), idle (between requests)",
    "deadline",
    known=(("headers",), ("body",), ("answer",), ("idle",)),
)
FRONT_BYTES = _gauge(
    "front_budget_bytes",
    "bytes taken of a budget: bodies, or the answers of a kind that are built or not read yet",
    "budget",
)
FRONT_LIMITS = _gauge("front_budget_limit_bytes", "the most of a budget", "budget")
FRONT = (
    FRONT_CONNECTIONS,
    FRONT_CALLS,
    FRONT_WAITING,
    FRONT_REFUSED,
    ACCESS_REFUSED,
    FRONT_LATE,
    FRONT_BYTES,
    FRONT_LIMITS,
)

# -- ingest ---------------------------------------------------------------------------------------

INGEST_REQUESTS = _counter(
    "ingest_requests_total",
    "produce requests by outcome: ok, or the code of the error",
    "outcome",
    known=(("ok",), ("overloaded",)),
)
INGEST_RECORDS = _counter("ingest_records_total", "records acknowledged")
INGEST_BYTES = _counter(
    "ingest_record_bytes_total", "bytes of keys, values and headers acknowledged"
)
INGEST_REQUEST_S = _histogram(
    "ingest_request_seconds",
    "time of a produce request that was answered with 200, from its headers on",
    _FAST_S,
)
INGEST_COMMIT_S = _histogram(
    "ingest_commit_seconds",
    "time of a group commit by phase: gathering (from its first request to its stamp), writing "
    "(the data file), committing, all (from its stamp to durable)",
    _FAST_S,
    "phase",
)
INGEST_GROUP_ROWS = _histogram("ingest_group_rows", "records in a group commit", _ROWS)
INGEST_PENDING = _gauge("ingest_pending_bytes", "bytes being read, parsed or committed")
INGEST_INCARNATIONS = _gauge(
    "ingest_incarnations",
    "inbox shards opened by this process; above 1: it was taken for dead",
)
INGEST_PRODUCERS = _gauge(
    "ingest_producers", "producers with an id that sent something in the last 5 minutes"
)
INBOX_RECORDS = _gauge(
    "ingest_unordered_records",
    "records acknowledged by this process that are not in `log` yet",
)
INBOX_BYTES = _gauge("ingest_unordered_bytes", "bytes of these records")
INBOX_AGE = _gauge(
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
    INBOX_RECORDS,
    INBOX_BYTES,
    INBOX_AGE,
    *FRONT,
)

# -- consumer service -----------------------------------------------------------------------------

DELIVERED_RECORDS = _counter(
    "consumer_delivered_records_total", "records that left in answers", "group"
)
DELIVERED_BYTES = _counter(
    "consumer_delivered_bytes_total", "bytes of answers that had records", "group"
)
UNDECODABLE = _counter(
    "consumer_undecodable_records_total",
    "records that could not be read: dead letters of queue groups, tombstones in stream groups",
    "group",
)
DEAD_LETTERS_REFUSED = _gauge(
    "consumer_dead_letters_refused_seconds",
    "for how long the dead-letter topic of a group has not taken a dead record; its description "
    "says why (`dying_because`)",
    "group",
)
ACK_S = _histogram(
    "consumer_ack_seconds", "time from an ack's arrival to its answer with 200", _FAST_S
)
ACKS_REFUSED = _counter(
    "consumer_refused_acks_total", "acks answered with an error, by its code", "code"
)
JOURNAL_COMMIT_S = _histogram(
    "consumer_commit_seconds",
    "time of a group commit of facts by phase: writing (the data file), committing, all",
    _FAST_S,
    "phase",
)
PARKED_POLLS = _gauge("consumer_parked_polls", "long polls that wait")
MEMBERS = _gauge("consumer_members", "members that joined at this node: the consumers")
LEASES_HELD = _gauge("consumer_leases", "leases on partitions that this node holds")
LEASE_CHANGES = _counter(
    "consumer_lease_changes_total",
    "partitions taken (delivered from here on), returned (given back), lost (the session ended, or "
    "a newer epoch fenced us)",
    "change",
    known=(("taken",), ("returned",), ("lost",)),
)
OUTSTANDING = _gauge(
    "consumer_outstanding_records", "records that are at consumers of this node, not settled yet"
)
TAIL_BYTES = _gauge("consumer_tail_bytes", "newest records in memory")
GAP_OFFSETS = _gauge(
    "consumer_gap_offsets",
    "offsets without a record that reads have come upon since the start: another engine has deleted"
    " rows of the table log",
)
ASSIGNMENTS = _counter(
    "controller_assignments_total", "assignments written, each after a change of some group"
)

CONSUMER = (
    DELIVERED_RECORDS,
    DELIVERED_BYTES,
    UNDECODABLE,
    DEAD_LETTERS_REFUSED,
    ACK_S,
    ACKS_REFUSED,
    JOURNAL_COMMIT_S,
    PARKED_POLLS,
    MEMBERS,
    LEASES_HELD,
    LEASE_CHANGES,
    OUTSTANDING,
    TAIL_BYTES,
    GAP_OFFSETS,
    LEADING,
    ASSIGNMENTS,
    *FRONT,
)

# -- driver: order and offsets jobs ---------------------------------------------------------------

JOB_TERMS = _counter("terms_total", "terms begun by this process: order or offsets", "election")
ORDER_RECORDS = _counter(
    "order_records_total",
    "records taken from the inbox by what became of them: ordered, duplicate, refused",
    "result",
    known=(("ordered",), ("duplicate",), ("refused",)),
)
ORDER_PUT_ASIDE = _counter(
    "order_put_aside_total",
    "records that could not be ordered and stand in `rejects` as they are, by topic (empty: not "
    "known) and reason: malformed, unorderable, unreadable",
    "topic",
    "reason",
)
ORDER_WAITING = _gauge(
    "order_waiting_shards",
    "inbox shards that wait for a person, since a file of theirs is gone or they cannot be read; "
    "`/readyz` of the driver names them",
)
ORDER_BATCH_S = _histogram(
    "order_batch_seconds",
    "time of a batch by phase: numbering, writing (values, from inbox files into log files), "
    "committing, all",
    _FAST_S,
    "phase",
)
ORDER_BATCH_ROWS = _histogram("order_batch_rows", "records in a batch", _ROWS)
ORDER_INDEX = _gauge("order_index_ids", "message ids in the index of deduplication")
ORDER_PENDING = _gauge(
    "order_pending_records",
    "records seen in all inbox shards and not admitted to a batch yet, by the last look",
)
FOLD_S = _histogram("offsets_fold_seconds", "time of a fold into `group_offsets`", _FAST_S)
FOLDED_FACTS = _counter("offsets_facts_total", "facts folded")
FACTS_SET_ASIDE = _counter(
    "offsets_facts_set_aside_total",
    "rows of journal shards that are no facts, so they were not folded; the log names them "
    "(`fact.set_aside`)",
)
GROUP_LAG = _gauge(
    "group_lag_records",
    "backlog: records of the topic that the group has not settled, open ones included; as of the "
    "last fold, told by the leader of the offsets job, until the group or the topic is deleted",
    "group",
    "topic",
)
GROUP_OPEN = _gauge(
    "group_open_records",
    "queue groups: records by stage: in_flight, parked, dying; as of the last fold",
    "group",
    "stage",
)
GROUPS = _gauge("groups", "groups that have a position; told by the leader of the offsets job")
TOPICS = _gauge("topics", "topics; told by the leader of the order job")
PARTITIONS = _gauge("topic_partitions", "partitions of all topics; as above")
NODES = _gauge("nodes", "nodes registered in ZooKeeper: ingest, consumer, driver", "kind")
TABLE_FILES = _gauge(
    "table_data_files",
    "data files of a table (inbox and journal: of all shards) as they lie in storage, those that "
    "wait for vacuum included; looked at every `metrics.tables_s` by the leader of the order job",
    "table",
)
TABLE_BYTES = _gauge("table_data_bytes", "bytes of these files", "table")
TABLE_LOG_OBJECTS = _gauge(
    "table_log_objects", "objects in `_delta_log` of a table, or of all its shards", "table"
)
SHARDS = _gauge("shards", "shards that exist: inbox or journal", "table")
MAINTENANCE = _counter(
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

ROLES: dict[str, tuple[Metric, ...]] = {
    "ingest": INGEST,
    "consumer service": CONSUMER,
    "driver": DRIVER,
}
"""What each role exports beside `EVERY`."""
