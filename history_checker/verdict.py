"""Every anomaly by name, what is asked of a history, and the verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal


class Anomaly(StrEnum):
    """The specification. Always a fault, unless the text says in which mode."""

    # -- The log ----------------------------------------------------------------------------------
    LOST_WRITE = "lost-write"
    """The final read lacks an acknowledged send beyond which the log has gone on, or what was
    received."""
    UNSEEN = "unseen"
    """The same, at the end of the log."""
    DUPLICATE = "duplicate"
    """One value at more than one offset of a topic, but for those that a redrive sent again."""
    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    """One (topic incarnation, partition, offset) with two values, over all readers."""
    OFFSET_REUSE = "offset-reuse"
    """The same, and between the two readings something was restored or a process had died."""
    ABORTED_READ = "aborted-read"
    """The value of a send that was refused (`stored: no`) was read."""
    PHANTOM = "phantom"
    """A value was read that nobody tried to send."""
    GAP = "gap"
    """The final read of a partition is not first, first + 1, …; only the erased may be missing."""
    NONMONOTONIC_SEND = "nonmonotonic-send"
    """Of two acknowledged sends of one process to one partition, the second invoked after the first
    was acknowledged, the later has the lower offset; or records of one batch are out of order."""
    INT_POLL_SKIP = "int-poll-skip"
    """A hole within one poll's answer that nothing erased or expired explains."""
    INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
    """A step back, or the same offset twice, within one poll's answer (stream groups)."""
    POLL_SKIP = "poll-skip"
    """A hole between two polls under one lease (stream groups)."""
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    """A step back between two polls under one lease (stream groups)."""
    TORN_BATCH = "torn-batch"
    """A log version holds a strict subset of an atomic batch."""
    INTERLEAVED_BATCH = "interleaved-batch"
    """Within a partition something else lies between the records of one atomic batch."""
    READ_CYCLE = "read-cycle"
    """Transactions that read each other's output, in a circle."""
    PRECOMMITTED_READ = "precommitted-read"
    """A transaction reads its own output, or a record is read before its send was invoked."""
    GARBAGE_OFFSET = "garbage-offset"
    """An acknowledgement names an offset at which the log has something else, or nothing."""
    STALE_ACK = "stale-ack"
    """A look at the log, begun after a send was answered as ordered, does not have it yet."""
    VERSION_REGRESSION = "version-regression"
    """One reader sees an older version than before."""
    DEDUP_MISS = "dedup-miss"
    """Two records with one id in the log, sent within the window."""
    DEDUP_FALSE_DROP = "dedup-false-drop"
    """A send answered as a duplicate though nobody had sent that id before."""
    DEDUP_GHOST = "dedup-ghost"
    """A send answered as a duplicate of a record that never becomes visible."""

    # -- Stream groups ----------------------------------------------------------------------------
    UNDELIVERED = "undelivered"
    """In the log, and never received by a group that was drained (not in at-most-once)."""
    GROUP_DEPENDENCE = "group-dependence"
    """The same, and another group acknowledged it before: its acks reached into this group."""
    AHEAD_OF_COMMIT = "ahead-of-commit"
    """A new lease begins beyond every position that was or may have been committed."""
    ACK_LOST = "ack-lost"
    """Received under a later lease, or after a crash, though an ack of it was answered `ok`."""
    ZOMBIE_COMMIT = "zombie-commit"
    """A commit under epoch e answered `ok`, invoked after a delivery under a higher epoch."""
    TWO_OWNERS = "two-owners"
    """One lease (group, partition, epoch) delivers to two members."""
    DELIVERED_TWICE = "delivered-twice"
    """At most once: one record received twice by a group."""

    # -- Queue groups -----------------------------------------------------------------------------
    DOUBLE_LEASE = "double-lease"
    """Delivered to another worker while a lease on it lives: before its end, an ack, a nack, and
    the worker's leaving."""
    EARLY_REDELIVERY = "early-redelivery"
    """The same, to the same worker."""
    RESURRECTION = "resurrection"
    """Delivered after an ack of it was answered `ok`."""
    STALE_RECEIPT = "stale-receipt"
    """An ack, nack or extend answered `ok` though, when it was invoked, a higher attempt had been
    received or the lease had ended."""
    ACKED_TWICE = "acked-twice"
    """Acks of two attempts at one record answered `ok`."""
    ACK_WIDENING = "ack-widening"
    """A record that its worker did not settle counts as done: an ack of another took it along."""
    REPEATED_ATTEMPT = "repeated-attempt"
    """One attempt at one record received twice."""
    FALLING_ATTEMPT = "falling-attempt"
    """A lower attempt received by a poll that was invoked after a higher one had been received."""
    OVER_ATTEMPTS = "over-attempts"
    """More attempts than `max_attempts`."""
    ACKED_AND_DEAD = "acked-and-dead"
    """An ack answered `ok`, and in the dead-letter topic."""
    DEAD_TWICE = "dead-twice"
    """Twice in the dead-letter topic."""
    DEAD_EARLY = "dead-early"
    """In the dead-letter topic with fewer than `max_attempts` attempts."""
    UNSETTLED = "unsettled"
    """Of a drained group: neither acked (or maybe), nor dead, nor expired."""
    REDRIVE_LOST = "redrive-lost"
    """Redriven, and not in the topic again."""
    REDRIVE_DOUBLED = "redrive-doubled"
    """Redriven once, and in the topic again more than once."""
    KEY_OVERTAKEN = "key-overtaken"
    """With key order: received before the record of its key before it was settled."""
    EARLY_DELIVERY = "early-delivery"
    """Before `not_before`, of the record or of a nack."""
    DELIVERED_EXPIRED = "delivered-expired"
    """After the record's `expires_at`."""
    EXPIRED_UNRECORDED = "expired-unrecorded"
    """A record that expired, was never delivered, and is not noted as expired."""

    # -- Effects ----------------------------------------------------------------------------------
    EFFECT_LOST = "effect-lost"
    """Exactly once: consumed, and without an effect."""
    EFFECT_DOUBLED = "effect-doubled"
    """Exactly once: with two effects."""
    SINK_GAP = "sink-gap"
    """A commit of a result table begins beyond the end of the one before."""
    SINK_OVERLAP = "sink-overlap"
    """It begins before that end."""
    SINK_DISAGREES = "sink-disagrees"
    """The last commit's end, the highest effect, and the group's position do not fit together."""

    # -- Delta ------------------------------------------------------------------------------------
    REPEATED_COMMIT = "repeated-commit"
    """Two versions of a table bring rows under one `txn`: an unknown outcome was tried again."""
    MAINTENANCE_VISIBLE = "maintenance-visible"
    """Two snapshots of one end differ, and nothing was erased or expired between."""
    REMOVED_UNCONSUMED = "removed-unconsumed"
    """Retention took what a drained group has not received."""
    ERASED_READ = "erased-read"
    """An erased value is read by somebody whose poll began after the erasure was answered."""
    MIXED_COMMIT = "mixed-commit"
    """A version brings new rows and removes files."""
    POSITION_BEYOND_LOG = "position-beyond-log"
    """A group's position lies behind the end of the log: tables of different moments."""
    ENGINES_DIFFER = "engines-differ"
    """Two readers of the same tables end with different records."""
    REPLICA_NOT_PREFIX = "replica-not-prefix"
    """A replica has something else than the beginning of each partition of its primary."""
    VERSION_REUSED = "version-reused"
    """One version of a table was seen with two contents, or versions are missing from a log."""

    # -- Liveness ---------------------------------------------------------------------------------
    STUCK = "stuck"
    """A call of a living process without an answer for longer than the grace."""
    ORPHAN_PARTITION = "orphan-partition"
    """Nothing of a partition is received any more after the heal, though records came in."""
    LEASE_NEVER_EXPIRES = "lease-never-expires"
    """A lease ended, the record was not settled, and nobody got it again within the grace."""
    LAG_UNBOUNDED = "lag-unbounded"
    """A record sent after the heal came later than the grace."""
    STARVED = "starved"
    """A key waits longer than the grace while later records of other keys of its partition come."""


