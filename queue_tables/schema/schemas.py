"""Every table of the queue, declared once: columns with their meaning, partitioning, statistics.

Rendered for Arrow here, for Spark as DDL, for Delta as its schema JSON, and for people as
`docs/tables.md` (generated). Only base Delta features; times are UTC microseconds.
"""

from __future__ import annotations

from dataclasses import replace

from lakequeue.wire.calls.topics import TopicSettings
from lakequeue.wire.limits import MAX_MESSAGE_ID_CHARS, MAX_WHOLE
from queue_tables.delta.columns import Column, Table
from queue_tables.schema.reasons import WRITTEN
from queue_tables.schema.settings_columns import settings_columns

# How long a checkpoint tells of removed files: longer than vacuum's longest grace, no more, since
# compaction removes as many as are written.
_TOMBSTONES = (("delta.deletedFileRetentionDuration", "interval 25 hours"),)
# Files that leave a shard are deleted at once: no checkpoint needs to tell of them for long.
_SHARD_TOMBSTONES = (("delta.deletedFileRetentionDuration", "interval 1 hours"),)
_HOUR = Column("hour", "string", "partition: UTC hour of the commit, `2013-01-31T07`")
_MAX_SEQUENCE = (1 << 63) - 2
_RECORD = (
    Column("topic_id", "string", "id of the incarnation of the topic", required=True, most=64),
    Column("partition", "int", "partition of the topic", required=True, least=0),
    Column("key", "binary", "key as sent, null if none"),
    Column("value", "binary", "value as sent, null for a tombstone"),
    Column("key_format", "int", "0 bytes, 1 text, 2 JSON", least=0, most=2),
    Column("value_format", "int", "0 bytes, 1 text, 2 JSON", least=0, most=2),
    Column("headers", "headers", "headers in the order sent"),
    Column(
        "timestamp",
        "timestamp",
        "the record's own time, given by the producer, else arrival",
        required=True,
    ),
    Column(
        "message_id",
        "string",
        "what deduplication goes by; null: not deduplicated",
        least=1,
        most=MAX_MESSAGE_ID_CHARS,
    ),
    Column("producer_id", "string", "name of an idempotent producer", least=1, most=249),
    Column("producer_epoch", "long", "epoch of that producer", least=1, most=MAX_WHOLE),
    Column("sequence", "long", "sequence number within that producer", least=0, most=_MAX_SEQUENCE),
    Column(
        "stamp",
        "long",
        "hybrid logical time of the group commit, microseconds",
        required=True,
        least=1,
    ),
    Column("row", "int", "position within the group commit", required=True, least=0),
    Column("deliver_at", "timestamp", "not delivered before (queue groups); null: at once"),
    Column("expires_at", "timestamp", "not delivered from then on; null: never"),
)

TOPICS = Table(
    "topics",
    "One row per version of a topic; the highest version of a name counts.",
    "ingest nodes, compare-and-set",
    (
        Column("topic", "string", "name"),
        Column("topic_id", "string", "id of this incarnation"),
        Column("version", "long", "rises with each change of the topic"),
        Column("deleted", "bool", "true: the topic is gone"),
        *settings_columns(TopicSettings),
        Column(
            "closed_until",
            "long",
            "until then (microseconds since 1970) nodes take no records, to drain it; null: open",
        ),
        Column("changed_at", "timestamp", "time of this version"),
    ),
    later=frozenset({"annotations", "value_schema_type", "value_compatibility", "value_policy"}),
)

INBOX = Table(
    "inbox",
    "Acknowledged records that are not ordered yet; one table per ingest process.",
    "that ingest process; a sealer",
    (
        _HOUR,
        *_RECORD,
        Column("request", "string", "id of the produce request, within the shard", most=512),
        Column("atomic", "bool", "the request is taken or refused as a whole"),
        Column(
            "consumed",
            "string",
            "JSON of what this request consumed, see the order protocol",
            shape="consumed",
        ),
        Column("bytes", "int", "key + value + headers", required=True, least=0),
    ),
    partition_by=("hour",),
    sharded=True,
    properties=_SHARD_TOMBSTONES,
)

