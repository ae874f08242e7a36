"""`df.write` and `df.writeStream` to `format("lakequeue")`: files by the tasks, one commit.

A task that is run again writes other files; Spark hands the driver those of one attempt each, and
the rest belong to no table. The commit is `queue_tables/shards/bulk.py`'s: a batch counts once.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from lakequeue.clock import hour_of, wall_micros
from lakequeue.errors import Broken, InvalidRequest, LakequeueError, NotReady, UnknownTopic
from lakequeue.records import Stamp, TopicId
from lakequeue.steps import Step, reach
from lakequeue.tracing.context import TraceContext
from lakequeue.tracing.spans import MOST_LINKS
from pyspark_lakequeue.sink import traces
from pyspark_lakequeue.sink.options import SinkOptions, check_columns
from pyspark_lakequeue.sink.waiting import wait_ordered
from queue_rules.queues.dead_records import new_dead_letters
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from queue_tables.shards.bulk import (
    ONCE,
    REFUSED,
    BulkFile,
    commit_bulk,
    discard_uncommitted,
    seal_run,
    shard_of,
)
from queue_tables.topics import TopicStore

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_lakequeue.sink.targets import Target

_log = logging.getLogger("lakequeue.spark")
FILE_BYTES = 32 << 20
"""Record bytes of one file, about."""
_FILE_ROWS = 500_000
_TASKS = 1 << 16
"""File n of task t has the stamp of the write + n × this + t, so that no two have the same."""


class WriteBatch(NamedTuple):
    """What is written: the batch of a writer's run."""

    writer: str
    run: str
    number: int

    def begin(self, task: int) -> int:
        """Where records without a key of a task begin, modulo the partitions of their topic: small
        batches of one writer, and small writes, take turns. A task that is repeated begins alike.
        """
        return crc32(self.writer.encode()) + self.number + task


@dataclass
class Written(WriterCommitMessage):
    """What one task has written."""

    batch: WriteBatch
    files: list[BulkFile] = field(default_factory=list)
    refused: int = 0
    """Rows among them that went to the topic for refused ones."""
    topics: set[str] = field(default_factory=set)
    """Ids of those that the rows are for."""
    traces: list[TraceContext] = field(default_factory=list)
    """Of some of the rows, if the task traces."""


