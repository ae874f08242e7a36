"""The named steps of every protocol: documents list them, logs print them, tests crash at them.

`reach(step)` is called at the point in the code that the step names. A process that was armed
(`--crash-at order.committed` or `--crash-at ingest.data_written:3`, the third time) kills itself
there with SIGKILL, as a power cut would; `:stop` in place of `kill` freezes it with SIGSTOP.
"""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass
from enum import StrEnum

from lakequeue.errors import InvalidRequest


class Step(StrEnum):
    """`<protocol>.<what has just become true>`."""

    INGEST_SEALED = "ingest.sealed"
    """The group is closed and has its stamp; nothing is written."""
    INGEST_DATA_WRITTEN = "ingest.data_written"
    """The Parquet file is durable, no commit names it."""
    INGEST_COMMITTED = "ingest.committed"
    """The commit is durable; the producer has no answer."""
    INGEST_ANSWERED = "ingest.answered"
    """The producers of the group have their answers."""

    ORDER_EPOCH_COMMITTED = "order.epoch_committed"
    """The new leader's epoch stands in `log`; the old one can commit no more."""
    ORDER_CUT = "order.cut"
    """The batch is planned; nothing is written."""
    ORDER_NUMBERED = "order.numbered"
    """Offsets are assigned in memory."""
    ORDER_REJECTS_COMMITTED = "order.rejects_committed"
    """Refused rows and duplicates stand in `rejects`."""
    ORDER_DATA_WRITTEN = "order.data_written"
    """The log files are durable, no commit names them."""
    ORDER_COMMITTED = "order.committed"
    """Rows and watermarks are durable in one commit; no notification is sent."""
    ORDER_NOTIFIED = "order.notified"

    JOURNAL_DATA_WRITTEN = "journal.data_written"
    """The facts' file is durable, no commit names it."""
    JOURNAL_COMMITTED = "journal.committed"
    """The facts are durable; the consumer has no answer."""

    QUEUE_DELIVERED = "queue.delivered"
    """Queue groups: deliveries are durable, with attempt and deadline; no record has left."""
    QUEUE_SETTLED = "queue.settled"
    """Acks, nacks and extensions are durable; the consumer has no answer."""
    DEAD_DYING = "dead.dying"
    """The fact *dying* is durable; the dead letter is not sent."""
    DEAD_SENT = "dead.sent"
    """The dead letter is ordered in its topic; nothing of ours says so."""
    DEAD_SETTLED = "dead.settled"
    """The fact *dead* is durable."""

    TAKEOVER_LEASED = "takeover.leased"
    """The lease is held in ZooKeeper; nothing stands in the tables."""
    TAKEOVER_FENCED = "takeover.fenced"
    """Every earlier holder's shard carries the fence."""
    TAKEOVER_READ = "takeover.read"
    """The position is known: folded state plus all facts not folded."""
    TAKEOVER_TAKEN = "takeover.taken"
    """The fact *taken* is durable; delivery may start."""

    FOLD_READ = "fold.read"
    FOLD_DATA_WRITTEN = "fold.data_written"
    FOLD_COMMITTED = "fold.committed"

    TRANSFORM_TAKEN = "transform.taken"
    """Records are in the application's hands; nothing of them counts."""
    TRANSFORM_COUNTED = "transform.counted"
    """The output and what it was made from count; the group has not been told."""
    TRANSFORM_ACKED = "transform.acked"
    """The acknowledgement is queued."""

    EFFECT_TAKEN = "effect.taken"
    """Records are in the application's hands; the result table has nothing of them."""
    EFFECT_COMMITTED = "effect.committed"
    """The result and its position are in one commit; the group has not been told."""
    EFFECT_ACKED = "effect.acked"
    """The acknowledgement is queued."""

    BULK_DATA_WRITTEN = "bulk.data_written"
    """A task's file is durable, no commit names it."""
    BULK_SETTLED = "bulk.settled"
    """Every other run of the writer is shut out, and what they committed is known."""
    BULK_COMMITTED = "bulk.committed"
    """The whole batch is durable in one commit; Spark has not noted it."""

    SEAL_COMMITTED = "seal.committed"
    """The shard is sealed: its owner, if it still lives, can append no more."""

    RETENTION_PLANNED = "retention.planned"
    """It is known what may go; nothing has changed."""
    RETENTION_LOG_COMMITTED = "retention.log_committed"
    """Expired files belong to `log` no more; they still exist."""
    RETENTION_REJECTS_COMMITTED = "retention.rejects_committed"
    """Old hours belong to `rejects` no more."""
    RETENTION_SHARD_COMMITTED = "retention.shard_committed"
    """Ordered (folded) files belong to their shard no more; they still exist."""
    SHARD_DATA_REMOVED = "retention.shard_data_removed"
    """The data files of a shard that is done with are gone; its log is there."""
    SHARD_LOG_REMOVING = "retention.shard_log_removing"
    """One more file of its log is gone."""

    ERASE_PLANNED = "erase.planned"
    """It is known which records are erased; nothing has changed."""
    ERASE_INBOX_DONE = "erase.inbox_done"
    """The inbox files they came in are deleted."""
    ERASE_DATA_WRITTEN = "erase.data_written"
    """Files with tombstones are durable, no commit names them."""
    ERASE_REJECTS_COMMITTED = "erase.rejects_committed"
    """Copies in `rejects` are tombstones."""
    ERASE_LOG_COMMITTED = "erase.log_committed"
    """The records and their dead letters are tombstones; old files still exist."""

    COMPACTION_PLANNED = "compaction.planned"
    """It is known which files of `log` are rewritten together; nothing has changed."""
    COMPACTION_DATA_WRITTEN = "compaction.data_written"
    """The new files are durable, no commit names them."""
    COMPACTION_COMMITTED = "compaction.committed"
    """New files have taken the place of old ones, which still exist."""
    VACUUM_FENCED = "compaction.vacuum_fenced"
    """Whoever has written files long ago, and not committed them, can commit them no more."""
    VACUUM_REMOVING = "compaction.vacuum_removing"
    """One more file that no version needs is gone."""
    UPKEEP_CHECKPOINTED = "compaction.checkpointed"
    """A checkpoint stands for the commits of a table."""
    UPKEEP_CLEANING = "compaction.cleaning"
    """One more commit file that a checkpoint stands for is gone."""

    METRICS_DATA_WRITTEN = "metrics.data_written"
    """The rows of an hour are durable, no commit names them."""
    METRICS_COMMITTED = "metrics.committed"
    """The hour is in `metrics`, for good."""
    METRICS_HISTORY_WRITTEN = "metrics.history_written"
    """Where groups are is durable in a file, no commit names it."""
    METRICS_HISTORY_COMMITTED = "metrics.history_committed"
    """`group_history` tells of one more instant."""

    MIRROR_CUT = "mirror.cut"
    """Groups, log and topics of the source are read, in this order; nothing has changed."""
    MIRROR_TOPICS_COMMITTED = "mirror.topics_committed"
    """The replica has the topics of all that comes."""
    MIRROR_DATA_WRITTEN = "mirror.data_written"
    """Copied files of `log` are durable in the replica, no commit names them."""
    MIRROR_ROWS_COMMITTED = "mirror.rows_committed"
    """The replica has more records: a longer prefix."""
    MIRROR_EXCHANGED = "mirror.exchanged"
    """Rewritten files have taken the place of old ones, which still exist."""
    MIRROR_GROUPS_COMMITTED = "mirror.groups_committed"
    """The positions of groups are those of the cut."""
    MIRROR_FENCED = "mirror.fenced"
    """Promotion: one more table takes nothing from a mirror any more."""
    MIRROR_PROMOTED = "mirror.promoted"
    """The replica is a queue of its own."""

    UPGRADE_GUARDED = "upgrade.guarded"
    """One more table has the guard."""
    UPGRADE_RAISED = "upgrade.raised"
    """The root is of the newer format: an older release does not start on it any more."""
    UPGRADE_WIDENED = "upgrade.widened"
    """One more table has its later columns."""


