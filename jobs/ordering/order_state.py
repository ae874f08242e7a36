"""What the order job knows of `log`: watermarks, next offsets, ids. Also what a standby keeps warm.

All of it is read from `log`: its `txn` actions, and the id columns of its files. The one handle of
`log` is here, so that whoever commits through it has seen everything before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import structlog

from jobs.ordering.id_index import IdIndex, Ids
from jobs.ordering.numbering import TopicRule
from jobs.rows.id_hash import hash_ids
from lakequeue.errors import TailLost
from lakequeue.records import Epoch, Offset, ShardName, Stamp, TopicId, TopicPartition
from queue_tables.delta.actions import Add, Commit
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import read_data_file
from queue_tables.files.stats import FileStats
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import ORDER_TXN, WATERMARKS, has_next_offset, offset_mark
from queue_tables.schema.record_rules import whole_text
from queue_tables.schema.schemas import LOG
from queue_tables.topics import TopicStore

log_lines = structlog.get_logger("order")

_EPOCH_BITS = 40
_ID_COLUMNS = ("topic_id", "message_id", "partition", "offset", "stamp")


def order_number(epoch: int, counter: int) -> int:
    """The `order` txn: rises over all terms; also the number that rejects are recorded under."""
    return (epoch << _EPOCH_BITS) | counter


def order_epoch(number: int) -> Epoch:
    """The epoch in an `order` txn."""
    return Epoch(number >> _EPOCH_BITS)


class OrderState:
    """Handle of `log` and what follows from it. Used by one thread at a time."""

    def __init__(self, root: QueueRoot, max_ids: int) -> None:
        self.root = root
        self.topics = TopicStore(root)
        self.log = TableLog(root.store, LOG.name, keep_files=False).open()
        self.index = IdIndex(
            self._read_older,
            max_ids,
            lambda message: log_lines.warning("id_index.filled", why=message),
        )

    # -- from the txns ----------------------------------------------------------------------------

    @property
    def epoch(self) -> Epoch:
        """The newest term that `log` records."""
        return order_epoch(self.log.txns.get(ORDER_TXN, 0))

    def watermarks(self) -> dict[ShardName, Stamp]:
        """The last stamp ordered of each shard."""
        return WATERMARKS.read(self.log.txns)

    def next_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        """The next offset of each of `partitions`."""
        return {
            p: Offset(self.log.txns.get(offset_mark(p.topic_id, p.partition), 0))
            for p in partitions
        }

    def rules(self, topic_ids: Iterable[TopicId]) -> dict[TopicId, TopicRule]:
        """The topics that exist, of `topic_ids`, as of now."""
        self.topics.refresh()
        found = {}
        for topic_id in topic_ids:
            topic = self.topics.by_id(topic_id)
            if topic is not None:
                window_us = topic.dedup_window_ms * 1_000
                found[topic_id] = TopicRule(topic.topic, topic.partitions, window_us)
        return found

    # -- the ids ----------------------------------------------------------------------------------

    def warm(self) -> None:
        """Load the window of every topic, as far as `log` goes now."""
        newest = Stamp(max(self.watermarks().values(), default=0))
        none = np.empty(0, np.uint64)
        self.topics.refresh()
        for topic in self.topics.list():
            self.index.find(
                topic.topic_id,
                none,
                none,
                oldest=newest,
                newest=newest,
                window_us=topic.dedup_window_ms * 1_000,
            )

    def catch_up(self) -> bool:
        """Follow what another leader commits; True if there was anything."""
        try:
            commits = self.log.refresh()
        except TailLost:
            # Slept past a log clean-up: everything anew.
            self.log.open()
            self._forget_ids()
            self.warm()
            return True
        self.learn(commits)
        if commits:
            self.index.follow(self._window_us)
        return bool(commits)

    def _window_us(self, topic_id: TopicId) -> int:
        """Of a topic that is gone nothing is asked any more: 0."""
        if (topic := self.topics.by_id(topic_id)) is None:
            self.topics.refresh()
            topic = self.topics.by_id(topic_id)
        return 0 if topic is None else topic.dedup_window_ms * 1_000

    def learn(self, commits: Iterable[Commit]) -> None:
        """Take in the ids of commits that another process made."""
        try:
            for commit in commits:
                if not commit.appends:
                    continue
                for add in commit.adds:
                    for topic_id, ids in _by_topic(self._read_ids(add)):
                        self.index.add(topic_id, ids)
        except BaseException:
            # The handle has gone past them: without this their ids would be new to the next leader.
            self._forget_ids()
            raise

    def _forget_ids(self) -> None:
        """All are read anew when they are wanted."""
        self.index.forget(list(self.index.topics()))

    def _read_ids(self, add: Add) -> pa.Table:
        return read_data_file(self.root.store, LOG.name, add.path, _ID_COLUMNS)

    def _read_older(self, topic_id: TopicId, from_: Stamp, below: Stamp) -> Iterator[Ids]:
        """Ids of a topic from `log`, file by file, of those whose statistics do not exclude it."""
        if not has_next_offset(self.log.txns, topic_id):
            return
        for add in load_snapshot(self.root.store, LOG.name).files.values():
            if not _may_hold(add, topic_id, from_, below):
                continue
            rows = self._read_ids(add)
            keep = pc.and_(
                pc.equal(rows["topic_id"], topic_id),
                pc.and_(pc.greater_equal(rows["stamp"], from_), pc.less(rows["stamp"], below)),
            )
            for _, ids in _by_topic(rows.filter(keep)):
                yield ids


def _by_topic(rows: pa.Table) -> Iterator[tuple[TopicId, Ids]]:
    # Whatever lies in the log: an id that is no text is no producer's, so nobody sends it again.
    ids = whole_text(rows["message_id"])
    rows = rows.set_column(rows.schema.get_field_index("message_id"), "message_id", ids)
    rows = rows.filter(pc.and_(pc.is_valid(ids), pc.is_valid(rows["stamp"])))
    if rows.num_rows == 0:
        return
    for topic_id in pc.unique(rows["topic_id"]).to_pylist():
        mine = rows.filter(pc.equal(rows["topic_id"], topic_id))
        hi, lo = hash_ids(mine["message_id"].combine_chunks())
        yield (
            TopicId(topic_id),
            Ids(
                hi,
                lo,
                mine["partition"].to_numpy().astype(np.int32),
                mine["offset"].to_numpy(),
                mine["stamp"].to_numpy(),
            ),
        )


def _may_hold(add: Add, topic_id: str, from_: int, below: int) -> bool:
    stats = FileStats(add.stats)
    low_id, high_id = stats.bounds("topic_id", str, topic_id, topic_id)
    low, high = stats.bounds("stamp", int, from_, from_)
    return low_id <= topic_id <= high_id and low < below and high >= from_