class _Writer:
    """What both kinds share. Made in the planning process, pickled to the tasks."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise InvalidRequest(
                "mode overwrite is not allowed: a queue only grows",
                hint='.mode("append")',
                field="mode",
            )
        check_columns({f.name: f.dataType.simpleString() for f in schema.fields}, options)
        self.options = options
        self.targets = _targets(options)
        self.arrival = wall_micros()

    def write_files(
        self, batches: Iterable[pa.RecordBatch], batch: WriteBatch, ids: bool
    ) -> Written:
        """In a task: write its rows as files of the inbox."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from pyspark_lakequeue.sink.bad_rows import Sorted
        from pyspark_lakequeue.sink.inbox_rows import Shaper

        task = _context().partitionId()
        if task >= _TASKS:
            raise InvalidRequest(f"{_TASKS} tasks at most write at once", hint="coalesce the frame")
        prefix = f"{batch.writer}/{batch.number}/{task}/" if ids else None

        def shaper_of(topic: str | None, prefix: str | None) -> Shaper:
            return Shaper(self.targets, topic, self.arrival, prefix, batch.begin(task), task)

        shaper = shaper_of(self.options.topic, prefix)
        sorting = None
        if (bad := self.options.bad_topic) is not None:
            own = None if prefix is None else f"{prefix}refused/"
            sorting = Sorted(shaper, shaper_of(bad, own))
        shape = shaper.shape if sorting is None else sorting.shape
        written = Written(batch)
        for rows in _files(shape(pa.Table.from_batches([b])) for b in batches):
            stamp = Stamp(self.arrival + len(written.files) * _TASKS + task)
            written.files.append(_write(self.options.root, batch, rows, stamp))
            written.topics.update(pc.unique(rows.column("topic_id")).to_pylist())
            if len(written.traces) < MOST_LINKS:
                written.traces += traces.traces_in(rows)
            reach(Step.BULK_DATA_WRITTEN)
        written.refused = 0 if sorting is None else sorting.refused
        return written

    def commit_files(self, messages: Iterable[WriterCommitMessage | None]) -> WriteBatch | None:
        """On the driver: one commit with the files of all tasks; None if there are none."""
        done = [m for m in messages if isinstance(m, Written)]
        files = [file for message in done for file in message.files]
        if not files:
            return None
        batch = done[0].batch
        root = QueueRoot.existing(self.options.root)
        refused = sum(message.refused for message in done)
        said = {REFUSED: refused} if refused else {}
        rows = sum(file.rows for file in files)
        used = {topic_id for message in done for topic_id in message.topics}
        targets = [t for t in self.targets.values() if t.topic_id in used]
        placed = {TopicId(t.topic_id): t.partitions for t in targets}
        links = [trace for message in done for trace in message.traces]
        try:
            commit_bulk(root, batch.writer, batch.run, batch.number, files, said, placed)
        except BaseException as error:
            traces.wrote(self.options.topic, rows, self._seconds(), links, error)
            raise
        traces.wrote(self.options.topic, rows, self._seconds(), links)
        if refused:
            _log.warning("%d rows were refused and went to %s", refused, self.options.bad_topic)
        return batch

    def _seconds(self) -> float:
        """Since the write began."""
        return max(0.0, (wall_micros() - self.arrival) / 1e6)

    def abort_files(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        """On the driver, after a task or the commit has failed for good."""
        files = [file for m in messages if isinstance(m, Written) for file in m.files]
        # Spark aborts a commit that raised as well, and that may have landed.
        discard_uncommitted(QueueRoot.existing(self.options.root), files)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """`df.write`: one write is one run. With `txnAppId` it is a batch of that application."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        run = uuid.uuid4().hex
        if options.txn is None:
            self._batch = WriteBatch(f"spark-{run}", ONCE, 0)
        else:
            app, version = options.txn
            name = sha256(app.encode()).hexdigest()[:32]
            self._batch = WriteBatch(f"sparkapp-{name}", run, version)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """In a task."""
        return self.write_files(iterator, self._batch, ids=self.options.txn is not None)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Every task has succeeded."""
        batch = self.commit_files(messages)
        if batch is None:
            return
        try:
            root = QueueRoot.existing(self.options.root)
            seal_run(root, batch.writer, batch.run)
        except (LakequeueError, OSError) as error:
            # As in `wait_ordered`: whoever ran the write again would store its rows twice.
            # The order leader seals the shard a day later.
            _log.warning("the rows of this write are stored: do not write them again (%s)", error)
            return
        if self.options.wait_s:
            wait_ordered(root, batch.writer, self.options.wait_s)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A task has failed."""
        self.abort_files(messages)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream`: Spark makes one for each micro-batch, so the stamp is that batch's."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """In a task: which query and batch it is, Spark tells through the task's properties."""
        context = _context()
        query, run, number = (
            context.getLocalProperty(name)
            for name in ("sql.streaming.queryId", "spark.jobGroup.id", "streaming.sql.batchId")
        )
        if query is None or run is None or number is None:
            raise Broken(
                f"Spark does not say which query and batch this is: {query}, {run}, {number}",
                hint="this release is made for Spark 4.2",
            )
        writer = f"spark-{query.replace('-', '')}"
        return self.write_files(
            iterator, WriteBatch(writer, run.replace("-", ""), int(number)), ids=True
        )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 -- Spark's name
        """Every task has succeeded."""
        self.commit_files(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 -- Spark's name
        """A task has failed."""
        self.abort_files(messages)


def _targets(options: SinkOptions) -> dict[str, Target]:
    """The topics as they are now. Raises `UnknownTopic` if the option names none of them."""
    from pyspark_lakequeue.sink.targets import Target

    store = TopicStore(QueueRoot.existing(options.root))
    topics = store.list() if options.topic is None else [store.get(options.topic)]
    if options.bad_topic is not None:
        topics = [*topics, store.get(options.bad_topic)]
    topics += [_letters_of(store, t) for t in topics if t.value_policy == "dead_letter"]
    return {
        t.topic: Target(
            str(t.topic_id),
            t.partitions,
            t.partitioner,
            t.ttl_ms,
            t.max_record_bytes,
            t.value_schema,
            t.value_schema_type,
            t.earlier_schemas,
            t.value_policy or "reject",
            t.dead_letters,
        )
        for t in topics
    }


def _letters_of(store: TopicStore, topic: Topic) -> Topic:
    """The topic for its dead letters, which is made if it is not there."""
    try:
        return store.get(topic.dead_letters)
    except UnknownTopic:
        return store.create(topic.dead_letters, **new_dead_letters(topic))[0]


def _files(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The tables put together to about `FILE_BYTES` each."""
    import pyarrow as pa

    held: list[pa.Table] = []
    size = rows = 0
    for table in tables:
        if table.num_rows:
            held.append(table)
            size, rows = size + table.nbytes, rows + table.num_rows
        if size >= FILE_BYTES or rows >= _FILE_ROWS:
            yield pa.concat_tables(held)
            held, size, rows = [], 0, 0
    if held:
        yield pa.concat_tables(held)


def _write(root: str, batch: WriteBatch, rows: pa.Table, stamp: Stamp) -> BulkFile:
    import pyarrow as pa
    import pyarrow.compute as pc

    from queue_tables.delta.store import open_store
    from queue_tables.files.parquet import write_data_file
    from queue_tables.schema.schemas import INBOX
    from queue_tables.shards.shards import shard_path

    shard, count = shard_of(batch.writer, batch.run), rows.num_rows
    rows = rows.append_column("stamp", pa.repeat(pa.scalar(stamp, pa.int64()), count))
    rows = rows.append_column("row", pa.array(range(count), pa.int32()))
    store = open_store(root)
    add = write_data_file(store, shard_path("inbox", shard), rows, {"hour": hour_of(stamp)}, INBOX)
    return BulkFile(shard, add, stamp, count, int(pc.sum(rows.column("bytes")).as_py()))


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise NotReady("this is called by Spark, in a task")
    return context
