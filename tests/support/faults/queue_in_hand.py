"""The parts of a queue held open in one process, to see what a foreign statement does to them.

They are the product's own: an ingest shard, the order leader, a node's reader of the log and of the
groups, the offsets leader. `restart` opens all of them anew, `restarted_at` those of a copy.
`check` judges what every group and reader gets: each record once, in order, and positions that have
not moved by themselves.
"""

from __future__ import annotations

import shutil
from copy import copy

import pyarrow as pa

from lakequeue.errors import LakequeueError
from lakequeue.records import Epoch, Offset, Partition, ShardName, Stamp, TopicId, Version
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import Tail
from queue_tables.files.parquet import write_data_file
from queue_tables.groups.fact_rows import to_arrow
from queue_tables.groups.facts import Fact, Key, Kind, fold_news
from queue_tables.groups.state import GroupOffsetsWriter, GroupStateReader, journal_news
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import TABLES
from queue_tables.shards.shards import ShardWriter
from queue_tables.topics import TopicStore
from tests.support.data.rows import inbox_rows, rows_of
from tests.support.runs.order_process import Orderer

TOPICS = ("one", "two")
GROUP = "readers"
_PARTITION = Partition(0)
_STAMP = 1_700_000_000_000_000


class QueueInHand:
    """Two topics of one partition; one group reads both, and is behind by what `produce` adds."""

    def __init__(self, folder: str) -> None:
        self.root = QueueRoot.open(folder)
        store = TopicStore(self.root)
        self.ids = {name: store.create(name, partitions=1)[0].topic_id for name in TOPICS}
        self.sent: dict[str, list[bytes]] = {name: [] for name in TOPICS}
        self.committed: dict[str, int] = dict.fromkeys(TOPICS, 0)
        self._epoch = 0
        self._stamp = _STAMP
        self._open()
        self.produce(3)
        self.produce(3)
        self._fill_the_others()
        self.consume()
        self.produce(2)

    def _open(self) -> None:
        self._epoch += 1
        root = self.root
        self.topics = TopicStore(root)
        self.inbox = ShardWriter.create(root, "inbox", "node")
        self.journal = ShardWriter.create(root, "journal", "node")
        self.orderer = Orderer(root, self._epoch)
        self.reader = LogReader(root)
        self.groups = GroupStateReader(root)
        self.offsets = GroupOffsetsWriter(root)
        self._states, self._folded = self.offsets.begin(Epoch(self._epoch))

    def _fill_the_others(self) -> None:
        """A copy in `rejects`, and rows in the tables that are nothing but reports."""
        first = inbox_rows([b"copy"] * 2, self.ids["one"])
        at = first.schema.get_field_index("message_id")
        ids = pa.array(["m"] * 2, first.schema.field(at).type)
        self.inbox.append(first.set_column(at, "message_id", ids), self._next_stamp())
        self.sent["one"].append(b"copy")
        self.orderer.drain()
        for name in ("metrics", "group_history"):
            declared = TABLES[name]
            one = next(c.name for c in declared.columns if c.kind == "string")
            rows = rows_of(declared, {one: ["a", "b"]}, declared.partition_by)
            hours = {"hour": "2023-11-14T22"} if declared.partition_by else {}
            table = TableLog(self.root.store, name).open()
            for part in (rows.slice(0, 1), rows.slice(1)):
                table.commit([write_data_file(self.root.store, name, part, hours, declared)])

    def restart(self) -> None:
        """Open the root and every part anew, as after a stop of the whole queue."""
        self.root = QueueRoot.open(self.root.uri)
        self._open()

    def restarted_at(self, folder: str) -> QueueInHand:
        """A copy of the root, opened anew; what is open here goes on beside it."""
        shutil.copytree(self.root.uri, folder)
        other = copy(self)
        other.sent = {name: list(values) for name, values in self.sent.items()}
        other.committed = dict(self.committed)
        other.root = QueueRoot.open(folder)
        other._open()
        return other

    def _next_stamp(self) -> Stamp:
        self._stamp += 1
        return Stamp(self._stamp)

    def produce(self, count: int) -> None:
        """Store and order `count` records in each topic."""
        self.topics.refresh()
        for name in TOPICS:
            topic = self.topics.get(name)
            first = len(self.sent[name])
            values = [f"{name}-{n}".encode() for n in range(first, first + count)]
            self.inbox.append(inbox_rows(values, topic.topic_id), self._next_stamp())
            self.sent[name] += values
        self.orderer.drain()

    def consume(self) -> None:
        """The group reads from its position to the end, acknowledges, and that is folded."""
        facts = []
        for name in TOPICS:
            got = self.values(self.reader, name, self.committed[name])
            assert got == self.sent[name][self.committed[name] :], (name, got)
            self.committed[name] = len(self.sent[name])
            for kind, offset in ((Kind.TAKEN, None), (Kind.COMMITTED, self.committed[name])):
                facts.append(self._fact(name, kind, offset))
        stamp = self._next_stamp()
        self.journal.append(to_arrow(facts), stamp)
        shard = self.journal.name
        tail = Tail(self.root.store, self.journal.path, Version(-1))
        news = journal_news(self.root.store, shard, tail.poll())
        self._states = fold_news(self._states, news.states, news.fences, ())
        folded: dict[ShardName, Stamp] = {**self._folded, shard: stamp}
        self._folded = folded
        self.offsets.commit(self._states, folded)

    def _fact(self, name: str, kind: Kind, offset: int | None) -> Fact:
        return Fact(
            kind,
            GROUP,
            name,
            TopicId(self.ids[name]),
            _PARTITION,
            0,
            Epoch(self._epoch),
            None if offset is None else Offset(offset),
            at=self._stamp,
        )

    def values(self, reader: LogReader, name: str, start: int = 0) -> list[bytes]:
        """What a reader gets of a topic from an offset on; its offsets are gapless."""
        reader.refresh()
        end = reader.end_offset(TopicId(self.ids[name]), _PARTITION)
        found: list[bytes] = []
        at = start
        while at < end:
            rows = reader.read_range(TopicId(self.ids[name]), _PARTITION, Offset(at), 3)
            offsets = rows["offset"].to_pylist()
            assert offsets == list(range(at, at + len(offsets))), (name, at, offsets)
            found += rows["value"].to_pylist()
            at += len(offsets)
        return found

    def check(self) -> None:
        """Raise `AssertionError` unless all that was acknowledged is there, once and in order."""
        for who, reader in (("running", self.reader), ("new", LogReader(self.root))):
            for name in TOPICS:
                got = self.values(reader, name)
                assert got == self.sent[name], (who, name, got)
        for groups in (self.groups, GroupStateReader(self.root)):
            states = groups.read().states
            positions = {
                name: states[Key(GROUP, TopicId(self.ids[name]), _PARTITION)].committed_offset
                for name in TOPICS
            }
            assert positions == self.committed, positions
        for topics in (self.topics, TopicStore(self.root)):
            topics.refresh()
            assert [topic.topic for topic in topics.list()] == list(TOPICS)

    def goes_on(self) -> None:
        """Produce, order, consume, acknowledge, fold: nothing of it is kept from working."""
        try:
            self.check()
            self.produce(2)
            self.consume()
            self.produce(1)
            self.check()
        except LakequeueError as error:
            raise AssertionError(f"it does not go on: {error}") from error

    def tables(self) -> dict[str, str]:
        """Kind of table -> its path."""
        return {
            "topics": "topics",
            "inbox": self.inbox.path,
            "log": "log",
            "journal": self.journal.path,
            "group_offsets": "group_offsets",
            "rejects": "rejects",
            "metrics": "metrics",
            "group_history": "group_history",
        }