_FIRST = ("topic", "partition", "offset", "key", "value", "headers", "timestamp")
_INTERNAL = {"topic_id", "producer_id", "producer_epoch", "sequence", "stamp", "row", "shard"}


def _readable_first(*columns: Column) -> tuple[Column, ...]:
    """What people look for first, what the queue itself needs last, with a word that says so."""

    def rank(column: Column) -> int:
        if column.name in _FIRST:
            return _FIRST.index(column.name)
        return len(_FIRST) + (column.name in _INTERNAL)

    return tuple(
        replace(column, doc=f"internal: {column.doc}") if column.name in _INTERNAL else column
        for column in sorted(columns, key=rank)
    )


LOG = Table(
    "log",
    "The ordered records: the truth.",
    "the order leader; maintenance",
    _readable_first(
        Column("topic", "string", "name of the topic when the record was ordered"),
        Column("offset", "long", "position in the partition, gapless from 0"),
        *_RECORD,
        Column("ordered_at", "timestamp", "when the order leader numbered it"),
        Column("shard", "string", "inbox shard it came through"),
        _HOUR,
    ),
    partition_by=("hour",),
    stats=("topic", "topic_id", "partition", "offset", "timestamp", "ordered_at", "stamp"),
    properties=_TOMBSTONES,
)

JOURNAL = Table(
    "journal",
    "Facts of consumption; one table per consumer-service process.",
    "that consumer-service process; takers of its partitions (a fence); a sealer",
    (
        _HOUR,
        Column("stamp", "long", "hybrid logical time of the group commit, microseconds"),
        Column("row", "int", "position within the group commit"),
        Column(
            "kind",
            "string",
            "taken, committed, seek, group_deleted; of records in queue groups: delivered, "
            "parked, acked, dying, dead, expired",
        ),
        Column("group", "string", "consumer group"),
        Column("topic", "string", "name of the topic"),
        Column("topic_id", "string", "id of the incarnation of the topic"),
        Column("partition", "int", "partition"),
        Column("generation", "long", "raised by a seek"),
        Column("epoch", "long", "epoch of the lease under which the fact was made"),
        Column("offset", "long", "committed, seek: the next offset to deliver; else the record"),
        Column("end_offset", "long", "of records: the facts hold for offset to end_offset - 1"),
        Column("attempt", "int", "of records: the attempt, from 1; 0 before the first delivery"),
        Column("until", "timestamp", "delivered: the deadline; parked: when it is due"),
        Column("first_at", "timestamp", "of records: when it was delivered first"),
        Column("key_hash", "long", "of records, with key order: a hash of the key"),
        Column("expires_at", "timestamp", "of records: not delivered from then on; null: never"),
        Column(
            "reason", "string", "dying, dead: max_attempts, …; dying: `: ` and what a nack said"
        ),
        Column("dead_letter", "string", "dead: where it stands now, `topic/partition@offset`"),
        Column("member", "string", "member the fact is about; taken in a queue group: the node"),
        Column("mode", "string", "stream or queue"),
        Column("options", "string", "taken: the options of the group, JSON"),
        Column("at", "timestamp", "when the fact was made"),
    ),
    partition_by=("hour",),
    sharded=True,
    properties=_SHARD_TOMBSTONES,
)