@dataclass(slots=True)
class _Armed:
    step: Step
    countdown: int
    signal: signal.Signals


_armed: _Armed | None = None


def arm(spec: str | None) -> None:
    """Arm this process: `step[:count[:kill|stop]]`. `None` or "" disarms."""
    global _armed
    if not spec:
        _armed = None
        return
    name, _, rest = spec.partition(":")
    count, _, how = rest.partition(":")
    if name not in set(Step) or (count and not count.isdigit()) or how not in {"", "kill", "stop"}:
        raise InvalidRequest(
            f"crash point {spec!r} is not valid",
            hint=f"step[:count[:kill|stop]], with a step of {', '.join(Step)}",
        )
    sig = signal.SIGSTOP if how == "stop" else signal.SIGKILL
    _armed = _Armed(Step(name), int(count or 1), sig)


def reach(step: Step) -> None:
    """Say that `step` is reached; die or freeze here if this process was armed for it."""
    global _armed
    if _armed is None or _armed.step is not step:
        return
    _armed.countdown -= 1
    if _armed.countdown == 0:
        sig, _armed = _armed.signal, None
        # To this thread. What is sent to the process goes to its first thread: as long as that has
        # no processor, SIGSTOP stops nobody, and this thread goes on behind the step.
        signal.pthread_kill(threading.get_ident(), sig)
