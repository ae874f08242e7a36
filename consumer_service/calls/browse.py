"""Looking at records without a group: nothing is leased, committed or remembered."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from consumer_service.reading.encode import plain_records
from consumer_service.reading.tailer import Tailer
from lakequeue.errors import OffsetOutOfRange, UnknownRecord
from lakequeue.partitioner import partition_of
from lakequeue.records import TopicPartition
from lakequeue.wire import BrowseAnswer, BrowseQuery
from queue_tables.schema.topic_rules import Topic
from queue_tables.topics import TopicStore

SCAN_ROWS = 50_000
"""Records that one answer looks at, at most."""


class Browse:
    """Reads ranges of partitions; thread-safe."""

    def __init__(self, topics: TopicStore, tailer: Tailer, max_bytes: int) -> None:
        self._topics = topics
        self._tailer = tailer
        self._max_bytes = max_bytes

    def record(self, topic: str, partition: int, offset: int) -> dict[str, Any]:
        """One record. Raises `UnknownTopic`, `InvalidRequest`, `OffsetOutOfRange`."""
        where = self.place(topic, partition)
        start, end = self._bounds(where)
        if not start <= offset < end:
            raise OffsetOutOfRange(
                f"partition {partition} of {topic} has the offsets {start} to {end - 1}, "
                f"not {offset}",
                hint="read what is there with GET /v1/topics/{topic}/records",
                first_offset=start,
                end_offset=end,
            )
        row = self._tailer.read_one(where, offset)
        if row is None:
            raise UnknownRecord(
                f"partition {partition} of {topic} has no record at offset {offset}: another engine"
                " has deleted the row from the table log",
                hint="lakequeue doctor names the gaps; RESTORE of the table brings rows back",
            )
        return plain_records(row)[0]

    def page(self, topic: str, query: BrowseQuery) -> BrowseAnswer:
        """What `BrowseQuery` asks for, up to the bounds of one answer."""
        found = self._topic(topic)
        key = None if query.key is None else query.key.encode()
        partition = query.partition
        if partition is None:
            partition = partition_of(key or b"", found.partitions, found.partitioner)
        where = found.place(partition)
        start, end = self._bounds(where)
        at = start if query.offset is None else query.offset
        if query.time is not None:
            at = self._tailer.offset_at(where, query.time)
        at = max(start, at)
        rows, after = self._read(where, at, end, query.max, key)
        return BrowseAnswer(
            partition=partition,
            records=[record for table in rows for record in plain_records(table)],
            next_offset=after,
            start_offset=start,
            end_offset=end,
        )

    def place(self, topic: str, partition: int) -> TopicPartition:
        """The partition of that name. Raises `UnknownTopic`, `InvalidRequest`."""
        return self._topic(topic).place(partition)

    def _topic(self, name: str) -> Topic:
        self._topics.refresh()
        return self._topics.get(name)

    def _bounds(self, where: TopicPartition) -> tuple[int, int]:
        self._tailer.catch_up()
        return int(self._tailer.first(where)), int(self._tailer.end(where))

    def _read(
        self, where: TopicPartition, at: int, end: int, most: int, key: bytes | None
    ) -> tuple[list[pa.Table], int]:
        """Rows from `at` on, and the offset behind the last one looked at."""
        found: list[pa.Table] = []
        rows, size, stop = 0, 0, min(end, at + SCAN_ROWS)
        while at < stop and rows < most and size < self._max_bytes:
            room = (most - rows) if key is None else stop - at
            table = self._tailer.read(where, at, room, self._max_bytes - size)
            if table.num_rows == 0:
                return found, end  # a gap up to the end
            at = table["offset"][table.num_rows - 1].as_py() + 1
            if key is not None:
                table = table.filter(pc.equal(table["key"], key))
                if table.num_rows > most - rows:
                    table = table.slice(0, most - rows)
                    at = table["offset"][table.num_rows - 1].as_py() + 1
            found.append(table)
            rows, size = rows + table.num_rows, size + table.nbytes
        return found, at