GROUP_OFFSETS = Table(
    "group_offsets",
    "The folded state of each group and partition; rewritten whole by each fold.",
    "the offsets leader",
    (
        Column("group", "string", "consumer group"),
        Column("topic", "string", "name of the topic"),
        Column("topic_id", "string", "id of the incarnation of the topic"),
        Column("partition", "int", "partition"),
        Column("mode", "string", "stream or queue"),
        Column("generation", "long", "raised by each seek"),
        Column(
            "committed_offset",
            "long",
            "next offset to deliver; null: nothing committed yet. Queue groups: the first offset "
            "never seen, `open` has what is below it and not settled",
        ),
        Column("epoch", "long", "highest lease epoch seen"),
        Column("owner_shard", "string", "journal shard that took it at that epoch"),
        Column("member", "string", "member that held it at that epoch"),
        Column("holders", "holders", "what each shard said last: taken (true) or fenced (false)"),
        Column("options", "string", "the options of the group, JSON"),
        Column("seen", "ranges", "queue groups: offsets delivered, parked or settled"),
        Column(
            "open",
            "open",
            "queue groups: of `seen`, the records that are not settled; stage 0 with a consumer "
            "until the deadline `until`, 1 parked until it is due, 2 on its way to the dead "
            "letters",
        ),
        Column("dead", "dead", "queue groups: of `seen`, the newest dead records, 10,000 at most"),
        Column(
            "expired",
            "ranges",
            "queue groups: of `seen`, the newest expired records, 100,000 at most",
        ),
        Column(
            "ends_known_from",
            "long",
            "queue groups: from this offset on it is known how records ended: if a settled "
            "record is neither in `dead` nor in `expired`, it was acked, or a seek skipped it",
        ),
        Column("changed_at", "timestamp", "time of the newest fact"),
    ),
    # Each fold replaces the one file: what was replaced must not pile up in checkpoints.
    properties=(
        ("delta.deletedFileRetentionDuration", "interval 1 hours"),
        ("delta.logRetentionDuration", "interval 1 hours"),
    ),
)

REJECTS = Table(
    "rejects",
    "Acknowledged records that got no offset of their own, and why.",
    "the order leader",
    (
        _HOUR,
        Column("topic", "string", "name of the topic, if it is known"),
        *_RECORD,
        Column(
            "reason",
            "string",
            "; ".join(f"{reason}: {reason.doc}" for reason in WRITTEN),
        ),
        Column("original_partition", "int", "duplicate: partition of the original"),
        Column("original_offset", "long", "duplicate: offset of the original"),
        Column("rejected_at", "timestamp", "when the order leader refused it"),
        Column("shard", "string", "inbox shard it came through"),
        Column(
            "detail", "string", "malformed, unorderable, unreadable: the broken rule, or the error"
        ),
    ),
    partition_by=("hour",),
    later=frozenset({"detail"}),
    properties=_TOMBSTONES,
)

METRICS = Table(
    "metrics",
    "What each partition and each group did in an hour, written once when the hour is over.",
    "the job `metrics`",
    (
        Column("hour", "string", "UTC hour, `2013-01-31T07`"),
        Column("topic", "string", "name of the topic"),
        Column("topic_id", "string", "id of the incarnation of the topic"),
        Column("partition", "int", "partition of the topic"),
        Column("group", "string", "consumer group; null: the row is about the partition itself"),
        Column("records_in", "long", "partition: records ordered in the hour"),
        Column("bytes_in", "long", "partition: their keys, values and headers"),
        Column("end_offset", "long", "next offset of the partition at the end of the hour"),
        Column("mode", "string", "group: stream or queue"),
        Column("generation", "long", "group: raised by each seek"),
        Column(
            "consumed",
            "long",
            "group: how many records were done at the end of the hour, from offset 0 on: the "
            "position of a stream group, the settled records of a queue group",
        ),
        Column(
            "records_out",
            "long",
            "group: by how much `consumed` rose in the hour; null: not known, as in the first hour "
            "of a group or after a seek",
        ),
        Column("bytes_out", "long", "group: their keys, values and headers; null: not known"),
        Column("lag", "long", "group: records that were not done at the end of the hour"),
        Column("measured_at", "timestamp", "when the row was written"),
    ),
    stats=("hour", "topic", "partition"),
    properties=_TOMBSTONES,
)