@dataclass(frozen=True, slots=True)
class GroupRequirements:
    """What is asked of one group; by default of a stream group that may not be at its end."""

    mode: Literal["stream", "queue"] = "stream"
    delivery: Literal["at_least_once", "at_most_once", "exactly_once"] = "at_least_once"
    topics: tuple[str, ...] = ()
    """By default those that its events name."""
    drained: bool = False
    """It has got everything: then what it has not got is missing."""
    max_attempts: int = 0
    """0: no bound."""
    key_order: bool = False


@dataclass(frozen=True, slots=True)
class Requirements:
    """What is asked of the whole history."""

    groups: Mapping[str, GroupRequirements] = field(default_factory=dict)
    """Groups that are not named are judged as stream groups that need not be drained."""
    clock_eps_us: int = 0
    """How far the clocks of deliverer and recorder may differ."""
    dedup_window_s: float | None = None
    """Copies sent further apart may both be stored; None: at no distance."""
    grace_s: float | None = None
    """Bound of the liveness rules; without one they are not judged."""
    final: bool = True
    """The history ends with a read of every partition; without it nothing can be missing."""

    def of(self, group: str) -> GroupRequirements:
        """Those of a group."""
        return self.groups.get(group, GroupRequirements())


@dataclass(slots=True)
class Verdict:
    """What was found: anomalies by name with examples, and the counts that were judged."""

    anomalies: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    sent: int = 0
    acknowledged: int = 0
    stored: int = 0
    received: int = 0
    redelivered: int = 0
    acked: int = 0
    nacked: int = 0
    refused: int = 0
    dead: int = 0
    late_ms: list[float] = field(default_factory=list)
    """How late nacked records came, where somebody waited."""

    def add(self, anomaly: Anomaly, example: str) -> None:
        """Note one instance of `anomaly`."""
        self.anomalies[anomaly].append(example)

    @property
    def ok(self) -> bool:
        """No anomaly was found."""
        return not self.anomalies

    def __str__(self) -> str:
        names = ("sent", "acknowledged", "stored", "received", "redelivered")
        queue = ("acked", "nacked", "refused", "dead")
        shown = [n for n in (*names, *queue) if n in names or getattr(self, n)]
        counts = " ".join(f"{name}={getattr(self, name)}" for name in shown)
        found = "".join(
            f"\n  {name}: {len(examples)}, e.g. {'; '.join(examples[:3])}"
            for name, examples in sorted(self.anomalies.items())
        )
        return counts + (found or "\n  no anomaly")
