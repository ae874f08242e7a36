"""What a consumer-service node exports."""

from __future__ import annotations

from lakequeue.metrics.declaring import FAST_S, counter, gauge, histogram
from lakequeue.metrics.every import LEADING
from lakequeue.metrics.front import FRONT

DELIVERED_RECORDS = counter("consumer_delivered_records_total", "records sent in answers", "group")
DELIVERED_BYTES = counter(
    "consumer_delivered_bytes_total", "bytes of answers with records", "group"
)
UNDECODABLE = counter(
    "consumer_undecodable_records_total",
    "records that could not be read: dead letters of queue groups, tombstones in stream groups; or "
    "not be judged by the predicate: they match nothing",
    "group",
)
DEAD_LETTERS = counter(
    "consumer_dead_letters_total",
    "records that this node has sent to a dead-letter topic, since nobody acked them in time",
    "group",
)
DEAD_LETTERS_REFUSED = gauge(
    "consumer_dead_letters_refused_seconds",
    "for how long the dead-letter topic of a group has not taken a dead record; its description "
    "says why (`dying_because`)",
    "group",
)
ACK_S = histogram(
    "consumer_ack_seconds", "time from an ack's arrival to its answer with 200", FAST_S
)
ACKS_REFUSED = counter(
    "consumer_refused_acks_total", "acks answered with an error, by its code", "code"
)
JOURNAL_COMMIT_S = histogram(
    "consumer_commit_seconds",
    "time of a group commit of facts by phase: writing (the data file), committing, all",
    FAST_S,
    "phase",
)
PARKED_POLLS = gauge("consumer_parked_polls", "long polls that wait")
MEMBERS = gauge("consumer_members", "members that joined at this node: the consumers")
LEASES_HELD = gauge("consumer_leases", "leases on partitions that this node holds")
LEASE_CHANGES = counter(
    "consumer_lease_changes_total",
    "partitions taken (delivered from here on), returned (given back), lost (the session ended, or "
    "a newer epoch fenced us)",
    "change",
    known=(("taken",), ("returned",), ("lost",)),
)
OUTSTANDING = gauge(
    "consumer_outstanding_records", "records that are at consumers of this node, not settled yet"
)
TAIL_BYTES = gauge("consumer_tail_bytes", "newest records in memory")
GAP_OFFSETS = gauge(
    "consumer_gap_offsets",
    "offsets without a record that reads have come upon since the start: another engine has deleted"
    " rows of the table log",
)
ASSIGNMENTS = counter(
    "controller_assignments_total", "assignments written, each after a change of some group"
)

CONSUMER = (
    DELIVERED_RECORDS,
    DELIVERED_BYTES,
    UNDECODABLE,
    DEAD_LETTERS,
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
