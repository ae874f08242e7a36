"""Writes commits of `log` as the order leader does, for tests that need no Spark."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from coordination.zookeeper.notifications import Notifier
from lakequeue.clock import WallClock, hour_of, wall_micros
from lakequeue.records import Format
from queue_tables.delta.actions import Txn
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG
from queue_tables.schema.topic_rules import Topic
from queue_tables.topics import TopicStore
from tests.support.data.rows import rows_of


class LogBuilder:
    """The one committer of `log` in a test. `notifier` is sent after each commit, if given.

    `wall` is the time that records are ordered at.
    """

    def __init__(
        self, root: QueueRoot, notifier: Notifier | None = None, wall: WallClock = wall_micros
    ) -> None:
        self.wall = wall
        self._root = root
        self._notifier = notifier
        self._log = TableLog(root.store, LOG.name).open()
        self._next: dict[tuple[str, int], int] = defaultdict(int)
        for app_id, version in self._log.txns.items():
            if app_id.startswith("offset/"):
                _, topic_id, partition = app_id.split("/")
                self._next[topic_id, int(partition)] = version
        self._counter = 0

    def topic(self, name: str | None = None, partitions: int = 1, **config: Any) -> Topic:
        """Create a topic; by default under a name of its own."""
        name = name or f"orders-{uuid.uuid4().hex[:8]}"
        return TopicStore(self._root).create(name, partitions=partitions, **config)[0]

    def append(
        self,
        topic: Topic,
        values: Sequence[bytes | str],
        partition: int = 0,
        fmt: Format = Format.TEXT,
        timestamp: int | pa.Array | None = None,
        key: str = "k",
        **columns: Sequence[Any],
    ) -> list[int]:
        """One commit with these records; their offsets. Message ids are `<partition>-<offset>`.

        `columns` are further columns of the log, such as `deliver_at`.
        """
        given = self.append_many(topic, {partition: values}, fmt, timestamp, key, **columns)
        return given[partition]

    def append_many(
        self,
        topic: Topic,
        values: dict[int, Sequence[bytes | str]],
        fmt: Format = Format.TEXT,
        timestamp: int | pa.Array | None = None,
        key: str = "k",
        **more: Sequence[Any],
    ) -> dict[int, list[int]]:
        """One commit over several partitions; `more` columns are the same in each."""
        now = self.wall()
        given, columns, txns = self._columns(now, topic, values, fmt, key)
        again = {"timestamp": timestamp} if isinstance(timestamp, pa.Array) else {}
        if timestamp is not None and not again:
            columns["timestamp"] = [timestamp] * len(columns["timestamp"])
        for name, column in (again | more).items():
            columns[name] = _repeated(column, len(values))
        self._commit(now, rows_of(LOG, columns, without=("hour",)), txns)
        return given

    def append_all(self, values: dict[Topic, dict[int, list[bytes | str]]]) -> None:
        """One commit over several topics."""
        # In one table: to make one for each partition would take longer than the commit.
        now = self.wall()
        columns: dict[str, Any] = defaultdict(list)
        txns: list[Txn] = []
        for topic, some in values.items():
            _, mine, marks = self._columns(now, topic, some, Format.TEXT, "k")
            txns += marks
            for name, column in mine.items():
                columns[name] += column
        self._commit(now, rows_of(LOG, columns, without=("hour",)), txns)

    def _columns(
        self,
        now: int,
        topic: Topic,
        values: Mapping[int, Sequence[bytes | str]],
        fmt: Format,
        key: str,
    ) -> tuple[dict[int, list[int]], dict[str, Any], list[Txn]]:
        given: dict[int, list[int]] = {}
        for partition, some in sorted(values.items()):
            first = self._next[topic.topic_id, partition]
            given[partition] = list(range(first, first + len(some)))
            self._next[topic.topic_id, partition] = first + len(some)
        count = sum(map(len, given.values()))
        columns: dict[str, Any] = {
            "topic": [topic.topic] * count,
            "topic_id": [topic.topic_id] * count,
            "partition": [p for p, offsets in given.items() for _ in offsets],
            "key": [key.encode()] * count,
            "value": [
                v.encode() if isinstance(v, str) else v for p in sorted(values) for v in values[p]
            ],
            "key_format": [int(Format.TEXT)] * count,
            "value_format": [int(fmt)] * count,
            "timestamp": [now] * count,
            "message_id": [f"{p}-{offset}" for p, offsets in given.items() for offset in offsets],
            "stamp": [now] * count,
            "row": [row for offsets in given.values() for row in range(len(offsets))],
            "offset": [offset for offsets in given.values() for offset in offsets],
            "ordered_at": [now] * count,
            "shard": ["test-shard"] * count,
        }
        txns = [Txn(f"offset/{topic.topic_id}/{p}", self._next[topic.topic_id, p]) for p in values]
        return given, columns, txns

    def _commit(self, now: int, rows: pa.Table, txns: list[Txn]) -> None:
        add = write_data_file(self._root.store, LOG.name, rows, {"hour": hour_of(now)}, LOG)
        self._counter += 1
        info = {"epoch": 1, "counter": self._counter, "rows": rows.num_rows}
        version = self._log.commit([Txn("order", (1 << 40) | self._counter), *txns, add], info)
        if self._notifier is not None:
            self._notifier.notify(version)


def fresh_root(path: str) -> QueueRoot:
    """A new queue in a folder of its own below `path`."""
    return QueueRoot.open(f"{path}/queue-{uuid.uuid4().hex[:8]}")


def _repeated(column: Sequence[Any] | pa.Array, times: int) -> Any:
    if isinstance(column, pa.Array):
        return pa.concat_arrays([column] * times)
    return list(column) * times