GROUP_HISTORY = Table(
    "group_history",
    "Positions of all groups and transforms, saved once an hour; after two days, one of each day "
    "is kept. A fork can go back to these times.",
    "the job `metrics`",
    (
        Column("as_of", "timestamp", "time of the save, in whole milliseconds; each file has one"),
        Column(
            "mark",
            "string",
            "name of a `txn` of `log`: a next offset, or the position of a transform; null: the "
            "row comes from `group_offsets`",
        ),
        Column("mark_version", "long", "version of that `txn`"),
        *GROUP_OFFSETS.columns,
    ),
    stats=("as_of",),
    properties=_TOMBSTONES,
)

ACCESS = Table(
    "access",
    "Who may do what: keys, grants, issuers, quotas; and the key that seals secrets of webhooks. "
    "One row per version of an entry; the highest version of a kind and name counts. Created by "
    "`lakequeue auth init`, or with the first webhook. Its folder can be read by its owner alone.",
    "`lakequeue auth`, nodes of the consumer service (keys of their own); compare-and-set",
    (
        Column("kind", "string", "authentication, key, grant, issuer, quota or sealing"),
        Column("name", "string", "key: its id, which begins the key as `lq_<id>_`"),
        Column("version", "long", "rises with each change of the entry"),
        Column("deleted", "bool", "true: the entry was revoked"),
        Column(
            "principal", "string", "user or program that it is for; with an issuer: <issuer>/<name>"
        ),
        Column(
            "body",
            "string",
            "JSON; key: only its SHA-256; sealing: the key that seals secrets of webhooks",
        ),
        Column("expires_at", "long", "key: microseconds since 1970; null: never"),
        Column("changed_at", "timestamp", "time of this version"),
        Column("changed_by", "string", "who made this version"),
    ),
    when_needed=True,
)

AUDIT = Table(
    "audit",
    "What was changed and what was refused, by whom. Never what records hold. Created with its "
    "first row. Its folder can be read by its owner alone.",
    "every process that is called; compare-and-set",
    (
        Column("at", "timestamp", "when the call was answered"),
        Column("node", "string", "who answered it; `cli`: the command line, on the root itself"),
        Column("principal", "string", "who called"),
        Column("how", "string", "by which key, token or certificate; never a secret"),
        Column("address", "string", "from where"),
        Column("call", "string", "method and path, as /openapi.json has it; or the command"),
        Column("name", "string", "the topic, group, producer or principal that it is about"),
        Column("outcome", "string", "done, refused or failed"),
        Column("status", "int", "HTTP status of the answer; null: no HTTP"),
        Column("detail", "string", "refused, failed: the code of the error"),
        Column("before", "string", "JSON: the state before the change; null: not known"),
        Column("after", "string", "JSON: the request, without secrets"),
        Column(
            "count",
            "long",
            "how many refusals, or records of a redrive: those of one kind in one second are one "
            "row",
        ),
    ),
    stats=("at",),
    properties=_TOMBSTONES,
    when_needed=True,
)

GROUP_SETTINGS = Table(
    "group_settings",
    "What people said about groups: pauses, webhooks, options given before anybody joined. "
    "ZooKeeper has a copy that is filled from here. One row per version of a setting; the highest "
    "version of a kind and group counts. Created with its first row.",
    "nodes of the consumer service, compare-and-set",
    (
        Column("kind", "string", "options, pause or webhook"),
        Column("group", "string", "consumer group"),
        Column("version", "long", "rises with each change of the setting"),
        Column("deleted", "bool", "true: it was taken back"),
        Column("body", "string", "JSON; the secret of a webhook is sealed"),
        Column("changed_at", "timestamp", "time of this version"),
        Column("changed_by", "string", "node that made this version"),
    ),
    when_needed=True,
)

TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        TOPICS,
        INBOX,
        LOG,
        JOURNAL,
        GROUP_OFFSETS,
        REJECTS,
        METRICS,
        GROUP_HISTORY,
        ACCESS,
        AUDIT,
        GROUP_SETTINGS,
    )
}
